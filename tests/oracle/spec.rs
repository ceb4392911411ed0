//! The naive answer of every function, and the order of additions written down once more, as
//! simply as it can be said. A function that has no answer here fails the conformance tests.

use super::{Number, Outcome, Table};

/// The order of additions of docs/guide/numbers.md: leaves of 1024, lanes of 8, a binary tree.
pub fn ordered_sum(x: &[f64]) -> f64 {
    let leaves: Vec<f64> = x
        .chunks(1024)
        .map(|leaf| {
            let mut lanes = [-0.0; 8];
            for (i, v) in leaf.iter().enumerate() {
                lanes[i % 8] += v;
            }
            let [a, b, c, d, e, f, g, h] = lanes;
            ((a + e) + (c + g)) + ((b + f) + (d + h))
        })
        .collect();
    node(&leaves)
}

/// The largest power of two below the length goes left.
fn node(leaves: &[f64]) -> f64 {
    match leaves {
        [] => -0.0,
        [one] => *one,
        _ => {
            let left = leaves.len().next_power_of_two() / 2;
            node(&leaves[..left]) + node(&leaves[left..])
        }
    }
}

/// A second operand.
#[derive(Clone, Debug)]
pub enum Other<T> {
    Nothing,
    Number(f64),
    Scalar(T),
    Row(Vec<Option<T>>),
    Column(Vec<Option<T>>),
    Matrix(Table<T>),
}

/// Options as the oracle takes them.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub axis: Option<i64>,
    pub skip_nulls: bool,
    pub min_count: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { axis: None, skip_nulls: true, min_count: 1 }
    }
}

/// The answer of a function. Panics for one it does not know: add its oracle here.
pub fn answer<T: Number>(name: &str, x: &Table<T>, y: &Other<T>, settings: Settings) -> Outcome {
    let fixed = |axis| Settings { axis: Some(axis), ..settings };
    match name {
        "sum" => reduction(x, settings, sum),
        "mean" => reduction(x, settings, mean),
        "sum_axis0" => reduction(x, fixed(0), sum),
        "mean_axis0" => reduction(x, fixed(0), mean),
        "mean_axis1" => reduction(x, fixed(1), mean),
        "add" | "broadcast_add" => arithmetic(x, y, T::plus),
        "subtract" => arithmetic(x, y, T::minus),
        "multiply" | "scale" => arithmetic(x, y, T::times),
        "divide" => arithmetic(x, y, T::over),
        _ => panic!("no oracle for the function {name:?}: write one in tests/oracle/spec.rs"),
    }
}

fn sum<T: Number>(values: &[Option<T>]) -> f64 {
    if values.iter().all(Option::is_none) {
        return 0.0;
    }
    let in_place: Vec<f64> = values.iter().map(|v| v.map_or(-0.0, T::to_f64)).collect();
    ordered_sum(&in_place)
}

fn mean<T: Number>(values: &[Option<T>]) -> f64 {
    sum(values) / values.iter().flatten().count() as f64
}

fn reduction<T: Number>(x: &Table<T>, settings: Settings, f: fn(&[Option<T>]) -> f64) -> Outcome {
    let one = |values: Vec<Option<T>>, row_is_null: bool| {
        let valid = values.iter().flatten().count();
        let is_null = row_is_null
            || valid < settings.min_count
            || !settings.skip_nulls && valid < values.len();
        (!is_null).then(|| settled(T::from_f64(f(&values))))
    };
    let bits = match settings.axis {
        None => vec![one(x.flat(), false)],
        Some(0) => (0..x.width).map(|c| one(x.column(c), false)).collect(),
        Some(_) => (0..x.rows.len())
            .map(|r| one((0..x.width).map(|c| x.get(r, c)).collect(), x.rows[r].is_none()))
            .collect(),
    };
    Outcome { shape: None, row_is_null: Vec::new(), bits }
}

fn arithmetic<T: Number>(x: &Table<T>, y: &Other<T>, f: fn(T, T) -> T) -> Outcome {
    let rows = x.rows.len();
    let other = |row: usize, column: usize| match y {
        Other::Nothing => panic!("arithmetic needs a second operand"),
        Other::Number(number) => Some(T::from_f64(*number)),
        Other::Scalar(value) => Some(*value),
        Other::Row(values) => values[column],
        Other::Column(values) => values[row],
        Other::Matrix(table) => table.get(row, column),
    };
    let row_is_null: Vec<bool> = (0..rows)
        .map(|row| {
            x.rows[row].is_none()
                || match y {
                    Other::Column(values) => values[row].is_none(),
                    Other::Matrix(table) => table.rows[row].is_none(),
                    _ => false,
                }
        })
        .collect();
    let bits = (0..rows)
        .flat_map(|row| (0..x.width).map(move |column| (row, column)))
        .map(|(row, column)| {
            let (x, y) = (x.get(row, column)?, other(row, column)?);
            (!row_is_null[row]).then(|| settled(f(x, y)))
        })
        .collect();
    Outcome { shape: Some((rows, x.width)), row_is_null, bits }
}

/// The bits, with the canonical NaN for any.
fn settled<T: Number>(value: T) -> u64 {
    let value = if value.to_f64().is_nan() { T::from_f64(f64::NAN) } else { value };
    value.bits()
}
