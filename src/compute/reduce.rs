//! Reductions: one number in all, per column or per row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

use super::split::{ByVendor, Finish, Reduction};
use super::{Per, real_type, with_wide};
use crate::dispatch::vendor::Vendor;
use crate::dispatch::{Family, Work};
use crate::error::{Error, Result};
use crate::kernel::{
    At, Deviation, Element, ExactSum, Extreme, Guarded, Integer, Itself, Magnitude, Place, Real,
    Reducer, Spread, Squared, Sums,
};
use crate::matrix::{Counts, Matrix, Number, array_of, count};

/// How a reduction treats nulls and empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceOptions {
    /// Skip nulls; else one null makes its result null.
    pub skip_nulls: bool,
    /// Fewer valid values than this make the result null.
    pub min_count: usize,
}

impl Default for ReduceOptions {
    fn default() -> Self {
        Self { skip_nulls: true, min_count: 1 }
    }
}

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The sum of magnitudes.
    One,
    /// The root of the sum of squares.
    Two,
    /// The largest magnitude.
    Infinity,
}

/// Adds up a matrix: one sum in all, per column or per row, as an array of 1, `width` or `rows`.
///
/// Floats are added in float64 and rounded once; integers are added exactly, and come out as int64
/// or uint64.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Per, sum}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let sums = sum(&x, Per::Column)?;
/// assert_eq!(sums.as_primitive::<Float64Type>().values(), &[4.0, 6.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Overflow`] for integers whose sum does not fit 64 bits.
pub fn sum(x: &Matrix, per: Per) -> Result<ArrayRef> {
    sum_with(x, per, &ReduceOptions::default())
}

/// [`sum`] with options.
///
/// # Errors
///
/// As [`sum`].
pub fn sum_with(x: &Matrix, per: Per, options: &ReduceOptions) -> Result<ArrayRef> {
    let call = Call { function: "sum", x, per, options: *options };
    match x.element_type() {
        DataType::UInt64 => {
            call.run::<u64, u64, _, _>(ExactSum, None, ExactTotal, &DataType::UInt64)
        }
        unsigned if unsigned.is_unsigned_integer() => {
            call.run::<i64, u64, _, _>(ExactSum, None, ExactTotal, &DataType::UInt64)
        }
        signed if signed.is_signed_integer() => {
            call.run::<i64, i64, _, _>(ExactSum, None, ExactTotal, &DataType::Int64)
        }
        _ => call.sums(Total),
    }
}

/// The mean of a matrix: in all, per column or per row, as an array of 1, `width` or `rows`.
///
/// Of integers the mean is the exact sum, divided and rounded to float64 once.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Per, mean}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(3.0), Some(4.0)]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let means = mean(&x, Per::Column)?;
/// assert_eq!(means.as_primitive::<Float64Type>().values(), &[2.0, 4.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// None but those of every call: no memory, an interrupt, a setting.
pub fn mean(x: &Matrix, per: Per) -> Result<ArrayRef> {
    mean_with(x, per, &ReduceOptions::default())
}

/// [`mean`] with options.
///
/// # Errors
///
/// As [`mean`].
pub fn mean_with(x: &Matrix, per: Per, options: &ReduceOptions) -> Result<ArrayRef> {
    let call = Call { function: "mean", x, per, options: *options };
    match x.element_type() {
        DataType::UInt64 => {
            call.run::<u64, f64, _, _>(ExactSum, None, ExactMean, &DataType::Float64)
        }
        integer if integer.is_integer() => {
            call.run::<i64, f64, _, _>(ExactSum, None, ExactMean, &DataType::Float64)
        }
        _ => call.sums(Mean),
    }
}

/// The least element: in all, per column or per row. A NaN wins, and −0 is less than +0.
///
/// # Errors
///
/// As [`mean`].
pub fn min(x: &Matrix, per: Per, options: &ReduceOptions) -> Result<ArrayRef> {
    Call { function: "min", x, per, options: at_least_one(options) }
        .extreme(Extreme::<false, false>)
}

/// The greatest element: in all, per column or per row. A NaN wins, and +0 is more than −0.
///
/// # Errors
///
/// As [`mean`].
pub fn max(x: &Matrix, per: Per, options: &ReduceOptions) -> Result<ArrayRef> {
    Call { function: "max", x, per, options: at_least_one(options) }.extreme(Extreme::<true, false>)
}

