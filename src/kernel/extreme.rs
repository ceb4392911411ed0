//! The least and the greatest: NaN if any element is one, and −0 below +0.
//!
//! One comparison per element decides; two more operations remember whether a NaN and whether the
//! sign that matters for a zero were seen, and are looked at once, at the end. So the loops are
//! as fast as those that get NaN or the sign of zero wrong, and any order gives the same answer.

use super::reducer::{ANY_SPLIT, Many, One, Reducer, Tile};
use super::width::by_width;
use super::{Element, Simd};

/// Accumulators of a run: four AVX2 registers of float64, two of float32.
const LANES: usize = 16;

/// The least element, or the greatest; of the elements or of their magnitudes.
#[derive(Clone, Copy)]
pub(crate) struct Extreme<const GREATEST: bool, const MAGNITUDE: bool>;

impl<const GREATEST: bool, const MAGNITUDE: bool> Extreme<GREATEST, MAGNITUDE> {
    /// What any element is at least as good as.
    #[inline(always)]
    fn worst<T: Element>() -> T {
        match (GREATEST, MAGNITUDE) {
            (true, true) => T::default(),
            (true, false) => T::LOWEST,
            (false, _) => T::HIGHEST,
        }
    }

    /// Whether `a` is better than `b`; a NaN is never, and nothing is better than one.
    #[inline(always)]
    fn beats<T: Element>(a: T, b: T) -> bool {
        if GREATEST { b.precedes(a) } else { a.precedes(b) }
    }

    /// The better; a NaN wins.
    #[inline(always)]
    fn of<T: Element>(a: T, b: T) -> T {
        if a.is_nan() || !(b.is_nan() || Self::beats(b, a)) { a } else { b }
    }
}

impl<T: Element, const GREATEST: bool, const MAGNITUDE: bool> Reducer<T>
    for Extreme<GREATEST, MAGNITUDE>
{
    type Node = T;
    type One = Seen<T, GREATEST, MAGNITUDE>;
    type Many = SeenEach<T, GREATEST, MAGNITUDE>;
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
    fn one(self, _: usize) -> Seen<T, GREATEST, MAGNITUDE> {
        Seen(Self::worst())
    }
    fn many(self, width: usize, _: usize, _: usize) -> SeenEach<T, GREATEST, MAGNITUDE> {
        SeenEach::new(width)
    }
    #[inline(always)]
    fn rows<S: Simd>(self, _: S, tile: Tile<'_, T>, width: usize, out: &mut [T]) {
        by_width!(if T::HAS_NARROW { width } else { 0 }, W => {
            for (o, row) in out.iter_mut().zip(tile.x.as_chunks::<W>().0) {
                let mut seen = Best::<T, 1, GREATEST, MAGNITUDE>::new();
                for c in 0..W {
                    seen.take(&[row[c]]);
                }
                *o = seen.lane(0);
            }
        }, else {
            for (r, o) in out.iter_mut().enumerate() {
                *o = extreme::<T, GREATEST, MAGNITUDE>(&tile.x[r * width..(r + 1) * width]);
            }
        });
    }
}

/// Turns the order of elements around if the greatest is looked for, so that all loops look for the
/// least: the compiler does not vectorise both.
#[inline(always)]
fn turned<T: Element, const GREATEST: bool>(x: T) -> T {
    if GREATEST { x.reversed() } else { x }
}

/// Accumulators of `L` sequences, of elements that were [`turned`].
#[derive(Clone, Copy)]
struct Best<T: Element, const L: usize, const GREATEST: bool, const MAGNITUDE: bool> {
    best: [T; L],
    /// A NaN, if there was one.
    nan: [T; L],
    /// The signs that decide between zeros: a set bit says that the negative zero was there.
    signs: [T::Bits; L],
}

