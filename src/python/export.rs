//! Results back to Python, as the kind of object that came in, without a copy.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyFloat, PyString, PyTuple};

use super::errors::{Kind, detached};
use super::matrix::PyMatrix;
use super::once::intern;
use super::origin::{Origin, Polars, PyArrow};
use super::{capsule, lists, numpy, pandas, requested, results};
use crate::compute::registry::Gives;
use crate::compute::{Function, Value};
use crate::matrix::{Matrix, Ragged, dense_numbers};
use crate::memory::{self, Gather as _};
use crate::type_name::TypeName;

/// What a result was made from.
pub(super) struct Source<'a, 'py> {
    pub(super) function: &'static Function,
    /// Whose object the first argument was.
    pub(super) origin: Origin<'py>,
    /// The view that was taken of it.
    pub(super) x: Option<&'a Matrix>,
    /// Or the lists that it was.
    pub(super) lists: Option<&'a Ragged>,
    /// Whether a 1-D result has one value for each of its rows.
    pub(super) is_per_row: bool,
}

/// Gives a result back.
pub(super) fn give<'py>(
    py: Python<'py>,
    source: &Source<'_, 'py>,
    result: Value,
) -> PyResult<Bound<'py, PyAny>> {
    let Source { function: entry, origin, x, lists, is_per_row } = source;
    let function = entry.name;
    match result {
        Value::Number(number) => Ok(PyFloat::new(py, number).into_any()),
        Value::Integer(number) => Ok(number.into_pyobject(py)?.into_any()),
        Value::Scalar(one) => scalar(py, &one),
        result if origin.is_pandas() => pandas::given(py, source, result),
        Value::Matrix(matrix) => match (origin, x) {
            // Every two columns of a table: a table of those columns.
            (_, Some(x)) if entry.gives == Gives::Square && origin.is_table() && x.is_table() => {
                let named = matrix.in_columns_of(x)?.unwrap_or(matrix);
                as_origin(py, origin, function, named)
            }
            (Origin::NumPy, _) => numpy::returned(py, matrix, false),
            (Origin::Masked, _) => numpy::returned(py, matrix, true),
            (Origin::PyArrowArray(object), Some(x)) => {
                match pyarrow_matrix(py, object, x, &matrix)? {
                    Some(array) => Ok(array),
                    None => as_origin(py, origin, function, matrix),
                }
            }
            _ if origin.is_table() && !matrix.is_by_columns() && entry.keeps_columns() => {
                as_only_column(py, origin, function, matrix)
            }
            _ => as_origin(py, origin, function, matrix),
        },
        Value::Ragged(lists) => lists::given(py, origin, lists),
        Value::Vector(array) => match origin {
            Origin::PyArrowArray(_) | Origin::PyArrowChunked
                if !*is_per_row && tensor_shape(*x).is_some() =>
            {
                // One number for each element of a tensor: lists that lie as they do.
                let shape = tensor_shape(*x).unwrap_or_default();
                let width = shape[1..].iter().product();
                let tensor = Matrix::reshape(&array, width)?.shaped(&shape[1..])?;
                as_origin(py, &Origin::PyArrowArray(py.None().into_bound(py)), function, tensor)
            }
            Origin::NumPy | Origin::Masked => {
                let is_masked = matches!(origin, Origin::Masked);
                let shape = x.filter(|_| !*is_per_row).map(Matrix::row_shape);
                let numbers = numpy::returned(py, Matrix::reshape(&array, 1)?, is_masked)?;
                match shape {
                    // One number for each element of a tensor lies as they do.
                    Some(shape) if shape.len() > 1 => {
                        numbers.call_method1(intern!(py, "reshape"), (PyTuple::new(py, shape)?,))
                    }
                    _ => Ok(numbers),
                }
            }
            _ => {
                let rows = match (x, lists) {
                    _ if !*is_per_row => None,
                    (Some(x), _) => Some(x.chunk_rows().gather()),
                    (None, lists) => lists.map(|lists| lists.chunk_rows().gather()),
                };
                vector(py, origin, rows.as_deref(), function, array)
            }
        },
        Value::Named(values) => {
            let results = values.into_iter().map(|(name, value)| {
                // Their rows are not those of x: neither its name nor its chunks are theirs.
                let origin = match origin {
                    Origin::PolarsSeries(_) | Origin::PolarsFrame => {
                        Origin::PolarsSeries(PyString::new(py, name).into_any())
                    }
                    Origin::NumPy | Origin::Masked | Origin::Other => origin.clone(),
                    _ => Origin::PyArrowArray(py.None().into_bound(py)),
                };
                give(
                    py,
                    &Source { function: entry, origin, x: None, lists: None, is_per_row: false },
                    value,
                )
            });
            results::named(py, function, results.collect::<PyResult<_>>()?)
        }
    }
}

