//! Results back to Python, as the kind of object that came in, without a copy.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyFloat, PyTuple};
use pyo3_arrow::error::PyArrowError;
use pyo3_arrow::ffi::{
    ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule,
};

use super::errors::Kind;
use super::matrix::PyMatrix;
use super::numpy;
use super::origin::{Origin, Polars, PyArrow};
use crate::compute::Value;
use crate::matrix::Matrix;

/// Gives a result back. `rows` are those of each chunk of the first argument.
pub(super) fn give<'py>(
    py: Python<'py>,
    origin: &Origin<'py>,
    rows: &[usize],
    name: &str,
    result: Value,
) -> PyResult<Bound<'py, PyAny>> {
    match result {
        Value::Number(number) => Ok(PyFloat::new(py, number).into_any()),
        Value::Scalar(one) => scalar(py, &one),
        Value::Matrix(matrix) => match origin {
            Origin::NumPy => numpy::returned(py, matrix),
            Origin::PyArrowArray(x) => match pyarrow_matrix(py, x, &matrix)? {
                Some(array) => Ok(array),
                None => as_origin(py, origin, matrix),
            },
            _ => as_origin(py, origin, matrix),
        },
        Value::Vector(array) => match origin {
            Origin::NumPy => numpy::returned(py, Matrix::reshape(&array, 1)?),
            _ => vector(py, origin, rows, name, array),
        },
    }
}

/// One number, or None for a null.
fn scalar<'py>(py: Python<'py>, one: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    if one.len() != 1 || one.is_null(0) {
        return Ok(py.None().into_bound(py));
    }
    match one.data_type() {
        DataType::Float32 => {
            Ok(PyFloat::new(py, one.as_primitive::<Float32Type>().value(0).into()).into_any())
        }
        DataType::Float64 => {
            Ok(PyFloat::new(py, one.as_primitive::<Float64Type>().value(0)).into_any())
        }
        DataType::Int64 => {
            Ok(one.as_primitive::<Int64Type>().value(0).into_pyobject(py)?.into_any())
        }
        DataType::UInt64 => {
            Ok(one.as_primitive::<UInt64Type>().value(0).into_pyobject(py)?.into_any())
        }
        other => Err(Kind::Base.error(format!("no Python number for a result of {other}"))),
    }
}

/// A 1-D result. One value per row of a chunked object has its chunks.
fn vector<'py>(
    py: Python<'py>,
    origin: &Origin<'py>,
    rows: &[usize],
    name: &str,
    array: ArrayRef,
) -> PyResult<Bound<'py, PyAny>> {
    let per_row = array.len() == rows.iter().sum::<usize>();
    let field = |name: &str| Arc::new(Field::new(name, array.data_type().clone(), true));
    match origin {
        Origin::PyArrowChunked | Origin::PyArrowTable if per_row => {
            let mut first = 0;
            let chunks: Vec<ArrayRef> = rows
                .iter()
                .map(|rows| {
                    first += rows;
                    array.slice(first - rows, *rows)
                })
                .collect();
            let matrix = Matrix::from_field(&field(""), &chunks)?;
            as_origin(py, &Origin::PyArrowChunked, matrix)
        }
        Origin::PolarsSeries(own) => {
            let matrix = Matrix::from_field(&field(&own.to_string()), &[array])?;
            as_origin(py, origin, matrix)
        }
        Origin::PolarsFrame => {
            let matrix = Matrix::from_field(&field(name), &[array])?;
            as_origin(py, &Origin::PolarsSeries(py.None().into_bound(py)), matrix)
        }
        Origin::Other => {
            Ok(Bound::new(py, PyMatrix::new(Matrix::from_field(&field(""), &[array])?))?.into_any())
        }
        _ => pyarrow_vector(py, array),
    }
}

/// A 1-D result as a pyarrow array.
fn pyarrow_vector<'py>(py: Python<'py>, array: ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let data_type = PyArrow::loaded(py).and_then(|pyarrow| match array.data_type() {
        DataType::Float32 => Some(pyarrow.float32.bind(py)),
        DataType::Float64 => Some(pyarrow.float64.bind(py)),
        _ => None,
    });
    if let Some(data_type) = data_type
        && let Some(imported) = pyarrow_array(py, &array, data_type)?
    {
        return Ok(imported);
    }
    let field = Arc::new(Field::new("", array.data_type().clone(), true));
    let matrix = Matrix::from_field(&field, &[array])?;
    as_origin(py, &Origin::PyArrowArray(py.None().into_bound(py)), matrix)
}

/// A result as a pyarrow array of the very type of `x`, if it has it.
fn pyarrow_matrix<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    matrix: &Matrix,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (Some(array), Some(field)) = (matrix.to_array().transpose()?, matrix.field()) else {
        return Ok(None);
    };
    if array.data_type() != field.data_type() {
        return Ok(None);
    }
    pyarrow_array(py, &array, &x.getattr(intern!(py, "type"))?)
}

