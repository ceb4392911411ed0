//! What a producer of Arrow C data hands over, checked before anything reads it.
//!
//! arrow-rs trusts these structures: it follows pointers, multiplies and recurses as they say. So
//! all that it and we rely on is looked at here first, at a cost of a few comparisons for each
//! level of the type:
//!
//! ```text
//! schema: for each field, at most DEEPEST levels down and MOST_FIELDS in all, by a loop:
//!     it was not released, and lies at an aligned address
//!     format, name and metadata are there and are UTF-8
//!     it has the children that its format asks for
//! array: for each level of the type, which the schema has bounded:
//!     it was not released, and lies at an aligned address
//!     length, offset and null count are in range; no byte of a buffer is past MOST_BYTES
//!     it has the buffers and children that its type asks for; fixed-size children are long enough
//! offsets of lists, the one thing that costs something for each row:
//!     they go up, and end inside the child
//! ```
//!
//! What cannot be seen is whether a pointer leads to what it should, and how long a buffer is:
//! that is the producer's promise by the C Data Interface.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_schema::DataType;

use crate::memory;
use crate::type_name::TypeName;

/// What is wrong with an array or schema, in words that go behind "the Arrow data ".
pub(crate) type Problem = String;

/// Levels that a type may have. pyarrow takes 64; NumPy before 2.0 had 32 dimensions. arrow-rs
/// recurses over them, and with 32 that fits a thread with a stack of 64 KiB.
pub(crate) const DEEPEST: usize = 32;

/// Fields that a type may have in all. Wide tables have some ten thousand; without a limit a few
/// structs that share their children would be a type that takes years to read.
const MOST_FIELDS: usize = 1 << 20;

/// Entries that the metadata of a field may have: arrow-rs allocates for as many as are claimed.
const MOST_ENTRIES: i32 = 1 << 16;

/// Bytes that a buffer may have: no processor's address space is larger.
const MOST_BYTES: u64 = if usize::BITS == 64 { 1 << 56 } else { isize::MAX as u64 };

/// Whether a schema can be read.
///
/// # Safety
///
/// Its pointers that are not null lead to what the C Data Interface says.
pub(crate) unsafe fn schema(root: &FFI_ArrowSchema) -> Result<(), Problem> {
    let mut pending = vec![(root, 1)];
    let mut fields = 1;
    while let Some((schema, depth)) = pending.pop() {
        let what = if depth == 1 { "schema" } else { "child schema" };
        if schema.release.is_none() {
            return Err(format!("has a {what} that was released"));
        }
        let text = |named: &str, text: *const c_char| {
            // SAFETY: not null (see the callers), so a C string, by the promise of this function.
            let bytes = unsafe { CStr::from_ptr(text) };
            bytes.to_str().map_err(|_| format!("has a {what} whose {named} is not UTF-8"))
        };
        if schema.format.is_null() {
            return Err(format!("has a {what} without a format"));
        }
        let format = text("format", schema.format)?;
        if !schema.name.is_null() {
            text("name", schema.name)?;
        }
        if !schema.metadata.is_null() {
            // SAFETY: not null, so metadata in the format of the interface.
            let problem = unsafe { metadata(schema.metadata) }.err();
            if let Some(problem) = problem {
                return Err(format!("has a {what} with metadata that {problem}"));
            }
        }

        let children = usize::try_from(schema.n_children)
            .map_err(|_| format!("has a {what} with {} children", schema.n_children))?;
        if let Some(expected) = children_of(format)?
            && children != expected
        {
            return Err(format!(
                "has a {what} of format {format:?} with {children} children, where that has \
                 {expected}"
            ));
        }
        fields = children.saturating_add(fields);
        if fields > MOST_FIELDS {
            return Err(format!("has a type of more than {MOST_FIELDS} fields"));
        }
        let has_dictionary = !schema.dictionary.is_null();
        if depth >= DEEPEST && (children > 0 || has_dictionary) {
            return Err(format!(
                "has a type that is nested more than {DEEPEST} levels deep, which is the most \
                 that is read"
            ));
        }
        if children > 0 && schema.children.is_null() {
            return Err(format!("has a {what} without the {children} children that it counts"));
        }
        for i in 0..children {
            // SAFETY: `children` is not null and has `n_children` pointers, by the promise of this
            // function.
            let child = unsafe { schema.children.add(i).read_unaligned() };
            // SAFETY: as above; `followed` looks whether it is null or not aligned.
            let child = unsafe { followed(child) }
                .ok_or_else(|| format!("has a {what} without the child {i} that it counts"))?;
            memory::push(&mut pending, (child, depth + 1));
        }
        if has_dictionary {
            // SAFETY: as above.
            let values = unsafe { followed(schema.dictionary) }
                .ok_or_else(|| format!("has a {what} with a dictionary at an odd address"))?;
            pending.push((values, depth + 1));
        }
    }
    Ok(())
}

