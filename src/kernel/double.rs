//! Numbers of twice the digits of a float64: the sum of two, of which the second is less than half
//! a unit of the last place of the first.
//!
//! The error-free sums of Knuth and Dekker, and the product by a fused multiplication. They are
//! exact, so that every instruction set gives the same bits.

/// A high part and what it leaves out.
#[derive(Clone, Copy)]
pub(super) struct Double(pub(super) f64, pub(super) f64);

/// `a + b`, exactly.
#[inline(always)]
pub(super) fn sum(a: f64, b: f64) -> Double {
    let s = a + b;
    let t = s - a;
    Double(s, (a - (s - t)) + (b - t))
}

/// `a + b` for an `a` that is no smaller than `b`, exactly.
#[inline(always)]
pub(super) fn sum_ordered(a: f64, b: f64) -> Double {
    let s = a + b;
    Double(s, b - (s - a))
}

/// `a · b`, exactly, unless its last digits are past the smallest number.
#[inline(always)]
pub(super) fn product(a: f64, b: f64) -> Double {
    let p = a * b;
    Double(p, a.mul_add(b, -p))
}

impl Double {
    /// The product, some 2⁻¹⁰² off.
    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        let Double(p, e) = product(self.0, other.0);
        sum_ordered(p, e + self.0.mul_add(other.1, self.1 * other.0))
    }

    /// The sum with a larger number, some 2⁻¹⁰² off.
    #[inline(always)]
    pub(super) fn plus_larger(self, larger: Self) -> Self {
        let Double(s, e) = sum_ordered(larger.0, self.0);
        sum_ordered(s, e + (larger.1 + self.1))
    }
}

#[cfg(test)]
pub(super) mod tests {
    //! Oracles in double-double arithmetic, by other ways than the kernels take.

    use super::{Double, product, sum};

    fn plus(a: Double, b: Double) -> Double {
        let Double(s, e) = sum(a.0, b.0);
        sum(s, e + a.1 + b.1)
    }

    fn divided(a: Double, by: f64) -> Double {
        let q = a.0 / by;
        let Double(p, e) = product(q, by);
        sum(q, ((a.0 - p) - e + a.1) / by)
    }

    /// exp by its series for a small part of `x`, squared up.
    pub(in crate::kernel) fn exact_exp(x: f64) -> (f64, f64) {
        exp_of(Double(x, 0.0))
    }

    fn exp_of(x: Double) -> (f64, f64) {
        let mut k = 0;
        let mut small = x;
        while small.0.abs() > 1.0 / 1024.0 {
            small = Double(small.0 / 2.0, small.1 / 2.0);
            k += 1;
        }
        let mut total = Double(1.0, 0.0);
        let mut term = Double(1.0, 0.0);
        for i in 1..16 {
            term = divided(term.times(small), f64::from(i));
            total = plus(total, term);
        }
        for _ in 0..k {
            total = total.times(total);
        }
        (total.0, total.1)
    }

    /// log by one step of Newton from the machine's: `y + 2 (x − eʸ) / (x + eʸ)`, for a fraction
    /// and an exponent apart, so that the exponential is of everyday size.
    pub(in crate::kernel) fn exact_log(x: f64) -> (f64, f64) {
        let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).clamp(-1000, 1000);
        let exponent = if (0.5..2.0).contains(&x) { 0 } else { exponent };
        let m = x * 2f64.powi(-(exponent / 2)) * 2f64.powi(-(exponent - exponent / 2));
        let y = m.ln();
        let (high, low) = exact_exp(y);
        let difference = (m - high) - low;
        let log = sum(y, 2.0 * difference / (m + high));
        // ln 2 in three parts, of which the first two times the exponent are exact.
        let parts = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
        let k = f64::from(exponent);
        let high = sum(parts[0] * k, log.0);
        let total = plus(high, product(parts[1], k));
        let total = plus(total, Double(log.1, 0.0));
        (total.0, total.1)
    }

    /// `x` to the power of `y`, by both.
    pub(in crate::kernel) fn exact_power(x: f64, y: f64) -> (f64, f64) {
        let (high, low) = exact_log(x);
        exp_of(Double(high, low).times(Double(y, 0.0)))
    }

    #[test]
    fn oracles_agree_with_known_digits() {
        let (high, low) = exact_exp(1.0);
        assert_eq!(high, std::f64::consts::E);
        assert!((low - 1.445_646_891_729_250_2e-16).abs() < 1e-27, "{low:e}");
        let (high, low) = exact_log(10.0);
        assert_eq!(high, std::f64::consts::LN_10);
        assert!((low - -2.170_756_223_382_249e-16).abs() < 1e-24, "{low:e}");
    }
}