/// An array handed to pyarrow with a type that it has already: half the cost of capsules, whose
/// schema is written, read and thrown away. `None` where this pyarrow has no such way in.
fn pyarrow_array<'py>(
    py: Python<'py>,
    array: &dyn Array,
    data_type: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(pyarrow) = PyArrow::loaded(py) else { return Ok(None) };
    let Some(import) = pyarrow.array.bind(py).getattr_opt(intern!(py, "_import_from_c"))? else {
        return Ok(None);
    };
    // pyarrow moves the array out of it; what it leaves is released here.
    let mut exported = FFI_ArrowArray::new(&array.to_data());
    import.call1((&raw mut exported as usize, data_type)).map(Some)
}

/// A matrix as an object of its origin's library, which takes it by its capsules.
fn as_origin<'py>(
    py: Python<'py>,
    origin: &Origin<'py>,
    matrix: Matrix,
) -> PyResult<Bound<'py, PyAny>> {
    let exported = Bound::new(py, PyMatrix::new(matrix))?;
    let pyarrow = || PyArrow::loaded(py);
    let polars = || Polars::loaded(py);
    let make = match origin {
        Origin::PyArrowArray(_) => pyarrow().map(|pyarrow| &pyarrow.to_array),
        Origin::PyArrowChunked => pyarrow().map(|pyarrow| &pyarrow.to_chunked_array),
        Origin::PyArrowBatch => pyarrow().map(|pyarrow| &pyarrow.to_record_batch),
        Origin::PyArrowTable => pyarrow().map(|pyarrow| &pyarrow.to_table),
        Origin::PolarsSeries(_) => polars().map(|polars| polars.series.as_any()),
        Origin::PolarsFrame => polars().map(|polars| polars.frame.as_any()),
        Origin::NumPy | Origin::Other => None,
    };
    match make {
        Some(make) => make.bind(py).call1((exported,)),
        None => Ok(exported.into_any()),
    }
}

/// The chunks of a matrix as arrays, and the field that describes them all.
fn arrays(matrix: &Matrix) -> crate::Result<(FieldRef, Vec<ArrayRef>)> {
    let (arrays, metadata): (Vec<ArrayRef>, _) = match matrix.to_record_batches() {
        Some(batches) => {
            let batches = batches?;
            let metadata = batches.first().map(|batch| batch.schema().metadata().clone());
            let structs = batches.into_iter().map(|b| Arc::new(StructArray::from(b)) as ArrayRef);
            (structs.collect(), metadata)
        }
        None => (matrix.to_arrays()?, None),
    };
    let field = matrix.field().map(|field| field.as_ref().clone());
    let mut field = field.unwrap_or_else(|| Field::new("", DataType::Null, true));
    if let Some(metadata) = metadata {
        field = field.with_metadata(metadata);
    }
    let types = arrays.iter().map(|array| array.data_type().clone());
    let data_type = types.reduce(|a, b| joined(&a, &b)).unwrap_or(DataType::Null);
    let nullable = field.is_nullable() || arrays.iter().any(|array| array.null_count() > 0);
    Ok((Arc::new(field.with_data_type(data_type).with_nullable(nullable)), arrays))
}

/// Two types that differ in what may be null, as one that allows both.
fn joined(a: &DataType, b: &DataType) -> DataType {
    let fields = |a: &FieldRef, b: &FieldRef| {
        let field = a.as_ref().clone().with_data_type(joined(a.data_type(), b.data_type()));
        Arc::new(field.with_nullable(a.is_nullable() || b.is_nullable()))
    };
    match (a, b) {
        _ if a == b => a.clone(),
        (DataType::FixedSizeList(x, size), DataType::FixedSizeList(y, _)) => {
            DataType::FixedSizeList(fields(x, y), *size)
        }
        (DataType::List(x), DataType::List(y)) => DataType::List(fields(x, y)),
        (DataType::LargeList(x), DataType::LargeList(y)) => DataType::LargeList(fields(x, y)),
        (DataType::Struct(x), DataType::Struct(y)) => {
            DataType::Struct(x.iter().zip(y).map(|(x, y)| fields(x, y)).collect::<Fields>())
        }
        _ => a.clone(),
    }
}

fn refused(error: PyArrowError) -> PyErr {
    Kind::Value.error(format!("as_matrix: the data cannot be exported: {}", PyErr::from(error)))
}

/// A matrix in one chunk as the capsules of `__arrow_c_array__`.
pub(super) fn array_capsules<'py>(
    py: Python<'py>,
    matrix: &Matrix,
    requested: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (field, arrays) = arrays(matrix)?;
    let [array] = arrays.as_slice() else {
        return Err(Kind::Value.error(format!(
            "as_matrix: {} chunks are no single array; read them with __arrow_c_stream__",
            arrays.len()
        )));
    };
    to_array_pycapsules(py, field, array, requested).map_err(refused)
}

/// A matrix as the capsule of `__arrow_c_stream__`, one array for each chunk.
pub(super) fn stream_capsule<'py>(
    py: Python<'py>,
    matrix: &Matrix,
    requested: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (field, arrays) = arrays(matrix)?;
    let reader = ArrayIterator::new(arrays.into_iter().map(Ok), field);
    to_stream_pycapsule(py, Box::new(reader), requested).map_err(refused)
}

/// The type of a matrix as the capsule of `__arrow_c_schema__`.
pub(super) fn schema_capsule<'py>(
    py: Python<'py>,
    matrix: &Matrix,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (field, _) = arrays(matrix)?;
    to_schema_pycapsule(py, field.as_ref()).map_err(refused)
}
