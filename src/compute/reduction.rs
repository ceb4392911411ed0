//! Splits a reduction into tasks, on boundaries that do not change the answer, and merges the states
//! they give.
//!
//! A task that takes 2ᵏ leaves from a multiple of 2ᵏ on computes one node of the fixed tree (see
//! `kernel::sum`), so every split gives the same bits.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Per;
use super::state::{FeedMany, Finish, Required, Running, RunningOne, Seen, State};
use crate::buffer::{Output, collected, vec_of, vec_with_capacity};
use crate::dispatch::{Backend, Level, Plan, SHORT_PIECE, WORTH_HALVING, machine, run};
use crate::error::Result;
use crate::kernel::{
    Body, COLUMN_BLOCK, Counts, Many, Nodes, Partial, Reducer, Scale, Simd, Tile, join_nodes,
    no_elements,
};
use crate::matrix::{Number, Source, TILE, TileWorkspace, Wanted, steps};
use crate::memory::{self, Gather as _};

/// Columns that a task takes at most: with a leaf of rows 32 MiB of float32, so that an interrupt
/// does not wait.
const COLUMNS_OF_A_TASK: usize = 8192;

/// Tasks that one sequence is split into at most: enough for any machine, and few enough that what
/// each of them gives is no burden beside a result of one number.
const MOST_TASKS: usize = 1 << 16;

/// The node of a dense run, as a vendor library makes it, in an order of its own.
pub(super) type ByVendor<T, N> = fn(&[T]) -> Option<N>;

/// A reduction that is planned.
pub(super) struct Reduction<T: Number, R: Reducer<T>, S> {
    reducer: R,
    vendor: Option<ByVendor<T, R::Node>>,
    source: S,
    by_columns: bool,
    has_nulls: bool,
    plan: Plan,
    level: Level,
    /// Results that did not [fit](Finish::fits).
    failed: Mutex<Vec<usize>>,
}

/// The results of a reduction.
pub(super) struct Results<O> {
    pub(super) values: Output<O>,
    pub(super) valid: Valid,
    /// Those that did not [fit](Finish::fits), in order.
    pub(super) failed: Vec<usize>,
}

/// Which results have as many valid elements as they need.
pub(super) enum Valid {
    /// All, or none: nothing is null.
    All(bool),
    Each(Vec<bool>),
}

impl<T: Number, R: Reducer<T>, S: Source<T>> Reduction<T, R, S> {
    pub(super) fn new(
        source: S,
        reducer: R,
        vendor: Option<ByVendor<T, R::Node>>,
        plan: Plan,
    ) -> Self {
        Self {
            reducer,
            vendor: vendor.filter(|_| plan.backend == Backend::Vdsp),
            by_columns: source.is_by_columns(),
            has_nulls: source.has_nulls(),
            source,
            level: plan.level(machine()),
            plan,
            failed: Mutex::new(Vec::new()),
        }
    }

    /// What is seen of the matrix, or of each column.
    pub(super) fn seen(&self, by_columns: bool) -> Result<Seen<R::Node>> {
        if by_columns { self.columns() } else { self.matrix() }
    }

