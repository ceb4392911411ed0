//! Arithmetic of a matrix with a number, a row, a column or another matrix.
//!
//! One IEEE operation per element; integers are checked, and an error names the first row that
//! overflowed. The result has the chunks, layout and type of `x`; what lies under its nulls is
//! zero.

use arrow_schema::DataType;

use super::call::{self, Call, Driven, Held, Pass};
use super::elementwise::WithOperation;
use super::fused::{AsStep, Nulls, Stage};
use super::operand::Aligned;
use super::{Operand, Value, bounds, real_type, with_float, with_own_width, with_wide};
use crate::dispatch::vendor::VendorOp;
use crate::dispatch::{Family, Plan, Work};
use crate::error::{Error, Result};
use crate::kernel::{
    Abs, Add, AtLeast, AtMost, Binary, Clip, Divide, Equal, Exp, Greater, GreaterEqual, Identity,
    IsFinite, IsNan, Less, LessEqual, Log, Maximum, Minimum, Multiply, Negate, NotEqual, Power,
    Reversed, Round, RoundDecimals, Sign, Sqrt, Square, Subtract,
};
use crate::matrix::{Matrix, Number, size_of_element};
use crate::memory::Gather as _;

/// What is done to each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `x + y`.
    Add,
    /// `x - y`.
    Subtract,
    /// `x * y`.
    Multiply,
    /// `x / y`; of integers towards zero.
    Divide,
    /// The smaller of both: NaN if either is, and −0 below +0.
    Minimum,
    /// The larger of both: NaN if either is, and +0 above −0.
    Maximum,
    /// `-x`.
    Negate,
    /// The magnitude.
    Abs,
    /// `x * x`.
    Square,
    /// The square root; of integers in float64.
    Sqrt,
    /// Moved into bounds; a NaN stays one.
    Clip,
    /// Moved up to a bound.
    AtLeast,
    /// Moved down to a bound.
    AtMost,
    /// Stored in another type.
    Cast,
    /// `e` to the power of `x`; of integers in float64.
    Exp,
    /// The natural logarithm; of integers in float64.
    Log,
    /// `x` to the power of `y`.
    Power,
    /// 1, −1 or 0 as the number is above, below or at zero; NaN of NaN.
    Sign,
    /// To the nearest number of so many decimals, of two the even one.
    Round,
    /// Whether `x > y`.
    Greater,
    /// Whether `x >= y`.
    GreaterEqual,
    /// Whether `x < y`.
    Less,
    /// Whether `x <= y`.
    LessEqual,
    /// Whether `x == y`.
    Equal,
    /// Whether `x != y`.
    NotEqual,
    /// Whether it is a NaN.
    IsNan,
    /// Whether it is neither infinite nor a NaN.
    IsFinite,
}

impl Operation {
    /// The type of the results; that of a cast is an option.
    pub(super) fn result_type(self, element: &DataType, cast: DataType) -> DataType {
        match self {
            Self::Sqrt | Self::Exp | Self::Log => real_type(element).clone(),
            Self::Cast => cast,
            Self::Greater
            | Self::GreaterEqual
            | Self::Less
            | Self::LessEqual
            | Self::Equal
            | Self::NotEqual
            | Self::IsNan
            | Self::IsFinite => DataType::Boolean,
            _ => element.clone(),
        }
    }

    /// Whether a number, or what broadcasts, may stand before the matrix.
    fn takes_any_order(self) -> bool {
        use Operation::{Add, Divide, Maximum, Minimum, Multiply, Power, Subtract};
        let is_own = matches!(self, Add | Subtract | Multiply | Divide | Minimum | Maximum | Power);
        is_own || self.mirrored() != self || matches!(self, Self::Equal | Self::NotEqual)
    }

    /// The comparison that says the same of operands the other way round; any other as it is.
    fn mirrored(self) -> Self {
        match self {
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            other => other,
        }
    }

