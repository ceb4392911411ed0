//! From Python objects to the values that functions take.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::errors::Kind;
use super::import::Imported;
use super::matrix::PyMatrix;
use super::numpy::{self, Seen};
use super::origin::{NumPy, Origin, PyArrow};
use crate::compute::registry::{Argument, ArgumentKind};
use crate::compute::{OptionKind, OptionValue, Value};
use crate::error::Error;
use crate::matrix::Matrix;

/// An argument, and whose object it was.
pub(super) struct Taken<'py> {
    pub(super) value: Value,
    pub(super) origin: Origin<'py>,
}

/// Takes an argument of a function. Only the first may be reshaped to rows of `width`.
pub(super) fn take<'py>(
    function: &'static str,
    argument: &Argument,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
) -> PyResult<Taken<'py>> {
    let is_matrix = argument.kind == ArgumentKind::Matrix;
    if !is_matrix && let Some(number) = number(function, argument, object)? {
        return Ok(Taken { value: Value::Number(number), origin: Origin::Other });
    }
    let (seen, origin) = view(function, argument, object, width)?;
    let value = match seen {
        Seen::Matrix(matrix) => Value::Matrix(matrix),
        Seen::Number => {
            Value::Number(object.call_method0(intern!(object.py(), "item"))?.extract()?)
        }
    };
    Ok(Taken { value, origin })
}

/// Takes an object that has to be a matrix.
pub(super) fn take_matrix<'py>(
    function: &'static str,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
) -> PyResult<(Matrix, Origin<'py>)> {
    let x = Argument { name: "x", kind: ArgumentKind::Matrix, doc: "" };
    match view(function, &x, object, width)? {
        (Seen::Matrix(matrix), origin) => Ok((matrix, origin)),
        (Seen::Number, _) => {
            let message = "expected an array of 1 or 2 dimensions, got 0";
            Err(Kind::Value.error(format!("{function}: {message}")))
        }
    }
}

const ARRAYS: &str = "a NumPy array or an object with __arrow_c_array__ or __arrow_c_stream__ \
     (pyarrow, polars, arro3, ...)";

fn view<'py>(
    function: &'static str,
    argument: &Argument,
    object: &Bound<'py, PyAny>,
    width: Option<usize>,
) -> PyResult<(Seen, Origin<'py>)> {
    if let Ok(matrix) = object.cast::<PyMatrix>() {
        let matrix = matrix.get().viewed(width).map_err(|error| error.in_function(function))?;
        return Ok((Seen::Matrix(matrix), Origin::Other));
    }
    let origin = Origin::of(object)?;
    if let Origin::NumPy = origin {
        return Ok((numpy::seen(function, object, width)?, origin));
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
        let matrix = imported.into_matrix(is_table, width);
        let matrix = matrix.map_err(|error| error.in_function(function))?;
        return Ok((Seen::Matrix(matrix), origin));
    }
    if has_buffer(object) {
        return Ok((numpy::seen(function, object, width)?, origin));
    }
    let what = match argument.kind {
        ArgumentKind::Number => "a number",
        ArgumentKind::Matrix | ArgumentKind::Row => ARRAYS,
        ArgumentKind::Operand => {
            "a number, or a NumPy array or an object with __arrow_c_array__ \
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
fn number(
    function: &'static str,
    argument: &Argument,
    object: &Bound<'_, PyAny>,
) -> PyResult<Option<f64>> {
    let py = object.py();
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Some(float.value()));
    }
    let refused = |got: &Bound<'_, PyAny>| -> PyErr {
        let got = got.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string());
        let (argument, expected) = (argument.name, "a number or an array");
        Error::Argument { function, argument, expected, got }.into()
    };
    if let Ok(int) = object.cast::<PyInt>() {
        if int.is_instance_of::<PyBool>() {
            return Err(refused(object));
        }
        return int.extract().map(Some).map_err(|_| {
            let name = argument.name;
            Kind::Overflow.error(format!("{function}: {name} is too large for a float64"))
        });
    }
    if let Some(numpy) = NumPy::loaded(py)
        && object.is_instance(numpy.generic.bind(py))?
    {
        let plain = object.call_method0(intern!(py, "item"))?;
        if plain.is_instance(numpy.generic.bind(py))? {
            return Err(refused(object));
        }
        return plain_number(function, argument, &plain).map(Some);
    }
    if let Some(pyarrow) = PyArrow::loaded(py)
        && object.is_instance(pyarrow.scalar.bind(py))?
    {
        let plain = object.call_method0(intern!(py, "as_py"))?;
        if plain.is_none() {
            return Err(Error::NullScalar { function, what: argument.name }.into());
        }
        return plain_number(function, argument, &plain).map(Some);
    }
    Ok(None)
}

fn plain_number(
    function: &'static str,
    argument: &Argument,
    plain: &Bound<'_, PyAny>,
) -> PyResult<f64> {
    let is_plain = plain.is_instance_of::<PyFloat>() || plain.is_instance_of::<PyInt>();
    match number(function, argument, plain) {
        Ok(Some(number)) if is_plain => Ok(number),
        Err(error) if is_plain => Err(error),
        _ => {
            let got = plain.get_type().name()?.to_string();
            let (argument, expected) = (argument.name, "a number");
            Err(Error::Argument { function, argument, expected, got }.into())
        }
    }
}

/// The value of an option.
pub(super) fn option(
    function: &'static str,
    name: &'static str,
    kind: OptionKind,
    object: &Bound<'_, PyAny>,
) -> PyResult<OptionValue> {
    let whole = || {
        let is_bool = object.is_instance_of::<PyBool>();
        (!is_bool).then(|| object.extract::<i64>().ok()).flatten().map(OptionValue::Count)
    };
    let value = match kind {
        OptionKind::Axis if object.is_none() => Some(OptionValue::None),
        OptionKind::Axis | OptionKind::Count(_) => whole(),
        OptionKind::Flag(_) => object.extract::<bool>().ok().map(OptionValue::Flag),
    };
    value.ok_or_else(|| {
        let got = object.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string());
        let wrong = Error::OptionValue { function, option: name, expected: kind.expected(), got };
        Kind::Type.error(wrong.to_string())
    })
}

/// The `width` to reshape to, or none.
pub(super) fn width(function: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if object.is_none() {
        return Ok(None);
    }
    match option(function, "width", OptionKind::Count(0), object)? {
        OptionValue::Count(n) if n >= 0 => Ok(usize::try_from(n).ok()),
        other => {
            let (expected, got) = ("a whole number from 0 on", other.to_string());
            Err(Error::OptionValue { function, option: "width", expected, got }.into())
        }
    }
}
