//! Selection: the rows nearest to a vector.
//!
//! Scores are those of the functions row by row, to the bit, whatever the threads and chunks. One
//! vector is scored against every row. Many are multiplied with a block of rows at once, and only
//! the rows whose product, give or take its error bound, could be among the nearest are scored:
//! the product decides what is skipped, never what is returned.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::dense::{self, all_rows, norms};
use super::product::{self, unit_rows};
use super::{Metric, real_type, same_type, with_float};
use crate::buffer::Output;
use crate::dispatch::gemm::{Gemm, Panel, multiply};
use crate::dispatch::{Family, Level, Plan, Work, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Best, Body, Element, Second, Simd};
use crate::matrix::{self, Matrix, Number, View, array_of, steps};

/// The rows nearest to each vector, the nearest first.
#[derive(Clone, Debug)]
pub struct TopK {
    /// Numbers of the rows: int64, or a fixed-size list of them for each vector.
    pub indices: ArrayRef,
    /// Their scores, in the same shape.
    pub scores: ArrayRef,
}

/// The `k` rows of `x` that are nearest to each row of `query`, and their scores.
///
/// A plain array is one vector: the answers are as long as the smaller of `k` and the rows of `x`.
/// A matrix of vectors gives a list of `k` for each. Where there are not that many rows, the rest
/// is null. Ties go to the lower row, NaN comes after every number. Rows with a null are never
/// returned, nor are zero vectors with [`Metric::Cosine`]; a vector with a null has no nearest
/// rows.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float32Array, cast::AsArray, types::{Float32Type, Int64Type}};
/// use raptors_arrow::{Matrix, compute::{Metric, top_k}};
///
/// let flat: ArrayRef = Arc::new(Float32Array::from(vec![0.0, 1.0, 3.0, 4.0, 1.0, 0.0]));
/// let query: ArrayRef = Arc::new(Float32Array::from(vec![0.0, 0.0]));
/// let (x, query) = (Matrix::reshape(&flat, 2)?, Matrix::reshape(&query, 1)?);
/// let nearest = top_k(&x, &query, 2, Metric::L2)?;
/// assert_eq!(nearest.indices.as_primitive::<Int64Type>().values(), &[0, 2]);
/// assert_eq!(nearest.scores.as_primitive::<Float32Type>().values(), &[1.0, 1.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Width`] if the vectors are not as wide as the rows, [`Error::Mixed`] if their elements
/// have another type, and [`Error::TooLarge`] for a `k` that no list can hold.
pub fn top_k(x: &Matrix, query: &Matrix, k: usize, metric: Metric) -> Result<TopK> {
    same_type(FUNCTION, QUERY, x, query)?;
    let is_one = query.is_vector();
    let (count, got) = if is_one { (1, query.rows()) } else { (query.rows(), query.width()) };
    let expected = x.width();
    if got != expected {
        return Err(Error::Width { function: FUNCTION, what: QUERY, expected, got });
    }
    let length = if is_one { k.min(x.rows()) } else { k };
    let too_large = Error::TooLarge {
        function: FUNCTION,
        rows: count,
        width: length,
        limit: "a fixed-size list",
    };
    if i32::try_from(length).is_err() || count.checked_mul(length).is_none() {
        return Err(too_large);
    }
    let missing = if is_one {
        query.has_nulls().then(|| NullBuffer::new_null(1))
    } else {
        query.incomplete_rows(0..count)
    };
    let best = with_float!(FUNCTION, x.element_type(), T => {
        let work = work(x, count, k, query.bytes());
        let plan = run::planned(&work)?;
        let level = plan.level(machine());
        let rows = all_rows::<T>(FUNCTION, query)?;
        let unit = unit_rows(level, &rows, x.width(), count);
        Search {
            view: x.view::<T>(FUNCTION)?,
            whole: x.incomplete_rows(0..x.rows()),
            queries: rows,
            unit: unit.rows,
            norms: unit.norms,
            missing: missing.clone(),
            k: length.min(x.rows()),
            metric,
            to: real_type(x.element_type()).clone(),
            bounds: (0..count).map(|_| Bound::default()).collect(),
            plan,
            level,
        }
        .run(count)
    })?;
    answer(best, is_one, length, missing, real_type(x.element_type()))
}

