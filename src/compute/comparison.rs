//! Comparisons, element by element: a yes or no for each, null where an operand is null.

use super::Operand;
use super::arithmetic::{Operation, execute};
use crate::error::Result;
use crate::matrix::Matrix;

/// Whether `x > y`, where `y` is a number, a row, a column or a matrix.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, BooleanArray, Float64Array, cast::AsArray};
/// use raptors_arrow::{Matrix, compute::greater};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN)]));
/// let flags = greater(&Matrix::try_from(&x)?, 1.0)?.to_arrays()?;
/// let expected = BooleanArray::from(vec![Some(true), None, Some(false)]);
/// assert_eq!(flags[0].as_boolean(), &expected);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`](crate::Error::Type) unless the elements are numbers, and the errors of a `y`
/// whose type or shape does not fit.
pub fn greater<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    execute("greater", Operation::Greater, x, Some(y.into()))
}

/// Whether `x >= y`, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`greater`].
pub fn greater_equal<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    execute("greater_equal", Operation::GreaterEqual, x, Some(y.into()))
}

/// Whether `x < y`, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`greater`].
pub fn less<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    execute("less", Operation::Less, x, Some(y.into()))
}

/// Whether `x <= y`, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`greater`].
pub fn less_equal<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    execute("less_equal", Operation::LessEqual, x, Some(y.into()))
}

/// Whether `x == y`, where `y` is a number, a row, a column or a matrix. A NaN equals nothing.
///
/// # Errors
///
/// As [`greater`].
pub fn equal<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    execute("equal", Operation::Equal, x, Some(y.into()))
}

/// Whether `x != y`, where `y` is a number, a row, a column or a matrix. A NaN equals nothing.
///
/// # Errors
///
/// As [`greater`].
pub fn not_equal<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    execute("not_equal", Operation::NotEqual, x, Some(y.into()))
}

/// Whether each element is a NaN; no integer is.
///
/// # Errors
///
/// [`Error::Type`](crate::Error::Type) unless the elements are numbers.
pub fn isnan(x: &Matrix) -> Result<Matrix> {
    execute("isnan", Operation::IsNan, x, None)
}

/// Whether each element is neither infinite nor a NaN, as every integer is.
///
/// # Errors
///
/// As [`isnan`].
pub fn isfinite(x: &Matrix) -> Result<Matrix> {
    execute("isfinite", Operation::IsFinite, x, None)
}
