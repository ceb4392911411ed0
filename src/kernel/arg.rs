//! Where the smallest or the largest is: the first index of several, the first NaN if there is one.

use super::arg_columns::{ArgLanes, ByRank, ByValue, first_index};
use super::extreme::extreme;
use super::extreme_columns::{Each, Run, feed_each, with_lanes};
use super::mask::has_valid;
use super::reducer::{ANY_SPLIT, Many, One, Reducer, Tile};
use super::scale::{Nodes, Partial, Scale};
use super::width::by_width;
use super::{Element, Simd};
use crate::memory;

/// The index of the smallest element, or of the largest.
#[derive(Clone, Copy)]
pub(crate) struct ArgExtreme<const MAX: bool>;

/// The rank of an element, and its number in the sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indexed<T: Element> {
    pub(super) rank: T::Rank,
    /// [`NOWHERE`] if no element was valid.
    pub(crate) index: usize,
}

/// The index of no element.
const NOWHERE: usize = usize::MAX;

impl<T: Element> Indexed<T> {
    const NONE: Self = Self { rank: T::LAST, index: NOWHERE };

    /// Takes an element if it is better, or as good and earlier.
    #[inline(always)]
    fn take(&mut self, rank: T::Rank, index: usize) {
        if (rank, index) < (self.rank, self.index) {
            *self = Self { rank, index };
        }
    }
}

impl<T: Element, const MAX: bool> Reducer<T> for ArgExtreme<MAX> {
    type Node = Indexed<T>;
    type One = ArgOne<T, MAX>;
    type Many = ArgEach<T, MAX>;
    const GRAIN: usize = ANY_SPLIT;
    const NEEDS_VALIDITY: bool = true;

    #[inline(always)]
    fn fill(self) -> T {
        if MAX { T::LOWEST } else { T::HIGHEST }
    }
    #[inline(always)]
    fn empty(self) -> Indexed<T> {
        Indexed::NONE
    }
    #[inline(always)]
    fn join(self, left: Indexed<T>, right: Indexed<T>) -> Indexed<T> {
        let mut best = left;
        best.take(right.rank, right.index);
        best
    }
    fn moved(self, at: Indexed<T>, by: u64) -> Indexed<T> {
        // No element is nowhere, also behind others.
        let by = if at.index == NOWHERE { 0 } else { usize::try_from(by).unwrap_or(NOWHERE) };
        Indexed { rank: at.rank, index: at.index.saturating_add(by) }
    }
    #[inline(always)]
    fn one(self, first: usize) -> ArgOne<T, MAX> {
        ArgOne { best: Indexed::NONE, next: first }
    }
    fn many(self, width: usize, first: usize, _: usize) -> ArgEach<T, MAX> {
        ArgEach { best: memory::filled(Indexed::NONE, width), next: first }
    }
    #[inline(always)]
    fn rows<S: Simd>(
        self,
        simd: S,
        tile: Tile<'_, T>,
        width: usize,
        out: &mut [Indexed<T>],
        _: &mut Vec<Scale>,
    ) {
        let fill: T = self.fill();
        let is_told = tile.valid.is_none_or(|valid| !has_valid(tile.x, valid, fill));
        if is_told {
            by_width!(if T::HAS_NARROW { width } else { 0 }, W => {
                narrow::<T, W, MAX>(tile.x, out);
                if tile.valid.is_some() {
                    for o in out {
                        *o = if o.rank == fill.rank(MAX) { Indexed::NONE } else { *o };
                    }
                }
                return;
            }, else {});
        }
        for (r, o) in out.iter_mut().enumerate() {
            let at = r * width..(r + 1) * width;
            let mut found: ArgOne<T, MAX> = self.one(0);
            found.feed(
                simd,
                Tile { x: &tile.x[at.clone()], valid: tile.valid.map(|v| &v[at]), weights: None },
            );
            *o = found.finish().node;
        }
    }
}

/// Narrow rows that are searched side by side.
const SIDE_BY_SIDE: usize = 8;

/// The indices in narrow rows. By ranks, of which one comparison decides, and indices of the same
/// size: with more, the compiler makes branches of it, and on random rows half of them are
/// foretold wrongly.
#[inline(always)]
fn narrow<T: Element, const W: usize, const MAX: bool>(x: &[T], out: &mut [Indexed<T>]) {
    let (groups, rest) = x.as_chunks::<W>().0.as_chunks::<SIDE_BY_SIDE>();
    let (out_groups, out_rest) = out.as_chunks_mut::<SIDE_BY_SIDE>();
    for (out, group) in out_groups.iter_mut().zip(groups) {
        indices::<T, W, SIDE_BY_SIDE, MAX>(group, out);
    }
    for (out, row) in out_rest.iter_mut().zip(rest) {
        indices::<T, W, 1, MAX>(&[*row], std::array::from_mut(out));
    }
}

