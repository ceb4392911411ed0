//! The open leaf of one sequence: eight lanes, and what becomes of them in doubt.
//!
//! Elements are added plainly, as fast as may be. Only where that is not safe (a lane overflowed, or
//! squares vanish) are the elements at hand added again, one by one, by the rules of
//! [`super::scale`].

use super::mask::count_valid;
use super::power::{DOWN, UP};
use super::reducer::Reducer;
use super::scale::{Partial, Scale};
use super::sum::{Sums, add_to_lanes, folded};
use super::terms::Terms;
use super::{Element, LANES, Simd, fold};
use crate::memory;

/// The running sums of one leaf.
#[derive(Clone)]
pub(super) struct OpenLeaf<K, const N: usize> {
    terms: K,
    lanes: [[f64; LANES]; N],
    /// The first valid element, and how many are valid.
    shift: f64,
    valid: usize,
    /// Elements so far.
    pub(super) filled: usize,
    /// From one element to the next so many lanes: two, where only every other element comes.
    step: usize,
    /// What the elements of each lane are multiplied by: 1, or `DOWN` once it overflowed.
    powers: [f64; LANES],
    has_overflowed: bool,
    /// The lanes of elements times `UP`, while squares are too small to be trusted. None as long as
    /// all terms are zero.
    up: Option<Box<[[f64; LANES]; N]>>,
}

impl<K: Terms<N>, const N: usize> OpenLeaf<K, N> {
    #[inline(always)]
    pub(super) fn new(terms: K) -> Self {
        Self {
            terms,
            lanes: [[-0.0; LANES]; N],
            shift: 0.0,
            valid: 0,
            filled: 0,
            step: 1,
            powers: [1.0; LANES],
            has_overflowed: false,
            up: None,
        }
    }

    /// A leaf of which `filled` elements were added plainly and safely, `valid` of them valid, to
    /// lanes of which `lane` knows. They are `step` apart.
    pub(super) fn resumed(
        terms: K,
        lane: impl Fn(usize, usize) -> f64,
        (shift, valid, filled, step): (f64, usize, usize, usize),
    ) -> Self {
        let mut lanes = [[-0.0; LANES]; N];
        for n in 0..N {
            for l in 0..LANES / step {
                lanes[n][l * step] = lane(n, l);
            }
        }
        Self { lanes, shift, valid, filled, step, ..Self::new(terms) }
    }

    /// Takes elements that are all valid, or hold the neutral value.
    #[inline(always)]
    pub(super) fn feed<T: Element, S: Simd>(&mut self, simd: S, x: &[T]) {
        if K::SHIFTED && self.valid == 0 {
            self.shift = x[0].widen();
        }
        self.valid += x.len();
        self.add(simd, x);
    }

    /// Takes elements of which some are null: they hold the shift, whose terms are zero.
    #[inline(always)]
    pub(super) fn feed_masked<T: Element, S: Simd>(&mut self, simd: S, x: &[T], valid: &[bool]) {
        let mut held = [0.0; super::sum::LEAF];
        let held = &mut held[..x.len()];
        self.hold(x, valid, held);
        if T::NEEDS_SCALE { self.add(simd, held) } else { self.add_plainly(simd, held) }
    }

    /// The elements, with the shift in place of nulls.
    #[inline(always)]
    fn hold<T: Element>(&mut self, x: &[T], valid: &[bool], held: &mut [f64]) {
        if self.valid == 0
            && let Some(first) = valid.iter().position(|valid| *valid)
        {
            self.shift = x[first].widen();
        }
        self.valid += count_valid(valid);
        // A copy: that no element of `held` is the shift itself is not seen, and would be branches.
        let shift = self.shift;
        for ((held, x), valid) in held.iter_mut().zip(x).zip(valid) {
            *held = if *valid { x.widen() } else { shift };
        }
    }

    #[inline(always)]
    fn add<T: Element, S: Simd>(&mut self, simd: S, x: &[T]) {
        if T::NEEDS_SCALE && self.has_overflowed {
            return self.add_carefully(x);
        }
        let before = self.lanes;
        self.add_plainly(simd, x);
        if !T::NEEDS_SCALE {
            return;
        }
        if self.is_sure() {
            self.up = None;
        } else {
            self.add_again(before, x);
        }
    }

    #[inline(always)]
    fn add_plainly<T: Element, S: Simd>(&mut self, simd: S, x: &[T]) {
        self.lanes = add_to_lanes(self.terms, simd, self.lanes, self.filled, x, self.shift);
        self.filled += x.len();
    }

    #[inline(always)]
    fn is_sure(&self) -> bool {
        self.terms.is_sure(fold(self.lanes[N - 1]), self.shift)
    }

    /// What follows a plain addition that left doubt.
    #[cold]
    #[inline(never)]
    fn add_again<T: Element>(&mut self, before: [[f64; LANES]; N], x: &[T]) {
        let had_nan = before[N - 1].iter().any(|lane| lane.is_nan());
        if had_nan || (self.up.is_none() && is_trivial(x, self.shift)) {
            return;
        }
        self.lanes = before;
        self.filled -= x.len();
        self.add_carefully(x);
    }

