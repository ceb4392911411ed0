//! Arrow data from other libraries, through the Arrow PyCapsule interface, without a copy.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, cast::AsArray, make_array,
};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::check::{self, Problem};
use super::errors::Kind;
use super::origin::PyArrow;
use crate::error::Error;
use crate::matrix::{Matrix, unaccepted};

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
        if let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_array__"))? {
            match method.call0() {
                Ok(capsules) => return array(function, &capsules).map(Some),
                // Objects in several chunks have the method but may refuse it.
                Err(error) if !object.hasattr(intern!(py, "__arrow_c_stream__"))? => {
                    return Err(error);
                }
                Err(_) => {}
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
        let data_type = x.getattr(intern!(py, "type"))?;
        let Some(field) = known(&data_type) else {
            let imported = Self::from_object(function, x)?;
            if let Some(Self::Arrays { field, .. }) = &imported {
                remember(data_type, field);
            }
            return Ok(imported);
        };
        let export = PyArrow::loaded(py).and_then(|pyarrow| pyarrow.export_to_c.as_ref());
        let Some(export) = export else { return Self::from_object(function, x) };
        let mut array = FFI_ArrowArray::empty();
        export.bind(py).call1((x, &raw mut array as usize))?;
        let misaligned = checked(function, &mut array, field.data_type())?;
        if !misaligned {
            // SAFETY: `checked` saw that the array has the buffers, children and lengths of its
            // type, and that they are aligned; how long the buffers are is the producer's promise.
            match unsafe { Matrix::from_dense(&field, array) } {
                Ok(matrix) => return Ok(Some(Self::Dense(matrix))),
                Err(other) => array = other,
            }
        }
        let array = imported(function, &mut array, field.data_type())?;
        Ok(Some(Self::Arrays { field, arrays: vec![array], misaligned }))
    }

    /// Sees it as a matrix. `is_table` says that a struct is a table, whose rows cannot be null;
    /// `width` reshapes plain numbers.
    pub(super) fn into_matrix(
        self,
        is_table: Option<bool>,
        width: Option<usize>,
    ) -> crate::Result<Matrix> {
        let (field, arrays, misaligned) = match self {
            Self::Dense(matrix) => return as_wide(matrix, width),
            Self::Arrays { field, arrays, misaligned } => (field, arrays, misaligned),
        };
        let matrix = match (field.data_type(), width) {
            (DataType::Struct(_), None) => {
                let has_nulls = || arrays.iter().any(|array| array.null_count() > 0);
                if is_table.unwrap_or_else(|| !has_nulls()) {
                    table(&field, &arrays)?
                } else {
                    Matrix::from_field(&field, &arrays)?
                }
            }
            (_, None) => Matrix::from_field(&field, &arrays)?,
            (_, Some(width)) => reshaped(&field, &arrays, width)?,
        };
        let reason = "buffers whose address is no multiple of the element size";
        Ok(matrix.with_copy(misaligned.then_some(reason)))
    }
}

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
        let columns = columns.columns().to_vec();
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &rows)
            .map_err(|error| Error::Arrow { function: "as_matrix", message: error.to_string() })?;
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
        types.push(entry);
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
    let chunks = arrays.iter().map(|array| Matrix::reshape(array, width));
    Matrix::from_chunks(chunks.collect::<crate::Result<_>>()?)
}

/// The matrix, if it is as wide as was said.
fn as_wide(matrix: Matrix, width: Option<usize>) -> crate::Result<Matrix> {
    match width {
        Some(expected) if expected != matrix.width() => {
            let (what, got) = ("rows, as width says,", matrix.width());
            Err(Error::Width { function: "as_matrix", what, expected, got })
        }
        _ => Ok(matrix),
    }
}

fn malformed(function: &str, problem: &Problem) -> PyErr {
    Kind::Value.error(format!("{function}: the Arrow data {problem}"))
}

fn not_capsule(function: &str, method: &str, expected: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let got = got.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Kind::Type.error(format!("{function}: expected {expected} from {method}, got {got}"))
}

