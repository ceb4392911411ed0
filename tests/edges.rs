//! The edge cases of the rules for nulls, NaN, empties and errors, each with the answer written
//! out: the conformance tests meet them too, but only against the oracle.

mod oracle;

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::forms::{Form, Layout, matrix};
use oracle::numbers::{self, Number, TYPES};
use oracle::{Draw, Nulls, Outcome, Random, Table};
use raptors_arrow::compute::{Options, Value, call_function};
use raptors_arrow::dispatch::{Settings, with_settings};
use raptors_arrow::{Error, Matrix};

/// A matrix of one type; `None` is a null element.
fn of<T: ArrowPrimitiveType>(width: usize, values: Vec<Option<T::Native>>) -> Matrix {
    let flat: ArrayRef = Arc::new(PrimitiveArray::<T>::from_iter(values));
    Matrix::reshape(&flat, width).unwrap()
}

/// The same of a type that is known when the test runs; rows that are `None` are null.
fn rows(element: &DataType, width: usize, rows: &[Option<&[Option<f64>]>]) -> Matrix {
    let number = |x: f64| {
        if element.is_floating() {
            numbers::rounded(element, x)
        } else {
            numbers::integer(element, x as i128).unwrap()
        }
    };
    let rows = rows.iter().map(|row| row.map(|row| row.iter().map(|x| x.map(number)).collect()));
    let table = Table { element: element.clone(), width, rows: rows.collect() };
    matrix(&table, Form::new(Layout::FixedSizeList, 3))
}

fn call(name: &str, x: &Matrix, more: &[Value], options: Options) -> Result<Value, Error> {
    let mut arguments = vec![Value::Matrix(x.clone())];
    arguments.extend_from_slice(more);
    call_function(name, &arguments, &options)
}

/// What a call gives as numbers, whatever its shape: `None` for null.
fn numbers_of(result: Result<Value, Error>) -> Vec<Option<f64>> {
    let value = result.unwrap();
    let arrays = match &value {
        Value::Scalar(array) | Value::Vector(array) => vec![array.clone()],
        Value::Matrix(matrix) => {
            let (_, bits) = oracle::forms::read(matrix);
            assert_eq!(*matrix.element_type(), DataType::Float64, "as cast below");
            return bits.into_iter().map(|bits| bits.map(f64::from_bits)).collect();
        }
        other => panic!("{other:?}"),
    };
    let all = arrays.iter().flat_map(|array| numbers::options(array));
    all.map(|value| value.map(Number::to_f64)).collect()
}

/// The elements of a matrix as float64.
fn elements_of(result: Result<Value, Error>) -> Vec<Option<f64>> {
    let value = result.unwrap();
    let matrix = value.as_matrix().expect("a matrix");
    numbers_of(call("cast", matrix, &[], Options::new().set("type", "float64")))
}

fn none() -> Options {
    Options::new()
}

fn axis(axis: i64) -> Options {
    Options::new().set("axis", axis)
}

mod integers {
    use arrow_array::types::{
        Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt64Type,
    };

    use super::*;

    fn overflow(function: &'static str, row: usize, into: DataType) -> Error {
        Error::Overflow { what: "row", index: row, into }.in_function(function)
    }

    #[test]
    fn the_least_by_minus_one_overflows() {
        let one = |x: &Matrix| call("divide", x, &[Value::Integer(-1)], none()).unwrap_err();
        let x = of::<Int8Type>(1, vec![Some(5), Some(i8::MIN)]);
        assert_eq!(one(&x), overflow("divide", 1, DataType::Int8));
        let x = of::<Int16Type>(1, vec![Some(i16::MIN)]);
        assert_eq!(one(&x), overflow("divide", 0, DataType::Int16));
        let x = of::<Int32Type>(2, vec![Some(1), Some(2), Some(3), Some(i32::MIN)]);
        assert_eq!(one(&x), overflow("divide", 1, DataType::Int32));
        let x = of::<Int64Type>(1, vec![Some(1), None, Some(i64::MIN)]);
        assert_eq!(one(&x), overflow("divide", 2, DataType::Int64));
        // The largest is fine.
        let x = of::<Int64Type>(1, vec![Some(i64::MAX)]);
        assert!(call("divide", &x, &[Value::Integer(-1)], none()).is_ok());
    }

