//! Transforms: a matrix of the same shape, moved and scaled by what it measures of itself.
//!
//! All but softmax are `(x − offset) / divisor`, with one offset and divisor in all, per column or
//! per row; they differ in what these are. Rows are measured and scaled while they are in the
//! cache; columns and the whole matrix take a pass to measure and a pass to scale. What cannot be
//! measured in float64 as it is, is measured and scaled after a multiplication by a power of two.

mod fit;

use arrow_schema::DataType;

pub use fit::{Fit, Fitted};

use super::by_rows::{self, Block, by_rows};
use super::call::{self, Call, Driven, Held, Pass};
use super::fused::{Nulls, Stage, block_step};
use super::reduce::{self, Order, Statistic};
use super::reduction::{Reduction, RowNodes};
use super::state::Seen;
use super::{Per, Value, real_type};
use crate::buffer::{collected, vec_of};
use crate::dispatch::{Level, Plan, Work, run};
use crate::error::Result;
use crate::kernel::{
    Affine, Body, Both, Deviation, Element, Extreme, Itself, Magnitude, One, Partial, Real,
    Reducer, Scale, Scaled, Simd, Spread, Squared, Sums, Tile, affine_all, affine_each,
    affine_each_with_rests, affine_rescaled, exp_each,
};
use crate::matrix::{Matrix, Number};

/// Divides each row (or column, or all) by its norm. A row with a null, or a zero vector, is null;
/// so is a zero column.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Order, Per, normalize}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![3.0, 4.0, 0.0, 0.0]));
/// let unit = normalize(&Matrix::reshape(&flat, 2)?, Per::Row, Order::Two)?.to_arrays()?;
/// let expected = Float64Array::from(vec![Some(0.6), Some(0.8), None, None]);
/// assert_eq!(unit[0].as_primitive::<Float64Type>(), &expected);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// None but those of every call: no memory, an interrupt, a setting.
pub fn normalize(x: &Matrix, per: Per, order: Order) -> Result<Matrix> {
    execute("normalize", Transform::Normalize, x, per, order)
}

/// Subtracts the mean and divides by the standard deviation: of each column, of each row, or of
/// all. Where that is zero, so are the results. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn standardize(x: &Matrix, per: Per) -> Result<Matrix> {
    execute("standardize", Transform::Standardize, x, per, Order::Two)
}

/// Subtracts the mean of each column, of each row, or of all. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn center(x: &Matrix, per: Per) -> Result<Matrix> {
    execute("center", Transform::Center, x, per, Order::Two)
}

/// Moves the smallest element to 0 and the largest to 1: of each column, of each row, or of all.
/// Where they are the same, the results are 0. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn minmax_scale(x: &Matrix, per: Per) -> Result<Matrix> {
    execute("minmax_scale", Transform::MinMaxScale, x, per, Order::Two)
}

/// `e` to the power of each element, by the sum of these over the row. A row with a null is null.
///
/// The largest element of the row is subtracted first, so nothing overflows; the exponential is
/// within 1 ulp and the same on every machine.
///
/// # Errors
///
/// As [`normalize`].
pub fn softmax(x: &Matrix) -> Result<Matrix> {
    execute("softmax", Transform::Softmax, x, Per::Row, Order::Two)
}

/// What rows, columns or a whole matrix are moved and scaled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Divides by the norm.
    Normalize,
    /// Subtracts the mean, and divides by the standard deviation.
    Standardize,
    /// Subtracts the mean.
    Center,
    /// Moves the smallest element to 0 and the largest to 1.
    MinMaxScale,
    /// The exponentials, by their sum.
    Softmax,
}

impl Transform {
    /// The function that it is.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normalize => "normalize",
            Self::Standardize => "standardize",
            Self::Center => "center",
            Self::MinMaxScale => "minmax_scale",
            Self::Softmax => "softmax",
        }
    }

    /// What is measured first, in a pass of its own, unless rows are measured in the cache.
    fn measured(self) -> Statistic {
        match self {
            Self::Center => Statistic::Mean,
            Self::MinMaxScale => Statistic::Max,
            Self::Normalize | Self::Standardize | Self::Softmax => Statistic::Std,
        }
    }
}

fn execute(
    function: &'static str,
    transform: Transform,
    x: &Matrix,
    per: Per,
    order: Order,
) -> Result<Matrix> {
    call::execute(function, &TransformCall { x: Held::Borrowed(x), transform, per, order })?
        .into_matrix()
}