impl<T: Element, const L: usize, const GREATEST: bool, const MAGNITUDE: bool>
    Best<T, L, GREATEST, MAGNITUDE>
{
    #[inline(always)]
    fn new() -> Self {
        let none = T::Bits::default();
        Self { best: [T::HIGHEST; L], nan: [T::default(); L], signs: [none; L] }
    }

    /// Half of the lanes at a time: a loop over all is too long for the compiler to unroll, and the
    /// accumulators would stay in memory.
    #[inline(always)]
    fn take(&mut self, x: &[T; L]) {
        if L == LANES {
            self.take_lanes::<0, { LANES / 2 }>(x);
            self.take_lanes::<{ LANES / 2 }, LANES>(x);
        } else {
            self.take_lanes::<0, L>(x);
        }
    }

    #[inline(always)]
    fn take_lanes<const FROM: usize, const TO: usize>(&mut self, x: &[T; L]) {
        for l in FROM..TO {
            let x = if MAGNITUDE { x[l].magnitude() } else { x[l] };
            let x = turned::<T, GREATEST>(x);
            let best = self.best[l];
            self.best[l] = if x.below(best) { x } else { best };
            self.nan[l] = if x.is_nan() { x } else { self.nan[l] };
            self.signs[l] = self.signs[l] | x.sign_bits();
        }
    }

    /// Whether the best of each lane is its result: no NaN, no zero whose sign has to be looked for.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        let mut plain = true;
        for l in 0..L {
            plain &= !self.nan[l].is_nan() & (self.best[l] != T::default());
        }
        plain
    }

    /// The result of a lane.
    #[inline(always)]
    fn lane(&self, l: usize) -> T {
        if self.nan[l].is_nan() {
            return self.nan[l].settled();
        }
        let best = self.best[l];
        // None is less than zero, so such a sign is a zero's own.
        let is_zero = best == T::default();
        let is_negative = is_zero && T::has_sign_bit(self.signs[l]);
        turned::<T, GREATEST>(if is_negative { T::NEGATIVE_ZERO } else { best })
    }

    /// The result of each lane. Rare, or once for many rows: not part of the loops around it.
    #[inline(never)]
    fn settled(self) -> [T; L] {
        std::array::from_fn(|l| self.lane(l))
    }
}

/// The better of two numbers that are no NaN and not both zero; or the first, if it is a NaN.
#[inline(always)]
fn better<T: Element, const GREATEST: bool>(a: T, b: T) -> T {
    let is_better = if GREATEST { a.below(b) } else { b.below(a) };
    if is_better { b } else { a }
}

/// The extreme of contiguous elements.
#[inline(always)]
pub(super) fn extreme<T: Element, const GREATEST: bool, const MAGNITUDE: bool>(x: &[T]) -> T {
    let mut seen = Best::<T, LANES, GREATEST, MAGNITUDE>::new();
    if let Some(last) = x.last_chunk() {
        for run in x.as_chunks::<LANES>().0 {
            seen.take(run);
        }
        // What is no whole run is taken with some that were taken before: that changes nothing.
        seen.take(last);
    } else {
        let mut run = [Extreme::<GREATEST, MAGNITUDE>::worst(); LANES];
        run[..x.len()].copy_from_slice(x);
        seen.take(&run);
    }
    if !seen.is_plain() {
        return seen
            .settled()
            .into_iter()
            .fold(Extreme::<GREATEST, MAGNITUDE>::worst(), Extreme::<GREATEST, MAGNITUDE>::of);
    }
    // Through memory: else the compiler cuts the accumulators of the loop above into the pairs that
    // the last steps join, and the loop runs at half the speed.
    let mut best = std::hint::black_box(seen.best);
    for half in [8, 4, 2, 1] {
        for l in 0..half {
            best[l] = better::<T, false>(best[l], best[l + half]);
        }
    }
    turned::<T, GREATEST>(best[0])
}

/// The extreme of one sequence so far.
pub(crate) struct Seen<T, const GREATEST: bool, const MAGNITUDE: bool>(T);

impl<T: Element, const GREATEST: bool, const MAGNITUDE: bool> One<T, T>
    for Seen<T, GREATEST, MAGNITUDE>
{
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>) {
        self.0 =
            Extreme::<GREATEST, MAGNITUDE>::of(self.0, extreme::<T, GREATEST, MAGNITUDE>(tile.x));
    }
    #[inline(always)]
    fn finish(self) -> T {
        self.0
    }
}

