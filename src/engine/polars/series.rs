//! polars' series over C: a schema, and an array for each chunk.

use std::ffi::c_void;
use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, cast::AsArray};
use arrow_schema::{DataType, Field};

use super::column::Column;
use super::schema_of;
use crate::error::{Error, Result};
use crate::ffi;
use crate::memory::{self, Gather as _};

/// A series as it goes to or comes from polars: `polars-ffi`'s version 0.
#[repr(C)]
pub(super) struct SeriesExport {
    pub(super) field: *mut FFI_ArrowSchema,
    /// Pointers to arrays, so that they can be moved out one by one.
    pub(super) arrays: *mut *mut FFI_ArrowArray,
    pub(super) len: usize,
    /// Frees the schema and what the arrays lay in, but not the arrays: they were moved out.
    pub(super) release: Option<unsafe extern "C" fn(*mut SeriesExport)>,
    /// polars takes a series without it for a failure.
    pub(super) private_data: *mut c_void,
}

/// What a series of ours holds.
struct HeldArrays {
    schema: Box<FFI_ArrowSchema>,
    arrays: Box<[*mut FFI_ArrowArray]>,
}

impl SeriesExport {
    /// A series for polars.
    pub(super) fn new(field: &Field, arrays: Vec<ArrayRef>) -> Result<Self> {
        let schema = Box::new(schema_of(field)?);
        let arrays = arrays.iter().map(|array| {
            let array = FFI_ArrowArray::new(&compact(array)?.to_data());
            Ok(Box::new(array))
        });
        // All of them before the first is let go of: an error drops those that are there.
        let arrays = arrays.try_gather()?;
        let arrays: Box<[_]> = arrays.into_iter().map(Box::into_raw).gather().into();
        let held = Box::into_raw(Box::new(HeldArrays { schema, arrays }));
        // SAFETY: just made, and used by nobody else.
        let HeldArrays { schema, arrays } = unsafe { &mut *held };
        Ok(Self {
            field: &raw mut **schema,
            arrays: arrays.as_mut_ptr(),
            len: arrays.len(),
            release: Some(released),
            private_data: held.cast(),
        })
    }
}

/// Frees a series of ours.
///
/// # Safety
///
/// Null, or a series that [`SeriesExport::new`] has made, whose arrays were moved out.
unsafe extern "C" fn released(series: *mut SeriesExport) {
    // SAFETY: the caller's promise.
    let Some(series) = (unsafe { series.as_mut() }) else { return };
    let held = std::mem::replace(&mut series.private_data, null_mut()).cast::<HeldArrays>();
    if series.release.take().is_none() || held.is_null() {
        return;
    }
    // SAFETY: `new` has made it, and it is taken once: the pointer is null from now on.
    let held = unsafe { Box::from_raw(held) };
    for array in &held.arrays {
        // SAFETY: a box from `new`; the array in it was moved out, so that only the box is freed.
        drop(unsafe { Box::from_raw(array.cast::<std::mem::ManuallyDrop<FFI_ArrowArray>>()) });
    }
}

/// The same array with no element before or behind its own: polars reads a child that is longer than
/// its lists need as lists of another number.
fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, size) = array.data_type() else {
        return Ok(Arc::clone(array));
    };
    let lists = array.as_fixed_size_list();
    let width = usize::try_from(*size).unwrap_or(0);
    let needed = lists.len() * width;
    let values = if lists.values().len() == needed {
        compact(lists.values())?
    } else {
        compact(&lists.values().slice(0, needed))?
    };
    let made = FixedSizeListArray::try_new_with_length(
        Arc::clone(item),
        *size,
        values,
        lists.nulls().cloned(),
        lists.len(),
    );
    Ok(Arc::new(made.map_err(|error| Error::Arrow { message: error.to_string() })?))
}

/// A series of polars that is ours now. Dropping it releases what is left of it.
pub(super) struct Input(SeriesExport);

impl Input {
    /// All inputs of a call.
    ///
    /// # Safety
    ///
    /// Null, or `count` series that nobody else will release.
    pub(super) unsafe fn all(inputs: *mut SeriesExport, count: usize) -> Vec<Self> {
        let count = if inputs.is_null() { 0 } else { count };
        // SAFETY: the caller's promise; polars forgets them.
        (0..count).map(|i| Self(unsafe { inputs.add(i).read() })).gather()
    }

    /// Where its arrays lie.
    fn pointers(&self) -> &[*mut FFI_ArrowArray] {
        if self.0.arrays.is_null() {
            return &[];
        }
        // SAFETY: `arrays` has `len` pointers, by polars' interface; they are there until `release`.
        unsafe { &*slice_from_raw_parts_mut(self.0.arrays, self.0.len) }
    }

    /// Its field and its arrays, checked and taken over without a copy.
    pub(super) fn into_column(self) -> Result<Column> {
        // SAFETY: a schema or null, by polars' interface; it stays where it is until `release`.
        let schema = unsafe { self.0.field.as_ref() };
        let Some(schema) = schema.filter(|schema| schema.release.is_some()) else {
            return Err(Error::Arrow {
                message: "polars has given a column without a type".into(),
            });
        };
        // SAFETY: polars has made it, and not released it.
        let field = Arc::new(unsafe { ffi::field(schema) }?);
        let mut arrays = memory::with_capacity(self.0.len);
        // Nulls have no buffers, and nothing reads them.
        let is_null = *field.data_type() == DataType::Null;
        for array in self.pointers() {
            // SAFETY: an array or null, by polars' interface; only we use it.
            let Some(array) = (unsafe { array.as_mut() }) else { continue };
            if is_null {
                let rows = usize::try_from(array.length).unwrap_or(0);
                memory::push(&mut arrays, arrow_array::new_null_array(field.data_type(), rows));
                continue;
            }
            if !ffi::can_be_matrix(field.data_type()) {
                return Err(crate::matrix::unaccepted(field.data_type()));
            }
            // SAFETY: polars has made it, and its buffers are as long as its lengths say.
            memory::push(
                &mut arrays,
                ffi::adopted(unsafe { ffi::checked(array, field.data_type()) }?)?,
            );
        }
        Ok(Column { field, arrays })
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        for array in self.pointers() {
            // SAFETY: an array or null, by polars' interface. One that was taken over has left an
            // empty one here, which releases nothing.
            if let Some(array) = unsafe { array.as_mut() } {
                drop(std::mem::replace(array, FFI_ArrowArray::empty()));
            }
        }
        if let Some(release) = self.0.release {
            // SAFETY: its arrays were moved out, and this is the only call.
            unsafe { release(&raw mut self.0) };
        }
    }
}
