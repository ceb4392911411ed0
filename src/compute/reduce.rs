//! Reductions: sums and means per matrix, column or row.
//!
//! Work is split at leaves (see `kernel::sum`), so every split gives the same bits: a task that
//! takes 2ᵏ leaves from a multiple of 2ᵏ on computes one node of the fixed tree.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};

use super::{Per, with_float};
use crate::buffer::Output;
use crate::dispatch::{Backend, Family, Level, Plan, Work, machine, plan, run, settings};
use crate::error::Result;
use crate::kernel::{
    Body, COLUMN_BLOCK, Element, Interleaved, LEAF, Sequence, Simd, Tree, row_sums,
};
use crate::matrix::{Counts, Matrix, Number, Scratch, TILE, View, count, steps};

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

/// Adds up a matrix: one sum in all, per column or per row, as an array of 1, `width` or `rows`.
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
/// [`Error::Type`](crate::Error::Type) unless the elements are float32 or float64.
pub fn sum(x: &Matrix, per: Per) -> Result<ArrayRef> {
    sum_with(x, per, &ReduceOptions::default())
}

/// [`sum`] with options.
///
/// # Errors
///
/// As [`sum`].
pub fn sum_with(x: &Matrix, per: Per, options: &ReduceOptions) -> Result<ArrayRef> {
    reduce("sum", x, per, options, Finish::Sum)
}

/// The mean of a matrix: in all, per column or per row, as an array of 1, `width` or `rows`.
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
/// [`Error::Type`](crate::Error::Type) unless the elements are float32 or float64.
pub fn mean(x: &Matrix, per: Per) -> Result<ArrayRef> {
    mean_with(x, per, &ReduceOptions::default())
}

/// [`mean`] with options.
///
/// # Errors
///
/// As [`mean`].
pub fn mean_with(x: &Matrix, per: Per, options: &ReduceOptions) -> Result<ArrayRef> {
    reduce("mean", x, per, options, Finish::Mean)
}

/// What becomes of a sum.
#[derive(Clone, Copy)]
enum Finish {
    Sum,
    Mean,
}

impl Finish {
    /// The result in the element type: rounded once, a NaN made canonical.
    #[inline(always)]
    fn one<T: Element>(self, sum: f64, count: u64) -> T {
        T::round(match self {
            // The sum of nothing is +0.0, though the neutral value is -0.0.
            Self::Sum if count == 0 => 0.0,
            Self::Sum => sum,
            Self::Mean => sum / count as f64,
        })
        .settled()
    }

    /// [`one`](Self::one) for sums that all have the same count.
    #[inline(always)]
    fn all<T: Element>(self, sums: &[f64], count: usize, out: &mut [T]) {
        let pairs = out.iter_mut().zip(sums);
        match self {
            // Dividing by a power of two is multiplying by its inverse, to the bit, and faster.
            Self::Mean if count.is_power_of_two() => {
                let inverse = 1.0 / count as f64;
                pairs.for_each(|(o, sum)| *o = T::round(sum * inverse).settled());
            }
            _ => pairs.for_each(|(o, sum)| *o = self.one(*sum, count as u64)),
        }
    }
}

fn reduce(
    function: &'static str,
    x: &Matrix,
    per: Per,
    options: &ReduceOptions,
    finish: Finish,
) -> Result<ArrayRef> {
    with_float!(function, x.element_type(), T => {
        let reduction = Reduction::<T>::new(function, x, per)?;
        let counts = count(x, per);
        let values = match per {
            Per::Matrix => reduction.finished(&[reduction.matrix()?], &counts, finish)?,
            Per::Column => reduction.finished(&reduction.columns()?, &counts, finish)?,
            Per::Row => reduction.rows(&counts, finish)?,
        };
        Ok(array(x, values, per, &counts, options))
    })
}

/// The bytes that a reduction moves.
pub(crate) fn work(x: &Matrix, per: Per) -> Work {
    let element = x.bytes() / (x.rows() * x.width()).max(1);
    let results = match per {
        Per::Matrix => 1,
        Per::Column => x.width(),
        Per::Row => x.rows(),
    };
    Work {
        family: Family::Reduction,
        bytes_read: x.bytes(),
        bytes_written: results * element,
        // `sve` and `meanv` want one contiguous run per result.
        has_vdsp: per != Per::Column && !x.is_by_columns() && !x.has_nulls(),
    }
}