/// What a pointer leads to, unless it is null or not aligned.
///
/// # Safety
///
/// If it is neither, it leads to a `T` that stays where it is.
unsafe fn followed<'a, T>(pointer: *mut T) -> Option<&'a T> {
    if !pointer.is_aligned() {
        return None;
    }
    // SAFETY: aligned; what it leads to is the caller's promise.
    unsafe { pointer.as_ref() }
}

/// The children that a format asks for; `None` if it takes any number.
fn children_of(format: &str) -> Result<Option<usize>, Problem> {
    let number = match format {
        "n" | "b" | "c" | "C" | "s" | "S" | "i" | "I" | "l" | "L" | "e" | "f" | "g" => 0,
        "z" | "Z" | "vz" | "u" | "U" | "vu" => 0,
        "+l" | "+L" | "+vl" | "+vL" | "+m" => 1,
        "+r" => 2,
        "+s" => return Ok(None),
        _ => match format.split_once(':') {
            Some(("+w", size)) => match size.parse::<i32>() {
                Ok(0..) => 1,
                _ => return Err(format!("has fixed-size lists of {size:?} elements")),
            },
            Some(("+ud" | "+us", _)) => return Ok(None),
            Some(("w" | "d", _)) => 0,
            _ if format.starts_with('t') => 0,
            _ => return Err(format!("has format {format:?}, which is no Arrow type")),
        },
    };
    Ok(Some(number))
}

/// Checks the metadata of a field: a count, then pairs of texts with their lengths before them.
///
/// # Safety
///
/// It is as long as its counts say, unless they are negative.
unsafe fn metadata(start: *const c_char) -> Result<(), Problem> {
    let mut at = start.cast::<u8>();
    let mut number = |skip: usize| {
        // SAFETY: inside the metadata, by the promise of this function; `skip` is what the number
        // before said.
        unsafe {
            at = at.add(skip);
            let number = at.cast::<i32>().read_unaligned();
            at = at.add(4);
            (number, at)
        }
    };
    let (entries, _) = number(0);
    if !(0..=MOST_ENTRIES).contains(&entries) {
        return Err(format!("has {entries} entries; at most {MOST_ENTRIES} are read"));
    }
    let mut last = 0;
    for _ in 0..entries {
        for what in ["key", "value"] {
            let (length, text) = number(last);
            last = usize::try_from(length)
                .map_err(|_| format!("has a {what} of {length} bytes, which is negative"))?;
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(text, last) };
            std::str::from_utf8(bytes).map_err(|_| format!("has a {what} that is not UTF-8"))?;
        }
    }
    Ok(())
}

/// An array that was checked against its type, and still lies where it was.
pub(crate) struct Checked<'a> {
    array: &'a mut FFI_ArrowArray,
    data_type: &'a DataType,
    /// Whether a buffer is not aligned to its elements.
    #[cfg_attr(not(feature = "python"), expect(dead_code, reason = "only explained in Python"))]
    pub(crate) misaligned: bool,
}

