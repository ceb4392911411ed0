//! The table of functions is whole and well kept.

mod oracle;

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::forms::{Form, Layout, matrix};
use oracle::{Draw, Nulls, Random, Table};
use raptors_arrow::compute::registry::ArgumentKind;
use raptors_arrow::compute::{
    Metric, OptionKind, Options, Value, call_function, get_function, list_functions,
};
use raptors_arrow::dispatch::{Level, Plan, Settings, executed, with_settings};
use raptors_arrow::{Error, Matrix};

#[test]
fn names_are_unique_and_everything_is_documented() {
    let mut names = HashSet::new();
    for function in list_functions() {
        assert!(names.insert(function.name), "{} is there twice", function.name);
        assert!(function.summary.ends_with('.'), "{} has no summary", function.name);
        assert!(!function.family.is_empty() && !function.nulls.describe().is_empty());
        assert!(!function.arguments.is_empty());
        let mut inner = HashSet::new();
        for argument in function.arguments {
            assert!(inner.insert(argument.name) && argument.doc.ends_with('.'));
        }
        for option in function.options {
            assert!(inner.insert(option.name) && option.doc.ends_with('.'));
        }
        assert!(std::ptr::eq(get_function(function.name).unwrap(), function));
    }
}

#[test]
fn the_seed_names_are_registered() {
    for name in ["sum_axis0", "mean_axis0", "mean_axis1", "broadcast_add", "scale"] {
        assert!(get_function(name).is_ok(), "{name}");
    }
}

#[test]
fn every_function_has_an_oracle() {
    let mut random = Random::new(1);
    let (element, nulls, draw) = (&DataType::Float64, Nulls::None, Draw::Tame);
    let table = Table::random(&mut random, element, (3, 2), nulls, draw);
    let x = First { element, rows: 3, width: 2, nulls, draw };
    let all = calls(&mut random, x, Sample::All);
    for function in list_functions() {
        let call = all.iter().find(|call| call.function.name == function.name);
        let call = call.unwrap_or_else(|| panic!("no test calls {}", function.name));
        // Panics for a function that it has no answer for.
        assert!(call.expected(&table).is_ok(), "{call}");
    }
}

/// Every call on a few rows: the passes that it explains are those that it executes, and write as
/// many bytes as the result has.
#[test]
fn what_is_explained_is_what_is_executed() {
    let mut random = Random::new(2);
    let draw = Draw::Tame;
    for element in [DataType::Float32, DataType::Int16, DataType::Float16] {
        for layout in [Layout::FixedSizeList, Layout::Struct] {
            let nulls = Nulls::None;
            let table = Table::random(&mut random, &element, (40, 24), nulls, draw);
            let matrix = matrix(&table, Form::plain(layout));
            let x = First { element: &element, rows: 40, width: 24, nulls, draw };
            for call in calls(&mut random, x, Sample::All) {
                for (threads, level) in [(1, Level::Portable), (2, Level::Portable)] {
                    let simd = Some(level);
                    let settings = Settings {
                        threads: Some(threads),
                        exact_threads: true,
                        simd,
                        ..Settings::default()
                    };
                    with_settings(settings, || {
                        let said = format!("{call} on {element} in {layout:?}");
                        let passes = call.explain(&matrix);
                        let passes = passes.unwrap_or_else(|error| panic!("{said}: {error}"));
                        let (result, mut plans) = executed(|| call.run(&matrix));
                        plans.dedup();
                        let mut explained: Vec<Plan> =
                            passes.iter().map(|pass| pass.plan).collect();
                        explained.dedup();
                        let written = result.as_ref().map_or(0, bytes);
                        // Nothing is executed for a result of nothing, or to count without nulls.
                        let is_idle =
                            plans.is_empty() && (written == 0 || call.function.name == "count");
                        assert!(is_idle || plans == explained, "{said}: {plans:?} {explained:?}");
                        let last = passes.last().map_or(0, |pass| pass.work.bytes_written);
                        assert!(result.is_err() || last == written, "{said}: {last} {written}");
                    });
                }
            }
        }
    }
}

/// The bytes of the numbers in a result.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Scalar(array) | Value::Vector(array) => {
            array.len() * array.data_type().primitive_width().unwrap_or(0)
        }
        Value::Matrix(matrix) => matrix.bytes(),
        Value::Ragged(_) => panic!("no argument is ragged"),
        Value::Named(values) => values.iter().map(|(_, value)| bytes(value)).sum(),
        Value::Number(_) | Value::Integer(_) => 0,
    }
}