const FUNCTION: &str = "top_k";
const QUERY: &str = "query";

/// The work of a call with `count` vectors; `other` are their bytes.
pub(crate) fn work(x: &Matrix, count: usize, k: usize, other: usize) -> Work {
    let bytes_written = count.saturating_mul(k.min(x.rows())).saturating_mul(16);
    if count == 1 {
        let bytes_read = x.bytes().saturating_add(other);
        return Work { family: Family::Reduction, bytes_read, bytes_written, has_vdsp: false };
    }
    Work { bytes_written, ..product::work(x, count, other) }
}

/// Arrays of what was found for each vector; null where nothing was.
fn answer(
    best: Vec<Best>,
    is_one: bool,
    length: usize,
    missing: Option<NullBuffer>,
    to: &DataType,
) -> Result<TopK> {
    let count = best.len();
    let mut indices = Output::<i64>::new(FUNCTION, count * length)?;
    let mut scores = Output::<f64>::new(FUNCTION, count * length)?;
    let mut valid = vec![false; count * length];
    indices.fill(0);
    scores.fill(0.0);
    for (q, best) in best.into_iter().enumerate() {
        for (i, (score, index)) in best.into_sorted().enumerate() {
            let at = q * length + i;
            (scores[at], indices[at], valid[at]) = (score, index as i64, true);
        }
    }
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    if is_one {
        let indices = array_of(FUNCTION, indices, nulls.clone(), &DataType::Int64)?;
        return Ok(TopK { indices, scores: array_of(FUNCTION, scores, nulls, to)? });
    }
    let writer = f64::writer(to).ok_or_else(|| matrix::unaccepted(to).in_function(FUNCTION))?;
    let mut bytes = Output::<u8>::new(FUNCTION, scores.len() * writer.size)?;
    writer.write(&scores, &mut bytes);
    let lists = |element: DataType, buffer| {
        let (nulls, missing) = (nulls.clone(), missing.clone());
        let lists = Matrix::of_lists(FUNCTION, element, count, length, buffer, nulls, missing)?;
        Ok(lists.to_arrays()?.swap_remove(0))
    };
    Ok(TopK {
        indices: lists(DataType::Int64, indices.into_buffer())?,
        scores: lists(to.clone(), bytes.into_buffer())?,
    })
}

/// A call that is planned.
struct Search<'a, T: Number> {
    view: View<'a, T>,
    /// Rows without a null.
    whole: Option<NullBuffer>,
    /// The vectors, one behind the other; those divided by their norms; and their norms.
    queries: Cow<'a, [T]>,
    unit: Vec<T>,
    norms: Vec<f64>,
    /// Vectors with a null.
    missing: Option<NullBuffer>,
    k: usize,
    metric: Metric,
    /// The type of the scores.
    to: DataType,
    /// What any task has found for each vector, so that the others skip what is worse.
    bounds: Vec<Bound>,
    plan: Plan,
    level: Level,
}

/// The best of the worst scores kept: there are `k` rows at least as good, somewhere. It is late or
/// early as threads are, and only tells what need not be scored.
struct Bound(AtomicU64);

impl Default for Bound {
    fn default() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }
}

impl Bound {
    fn get(&self) -> Option<f64> {
        let score = f64::from_bits(self.0.load(Ordering::Relaxed));
        (!score.is_nan()).then_some(score)
    }

    fn improve(&self, metric: Metric, score: f64) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
            let held = f64::from_bits(bits);
            let better = if metric.is_similarity() { score > held } else { score < held };
            (better || held.is_nan()).then_some(score.to_bits())
        });
    }
}

