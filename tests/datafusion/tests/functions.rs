//! Every row-by-row function in SQL, against the direct call, bit for bit.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float32Array, Float64Array, cast::AsArray};
use datafusion::arrow::datatypes::{DataType, Float32Type};
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use raptors_arrow::Matrix;
use raptors_arrow::compute::registry::ArgumentKind;
use raptors_arrow::compute::{Function, Options, Value, get_function, list_functions};
use raptors_arrow::engine::datafusion::{functions, row_function};
use raptors_arrow_datafusion::{
    Lists, ROWS, WIDTH, column, context, refused, rows, sql, sql_with, value,
};

const KINDS: [(DataType, Lists); 4] = [
    (DataType::Float32, Lists::Fixed),
    (DataType::Float64, Lists::Fixed),
    (DataType::Float32, Lists::Variable),
    (DataType::Int32, Lists::Fixed),
];

/// The function of the table behind a name in SQL, and its options.
fn meant(name: &str) -> (&'static Function, Options) {
    let rest = name.strip_prefix("raptors_").unwrap();
    if let Ok(function) = get_function(rest) {
        let has_axis = function.options.iter().any(|option| option.name == "axis");
        let along_rows = has_axis && function.arguments.len() == 1;
        let options = Options::new();
        return (function, if along_rows { options.set("axis", 1) } else { options });
    }
    if let Some(rest) = rest.strip_suffix("_axis1") {
        let (function, options) = meant(&format!("raptors_{rest}"));
        return (function, options.set("axis", 1));
    }
    let (rest, option) = rest.rsplit_once('_').unwrap();
    let function = get_function(rest).unwrap();
    let options = match option {
        "ord1" => Options::new().set("ord", 1),
        "ordinf" => Options::new().set("ord", f64::INFINITY),
        element => Options::new().set("type", element),
    };
    (function, options)
}

#[test]
fn every_function_is_claimed_but_those_with_a_matrix() {
    let made = functions().unwrap();
    let claimed = |function: &Function| {
        let along = format!("raptors_{}_axis1", function.name);
        made.iter().any(|udf| udf.name() == along || meant(udf.name()).0.name == function.name)
    };
    for function in list_functions() {
        let has_axis = function.options.iter().any(|option| option.name == "axis");
        let by_row = match has_axis && function.arguments.len() == 1 {
            true => Options::new().set("axis", 1),
            false => Options::new(),
        };
        let by_row = function.name == "cast" || function.is_row_by_row(&by_row).unwrap();
        let expected = by_row && !["matmul", "pairwise"].contains(&function.name);
        assert_eq!(claimed(function), expected, "{}", function.name);
    }
}

#[test]
fn every_function_equals_the_direct_call() {
    for (element, lists) in KINDS {
        let rows = rows(&element, lists);
        let context = context(&rows, 2);
        let mut compared = 0;
        for udf in functions().unwrap() {
            let (function, options) = meant(udf.name());
            let bounds = function.options.iter().filter(|o| o.name == "min" || o.name == "max");
            let bounds = bounds.count() == 2 && function.name == "clip";
            let beside: &[&str] = match function.arguments.get(1).map(|argument| argument.kind) {
                None => &[""],
                Some(ArgumentKind::Operand) => &["other", "w"],
                Some(ArgumentKind::Number) => &["w"],
                Some(_) => &["other"],
            };
            for other in beside {
                let mut values = vec![value(&rows, "emb")];
                let mut call = format!("{}(emb", udf.name());
                let mut options = options.clone();
                // The same for all arguments behind the first.
                for _ in &function.arguments[1..] {
                    call += &format!(", {other}");
                    values.push(value(&rows, other));
                }
                if *other == "w" {
                    options = options.set("axis", 0);
                }
                if bounds {
                    call += ", -1, 2";
                    options = options.set("min", -1).set("max", 2);
                }
                let instead = match (function.name, *other) {
                    ("scale", _) => "multiply",
                    ("broadcast_add", _) => "add",
                    (name, _) => name,
                };
                let direct = get_function(instead).unwrap().call(&values, &options);
                let got = sql(&context, &format!("SELECT {call}) AS r FROM t ORDER BY id"));
                match direct {
                    Ok(direct) => {
                        let got = got.unwrap_or_else(|error| panic!("{call}): {error}"));
                        let got = got.column(0);
                        let direct = column(direct, got.data_type());
                        assert_eq!(&direct, got, "{call}) of {element} in {lists:?}");
                        compared += 1;
                    }
                    // What refuses integers, or a row of them, does so with the same words.
                    Err(error) => {
                        let (said, error) =
                            (got.unwrap_err().to_string(), error.kind().to_string());
                        let words = error.split(", but row").next().unwrap();
                        let words = words.split(" in row").next().unwrap();
                        assert!(said.contains(words), "{call}): {said}, not {error}");
                    }
                }
            }
        }
        assert!(compared > 40, "{compared} of {element}");
    }
}

