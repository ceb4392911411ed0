//! Reductions: one number in all, per column or per row.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::call::{self, Call, Driven, Held, Pass};
use super::fused::{Nulls, Stage, statistic_sink};
use super::reduction::{ByVendor, Reduction, Results, Valid};
use super::registry::{self, Driver};
use super::state::{Finish, Required};
use super::weights::{Aligned, weighted};
use super::{Per, Value, real_type, with_wide};
use crate::buffer::Output;
use crate::dispatch::vendor::Vendor;
use crate::dispatch::{Family, Plan, Work, run};
use crate::error::{Error, Result};
use crate::kernel::{
    ArgExtreme, Deviation, Element, ExactSum, Extreme, Indexed, Integer, Itself, Magnitude, Real,
    Reducer, Spread, Squared, Sums, Weighed, WeighedDeviation, WeighedSums, WeighedTotal, Words,
};
use crate::matrix::{self, Matrix, Number, Source, array_of};

/// What is reduced to one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// The elements, added up. Floats are added in float64 and rounded once; integers exactly, and
    /// come out as int64 or uint64.
    Sum,
    /// The sum by the count. Of integers, the exact sum, divided and rounded to float64 once.
    Mean,
    /// The smallest element. A NaN wins, and −0 is less than +0.
    Min,
    /// The largest element. A NaN wins, and +0 is more than −0.
    Max,
    /// How many elements are not null, as int64.
    Count,
    /// Squared distances from the mean, added up and divided by the count less `ddof`; null where
    /// the count is not more than that. Of integers in float64.
    ///
    /// One pass over memory; each leaf of 1024 elements is shifted by its first, and means are kept
    /// to twice the digits of a float64, so a mean far from zero costs no digits.
    Var,
    /// The root of the variance.
    Std,
    /// The norm of an [`Order`]. Of integers in float64. Squares that overflow or vanish in float64
    /// do not disturb it.
    Norm,
    /// The index of the smallest element, as int64: in the matrix, counted row by row, in its
    /// column or in its row. The first of several; the first NaN if there is one.
    ArgMin,
    /// The index of the largest element.
    ArgMax,
}

impl Statistic {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        let mut functions = registry::list_functions();
        let entry = functions.find(|function| function.driver == Driver::Statistic(self));
        entry.expect("every statistic has an entry").name
    }

    /// The type of its results.
    pub(crate) fn result_type(self, element: &DataType, is_weighted: bool) -> DataType {
        match self {
            Self::Sum if is_weighted => real_type(element).clone(),
            Self::Sum if element.is_unsigned_integer() => DataType::UInt64,
            Self::Sum if element.is_signed_integer() => DataType::Int64,
            Self::Count | Self::ArgMin | Self::ArgMax => DataType::Int64,
            Self::Min | Self::Max => element.clone(),
            _ => real_type(element).clone(),
        }
    }
}

/// How a reduction treats nulls and empties, and which variance or norm it is.
///
/// ```
/// use raptors_arrow::compute::ReduceOptions;
///
/// let sample = ReduceOptions { ddof: 1, ..ReduceOptions::default() };
/// assert!(sample.skip_nulls && sample.min_count == 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceOptions {
    /// Skip nulls; else one null makes its result null.
    pub skip_nulls: bool,
    /// Fewer valid values than this make the result null.
    pub min_count: usize,
    /// What is taken from the count before it divides a variance: 1 for a sample.
    pub ddof: usize,
    /// Which norm.
    pub order: Order,
    /// The type that elements are seen in; their own if there is none.
    pub dtype: Option<&'static DataType>,
}