/// Vectors of a task: x is read once for all of them.
const QUERIES: usize = 256;

/// From this many vectors on, products tell which rows to score.
const MANY: usize = 4;

/// Tasks per thread: each finds its own nearest rows first, which costs more the more there are.
const TASKS_PER_THREAD: usize = 2;

/// Bytes of a block of rows: enough that packing the vectors for each costs little.
const BLOCK_BYTES: usize = 1 << 20;

/// Room of a thread.
struct Room<T> {
    rows: dense::Room<T>,
    products: Vec<T>,
    norms: Vec<f64>,
    sums: Vec<f64>,
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        let rows = dense::Room::default();
        Self { rows, products: Vec::new(), norms: Vec::new(), sums: Vec::new() }
    }
}

impl<T: Number + Gemm> Search<'_, T> {
    /// The nearest rows of each vector.
    fn run(&self, count: usize) -> Result<Vec<Best>> {
        let rows = self.view.rows;
        let nothing = Best::new(self.k, self.metric.is_similarity());
        let mut best = vec![nothing.clone(); count];
        if self.k == 0 {
            return Ok(best);
        }
        let bytes = (self.view.width * std::mem::size_of::<T>()).max(1);
        let block = (BLOCK_BYTES / bytes).clamp(64, 2048);
        let groups = count.div_ceil(QUERIES).max(1);
        let tasks = (TASKS_PER_THREAD * self.plan.threads).div_ceil(groups);
        let step = rows.div_ceil(tasks).next_multiple_of(block);
        let mut found: Vec<(Range<usize>, Range<usize>, Vec<Best>)> = steps(0..count, QUERIES)
            .flat_map(|queries| steps(0..rows, step).map(move |rows| (queries.clone(), rows)))
            .map(|(queries, rows)| (queries.clone(), rows, vec![nothing.clone(); queries.len()]))
            .collect();
        let tasks = found.iter_mut().collect();
        run::each(FUNCTION, &self.plan, tasks, Room::default, |room, (queries, rows, best)| {
            for rows in steps(rows.clone(), block) {
                self.block(room, queries.clone(), rows, best);
            }
        })?;
        for (queries, _, found) in &found {
            best[queries.clone()].iter_mut().zip(found).for_each(|(best, found)| best.join(found));
        }
        Ok(best)
    }

    /// Offers the rows of a block to each of some vectors.
    fn block(
        &self,
        room: &mut Room<T>,
        queries: Range<usize>,
        rows: Range<usize>,
        best: &mut [Best],
    ) {
        let width = self.view.width;
        let Room { rows: held, products, norms: lengths, sums } = room;
        let x = held.block(&self.view, rows.clone());
        if queries.len() < MANY || self.metric == Metric::L1 {
            self.level.run(Scan { search: self, queries, rows, x, sums, best });
            return;
        }
        products.resize(queries.len() * rows.len(), T::default());
        let unit = &self.unit[queries.start * width..queries.end * width];
        let vectors = Panel::new(unit, queries.len(), width, width).transposed();
        let block = Panel::new(x, rows.len(), width, width);
        // A row for each of x: so the library need not pack x, which is used but once.
        multiply(self.plan.backend, block, vectors, false, products);
        // After the product, which has time to wait for the memory.
        norms(self.level, x, width, lengths, rows.len());
        let norms = lengths;
        self.level.run(Filter { search: self, queries, rows, x, norms, products, best });
    }

    /// The score that a row must beat to be among the nearest of a vector: the worst of those a task
    /// has kept, or what others have. Rows of others may come later, and then lose a tie: what is
    /// as good as theirs is no worse than the number before it.
    fn worst(&self, query: usize, best: &Best) -> Option<f64> {
        let own = best.worst();
        let others = self.bounds[query].get().map(|score| self.next_worse(score));
        match (own, others) {
            (Some(own), Some(others)) if self.metric.is_similarity() => Some(own.max(others)),
            (Some(own), Some(others)) => Some(own.min(others)),
            (own, others) => own.or(others),
        }
    }

    /// The next score of its type that is worse.
    fn next_worse(&self, score: f64) -> f64 {
        let up = !self.metric.is_similarity();
        match self.to {
            DataType::Float64 if up => score.next_up(),
            DataType::Float64 => score.next_down(),
            DataType::Float32 if up => f64::from((score as f32).next_up()),
            DataType::Float32 => f64::from((score as f32).next_down()),
            // Numbers of 11 digits lie no further apart than a 1024th.
            _ => score + (score.abs() / 1024.0 + 1e-7) * if up { 1.0 } else { -1.0 },
        }
    }

    fn is_missing(&self, query: usize) -> bool {
        self.missing.as_ref().is_some_and(|nulls| nulls.is_null(query))
    }

    fn query(&self, query: usize) -> &[T] {
        let width = self.view.width;
        &self.queries[query * width..(query + 1) * width]
    }

    /// Offers the score of a row. Rows come in order, so one that only equals the worst is too
    /// late; rounding keeps order, so one that is worse before it is rounded is no better after.
    #[inline(always)]
    fn offer(&self, best: &mut Best, row: usize, score: Option<f64>) -> bool {
        let Some(score) = score else { return false };
        let beaten = best.worst().is_some_and(|worst| {
            if self.metric.is_similarity() { score <= worst } else { score >= worst }
        });
        if beaten || self.whole.as_ref().is_some_and(|whole| whole.is_null(row)) {
            return false;
        }
        let rounded = match self.to {
            DataType::Float64 => score,
            DataType::Float32 => f64::from(score as f32),
            _ => matrix::held(score, &self.to).unwrap_or(score),
        };
        best.offer(rounded.settled(), row);
        true
    }
}

