//! Arrow data from other libraries, through the Arrow PyCapsule interface, without a copy.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, cast::AsArray};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::capsule;
use super::errors::{Kind, detached};
use super::numpy::Seen;
use super::once::intern;
use super::origin::PyArrow;
use crate::compute::Value;
use crate::compute::is_number;
use crate::error::Error;
use crate::ffi::{self, Checked, can_be_matrix};
use crate::matrix::{Matrix, as_lists, can_be_lists, unaccepted};
use crate::memory::{self, Gather as _};

/// Arrow data as it came.
pub(super) enum Imported {
    /// A column of lists without nulls, seen as a matrix already.
    Dense(Matrix),
    /// One array, or the chunks of a stream.
    Arrays { field: FieldRef, arrays: Vec<ArrayRef>, misaligned: bool },
}

impl Imported {
    /// Reads an object that has `__arrow_c_array__` or `__arrow_c_stream__`; `None` if it has
    /// neither.
    pub(super) fn from_object(
        function: &'static str,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Self>> {
        let py = object.py();
        if let Ok(Some(columns)) = object.getattr_opt(intern!(py, "num_columns")) {
            headroom(columns.extract().unwrap_or(0));
        }
        if let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_array__"))? {
            match method.call0() {
                Ok(capsules) => return array(function, &capsules).map(Some),
                // Objects in several chunks have the method but may refuse it.
                Err(error)
                    if is_refusal(py, &error)
                        && object.hasattr(intern!(py, "__arrow_c_stream__"))? => {}
                Err(error) => return Err(error),
            }
        }
        match object.getattr_opt(intern!(py, "__arrow_c_stream__"))? {
            Some(method) => stream(function, &method.call0()?).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a pyarrow array. Its type is read once and kept: the schema of a small array costs
    /// more to write and read again than all the rest of a call.
    pub(super) fn from_pyarrow(
        function: &'static str,
        x: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Self>> {
        let py = x.py();
        let Some(pyarrow) = PyArrow::loaded(py) else { return Self::from_object(function, x) };
        let Some(data_type) = pyarrow.type_of(x)? else { return Self::from_object(function, x) };
        let (Some(field), Some(export)) = (known(&data_type), &pyarrow.export_to_c) else {
            if let Ok(fields) = data_type.getattr(intern!(py, "num_fields")) {
                headroom(fields.extract().unwrap_or(0));
            }
            let imported = array(function, &pyarrow.to_capsules.bind(py).call1((x,))?)?;
            if let Self::Arrays { field, .. } = &imported {
                remember(data_type, field);
            }
            return Ok(Some(imported));
        };
        headroom(columns_of(&field));
        let mut array = FFI_ArrowArray::empty();
        export.bind(py).call1((x, &raw mut array as usize))?;
        // SAFETY: pyarrow has just exported it.
        let misaligned = unsafe { checked(function, &mut array, field.data_type()) }?.misaligned;
        if !misaligned {
            // SAFETY: `checked` saw that the array has the buffers, children and lengths of its
            // type, and that they are aligned; how long the buffers are is the producer's promise.
            match unsafe { Matrix::from_dense(&field, array) } {
                Ok(matrix) => return Ok(Some(Self::Dense(matrix))),
                Err(other) => array = other,
            }
        }
        // SAFETY: as above; it came back as it was.
        let checked = unsafe { checked(function, &mut array, field.data_type()) }?;
        let array = adopted(py, function, checked)?;
        Ok(Some(Self::Arrays { field, arrays: vec![array], misaligned }))
    }

    /// Sees it as a matrix, or as lists that differ in length. `is_table` says that a struct is a table, whose rows cannot be null;
    /// `width` reshapes plain numbers.
    pub(super) fn into_seen(
        self,
        py: Python<'_>,
        is_table: Option<bool>,
        width: Option<usize>,
    ) -> crate::Result<Seen> {
        let rows = match &self {
            Self::Dense(_) => 0,
            Self::Arrays { arrays, .. } => arrays.iter().map(|array| array.len()).sum(),
        };
        // The rows of lists are measured, one by one.
        if rows >= MANY_ROWS {
            detached(py, || self.seen(is_table, width))
        } else {
            self.seen(is_table, width)
        }
    }

    fn seen(self, is_table: Option<bool>, width: Option<usize>) -> crate::Result<Seen> {
        // And whether the lists are of another type than what came in.
        let (field, arrays, misaligned, is_other) = match self {
            Self::Dense(matrix) => return as_wide(matrix, width).map(Seen::Matrix),
            Self::Arrays { field, arrays, misaligned } => {
                let given = Arc::clone(&field);
                let (field, arrays) = as_lists(field, arrays)?;
                let is_other = !Arc::ptr_eq(&given, &field);
                (field, arrays, misaligned, is_other)
            }
        };
        let has_nulls = || arrays.iter().any(|array| array.null_count() > 0);
        let is_table = || is_table.unwrap_or_else(|| !has_nulls());
        let value = match (field.data_type(), width) {
            (DataType::Struct(_), width) if only_vectors(&field).is_some() && is_table() => {
                let only = only_vectors(&field).unwrap_or(&field);
                let columns = arrays.iter().map(|table| Arc::clone(table.as_struct().column(0)));
                let (only, columns) = as_lists(Arc::clone(only), columns.gather())?;
                let value = Value::from_field(&only, &columns)?;
                match value {
                    Value::Matrix(matrix) => Value::Matrix(as_wide(matrix, width)?),
                    other => other,
                }
            }
            (DataType::Struct(_), None) if is_table() => Value::Matrix(table(&field, &arrays)?),
            (_, None) => Value::from_field(&field, &arrays)?,
            (_, Some(width)) => Value::Matrix(reshaped(&field, &arrays, width)?),
        };
        let reason = "buffers whose address is no multiple of the element size";
        Ok(match value {
            Value::Ragged(lists) if width.is_none() => Seen::Ragged(lists),
            Value::Ragged(lists) => return Err(lists.odd_row(width)),
            other if is_other => Seen::Matrix(other.into_matrix()?.without_field()),
            other => Seen::Matrix(other.into_matrix()?.with_copy(misaligned.then_some(reason))),
        })
    }
}

/// Bytes that a producer takes for a column at most, its schema and its array.
const COLUMN: usize = 4 << 10;

/// Makes sure that a producer has the memory for so many columns. Where it has none it may throw an
/// exception of C++, which ends the process in the functions of the C interface.
fn headroom(columns: usize) {
    if columns > 1 {
        memory::headroom(columns.saturating_mul(COLUMN));
    }
}

fn columns_of(field: &Field) -> usize {
    match field.data_type() {
        DataType::Struct(fields) => fields.len(),
        _ => 1,
    }
}

/// Rows from which others may run while they are seen as a matrix.
const MANY_ROWS: usize = 1 << 16;

/// The columns of structs as those of a matrix.
fn table(field: &FieldRef, arrays: &[ArrayRef]) -> crate::Result<Matrix> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(unaccepted(field.data_type()));
    };
    let metadata = field.metadata().clone();
    let schema = Arc::new(Schema::new_with_metadata(fields.clone(), metadata));
    if arrays.is_empty() {
        return Matrix::try_from(&RecordBatch::new_empty(schema));
    }
    let batches = arrays.iter().map(|array| {
        let columns: &StructArray = array.as_struct();
        let rows = RecordBatchOptions::new().with_row_count(Some(columns.len()));
        let columns = memory::copied(columns.columns());
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &rows)
            .map_err(|error| {
                Error::Arrow { message: error.to_string() }.in_function("as_matrix")
            })?;
        Matrix::try_from(&batch)
    });
    Matrix::from_chunks(batches.collect::<crate::Result<_>>()?)
}

