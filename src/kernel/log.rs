//! The natural logarithm, the same on every machine.
//!
//! `x = 2ᵏ · m` with `m` from `√½` to `√2`, and `f = m − 1`, which is exact. With `s = f / (2 + f)`
//!
//! ```text
//! log(1 + f) = 2 artanh(s) = 2s + s·R,   R = 2s²/3 + 2s⁴/5 + 2s⁶/7 + …
//!            = f − (f²/2 − s·(f²/2 + R))             as 2s = f − s·f
//! log(x)     = k·ln 2 + log(1 + f)
//! ```
//!
//! The last form begins with `f`, which has no error, and corrects it by what is smaller: less than
//! 1 ulp, as the tests measure. `|s| ≤ 0.1716`, so eleven terms of `R` leave less than 2⁻⁵⁷. Fused
//! operations in a fixed order, see [`super::exp`].
//!
//! float32 is computed in float32, without a division: `log(1 + f) = f + f²·(f·P(f) − ½)` with a
//! polynomial whose error is 2⁻³⁰.

use super::exp::{LN2_HIGH, LN2_HIGH_32, LN2_LOW, LN2_LOW_32};
use super::power::power_of_two;

/// The bits of `√½`, rounded down.
const ROOT_OF_HALF: u64 = 0x3fe6_a09e_667f_3bcc;
const ONE: u64 = 1.0f64.to_bits();
const FRACTION: u64 = (1 << 52) - 1;

/// A positive number as `2ᵏ · (1 + f)`; what it gives for others is overruled later.
#[inline(always)]
pub(super) fn split(x: f64) -> (f64, f64) {
    // Below the normal numbers there are digits that the exponent does not count.
    let is_small = x < f64::MIN_POSITIVE;
    let normal = if is_small { x * power_of_two(54) } else { x };
    let shifted = normal.to_bits().wrapping_add(ONE - ROOT_OF_HALF);
    let m = f64::from_bits((shifted & FRACTION) + ROOT_OF_HALF);
    // The exponent as a number: in the low bits of 2^52, which is then taken off with the bias.
    let exponent = f64::from_bits((shifted >> 52) | TWO_52.to_bits()) - (TWO_52 + 1023.0);
    (if is_small { exponent - 54.0 } else { exponent }, m - 1.0)
}

const TWO_52: f64 = power_of_two(52);

/// `R / 2` in `TERMS` terms, for the square of `s`.
#[inline(always)]
fn series<const TERMS: usize>(z: f64) -> f64 {
    let mut sum = 1.0 / (2 * TERMS + 1) as f64;
    // Not `1..=TERMS`, which is not unrolled, so that nothing around it becomes vectors.
    for i in (0..TERMS - 1).rev() {
        sum = sum.mul_add(z, 1.0 / (2 * i + 3) as f64);
    }
    sum * z
}

/// The natural logarithm with `TERMS` terms of the series.
#[inline(always)]
fn log_of<const TERMS: usize>(x: f64) -> f64 {
    let (k, f) = split(x);
    let s = f / (2.0 + f);
    let half_square = 0.5 * f * f;
    let tail = series::<TERMS>(s * s).mul_add(2.0, half_square);
    let correction = s.mul_add(tail, k * LN2_LOW);
    let result = k.mul_add(LN2_HIGH, f - (half_square - correction));
    let result = if x == f64::INFINITY { x } else { result };
    let result = if x == 0.0 { f64::NEG_INFINITY } else { result };
    // Neither below zero nor a NaN.
    if x >= 0.0 { result } else { f64::NAN }
}

/// The natural logarithm, less than 1 ulp off.
#[inline(always)]
pub(crate) fn log(x: f64) -> f64 {
    log_of::<11>(x)
}

const ROOT_OF_HALF_32: u32 = 0x3f35_04f3;
const ONE_32: u32 = 1.0f32.to_bits();

/// `P`, fitted to `(log(1 + f) − f + f²/2) / f³`.
const COEFFICIENTS_32: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_021_19,
    -0.166_679_96,
    0.142_195_52,
    -0.124_055_89,
    0.118_881_62,
    -0.116_756_52,
    0.067_466_4,
];

