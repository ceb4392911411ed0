//! A mean to more digits than a float64 has.
//!
//! Means of data far from zero differ in their last digits alone. Rounded to float64 they would
//! differ by nothing but their rounding, so the part that a float64 leaves out is kept beside it.

/// A mean as the sum of two float64: one near it, and the small remainder.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mean {
    pub(crate) high: f64,
    pub(crate) low: f64,
}

impl Mean {
    /// How far it is from `other`: the large parts are subtracted without an error.
    #[inline(always)]
    pub(crate) fn minus(self, other: Self) -> f64 {
        let (high, low) = two_sum(self.high, -other.high);
        high + (low + (self.low - other.low))
    }

    /// The mean moved by a distance; `high` is then the nearest float64.
    #[inline(always)]
    pub(crate) fn plus(self, distance: f64) -> Self {
        let (high, low) = two_sum(self.high, self.low + distance);
        Self { high, low }
    }
}

/// A sum and what rounding took from it, which is a float64 too (Knuth, TAOCP 2, 4.2.2): 0 where
/// the sum is not finite, and there is nothing to know.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    (sum, if sum.is_finite() { error } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::Mean;

    #[test]
    fn means_far_from_zero_keep_their_distance() {
        let first = Mean { high: 1e15, low: 0.25 };
        let second = Mean { high: 1e15 + 3.0, low: -1e-5 };
        assert_eq!(second.minus(first), 2.75 - 1e-5);
        let moved = first.plus(2f64.powi(-30));
        assert_eq!((moved.high, moved.low), (1e15 + 0.25, 2f64.powi(-30)));
        assert_eq!(Mean { high: 1e300, low: 0.0 }.minus(Mean { high: 1.0, low: 0.0 }), 1e300);
        assert_eq!(Mean { high: f64::MAX, low: 0.0 }.plus(f64::MAX).low, 0.0);
    }
}
