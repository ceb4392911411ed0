//! A statistic is a state: what was seen of some sequences, with the count of valid elements inside.
//!
//! ```text
//! Running::new        nothing seen yet; the first element will be number `first` of its sequence
//! update(tiles)       takes the next elements of each sequence, any number of them
//! pause  -> State     what was seen, as nodes of the one tree of `kernel::sum`
//! merge(right)        the state of this range and of the next
//! finish(options)     the result of each sequence, or null
//! ```
//!
//! Ranges that begin at multiples of a leaf (1024 elements of a sequence) merge to the bits of the
//! whole, in whatever ranges it was cut. A range that ends within a leaf is a leaf too short: merged
//! with another it gives a result within the error bound, but not those bits.

use std::ops::Range;

use crate::dispatch::Level;
use crate::kernel::{Body, Counts, Many, Nodes, One, Partial, Reducer, Simd, Tile, Tree};
use crate::matrix::{Number, Source, TILE, TileWorkspace, Wanted, steps};
use crate::memory::{self, Gather as _};

/// What was seen of a range of some sequences.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State<N> {
    pub(crate) tree: Tree<N>,
    pub(crate) counts: Counts,
}

impl<N: Copy> State<N> {
    /// Nothing of `width` sequences, from their first elements on. `has_nulls` says whether each has
    /// a count of its own.
    pub(crate) fn new(width: usize, has_nulls: bool) -> Self {
        let counts = if has_nulls { Counts::Each(filled(0, width)) } else { Counts::All(0) };
        Self { tree: Tree::new(width, 0), counts }
    }

    /// The states of neighbouring columns as one; they are of the same rows.
    pub(crate) fn of_columns(states: Vec<Self>, columns: &[Range<usize>]) -> Self {
        let width = columns.last().map_or(0, |group| group.end);
        let has_nulls = states.iter().any(|state| matches!(state.counts, Counts::Each(_)));
        let counts = match states.first() {
            Some(first) if !has_nulls => first.counts.clone(),
            _ => Counts::Each(
                (states.iter().zip(columns))
                    .flat_map(|(state, group)| (0..group.len()).map(|i| state.counts.get(i)))
                    .gather(),
            ),
        };
        let mut stack: Vec<(usize, Option<Nodes<N>>)> = Vec::new();
        for state in states {
            for (i, (size, nodes)) in state.tree.into_stack().into_iter().enumerate() {
                match (stack.get_mut(i), nodes) {
                    (Some((_, Some(own))), Some(nodes)) => own.append(nodes),
                    (Some(_), _) => {}
                    (None, nodes) => stack.push((size, nodes)),
                }
            }
        }
        Self { tree: Tree::of(width, stack), counts }
    }

    /// The state of some of its columns.
    pub(crate) fn columns(&self, columns: &Range<usize>) -> Self {
        let counts = match &self.counts {
            Counts::All(n) => Counts::All(*n),
            Counts::Each(each) => Counts::Each(memory::copied(&each[columns.clone()])),
        };
        let some = |nodes: Nodes<N>| {
            let mut some = Nodes::plain(memory::with_capacity(columns.len()));
            columns.clone().for_each(|i| some.push(nodes.get(i)));
            some
        };
        let stack = self.tree.clone().into_stack().into_iter();
        let stack = stack.map(|(size, nodes)| (size, nodes.map(some))).gather();
        Self { tree: Tree::of(columns.len(), stack), counts }
    }

    /// The state of the same elements if `by` others come before them.
    pub(crate) fn moved<T: Number, R: Reducer<T, Node = N>>(self, reducer: R, by: u64) -> Self {
        if by == 0 {
            return self;
        }
        Self { tree: self.tree.map(|node| reducer.moved(node, by)), counts: self.counts }
    }

    /// The state of this range and of `right`'s, which follows it.
    pub(crate) fn merge<T: Number, R: Reducer<T, Node = N>>(
        mut self,
        reducer: R,
        right: Self,
    ) -> Self {
        self.tree.merge(reducer, right.tree);
        Self { tree: self.tree, counts: self.counts.plus(&right.counts) }
    }

    /// The partial result of each sequence, and its count.
    pub(crate) fn nodes<T: Number, R: Reducer<T, Node = N>>(self, reducer: R) -> Seen<N> {
        Seen { nodes: self.tree.finish(reducer), counts: self.counts }
    }
}

/// The partial results of some sequences that are at their end, and their counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen<N> {
    pub(crate) nodes: Nodes<N>,
    pub(crate) counts: Counts,
}

impl<N: Copy> Seen<N> {
    /// Of no sequences; `has_nulls` says whether each will have a count of its own.
    pub(crate) fn none(has_nulls: bool) -> Self {
        let counts = if has_nulls { Counts::Each(Vec::new()) } else { Counts::All(0) };
        Self { nodes: Nodes::plain(Vec::new()), counts }
    }

