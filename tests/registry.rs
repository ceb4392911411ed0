//! The table of functions is whole and well kept.

mod oracle;

use std::collections::HashSet;

use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::forms::{Form, Layout, matrix};
use oracle::{Draw, Nulls, Random, Table};
use raptors_arrow::compute::{get_function, list_functions};

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

#[test]
fn every_function_explains_itself_without_touching_data() {
    let mut random = Random::new(2);
    let (element, nulls, draw) = (&DataType::Float32, Nulls::None, Draw::Tame);
    let table = Table::random(&mut random, element, (8, 8), nulls, draw);
    let matrix = matrix(&table, Form::plain(Layout::FixedSizeList));
    let x = First { element, rows: 8, width: 8, nulls, draw };
    for call in calls(&mut random, x, Sample::All) {
        let explained = call.explain(&matrix).unwrap_or_else(|error| panic!("{call}: {error}"));
        assert!(explained.work.bytes_read >= 256, "{call}: {explained:?}");
        assert_eq!(explained.plan.threads, 1, "{call}");
    }
}