/// The shape of the rows of a column of tensors of two or more dimensions, none of them empty.
fn tensor_shape(x: Option<&Matrix>) -> Option<Vec<usize>> {
    let shape = x?.tensor_shape()?;
    (shape.len() > 1 && !shape.contains(&0)).then_some(shape)
}

/// One number, or None for a null.
pub(super) fn scalar<'py>(py: Python<'py>, one: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! number {
        ($($variant:ident $primitive:ty),+) => {
            match one.data_type() {
                DataType::Float16 => {
                    let number = one.as_primitive::<Float16Type>().value(0).to_f64();
                    Ok(PyFloat::new(py, number).into_any())
                }
                $(DataType::$variant => {
                    Ok(one.as_primitive::<$primitive>().value(0).into_pyobject(py)?.into_any())
                })+
                other => {
                    let message = format!("no Python number for a result of {}", TypeName(other));
                    Err(Kind::Base.error(message))
                }
            }
        };
    }
    if one.len() != 1 || one.is_null(0) {
        return Ok(py.None().into_bound(py));
    }
    number!(
        Float32 Float32Type, Float64 Float64Type, Int8 Int8Type, Int16 Int16Type, Int32 Int32Type,
        Int64 Int64Type, UInt8 UInt8Type, UInt16 UInt16Type, UInt32 UInt32Type, UInt64 UInt64Type
    )
}

/// A 1-D result. One value per row of a chunked object has its chunks.
fn vector<'py>(
    py: Python<'py>,
    origin: &Origin<'py>,
    rows: Option<&[usize]>,
    function: &'static str,
    array: ArrayRef,
) -> PyResult<Bound<'py, PyAny>> {
    let name = match origin {
        Origin::PolarsSeries(name) => name.to_string(),
        Origin::PolarsFrame => function.to_owned(),
        _ => String::new(),
    };
    let field = Arc::new(Field::new(name, array.data_type().clone(), true));
    match (origin, rows) {
        (Origin::PyArrowChunked | Origin::PyArrowTable, Some(rows)) => {
            let mut first = 0;
            let chunks: Vec<ArrayRef> = rows
                .iter()
                .map(|rows| {
                    first += rows;
                    array.slice(first - rows, *rows)
                })
                .gather();
            let matrix = Matrix::from_field(&field, &chunks)?;
            as_origin(py, &Origin::PyArrowChunked, function, matrix)
        }
        (Origin::PolarsSeries(_) | Origin::PolarsFrame | Origin::Other, _) => {
            as_origin(py, origin, function, Matrix::from_field(&field, &[array])?)
        }
        _ => pyarrow_vector(py, function, array),
    }
}

/// A 1-D result as a pyarrow array.
fn pyarrow_vector<'py>(
    py: Python<'py>,
    function: &'static str,
    array: ArrayRef,
) -> PyResult<Bound<'py, PyAny>> {
    let pyarrow = PyArrow::loaded(py);
    let data_type = pyarrow.and_then(|pyarrow| pyarrow.number_type(py, array.data_type()));
    if let Some(data_type) = data_type {
        let exported = dense_numbers(array.as_ref());
        let exported = exported.unwrap_or_else(|| FFI_ArrowArray::new(&array.to_data()));
        if let Some(imported) = handed_over(py, exported, data_type)? {
            return Ok(imported);
        }
    }
    let field = Arc::new(Field::new("", array.data_type().clone(), true));
    let matrix = Matrix::from_field(&field, &[array])?;
    as_origin(py, &Origin::PyArrowArray(py.None().into_bound(py)), function, matrix)
}

