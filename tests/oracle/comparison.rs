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

/// Null in place of each NaN.
pub fn nan_to_null(x: &Table) -> Answer {
    let one = |v: &Option<Number>| v.filter(|v| !v.is_nan());
    let rows = x.rows.iter().map(|row| row.as_ref().map(|row| row.iter().map(one).collect()));
    let rows = rows.collect();
    Ok(Outcome::of_table(&Table { element: x.element.clone(), width: x.width, rows }))
}
