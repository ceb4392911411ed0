//! The second operand of arithmetic, and how it lines up with the matrix.
//!
//! Broadcasting never guesses from the data: a 1-D array lines up with the columns unless it is
//! said to hold one value per row; a list of width 1 is a column, a list of one row is a row.

use std::borrow::Cow;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::NUMBERS;
use super::call::{self, Pass};
use super::contiguous::all_rows;
use crate::dispatch::Work;
use crate::error::{Error, Result};
use crate::matrix::{self, Matrix, Number, Scratch, View};

/// What a matrix is combined with.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float32Array, cast::AsArray, types::Float32Type};
/// use raptors_arrow::{Matrix, compute::{Operand, add}};
///
/// let flat: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
/// let y: ArrayRef = Arc::new(Float32Array::from(vec![10.0, 20.0]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let values = |m: Matrix| m.to_arrays().unwrap()[0].as_primitive::<Float32Type>().values().to_vec();
/// assert_eq!(values(add(&x, Operand::row(&y)?)?), [11.0, 22.0, 13.0, 24.0]);
/// assert_eq!(values(add(&x, Operand::column(&y)?)?), [11.0, 12.0, 23.0, 24.0]);
/// assert_eq!(values(add(&x, 0.5)?), [1.5, 2.5, 3.5, 4.5]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Operand<'a>(OperandKind<'a>);

#[derive(Clone, Debug)]
enum OperandKind<'a> {
    /// A plain number, which takes the element type of the matrix.
    Number(f64),
    /// A whole number, which takes the element type of the matrix.
    Integer(i128),
    /// An array of one element.
    Scalar(ArrayRef),
    /// The elements of a matrix as one row.
    Row(Cow<'a, Matrix>),
    /// The elements of a matrix as one column.
    Column(Cow<'a, Matrix>),
    /// A matrix that lines up by its shape.
    Matrix(Cow<'a, Matrix>),
}

impl<'a> Operand<'a> {
    /// One number in an array. It must have the element type of the matrix.
    pub fn scalar(one: ArrayRef) -> Self {
        Self(OperandKind::Scalar(one))
    }

    /// A 1-D array with one value per column.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] unless the array is of numbers.
    pub fn row(array: &dyn Array) -> Result<Self> {
        Ok(Self(OperandKind::Row(Cow::Owned(Matrix::reshape(array, 1)?))))
    }

    /// A 1-D array with one value per row.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] unless the array is of numbers.
    pub fn column(array: &dyn Array) -> Result<Self> {
        Ok(Self(OperandKind::Column(Cow::Owned(Matrix::reshape(array, 1)?))))
    }

    /// A matrix that lines up by its shape.
    pub(super) fn held(matrix: Cow<'a, Matrix>) -> Self {
        Self(OperandKind::Matrix(matrix))
    }

    /// All elements, in order, as one value per column.
    pub(super) fn held_row(matrix: Cow<'a, Matrix>) -> Self {
        Self(OperandKind::Row(matrix))
    }

    /// All elements, in order, as one value per row.
    pub(super) fn held_column(matrix: Cow<'a, Matrix>) -> Self {
        Self(OperandKind::Column(matrix))
    }

    /// The type of what is no plain number.
    pub(super) fn element_type(&self) -> Option<DataType> {
        match &self.0 {
            OperandKind::Number(_) | OperandKind::Integer(_) => None,
            OperandKind::Scalar(one) => Some(one.data_type().clone()),
            OperandKind::Row(y) | OperandKind::Column(y) | OperandKind::Matrix(y) => {
                Some(y.element_type().clone())
            }
        }
    }

    pub(super) fn is_integer(&self) -> bool {
        matches!(self.0, OperandKind::Integer(_))
    }

    /// The matrix that it holds, if it lines up by its shape.
    pub(super) fn as_matrix(&self) -> Option<&Matrix> {
        match &self.0 {
            OperandKind::Matrix(y) => Some(y),
            _ => None,
        }
    }

    /// Another matrix in place of the one that it holds.
    pub(super) fn with_matrix(&self, matrix: Matrix) -> Self {
        let matrix = Cow::Owned(matrix);
        Self(match &self.0 {
            OperandKind::Row(_) => OperandKind::Row(matrix),
            OperandKind::Column(_) => OperandKind::Column(matrix),
            _ => OperandKind::Matrix(matrix),
        })
    }

    /// The matrix that it holds.
    pub(super) fn matrix(&self) -> Option<&Matrix> {
        match &self.0 {
            OperandKind::Number(_) | OperandKind::Integer(_) | OperandKind::Scalar(_) => None,
            OperandKind::Row(y) | OperandKind::Column(y) | OperandKind::Matrix(y) => Some(y),
        }
    }

    /// The pass that converts it to the element type of `x`, if it has another.
    pub(super) fn conversion(&self, x: &Matrix) -> Option<(&'static str, Work)> {
        call::conversion(x, self.matrix()?)
    }

    /// Converts it to the element type of `x`, in the first of `passes`, if it has another.
    pub(super) fn convert(
        &mut self,
        what: &'static str,
        x: &Matrix,
        passes: &mut &[Pass],
    ) -> Result<()> {
        if let OperandKind::Row(y) | OperandKind::Column(y) | OperandKind::Matrix(y) = &mut self.0 {
            let made = match call::converted(what, x, y, passes)? {
                Cow::Owned(made) => Some(made),
                Cow::Borrowed(_) => None,
            };
            if let Some(made) = made {
                *y = Cow::Owned(made);
            }
        }
        Ok(())
    }

    /// The bytes that are read of it.
    pub(super) fn bytes(&self) -> usize {
        match &self.0 {
            OperandKind::Number(_) | OperandKind::Integer(_) | OperandKind::Scalar(_) => 0,
            OperandKind::Row(y) | OperandKind::Column(y) | OperandKind::Matrix(y) => y.bytes(),
        }
    }

    /// All elements of a matrix, in order, as one value per column.
    pub fn as_row(matrix: &'a Matrix) -> Self {
        Self(OperandKind::Row(Cow::Borrowed(matrix)))
    }

    /// All elements of a matrix, in order, as one value per row.
    pub fn as_column(matrix: &'a Matrix) -> Self {
        Self(OperandKind::Column(Cow::Borrowed(matrix)))
    }
}

impl From<f64> for Operand<'_> {
    fn from(number: f64) -> Self {
        Self(OperandKind::Number(number))
    }
}

impl From<f32> for Operand<'_> {
    fn from(number: f32) -> Self {
        Self(OperandKind::Number(f64::from(number)))
    }
}

