//! Nothing overflows or vanishes on the way to a result that a float64 can hold: numbers near both
//! ends of float64, at every instruction set, in several chunks and on several threads.

mod oracle;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use oracle::{Random, forms, numbers};
use raptors_arrow::Matrix;
use raptors_arrow::compute::{
    self, Metric, Order, Per, ReduceOptions, Statistic, Vectors, center, correlation,
    cosine_similarity, covariance, dot, gram, l2_distance, mean, minmax_scale, normalize, pairwise,
    reduce, standardize, std, sum, var,
};
use raptors_arrow::dispatch::{Level, Settings, with_settings};

fn matrix(width: usize, x: &[f64]) -> Matrix {
    let flat: ArrayRef = Arc::new(Float64Array::from(x.to_vec()));
    Matrix::reshape(&flat, width).unwrap()
}

fn values(array: &ArrayRef) -> Vec<f64> {
    numbers::options(array).into_iter().map(|x| x.map_or(f64::NAN, |x| x.to_f64())).collect()
}

/// The elements of a matrix, NaN for null.
fn elements(x: &Matrix) -> Vec<f64> {
    let (_, bits) = forms::read(x);
    bits.into_iter().map(|bits| bits.map_or(f64::NAN, f64::from_bits)).collect()
}

/// Holds bits against each other, and says where they differ first.
#[track_caller]
fn assert_same(got: &[f64], expected: &[f64], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let is_same = got.to_bits() == expected.to_bits();
        assert!(is_same, "{what}: value {i} is {got:e} and not {expected:e}");
    }
}

/// Calls `f` at every instruction set, on one and on three threads.
fn each_way(f: impl Fn()) {
    for level in Level::available() {
        for threads in [1, 3] {
            let settings = Settings {
                simd: Some(level),
                threads: Some(threads),
                exact_threads: true,
                ..Settings::default()
            };
            with_settings(settings, &f);
        }
    }
}

/// The same rows in chunks.
fn chunked(x: &Matrix, flat: &[f64]) -> Matrix {
    let (rows, width) = (x.rows(), x.width());
    let cuts = [0, rows / 3, rows / 3, rows / 2 + 1, rows].map(|cut| cut.min(rows));
    let parts = cuts.windows(2).map(|cut| matrix(width, &flat[cut[0] * width..cut[1] * width]));
    Matrix::from_chunks(parts.collect()).unwrap()
}

