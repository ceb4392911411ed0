//! Statistics of groups whose rows are all at hand: no state is kept.
//!
//! ```text
//! few rows     groups of one length lie side by side: G groups of m rows are m rows of G · width columns,
//!              which are reduced as one tile
//! many rows    the rows of a group are gathered tile by tile
//! most rows    a group that is more than a task is cut where a node of its tree ends, and its parts merged
//! ```
//!
//! So a million groups of one row are a few hundred tiles, and one group of a million rows is shared by
//! all threads.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_schema::DataType;

use super::groups::{GROUPS_OF_A_TASK, check_rows, lists, of_rows, results_of};
use super::keys::Members;
use super::reduce::{self, How, WithReducer, with_reducer};
use super::state::{FeedMany, Finish, Required, Running, Seen, State};
use super::weights::{Aligned, weighted};
use super::{Per, ReduceOptions, Statistic, with_wide};
use crate::buffer::Output;
use crate::dispatch::{Level, Plan, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Counts, Many, Nodes, Partial, Reducer, Words};
use crate::matrix::{
    self, Matrix, Number, Source, TILE, TileWorkspace, View, Wanted, Weighted, array_of,
};
use crate::memory::{self, Gather as _};

/// A statistic of each column of each group, a row for each.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, Int32Array};
/// use raptors_arrow::{Matrix, compute::{Groups, ReduceOptions, Statistic, reduce_groups}};
///
/// let keys: ArrayRef = Arc::new(Int32Array::from(vec![7, 8, 7]));
/// let mut groups = Groups::new([keys.data_type()])?;
/// let members = groups.assign(&[keys])?;
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 5.0, 6.0, 3.0, 4.0]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let means = reduce_groups(Statistic::Mean, &x, &members, &ReduceOptions::default())?;
/// assert_eq!((means.rows(), means.width()), (2, 2));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Rows`] if there are not as many rows as members, and as [`reduce`](super::reduce()).
pub fn reduce_groups(
    statistic: Statistic,
    x: &Matrix,
    members: &Members,
    options: &ReduceOptions,
) -> Result<Matrix> {
    run::call(statistic.name(), || {
        check_rows(x, members)?;
        with_rows(statistic, (x, None), members, options)
    })
}

/// The same of rows that have weights, or elements, for a sum, a mean, a variance or its root.
///
/// # Errors
///
/// As [`reduce_groups`], and for weights as [`reduce_weighted`](super::reduce_weighted).
pub fn reduce_groups_weighted(
    statistic: Statistic,
    x: &Matrix,
    weights: &Matrix,
    members: &Members,
    options: &ReduceOptions,
) -> Result<Matrix> {
    run::call(statistic.name(), || {
        check_rows(x, members)?;
        with_rows(statistic, (x, Some(weights)), members, options)
    })
}

/// A statistic of each column of the rows of each list: those without rows are null.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array};
/// use raptors_arrow::{Matrix, compute::{ReduceOptions, Statistic, reduce_lists}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 5.0, 6.0, 3.0, 4.0]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let means = reduce_lists(Statistic::Mean, &x, &[0..2, 2..2, 2..3], &ReduceOptions::default())?;
/// assert_eq!((means.rows(), means.width()), (3, 2));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Rows`] if a list ends behind the last row, and as [`reduce`](super::reduce()).
pub fn reduce_lists(
    statistic: Statistic,
    x: &Matrix,
    lists: &[Range<usize>],
    options: &ReduceOptions,
) -> Result<Matrix> {
    pooled(statistic, (x, None), lists, options)
}

/// The same of rows that have weights, or elements, for a sum, a mean, a variance or its root.
///
/// # Errors
///
/// As [`reduce_lists`], and for weights as [`reduce_weighted`](super::reduce_weighted).
pub fn reduce_lists_weighted(
    statistic: Statistic,
    x: &Matrix,
    weights: &Matrix,
    lists: &[Range<usize>],
    options: &ReduceOptions,
) -> Result<Matrix> {
    pooled(statistic, (x, Some(weights)), lists, options)
}

fn pooled(
    statistic: Statistic,
    (x, weights): (&Matrix, Option<&Matrix>),
    lists: &[Range<usize>],
    options: &ReduceOptions,
) -> Result<Matrix> {
    run::call("pool", || {
        if let Some(last) = lists.iter().find(|list| list.end > x.rows()) {
            return Err(Error::Rows { what: "values", expected: last.end, got: x.rows() });
        }
        with_rows(statistic, (x, weights), &Members::of_lists(lists)?, options)
    })
}