impl<'a> Checked<'a> {
    /// Rows whose offsets have still to be looked at: none, unless they are variable-size lists.
    #[cfg(feature = "python")]
    pub(crate) fn unmeasured_rows(&self) -> usize {
        if offset_size(self.data_type).is_some() { self.array.len() } else { 0 }
    }

    /// Takes it; what is left is marked as released.
    pub(crate) fn take(self) -> (FFI_ArrowArray, &'a DataType) {
        (std::mem::replace(self.array, FFI_ArrowArray::empty()), self.data_type)
    }
}

/// Checks an array against its type, which came from a schema that was checked.
///
/// What is refused stays where it is: to release it is its owner's business.
///
/// # Safety
///
/// Its pointers that are not null lead to what the C Data Interface says, and its buffers are as
/// long as its lengths say.
pub(crate) unsafe fn array<'a>(
    array: &'a mut FFI_ArrowArray,
    data_type: &'a DataType,
) -> Result<Checked<'a>, Problem> {
    if array.is_released() {
        return Err("was used already: a capsule can be consumed once".to_owned());
    }
    // SAFETY: the promise of this function.
    let misaligned = unsafe { level(array, data_type) }?;
    Ok(Checked { array, data_type, misaligned })
}

/// Checks an array and its children, which are as deep as its type. Returns whether a buffer is
/// not aligned to its elements.
///
/// # Safety
///
/// As for [`array`].
unsafe fn level(array: &FFI_ArrowArray, data_type: &DataType) -> Result<bool, Problem> {
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
        DataType::ListView(_) | DataType::LargeListView(_) => (3, 1),
        DataType::Struct(fields) => (1, fields.len()),
        _ => (2, 0),
    };
    let counts = (whole("buffer count", array.n_buffers)?, whole("child count", array.n_children)?);
    if counts != (buffers, children) {
        return Err(format!(
            "has {} buffers and {} children, where {} has {buffers} and {children}",
            counts.0,
            counts.1,
            TypeName(data_type)
        ));
    }
    if array.buffers.is_null() || (children > 0 && array.children.is_null()) {
        return Err("has no buffers or children where its counts say it has".to_owned());
    }
    if !array.dictionary.is_null() {
        return Err(format!("has a dictionary, which {data_type} has not"));
    }

    let fits = |count: Option<usize>, size: usize| {
        count
            .and_then(|count| count.checked_mul(size))
            .filter(|bytes| *bytes as u64 <= MOST_BYTES)
            .ok_or_else(|| format!("ends after {end} elements, which no memory can hold"))
    };
    if array.buffer(0).is_null() {
        if array.null_count > 0 {
            return Err(format!("has {} nulls but no validity buffer", array.null_count));
        }
    } else {
        fits(Some(end.div_ceil(8)), 1)?;
    }
    let mut misaligned = false;
    if buffers == 3 {
        let size = view_size(data_type).unwrap_or(8);
        fits(Some(end), size)?;
        for (i, what) in [(1, "offsets"), (2, "sizes")] {
            let values = array.buffer(i);
            if values.is_null() && end > 0 {
                return Err(format!("has {end} list views but no buffer for their {what}"));
            }
            misaligned |= length > 0 && !(values as usize).is_multiple_of(size);
        }
    }
    if buffers == 2 {
        let values = array.buffer(1);
        let (count, size) = match offset_size(data_type) {
            Some(size) => (end.checked_add(1), size),
            None => (Some(end), data_type.primitive_width().unwrap_or(1)),
        };
        fits(count, size)?;
        if values.is_null() && end > 0 {
            return Err(format!("has {end} elements but no buffer for them"));
        }
        // What has no rows is not read.
        misaligned |= length > 0 && !(values as usize).is_multiple_of(size);
    }

    for i in 0..children {
        // SAFETY: `children` is not null and has `n_children` pointers, by the caller's promise.
        let child = unsafe { array.children.add(i).read_unaligned() };
        // SAFETY: a child lives as long as its parent; `followed` looks whether it is null or not
        // aligned.
        let child = unsafe { followed(child) }
            .ok_or_else(|| format!("has no child {i} where its counts say it has"))?;
        if child.is_released() {
            return Err(format!("has a child {i} that was released"));
        }
        let (child_type, needed) = match data_type {
            DataType::FixedSizeList(field, size) => {
                let size = whole("list size", i64::from(*size))?;
                let needed =
                    end.checked_mul(size).ok_or("has lists whose elements overflow an address")?;
                (field.data_type(), needed)
            }
            // What lists need is in their offsets, see `offsets`.
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field) => (field.data_type(), 0),
            DataType::Struct(fields) => (fields[i].data_type(), end),
            _ => continue,
        };
        // SAFETY: the caller's promise holds for the children too.
        misaligned |= unsafe { level(child, child_type) }
            .map_err(|problem| format!("in child {i} {problem}"))?;
        if usize::try_from(child.length).is_ok_and(|have| have < needed) {
            return Err(format!("has {} elements where {needed} are needed", child.length));
        }
    }
    Ok(misaligned)
}

