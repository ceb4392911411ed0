//! How far sums, variances and norms are from the exact answer, against bounds that are derived,
//! not guessed.

mod oracle;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array};
use arrow_schema::DataType;
use oracle::Random;
use oracle::numbers::{self, Number, roundoff};
use raptors_arrow::Matrix;
use raptors_arrow::compute::{Order, Per, ReduceOptions, mean, norm, std, sum, var};

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

fn array(element: &DataType, x: &[f64]) -> ArrayRef {
    let x: Vec<_> = x.iter().map(|v| Some(numbers::rounded(element, *v))).collect();
    numbers::array(element, &x, 0)
}

fn matrix(element: &DataType, x: &[f64]) -> Matrix {
    Matrix::try_from(&array(element, x)).unwrap()
}

fn only(array: &ArrayRef) -> f64 {
    numbers::options(array)[0].map(Number::to_f64).unwrap()
}

#[test]
fn sums_stay_within_their_bound_up_to_a_condition_number_of_1e12() {
    let mut random = Random::new(11);
    let u = roundoff(&DataType::Float64);
    for len in [10, 100, 1000, 1025, 5000, 40_000, 300_000] {
        for condition in [1.0, 1e3, 1e6, 1e9, 1e12] {
            let x = ill_conditioned(&mut random, len, condition);
            let magnitude = exact(x.iter().map(|v| v.abs()));
            let truth = exact(x.iter().copied());
            // Higham 4.4: |error| <= depth u / (1 - depth u) * sum of magnitudes.
            let depth = depth(len) * u;
            let bound = depth / (1.0 - depth) * magnitude + u * truth.abs();
            let matrix64 = matrix(&DataType::Float64, &x);
            let got = only(&sum(&matrix64, Per::Matrix).unwrap());
            assert!((got - truth).abs() <= bound, "float64 {len} {condition}: {got} {truth}");
            let got = only(&mean(&matrix64, Per::Column).unwrap());
            let truth_mean = truth / len as f64;
            let bound = bound / len as f64 + 2.0 * u * truth_mean.abs();
            assert!((got - truth_mean).abs() <= bound, "float64 mean {len} {condition}");

            let wide = || x.iter().map(|v| f64::from(*v as f32));
            let truth = exact(wide());
            // Added up in float64, then rounded once to float32.
            let bound = depth / (1.0 - depth) * exact(wide().map(f64::abs))
                + roundoff(&DataType::Float32) * truth.abs() * 1.001;
            let got = only(&sum(&matrix(&DataType::Float32, &x), Per::Matrix).unwrap());
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
        only(&total)
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
    assert_eq!(only(&total), f64::from(f32::MAX));
}

/// Numbers `whole * 2^-20` around `middle`, an exact variance of them, and the numbers.
struct Spread {
    x: Vec<f64>,
    /// Count times the sum of squared distances from the mean, in units of 2^-40.
    squares_by_count: i128,
}

impl Spread {
    /// `middle` must be whole, so that it can be taken away exactly.
    fn new(middle: f64, away: &[i64]) -> Self {
        let x = away.iter().map(|v| middle + *v as f64 / (1u64 << 20) as f64).collect();
        let sum: i128 = away.iter().map(|v| i128::from(*v)).sum();
        let squares: i128 = away.iter().map(|v| i128::from(*v).pow(2)).sum();
        Self { x, squares_by_count: squares * away.len() as i128 - sum * sum }
    }

    /// The sum of squared distances from the mean, rounded.
    fn squares(&self) -> f64 {
        self.squares_by_count as f64 / self.x.len() as f64 / (1u64 << 40) as f64
    }
}

/// How far the sum of squared distances may be off.
///
/// In a leaf of depth D, `d = x - shift` is rounded once. Then `Σd²` is off by (D + 3) u of itself
/// and `Σd` by (D + 1) u of `Σ|d|`; so `Σd · Σd/n` by (2 D + 4) u of `(Σ|d|)²/n ≤ Σd²`, and their
/// difference by (3 D + 8) u of `Σd²`. The mean is off by (D + 2) u of `Σ|d|/n`, and u of itself.
/// Where two nodes are joined, `δ² w` is off by 2 |δ| ε w + ε² w with ε the error of both means,
/// and by 5 u of itself; the two additions by 2 u of the sum. Each level makes the mean worse by u
/// of itself and 3 u of δ.
struct Bound {
    count: f64,
    mean: f64,
    squares: f64,
    error: f64,
    mean_error: f64,
}

fn bound(x: &[f64]) -> Bound {
    let u = roundoff(&DataType::Float64);
    let count = x.len() as f64;
    if x.len() <= 1024 {
        let depth = depth(x.len());
        let away: Vec<f64> = x.iter().map(|v| v - x[0]).collect();
        let sum: f64 = away.iter().sum();
        let squares: f64 = away.iter().map(|d| d * d).sum();
        let magnitude: f64 = away.iter().map(|d| d.abs()).sum();
        let mean = x[0] + sum / count;
        return Bound {
            count,
            mean,
            squares: (squares - sum * sum / count).max(0.0),
            error: (3.0 * depth + 8.0) * u * squares,
            mean_error: (depth + 2.0) * u * magnitude / count + u * mean.abs(),
        };
    }
    let left = x.len().div_ceil(1024).next_power_of_two() / 2 * 1024;
    let (left, right) = (bound(&x[..left]), bound(&x[left..]));
    let apart = right.mean - left.mean;
    let weight = left.count * right.count / count;
    let between = apart * apart * weight;
    let squares = left.squares + right.squares + between;
    let off = left.mean_error + right.mean_error + u * apart.abs();
    let mean = left.mean + apart * right.count / count;
    Bound {
        count,
        mean,
        squares,
        error: left.error
            + right.error
            + (2.0 * apart.abs() * off + off * off) * weight
            + 5.0 * u * between
            + 2.0 * u * squares,
        mean_error: left.mean_error.max(right.mean_error) + u * mean.abs() + 3.0 * u * apart.abs(),
    }
}

/// Checks variance and standard deviation against the exact ones; the relative error of the former.
fn check_spread(name: &str, spread: &Spread) -> f64 {
    let u = roundoff(&DataType::Float64);
    let x = matrix(&DataType::Float64, &spread.x);
    let n = spread.x.len() as f64;
    let truth = spread.squares();
    // The bound is computed in float64 too: 1 % is more than its own rounding.
    let bound = bound(&spread.x).error * 1.01 + 4.0 * u * truth;
    let options = ReduceOptions::default();
    for ddof in [0, 1] {
        let by = n - ddof as f64;
        let got = only(&var(&x, Per::Matrix, ddof, &options).unwrap());
        let allowed = bound / by + u * truth / by;
        assert!((got - truth / by).abs() <= allowed, "{name}: {got} {}", truth / by);
        let got = only(&std(&x, Per::Matrix, ddof, &options).unwrap());
        let root = (truth / by).sqrt();
        // |√a - √b| = |a - b| / (√a + √b), and two roundings.
        let allowed = (allowed / root).min(allowed.sqrt()) + 2.0 * u * root;
        assert!((got - root).abs() <= allowed, "{name}: std {got} {root}");
    }
    let got = only(&var(&x, Per::Column, 0, &options).unwrap());
    (got - truth / n).abs() / (truth / n)
}

#[test]
fn variances_stay_within_their_bound_where_a_naive_one_loses_all_digits() {
    let mut random = Random::new(12);
    for len in [2, 10, 1000, 1024, 1025, 5000, 100_000] {
        // A standard deviation near 1, about 0, 10^4 and 10^8.
        let away: Vec<i64> = (0..len).map(|_| (random.unit() * 1.7e6) as i64).collect();
        for middle in [0.0, 1e4, 1e8] {
            let error =
                check_spread(&format!("{len} around {middle}"), &Spread::new(middle, &away));
            // Σx²/n - mean² has an error of 10^16 u, about 1, at 10^8.
            assert!(error < 1e-8, "{len} around {middle}: {error:e}");
        }
    }
}

#[test]
fn a_first_element_far_from_all_others_costs_few_digits() {
    let mut random = Random::new(13);
    for len in [100, 1024, 3000, 20_000] {
        let mut away: Vec<i64> = (0..len).map(|_| (random.unit() * 1e6) as i64).collect();
        // 10^10 in units of 2^-20 is more than the squares of 20,000 leave room for: 10^9 here,
        // and 10^10 below.
        away[0] = 1_000_000_000 << 20;
        assert!(check_spread(&format!("outlier {len}"), &Spread::new(0.0, &away)) < 1e-12);
    }
    let mut away: Vec<i64> = (0..512).map(|_| (random.unit() * 1e6) as i64).collect();
    away[0] = 10_000_000_000 << 20;
    assert!(check_spread("outlier 1e10", &Spread::new(0.0, &away)) < 1e-12);
    // The outlier alone in its leaf's column: the others are measured around themselves.
    let mut x: Vec<f64> = (0..4096).map(|i| f64::from(i % 2)).collect();
    x[0] = 1e10;
    let rows = Matrix::reshape(&array(&DataType::Float64, &x), 2).unwrap();
    let spread = numbers::options(&var(&rows, Per::Column, 0, &ReduceOptions::default()).unwrap());
    assert_eq!(spread[1], Some(Number::Float(0.0)));
}

#[test]
fn equal_numbers_have_no_variance_whatever_they_are() {
    for x in [0.1, 1e8 + 0.1, -3.7e300, 5e-324] {
        for len in [1, 7, 1025, 3000] {
            let x = matrix(&DataType::Float64, &vec![x; len]);
            assert_eq!(only(&var(&x, Per::Matrix, 0, &ReduceOptions::default()).unwrap()), 0.0);
        }
    }
}

/// The product of two numbers as two parts.
fn two_product(a: f64, b: f64) -> [f64; 2] {
    let product = a * b;
    [product, a.mul_add(b, -product)]
}

#[test]
fn norms_stay_within_their_bound() {
    let mut random = Random::new(14);
    let options = ReduceOptions::default();
    let u = roundoff(&DataType::Float64);
    for element in [DataType::Float16, DataType::Float32, DataType::Float64] {
        for len in [1, 9, 1000, 1025, 70_000] {
            let scale = if element == DataType::Float16 { 200.0 } else { 1e15 };
            let x: Vec<f64> = (0..len)
                .map(|_| numbers::rounded(&element, random.unit() * scale).to_f64())
                .collect();
            let square = exact(x.iter().flat_map(|v| two_product(*v, *v)));
            let root = square.sqrt();
            // Each square is rounded once and added `depth` times, and all are positive; the root
            // halves that, is rounded itself, and then to the type. `root` here has two roundings.
            let relative = (depth(len) + 1.0) * u / 2.0 * 1.001 + 4.0 * u + roundoff(&element);
            let got = norm(&matrix(&element, &x), Per::Matrix, Order::Two, &options).unwrap();
            let got = only(&got);
            let limit = if element == DataType::Float16 { 65504.0 } else { f64::INFINITY };
            if root > limit {
                assert_eq!(got, f64::INFINITY);
                continue;
            }
            assert!((got - root).abs() <= relative * root, "{element} {len}: {got} {root}");
        }
    }
}

#[test]
fn norms_of_huge_and_tiny_numbers_keep_their_digits() {
    let options = ReduceOptions::default();
    let of = |x: Vec<f64>| {
        only(&norm(&matrix(&DataType::Float64, &x), Per::Matrix, Order::Two, &options).unwrap())
    };
    let u = roundoff(&DataType::Float64);
    for power in [-1060, -600, -540, -500, -465, -464, 0, 480, 511, 512, 700, 1021] {
        let unit = f64::from(power).exp2();
        let close = |got: f64, truth: f64| {
            let smallest = f64::from_bits(1);
            assert!((got - truth).abs() <= 8.0 * u * truth + smallest, "2^{power}: {got} {truth}");
        };
        close(of(vec![3.0 * unit, 4.0 * unit]), 5.0 * unit);
        close(of(vec![unit; 4]), 2.0 * unit);
        close(of(vec![-unit]), unit);
    }
    assert_eq!(of(vec![f64::MAX, f64::MAX]), f64::INFINITY);
    assert_eq!(of(vec![f64::MAX]), f64::MAX);
    assert_eq!(of(vec![f64::INFINITY, 1.0]), f64::INFINITY);
    assert!(of(vec![f64::INFINITY, f64::NAN]).is_nan());
    assert_eq!(of(vec![0.0, -0.0]).to_bits(), 0);
    // A tiny one beside a plain one changes nothing, and is not lost beside a tiny one.
    assert_eq!(of(vec![1.0, 1e-200]), 1.0);
    assert_eq!(of(vec![5e-324]), 5e-324);
}
