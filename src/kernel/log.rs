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
//! 1 ulp, as the tests measure. `|s| ≤ 0.1716`, so eleven terms of `R` leave less than 2⁻⁵⁷. Plain
//! operations in a fixed order, no fused ones, so that every instruction set gives the same bits.

use super::exp::{LN2_HIGH, LN2_LOW};
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
    let mut sum = 0.0;
    // Not `1..=TERMS`, which is not unrolled, so that nothing around it becomes vectors.
    for i in (0..TERMS).rev() {
        sum = (sum + 1.0 / (2 * i + 3) as f64) * z;
    }
    sum
}

/// The natural logarithm with `TERMS` terms of the series.
#[inline(always)]
fn log_of<const TERMS: usize>(x: f64) -> f64 {
    let (k, f) = split(x);
    let s = f / (2.0 + f);
    let half_square = 0.5 * f * f;
    let correction = s * (half_square + 2.0 * series::<TERMS>(s * s)) + k * LN2_LOW;
    let result = k * LN2_HIGH - ((half_square - correction) - f);
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

/// The natural logarithm for a result that is rounded to float32: 2⁻⁴⁰ off.
#[inline(always)]
pub(crate) fn log_single(x: f64) -> f64 {
    log_of::<7>(x)
}

#[cfg(test)]
mod tests {
    use super::{log, log_single};
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