/// The call of a function of the table.
pub(super) fn bind<'a>(transform: Transform, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let (x, per, order) = (call.matrix(0)?, call.per(), call.options.order());
    Ok(Box::new(TransformCall { x, transform, per, order }))
}

/// A call of a transform.
struct TransformCall<'a> {
    x: Held<'a>,
    transform: Transform,
    per: Per,
    order: Order,
}

impl Driven for TransformCall<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let x = &*self.x;
        let scale = ("scale", by_rows::work(x, real_type(x.element_type())));
        if self.per == Per::Row {
            return vec![scale];
        }
        let measure =
            Work { has_vdsp: false, ..reduce::work(x, self.per, self.transform.measured()) };
        vec![("measure", measure), scale]
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        let (x, per) = (&*self.x, self.per);
        let made = match (self.transform, self.order) {
            (Transform::Normalize, Order::One) => affine(x, per, Norm(Sums(Magnitude)), passes),
            (Transform::Normalize, Order::Two) => affine(x, per, Norm(Sums(Squared)), passes),
            (Transform::Normalize, Order::Infinity) => {
                affine(x, per, Norm(Extreme::<true, true>), passes)
            }
            (Transform::Standardize, _) => affine(x, per, Standard, passes),
            (Transform::Center, _) => affine(x, per, Center, passes),
            (Transform::MinMaxScale, _) => affine(x, per, Bounds, passes),
            (Transform::Softmax, _) => softmax_rows(x, passes[0].plan),
        }?;
        Ok(Value::Matrix(made))
    }

    fn like(&self) -> Option<DataType> {
        (self.per == Per::Row).then(|| real_type(self.x.element_type()).clone())
    }

    fn stage(&self, nulls: &Nulls) -> Result<Option<Stage<'_>>> {
        if self.per != Per::Row {
            return Ok(None);
        }
        let x = &*self.x;
        match (self.transform, self.order) {
            (Transform::Normalize, Order::One) => row_step(x, Norm(Sums(Magnitude)), nulls),
            (Transform::Normalize, Order::Two) => row_step(x, Norm(Sums(Squared)), nulls),
            (Transform::Normalize, Order::Infinity) => {
                row_step(x, Norm(Extreme::<true, true>), nulls)
            }
            (Transform::Standardize, _) => row_step(x, Standard, nulls),
            (Transform::Center, _) => row_step(x, Center, nulls),
            (Transform::MinMaxScale, _) => row_step(x, Bounds, nulls),
            (Transform::Softmax, _) => {
                let to = real_type(x.element_type());
                match x.element_type() {
                    DataType::Float32 => block_step::<f32, f32, _>(x, to, Softmax, false, nulls),
                    _ => block_step::<f64, f64, _>(x, to, Softmax, false, nulls),
                }
            }
        }
        .map(Some)
    }
}

/// Rows that are measured and scaled as a step over tiles, as [`affine`] reads and makes them.
fn row_step<M: Measure<f32> + Measure<f64> + 'static>(
    x: &Matrix,
    measure: M,
    nulls: &Nulls,
) -> Result<Stage<'static>> {
    let (to, block) = (real_type(x.element_type()), PerRow(measure));
    match x.element_type() {
        DataType::Float32 => block_step::<f32, f32, _>(x, to, block, true, nulls),
        _ => block_step::<f64, f64, _>(x, to, block, true, nulls),
    }
}

fn softmax_rows(x: &Matrix, plan: Plan) -> Result<Matrix> {
    let to = real_type(x.element_type());
    match x.element_type() {
        DataType::Float32 => by_rows::<f32, f32, _>(x, to, &Softmax, None, plan),
        _ => by_rows::<f64, f64, _>(x, to, &Softmax, None, plan),
    }
}

/// What is done to elements: `(x · power − offset − rest) / divisor`.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// A power of two: 1 but where elements, or what is made of them, overflow or vanish.
    power: f64,
    offset: f64,
    /// What is left out of the offset because it is a float64.
    rest: f64,
    divisor: f64,
}

impl Found {
    /// Nothing.
    const NONE: Self = Self { power: 1.0, offset: 0.0, rest: 0.0, divisor: 1.0 };

    /// As results of type `O` are made.
    fn prepared<O: Scaled>(self) -> Affine {
        let rest = if O::SHOWS_REST { self.rest } else { 0.0 };
        Affine { offset: self.offset, rest, divisor: O::prepared(self.divisor) }
    }
}