    #[test]
    fn the_least_has_no_negative_and_no_magnitude() {
        for (name, min) in [("negate", i64::MIN), ("abs", i64::MIN)] {
            let x = of::<Int64Type>(1, vec![Some(0), Some(min)]);
            assert_eq!(
                call(name, &x, &[], none()).unwrap_err(),
                overflow(name, 1, DataType::Int64)
            );
            let x = of::<Int8Type>(1, vec![Some(-127), Some(-128)]);
            assert_eq!(call(name, &x, &[], none()).unwrap_err(), overflow(name, 1, DataType::Int8));
        }
        let x = of::<UInt8Type>(1, vec![Some(0), Some(1)]);
        assert_eq!(
            call("negate", &x, &[], none()).unwrap_err(),
            overflow("negate", 1, DataType::UInt8)
        );
        assert_eq!(elements_of(call("abs", &x, &[], none())), [Some(0.0), Some(1.0)]);
    }

    #[test]
    fn division_by_zero_names_its_row() {
        for (_, element) in TYPES.iter().filter(|(_, element)| element.is_integer()) {
            let row: &[Option<f64>] = &[Some(1.0), Some(2.0)];
            let x = rows(element, 2, &[Some(row); 3]);
            let y = rows(
                element,
                2,
                &[Some(&[Some(1.0), Some(2.0)]), None, Some(&[Some(1.0), Some(0.0)])],
            );
            let error = call("divide", &x, &[Value::Matrix(y)], none()).unwrap_err();
            assert_eq!(error, Error::DivisionByZero { row: 2 }.in_function("divide"), "{element}");
            let error = call("divide", &x, &[Value::Integer(0)], none()).unwrap_err();
            assert_eq!(error, Error::DivisionByZero { row: 0 }.in_function("divide"), "{element}");
        }
        // Floats have an answer.
        let x = rows(&DataType::Float32, 1, &[Some(&[Some(1.0)]), Some(&[Some(-1.0)])]);
        let by_zero = elements_of(call("divide", &x, &[Value::Number(0.0)], none()));
        assert_eq!(by_zero, [Some(f64::INFINITY), Some(f64::NEG_INFINITY)]);
    }

    #[test]
    fn what_is_under_a_null_does_not_fail() {
        // Zeros and smallest integers hide under these nulls.
        for (_, element) in TYPES.iter().filter(|(_, element)| element.is_integer()) {
            let (one, two) = ([Some(3.0), None], [None, Some(2.0)]);
            let x = rows(element, 2, &[Some(&one), None, Some(&two), None, Some(&one)]);
            let y = rows(element, 2, &[Some(&two), Some(&one), Some(&two), None, Some(&one)]);
            for name in ["add", "multiply", "divide"] {
                let result = call(name, &x, &[Value::Matrix(y.clone())], none());
                assert!(result.is_ok(), "{name} {element}: {result:?}");
            }
            for name in ["abs", "square"] {
                assert!(call(name, &x, &[], none()).is_ok(), "{name} {element}");
            }
            let to = Options::new().set("type", "int8");
            assert!(call("cast", &x, &[], to).is_ok(), "{element}");
        }
    }

    #[test]
    fn sums_past_64_bits_are_errors_that_name_what_overflowed() {
        let sum = |x: &Matrix, options: Options| call("sum", x, &[], options);
        let x = of::<Int64Type>(2, vec![Some(1), Some(i64::MAX), Some(2), Some(1)]);
        let what = |what, index, into| Error::Overflow { what, index, into }.in_function("sum");
        assert_eq!(sum(&x, axis(0)).unwrap_err(), what("column", 1, DataType::Int64));
        assert_eq!(sum(&x, axis(1)).unwrap_err(), what("row", 0, DataType::Int64));
        assert!(sum(&x, none()).is_err());
        let x = of::<UInt64Type>(1, vec![Some(u64::MAX), Some(1)]);
        assert_eq!(sum(&x, axis(0)).unwrap_err(), what("column", 0, DataType::UInt64));
        let x = of::<Int64Type>(1, vec![Some(i64::MIN), Some(-1)]);
        assert!(sum(&x, none()).is_err());
    }

