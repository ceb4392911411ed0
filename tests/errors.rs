//! Bad input gives an error that carries the values, never a panic.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Float32Array, Float64Array, Int8Array,
    Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field};
use raptors_arrow::compute::{
    Operand, OptionValue, Options, Per, Value, add, call_function, cast, divide, scale, sum,
};
use raptors_arrow::dispatch::{Settings, set_num_threads};
use raptors_arrow::{Error, Matrix};

fn floats(n: usize) -> ArrayRef {
    Arc::new(Float32Array::from((0..n).map(|i| i as f32).collect::<Vec<_>>()))
}

fn square() -> Matrix {
    Matrix::reshape(&floats(4), 2).unwrap()
}

fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> Error {
    result.expect_err("an error was expected")
}

#[test]
fn a_ragged_list_names_its_first_ragged_row() {
    let rows = [Some(vec![Some(1.0), Some(2.0)]), None, Some(vec![Some(3.0)])];
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows));
    let error = said(Matrix::try_from(&list));
    assert_eq!(error, Error::Ragged { expected: 2, row: 2, got: 1 });
    assert!(error.to_string().contains("row 2 has 1"), "{error}");
}

#[test]
fn other_types_are_refused_by_name() {
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(
        Int32Array::from(vec![0, 0]),
        Arc::new(Float32Array::from(vec![1.0])),
    ));
    let strings: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    for array in [dictionary, strings] {
        let got = array.data_type().clone();
        match said(Matrix::try_from(&array)) {
            Error::Type { got: named, .. } => assert_eq!(named, got),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_number_that_the_type_cannot_hold_is_named() {
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let x = Matrix::try_from(&ints).unwrap();
    let error = said(add(&x, 0.5));
    assert!(matches!(error.kind(), Error::Number { element: DataType::Int32, .. }), "{error}");
    assert!(error.to_string().contains("0.5") && error.to_string().contains("int32"), "{error}");
    let error = said(add(&x, 1i64 << 40));
    assert!(error.to_string().contains("1099511627776"), "{error}");
    // What it can hold is taken, as a float too.
    assert!(add(&x, 3.0).is_ok() && add(&x, -7i64).is_ok());
}

#[test]
fn overflow_names_function_row_and_type() {
    let bytes: ArrayRef = Arc::new(Int8Array::from(vec![1, 2, 3, 4, 127, 5]));
    let x = Matrix::reshape(&bytes, 2).unwrap();
    let error = said(add(&x, 1i64));
    let overflow =
        Error::Overflow { what: "row", index: 2, into: DataType::Int8 }.in_function("add");
    assert_eq!(error, overflow);
    let said_so = error.to_string();
    for part in ["add", "row 2", "int8", "cast"] {
        assert!(said_so.contains(part), "{said_so}");
    }
    let error = said(divide(&x, 0i64));
    assert_eq!(error, Error::DivisionByZero { row: 0 }.in_function("divide"));
}

#[test]
fn widths_rows_and_types_of_a_second_operand_must_fit() {
    let x = square();
    let three = Matrix::reshape(&floats(6), 3).unwrap();
    let error = said(add(&x, &three));
    assert_eq!(error, Error::Width { what: "y", expected: 2, got: 3 }.in_function("add"));
    let error = said(add(&x, Operand::row(&floats(3)).unwrap()));
    assert_eq!(error, Error::Width { what: "y", expected: 2, got: 3 }.in_function("add"));
    let error = said(add(&x, Operand::column(&floats(3)).unwrap()));
    assert_eq!(error, Error::Rows { what: "y", expected: 2, got: 3 }.in_function("add"));
    let tall = Matrix::reshape(&floats(6), 2).unwrap();
    let error = said(add(&x, &tall));
    assert_eq!(error, Error::Rows { what: "y", expected: 2, got: 3 }.in_function("add"));
}

#[test]
fn the_type_of_the_column_wins() {
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.1; 4]));
    let y = Matrix::reshape(&doubles, 2).unwrap();
    // 0.1 is rounded to float32 once, as a number is.
    let values = |x: Matrix| x.to_arrays().unwrap()[0].clone();
    let (by_matrix, by_number) = (add(&square(), &y).unwrap(), add(&square(), 0.1).unwrap());
    assert_eq!(&values(by_matrix), &values(by_number));

    let bytes: ArrayRef = Arc::new(Int8Array::from(vec![1, 2, 3, 4]));
    let x = Matrix::reshape(&bytes, 2).unwrap();
    let mixed = Error::Mixed { what: "y", expected: DataType::Int8, got: DataType::Float64 };
    assert_eq!(said(add(&x, &y)), mixed.in_function("add"));
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 100]));
    let wide = Matrix::reshape(&wide, 2).unwrap();
    assert!(add(&x, &wide).is_ok());
    let wider: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 300]));
    let wider = Matrix::reshape(&wider, 2).unwrap();
    let unfit = Error::Unfit { what: "y", row: 1, element: DataType::Int8 };
    assert_eq!(said(add(&x, &wider)), unfit.in_function("add"));
}

