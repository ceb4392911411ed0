//! Arrays that were checked, taken over: arrow-rs's arrays over a producer's buffers, which are
//! released when the last of them is dropped.
//!
//! arrow-rs's own `from_ffi` does the same for arrays that it trusts. It multiplies unchecked,
//! wants offsets for lists without rows, believes null counts, and aligns buffers by a copy that
//! aborts the process where there is no memory for it.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::{ArrayRef, make_array, new_empty_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::check::{self, Checked};
use super::malformed;
use crate::buffer::Output;
use crate::error::Result;
use crate::memory;

/// Takes an array over. It is released here if its list offsets are wrong; to look at them costs
/// something for each row.
///
/// # Errors
///
/// [`Error::Arrow`](crate::Error::Arrow) for wrong offsets, and where there is no memory to align a
/// buffer.
pub(crate) fn adopted(array: Checked<'_>) -> Result<ArrayRef> {
    let (array, data_type) = array.take();
    // Of no rows nothing is read, so that it does not matter which buffers there are.
    if array.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let owner = Arc::new(array);
    let adoption = Adoption { owner: &owner };
    // SAFETY: the array was checked as one of this type.
    let data = unsafe { adoption.level(&owner, data_type) }?;
    Ok(make_array(data))
}

/// Bytes that arrow-rs takes for a child in all: its data, its array, and what counts their holders.
const CHILD: usize = 1 << 10;

struct Adoption<'a> {
    /// The whole array, which all buffers keep alive.
    owner: &'a Arc<FFI_ArrowArray>,
}

impl Adoption<'_> {
    /// The data of an array and its children, which are as deep as its type.
    ///
    /// # Safety
    ///
    /// The array is the owner or one of its children, and was checked as one of this type.
    unsafe fn level(&self, array: &FFI_ArrowArray, data_type: &DataType) -> Result<ArrayData> {
        let (length, end) = (array.len(), array.len() + array.offset());
        let mut data = ArrayData::builder(data_type.clone()).len(length).offset(array.offset());
        if !array.buffer(0).is_null() {
            // Without a count: producers get it wrong, so the nulls are counted anew.
            // SAFETY: a validity buffer has a bit for each element up to the last.
            let validity = unsafe { self.buffer(array.buffer(0), end.div_ceil(8), 1) }?;
            data = data.null_bit_buffer(Some(validity));
        }
        if let Some(size) = check::offset_size(data_type) {
            // SAFETY: the array was checked, by the promise of this function.
            unsafe { check::offsets(array, data_type) }.map_err(|problem| malformed(&problem))?;
            // SAFETY: lists have an offset more than they are.
            let offsets = unsafe { self.buffer(array.buffer(1), (end + 1) * size, size) }?;
            data = data.add_buffer(offsets);
        } else if let Some(size) = check::view_size(data_type) {
            for i in [1, 2] {
                // SAFETY: as many offsets and sizes as there are views; where they lead is looked at
                // when they are read.
                data = data.add_buffer(unsafe { self.buffer(array.buffer(i), end * size, size) }?);
            }
        } else if *data_type == DataType::Boolean {
            // SAFETY: a bit for each element up to the last.
            data = data.add_buffer(unsafe { self.buffer(array.buffer(1), end.div_ceil(8), 1) }?);
        } else if let Some(size) = data_type.primitive_width() {
            // SAFETY: as long as its elements, of which `check` saw that their bytes do not
            // overflow.
            data = data.add_buffer(unsafe { self.buffer(array.buffer(1), end * size, size) }?);
        }
        let child = |i: usize, child_type: &DataType| {
            // SAFETY: the children were checked with their parent.
            unsafe { self.level(array.child(i), child_type) }
        };
        match data_type {
            DataType::FixedSizeList(field, _)
            | DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field) => {
                data = data.add_child_data(child(0, field.data_type())?);
            }
            DataType::Struct(fields) => {
                memory::headroom(fields.len().saturating_mul(CHILD));
                for (i, field) in fields.iter().enumerate() {
                    data = data.add_child_data(child(i, field.data_type())?);
                }
            }
            _ => {}
        }
        // SAFETY: `check` saw all that the type asks for; list offsets were checked above, and
        // `buffer` has aligned what was not.
        Ok(unsafe { data.build_unchecked() })
    }

    /// Memory of the owner, or a copy where it is not aligned.
    ///
    /// # Safety
    ///
    /// It has this many bytes, or none.
    unsafe fn buffer(&self, start: *const u8, bytes: usize, align: usize) -> Result<Buffer> {
        let start = match NonNull::new(start.cast_mut()) {
            Some(start) if bytes > 0 => start,
            // Aligned for any element, though there is none.
            _ => return Ok(Buffer::from_vec(Vec::<u64>::new())),
        };
        if !start.addr().get().is_multiple_of(align) {
            let mut copy = Output::<u8>::new(bytes)?;
            // SAFETY: it has this many bytes, by the promise of this function.
            copy.copy_from_slice(unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) });
            return Ok(copy.into_buffer());
        }
        let owner = Arc::clone(self.owner);
        // SAFETY: it has this many bytes, which the owner keeps where they are.
        Ok(unsafe { Buffer::from_custom_allocation(start, bytes, owner) })
    }
}
