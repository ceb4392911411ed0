//! Where the least or the greatest is: the first place of several, the first NaN if there is one.

use super::extreme::{Extreme, SeenEach, extreme};
use super::reducer::{ANY_SPLIT, Many, One, Reducer, Tile};
use super::width::by_width;
use super::{Element, Simd};

/// The place of the least element, or of the greatest.
#[derive(Clone, Copy)]
pub(crate) struct Place<const GREATEST: bool>;

/// A value and its number in the sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    /// [`NOWHERE`] if no element was valid.
    pub(crate) index: usize,
}

/// The index of no element.
const NOWHERE: usize = usize::MAX;

/// Elements that are searched as one: most of them hold nothing better, and cost one comparison
/// an element.
const BLOCK: usize = 1024;

impl<T: Element> At<T> {
    /// Takes a later element if it is better; whether it was.
    #[inline(always)]
    fn take<const GREATEST: bool>(&mut self, value: T, index: usize) -> bool {
        let better = self.index == NOWHERE
            || !self.value.is_nan()
                && (value.is_nan() || Extreme::<GREATEST, false>::beats(value, self.value));
        if better {
            *self = Self { value, index };
        }
        better
    }
}

impl<T: Element, const GREATEST: bool> Reducer<T> for Place<GREATEST> {
    type Node = At<T>;
    type One = Found<T, GREATEST>;
    type Many = FoundEach<T, GREATEST>;
    const GRAIN: usize = ANY_SPLIT;
    const NEEDS_VALIDITY: bool = true;

    #[inline(always)]
    fn fill(self) -> T {
        Extreme::<GREATEST, false>::worst()
    }
    #[inline(always)]
    fn empty(self) -> At<T> {
        At { value: Extreme::<GREATEST, false>::worst(), index: NOWHERE }
    }
    #[inline(always)]
    fn join(self, left: At<T>, right: At<T>) -> At<T> {
        let mut best = left;
        if right.index != NOWHERE {
            best.take::<GREATEST>(right.value, right.index);
        }
        best
    }
    #[inline(always)]
    fn one(self, first: usize) -> Found<T, GREATEST> {
        Found { best: self.empty(), next: first }
    }
    fn many(self, width: usize, first: usize, _: usize) -> FoundEach<T, GREATEST> {
        FoundEach { best: vec![self.empty(); width], next: first }
    }
    #[inline(always)]
    fn rows<S: Simd>(self, simd: S, tile: Tile<'_, T>, width: usize, out: &mut [At<T>]) {
        if tile.valid.is_none() {
            by_width!(if T::HAS_NARROW { width } else { 0 }, W => {
                return narrow::<T, W, GREATEST>(tile.x, out);
            }, else {});
        }
        for (r, o) in out.iter_mut().enumerate() {
            let at = r * width..(r + 1) * width;
            let mut found: Found<T, GREATEST> = self.one(0);
            found.feed(simd, Tile { x: &tile.x[at.clone()], valid: tile.valid.map(|v| &v[at]) });
            *o = found.finish();
        }
    }
}

/// Narrow rows that are searched side by side.
const SIDE_BY_SIDE: usize = 8;

/// The places in narrow rows. By ranks, of which one comparison decides, and places of the same
/// size: with more, the compiler makes branches of it, and on random rows half of them are
/// foretold wrongly.
#[inline(always)]
fn narrow<T: Element, const W: usize, const GREATEST: bool>(x: &[T], out: &mut [At<T>]) {
    let (groups, rest) = x.as_chunks::<W>().0.as_chunks::<SIDE_BY_SIDE>();
    let (out_groups, out_rest) = out.as_chunks_mut::<SIDE_BY_SIDE>();
    for (out, group) in out_groups.iter_mut().zip(groups) {
        places::<T, W, SIDE_BY_SIDE, GREATEST>(group, out);
    }
    for (out, row) in out_rest.iter_mut().zip(rest) {
        places::<T, W, 1, GREATEST>(&[*row], std::array::from_mut(out));
    }
}

#[inline(always)]
fn places<T: Element, const W: usize, const L: usize, const GREATEST: bool>(
    rows: &[[T; W]; L],
    out: &mut [At<T>; L],
) {
    let (mut ranks, mut found) = ([T::LAST; L], [T::place(0); L]);
    for c in 0..W {
        for l in 0..L {
            let rank = rows[l][c].rank(GREATEST);
            let better = rank < ranks[l];
            ranks[l] = if better { rank } else { ranks[l] };
            found[l] = if better { T::place(c) } else { found[l] };
        }
    }
    // Through memory: else the compiler makes the loop above one of single elements, for the sake
    // of the one below.
    let found = std::hint::black_box(found);
    for l in 0..L {
        let index = T::index(found[l]);
        out[l] = At { value: rows[l][index.min(W - 1)], index };
    }
}

