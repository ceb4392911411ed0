//! Products, distances, covariances and nearest rows against plain loops, over every stored type,
//! layout, null pattern and thread count.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, PrimitiveArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};
use half::f16;
use raptors_arrow::compute::{
    self, Metric, Options, TopK, Value, Vectors, call_function, cast, correlation, covariance,
    gram, matmul, pairwise, top_k,
};
use raptors_arrow::dispatch::{Level, Settings, with_settings};
use raptors_arrow::{Error, Matrix};

/// Rows of optional numbers; a row may be null as a whole.
type Table = Vec<Option<Vec<Option<f64>>>>;

/// A stored type as the tests see it.
trait Kind {
    type Arrow: ArrowPrimitiveType;
    /// Half the distance from 1 to the next number, in the type of the results.
    const ROUNDOFF: f64;
    fn number(x: f64) -> <Self::Arrow as ArrowPrimitiveType>::Native;
    /// A number that the type holds, and whose products the results hold nearly.
    fn value(i: usize) -> f64;
    /// What must never show: written under nulls.
    fn garbage() -> <Self::Arrow as ArrowPrimitiveType>::Native;
}

macro_rules! kinds {
    ($($name:ident $arrow:ty, $roundoff:expr, $from:expr, $value:expr, $garbage:expr;)+) => {$(
        struct $name;
        impl Kind for $name {
            type Arrow = $arrow;
            const ROUNDOFF: f64 = $roundoff;
            fn number(x: f64) -> <$arrow as ArrowPrimitiveType>::Native {
                let from: fn(f64) -> <$arrow as ArrowPrimitiveType>::Native = $from;
                from(x)
            }
            fn value(i: usize) -> f64 {
                let value: fn(f64) -> f64 = $value;
                value((i * 2_654_435_761 >> 7) as f64 % 17.0 - 8.0)
            }
            fn garbage() -> <$arrow as ArrowPrimitiveType>::Native {
                $garbage
            }
        }
    )+};
}

const HALF: f64 = 1.0 / 2048.0;
const SINGLE: f64 = 1.0 / (1u64 << 24) as f64;
const DOUBLE: f64 = 1.0 / (1u64 << 53) as f64;

kinds! {
    F16 Float16Type, HALF, f16::from_f64, |x| x / 4.0, f16::NAN;
    F32 Float32Type, SINGLE, |x| x as f32, |x| x / 4.0, f32::NAN;
    F64 Float64Type, DOUBLE, |x| x, |x| x / 4.0, f64::INFINITY;
    I8 Int8Type, DOUBLE, |x| x as i8, |x| x, i8::MIN;
    I16 Int16Type, DOUBLE, |x| x as i16, |x| x, i16::MIN;
    I32 Int32Type, DOUBLE, |x| x as i32, |x| x, i32::MIN;
    I64 Int64Type, DOUBLE, |x| x as i64, |x| x, i64::MIN;
    U8 UInt8Type, DOUBLE, |x| x as u8, f64::abs, u8::MAX;
    U16 UInt16Type, DOUBLE, |x| x as u16, f64::abs, u16::MAX;
    U32 UInt32Type, DOUBLE, |x| x as u32, f64::abs, u32::MAX;
    U64 UInt64Type, DOUBLE, |x| x as u64, f64::abs, u64::MAX;
}

macro_rules! for_each_kind {
    ($check:ident) => {
        $check::<F16>();
        $check::<F32>();
        $check::<F64>();
        $check::<I8>();
        $check::<I16>();
        $check::<I32>();
        $check::<I64>();
        $check::<U8>();
        $check::<U16>();
        $check::<U32>();
        $check::<U64>();
    };
}

/// Which nulls a table has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Nulls {
    None,
    Rows,
    Elements,
}

/// How a table is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Lists,
    /// Lists cut out of longer ones.
    Sliced,
    /// Lists in chunks of one, two, three … rows.
    Chunked,
    Columns,
}

const FORMS: [Form; 4] = [Form::Lists, Form::Sliced, Form::Chunked, Form::Columns];

fn table<K: Kind>(rows: usize, width: usize, nulls: Nulls, seed: usize) -> Table {
    let row = |r: usize| {
        if nulls == Nulls::Rows && r % 4 == 1 {
            return None;
        }
        let element = |c: usize| {
            let i = (r * 31 + c) * 7 + seed;
            (!(nulls == Nulls::Elements && i.is_multiple_of(13))).then(|| K::value(i))
        };
        Some((0..width).map(element).collect())
    };
    (0..rows).map(row).collect()
}

fn primitive<K: Kind>(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    let values: Vec<Option<f64>> = values.collect();
    let stored = values.iter().map(|v| v.map_or(K::garbage(), K::number)).collect::<Vec<_>>();
    let nulls = values.iter().any(Option::is_none);
    let nulls = nulls.then(|| values.iter().map(Option::is_some).collect::<NullBuffer>());
    Arc::new(PrimitiveArray::<K::Arrow>::new(stored.into(), nulls))
}