/// The results with their validity.
fn array<T: Number>(
    x: &Matrix,
    values: Output<T>,
    per: Per,
    counts: &Counts,
    options: &ReduceOptions,
) -> ArrayRef {
    let (len, full) = match per {
        Per::Matrix => (1, x.rows() * x.width()),
        Per::Column => (x.width(), x.rows()),
        Per::Row => (x.rows(), x.width()),
    };
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
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let mut values = values;
    if let Some(nulls) = &nulls {
        for (value, valid) in values.iter_mut().zip(nulls) {
            if !valid {
                *value = T::default();
            }
        }
    }
    let values = ScalarBuffer::<T>::new(values.into_buffer(), 0, len);
    Arc::new(PrimitiveArray::<T::Arrow>::new(values, nulls))
}

/// Columns that a task takes at most: with a leaf of rows 32 MiB of float32, so that an interrupt
/// does not wait.
const COLUMNS_OF_A_TASK: usize = 8192;

/// A reduction that is planned.
struct Reduction<'a, T> {
    function: &'static str,
    view: View<'a, T>,
    by_columns: bool,
    plan: Plan,
    level: Level,
}

impl<'a, T: Number> Reduction<'a, T> {
    fn new(function: &'static str, x: &'a Matrix, per: Per) -> Result<Self> {
        let plan = plan(&work(x, per), machine(), &settings::settings()?);
        let level = plan.level(machine());
        Ok(Self { function, view: x.view(), by_columns: x.is_by_columns(), plan, level })
    }

    fn finished(&self, sums: &[f64], counts: &Counts, finish: Finish) -> Result<Output<T>> {
        let mut out = Output::new(self.function, sums.len())?;
        for (i, (o, sum)) in out.iter_mut().zip(sums).enumerate() {
            *o = finish.one(*sum, counts.get(i));
        }
        Ok(out)
    }

    /// Leaves of `leaf` elements per task: a power of two, so that a task is a node of the tree.
    fn leaves_per_task(&self, leaf: usize) -> usize {
        let leaf_bytes = leaf.saturating_mul(std::mem::size_of::<T>()).max(1);
        (self.plan.task_bytes / leaf_bytes).max(1).next_power_of_two()
    }

    /// Runs `body` on each task and gives the results in the order of the tasks.
    fn results<K: Send, R: Send>(
        &self,
        tasks: Vec<K>,
        body: impl Fn(&mut Scratch<T>, K) -> R + Sync,
    ) -> Result<Vec<R>> {
        let mut results: Vec<Option<R>> = tasks.iter().map(|_| None).collect();
        let slots: Vec<(K, &mut Option<R>)> = tasks.into_iter().zip(&mut results).collect();
        run::each(self.function, &self.plan, slots, Scratch::new, |scratch, (task, slot)| {
            *slot = Some(body(scratch, task));
        })?;
        Ok(results.into_iter().flatten().collect())
    }

    /// The sum of everything, row by row.
    fn matrix(&self) -> Result<f64> {
        let elements = self.view.rows * self.view.width;
        self.sequence(0..elements)
    }

    /// The sum of the elements `range`, whose first is the first of a sequence.
    fn sequence(&self, range: Range<usize>) -> Result<f64> {
        let tasks = steps(range, self.leaves_per_task(LEAF) * LEAF).collect();
        let nodes = self.results(tasks, |scratch, range| match self.plan.backend {
            Backend::Vdsp => self.vendor_sum(range),
            Backend::Native(level) => level.run(SumFlat { view: &self.view, range, scratch }),
        })?;
        Ok(joined(nodes))
    }

    /// A sum in the vendor's order, asked for with `RAPTORS_BACKEND=vdsp-reductions`.
    fn vendor_sum(&self, range: Range<usize>) -> f64 {
        let mut scratch = Scratch::new();
        let pieces = self.view.flat_pieces(range);
        pieces
            .map(|(part, range)| {
                T::sum(part.flat(range, T::NEUTRAL, &mut scratch)).map_or(f64::NAN, T::widen)
            })
            .sum()
    }