impl From<i128> for Operand<'_> {
    fn from(number: i128) -> Self {
        Self(OperandKind::Integer(number))
    }
}

impl From<i64> for Operand<'_> {
    fn from(number: i64) -> Self {
        Self(OperandKind::Integer(number.into()))
    }
}

impl<'a> From<&'a Matrix> for Operand<'a> {
    fn from(matrix: &'a Matrix) -> Self {
        Self(OperandKind::Matrix(Cow::Borrowed(matrix)))
    }
}

/// An operand whose type and shape were checked against a matrix.
pub(super) enum Aligned<'a, T: Number> {
    Scalar(T),
    /// One value per column.
    Row(Cow<'a, [T]>, &'a Matrix),
    /// One value per row.
    Column(View<'a, T>, &'a Matrix),
    /// As many rows and columns.
    Matrix(View<'a, T>, &'a Matrix),
}

impl<T: Number> Aligned<'_, T> {
    /// The matrix that it is of.
    pub(super) fn as_matrix(&self) -> Option<&Matrix> {
        match self {
            Self::Scalar(_) => None,
            Self::Row(_, y) | Self::Column(_, y) | Self::Matrix(_, y) => Some(y),
        }
    }
}

const Y: &str = "y";

impl Operand<'_> {
    /// The operand as one number.
    pub(super) fn number<T: Number>(&self, x: &Matrix) -> Result<T> {
        match self.align(x)? {
            Aligned::Scalar(number) => Ok(number),
            _ => Err(Error::Argument {
                argument: "bound",
                expected: "one number",
                got: "an array".to_owned(),
            }),
        }
    }

    /// Gives a width to whichever of `x` and the operand is a list column that has none, as no
    /// row of it is valid.
    pub(super) fn fitted<'x>(&mut self, x: &'x Matrix) -> Result<Cow<'x, Matrix>> {
        match &mut self.0 {
            OperandKind::Number(_)
            | OperandKind::Integer(_)
            | OperandKind::Scalar(_)
            | OperandKind::Column(_) => Ok(Cow::Borrowed(x)),
            OperandKind::Row(y) => x.fitted(y.rows() * y.width()),
            OperandKind::Matrix(y) => {
                if y.is_of_unknown_width() {
                    *y = Cow::Owned(y.fitted(x.width())?.into_owned());
                }
                // A list of width 1 is a column, of one value per row.
                if y.width() == 1 { Ok(Cow::Borrowed(x)) } else { x.fitted(y.width()) }
            }
        }
    }

    /// Checks the operand against `x`.
    pub(super) fn align<T: Number>(&self, x: &Matrix) -> Result<Aligned<'_, T>> {
        match &self.0 {
            OperandKind::Number(number) => {
                // To a float as it is stored first, so that it is rounded once.
                let stored = if x.element_type().is_floating() {
                    matrix::held(*number, x.element_type()).unwrap_or(*number)
                } else {
                    *number
                };
                held(x, T::from_number(stored), number).map(Aligned::Scalar)
            }
            OperandKind::Integer(number) => {
                held(x, T::from_integer(*number), number).map(Aligned::Scalar)
            }
            OperandKind::Scalar(one) => Ok(Aligned::Scalar(scalar(x, one)?)),
            OperandKind::Row(y) => row(x, y),
            OperandKind::Column(y) => column(x, y),
            OperandKind::Matrix(y) if y.rows() == x.rows() && y.width() == x.width() => {
                Ok(Aligned::Matrix(y.view()?, y))
            }
            OperandKind::Matrix(y) if y.width() == 1 && x.width() != 1 => column(x, y),
            OperandKind::Matrix(y) if y.rows() == 1 && x.rows() != 1 => row(x, y),
            OperandKind::Matrix(y) if y.width() != x.width() => {
                let (expected, got) = (x.width(), y.width());
                Err(Error::Width { what: Y, expected, got })
            }
            OperandKind::Matrix(y) => {
                let (expected, got) = (x.rows(), y.rows());
                Err(Error::Rows { what: Y, expected, got })
            }
        }
    }
}