    /// The results, with `required` valid elements each.
    pub(super) fn results<O: Number, F: Finish<R::Node, O>>(
        &self,
        per: Per,
        finish: F,
        required: Required,
    ) -> Result<Results<O>> {
        let (len, full) = match per {
            Per::Matrix => (1, self.source.rows() * self.source.width()),
            Per::Column => (self.source.width(), self.source.rows()),
            Per::Row => (self.source.rows(), self.source.width()),
        };
        let mut values = Output::new(len)?;
        let mut valid = if self.has_nulls { vec_of(false, len)? } else { Vec::new() };
        let mut out = Out { values: &mut values, valid: &mut valid, first: 0 };
        let make = Make { finish, required };
        match per {
            Per::Matrix => self.finish_some(make, &self.matrix()?, &mut out),
            Per::Column if self.is_one_row_task() => self.few_rows(make, out)?,
            Per::Column => self.finish_some(make, &self.columns()?, &mut out),
            Per::Row => self.rows(make, out)?,
        }
        let mut failed =
            std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner));
        failed.sort_unstable();
        let valid = match self.has_nulls {
            true => Valid::Each(valid),
            false => Valid::All(required.is_met(full as u64)),
        };
        Ok(Results { values, valid, failed })
    }

    /// Makes the results of what was seen.
    fn finish_some<O: Number, F: Finish<R::Node, O>>(
        &self,
        Make { finish, required }: Make<F>,
        Seen { nodes, counts }: &Seen<R::Node>,
        out: &mut Out<'_, O>,
    ) {
        let all_fit = match counts {
            Counts::All(count) if nodes.scales.is_empty() => {
                let (nodes, out) = (&nodes.nodes, &mut *out.values);
                self.level.run(FinishAll { finish, nodes, count: *count, out })
            }
            Counts::Each(counts) if nodes.scales.is_empty() => {
                let (nodes, out) = (&nodes.nodes, &mut *out.values);
                self.level.run(FinishEach { finish, nodes, counts, out })
            }
            _ => {
                for (i, o) in out.values.iter_mut().enumerate() {
                    let Partial { node, scale } = nodes.get(i);
                    *o = finish.one(node, counts.get(i), scale.power());
                }
                false
            }
        };
        match counts {
            Counts::All(count) => out.valid.fill(required.is_met(*count as u64)),
            Counts::Each(counts) => required.are_met(counts, out.valid),
        }
        if F::MAY_BE_NULL {
            for (valid, node) in out.valid.iter_mut().zip(&nodes.nodes) {
                *valid &= !finish.is_null(node);
            }
        }
        if !all_fit {
            self.check(finish, &nodes.nodes, out.first);
        }
    }

    /// Takes down which of the results from `first` on do not fit.
    fn check<O, F: Finish<R::Node, O>>(&self, finish: F, nodes: &[R::Node], first: usize) {
        if !finish.all_fit(nodes) {
            let odd = (first..).zip(nodes).filter(|(_, node)| !finish.fits(node));
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            memory::extend(&mut failed, odd.map(|(i, _)| i));
        }
    }

    /// Grains of `width` sequences per task: a power of two, so that a task is a node of the tree.
    fn grains_per_task(&self, width: usize) -> usize {
        let grain = R::GRAIN.saturating_mul(width).saturating_mul(std::mem::size_of::<T>());
        (self.plan.task_bytes / grain.max(1)).max(1).next_power_of_two()
    }

    /// Elements of `width` sequences of `len` per task: [`grains_per_task`](Self::grains_per_task),
    /// or more, so that no input, however large, makes more than [`MOST_TASKS`].
    fn step(&self, len: usize, width: usize) -> usize {
        let min = len.div_ceil(R::GRAIN).div_ceil(MOST_TASKS).next_power_of_two();
        self.grains_per_task(width).max(min).saturating_mul(R::GRAIN)
    }

    /// Runs `body` on each task and gives the nodes in the order of the tasks.
    fn nodes<K: Send, N: Send>(
        &self,
        tasks: Vec<K>,
        body: impl Fn(&mut TileWorkspace<T>, K) -> N + Sync,
    ) -> Result<Vec<N>> {
        if tasks.len() == 1 {
            let mut only = None;
            let slots = tasks.into_iter().zip([&mut only]).gather();
            run::each(&self.plan, slots, TileWorkspace::default, |workspace, (task, slot)| {
                *slot = Some(body(workspace, task));
            })?;
            return Ok(only.into_iter().gather());
        }
        let mut results: Vec<Option<N>> = collected(tasks.iter().map(|_| None))?;
        let slots = collected(tasks.into_iter().zip(&mut results))?;
        run::each(&self.plan, slots, TileWorkspace::default, |workspace, (task, slot)| {
            *slot = Some(body(workspace, task));
        })?;
        collected(results.into_iter().flatten())
    }

    /// What is seen of everything, row by row.
    fn matrix(&self) -> Result<Seen<R::Node>> {
        self.sequence(0..self.source.rows() * self.source.width())
    }

    /// What is seen of the elements `range`, whose first is the first of a sequence.
    fn sequence(&self, range: Range<usize>) -> Result<Seen<R::Node>> {
        let first = range.start;
        let step = self.step(range.len(), 1);
        let tasks = steps(range, step).gather();
        let width = self.source.width().max(1);
        let states = self.nodes(tasks, |workspace, range: Range<usize>| match self.vendor {
            _ if self.source.is_null(range.start / width..range.end.div_ceil(width)) => None,
            Some(vendor) => Some(self.by_vendor(vendor, range)),
            None => Some(self.flat(range, first, workspace).pause()),
        })?;
        Ok(self.merged(1, states.into_iter().flatten()))
    }

    /// What is seen by tasks that follow each other.
    fn merged(&self, width: usize, states: impl Iterator<Item = State<R::Node>>) -> Seen<R::Node> {
        let nothing = State::new(width, self.has_nulls);
        states.fold(nothing, |left, right| left.merge(self.reducer, right)).nodes(self.reducer)
    }

    /// A node in the vendor's order, asked for with `RAPTORS_BACKEND=vdsp-reductions`; in ours where
    /// it overflows. Nothing is null.
    fn by_vendor(&self, vendor: ByVendor<T, R::Node>, range: Range<usize>) -> State<R::Node> {
        let mut workspace = TileWorkspace::default();
        let pieces = self.source.flat_tiles(range.clone());
        let node = pieces.fold(self.reducer.empty(), |node, range| {
            let tile = self.source.flat(range, self.wanted(), &mut workspace);
            self.reducer.join(node, vendor(tile.x).unwrap_or(self.reducer.empty()))
        });
        if !self.reducer.fits(&node) {
            return self.flat(range.clone(), range.start, &mut workspace).pause();
        }
        let mut state = State::new(1, false);
        state.tree.push(self.reducer, 1, Some(Nodes::plain(vec![node])));
        State { counts: Counts::All(range.len()), ..state }
    }

    fn wanted(&self) -> Wanted<T> {
        Wanted { fill: self.reducer.fill(), with_validity: R::NEEDS_VALIDITY }
    }

    /// Whether one task takes all rows of some columns.
    fn is_one_row_task(&self) -> bool {
        let (rows, width) = (self.source.rows(), self.source.width());
        !self.by_columns && rows <= self.grains_per_task(width) * R::GRAIN
    }

    /// Columns of a task: at least 1 KiB of each row, so that the prefetchers find a run to follow,
    /// and enough tasks for the threads if the rows make `row_tasks` of them.
    fn columns_per_task(&self, row_tasks: usize) -> usize {
        let wanted = if self.plan.threads > 1 { 2 * self.plan.threads } else { 1 };
        let groups = wanted.div_ceil(row_tasks.max(1));
        let fewest = (1 << 10) / std::mem::size_of::<T>();
        let width = self.source.width();
        width.div_ceil(groups.max(1)).next_multiple_of(64).clamp(fewest, COLUMNS_OF_A_TASK)
    }

    /// One result per column, where a task takes all rows: results are made where they belong.
    fn few_rows<O: Number, F: Finish<R::Node, O>>(
        &self,
        make: Make<F>,
        mut out: Out<'_, O>,
    ) -> Result<()> {
        let (rows, width) = (self.source.rows(), self.source.width());
        let reads_pieces = self.reads_pieces();
        if reads_pieces && self.is_worth_halving() {
            self.finish_some(make, &self.columns_by_halves()?, &mut out);
            return Ok(());
        }
        let group = if reads_pieces { width } else { self.columns_per_task(1) };
        let tasks = out.tasks(group).gather();
        run::each(&self.plan, tasks, TileWorkspace::default, |workspace, out| {
            for mut out in out.tasks(COLUMN_BLOCK) {
                let columns = out.first..out.first + out.values.len();
                let seen = self.some_columns(columns, 0..rows, None, workspace).nodes();
                self.finish_some(make, &seen, &mut out);
            }
        })
    }

    /// Whether several threads were to share plain sums, which are bound by reading, by columns,
    /// and would read only short pieces of the rows, which are not prefetched.
    fn reads_pieces(&self) -> bool {
        let columns = self.columns_per_task(1);
        self.plan.threads > 1
            && columns < self.source.width()
            && columns * std::mem::size_of::<T>() < SHORT_PIECE
            && self.reducer.half(0).is_some()
    }

    /// Whether they share one grain of rows by halves instead; below, one thread is as fast.
    fn is_worth_halving(&self) -> bool {
        let (rows, width) = (self.source.rows(), self.source.width());
        rows <= R::GRAIN && rows * width * std::mem::size_of::<T>() >= WORTH_HALVING
    }

    /// What is seen of each column of one grain of rows: of the even rows and of the odd ones.
    fn columns_by_halves(&self) -> Result<Seen<R::Node>> {
        let (rows, width) = (self.source.rows(), self.source.width());
        let group = self.columns_per_task(2);
        let tasks = steps(0..width, group)
            .flat_map(|columns| [(columns.clone(), 0), (columns, 1)])
            .gather();
        let halves = self.nodes(tasks, |workspace, (columns, half)| {
            let mut all = Seen::none(self.has_nulls);
            for columns in steps(columns, COLUMN_BLOCK) {
                all.append(self.some_columns(columns, 0..rows, Some(half), workspace).nodes());
            }
            all
        })?;
        let mut halves = halves.into_iter();
        let mut all = Seen::none(self.has_nulls);
        while let (Some(even), Some(odd)) = (halves.next(), halves.next()) {
            let nodes = join_nodes(self.reducer, even.nodes, &odd.nodes);
            all.append(Seen { nodes, counts: even.counts });
        }
        Ok(all)
    }

    /// What is seen of each column.
    fn columns(&self) -> Result<Seen<R::Node>> {
        let (rows, width) = (self.source.rows(), self.source.width());
        let reducer = self.reducer;
        let mut all = Seen::none(self.has_nulls);
        all.nodes.nodes = vec_with_capacity(width)?;
        if self.has_nulls {
            all.counts = Counts::Each(vec_with_capacity(width)?);
        }
        if rows == 0 {
            all.nodes.nodes = vec_of(reducer.empty(), width)?;
            return Ok(Seen { counts: Counts::All(0), ..all });
        }
        if self.by_columns {
            let step = self.step(rows, 1);
            let tasks = (0..width).flat_map(|c| steps(0..rows, step).map(move |r| (c, r)));
            let tasks = collected(tasks)?;
            let states = self.nodes(tasks, |workspace, (column, rows)| {
                let mut running = RunningOne::new(reducer, rows.start);
                running.update_column(self.level, &self.source, (column, rows), workspace);
                running.pause()
            })?;
            let mut states = states.into_iter();
            for _ in 0..width {
                all.append(self.merged(1, states.by_ref().take(rows.div_ceil(step))));
            }
            return Ok(all);
        }
        let step = self.step(rows, width);
        let row_tasks = rows.div_ceil(step);
        // Too few rows for the threads: the columns are split too.
        let group = self.columns_per_task(row_tasks);
        let tasks = steps(0..width, group)
            .flat_map(|columns| steps(0..rows, step).map(move |rows| (columns.clone(), rows)))
            .gather();
        let states = self.nodes(tasks, |workspace, (columns, rows)| {
            // Null rows have no states, which are as good as empty ones and take no memory.
            let is_null = self.source.is_null(rows.clone());
            let states = steps(columns, COLUMN_BLOCK)
                .filter(|_| !is_null)
                .map(|columns| self.some_columns(columns, rows.clone(), None, workspace).pause());
            states.gather()
        })?;
        let mut states = states.into_iter().map(Vec::into_iter).gather();
        for (columns, states) in steps(0..width, group).zip(states.chunks_mut(row_tasks)) {
            for columns in steps(columns, COLUMN_BLOCK) {
                let parts = states.iter_mut().filter_map(Iterator::next);
                all.append(self.merged(columns.len(), parts));
            }
        }
        Ok(all)
    }

    /// One result per row.
    fn rows<O: Number, F: Finish<R::Node, O>>(
        &self,
        make: Make<F>,
        mut out: Out<'_, O>,
    ) -> Result<()> {
        let (rows, width) = (self.source.rows(), self.source.width());
        let long = self.grains_per_task(1) * R::GRAIN;
        if !self.by_columns && width >= 2 * long && rows < 2 * self.plan.threads {
            // Few long rows: each is split like a matrix of its own.
            let mut all = Seen::none(self.has_nulls);
            for row in 0..rows {
                all.append(self.sequence(row * width..(row + 1) * width)?);
            }
            self.finish_some(make, &all, &mut out);
            return Ok(());
        }
        let row_bytes = (width * std::mem::size_of::<T>()).max(1);
        let rows_per_task = (self.plan.task_bytes / row_bytes).max(1);
        let tasks = collected(out.tasks(rows_per_task))?;
        let state = || (TileWorkspace::default(), Seen::none(self.has_nulls));
        run::each(&self.plan, tasks, state, |(workspace, seen), out| {
            if let Some(vendor) = self.vendor {
                for mut out in out.tasks(1) {
                    let first = out.first * width;
                    let seen = self.by_vendor(vendor, first..first + width).nodes(self.reducer);
                    self.finish_some(make, &seen, &mut out);
                }
                return;
            }
            self.some_rows(make, out, workspace, seen);
        })
    }
}