    #[test]
    fn a_partial_sum_past_64_bits_is_none() {
        let x = of::<Int64Type>(1, vec![Some(i64::MAX), Some(i64::MAX), Some(-i64::MAX)]);
        let Value::Scalar(total) = call("sum", &x, &[], none()).unwrap() else { panic!() };
        assert_eq!(numbers::options(&total), [Some(Number::Int(i64::MAX))]);
        let many = [Some(i64::MIN), Some(i64::MAX)].repeat(70_000);
        let x = of::<Int64Type>(1, many);
        let Value::Scalar(total) = call("sum", &x, &[], none()).unwrap() else { panic!() };
        assert_eq!(numbers::options(&total), [Some(Number::Int(-70_000))]);
    }

    #[test]
    fn narrow_sums_come_out_wide() {
        let x = of::<Int8Type>(1, vec![Some(i8::MAX); 100_000]);
        let Value::Scalar(total) = call("sum", &x, &[], none()).unwrap() else { panic!() };
        assert_eq!(numbers::options(&total), [Some(Number::Int(12_700_000))]);
        let x = of::<UInt16Type>(1, vec![Some(u16::MAX); 100_000]);
        let Value::Scalar(total) = call("sum", &x, &[], none()).unwrap() else { panic!() };
        assert_eq!(numbers::options(&total), [Some(Number::UInt(6_553_500_000))]);
    }

    #[test]
    fn means_are_exact_past_64_bits() {
        let x = of::<UInt64Type>(1, vec![Some(u64::MAX), Some(u64::MAX), Some(u64::MAX - 3000)]);
        let got = numbers_of(call("mean", &x, &[], none()));
        // u64::MAX - 1000, to the nearest float64, whose distance here is 2048.
        assert_eq!(got, [Some((u64::MAX - 1000) as f64)]);
        let x = of::<Int64Type>(1, vec![Some(i64::MAX), Some(i64::MAX), Some(-i64::MAX), Some(3)]);
        let got = numbers_of(call("mean", &x, &[], none()));
        assert_eq!(got, [Some((i64::MAX / 4 + 1) as f64)]);
        // 2^53 + 2.5 is nearer to 2^53 + 2; the sum of the two in float64 would give 2^53 + 4.
        let x = of::<Int64Type>(1, vec![Some((1 << 53) + 3), Some((1 << 53) + 2)]);
        assert_eq!(numbers_of(call("mean", &x, &[], none())), [Some(9_007_199_254_740_994.0)]);
    }

    #[test]
    fn least_and_greatest_of_64_bits_are_exact() {
        let (a, b) = ((1 << 60) + 1, 1 << 60);
        let x = of::<Int64Type>(1, vec![Some(b), Some(a), Some(b), Some(a)]);
        let Value::Scalar(most) = call("max", &x, &[], none()).unwrap() else { panic!() };
        assert_eq!(numbers::options(&most), [Some(Number::Int(a))]);
        assert_eq!(numbers_of(call("argmax", &x, &[], none())), [Some(1.0)]);
        let x = of::<UInt64Type>(1, vec![Some(u64::MAX - 1), Some(u64::MAX)]);
        assert_eq!(numbers_of(call("argmax", &x, &[], none())), [Some(1.0)]);
        assert_eq!(numbers_of(call("argmin", &x, &[], none())), [Some(0.0)]);
    }