    /// What a vendor library calls it, if it has it.
    fn vendor(self) -> Option<VendorOp> {
        match self {
            Self::Add => Some(VendorOp::Add),
            Self::Subtract => Some(VendorOp::Subtract),
            Self::Multiply => Some(VendorOp::Multiply),
            Self::Divide => Some(VendorOp::Divide),
            _ => None,
        }
    }
}

/// The call of a function of the table.
pub(super) fn bind<'a>(operation: Operation, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let reversed = operation.takes_any_order() && call.is_reversed();
    let operation = if reversed { operation.mirrored() } else { operation };
    let x = call.matrix(usize::from(reversed))?;
    if operation == Operation::Clip && call.options.has_bounds_by_column() {
        return bounds::bind(call, x);
    }
    let (name, y) = match call.function.arguments {
        [first, _] if reversed => (first.name, Some(call.operand(0)?)),
        [_, second] => (second.name, Some(call.operand(1)?)),
        _ => (Y, None),
    };
    let bounds = [call.options.bound("min"), call.options.bound("max")];
    let to = operation.result_type(x.element_type(), call.options.element_type("type"));
    let safe = operation != Operation::Cast || call.options.flag("safe");
    let decimals = call.options.count("decimals");
    Ok(Box::new(Elementwise { operation, x, y, reversed, name, bounds, decimals, to, safe }))
}

const Y: &str = "y";

/// The matrix in another type: floats are rounded once, integers have to fit.
pub(super) fn converted(x: &Matrix, to: &DataType, plan: Plan) -> Result<Matrix> {
    let call = Elementwise::new(Operation::Cast, x, None);
    Elementwise { to: to.clone(), ..call }.compute(plan)
}

/// A call of an operation that needs nothing but its operands, under the name of its function.
pub(super) fn execute(
    function: &'static str,
    operation: Operation,
    x: &Matrix,
    y: Option<Operand<'_>>,
) -> Result<Matrix> {
    Elementwise::new(operation, x, y).execute(function)
}

/// Each element rounded to so many decimals.
pub(super) fn rounded(x: &Matrix, decimals: usize) -> Result<Matrix> {
    Elementwise { decimals, ..Elementwise::new(Operation::Round, x, None) }.execute("round")
}

/// A call of an operation.
pub(super) struct Elementwise<'a> {
    operation: Operation,
    x: Held<'a>,
    y: Option<Operand<'a>>,
    /// Whether it is `y op x`.
    reversed: bool,
    /// What the function calls `y`.
    name: &'static str,
    /// The smallest and the largest that clip leaves alone.
    bounds: [Option<Operand<'a>>; 2],
    /// The decimals that round leaves.
    decimals: usize,
    /// The type of the results.
    to: DataType,
    /// Whether a result that does not fit is an error.
    safe: bool,
}

impl<'a> Elementwise<'a> {
    pub(super) fn new(operation: Operation, x: &'a Matrix, y: Option<Operand<'a>>) -> Self {
        let to = operation.result_type(x.element_type(), DataType::Null);
        let (x, bounds) = (Held::Borrowed(x), [None, None]);
        Self { operation, x, y, reversed: false, name: Y, bounds, decimals: 0, to, safe: true }
    }

    fn execute(&self, function: &'static str) -> Result<Matrix> {
        call::execute(function, self)?.into_matrix()
    }

    pub(super) fn run_passes(&self, mut passes: &[Pass]) -> Result<Matrix> {
        let mut y = self.y.clone();
        let x = match &mut y {
            Some(y) => {
                y.convert(Y, &self.x, &mut passes)?;
                y.fitted(&self.x)?
            }
            None => Held::Borrowed(&*self.x),
        };
        self.compute_with(&x, y.as_ref(), passes[0].plan)
    }

    fn compute(&self, plan: Plan) -> Result<Matrix> {
        self.compute_with(&self.x, None, plan)
    }