/// The natural logarithm of a float32, less than 1 ulp off.
#[inline(always)]
pub(crate) fn log_32(x: f32) -> f32 {
    let is_small = x < f32::MIN_POSITIVE;
    let normal = if is_small { x * (1 << 25) as f32 } else { x };
    let shifted = normal.to_bits().wrapping_add(ONE_32 - ROOT_OF_HALF_32);
    let m = f32::from_bits((shifted & ((1 << 23) - 1)) + ROOT_OF_HALF_32);
    let exponent = (shifted >> 23) as i32 - if is_small { 127 + 25 } else { 127 };
    let (k, f) = (exponent as f32, m - 1.0);
    let mut p = COEFFICIENTS_32[8];
    for i in (0..8).rev() {
        p = p.mul_add(f, COEFFICIENTS_32[i]);
    }
    let correction = (f * f).mul_add(p.mul_add(f, -0.5), k * LN2_LOW_32);
    let result = k.mul_add(LN2_HIGH_32, f + correction);
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x >= 0.0 { result } else { f32::NAN }
}

/// The natural logarithm for a result that is rounded to float32 later: 2⁻⁴⁰ off.
#[inline(always)]
pub(crate) fn log_single(x: f64) -> f64 {
    log_of::<7>(x)
}

#[cfg(test)]
mod tests {
    use super::{log, log_32, log_single};
    use crate::kernel::double::tests::exact_log;

    #[test]
    fn within_one_ulp() {
        let mut worst: f64 = 0.0;
        for i in 0..400_000u32 {
            // All over the exponents, and half of them close to 1.
            let spread = 1.0 + f64::from(i) * 1.7e-6;
            let x = if i % 2 == 0 { spread } else { spread * 2f64.powi((i % 2040) as i32 - 1020) };
            let (high, low) = exact_log(x);
            let ulp = high.abs().next_up() - high.abs();
            let error = ((log(x) - high) - low).abs() / ulp;
            worst = worst.max(error);
            assert!(error < 1.0, "{x:e}: {error} ulp");
            assert!((log_single(x) - high).abs() <= high.abs() * 2f64.powi(-40), "{x:e}");
        }
        assert!(worst > 0.4, "the oracle has lost its teeth: {worst}");
    }

    /// Every so many-th float32, against the float64, which has digits to spare.
    #[test]
    fn float32_is_within_one_ulp() {
        let mut worst: f64 = 0.0;
        let around_one = (0x3f00_0000..0x4000_0000).step_by(61);
        for bits in (0..=u32::MAX).step_by(1021).chain(around_one) {
            let x = f32::from_bits(bits);
            let (got, exact) = (log_32(x), log(f64::from(x)));
            if !exact.is_finite() || exact == 0.0 {
                let is_same = f64::from(got).to_bits() == exact.to_bits();
                assert!(is_same || got.is_nan() && exact.is_nan(), "{x}: {got}");
                continue;
            }
            let rounded = (exact as f32).abs();
            let ulp = f64::from(rounded.next_up()) - f64::from(rounded);
            let error = (f64::from(got) - exact).abs() / ulp;
            worst = worst.max(error);
            assert!(error < 1.0, "{x}: {error} ulp");
        }
        assert!(worst > 0.4, "the oracle has lost its teeth: {worst}");
    }

    #[test]
    fn the_ends() {
        assert_eq!(log(1.0).to_bits(), 0);
        assert_eq!(log(0.0), f64::NEG_INFINITY);
        assert_eq!(log(-0.0), f64::NEG_INFINITY);
        assert_eq!(log(f64::INFINITY), f64::INFINITY);
        assert!(log(-1.0).is_nan() && log(f64::NEG_INFINITY).is_nan() && log(f64::NAN).is_nan());
        assert_eq!(log(5e-324), -744.440_071_921_381_2);
        assert_eq!(log(f64::MAX), 709.782_712_893_384);
    }
}