fn lists<K: Kind>(table: &[Option<Vec<Option<f64>>>], width: usize) -> ArrayRef {
    // Under a null row lie values that are valid, and must not be read.
    let row = |row: &Option<Vec<Option<f64>>>| match row {
        Some(row) => row.clone(),
        None => vec![Some(7.0); width],
    };
    let values = primitive::<K>(table.iter().flat_map(row));
    let nulls = table.iter().any(Option::is_none);
    let nulls = nulls.then(|| table.iter().map(Option::is_some).collect::<NullBuffer>());
    let field = Arc::new(Field::new_list_field(K::Arrow::DATA_TYPE, true));
    let rows = table.len();
    let size = width as i32;
    Arc::new(FixedSizeListArray::try_new_with_length(field, size, values, nulls, rows).unwrap())
}

fn matrix<K: Kind>(table: &Table, width: usize, form: Form) -> Matrix {
    match form {
        Form::Lists => Matrix::try_from(&lists::<K>(table, width)).unwrap(),
        Form::Sliced => {
            let mut longer = vec![None; 3];
            longer.extend(table.iter().cloned());
            longer.push(Some(vec![None; width]));
            Matrix::try_from(&lists::<K>(&longer, width).slice(3, table.len())).unwrap()
        }
        Form::Chunked => {
            let (mut chunks, mut rest, mut step) = (Vec::new(), &table[..], 1);
            while !rest.is_empty() {
                let (now, after) = rest.split_at(step.min(rest.len()));
                chunks.push(Matrix::try_from(&lists::<K>(now, width)).unwrap());
                (rest, step) = (after, step + 1);
            }
            if chunks.is_empty() {
                return matrix::<K>(table, width, Form::Lists);
            }
            Matrix::from_chunks(chunks).unwrap()
        }
        Form::Columns => {
            let column = |c: usize| {
                primitive::<K>(table.iter().map(|row| row.as_ref().map_or(Some(7.0), |row| row[c])))
            };
            let columns: Vec<ArrayRef> = (0..width).map(column).collect();
            let field = |c: usize| Field::new(c.to_string(), K::Arrow::DATA_TYPE, true);
            let fields: Fields = (0..width).map(field).collect();
            let nulls: NullBuffer = table.iter().map(Option::is_some).collect();
            let rows = table.len();
            let array = StructArray::try_new_with_length(fields, columns, Some(nulls), rows);
            Matrix::try_from(&(Arc::new(array.unwrap()) as ArrayRef)).unwrap()
        }
    }
}

/// A result as it is read: `None` for null, whether the row is null or the element.
fn read(x: &Matrix) -> Vec<Vec<Option<f64>>> {
    let x = cast(x, &DataType::Float64, true).unwrap();
    let mut rows = Vec::new();
    for array in x.to_arrays().unwrap() {
        let lists = array.as_fixed_size_list();
        for r in 0..lists.len() {
            let row = lists.value(r);
            let values = row.as_primitive::<Float64Type>().iter();
            rows.push(values.map(|v| v.filter(|_| lists.is_valid(r))).collect());
        }
    }
    rows
}

fn numbers(array: &dyn Array) -> Vec<Option<f64>> {
    match array.data_type() {
        DataType::Float16 => {
            array.as_primitive::<Float16Type>().iter().map(|v| v.map(f16::to_f64)).collect()
        }
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().iter().map(|v| v.map(f64::from)).collect()
        }
        _ => array.as_primitive::<Float64Type>().iter().collect(),
    }
}

fn with_threads<R>(threads: usize, f: impl FnOnce() -> R) -> R {
    let settings = Settings { threads: Some(threads), exact_threads: true, ..Settings::default() };
    with_settings(settings, f)
}

/// A row, if it is complete.
fn whole(row: &Option<Vec<Option<f64>>>) -> Option<Vec<f64>> {
    row.as_ref()?.iter().copied().collect()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// The score that a metric has by its definition.
fn score(metric: Metric, x: &[f64], y: &[f64]) -> Option<f64> {
    let apart = || x.iter().zip(y).map(|(x, y)| (x - y).abs());
    match metric {
        Metric::Dot => Some(dot(x, y)),
        Metric::L1 => Some(apart().sum()),
        Metric::L2 => Some(apart().map(|d| d * d).sum::<f64>().sqrt()),
        Metric::SquaredL2 => Some(apart().map(|d| d * d).sum::<f64>()),
        Metric::Cosine => {
            let (xx, yy) = (dot(x, x), dot(y, y));
            (xx > 0.0 && yy > 0.0).then(|| dot(x, y) / (xx.sqrt() * yy.sqrt()))
        }
    }
}

#[track_caller]
fn assert_close(
    got: &[Vec<Option<f64>>],
    expected: &[Vec<Option<f64>>],
    bound: impl Fn(f64) -> f64,
) {
    assert_eq!(got.len(), expected.len());
    for (r, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.len(), expected.len());
        for (c, (got, expected)) in got.iter().zip(expected).enumerate() {
            match (got, expected) {
                (None, None) => {}
                (Some(got), Some(expected)) => {
                    let apart = (got - expected).abs();
                    assert!(apart <= bound(*expected), "({r}, {c}): {got} for {expected}");
                }
                _ => panic!("({r}, {c}): {got:?} for {expected:?}"),
            }
        }
    }
}