/// What a capsule points to.
fn pointer<T>(
    function: &str,
    capsule: &Bound<'_, PyAny>,
    method: &str,
    name: &'static CStr,
) -> PyResult<*mut T> {
    let expected = || format!("a capsule named {:?}", name.to_string_lossy());
    let capsule = capsule
        .cast::<PyCapsule>()
        .map_err(|_| not_capsule(function, method, &expected(), capsule))?;
    match capsule.pointer_checked(Some(name)) {
        Ok(pointer) => Ok(pointer.as_ptr().cast()),
        Err(_) => Err(Kind::Value
            .error(format!("{function}: expected {} from {method}, got another", expected()))),
    }
}

/// The field of a schema, if its type can be a matrix.
fn field(function: &'static str, schema: &FFI_ArrowSchema) -> PyResult<FieldRef> {
    check::schema(schema).map_err(|problem| malformed(function, &problem))?;
    let field = Field::try_from(schema).map_err(|error| {
        malformed(function, &format!("has a type that cannot be read: {error}"))
    })?;
    if !can_be_matrix(field.data_type()) {
        return Err(unaccepted(field.data_type()).in_function(function).into());
    }
    Ok(Arc::new(field))
}

fn can_be_matrix(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(field, _) => {
            !matches!(field.data_type(), DataType::Struct(_) | DataType::List(_))
                && can_be_matrix(field.data_type())
        }
        DataType::List(field) | DataType::LargeList(field) => is_number(field.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_number(field.data_type())),
        other => is_number(other),
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

/// Checks the structure of an array; whether its buffers are not aligned. What is refused stays
/// where it is: to release it is its owner's business, who knows how it was made.
fn checked(
    function: &'static str,
    array: &mut FFI_ArrowArray,
    data_type: &DataType,
) -> PyResult<bool> {
    check::array(array, data_type).map_err(|problem| malformed(function, &problem))
}

/// Takes an array that was [`checked`].
fn imported(
    function: &'static str,
    array: &mut FFI_ArrowArray,
    data_type: &DataType,
) -> PyResult<ArrayRef> {
    let array = std::mem::replace(array, FFI_ArrowArray::empty());
    // SAFETY: `checked` saw that the array has the buffers, children and lengths of its type; that
    // the buffers are as long as the lengths say is the producer's promise.
    let data = unsafe { from_ffi_and_data_type(array, data_type.clone()) };
    match data {
        Ok(data) => Ok(make_array(data)),
        Err(error) => Err(malformed(function, &format!("cannot be read: {error}"))),
    }
}

fn array(function: &'static str, capsules: &Bound<'_, PyAny>) -> PyResult<Imported> {
    const METHOD: &str = "__arrow_c_array__";
    let pair = capsules.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
    let Some(pair) = pair else {
        return Err(not_capsule(function, METHOD, "a tuple of two capsules", capsules));
    };
    let schema = pointer(function, &pair.get_item(0)?, METHOD, c"arrow_schema")?;
    let array = pointer(function, &pair.get_item(1)?, METHOD, c"arrow_array")?;
    // SAFETY: a capsule of this name points to an ArrowSchema, which it owns and we borrow.
    let field = field(function, unsafe { &*schema })?;
    // SAFETY: a capsule of this name points to an ArrowArray, which nobody else uses meanwhile: it
    // is taken while the GIL is held.
    let array = unsafe { &mut *array };
    let misaligned = checked(function, array, field.data_type())?;
    let array = imported(function, array, field.data_type())?;
    Ok(Imported::Arrays { field, arrays: vec![array], misaligned })
}

fn stream(function: &'static str, capsule: &Bound<'_, PyAny>) -> PyResult<Imported> {
    let py = capsule.py();
    let stream = pointer(function, capsule, "__arrow_c_stream__", c"arrow_array_stream")?;
    // SAFETY: a capsule of this name points to an ArrowArrayStream; it is moved out, and the
    // capsule is left with a released one.
    let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    if stream.release.is_none() {
        let problem = "was used already: a stream can be read once".to_owned();
        return Err(malformed(function, &problem));
    }
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(malformed(function, &"is a stream without its callbacks".to_owned()));
    };

    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, and `schema` is ours to be written.
    let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    if code != 0 {
        return Err(failed(function, &mut stream, code));
    }
    let field = field(function, &schema)?;

    let mut arrays = Vec::new();
    let mut misaligned = false;
    loop {
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
        misaligned |= checked(function, &mut array, field.data_type())?;
        arrays.push(imported(function, &mut array, field.data_type())?);
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
    Kind::Value.error(format!("{function}: the Arrow stream failed with code {code}: {said}"))
}