fn with_rows(
    statistic: Statistic,
    (x, weights): (&Matrix, Option<&Matrix>),
    members: &Members,
    options: &ReduceOptions,
) -> Result<Matrix> {
    let weights = of_rows(statistic, x, weights)?;
    let (weights, is_weighted) = (weights.as_ref(), weights.is_some());
    let plan = run::planned(&reduce::work(x, Per::Column, statistic))?;
    let rows = Rows { x, weights, members, options: *options, plan };
    match statistic {
        Statistic::Count => rows.count(),
        _ => with_reducer((statistic, is_weighted), x.element_type(), options, rows),
    }
}

/// A call that is planned.
struct Rows<'a> {
    x: &'a Matrix,
    weights: Option<&'a Aligned<'a>>,
    members: &'a Members,
    options: ReduceOptions,
    plan: Plan,
}

/// Bytes of the elements that a task takes about, so that an interrupt does not wait.
const BYTES_OF_A_TASK: usize = 4 << 20;

/// Elements of a leaf: what a group is cut at multiples of.
const LEAF: usize = 1024;

impl Rows<'_> {
    fn count(&self) -> Result<Matrix> {
        with_wide!(self.x.element_type(), T => self.count_in(&self.x.view::<T>()?))
    }

    fn count_in<T: Number>(&self, view: &View<'_, T>) -> Result<Matrix> {
        let members = self.members;
        let (groups, width) = (members.seen(), view.width);
        let has_nulls = Source::has_nulls(view);
        let mut values = Output::<i64>::new(results_of(groups, width)?)?;
        values.fill(0);
        let mut counts = crate::buffer::vec_of(0u64, width)?;
        run::in_steps(0..members.ids().len(), GROUPS_OF_A_TASK, |some| {
            for i in some {
                let (first, rows) = (members.ids()[i] as usize * width, members.rows(i));
                let out = &mut values[first..first + width];
                if !has_nulls {
                    out.fill(rows.len() as i64);
                    continue;
                }
                counts.fill(0);
                for row in rows {
                    let row = *row as usize;
                    view.count_columns(row..row + 1, 0..width, &mut counts);
                }
                out.iter_mut().zip(&counts).for_each(|(out, count)| *out = *count as i64);
            }
            Ok(())
        })?;
        lists(&array_of(values, None, &DataType::Int64)?, groups, width)
    }
}

impl WithReducer for Rows<'_> {
    type Out = Matrix;

    fn with<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<Matrix> {
        let Self { x, weights, members, options, plan } = self;
        let source = weighted::<T>(x, weights)?;
        let (groups, width) = (members.seen(), x.width());
        let results = results_of(groups, width)?;
        let has_nulls = source.has_nulls();
        let mut values = Output::<O>::new(results)?;
        if members.ids().len() < groups {
            values.fill(O::default());
        }
        // Where nothing is null, the length of a group says whether its results are valid.
        let mut valid = crate::buffer::vec_of(false, if has_nulls { results } else { groups })?;
        let min = how.min_count as u64;
        let required =
            |rows: usize| Required { min, all: (!options.skip_nulls).then_some(rows as u64) };
        let failed = AtomicUsize::new(usize::MAX);
        let finish = Finishing {
            finish: how.finish,
            required: &required,
            has_nulls,
            width,
            failed: &failed,
        };
        let work =
            Work { source: &source, members, reducer: how.reducer, level: plan.level(machine()) };
        if width > 0 {
            let valid_width = if has_nulls { width } else { 1 };
            let Cut { tasks, giants } =
                cut::<T, O>(width, members, &plan, &mut values[..], &mut valid, valid_width);
            run::each_while(&plan, tasks, Workspace::default, |workspace, task, go_on| {
                work.task(&finish, task, workspace, go_on);
            })?;
            for (i, slots) in giants {
                let seen = work.giant(i, &plan)?;
                finish.group(&seen, 0, members.rows(i).len(), slots, members.ids()[i] as usize);
            }
        }
        let failed = failed.into_inner();
        if failed != usize::MAX {
            return Err(Error::Overflow { what: "group", index: failed, into: to.clone() });
        }
        let nulls = if valid.iter().all(|valid| *valid) {
            None
        } else if has_nulls {
            Some(matrix::from_bits(results, |i| valid[i])?)
        } else {
            Some(matrix::from_bits(results, |i| valid[i / width])?)
        };
        lists(&array_of(values, nulls, to)?, groups, width)
    }
}

/// Where the results of some groups go.
struct Slots<'o, O> {
    values: &'o mut [O],
    valid: &'o mut [bool],
}

/// Groups that one task takes, and the slots from that of the first on.
struct Task<'o, O> {
    groups: Range<usize>,
    slots: Slots<'o, O>,
}

struct Cut<'o, O> {
    tasks: Vec<Task<'o, O>>,
    /// Groups that are more than a task.
    giants: Vec<(usize, Slots<'o, O>)>,
}

