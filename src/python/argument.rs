//! From Python objects to the values that functions take.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::errors::Kind;
use super::import::Imported;
use super::matrix::PyMatrix;
use super::numpy::{self, Seen};
use super::once::intern;
use super::origin::{NumPy, Origin, PyArrow};
use super::{pandas, vector};
use crate::compute::registry::{Argument, ArgumentKind};
use crate::compute::{Function, Value};
use crate::error::Error;
use crate::matrix::Matrix;

/// An argument, and whose object it was.
pub(super) struct Taken<'py> {
    pub(super) value: Value,
    pub(super) origin: Origin<'py>,
}

/// Takes an argument of a function. Only the first may be reshaped to rows of `width`.
pub(super) fn take<'py>(
    entry: &Function,
    argument: &Argument,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
) -> PyResult<Taken<'py>> {
    let function = entry.name;
    let may_be_listed = match argument.kind {
        ArgumentKind::Matrix | ArgumentKind::Rows | ArgumentKind::Number => false,
        ArgumentKind::Operand
        | ArgumentKind::Row
        | ArgumentKind::Vectors
        | ArgumentKind::Weights
        | ArgumentKind::Queries => true,
    };
    let mut values = None;
    if may_be_listed {
        if let Some(listed) = vector::of_list(function, argument.name, object)? {
            return Ok(Taken { value: Value::Matrix(listed), origin: Origin::Other });
        }
        values = vector::of_scalar(function, argument.name, object)?;
    }
    let object = values.as_ref().unwrap_or(object);
    if may_be_number(entry, argument)
        && let Some(value) = number(function, argument.name, object)?
    {
        return Ok(Taken { value, origin: Origin::Other });
    }
    let (seen, origin) = view(function, argument, object, width)?;
    taken(function, argument, object, width, seen, origin)
}

/// Whether an argument may be one number.
fn may_be_number(entry: &Function, argument: &Argument) -> bool {
    match argument.kind {
        ArgumentKind::Operand | ArgumentKind::Number | ArgumentKind::Row => true,
        // `1 - x`: what stands before an operand may be one.
        ArgumentKind::Matrix => entry.arguments.iter().any(|a| a.kind == ArgumentKind::Operand),
        ArgumentKind::Rows
        | ArgumentKind::Vectors
        | ArgumentKind::Weights
        | ArgumentKind::Queries => false,
    }
}

/// [Takes](take) the first argument of a function, unless it is read batch by batch.
pub(super) fn take_unless_stream<'py>(
    entry: &Function,
    argument: &Argument,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
) -> PyResult<Option<Taken<'py>>> {
    let function = entry.name;
    if may_be_number(entry, argument)
        && let Some(value) = number(function, argument.name, object)?
    {
        return Ok(Some(Taken { value, origin: Origin::Other }));
    }
    let (seen, origin) = match matrix(function, object, width)? {
        Some(seen) => (seen, Origin::Other),
        None => {
            let origin = Origin::of(object)?;
            if matches!(origin, Origin::Other) && is_stream(object)? {
                return Ok(None);
            }
            view_as(function, argument, object, width, origin)?
        }
    };
    taken(function, argument, object, width, seen, origin).map(Some)
}

/// Libraries whose readers, datasets and queries `raptors_arrow.sources` reads batch by batch. The
/// streams of others are checked as they are read here, whole.
const STREAMING: [&str; 7] =
    ["pyarrow", "polars", "duckdb", "_duckdb", "arro3", "nanoarrow", "datafusion"];

