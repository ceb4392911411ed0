//! Arithmetic of a matrix with a number, a row, a column or another matrix.
//!
//! One IEEE operation per element; integers are checked, and an error names the first row that
//! overflowed. The result has the chunks, layout and type of `x`; what lies under its nulls is
//! zero.

use arrow_schema::DataType;

use super::elementwise::{converted, elementwise};
use super::operand::Aligned;
use super::{Operand, with_wide};
use crate::dispatch::vendor::Operation;
use crate::dispatch::{Family, Work};
use crate::error::Result;
use crate::kernel::{
    Abs, Add, Clip, Divide, Element, Maximum, Minimum, Multiply, Negate, Sqrt, Square, Subtract,
};
use crate::matrix::Matrix;

/// Aligns the operand, plans and runs, for the element type of `$x`.
macro_rules! binary {
    ($function:literal, $op:expr, $vendor:expr, $x:expr, $y:expr) => {{
        let (x, y): (&Matrix, Operand<'_>) = ($x, $y.into());
        with_wide!($function, x.element_type(), T => {
            elementwise::<T, _>($function, $op, $vendor, x, y.align::<T>($function, x)?)
        })
    }};
}

/// `x + y`, where `y` is a number, a row, a column or a matrix.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, FixedSizeListArray, types::Float32Type};
/// use raptors_arrow::{Matrix, compute::add};
///
/// let rows = [Some([Some(1.0), Some(2.0)]), None];
/// let x: ArrayRef =
///     Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2));
/// let x = Matrix::try_from(&x)?;
/// let twice = add(&x, &x)?;
/// assert_eq!((twice.rows(), twice.width(), twice.null_rows()), (2, 2, 1));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`](crate::Error::Type) unless the elements are numbers, the errors of a `y`
/// whose type or shape does not fit, and [`Error::Overflow`](crate::Error::Overflow) or
/// [`Error::DivisionByZero`](crate::Error::DivisionByZero) for integers.
pub fn add<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary!("add", Add, Some(Operation::Add), x, y)
}

/// `x - y`, where `y` is a number, a row, a column or a matrix.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, FixedSizeListArray, types::Float32Type};
/// use raptors_arrow::{Matrix, compute::{self, Operand, Per}};
///
/// let rows = [Some([Some(1.0), Some(2.0)]), None, Some([Some(3.0), Some(6.0)])];
/// let array: ArrayRef =
///     Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2));
/// let x = Matrix::try_from(&array)?;
/// let mean = compute::mean(&x, Per::Column)?;
/// let centred = compute::subtract(&x, Operand::row(&mean)?)?;
/// let arrays = centred.to_arrays()?;
/// assert_eq!(arrays[0].data_type(), array.data_type());
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`add`].
pub fn subtract<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary!("subtract", Subtract, Some(Operation::Subtract), x, y)
}

/// `x * y` element by element, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`add`].
pub fn multiply<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary!("multiply", Multiply, Some(Operation::Multiply), x, y)
}

/// `x / y` element by element, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`add`].
pub fn divide<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary!("divide", Divide, Some(Operation::Divide), x, y)
}

/// `x * factor`, where `factor` is one number.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::scale};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
/// let scaled = scale(&Matrix::try_from(&x)?, 2.0)?.to_arrays()?;
/// assert_eq!(scaled[0].as_primitive::<Float64Type>(), &Float64Array::from(vec![Some(3.0), None]));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`add`].
pub fn scale<'a>(x: &Matrix, factor: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary!("scale", Multiply, Some(Operation::Multiply), x, factor)
}

/// `x + row`: adds a 1-D array, one value per column, to every row.
///
/// # Errors
///
/// As [`add`].
pub fn broadcast_add<'a>(x: &Matrix, row: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary!("broadcast_add", Add, Some(Operation::Add), x, row)
}

/// The smaller of `x` and `y`, element by element: NaN if either is, and −0 below +0.
///
/// # Errors
///
/// As [`add`].
pub fn minimum<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary!("minimum", Minimum, None, x, y)
}

/// The larger of `x` and `y`, element by element: NaN if either is, and +0 above −0.
///
/// # Errors
///
/// As [`add`].
pub fn maximum<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary!("maximum", Maximum, None, x, y)
}

/// Plans and runs an operation on `$x` alone, for its element type.
macro_rules! unary {
    ($function:literal, $op:expr, $x:expr) => {
        with_wide!($function, $x.element_type(), T => {
            elementwise::<T, _>($function, $op, None, $x, Aligned::Scalar(T::default()))
        })
    };
}

/// `-x`, element by element.
///
/// # Errors
///
/// [`Error::Overflow`](crate::Error::Overflow) for the least integer, and for unsigned integers
/// but 0.
pub fn negate(x: &Matrix) -> Result<Matrix> {
    unary!("negate", Negate, x)
}

/// The magnitude of every element.
///
/// # Errors
///
/// [`Error::Overflow`](crate::Error::Overflow) for the least integer.
pub fn abs(x: &Matrix) -> Result<Matrix> {
    unary!("abs", Abs, x)
}

/// `x * x`, element by element.
///
/// # Errors
///
/// [`Error::Overflow`](crate::Error::Overflow) for integers whose square does not fit.
pub fn square(x: &Matrix) -> Result<Matrix> {
    unary!("square", Square, x)
}

/// The square root of every element, NaN of negative ones; of integers in float64.
///
/// # Errors
///
/// None but those of every call: no memory, an interrupt, a setting.
pub fn sqrt(x: &Matrix) -> Result<Matrix> {
    const FUNCTION: &str = "sqrt";
    match x.element_type() {
        single @ (DataType::Float16 | DataType::Float32) => {
            converted::<f32, _>(FUNCTION, Sqrt, x, single, true)
        }
        _ => converted::<f64, _>(FUNCTION, Sqrt, x, &DataType::Float64, true),
    }
}

/// Moves every element up to `lowest` and down to `highest`; a NaN stays one.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int32Array, cast::AsArray, types::Int32Type};
/// use raptors_arrow::{Matrix, compute::{Operand, clip}};
///
/// let x: ArrayRef = Arc::new(Int32Array::from(vec![-5, 3, 12]));
/// let clipped = clip(&Matrix::try_from(&x)?, Some(Operand::from(0i64)), Some(10i64.into()))?;
/// let clipped = clipped.to_arrays()?;
/// assert_eq!(clipped[0].as_primitive::<Int32Type>().values(), &[0, 3, 10]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Number`](crate::Error::Number) for a bound that the element type cannot hold, and the
/// errors of a bound that
/// is no number.
pub fn clip(
    x: &Matrix,
    lowest: Option<Operand<'_>>,
    highest: Option<Operand<'_>>,
) -> Result<Matrix> {
    const FUNCTION: &str = "clip";
    with_wide!(FUNCTION, x.element_type(), T => {
        let bound = |bound: &Option<Operand<'_>>, none: T, name| match bound {
            None => Ok(none),
            Some(bound) => bound.number::<T>(FUNCTION, x).map_err(|error| error.about(name)),
        };
        let lowest = bound(&lowest, T::LOWEST, "min")?;
        let highest = bound(&highest, T::HIGHEST, "max")?;
        let op = Clip { lowest, highest };
        elementwise::<T, _>(FUNCTION, op, None, x, Aligned::Scalar(T::default()))
    })
}

/// The bytes that arithmetic moves; `other` are those of a second matrix.
pub(crate) fn work(x: &Matrix, other: usize) -> Work {
    Work {
        family: Family::Elementwise,
        bytes_read: x.bytes().saturating_add(other),
        bytes_written: x.bytes(),
        has_vdsp: true,
    }
}