impl Default for ReduceOptions {
    fn default() -> Self {
        Self { skip_nulls: true, min_count: 1, ddof: 0, order: Order::Two, dtype: None }
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

/// Reduces a matrix to one number in all, per column or per row: an array of 1, `width` or `rows`.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Per, ReduceOptions, Statistic, reduce}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 6.0]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let sample = ReduceOptions { ddof: 1, ..ReduceOptions::default() };
/// let variances = reduce(Statistic::Var, &x, Per::Column, &sample)?;
/// assert_eq!(variances.as_primitive::<Float64Type>().values(), &[2.0, 8.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Overflow`] for integers whose sum does not fit 64 bits.
pub fn reduce(
    statistic: Statistic,
    x: &Matrix,
    per: Per,
    options: &ReduceOptions,
) -> Result<ArrayRef> {
    let x = call::seen(x, options.dtype).map_err(|error| error.in_function(statistic.name()))?;
    let call = Reduce { x, weights: None, statistic, per, options: *options };
    call::execute(statistic.name(), &call)?.into_array()
}

/// The same of elements that have weights, for a sum, a mean, a variance or its root: one per row
/// for [`Per::Column`], one per column for [`Per::Row`], or a matrix of one per element.
///
/// A null weight leaves out what it is of. Where weights add up to zero, or to no more than `ddof`,
/// means and variances are null.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Per, ReduceOptions, Statistic, reduce_weighted}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 6.0]));
/// let (x, weights) = (Matrix::reshape(&flat, 2)?, Float64Array::from(vec![3.0, 1.0]));
/// let weights = Matrix::reshape(&weights, 1)?;
/// let options = ReduceOptions::default();
/// let means = reduce_weighted(Statistic::Mean, &x, &weights, Per::Column, &options)?;
/// assert_eq!(means.as_primitive::<Float64Type>().values(), &[1.5, 3.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Rows`], [`Error::Width`] or [`Error::Argument`] for weights that do not line up, and
/// [`Error::Argument`] for other statistics and for weights below zero of variances.
pub fn reduce_weighted(
    statistic: Statistic,
    x: &Matrix,
    weights: &Matrix,
    per: Per,
    options: &ReduceOptions,
) -> Result<ArrayRef> {
    let in_function = |error: Error| error.in_function(statistic.name());
    let x = call::seen(x, options.dtype).map_err(in_function)?;
    let weights = Aligned::new(&x, per, Held::Borrowed(weights)).map_err(in_function)?;
    let call = Reduce { x, weights: Some(weights), statistic, per, options: *options };
    call::execute(statistic.name(), &call)?.into_array()
}

/// Adds up a matrix, in all, per column or per row,
/// with the default options. See [`Statistic::Sum`].
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Per, sum}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0]));
/// let results = sum(&Matrix::reshape(&flat, 2)?, Per::Column)?;
/// assert_eq!(results.as_primitive::<Float64Type>().values(), &[4.0, 6.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`reduce`].
pub fn sum(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::Sum, x, per, &ReduceOptions::default())
}

/// The mean in all, of each column or of each row,
/// with the default options. See [`Statistic::Mean`].
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Per, mean}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(3.0), Some(4.0)]));
/// let results = mean(&Matrix::reshape(&flat, 2)?, Per::Column)?;
/// assert_eq!(results.as_primitive::<Float64Type>().values(), &[2.0, 4.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`reduce`].
pub fn mean(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::Mean, x, per, &ReduceOptions::default())
}

/// The smallest element in all, of each column or of each row,
/// with the default options. See [`Statistic::Min`].
///
/// # Errors
///
/// As [`reduce`].
pub fn min(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::Min, x, per, &ReduceOptions::default())
}

/// The largest element in all, of each column or of each row,
/// with the default options. See [`Statistic::Max`].
///
/// # Errors
///
/// As [`reduce`].
pub fn max(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::Max, x, per, &ReduceOptions::default())
}

/// How many elements are not null in all, in each column or in each row,
/// with the default options. See [`Statistic::Count`].
///
/// # Errors
///
/// As [`reduce`].
pub fn count(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::Count, x, per, &ReduceOptions::default())
}

/// The variance of all elements, of each column or of each row,
/// with the default options. See [`Statistic::Var`].
///
/// # Errors
///
/// As [`reduce`].
pub fn var(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::Var, x, per, &ReduceOptions::default())
}

/// The standard deviation of all elements, of each column or of each row,
/// with the default options. See [`Statistic::Std`].
///
/// # Errors
///
/// As [`reduce`].
pub fn std(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::Std, x, per, &ReduceOptions::default())
}

/// The norm of all elements, of each column or of each row,
/// with the default options. See [`Statistic::Norm`].
///
/// # Errors
///
/// As [`reduce`].
pub fn norm(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::Norm, x, per, &ReduceOptions::default())
}

/// Where the smallest element is, in all, in each column or in each row,
/// with the default options. See [`Statistic::ArgMin`].
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Int64Type};
/// use raptors_arrow::{Matrix, compute::{Per, argmin}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(2.0), Some(3.0), Some(1.0)]));
/// let results = argmin(&Matrix::reshape(&flat, 2)?, Per::Column)?;
/// assert_eq!(results.as_primitive::<Int64Type>().values(), &[1, 1]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`reduce`].
pub fn argmin(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::ArgMin, x, per, &ReduceOptions::default())
}