    #[test]
    fn casts_that_do_not_fit_name_the_row_or_wrap() {
        let x = of::<Int64Type>(1, vec![Some(1), Some(300), Some(-1)]);
        let to = |name: &str, safe: bool| Options::new().set("type", name).set("safe", safe);
        let unheld = |row, into| Error::Cast { row, into }.in_function("cast");
        let error = call("cast", &x, &[], to("int8", true)).unwrap_err();
        assert_eq!(error, unheld(1, DataType::Int8));
        let error = call("cast", &x, &[], to("uint64", true)).unwrap_err();
        assert_eq!(error, unheld(2, DataType::UInt64));
        let wrapped = elements_of(call("cast", &x, &[], to("uint8", false)));
        assert_eq!(wrapped, [Some(1.0), Some(44.0), Some(255.0)]);
        let x = rows(&DataType::Float64, 1, &[Some(&[Some(2.5)]), Some(&[Some(f64::NAN)])]);
        assert_eq!(
            call("cast", &x, &[], to("int32", true)).unwrap_err(),
            unheld(0, DataType::Int32)
        );
        assert_eq!(elements_of(call("cast", &x, &[], to("int32", false))), [Some(2.0), Some(0.0)]);
        let x = rows(&DataType::Float64, 1, &[Some(&[Some(1e300)]), Some(&[Some(-1e300)])]);
        assert_eq!(
            elements_of(call("cast", &x, &[], to("int8", false))),
            [Some(127.0), Some(-128.0)]
        );
        let x = rows(&DataType::Float64, 1, &[Some(&[Some(9_223_372_036_854_775_808.0)])]);
        assert!(call("cast", &x, &[], to("int64", true)).is_err());
        assert!(call("cast", &x, &[], to("uint64", true)).is_ok());
    }
}

mod float16 {
    use super::*;

    fn halves(values: &[f64]) -> Matrix {
        let row: Vec<Option<f64>> = values.iter().map(|x| Some(*x)).collect();
        rows(&DataType::Float16, values.len(), &[Some(&row)])
    }

    #[test]
    fn a_norm_fits_though_its_squares_do_not() {
        let x = halves(&[30_000.0, 40_000.0]);
        assert_eq!(numbers_of(call("norm", &x, &[], axis(1))), [Some(49_984.0)]);
        // 50,000 lies half way from 49,984, the even one, to 50,016.
        let x = halves(&[300.0, 400.0]);
        assert_eq!(numbers_of(call("norm", &x, &[], axis(1))), [Some(500.0)]);
        // And one that does not fit is infinite.
        let x = halves(&[60_000.0, 60_000.0]);
        assert_eq!(numbers_of(call("norm", &x, &[], none())), [Some(f64::INFINITY)]);
    }

    #[test]
    fn sums_and_means_go_past_the_range_on_the_way() {
        let x = halves(&[65_504.0, 65_504.0, -65_504.0]);
        assert_eq!(numbers_of(call("sum", &x, &[], none())), [Some(65_504.0)]);
        let x = halves(&[65_504.0; 9]);
        assert_eq!(numbers_of(call("mean", &x, &[], axis(1))), [Some(65_504.0)]);
        assert_eq!(numbers_of(call("sum", &x, &[], axis(1))), [Some(f64::INFINITY)]);
        let spread = numbers_of(call("std", &halves(&[-60_000.0, 60_000.0]), &[], none()));
        assert_eq!(spread, [Some(60_000.0)]);
    }

    #[test]
    fn results_are_rounded_once() {
        // 2048 + 1 + 2^-14 is above the middle of 2048 and 2050; float32 would round it to the
        // middle, and then to even.
        let x = halves(&[2048.0, 1.0, (-14f64).exp2()]);
        assert_eq!(numbers_of(call("sum", &x, &[], axis(1))), [Some(2050.0)]);
        // The same for a plain number that becomes a float16.
        let x = halves(&[0.0]);
        let above_the_middle = 1.0 + (-11f64).exp2() + (-40f64).exp2();
        let got = elements_of(call("add", &x, &[Value::Number(above_the_middle)], none()));
        assert_eq!(got, [Some(1.0 + (-10f64).exp2())]);
    }

    #[test]
    fn arithmetic_overflows_to_infinity_and_keeps_subnormals() {
        let x = halves(&[65_504.0, -65_504.0, (-24f64).exp2()]);
        let doubled = elements_of(call("scale", &x, &[Value::Number(2.0)], none()));
        let expected = [f64::INFINITY, f64::NEG_INFINITY, (-23f64).exp2()];
        assert_eq!(doubled, expected.map(Some));
        let squared = elements_of(call("square", &x, &[], none()));
        assert_eq!(squared, [f64::INFINITY, f64::INFINITY, 0.0].map(Some));
    }
}

mod nulls_and_empties {
    use super::*;

