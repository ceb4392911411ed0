//! Functions of one number, element by element.

use super::Operand;
use super::arithmetic::{self, Operation, execute};
use crate::error::Result;
use crate::matrix::Matrix;

/// `e` to the power of each element, less than 1 ulp off; of integers in float64.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::exp};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 1.0]));
/// let powers = exp(&Matrix::try_from(&x)?)?.to_arrays()?;
/// let powers = powers[0].as_primitive::<Float64Type>();
/// assert_eq!(powers.value(0), 1.0);
/// assert!((powers.value(1) - std::f64::consts::E).abs() <= 2.0 * f64::EPSILON);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`sign`].
pub fn exp(x: &Matrix) -> Result<Matrix> {
    execute("exp", Operation::Exp, x, None)
}

/// The natural logarithm of each element, less than 1 ulp off: NaN of negative ones, −∞ of zero; of
/// integers in float64.
///
/// # Errors
///
/// As [`sign`].
pub fn log(x: &Matrix) -> Result<Matrix> {
    execute("log", Operation::Log, x, None)
}

/// `x` to the power of `y`, where `y` is a number, a row, a column or a matrix; less than 1 ulp off,
/// with the special cases of IEEE 754.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int32Array, cast::AsArray, types::Int32Type};
/// use raptors_arrow::{Matrix, compute::power};
///
/// let x: ArrayRef = Arc::new(Int32Array::from(vec![-3, 2, 10]));
/// let cubes = power(&Matrix::try_from(&x)?, 3i64)?.to_arrays()?;
/// assert_eq!(cubes[0].as_primitive::<Int32Type>().values(), &[-27, 8, 1000]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Overflow`](crate::Error::Overflow) for integers whose power does not fit, or is no
/// integer, and the errors of a `y` whose type or shape does not fit.
pub fn power<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    execute("power", Operation::Power, x, Some(y.into()))
}

/// 1, −1 or 0 as each element is above, below or at zero; NaN of NaN.
///
/// # Errors
///
/// [`Error::Type`](crate::Error::Type) unless the elements are numbers.
pub fn sign(x: &Matrix) -> Result<Matrix> {
    execute("sign", Operation::Sign, x, None)
}

/// Each element to the nearest number of so many decimals, of two the even one.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::round};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5, 2.346]));
/// let rounded = |decimals| round(&Matrix::try_from(&x)?, decimals)?.to_arrays();
/// assert_eq!(rounded(0)?[0].as_primitive::<Float64Type>().values(), &[0.0, 2.0, 2.0]);
/// assert_eq!(rounded(2)?[0].as_primitive::<Float64Type>().values(), &[0.5, 1.5, 2.35]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`sign`].
pub fn round(x: &Matrix, decimals: usize) -> Result<Matrix> {
    arithmetic::rounded(x, decimals)
}
