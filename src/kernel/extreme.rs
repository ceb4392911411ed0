//! The smallest and the largest: NaN if any element is one, and −0 below +0.
//!
//! One comparison per element decides; two more operations remember whether a NaN and whether the
//! sign that matters for a zero were seen, and are looked at once, at the end. So the loops are
//! as fast as those that get NaN or the sign of zero wrong, and any order gives the same answer.

use super::extreme_columns::{Each, Lanes, Run, feed_each, oddness, take_runs, with_lanes};
use super::reducer::{ANY_SPLIT, Many, One, Reducer, Tile};
use super::scale::{Nodes, Partial, Scale};
use super::width::by_width;
use super::{Element, Simd};
use crate::memory;

/// The smallest element, or the largest; of the elements or of their magnitudes.
#[derive(Clone, Copy)]
pub(crate) struct Extreme<const MAX: bool, const MAGNITUDE: bool>;

impl<const MAX: bool, const MAGNITUDE: bool> Extreme<MAX, MAGNITUDE> {
    /// What any element is at least as good as.
    #[inline(always)]
    fn worst<T: Element>() -> T {
        match (MAX, MAGNITUDE) {
            (true, true) => T::default(),
            (true, false) => T::LOWEST,
            (false, _) => T::HIGHEST,
        }
    }

    /// Whether `a` is better than `b`; a NaN is never, and nothing is better than one.
    #[inline(always)]
    fn beats<T: Element>(a: T, b: T) -> bool {
        if MAX { b.precedes(a) } else { a.precedes(b) }
    }

    /// The better; a NaN wins.
    #[inline(always)]
    fn of<T: Element>(a: T, b: T) -> T {
        if a.is_nan() || !(b.is_nan() || Self::beats(b, a)) { a } else { b }
    }
}

impl<T: Element, const MAX: bool, const MAGNITUDE: bool> Reducer<T> for Extreme<MAX, MAGNITUDE> {
    type Node = T;
    type One = ExtremesSeen<T, MAX, MAGNITUDE>;
    type Many = SeenEach<T, MAX, MAGNITUDE>;
    const GRAIN: usize = ANY_SPLIT;

    #[inline(always)]
    fn fill(self) -> T {
        Self::worst()
    }
    #[inline(always)]
    fn empty(self) -> T {
        Self::worst()
    }
    #[inline(always)]
    fn join(self, left: T, right: T) -> T {
        Self::of(left, right)
    }
    #[inline(always)]
    fn one(self, _: usize) -> ExtremesSeen<T, MAX, MAGNITUDE> {
        ExtremesSeen(Self::worst())
    }
    fn many(self, width: usize, _: usize, _: usize) -> SeenEach<T, MAX, MAGNITUDE> {
        SeenEach(memory::filled(Self::worst(), width))
    }
    #[inline(always)]
    fn rows<S: Simd>(
        self,
        _: S,
        tile: Tile<'_, T>,
        width: usize,
        out: &mut [T],
        _: &mut Vec<Scale>,
    ) {
        by_width!(if T::HAS_NARROW { width } else { 0 }, W => {
            for (o, row) in out.iter_mut().zip(tile.x.as_chunks::<W>().0) {
                let mut seen = Best::<T, 1, MAX, MAGNITUDE>::new();
                for c in 0..W {
                    seen.take(&[row[c]], T::Rank::default());
                }
                *o = if seen.has_odd() { T::NAN } else { seen.lane(0) };
            }
        }, else {
            for (r, o) in out.iter_mut().enumerate() {
                *o = extreme::<T, MAX, MAGNITUDE>(&tile.x[r * width..(r + 1) * width]);
            }
        });
    }
}

/// What is compared of an element.
#[inline(always)]
fn compared<T: Element, const MAGNITUDE: bool>(x: T) -> T {
    if MAGNITUDE { x.magnitude() } else { x }
}

/// The better of two numbers that are no NaN and not both zero; or the first, if it is a NaN.
#[inline(always)]
fn better<T: Element, const MAX: bool>(a: T, b: T) -> T {
    let is_better = if MAX { a.below(b) } else { b.below(a) };
    if is_better { b } else { a }
}