/// What is measured, and what becomes of it.
trait Measure<T: Number + Real>: Copy + Sync {
    type Reducer: Reducer<T>;
    fn reducer(self) -> Self::Reducer;
    /// What is done to elements, by the node of these elements multiplied by `power`; `None` if
    /// there is nothing to do, and the results are null.
    fn found(
        self,
        node: <Self::Reducer as Reducer<T>>::Node,
        count: u64,
        power: f64,
    ) -> Option<Found>;
    /// Whether a row with any null is null as a whole, when rows are measured.
    const WHOLE_ROWS: bool = false;
}

/// A divisor; 1 in the place of 0, which leaves the zeros above it alone.
fn not_zero(divisor: f64) -> f64 {
    if divisor == 0.0 { 1.0 } else { divisor }
}

/// A norm.
#[derive(Clone, Copy)]
struct Norm<R>(R);

/// The norm that a node is.
trait NormOf<N> {
    fn norm(self, node: N) -> f64;
}

impl NormOf<f64> for Sums<Magnitude, 1> {
    fn norm(self, sum: f64) -> f64 {
        sum
    }
}

impl NormOf<f64> for Sums<Squared, 1> {
    fn norm(self, squares: f64) -> f64 {
        squares.sqrt()
    }
}

impl<T: Element> NormOf<T> for Extreme<true, true> {
    fn norm(self, largest: T) -> f64 {
        largest.widen()
    }
}

impl<T: Number + Real, R: Reducer<T> + NormOf<R::Node>> Measure<T> for Norm<R> {
    type Reducer = R;
    fn reducer(self) -> R {
        self.0
    }
    fn found(self, node: R::Node, _: u64, power: f64) -> Option<Found> {
        let divisor = self.0.norm(node);
        (divisor != 0.0).then_some(Found { power, divisor, ..Found::NONE })
    }
    const WHOLE_ROWS: bool = true;
}

/// The mean and the standard deviation.
#[derive(Clone, Copy)]
struct Standard;

impl<T: Number + Real> Measure<T> for Standard {
    type Reducer = Sums<Deviation, 2>;
    fn reducer(self) -> Self::Reducer {
        Sums(Deviation)
    }
    fn found(self, spread: Spread, _: u64, power: f64) -> Option<Found> {
        let mean = spread.mean.plus(0.0);
        let divisor = not_zero((spread.squares / spread.count).sqrt());
        Some(Found { power, offset: mean.high, rest: mean.low, divisor })
    }
}

/// The mean.
#[derive(Clone, Copy)]
struct Center;

impl<T: Number + Real> Measure<T> for Center {
    type Reducer = Sums<Itself, 1>;
    fn reducer(self) -> Self::Reducer {
        Sums(Itself)
    }
    fn found(self, sum: f64, count: u64, power: f64) -> Option<Found> {
        // A mean is a number where the sum is none.
        Some(Found { offset: sum / count as f64 / power, ..Found::NONE })
    }
}

/// The smallest and the largest.
#[derive(Clone, Copy)]
struct Bounds;

impl<T: Number + Real> Measure<T> for Bounds {
    type Reducer = Both<Extreme<false, false>, Extreme<true, false>>;
    fn reducer(self) -> Self::Reducer {
        Both(Extreme, Extreme)
    }
    fn found(self, (min, max): (Partial<T>, Partial<T>), _: u64, _: f64) -> Option<Found> {
        let (min, max) = (min.node.widen(), max.node.widen());
        let range = max - min;
        if range.is_infinite() && min.is_finite() && max.is_finite() {
            let (power, offset) = (0.5, min * 0.5);
            return Some(Found { power, offset, rest: 0.0, divisor: max * 0.5 - offset });
        }
        Some(Found { offset: min, divisor: not_zero(range), ..Found::NONE })
    }
}

/// Measures and scales; float16 (which must be rounded once, so not through float32) and integers
/// are read as float64.
fn affine<M: Measure<f32> + Measure<f64>>(
    x: &Matrix,
    per: Per,
    measure: M,
    passes: &[Pass],
) -> Result<Matrix> {
    let to = real_type(x.element_type());
    match x.element_type() {
        DataType::Float32 => measured::<f32, f32, M>(x, to, per, measure, passes),
        _ => measured::<f64, f64, M>(x, to, per, measure, passes),
    }
}

fn measured<T: Number + Real, O: Number + Scaled, M: Measure<T>>(
    x: &Matrix,
    to: &DataType,
    per: Per,
    measure: M,
    passes: &[Pass],
) -> Result<Matrix> {
    if per == Per::Row {
        return by_rows::<T, O, _>(x, to, &PerRow(measure), None, passes[0].plan);
    }
    let reduction = Reduction::new(x.view::<T>()?, measure.reducer(), None, passes[0].plan);
    let Seen { nodes, counts } = reduction.seen(per == Per::Column)?;
    let found = (0..nodes.nodes.len()).map(|i| {
        let Partial { node, scale } = nodes.get(i);
        measure.found(node, counts.get(i), scale.power())
    });
    let mut found = collected(found)?;
    if per == Per::Matrix {
        found = vec_of(found.first().copied().flatten(), x.width())?;
    }
    scaled::<T, O>(x, to, &found, passes[1].plan)
}