/// The best place of one sequence so far.
pub(crate) struct Found<T, const GREATEST: bool> {
    best: At<T>,
    next: usize,
}

impl<T: Element, const GREATEST: bool> One<T, At<T>> for Found<T, GREATEST> {
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>) {
        let first = self.next;
        self.next += tile.x.len();
        if let Some(valid) = tile.valid {
            for (i, (x, _)) in tile.x.iter().zip(valid).enumerate().filter(|(_, (_, v))| **v) {
                self.best.take::<GREATEST>(*x, first + i);
            }
            return;
        }
        for (block, x) in tile.x.chunks(BLOCK).enumerate() {
            let value = extreme::<T, GREATEST, false>(x);
            if self.best.take::<GREATEST>(value, first) {
                self.best.index = first + block * BLOCK + place_of(value, x);
            }
        }
    }
    #[inline(always)]
    fn finish(self) -> At<T> {
        self.best
    }
}

/// The first place of the extreme of `x`: of its very bits, which no other number has, or of any
/// NaN. One comparison an element, where the order of the numbers would take several.
#[inline(always)]
fn place_of<T: Element>(value: T, x: &[T]) -> usize {
    if value.is_nan() {
        return x.iter().position(|x| x.is_nan()).unwrap_or(0);
    }
    let long = match in_runs::<T, 64>(value, x) {
        Ok(place) => return place,
        Err(searched) => searched,
    };
    let short = match in_runs::<T, 16>(value, &x[long..]) {
        Ok(place) => return long + place,
        Err(searched) => long + searched,
    };
    short + x[short..].iter().position(|x| x.is_same(value)).unwrap_or(0)
}

/// The first place of a value in runs of `L`, of which each is searched as a whole; or how many
/// elements they are, if it is in none.
#[inline(always)]
fn in_runs<T: Element, const L: usize>(value: T, x: &[T]) -> Result<usize, usize> {
    let (runs, _) = x.as_chunks::<L>();
    for (i, run) in runs.iter().enumerate() {
        let mut any = false;
        for l in 0..L {
            any |= run[l].is_same(value);
        }
        if any {
            let mut first = T::LAST;
            for l in 0..L {
                let place = if run[l].is_same(value) { T::place(l) } else { T::LAST };
                first = first.min(place);
            }
            return Ok(i * L + T::index(first));
        }
    }
    Err(runs.len() * L)
}

/// The best places of many sequences so far.
pub(crate) struct FoundEach<T, const GREATEST: bool> {
    best: Vec<At<T>>,
    /// The number of the next row.
    next: usize,
}

/// Bytes of the rows that are searched as one, and the fewest rows: while they are in the cache,
/// their extremes are found, and then the places of those that are better than all before.
const SEARCHED: usize = 16 << 10;
const FEWEST_ROWS: usize = 64;

impl<T: Element, const GREATEST: bool> FoundEach<T, GREATEST> {
    #[inline(always)]
    fn feed_dense(&mut self, x: &[T], stride: usize) {
        let width = self.best.len();
        let rows = (SEARCHED / (width * std::mem::size_of::<T>())).max(FEWEST_ROWS);
        for x in x.chunks(rows.saturating_mul(stride)) {
            let mut seen = SeenEach::<T, GREATEST, false>::new(width);
            seen.take(x, stride);
            for (c, (best, value)) in self.best.iter_mut().zip(seen.results()).enumerate() {
                if best.take::<GREATEST>(*value, self.next) {
                    let mut column = x[c..].iter().step_by(stride);
                    let is_it = |x: &T| x.is_same(*value) || x.is_nan() && value.is_nan();
                    best.index += column.position(is_it).unwrap_or(0);
                }
            }
            self.next += (x.len() + stride - width) / stride;
        }
    }
}

impl<T: Element, const GREATEST: bool> Many<T, At<T>> for FoundEach<T, GREATEST> {
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>, stride: usize) {
        let width = self.best.len();
        if width == 0 {
            return;
        }
        match tile.valid {
            None => self.feed_dense(tile.x, stride),
            Some(valid) => {
                for (x, valid) in tile.x.chunks(stride).zip(valid.chunks(stride)) {
                    let columns = self.best.iter_mut().zip(x).zip(valid);
                    for ((best, x), _) in columns.filter(|(_, valid)| **valid) {
                        best.take::<GREATEST>(*x, self.next);
                    }
                    self.next += 1;
                }
            }
        }
    }
    fn finish(self) -> Vec<At<T>> {
        self.best
    }
}