/// Scores every row of a block.
struct Scan<'s, 'a, T: Number> {
    search: &'s Search<'a, T>,
    queries: Range<usize>,
    rows: Range<usize>,
    x: &'s [T],
    sums: &'s mut Vec<f64>,
    best: &'s mut [Best],
}

impl<T: Number + Gemm> Body for Scan<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { search, queries, rows, x, sums, best } = self;
        for (query, best) in queries.zip(best) {
            if search.is_missing(query) {
                continue;
            }
            let query = search.query(query);
            let (pair, shape) = ((x, Second::Same(query)), (rows.len(), query.len()));
            search.metric.scores(simd, pair, shape, sums, |r, score| {
                search.offer(best, rows.start + r, score);
            });
        }
    }
}

/// Scores the rows of a block whose products with unit vectors are large enough.
struct Filter<'s, 'a, T: Number> {
    search: &'s Search<'a, T>,
    queries: Range<usize>,
    rows: Range<usize>,
    x: &'s [T],
    norms: &'s [f64],
    /// One product for each vector in the row of each row of `x`.
    products: &'s [T],
    best: &'s mut [Best],
}

impl<T: Number + Gemm> Body for Filter<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { search, queries, rows, x, norms, products, best } = self;
        let (width, count) = (search.view.width, queries.len());
        let safe = safe_norms::<T>();
        let mut limits = Limits::new(count);
        for (q, best) in best.iter().enumerate() {
            limits.set(q, search, queries.start + q, best);
        }
        for (r, (products, norm)) in products.chunks_exact(count).zip(norms).enumerate() {
            // A norm that is no number makes the limits none, and the row is scored.
            let norm = if safe.contains(norm) { *norm } else { f64::NAN };
            if limits.are_above(products, norm) {
                continue;
            }
            let row = rows.start + r;
            if search.whole.as_ref().is_some_and(|whole| whole.is_null(row)) {
                continue;
            }
            let x = &x[r * width..(r + 1) * width];
            for (q, product) in products.iter().enumerate() {
                if product.widen() <= limits.at(q, norm) {
                    continue;
                }
                let query = queries.start + q;
                if search.is_missing(query) {
                    continue;
                }
                let score = search.metric.score(simd, x, search.query(query));
                if search.offer(&mut best[q], row, score) {
                    limits.set(q, search, query, &best[q]);
                }
            }
        }
        for (query, best) in queries.zip(best) {
            if let Some(worst) = best.worst() {
                search.bounds[query].improve(search.metric, worst);
            }
        }
    }
}

