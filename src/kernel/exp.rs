//! The exponential function, the same on every machine.
//!
//! `exp(x) = 2ⁿ · exp(r)` with `n` the whole number nearest to `x / ln 2`, so `|r| ≤ 0.347`. `ln 2`
//! is taken in two parts, the first so short that `n` times it is exact. `exp(r)` is
//! `1 + (r + r²·p(r))` with `p` the Taylor polynomial up to `r¹¹/13!`, whose remainder is below
//! 2⁻⁵⁷; the last addition dominates the error: less than 1 ulp, as the tests measure.
//!
//! Multiplications and additions are fused, in a fixed order, so that every instruction set gives the
//! same bits: where a CPU has no such instruction (x86-64 of before 2013), the C library's function is
//! called, which is slow and right.
//!
//! float32 is computed in float32, in the same way: a polynomial of its own, whose error is 2⁻²⁸.

use super::double::{Double, sum};

/// Adding it rounds a small number to a whole one, which is then in the low bits.
const ROUNDER: f64 = (3u64 << 51) as f64;

/// ln 2 cut off after 32 bits, and the rest.
pub(super) const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
pub(super) const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// 1/2!, 1/3!, … 1/13!
const COEFFICIENTS: [f64; 12] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

/// `1 + r + r²/2! + …` up to the power `TERMS + 1`, for a small `r`, and `e` beside it.
#[inline(always)]
fn series<const TERMS: usize>(r: f64, e: f64) -> f64 {
    let mut p = COEFFICIENTS[TERMS - 1];
    for i in (0..TERMS - 1).rev() {
        p = p.mul_add(r, COEFFICIENTS[i]);
    }
    1.0 + (r + (r * r).mul_add(p, e))
}

/// The whole number nearest to `x / ln 2`, as a number, and in the low bits of another.
#[inline(always)]
fn nearest(x: f64) -> (f64, f64) {
    let shifted = x.mul_add(std::f64::consts::LOG2_E, ROUNDER);
    (shifted - ROUNDER, shifted)
}

/// `value · 2ⁿ`, for the `n` in the low bits of `shifted`: in two steps, because a result below the
/// normal numbers needs `n` below −1022.
#[inline(always)]
fn scaled(value: f64, shifted: f64) -> f64 {
    let whole = shifted.to_bits().wrapping_sub(ROUNDER.to_bits()) as i64;
    let half = whole >> 1;
    let power = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
    value * power(half) * power(whole - half)
}

/// `e` to the power of `x`, less than 1 ulp off.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    // Below, even the smallest float64 is too large, and above, the largest too small; a NaN passes
    // through.
    let inside = if x < -746.0 { -746.0 } else { x };
    let inside = if inside > 710.0 { 710.0 } else { inside };
    let (n, shifted) = nearest(inside);
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, inside));
    let result = scaled(series::<12>(r, 0.0), shifted);
    if x < -746.0 { 0.0 } else { result }
}

/// `e` to the power of `x + rest`, a number of at most 800 with digits that it has no room for.
#[inline(always)]
pub(super) fn exponential(x: f64, rest: f64) -> f64 {
    let (n, shifted) = nearest(x);
    let Double(r, e) = sum(n.mul_add(-LN2_HIGH, x), n.mul_add(-LN2_LOW, rest));
    scaled(series::<12>(r, e), shifted)
}

/// The same for float32: what rounds to whole numbers, ln 2 cut off after 15 bits and the rest, and
/// the polynomial, fitted to `(exp(r) − 1 − r) / r²`.
const ROUNDER_32: f32 = (3 << 22) as f32;
pub(super) const LN2_HIGH_32: f32 = 0.693_145_75;
pub(super) const LN2_LOW_32: f32 = 1.428_606_8e-6;
const COEFFICIENTS_32: [f32; 5] =
    [0.499_999_94, 0.166_665_2, 0.041_668_4, 0.008_368_85, 0.001_381_432];

