//! Splits a reduction into tasks, on boundaries that do not change the answer, and joins what
//! they give.
//!
//! A task that takes 2ᵏ leaves from a multiple of 2ᵏ on computes one node of the fixed tree (see
//! `kernel::sum`), so every split gives the same bits.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Per;
use crate::buffer::Output;
use crate::dispatch::{Backend, Level, Plan, SHORT_PIECE, WORTH_HALVING, Work, machine, run};
use crate::error::Result;
use crate::kernel::{Body, COLUMN_BLOCK, Many, One, Reducer, Simd, Tile, Tree};
use crate::matrix::{Counts, Matrix, Number, Part, Scratch, TILE, View, steps};

/// What becomes of a node: the result, in the type that it comes out as.
pub(super) trait Finish<N, O>: Copy + Sync {
    fn one(self, node: N, count: u64) -> O;
    /// [`one`](Self::one) for nodes that all have the same count.
    #[inline(always)]
    fn all(self, nodes: &[N], count: usize, out: &mut [O])
    where
        N: Copy,
    {
        for (o, node) in out.iter_mut().zip(nodes) {
            *o = self.one(*node, count as u64);
        }
    }
    /// Whether the result fits its type.
    #[inline(always)]
    fn fits(self, _node: &N) -> bool {
        true
    }
}

/// Columns that a task takes at most: with a leaf of rows 32 MiB of float32, so that an interrupt
/// does not wait.
const COLUMNS_OF_A_TASK: usize = 8192;

/// The node of a dense run, as a vendor library makes it, in an order of its own.
pub(super) type ByVendor<T, N> = fn(&[T]) -> Option<N>;

/// A reduction that is planned.
pub(super) struct Reduction<'a, T: Number, R: Reducer<T>> {
    function: &'static str,
    reducer: R,
    vendor: Option<ByVendor<T, R::Node>>,
    view: View<'a, T>,
    by_columns: bool,
    plan: Plan,
    level: Level,
    /// Results that did not fit their type.
    failed: Mutex<Vec<usize>>,
}

impl<'a, T: Number, R: Reducer<T>> Reduction<'a, T, R> {
    pub(super) fn new(
        function: &'static str,
        x: &'a Matrix,
        reducer: R,
        vendor: Option<ByVendor<T, R::Node>>,
        work: Work,
    ) -> Result<Self> {
        let work = Work { has_vdsp: work.has_vdsp && vendor.is_some(), ..work };
        let plan = run::planned(&work)?;
        Ok(Self {
            function,
            reducer,
            vendor: vendor.filter(|_| plan.backend == Backend::Vdsp),
            view: x.view(function)?,
            by_columns: x.is_by_columns(),
            level: plan.level(machine()),
            plan,
            failed: Mutex::new(Vec::new()),
        })
    }

    /// The node of the matrix, or of each column.
    pub(super) fn nodes_of_columns(&self, apart: bool) -> Result<Vec<R::Node>> {
        if apart { self.columns() } else { Ok(vec![self.matrix()?]) }
    }

    /// The results, and those of them that did not fit their type.
    pub(super) fn results<O: Number, F: Finish<R::Node, O>>(
        &self,
        per: Per,
        counts: &Counts,
        finish: F,
    ) -> Result<(Output<O>, Vec<usize>)> {
        let out = match per {
            Per::Matrix => self.finished(&[self.matrix()?], counts, finish)?,
            Per::Column if self.is_one_row_task() => self.few_rows(counts, finish)?,
            Per::Column => self.finished(&self.columns()?, counts, finish)?,
            Per::Row => self.rows(counts, finish)?,
        };
        let failed =
            std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((out, failed))
    }

    fn finished<O: Number, F: Finish<R::Node, O>>(
        &self,
        nodes: &[R::Node],
        counts: &Counts,
        finish: F,
    ) -> Result<Output<O>> {
        let mut out = Output::new(self.function, nodes.len())?;
        for (i, (o, node)) in out.iter_mut().zip(nodes).enumerate() {
            *o = finish.one(*node, counts.get(i));
            self.check(finish, node, i);
        }
        Ok(out)
    }

    #[inline(always)]
    fn check<O, F: Finish<R::Node, O>>(&self, finish: F, node: &R::Node, i: usize) {
        if !finish.fits(node) {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(i);
        }
    }