    /// Calls `plan` with the operation and its types.
    fn compute_with<'y, V: WithOperation<'y>>(
        &self,
        x: &Matrix,
        y: Option<&'y Operand<'_>>,
        plan: V,
    ) -> Result<V::Out> {
        // float16 is rounded once, from float32; all else that is no float32 is read as float64.
        let element = x.element_type();
        match (self.operation, element) {
            (Operation::Sqrt, _) => with_float!(element, T => self.alone::<T, _, V>(Sqrt, x, plan)),
            (Operation::Exp, _) => with_float!(element, T => self.alone::<T, _, V>(Exp, x, plan)),
            (Operation::Log, _) => with_float!(element, T => self.alone::<T, _, V>(Log, x, plan)),
            (Operation::Round, DataType::Float16 | DataType::Float32) if self.decimals > 0 => {
                self.alone::<f32, _, V>(self.round_decimals(), x, plan)
            }
            (Operation::Round, DataType::Float64) if self.decimals > 0 => {
                self.alone::<f64, _, V>(self.round_decimals(), x, plan)
            }
            (Operation::Add | Operation::Subtract | Operation::Multiply, _)
                if !x.is_converted() =>
            {
                with_own_width!(element, T => self.sum_or_product::<T, V>(x, y, plan))
            }
            _ => with_wide!(element, T => self.typed::<T, V>(x, y, plan)),
        }
    }

    fn round_decimals(&self) -> RoundDecimals {
        // Infinite soon after 300: then every number is whole at that scale. Not `powi`, whose
        // last digit differs between machines.
        RoundDecimals { scale: (0..self.decimals.min(400)).fold(1.0, |scale, _| scale * 10.0) }
    }

    /// What narrow integers are computed in their own width for.
    fn sum_or_product<'y, T: Number, V: WithOperation<'y>>(
        &self,
        x: &Matrix,
        y: Option<&'y Operand<'_>>,
        plan: V,
    ) -> Result<V::Out> {
        match self.operation {
            Operation::Add => self.paired::<T, _, V>(Add, x, y, plan),
            Operation::Subtract if self.reversed => {
                self.paired::<T, _, V>(Reversed(Subtract), x, y, plan)
            }
            Operation::Subtract => self.paired::<T, _, V>(Subtract, x, y, plan),
            _ => self.paired::<T, _, V>(Multiply, x, y, plan),
        }
    }

    fn typed<'y, T: Number, V: WithOperation<'y>>(
        &self,
        x: &Matrix,
        y: Option<&'y Operand<'_>>,
        plan: V,
    ) -> Result<V::Out> {
        match self.operation {
            Operation::Add | Operation::Subtract | Operation::Multiply => {
                self.sum_or_product::<T, V>(x, y, plan)
            }
            Operation::Divide if self.reversed => {
                self.paired::<T, _, V>(Reversed(Divide), x, y, plan)
            }
            Operation::Divide => self.paired::<T, _, V>(Divide, x, y, plan),
            Operation::AtLeast => self.paired::<T, _, V>(AtLeast, x, y, plan),
            Operation::AtMost => self.paired::<T, _, V>(AtMost, x, y, plan),
            Operation::Minimum => self.paired::<T, _, V>(Minimum, x, y, plan),
            Operation::Maximum => self.paired::<T, _, V>(Maximum, x, y, plan),
            Operation::Negate => self.alone::<T, _, V>(Negate, x, plan),
            Operation::Abs => self.alone::<T, _, V>(Abs, x, plan),
            Operation::Square => self.alone::<T, _, V>(Square, x, plan),
            Operation::Cast => self.alone::<T, _, V>(Identity, x, plan),
            Operation::Sign => self.alone::<T, _, V>(Sign, x, plan),
            Operation::Round => self.alone::<T, _, V>(Round, x, plan),
            Operation::Greater => self.paired::<T, _, V>(Greater, x, y, plan),
            Operation::GreaterEqual => self.paired::<T, _, V>(GreaterEqual, x, y, plan),
            Operation::Less => self.paired::<T, _, V>(Less, x, y, plan),
            Operation::LessEqual => self.paired::<T, _, V>(LessEqual, x, y, plan),
            Operation::Equal => self.paired::<T, _, V>(Equal, x, y, plan),
            Operation::NotEqual => self.paired::<T, _, V>(NotEqual, x, y, plan),
            Operation::IsNan => self.alone::<T, _, V>(IsNan, x, plan),
            Operation::IsFinite => self.alone::<T, _, V>(IsFinite, x, plan),
            Operation::Clip => {
                let [lowest, highest] = &self.bounds;
                let lowest = bound(lowest, x, T::LOWEST, "min")?;
                let highest = bound(highest, x, T::HIGHEST, "max")?;
                self.alone(Clip { lowest, highest }, x, plan)
            }
            Operation::Power if self.reversed => {
                self.paired::<T, _, V>(Reversed(Power), x, y, plan)
            }
            Operation::Power => self.paired::<T, _, V>(Power, x, y, plan),
            Operation::Sqrt | Operation::Exp | Operation::Log => {
                Err(crate::matrix::unaccepted(x.element_type()))
            }
        }
    }