/// The types of the last pyarrow arrays, with the fields that were read from them. Types do not
/// change, and one that is kept alive here has its address for itself.
static TYPES: Mutex<Vec<(Py<PyAny>, FieldRef)>> = Mutex::new(Vec::new());

/// Types that are kept at most: those of the columns that a loop works on.
const MOST_TYPES: usize = 4;

fn known(data_type: &Bound<'_, PyAny>) -> Option<FieldRef> {
    let types = TYPES.try_lock().ok()?;
    types.iter().find(|(own, _)| own.is(data_type)).map(|(_, field)| Arc::clone(field))
}

fn remember(data_type: Bound<'_, PyAny>, field: &FieldRef) {
    let entry = (data_type.unbind(), Arc::clone(field));
    // What is dropped may run Python code: after the lock.
    let mut forgotten = None;
    if let Ok(mut types) = TYPES.try_lock() {
        if types.len() >= MOST_TYPES {
            forgotten = Some(types.remove(0));
        }
        memory::push(&mut types, entry);
    }
    drop(forgotten);
}

/// The elements of plain numbers as rows of `width`; lists must have that width already.
fn reshaped(field: &FieldRef, arrays: &[ArrayRef], width: usize) -> crate::Result<Matrix> {
    if field.data_type().primitive_width().is_none() {
        return as_wide(Matrix::from_field(field, arrays)?, Some(width));
    }
    if arrays.is_empty() {
        return Matrix::reshape(&arrow_array::new_empty_array(field.data_type()), width);
    }
    Matrix::reshape_chunks(arrays, width)
}