#[inline(always)]
fn indices<T: Element, const W: usize, const L: usize, const MAX: bool>(
    rows: &[[T; W]; L],
    out: &mut [Indexed<T>; L],
) {
    let (mut ranks, mut found) = ([T::LAST; L], [T::rank_of_index(0); L]);
    for c in 0..W {
        for l in 0..L {
            let rank = rows[l][c].rank(MAX);
            let better = rank < ranks[l];
            ranks[l] = if better { rank } else { ranks[l] };
            found[l] = if better { T::rank_of_index(c) } else { found[l] };
        }
    }
    // Through memory: else the compiler makes the loop above one of single elements, for the sake
    // of the one below.
    let (ranks, found) = std::hint::black_box((ranks, found));
    for l in 0..L {
        out[l] = Indexed { rank: ranks[l], index: T::index(found[l]) };
    }
}

/// The best index of one sequence so far.
pub(crate) struct ArgOne<T: Element, const MAX: bool> {
    best: Indexed<T>,
    next: usize,
}

/// Bytes that are taken as one. Only in the first block, and in those that hold something better
/// than all before, has a index to be found.
const BLOCK: usize = 32 << 10;

impl<T: Element, const MAX: bool> One<T, Indexed<T>> for ArgOne<T, MAX> {
    /// A null holds what any other element is better than. Only where a valid element holds the
    /// same has each to be looked at.
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>) {
        let fill: T = ArgExtreme::<MAX>.fill();
        let before = self.best;
        if let Some(valid) = tile.valid
            && has_valid(tile.x, valid, fill)
        {
            for (i, (x, _)) in tile.x.iter().zip(valid).enumerate().filter(|(_, (_, v))| **v) {
                self.best.take(x.rank(MAX), self.next + i);
            }
            self.next += tile.x.len();
            return;
        }
        for x in tile.x.chunks(BLOCK / std::mem::size_of::<T>()) {
            let has_better = self.best.index == NOWHERE
                || extreme::<T, MAX, false>(x).rank(MAX) < self.best.rank;
            if has_better {
                let index = index_in::<T, MAX>(x);
                self.best.take(x[index].rank(MAX), self.next + index);
            }
            self.next += x.len();
        }
        if tile.valid.is_some() && self.best.rank == fill.rank(MAX) {
            self.best = before;
        }
    }
    #[inline(always)]
    fn finish(self) -> Partial<Indexed<T>> {
        Partial::plain(self.best)
    }
}

/// The first index of the extreme of elements that are not none.
#[inline(always)]
fn index_in<T: Element, const MAX: bool>(x: &[T]) -> usize {
    with_lanes!(T, L => {
        if let Some(last) = x.last_chunk::<L>() {
            // No closure: it would be compiled without the instructions of the level.
            if let Some(index) = first_index::<T, ByValue<MAX>, L>(x, last) {
                return index;
            }
            return first_index::<T, ByRank<MAX>, L>(x, last).unwrap_or(0);
        }
    });
    let mut best = Indexed::<T>::NONE;
    x.iter().enumerate().for_each(|(i, x)| best.take(x.rank(MAX), i));
    best.index
}

/// The best indices of many sequences so far.
pub(crate) struct ArgEach<T: Element, const MAX: bool> {
    best: Vec<Indexed<T>>,
    /// The number of the next row.
    next: usize,
}

impl<T: Element, const MAX: bool, const L: usize> Each<T, L> for ArgEach<T, MAX> {
    type Lanes = ArgLanes<T, ByValue<MAX>, L>;

    #[inline(always)]
    fn join(&mut self, lanes: &Self::Lanes, run: Run<'_, T>) {
        let steps = if lanes.is_sure() {
            lanes.step
        } else {
            run.again::<ArgLanes<T, ByRank<MAX>, L>, L>().step
        };
        let (mut row, mut column) = (run.row, run.column);
        for l in 0..L {
            let step = T::index(steps[l]);
            let rank = run.x[step * run.stride + l].rank(MAX);
            self.best[column].take(rank, self.next + step * run.together + row);
            column += 1;
            if column == self.best.len() {
                (row, column) = (row + 1, 0);
            }
        }
    }
    #[inline(always)]
    fn row(&mut self, x: &[T]) {
        for (best, x) in self.best.iter_mut().zip(x) {
            best.take(x.rank(MAX), self.next);
        }
    }
    #[inline(always)]
    fn passed(&mut self, rows: usize) {
        self.next += rows;
    }
}