    /// Every function on every empty shape and on nothing but nulls.
    #[test]
    fn width_0_no_rows_and_all_null_rows_have_answers() {
        let mut random = Random::new(21);
        for (_, element) in &TYPES {
            for (rows, width) in [(0, 0), (0, 3), (4, 0), (1, 0), (3, 2), (1, 1)] {
                let nulls = if rows * width > 0 { Nulls::All } else { Nulls::None };
                let draw = Draw::Tame;
                let table = Table::random(&mut random, element, (rows, width), nulls, draw);
                let x = matrix(&table, Form::new(Layout::FixedSizeList, 2));
                let first = First { element, rows, width, nulls, draw };
                for call in calls(&mut random, first, Sample::All) {
                    let difference = Outcome::difference(&call.expected(&table), &call.run(&x));
                    if let Some(difference) = difference {
                        panic!("{call} on {rows} x {width} {element}: {difference}");
                    }
                }
            }
        }
    }

    #[test]
    fn reductions_of_nothing() {
        let x = rows(&DataType::Float64, 0, &[Some(&[]), None]);
        let zero = |name: &str| numbers_of(call(name, &x, &[], axis(1).set("min_count", 0)));
        assert_eq!(zero("sum"), [Some(0.0), None]);
        assert_eq!(zero("norm"), [Some(0.0), None]);
        // There is no smallest of nothing, and no spread.
        for name in ["min", "max", "argmin", "argmax", "var", "std"] {
            assert_eq!(zero(name), [None, None], "{name}");
        }
        assert_eq!(numbers_of(call("count", &x, &[], axis(1))), [Some(0.0), None]);
        assert_eq!(numbers_of(call("sum", &x, &[], none())), [None]);
        assert_eq!(numbers_of(call("sum", &x, &[], axis(0))), []);
    }

    #[test]
    fn min_count_and_skip_nulls() {
        let x = rows(&DataType::Int16, 3, &[Some(&[Some(1.0), None, Some(3.0)]), None]);
        let with = |skip: bool, min: i64| axis(1).set("skip_nulls", skip).set("min_count", min);
        let one = |name: &str, options: Options| numbers_of(call(name, &x, &[], options))[0];
        assert_eq!(one("sum", with(true, 2)), Some(4.0));
        assert_eq!(one("sum", with(true, 3)), None);
        assert_eq!(one("max", with(false, 1)), None);
        assert_eq!(one("var", with(true, 1)), Some(1.0));
        // Two values have no variance with ddof=2.
        assert_eq!(one("var", with(true, 1).set("ddof", 2)), None);
    }

    #[test]
    fn a_sum_that_is_null_does_not_overflow() {
        let big = i64::MAX as f64;
        let x = rows(&DataType::Int64, 3, &[Some(&[Some(big / 2.0), Some(big / 2.0), None])]);
        let y = call("add", &x, &[Value::Integer(i128::from(i64::MAX / 4))], none()).unwrap();
        let strict = axis(1).set("skip_nulls", false);
        let got = call("sum", y.as_matrix().unwrap(), &[], strict);
        assert_eq!(numbers_of(got), [None]);
    }

    #[test]
    fn least_and_greatest_with_nan_and_signed_zeros() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let of = |name: &str, x: &[f64]| {
            let row: Vec<Option<f64>> = x.iter().map(|x| Some(*x)).collect();
            let x = rows(&DataType::Float64, row.len(), &[Some(&row)]);
            numbers_of(call(name, &x, &[], axis(1)))[0].unwrap()
        };
        assert!(of("min", &[1.0, nan, -inf]).is_nan() && of("max", &[1.0, nan, inf]).is_nan());
        assert_eq!(of("argmin", &[1.0, nan, -inf, nan]), 1.0);
        assert_eq!(of("argmax", &[inf, 1.0, nan]), 2.0);
        assert!(of("min", &[0.0, -0.0]).is_sign_negative());
        assert!(of("max", &[-0.0, 0.0]).is_sign_positive());
        assert_eq!(of("argmin", &[0.0, -0.0, -0.0]), 1.0);
        assert_eq!(of("argmax", &[-0.0, 0.0, 0.0]), 1.0);
        assert_eq!(of("argmax", &[-inf, -inf]), 0.0);
        assert_eq!(of("argmin", &[inf, inf]), 0.0);
        // Nulls, under which there is anything, are no candidates.
        let x = rows(&DataType::Float64, 3, &[Some(&[None, Some(inf), None])]);
        assert_eq!(numbers_of(call("argmin", &x, &[], axis(1))), [Some(1.0)]);
        assert_eq!(numbers_of(call("min", &x, &[], none())), [Some(inf)]);
    }
}

