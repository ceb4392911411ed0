//! Rows brought to a width.

use pyo3::prelude::*;

use super::argument;
use super::errors::{detached, guarded};
use super::export::{self, Source};
use super::option;
use crate::compute::registry::{self, Argument, ArgumentKind};
use crate::compute::{OptionKind, OptionSpec, OptionValue, Value};
use crate::error::Error;
use crate::matrix::{Filling, Ragged};

const X: Argument = Argument { name: "x", kind: ArgumentKind::Rows, doc: "", optional: false };

/// Adds what `raptors_arrow.shape` calls, and nobody else should.
pub(super) fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.setattr("_pad", wrap_pyfunction!(pad, m)?)?;
    m.setattr("_truncate", wrap_pyfunction!(truncate, m)?)
}

/// The width that was asked for.
fn asked(function: &'static str, width: &Bound<'_, PyAny>) -> PyResult<usize> {
    match option::width(function, width)? {
        Some(width) => Ok(width),
        None => {
            let expected = OptionKind::Count(0).expected();
            let (option, got) = ("width", "None".to_owned());
            Err(Error::OptionValue { option, expected, got }.in_function(function).into())
        }
    }
}

/// Rows of a width, filled up behind their last element.
#[pyfunction]
#[pyo3(name = "_pad")]
fn pad<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    width: &Bound<'py, PyAny>,
    fill: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    const NAME: &str = "pad";
    const FILL: OptionSpec =
        OptionSpec { name: "fill", kind: OptionKind::Fill, doc: "", positional: false };
    guarded(NAME, || {
        let width = asked(NAME, width)?;
        let fill = match option::take(NAME, &FILL, fill)? {
            OptionValue::Count(n) => Filling::Integer(n.into()),
            OptionValue::Number(n) => Filling::Number(n),
            _ => Filling::Null,
        };
        let (value, origin) = argument::take_rows(NAME, &X, x)?;
        let padded = match &value {
            Value::Matrix(matrix) if matrix.width() == width => Ok(matrix.clone()),
            Value::Matrix(matrix) => {
                detached(py, || Ragged::from_matrix(matrix)?.padded(width, fill))
            }
            Value::Ragged(lists) => detached(py, || lists.padded(width, fill)),
            _ => Err(Error::Arguments { expected: 1, got: 0 }),
        };
        let padded = padded.map_err(|error| error.in_function(NAME))?;
        given(py, origin, Value::Matrix(padded))
    })
}

/// At most so many elements of each row.
#[pyfunction]
#[pyo3(name = "_truncate")]
fn truncate<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    width: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    const NAME: &str = "truncate";
    guarded(NAME, || {
        let width = asked(NAME, width)?;
        let (value, origin) = argument::take_rows(NAME, &X, x)?;
        let cut = match value {
            Value::Matrix(matrix) if matrix.width() > width => detached(py, || {
                Ragged::from_matrix(&matrix)?.truncated(width)?.padded(width, Filling::Null)
            })
            .map(Value::Matrix),
            Value::Ragged(lists) => detached(py, || lists.truncated(width)).map(Value::Ragged),
            own => Ok(own),
        };
        given(py, origin, cut.map_err(|error| error.in_function(NAME))?)
    })
}

fn given<'py>(
    py: Python<'py>,
    origin: super::origin::Origin<'py>,
    rows: Value,
) -> PyResult<Bound<'py, PyAny>> {
    // As a cast gives rows back: of the kind that came in.
    let function = registry::get_function("cast")?;
    let source = Source { function, origin, x: None, lists: None, is_per_row: true };
    export::give(py, &source, rows)
}
