//! `(x − offset) / divisor`, element by element: what the transforms do once they have measured.

use super::exp::{exp, exp_single};
use super::{Element, Real};

/// A float that transforms store.
pub(crate) trait Scaled: Real {
    /// Whether the rest of an offset shows: float32 rounds it away.
    const SHOWS_REST: bool;
    /// What a divisor becomes before many numbers are divided by it.
    fn prepared(divisor: f64) -> f64;
    /// `e` to the power of a number, to be scaled and rounded to this type.
    fn exponential(x: f64) -> f64;
    /// `x` by the divisor that was prepared, rounded to this type.
    fn scaled(x: f64, prepared: f64) -> Self;
}

impl Scaled for f32 {
    const SHOWS_REST: bool = false;

    /// Its inverse: multiplying in float64 is off by at most two units of the last of 53 digits,
    /// of which rounding to 24 leaves nothing.
    #[inline(always)]
    fn prepared(divisor: f64) -> f64 {
        1.0 / divisor
    }
    #[inline(always)]
    fn exponential(x: f64) -> f64 {
        exp_single(x)
    }
    #[inline(always)]
    fn scaled(x: f64, prepared: f64) -> Self {
        (x * prepared) as f32
    }
}

impl Scaled for f64 {
    const SHOWS_REST: bool = true;

    /// Itself: `49.0 * (1.0 / 49.0)` is not 1.
    #[inline(always)]
    fn prepared(divisor: f64) -> f64 {
        divisor
    }
    #[inline(always)]
    fn exponential(x: f64) -> f64 {
        exp(x)
    }
    #[inline(always)]
    fn scaled(x: f64, prepared: f64) -> Self {
        x / prepared
    }
}

/// An offset, what it leaves out, and a prepared divisor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affine {
    pub(crate) offset: f64,
    pub(crate) rest: f64,
    pub(crate) divisor: f64,
}

/// `out = (x − offset) / divisor` with one of each.
#[inline(always)]
pub(crate) fn affine_all<T: Element, O: Scaled>(x: &[T], by: Affine, out: &mut [O]) {
    if O::SHOWS_REST && by.rest != 0.0 {
        for (o, x) in out.iter_mut().zip(x) {
            *o = O::scaled(x.widen() - by.offset - by.rest, by.divisor).canonical();
        }
        return;
    }
    for (o, x) in out.iter_mut().zip(x) {
        *o = O::scaled(x.widen() - by.offset, by.divisor).canonical();
    }
}

/// `out = (x − offset) / divisor` with one of each for every element.
#[inline(always)]
pub(crate) fn affine_each<T: Element, O: Scaled>(
    x: &[T],
    offsets: &[f64],
    divisors: &[f64],
    out: &mut [O],
) {
    for (((o, x), offset), divisor) in out.iter_mut().zip(x).zip(offsets).zip(divisors) {
        *o = O::scaled(x.widen() - offset, *divisor).canonical();
    }
}

/// The same with what the offsets leave out.
#[inline(always)]
pub(crate) fn affine_each_with_rests<T: Element, O: Scaled>(
    x: &[T],
    [offsets, rests, divisors]: [&[f64]; 3],
    out: &mut [O],
) {
    let by = offsets.iter().zip(rests).zip(divisors);
    for ((o, x), ((offset, rest), divisor)) in out.iter_mut().zip(x).zip(by) {
        *o = O::scaled(x.widen() - offset - rest, *divisor).canonical();
    }
}

/// One element that is multiplied by a power of two first, where it or its distance from the offset
/// would overflow or vanish without.
pub(crate) fn affine_rescaled<T: Element, O: Scaled>(x: T, power: f64, by: Affine) -> O {
    O::scaled(x.widen() * power - by.offset - by.rest, by.divisor).canonical()
}