/// Scales each column by what was found of it.
fn scaled<T: Number, O: Number + Scaled>(
    x: &Matrix,
    to: &DataType,
    found: &[Option<Found>],
    plan: Plan,
) -> Result<Matrix> {
    let dead = collected(found.iter().map(Option::is_none))?;
    let pattern = Pattern::new::<O>(found)?;
    by_rows::<T, O, _>(x, to, &pattern, dead.contains(&true).then_some(&dead[..]), plan)
}

/// What is done to each column, repeated until the row is long enough that its ends cost nothing.
struct Pattern {
    offsets: Vec<f64>,
    /// Empty if all are zero.
    rests: Vec<f64>,
    divisors: Vec<f64>,
    /// Columns that are multiplied by a power of two first.
    rescaled: Vec<(usize, f64, Affine)>,
}

impl Pattern {
    fn new<O: Scaled>(found: &[Option<Found>]) -> Result<Self> {
        let times = 512usize.div_ceil(found.len().max(1));
        let found = || found.iter().map(|found| found.unwrap_or(Found::NONE));
        let all = |one: fn(Affine) -> f64| {
            let values = (0..times).flat_map(|_| found().map(|found| one(found.prepared::<O>())));
            collected(values)
        };
        let mut rests = all(|by| by.rest)?;
        if rests.iter().all(|rest| *rest == 0.0) {
            rests.clear();
        }
        let rescaled = found().enumerate().filter(|(_, found)| found.power != 1.0);
        let rescaled = rescaled.map(|(c, found)| (c, found.power, found.prepared::<O>()));
        let rescaled = collected(rescaled)?;
        Ok(Self { offsets: all(|by| by.offset)?, rests, divisors: all(|by| by.divisor)?, rescaled })
    }
}

impl<T: Element, O: Scaled> Block<T, O> for Pattern {
    type Workspace = ();
    const NEEDS_VALIDITY: bool = false;
    const WHOLE_ROWS: bool = false;

    fn fill(&self) -> T {
        T::default()
    }

    fn run(
        &self,
        level: Level,
        tile: Tile<'_, T>,
        width: usize,
        (): &mut (),
        out: &mut [O],
        _: &mut [bool],
    ) {
        let period = self.offsets.len();
        for (x, out) in tile.x.chunks(period).zip(out.chunks_mut(period)) {
            let (offsets, rests, divisors) = (&self.offsets, &self.rests, &self.divisors);
            level.run(AffineEach { x, offsets, rests, divisors, out });
        }
        for (column, power, by) in &self.rescaled {
            let x = tile.x[*column..].iter().step_by(width);
            for (o, x) in out[*column..].iter_mut().step_by(width).zip(x) {
                *o = affine_rescaled(*x, *power, *by);
            }
        }
    }
}

/// Rows that are measured and scaled in the cache.
struct PerRow<M>(M);

/// Widths from which a row is scaled by two numbers; below, they are repeated for each element, so
/// that the loop does not stop at every row.
const WIDE: usize = 32;

/// Workspace for what is measured of a block.
pub(super) struct Measured<N> {
    nodes: Vec<N>,
    scales: Vec<Scale>,
    offsets: Vec<f64>,
    /// Empty while all are zero.
    rests: Vec<f64>,
    divisors: Vec<f64>,
    /// Rows that are multiplied by a power of two first.
    rescaled: Vec<(usize, f64, Affine)>,
}

impl<N> Default for Measured<N> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            scales: Vec::new(),
            offsets: Vec::new(),
            rests: Vec::new(),
            divisors: Vec::new(),
            rescaled: Vec::new(),
        }
    }
}

/// What a measure reduces elements of type `T` to.
type NodeOf<T, M> = <<M as Measure<T>>::Reducer as Reducer<T>>::Node;

impl<T: Number + Real, O: Scaled, M: Measure<T>> Block<T, O> for PerRow<M> {
    type Workspace = Measured<NodeOf<T, M>>;
    // The count of valid elements is asked for, where they are not all.
    const NEEDS_VALIDITY: bool = true;
    const WHOLE_ROWS: bool = M::WHOLE_ROWS;

