//! Selection: the rows nearest to a vector.
//!
//! Scores are those of the functions row by row, to the bit, whatever the threads and chunks. One
//! vector is scored against every row. Many are multiplied with a block of rows at once, and only
//! the rows whose product, give or take its error bound, could be among the nearest are scored:
//! the product decides what is skipped, never what is returned.

mod filter;
mod running;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::call::{self, Call, Driven, Held, Pass, Prepared};
use super::contiguous::{RowWorkspace, all_rows, norms};
use super::product::{self, unit_rows};
use super::{Metric, Value, real_type, with_float};
use crate::buffer::{Output, collected, vec_of, vec_with_capacity};
use crate::dispatch::gemm::{Factor, Gemm, Panel, ProductWorkspace};
use crate::dispatch::{Family, Level, Plan, Work, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Best, Body, Element, Second, Simd};
use crate::matrix::{self, Matrix, Number, View, array_of, steps};
use crate::memory::{self, Gather as _};
use filter::{Filter, Limits};
pub use running::TopKAccumulator;

/// The rows nearest to each vector, the nearest first.
#[derive(Clone, Debug)]
pub struct TopK {
    /// Numbers of the rows: int64, or a fixed-size list of them for each vector.
    pub indices: ArrayRef,
    /// Their scores, in the same shape.
    pub scores: ArrayRef,
}

impl TopK {
    /// Both, by name.
    pub(super) fn into_value(self) -> Result<Value> {
        let Self { indices, scores } = self;
        Ok(Value::Named(vec![
            ("indices", Value::try_from(&indices)?),
            ("scores", Value::try_from(&scores)?),
        ]))
    }
}

/// The `k` rows of `x` that are nearest to each row of `query`, and their scores.
///
/// A plain array is one vector: the answers are the rows found, at most `k`. A matrix of vectors
/// gives a list of `k` for each; where there are not that many rows, the rest is null. Ties go to
/// the lower row, NaN comes after every number; scores of float16 are ranked before they are
/// rounded, as those of float64. Rows with a null are never returned, nor are zero vectors with
/// [`Metric::Cosine`]; a vector with a null has no nearest rows.
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
    let call = TopKCall { x: Held::Borrowed(x), query: Held::Borrowed(query), k, metric };
    run::call("top_k", || {
        let passes = Prepared::new(&call as &dyn Driven)?.passes;
        call.search(&passes)
    })
}

/// The call of the function of the table.
pub(super) fn bind<'a>(call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let (x, query) = (call.matrix(0)?, call.matrix(1)?);
    let metric = call.options.metric().unwrap_or(Metric::Cosine);
    Ok(Box::new(TopKCall { x, query, k: call.options.count("k"), metric }))
}

/// A call of [`top_k`].
struct TopKCall<'a> {
    x: Held<'a>,
    query: Held<'a>,
    k: usize,
    metric: Metric,
}

impl Driven for TopKCall<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let query = &self.query;
        let is_one = query.is_vector();
        let (count, k) =
            if is_one { (1, self.k.min(self.x.rows())) } else { (query.rows(), self.k) };
        let search = ("search", work(&self.x, count, k, query.bytes()));
        call::conversion(&self.x, query).into_iter().chain([search]).gather()
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        self.search(passes)?.into_value()
    }
}

/// What was found, before it is put into arrays.
struct Nearest {
    best: Vec<Best>,
    /// Vectors with a null.
    missing: Option<NullBuffer>,
    /// The most that are found for a vector.
    length: usize,
    /// Whether there is one vector, given as such.
    is_one: bool,
}