    /// One sum per column.
    fn columns(&self) -> Result<Vec<f64>> {
        let View { rows, width, .. } = self.view;
        if self.by_columns {
            let step = self.leaves_per_task(LEAF) * LEAF;
            let tasks =
                (0..width).flat_map(|c| steps(0..rows, step).map(move |r| (c, r))).collect();
            let nodes = self.results(tasks, |scratch, (column, rows)| {
                let body = SumColumn { view: &self.view, column, rows, scratch };
                (column, self.level.run(body))
            })?;
            let mut trees: Vec<Tree> = (0..width).map(|_| Tree::new(1)).collect();
            nodes.iter().for_each(|(column, node)| trees[*column].push(&[*node]));
            return Ok(trees.into_iter().flat_map(Tree::finish).collect());
        }
        let leaves = self.leaves_per_task(LEAF.saturating_mul(width));
        let row_tasks = rows.div_ceil(leaves.saturating_mul(LEAF));
        // Too few leaves for the threads: split the columns too, into pieces of a page or more,
        // which the prefetchers follow.
        let wanted = if self.plan.threads > 1 { 2 * self.plan.threads } else { 1 };
        let groups = wanted.div_ceil(row_tasks.max(1));
        let page = 4096 / std::mem::size_of::<T>();
        let group =
            width.div_ceil(groups.max(1)).next_multiple_of(64).clamp(page, COLUMNS_OF_A_TASK);
        let tasks = steps(0..width, group)
            .flat_map(|columns| {
                steps(0..rows, leaves * LEAF).map(move |rows| (columns.clone(), rows))
            })
            .collect();
        let nodes = self.results(tasks, |scratch, (columns, rows)| {
            let body = SumColumns { view: &self.view, columns: columns.clone(), rows, scratch };
            (columns, self.level.run(body))
        })?;
        let mut sums = Vec::with_capacity(width);
        for columns in steps(0..width, group) {
            let mut tree = Tree::new(columns.len());
            nodes.iter().filter(|(at, _)| *at == columns).for_each(|(_, node)| tree.push(node));
            sums.extend(tree.finish());
        }
        Ok(sums)
    }

    /// One result per row.
    fn rows(&self, counts: &Counts, finish: Finish) -> Result<Output<T>> {
        let View { rows, width, .. } = self.view;
        let long = self.leaves_per_task(LEAF) * LEAF;
        if !self.by_columns && width >= 2 * long && rows < 2 * self.plan.threads {
            // Few long rows: each is split like a matrix of its own.
            let sums: Vec<f64> = (0..rows)
                .map(|row| self.sequence(row * width..(row + 1) * width))
                .collect::<Result<_>>()?;
            return self.finished(&sums, counts, finish);
        }
        let mut out = Output::new(self.function, rows)?;
        let row_bytes = (width * std::mem::size_of::<T>()).max(1);
        let rows_per_task = (self.plan.task_bytes / row_bytes).max(1);
        let tasks = out
            .chunks_mut(rows_per_task)
            .enumerate()
            .map(|(i, out)| (i * rows_per_task, out))
            .collect();
        let state = || (Scratch::new(), Vec::new());
        run::each(self.function, &self.plan, tasks, state, |(scratch, sums), (first, out)| {
            let view = &self.view;
            if self.plan.backend == Backend::Vdsp {
                for (row, o) in out.iter_mut().enumerate() {
                    *o = self.vendor_row(first + row, finish);
                }
                return;
            }
            let by_columns = self.by_columns;
            self.level.run(SumRows { view, by_columns, first, out, scratch, sums, counts, finish });
        })?;
        Ok(out)
    }
}

impl<T: Number> Reduction<'_, T> {
    /// The result of one row in the vendor's order.
    fn vendor_row(&self, row: usize, finish: Finish) -> T {
        let mut scratch = Scratch::new();
        let width = self.view.width;
        let Some((part, rows)) = self.view.rows(row..row + 1).next() else { return T::default() };
        if width == 0 {
            return finish.one(-0.0, 0);
        }
        let x = part.flat(rows.start * width..rows.end * width, T::NEUTRAL, &mut scratch);
        let result = match finish {
            Finish::Sum => T::sum(x),
            Finish::Mean => T::mean(x),
        };
        result.unwrap_or_default().settled()
    }
}

fn joined(nodes: Vec<f64>) -> f64 {
    let mut tree = Tree::new(1);
    nodes.iter().for_each(|node| tree.push(&[*node]));
    tree.finish().first().copied().unwrap_or(-0.0)
}

/// The sum of a range of elements, counted row by row.
struct SumFlat<'a, 'b, T> {
    view: &'a View<'b, T>,
    range: Range<usize>,
    scratch: &'a mut Scratch<T>,
}

