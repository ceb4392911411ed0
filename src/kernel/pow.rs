//! One number to the power of another, the same on every machine: `exp(y · log |x|)`, and the sign
//! and the special cases of IEEE 754's `pow`, which NumPy has too.
//!
//! The result is off by as much, relative to it, as the exponent is in all; that may be 745, so that
//! a logarithm rounded to float64 would cost ten digits. For float64 it is made with twice the
//! digits, of which 2⁻⁶⁵ are right:
//!
//! ```text
//! s = f / (2 + f)                              as high and low part
//! log(1 + f) = 2s · (1 + z·(1/3 + z·(1/5 + z·T(z)))),   z = s²; T in float64, the rest in both
//! y · log x = n · ln 2 + (r + e)               r to half a unit of its last place, e the rest
//! xʸ = 2ⁿ · (1 + (r + (r²·p(r) + e)))
//! ```
//!
//! Less than 1 ulp, as the tests measure. For float32 a float64 has digits enough.

use super::double::{Double, product, sum, sum_ordered};
use super::exp::{LN2_HIGH, LN2_LOW, exp_single, exponential};
use super::log::{log_single, split};

/// 1/3 and 1/5 with what float64 leaves out of them.
const THIRD: Double = Double(1.0 / 3.0, 1.850_371_707_708_594e-17);
const FIFTH: Double = Double(0.2, -1.110_223_024_625_156_5e-17);

/// The natural logarithm of a positive number with twice the digits.
#[inline(always)]
fn log_double(x: f64) -> Double {
    let (k, f) = split(x);
    // 2 + f, exactly, and f by it.
    let d = sum_ordered(2.0, f);
    let inverse = 1.0 / d.0;
    let s_high = f * inverse;
    let rest = (-s_high).mul_add(d.1, (-s_high).mul_add(d.0, f));
    let s = sum_ordered(s_high, rest * inverse);
    let z = s.times(s);
    // T(z) = 1/7 + z/9 + …: what is left of the series of artanh, shifted by two terms.
    let tail = tail(z.0);
    let fifth = Double(tail * z.0, 0.0).plus_larger(FIFTH);
    let third = z.times(fifth).plus_larger(THIRD);
    let one = z.times(third).plus_larger(Double(1.0, 0.0));
    let log = Double(2.0 * s.0, 2.0 * s.1).times(one);
    let high = sum(k * LN2_HIGH, log.0);
    sum_ordered(high.0, high.1 + k.mul_add(LN2_LOW, log.1))
}

/// `1/7 + z/9 + z²/11 + …`
#[inline(always)]
fn tail(z: f64) -> f64 {
    let mut sum: f64 = 0.0;
    for i in (3..12).rev() {
        sum = sum.mul_add(z, 1.0 / (2 * i + 1) as f64);
    }
    sum
}

/// `|x|` to the power of `y`, for a `y` of at most 2^70, whatever else.
#[inline(always)]
fn magnitude(x: f64, y: f64) -> f64 {
    let log = log_double(x);
    let p = product(y, log.0);
    let e = y.mul_add(log.1, p.1);
    // Past these bounds the result is 0 or infinite, and n no number of eleven digits.
    let high = if p.0 < -800.0 { -800.0 } else { p.0 };
    let high = if high > 800.0 { 800.0 } else { high };
    exponential(high, if high == p.0 { e } else { 0.0 })
}

/// The sign and the special cases around the power of a magnitude.
#[inline(always)]
fn with_special_cases(x: f64, y: f64, power: f64) -> f64 {
    let magnitude = x.abs();
    let half = y.abs() * 0.5;
    // From 2^53 on all numbers are even.
    let is_even = whole(half) == half;
    let is_whole = whole(y.abs()) == y.abs();
    let is_odd = is_whole & !is_even;
    // |x| of 0 or infinity, or an infinite y: 0 or infinity, by which side of 1 they are on.
    let grows = (magnitude > 1.0) == (y > 0.0);
    let limit = if grows { f64::INFINITY } else { 0.0 };
    let is_limit = (magnitude == 0.0) | (magnitude == f64::INFINITY) | (half == f64::INFINITY);
    let power = if is_limit { limit } else { power };
    let power = if magnitude == 1.0 { 1.0 } else { power };
    let power = if x.is_sign_negative() & is_odd { -power } else { power };
    let has_none = (x < 0.0) & (magnitude < f64::INFINITY) & !is_whole & (half < f64::INFINITY);
    let power = if has_none | x.is_nan() | y.is_nan() { f64::NAN } else { power };
    if (y == 0.0) | (x == 1.0) { 1.0 } else { power }
}

/// A magnitude rounded to a whole number.
#[inline(always)]
fn whole(magnitude: f64) -> f64 {
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    if magnitude < TWO_52 { (magnitude + TWO_52) - TWO_52 } else { magnitude }
}

/// `x` to the power of `y`, less than 1 ulp off.
#[inline(always)]
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    // A larger exponent gives the same, 0 or infinity, and would overflow on the way.
    const LARGEST: f64 = (1u128 << 70) as f64;
    let inside = if y > LARGEST { LARGEST } else { y };
    let inside = if inside < -LARGEST { -LARGEST } else { inside };
    with_special_cases(x, y, magnitude(x.abs(), inside))
}

/// The same for numbers and a result of float32.
#[inline(always)]
pub(crate) fn pow_single(x: f64, y: f64) -> f64 {
    with_special_cases(x, y, exp_single(y * log_single(x.abs())))
}