/// The extremes of many sequences so far.
pub(crate) struct SeenEach<T: Element, const GREATEST: bool, const MAGNITUDE: bool> {
    width: usize,
    best: Vec<T>,
    /// Accumulators of rows that are more than are taken at once.
    runs: Vec<Best<T, LANES, GREATEST, MAGNITUDE>>,
}

/// Rows that are taken while accumulators stay in registers: as many as an L1 has ways, so that rows
/// a power of two apart do not drive each other out.
const ROWS: usize = 8;

/// Widths up to which contiguous rows are joined to runs of whole accumulators.
const JOINED: usize = 256;

impl<T: Element, const GREATEST: bool, const MAGNITUDE: bool> SeenEach<T, GREATEST, MAGNITUDE> {
    #[inline(always)]
    fn new(width: usize) -> Self {
        let worst = Extreme::<GREATEST, MAGNITUDE>::worst();
        Self { width, best: vec![worst; width], runs: Vec::new() }
    }

    /// Takes rows that begin `stride` elements apart.
    #[inline(always)]
    fn take(&mut self, x: &[T], stride: usize) {
        let width = self.width;
        if width == 0 {
            return;
        }
        if stride > width || width > JOINED || width.is_multiple_of(LANES) {
            return self.take_rows(x, stride);
        }
        // Contiguous narrow rows: as many as make whole runs are one long row.
        let long = (LANES >> width.trailing_zeros()) * width;
        let (joined, rest) = x.split_at(x.len() / long * long);
        if !joined.is_empty() {
            let mut each = Self::new(long);
            each.take_rows(joined, long);
            each.best.chunks_exact(width).for_each(|best| self.join(0, best));
        }
        if !rest.is_empty() {
            self.take_rows(rest, width);
        }
    }

    #[inline(always)]
    fn take_rows(&mut self, x: &[T], stride: usize) {
        let width = self.width;
        let rows = (x.len() + stride - width) / stride;
        let whole = width / LANES;
        if rows > ROWS {
            self.runs.resize(whole, Best::new());
        }
        for first in (0..rows).step_by(ROWS) {
            let now = ROWS.min(rows - first);
            let x = &x[first * stride..];
            for c in 0..whole {
                let mut seen = if first == 0 { Best::new() } else { self.runs[c] };
                for r in 0..now {
                    if let Some(x) = x[r * stride + c * LANES..].first_chunk() {
                        seen.take(x);
                    }
                }
                if first + now < rows {
                    self.runs[c] = seen;
                } else if !seen.is_plain() {
                    self.join(c * LANES, &seen.settled());
                } else if let Some(best) = self.best[c * LANES..].first_chunk_mut::<LANES>() {
                    // Through memory, as in `extreme`.
                    let seen = std::hint::black_box(seen.best);
                    for l in 0..LANES {
                        best[l] = better::<T, GREATEST>(best[l], turned::<T, GREATEST>(seen[l]));
                    }
                }
            }
            for r in 0..now {
                for c in whole * LANES..width {
                    let x = x[r * stride + c];
                    let x = if MAGNITUDE { x.magnitude() } else { x };
                    self.best[c] = Extreme::<GREATEST, MAGNITUDE>::of(self.best[c], x.settled());
                }
            }
        }
    }

    /// Joins results to those of the sequences from `at` on.
    #[inline(always)]
    fn join(&mut self, at: usize, results: &[T]) {
        for (best, result) in self.best[at..].iter_mut().zip(results) {
            *best = Extreme::<GREATEST, MAGNITUDE>::of(*best, *result);
        }
    }
}

impl<T: Element, const GREATEST: bool, const MAGNITUDE: bool> Many<T, T>
    for SeenEach<T, GREATEST, MAGNITUDE>
{
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>, stride: usize) {
        self.take(tile.x, stride);
    }
    fn finish(self) -> Vec<T> {
        self.best
    }
}