    /// Grains of `width` sequences per task: a power of two, so that a task is a node of the tree.
    fn grains_per_task(&self, width: usize) -> usize {
        let grain = R::GRAIN.saturating_mul(width).saturating_mul(std::mem::size_of::<T>());
        (self.plan.task_bytes / grain.max(1)).max(1).next_power_of_two()
    }

    /// Runs `body` on each task and gives the nodes in the order of the tasks.
    fn nodes<K: Send, N: Send>(
        &self,
        tasks: Vec<K>,
        body: impl Fn(&mut Room<T>, K) -> N + Sync,
    ) -> Result<Vec<N>> {
        let mut results: Vec<Option<N>> = tasks.iter().map(|_| None).collect();
        let slots: Vec<(K, &mut Option<N>)> = tasks.into_iter().zip(&mut results).collect();
        run::each(self.function, &self.plan, slots, Room::default, |room, (task, slot)| {
            *slot = Some(body(room, task));
        })?;
        Ok(results.into_iter().flatten().collect())
    }

    /// The node of everything, row by row.
    fn matrix(&self) -> Result<R::Node> {
        self.sequence(0..self.view.rows * self.view.width)
    }

    /// The node of the elements `range`, whose first is the first of a sequence.
    fn sequence(&self, range: Range<usize>) -> Result<R::Node> {
        let first = range.start;
        let tasks = steps(range, self.grains_per_task(1) * R::GRAIN).collect();
        let nodes = self.nodes(tasks, |room, range| match self.vendor {
            Some(vendor) => self.by_vendor(vendor, range),
            None => self.flat(range, first, room),
        })?;
        let join = |left, right| self.reducer.join(left, right);
        let mut tree = Tree::new(1);
        nodes.iter().for_each(|node| tree.push(&[*node], join));
        Ok(tree
            .finish(self.reducer.empty(), join)
            .into_iter()
            .next()
            .unwrap_or(self.reducer.empty()))
    }

    /// A node in the vendor's order, asked for with `RAPTORS_BACKEND=vdsp-reductions`.
    fn by_vendor(&self, vendor: ByVendor<T, R::Node>, range: Range<usize>) -> R::Node {
        let mut scratch = Scratch::new();
        let pieces = self.view.flat_pieces(range);
        pieces.fold(self.reducer.empty(), |node, (part, range)| {
            let x = part.flat(range, self.reducer.fill(), &mut scratch);
            self.reducer.join(node, vendor(x).unwrap_or(self.reducer.empty()))
        })
    }

    /// Whether one task takes all rows of some columns.
    fn is_one_row_task(&self) -> bool {
        let View { rows, width, .. } = self.view;
        !self.by_columns && rows <= self.grains_per_task(width) * R::GRAIN
    }

    /// Columns of a task: at least 1 KiB of each row, so that the prefetchers find a run to follow,
    /// and enough tasks for the threads if the rows make `row_tasks` of them.
    fn columns_per_task(&self, row_tasks: usize) -> usize {
        let wanted = if self.plan.threads > 1 { 2 * self.plan.threads } else { 1 };
        let groups = wanted.div_ceil(row_tasks.max(1));
        let fewest = (1 << 10) / std::mem::size_of::<T>();
        let width = self.view.width;
        width.div_ceil(groups.max(1)).next_multiple_of(64).clamp(fewest, COLUMNS_OF_A_TASK)
    }

    /// One result per column, where a task takes all rows: results are made where they belong.
    fn few_rows<O: Number, F: Finish<R::Node, O>>(
        &self,
        counts: &Counts,
        finish: F,
    ) -> Result<Output<O>> {
        let View { rows, width, .. } = self.view;
        let reads_pieces = self.reads_pieces();
        if reads_pieces && self.is_worth_halving() {
            return self.finished(&self.columns_by_halves()?, counts, finish);
        }
        let mut out = Output::new(self.function, width)?;
        let group = if reads_pieces { width } else { self.columns_per_task(1) };
        let tasks = out.chunks_mut(group).enumerate().map(|(i, out)| (i * group, out)).collect();
        run::each(self.function, &self.plan, tasks, Room::default, |room, (first, out)| {
            for columns in steps(0..out.len(), COLUMN_BLOCK) {
                let at = first + columns.start;
                let nodes = self.some_columns(at..first + columns.end, 0..rows, None, room);
                let out = &mut out[columns];
                match counts {
                    Counts::All(count) => {
                        self.level.run(FinishAll { finish, nodes: &nodes, count: *count, out });
                    }
                    Counts::Each(counts) => {
                        for ((o, node), count) in out.iter_mut().zip(&nodes).zip(&counts[at..]) {
                            *o = finish.one(*node, *count);
                        }
                    }
                }
                nodes.iter().enumerate().for_each(|(i, node)| self.check(finish, node, at + i));
            }
        })?;
        Ok(out)
    }