/// Where the least element is, as int64: its number in the matrix, row by row, in its column or in
/// its row. The first of several; the first NaN if there is one.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float32Array, cast::AsArray, types::Int64Type};
/// use raptors_arrow::{Matrix, compute::{Per, ReduceOptions, argmin}};
///
/// let flat: ArrayRef = Arc::new(Float32Array::from(vec![None, Some(2.0), Some(3.0), Some(1.0)]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let places = argmin(&x, Per::Row, &ReduceOptions::default())?;
/// assert_eq!(places.as_primitive::<Int64Type>().values(), &[1, 1]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`mean`].
pub fn argmin(x: &Matrix, per: Per, options: &ReduceOptions) -> Result<ArrayRef> {
    Call { function: "argmin", x, per, options: at_least_one(options) }.place(Place::<false>)
}

/// Where the greatest element is, as [`argmin`] says it.
///
/// # Errors
///
/// As [`mean`].
pub fn argmax(x: &Matrix, per: Per, options: &ReduceOptions) -> Result<ArrayRef> {
    Call { function: "argmax", x, per, options: at_least_one(options) }.place(Place::<true>)
}

/// The variance: squared distances from the mean, added up and divided by the count less `ddof`.
/// Null where the count is not more than `ddof`. Of integers in float64.
///
/// One pass over memory; each leaf of 1024 elements is shifted by its first, so a mean far from
/// zero costs no digits.
///
/// # Errors
///
/// As [`mean`].
pub fn var(x: &Matrix, per: Per, ddof: usize, options: &ReduceOptions) -> Result<ArrayRef> {
    let options = more_than(ddof, options);
    let finish = Variance { ddof, root: false };
    Call { function: "var", x, per, options }.floats(Sums(Deviation), finish)
}

/// The standard deviation: the root of [`var`].
///
/// # Errors
///
/// As [`mean`].
pub fn std(x: &Matrix, per: Per, ddof: usize, options: &ReduceOptions) -> Result<ArrayRef> {
    let options = more_than(ddof, options);
    let finish = Variance { ddof, root: true };
    Call { function: "std", x, per, options }.floats(Sums(Deviation), finish)
}

/// The norm of all elements, of each column or of each row. Of integers in float64.
///
/// Squares that overflow or vanish in float64 do not disturb it.
///
/// # Errors
///
/// As [`mean`].
pub fn norm(x: &Matrix, per: Per, order: Order, options: &ReduceOptions) -> Result<ArrayRef> {
    let call = Call { function: "norm", x, per, options: *options };
    match order {
        Order::One => call.floats(Sums(Magnitude), Total),
        Order::Infinity => call.floats(Extreme::<true, true>, Largest),
        Order::Two => {
            let norms = call.floats(Sums(Squared), Root)?;
            if !call.is_doubtful(&norms) {
                return Ok(norms);
            }
            call.run::<f64, f64, _, _>(Sums(Guarded), None, Root, norms.data_type())
        }
    }
}

/// How many elements are not null, as int64.
///
/// # Errors
///
/// As [`mean`].
#[allow(clippy::unnecessary_wraps, reason = "every function of the table gives a result")]
pub fn count_valid(x: &Matrix, per: Per) -> Result<ArrayRef> {
    let counts = count(x, per);
    let len = results(x, per).0;
    let values: Vec<i64> = (0..len).map(|i| counts.get(i) as i64).collect();
    let nulls = if per == Per::Row { x.row_nulls(0..x.rows()) } else { None };
    Ok(Arc::new(Int64Array::new(values.into(), nulls)))
}

/// The bytes that a reduction moves.
pub(crate) fn work(x: &Matrix, per: Per) -> Work {
    let element = x.bytes() / (x.rows() * x.width()).max(1);
    Work {
        family: Family::Reduction,
        bytes_read: x.bytes(),
        bytes_written: results(x, per).0 * element,
        // `sve` wants one contiguous run per result.
        has_vdsp: per != Per::Column && !x.is_by_columns() && !x.has_nulls(),
    }
}

/// How many results there are, and how many elements are behind each.
fn results(x: &Matrix, per: Per) -> (usize, usize) {
    match per {
        Per::Matrix => (1, x.rows() * x.width()),
        Per::Column => (x.width(), x.rows()),
        Per::Row => (x.rows(), x.width()),
    }
}

/// For functions that have no answer for no elements.
fn at_least_one(options: &ReduceOptions) -> ReduceOptions {
    more_than(0, options)
}

fn more_than(ddof: usize, options: &ReduceOptions) -> ReduceOptions {
    let least = ddof.saturating_add(1);
    ReduceOptions { min_count: options.min_count.max(least), ..*options }
}

/// A call of a reduction.
struct Call<'a> {
    function: &'static str,
    x: &'a Matrix,
    per: Per,
    options: ReduceOptions,
}