/// Calls `f` with matrices of every form and null pattern, on one, two and three threads.
fn each_case<K: Kind>(rows: usize, width: usize, f: impl Fn(&Matrix, &Table, &str)) {
    for nulls in [Nulls::None, Nulls::Rows, Nulls::Elements] {
        let table = table::<K>(rows, width, nulls, 0);
        for (i, form) in FORMS.into_iter().enumerate() {
            let threads = 1 + i % 3;
            let x = matrix::<K>(&table, width, form);
            let name = format!("{} {nulls:?} {form:?} {threads}", K::Arrow::DATA_TYPE);
            with_threads(threads, || f(&x, &table, &name));
        }
    }
}

#[test]
fn matmul_is_the_sum_of_products() {
    fn check<K: Kind>() {
        for (rows, inner, columns) in [(9, 5, 7), (70, 12, 3), (3, 1, 200), (2, 4, 1)] {
            each_case::<K>(rows, inner, |x, table_of_x, _| {
                for nulls in [Nulls::None, Nulls::Rows, Nulls::Elements] {
                    let table_of_y = table::<K>(inner, columns, nulls, 5);
                    let y = matrix::<K>(&table_of_y, columns, FORMS[rows % 4]);
                    let column = |c: usize| -> Option<Vec<f64>> {
                        table_of_y.iter().map(|row| row.as_ref()?[c]).collect()
                    };
                    let expected: Vec<Vec<Option<f64>>> = table_of_x
                        .iter()
                        .map(|row| {
                            let row = whole(row);
                            (0..columns).map(|c| Some(dot(row.as_ref()?, &column(c)?))).collect()
                        })
                        .collect();
                    // Products of the numbers here are added without error; the sum is rounded.
                    let product = matmul(x, &y).unwrap();
                    assert_close(&read(&product), &expected, |e| e.abs() * K::ROUNDOFF);
                }
            });
        }
    }
    for_each_kind!(check);
}

#[test]
fn pairwise_is_each_pair() {
    fn check<K: Kind>() {
        for (rows, width, others) in [(9, 5, 7), (40, 21, 70), (1, 3, 150), (5, 1, 2)] {
            each_case::<K>(rows, width, |x, table_of_x, name| {
                let table_of_y = table::<K>(others, width, Nulls::Elements, 3);
                let y = matrix::<K>(&table_of_y, width, FORMS[others % 4]);
                for metric in Metric::ALL {
                    for own in [false, true] {
                        let table_of_y = if own { table_of_x } else { &table_of_y };
                        let y = (!own).then_some(&y);
                        let pair = |x: &Option<Vec<f64>>, y| score(metric, x.as_ref()?, &whole(y)?);
                        let expected: Vec<Vec<Option<f64>>> = table_of_x
                            .iter()
                            .map(whole)
                            .map(|x| table_of_y.iter().map(|y| pair(&x, y)).collect())
                            .collect();
                        let got = read(&pairwise(x, y, metric).unwrap());
                        // Sums of the numbers here are exact; a distance is within 2^-28 of the
                        // root before it is rounded (2^-36 for float64). Rows divided by their
                        // norms carry an error of a unit each, and so do d products.
                        let narrow = K::ROUNDOFF > DOUBLE;
                        let u = if narrow { SINGLE } else { DOUBLE };
                        let d = width as f64;
                        let near = 2f64.powi(if narrow { -28 } else { -36 });
                        assert_close(&got, &expected, |e| match metric {
                            Metric::Dot | Metric::L1 => e.abs() * K::ROUNDOFF,
                            Metric::L2 => e * (K::ROUNDOFF + near),
                            Metric::SquaredL2 => e * (K::ROUNDOFF + 2.0 * near),
                            Metric::Cosine => (d + 8.0) * u + e.abs() * K::ROUNDOFF,
                        });
                        if own && metric == Metric::L2 {
                            let zero = |(i, row): (usize, &Vec<Option<f64>>)| {
                                row[i].is_none_or(|d| d == 0.0)
                            };
                            assert!(got.iter().enumerate().all(zero), "{name}");
                        }
                    }
                }
            });
        }
    }
    for_each_kind!(check);
}

/// Rows that are nearly equal: a product loses all digits of their distances.
#[test]
fn distances_of_close_rows_keep_their_digits() {
    let (rows, width) = (40, 300);
    let value = |r: usize, c: usize| {
        let noise = F64::value(r * 977 + c) * 1e-5 * (1 + r % 7) as f64;
        f64::from((10.0 + (c % 11) as f64 + noise) as f32)
    };
    let table: Table =
        (0..rows).map(|r| Some((0..width).map(|c| Some(value(r, c))).collect())).collect();
    let rows: Vec<Vec<f64>> = table.iter().filter_map(whole).collect();
    let expected: Vec<Vec<Option<f64>>> =
        rows.iter().map(|x| rows.iter().map(|y| score(Metric::L2, x, y)).collect()).collect();
    let single = pairwise(&matrix::<F32>(&table, width, Form::Lists), None, Metric::L2).unwrap();
    assert_close(&read(&single), &expected, |e| e * (SINGLE + 2f64.powi(-28)));
    let double = pairwise(&matrix::<F64>(&table, width, Form::Lists), None, Metric::L2).unwrap();
    assert_close(&read(&double), &expected, |e| e * 2f64.powi(-36));
}