/// Accumulators of `L` sequences.
#[derive(Clone, Copy)]
pub(crate) struct Best<T: Element, const L: usize, const MAX: bool, const MAGNITUDE: bool> {
    best: [T; L],
    /// Not zero if one of a pair of sequences had a NaN: one instruction tells of both.
    odd: [T::Rank; L],
    /// The signs that decide between zeros: cleared if a positive one was there, for the largest;
    /// set if a negative one was, for the smallest.
    signs: [T::Bits; L],
}

impl<T: Element, const L: usize, const MAX: bool, const MAGNITUDE: bool> Lanes<T, L>
    for Best<T, L, MAX, MAGNITUDE>
{
    const IN_ORDER: bool = false;

    #[inline(always)]
    fn new() -> Self {
        let none = T::Bits::default();
        let signs = if MAX { !none } else { none };
        let best = Extreme::<MAX, MAGNITUDE>::worst();
        Self { best: [best; L], odd: [T::Rank::default(); L], signs: [signs; L] }
    }

    /// Half of the lanes at a time: a loop over all is too long for the compiler to unroll, and the
    /// accumulators would stay in memory.
    #[inline(always)]
    fn take(&mut self, x: &[T; L], _: T::Rank) {
        for l in 0..L / 2 {
            self.take_lane(l, x[l]);
        }
        for l in L / 2..L {
            self.take_lane(l, x[l]);
        }
        for l in 0..L.div_ceil(2) {
            self.odd[l] = self.odd[l] | oddness(x[l], x[l + L / 2]);
        }
    }
}

impl<T: Element, const L: usize, const MAX: bool, const MAGNITUDE: bool>
    Best<T, L, MAX, MAGNITUDE>
{
    #[inline(always)]
    fn take_lane(&mut self, l: usize, x: T) {
        let x = compared::<T, MAGNITUDE>(x);
        self.best[l] = better::<T, MAX>(self.best[l], x);
        let bits = x.sign_bits();
        self.signs[l] = if MAX { self.signs[l] & bits } else { self.signs[l] | bits };
    }

    #[inline(always)]
    fn has_odd(&self) -> bool {
        let mut odd = false;
        for l in 0..L.div_ceil(2) {
            odd |= self.odd[l] != T::Rank::default();
        }
        odd
    }

    /// Whether no best is a zero, whose sign has to be looked for.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        let mut plain = true;
        for l in 0..L {
            plain &= self.best[l] != T::default();
        }
        plain
    }

    /// The result of a lane without NaN.
    #[inline(always)]
    fn lane(&self, l: usize) -> T {
        let best = self.best[l];
        // None is better than zero, so such a sign is a zero's own.
        let zero = if T::has_sign_bit(self.signs[l]) { T::NEGATIVE_ZERO } else { T::default() };
        if best == T::default() { zero } else { best }
    }

    /// The result of each lane. Rare: not part of the loops around it.
    #[inline(never)]
    fn canonical(self) -> [T; L] {
        std::array::from_fn(|l| self.lane(l))
    }
}

/// The same by rank, which orders all there is: for what has a NaN.
#[derive(Clone, Copy)]
struct Ranks<T: Element, const L: usize, const MAX: bool, const MAGNITUDE: bool>([T::Rank; L]);

impl<T: Element, const L: usize, const MAX: bool, const MAGNITUDE: bool> Lanes<T, L>
    for Ranks<T, L, MAX, MAGNITUDE>
{
    const IN_ORDER: bool = false;

    #[inline(always)]
    fn new() -> Self {
        Self([T::LAST; L])
    }
    #[inline(always)]
    fn take(&mut self, x: &[T; L], _: T::Rank) {
        for l in 0..L {
            self.0[l] = self.0[l].min(compared::<T, MAGNITUDE>(x[l]).rank(MAX));
        }
    }
}

/// The extreme of contiguous elements.
#[inline(always)]
pub(super) fn extreme<T: Element, const MAX: bool, const MAGNITUDE: bool>(x: &[T]) -> T {
    with_lanes!(T, L => {
        if let Some(last) = x.last_chunk::<L>() {
            return extreme_of_runs::<T, L, MAX, MAGNITUDE>(x, last);
        }
    });
    if let Some(last) = x.last_chunk::<8>() {
        return extreme_of_runs::<T, 8, MAX, MAGNITUDE>(x, last);
    }
    let mut best = Extreme::<MAX, MAGNITUDE>::worst();
    for x in x {
        best = Extreme::<MAX, MAGNITUDE>::of(best, compared::<T, MAGNITUDE>(*x).canonical());
    }
    best
}

