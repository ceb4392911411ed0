//! The statistics: what each is reduced by, and how its results are made.
//!
//! A statistic is a variant of [`Statistic`], its line in [`with_reducer`], and what makes a result of
//! a node of its tree, a `Finish`. Its entry in the table gives it its name.

use arrow_schema::DataType;

use super::reduce::{Order, ReduceOptions};
use super::reduction::ByVendor;
use super::registry::{self, Driver};
use super::state::Finish;
use super::{real_type, with_wide};
use crate::dispatch::vendor::Vendor;
use crate::error::{Error, Result};
use crate::kernel::{
    ArgExtreme, Deviation, Element, ExactSum, Extreme, Indexed, Integer, Itself, Magnitude, Real,
    Reducer, Spread, Squared, Sums, Weighed, WeighedDeviation, WeighedSums, WeighedTotal, Words,
};
use crate::matrix::Number;

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
