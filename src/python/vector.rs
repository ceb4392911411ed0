//! One vector as people have it at hand: a list or tuple of numbers, or a row of a pyarrow column.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::argument::number;
use super::errors::Kind;
use super::once::intern;
use super::origin::PyArrow;
use crate::buffer::{collected, vec_with_capacity};
use crate::compute::Value;
use crate::error::Error;
use crate::matrix::{Matrix, from_bits};
use crate::memory;

/// Elements that are read before Ctrl-C is heard.
const AT_ONCE: usize = 1 << 16;

/// The numbers of a list or tuple as a vector: whole numbers as int64 if all of them are and fit,
/// else float64; `None` is null. Anything that is no list is none of it.
pub(super) fn of_list(
    function: &'static str,
    name: &'static str,
    object: &Bound<'_, PyAny>,
) -> PyResult<Option<Matrix>> {
    if !object.is_instance_of::<PyList>() && !object.is_instance_of::<PyTuple>() {
        return Ok(None);
    }
    let mut numbers = vec_with_capacity(object.len()?).map_err(|e| e.in_function(function))?;
    for (i, item) in object.try_iter()?.enumerate() {
        if i % AT_ONCE == AT_ONCE - 1 {
            object.py().check_signals()?;
        }
        let item = item?;
        let value = if item.is_none() { None } else { Some(one(function, name, i, &item)?) };
        if numbers.len() == numbers.capacity() {
            // Another thread has made the list longer.
            break;
        }
        memory::push(&mut numbers, value);
    }
    let whole = |value: &Option<Value>| match value {
        None => Some(None),
        Some(Value::Integer(n)) => i64::try_from(*n).ok().map(Some),
        Some(_) => None,
    };
    let float = |value: &Option<Value>| match value {
        Some(Value::Number(n)) => Some(*n),
        Some(Value::Integer(n)) => Some(*n as f64),
        _ => None,
    };
    let nulls = numbers.iter().any(Option::is_none);
    let array = || -> crate::Result<ArrayRef> {
        let nulls = match nulls {
            true => Some(from_bits(numbers.len(), |i| numbers[i].is_some())?),
            false => None,
        };
        Ok(if numbers.iter().all(|value| whole(value).is_some()) {
            let values = collected(numbers.iter().map(|n| whole(n).flatten().unwrap_or(0)))?;
            Arc::new(Int64Array::new(values.into(), nulls))
        } else {
            let values = collected(numbers.iter().map(|n| float(n).unwrap_or(0.0)))?;
            Arc::new(Float64Array::new(values.into(), nulls))
        })
    };
    let vector = array().and_then(|array| Matrix::reshape(&array, 1));
    Ok(Some(vector.map_err(|error| error.in_function(function))?))
}

fn one(
    function: &'static str,
    name: &'static str,
    i: usize,
    item: &Bound<'_, PyAny>,
) -> PyResult<Value> {
    let got = || item.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    number(function, name, item)?.ok_or_else(|| {
        Kind::Type.error(format!(
            "{function}: expected {name} to be one vector, a list of numbers, got {} as its \
             element {i}; rows of vectors are a NumPy array or a pyarrow or polars column",
            got()
        ))
    })
}

/// The elements of a list scalar of pyarrow, such as `emb[0]`, as its array; none of anything else.
pub(super) fn of_scalar<'py>(
    function: &'static str,
    name: &'static str,
    object: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let Some(pyarrow) = PyArrow::loaded(py) else { return Ok(None) };
    if !object.is_instance(pyarrow.scalar.bind(py))? {
        return Ok(None);
    }
    let Some(values) = object.getattr_opt(intern!(py, "values"))? else { return Ok(None) };
    if values.is_none() {
        return Err(Error::NullScalar { what: name }.in_function(function).into());
    }
    Ok(Some(values))
}