#[test]
fn distances_and_cosines_neither_overflow_nor_vanish() {
    for scale in [1e200, 1e-200] {
        let row = |x: f64, y: f64| Some(vec![Some(x * scale), Some(y * scale)]);
        let x = matrix::<F64>(&vec![row(3.0, 0.0), row(0.0, 4.0), row(3.0, 4.0)], 2, Form::Lists);
        let l2 = read(&pairwise(&x, None, Metric::L2).unwrap());
        assert!((l2[0][1].unwrap() / (5.0 * scale) - 1.0).abs() < 1e-10, "{l2:?}");
        assert_eq!(l2[2][2], Some(0.0));
        let cosine = read(&pairwise(&x, None, Metric::Cosine).unwrap());
        assert!((cosine[0][2].unwrap() - 0.6).abs() < 1e-14, "{cosine:?}");
        assert_eq!(cosine[0][1], Some(0.0));
    }
    let row = |x: f64, y: f64| Some(vec![Some(x), Some(y)]);
    let x = matrix::<F32>(&vec![row(3e38, 0.0), row(3e38, 3e38), row(0.0, 0.0)], 2, Form::Lists);
    let cosine = read(&pairwise(&x, None, Metric::Cosine).unwrap());
    assert!((cosine[0][1].unwrap() - 0.5f64.sqrt()).abs() < 1e-6, "{cosine:?}");
    assert_eq!(cosine[2], [None, None, None]);
    assert_eq!(cosine[0][2], None);
    let x = matrix::<F64>(
        &vec![row(f64::NAN, 0.0), row(f64::INFINITY, 0.0), row(1.0, 1.0)],
        2,
        Form::Lists,
    );
    let l2 = read(&pairwise(&x, None, Metric::L2).unwrap());
    assert!(l2[0].iter().all(|d| d.unwrap().is_nan()), "{l2:?}");
    assert_eq!(l2[1][2], Some(f64::INFINITY));
    assert!(l2[1][1].unwrap().is_nan());
}

/// Columns of a table, rows with a null left out.
fn complete_columns(table: &Table, width: usize) -> Vec<Vec<f64>> {
    let rows: Vec<Vec<f64>> = table.iter().filter_map(whole).collect();
    (0..width).map(|c| rows.iter().map(|row| row[c]).collect()).collect()
}

fn each_two(
    columns: &[Vec<f64>],
    f: impl Fn(&[f64], &[f64]) -> Option<f64>,
) -> Vec<Vec<Option<f64>>> {
    columns.iter().map(|a| columns.iter().map(|b| f(a, b)).collect()).collect()
}

fn co_moment(a: &[f64], b: &[f64]) -> f64 {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let (of_a, of_b) = (mean(a), mean(b));
    a.iter().zip(b).map(|(a, b)| (a - of_a) * (b - of_b)).sum()
}

#[test]
fn gram_covariance_and_correlation_are_those_of_complete_rows() {
    fn check<K: Kind>() {
        for (rows, width) in [(60, 3), (30, 20), (2, 4), (1, 2), (0, 3)] {
            each_case::<K>(rows, width, |x, table, name| {
                let columns = complete_columns(table, width);
                let n = columns[0].len();
                let expected = each_two(&columns, |a, b| Some(dot(a, b)));
                // Float64 holds these sums exactly.
                assert_close(&read(&gram(x).unwrap()), &expected, |e| e.abs() * K::ROUNDOFF);
                for ddof in [0, 1, 3] {
                    let expected = each_two(&columns, |a, b| {
                        (n > ddof).then(|| co_moment(a, b) / (n - ddof) as f64)
                    });
                    // Distances from means of at most 8, n of them, a few roundings each.
                    let bound = 64.0 * 8.0 * n.max(1) as f64 * DOUBLE;
                    let got = read(&covariance(x, ddof).unwrap());
                    assert_close(&got, &expected, |e| bound + e.abs() * K::ROUNDOFF);
                }
                let is_constant = |x: &[f64]| x.iter().all(|v| *v == x[0]);
                let expected = each_two(&columns, |a, b| {
                    let spread = |x| co_moment(x, x).sqrt();
                    let some = n > 0 && !is_constant(a) && !is_constant(b);
                    some.then(|| co_moment(a, b) / spread(a) / spread(b))
                });
                let got = read(&correlation(x).unwrap());
                assert_close(&got, &expected, |e| 1e-12 + e.abs() * K::ROUNDOFF);
                let ones = |(i, row): (usize, &Vec<Option<f64>>)| row[i].is_none_or(|d| d == 1.0);
                assert!(got.iter().enumerate().all(ones), "{name}");
            });
        }
    }
    for_each_kind!(check);
}

