//! From Python objects to the values of options.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::argument::number;
use super::errors::Kind;
use super::once::intern;
use super::origin::{NumPy, Polars, PyArrow};
use crate::compute::{Function, OptionKind, OptionSpec, OptionValue, Options, Value};
use crate::error::Error;

/// The value of an option.
pub(super) fn take(
    function: &'static str,
    spec: &OptionSpec,
    object: &Bound<'_, PyAny>,
) -> PyResult<OptionValue> {
    let value = match spec.kind {
        OptionKind::Axis(_) | OptionKind::Bound | OptionKind::Fill | OptionKind::OptionalType
            if object.is_none() =>
        {
            Some(OptionValue::None)
        }
        OptionKind::Axis(_) | OptionKind::Along(_) => whole(object).map(|axis| match axis {
            OptionValue::Count(-1) => OptionValue::Count(1),
            other => other,
        }),
        OptionKind::Count(_) => whole(object),
        OptionKind::Flag(_) => object.extract().ok().map(OptionValue::Flag),
        OptionKind::Choice(_) => text(object),
        OptionKind::Order => match text(object) {
            Some(word) => Some(word),
            None => bound(function, spec.name, object)?,
        },
        OptionKind::Bound => match several(object)? {
            Some(all) => bounds(function, spec.name, &all)?,
            None => bound(function, spec.name, object)?,
        },
        OptionKind::Fill | OptionKind::Fraction => bound(function, spec.name, object)?,
        OptionKind::Type | OptionKind::OptionalType => type_name(object)?.map(OptionValue::Text),
    };
    value.ok_or_else(|| {
        let wrong = refused(function, spec.name, spec.kind.expected(), object);
        Kind::Type.error(wrong.to_string())
    })
}

/// The `width` to reshape to, or none.
pub(super) fn width(function: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    const WIDTH: OptionSpec =
        OptionSpec { name: "width", kind: OptionKind::Count(0), doc: "", positional: false };
    if object.is_none() {
        return Ok(None);
    }
    match take(function, &WIDTH, object)? {
        OptionValue::Count(n) if n >= 0 => Ok(usize::try_from(n).ok()),
        other => {
            let (expected, got) = (WIDTH.kind.expected(), other.to_string());
            Err(Error::OptionValue { option: "width", expected, got }.in_function(function).into())
        }
    }
}

/// A `str` that was given as `what`.
pub(super) fn word<'a>(
    function: &str,
    what: &str,
    object: &'a Bound<'_, PyAny>,
) -> PyResult<Cow<'a, str>> {
    let Ok(word) = object.cast::<PyString>() else {
        let got = object.get_type().fully_qualified_name()?;
        return Err(Kind::Type.error(format!("{function}: expected {what} to be a str, got {got}")));
    };
    word.to_cow().map_err(|_| {
        let got = repr(object);
        Kind::Value.error(format!("{function}: expected {what} to be valid Unicode, got {got}"))
    })
}

/// A whole number that was given for a parameter; one that 64 bits cannot hold is out of any range.
pub(super) fn count(
    function: &'static str,
    option: &'static str,
    expected: &str,
    object: &Bound<'_, PyAny>,
) -> PyResult<i64> {
    if let Some(OptionValue::Count(n)) = whole(object) {
        return Ok(n);
    }
    let is_int = object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>();
    let kind = if is_int { Kind::Value } else { Kind::Type };
    Err(kind.error(refused(function, option, expected.to_owned(), object).to_string()))
}

/// Options that were given by name.
pub(super) fn named(
    function: &'static Function,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Options> {
    let name = function.name;
    let mut options = Options::new();
    for (key, value) in given.into_iter().flat_map(|given| given.iter()) {
        let key = word(name, "the name of an option", &key)?;
        let Some(spec) = function.options.iter().find(|spec| spec.name == key) else {
            let known = function.options.iter().map(|spec| spec.name).collect();
            let option = key.into_owned();
            return Err(Error::NoSuchOption { option, known }.in_function(name).into());
        };
        options = options.set(spec.name, take(name, spec, &value)?);
    }
    Ok(options)
}

/// The error for an object that is no value of an option.
pub(super) fn refused(
    function: &'static str,
    option: &'static str,
    expected: String,
    object: &Bound<'_, PyAny>,
) -> Error {
    Error::OptionValue { option, expected, got: repr(object) }.in_function(function)
}