/// The extreme of elements that end with `last`.
#[inline(always)]
fn extreme_of_runs<T: Element, const L: usize, const MAX: bool, const MAGNITUDE: bool>(
    x: &[T],
    last: &[T; L],
) -> T {
    let mut seen = Best::<T, L, MAX, MAGNITUDE>::new();
    take_runs(&mut seen, x);
    // What is no whole run is taken with some that were taken before: that changes nothing.
    if !x.len().is_multiple_of(L) {
        seen.take(last, T::Rank::default());
    }
    if seen.has_odd() {
        return T::NAN;
    }
    if !seen.is_plain() {
        return seen
            .canonical()
            .into_iter()
            .fold(Extreme::<MAX, MAGNITUDE>::worst(), Extreme::<MAX, MAGNITUDE>::of);
    }
    // Through memory: else the compiler cuts the accumulators of the loop above into the pairs that
    // the last steps join, and the loop runs at half the speed.
    let mut best = std::hint::black_box(seen.best);
    let mut half = L / 2;
    while half > 0 {
        for l in 0..half {
            best[l] = better::<T, MAX>(best[l], best[l + half]);
        }
        half /= 2;
    }
    best[0]
}

/// The extreme of one sequence so far.
pub(crate) struct ExtremesSeen<T, const MAX: bool, const MAGNITUDE: bool>(T);

impl<T: Element, const MAX: bool, const MAGNITUDE: bool> One<T, T>
    for ExtremesSeen<T, MAX, MAGNITUDE>
{
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>) {
        self.0 = Extreme::<MAX, MAGNITUDE>::of(self.0, extreme::<T, MAX, MAGNITUDE>(tile.x));
    }
    #[inline(always)]
    fn finish(self) -> Partial<T> {
        Partial::plain(self.0)
    }
}

/// The extremes of many sequences so far.
pub(crate) struct SeenEach<T: Element, const MAX: bool, const MAGNITUDE: bool>(Vec<T>);

impl<T: Element, const L: usize, const MAX: bool, const MAGNITUDE: bool> Each<T, L>
    for SeenEach<T, MAX, MAGNITUDE>
{
    type Lanes = Best<T, L, MAX, MAGNITUDE>;

    #[inline(always)]
    fn join(&mut self, lanes: &Self::Lanes, run: Run<'_, T>) {
        let is_plain = !lanes.has_odd() && lanes.is_plain();
        if is_plain && let Some(best) = self.0[run.column..].first_chunk_mut::<L>() {
            // A NaN from before stays, as nothing is better than one.
            let mut joined = Self::Lanes { best: *best, ..*lanes };
            joined.take(&std::hint::black_box(lanes.best), T::Rank::default());
            *best = joined.best;
            return;
        }
        let seen = if lanes.has_odd() {
            let ranks = run.again::<Ranks<T, L, MAX, MAGNITUDE>, L>();
            ranks.0.map(|rank| T::of_rank(rank, MAX))
        } else {
            lanes.canonical()
        };
        // Of joined rows, a column has several lanes.
        let width = self.0.len();
        for (l, seen) in seen.into_iter().enumerate() {
            let best = &mut self.0[(run.column + l) % width];
            *best = Extreme::<MAX, MAGNITUDE>::of(*best, seen);
        }
    }
    #[inline(always)]
    fn row(&mut self, x: &[T]) {
        for (best, x) in self.0.iter_mut().zip(x) {
            let x = compared::<T, MAGNITUDE>(*x).canonical();
            *best = Extreme::<MAX, MAGNITUDE>::of(*best, x);
        }
    }
    #[inline(always)]
    fn passed(&mut self, _: usize) {}
}

impl<T: Element, const MAX: bool, const MAGNITUDE: bool> Many<T, T>
    for SeenEach<T, MAX, MAGNITUDE>
{
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>, stride: usize) {
        let width = self.0.len();
        if width > 0 {
            with_lanes!(T, L => feed_each::<T, Self, L>(self, tile.x, width, stride));
        }
    }
    fn finish(self) -> Nodes<T> {
        Nodes::plain(self.0)
    }
}