/// Whether an object of none of the known classes is read batch by batch: a reader, a dataset, a
/// query. What lies in memory knows its length.
fn is_stream(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let module = object.get_type().module()?;
    let module = module.to_cow()?;
    if !STREAMING.contains(&module.split('.').next().unwrap_or("")) {
        return Ok(false);
    }
    if object.hasattr(intern!(py, "fetch_record_batch"))? {
        return Ok(true); // a relation of DuckDB, which counts its rows by a query
    }
    if object.hasattr(intern!(py, "__arrow_c_array__"))?
        || object.hasattr(intern!(py, "__len__"))?
    {
        return Ok(false);
    }
    for method in ["__arrow_c_stream__", "collect_batches", "count_rows"] {
        if object.hasattr(method)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The value of what was seen.
fn taken<'py>(
    function: &'static str,
    argument: &Argument,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
    seen: Seen,
    mut origin: Origin<'py>,
) -> PyResult<Taken<'py>> {
    let value = match seen {
        // A width that was asked for makes rows, also of one element: no longer the type of x.
        Seen::Matrix(matrix)
            if width.is_some() && argument.kind == ArgumentKind::Rows && matrix.is_vector() =>
        {
            if let Origin::PyArrowArray(object) = &mut origin {
                *object = object.py().None().into_bound(object.py());
            }
            Value::Matrix(matrix.into_lists().map_err(|error| error.in_function(function))?)
        }
        Seen::Matrix(matrix) => Value::Matrix(matrix),
        Seen::Ragged(lists) => Value::Ragged(lists),
        Seen::Number => {
            let item = object.call_method0(intern!(object.py(), "item"))?;
            plain(function, argument.name, &item)?
        }
    };
    Ok(Taken { value, origin })
}

/// Takes an object whose rows may be of any lengths, which are vectors.
pub(super) fn take_rows<'py>(
    function: &'static str,
    x: &Argument,
    object: &Bound<'py, PyAny>,
) -> PyResult<(Value, Origin<'py>)> {
    match view(function, x, object, None)? {
        (Seen::Ragged(lists), origin) => Ok((Value::Ragged(lists), origin)),
        (Seen::Matrix(matrix), origin) if !matrix.is_vector() => {
            Ok((Value::Matrix(matrix), origin))
        }
        _ => {
            let expected = "a column of lists";
            let got = "plain numbers".to_owned();
            Err(Error::Argument { argument: x.name, expected, got }.in_function(function).into())
        }
    }
}

/// Takes the weights of a batch.
pub(super) fn take_weights(entry: &Function, object: &Bound<'_, PyAny>) -> PyResult<Matrix> {
    let weights =
        Argument { name: "weights", kind: ArgumentKind::Weights, doc: "", optional: true };
    let taken = take(entry, &weights, object, None)?;
    let got = taken.value.describe();
    taken.value.into_matrix().map_err(|_| {
        let (argument, expected) = ("weights", "a number for each row, or each element");
        Error::Argument { argument, expected, got }.in_function(entry.name).into()
    })
}

/// Takes an object that has to be a matrix.
pub(super) fn take_matrix<'py>(
    function: &'static str,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
) -> PyResult<(Matrix, Origin<'py>)> {
    let x = Argument { name: "x", kind: ArgumentKind::Matrix, doc: "", optional: false };
    match view(function, &x, object, width)? {
        (Seen::Matrix(matrix), origin) => Ok((matrix, origin)),
        (Seen::Ragged(lists), _) => Err(lists.odd_row(None).in_function(function).into()),
        (Seen::Number, _) => {
            let message = "expected an array of 1 or 2 dimensions, got 0";
            Err(Kind::Value.error(format!("{function}: {message}")))
        }
    }
}

const ARRAYS: &str = "a NumPy array, a pandas object or one with __arrow_c_array__ or \
     __arrow_c_stream__ (pyarrow, polars, arro3, ...)";

fn view<'py>(
    function: &'static str,
    argument: &Argument,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
) -> PyResult<(Seen, Origin<'py>)> {
    match matrix(function, object, width)? {
        Some(seen) => Ok((seen, Origin::Other)),
        None => view_as(function, argument, object, width, Origin::of(object)?),
    }
}

/// The matrix that an object is, if it is one of ours.
fn matrix(
    function: &'static str,
    object: &Bound<'_, PyAny>,
    width: Option<usize>,
) -> PyResult<Option<Seen>> {
    let Ok(matrix) = object.cast::<PyMatrix>() else { return Ok(None) };
    let matrix = matrix.get().viewed(width).map_err(|error| error.in_function(function))?;
    Ok(Some(Seen::Matrix(matrix)))
}

