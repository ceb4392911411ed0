//! The exponential function, the same on every machine.
//!
//! `exp(x) = 2ⁿ · exp(r)` with `n` the whole number nearest to `x / ln 2`, so `|r| ≤ 0.347`. `ln 2`
//! is taken in two parts, the first so short that `n` times it is exact. `exp(r)` is
//! `1 + (r + r²·p(r))` with `p` the Taylor polynomial up to `r¹¹/13!`, whose remainder is below
//! 2⁻⁵⁷; the last addition dominates the error: less than 1 ulp, as the tests measure. Plain
//! operations in a fixed order, no fused ones, so that every instruction set gives the same bits.

/// Adding it rounds a small number to a whole one, which is then in the low bits.
const ROUNDER: f64 = (3u64 << 51) as f64;

/// ln 2 cut off after 32 bits, and the rest.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

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

/// `e` to the power of `x`, for `x` up to 0: what softmax needs. Above it the result is right up
/// to 700.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    // Below, even the smallest float64 is too large; a NaN passes through.
    let inside = if x < -746.0 { -746.0 } else { x };
    let shifted = inside * std::f64::consts::LOG2_E + ROUNDER;
    let n = shifted - ROUNDER;
    let r = (inside - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = COEFFICIENTS[11];
    for i in (0..11).rev() {
        p = p * r + COEFFICIENTS[i];
    }
    let value = 1.0 + (r + r * r * p);
    // 2ⁿ in two steps, because a result below the normal numbers needs n below −1022.
    let whole = shifted.to_bits().wrapping_sub(ROUNDER.to_bits()) as i64;
    let half = whole >> 1;
    let power = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
    let result = value * power(half) * power(whole - half);
    if x < -746.0 { 0.0 } else { result }
}

/// `out[i] = exp(x[i] − largest)`
#[inline(always)]
pub(crate) fn exp_each<T: super::Element>(x: &[T], max: f64, out: &mut [f64]) {
    for (o, x) in out.iter_mut().zip(x) {
        *o = exp(x.widen() - max);
    }
}

#[cfg(test)]
mod tests {
    use super::exp;

    /// exp by the series in 192-bit fixed point would need a big integer; two float64 do: the sum
    /// of the series in double-double arithmetic, for |x| small, squared up.
    fn exact(x: f64) -> (f64, f64) {
        // exp(x) = exp(x / 2^k)^(2^k) with |x / 2^k| < 2^-10: 12 terms give 2^-120.
        let mut k = 0;
        let mut small = x;
        while small.abs() > 1.0 / 1024.0 {
            small /= 2.0;
            k += 1;
        }
        let mut sum = (1.0, 0.0);
        let mut term = (1.0, 0.0);
        for i in 1..16 {
            term = divided(times(term, (small, 0.0)), f64::from(i));
            sum = plus(sum, term);
        }
        for _ in 0..k {
            sum = times(sum, sum);
        }
        sum
    }

    fn two_sum(a: f64, b: f64) -> (f64, f64) {
        let s = a + b;
        let t = s - a;
        (s, (a - (s - t)) + (b - t))
    }

    fn plus(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
        let (s, e) = two_sum(a.0, b.0);
        two_sum(s, e + a.1 + b.1)
    }

    fn times(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
        let p = a.0 * b.0;
        let e = a.0.mul_add(b.0, -p);
        two_sum(p, e + a.0 * b.1 + a.1 * b.0)
    }

    fn divided(a: (f64, f64), by: f64) -> (f64, f64) {
        let q = a.0 / by;
        let e = (-q).mul_add(by, a.0);
        two_sum(q, (e + a.1) / by)
    }

    #[test]
    fn within_one_ulp() {
        let mut worst: f64 = 0.0;
        // As far as the oracle's second float64 is a normal number itself.
        for i in 0..370_000u32 {
            let x = -f64::from(i) * 0.001_771_3;
            let (high, low) = exact(x);
            let ulp = high.next_up() - high;
            let error = ((exp(x) - high) - low).abs() / ulp;
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
        assert!(exp(f64::NAN).is_nan());
    }
}