/// How Python writes an object; it may refuse.
fn repr(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string())
}

fn text(object: &Bound<'_, PyAny>) -> Option<OptionValue> {
    let text = object.cast::<PyString>().ok()?.to_cow().ok()?;
    Some(OptionValue::Text(text.into_owned()))
}

fn whole(object: &Bound<'_, PyAny>) -> Option<OptionValue> {
    let is_bool = object.is_instance_of::<PyBool>();
    (!is_bool).then(|| object.extract::<i64>().ok()).flatten().map(OptionValue::Count)
}

/// What an array or a list holds; none for what is no such thing.
fn several<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let py = object.py();
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return object.try_iter()?.collect::<PyResult<_>>().map(Some);
    }
    for method in [intern!(py, "to_pylist"), intern!(py, "tolist"), intern!(py, "to_list")] {
        if object.hasattr(method)? {
            let list = object.call_method0(method)?;
            let is_list = list.is_instance_of::<PyList>();
            return if is_list { several(&list) } else { Ok(None) };
        }
    }
    Ok(None)
}

/// A bound for each column; none if one of them is none.
fn bounds(
    function: &'static str,
    name: &'static str,
    all: &[Bound<'_, PyAny>],
) -> PyResult<Option<OptionValue>> {
    let one = |object: &Bound<'_, PyAny>| match object.is_none() {
        true => Ok(Some(OptionValue::None)),
        false => bound(function, name, object),
    };
    let all = all.iter().map(one).collect::<PyResult<Option<Vec<_>>>>()?;
    Ok(all.map(OptionValue::List))
}

/// A number of any library; none for what is no number.
fn bound(
    function: &'static str,
    name: &'static str,
    object: &Bound<'_, PyAny>,
) -> PyResult<Option<OptionValue>> {
    if object.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    Ok(match number(function, name, object)? {
        Some(Value::Number(n)) => Some(OptionValue::Number(n)),
        Some(Value::Integer(n)) => Some(match i64::try_from(n) {
            Ok(n) => OptionValue::Count(n),
            Err(_) if n as f64 as i128 == n => OptionValue::Number(n as f64),
            Err(_) => {
                let message = format!("option {name}: {n} is past 64 bits; pass it as a float");
                return Err(Kind::Overflow.error(format!("{function}: {message}")));
            }
        }),
        _ => None,
    })
}

/// The name of an element type that is given by its name, as a type of pyarrow, NumPy or polars,
/// or as Python's own `float` or `int`.
fn type_name(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let py = object.py();
    if let Ok(name) = object.cast::<PyString>() {
        // "float" is 64 bits wide in NumPy and 32 in pyarrow: it is refused, as is "int".
        return Ok(Some(name.to_string()).filter(|name| name != "float"));
    }
    if object.is(py.get_type::<PyFloat>()) {
        return Ok(Some("float64".to_owned()));
    }
    if object.is(py.get_type::<PyInt>()) {
        return Ok(Some("int64".to_owned()));
    }
    if let Some(pyarrow) = PyArrow::loaded(py)
        && object.is_instance(pyarrow.data_type.bind(py))?
    {
        return Ok(Some(object.str()?.to_string()));
    }
    let class = object.cast::<PyType>().ok();
    if let Some(numpy) = NumPy::loaded(py) {
        let is_scalar = class.map(|class| class.is_subclass(numpy.generic.bind(py))).transpose()?;
        let dtype = numpy.dtype.bind(py);
        let dtype = match is_scalar {
            // NumPy refuses those of its classes that are no type of their own, as np.integer.
            Some(true) => dtype.call1((object,)).ok(),
            _ => object.is_instance(dtype)?.then(|| object.clone()),
        };
        if let Some(dtype) = dtype {
            // What is not in this machine's byte order cannot be made: its repr is refused.
            let is_native = dtype.getattr(intern!(py, "isnative"))?.is_truthy()?;
            let name = if is_native { dtype.getattr(intern!(py, "name"))? } else { dtype };
            return Ok(Some(name.str()?.to_string()));
        }
    }
    if let Some(polars) = Polars::loaded(py) {
        let data_type = polars.data_type.bind(py);
        let is_class = class.map(|class| class.is_subclass(data_type)).transpose()?;
        if is_class == Some(true) || object.is_instance(data_type)? {
            return Ok(Some(object.str()?.to_string().to_lowercase()));
        }
    }
    Ok(None)
}
