//! Functions of lists that differ in length: those that need only the row itself.
//!
//! ```text
//! element by element, with a number, one value per row or lists as long; all elements at once:
//!     the elements, one behind the other, are a vector: the function of it, in lists again
//! row by row:
//!     for each length: the rows of it are a matrix: the function of it, back to their rows
//! what lines up columns: the error names the first row that is longer or shorter than the first
//! ```
//!
//! A row's result is made from that row alone, so it has the same bits whatever rows are beside it.

use super::call::Pass;
use super::options::Checked;
use super::registry::{Driver, Function};
use super::{Options, Per, Value};
use crate::error::{Error, Result};
use crate::matrix::{Matrix, Ragged};

/// How a function sees such rows.
enum Way {
    Elements,
    Rows,
}

/// Which argument is of such rows, if one is: the first.
pub(super) fn first(arguments: &[Value]) -> Option<usize> {
    arguments.iter().position(|value| value.as_ragged().is_some())
}

/// The rows of such an argument.
fn lists(at: usize, arguments: &[Value]) -> Result<&Ragged> {
    let lists = arguments.get(at).and_then(Value::as_ragged);
    lists.ok_or(Error::Arguments { expected: at + 1, got: arguments.len() })
}

/// The way of a call, or the error that names the first odd row.
fn way(
    function: &'static Function,
    at: usize,
    arguments: &[Value],
    options: &Options,
) -> Result<Way> {
    let x = lists(at, arguments)?;
    let checked = Checked::new(function.options, options)?;
    let per = function.axis.unwrap_or_else(|| checked.per());
    match function.driver {
        Driver::Elementwise(_) if checked.has_bounds_by_column() => Err(x.odd_row(None)),
        Driver::Elementwise(_) | Driver::Choice(_) | Driver::Where => {
            let is_one_per_row = |y: &Matrix| y.width() == 1 && y.rows() == x.rows();
            for other in arguments {
                match other {
                    Value::Number(_) | Value::Integer(_) | Value::Scalar(_) => {}
                    Value::Ragged(other) => other.same_lengths(x)?,
                    y if y.is_vector() && checked.axis() == Some(0) => {}
                    Value::Matrix(y) if !y.is_vector() && is_one_per_row(y) => {}
                    _ => return Err(x.odd_row(None)),
                }
            }
            Ok(Way::Elements)
        }
        _ if at > 0 => Err(x.odd_row(None)),
        // Weights line up with columns.
        Driver::Statistic(_) if arguments.len() > 1 => Err(x.odd_row(None)),
        Driver::Statistic(_) | Driver::Quantile | Driver::Transform(_) | Driver::Cumsum => {
            match per {
                Per::Row => Ok(Way::Rows),
                Per::Matrix => Ok(Way::Elements),
                Per::Column => Err(x.odd_row(None)),
            }
        }
        Driver::Pairs(_) => Err(x.odd_row(arguments.get(1).and_then(|y| match y {
            Value::Matrix(y) if !y.is_vector() => Some(y.width()),
            Value::Ragged(_) => None,
            vector => Some(vector.len()),
        }))),
        _ => Err(x.odd_row(None)),
    }
}

/// The arguments of a call on all elements.
fn elements(x: &Ragged, arguments: &[Value]) -> Result<Vec<Value>> {
    let of = |value: &Value| {
        Ok(match value {
            Value::Ragged(lists) => Value::Matrix(lists.flat()?),
            Value::Matrix(y) => Value::Matrix(x.repeated(y)?),
            Value::Vector(y) => Value::Matrix(x.repeated(&Matrix::reshape(y, 1)?)?),
            number => number.clone(),
        })
    };
    arguments.iter().map(of).collect()
}

/// Calls a function of such rows, which the argument `at` has.
pub(super) fn call(
    function: &'static Function,
    at: usize,
    arguments: &[Value],
    options: &Options,
) -> Result<Value> {
    let x = lists(at, arguments)?;
    match way(function, at, arguments, options)? {
        Way::Elements => {
            let values = elements(x, arguments)?;
            let result = function
                .call_here(&values, options)
                .map_err(|error| renumbered(error, |element| x.row_of(element)))?;
            match result {
                Value::Matrix(computed) => Ok(Value::Ragged(x.with_elements(&computed)?)),
                number => Ok(number),
            }
        }
        Way::Rows => {
            let (mut numbers, mut matrices) = (Vec::new(), Vec::new());
            for (rows, indices) in x.by_length()? {
                let result = function
                    .call_here(&[Value::Matrix(rows)], options)
                    .map_err(|error| renumbered(error, |row| indices[row]))?;
                match result {
                    Value::Vector(array) => numbers.push((array, indices)),
                    other => matrices.push((other.into_matrix()?, indices)),
                }
            }
            let element = function.result_element(x.element_type(), options)?;
            if matches!(function.driver, Driver::Statistic(_) | Driver::Quantile) {
                Ok(Value::Vector(x.numbers(&element, &numbers)?))
            } else {
                Ok(Value::Ragged(x.rows_from(&element, &matrices)?))
            }
        }
    }
}

/// The passes of such a call.
pub(super) fn explain(
    function: &'static Function,
    at: usize,
    arguments: &[Value],
    options: &Options,
) -> Result<Vec<Pass>> {
    let x = lists(at, arguments)?;
    match way(function, at, arguments, options)? {
        Way::Elements => function.explain_here(&elements(x, arguments)?, options),
        Way::Rows => {
            let mut passes = Vec::new();
            for (rows, _) in x.by_length()? {
                passes.extend(function.explain_here(&[Value::Matrix(rows)], options)?);
            }
            Ok(passes)
        }
    }
}

/// The error, said of the row that the caller knows.
fn renumbered(error: Error, row_of: impl Fn(usize) -> usize) -> Error {
    match error {
        Error::Overflow { what: "row", index, into } => {
            Error::Overflow { what: "row", index: row_of(index), into }
        }
        Error::Cast { row, into } => Error::Cast { row: row_of(row), into },
        Error::DivisionByZero { row } => Error::DivisionByZero { row: row_of(row) },
        other => other,
    }
}
