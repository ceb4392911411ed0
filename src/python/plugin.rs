//! What Python tells the polars plugin of a call.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{argument, option};
use crate::compute::get_function;
use crate::engine::polars::request::{Given, Request};
use crate::engine::polars::symbols;

/// Bytes of an operand that an expression carries with it: polars copies and hashes it with the
/// plan, and the plugin reads it again for every morsel.
const MOST_BYTES: usize = 1 << 20;

/// Adds the function to the module, but not to its ``__all__``.
pub(super) fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.setattr("_polars_call", wrap_pyfunction!(polars_call, m)?)
}

/// What the polars plugin is told of a call, as its keyword argument ``call``.
///
/// Parameters
/// ----------
/// name
///     One of ``list_functions()``.
/// args
///     The arguments behind the first; ``None`` for one that is a column.
/// options
///     The options by name.
/// serial
///     Whether a call keeps to the thread that polars makes it on.
///
/// Returns
/// -------
/// str or None
///     ``None`` for what the plugin cannot do: functions whose result is no column, and operands
///     that have nulls or are larger than 1 MiB.
///
/// Examples
/// --------
/// >>> from raptors_arrow._native import _polars_call
/// >>> _polars_call("scale", [2], {}, True)
/// '{"arguments":[{"integer":"2"}],"options":{},"serial":true}'
#[pyfunction]
#[pyo3(name = "_polars_call", signature = (name, args, options, serial))]
fn polars_call(
    name: &str,
    args: Vec<Bound<'_, PyAny>>,
    options: &Bound<'_, PyDict>,
    serial: bool,
) -> PyResult<Option<String>> {
    let function = get_function(name)?;
    if !symbols::NAMES.contains(&function.name) || args.len() >= function.arguments.len().max(1) {
        return Ok(None);
    }
    let given = args.iter().zip(&function.arguments[1..]).map(|(object, argument)| {
        if object.is_none() {
            return Ok(Given::Column);
        }
        Ok(Given::Value(argument::take(function, argument, object, None)?.value))
    });
    let arguments = given.collect::<PyResult<_>>()?;
    let options = option::named(function, Some(options))?;
    let request = Request { is_serial: serial, options, arguments };
    Ok(request.to_json(MOST_BYTES).map_err(|error| error.in_function(function.name))?)
}