#[test]
fn types_and_widths_are_kept() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let context = context(&rows, 1);
    let got = sql(
        &context,
        "SELECT raptors_normalize(emb), raptors_argmin_axis1(emb), raptors_cast_float64(emb) FROM t",
    );
    let got = got.unwrap();
    assert_eq!(got.column(0).data_type(), rows.column(2).data_type());
    assert_eq!(got.column(1).data_type(), &DataType::Int64);
    let wide = DataType::new_fixed_size_list(DataType::Float64, WIDTH as i32, true);
    assert_eq!(got.column(2).data_type(), &wide);
}

/// The direct call with one vector.
fn with_vector(context: &SessionContext, query: &str, vector: ScalarValue) -> ArrayRef {
    Arc::clone(sql_with(context, query, vec![vector]).unwrap().column(0))
}

#[test]
fn one_value_for_all_rows() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let context = context(&rows, 2);
    let vector: Vec<f32> = (0..WIDTH).map(|i| i as f32 - 1.5).collect();
    let array: ArrayRef = Arc::new(Float32Array::from(vector.clone()));
    let direct = |name: &str, other: Value| {
        get_function(name).unwrap().call(&[value(&rows, "emb"), other], &Options::new()).unwrap()
    };
    let want =
        column(direct("cosine_similarity", Value::Vector(Arc::clone(&array))), &DataType::Float32);
    let lists = [
        ScalarValue::List(ScalarValue::new_list_nullable(
            &vector.iter().map(|v| ScalarValue::Float32(Some(*v))).collect::<Vec<_>>(),
            &DataType::Float32,
        )),
        ScalarValue::List(ScalarValue::new_list_nullable(
            &vector.iter().map(|v| ScalarValue::Float64(Some(f64::from(*v)))).collect::<Vec<_>>(),
            &DataType::Float64,
        )),
        ScalarValue::try_from_array(
            &Matrix::reshape(&array, WIDTH).unwrap().into_lists().unwrap().to_arrays().unwrap()[0],
            0,
        )
        .unwrap(),
    ];
    for list in lists {
        let query = "SELECT raptors_cosine_similarity(emb, $1) FROM t ORDER BY id";
        assert_eq!(&with_vector(&context, query, list), &want);
    }
    let query = format!("SELECT raptors_cosine_similarity(emb, {vector:?}) FROM t ORDER BY id");
    assert_eq!(sql(&context, &query).unwrap().column(0), &want);
    let emb = rows.column(2).data_type();
    let scaled = sql(&context, "SELECT raptors_scale(emb, 2.5) FROM t ORDER BY id").unwrap();
    assert_eq!(scaled.column(0), &column(direct("scale", 2.5.into()), emb));
    let added = sql(&context, &format!("SELECT raptors_add(emb, {vector:?}) FROM t ORDER BY id"));
    assert_eq!(added.unwrap().column(0), &column(direct("add", Value::Vector(array)), emb));
    // Constants alone are a constant.
    let one = sql(&context, "SELECT raptors_norm_axis1([3.0, 4.0])").unwrap();
    assert_eq!(one.column(0).as_ref(), &Float64Array::from(vec![5.0]) as &dyn Array);
}