/// Norms whose squares float64 holds, and with which products in `T` neither overflow nor lose
/// digits to numbers below the smallest normal one.
fn safe_norms<T: Gemm>() -> Range<f64> {
    if std::mem::size_of::<T>() == 4 { 1e-30..1e37 } else { 1e-140..1e140 }
}

/// What the product `p` of a row with the unit vector of each query must exceed, or the row is not
/// among the nearest: `a + b |x| + c |x|²`.
///
/// The product that was computed is within `γ |x|` of the true one. A product of `d` terms in any
/// order, fused or not, is off by at most `d u` times the sum of the magnitudes of its terms,
/// which is at most `|x|` with a unit vector; rounding that to `T`, norms and scores adds a few
/// units more. `γ = (d + 16) (1.01 u + 8 · 2⁻⁵³)` covers all of it, the computed score included,
/// whose additions are in float64. With `q` the norm of the query and `w` the worst score kept:
///
/// * dot: `q p ≤ w` if `p ≤ w / q − γ |x|`;
/// * cosine: `p / |x| ≤ w` if `p ≤ (w − γ) |x|`;
/// * l2: `|x|² + q² − 2 q p ≥ w²` if `p ≤ (|x|² + q² − w²) / 2q − γ |x|`, with room for the rounding
///   of the squares.
///
/// While there are too few rows, or a number is not safe, the limit is NaN: nothing is below it.
struct Limits {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Limits {
    fn new(count: usize) -> Self {
        Self { a: vec![f64::NAN; count], b: vec![0.0; count], c: vec![0.0; count] }
    }

    #[inline(always)]
    fn set<T: Number + Gemm>(
        &mut self,
        i: usize,
        search: &Search<'_, T>,
        query: usize,
        best: &Best,
    ) {
        let (q, safe) = (search.norms[query], safe_norms::<T>());
        let d = search.view.width as f64;
        let Some(w) = search.worst(query, best).filter(|w| safe.contains(&q) && w.abs() < safe.end)
        else {
            self.a[i] = f64::NAN;
            return;
        };
        let gamma = (d + 16.0) * (1.01 * T::ROUNDOFF + 4.0 * f64::EPSILON);
        (self.a[i], self.b[i], self.c[i]) = match search.metric {
            Metric::Dot => (w / q - (w / q).abs() * 4.0 * f64::EPSILON, -gamma, 0.0),
            Metric::Cosine => (0.0, w - gamma, 0.0),
            Metric::L2 | Metric::L1 => {
                let slack = (d + 16.0) * 4.0 * f64::EPSILON;
                let a = (q * q * (1.0 - slack) - w * w * (1.0 + slack)) / (2.0 * q);
                (a, -gamma, (1.0 - slack) / (2.0 * q))
            }
        };
    }

    #[inline(always)]
    fn at(&self, i: usize, norm: f64) -> f64 {
        self.a[i] + self.b[i] * norm + self.c[i] * (norm * norm)
    }

    /// Whether the product of every query is at most its limit.
    #[inline(always)]
    fn are_above<T: Number>(&self, products: &[T], norm: f64) -> bool {
        let mut above = true;
        let limits = self.a.iter().zip(&self.b).zip(&self.c);
        for (product, ((a, b), c)) in products.iter().zip(limits) {
            above &= product.widen() <= a + b * norm + c * (norm * norm);
        }
        above
    }
}
