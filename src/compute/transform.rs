//! Transforms: a matrix of the same shape, moved and scaled by what it measures of itself.
//!
//! All but softmax are `(x − offset) / divisor`, with one offset and divisor in all, per column or
//! per row; they differ in what these are. Rows are measured and scaled while they are in the
//! cache; columns and the whole matrix take a pass to measure and a pass to scale.

use arrow_schema::DataType;

use super::Per;
use super::by_rows::{Block, by_rows};
use super::reduce::{self, Order};
use super::split::{Reduction, RowNodes};
use crate::dispatch::Level;
use crate::error::Result;
use crate::kernel::{
    Affine, Body, Both, Deviation, Element, Extreme, Guarded, Itself, Magnitude, One, Reducer,
    Scaled, Simd, Spread, Squared, Sums, Tile, affine_all, affine_each, exp_each,
};
use crate::matrix::{Matrix, Number, count};

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
    match order {
        Order::One => affine("normalize", x, per, Norm(Sums(Magnitude))),
        Order::Two => affine_of("normalize", x, per, SingleNorm, Norm(Sums(Guarded))),
        Order::Infinity => affine("normalize", x, per, Norm(Extreme::<true, true>)),
    }
}

/// Subtracts the mean and divides by the standard deviation: of each column, of each row, or of
/// all. Where that is zero, so are the results. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn standardize(x: &Matrix, per: Per) -> Result<Matrix> {
    affine("standardize", x, per, Standard)
}

/// Subtracts the mean of each column, of each row, or of all. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn center(x: &Matrix, per: Per) -> Result<Matrix> {
    affine("center", x, per, Center)
}

/// Moves the least element to 0 and the greatest to 1: of each column, of each row, or of all.
/// Where they are the same, the results are 0. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn minmax_scale(x: &Matrix, per: Per) -> Result<Matrix> {
    affine("minmax_scale", x, per, Bounds)
}

/// `e` to the power of each element, by the sum of these over the row. A row with a null is null.
///
/// The greatest element of the row is subtracted first, so nothing overflows; the exponential is
/// within 1 ulp and the same on every machine.
///
/// # Errors
///
/// As [`normalize`].
pub fn softmax(x: &Matrix) -> Result<Matrix> {
    const FUNCTION: &str = "softmax";
    match x.element_type() {
        half @ DataType::Float16 => by_rows::<f64, f64, _>(FUNCTION, x, half, &Softmax, None),
        single @ DataType::Float32 => by_rows::<f32, f32, _>(FUNCTION, x, single, &Softmax, None),
        _ => by_rows::<f64, f64, _>(FUNCTION, x, &DataType::Float64, &Softmax, None),
    }
}