/// Several pieces and several blocks of columns, and numbers far from zero: bits do not depend on
/// threads or chunks.
#[test]
fn covariances_of_tall_and_wide_matrices_are_stable() {
    for (rows, width) in [(20_000, 3), (700, 300)] {
        let value = |r: usize, c: usize| 1e7 + F64::value(r * 7919 + c * 31);
        let table: Table =
            (0..rows).map(|r| Some((0..width).map(|c| Some(value(r, c))).collect())).collect();
        let x = matrix::<F64>(&table, width, Form::Lists);
        let chunked = matrix::<F64>(&table, width, Form::Chunked);
        let one = with_threads(1, || read(&covariance(&x, 1).unwrap()));
        for threads in [2, 3] {
            assert_eq!(one, with_threads(threads, || read(&covariance(&x, 1).unwrap())));
            assert_eq!(one, with_threads(threads, || read(&covariance(&chunked, 1).unwrap())));
        }
        let columns = complete_columns(&table, width);
        for (a, b) in [(0, 0), (0, 1), (width - 1, 0), (width - 1, width - 2)] {
            let expected = co_moment(&columns[a], &columns[b]) / (rows - 1) as f64;
            let got = one[a][b].unwrap();
            // Means of numbers near 1e7 are off by a unit of 1e-9, and enter squared.
            assert!((got - expected).abs() <= 1e-9, "({a}, {b}): {got} for {expected}");
        }
    }
}

/// The metrics that have a function row by row.
const RANKED: [Metric; 4] = [Metric::Cosine, Metric::Dot, Metric::L2, Metric::L1];

#[test]
fn squares_are_ranked_as_distances() {
    let (rows, width) = (300, 7);
    let x = matrix::<F32>(&table::<F32>(rows, width, Nulls::Elements, 0), width, Form::Lists);
    let queries = matrix::<F32>(&table::<F32>(12, width, Nulls::None, 4), width, Form::Lists);
    for k in [1, 5, 400] {
        let [squares, roots] =
            [Metric::SquaredL2, Metric::L2].map(|metric| top_k(&x, &queries, k, metric).unwrap());
        assert_eq!(squares.indices.as_ref(), roots.indices.as_ref());
        let all = |scores: &ArrayRef| numbers(scores.as_fixed_size_list().values());
        for (square, root) in all(&squares.scores).into_iter().zip(all(&roots.scores)) {
            let (Some(square), Some(root)) = (square, root) else {
                assert_eq!(square, root);
                continue;
            };
            // Both are rounded once to float32.
            assert!((square - root * root).abs() <= 4.0 * SINGLE * square, "{square} {root}");
        }
    }
}

/// The scores that the function row by row gives.
fn scores(x: &Matrix, query: &Matrix, metric: Metric) -> Vec<Option<f64>> {
    let vectors = Vectors::One(query);
    let scores = match metric {
        Metric::Dot => compute::dot(x, &vectors),
        Metric::Cosine => compute::cosine_similarity(x, &vectors),
        Metric::L2 => compute::l2_distance(x, &vectors),
        Metric::L1 => compute::l1_distance(x, &vectors),
        // Its square has no function of its own: see `squares_are_ranked_as_distances`.
        Metric::SquaredL2 => compute::l2_distance(x, &vectors),
    };
    numbers(&scores.unwrap())
}

/// The nearest rows by sorting what the function row by row gives: for float16 in float64, which
/// holds all its numbers.
fn nearest(x: &Matrix, query: &Matrix, k: usize, metric: Metric) -> (Vec<usize>, Vec<u64>) {
    let is_half = *x.element_type() == DataType::Float16;
    let to = if is_half { &DataType::Float64 } else { x.element_type() };
    let wide = [x, query].map(|x| cast(x, to, true).unwrap());
    let (ranks, scores) = (scores(&wide[0], &wide[1], metric), scores(x, query, metric));
    let mut order: Vec<usize> = (0..scores.len()).filter(|i| scores[*i].is_some()).collect();
    order.sort_by(|a, b| {
        let (x, y) = (ranks[*a].unwrap(), ranks[*b].unwrap());
        let by_score = if metric.is_similarity() { y.partial_cmp(&x) } else { x.partial_cmp(&y) };
        let by_nan = x.is_nan().cmp(&y.is_nan());
        by_nan.then(by_score.unwrap_or(std::cmp::Ordering::Equal)).then(a.cmp(b))
    });
    order.truncate(k);
    let bits = order.iter().map(|i| scores[*i].unwrap().to_bits()).collect();
    (order, bits)
}

fn one_row<K: Kind>(row: &Option<Vec<Option<f64>>>, width: usize) -> Matrix {
    let row = row.clone().unwrap_or(vec![None; width]);
    Matrix::reshape(&primitive::<K>(row.into_iter()), 1).unwrap()
}

/// Holds one answer against the expected one: found rows first, the rest null.
#[track_caller]
fn assert_found(
    (indices, scores): (&dyn Array, &dyn Array),
    (rows, bits): (Vec<usize>, Vec<u64>),
    length: usize,
    name: &str,
) {
    assert_eq!((indices.len(), scores.len()), (length, length), "{name}");
    let indices: Vec<Option<i64>> = indices.as_primitive::<Int64Type>().iter().collect();
    let got: Vec<usize> = indices.iter().flatten().map(|i| *i as usize).collect();
    assert_eq!(got, rows, "{name}");
    assert!(indices[rows.len()..].iter().all(Option::is_none), "{name}");
    let got: Vec<u64> = numbers(scores).iter().flatten().map(|s| s.to_bits()).collect();
    assert_eq!(got, bits, "{name}");
}