fn view_as<'py>(
    function: &'static str,
    argument: &Argument,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
    origin: Origin<'py>,
) -> PyResult<(Seen, Origin<'py>)> {
    if let Origin::NumPy | Origin::Masked = origin {
        let mask = match origin {
            Origin::Masked => Some(numpy::NumpyMask::of(function, object)?),
            _ => None,
        };
        return Ok((numpy::seen(function, object, mask, width)?, origin));
    }
    if let Origin::PandasSeries(series) = &origin {
        return Ok((pandas::column_seen(function, argument.name, series, width)?, origin));
    }
    if let Origin::PandasFrame(frame) = &origin {
        return Ok((pandas::frame_seen(function, argument.name, frame, width)?, origin));
    }
    let is_table = match &origin {
        Origin::Other => None,
        known => Some(known.is_table()),
    };
    let imported = match &origin {
        Origin::PyArrowArray(x) => Imported::from_pyarrow(function, x)?,
        _ => Imported::from_object(function, object)?,
    };
    if let Some(imported) = imported {
        let seen = imported.into_seen(object.py(), is_table, width);
        return Ok((seen.map_err(|error| error.in_function(function))?, origin));
    }
    if has_buffer(object) {
        return Ok((numpy::seen(function, object, None, width)?, origin));
    }
    let what = match argument.kind {
        ArgumentKind::Number => "a number",
        ArgumentKind::Matrix
        | ArgumentKind::Rows
        | ArgumentKind::Row
        | ArgumentKind::Vectors
        | ArgumentKind::Weights
        | ArgumentKind::Queries => ARRAYS,
        ArgumentKind::Operand => {
            "a number, or a NumPy array, a pandas object or one with __arrow_c_array__ \
             or __arrow_c_stream__ (pyarrow, polars, arro3, ...)"
        }
    };
    let (name, got) = (argument.name, object.get_type().fully_qualified_name()?);
    Err(Kind::Type.error(format!("{function}: expected {name} to be {what}, got {got}")))
}

#[allow(unsafe_code)]
fn has_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive, and its type is only asked.
    unsafe { pyo3::ffi::PyObject_CheckBuffer(object.as_ptr()) != 0 }
}

/// The number that an object is, if it is one: int, float, or a scalar of NumPy or pyarrow.
pub(super) fn number(
    function: &'static str,
    name: &'static str,
    object: &Bound<'_, PyAny>,
) -> PyResult<Option<Value>> {
    let py = object.py();
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Some(Value::Number(float.value())));
    }
    let refused = |got: &Bound<'_, PyAny>| -> PyErr {
        let got = got.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string());
        let expected = "a number or an array";
        Error::Argument { argument: name, expected, got }.in_function(function).into()
    };
    if let Ok(int) = object.cast::<PyInt>() {
        if int.is_instance_of::<PyBool>() {
            return Err(refused(object));
        }
        // What is past 128 bits fits no integer column, but may fit a float one.
        let value = int.extract().map(Value::Integer);
        let value = value.or_else(|_| int.extract().map(Value::Number));
        return value.map(Some).map_err(|_| {
            Kind::Overflow.error(format!("{function}: {name} is too large for a float64"))
        });
    }
    if let Some(numpy) = NumPy::loaded(py)
        && object.is_instance(numpy.generic.bind(py))?
    {
        let item = object.call_method0(intern!(py, "item"))?;
        if item.is_instance(numpy.generic.bind(py))? {
            return Err(refused(object));
        }
        return plain(function, name, &item).map(Some);
    }
    if let Some(pyarrow) = PyArrow::loaded(py)
        && object.is_instance(pyarrow.scalar.bind(py))?
    {
        let item = object.call_method0(intern!(py, "as_py"))?;
        if item.is_none() {
            return Err(Error::NullScalar { what: name }.in_function(function).into());
        }
        // Older pyarrow gives NumPy's own for float16.
        let is_half = NumPy::loaded(py)
            .is_some_and(|numpy| item.is_instance(numpy.generic.bind(py)).unwrap_or(false));
        let item = if is_half { item.call_method0(intern!(py, "item"))? } else { item };
        return plain(function, name, &item).map(Some);
    }
    Ok(None)
}

/// The number that a Python int or float is; anything else is refused.
fn plain(function: &'static str, name: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let is_plain = object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>();
    match number(function, name, object) {
        Ok(Some(number)) if is_plain => Ok(number),
        Err(error) if is_plain => Err(error),
        _ => {
            let got = object.get_type().name()?.to_string();
            let expected = "a number";
            Err(Error::Argument { argument: name, expected, got }.in_function(function).into())
        }
    }
}