/// A result as a pyarrow array of the very type of the object that `x` was seen in, if it has it.
fn pyarrow_matrix<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    x: &Matrix,
    matrix: &Matrix,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // Plain numbers that were reshaped have no type of rows to go back to.
    if x.field().is_none() || matrix.field() != x.field() || object.is_none() {
        return Ok(None);
    }
    let Some(pyarrow) = PyArrow::loaded(py) else { return Ok(None) };
    let Some(data_type) = pyarrow.type_of(object)? else { return Ok(None) };
    if let Some(array) = matrix.to_dense() {
        return handed_over(py, array, &data_type);
    }
    let (Some(array), Some(field)) = (matrix.to_array().transpose()?, matrix.field()) else {
        return Ok(None);
    };
    if array.data_type() != field.data_type() {
        return Ok(None);
    }
    handed_over(py, FFI_ArrowArray::new(&array.to_data()), &data_type)
}

/// An array handed to pyarrow with a type that it has already; `None` where this pyarrow has no
/// such way in.
fn handed_over<'py>(
    py: Python<'py>,
    mut array: FFI_ArrowArray,
    data_type: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let import = PyArrow::loaded(py).and_then(|pyarrow| pyarrow.import_from_c.as_ref());
    let Some(import) = import else { return Ok(None) };
    // pyarrow moves the array out of it; what it leaves is released here.
    import.bind(py).call1((&raw mut array as usize, data_type)).map(Some)
}

/// A matrix as an object of its origin's library, which takes it by its capsules. What is not by
/// columns is one column, and no table.
fn as_origin<'py>(
    py: Python<'py>,
    origin: &Origin<'py>,
    function: &'static str,
    matrix: Matrix,
) -> PyResult<Bound<'py, PyAny>> {
    let is_table = matrix.is_by_columns();
    let is_polars = matches!(origin, Origin::PolarsSeries(_) | Origin::PolarsFrame);
    if is_polars && matrix.width() == 0 && has_empty_arrays(arrays(py, &matrix)?.0.data_type()) {
        return Err(Kind::Value.error(format!(
            "{function}: the result has rows of width 0, and polars reads no arrays of width 0; \
             pass x as a NumPy or pyarrow array"
        )));
    }
    let has_name = matrix.field().is_some();
    let exported = Bound::new(py, PyMatrix::new(matrix))?;
    let pyarrow = || PyArrow::loaded(py);
    let polars = || Polars::loaded(py);
    let make = match origin {
        Origin::PyArrowChunked => pyarrow().map(|pyarrow| &pyarrow.to_chunked_array),
        Origin::PyArrowBatch if is_table => pyarrow().map(|pyarrow| &pyarrow.to_record_batch),
        Origin::PyArrowTable if is_table => pyarrow().map(|pyarrow| &pyarrow.to_table),
        Origin::PyArrowArray(_) | Origin::PyArrowBatch | Origin::PyArrowTable => {
            pyarrow().map(|pyarrow| &pyarrow.to_array)
        }
        Origin::PolarsFrame if is_table => polars().map(|polars| polars.frame.as_any()),
        Origin::PolarsSeries(_) | Origin::PolarsFrame => {
            polars().map(|polars| polars.series.as_any())
        }
        Origin::NumPy
        | Origin::Masked
        | Origin::PandasSeries(_)
        | Origin::PandasFrame(_)
        | Origin::Other => None,
    };
    let Some(make) = make else { return Ok(exported.into_any()) };
    let made = make.bind(py).call1((exported,))?;
    // polars takes the name of a series from the field that comes with the data.
    match origin {
        Origin::PolarsSeries(name) if !has_name => made.call_method1(intern!(py, "alias"), (name,)),
        Origin::PolarsFrame if !has_name && !is_table => {
            made.call_method1(intern!(py, "alias"), (function,))
        }
        _ => Ok(made),
    }
}