    /// What a vendor library calls it, if it has it in this order.
    fn vendor(&self) -> Option<VendorOp> {
        self.operation.vendor().filter(|_| !self.reversed)
    }

    fn paired<'y, T: Number, O: Binary<T> + 'static, V: WithOperation<'y>>(
        &self,
        op: O,
        x: &Matrix,
        y: Option<&'y Operand<'_>>,
        plan: V,
    ) -> Result<V::Out> {
        let y = y.ok_or(Error::Arguments { expected: 2, got: 1 })?;
        let y = y.align::<T>(x)?;
        plan.with(op, self.vendor(), x, y, (&self.to, self.safe))
    }

    fn alone<'y, T: Number, O: Binary<T> + 'static, V: WithOperation<'y>>(
        &self,
        op: O,
        x: &Matrix,
        plan: V,
    ) -> Result<V::Out> {
        let y = Aligned::Scalar(T::default());
        plan.with(op, None, x, y, (&self.to, self.safe))
    }
}

fn bound<T: Number>(
    bound: &Option<Operand<'_>>,
    x: &Matrix,
    none: T,
    name: &'static str,
) -> Result<T> {
    match bound {
        None => Ok(none),
        Some(bound) => bound.number::<T>(x).map_err(|error| error.about(name)),
    }
}

impl Driven for Elementwise<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let (x, element) = (&self.x, self.x.element_type());
        let other = self.y.as_ref().map_or(0, Operand::bytes);
        let size = size_of_element(&self.to).unwrap_or(8);
        let work = Work {
            family: Family::Elementwise,
            bytes_read: x.bytes().saturating_add(other),
            bytes_written: x.rows().saturating_mul(x.width()).saturating_mul(size),
            has_vdsp: self.vendor().is_some()
                && matches!(element, DataType::Float32 | DataType::Float64),
        };
        let convert = self.y.as_ref().and_then(|y| y.conversion(x));
        convert.into_iter().chain([("compute", work)]).gather()
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        let computed = self.run_passes(passes).map_err(|error| match error {
            Error::Overflow { index: row, into, .. } if self.operation == Operation::Cast => {
                Error::Cast { row, into }
            }
            other if self.y.is_some() => other.about(self.name),
            other => other,
        })?;
        Ok(Value::Matrix(computed))
    }

    fn like(&self) -> Option<DataType> {
        Some(self.to.clone())
    }

    fn ready(&mut self) -> Result<()> {
        let Self { x, y: Some(y), .. } = self else { return Ok(()) };
        let conversion = y.conversion(x).map(call::planned).transpose()?;
        y.convert(Y, x, &mut conversion.as_slice())?;
        y.fitted(x)?;
        Ok(())
    }

    fn stage(&self, nulls: &Nulls) -> Result<Option<Stage<'_>>> {
        self.compute_with(&self.x, self.y.as_ref(), AsStep { nulls }).map(Some)
    }
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
    Elementwise::new(Operation::Add, x, Some(y.into())).execute("add")
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
    Elementwise::new(Operation::Subtract, x, Some(y.into())).execute("subtract")
}