impl TopKCall<'_> {
    fn search(&self, passes: &[Pass]) -> Result<TopK> {
        let Nearest { best, missing, length, is_one } = self.nearest(passes)?;
        answer(best, is_one, length, missing, real_type(self.x.element_type()))
    }

    fn nearest(&self, mut passes: &[Pass]) -> Result<Nearest> {
        let Self { k, metric, .. } = *self;
        let query = call::converted(QUERY, &self.x, &self.query, &mut passes)?;
        let (x, query, plan) = (&*self.x, &*query, passes[0].plan);
        let is_one = query.is_vector();
        let (x, query) = if is_one {
            (&*x.fitted(query.rows())?, query)
        } else {
            (&*x.fitted(query.width())?, &*query.fitted(x.width())?)
        };
        let (count, got) = if is_one { (1, query.rows()) } else { (query.rows(), query.width()) };
        let expected = x.width();
        if got != expected {
            return Err(Error::Width { what: QUERY, expected, got });
        }
        let length = if is_one { k.min(x.rows()) } else { k };
        let too_large = Error::TooLarge { rows: count, width: length, limit: "a fixed-size list" };
        if i32::try_from(length).is_err() || count.checked_mul(length).is_none() {
            return Err(too_large);
        }
        let missing = if is_one {
            query.has_nulls().then(|| NullBuffer::new_null(1))
        } else {
            query.incomplete_rows(0..count)?
        };
        let best = with_float!(x.element_type(), T => {
            let level = plan.level(machine());
            let rows = all_rows::<T>(query)?;
            let unit = unit_rows(level, &rows, x.width(), count);
            let vectors = Panel::new(&unit.rows, count, x.width(), x.width()).transposed();
            Search {
                view: x.view::<T>()?,
                whole: x.incomplete_rows(0..x.rows())?,
                queries: rows,
                unit: Factor::in_blocks(plan.backend, vectors, QUERIES),
                norms: &unit.norms,
                missing: missing.clone(),
                k: length.min(x.rows()),
                metric,
                to: real_type(x.element_type()).clone(),
                bounds: collected((0..count).map(|_| Bound::default()))?,
                plan,
                level,
            }
            .run(count)
        })?;
        Ok(Nearest { best, missing, length, is_one })
    }
}

const QUERY: &str = "query";

/// The work of a call with `count` vectors; `other` are their bytes.
pub(crate) fn work(x: &Matrix, count: usize, k: usize, other: usize) -> Work {
    let score = real_type(x.element_type()).primitive_width().unwrap_or(8);
    let bytes_written = count.saturating_mul(k).saturating_mul(8 + score);
    if count == 1 {
        let bytes_read = x.bytes().saturating_add(other);
        return Work { family: Family::Reduction, bytes_read, bytes_written, has_vdsp: false };
    }
    Work { bytes_written, ..product::work(x, count, other) }
}

/// Arrays of what was found for each vector: for one vector as many as there are, for several
/// `length` each, null where there is none.
fn answer(
    best: Vec<Best>,
    is_one: bool,
    length: usize,
    missing: Option<NullBuffer>,
    to: &DataType,
) -> Result<TopK> {
    let count = best.len();
    let length = if is_one { best.iter().map(Best::len).max().unwrap_or(0) } else { length };
    let mut indices = Output::<i64>::new(count * length)?;
    let mut scores = Output::<f64>::new(count * length)?;
    let mut found = vec_with_capacity(count)?;
    let mut best = best.into_iter();
    run::in_steps(0..count, (1 << 16) / length.max(1), |queries| {
        for (q, best) in queries.zip(&mut best) {
            let (from, to) = (q * length, (q + 1) * length);
            let (indices, scores) = (&mut indices[from..to], &mut scores[from..to]);
            memory::push(&mut found, best.len());
            indices[best.len()..].fill(0);
            scores[best.len()..].fill(0.0);
            for (i, (score, index)) in best.into_sorted().enumerate() {
                (scores[i], indices[i]) = (score, index as i64);
            }
        }
        Ok(())
    })?;
    if is_one {
        let indices = array_of(indices, None, &DataType::Int64)?;
        return Ok(TopK { indices, scores: array_of(scores, None, to)? });
    }
    let nulls = if found.iter().any(|found| *found < length) {
        let is_found = |i: usize| i % length < found[i / length];
        Some(matrix::from_bits(count * length, is_found)?)
    } else {
        None
    };
    let scores = array_of(scores, None, to)?;
    let lists = |element: DataType, buffer| {
        let (nulls, missing) = (nulls.clone(), missing.clone());
        let lists = Matrix::of_lists(element, count, length, buffer, nulls, missing)?;
        Ok(lists.to_arrays()?.swap_remove(0))
    };
    let values = scores.to_data().buffers()[0].clone();
    Ok(TopK {
        indices: lists(DataType::Int64, indices.into_buffer())?,
        scores: lists(to.clone(), values)?,
    })
}

/// A call that is planned.
struct Search<'a, T: Number> {
    view: View<'a, T>,
    /// Rows without a null.
    whole: Option<NullBuffer>,
    /// The vectors, one behind the other; those divided by their norms; and their norms.
    queries: Cow<'a, [T]>,
    unit: Factor<'a, T>,
    norms: &'a [f64],
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