/// `e` to the power of a float32, less than 1 ulp off.
#[inline(always)]
pub(crate) fn exp_32(x: f32) -> f32 {
    let inside = if x < -104.0 { -104.0 } else { x };
    let inside = if inside > 89.0 { 89.0 } else { inside };
    let shifted = inside.mul_add(std::f32::consts::LOG2_E, ROUNDER_32);
    let n = shifted - ROUNDER_32;
    let r = n.mul_add(-LN2_LOW_32, n.mul_add(-LN2_HIGH_32, inside));
    let mut p = COEFFICIENTS_32[4];
    for i in (0..4).rev() {
        p = p.mul_add(r, COEFFICIENTS_32[i]);
    }
    let value = 1.0 + (r * r).mul_add(p, r);
    let whole = shifted.to_bits().wrapping_sub(ROUNDER_32.to_bits()) as i32;
    let half = whole >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    let result = value * power(half) * power(whole - half);
    if x < -104.0 { 0.0 } else { result }
}

/// `e` to the power of `x`, for a result that is rounded to float32 later: 2⁻³⁶ off.
#[inline(always)]
pub(crate) fn exp_single(x: f64) -> f64 {
    // Past these bounds, the result is 0 or infinite in float32.
    let inside = if x < -110.0 { -110.0 } else { x };
    let inside = if inside > 90.0 { 90.0 } else { inside };
    let (n, shifted) = nearest(inside);
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, inside));
    // 2ⁿ is a normal float64.
    let whole = shifted.to_bits().wrapping_sub(ROUNDER.to_bits());
    let power = f64::from_bits(whole.wrapping_add(1023) << 52);
    series::<8>(r, 0.0) * power
}

/// `out[i] = exp(x[i] − max)`, to as many digits as results of type `O` show.
#[inline(always)]
pub(crate) fn exp_each<T: super::Element, O: super::Scaled>(x: &[T], max: f64, out: &mut [f64]) {
    for (o, x) in out.iter_mut().zip(x) {
        *o = O::exponential(x.widen() - max);
    }
}

#[cfg(test)]
mod tests {
    use super::{exp, exp_32, exp_single};
    use crate::kernel::double::tests::exact_exp;

    #[test]
    fn within_one_ulp() {
        let mut worst: f64 = 0.0;
        // As far as the oracle's second float64 is a normal number itself.
        for i in 0..370_000u32 {
            let x = 700.0 - f64::from(i) * 0.003_6;
            let (high, low) = exact_exp(x);
            let ulp = high.next_up() - high;
            let error = ((exp(x) - high) - low).abs() / ulp;
            worst = worst.max(error);
            assert!(error < 1.0, "{x}: {error} ulp");
            if (-100.0..88.0).contains(&x) {
                let bound = high * 2f64.powi(-36);
                assert!((exp_single(x) - high).abs() < bound, "{x}");
            }
        }
        assert!(worst > 0.4, "the oracle has lost its teeth: {worst}");
    }

    /// Every so many-th float32, against the float64, which has digits to spare.
    #[test]
    fn float32_is_within_one_ulp() {
        let mut worst: f64 = 0.0;
        for bits in (0..=u32::MAX).step_by(1021) {
            let x = f32::from_bits(bits);
            let (got, exact) = (exp_32(x), exp(f64::from(x)));
            let rounded = exact as f32;
            if rounded.is_infinite() || rounded.is_nan() {
                let is_largest = exact < 3.402_823_5e38 && got == f32::MAX;
                assert!(got.to_bits() == rounded.to_bits() || got.is_nan() || is_largest, "{x}");
                continue;
            }
            let ulp = f64::from(rounded.next_up()) - f64::from(rounded);
            let error = (f64::from(got) - exact).abs() / ulp;
            worst = worst.max(error);
            assert!(error < 1.0, "{x}: {error} ulp");
        }
        assert!(worst > 0.4, "the oracle has lost its teeth: {worst}");
    }

    #[test]
    fn the_ends() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp(-750.0), 0.0);
        assert!(exp(-745.0) > 0.0 && exp(-745.0) < 1e-323);
        assert!(exp(-720.0) > 0.0 && exp(-720.0) < f64::MIN_POSITIVE);
        assert!(exp(f64::NAN).is_nan() && exp_single(f64::NAN).is_nan());
        assert!(exp(709.782_712_893_383) > 1.797e308 && exp(709.782_712_893_383) <= f64::MAX);
        assert_eq!(exp(709.782_712_893_385), f64::INFINITY);
        assert_eq!(exp(f64::INFINITY), f64::INFINITY);
        assert_eq!(exp_single(-1e9) as f32, 0.0);
        assert_eq!(exp_single(1e9) as f32, f32::INFINITY);
    }
}