/// The matrix, if it is as wide as was said.
fn as_wide(matrix: Matrix, width: Option<usize>) -> crate::Result<Matrix> {
    match width {
        Some(expected) if expected != matrix.width() => {
            let (what, got) = ("rows, as width says,", matrix.width());
            Err(Error::Width { what, expected, got }.in_function("as_matrix"))
        }
        _ => Ok(matrix),
    }
}

/// Whether an exception is how an object says that it has no single array, rather than something
/// that went wrong on the way.
fn is_refusal(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyNotImplementedError>(py)
}

fn malformed(function: &str, problem: &str) -> PyErr {
    Kind::Value.error(format!("{function}: the Arrow data {problem}"))
}

fn not_capsule(function: &str, method: &str, expected: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let got = got.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Kind::Type.error(format!("{function}: expected {expected} from {method}, got {got}"))
}

/// What a capsule points to.
pub(super) fn pointer<T>(
    function: &str,
    capsule: &Bound<'_, PyAny>,
    method: &str,
    name: &'static CStr,
) -> PyResult<*mut T> {
    let expected = || format!("a capsule named {:?}", name.to_string_lossy());
    let capsule = capsule
        .cast::<PyCapsule>()
        .map_err(|_| not_capsule(function, method, &expected(), capsule))?;
    let pointer = capsule.pointer_checked(Some(name)).ok();
    let pointer = pointer.map(|pointer| pointer.as_ptr().cast::<T>());
    pointer.filter(|pointer| pointer.is_aligned()).ok_or_else(|| {
        Kind::Value.error(format!("{function}: expected {} from {method}, got another", expected()))
    })
}

/// The field of a schema, if its type can be a matrix.
///
/// # Safety
///
/// As for [`ffi::field`].
unsafe fn field(function: &'static str, schema: &FFI_ArrowSchema) -> PyResult<FieldRef> {
    // SAFETY: the caller's promise.
    let field = unsafe { ffi::field(schema) }.map_err(|error| error.in_function(function))?;
    let is_only = |field: &Field| match field.data_type() {
        DataType::Struct(fields) => {
            matches!(&fields[..], [only] if can_be_lists(only.data_type()))
        }
        other => can_be_lists(other),
    };
    if !can_be_matrix(field.data_type()) && !is_only(&field) {
        return Err(of_columns(field.data_type()).in_function(function).into());
    }
    Ok(Arc::new(field))
}

/// What is wrong with a type, column by column if it has any.
fn of_columns(data_type: &DataType) -> Error {
    let DataType::Struct(fields) = data_type else { return unaccepted(data_type) };
    let (vectors, others): (Vec<&FieldRef>, Vec<&FieldRef>) = fields
        .iter()
        .filter(|field| !is_number(field.data_type()))
        .partition(|field| can_be_matrix(field.data_type()));
    let named = |field: &FieldRef| (field.name().clone(), field.data_type().clone());
    let beside = fields.iter().filter(|field| !vectors.iter().any(|v| v.name() == field.name()));
    Error::Columns {
        columns: match vectors.len() {
            0 => others.into_iter().map(named).gather(),
            _ => beside.map(named).gather(),
        },
        vectors: vectors.iter().map(|field| field.name().clone()).gather(),
    }
}

/// The one column of vectors that a table has, if that is all that it has.
fn only_vectors(field: &Field) -> Option<&FieldRef> {
    match field.data_type() {
        DataType::Struct(fields) => match &fields[..] {
            [only] if !is_number(only.data_type()) => Some(only),
            _ => None,
        },
        _ => None,
    }
}

/// The field that a consumer asks for by a capsule.
pub(super) fn requested_field(capsule: &Bound<'_, PyAny>) -> PyResult<Field> {
    let name = c"arrow_schema";
    let schema = pointer::<FFI_ArrowSchema>("as_matrix", capsule, "requested_schema", name)?;
    // SAFETY: a capsule of this name points to an ArrowSchema, which it owns and we borrow.
    let field = unsafe { ffi::any_field(&*schema) };
    field.map_err(|problem| Kind::Value.error(format!("as_matrix: the requested schema {problem}")))
}