/// An integer to the power of another, and whether the result is none or does not fit.
macro_rules! integer_power {
    ($name:ident, $t:ty) => {
        #[inline(always)]
        #[allow(unused_comparisons, reason = "unsigned integers have no sign")]
        pub(crate) fn $name(x: $t, y: $t) -> ($t, bool) {
            if y < 0 {
                // 1 and −1 are their own inverses; the others have none that is whole.
                let is_unit = x.wrapping_mul(x) == 1;
                let power = if y & 1 == 0 { 1 } else { x };
                return (if is_unit { power } else { 0 }, !is_unit);
            }
            let (mut result, mut square, mut left): ($t, $t, $t) = (1, x, y);
            let (mut failed, mut too_large) = (false, false);
            while left != 0 {
                if left & 1 == 1 {
                    let (next, overflowed) = result.overflowing_mul(square);
                    failed |= overflowed | too_large;
                    result = next;
                }
                left >>= 1;
                // A square that is not needed may overflow.
                let (next, overflowed) = square.overflowing_mul(square);
                too_large |= overflowed;
                square = next;
            }
            (result, failed)
        }
    };
}

integer_power!(pow_i64, i64);
integer_power!(pow_u64, u64);

#[cfg(test)]
mod tests {
    use super::{pow, pow_i64, pow_single, pow_u64};
    use crate::kernel::double::tests::exact_power;

    #[test]
    fn within_one_ulp() {
        let mut worst: f64 = 0.0;
        for i in 0..300_000u32 {
            let x = (1.0 + f64::from(i % 1009) * 9.9e-4) * 2f64.powi((i % 61) as i32 - 30);
            // Powers from 2^-1000 to 2^1000: the oracle's second part is a normal number there.
            let y = (f64::from(i % 1201) - 600.0) / (x.ln().abs() + 0.9) * 1.13;
            let (high, low) = exact_power(x, y);
            let ulp = high.next_up() - high;
            let error = ((pow(x, y) - high) - low).abs() / ulp;
            worst = worst.max(error);
            assert!(error < 1.0, "{x:e} to {y:e}: {error} ulp");
        }
        assert!(worst > 0.4, "the oracle has lost its teeth: {worst}");
    }

    #[test]
    fn float32_is_rounded_from_more_digits_than_it_has() {
        for i in 0..100_000u32 {
            let x = f64::from(0.001 + (i as f32 * 0.37) % 97.0);
            let y = f64::from((i as f32 * 0.113) % 35.0 - 17.0);
            let (high, _) = exact_power(x, y);
            if high.is_nan() || high > f64::from(f32::MAX) || high < f64::from(f32::MIN_POSITIVE) {
                continue;
            }
            let bound = high * 2f64.powi(-33);
            assert!((pow_single(x, y) - high).abs() <= bound, "{x} to {y}");
        }
    }

    #[test]
    fn what_is_exact_is_exact() {
        for base in 2..200u32 {
            let mut power = 1.0;
            for exponent in 0..7u32 {
                assert_eq!(pow(f64::from(base), f64::from(exponent)), power);
                assert_eq!(pow(-f64::from(base), f64::from(2 * (exponent / 2))).signum(), 1.0);
                power *= f64::from(base);
            }
        }
        assert_eq!(pow(4.0, 0.5), 2.0);
        assert_eq!(pow(2.0, -1074.0), 5e-324);
        assert_eq!(pow(2.0, 1023.0), 2f64.powi(1023));
    }

    /// Every pair of special numbers, as the machine's own library has it: there both are exact.
    #[test]
    fn special_cases_are_those_of_ieee_754() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let numbers = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, inf, -inf, nan];
        let more =
            [1e300, -1e300, 9007199254740993.0, 4503599627370497.0, -4503599627370497.0, 2.5];
        let all = || numbers.into_iter().chain(more);
        for x in all() {
            for y in all() {
                let (got, expected) = (pow(x, y), x.powf(y));
                let is_near = (got - expected).abs() <= expected.abs() * 2f64.powi(-52);
                let is_same =
                    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                assert!(is_same || is_near && expected != 0.0, "{x} to {y}: {got} {expected}");
                let single = |v: f64| v as f32;
                let (got, expected) = (
                    pow_single(single(x).into(), single(y).into()) as f32,
                    single(x).powf(single(y)),
                );
                let is_near = (got - expected).abs() <= expected.abs() * f32::EPSILON;
                let is_same =
                    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                assert!(is_same || is_near && expected != 0.0, "{x} to {y}: {got} {expected}");
            }
        }
    }

    #[test]
    fn powers_of_integers_are_those_that_fit() {
        for x in -40..40i64 {
            for y in 0..40i64 {
                let expected = x.checked_pow(y as u32);
                let (power, failed) = pow_i64(x, y);
                assert_eq!((!failed).then_some(power), expected, "{x} to {y}");
                let unsigned = (x.unsigned_abs(), y as u64);
                let (power, failed) = pow_u64(unsigned.0, unsigned.1);
                assert_eq!((!failed).then_some(power), unsigned.0.checked_pow(y as u32));
            }
        }
        assert_eq!(pow_i64(-1, -3), (-1, false));
        assert_eq!(pow_i64(-1, i64::MIN), (1, false));
        assert!(pow_i64(2, -1).1 && pow_i64(0, -1).1);
    }
}