/// Groups in tasks of about as many rows each.
fn cut<'o, T: Number, O>(
    width: usize,
    members: &Members,
    plan: &Plan,
    mut values: &'o mut [O],
    mut valid: &'o mut [bool],
    valid_width: usize,
) -> Cut<'o, O> {
    let ids = members.ids();
    let most = rows_of_a_task(width, std::mem::size_of::<T>());
    let rows_of_a_task = members.len().div_ceil(8 * plan.threads).clamp(1, most);
    let mut slots = |count: usize| {
        let (now, rest) = std::mem::take(&mut values).split_at_mut(count * width);
        let (now_valid, rest_valid) = std::mem::take(&mut valid).split_at_mut(count * valid_width);
        (values, valid) = (rest, rest_valid);
        Slots { values: now, valid: now_valid }
    };
    let is_giant =
        |i: usize| plan.threads > 1 && members.range(i).len() > (2 * rows_of_a_task).max(2 * LEAF);
    let (mut tasks, mut giants) = (Vec::new(), Vec::new());
    let (mut from, mut next) = (0, 0);
    while from < ids.len() {
        // Groups without rows keep what is there.
        slots(ids[from] as usize - next);
        if is_giant(from) {
            memory::push(&mut giants, (from, slots(1)));
            next = ids[from] as usize + 1;
            from += 1;
            continue;
        }
        let begin = members.range(from).start;
        let within = |i: &usize| members.range(*i).end - begin <= rows_of_a_task && !is_giant(*i);
        let some = (from..ids.len()).take_while(within).count();
        let to = from + some.clamp(1, GROUPS_OF_A_TASK);
        let end = ids[to - 1] as usize + 1;
        memory::push(&mut tasks, Task { groups: from..to, slots: slots(end - ids[from] as usize) });
        (from, next) = (to, end);
    }
    Cut { tasks, giants }
}

/// Rows that a task takes at most.
fn rows_of_a_task(width: usize, size: usize) -> usize {
    (BYTES_OF_A_TASK / (width * size).max(1)).max(LEAF)
}

/// How nodes become results.
struct Finishing<'a, F, Q> {
    finish: F,
    required: &'a Q,
    has_nulls: bool,
    width: usize,
    /// The first group whose result does not fit.
    failed: &'a AtomicUsize,
}

impl<F: Copy, Q: Fn(usize) -> Required> Finishing<'_, F, Q> {
    /// The results of a group of so many rows, whose nodes are those from `first` on.
    fn group<N: Copy, O: Number>(
        &self,
        seen: &Seen<N>,
        first: usize,
        rows: usize,
        slots: Slots<'_, O>,
        id: usize,
    ) where
        F: Finish<N, O>,
    {
        let Slots { values, valid } = slots;
        let (finish, required) = (self.finish, (self.required)(rows));
        let own = first..first + self.width;
        if !self.has_nulls && seen.nodes.scales.is_empty() {
            valid[0] = required.is_met(rows as u64);
            let nodes = &seen.nodes.nodes[own];
            finish.all(nodes, rows, values);
            if valid[0] && !finish.all_fit(nodes) {
                self.failed.fetch_min(id, Ordering::Relaxed);
            }
            if !valid[0] {
                values.fill(O::default());
            }
            return;
        }
        for (c, i) in own.enumerate() {
            let (count, Partial { node, scale }) = (seen.counts.get(i), seen.nodes.get(i));
            let is_null = F::MAY_BE_NULL && finish.is_null(&node);
            let is_met = required.is_met(count) && !is_null;
            valid[if self.has_nulls { c } else { 0 }] = is_met;
            values[c] = if is_met { finish.one(node, count, scale.power()) } else { O::default() };
            if is_met && !finish.fits(&node) {
                self.failed.fetch_min(id, Ordering::Relaxed);
            }
        }
    }
}

/// What every task reads.
struct Work<'a, T: Number, R> {
    source: &'a Weighted<View<'a, T>>,
    members: &'a Members,
    reducer: R,
    level: Level,
}

/// Workspace of a thread.
struct Workspace<T> {
    tile: TileWorkspace<T>,
    /// Groups in the order of their lengths.
    order: Vec<u32>,
    /// Rows of a tile.
    indices: Vec<u32>,
}

impl<T> Default for Workspace<T> {
    fn default() -> Self {
        Self { tile: TileWorkspace::default(), order: Vec::new(), indices: Vec::new() }
    }
}