/// Bytes of an offset of variable-size lists; `None` for other types.
pub(crate) fn offset_size(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::List(_) => Some(4),
        DataType::LargeList(_) => Some(8),
        _ => None,
    }
}

/// Bytes of an offset, and of a size, of list views; `None` for other types.
pub(crate) fn view_size(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::ListView(_) => Some(4),
        DataType::LargeListView(_) => Some(8),
        _ => None,
    }
}

/// Checks the offsets of variable-size lists: they go up, from 0 or more to the length of the child
/// at most, null rows included. Arrays of other types pass.
///
/// # Safety
///
/// The array passed [`array`] with this type.
pub(crate) unsafe fn offsets(array: &FFI_ArrowArray, data_type: &DataType) -> Result<(), Problem> {
    match data_type {
        // SAFETY: the caller's promise; lists of the type have offsets of this size.
        DataType::List(_) => unsafe { ascending::<i32>(array) },
        // SAFETY: as above.
        DataType::LargeList(_) => unsafe { ascending::<i64>(array) },
        _ => Ok(()),
    }
}

/// Offsets that are looked at before one of them is looked for: enough for a loop of vectors.
const BLOCK: usize = 4096;

/// # Safety
///
/// The array was checked as one of lists with offsets `O`.
unsafe fn ascending<O: Copy + Ord + Into<i64>>(array: &FFI_ArrowArray) -> Result<(), Problem> {
    let (length, first) = (array.len(), array.offset());
    if length == 0 {
        return Ok(());
    }
    let start = array.buffer(1).cast::<O>();
    // SAFETY: `first + length + 1` offsets are in the buffer, which is not null, and their bytes do
    // not overflow; `row` is at most `length`.
    let at = |row: usize| unsafe { start.add(first + row).read_unaligned() };
    for from in (0..length).step_by(BLOCK) {
        let rows = from..(from + BLOCK).min(length);
        if rows.clone().fold(false, |down, row| down | (at(row + 1) < at(row)))
            && let Some(row) = rows.into_iter().find(|row| at(row + 1) < at(*row))
        {
            let (from, to): (i64, i64) = (at(row).into(), at(row + 1).into());
            return Err(format!("has list offsets that go down in row {row}, from {from} to {to}"));
        }
    }
    let (from, to): (i64, i64) = (at(0).into(), at(length).into());
    if from < 0 {
        return Err(format!("has list offset {from} in row 0, which is negative"));
    }
    let elements = array.child(0).length;
    if to > elements {
        return Err(format!("has {elements} elements where list offset {to} needs {to}"));
    }
    Ok(())
}