/// How results are made of nodes.
#[derive(Clone, Copy)]
struct Make<F> {
    finish: F,
    required: Required,
}

/// Where results go: those from `first` on. Nothing says which are valid where nothing is null.
struct Out<'a, O> {
    values: &'a mut [O],
    valid: &'a mut [bool],
    first: usize,
}

impl<'a, O> Out<'a, O> {
    /// The same in steps of `step` results.
    fn tasks(self, step: usize) -> impl Iterator<Item = Out<'a, O>> {
        let step = step.max(1);
        let Self { values, valid, first } = self;
        let valid = valid.chunks_mut(step).chain(std::iter::repeat_with(|| &mut [][..]));
        let firsts = (first..).step_by(step);
        let each = values.chunks_mut(step).zip(valid).zip(firsts);
        each.map(|((values, valid), first)| Out { values, valid, first })
    }
}

impl<T: Number, R: Reducer<T>, S: Source<T>> Reduction<T, R, S> {
    /// What is seen of a range of elements, counted row by row; element `first` is the first of its
    /// sequence.
    fn flat(
        &self,
        range: Range<usize>,
        first: usize,
        workspace: &mut TileWorkspace<T>,
    ) -> RunningOne<T, R> {
        let mut running = RunningOne::new(self.reducer, range.start - first);
        running.update(self.level, &self.source, range, workspace);
        running
    }