mod zero_vectors {
    use super::*;

    const ROWS: [Option<&[Option<f64>]>; 5] = [
        Some(&[Some(3.0), Some(4.0)]),
        Some(&[Some(0.0), Some(0.0)]),
        None,
        Some(&[None, Some(1.0)]),
        Some(&[Some(0.0), Some(2.0)]),
    ];

    #[test]
    fn normalize_makes_them_null_rows() {
        for (_, element) in &TYPES {
            let x = rows(element, 2, &ROWS);
            let unit = call("normalize", &x, &[], none()).unwrap();
            let matrix = unit.as_matrix().unwrap();
            assert_eq!(matrix.null_rows(), 3, "{element}");
            let got = elements_of(Ok(unit.clone()));
            let round = |v: f64| {
                let to = if element.is_integer() { &DataType::Float64 } else { element };
                Some(numbers::rounded(to, v).to_f64())
            };
            let (a, b) = (round(0.6), round(0.8));
            assert_eq!(got[..2], [a, b], "{element}");
            assert_eq!(got[2..8], [None; 6], "{element}");
            assert_eq!(got[8..], [Some(0.0), Some(1.0)], "{element}");
        }
        // Negative zeros are zeros.
        let x = rows(&DataType::Float32, 2, &[Some(&[Some(-0.0), Some(0.0)])]);
        assert_eq!(elements_of(call("normalize", &x, &[], none())), [None, None]);
    }

    #[test]
    fn cosine_similarity_is_null_for_them() {
        for (_, element) in &TYPES {
            let x = rows(element, 2, &ROWS);
            let y = numbers::array(
                element,
                &[4.0, 3.0].map(|v| {
                    let whole = numbers::integer(&DataType::Int8, v as i128).unwrap();
                    Some(if element.is_floating() { Number::Float(v) } else { whole })
                }),
                1,
            );
            let got = numbers_of(call("cosine_similarity", &x, &[Value::Vector(y)], none()));
            assert_eq!(got[1..4], [None; 3], "{element}");
            let close = |got: Option<f64>, truth: f64| (got.unwrap() - truth).abs() < 1e-3;
            assert!(close(got[0], 0.96) && close(got[4], 0.6), "{element}: {got:?}");
            let zeros = rows(element, 2, &[Some(&[Some(0.0), Some(0.0)])]);
            let got = numbers_of(call("cosine_similarity", &x, &[zeros.into()], none()));
            assert_eq!(got, [None; 5], "{element}");
        }
    }

    #[test]
    fn tiny_and_huge_vectors_are_no_zero_vectors() {
        for v in [5e-324, 1e-200, 1e200, f64::MAX] {
            let x = rows(&DataType::Float64, 2, &[Some(&[Some(v), Some(0.0)])]);
            let unit = elements_of(call("normalize", &x, &[], none()));
            assert_eq!(unit, [Some(1.0), Some(0.0)], "{v}");
            let same = call("cosine_similarity", &x, &[x.clone().into()], none());
            assert_eq!(numbers_of(same), [Some(1.0)], "{v}");
        }
    }
}

/// The value that min or max gives and the index that argmin or argmax gives, taken one by one.
fn extreme_of(x: impl Iterator<Item = f32>, max: bool) -> (f32, f64) {
    let mut best: Option<(f32, usize)> = None;
    for (i, x) in x.enumerate() {
        // Bits in the order of numbers, −0 below +0; a NaN is better than anything but a NaN.
        let wins = |than: f32| {
            let order = if max { x.total_cmp(&than) } else { than.total_cmp(&x) };
            !than.is_nan() && (x.is_nan() || order.is_gt())
        };
        if best.is_none_or(|(value, _)| wins(value)) {
            best = Some((x, i));
        }
    }
    best.map(|(value, index)| (value, index as f64)).unwrap()
}

