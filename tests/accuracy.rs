//! How far sums, variances, covariances and norms are from the exact answer, against bounds that are
//! derived, not guessed.

mod oracle;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array};
use arrow_schema::DataType;
use oracle::numbers::{self, Number, roundoff};
use oracle::{Random, quick};
use raptors_arrow::compute::{
    Per, ReduceOptions, Statistic, correlation, covariance, mean, norm, reduce, standardize, sum,
    var,
};
use raptors_arrow::dispatch::{Level, Settings, with_settings};
use raptors_arrow::{Error, Matrix};

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

fn variance(x: &Matrix, per: Per, ddof: usize, root: bool) -> Result<ArrayRef, Error> {
    let statistic = if root { Statistic::Std } else { Statistic::Var };
    reduce(statistic, x, per, &ReduceOptions { ddof, ..ReduceOptions::default() })
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

/// Numbers that lie whole steps apart, and exact sums of these numbers of steps. A variance does not
/// change with where they are counted from.
struct Steps {
    x: Vec<f64>,
    away: Vec<i128>,
    /// The length of a step.
    step: f64,
    sum: i128,
    /// Count times the sum of squared distances from the mean.
    squares_by_count: i128,
    /// The squared distances from the first element of each leaf, by those from the mean.
    shift: f64,
}

impl Steps {
    /// Numbers whose differences are multiples of `step`.
    fn new(x: Vec<f64>, step: f64) -> Self {
        let whole = |distance: f64| {
            let steps = distance / step;
            assert!(steps.fract() == 0.0 && steps.abs() < 9e15, "{distance} is no step of {step}");
            steps as i128
        };
        let away = x.iter().map(|v| whole(v - x[0])).collect();
        Self::of(x, away, step)
    }

    /// Numbers that are so many steps away from one of them, or from any other number.
    fn of(x: Vec<f64>, away: Vec<i128>, step: f64) -> Self {
        let sum = away.iter().sum::<i128>();
        let squares_by_count =
            away.iter().map(|v| v * v).sum::<i128>() * away.len() as i128 - sum * sum;
        let from_first = |leaf: &[i128]| leaf.iter().map(|v| (v - leaf[0]).pow(2)).sum::<i128>();
        let shifted: i128 = away.chunks(1024).map(from_first).sum();
        let shift = shifted as f64 / (squares_by_count as f64 / x.len() as f64);
        Self { x, away, step, sum, squares_by_count, shift }
    }

    /// Numbers `away * 2^-20` around `middle`, which must be whole.
    fn around(middle: f64, away: &[i64]) -> Self {
        let step = (-20f64).exp2();
        let x = away.iter().map(|v| middle + *v as f64 * step).collect();
        Self::of(x, away.iter().map(|v| i128::from(*v)).collect(), step)
    }

    fn count(&self) -> f64 {
        self.x.len() as f64
    }

    /// The sum of squared distances from the mean, rounded.
    fn squares(&self) -> f64 {
        self.squares_by_count as f64 / self.count() * self.step * self.step
    }

    /// The sum of products of distances from the means, rounded.
    fn products(&self, other: &Self) -> f64 {
        let both = self.away.iter().zip(&other.away).map(|(a, b)| a * b).sum::<i128>();
        let by_count = both * self.x.len() as i128 - self.sum * other.sum;
        by_count as f64 / self.count() * self.step * other.step
    }

    /// A number as a count of standard deviations from the mean.
    fn standard(&self, i: usize) -> f64 {
        let by_count = self.away[i] * self.x.len() as i128 - self.sum;
        by_count as f64 / (self.squares_by_count as f64).sqrt()
    }

    /// How far the mean is from zero, in standard deviations.
    fn distance(&self) -> f64 {
        let mean = self.x.iter().sum::<f64>() / self.count();
        (mean / (self.squares() / self.count()).sqrt()).abs()
    }

    /// How far a variance may be off, as docs/guide/numbers.md derives it: a share of itself. The
    /// last of it, four units, is for what is computed here.
    fn bound(&self) -> f64 {
        let (d, l, q) = (leaf_depth(self.x.len()), levels(self.x.len()), self.shift);
        let of_mean = 4.0 * l * U * self.distance();
        U * ((3.0 * d + 8.0) * q
            + (3.0 * d + 6.0) * (l * q).sqrt()
            + 12.0 * l.sqrt()
            + 2.0 * l
            + 10.0
            + of_mean
            + 4.0)
    }
}

const U: f64 = 1.0 / (1u64 << 53) as f64;

/// Additions that an element of a leaf takes part in.
fn leaf_depth(len: usize) -> f64 {
    (len.min(1024).div_ceil(8) + 3) as f64
}

/// Levels of the tree above the leaves.
fn levels(len: usize) -> f64 {
    f64::from(len.div_ceil(1024).max(1).next_power_of_two().trailing_zeros())
}

fn at(level: Level) -> Settings {
    Settings { simd: Some(level), ..Settings::default() }
}

/// Holds a variance and its root, with `ddof` 0 and 1, against the exact ones; the relative error
/// of the former.
fn check_variance(name: &str, steps: &Steps, element: &DataType, got: impl Fn(usize, bool) -> f64) {
    let (truth, relative) = (steps.squares(), steps.bound() + roundoff(element));
    for ddof in [0, 1] {
        let by = steps.count() - ddof as f64;
        let (variance, root) = (truth / by, (truth / by).sqrt());
        let (got_variance, got_root) = (got(ddof, false), got(ddof, true));
        let off = (got_variance - variance).abs() / variance;
        assert!(off <= relative, "{name} var: {got_variance} {variance}, {off:e} > {relative:e}");
        // A root is off by half as much, and rounded.
        let (off, relative) = ((got_root - root).abs() / root, relative / 2.0 + 2.0 * U);
        let relative = relative + roundoff(element);
        assert!(off <= relative, "{name} std: {got_root} {root}, {off:e} > {relative:e}");
    }
}

/// Checks a sequence by itself; the relative error of its variance.
fn check_spread(name: &str, steps: &Steps) -> f64 {
    let x = matrix(&DataType::Float64, &steps.x);
    check_variance(name, steps, &DataType::Float64, |ddof, root| {
        let result = variance(&x, Per::Matrix, ddof, root);
        only(&result.unwrap())
    });
    let truth = steps.squares() / steps.count();
    (only(&var(&x, Per::Column).unwrap()) - truth).abs() / truth
}

#[test]
fn variances_stay_within_their_bound_where_a_naive_one_loses_all_digits() {
    let mut random = Random::new(12);
    for len in [2, 10, 1000, 1024, 1025, 5000, 100_000] {
        // A standard deviation near 1, about 0, 10^4 and 10^8.
        let away: Vec<i64> = (0..len).map(|_| (random.unit() * 1.7e6) as i64).collect();
        for middle in [0.0, 1e4, 1e8] {
            let error =
                check_spread(&format!("{len} around {middle}"), &Steps::around(middle, &away));
            // Σx²/n - mean² has an error of 10^16 u, about 1, at 10^8.
            assert!(error < 1e-13, "{len} around {middle}: {error:e}");
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
        assert!(check_spread(&format!("outlier {len}"), &Steps::around(0.0, &away)) < 1e-12);
    }
    let mut away: Vec<i64> = (0..512).map(|_| (random.unit() * 1e6) as i64).collect();
    away[0] = 10_000_000_000 << 20;
    assert!(check_spread("outlier 1e10", &Steps::around(0.0, &away)) < 1e-12);
    // The outlier alone in its leaf's column: the others are measured around themselves.
    let mut x: Vec<f64> = (0..4096).map(|i| f64::from(i % 2)).collect();
    x[0] = 1e10;
    let rows = Matrix::reshape(&array(&DataType::Float64, &x), 2).unwrap();
    let spread = numbers::options(&var(&rows, Per::Column).unwrap());
    assert_eq!(spread[1], Some(Number::Float(0.0)));
}

/// Columns of one length around one mean, in one type.
struct Columns {
    name: String,
    element: DataType,
    columns: [Steps; 3],
}

impl Columns {
    fn new(random: &mut Random, element: &DataType, mean: f64, len: usize) -> Self {
        // float32 has steps of 65536 at 10^12: the numbers are spread over more of them.
        let is_single = *element == DataType::Float32;
        let spread = if is_single { (mean * 1e-5).max(1.0) } else { 1.0 };
        let step = (spread.log2().ceil() - 30.0).exp2();
        let mut column = || {
            let away = |random: &mut Random| (random.unit() * spread / step).round() * step;
            let x = (0..len).map(|_| numbers::rounded(element, mean + away(random)).to_f64());
            Steps::new(x.collect(), step)
        };
        let mut columns = [column(), column(), column()];
        // One that goes with another, and one against it.
        let follow = |x: f64, y: f64| numbers::rounded(element, x * 0.75 + y * 0.25).to_f64();
        let x: Vec<f64> =
            columns[0].x.iter().zip(&columns[1].x).map(|(x, y)| follow(*x, *y)).collect();
        if x.iter().all(|v| ((v - x[0]) / step).fract() == 0.0) {
            columns[1] = Steps::new(x, step);
        }
        let name = format!("{len} {element} around {mean:e}");
        Self { name, element: element.clone(), columns }
    }

    fn len(&self) -> usize {
        self.columns[0].x.len()
    }

    /// As rows of three, one of each column.
    fn by_rows(&self) -> Matrix {
        let x: Vec<f64> =
            (0..self.len()).flat_map(|i| self.columns.each_ref().map(|c| c.x[i])).collect();
        Matrix::reshape(&array(&self.element, &x), 3).unwrap()
    }

    /// As three long rows.
    fn turned(&self) -> Matrix {
        let x: Vec<f64> = self.columns.iter().flat_map(|c| c.x.iter().copied()).collect();
        Matrix::reshape(&array(&self.element, &x), self.len()).unwrap()
    }

    /// The first column.
    fn alone(&self) -> Matrix {
        matrix(&self.element, &self.columns[0].x)
    }

    fn check_variances(&self) {
        for (x, per) in
            [(self.alone(), Per::Matrix), (self.by_rows(), Per::Column), (self.turned(), Per::Row)]
        {
            let result = |ddof, root: bool| {
                let result = variance(&x, per, ddof, root).unwrap();
                let values = numbers::options(&result).into_iter().flatten();
                values.map(Number::to_f64).collect::<Vec<f64>>()
            };
            let all = [[result(0, false), result(0, true)], [result(1, false), result(1, true)]];
            for (i, column) in self.columns.iter().enumerate().take(all[0][0].len()) {
                let name = format!("{} per {per}", self.name);
                let got = |ddof: usize, root: bool| all[ddof][usize::from(root)][i];
                check_variance(&name, column, &self.element, got);
            }
        }
    }

    /// z is off by what the mean is off by, as a share of the deviation; by half of what the
    /// variance is off by, as a share of z; and by three roundings. The mean of float32 is rounded
    /// to float64.
    fn check_standardized(&self) {
        for (x, per, count) in [
            (self.alone(), Per::Matrix, 1),
            (self.by_rows(), Per::Column, 3),
            (self.turned(), Per::Row, 3),
        ] {
            let got = elements(&standardize(&x, per).unwrap());
            for (c, column) in self.columns.iter().enumerate().take(count) {
                let (d, l) = (leaf_depth(self.len()), levels(self.len()));
                let of_mean = U * ((d + 2.0) * column.shift.sqrt() + 12.0 * l.sqrt() + 4.0);
                let is_single = self.element == DataType::Float32;
                let of_mean = of_mean + if is_single { U * column.distance() } else { 0.0 };
                let relative = column.bound() / 2.0 + 4.0 * U + roundoff(&self.element);
                // Not every number of the long ones.
                for i in (0..self.len()).step_by(self.len().div_ceil(5000)) {
                    let truth = column.standard(i);
                    let got = got[if per == Per::Row { c * self.len() + i } else { i * count + c }];
                    let (off, within) = ((got - truth).abs(), of_mean + relative * truth.abs());
                    assert!(off <= within, "{} per {per} {i}: {got} {truth}", self.name);
                }
            }
        }
    }

    /// Products of distances from the means of panels of p rows are added up one after the other,
    /// and so are the panels of a piece: each product is rounded a few times, and so are the sums.
    fn check_covariances(&self) {
        let x = self.by_rows();
        let (covariances, correlations) =
            (elements(&covariance(&x, 1).unwrap()), elements(&correlation(&x).unwrap()));
        let panel = 4096.0f64.min(self.len() as f64);
        let relative = (panel + self.len() as f64 / panel + 64.0) * 2.0 * U;
        for (i, (covariance, correlation)) in covariances.iter().zip(correlations).enumerate() {
            let (a, b) = (&self.columns[i / 3], &self.columns[i % 3]);
            let by = self.len() as f64 - 1.0;
            let (truth, spread) = (a.products(b), (a.squares() * b.squares()).sqrt());
            let name = format!("{} ({}, {})", self.name, i / 3, i % 3);
            let within = relative * spread / by + roundoff(&self.element) * truth.abs() / by;
            let off = (covariance - truth / by).abs();
            assert!(off <= within, "{name}: {covariance} {}, {off:e} > {within:e}", truth / by);
            let within = 2.0 * relative + roundoff(&self.element);
            let off = (correlation - truth / spread).abs();
            assert!(off <= within, "{name}: {correlation} {}", truth / spread);
        }
    }
}

/// The elements of a result, row by row.
fn elements(x: &Matrix) -> Vec<f64> {
    let (_, bits) = oracle::forms::read(x);
    let value = |bits: u64| match x.element_type() {
        DataType::Float32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    };
    bits.into_iter().flatten().map(value).collect()
}

/// Point 10: what is promised of variances holds for any mean and any length.
#[test]
fn variances_keep_their_digits_for_any_mean_and_length() {
    let mut random = Random::new(15);
    let longest = if quick() { 10_000 } else { 1_000_000 };
    for len in [10, 100, 1024, 1025, 4096, 10_000, 100_000, 1_000_000] {
        for mean in [0.0, 1e3, 1e6, 1e9, 1e12] {
            for element in [DataType::Float32, DataType::Float64] {
                if len > longest {
                    continue;
                }
                let columns = Columns::new(&mut random, &element, mean, len);
                for level in Level::available() {
                    with_settings(at(level), || {
                        columns.check_variances();
                        columns.check_standardized();
                        columns.check_covariances();
                    });
                }
            }
        }
    }
}

#[test]
fn equal_numbers_have_no_variance_whatever_they_are() {
    for x in [0.1, 1e8 + 0.1, -3.7e300, 5e-324] {
        for len in [1, 7, 1025, 3000] {
            let x = matrix(&DataType::Float64, &vec![x; len]);
            assert_eq!(only(&var(&x, Per::Matrix).unwrap()), 0.0);
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
            let got = norm(&matrix(&element, &x), Per::Matrix).unwrap();
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
    let of = |x: Vec<f64>| only(&norm(&matrix(&DataType::Float64, &x), Per::Matrix).unwrap());
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
