//! Accumulators that remember where their best came from.
//!
//! Many sequences at once: each step brings one element to each, and two instructions more than
//! the extreme alone keep the number of the step. So a index is found in the pass that finds the
//! extreme, and nothing is searched for afterwards.

use super::Element;
use super::extreme_columns::{Lanes, oddness};

/// What elements are compared by: the key that is before all others is the best.
pub(super) trait LaneOrder<T: Element> {
    type Key: Copy + PartialEq;
    const LAST: Self::Key;
    fn key(x: T) -> Self::Key;
    fn is_before(a: Self::Key, b: Self::Key) -> bool;
    /// Not zero if either is one that the keys do not order.
    fn oddness(a: T, b: T) -> T::Rank;
    /// Whether others may have the same key and yet come before or after it.
    fn is_vague(best: Self::Key) -> bool;
}

/// By value, in one comparison; NaN and the signs of zeros are left to [`ByRank`].
pub(super) struct ByValue<const MAX: bool>;

/// By rank, which orders all there is.
pub(super) struct ByRank<const MAX: bool>;

impl<T: Element, const MAX: bool> LaneOrder<T> for ByValue<MAX> {
    type Key = T;
    const LAST: T = if MAX { T::LOWEST } else { T::HIGHEST };

    #[inline(always)]
    fn key(x: T) -> T {
        x
    }
    #[inline(always)]
    fn is_before(a: T, b: T) -> bool {
        if MAX { b.below(a) } else { a.below(b) }
    }
    #[inline(always)]
    fn oddness(a: T, b: T) -> T::Rank {
        oddness(a, b)
    }
    #[inline(always)]
    fn is_vague(best: T) -> bool {
        let has_two_zeros = !T::NEGATIVE_ZERO.is_same(T::default());
        has_two_zeros & (best == T::default())
    }
}

impl<T: Element, const MAX: bool> LaneOrder<T> for ByRank<MAX> {
    type Key = T::Rank;
    const LAST: T::Rank = T::LAST;

    #[inline(always)]
    fn key(x: T) -> T::Rank {
        x.rank(MAX)
    }
    #[inline(always)]
    fn is_before(a: T::Rank, b: T::Rank) -> bool {
        a < b
    }
    #[inline(always)]
    fn oddness(_: T, _: T) -> T::Rank {
        T::Rank::default()
    }
    #[inline(always)]
    fn is_vague(_: T::Rank) -> bool {
        false
    }
}

/// The best of `L` sequences, and the steps that brought them: the first of several.
pub(super) struct ArgLanes<T: Element, O: LaneOrder<T>, const L: usize> {
    best: [O::Key; L],
    pub(super) step: [T::Rank; L],
    /// Of pairs of sequences: one instruction tells of both.
    odd: [T::Rank; L],
}

impl<T: Element, O: LaneOrder<T>, const L: usize> Clone for ArgLanes<T, O, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Element, O: LaneOrder<T>, const L: usize> Copy for ArgLanes<T, O, L> {}

impl<T: Element, O: LaneOrder<T>, const L: usize> Lanes<T, L> for ArgLanes<T, O, L> {
    /// The first of several has to come first.
    const IN_ORDER: bool = true;

    #[inline(always)]
    fn new() -> Self {
        let zero = T::Rank::default();
        Self { best: [O::LAST; L], step: [zero; L], odd: [zero; L] }
    }

    /// Half of the lanes at a time, or the compiler leaves the accumulators in memory.
    #[inline(always)]
    fn take(&mut self, x: &[T; L], step: T::Rank) {
        for l in 0..L / 2 {
            self.take_lane(l, x[l], step);
        }
        for l in L / 2..L {
            self.take_lane(l, x[l], step);
        }
        for l in 0..L / 2 {
            self.odd[l] = self.odd[l] | O::oddness(x[l], x[l + L / 2]);
        }
    }
}

impl<T: Element, O: LaneOrder<T>, const L: usize> ArgLanes<T, O, L> {
    #[inline(always)]
    fn take_lane(&mut self, l: usize, x: T, step: T::Rank) {
        let key = O::key(x);
        let better = O::is_before(key, self.best[l]);
        self.best[l] = if better { key } else { self.best[l] };
        self.step[l] = if better { step } else { self.step[l] };
    }

    /// Whether there was an element that the order leaves out.
    #[inline(always)]
    fn has_odd(&self) -> bool {
        let mut odd = false;
        for l in 0..L / 2 {
            odd |= self.odd[l] != T::Rank::default();
        }
        odd
    }

    /// Whether the order is sure of the step of each sequence.
    #[inline(always)]
    pub(super) fn is_sure(&self) -> bool {
        let mut unsure = self.has_odd();
        for l in 0..L {
            unsure |= O::is_vague(self.best[l]);
        }
        !unsure
    }

    /// The first index of the best, of one sequence that came in runs of `L`: run `r` began at
    /// `L r`, but the one after `whole` of them `back` elements before. Nothing if the order is not
    /// sure of it.
    #[inline(always)]
    fn first(self, whole: usize, back: usize) -> Option<usize> {
        if self.has_odd() {
            return None;
        }
        // Through memory: else the compiler cuts the accumulators of the loops before into the pairs
        // that are joined here, and they run at half the speed.
        let (keys, steps) = std::hint::black_box((self.best, self.step));
        let mut best = keys;
        let mut half = L / 2;
        while half > 0 {
            for l in 0..half {
                let better = O::is_before(best[l + half], best[l]);
                best[l] = if better { best[l + half] } else { best[l] };
            }
            half /= 2;
        }
        if O::is_vague(best[0]) {
            return None;
        }
        let (long, whole, back) =
            (T::rank_of_index(L), T::rank_of_index(whole), T::rank_of_index(back));
        let mut indices = [T::LAST; L];
        for l in 0..L {
            let back = if steps[l] == whole { back } else { T::Rank::default() };
            let index = steps[l] * long + T::rank_of_index(l) - back;
            indices[l] = if keys[l] == best[0] { index } else { T::LAST };
        }
        let mut half = L / 2;
        while half > 0 {
            for l in 0..half {
                indices[l] = indices[l].min(indices[l + half]);
            }
            half /= 2;
        }
        Some(T::index(indices[0]))
    }
}

/// The first index of the best of elements that end with `last`, fewer than 2³¹; nothing if the
/// order is not sure of it.
#[inline(always)]
pub(super) fn first_index<T: Element, O: LaneOrder<T>, const L: usize>(
    x: &[T],
    last: &[T; L],
) -> Option<usize> {
    let (runs, rest) = x.as_chunks::<L>();
    let mut lanes = ArgLanes::<T, O, L>::new();
    for (step, run) in runs.iter().enumerate() {
        lanes.take(run, T::rank_of_index(step));
    }
    // What is no whole run is taken with some that were taken before: that changes nothing.
    let back = if rest.is_empty() { 0 } else { L - rest.len() };
    if back > 0 {
        lanes.take(last, T::rank_of_index(runs.len()));
    }
    lanes.first(runs.len(), back)
}
