//! Powers of two, by which numbers are multiplied without an error.

/// What elements are multiplied by where they, their sums or their squares would overflow: the
/// largest float64 becomes less than 2^424, and its square a number.
pub(crate) const DOWN: f64 = power_of_two(-600);

/// What elements are multiplied by where their squares would vanish: the smallest float64 becomes
/// 2^-474, and its square a number.
pub(crate) const UP: f64 = power_of_two(600);

/// The exponent of the largest power of two that is no larger than `magnitude`, kept so small that
/// the inverse of the power is a number too; 0 for zero, infinities and NaN.
pub(crate) fn exponent_of(magnitude: f64) -> i32 {
    if magnitude == 0.0 || !magnitude.is_finite() {
        return 0;
    }
    let stored = |x: f64| (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let exponent = match magnitude.is_normal() {
        true => stored(magnitude),
        false => stored(magnitude * power_of_two(64)) - 64,
    };
    exponent.clamp(-1000, 1000)
}

/// `2^exponent`, for exponents from -1022 to 1023.
pub(crate) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// `x · 2^exponent`, for exponents from -2000 to 2000. In two steps, of which the first overflows
/// or vanishes only if the whole does.
pub(crate) fn times_power(x: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    x * power_of_two(half) * power_of_two(exponent - half)
}

#[cfg(test)]
mod tests {
    use super::{exponent_of, power_of_two, times_power};

    #[test]
    fn exponents_are_those_of_the_power_below() {
        for (magnitude, exponent) in [
            (1.0, 0),
            (1.999, 0),
            (2.0, 1),
            (0.75, -1),
            (f64::MIN_POSITIVE, -1000),
            (5e-324, -1000),
            (f64::MAX, 1000),
            (2f64.powi(-900), -900),
            (2f64.powi(900).next_down(), 899),
            (0.0, 0),
            (f64::INFINITY, 0),
            (f64::NAN, 0),
        ] {
            assert_eq!(exponent_of(magnitude), exponent, "{magnitude:e}");
        }
    }

    #[test]
    fn powers_do_not_overflow_on_the_way() {
        assert_eq!(power_of_two(-1022), f64::MIN_POSITIVE);
        assert_eq!(times_power(3.0, 1500), f64::INFINITY);
        assert_eq!(times_power(2f64.powi(-900), 1900), 2f64.powi(1000));
        assert_eq!(times_power(2f64.powi(900), -1900), 2f64.powi(-1000));
        assert_eq!(times_power(1.5, -1073), 1.5e-323);
        assert_eq!(times_power(-1.25, 7), -160.0);
    }
}
