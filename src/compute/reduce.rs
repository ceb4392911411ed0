//! Reductions: one number in all, per column or per row.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::call::{self, Call, Driven, Held, Pass};
use super::fused::{Nulls, Stage, statistic_sink};
use super::reduction::{Reduction, Results, Valid};
use super::state::{Finish, Required};
pub use super::statistic::Statistic;
pub(super) use super::statistic::{How, WithReducer, with_reducer};
use super::weights::{Aligned, weighted};
use super::{Per, Value};
use crate::buffer::Output;
use crate::dispatch::{Family, Plan, Work, run};
use crate::error::{Error, Result};
use crate::kernel::{Reducer, Words};
use crate::matrix::{self, Matrix, Number, Source, array_of};

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