impl Call<'_> {
    /// Reduces elements read as `T` to results made as `O` and stored as `to`.
    fn run<T: Number, O: Number, R: Reducer<T>, F: Finish<R::Node, O>>(
        &self,
        reducer: R,
        vendor: Option<ByVendor<T, R::Node>>,
        finish: F,
        to: &DataType,
    ) -> Result<ArrayRef> {
        let Self { function, x, per, options } = *self;
        let reduction = Reduction::<T, R>::new(function, x, reducer, vendor, work(x, per))?;
        let counts = count(x, per);
        let (values, failed) = reduction.results(per, &counts, finish)?;
        let nulls = nulls(x, per, &counts, &options);
        let is_valid = |i: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*i));
        if let Some(index) = failed.into_iter().filter(is_valid).min() {
            let what = match per {
                Per::Matrix => "result",
                Per::Column => "column",
                Per::Row => "row",
            };
            return Err(Error::Overflow { function, what, index, into: to.clone() });
        }
        array_of(function, values, nulls, to)
    }

    /// A reduction of floats; float16 (which must be rounded once, so not through float32) and
    /// integers are read as float64.
    fn floats<R, F>(&self, reducer: R, finish: F) -> Result<ArrayRef>
    where
        R: Reducer<f32> + Reducer<f64>,
        F: Finish<<R as Reducer<f32>>::Node, f32> + Finish<<R as Reducer<f64>>::Node, f64>,
    {
        self.floats_or_vendor(reducer, (None, None), finish)
    }

    /// The same for sums, which a vendor library may make.
    fn sums<F: Finish<f64, f32> + Finish<f64, f64>>(&self, finish: F) -> Result<ArrayRef> {
        let single: ByVendor<f32, f64> = |x| <f32 as Vendor>::sum(x).map(f64::from);
        let double: ByVendor<f64, f64> = |x| <f64 as Vendor>::sum(x);
        self.floats_or_vendor(Sums(Itself), (Some(single), Some(double)), finish)
    }

    #[allow(clippy::type_complexity, reason = "one vendor function for each type")]
    fn floats_or_vendor<R, F>(
        &self,
        reducer: R,
        vendor: (
            Option<ByVendor<f32, <R as Reducer<f32>>::Node>>,
            Option<ByVendor<f64, <R as Reducer<f64>>::Node>>,
        ),
        finish: F,
    ) -> Result<ArrayRef>
    where
        R: Reducer<f32> + Reducer<f64>,
        F: Finish<<R as Reducer<f32>>::Node, f32> + Finish<<R as Reducer<f64>>::Node, f64>,
    {
        let to = real_type(self.x.element_type());
        match self.x.element_type() {
            DataType::Float32 => self.run::<f32, f32, R, F>(reducer, vendor.0, finish, to),
            _ => self.run::<f64, f64, R, F>(reducer, vendor.1, finish, to),
        }
    }

    fn extreme<R>(&self, reducer: R) -> Result<ArrayRef>
    where
        R: Reducer<f32, Node = f32>
            + Reducer<f64, Node = f64>
            + Reducer<i64, Node = i64>
            + Reducer<u64, Node = u64>,
    {
        let to = self.x.element_type();
        with_wide!(self.function, to, T => self.run::<T, T, R, _>(reducer, None, AsIs, to))
    }

    fn place<R>(&self, reducer: R) -> Result<ArrayRef>
    where
        R: Reducer<f32, Node = At<f32>>
            + Reducer<f64, Node = At<f64>>
            + Reducer<i64, Node = At<i64>>
            + Reducer<u64, Node = At<u64>>,
    {
        with_wide!(self.function, self.x.element_type(), T => {
            self.run::<T, i64, R, _>(reducer, None, Index, &DataType::Int64)
        })
    }

    /// Whether squares may have overflowed or vanished on the way to these norms: never those of
    /// float16 and float32, which are made in float64.
    fn is_doubtful(&self, norms: &ArrayRef) -> bool {
        let is_wide = !matches!(self.x.element_type(), DataType::Float16 | DataType::Float32);
        let norms = norms.as_primitive_opt::<Float64Type>().filter(|_| is_wide);
        norms.is_some_and(|norms| norms.iter().flatten().any(|norm| !Guarded::is_safe(norm)))
    }
}

/// Which results are null.
fn nulls(x: &Matrix, per: Per, counts: &Counts, options: &ReduceOptions) -> Option<NullBuffer> {
    let (len, full) = results(x, per);
    let is_valid = |i: usize| {
        let count = counts.get(i);
        count >= options.min_count as u64 && (options.skip_nulls || count == full as u64)
    };
    let mut nulls = match counts {
        Counts::All(n) if *n >= options.min_count => None,
        Counts::All(_) => Some(NullBuffer::new_null(len)),
        Counts::Each(_) => Some(NullBuffer::new(BooleanBuffer::collect_bool(len, is_valid))),
    };
    if per == Per::Row && x.null_rows() > 0 {
        nulls = NullBuffer::union(nulls.as_ref(), x.row_nulls(0..x.rows()).as_ref());
    }
    nulls.filter(|nulls| nulls.null_count() > 0)
}

