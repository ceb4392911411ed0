//! What a producer of Arrow C data hands over, checked before anything reads it.
//!
//! arrow-rs trusts these structures: lengths, counts and pointers. The checks here cost a few
//! comparisons for each level of the type and none for each element. What they cannot see, the
//! size of a buffer, the C Data Interface leaves to the producer.

#![allow(unsafe_code)]

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_schema::DataType;

/// What is wrong with an array or schema, in words that go behind "the Arrow data ".
pub(super) type Problem = String;

/// Whether a schema can be read: it was not released, and has a format.
pub(super) fn schema(schema: &FFI_ArrowSchema) -> Result<(), Problem> {
    if schema.release.is_none() {
        return Err(RELEASED.to_owned());
    }
    if schema.format.is_null() {
        return Err("has a schema without a format".to_owned());
    }
    Ok(())
}

const RELEASED: &str = "was used already: a capsule can be consumed once";

/// Checks an array against its type. Returns whether a buffer is not aligned to its elements.
///
/// A null count of 0 beside a validity buffer is made unknown, so that it is counted anew:
/// producers get it wrong.
pub(super) fn array(array: &mut FFI_ArrowArray, data_type: &DataType) -> Result<bool, Problem> {
    if array.is_released() {
        return Err(RELEASED.to_owned());
    }
    let whole = |what: &str, n: i64| {
        usize::try_from(n).map_err(|_| format!("has {what} {n}, which is negative"))
    };
    let length = whole("length", array.length)?;
    let offset = whole("offset", array.offset)?;
    let end = length.checked_add(offset).ok_or("has a length and offset that overflow")?;
    if array.null_count < -1 || array.null_count > array.length {
        return Err(format!("has null count {} in {length} rows", array.null_count));
    }
    let (buffers, children) = match data_type {
        DataType::FixedSizeList(..) => (1, 1),
        DataType::List(_) | DataType::LargeList(_) => (2, 1),
        DataType::Struct(fields) => (1, fields.len()),
        _ => (2, 0),
    };
    let counts = (whole("buffer count", array.n_buffers)?, whole("child count", array.n_children)?);
    if counts != (buffers, children) {
        return Err(format!(
            "has {} buffers and {} children, where {data_type} has {buffers} and {children}",
            counts.0, counts.1
        ));
    }
    if array.buffers.is_null() || (children > 0 && array.children.is_null()) {
        return Err("has no buffers or children where its counts say it has".to_owned());
    }
    if array.buffer(0).is_null() {
        if array.null_count > 0 {
            return Err(format!("has {} nulls but no validity buffer", array.null_count));
        }
    } else if array.null_count == 0 {
        array.null_count = -1;
    }
    let mut misaligned = false;
    if buffers == 2 {
        let values = array.buffer(1);
        if values.is_null() && end > 0 {
            return Err(format!("has {end} elements but no buffer for them"));
        }
        let size = match data_type {
            DataType::List(_) => 4,
            DataType::LargeList(_) => 8,
            _ => data_type.primitive_width().unwrap_or(1),
        };
        misaligned |= !(values as usize).is_multiple_of(size);
    }
    for i in 0..children {
        // SAFETY: `children` is not null and has `n_children` pointers, by the C Data Interface.
        let child = unsafe { array.children.add(i).read_unaligned() };
        // SAFETY: a child lives as long as its parent, and the parent is ours alone.
        let Some(child) = (unsafe { child.as_mut() }) else {
            return Err(format!("has no child {i} where its counts say it has"));
        };
        let (child_type, needed) = match data_type {
            DataType::FixedSizeList(field, size) => {
                let size = whole("list size", i64::from(*size))?;
                let needed =
                    end.checked_mul(size).ok_or("has lists whose elements overflow an address")?;
                (field.data_type(), needed)
            }
            DataType::List(field) => {
                (field.data_type(), last_offset::<i32>(array, offset, length)?)
            }
            DataType::LargeList(field) => {
                (field.data_type(), last_offset::<i64>(array, offset, length)?)
            }
            DataType::Struct(fields) => (fields[i].data_type(), end),
            _ => continue,
        };
        misaligned |= self::array(child, child_type)?;
        if usize::try_from(child.length).is_ok_and(|have| have < needed) {
            return Err(format!("has {} elements where {needed} are needed", child.length));
        }
    }
    Ok(misaligned)
}

/// The elements that a list's last offset needs; the first must not be negative or past it.
fn last_offset<O: Copy + Into<i64>>(
    array: &FFI_ArrowArray,
    offset: usize,
    length: usize,
) -> Result<usize, Problem> {
    let offsets = array.buffer(1).cast::<O>();
    if length == 0 || offsets.is_null() {
        return Ok(0);
    }
    // SAFETY: a list of `length` from `offset` has `offset + length + 1` offsets, by the C Data
    // Interface, and the caller saw that the sum does not overflow.
    let (first, last) = unsafe {
        (offsets.add(offset).read_unaligned(), offsets.add(offset + length).read_unaligned())
    };
    let (first, last): (i64, i64) = (first.into(), last.into());
    if first < 0 || last < first {
        return Err(format!("has list offsets from {first} to {last}"));
    }
    usize::try_from(last).map_err(|_| format!("has list offset {last}"))
}