    /// What is seen of at most [`COLUMN_BLOCK`] columns of a matrix that lies by rows; of the even
    /// rows alone, if `half` is 0, or of the odd ones, if it is 1.
    fn some_columns(
        &self,
        columns: Range<usize>,
        rows: Range<usize>,
        half: Option<usize>,
        workspace: &mut TileWorkspace<T>,
    ) -> Running<T, R> {
        let (reducer, width) = (self.reducer, columns.len());
        let mut running = half
            .and_then(|_| Running::half(reducer, width))
            .unwrap_or_else(|| Running::new(reducer, width, rows.start, Some(rows.len())));
        running.update(self.level, &self.source, (rows, columns), half, workspace);
        running
    }

    /// One result for each row.
    fn some_rows<O: Number, F: Finish<R::Node, O>>(
        &self,
        make: Make<F>,
        out: Out<'_, O>,
        workspace: &mut TileWorkspace<T>,
        seen: &mut Seen<R::Node>,
    ) {
        let first = out.first;
        for (rows, is_lent) in self.source.pieces(first..first + out.values.len()) {
            let width = self.source.width().max(1);
            let is_whole = self.by_columns || is_lent;
            let step = if is_whole { ROWS_HELD } else { (TILE / width).clamp(1, ROWS_HELD) };
            for rows in steps(rows, step) {
                let at = rows.start - first..rows.end - first;
                let valid = if self.has_nulls { &mut out.valid[at.clone()] } else { &mut [][..] };
                let values = &mut out.values[at];
                match &mut seen.counts {
                    Counts::All(count) => *count = self.source.width(),
                    Counts::Each(counts) => {
                        memory::resize(counts, rows.len(), 0);
                        self.source.count_rows(rows.start, counts);
                    }
                }
                let mut out = Out { values, valid, first: rows.start };
                self.nodes_of_rows(rows, is_lent, workspace, &mut seen.nodes);
                self.finish_some(make, seen, &mut out);
            }
        }
    }

