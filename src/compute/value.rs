//! What goes into and comes out of a function that is called by name.

use arrow_array::{Array, ArrayRef, Datum};
use arrow_schema::{DataType, FieldRef};

use crate::error::{Error, Result};
use crate::matrix::{Matrix, Ragged};
use crate::type_name::TypeName;

/// An argument or a result.
#[derive(Clone, Debug)]
pub enum Value {
    /// A plain number, which takes the type of what it is combined with.
    Number(f64),
    /// A whole number, which takes the type of what it is combined with.
    Integer(i128),
    /// An array of one element that stands for one value.
    Scalar(ArrayRef),
    /// A 1-D array of numbers.
    Vector(ArrayRef),
    /// A matrix.
    Matrix(Matrix),
    /// Lists that differ in length, which functions take that need only the row itself.
    Ragged(Ragged),
    /// Several results, by name.
    Named(Vec<(&'static str, Self)>),
}

impl Value {
    /// What an Arrow array or scalar is: a scalar, a vector if it holds numbers, else a matrix.
    ///
    /// # Errors
    ///
    /// As [`Matrix::try_from`].
    pub fn from_datum(datum: &dyn Datum) -> Result<Self> {
        let (array, is_scalar) = datum.get();
        let array_ref = || arrow_array::make_array(array.to_data());
        if is_scalar {
            return Ok(Self::Scalar(array_ref()));
        }
        let matrix = Matrix::try_from(array)?;
        Ok(if matrix.is_vector() { Self::Vector(array_ref()) } else { Self::Matrix(matrix) })
    }

    /// What the chunks of a column are: a matrix, or lists that differ in length.
    ///
    /// # Errors
    ///
    /// As [`Matrix::from_field`].
    pub fn from_field(field: &FieldRef, arrays: &[ArrayRef]) -> Result<Self> {
        match Matrix::from_field(field, arrays) {
            Ok(matrix) => Ok(Self::Matrix(matrix)),
            Err(Error::Ragged { .. } | Error::Width { .. })
                if matches!(field.data_type(), DataType::List(_) | DataType::LargeList(_)) =>
            {
                Ragged::from_field(field, arrays).map(Self::Ragged)
            }
            Err(error) => Err(error),
        }
    }

    /// The array of a scalar or vector.
    pub fn as_array(&self) -> Option<&ArrayRef> {
        match self {
            Self::Scalar(array) | Self::Vector(array) => Some(array),
            _ => None,
        }
    }

    /// The matrix.
    pub fn as_matrix(&self) -> Option<&Matrix> {
        match self {
            Self::Matrix(matrix) => Some(matrix),
            _ => None,
        }
    }

    /// The lists that differ in length.
    pub fn as_ragged(&self) -> Option<&Ragged> {
        match self {
            Self::Ragged(lists) => Some(lists),
            _ => None,
        }
    }

    /// The array of a scalar or vector, taken out.
    pub(super) fn into_array(self) -> Result<ArrayRef> {
        match self {
            Self::Scalar(array) | Self::Vector(array) => Ok(array),
            other => Err(other.is_not("an array")),
        }
    }

    /// The matrix, taken out.
    pub(crate) fn into_matrix(self) -> Result<Matrix> {
        match self {
            Self::Matrix(matrix) => Ok(matrix),
            other => Err(other.is_not("a matrix")),
        }
    }

    fn is_not(&self, expected: &'static str) -> Error {
        Error::Argument { argument: "result", expected, got: self.describe() }
    }

    /// Whether it is plain numbers, one behind the other.
    pub(crate) fn is_vector(&self) -> bool {
        match self {
            Self::Vector(_) => true,
            Self::Matrix(matrix) => matrix.is_vector(),
            _ => false,
        }
    }

    /// The elements of a vector, or rows of a matrix.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Vector(array) => array.len(),
            Self::Matrix(matrix) => matrix.rows(),
            Self::Ragged(lists) => lists.rows(),
            Self::Named(values) => values.len(),
            Self::Number(_) | Self::Integer(_) | Self::Scalar(_) => 1,
        }
    }

    /// What it is, for an error.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Number(number) => format!("the number {number}"),
            Self::Integer(number) => format!("the number {number}"),
            Self::Named(values) => format!("{} values", values.len()),
            Self::Scalar(one) => format!("a scalar of {}", TypeName(one.data_type())),
            Self::Vector(array) => {
                format!("a vector of {} {}", array.len(), TypeName(array.data_type()))
            }
            Self::Ragged(lists) => {
                let (rows, element) = (lists.rows(), TypeName(lists.element_type()));
                format!("{rows} lists of {element} that differ in length")
            }
            Self::Matrix(matrix) => format!(
                "a matrix of {} x {} {}",
                matrix.rows(),
                matrix.width(),
                TypeName(matrix.element_type())
            ),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number.into())
    }
}

impl From<Matrix> for Value {
    fn from(matrix: Matrix) -> Self {
        Self::Matrix(matrix)
    }
}

impl TryFrom<&ArrayRef> for Value {
    type Error = crate::Error;

    fn try_from(array: &ArrayRef) -> Result<Self> {
        Self::from_datum(&array.as_ref())
    }
}