/// What is measured, and the offset and divisor it gives.
trait Measure<T: Number>: Copy + Sync {
    type Reducer: Reducer<T>;
    fn reducer(self) -> Self::Reducer;
    /// The offset and the divisor; `None` if there are none, and the results are null.
    fn offset_and_divisor(
        self,
        node: <Self::Reducer as Reducer<T>>::Node,
        count: u64,
    ) -> Option<(f64, f64)>;
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

impl NormOf<[f64; 3]> for Sums<Guarded, 3> {
    fn norm(self, squares: [f64; 3]) -> f64 {
        Guarded::root(squares)
    }
}

impl<T: Element> NormOf<T> for Extreme<true, true> {
    fn norm(self, largest: T) -> f64 {
        largest.widen()
    }
}

impl<T: Number, R: Reducer<T> + NormOf<R::Node>> Measure<T> for Norm<R> {
    type Reducer = R;
    fn reducer(self) -> R {
        self.0
    }
    fn offset_and_divisor(self, node: R::Node, _: u64) -> Option<(f64, f64)> {
        let norm = self.0.norm(node);
        (norm != 0.0).then_some((0.0, norm))
    }
    const WHOLE_ROWS: bool = true;
}

/// The root of a sum of squares that float64 holds, because the elements are float32.
#[derive(Clone, Copy)]
struct SingleNorm;

impl Measure<f32> for SingleNorm {
    type Reducer = Sums<Squared, 1>;
    fn reducer(self) -> Self::Reducer {
        Sums(Squared)
    }
    fn offset_and_divisor(self, squares: f64, _: u64) -> Option<(f64, f64)> {
        (squares != 0.0).then_some((0.0, squares.sqrt()))
    }
    const WHOLE_ROWS: bool = true;
}

/// The mean and the standard deviation.
#[derive(Clone, Copy)]
struct Standard;

impl<T: Number> Measure<T> for Standard {
    type Reducer = Sums<Deviation, 2>;
    fn reducer(self) -> Self::Reducer {
        Sums(Deviation)
    }
    fn offset_and_divisor(self, spread: Spread, _: u64) -> Option<(f64, f64)> {
        Some((spread.mean, not_zero((spread.squares / spread.count).sqrt())))
    }
}

/// The mean.
#[derive(Clone, Copy)]
struct Center;

impl<T: Number> Measure<T> for Center {
    type Reducer = Sums<Itself, 1>;
    fn reducer(self) -> Self::Reducer {
        Sums(Itself)
    }
    fn offset_and_divisor(self, sum: f64, count: u64) -> Option<(f64, f64)> {
        Some((sum / count as f64, 1.0))
    }
}

/// The least and the greatest.
#[derive(Clone, Copy)]
struct Bounds;

impl<T: Number> Measure<T> for Bounds {
    type Reducer = Both<Extreme<false, false>, Extreme<true, false>>;
    fn reducer(self) -> Self::Reducer {
        Both(Extreme, Extreme)
    }
    fn offset_and_divisor(self, (least, greatest): (T, T), _: u64) -> Option<(f64, f64)> {
        Some((least.widen(), not_zero(greatest.widen() - least.widen())))
    }
}

/// Measures and scales; float16 (which must be rounded once, so not through float32) and integers
/// are read as float64.
fn affine<M: Measure<f32> + Measure<f64>>(
    function: &'static str,
    x: &Matrix,
    per: Per,
    measure: M,
) -> Result<Matrix> {
    affine_of(function, x, per, measure, measure)
}

fn affine_of<S: Measure<f32>, D: Measure<f64>>(
    function: &'static str,
    x: &Matrix,
    per: Per,
    single: S,
    double: D,
) -> Result<Matrix> {
    match x.element_type() {
        half @ DataType::Float16 => run::<f64, f64, D>(function, x, half, per, double),
        float @ DataType::Float32 => run::<f32, f32, S>(function, x, float, per, single),
        _ => run::<f64, f64, D>(function, x, &DataType::Float64, per, double),
    }
}

fn run<T: Number, O: Number + Scaled, M: Measure<T>>(
    function: &'static str,
    x: &Matrix,
    to: &DataType,
    per: Per,
    measure: M,
) -> Result<Matrix> {
    if per == Per::Row {
        return by_rows::<T, O, _>(function, x, to, &PerRow(measure), None);
    }
    let work = reduce::work(x, per);
    let reduction = Reduction::<T, M::Reducer>::new(function, x, measure.reducer(), None, work)?;
    let counts = count(x, per);
    let found: Vec<Option<(f64, f64)>> = reduction
        .nodes_of_columns(per == Per::Column)?
        .into_iter()
        .enumerate()
        .map(|(i, node)| measure.offset_and_divisor(node, counts.get(i)))
        .collect();
    let dead: Vec<bool> = found.iter().map(Option::is_none).collect();
    let prepared = found.into_iter().map(|found| {
        let (offset, divisor) = found.unwrap_or((0.0, 1.0));
        Affine { offset, divisor: O::prepared(divisor) }
    });
    let mut pattern = Pattern::new(prepared.collect(), x.width());
    if per == Per::Matrix {
        let all = pattern.first();
        pattern = Pattern::new(vec![all; x.width()], x.width());
    }
    let dead = match (per, dead.contains(&true)) {
        (_, false) => None,
        (Per::Matrix, true) => Some(vec![true; x.width()]),
        (_, true) => Some(dead),
    };
    by_rows::<T, O, _>(function, x, to, &pattern, dead.as_deref())
}

/// An offset and a divisor for each column, repeated until the row is long enough that its ends
/// cost nothing.
struct Pattern {
    offsets: Vec<f64>,
    divisors: Vec<f64>,
}

impl Pattern {
    fn new(by: Vec<Affine>, width: usize) -> Self {
        let times = 512usize.div_ceil(width.max(1));
        let offsets: Vec<f64> = by.iter().map(|by| by.offset).collect();
        let divisors: Vec<f64> = by.iter().map(|by| by.divisor).collect();
        Self { offsets: offsets.repeat(times), divisors: divisors.repeat(times) }
    }