    /// The nodes of some rows of one piece.
    fn nodes_of_rows(
        &self,
        rows: Range<usize>,
        is_lent: bool,
        workspace: &mut TileWorkspace<T>,
        nodes: &mut Nodes<R::Node>,
    ) {
        let (reducer, width) = (self.reducer, self.source.width());
        // What they hold before is overwritten, so it is not cleared.
        memory::resize(&mut nodes.nodes, rows.len(), reducer.empty());
        nodes.scales.clear();
        if width == 0 || self.source.is_null(rows.clone()) {
            *nodes = no_elements(reducer, rows.len());
        } else if self.by_columns {
            let mut many = reducer.many_unwatched(rows.len(), width);
            for column in 0..width {
                let tile = self.source.column(column, rows.clone(), self.wanted(), workspace);
                self.level.run(FeedMany::<T, R> { many: &mut many, tile, stride: rows.len() });
            }
            let (of_rows, doubtful) = many.finish_unwatched();
            *nodes = of_rows;
            for i in doubtful {
                nodes.set(i, self.one_row(rows.start + i, workspace));
            }
        } else if is_lent || width * rows.len() <= TILE {
            let elements = rows.start * width..rows.end * width;
            let tile = self.source.flat(elements, self.wanted(), workspace);
            let Nodes { nodes: out, scales } = nodes;
            self.level.run(RowNodes { reducer, tile, width, out, scales });
        } else {
            for (i, row) in rows.enumerate() {
                nodes.set(i, self.one_row(row, workspace));
            }
        }
    }

