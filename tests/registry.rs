//! The table of functions is whole and well kept.

mod oracle;

use std::collections::HashSet;

use oracle::calls::few_calls;
use oracle::{Nulls, Random};
use raptors_arrow::compute::{Options, Value, get_function, list_functions};

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
    let covered: HashSet<_> = few_calls::<f64>(&mut random, 3, 2, Nulls::None)
        .iter()
        .map(|call| call.function.name)
        .collect();
    for function in list_functions() {
        assert!(covered.contains(function.name), "no test calls {}", function.name);
    }
}

#[test]
fn every_function_explains_itself_without_touching_data() {
    let flat: arrow_array::ArrayRef =
        std::sync::Arc::new(arrow_array::Float32Array::from(vec![1.0; 64]));
    let x = raptors_arrow::Matrix::reshape(&flat, 8).unwrap();
    for function in list_functions() {
        let mut arguments = vec![Value::Matrix(x.clone())];
        arguments.extend((1..function.arguments.len()).map(|_| Value::Number(2.0)));
        let explained = function.explain(&arguments, &Options::new()).unwrap();
        assert_eq!(explained.work.bytes_read, 256, "{}", function.name);
        assert_eq!(explained.plan.threads, 1);
    }
}