    /// Whether several threads were to share plain sums, which are bound by reading, by columns,
    /// and would read only short pieces of the rows, which are not prefetched.
    fn reads_pieces(&self) -> bool {
        let columns = self.columns_per_task(1);
        self.plan.threads > 1
            && columns < self.view.width
            && columns * std::mem::size_of::<T>() < SHORT_PIECE
            && self.reducer.half(0).is_some()
    }

    /// Whether they share one grain of rows by halves instead; below, one thread is as fast.
    fn is_worth_halving(&self) -> bool {
        let View { rows, width, .. } = self.view;
        rows <= R::GRAIN && rows * width * std::mem::size_of::<T>() >= WORTH_HALVING
    }

    /// One node per column of one grain of rows: those of the even rows and those of the odd ones.
    fn columns_by_halves(&self) -> Result<Vec<R::Node>> {
        let View { rows, width, .. } = self.view;
        let group = self.columns_per_task(2);
        let tasks = steps(0..width, group)
            .flat_map(|columns| [(columns.clone(), 0), (columns, 1)])
            .collect();
        let halves = self.nodes(tasks, |room, (columns, half)| {
            self.some_columns(columns, 0..rows, Some(half), room)
        })?;
        let (pairs, _) = halves.as_chunks::<2>();
        let joined = pairs.iter().flat_map(|[even, odd]| even.iter().zip(odd));
        Ok(joined.map(|(even, odd)| self.reducer.join(*even, *odd)).collect())
    }

    /// One node per column.
    fn columns(&self) -> Result<Vec<R::Node>> {
        let View { rows, width, .. } = self.view;
        let (empty, join) = (self.reducer.empty(), |left, right| self.reducer.join(left, right));
        if self.by_columns {
            let step = self.grains_per_task(1) * R::GRAIN;
            let tasks =
                (0..width).flat_map(|c| steps(0..rows, step).map(move |r| (c, r))).collect();
            let nodes = self.nodes(tasks, |room, (column, rows)| {
                (column, self.one_column(column, rows, room))
            })?;
            let mut trees: Vec<Tree<R::Node>> = (0..width).map(|_| Tree::new(1)).collect();
            nodes.iter().for_each(|(column, node)| trees[*column].push(&[*node], join));
            return Ok(trees.into_iter().flat_map(|tree| tree.finish(empty, join)).collect());
        }
        let step = self.grains_per_task(width).saturating_mul(R::GRAIN);
        let row_tasks = rows.div_ceil(step);
        // Too few rows for the threads: the columns are split too.
        let group = self.columns_per_task(row_tasks);
        let tasks = steps(0..width, group)
            .flat_map(|columns| steps(0..rows, step).map(move |rows| (columns.clone(), rows)))
            .collect();
        let nodes = self.nodes(tasks, |room, (columns, rows)| {
            let nodes = self.some_columns(columns.clone(), rows, None, room);
            (columns, nodes)
        })?;
        let mut all = Vec::with_capacity(width);
        for columns in steps(0..width, group) {
            let mut tree = Tree::new(columns.len());
            let own = nodes.iter().filter(|(at, _)| *at == columns);
            own.for_each(|(_, nodes)| tree.push(nodes, join));
            all.extend(tree.finish(empty, join));
        }
        Ok(all)
    }