    /// The node of one row.
    fn one_row(&self, row: usize, workspace: &mut TileWorkspace<T>) -> Partial<R::Node> {
        let width = self.source.width();
        self.flat(row * width..(row + 1) * width, row * width, workspace).node()
    }
}

/// Nodes of rows that are held before they become results.
const ROWS_HELD: usize = 512;

/// The node of each row of a tile.
pub(super) struct RowNodes<'a, T: Number, R: Reducer<T>> {
    pub(super) reducer: R,
    pub(super) tile: Tile<'a, T>,
    pub(super) width: usize,
    pub(super) out: &'a mut [R::Node],
    pub(super) scales: &'a mut Vec<Scale>,
}

impl<T: Number, R: Reducer<T>> Body for RowNodes<'_, T, R> {
    type Out = ();
    const WIDEST: bool = R::WIDEST;

    /// Rows that have a loop for their width, and are longer than half a register of AVX-512, are
    /// gathered there column by column, at half the speed (docs/perf/narrow.md).
    #[inline(always)]
    fn gains_by_widest(&self) -> bool {
        self.width > 16 || self.width * std::mem::size_of::<T>() <= 32
    }

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.reducer.rows(simd, self.tile, self.width, self.out, self.scales);
    }
}

pub(super) struct FinishAll<'a, N, O, F> {
    pub(super) finish: F,
    pub(super) nodes: &'a [N],
    pub(super) count: usize,
    pub(super) out: &'a mut [O],
}

impl<N: Copy, O, F: Finish<N, O>> Body for FinishAll<'_, N, O, F> {
    /// Whether all fit.
    type Out = bool;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> bool {
        self.finish.all(self.nodes, self.count, self.out);
        self.finish.all_fit(self.nodes)
    }
}

struct FinishEach<'a, N, O, F> {
    finish: F,
    nodes: &'a [N],
    counts: &'a [u64],
    out: &'a mut [O],
}

impl<N: Copy, O, F: Finish<N, O>> Body for FinishEach<'_, N, O, F> {
    /// Whether all fit.
    type Out = bool;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> bool {
        for ((o, node), count) in self.out.iter_mut().zip(self.nodes).zip(self.counts) {
            *o = self.finish.one(*node, *count, 1.0);
        }
        self.finish.all_fit(self.nodes)
    }
}
