//! Exact sums of integers: 128 bits hold the sum of any data that fits a machine.
//!
//! Elements are added in 64 bits, as two halves, and moved to 128 bits before either can overflow.
//! Whole numbers add up the same in any order.

use super::reducer::{ANY_SPLIT, Many, One, Reducer, Tile};
use super::scale::{Nodes, Partial, Scale};
use super::{Integer, Simd};
use crate::memory;

/// Elements that are added before the halves are moved on: 2^30 of 2^32 fit an i64.
const BEFORE_OVERFLOW: usize = 1 << 30;

/// The sum of integers.
#[derive(Clone, Copy)]
pub(crate) struct ExactSum;

impl<T: Integer> Reducer<T> for ExactSum {
    type Node = i128;
    type One = IntegerSum;
    type Many = IntegerSums;
    const GRAIN: usize = ANY_SPLIT;

    #[inline(always)]
    fn fill(self) -> T {
        T::NEUTRAL
    }
    #[inline(always)]
    fn empty(self) -> i128 {
        0
    }
    #[inline(always)]
    fn join(self, left: i128, right: i128) -> i128 {
        // Sums of real data always fit; those of a state that somebody wrote may be anything.
        left.saturating_add(right)
    }
    #[inline(always)]
    fn one(self, _: usize) -> IntegerSum {
        IntegerSum(0)
    }
    fn many(self, width: usize, _: usize, _: usize) -> IntegerSums {
        IntegerSums {
            width,
            high: Vec::new(),
            low: Vec::new(),
            totals: memory::filled(0, width),
            rows: 0,
        }
    }
    #[inline(always)]
    fn rows<S: Simd>(
        self,
        _: S,
        tile: Tile<'_, T>,
        width: usize,
        out: &mut [i128],
        _: &mut Vec<Scale>,
    ) {
        for (r, o) in out.iter_mut().enumerate() {
            *o = added(&tile.x[r * width..(r + 1) * width]);
        }
    }
}

/// The sum of at most [`BEFORE_OVERFLOW`] elements.
#[inline(always)]
fn added<T: Integer>(x: &[T]) -> i128 {
    let (mut high, mut low) = (0i64, 0i64);
    for x in x {
        let halves = x.split();
        high += halves.0;
        low += halves.1;
    }
    joined(high, low)
}

#[inline(always)]
fn joined(high: i64, low: i64) -> i128 {
    (i128::from(high) << 32) + i128::from(low)
}

/// The running sum of one sequence.
pub(crate) struct IntegerSum(i128);

impl<T: Integer> One<T, i128> for IntegerSum {
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>) {
        for piece in tile.x.chunks(BEFORE_OVERFLOW) {
            self.0 += added(piece);
        }
    }
    #[inline(always)]
    fn finish(self) -> Partial<i128> {
        Partial::plain(self.0)
    }
}

/// The running sums of many sequences.
pub(crate) struct IntegerSums {
    width: usize,
    /// Halves of several rows side by side, so that narrow rows fill vectors.
    high: Vec<i64>,
    low: Vec<i64>,
    totals: Vec<i128>,
    /// Rows since the halves were moved to the totals.
    rows: usize,
}

/// Elements that a run of rows has at least, if the rows are contiguous.
const RUN: usize = 128;

impl IntegerSums {
    #[inline(always)]
    fn add<T: Integer>(&mut self, x: &[T]) {
        for ((high, low), x) in self.high.iter_mut().zip(&mut self.low).zip(x) {
            let halves = x.split();
            *high += halves.0;
            *low += halves.1;
        }
    }

    fn move_on(&mut self) {
        for (i, (high, low)) in self.high.iter().zip(&self.low).enumerate() {
            self.totals[i % self.width] += joined(*high, *low);
        }
        self.high.fill(0);
        self.low.fill(0);
        self.rows = 0;
    }
}

impl<T: Integer> Many<T, i128> for IntegerSums {
    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, T>, stride: usize) {
        if self.width == 0 {
            return;
        }
        let rows = if stride == self.width { RUN.div_ceil(self.width) } else { 1 };
        memory::resize(&mut self.high, rows * self.width, 0);
        memory::resize(&mut self.low, rows * self.width, 0);
        let mut x = tile.x;
        while !x.is_empty() {
            let take = if rows > 1 { rows * self.width } else { self.width };
            self.add(&x[..take.min(x.len())]);
            x = x.get(rows * stride..).unwrap_or(&[]);
            self.rows += 1;
            if self.rows == BEFORE_OVERFLOW {
                self.move_on();
            }
        }
        self.move_on();
    }
    fn finish(self) -> Nodes<i128> {
        Nodes::plain(self.totals)
    }
}