#[test]
fn extremes_have_their_value_and_place_in_every_shape() {
    use arrow_array::types::Float32Type;
    // Around runs, joined rows, rows held at once and blocks of columns.
    let widths = [1, 2, 3, 5, 8, 15, 16, 17, 31, 48, 100, 255, 256, 257, 2047, 2050];
    let heights = [1, 2, 7, 8, 9, 16, 17, 65, 1030];
    let mut random = Random::new(20);
    for (width, rows) in widths.into_iter().flat_map(|w| heights.map(|h| (w, h))) {
        if width * rows > 300_000 {
            continue;
        }
        // Few values, so that indices tie; the extreme is a zero, an infinity or a NaN now and then.
        let kinds: &[f32] = match random.below(4) {
            0 => &[0.0, -0.0, 1.0, 2.0],
            1 => &[0.0, -0.0, -1.0, -2.0],
            2 => &[1.5, -3.0, f32::INFINITY, f32::NEG_INFINITY],
            _ => &[4.0, 3.0, -2.0, -5.0],
        };
        let any_nan = random.below(3) == 0;
        let values: Vec<f32> = (0..width * rows)
            .map(|_| match random.below(1 + width * rows / 2) {
                0 if any_nan => f32::NAN,
                n => kinds[n % kinds.len()],
            })
            .collect();
        let x = of::<Float32Type>(width, values.iter().copied().map(Some).collect());
        for (name, max) in [("min", false), ("max", true)] {
            for axis in [0, 1] {
                let (lines, steps) = if axis == 0 { (width, rows) } else { (rows, width) };
                let (from, by) = if axis == 0 { (1, width) } else { (width, 1) };
                let line = |i: usize| (0..steps).map(move |s| i * from + s * by);
                let expected = (0..lines).map(|i| extreme_of(line(i).map(|at| values[at]), max));
                let expected: Vec<(f32, f64)> = expected.collect();
                let options = Options::new().set("axis", axis);
                let found = numbers_of(call(name, &x, &[], options.clone()));
                let indices = numbers_of(call(&format!("arg{name}"), &x, &[], options));
                for (i, (value, index)) in expected.into_iter().enumerate() {
                    let found = found[i].unwrap();
                    let is_same = found.to_bits() == f64::from(value).to_bits();
                    let is_nan = found.is_nan() && value.is_nan();
                    let line = format!("{name} of {rows} x {width} along {axis}, {i}");
                    assert!(is_same || is_nan, "{line}: {found} for {value}");
                    assert_eq!(indices[i], Some(index), "{line}: the index of {value}");
                }
            }
        }
    }
}

/// One leaf of rows is shared by its even and odd rows from 3 MiB on; the bits are those of one
/// thread, for any number of rows, chunks that begin at either, and nulls.
#[test]
fn halves_of_a_leaf_add_up_to_the_same_bits() {
    let width = 460;
    for (rows, chunk, nulls) in
        [(1024, 1024, false), (1023, 333, false), (901, 450, true), (1000, 1, true)]
    {
        let value = |i: usize| ((i * 7919) % 10_007) as f64 * 1e-3 + 1e9 / (i + 1) as f64;
        let values = (0..rows * width)
            .map(|i| (!nulls || i % 13 != 5).then(|| value(i)))
            .collect::<Vec<Option<f64>>>();
        let chunks = values.chunks(chunk * width);
        let parts = chunks.map(|part| of::<Float64Type>(width, part.to_vec())).collect();
        let x = Matrix::from_chunks(parts).unwrap();
        assert!(x.bytes() >= 3 << 20, "large enough to be shared");
        for name in ["sum", "mean", "norm"] {
            let bits = |threads| {
                let threads = Some(threads);
                let settings = Settings { threads, exact_threads: true, ..Settings::default() };
                let result = with_settings(settings, || call(name, &x, &[], axis(0)));
                let all = numbers_of(result).into_iter();
                all.map(|number| number.map(f64::to_bits)).collect::<Vec<_>>()
            };
            let one = bits(1);
            for threads in [2, 3, 8] {
                assert_eq!(bits(threads), one, "{name} of {rows} rows by {threads} threads");
            }
        }
    }
}