fn vector(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

#[test]
fn one_vector_is_refused_where_rows_are_vectors() {
    let flat = vector(&[Some(3.0), Some(4.0)]);
    let matrix = Matrix::reshape(&flat, 2).unwrap();
    for x in [Value::Vector(flat.clone()), Value::from(Matrix::try_from(&flat).unwrap())] {
        let mut refused = Vec::new();
        for function in list_functions() {
            let kinds: Vec<ArgumentKind> = function.arguments.iter().map(|a| a.kind).collect();
            let mut arguments = vec![x.clone()];
            for (argument, kind) in function.arguments.iter().zip(&kinds).skip(1) {
                if argument.optional {
                    continue;
                }
                arguments.push(match kind {
                    ArgumentKind::Operand | ArgumentKind::Number => Value::from(2.0),
                    ArgumentKind::Row => Value::Vector(vector(&[Some(1.0)])),
                    _ => Value::from(matrix.clone()),
                });
            }
            let is_cast = function.options.iter().any(|option| option.name == "type");
            let options = Options::new();
            let options = if is_cast { options.set("type", "float32") } else { options };
            let by_column = function.options.iter().find(|option| option.name == "axis");
            let is_by_column =
                by_column.is_some_and(|axis| axis.kind.default_value() != 1i64.into());
            let is_refused = kinds[0] == ArgumentKind::Rows && !is_by_column;
            match function.call(&arguments, &options).as_ref().map_err(Error::kind) {
                Err(Error::OneVector { argument: "x", len: 2, .. }) if is_refused => {
                    refused.push(function.name);
                }
                Ok(_) if !is_refused => {}
                got => panic!("{}: {got:?}", function.name),
            }
            if by_column.is_some() && arguments.len() == 1 {
                let by_column = Options::new().set("axis", 0);
                assert!(function.call(&arguments, &by_column).is_ok(), "{}", function.name);
            }
        }
        let pairs = ["dot", "cosine_similarity", "l2_distance", "l1_distance"];
        let others = ["normalize", "softmax", "matmul", "pairwise", "top_k"];
        assert_eq!(refused, [&pairs[..], &others[..]].concat());
    }
}

#[test]
fn two_vectors_give_one_number() {
    let x = [Some(3.0), Some(4.0), Some(0.0)];
    let y = vector(&[Some(1.0), Some(2.0), Some(-2.0)]);
    let chunks: Vec<Matrix> =
        x.chunks(2).map(|part| Matrix::try_from(&vector(part)).unwrap()).collect();
    let whole = Matrix::try_from(&vector(&x)).unwrap();
    for x in [whole, Matrix::from_chunks(chunks).unwrap()] {
        for (name, expected) in
            [("dot", 11.0), ("l1_distance", 6.0), ("cosine_similarity", 11.0 / 15.0)]
        {
            let arguments = [Value::from(x.clone()), Value::Vector(y.clone())];
            let Value::Scalar(one) = call_function(name, &arguments, &Options::new()).unwrap()
            else {
                panic!("{name} gives no number");
            };
            let got = one.as_primitive::<Float64Type>().values().to_vec();
            // A quotient of rounded roots: half an ulp for each step.
            assert!(got.len() == 1 && (got[0] - expected).abs() <= 4.0 * f64::EPSILON, "{name}");
        }
    }
    let none = [vector(&[]), vector(&[])].map(Value::Vector);
    for (name, expected) in
        [("dot", Some(0.0)), ("l2_distance", Some(0.0)), ("cosine_similarity", None)]
    {
        let one = call_function(name, &none, &Options::new()).unwrap();
        let one = one.as_array().unwrap().as_primitive::<Float64Type>();
        assert_eq!((one.len(), one.iter().next().unwrap()), (1, expected), "{name}");
    }
    let with_null = [vector(&[Some(1.0), None, Some(2.0)]), y.clone()].map(Value::Vector);
    let one = call_function("dot", &with_null, &Options::new()).unwrap();
    assert!(one.as_array().unwrap().is_null(0));
    let shorter = [vector(&[Some(1.0)]), y].map(Value::Vector);
    let refused = call_function("dot", &shorter, &Options::new());
    assert!(
        matches!(
            refused.as_ref().map_err(Error::kind),
            Err(Error::Width { expected: 1, got: 3, .. })
        ),
        "{refused:?}"
    );
}

#[test]
fn metrics_have_the_names_of_other_libraries_too() {
    for (name, own) in [("ip", "dot"), ("euclidean", "l2"), ("cityblock", "l1"), ("l1", "l1")] {
        assert_eq!(Metric::named(name).map(Metric::name), Some(own));
    }
    for name in ["top_k", "pairwise"] {
        let function = get_function(name).unwrap();
        let metric = function.options.iter().find(|option| option.name == "metric").unwrap();
        let OptionKind::Choice(words) = metric.kind else { panic!("{metric:?}") };
        assert!(words.iter().all(|word| Metric::named(word).is_some()), "{words:?}");
    }
}