#[test]
fn a_null_scalar_is_refused() {
    let null: ArrayRef = Arc::new(Float32Array::from(vec![None]));
    let error = said(scale(&square(), Operand::scalar(null)));
    assert_eq!(error, Error::NullScalar { what: "y" }.in_function("scale"));
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let error = said(Matrix::reshape(&floats(7), 2));
    assert_eq!(error, Error::Reshape { len: 7, width: 2 });
    assert!(Matrix::reshape(&floats(7), 0).is_err());
    // Lists of no elements, so many that the product of their sizes overflows.
    let mut array: ArrayRef = floats(0);
    for _ in 0..3 {
        let field = Arc::new(Field::new_list_field(array.data_type().clone(), true));
        array = Arc::new(FixedSizeListArray::new(field, i32::MAX, array, None));
    }
    match said(Matrix::try_from(&array)) {
        Error::TooLarge { .. } => {}
        other => panic!("{other}"),
    }
}

#[test]
fn columns_of_different_types_are_seen_in_their_common_type() {
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.25; 4]));
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(-4)]));
    let batch =
        RecordBatch::try_from_iter([("a", floats(4)), ("b", doubles), ("c", ints)]).unwrap();
    let x = Matrix::try_from(&batch).unwrap();
    assert_eq!(x.element_type(), &DataType::Float64);
    let sums = sum(&x, Per::Column).unwrap();
    assert_eq!(sums.as_primitive::<Float64Type>().values()[1..], [1.0, 0.0]);
    // Each column goes back in its own type.
    let back = x.to_record_batches().unwrap().unwrap();
    assert_eq!(back[0], batch);
    let twice = scale(&x, 2.0).unwrap().to_record_batches().unwrap().unwrap();
    assert!(twice[0].columns().iter().all(|column| *column.data_type() == DataType::Float64));
}

#[test]
fn the_axis_is_named_only_where_it_would_help() {
    let x = || Value::Matrix(Matrix::reshape(&floats(6), 2).unwrap());
    let said = |name: &str, y: ArrayRef| {
        said(call_function(name, &[x(), Value::Vector(y)], &Options::new())).to_string()
    };
    assert!(said("add", floats(3)).contains("pass axis=0"));
    for message in
        [said("add", floats(4)), said("broadcast_add", floats(3)), said("dot", floats(3))]
    {
        assert!(message.contains("of width 2") && !message.contains("axis"), "{message}");
    }
}

#[test]
fn a_cast_that_is_refused_names_the_option() {
    let x: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 1.5, f64::NAN]));
    let message = said(cast(&Matrix::try_from(&x).unwrap(), &DataType::Int8, true)).to_string();
    assert!(message.contains("row 1") && message.contains("safe=False"), "{message}");
}

#[test]
fn chunks_must_have_one_width_and_type() {
    let wide = Matrix::reshape(&floats(6), 3).unwrap();
    assert!(matches!(said(Matrix::from_chunks(vec![square(), wide])).kind(), Error::Width { .. }));
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let ints = Matrix::reshape(&ints, 2).unwrap();
    assert!(matches!(said(Matrix::from_chunks(vec![square(), ints])).kind(), Error::Mixed { .. }));
    assert!(Matrix::from_chunks(Vec::new()).is_err());
}

fn tensor(metadata: &str) -> Result<Matrix, Error> {
    let values = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
        [Some((0..6).map(|i| Some(i as f32)))],
        6,
    );
    let field = Field::new("t", values.data_type().clone(), true).with_metadata(
        [
            ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
            ("ARROW:extension:metadata".to_owned(), metadata.to_owned()),
        ]
        .into(),
    );
    Matrix::from_field(&Arc::new(field), &[Arc::new(values)])
}