/// Where the largest element is, in all, in each column or in each row,
/// with the default options. See [`Statistic::ArgMax`].
///
/// # Errors
///
/// As [`reduce`].
pub fn argmax(x: &Matrix, per: Per) -> Result<ArrayRef> {
    reduce(Statistic::ArgMax, x, per, &ReduceOptions::default())
}

/// The call of a function of the table.
pub(super) fn bind<'a>(statistic: Statistic, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let (x, per, options) = (call.matrix(0)?, call.per(), call.options.reduce());
    let weights = call.optional_matrix(1)?;
    let weights = weights.map(|weights| Aligned::new(&x, per, weights)).transpose()?;
    Ok(Box::new(Reduce { x, weights, statistic, per, options }))
}

/// A call of a reduction.
struct Reduce<'a> {
    x: Held<'a>,
    weights: Option<Aligned<'a>>,
    statistic: Statistic,
    per: Per,
    options: ReduceOptions,
}

impl Driven for Reduce<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let work = work(&self.x, self.per, self.statistic);
        let Some(weights) = &self.weights else { return vec![("reduce", work)] };
        let bytes_read = work.bytes_read.saturating_add(weights.bytes());
        vec![("reduce", Work { bytes_read, has_vdsp: false, ..work })]
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        let Self { statistic, per, options, .. } = *self;
        let (weights, is_weighted) = (self.weights.as_ref(), self.weights.is_some());
        weights.map_or(Ok(()), |weights| weights.check(statistic))?;
        let run = RunStatistic { x: &self.x, weights, per, options, plan: passes[0].plan };
        let array = match statistic {
            Statistic::Count => run.count(),
            _ => with_reducer((statistic, is_weighted), self.x.element_type(), &options, run),
        }?;
        Ok(match per {
            Per::Matrix => Value::Scalar(array),
            Per::Column | Per::Row => Value::Vector(array),
        })
    }

    fn is_sink(&self) -> bool {
        true
    }

    fn stage(&self, nulls: &Nulls) -> Result<Option<Stage<'_>>> {
        let Self { statistic, per, ref options, .. } = *self;
        if self.weights.is_some() {
            return Ok(None);
        }
        statistic_sink(statistic, &self.x, per, options, nulls).map(|sink| Some(Stage::Sink(sink)))
    }
}

/// The bytes that a reduction moves.
pub(super) fn work(x: &Matrix, per: Per, statistic: Statistic) -> Work {
    let element = x.element_type();
    let result = statistic.result_type(element, false).primitive_width().unwrap_or(8);
    // Values are not counted, only their validity.
    let elements = x.rows().saturating_mul(x.width());
    let validity = if x.has_nulls() { elements.div_ceil(8) } else { 0 };
    let is_sum = matches!(statistic, Statistic::Sum | Statistic::Mean);
    Work {
        family: Family::Reduction,
        bytes_read: if statistic == Statistic::Count { validity } else { x.bytes() },
        bytes_written: results(x, per).0.saturating_mul(result),
        // `sve` wants one contiguous run per result.
        has_vdsp: is_sum
            && matches!(element, DataType::Float32 | DataType::Float64)
            && per != Per::Column
            && !x.is_by_columns()
            && !x.is_converted()
            && !x.has_nulls(),
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

/// A reduction that is planned.
#[derive(Clone, Copy)]
struct RunStatistic<'a> {
    x: &'a Matrix,
    weights: Option<&'a Aligned<'a>>,
    per: Per,
    options: ReduceOptions,
    plan: Plan,
}

impl RunStatistic<'_> {
    fn count(&self) -> Result<ArrayRef> {
        let Self { x, per, .. } = *self;
        let counts = matrix::count(x, per)?;
        let mut values = Output::<i64>::new(results(x, per).0)?;
        run::in_steps(0..values.len(), 1 << 20, |range| {
            range.for_each(|i| values[i] = counts.get(i) as i64);
            Ok(())
        })?;
        let nulls = if per == Per::Row { x.row_nulls(0..x.rows())? } else { None };
        array_of(values, nulls, &DataType::Int64)
    }
}

impl WithReducer for RunStatistic<'_> {
    type Out = ArrayRef;

    fn with<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<ArrayRef> {
        self.reduced(self.x.view::<T>()?, how, to)
    }

    fn with_weights<O: Number, R: Reducer<f64, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<f64, R, F>,
        to: &DataType,
    ) -> Result<ArrayRef> {
        self.reduced(weighted(self.x, self.weights)?, how, to)
    }
}