    /// Adds further sequences.
    pub(crate) fn append(&mut self, others: Self) {
        self.nodes.append(others.nodes);
        self.counts.append(others.counts);
    }
}

/// What becomes of a node: the result, in the type that it comes out as.
pub(crate) trait Finish<N, O>: Copy + Send + Sync + 'static {
    /// The result of elements of which `count` were valid, and that were multiplied by `power`.
    fn one(self, node: N, count: u64, power: f64) -> O;
    /// [`one`](Self::one) for plain nodes that all have the same count.
    #[inline(always)]
    fn all(self, nodes: &[N], count: usize, out: &mut [O])
    where
        N: Copy,
    {
        for (o, node) in out.iter_mut().zip(nodes) {
            *o = self.one(*node, count as u64, 1.0);
        }
    }
    /// Whether there may be none, whatever the count.
    const MAY_BE_NULL: bool = false;
    /// Whether there is none.
    #[inline(always)]
    fn is_null(self, _node: &N) -> bool {
        false
    }
    /// Whether the result fits its type.
    #[inline(always)]
    fn fits(self, _node: &N) -> bool {
        true
    }
    /// Whether all fit. All are asked, so that the loop has no branch.
    #[inline(always)]
    fn all_fit(self, nodes: &[N]) -> bool {
        nodes.iter().fold(true, |all, node| all & self.fits(node))
    }
}

/// How many valid elements a result needs, else it is null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Required {
    pub(crate) min: u64,
    /// All of so many, where a null makes the result null.
    pub(crate) all: Option<u64>,
}

impl Required {
    #[inline(always)]
    pub(crate) fn is_met(self, count: u64) -> bool {
        count >= self.min && self.all.is_none_or(|all| count == all)
    }

    /// Says in `out` which of `counts` are enough.
    pub(crate) fn are_met(self, counts: &[u64], out: &mut [bool]) {
        for (met, count) in out.iter_mut().zip(counts) {
            *met = self.is_met(*count);
        }
    }
}

/// The running state of the columns of a matrix, one sequence each: of some rows of them, or of those
/// of several matrices one after the other.
pub(crate) struct Running<T: Number, R: Reducer<T>> {
    reducer: R,
    many: R::Many,
    counts: Counts,
}

impl<T: Number, R: Reducer<T>> Running<T, R> {
    /// Of `width` sequences, whose first element is number `first`; `len` follow, if it is known.
    pub(crate) fn new(reducer: R, width: usize, first: usize, len: Option<usize>) -> Self {
        let many = reducer.many(width, first, len.unwrap_or(usize::MAX));
        Self { reducer, many, counts: Counts::All(0) }
    }

    /// The same, of which it is not known what comes before, see [`Tree::loose`].
    pub(crate) fn loose(reducer: R, width: usize) -> Self {
        let mut running = Self::new(reducer, width, 0, None);
        running.many.loosen();
        running
    }

    /// The same of every other row, from the first or the second on, where halves are nodes.
    pub(crate) fn half(reducer: R, width: usize) -> Option<Self> {
        Some(Self { reducer, many: reducer.half(width)?, counts: Counts::All(0) })
    }

    /// Takes the elements of `columns` in some rows of a source: of the even rows alone, if `half` is
    /// 0, or of the odd ones, if it is 1.
    pub(crate) fn update<S: Source<T>>(
        &mut self,
        level: Level,
        source: &S,
        (rows, columns): (Range<usize>, Range<usize>),
        half: Option<usize>,
        workspace: &mut TileWorkspace<T>,
    ) {
        let wanted = Wanted { fill: self.reducer.fill(), with_validity: R::NEEDS_VALIDITY };
        // The even rows count for both.
        if half != Some(1) {
            self.count(source, rows.clone(), columns.clone());
        }
        for (rows, is_lent) in source.pieces(rows) {
            let step = if is_lent { rows.len() } else { rows_of_a_tile(columns.len()) };
            for rows in steps(rows, step) {
                let first = rows.start;
                let (tile, stride) = source.block(rows, columns.clone(), wanted, workspace);
                let (tile, stride) = match half {
                    Some(half) => tile.every_other_row((first + half) % 2, stride),
                    None => (tile, stride),
                };
                level.run(FeedMany::<T, R> { many: &mut self.many, tile, stride });
            }
        }
    }

    /// Takes one row that is at hand, and has no null.
    pub(crate) fn update_row(&mut self, level: Level, row: &[T]) {
        self.count_all(1);
        let tile = Tile { x: row, valid: None, weights: None };
        level.run(FeedMany::<T, R> { many: &mut self.many, tile, stride: row.len() });
    }

    /// Counts rows without nulls.
    fn count_all(&mut self, rows: usize) {
        let seen = Counts::All(rows);
        self.counts = std::mem::replace(&mut self.counts, Counts::All(0)).plus(&seen);
    }