impl<T: Number, R: Reducer<T>> Work<'_, T, R> {
    fn task<O: Number, F: Finish<R::Node, O>, Q: Fn(usize) -> Required>(
        &self,
        finish: &Finishing<'_, F, Q>,
        task: Task<'_, O>,
        workspace: &mut Workspace<T>,
        go_on: &dyn Fn() -> bool,
    ) {
        let (members, width) = (self.members, self.source.width());
        let len = |i: u32| members.range(i as usize).len();
        let Task { groups, slots: Slots { values, valid } } = task;
        let first = members.ids()[groups.start] as usize;
        let valid_width = if finish.has_nulls { width } else { 1 };
        let mut put = |seen: &Seen<R::Node>, nth: usize, i: u32| {
            let id = members.ids()[i as usize] as usize;
            let at = id - first;
            let slots = Slots {
                values: &mut values[at * width..(at + 1) * width],
                valid: &mut valid[at * valid_width..(at + 1) * valid_width],
            };
            finish.group(seen, nth * width, len(i), slots, id);
        };
        let mut order = std::mem::take(&mut workspace.order);
        order.clear();
        memory::reserve(&mut order, groups.len());
        order.extend(groups.map(|i| i as u32));
        order.sort_by_key(|i| len(*i));
        for same in order.chunk_by(|a, b| len(*a) == len(*b)) {
            let rows = len(same[0]);
            let together = (TILE / (rows * width)).max(1);
            for some in same.chunks(together) {
                if !go_on() {
                    return;
                }
                let seen = if rows * width > TILE {
                    self.alone(some[0] as usize, 0..rows, &mut workspace.tile).nodes()
                } else {
                    self.side_by_side(some, rows, workspace)
                };
                some.iter().enumerate().for_each(|(nth, i)| put(&seen, nth, *i));
            }
        }
        workspace.order = order;
    }

    /// Some rows of a group.
    fn alone(&self, i: usize, rows: Range<usize>, tile: &mut TileWorkspace<T>) -> Running<T, R> {
        let Self { source, members, reducer, level } = *self;
        let (gathered, width) = (source.gathered(level, members.rows(i)), source.width());
        let mut running = Running::new(reducer, width, rows.start, Some(rows.len()));
        running.update(level, &gathered, (rows, 0..width), None, tile);
        running
    }

    /// Groups of the same number of rows, as the columns of one tile.
    fn side_by_side(
        &self,
        groups: &[u32],
        rows: usize,
        workspace: &mut Workspace<T>,
    ) -> Seen<R::Node> {
        let Self { source, members, reducer, level } = *self;
        let width = source.width();
        let indices = &mut workspace.indices;
        indices.clear();
        memory::reserve(indices, rows * groups.len());
        for row in 0..rows {
            indices.extend(groups.iter().map(|i| members.rows(*i as usize)[row]));
        }
        let wanted = Wanted { fill: reducer.fill(), with_validity: R::NEEDS_VALIDITY };
        let gathered = source.gathered(level, indices);
        let all = 0..indices.len();
        let counts = if gathered.has_nulls() {
            let mut counts = memory::filled(0, groups.len() * width);
            for nth in 0..indices.len() {
                let at = nth % groups.len() * width;
                gathered.count_columns(nth..nth + 1, 0..width, &mut counts[at..at + width]);
            }
            Counts::Each(counts)
        } else {
            Counts::All(rows)
        };
        let (tile, _) = gathered.block(all, 0..width, wanted, &mut workspace.tile);
        let columns = groups.len() * width;
        let mut many = reducer.many(columns, 0, rows);
        level.run(FeedMany::<T, R> { many: &mut many, tile, stride: columns });
        Seen { nodes: Many::<T, R::Node>::finish(many), counts }
    }

    /// A group that all threads share.
    fn giant(&self, i: usize, plan: &Plan) -> Result<Seen<R::Node>> {
        let rows = self.members.rows(i).len();
        let most = rows_of_a_task(self.source.width(), std::mem::size_of::<T>());
        let leaves = rows.div_ceil(8 * plan.threads).min(most).div_ceil(LEAF).next_power_of_two();
        let pieces: Vec<_> = matrix::steps(0..rows, leaves * LEAF).gather();
        let mut states: Vec<Option<State<R::Node>>> = pieces.iter().map(|_| None).gather();
        let tasks = pieces.into_iter().zip(&mut states).gather();
        run::each(plan, tasks, TileWorkspace::default, |tile, (rows, state)| {
            *state = Some(self.alone(i, rows, tile).pause());
        })?;
        let merged = states.into_iter().flatten();
        let merged = merged.reduce(|left, right| left.merge(self.reducer, right));
        let nothing = || Seen { nodes: Nodes::plain(Vec::new()), counts: Counts::All(0) };
        Ok(merged.map_or_else(nothing, |state| state.nodes(self.reducer)))
    }
}