impl RunStatistic<'_> {
    fn reduced<T: Number, O: Number, R: Reducer<T>, F: Finish<R::Node, O>>(
        self,
        source: impl Source<T>,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<ArrayRef> {
        let Self { x, per, options, plan, .. } = self;
        let reduction = Reduction::new(source, how.reducer, how.vendor, plan);
        let (len, full) = results(x, per);
        let min = how.min_count as u64;
        let required = Required { min, all: (!options.skip_nulls).then_some(full as u64) };
        let Results { values, valid, failed } = reduction.results(per, how.finish, required)?;
        let mut nulls = match valid {
            Valid::All(true) => None,
            Valid::All(false) => Some(matrix::from_bits(len, |_| false)?),
            Valid::Each(valid) => Some(matrix::from_bools(&valid)?),
        };
        if per == Per::Row && x.null_rows() > 0 {
            nulls = matrix::union(nulls, x.row_nulls(0..x.rows())?)?;
        }
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let is_valid = |i: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*i));
        if let Some(index) = failed.into_iter().find(is_valid) {
            let what = match per {
                Per::Matrix => "result",
                Per::Column => "column",
                Per::Row => "row",
            };
            return Err(Error::Overflow { what, index, into: to.clone() });
        }
        array_of(values, nulls, to)
    }
}

/// How elements read as `T` become results: by which reducer, and what is made of its nodes.
pub(super) struct How<T: Number, R: Reducer<T>, F> {
    pub(super) reducer: R,
    pub(super) vendor: Option<ByVendor<T, R::Node>>,
    pub(super) finish: F,
    /// Fewer valid values than this give null.
    pub(super) min_count: usize,
}

/// What is done with a statistic once its types are known: a call, or an accumulator.
pub(super) trait WithReducer {
    type Out;
    /// Elements read as `T`, results made as `O` and stored as `to`.
    fn with<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<Self::Out>;

    /// The same of elements that have weights.
    fn with_weights<O: Number, R: Reducer<f64, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<f64, R, F>,
        to: &DataType,
    ) -> Result<Self::Out>
    where
        Self: Sized,
    {
        self.with(how, to)
    }
}

/// Calls `visitor` with the reducer and the types of a statistic of elements of a type, which may
/// have weights.
pub(super) fn with_reducer<V: WithReducer>(
    (statistic, is_weighted): (Statistic, bool),
    element: &DataType,
    options: &ReduceOptions,
    visitor: V,
) -> Result<V::Out> {
    let typed = Typed { element, min_count: options.min_count, visitor };
    let (ddof, root) = (options.ddof, statistic == Statistic::Std);
    if is_weighted {
        return match statistic {
            Statistic::Sum => typed.weighed(WeighedSums(WeighedTotal), Total),
            Statistic::Mean => typed.weighed(WeighedSums(WeighedTotal), Mean),
            Statistic::Var | Statistic::Std => {
                typed.weighed(WeighedSums(WeighedDeviation), WeighedVariance { ddof, root })
            }
            other => Err(Error::Argument {
                argument: "weights",
                expected: "none but for sum, mean, var and std",
                got: other.name().to_owned(),
            }),
        };
    }
    match statistic {
        Statistic::Sum => typed.sum(),
        Statistic::Mean => typed.mean(),
        Statistic::Min => typed.more_than(0).extreme(Extreme::<false, false>),
        Statistic::Max => typed.more_than(0).extreme(Extreme::<true, false>),
        Statistic::ArgMin => typed.more_than(0).index(ArgExtreme::<false>),
        Statistic::ArgMax => typed.more_than(0).index(ArgExtreme::<true>),
        // Whatever is reduced, its count is counted.
        Statistic::Count => typed.more_than(0).extreme(Extreme::<true, false>),
        Statistic::Var | Statistic::Std => {
            typed.more_than(ddof).floats(Sums(Deviation), Variance { ddof, root })
        }
        Statistic::Norm => match options.order {
            Order::One => typed.floats(Sums(Magnitude), Total),
            Order::Infinity => typed.floats(Extreme::<true, true>, Largest),
            Order::Two => typed.floats(Sums(Squared), Root),
        },
    }
}

/// A visitor, and the type of the elements.
struct Typed<'a, V> {
    element: &'a DataType,
    min_count: usize,
    visitor: V,
}