/// A number as the elements of `x` are stored, or an error that says it does not fit.
pub(super) fn held<T: Number>(
    x: &Matrix,
    value: Option<T>,
    number: &dyn std::fmt::Display,
) -> Result<T> {
    value.and_then(|value| matrix::held(value, x.element_type())).ok_or_else(|| Error::Number {
        what: Y,
        number: number.to_string(),
        element: x.element_type().clone(),
    })
}

fn scalar<T: Number>(x: &Matrix, one: &ArrayRef) -> Result<T> {
    if one.len() != 1 {
        return Err(Error::Rows { what: "a scalar y", expected: 1, got: one.len() });
    }
    if one.is_null(0) {
        return Err(Error::NullScalar { what: Y });
    }
    let got = || one.data_type().clone();
    let y = Matrix::reshape(one, 1).map_err(|_| Error::Type { expected: NUMBERS, got: got() })?;
    if x.element_type().is_integer() && !got().is_integer() {
        return Err(Error::Mixed { what: Y, expected: x.element_type().clone(), got: got() });
    }
    // As a number is: rounded once to a float as it is stored, or an integer that fits.
    let first = |view: View<'_, f64>| view.parts[0].flat(0..1, 0.0, &mut Scratch::new())[0];
    match one.data_type() {
        DataType::UInt64 => {
            let value = y.view::<u64>()?.parts[0].flat(0..1, 0, &mut Scratch::new())[0];
            held(x, T::from_integer(value.into()), &value)
        }
        integer if integer.is_integer() => {
            let value = y.view::<i64>()?.parts[0].flat(0..1, 0, &mut Scratch::new())[0];
            held(x, T::from_integer(value.into()), &value)
        }
        _ => {
            let value = first(y.view()?);
            let stored = matrix::held(value, x.element_type()).unwrap_or(value);
            held(x, T::from_number(stored), &value)
        }
    }
}

fn row<'a, T: Number>(x: &Matrix, y: &'a Matrix) -> Result<Aligned<'a, T>> {
    let (expected, got) = (x.width(), y.rows() * y.width());
    if expected != got {
        return Err(Error::Width { what: Y, expected, got });
    }
    // Values under nulls are read too: what they make is null, and never leaves.
    if let Some(values) = y.dense_values() {
        return Ok(Aligned::Row(Cow::Borrowed(values), y));
    }
    Ok(Aligned::Row(all_rows(y)?, y))
}

fn column<'a, T: Number>(x: &Matrix, y: &'a Matrix) -> Result<Aligned<'a, T>> {
    let (expected, got) = (x.rows(), y.rows() * y.width());
    if expected != got {
        return Err(Error::Rows { what: Y, expected, got });
    }
    Ok(Aligned::Column(y.view()?, y))
}
