//! Functions that give a yes or no for each element.

use std::cmp::Ordering;

use arrow_schema::DataType;

use super::Table;
use super::elementwise::{binary_to, unary};
use super::numbers::Number;
use super::outcome::{Failure, Outcome};
use super::spec::{Answer, Other, held};

fn flag(is_true: bool) -> Number {
    Number::UInt(is_true.into())
}

/// Whether the order of two elements, none beside a NaN, is what is asked for.
pub fn compare(x: &Table, y: &Other, is_so: fn(Option<Ordering>) -> bool) -> Answer {
    binary_to(x, y, &DataType::Boolean, |a, b| {
        let order = match (a, b) {
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
            _ => Some(a.to_i128().cmp(&b.to_i128())),
        };
        Ok(flag(is_so(order)))
    })
}

/// Whether each element is what is asked for.
pub fn ask(x: &Table, is_so: fn(f64) -> bool) -> Answer {
    unary(x, &DataType::Boolean, |v| Ok(flag(is_so(v.to_f64()))))
}

/// Whether each element is null; null rows stay.
pub fn is_null(x: &Table) -> Answer {
    let flags = |row: &Vec<Option<Number>>| row.iter().map(|v| Some(flag(v.is_none()))).collect();
    let rows = x.rows.iter().map(|row| row.as_ref().map(flags)).collect();
    Ok(Outcome::of_table(&Table { element: DataType::Boolean, width: x.width, rows }))
}

/// The value in place of each null element; null rows stay.
pub fn fill_null(x: &Table, value: &Other) -> Answer {
    let value = match value {
        Other::Number(number) => number_held(x, Number::Float(*number))?,
        Other::Integer(number) => number_held(x, Number::Int(*number))?,
        other => other.clone(),
    };
    let one = |row: usize, column: usize| {
        x.get(row, column).or_else(|| match &value {
            Other::Scalar(value) => Some(*value),
            Other::Row(values) => values[column],
            Other::Column(values) => values[row],
            Other::Matrix(table) => table.get(row, column),
            _ => panic!("fill_null needs a value"),
        })
    };
    let filled = |row: usize| (0..x.width).map(|column| one(row, column)).collect();
    let rows = x.rows.iter().enumerate().map(|(row, own)| own.as_ref().map(|_| filled(row)));
    let rows = rows.collect();
    Ok(Outcome::of_table(&Table { element: x.element.clone(), width: x.width, rows }))
}

fn number_held(x: &Table, number: Number) -> Result<Other, Failure> {
    let refused = Failure::Number { element: x.element.clone() };
    held(&x.element, number).map(Other::Scalar).ok_or(refused)
}

/// One of two values for each element of a condition, which holds where it is not zero. A row is
/// null where the condition's is, or all that it chooses is in null rows.
pub fn choose(condition: &Table, x: &Other, y: &Other) -> Answer {
    let is_plain = |other: &Other| matches!(other, Other::Number(_) | Other::Integer(_));
    let to = match (x, y) {
        (Other::Integer(_), Other::Integer(_)) => DataType::Int64,
        (x, y) if is_plain(x) && is_plain(y) => DataType::Float64,
        _ => condition.element.clone(),
    };
    let as_held = |other: &Other| {
        let number = match other {
            Other::Number(number) => Number::Float(*number),
            Other::Integer(number) => Number::Int(*number),
            _ => return Ok(other.clone()),
        };
        let refused = Failure::Number { element: to.clone() };
        held(&to, number).map(Other::Scalar).ok_or(refused)
    };
    let (x, y) = (as_held(x)?, as_held(y)?);
    let value = |other: &Other, row: usize, column: usize| match other {
        Other::Scalar(value) => Some(*value),
        Other::Row(values) => values[column],
        Other::Column(values) => values[row],
        other => panic!("no test chooses from {other:?}"),
    };
    let is_null_row = |other: &Other, row: usize| match other {
        Other::Column(values) => values[row].is_none(),
        _ => false,
    };
    let chosen = |row: usize, own: &Vec<Option<Number>>| {
        let other = |flag: &Number| {
            let is_zero = match flag {
                Number::Float(v) => *v == 0.0,
                whole => whole.to_i128() == 0,
            };
            if is_zero { &y } else { &x }
        };
        // What lies under a null of the condition may be anything.
        let others: Vec<Option<&Other>> = own.iter().map(|v| v.as_ref().map(other)).collect();
        let is_gone = match own.len() {
            0 => is_null_row(&x, row) && is_null_row(&y, row),
            _ => others.iter().all(|o| o.is_some_and(|other| is_null_row(other, row))),
        };
        let values = others.iter().enumerate().map(|(c, o)| o.and_then(|o| value(o, row, c)));
        (!is_gone).then(|| values.collect())
    };
    let rows = condition.rows.iter().enumerate();
    let rows = rows.map(|(row, own)| own.as_ref().and_then(|own| chosen(row, own))).collect();
    Ok(Outcome::of_table(&Table { element: to, width: condition.width, rows }))
}

/// Null in place of each NaN.
pub fn nan_to_null(x: &Table) -> Answer {
    let one = |v: &Option<Number>| v.filter(|v| !v.is_nan());
    let rows = x.rows.iter().map(|row| row.as_ref().map(|row| row.iter().map(one).collect()));
    let rows = rows.collect();
    Ok(Outcome::of_table(&Table { element: x.element.clone(), width: x.width, rows }))
}