    /// Takes elements one by one, in the scale that each lane needs.
    pub(super) fn feed_carefully<T: Element>(&mut self, x: &[T], valid: Option<&[bool]>) {
        match valid {
            Some(valid) if K::SHIFTED => {
                let mut held = memory::filled(0.0, x.len());
                self.hold(x, valid, &mut held);
                self.add_carefully(&held);
            }
            _ => {
                if K::SHIFTED && self.valid == 0 {
                    self.shift = x[0].widen();
                }
                self.valid += x.len();
                self.add_carefully(x);
            }
        }
    }

    #[inline(never)]
    fn add_carefully<T: Element>(&mut self, x: &[T]) {
        let before = self.lanes;
        let (filled, step) = (self.filled, self.step);
        let lane_of = |i: usize| (filled + i) * step % LANES;
        for (i, x) in x.iter().enumerate() {
            let l = lane_of(i);
            loop {
                let power = self.powers[l];
                let one = self.terms.one(x.widen() * power, self.shift * power);
                let sums: [f64; N] = std::array::from_fn(|n| self.lanes[n][l] + one[n]);
                if power == 1.0 && sums.iter().any(|sum| !sum.is_finite()) {
                    self.powers[l] = DOWN;
                    self.has_overflowed = true;
                    self.scale_down(l);
                    continue;
                }
                (0..N).for_each(|n| self.lanes[n][l] = sums[n]);
                break;
            }
        }
        if self.has_overflowed || self.is_sure() {
            self.up = None;
        } else {
            let up = self.up.get_or_insert_with(|| Box::new(before));
            for (i, x) in x.iter().enumerate() {
                let one = self.terms.one(x.widen() * UP, self.shift * UP);
                (0..N).for_each(|n| up[n][lane_of(i)] += one[n]);
            }
        }
        self.filled += x.len();
    }

    fn scale_down(&mut self, lane: usize) {
        for n in 0..N {
            // Not by the power of the power, which is no number.
            (0..K::DEGREES[n]).for_each(|_| self.lanes[n][lane] *= DOWN);
        }
    }

    /// The node of the leaf, which begins anew.
    #[inline(always)]
    pub(super) fn close<T: Element>(&mut self) -> Partial<K::Node> {
        let node = self.terms.node(folded(self.lanes), self.shift, self.valid as f64);
        let mut partial = Partial::plain(node);
        if T::NEEDS_SCALE
            && (self.has_overflowed || !(self.terms.fits(&node) && self.terms.is_large(&node)))
        {
            partial = self.scaled(node);
        }
        if T::NEEDS_SCALE {
            self.up = None;
        }
        self.lanes = [[-0.0; LANES]; N];
        (self.filled, self.valid, self.shift) = (0, 0, 0.0);
        partial
    }

    /// The node of lanes that overflowed, or whose squares vanished.
    #[cold]
    #[inline(never)]
    fn scaled(&mut self, plain: K::Node) -> Partial<K::Node> {
        let reducer = Sums(self.terms);
        let valid = self.valid as f64;
        if !self.has_overflowed && self.terms.fits(&plain) {
            let node = match &self.up {
                Some(up) => self.terms.node(folded(**up), self.shift * UP, valid),
                None => self.terms.rescaled(plain, UP),
            };
            return Partial { node, scale: Scale::Up };
        }
        let scale = |l: usize| if self.powers[l] == 1.0 { Scale::Plain } else { Scale::Down };
        let partial = if K::IS_SUM {
            // Each lane is a node: the order is that of `fold`.
            let lane = |l: usize| {
                let sums = std::array::from_fn(|n| self.lanes[n][l]);
                Partial { node: self.terms.node(sums, 0.0, valid), scale: scale(l) }
            };
            let join = |a, b| Reducer::<f64>::joined(reducer, a, b);
            let four = |a, b, c, d| join(join(lane(a), lane(b)), join(lane(c), lane(d)));
            join(four(0, 4, 2, 6), four(1, 5, 3, 7))
        } else {
            for l in 0..LANES {
                if self.powers[l] == 1.0 {
                    self.scale_down(l);
                }
            }
            let node = self.terms.node(folded(self.lanes), self.shift * DOWN, valid);
            Partial { node, scale: Scale::Down }
        };
        self.powers = [1.0; LANES];
        self.has_overflowed = false;
        partial
    }
}

/// Whether a doubt about elements changes nothing: one of them is a NaN, and so is any sum; or all
/// are equal to the shift (or zero, where there is none), and all terms are zero.
pub(super) fn is_trivial<T: Element>(x: &[T], shift: f64) -> bool {
    let (mut has_nan, mut is_zero) = (false, true);
    for x in x {
        has_nan |= x.is_nan();
        is_zero &= x.widen() == shift;
    }
    has_nan | is_zero
}