impl<V: WithReducer> Typed<'_, V> {
    /// The same with no answer for `n` values or fewer.
    fn more_than(self, n: usize) -> Self {
        Self { min_count: self.min_count.max(n.saturating_add(1)), ..self }
    }

    fn visit<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        reducer: R,
        vendor: Option<ByVendor<T, R::Node>>,
        finish: F,
        to: &DataType,
    ) -> Result<V::Out> {
        let min_count = self.min_count;
        self.visitor.with::<T, O, R, F>(How { reducer, vendor, finish, min_count }, to)
    }

    fn sum(self) -> Result<V::Out> {
        match self.element {
            DataType::UInt64 => {
                self.visit::<u64, u64, _, _>(ExactSum, None, ExactTotal, &DataType::UInt64)
            }
            unsigned if unsigned.is_unsigned_integer() => {
                self.visit::<i64, u64, _, _>(ExactSum, None, ExactTotal, &DataType::UInt64)
            }
            signed if signed.is_signed_integer() => {
                self.visit::<i64, i64, _, _>(ExactSum, None, ExactTotal, &DataType::Int64)
            }
            _ => self.sums(Total),
        }
    }

    fn mean(self) -> Result<V::Out> {
        match self.element {
            DataType::UInt64 => {
                self.visit::<u64, f64, _, _>(ExactSum, None, ExactMean, &DataType::Float64)
            }
            integer if integer.is_integer() => {
                self.visit::<i64, f64, _, _>(ExactSum, None, ExactMean, &DataType::Float64)
            }
            _ => self.sums(Mean),
        }
    }

    /// A reduction of floats; float16 (which must be rounded once, so not through float32) and
    /// integers are read as float64.
    fn floats<R, F>(self, reducer: R, finish: F) -> Result<V::Out>
    where
        R: Reducer<f32, Node: Words> + Reducer<f64, Node: Words>,
        F: Finish<<R as Reducer<f32>>::Node, f32> + Finish<<R as Reducer<f64>>::Node, f64>,
    {
        let to = real_type(self.element);
        match self.element {
            DataType::Float32 => self.visit::<f32, f32, R, F>(reducer, None, finish, to),
            _ => self.visit::<f64, f64, R, F>(reducer, None, finish, to),
        }
    }

    /// A reduction of elements with their weights, both read as float64.
    fn weighed<R, F>(self, reducer: R, finish: F) -> Result<V::Out>
    where
        R: Reducer<f64, Node: Words>,
        F: Finish<R::Node, f32> + Finish<R::Node, f64>,
    {
        let (to, min_count, vendor) = (real_type(self.element), self.min_count, None);
        let how = How { reducer, vendor, finish, min_count };
        match self.element {
            DataType::Float32 => self.visitor.with_weights::<f32, R, F>(how, to),
            _ => self.visitor.with_weights::<f64, R, F>(how, to),
        }
    }

    /// The same for sums, which a vendor library may make.
    fn sums<F: Finish<f64, f32> + Finish<f64, f64>>(self, finish: F) -> Result<V::Out> {
        let to = real_type(self.element);
        if *self.element == DataType::Float32 {
            let vendor: ByVendor<f32, f64> = |x| <f32 as Vendor>::sum(x).map(f64::from);
            return self.visit::<f32, f32, _, F>(Sums(Itself), Some(vendor), finish, to);
        }
        let vendor: ByVendor<f64, f64> = |x| <f64 as Vendor>::sum(x);
        self.visit::<f64, f64, _, F>(Sums(Itself), Some(vendor), finish, to)
    }

    fn extreme<R>(self, reducer: R) -> Result<V::Out>
    where
        R: Reducer<f32, Node = f32>
            + Reducer<f64, Node = f64>
            + Reducer<i64, Node = i64>
            + Reducer<u64, Node = u64>,
    {
        let to = self.element;
        with_wide!(to, T => self.visit::<T, T, R, _>(reducer, None, AsIs, to))
    }

    fn index<R>(self, reducer: R) -> Result<V::Out>
    where
        R: Reducer<f32, Node = Indexed<f32>>
            + Reducer<f64, Node = Indexed<f64>>
            + Reducer<i64, Node = Indexed<i64>>
            + Reducer<u64, Node = Indexed<u64>>,
    {
        with_wide!(self.element, T => {
            self.visit::<T, i64, R, _>(reducer, None, Index, &DataType::Int64)
        })
    }
}

/// The sum, rounded once; a NaN is made canonical.
#[derive(Clone, Copy)]
struct Total;