#[test]
fn tensors_are_checked_and_permutations_refused_by_name() {
    assert!(tensor(r#"{"shape":[2,3]}"#).is_ok());
    assert!(tensor(r#"{"shape":[2,3],"dim_names":["H","W"],"permutation":[0,1]}"#).is_ok());
    for bad in [
        r#"{"shape":[2,4]}"#,
        r#"{"shape":[2,3],"permutation":[1,1]}"#,
        r#"{"shape":"x"}"#,
        r#"{}"#,
        "no json",
        r#"{"shape":[18446744073709551615,3]}"#,
    ] {
        assert!(matches!(said(tensor(bad)).kind(), Error::Tensor { .. }), "{bad}");
    }
    // Another order matters to what lines up columns, and to nothing else.
    let turned = tensor(r#"{"shape":[2,3],"permutation":[1,0]}"#).unwrap();
    assert!(sum(&turned, Per::Row).is_ok());
    let options = Options::new().set("axis", 0);
    let error = said(call_function("sum", &[Value::Matrix(turned)], &options));
    assert!(error.to_string().contains("permutation"), "{error}");
}

#[test]
fn calls_by_name_check_name_arguments_and_options() {
    let x = Value::Matrix(square());
    let none = Options::new();
    let error = said(call_function("summ", std::slice::from_ref(&x), &none));
    assert_eq!(error, Error::NoSuchFunction { name: "summ".into(), near: Some("sum") });
    let error = said(call_function("qqqqqq", std::slice::from_ref(&x), &none));
    assert_eq!(error, Error::NoSuchFunction { name: "qqqqqq".into(), near: None });
    let error = said(call_function("add", std::slice::from_ref(&x), &none));
    assert_eq!(error, Error::Arguments { expected: 2, got: 1 }.in_function("add"));
    let one = std::slice::from_ref(&x);
    let error = said(call_function("sum", one, &Options::new().set("ddof", 1)));
    assert!(matches!(error.kind(), Error::NoSuchOption { .. }));
    for options in [
        Options::new().set("axis", 2),
        Options::new().set("axis", true),
        Options::new().set("skip_nulls", 1),
        Options::new().set("min_count", -1),
    ] {
        assert!(matches!(
            said(call_function("sum", one, &options)).kind(),
            Error::OptionValue { .. }
        ));
    }
    for (name, option, value) in [
        ("var", "ddof", OptionValue::Count(-1)),
        ("norm", "ord", OptionValue::Count(3)),
        ("norm", "ord", OptionValue::Text("two".into())),
        ("clip", "min", OptionValue::Number(f64::NAN)),
        ("clip", "max", OptionValue::Flag(true)),
        ("cast", "type", OptionValue::Text("string".into())),
        ("cast", "safe", OptionValue::Count(1)),
    ] {
        let options = Options::new().set(option, value.clone());
        let error = said(call_function(name, one, &options));
        let is_named = matches!(error.kind(), Error::OptionValue { option: o, .. } if *o == option);
        assert!(is_named, "{name} {option}={value}: {error}");
    }
    let error = said(call_function("cast", one, &none));
    assert!(matches!(error.kind(), Error::OptionValue { option: "type", .. }), "{error}");
    let error = said(call_function("sum", &[Value::Number(1.0)], &none));
    assert!(matches!(error.kind(), Error::Argument { argument: "x", .. }), "{error}");
    let error = said(call_function("scale", &[x.clone(), x.clone()], &none));
    assert!(matches!(error.kind(), Error::Argument { argument: "factor", .. }), "{error}");
    let error = said(call_function("broadcast_add", &[x.clone(), Value::Number(1.0)], &none));
    assert!(matches!(error.kind(), Error::Argument { argument: "row", .. }), "{error}");
    let error = said(call_function("add", &[x.clone(), x], &Options::new().set("axis", 0)));
    assert!(matches!(error.kind(), Error::Argument { argument: "y", .. }), "{error}");
}

#[test]
fn settings_that_cannot_be_honoured_are_errors() {
    let read = |name: &'static str, value: &'static str| {
        Settings::from_variables(|asked| (asked == name).then(|| value.to_owned()))
    };
    for (name, value) in [
        ("RAPTORS_NUM_THREADS", "0"),
        ("RAPTORS_NUM_THREADS", "many"),
        ("RAPTORS_NUM_THREADS", "1025"),
        ("RAPTORS_SIMD", "avx3"),
        ("RAPTORS_BACKEND", "cuda"),
        ("RAPTORS_POOL_BYTES", "1T"),
        ("RAPTORS_POOL_BYTES", "-1"),
    ] {
        match said(read(name, value)) {
            Error::Setting { variable, value: named, .. } => {
                assert_eq!((variable, named.as_str()), (name, value));
            }
            other => panic!("{other}"),
        }
    }
    let missing = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
    assert!(read("RAPTORS_SIMD", missing).is_err());
    assert_eq!(cfg!(target_os = "macos"), read("RAPTORS_BACKEND", "vdsp").is_ok());
    assert_eq!(read("RAPTORS_NUM_THREADS", " 3 ").unwrap().threads, Some(3));
    assert_eq!(read("RAPTORS_NUM_THREADS", "").unwrap().threads, None);
    assert_eq!(read("RAPTORS_POOL_BYTES", "64m").unwrap().pool_bytes, Some(64 << 20));
    assert!(read("RAPTORS_SIMD", "portable").unwrap().simd.is_some());
    assert!(matches!(said(set_num_threads(0)).kind(), Error::Setting { .. }));
}

#[cfg(unix)]
#[test]
fn a_setting_that_is_not_utf_8_is_an_error_that_names_it() {
    use std::os::unix::ffi::OsStringExt;
    for name in ["RAPTORS_NUM_THREADS", "RAPTORS_SIMD", "RAPTORS_BACKEND", "RAPTORS_POOL_BYTES"] {
        let junk = || std::ffi::OsString::from_vec(vec![b'2', 0xff]);
        let error = said(Settings::from_variables(|asked| (asked == name).then(junk)));
        assert!(error.to_string().starts_with(name), "{error}");
        assert!(error.to_string().contains("UTF-8"), "{error}");
    }
}