/// Rows of vectors as the one column of a table, as which they came.
fn as_only_column<'py>(
    py: Python<'py>,
    origin: &Origin<'py>,
    function: &'static str,
    matrix: Matrix,
) -> PyResult<Bound<'py, PyAny>> {
    let field = matrix.field().cloned();
    let is_batch = matches!(origin, Origin::PyArrowBatch);
    let of_column = match origin {
        Origin::PyArrowTable => Origin::PyArrowChunked,
        other => other.clone(),
    };
    let column = as_origin(py, &of_column, function, matrix)?;
    if let Origin::PolarsFrame = origin {
        return column.call_method0(intern!(py, "to_frame"));
    }
    let Some(field) = field else { return Ok(column) };
    in_table(py, if is_batch { "RecordBatch" } else { "Table" }, column, &field)
}

/// A column of pyarrow as the only one of a table, or of a record batch.
pub(super) fn in_table<'py>(
    py: Python<'py>,
    class: &str,
    column: Bound<'py, PyAny>,
    field: &Field,
) -> PyResult<Bound<'py, PyAny>> {
    let pyarrow = py.import(intern!(py, "pyarrow"))?;
    let has_nulls = column.getattr(intern!(py, "null_count"))?.is_truthy()?;
    let data_type = column.getattr(intern!(py, "type"))?;
    let nullable = field.is_nullable() || has_nulls;
    let field = pyarrow.call_method1(intern!(py, "field"), (field.name(), data_type, nullable))?;
    let schema = pyarrow.call_method1(intern!(py, "schema"), ([field],))?;
    let options = PyDict::new(py);
    options.set_item(intern!(py, "schema"), schema)?;
    pyarrow.getattr(class)?.call_method("from_arrays", ([column],), Some(&options))
}

/// Whether polars panics on a type: it has such arrays, but cannot import them.
fn has_empty_arrays(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(item, size) => *size == 0 || has_empty_arrays(item.data_type()),
        DataType::List(item) | DataType::LargeList(item) => has_empty_arrays(item.data_type()),
        _ => false,
    }
}

/// The chunks of a matrix as arrays, and the field that describes them all.
pub(super) fn arrays(py: Python<'_>, matrix: &Matrix) -> crate::Result<(FieldRef, Vec<ArrayRef>)> {
    // What lies at strides is copied now.
    if matrix.copied().is_some() {
        return detached(py, || as_arrays(matrix));
    }
    as_arrays(matrix)
}

fn as_arrays(matrix: &Matrix) -> crate::Result<(FieldRef, Vec<ArrayRef>)> {
    let (arrays, metadata): (Vec<ArrayRef>, _) = match matrix.to_record_batches() {
        Some(batches) => {
            let batches = batches?;
            let metadata = batches.first().map(|batch| batch.schema().metadata().clone());
            let structs = batches.into_iter().map(|batch| {
                memory::headroom(batch.num_columns().saturating_mul(32));
                Arc::new(StructArray::from(batch)) as ArrayRef
            });
            (structs.gather(), metadata)
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

/// A matrix in one chunk as the capsules of `__arrow_c_array__`.
pub(super) fn array_capsules<'py>(
    py: Python<'py>,
    matrix: &Matrix,
    requested: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (field, arrays) = requested::followed(py, matrix, requested)?;
    let [array] = arrays.as_slice() else {
        return Err(Kind::Value.error(format!(
            "as_matrix: {} chunks are no single array; read them with __arrow_c_stream__",
            arrays.len()
        )));
    };
    capsule::array(py, &field, array)
}

/// A matrix as the capsule of `__arrow_c_stream__`, one array for each chunk.
pub(super) fn stream_capsule<'py>(
    py: Python<'py>,
    matrix: &Matrix,
    requested: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (field, arrays) = requested::followed(py, matrix, requested)?;
    capsule::stream(py, field, arrays)
}

/// The type of a matrix as the capsule of `__arrow_c_schema__`.
pub(super) fn schema_capsule<'py>(
    py: Python<'py>,
    matrix: &Matrix,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (field, _) = arrays(py, matrix)?;
    capsule::schema(py, &field)
}