type Reduction = (&'static str, fn(&Matrix, Per) -> Vec<f64>);

fn norm_of(order: Order, x: &Matrix, per: Per) -> Vec<f64> {
    let options = ReduceOptions { order, ..ReduceOptions::default() };
    values(&reduce(Statistic::Norm, x, per, &options).unwrap())
}

fn sample_std(x: &Matrix, per: Per) -> Vec<f64> {
    let options = ReduceOptions { ddof: 1, ..ReduceOptions::default() };
    values(&reduce(Statistic::Std, x, per, &options).unwrap())
}

const REDUCTIONS: [Reduction; 6] = [
    ("sum", |x, per| values(&sum(x, per).unwrap())),
    ("mean", |x, per| values(&mean(x, per).unwrap())),
    ("std", sample_std),
    ("norm", |x, per| norm_of(Order::Two, x, per)),
    ("norm 1", |x, per| norm_of(Order::One, x, per)),
    ("var", |x, per| values(&var(x, per).unwrap())),
];

type Transform = (&'static str, fn(&Matrix, Per) -> Vec<f64>);

const TRANSFORMS: [Transform; 5] = [
    ("standardize", |x, per| elements(&standardize(x, per).unwrap())),
    ("minmax_scale", |x, per| elements(&minmax_scale(x, per).unwrap())),
    ("normalize", |x, per| elements(&normalize(x, per, Order::Two).unwrap())),
    ("normalize 1", |x, per| elements(&normalize(x, per, Order::One).unwrap())),
    ("center", |x, per| elements(&center(x, per).unwrap())),
];

const EACH: [Per; 3] = [Per::Matrix, Per::Column, Per::Row];

/// Numbers from 1 to 2, of either sign.
fn plain(random: &mut Random, len: usize) -> Vec<f64> {
    (0..len)
        .map(|_| (1.0 + random.unit().abs() / 2.0) * if random.below(2) == 0 { 1.0 } else { -1.0 })
        .collect()
}

const POWERS: [i32; 11] = [-1000, -600, -540, -512, -465, 0, 470, 511, 600, 1000, 1022];

fn times_power(x: &[f64], power: i32) -> Vec<f64> {
    x.iter().map(|x| x * f64::from(power).exp2()).collect()
}

/// Multiplying all numbers by a power of two multiplies results by it, or leaves them as they are,
/// to the bit: no matter whether sums and squares are numbers on the way.
#[test]
fn results_follow_a_power_of_two_to_both_ends_of_float64() {
    let mut random = Random::new(31);
    for (rows, width) in [(2500, 3), (3, 2500), (7, 5), (40, 40)] {
        let x = plain(&mut random, rows * width);
        let expected = |f: fn(&Matrix, Per) -> Vec<f64>, per| f(&matrix(width, &x), per);
        for power in POWERS {
            let unit = f64::from(power).exp2();
            let scaled = times_power(&x, power);
            let (one, parts) = (matrix(width, &scaled), chunked(&matrix(width, &scaled), &scaled));
            each_way(|| {
                for per in EACH {
                    for (name, f) in REDUCTIONS {
                        let units = if name == "var" { unit * unit } else { unit };
                        let expected: Vec<f64> =
                            expected(f, per).iter().map(|x| x * units).collect();
                        let what = format!("{name} of {rows} x {width} per {per}, 2^{power}");
                        if name == "var" && units < f64::MIN_POSITIVE {
                            // Rounded to a number with fewer digits, or to nothing.
                            continue;
                        }
                        assert_same(&f(&one, per), &expected, &what);
                        assert_same(&f(&parts, per), &expected, &format!("{what}, chunks"));
                    }
                    for (name, f) in TRANSFORMS {
                        let units = if name == "center" { unit } else { 1.0 };
                        let expected: Vec<f64> =
                            expected(f, per).iter().map(|x| x * units).collect();
                        let what = format!("{name} of {rows} x {width} per {per}, 2^{power}");
                        assert_same(&f(&one, per), &expected, &what);
                        assert_same(&f(&parts, per), &expected, &format!("{what}, chunks"));
                    }
                }
            });
        }
    }
}

/// A column's result is that of the column by itself, and a row's that of the row, whatever stands
/// beside it.
#[test]
fn doubt_about_one_result_does_not_touch_another() {
    let mut random = Random::new(32);
    let len = 2100;
    let some = plain(&mut random, len);
    let with = |at: usize, odd: f64| {
        let mut x = some.clone();
        x[at] = odd;
        x
    };
    let sequences: Vec<Vec<f64>> = vec![
        some.clone(),
        times_power(&some, 1022),
        times_power(&some, -1020),
        with(1999, f64::NAN),
        vec![0.0; len],
        with(3, f64::INFINITY),
        vec![7.25; len],
        times_power(&some, 520),
        with(7, f64::MAX),
        some.iter().map(|x| 1e12 + x).collect(),
        times_power(&some, -520),
        vec![f64::MAX; len],
        vec![5e-324; len],
    ];
    let count = sequences.len();
    let by_columns: Vec<f64> = (0..len).flat_map(|i| sequences.iter().map(move |x| x[i])).collect();
    let columns = matrix(count, &by_columns);
    let in_chunks = chunked(&columns, &by_columns);
    let rows = matrix(len, &sequences.concat());
    let alone: Vec<Matrix> = sequences.iter().map(|x| matrix(1, x)).collect();
    each_way(|| {
        for (name, f) in REDUCTIONS {
            let expected: Vec<f64> = alone.iter().flat_map(|x| f(x, Per::Matrix)).collect();
            assert_same(&f(&columns, Per::Column), &expected, &format!("{name} by columns"));
            assert_same(&f(&in_chunks, Per::Column), &expected, &format!("{name} in chunks"));
            assert_same(&f(&rows, Per::Row), &expected, &format!("{name} by rows"));
        }
        for (name, f) in TRANSFORMS {
            let expected: Vec<Vec<f64>> = alone.iter().map(|x| f(x, Per::Matrix)).collect();
            let got = f(&columns, Per::Column);
            for (c, expected) in expected.iter().enumerate() {
                let column: Vec<f64> = got.iter().skip(c).step_by(count).copied().collect();
                assert_same(&column, expected, &format!("{name} column {c}"));
            }
            assert_same(&f(&in_chunks, Per::Column), &got, &format!("{name} in chunks"));
            // A zero row is null as a whole; under nulls is nothing.
            assert_same(&f(&rows, Per::Row), &expected.concat(), &format!("{name} by rows"));
        }
    });
}

/// Point 11 as it was found.
#[test]
fn what_overflowed_or_vanished_is_a_number() {
    let close = |got: f64, truth: f64| {
        assert!((got / truth - 1.0).abs() < 1e-15, "{got:e} and not {truth:e}");
    };
    each_way(|| {
        let one = |f: &str, x: &[f64]| {
            let (_, f) = REDUCTIONS.into_iter().find(|(name, _)| *name == f).unwrap();
            f(&matrix(1, x), Per::Matrix)[0]
        };
        let spread = |x: &[f64]| values(&std(&matrix(1, x), Per::Matrix).unwrap())[0];
        close(spread(&[1e200, 3e200]), 1e200);
        close(spread(&[1e-200, 3e-200]), 1e-200);
        close(spread(&[-1.7e308, 1.7e308]), 1.7e308);
        assert_eq!(one("var", &[1e200, 3e200]), f64::INFINITY);
        close(one("mean", &[1.7e308, 1.7e308]), 1.7e308);
        close(one("mean", &[-1.7e308; 3000]), -1.7e308);
        assert_eq!(one("sum", &[1.7e308, 1.7e308, -1.7e308, -1.7e308]), 0.0);
        assert_eq!(one("sum", &[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        let large = 2f64.powi(1023);
        let many: Vec<f64> = (0..5000).map(|i| if i < 2500 { large } else { -large }).collect();
        assert_eq!(one("sum", &many), 0.0);
        assert_eq!(one("sum", &[f64::MAX, f64::MAX]), f64::INFINITY);

        let tiny: Vec<f64> = [1.0, 2.0, 3.0].map(|x| x * 1e-170).to_vec();
        let standard = elements(&standardize(&matrix(1, &tiny), Per::Column).unwrap());
        close(standard[2], 1.5f64.sqrt());
        let wide = [1.7e308, -1.7e308, -1.7e308, -1.7e308];
        let standard = elements(&standardize(&matrix(1, &wide), Per::Column).unwrap());
        close(standard[0], 3f64.sqrt());
        close(standard[1], -(1.0 / 3f64).sqrt());
        let scaled = minmax_scale(&matrix(3, &[-1.7e308, 0.0, 1.7e308]), Per::Row).unwrap();
        assert_eq!(elements(&scaled), [0.0, 0.5, 1.0]);
        let centred = center(&matrix(1, &[1.7e308; 4]), Per::Column).unwrap();
        assert_eq!(elements(&centred), [0.0; 4]);
        let unit = |x: &[f64], order| elements(&normalize(&matrix(2, x), Per::Row, order).unwrap());
        close(unit(&[1.7e308, 1.7e308], Order::Two)[0], 0.5f64.sqrt());
        close(unit(&[5e-324, 5e-324], Order::Two)[0], 0.5f64.sqrt());
        assert_eq!(unit(&[1.7e308, 1.7e308], Order::One), [0.5, 0.5]);
    });
}

#[test]
fn products_of_rows_follow_powers_of_two() {
    let mut random = Random::new(33);
    for width in [2, 5, 16, 1030] {
        let rows = 9;
        let (x, y) = (plain(&mut random, rows * width), plain(&mut random, rows * width));
        let measured = |x: &Matrix, y: &Matrix| {
            let y = Vectors::Rows(y);
            [dot(x, &y), cosine_similarity(x, &y), l2_distance(x, &y)]
                .map(|result| values(&result.unwrap()))
        };
        let [dots, cosines, distances] = measured(&matrix(width, &x), &matrix(width, &y));
        for power in POWERS {
            let unit = f64::from(power).exp2();
            let (by_x, by_y) = (matrix(width, &times_power(&x, power)), matrix(width, &y));
            each_way(|| {
                // The sum of products is a number, though x is near one end.
                let [got, angles, _] = measured(&by_x, &by_y);
                let expected: Vec<f64> = dots.iter().map(|dot| dot * unit).collect();
                assert_same(&got, &expected, &format!("{width} 2^{power}"));
                assert_same(&angles, &cosines, &format!("{width} 2^{power}"));
                // Both are near it.
                let by_y = matrix(width, &times_power(&y, power));
                let [_, angles, apart] = measured(&by_x, &by_y);
                assert_same(&angles, &cosines, &format!("{width} 2^{power}"));
                let expected: Vec<f64> = distances.iter().map(|l2| l2 * unit).collect();
                assert_same(&apart, &expected, &format!("{width} 2^{power}"));
            });
        }
    }
    let row = |x: &[f64], y: &[f64]| {
        let (x, y) = (matrix(x.len(), x), matrix(y.len(), y));
        values(&dot(&x, &Vectors::Rows(&y)).unwrap())[0]
    };
    each_way(|| {
        assert_eq!(row(&[1e200, 1e200], &[1e200, -1e200]), 0.0);
        assert_eq!(row(&[f64::MAX; 4], &[0.25; 4]), f64::MAX);
        assert_eq!(row(&[1e200, 1.0], &[1e200, 1.0]), f64::INFINITY);
    });
}

/// The columns are at both ends and in the middle: their correlations are those of the same columns
/// near 1, and so are products and covariances that a float64 can hold.
#[test]
fn covariances_and_correlations_of_extreme_columns() {
    let mut random = Random::new(34);
    for rows in [20, 9000] {
        let base = plain(&mut random, rows * 4);
        let powers = [0, 700, -700, 1022];
        let x: Vec<f64> = base
            .iter()
            .enumerate()
            .map(|(i, x)| (x + base[i / 4 * 4]) / 2.0 * f64::from(powers[i % 4]).exp2())
            .collect();
        let near: Vec<f64> =
            base.iter().enumerate().map(|(i, x)| (x + base[i / 4 * 4]) / 2.0).collect();
        let (x, near) = (matrix(4, &x), matrix(4, &near));
        each_way(|| {
            let expected = elements(&correlation(&near).unwrap());
            for (got, expected) in elements(&correlation(&x).unwrap()).iter().zip(&expected) {
                assert!((got - expected).abs() <= 1e-12, "{got} {expected}");
            }
            for f in [gram, |x: &Matrix| covariance(x, 1)] {
                let expected = elements(&f(&near).unwrap());
                for (i, got) in elements(&f(&x).unwrap()).into_iter().enumerate() {
                    let power = powers[i / 4] + powers[i % 4];
                    let half = f64::from(power / 2).exp2();
                    let expected = expected[i] * half * f64::from(power - power / 2).exp2();
                    let smallest = f64::from_bits(8);
                    let close = (got / expected - 1.0).abs() <= 1e-11;
                    let vanished = (got - expected).abs() <= smallest;
                    assert!(got == expected || close || vanished, "{i}: {got:e} {expected:e}");
                }
            }
        });
    }
    // What cancels.
    let x = matrix(2, &[1e200, 1e200, 1e200, -1e200]);
    assert_eq!(elements(&gram(&x).unwrap())[1], 0.0);
    let x = matrix(2, &[1e200, 3e200, 3e200, 4e200, 2e200, 3.1e200, 4e200, 5.2e200]);
    let near = matrix(2, &[1.0, 3.0, 3.0, 4.0, 2.0, 3.1, 4.0, 5.2]);
    let (got, expected) = (correlation(&x).unwrap(), correlation(&near).unwrap());
    assert!((elements(&got)[1] - elements(&expected)[1]).abs() < 1e-15);
    // A constant column has none, however small it is, and zero is constant.
    let x = matrix(3, &[1e-200, 0.0, 1.0, 1e-200, 0.0, 2.0, 1e-200, 0.0, 4.0]);
    let got = elements(&correlation(&x).unwrap());
    assert!(got[..8].iter().all(|x| x.is_nan()), "{got:?}");
    assert_eq!(got[8], 1.0);
}

/// A product of matrices that overflows, in float32 or float64, is that of `dot`.
#[test]
fn products_of_matrices_that_overflow_agree_with_dot() {
    let extreme = [3e38, -3e38, 1e20, 1.0, 0.0, -1e-3, 2e38, 1e19];
    let row = |r: usize, c: usize| extreme[(r * 5 + c * 3 + r * c) % extreme.len()];
    let (rows, width) = (12, 6);
    let flat: Vec<f64> = (0..rows * width).map(|i| row(i / width, i % width)).collect();
    let huge: Vec<f64> = flat.iter().map(|x| x * 1e170).collect();
    let single: ArrayRef =
        Arc::new(arrow_array::Float32Array::from_iter_values(flat.iter().map(|x| *x as f32)));
    for x in [Matrix::reshape(&single, width).unwrap(), matrix(width, &huge)] {
        each_way(|| {
            let read = |x: &Matrix| {
                let x = compute::cast(x, &arrow_schema::DataType::Float64, true).unwrap();
                elements(&x)
            };
            let all = read(&pairwise(&x, None, Metric::Dot).unwrap());
            let turned = compute::transpose(&x).unwrap();
            let product = read(&compute::matmul(&x, &turned).unwrap());
            let own = read(&x);
            let mut finite = 0;
            for r in 0..rows {
                let y: Vec<f64> = own[r * width..(r + 1) * width].to_vec();
                let y = compute::cast(&matrix(1, &y), x.element_type(), true).unwrap();
                let dots = values(&dot(&x, &Vectors::One(&y)).unwrap());
                for (i, expected) in dots.into_iter().enumerate() {
                    let at = i * rows + r;
                    for got in [all[at], product[at]] {
                        let magnitude: f64 = (0..width)
                            .map(|c| (own[i * width + c] / 1e200 * own[r * width + c]).abs())
                            .sum();
                        let within = magnitude * 1e200 * 16.0 * f64::from(f32::EPSILON);
                        let close = (got - expected).abs() <= within;
                        assert!(got == expected || close, "({i}, {r}): {got:e} {expected:e}");
                    }
                    finite += usize::from(expected.is_finite());
                }
            }
            assert!(finite > 0, "some fit");
        });
    }
}

/// NaN and infinities pass as they always did.
#[test]
fn what_is_not_finite_stays_so() {
    each_way(|| {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let long = |odd: f64| (0..3000).map(|i| if i == 2999 { odd } else { 1e308 }).collect();
        for (x, expected) in [
            (vec![1.0, nan], nan),
            (vec![inf, 1.0], inf),
            (vec![-inf, 1.0], -inf),
            (vec![inf, -inf], nan),
            (long(nan), nan),
            (long(inf), inf),
            (long(-inf), -inf),
        ] {
            let x = matrix(1, &x);
            let got = [sum(&x, Per::Matrix), sum(&x, Per::Column), mean(&x, Per::Matrix)];
            for got in got.map(|got| values(&got.unwrap())[0]) {
                assert_eq!(got.to_bits(), expected.to_bits());
            }
            let spread = values(&std(&x, Per::Matrix).unwrap())[0];
            assert!(spread.is_nan());
        }
    });
}