#[test]
fn nulls_and_empties() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let context = context(&rows, 2);
    let none = sql(&context, "SELECT raptors_normalize(emb) FROM t WHERE id < 0").unwrap();
    assert_eq!(none.num_rows(), 0);
    for call in ["raptors_dot(emb, NULL)", "raptors_add(emb, NULL)", "raptors_scale(emb, NULL)"] {
        let got = sql(&context, &format!("SELECT {call} AS r FROM t")).unwrap();
        let got = got.column(0);
        for row in 0..ROWS {
            let is_null = got.is_null(row)
                || got.as_fixed_size_list_opt().is_some_and(|l| l.value(row).null_count() == WIDTH);
            assert!(is_null, "{call}: row {row}");
        }
    }
}

#[test]
fn in_filters_and_orders() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let context = context(&rows, 2);
    let got = sql(&context, "SELECT id FROM t WHERE raptors_norm_axis1(emb) < 3 ORDER BY id");
    let norms = get_function("norm").unwrap();
    let norms = norms.call(&[value(&rows, "emb")], &Options::new().set("axis", 1)).unwrap();
    let norms = column(norms, &DataType::Float32);
    let norms = norms.as_primitive::<Float32Type>();
    let short = (0..ROWS).filter(|row| norms.is_valid(*row) && norms.value(*row) < 3.0).count();
    assert_eq!(got.unwrap().num_rows(), short);
}

#[test]
fn a_function_with_the_matrix_that_it_holds() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let context = context(&rows, 2);
    let flat: ArrayRef = Arc::new(Float32Array::from_iter_values((0..WIDTH * 2).map(|i| i as f32)));
    let turn = Matrix::reshape(&flat, 2).unwrap().into_lists().unwrap();
    let held = [Value::Matrix(turn)];
    let turned = row_function("turned", "matmul", &held, &Options::new()).unwrap();
    context.register_udf(turned);
    let got = sql(&context, "SELECT turned(emb) FROM t ORDER BY id").unwrap();
    let direct = get_function("matmul").unwrap();
    let direct = direct.call(&[value(&rows, "emb"), held[0].clone()], &Options::new()).unwrap();
    assert_eq!(got.column(0), &column(direct, got.column(0).data_type()));
    let by_columns = Options::new().set("axis", 0);
    let refused = row_function("all", "normalize", &[], &by_columns).unwrap_err().to_string();
    assert!(refused.contains("a row of its result from a row"), "{refused}");
}

#[test]
fn errors_name_function_argument_and_row() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let context = context(&rows, 1);
    for (call, words) in [
        ("raptors_dot(emb, [1.0, 2.0])", "dot: expected y of width 5, got width 2"),
        (
            "raptors_dot(emb, id)",
            "dot: expected a column of vectors, or one vector for y, got int64",
        ),
        (
            "raptors_normalize(id)",
            "normalize: expected a column whose rows are vectors for x, got int64",
        ),
        ("raptors_abs('text')", "abs: expected"),
        (
            "raptors_clip(emb, w, 1)",
            "clip: expected a constant: one value for all rows for min, got a column",
        ),
        ("raptors_normalize(nothing)", "nothing"),
    ] {
        let said = refused(&context, &format!("SELECT {call} FROM t"));
        assert!(said.contains(words), "{call}: {said}");
    }
    let ragged = "SELECT raptors_dot(v, [1.0, 2.0]) FROM (VALUES ([1.0, 2.0]), ([1.0])) AS r(v)";
    let said = refused(&context, ragged);
    assert!(said.contains("dot: expected every row to have 2 elements, but row 1 has 1"), "{said}");
}