/// One vector, and several at once, against sorting: the same rows and the same bits.
fn check_top_k<K: Kind>(x: &Matrix, queries: &Table, ks: &[usize], name: &str) {
    let width = x.width();
    for metric in RANKED {
        for &k in ks {
            let expect = |row: &Option<Vec<Option<f64>>>| {
                whole(row)
                    .map_or((vec![], vec![]), |_| nearest(x, &one_row::<K>(row, width), k, metric))
            };
            let name = format!("{name} {metric} {k}");
            let one = one_row::<K>(&queries[0], width);
            let TopK { indices, scores } = top_k(x, &one, k, metric).unwrap();
            let expected = expect(&queries[0]);
            let found = expected.0.len();
            assert_found((&indices, &scores), expected, found, &name);
            let many = matrix::<K>(queries, width, Form::Lists);
            let TopK { indices, scores } = top_k(x, &many, k, metric).unwrap();
            let (indices, scores) = (indices.as_fixed_size_list(), scores.as_fixed_size_list());
            assert_eq!(indices.len(), queries.len(), "{name}");
            for (q, query) in queries.iter().enumerate() {
                assert_eq!(indices.is_null(q), whole(query).is_none(), "{name}");
                let answer = (indices.value(q), scores.value(q));
                assert_found((&answer.0, &answer.1), expect(query), k, &format!("{name} {q}"));
            }
        }
    }
}

#[test]
fn top_k_is_the_start_of_all_rows_sorted() {
    fn check<K: Kind>() {
        for (rows, width, count) in [(50, 3, 2), (90, 20, 6), (5, 1, 4), (0, 2, 4)] {
            each_case::<K>(rows, width, |x, _, name| {
                // The numbers are few, so that there are many ties.
                let mut queries = table::<K>(count, width, Nulls::None, 3);
                queries[1] = Some(vec![Some(0.0); width]);
                if count > 3 {
                    (queries[2], queries[3]) = (None, Some(vec![None; width]));
                }
                check_top_k::<K>(x, &queries, &[0, 1, 7, rows, rows + 5], name);
            });
        }
    }
    for_each_kind!(check);
}

/// Point 17: scores of float16 that are the same once they are rounded tie only if they were the
/// same before.
#[test]
fn float16_is_ranked_by_float64_scores() {
    // Products of 1, 1 + 2^-12, 1 + 2^-11 and 1 again, none of which a float16 tells from 1.
    let small = [0.0, 0.25, 0.5, 0.0].map(|x| x / 1024.0);
    let table: Table = small.iter().map(|x| Some(vec![Some(1.0), Some(*x)])).collect();
    let query: Table = vec![Some(vec![Some(1.0), Some(1.0)]); 5];
    for level in Level::available() {
        let settings = Settings { simd: Some(level), ..Settings::default() };
        with_settings(settings, || {
            let x = matrix::<F16>(&table, 2, Form::Lists);
            let one = one_row::<F16>(&query[0], 2);
            let TopK { indices, scores } = top_k(&x, &one, 4, Metric::Dot).unwrap();
            assert_eq!(indices.as_primitive::<Int64Type>().values(), &[2, 1, 0, 3]);
            assert_eq!(numbers(&scores), [Some(1.0); 4]);
            // Of many vectors at once, products tell what to skip.
            let many = matrix::<F16>(&query, 2, Form::Lists);
            let found = top_k(&x, &many, 2, Metric::Dot).unwrap().indices;
            for q in 0..query.len() {
                let found = found.as_fixed_size_list().value(q);
                assert_eq!(found.as_primitive::<Int64Type>().values(), &[2, 1]);
            }
        });
    }
    // Rows of one direction and many lengths, on several threads.
    let row = |r: usize| (0..8).map(|c| Some(((r * 7 + c * 3) % 61) as f64 / 64.0 + 1.0)).collect();
    let table: Table = (0..3000).map(|r| Some(row(r))).collect();
    let queries: Table = (0..6).map(|q| table[q * 401].clone()).collect();
    for threads in 1..=3 {
        with_threads(threads, || {
            let x = matrix::<F16>(&table, 8, Form::Chunked);
            check_top_k::<F16>(&x, &queries, &[1, 10, 100], "ties of float16");
        });
    }
}

/// Point 19: a zero vector has no cosine with anything, NaN and infinities included, by any of the
/// functions; and NaN with anything else is NaN.
#[test]
fn a_zero_vector_against_nan_is_null_everywhere() {
    let row = |x: f64, y: f64| Some(vec![Some(x), Some(y)]);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let table: Table =
        vec![row(0.0, -0.0), row(nan, 1.0), row(inf, 0.0), row(1.0, 2.0), row(nan, 0.0)];
    let expected = |a: usize, b: usize| (a != 0 && b != 0).then_some(a == 3 && b == 3);
    fn check<K: Kind>(table: &Table, expected: impl Fn(usize, usize) -> Option<bool>) {
        for level in Level::available() {
            let settings = Settings { simd: Some(level), ..Settings::default() };
            with_settings(settings, || {
                let x = matrix::<K>(table, 2, Form::Lists);
                let pairs = read(&pairwise(&x, None, Metric::Cosine).unwrap());
                for b in 0..table.len() {
                    let one = one_row::<K>(&table[b], 2);
                    let same: Table = vec![table[b].clone(); table.len()];
                    let each = matrix::<K>(&same, 2, Form::Lists);
                    let rows = compute::cosine_similarity(&x, &Vectors::Rows(&each)).unwrap();
                    let rows = [scores(&x, &one, Metric::Cosine), numbers(&rows)];
                    let found = top_k(&x, &one, table.len(), Metric::Cosine).unwrap().indices;
                    let found: Vec<i64> =
                        found.as_primitive::<Int64Type>().iter().flatten().collect();
                    for a in 0..table.len() {
                        let got = [rows[0][a], rows[1][a], pairs[a][b]];
                        for got in got {
                            assert_eq!(got.map(|x| !x.is_nan()), expected(a, b), "{a} {b}");
                        }
                        assert_eq!(found.contains(&(a as i64)), got[0].is_some(), "{a} {b}");
                    }
                }
            });
        }
    }
    check::<F16>(&table, expected);
    check::<F32>(&table, expected);
    check::<F64>(&table, expected);
}