    /// One result per row.
    fn rows<O: Number, F: Finish<R::Node, O>>(
        &self,
        counts: &Counts,
        finish: F,
    ) -> Result<Output<O>> {
        let View { rows, width, .. } = self.view;
        let long = self.grains_per_task(1) * R::GRAIN;
        if !self.by_columns && width >= 2 * long && rows < 2 * self.plan.threads {
            // Few long rows: each is split like a matrix of its own.
            let nodes: Vec<R::Node> = (0..rows)
                .map(|row| self.sequence(row * width..(row + 1) * width))
                .collect::<Result<_>>()?;
            return self.finished(&nodes, counts, finish);
        }
        let mut out = Output::new(self.function, rows)?;
        let row_bytes = (width * std::mem::size_of::<T>()).max(1);
        let rows_per_task = (self.plan.task_bytes / row_bytes).max(1);
        let tasks = out
            .chunks_mut(rows_per_task)
            .enumerate()
            .map(|(i, out)| (i * rows_per_task, out))
            .collect();
        let state = || (Room::default(), Vec::new());
        run::each(self.function, &self.plan, tasks, state, |(room, nodes), (first, out)| {
            if let Some(vendor) = self.vendor {
                for (row, o) in (first..).zip(out) {
                    let node = self.by_vendor(vendor, row * width..(row + 1) * width);
                    *o = finish.one(node, counts.get(row));
                }
                return;
            }
            self.some_rows(first, out, room, nodes, counts, finish);
        })?;
        Ok(out)
    }
}

/// Room for the tiles of a thread.
struct Room<T> {
    scratch: Scratch<T>,
    valid: Vec<bool>,
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self { scratch: Scratch::new(), valid: Vec::new() }
    }
}

impl<T> Room<T> {
    #[inline(always)]
    fn both(&mut self) -> (&mut Scratch<T>, &mut Vec<bool>) {
        (&mut self.scratch, &mut self.valid)
    }
}

impl<T: Number, R: Reducer<T>> Reduction<'_, T, R> {
    /// The node of a range of elements, counted row by row; element `first` is the first of its
    /// sequence.
    fn flat(&self, range: Range<usize>, first: usize, room: &mut Room<T>) -> R::Node {
        let fill = self.reducer.fill();
        let mut one = self.reducer.one(range.start - first);
        for (part, range) in self.view.flat_pieces(range) {
            let tile = part.flat_tile(range, fill, R::NEEDS_VALIDITY, room.both());
            self.level.run(FeedOne::<T, R> { one: &mut one, tile });
        }
        one.finish()
    }

    /// The node of one column of a matrix that lies by columns.
    fn one_column(&self, column: usize, rows: Range<usize>, room: &mut Room<T>) -> R::Node {
        let fill = self.reducer.fill();
        let mut one = self.reducer.one(rows.start);
        for (part, rows) in self.view.rows(rows) {
            for rows in steps(rows, 4 * TILE) {
                let tile = part.column_tile(column, rows, fill, R::NEEDS_VALIDITY, room.both());
                self.level.run(FeedOne::<T, R> { one: &mut one, tile });
            }
        }
        one.finish()
    }

    /// The nodes of a range of columns of a matrix that lies by rows; of the even rows alone, if
    /// `half` is 0, or of the odd ones, if it is 1.
    fn some_columns(
        &self,
        columns: Range<usize>,
        rows: Range<usize>,
        half: Option<usize>,
        room: &mut Room<T>,
    ) -> Vec<R::Node> {
        let fill = self.reducer.fill();
        let mut nodes = Vec::with_capacity(columns.len());
        for columns in steps(columns, COLUMN_BLOCK) {
            let all = || self.reducer.many(columns.len(), rows.start, rows.len());
            let mut many = half.and_then(|_| self.reducer.half(columns.len())).unwrap_or_else(all);
            for (part, rows) in self.view.rows(rows.clone()) {
                let step = if part.is_dense() { rows.len() } else { rows_of_a_tile(columns.len()) };
                for rows in steps(rows, step) {
                    let columns = columns.clone();
                    let first = part.first + rows.start;
                    let (tile, stride) =
                        part.block_tile(rows, columns, fill, R::NEEDS_VALIDITY, room.both());
                    let (tile, stride) = match half {
                        Some(half) => tile.every_other_row((first + half) % 2, stride),
                        None => (tile, stride),
                    };
                    self.level.run(FeedMany::<T, R> { many: &mut many, tile, stride });
                }
            }
            nodes.extend(many.finish());
        }
        nodes
    }

    /// One result for each row from `first` on.
    fn some_rows<O: Number, F: Finish<R::Node, O>>(
        &self,
        first: usize,
        out: &mut [O],
        room: &mut Room<T>,
        nodes: &mut Vec<R::Node>,
        counts: &Counts,
        finish: F,
    ) {
        for (part, rows) in self.view.rows(first..first + out.len()) {
            let width = self.view.width.max(1);
            let dense = self.by_columns || part.is_dense();
            let step = if dense { ROWS_HELD } else { (TILE / width).clamp(1, ROWS_HELD) };
            for rows in steps(rows, step) {
                let at = part.first + rows.start;
                let out = &mut out[at - first..][..rows.len()];
                self.nodes_of_rows(part, rows, room, nodes);
                match counts {
                    Counts::All(count) => {
                        self.level.run(FinishAll { finish, nodes, count: *count, out });
                    }
                    Counts::Each(counts) => {
                        for ((o, node), count) in out.iter_mut().zip(&*nodes).zip(&counts[at..]) {
                            *o = finish.one(*node, *count);
                        }
                    }
                }
                for (i, node) in nodes.iter().enumerate() {
                    self.check(finish, node, at + i);
                }
            }
        }
    }

    /// The nodes of some rows of a part.
    fn nodes_of_rows(
        &self,
        part: &Part<'_, T>,
        rows: Range<usize>,
        room: &mut Room<T>,
        nodes: &mut Vec<R::Node>,
    ) {
        let (reducer, width) = (self.reducer, self.view.width);
        let (fill, validity) = (reducer.fill(), R::NEEDS_VALIDITY);
        // What they hold before is overwritten, so it is not cleared.
        nodes.resize(rows.len(), reducer.empty());
        if width == 0 {
            nodes.fill(reducer.empty());
        } else if self.by_columns {
            let mut many = reducer.many(rows.len(), 0, width);
            for column in 0..width {
                let tile = part.column_tile(column, rows.clone(), fill, validity, room.both());
                self.level.run(FeedMany::<T, R> { many: &mut many, tile, stride: rows.len() });
            }
            nodes.copy_from_slice(&many.finish());
        } else if part.is_dense() || width * rows.len() <= TILE {
            let elements = rows.start * width..rows.end * width;
            let tile = part.flat_tile(elements, fill, validity, room.both());
            self.level.run(RowNodes { reducer, tile, width, out: nodes });
        } else {
            for (row, node) in rows.zip(nodes) {
                let mut one = reducer.one(0);
                for elements in steps(row * width..(row + 1) * width, TILE) {
                    let tile = part.flat_tile(elements, fill, validity, room.both());
                    self.level.run(FeedOne::<T, R> { one: &mut one, tile });
                }
                *node = one.finish();
            }
        }
    }
}