/// Workspace of a thread.
struct SearchWorkspace<T> {
    rows: RowWorkspace<T>,
    products: ProductWorkspace<T>,
    norms: Vec<f64>,
    sums: Vec<f64>,
}

impl<T> Default for SearchWorkspace<T> {
    fn default() -> Self {
        let rows = RowWorkspace::default();
        Self { rows, products: ProductWorkspace::default(), norms: Vec::new(), sums: Vec::new() }
    }
}

impl<T: Number + Gemm> Search<'_, T> {
    /// The nearest rows of each vector.
    fn run(&self, count: usize) -> Result<Vec<Best>> {
        let rows = self.view.rows;
        let nothing = Best::new(self.k, self.metric.is_similarity());
        let mut best = vec_of(nothing.clone(), count)?;
        if self.k == 0 {
            return Ok(best);
        }
        let bytes = (self.view.width * std::mem::size_of::<T>()).max(1);
        let block = (BLOCK_BYTES / bytes).clamp(64, 2048);
        let groups = count.div_ceil(QUERIES).max(1);
        let tasks = (TASKS_PER_THREAD * self.plan.threads).div_ceil(groups);
        let step = rows.div_ceil(tasks).next_multiple_of(block);
        let found = steps(0..count, QUERIES)
            .flat_map(|queries| steps(0..rows, step).map(move |rows| (queries.clone(), rows)))
            .map(|(queries, rows)| {
                (queries.clone(), rows, memory::filled(nothing.clone(), queries.len()))
            });
        let mut found: Vec<(Range<usize>, Range<usize>, Vec<Best>)> = collected(found)?;
        let tasks = collected(found.iter_mut())?;
        // Equal rows are all scored, one by one: a task may take long.
        run::each_while(&self.plan, tasks, SearchWorkspace::default, |workspace, task, go_on| {
            let (queries, rows, best) = task;
            for rows in steps(rows.clone(), block) {
                if !go_on() {
                    return;
                }
                self.block(workspace, queries.clone(), rows, best);
            }
        })?;
        for (queries, _, found) in &found {
            for (best, found) in best[queries.clone()].iter_mut().zip(found) {
                best.try_reserve(found.len()).map_err(|bytes| Error::OutOfMemory { bytes })?;
                best.join(found);
            }
        }
        Ok(best)
    }

    /// Offers the rows of a block to each of some vectors.
    fn block(
        &self,
        workspace: &mut SearchWorkspace<T>,
        queries: Range<usize>,
        rows: Range<usize>,
        best: &mut [Best],
    ) {
        let width = self.view.width;
        let SearchWorkspace { rows: held, products, norms: lengths, sums } = workspace;
        let x = held.block(&self.view, rows.clone());
        if queries.len() < MANY || self.metric == Metric::L1 {
            self.level.run(Scan { search: self, queries, rows, x, sums, best });
            return;
        }
        let mut limits = Limits::new(self, queries.clone(), best);
        self.unit.multiply(
            (x, rows.len()),
            queries.clone(),
            products,
            &|| true,
            &mut |some, products| {
                let x = &x[some.start * width..some.end * width];
                // After the product, which has time to wait for the memory.
                norms(self.level, x, width, lengths, some.len());
                let (queries, rows) = (queries.clone(), rows.start + some.start..rows.end);
                let (norms, limits) = (&lengths[..], &mut limits);
                self.level.run(Filter {
                    search: self,
                    queries,
                    rows,
                    x,
                    norms,
                    products,
                    limits,
                    best,
                });
            },
        );
        for (query, best) in queries.zip(best) {
            if let Some(worst) = best.worst() {
                self.bounds[query].improve(self.metric, worst);
            }
        }
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

    /// The next score that is worse, among those that rows are ranked by.
    fn next_worse(&self, score: f64) -> f64 {
        let up = !self.metric.is_similarity();
        match self.to {
            DataType::Float32 if up => f64::from((score as f32).next_up()),
            DataType::Float32 => f64::from((score as f32).next_down()),
            _ if up => score.next_up(),
            _ => score.next_down(),
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
        // float16 has so few digits that rows would tie which are not equally near.
        let ranked = if self.to == DataType::Float32 { f64::from(score as f32) } else { score };
        memory::granted(best.try_reserve(1));
        best.offer(ranked.canonical(), row);
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
