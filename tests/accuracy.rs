//! How far sums are from the exact answer, against bounds that are derived, not guessed.

mod oracle;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array};
use oracle::{Number, Random};
use raptors_arrow::Matrix;
use raptors_arrow::compute::{Per, mean, sum};

/// The exact sum of float64 numbers, rounded once: Shewchuk's expansion of non-overlapping parts.
fn exact(x: impl IntoIterator<Item = f64>) -> f64 {
    let mut parts: Vec<f64> = Vec::new();
    for mut v in x {
        let mut kept = 0;
        for i in 0..parts.len() {
            let mut p = parts[i];
            if v.abs() < p.abs() {
                std::mem::swap(&mut v, &mut p);
            }
            let high = v + p;
            let low = p - (high - v);
            if low != 0.0 {
                parts[kept] = low;
                kept += 1;
            }
            v = high;
        }
        parts.truncate(kept);
        parts.push(v);
    }
    // From the largest down, stop where a part no longer fits: the rest decides only ties.
    let mut total = parts.pop().unwrap_or(0.0);
    while let Some(p) = parts.pop() {
        let high = total + p;
        let low = p - (high - total);
        total = high;
        if low != 0.0 {
            if parts.last().is_some_and(|next| (*next > 0.0) == (low > 0.0)) {
                let twice = low * 2.0;
                let up = total + twice;
                if up - total == twice {
                    total = up;
                }
            }
            break;
        }
    }
    total
}

/// Additions that one element takes part in: its lane, the fold, the tree.
fn depth(len: usize) -> f64 {
    let leaves = len.div_ceil(1024).max(1);
    let lane = len.min(1024).div_ceil(8);
    (lane + 3) as f64 + f64::from(leaves.next_power_of_two().trailing_zeros())
}

/// Numbers whose sum is small against the sum of their magnitudes: the condition number.
fn ill_conditioned(random: &mut Random, len: usize, condition: f64) -> Vec<f64> {
    let mut x: Vec<f64> = (0..len / 2).map(|_| random.unit() * condition.sqrt()).collect();
    let cancel: Vec<f64> = x.iter().map(|v| -v * (1.0 + random.unit() / condition)).collect();
    x.extend(cancel);
    x.resize(len, 1.0);
    for i in (1..len).rev() {
        x.swap(i, random.below(i + 1));
    }
    x
}

fn array<T: Number>(x: &[T]) -> ArrayRef {
    T::array(&x.iter().map(|v| Some(*v)).collect::<Vec<_>>(), 0)
}

fn only<T: Number>(array: &ArrayRef) -> f64 {
    T::options(array)[0].unwrap().to_f64()
}

#[test]
fn sums_stay_within_their_bound_up_to_a_condition_number_of_1e12() {
    let mut random = Random::new(11);
    let u = f64::ROUNDOFF;
    for len in [10, 100, 1000, 1025, 5000, 40_000, 300_000] {
        for condition in [1.0, 1e3, 1e6, 1e9, 1e12] {
            let x = ill_conditioned(&mut random, len, condition);
            let magnitude = exact(x.iter().map(|v| v.abs()));
            let truth = exact(x.iter().copied());
            // Higham 4.4: |error| <= depth u / (1 - depth u) * sum of magnitudes.
            let depth = depth(len) * u;
            let bound = depth / (1.0 - depth) * magnitude + u * truth.abs();
            let matrix = Matrix::try_from(&array(&x)).unwrap();
            let got = only::<f64>(&sum(&matrix, Per::Matrix).unwrap());
            assert!((got - truth).abs() <= bound, "float64 {len} {condition}: {got} {truth}");
            let got = only::<f64>(&mean(&matrix, Per::Column).unwrap());
            let truth_mean = truth / len as f64;
            let bound = bound / len as f64 + 2.0 * u * truth_mean.abs();
            assert!((got - truth_mean).abs() <= bound, "float64 mean {len} {condition}");

            let x: Vec<f32> = x.iter().map(|v| *v as f32).collect();
            let wide = || x.iter().map(|v| f64::from(*v));
            let truth = exact(wide());
            // Added up in float64, then rounded once to float32.
            let bound = depth / (1.0 - depth) * exact(wide().map(f64::abs))
                + f32::ROUNDOFF * truth.abs() * 1.001;
            let matrix = Matrix::try_from(&array(&x)).unwrap();
            let got = only::<f32>(&sum(&matrix, Per::Matrix).unwrap());
            assert!((got - truth).abs() <= bound, "float32 {len} {condition}: {got} {truth}");
        }
    }
}

#[test]
fn float32_ones_past_two_to_the_24_are_counted() {
    let k = 6;
    let rows = (1 << 24) + k;
    let ones: ArrayRef = Arc::new(Float32Array::from(vec![1.0f32; 2 * rows]));
    let matrix = Matrix::reshape(&ones, 2).unwrap();
    let sums = sum(&matrix, Per::Column).unwrap();
    let expected: ArrayRef = Arc::new(Float32Array::from(vec![rows as f32; 2]));
    assert_eq!(&sums, &expected);
    assert_eq!(f64::from(rows as f32), rows as f64, "k is even, so the number is a float32");
}

#[test]
fn huge_tiny_and_signed_zero() {
    let one = |x: Vec<f64>| {
        let x: ArrayRef = Arc::new(Float64Array::from(x));
        let total = sum(&Matrix::try_from(&x).unwrap(), Per::Matrix).unwrap();
        only::<f64>(&total)
    };
    assert_eq!(one(vec![f64::MAX, f64::MAX]), f64::INFINITY);
    assert_eq!(one(vec![5e-324; 4]), 2e-323);
    assert!(one(vec![f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    assert!(one(vec![1.0, f64::NAN]).is_nan());
    assert_eq!(one(vec![-0.0; 9]).to_bits(), (-0.0f64).to_bits());
    assert_eq!(one(vec![-0.0, 0.0]).to_bits(), 0.0f64.to_bits());
    // Two float32 whose sum only float64 can hold, brought back into range by a third.
    let x: ArrayRef = Arc::new(Float32Array::from(vec![f32::MAX, f32::MAX, -f32::MAX]));
    let total = sum(&Matrix::try_from(&x).unwrap(), Per::Matrix).unwrap();
    assert_eq!(only::<f32>(&total), f64::from(f32::MAX));
}