/// The sum, rounded once; a NaN is made canonical.
#[derive(Clone, Copy)]
struct Total;

impl<O: Real> Finish<f64, O> for Total {
    #[inline(always)]
    fn one(self, sum: f64, count: u64) -> O {
        // The sum of nothing is +0.0, though the neutral value is -0.0.
        O::round(if count == 0 { 0.0 } else { sum }).settled()
    }
}

/// The sum by the count.
#[derive(Clone, Copy)]
struct Mean;

impl<O: Real> Finish<f64, O> for Mean {
    #[inline(always)]
    fn one(self, sum: f64, count: u64) -> O {
        O::round(sum / count as f64).settled()
    }
    #[inline(always)]
    fn all(self, sums: &[f64], count: usize, out: &mut [O]) {
        let pairs = out.iter_mut().zip(sums);
        if count.is_power_of_two() {
            // Dividing by a power of two is multiplying by its inverse, to the bit, and faster.
            let inverse = 1.0 / count as f64;
            pairs.for_each(|(o, sum)| *o = O::round(sum * inverse).settled());
        } else {
            pairs.for_each(|(o, sum)| *o = self.one(*sum, count as u64));
        }
    }
}

/// The root of a sum of squares.
#[derive(Clone, Copy)]
struct Root;

impl<O: Real> Finish<f64, O> for Root {
    #[inline(always)]
    fn one(self, squares: f64, count: u64) -> O {
        O::round(if count == 0 { 0.0 } else { squares.sqrt() }).settled()
    }
}

impl<O: Real> Finish<[f64; 3], O> for Root {
    #[inline(always)]
    fn one(self, squares: [f64; 3], count: u64) -> O {
        O::round(if count == 0 { 0.0 } else { Guarded::root(squares) }).settled()
    }
}

/// The largest magnitude: 0 of none.
#[derive(Clone, Copy)]
struct Largest;

impl<T: Real, O: Real> Finish<T, O> for Largest {
    #[inline(always)]
    fn one(self, largest: T, count: u64) -> O {
        O::round(if count == 0 { 0.0 } else { largest.widen() }).settled()
    }
}

/// Squared distances from the mean, by the count less `ddof`; or the root of that.
#[derive(Clone, Copy)]
struct Variance {
    ddof: usize,
    root: bool,
}

impl<O: Real> Finish<Spread, O> for Variance {
    #[inline(always)]
    fn one(self, spread: Spread, count: u64) -> O {
        let variance = spread.squares / (count as f64 - self.ddof as f64);
        O::round(if self.root { variance.sqrt() } else { variance }).settled()
    }
}

/// The node itself.
#[derive(Clone, Copy)]
struct AsIs;

impl<T: Element> Finish<T, T> for AsIs {
    #[inline(always)]
    fn one(self, node: T, _: u64) -> T {
        node
    }
}

/// The place.
#[derive(Clone, Copy)]
struct Index;

impl<T: Element> Finish<At<T>, i64> for Index {
    #[inline(always)]
    fn one(self, at: At<T>, _: u64) -> i64 {
        at.index as i64
    }
}

/// An exact sum, if it fits.
#[derive(Clone, Copy)]
struct ExactTotal;

impl<O: Integer> Finish<i128, O> for ExactTotal {
    #[inline(always)]
    fn one(self, sum: i128, _: u64) -> O {
        O::from_integer(sum).unwrap_or_default()
    }
    #[inline(always)]
    fn fits(self, sum: &i128) -> bool {
        O::from_integer(*sum).is_some()
    }
}

/// An exact sum by the count, rounded once.
#[derive(Clone, Copy)]
struct ExactMean;

impl Finish<i128, f64> for ExactMean {
    #[inline(always)]
    fn one(self, sum: i128, count: u64) -> f64 {
        const EXACT: i128 = 1 << 53;
        if sum.abs() <= EXACT && count <= EXACT as u64 {
            return (sum as f64 / count as f64).settled();
        }
        // As many digits of the quotient as 127 bits hold, which are 63 or more; the last says
        // whether anything is left over, so that rounding sees it.
        let shift = sum.unsigned_abs().leading_zeros() - 1;
        let (whole, count) = (sum.unsigned_abs() << shift, u128::from(count));
        let quotient = (whole / count) | u128::from(whole % count != 0);
        let magnitude = quotient as f64 * (-f64::from(shift)).exp2();
        if sum < 0 { -magnitude } else { magnitude }
    }
}
