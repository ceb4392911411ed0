//! States that leave the process: as an Arrow struct and back, merged to the bits of the whole.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, Int32Array, StructArray};
use arrow_schema::{DataType, Field};
use raptors_arrow::compute::{Accumulator, Order, Per, ReduceOptions, Statistic, reduce};
use raptors_arrow::{Error, Matrix};

const STATISTICS: [Statistic; 10] = [
    Statistic::Sum,
    Statistic::Mean,
    Statistic::Min,
    Statistic::Max,
    Statistic::Count,
    Statistic::Var,
    Statistic::Std,
    Statistic::Norm,
    Statistic::ArgMin,
    Statistic::ArgMax,
];

/// Numbers of very different sizes, some of them null; float64 has some that overflow when squared.
fn numbers(element: &DataType, len: usize) -> ArrayRef {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f64
    };
    let values: Vec<Option<f64>> = (0..len)
        .map(|_| {
            let x = next() / 1e6 - 1000.0;
            (!(next() as u64).is_multiple_of(11)).then_some(x)
        })
        .collect();
    match element {
        DataType::Float32 => {
            Arc::new(Float32Array::from_iter(values.iter().map(|x| x.map(|x| x as f32))))
        }
        DataType::Float64 => {
            let wild = values.iter().enumerate();
            Arc::new(Float64Array::from_iter(
                wild.map(|(i, x)| x.map(|x| if i % 1013 == 0 { x * 1e200 } else { x })),
            ))
        }
        _ => Arc::new(Int32Array::from_iter(values.iter().map(|x| x.map(|x| x as i32)))),
    }
}

fn state_of(x: &Matrix, statistic: Statistic, per: Per) -> Result<StructArray, Error> {
    let mut own = Accumulator::new(statistic, per, ReduceOptions::default())?;
    own.update(x)?;
    own.state()
}

#[test]
fn states_cut_at_leaves_merge_to_the_bits_of_the_whole() -> Result<(), Error> {
    let (rows, width) = (9 * 1024 + 77, 3);
    for element in [DataType::Float32, DataType::Float64, DataType::Int32] {
        let flat = numbers(&element, rows * width);
        let matrix = |from: usize, to: usize| {
            Matrix::reshape(&flat.slice(from * width, (to - from) * width), width)
        };
        for (statistic, per) in
            STATISTICS.iter().flat_map(|s| [(*s, Per::Column), (*s, Per::Matrix)])
        {
            let whole = reduce(statistic, &matrix(0, rows)?, per, &ReduceOptions::default())?;
            for cuts in [vec![1024], vec![3 * 1024], vec![1024, 6 * 1024], vec![5 * 1024, 8192]] {
                let ends = cuts.iter().copied().chain([rows]);
                let starts = [0].into_iter().chain(cuts.iter().copied());
                let mut merged: Option<Accumulator> = None;
                for (from, to) in starts.zip(ends) {
                    let state = state_of(&matrix(from, to)?, statistic, per)?;
                    let right = Accumulator::from_state(&state)?;
                    match &mut merged {
                        Some(left) => left.merge(right)?,
                        None => merged = Some(right),
                    }
                }
                let got = merged.expect("some states").finish()?;
                let shown = format!("{statistic:?} {per:?} {element} {cuts:?}");
                assert_eq!(got.to_data(), whole.to_data(), "{shown}");
            }
        }
    }
    Ok(())
}

#[test]
fn runs_of_leaves_are_joined_and_a_state_stays_small() -> Result<(), Error> {
    let rows = 3 * 1024 * 1024 + 5 * 1024 + 9;
    let flat = numbers(&DataType::Float32, rows);
    let x = Matrix::reshape(&flat, 1)?;
    let state = state_of(&x, Statistic::Sum, Per::Column)?;
    let leaves = state.column_by_name("leaves").expect("a field").as_list::<i64>();
    assert_eq!(leaves.value(0).len(), 3 + 6);
    let whole = reduce(Statistic::Sum, &x, Per::Column, &ReduceOptions::default())?;
    assert_eq!(Accumulator::from_state(&state)?.finish()?.to_data(), whole.to_data());
    Ok(())
}

#[test]
fn cuts_elsewhere_are_within_the_bound() -> Result<(), Error> {
    let (rows, width) = (5000, 2);
    let flat = numbers(&DataType::Float32, rows * width);
    let matrix = |from: usize, to: usize| {
        Matrix::reshape(&flat.slice(from * width, (to - from) * width), width)
    };
    for order in [Order::One, Order::Two] {
        let options = ReduceOptions { order, ..ReduceOptions::default() };
        let mut left = Accumulator::new(Statistic::Norm, Per::Column, options)?;
        left.update(&matrix(0, 1777)?)?;
        let mut right = Accumulator::new(Statistic::Norm, Per::Column, options)?;
        right.update(&matrix(1777, rows)?)?;
        left.merge(Accumulator::from_state(&right.state()?)?)?;
        let got = left.finish()?;
        let whole = reduce(Statistic::Norm, &matrix(0, rows)?, Per::Column, &options)?;
        let pairs = got.as_primitive::<arrow_array::types::Float32Type>().values().iter();
        let whole = whole.as_primitive::<arrow_array::types::Float32Type>();
        for (got, whole) in pairs.zip(whole.values()) {
            // Both are sums in float64 that are rounded once.
            assert!((got - whole).abs() <= whole.abs() * f32::EPSILON, "{got} {whole}");
        }
    }
    Ok(())
}

/// The same struct with another column.
fn with(state: &StructArray, name: &str, column: ArrayRef) -> StructArray {
    let (fields, mut columns, nulls) = state.clone().into_parts();
    let fields: Vec<_> = fields
        .iter()
        .enumerate()
        .map(|(i, field)| {
            if field.name() == name {
                columns[i] = Arc::clone(&column);
                return Arc::new(Field::new(name, column.data_type().clone(), true));
            }
            Arc::clone(field)
        })
        .collect();
    StructArray::new(fields.into(), columns, nulls)
}

#[test]
fn what_is_no_state_is_refused_by_name() -> Result<(), Error> {
    let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    let state = state_of(&Matrix::reshape(&flat, 2)?, Statistic::Mean, Per::Column)?;
    let message = |state: &StructArray| match Accumulator::from_state(state) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(message(&state), "taken");
    let newer = with(&state, "version", Arc::new(Int32Array::from(vec![3])));
    assert_eq!(
        message(&newer),
        "from_state: expected a state of version 2 or older, got version 3; a newer raptors-arrow \
         made it: update this one"
    );
    let value = state.column_by_name("value").expect("a field").as_list::<i64>();
    assert_eq!(value.value(0).as_primitive::<Float64Type>().values(), &[4.0, 6.0]);
    let empty = arrow_array::LargeListArray::new_null(
        Arc::new(Field::new("item", DataType::Float64, true)),
        1,
    );
    let got = message(&with(&state, "value", Arc::new(empty)));
    assert!(got.contains("expected fields without nulls for state, got a null in value"), "{got}");
    for name in ["rows", "counts", "leaves", "scales", "value", "of"] {
        let got = message(&with(&state, name, Arc::new(Float32Array::from(vec![1.0]))));
        assert!(got.starts_with("from_state: expected ") && got.contains(" for state"), "{got}");
    }
    let (fields, columns, _) = state.into_parts();
    let without = StructArray::new(fields[..3].to_vec().into(), columns[..3].to_vec(), None);
    assert!(message(&without).contains("a struct without \"counts\""), "{}", message(&without));
    Ok(())
}