/// Point 19: a vector has the cosine 1 with itself and -1 with its opposite, exactly, by any of the
/// functions.
#[test]
fn a_vector_has_the_cosine_one_with_itself_everywhere() {
    fn check<K: Kind>(largest: f64) {
        for width in [1, 3, 7, 64, 300] {
            let value = |r: usize, c: usize| {
                let x = (F64::value(r * 31 + c * 7) + 0.37 * (r + 1) as f64).sin();
                let scale = [1.0, largest, 1.0 / largest][r % 3];
                Some(x * scale)
            };
            let rows: Vec<Vec<Option<f64>>> =
                (0..40).map(|r| (0..width).map(|c| value(r, c)).collect()).collect();
            let opposite = rows.iter().map(|row| row.iter().map(|x| x.map(|x| -x)).collect());
            let table: Table = rows.iter().cloned().map(Some).collect();
            let against: Table = opposite.map(Some).collect();
            for level in Level::available() {
                let settings = Settings { simd: Some(level), ..Settings::default() };
                with_settings(settings, || {
                    let x = matrix::<K>(&table, width, Form::Lists);
                    let y = matrix::<K>(&against, width, Form::Lists);
                    for (y, one) in [(&x, 1.0), (&y, -1.0)] {
                        let own = compute::cosine_similarity(&x, &Vectors::Rows(y)).unwrap();
                        assert_eq!(numbers(&own), vec![Some(one); table.len()], "{width}");
                        let all = read(&pairwise(&x, Some(y), Metric::Cosine).unwrap());
                        assert!((0..table.len()).all(|r| all[r][r] == Some(one)), "{width}");
                    }
                    let nearest = top_k(&x, &x, 1, Metric::Cosine).unwrap().scores;
                    let nearest = numbers(nearest.as_fixed_size_list().values());
                    assert_eq!(nearest, vec![Some(1.0); table.len()], "{width}");
                });
            }
        }
    }
    check::<F32>(1e35);
    check::<F64>(1e300);
    check::<F64>(1.0);
}

/// Where a product in float32 cannot tell rows apart: large norms, tiny differences, equal rows.
#[test]
fn products_decide_what_is_skipped_and_never_what_is_returned() {
    let (rows, width) = (3000, 100);
    let value = |r: usize, c: usize| {
        let base = 1000.0 + (c % 13) as f64;
        f64::from((base + F64::value(r / 3 * 7919 + c) * 1e-3) as f32)
    };
    let table: Table =
        (0..rows).map(|r| Some((0..width).map(|c| Some(value(r, c))).collect())).collect();
    let queries: Table = (0..5).map(|q| table[q * 599].clone()).collect();
    for threads in 1..=3 {
        with_threads(threads, || {
            let x = matrix::<F32>(&table, width, Form::Chunked);
            check_top_k::<F32>(&x, &queries, &[1, 10], "close");
            let x = matrix::<F64>(&table, width, Form::Lists);
            check_top_k::<F64>(&x, &queries, &[10], "close");
        });
    }
}

#[test]
fn nan_comes_last_and_infinities_in_their_places() {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3e38, 1e-40, 0.0, -0.0, 1.0];
    let row = |r: usize| Some(vec![Some(special[r % 8]), Some(special[r / 8 % 8]), Some(0.5)]);
    let table: Table = (0..200).map(row).collect();
    let queries: Table =
        [(1.0, 0.0), (0.0, 0.0), (-1e30, 1e30), (1.0, f64::INFINITY), (1e-40, 1.0)]
            .map(|(a, b)| Some(vec![Some(a), Some(b), Some(1.0)]))
            .to_vec();
    for threads in 1..=3 {
        with_threads(threads, || {
            let x = matrix::<F32>(&table, 3, Form::Lists);
            check_top_k::<F32>(&x, &queries, &[3, 50, 200], "special");
            let x = matrix::<F64>(&table, 3, Form::Columns);
            check_top_k::<F64>(&x, &queries, &[3, 50, 200], "special");
        });
    }
}