/// Checks the structure of an array.
///
/// # Safety
///
/// As for [`ffi::checked`].
unsafe fn checked<'a>(
    function: &'static str,
    array: &'a mut FFI_ArrowArray,
    data_type: &'a DataType,
) -> PyResult<Checked<'a>> {
    // SAFETY: the caller's promise.
    Ok(unsafe { ffi::checked(array, data_type) }.map_err(|error| error.in_function(function))?)
}

/// Takes an array over. While the offsets of many rows are checked, others may run: so many take 5
/// to 25 microseconds; giving the GIL away and taking it back costs less than one.
fn adopted(py: Python<'_>, function: &'static str, array: Checked<'_>) -> PyResult<ArrayRef> {
    let adopted = if array.unmeasured_rows() < MANY_ROWS {
        ffi::adopted(array)
    } else {
        py.detach(|| ffi::adopted(array))
    };
    Ok(adopted.map_err(|error| error.in_function(function))?)
}

fn array(function: &'static str, capsules: &Bound<'_, PyAny>) -> PyResult<Imported> {
    const METHOD: &str = "__arrow_c_array__";
    let pair = capsules.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
    let Some(pair) = pair else {
        return Err(not_capsule(function, METHOD, "a tuple of two capsules", capsules));
    };
    let schema = pointer::<FFI_ArrowSchema>(function, &pair.get_item(0)?, METHOD, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(function, &pair.get_item(1)?, METHOD, c"arrow_array")?;
    // SAFETY: a capsule of this name points to an ArrowSchema, which it owns and we borrow.
    let field = unsafe { field(function, &*schema) }?;
    // SAFETY: a capsule of this name points to an ArrowArray, which nobody else uses meanwhile: it
    // is taken while the GIL is held.
    let checked = unsafe { checked(function, &mut *array, field.data_type()) }?;
    let misaligned = checked.misaligned;
    let array = adopted(capsules.py(), function, checked)?;
    Ok(Imported::Arrays { field, arrays: vec![array], misaligned })
}

fn stream(function: &'static str, capsule: &Bound<'_, PyAny>) -> PyResult<Imported> {
    let py = capsule.py();
    let name = c"arrow_array_stream";
    let stream = pointer::<FFI_ArrowArrayStream>(function, capsule, "__arrow_c_stream__", name)?;
    // SAFETY: a capsule of this name points to an ArrowArrayStream; it is moved out, and the
    // capsule is left with a released one.
    let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    if stream.release.is_none() {
        return Err(malformed(function, "was used already: a stream can be read once"));
    }
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(malformed(function, "is a stream without its callbacks"));
    };

    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, and `schema` is ours to be written.
    let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    if code != 0 {
        return Err(failed(function, &mut stream, code));
    }
    // SAFETY: the stream has written it.
    let field = unsafe { field(function, &schema) }?;

    let mut arrays = Vec::new();
    let mut misaligned = false;
    loop {
        headroom(columns_of(&field));
        // Producers may run a query or Python code for each chunk: let others run meanwhile.
        let (code, mut array) = py.detach(|| {
            let mut array = FFI_ArrowArray::empty();
            // SAFETY: the stream is not released, and `array` is ours to be written.
            let code = unsafe { get_next(&raw mut stream, &raw mut array) };
            (code, array)
        });
        if code != 0 {
            return Err(failed(function, &mut stream, code));
        }
        if array.is_released() {
            break;
        }
        py.check_signals()?;
        // SAFETY: the stream has written it.
        let checked = unsafe { checked(function, &mut array, field.data_type()) }?;
        misaligned |= checked.misaligned;
        memory::push(&mut arrays, adopted(py, function, checked)?);
    }
    Ok(Imported::Arrays { field, arrays, misaligned })
}

/// What a stream says of its failure, which may be nothing.
fn failed(function: &str, stream: &mut FFI_ArrowArrayStream, code: c_int) -> PyErr {
    let said = stream.get_last_error.and_then(|last_error| {
        // SAFETY: the stream is not released; it was called just before.
        let text = unsafe { last_error(&raw mut *stream) };
        // SAFETY: not null, a C string that lives until the next call to the stream.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    let said = said.unwrap_or_else(|| "it gave no reason".to_owned());
    let kind = if code == capsule::ENOMEM { Kind::Memory } else { Kind::Value };
    kind.error(format!("{function}: the Arrow stream failed with code {code}: {said}"))
}