    fn count<S: Source<T>>(&mut self, source: &S, rows: Range<usize>, columns: Range<usize>) {
        if !source.has_nulls() {
            return self.count_all(rows.len());
        }
        if let Counts::All(n) = self.counts {
            self.counts = Counts::Each(filled(n as u64, columns.len()));
        }
        if let Counts::Each(counts) = &mut self.counts {
            for (rows, _) in source.pieces(rows) {
                source.count_columns(rows, columns.clone(), counts);
            }
        }
    }

    /// What was seen, to be merged.
    pub(crate) fn pause(self) -> State<R::Node> {
        State { tree: self.many.into_tree(), counts: self.counts }
    }

    /// What was seen, all of it.
    pub(crate) fn nodes(self) -> Seen<R::Node> {
        Seen { nodes: self.many.finish(), counts: self.counts }
    }
}

/// The running state of one sequence.
pub(crate) struct RunningOne<T: Number, R: Reducer<T>> {
    reducer: R,
    one: R::One,
    count: u64,
    has_nulls: bool,
}

impl<T: Number, R: Reducer<T>> RunningOne<T, R> {
    pub(crate) fn new(reducer: R, first: usize) -> Self {
        Self { reducer, one: reducer.one(first), count: 0, has_nulls: false }
    }

    /// The same, of which it is not known what comes before, see [`Tree::loose`].
    pub(crate) fn loose(reducer: R) -> Self {
        let mut running = Self::new(reducer, 0);
        running.one.loosen();
        running
    }

    fn wanted(&self) -> Wanted<T> {
        Wanted { fill: self.reducer.fill(), with_validity: R::NEEDS_VALIDITY }
    }

    /// Takes the elements `range` of a source, counted row by row.
    pub(crate) fn update<S: Source<T>>(
        &mut self,
        level: Level,
        source: &S,
        range: Range<usize>,
        workspace: &mut TileWorkspace<T>,
    ) {
        let has_nulls = source.has_nulls();
        self.has_nulls |= has_nulls;
        for range in source.flat_tiles(range) {
            self.count +=
                if has_nulls { source.count_flat(range.clone()) } else { range.len() as u64 };
            let tile = source.flat(range, self.wanted(), workspace);
            level.run(FeedOne::<T, R> { one: &mut self.one, tile });
        }
    }

    /// Takes the elements of one column in some rows of a source.
    pub(crate) fn update_column<S: Source<T>>(
        &mut self,
        level: Level,
        source: &S,
        (column, rows): (usize, Range<usize>),
        workspace: &mut TileWorkspace<T>,
    ) {
        let has_nulls = source.has_nulls();
        self.has_nulls |= has_nulls;
        for (rows, _) in source.pieces(rows) {
            let mut counts = [if has_nulls { 0 } else { rows.len() as u64 }];
            if has_nulls {
                source.count_columns(rows.clone(), column..column + 1, &mut counts);
            }
            self.count += counts[0];
            for rows in steps(rows, 4 * TILE) {
                let tile = source.column(column, rows, self.wanted(), workspace);
                level.run(FeedOne::<T, R> { one: &mut self.one, tile });
            }
        }
    }

    /// What was seen, all of it.
    pub(crate) fn node(self) -> Partial<R::Node> {
        self.one.finish()
    }

    /// What was seen, to be merged.
    pub(crate) fn pause(self) -> State<R::Node> {
        let counts = match self.has_nulls {
            true => Counts::Each(vec![self.count]),
            false => Counts::All(self.count as usize),
        };
        State { tree: self.one.into_tree(), counts }
    }
}

/// A vector whose length comes from an input, as [`memory::reserve`] makes it.
fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut vec = Vec::new();
    memory::resize(&mut vec, len, value);
    vec
}

/// Rows of a tile that must be copied: at least those that are added together.
fn rows_of_a_tile(width: usize) -> usize {
    (TILE / width.max(1)).next_multiple_of(32)
}

// What runs at an instruction set: one tile. All around it is compiled once.

pub(super) struct FeedOne<'a, T: Number, R: Reducer<T>> {
    pub(super) one: &'a mut R::One,
    pub(super) tile: Tile<'a, T>,
}

impl<T: Number, R: Reducer<T>> Body for FeedOne<'_, T, R> {
    type Out = ();
    const WIDEST: bool = R::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.one.feed(simd, self.tile);
    }
}

pub(super) struct FeedMany<'a, T: Number, R: Reducer<T>> {
    pub(super) many: &'a mut R::Many,
    pub(super) tile: Tile<'a, T>,
    pub(super) stride: usize,
}

impl<T: Number, R: Reducer<T>> Body for FeedMany<'_, T, R> {
    type Out = ();
    const WIDEST: bool = R::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.many.feed(simd, self.tile, self.stride);
    }
}

#[cfg(test)]
mod tests;