    fn fill(&self) -> T {
        self.0.reducer().fill()
    }

    fn run(
        &self,
        level: Level,
        tile: Tile<'_, T>,
        width: usize,
        workspace: &mut Self::Workspace,
        out: &mut [O],
        missing: &mut [bool],
    ) {
        let reducer = self.0.reducer();
        let Measured { nodes, scales, offsets, rests, divisors, rescaled } = workspace;
        nodes.clear();
        run::resize(nodes, missing.len(), reducer.empty());
        scales.clear();
        level.run(RowNodes { reducer, tile, width, out: nodes, scales });
        offsets.clear();
        rests.clear();
        divisors.clear();
        if width < WIDE {
            run::reserve(offsets, tile.x.len());
            run::reserve(divisors, tile.x.len());
        }
        rescaled.clear();
        for (r, (node, missing)) in nodes.iter().zip(missing).enumerate() {
            let at = r * width..(r + 1) * width;
            let valid = tile.valid.map(|valid| &valid[at.clone()]);
            let count =
                valid.map_or(width, |valid| valid.iter().filter(|valid| **valid).count()) as u64;
            let x = &tile.x[at.clone()];
            let power = scales.get(r).map_or(1.0, |scale| scale.power());
            let found = self.0.found(*node, count, power);
            *missing = found.is_none();
            let found = found.unwrap_or(Found::NONE);
            let by = found.prepared::<O>();
            if found.power != 1.0 {
                rescaled.push((r, found.power, by));
            }
            if width < WIDE {
                offsets.resize(at.end, by.offset);
                divisors.resize(at.end, by.divisor);
                if by.rest != 0.0 || !rests.is_empty() {
                    // Those before it were zero.
                    run::resize(rests, at.start, 0.0);
                    run::resize(rests, at.end, by.rest);
                }
            } else {
                level.run(AffineAll { x, by, out: &mut out[at] });
            }
        }
        if width < WIDE {
            level.run(AffineEach { x: tile.x, offsets, rests, divisors, out });
        }
        for (r, power, by) in rescaled {
            let at = *r * width..(*r + 1) * width;
            for (o, x) in out[at.clone()].iter_mut().zip(&tile.x[at]) {
                *o = affine_rescaled(*x, *power, *by);
            }
        }
    }
}

struct Softmax;

impl<T: Element, O: Scaled> Block<T, O> for Softmax {
    type Workspace = Vec<f64>;
    const NEEDS_VALIDITY: bool = false;
    const WHOLE_ROWS: bool = true;

    fn fill(&self) -> T {
        T::default()
    }

    fn run(
        &self,
        level: Level,
        tile: Tile<'_, T>,
        width: usize,
        powers: &mut Vec<f64>,
        out: &mut [O],
        _: &mut [bool],
    ) {
        run::resize(powers, width, 0.0);
        level.run(SoftmaxRows { x: tile.x, powers, out });
    }
}

struct SoftmaxRows<'a, T, O> {
    x: &'a [T],
    /// Workspace for one row.
    powers: &'a mut [f64],
    out: &'a mut [O],
}

impl<T: Element, O: Scaled> Body for SoftmaxRows<'_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, powers, out } = self;
        let width = powers.len();
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let mut max = Reducer::<T>::one(Extreme::<true, false>, 0);
            max.feed(simd, Tile { x, valid: None });
            exp_each(x, max.finish().node.widen(), powers);
            let mut sum = Reducer::<f64>::one(Sums(Itself), 0);
            sum.feed(simd, Tile { x: &*powers, valid: None });
            let divisor = O::prepared(One::<f64, f64>::finish(sum).node);
            affine_all(powers, Affine { offset: 0.0, rest: 0.0, divisor }, out);
        }
    }
}

struct AffineAll<'a, T, O> {
    x: &'a [T],
    by: Affine,
    out: &'a mut [O],
}

impl<T: Element, O: Scaled> Body for AffineAll<'_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        affine_all(self.x, self.by, self.out);
    }
}

struct AffineEach<'a, T, O> {
    x: &'a [T],
    offsets: &'a [f64],
    /// Empty if all are zero.
    rests: &'a [f64],
    divisors: &'a [f64],
    out: &'a mut [O],
}

impl<T: Element, O: Scaled> Body for AffineEach<'_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { x, offsets, rests, divisors, out } = self;
        if O::SHOWS_REST && !rests.is_empty() {
            affine_each_with_rests(x, [offsets, rests, divisors], out);
        } else {
            affine_each(x, offsets, divisors, out);
        }
    }
}
