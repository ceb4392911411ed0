//! The shortest way in and out over the C Data Interface: columns of fixed-size lists of numbers
//! without nulls, which most columns of vectors are, and results that are plain numbers.
//!
//! All others go by arrow-rs's arrays, which hold and check more. For a small column they are a
//! third of what a call costs (docs/perf/overhead.md).

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::{Array, downcast_primitive_array};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, FieldRef};

use super::build::chunk;
use super::{Chunk, Column, Form, Matrix, Values};

impl Matrix {
    /// Sees such a column as a matrix; anything else comes back as it is.
    ///
    /// # Safety
    ///
    /// The array has the buffers, children and lengths of its field's type, its values are aligned,
    /// and its buffers are as long as its lengths say.
    pub(crate) unsafe fn from_dense(
        field: &FieldRef,
        array: FFI_ArrowArray,
    ) -> Result<Self, FFI_ArrowArray> {
        let DataType::FixedSizeList(item, size) = field.data_type() else { return Err(array) };
        let Some(bytes) = item.data_type().primitive_width() else { return Err(array) };
        // What is between the words of an extension type is read by the long way.
        let is_plain = field.metadata().is_empty() && item.metadata().is_empty();
        if !is_plain || array.n_children != 1 || !array.buffer(0).is_null() {
            return Err(array);
        }
        let child = array.child(0);
        let values = NonNull::new(child.buffer(1).cast_mut());
        let (Some(values), true) = (values, child.buffer(0).is_null()) else { return Err(array) };
        let number = |n: i64| usize::try_from(n).ok();
        let shape = || {
            let (rows, width) = (number(array.length)?, usize::try_from(*size).ok()?);
            let first = number(array.offset)?.checked_mul(width)?;
            let start = first.checked_add(number(child.offset)?)?.checked_mul(bytes)?;
            let len = rows.checked_mul(width)?.checked_mul(bytes)?;
            isize::try_from(start.checked_add(len)?).ok()?;
            Some((rows, width, start, len))
        };
        let Some((rows, width, start, len)) = shape() else { return Err(array) };
        // SAFETY: the values reach to the last element of the lists (the caller's promise), so that
        // `start` and `len` bytes behind it are theirs; the array, which owns them, is kept.
        let values =
            unsafe { Buffer::from_custom_allocation(values.add(start), len, Arc::new(array)) };
        Ok(Self {
            element: item.data_type().clone(),
            rows,
            width,
            chunks: vec![chunk(rows, Values::Rows(Column { values, nulls: None }), None)],
            form: Form::Lists(vec![(Arc::clone(item), *size)]),
            field: Some(Arc::clone(field)),
            copied: None,
        })
    }

    /// The matrix as such a column; `None` if it is none.
    pub(crate) fn to_dense(&self) -> Option<FFI_ArrowArray> {
        let [chunk] = self.chunks.as_slice() else { return None };
        let Chunk { rows, values: Values::Rows(column), row_nulls: None, inner_nulls, stored } =
            chunk
        else {
            return None;
        };
        let is_one_level = matches!(&self.form, Form::Lists(levels) if levels.len() == 1);
        let has_bits = self.element == DataType::Boolean;
        let is_own = inner_nulls.is_empty() && stored.is_empty();
        if !is_one_level || has_bits || column.nulls.is_some() || !is_own {
            return None;
        }
        let numbers = numbers(rows * self.width, column.values.clone())?;
        let lists = Box::new(Lists { pointers: [null()], child: null_mut(), numbers });
        let lists = Box::into_raw(lists);
        let mut array = described(i64::try_from(*rows).ok()?, lists, release::<Lists>);
        (array.n_buffers, array.n_children) = (1, 1);
        // SAFETY: as in `numbers`.
        unsafe {
            (*lists).child = &raw mut (*lists).numbers;
            array.buffers = (&raw mut (*lists).pointers).cast();
            array.children = &raw mut (*lists).child;
        }
        Some(array)
    }
}

/// Such an array of plain numbers; `None` if it has nulls, or holds something else.
pub(crate) fn dense_numbers(array: &dyn Array) -> Option<FFI_ArrowArray> {
    if array.nulls().is_some() {
        return None;
    }
    downcast_primitive_array!(
        array => numbers(array.len(), array.values().inner().clone()),
        _ => None
    )
}

/// `len` numbers without nulls.
fn numbers(len: usize, values: Buffer) -> Option<FFI_ArrowArray> {
    let len = i64::try_from(len).ok()?;
    let pointers = [null(), values.as_ptr().cast()];
    let numbers = Box::into_raw(Box::new(Numbers { pointers, _values: values }));
    let mut array = described(len, numbers, release::<Numbers>);
    array.n_buffers = 2;
    // SAFETY: the box was made just now; it stays where it is until the array is released.
    array.buffers = unsafe { (&raw mut (*numbers).pointers).cast() };
    Some(array)
}

/// What an exported array of numbers owns.
struct Numbers {
    pointers: [*const c_void; 2],
    _values: Buffer,
}

/// What an exported array of lists owns. Its numbers release themselves: a consumer may have moved
/// them out, and then they are marked as released here.
struct Lists {
    pointers: [*const c_void; 1],
    child: *mut FFI_ArrowArray,
    numbers: FFI_ArrowArray,
}

/// An array without nulls, of which only what it owns is set.
fn described<P>(
    length: i64,
    owned: *mut P,
    release: unsafe extern "C" fn(*mut FFI_ArrowArray),
) -> FFI_ArrowArray {
    let mut array = FFI_ArrowArray::empty();
    (array.length, array.null_count) = (length, 0);
    (array.private_data, array.release) = (owned.cast(), Some(release));
    array
}

/// The callback that frees what an array owns, as the C Data Interface asks for it.
unsafe extern "C" fn release<P>(array: *mut FFI_ArrowArray) {
    // SAFETY: called once, with an array that `described` made with a box of `P`.
    unsafe {
        if let Some(array) = array.as_mut() {
            drop(Box::from_raw(array.private_data.cast::<P>()));
            array.release = None;
        }
    }
}