impl<T: Element, const MAX: bool> Many<T, Indexed<T>> for ArgEach<T, MAX> {
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>, stride: usize) {
        let width = self.best.len();
        if width == 0 {
            return;
        }
        // As for one sequence.
        let fill: T = ArgExtreme::<MAX>.fill();
        if let Some(valid) = tile.valid
            && has_valid(tile.x, valid, fill)
        {
            for (x, valid) in tile.x.chunks(stride).zip(valid.chunks(stride)) {
                let columns = self.best.iter_mut().zip(x).zip(valid);
                for ((best, x), _) in columns.filter(|(_, valid)| **valid) {
                    best.take(x.rank(MAX), self.next);
                }
                self.next += 1;
            }
            return;
        }
        let before = if tile.valid.is_some() { memory::copied(&self.best) } else { Vec::new() };
        with_lanes!(T, L => feed_each::<T, Self, L>(self, tile.x, width, stride));
        for (best, before) in self.best.iter_mut().zip(before) {
            if best.rank == fill.rank(MAX) {
                *best = before;
            }
        }
    }
    fn finish(self) -> Nodes<Indexed<T>> {
        Nodes::plain(self.best)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Extreme, Portable};
    use super::*;

    /// Values of which many are equal, from a fixed sequence of numbers.
    fn picked<T: Element>(values: &[T], len: usize, seed: usize) -> Vec<T> {
        let mut state = seed as u64 + 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            values[(state >> 33) as usize % values.len()]
        };
        (0..len).map(|_| next()).collect()
    }

    /// The first of the best by rank, one after the other.
    fn expected<T: Element, const MAX: bool>(x: impl Iterator<Item = T>) -> usize {
        let ranks: Vec<T::Rank> = x.map(|x| x.rank(MAX)).collect();
        let best = ranks.iter().min().expect("not empty");
        ranks.iter().position(|rank| rank == best).expect("it is there")
    }

    /// Indices, and the extremes that stand there.
    fn agree<T: Element, const MAX: bool>(values: &[T]) {
        let arg = ArgExtreme::<MAX>;
        let value = Extreme::<MAX, false>;
        for (width, rows, gap) in [
            (1, 1, 0),
            (1, 5000, 0),
            (2, 70, 0),
            (3, 200, 0),
            (8, 33, 0),
            (15, 9, 2),
            (16, 17, 0),
            (17, 3, 1),
            (31, 40, 0),
            (33, 2, 0),
            (40, 20, 5),
            (64, 100, 0),
            (100, 7, 0),
            (64, 5000, 0),
            (3, 60_000, 0),
            (300, 70, 0),
            (1030, 3, 4),
            (1030, 300, 0),
            (2100, 2, 0),
        ] {
            let stride = width + gap;
            let x = picked(values, rows * stride - gap, width * 31 + rows);
            let shape = format!("{rows} x {width}, {gap} between, largest: {MAX}");
            let tile = Tile { x: &x[..], valid: None, weights: None };
            let mut indices: ArgEach<T, MAX> = arg.many(width, 7, rows);
            indices.feed(Portable, tile, stride);
            let mut extremes = value.many(width, 7, rows);
            extremes.feed(Portable, tile, stride);
            let found = indices.finish().nodes.into_iter().zip(extremes.finish().nodes);
            for (c, (found, extreme)) in found.enumerate() {
                let column = x[c..].iter().step_by(stride).copied();
                let at = expected::<T, MAX>(column);
                assert_eq!(found.index, 7 + at, "{shape}, column {c}");
                let there = x[at * stride + c].canonical();
                assert!(extreme.is_same(there), "{shape}, column {c}: {extreme:?} {there:?}");
            }
            if gap == 0 {
                let (mut out, mut extremes) = (vec![Indexed::NONE; rows], vec![T::default(); rows]);
                arg.rows(Portable, tile, width, &mut out, &mut Vec::new());
                value.rows(Portable, tile, width, &mut extremes, &mut Vec::new());
                for (r, row) in x.chunks(width).enumerate() {
                    let at = expected::<T, MAX>(row.iter().copied());
                    assert_eq!(out[r].index, at, "{shape}, row {r}");
                    assert!(extremes[r].is_same(row[at].canonical()), "{shape}, row {r}");
                }
            }
            let mut one: ArgOne<T, MAX> = arg.one(0);
            let mut extreme = value.one(0);
            for x in x.chunks(9777) {
                one.feed(Portable, Tile { x, valid: None, weights: None });
                extreme.feed(Portable, Tile { x, valid: None, weights: None });
            }
            let at = expected::<T, MAX>(x.iter().copied());
            assert_eq!(one.finish().node.index, at, "{shape}, all");
            assert!(extreme.finish().node.is_same(x[at].canonical()), "{shape}, all");
        }
    }

    #[test]
    fn places_and_extremes_are_those_of_the_first_best_by_rank() {
        let plain = [1.0, 2.0, 3.0, -4.0, 5.5, -1.0, 0.5];
        let zeros = [0.0, -0.0, 1.0, -1.0];
        let positive = [0.0, 0.0, 2.0];
        let infinite = [f32::INFINITY, f32::NEG_INFINITY, 1.0];
        let mut rare = vec![3.0; 400];
        (rare[0], rare[1], rare[2]) = (f32::NAN, -0.0, f32::INFINITY);
        for values in [&plain[..], &zeros, &positive, &infinite, &[f32::INFINITY], &rare] {
            let wide: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
            agree::<f32, false>(values);
            agree::<f32, true>(values);
            agree::<f64, false>(&wide);
            agree::<f64, true>(&wide);
        }
        for values in [&[i64::MAX][..], &[i64::MIN, i64::MAX, 0, 1], &[0, 5]] {
            agree::<i64, false>(values);
            agree::<i64, true>(values);
        }
        for values in [&[u64::MAX][..], &[0, u64::MAX, 1 << 63, 9]] {
            agree::<u64, false>(values);
            agree::<u64, true>(values);
        }
    }
}