#[test]
fn empty_shapes_have_answers() {
    let none = |rows: usize, width: usize| {
        matrix::<F32>(&vec![Some(vec![Some(1.0); width]); rows], width, Form::Lists)
    };
    assert_eq!(read(&matmul(&none(2, 0), &none(0, 3)).unwrap()), vec![vec![Some(0.0); 3]; 2]);
    assert_eq!(read(&matmul(&none(0, 2), &none(2, 3)).unwrap()), Vec::<Vec<Option<f64>>>::new());
    assert_eq!(read(&matmul(&none(2, 2), &none(2, 0)).unwrap()), vec![vec![]; 2]);
    for metric in Metric::ALL {
        let scores = read(&pairwise(&none(2, 0), Some(&none(3, 0)), metric).unwrap());
        let nothing = if metric == Metric::Cosine { None } else { Some(0.0) };
        assert_eq!(scores, vec![vec![nothing; 3]; 2], "{metric}");
        assert!(read(&pairwise(&none(0, 4), None, metric).unwrap()).is_empty());
    }
    for metric in Metric::ALL {
        let found = top_k(&none(3, 0), &none(5, 0), 2, metric).unwrap().indices;
        let lists = found.as_fixed_size_list();
        let first: Vec<Option<i64>> = lists.value(4).as_primitive::<Int64Type>().iter().collect();
        let nothing = metric == Metric::Cosine;
        assert_eq!(first, if nothing { [None, None] } else { [Some(0), Some(1)] }, "{metric}");
    }
    assert_eq!(gram(&none(3, 0)).unwrap().rows(), 0);
    assert_eq!(read(&gram(&none(0, 2)).unwrap()), vec![vec![Some(0.0); 2]; 2]);
    assert_eq!(read(&covariance(&none(1, 2), 1).unwrap()), vec![vec![None; 2]; 2]);
    assert_eq!(read(&correlation(&none(3, 2)).unwrap()), vec![vec![None; 2]; 2]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let single =
        |rows, width| matrix::<F32>(&table::<F32>(rows, width, Nulls::None, 0), width, Form::Lists);
    let double =
        |rows, width| matrix::<F64>(&table::<F64>(rows, width, Nulls::None, 0), width, Form::Lists);
    let (x, y) = (single(3, 2), single(4, 3));
    let error = matmul(&x, &y).unwrap_err();
    assert_eq!(error, Error::Rows { what: "y", expected: 2, got: 4 }.in_function("matmul"));
    let error = pairwise(&x, Some(&y), Metric::Dot).unwrap_err();
    assert_eq!(error, Error::Width { what: "y", expected: 2, got: 3 }.in_function("pairwise"));
    let error = top_k(&x, &y, 1, Metric::Dot).unwrap_err();
    assert_eq!(error, Error::Width { what: "query", expected: 2, got: 3 }.in_function("top_k"));
    // A float column takes other floats, in its own type.
    let same = |a: Matrix, b: Matrix| assert_eq!(&a.to_arrays().unwrap(), &b.to_arrays().unwrap());
    let rounded = |y: Matrix| cast(&y, &DataType::Float32, true).unwrap();
    same(matmul(&x, &double(2, 2)).unwrap(), matmul(&x, &rounded(double(2, 2))).unwrap());
    let by = |y: Matrix| pairwise(&x, Some(&y), Metric::L1).unwrap();
    same(by(double(2, 2)), by(rounded(double(2, 2))));
    let nearest = |y: Matrix| top_k(&x, &y, 1, Metric::L1).unwrap().scores;
    assert_eq!(&nearest(double(1, 2)), &nearest(rounded(double(1, 2))));
    let error = top_k(&x, &single(1, 2), usize::MAX, Metric::Dot).unwrap_err();
    assert!(matches!(error.kind(), Error::TooLarge { .. }), "{error}");
}

#[test]
fn functions_can_be_called_by_name() {
    let x = matrix::<F32>(&table::<F32>(6, 2, Nulls::None, 0), 2, Form::Lists);
    let vector = one_row::<F32>(&Some(vec![Some(1.0), Some(2.0)]), 2);
    let values = |matrix: &Matrix| Value::Matrix(matrix.clone());
    let call = |name, arguments: &[Value], options: &Options| {
        call_function(name, arguments, options).unwrap()
    };
    let none = Options::new();
    let product = call("matmul", &[values(&x), values(&vector)], &none);
    let dots = compute::dot(&x, &Vectors::One(&vector)).unwrap();
    assert_eq!(product.as_array(), Some(&dots));
    let product = call(
        "matmul",
        &[values(&x), values(&matrix::<F32>(&table::<F32>(2, 3, Nulls::None, 1), 3, Form::Lists))],
        &none,
    );
    assert_eq!(product.as_matrix().map(|m| (m.rows(), m.width())), Some((6, 3)));
    let distances = call("pairwise", &[values(&x)], &none.clone().set("metric", "l1"));
    let expected = pairwise(&x, None, Metric::L1).unwrap();
    assert_eq!(read(distances.as_matrix().unwrap()), read(&expected));
    for name in ["gram", "covariance", "correlation"] {
        let result = call(name, &[values(&x)], &none);
        assert_eq!(result.as_matrix().map(|m| (m.rows(), m.width())), Some((2, 2)), "{name}");
    }
    let options = none.set("k", 3).set("metric", "l2");
    let Value::Named(found) = call("top_k", &[values(&x), values(&vector)], &options) else {
        panic!("top_k gives two results");
    };
    assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["indices", "scores"]);
    assert_eq!(found[0].1.as_array().map(|a| a.len()), Some(3));
}