/// Rows of a tile that must be copied: at least those that are added together.
fn rows_of_a_tile(width: usize) -> usize {
    (TILE / width.max(1)).next_multiple_of(32)
}

/// Nodes of rows that are held before they become results.
const ROWS_HELD: usize = 512;

// What runs at an instruction set: one tile. All around it is compiled once.

struct FeedOne<'a, T: Number, R: Reducer<T>> {
    one: &'a mut R::One,
    tile: Tile<'a, T>,
}

impl<T: Number, R: Reducer<T>> Body for FeedOne<'_, T, R> {
    type Out = ();
    const WIDEST: bool = R::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.one.feed(simd, self.tile);
    }
}

struct FeedMany<'a, T: Number, R: Reducer<T>> {
    many: &'a mut R::Many,
    tile: Tile<'a, T>,
    stride: usize,
}

impl<T: Number, R: Reducer<T>> Body for FeedMany<'_, T, R> {
    type Out = ();
    const WIDEST: bool = R::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.many.feed(simd, self.tile, self.stride);
    }
}

/// The node of each row of a tile.
pub(super) struct RowNodes<'a, T: Number, R: Reducer<T>> {
    pub(super) reducer: R,
    pub(super) tile: Tile<'a, T>,
    pub(super) width: usize,
    pub(super) out: &'a mut [R::Node],
}

impl<T: Number, R: Reducer<T>> Body for RowNodes<'_, T, R> {
    type Out = ();
    const WIDEST: bool = R::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.reducer.rows(simd, self.tile, self.width, self.out);
    }
}

struct FinishAll<'a, N, O, F> {
    finish: F,
    nodes: &'a [N],
    count: usize,
    out: &'a mut [O],
}

impl<N: Copy, O, F: Finish<N, O>> Body for FinishAll<'_, N, O, F> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.finish.all(self.nodes, self.count, self.out);
    }
}
