//! The second operand of arithmetic, and how it lines up with the matrix.
//!
//! Broadcasting never guesses from the data: a 1-D array lines up with the columns unless it is
//! said to hold one value per row; a list of width 1 is a column, a list of one row is a row.

use std::borrow::Cow;

use arrow_array::{Array, ArrayRef};

use super::dense::all_rows;
use super::{NUMBERS, same_type};
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
pub struct Operand<'a>(Kind<'a>);

#[derive(Clone, Debug)]
enum Kind<'a> {
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
    Matrix(&'a Matrix),
}

impl<'a> Operand<'a> {
    /// One number in an array. It must have the element type of the matrix.
    pub fn scalar(one: ArrayRef) -> Self {
        Self(Kind::Scalar(one))
    }

    /// A 1-D array with one value per column.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] unless the array is of numbers.
    pub fn row(array: &dyn Array) -> Result<Self> {
        Ok(Self(Kind::Row(Cow::Owned(Matrix::reshape(array, 1)?))))
    }

    /// A 1-D array with one value per row.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] unless the array is of numbers.
    pub fn column(array: &dyn Array) -> Result<Self> {
        Ok(Self(Kind::Column(Cow::Owned(Matrix::reshape(array, 1)?))))
    }

    /// All elements of a matrix, in order, as one value per column.
    pub fn as_row(matrix: &'a Matrix) -> Self {
        Self(Kind::Row(Cow::Borrowed(matrix)))
    }

    /// All elements of a matrix, in order, as one value per row.
    pub fn as_column(matrix: &'a Matrix) -> Self {
        Self(Kind::Column(Cow::Borrowed(matrix)))
    }
}

impl From<f64> for Operand<'_> {
    fn from(number: f64) -> Self {
        Self(Kind::Number(number))
    }
}

impl From<f32> for Operand<'_> {
    fn from(number: f32) -> Self {
        Self(Kind::Number(f64::from(number)))
    }
}

impl From<i128> for Operand<'_> {
    fn from(number: i128) -> Self {
        Self(Kind::Integer(number))
    }
}

impl From<i64> for Operand<'_> {
    fn from(number: i64) -> Self {
        Self(Kind::Integer(number.into()))
    }
}

impl<'a> From<&'a Matrix> for Operand<'a> {
    fn from(matrix: &'a Matrix) -> Self {
        Self(Kind::Matrix(matrix))
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

const Y: &str = "y";

impl Operand<'_> {
    /// The operand as one number.
    pub(super) fn number<T: Number>(&self, function: &'static str, x: &Matrix) -> Result<T> {
        match self.align(function, x)? {
            Aligned::Scalar(number) => Ok(number),
            _ => Err(Error::Argument {
                function,
                argument: "bound",
                expected: "one number",
                got: "an array".to_owned(),
            }),
        }
    }

    /// Checks the operand against `x`.
    pub(super) fn align<T: Number>(
        &self,
        function: &'static str,
        x: &Matrix,
    ) -> Result<Aligned<'_, T>> {
        match &self.0 {
            Kind::Number(number) => {
                // To a float as it is stored first, so that it is rounded once.
                let stored = if x.element_type().is_floating() {
                    matrix::held(*number, x.element_type()).unwrap_or(*number)
                } else {
                    *number
                };
                held(function, x, T::from_number(stored), number).map(Aligned::Scalar)
            }
            Kind::Integer(number) => {
                held(function, x, T::from_integer(*number), number).map(Aligned::Scalar)
            }
            Kind::Scalar(one) => Ok(Aligned::Scalar(scalar(function, x, one)?)),
            Kind::Row(y) => row(function, x, y),
            Kind::Column(y) => column(function, x, y),
            Kind::Matrix(y) if y.rows() == x.rows() && y.width() == x.width() => {
                same_type(function, Y, x, y)?;
                Ok(Aligned::Matrix(y.view(function)?, y))
            }
            Kind::Matrix(y) if y.width() == 1 && x.width() != 1 => column(function, x, y),
            Kind::Matrix(y) if y.rows() == 1 && x.rows() != 1 => row(function, x, y),
            Kind::Matrix(y) if y.width() != x.width() => {
                let (expected, got) = (x.width(), y.width());
                Err(Error::Width { function, what: Y, expected, got })
            }
            Kind::Matrix(y) => {
                let (expected, got) = (x.rows(), y.rows());
                Err(Error::Rows { function, what: Y, expected, got })
            }
        }
    }
}

/// A number as the elements of `x` are stored, or an error that says it does not fit.
pub(super) fn held<T: Number>(
    function: &'static str,
    x: &Matrix,
    value: Option<T>,
    number: &dyn std::fmt::Display,
) -> Result<T> {
    value.and_then(|value| matrix::held(value, x.element_type())).ok_or_else(|| Error::Number {
        function,
        what: Y,
        number: number.to_string(),
        element: x.element_type().clone(),
    })
}

fn scalar<T: Number>(function: &'static str, x: &Matrix, one: &ArrayRef) -> Result<T> {
    if one.len() != 1 {
        return Err(Error::Rows { function, what: "a scalar y", expected: 1, got: one.len() });
    }
    if one.is_null(0) {
        return Err(Error::NullScalar { function, what: Y });
    }
    let y = Matrix::reshape(one, 1).map_err(|_| Error::Type {
        function,
        expected: NUMBERS,
        got: one.data_type().clone(),
    })?;
    same_type(function, Y, x, &y)?;
    Ok(y.view(function)?.parts[0].flat(0..1, T::default(), &mut Scratch::new())[0])
}

fn row<'a, T: Number>(function: &'static str, x: &Matrix, y: &'a Matrix) -> Result<Aligned<'a, T>> {
    let (expected, got) = (x.width(), y.rows() * y.width());
    if expected != got {
        return Err(Error::Width { function, what: Y, expected, got });
    }
    same_type(function, Y, x, y)?;
    // Values under nulls are read too: what they make is null, and never leaves.
    if let Some(values) = y.dense_values() {
        return Ok(Aligned::Row(Cow::Borrowed(values), y));
    }
    Ok(Aligned::Row(all_rows(function, y)?, y))
}

fn column<'a, T: Number>(
    function: &'static str,
    x: &Matrix,
    y: &'a Matrix,
) -> Result<Aligned<'a, T>> {
    let (expected, got) = (x.rows(), y.rows() * y.width());
    if expected != got {
        return Err(Error::Rows { function, what: Y, expected, got });
    }
    same_type(function, Y, x, y)?;
    Ok(Aligned::Column(y.view(function)?, y))
}