    fn first(&self) -> Affine {
        let one = |x: &[f64], none| x.first().copied().unwrap_or(none);
        Affine { offset: one(&self.offsets, 0.0), divisor: one(&self.divisors, 1.0) }
    }
}

impl<T: Element, O: Scaled> Block<T, O> for Pattern {
    type Room = ();
    const NEEDS_VALIDITY: bool = false;
    const WHOLE_ROWS: bool = false;

    fn fill(&self) -> T {
        T::default()
    }

    fn run(
        &self,
        level: Level,
        tile: Tile<'_, T>,
        _: usize,
        (): &mut (),
        out: &mut [O],
        _: &mut [bool],
    ) {
        let period = self.offsets.len();
        for (x, out) in tile.x.chunks(period).zip(out.chunks_mut(period)) {
            let (offsets, divisors) = (&self.offsets, &self.divisors);
            level.run(AffineEach { x, offsets, divisors, out });
        }
    }
}

/// Rows that are measured and scaled in the cache.
struct PerRow<M>(M);

/// Widths from which a row is scaled by two numbers; below, they are repeated for each element, so
/// that the loop does not stop at every row.
const WIDE: usize = 32;

/// Room for what is measured of a block.
pub(super) struct Measured<N> {
    nodes: Vec<N>,
    offsets: Vec<f64>,
    divisors: Vec<f64>,
}

impl<N> Default for Measured<N> {
    fn default() -> Self {
        Self { nodes: Vec::new(), offsets: Vec::new(), divisors: Vec::new() }
    }
}

impl<T: Number, O: Scaled, M: Measure<T>> Block<T, O> for PerRow<M> {
    type Room = Measured<<M::Reducer as Reducer<T>>::Node>;
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
        room: &mut Self::Room,
        out: &mut [O],
        missing: &mut [bool],
    ) {
        let reducer = self.0.reducer();
        let Measured { nodes, offsets, divisors } = room;
        nodes.clear();
        nodes.resize(missing.len(), reducer.empty());
        level.run(RowNodes { reducer, tile, width, out: nodes });
        offsets.clear();
        divisors.clear();
        for (r, (node, missing)) in nodes.iter().zip(missing).enumerate() {
            let count = tile.valid.map_or(width, |valid| {
                valid[r * width..(r + 1) * width].iter().filter(|valid| **valid).count()
            });
            let found = self.0.offset_and_divisor(*node, count as u64);
            *missing = found.is_none();
            let (offset, divisor) = found.unwrap_or((0.0, 1.0));
            let by = Affine { offset, divisor: O::prepared(divisor) };
            if width < WIDE {
                offsets.resize((r + 1) * width, by.offset);
                divisors.resize((r + 1) * width, by.divisor);
            } else {
                let at = r * width..(r + 1) * width;
                level.run(AffineAll { x: &tile.x[at.clone()], by, out: &mut out[at] });
            }
        }
        if width < WIDE {
            level.run(AffineEach { x: tile.x, offsets, divisors, out });
        }
    }
}

struct Softmax;

impl<T: Element, O: Scaled> Block<T, O> for Softmax {
    type Room = Vec<f64>;
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
        powers.resize(width, 0.0);
        level.run(SoftmaxRows { x: tile.x, powers, out });
    }
}

struct SoftmaxRows<'a, T, O> {
    x: &'a [T],
    /// Room for one row.
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
            let mut greatest = Reducer::<T>::one(Extreme::<true, false>, 0);
            greatest.feed(simd, Tile { x, valid: None });
            exp_each(x, greatest.finish().widen(), powers);
            let mut sum = Reducer::<f64>::one(Sums(Itself), 0);
            sum.feed(simd, Tile { x: &*powers, valid: None });
            let divisor = O::prepared(One::<f64, f64>::finish(sum));
            affine_all(powers, Affine { offset: 0.0, divisor }, out);
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
    divisors: &'a [f64],
    out: &'a mut [O],
}

impl<T: Element, O: Scaled> Body for AffineEach<'_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        affine_each(self.x, self.offsets, self.divisors, self.out);
    }
}
