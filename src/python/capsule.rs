//! Arrow data as the capsules of Arrow's PyCapsule interface.
//!
//! A capsule owns its C structure and releases it, unless a consumer has moved it out.

use crate::memory;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::IntoIter;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::errors::Kind;

/// Bytes that a column of a struct takes at most: its C structures, and what a consumer makes of them.
const CHILD: usize = 4 << 10;

/// Makes sure that there is memory for the C structures of a type, which cannot be refused.
fn headroom(data_type: &DataType) {
    if let DataType::Struct(fields) = data_type {
        memory::headroom(fields.len().saturating_mul(CHILD));
    }
}

fn c_schema(field: &Field) -> PyResult<FFI_ArrowSchema> {
    headroom(field.data_type());
    FFI_ArrowSchema::try_from(field).map_err(|error| {
        Kind::Value.error(format!("as_matrix: the data cannot be exported: {error}"))
    })
}

/// A type as the capsule of `__arrow_c_schema__`.
pub(super) fn schema<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, c_schema(field)?, c"arrow_schema")
}

/// An array as the two capsules of `__arrow_c_array__`.
pub(super) fn array<'py>(
    py: Python<'py>,
    field: &Field,
    array: &dyn Array,
) -> PyResult<Bound<'py, PyTuple>> {
    headroom(array.data_type());
    let data = FFI_ArrowArray::new(&array.to_data());
    let data = PyCapsule::new_with_value(py, data, c"arrow_array")?;
    PyTuple::new(py, [schema(py, field)?, data])
}

/// Arrays of one type as the capsule of `__arrow_c_stream__`.
pub(super) fn stream(
    py: Python<'_>,
    field: FieldRef,
    arrays: Vec<ArrayRef>,
) -> PyResult<Bound<'_, PyCapsule>> {
    c_schema(&field)?; // so that the stream's own call, which has no way to say why, does not fail
    let chunks = Box::new(Chunks { field, arrays: arrays.into_iter() });
    let stream = FFI_ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(chunks).cast::<c_void>(),
    };
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// What is left of a stream.
struct Chunks {
    field: FieldRef,
    arrays: IntoIter<ArrayRef>,
}

/// The C interface wants a code of errno.
const EINVAL: c_int = 22;
pub(super) const ENOMEM: c_int = 12;
const FAILED: &CStr = c"the data cannot be exported";

/// Writes what `next` gives to `out`. A panic must not leave a C function.
///
/// # Safety
///
/// `stream` is one that [`stream`] made and nobody has released, and no other thread is in a call
/// of it; `out` can be written to.
#[allow(unsafe_code)]
unsafe fn write<T>(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut T,
    next: impl FnOnce(&mut Chunks) -> Option<T>,
) -> c_int {
    // SAFETY: the caller's promise; `private_data` is the box that `stream` put there.
    let chunks = unsafe { &mut *(*stream).private_data.cast::<Chunks>() };
    let value = match catch_unwind(AssertUnwindSafe(|| next(chunks))) {
        Ok(Some(value)) => value,
        Ok(None) => return EINVAL,
        Err(panic) => return if memory::refused_bytes(panic).is_ok() { ENOMEM } else { EINVAL },
    };
    // SAFETY: the caller's promise. What lies there is no value yet, so nothing is dropped.
    unsafe { out.write(value) };
    0
}

#[allow(unsafe_code)]
unsafe extern "C" fn get_schema(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowSchema,
) -> c_int {
    let next = |chunks: &mut Chunks| {
        headroom(chunks.field.data_type());
        FFI_ArrowSchema::try_from(chunks.field.as_ref()).ok()
    };
    // SAFETY: the consumer keeps the rules of the C stream interface, which are those of `write`.
    unsafe { write(stream, out, next) }
}

#[allow(unsafe_code)]
unsafe extern "C" fn get_next(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowArray,
) -> c_int {
    let next = |chunks: &mut Chunks| match chunks.arrays.next() {
        Some(array) => {
            headroom(array.data_type());
            Some(FFI_ArrowArray::new(&array.to_data()))
        }
        None => Some(FFI_ArrowArray::empty()), // a released array is the end of a stream
    };
    // SAFETY: as in `get_schema`.
    unsafe { write(stream, out, next) }
}

/// A text even if nothing failed: some consumers do not expect a null pointer.
#[allow(unsafe_code)]
unsafe extern "C" fn get_last_error(_: *mut FFI_ArrowArrayStream) -> *const c_char {
    FAILED.as_ptr()
}

#[allow(unsafe_code)]
unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: the consumer, or the capsule, passes a stream that is not released yet, so its box is
    // still there; clearing `release` marks it as gone.
    unsafe {
        let stream = &mut *stream;
        drop(Box::from_raw(stream.private_data.cast::<Chunks>()));
        stream.private_data = std::ptr::null_mut();
        stream.release = None;
    }
}
