//! Which elements are valid, by their own bits and by those of their rows, and what is done about
//! those that are not, at an instruction set.

use std::ops::Range;

use pulp::bytemuck::Pod;

use super::Bits;
use crate::dispatch::Level;
use crate::kernel::{Body, Simd, and_rows, copy_valid, fill_invalid, spread};

/// Elements whose validity is held as bytes at once, on the stack.
const HELD: usize = 2048;

/// The validity of elements that are counted row by row.
#[derive(Clone, Copy)]
pub(crate) struct Mask<'a> {
    pub(crate) level: Level,
    pub(crate) elements: Option<Bits<'a>>,
    pub(crate) rows: Option<Bits<'a>>,
    /// Elements of a row.
    pub(crate) width: usize,
}

impl<'a> Mask<'a> {
    /// The validity of elements by their own bits alone.
    pub(crate) fn of(level: Level, elements: Bits<'a>) -> Self {
        Self { level, elements: Some(elements), rows: None, width: 1 }
    }

    /// The rows in which some elements lie.
    fn rows_of(&self, range: &Range<usize>) -> Range<usize> {
        range.start / self.width..range.end.div_ceil(self.width)
    }

    /// Whether all of `range` are valid.
    pub(crate) fn all(&self, range: Range<usize>) -> bool {
        self.rows.is_none_or(|rows| rows.all(self.rows_of(&range)))
            && self.elements.is_none_or(|elements| elements.all(range))
    }

    /// Says in `valid` which of `range` are valid.
    pub(crate) fn spread(&self, range: Range<usize>, valid: &mut [bool]) {
        match self.elements {
            Some(elements) => elements.spread(self.level, range.clone(), valid),
            None => valid.fill(true),
        }
        let Some(rows) = self.rows else { return };
        let mut held = [false; HELD];
        let mut at = range.start;
        while at < range.end {
            let first = at / self.width;
            let some = (range.end.div_ceil(self.width) - first).min(HELD);
            let end = range.end.min((first + some) * self.width);
            rows.spread(self.level, first..first + some, &mut held[..some]);
            let valid = &mut valid[at - range.start..end - range.start];
            let (rows, width, first) = (&held[..some], self.width, at % self.width);
            self.level.run(AndRows { rows, width, first, valid });
            at = end;
        }
    }

    /// Puts `fill` in place of those of `range` that are not valid; `x` are those elements.
    pub(crate) fn fill<T: Pod>(&self, range: Range<usize>, fill: T, x: &mut [T]) {
        let done = self.by_bits(range.clone(), fill, None, x);
        let (range, x) = (range.start + done..range.end, &mut x[done..]);
        self.each_run(range, |at, valid| {
            self.level.run(Fill { valid, fill, x: &mut x[at] });
        });
    }

    /// Copies the elements `x` of `range` to `out`, with `fill` in place of those that are not
    /// valid.
    pub(crate) fn copy<T: Pod>(&self, range: Range<usize>, x: &[T], fill: T, out: &mut [T]) {
        let done = self.by_bits(range.clone(), fill, Some(x), out);
        let (range, x, out) = (range.start + done..range.end, &x[done..], &mut out[done..]);
        self.each_run(range, |at, valid| {
            self.level.run(Copied { x: &x[at.clone()], valid, fill, out: &mut out[at] });
        });
    }

    /// Copies by the bits themselves, where the CPU has masks, and says how many elements it took.
    fn by_bits<T: Pod>(
        &self,
        range: Range<usize>,
        fill: T,
        x: Option<&[T]>,
        out: &mut [T],
    ) -> usize {
        let size = std::mem::size_of::<T>();
        match self.elements {
            Some(bits) if self.rows.is_none() && self.level == Level::Avx512 && size >= 4 => {
                self.level.run(ByBits { bits, first: range.start, fill, x, out })
            }
            _ => 0,
        }
    }

    /// Calls `f` with pieces of `range`, counted from its start, and what is valid of each.
    fn each_run(&self, range: Range<usize>, mut f: impl FnMut(Range<usize>, &[bool])) {
        let mut held = [false; HELD];
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + HELD);
            let valid = &mut held[..end - at];
            self.spread(at..end, valid);
            f(at - range.start..end - range.start, valid);
            at = end;
        }
    }
}

/// Puts `fill` in place of what is not valid.
pub(crate) fn fill_null<T: Copy>(level: Level, valid: &[bool], fill: T, x: &mut [T]) {
    level.run(Fill { valid, fill, x });
}

impl Bits<'_> {
    /// Says in `out` which bits of `range` are set.
    pub(crate) fn spread(&self, level: Level, range: Range<usize>, out: &mut [bool]) {
        let (bytes, first) = self.bytes_of(range);
        level.run(SpreadBits { bytes, first, out });
    }
}

// What runs at an instruction set. With AVX-512 it takes half the time (docs/perf/nulls.md).

struct SpreadBits<'a> {
    bytes: &'a [u8],
    first: usize,
    out: &'a mut [bool],
}

impl Body for SpreadBits<'_> {
    type Out = ();
    const WIDEST: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        spread(self.bytes, self.first, self.out);
    }
}

struct AndRows<'a> {
    rows: &'a [bool],
    width: usize,
    first: usize,
    valid: &'a mut [bool],
}

impl Body for AndRows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        and_rows(self.rows, self.width, self.first, self.valid);
    }
}

/// Chooses whole words of bits; `out` are the elements themselves if there is no `x`.
struct ByBits<'a, T> {
    bits: Bits<'a>,
    first: usize,
    fill: T,
    x: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Pod> Body for ByBits<'_, T> {
    /// Elements that were taken.
    type Out = usize;
    const WIDEST: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        if !S::HAS_MASKS {
            return 0;
        }
        let (blocks, _) = self.out.as_chunks_mut::<64>();
        let count = blocks.len();
        match self.x {
            Some(x) => {
                for (i, (out, x)) in blocks.iter_mut().zip(x.as_chunks::<64>().0).enumerate() {
                    simd.choose(self.bits.word(self.first + 64 * i), x, self.fill, out);
                }
            }
            None => {
                for (i, out) in blocks.iter_mut().enumerate() {
                    let bits = self.bits.word(self.first + 64 * i);
                    if bits != u64::MAX {
                        simd.choose(bits, &{ *out }, self.fill, out);
                    }
                }
            }
        }
        count * 64
    }
}

struct Fill<'a, T> {
    valid: &'a [bool],
    fill: T,
    x: &'a mut [T],
}

impl<T: Copy> Body for Fill<'_, T> {
    type Out = ();
    const WIDEST: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        fill_invalid(self.valid, self.fill, self.x);
    }
}

struct Copied<'a, T> {
    x: &'a [T],
    valid: &'a [bool],
    fill: T,
    out: &'a mut [T],
}

impl<T: Copy> Body for Copied<'_, T> {
    type Out = ();
    const WIDEST: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        copy_valid(self.x, self.valid, self.fill, self.out);
    }
}