impl<T: Number> Body for SumFlat<'_, '_, T> {
    type Out = f64;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f64 {
        let mut sum = Sequence::new();
        for (part, range) in self.view.flat_pieces(self.range) {
            sum.feed(simd, part.flat(range, T::NEUTRAL, self.scratch));
        }
        sum.finish()
    }
}

/// The sum of one column of a matrix that lies by columns.
struct SumColumn<'a, 'b, T> {
    view: &'a View<'b, T>,
    column: usize,
    rows: Range<usize>,
    scratch: &'a mut Scratch<T>,
}

impl<T: Number> Body for SumColumn<'_, '_, T> {
    type Out = f64;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f64 {
        let mut sum = Sequence::new();
        for (part, rows) in self.view.rows(self.rows) {
            for rows in steps(rows, 4 * TILE) {
                sum.feed(simd, part.column(self.column, rows, T::NEUTRAL, self.scratch));
            }
        }
        sum.finish()
    }
}

/// The sums of a range of columns of a matrix that lies by rows.
struct SumColumns<'a, 'b, T> {
    view: &'a View<'b, T>,
    columns: Range<usize>,
    rows: Range<usize>,
    scratch: &'a mut Scratch<T>,
}

impl<T: Number> Body for SumColumns<'_, '_, T> {
    type Out = Vec<f64>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<f64> {
        let mut sums = Vec::with_capacity(self.columns.len());
        for columns in steps(self.columns, COLUMN_BLOCK) {
            let mut block = Interleaved::new(columns.len());
            for (part, rows) in self.view.rows(self.rows.clone()) {
                let step = if part.is_dense() { rows.len() } else { rows_of_a_tile(columns.len()) };
                for rows in steps(rows, step) {
                    let (x, stride) = part.block(rows, columns.clone(), T::NEUTRAL, self.scratch);
                    block.feed(simd, x, stride);
                }
            }
            sums.extend(block.finish());
        }
        sums
    }
}

/// Rows of a tile that must be copied: at least those that are added together.
fn rows_of_a_tile(width: usize) -> usize {
    (TILE / width.max(1)).next_multiple_of(32)
}

/// One result for each of some rows.
struct SumRows<'a, 'b, T> {
    view: &'a View<'b, T>,
    by_columns: bool,
    /// The row of the first result.
    first: usize,
    out: &'a mut [T],
    scratch: &'a mut Scratch<T>,
    sums: &'a mut Vec<f64>,
    counts: &'a Counts,
    finish: Finish,
}

/// Row sums that are held as float64 before they are rounded to results.
const ROWS_HELD: usize = 512;

impl<T: Number> Body for SumRows<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { view, by_columns, first, out, scratch, sums, counts, finish } = self;
        let width = view.width;
        for (part, rows) in view.rows(first..first + out.len()) {
            let step = match part.is_dense() {
                _ if by_columns => ROWS_HELD,
                true => ROWS_HELD,
                false => (TILE / width.max(1)).clamp(1, ROWS_HELD),
            };
            for rows in steps(rows, step) {
                sums.clear();
                if by_columns {
                    let mut block = Interleaved::new(rows.len());
                    for column in 0..width {
                        let x = part.column(column, rows.clone(), T::NEUTRAL, scratch);
                        block.feed(simd, x, rows.len());
                    }
                    sums.extend(block.finish());
                } else if part.is_dense() || width * rows.len() <= TILE {
                    sums.resize(rows.len(), 0.0);
                    let elements = rows.start * width..rows.end * width;
                    let x = if width == 0 { &[] } else { part.flat(elements, T::NEUTRAL, scratch) };
                    row_sums(simd, x, width, sums);
                } else {
                    for row in rows.clone() {
                        let mut sum = Sequence::new();
                        for elements in steps(row * width..(row + 1) * width, TILE) {
                            sum.feed(simd, part.flat(elements, T::NEUTRAL, scratch));
                        }
                        sums.push(sum.finish());
                    }
                }
                let at = part.first + rows.start - first;
                let out = &mut out[at..at + rows.len()];
                match counts {
                    Counts::All(count) => finish.all(sums, *count, out),
                    Counts::Each(counts) => {
                        let counts = &counts[part.first + rows.start..];
                        for ((o, sum), count) in out.iter_mut().zip(sums.iter()).zip(counts) {
                            *o = finish.one(*sum, *count);
                        }
                    }
                }
            }
        }
    }
}