/// `x * y` element by element, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`add`].
pub fn multiply<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    Elementwise::new(Operation::Multiply, x, Some(y.into())).execute("multiply")
}

/// `x / y` element by element, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`add`].
pub fn divide<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    Elementwise::new(Operation::Divide, x, Some(y.into())).execute("divide")
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
    Elementwise::new(Operation::Multiply, x, Some(factor.into())).execute("scale")
}

/// `x + row`: adds a 1-D array, one value per column, to every row.
///
/// # Errors
///
/// As [`add`].
pub fn broadcast_add<'a>(x: &Matrix, row: impl Into<Operand<'a>>) -> Result<Matrix> {
    Elementwise::new(Operation::Add, x, Some(row.into())).execute("broadcast_add")
}

/// The smaller of `x` and `y`, element by element: NaN if either is, and −0 below +0.
///
/// # Errors
///
/// As [`add`].
pub fn minimum<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    Elementwise::new(Operation::Minimum, x, Some(y.into())).execute("minimum")
}

/// The larger of `x` and `y`, element by element: NaN if either is, and +0 above −0.
///
/// # Errors
///
/// As [`add`].
pub fn maximum<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    Elementwise::new(Operation::Maximum, x, Some(y.into())).execute("maximum")
}

/// `-x`, element by element.
///
/// # Errors
///
/// [`Error::Overflow`](crate::Error::Overflow) for the smallest integer, and for unsigned integers
/// but 0.
pub fn negate(x: &Matrix) -> Result<Matrix> {
    Elementwise::new(Operation::Negate, x, None).execute("negate")
}

/// The magnitude of every element.
///
/// # Errors
///
/// [`Error::Overflow`](crate::Error::Overflow) for the smallest integer.
pub fn abs(x: &Matrix) -> Result<Matrix> {
    Elementwise::new(Operation::Abs, x, None).execute("abs")
}

/// `x * x`, element by element.
///
/// # Errors
///
/// [`Error::Overflow`](crate::Error::Overflow) for integers whose square does not fit.
pub fn square(x: &Matrix) -> Result<Matrix> {
    Elementwise::new(Operation::Square, x, None).execute("square")
}

/// The square root of every element, NaN of negative ones; of integers in float64.
///
/// # Errors
///
/// None but those of every call: no memory, an interrupt, a setting.
pub fn sqrt(x: &Matrix) -> Result<Matrix> {
    Elementwise::new(Operation::Sqrt, x, None).execute("sqrt")
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
    let call = Elementwise::new(Operation::Clip, x, None);
    Elementwise { bounds: [lowest, highest], ..call }.execute("clip")
}

/// The matrix with its elements in another type.
///
/// Floats are rounded to nearest. An integer that does not fit, or a float that is no whole number
/// on its way to an integer, is an error that names the row; unless the cast is not `safe`: then
/// integers wrap, and floats are cut off and kept in bounds, NaN becoming 0.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float32Type};
/// use arrow_schema::DataType;
/// use raptors_arrow::{Matrix, compute::cast};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![0.1, 2.0]));
/// let single = cast(&Matrix::try_from(&x)?, &DataType::Float32, true)?.to_arrays()?;
/// assert_eq!(single[0].as_primitive::<Float32Type>().values(), &[0.1, 2.0]);
/// assert!(cast(&Matrix::try_from(&x)?, &DataType::Int8, true).is_err());
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Cast`] as said above, and [`Error::Type`] for what is no type of numbers.
pub fn cast(x: &Matrix, to: &DataType, safe: bool) -> Result<Matrix> {
    let call = Elementwise::new(Operation::Cast, x, None);
    Elementwise { to: to.clone(), safe, ..call }.execute("cast")
}