impl<O: Real> Finish<f64, O> for Total {
    #[inline(always)]
    fn one(self, sum: f64, count: u64, power: f64) -> O {
        // The sum of nothing is +0.0, though the neutral value is -0.0.
        O::round(if count == 0 { 0.0 } else { sum / power }).canonical()
    }
}

/// The sum by the count.
#[derive(Clone, Copy)]
struct Mean;

impl<O: Real> Finish<f64, O> for Mean {
    #[inline(always)]
    fn one(self, sum: f64, count: u64, power: f64) -> O {
        O::round(sum / count as f64 / power).canonical()
    }
    #[inline(always)]
    fn all(self, sums: &[f64], count: usize, out: &mut [O]) {
        let pairs = out.iter_mut().zip(sums);
        if count.is_power_of_two() {
            // Dividing by a power of two is multiplying by its inverse, to the bit, and faster.
            let inverse = 1.0 / count as f64;
            pairs.for_each(|(o, sum)| *o = O::round(sum * inverse).canonical());
        } else {
            pairs.for_each(|(o, sum)| *o = self.one(*sum, count as u64, 1.0));
        }
    }
}

impl<O: Real> Finish<Weighed, O> for Total {
    #[inline(always)]
    fn one(self, Weighed { sum, .. }: Weighed, count: u64, _: f64) -> O {
        O::round(if count == 0 { 0.0 } else { sum }).canonical()
    }
}

impl<O: Real> Finish<Weighed, O> for Mean {
    const MAY_BE_NULL: bool = true;
    #[inline(always)]
    fn one(self, Weighed { sum, weight }: Weighed, _: u64, _: f64) -> O {
        O::round(sum / weight).canonical()
    }
    #[inline(always)]
    fn is_null(self, node: &Weighed) -> bool {
        node.weight == 0.0
    }
}

/// Squared distances from the mean times weights, by the weights less `ddof`; or the root of that.
#[derive(Clone, Copy)]
struct WeighedVariance {
    ddof: usize,
    root: bool,
}

impl<O: Real> Finish<Spread, O> for WeighedVariance {
    const MAY_BE_NULL: bool = true;
    #[inline(always)]
    fn one(self, spread: Spread, _: u64, _: f64) -> O {
        let variance = spread.squares / (spread.count - self.ddof as f64);
        O::round(if self.root { variance.sqrt() } else { variance }).canonical()
    }
    #[inline(always)]
    fn is_null(self, spread: &Spread) -> bool {
        spread.count <= self.ddof as f64
    }
}

/// The root of a sum of squares.
#[derive(Clone, Copy)]
struct Root;

impl<O: Real> Finish<f64, O> for Root {
    #[inline(always)]
    fn one(self, squares: f64, count: u64, power: f64) -> O {
        O::round(if count == 0 { 0.0 } else { squares.sqrt() / power }).canonical()
    }
}

/// The largest magnitude: 0 of none.
#[derive(Clone, Copy)]
struct Largest;

impl<T: Real, O: Real> Finish<T, O> for Largest {
    #[inline(always)]
    fn one(self, largest: T, count: u64, _: f64) -> O {
        O::round(if count == 0 { 0.0 } else { largest.widen() }).canonical()
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
    fn one(self, spread: Spread, count: u64, power: f64) -> O {
        let variance = spread.squares / (count as f64 - self.ddof as f64);
        let result = if self.root { variance.sqrt() } else { variance / power };
        O::round(result / power).canonical()
    }
}

/// The node itself.
#[derive(Clone, Copy)]
struct AsIs;

impl<T: Element> Finish<T, T> for AsIs {
    #[inline(always)]
    fn one(self, node: T, _: u64, _: f64) -> T {
        node
    }
}

/// The index.
#[derive(Clone, Copy)]
struct Index;

impl<T: Element> Finish<Indexed<T>, i64> for Index {
    #[inline(always)]
    fn one(self, at: Indexed<T>, _: u64, _: f64) -> i64 {
        at.index as i64
    }
}

/// An exact sum, if it fits.
#[derive(Clone, Copy)]
struct ExactTotal;

impl<O: Integer> Finish<i128, O> for ExactTotal {
    #[inline(always)]
    fn one(self, sum: i128, _: u64, _: f64) -> O {
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
    fn one(self, sum: i128, count: u64, _: f64) -> f64 {
        const EXACT: i128 = 1 << 53;
        if sum.abs() <= EXACT && count <= EXACT as u64 {
            return (sum as f64 / count as f64).canonical();
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
