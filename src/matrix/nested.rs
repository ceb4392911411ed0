//! List views, and lists of lists of one shape, as the lists that a matrix is made of.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, OffsetSizeTrait,
    make_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, FieldRef};

use crate::buffer::vec_with_capacity;
use crate::compute::is_number;
use crate::error::{Error, Result};
use crate::memory::Gather as _;

/// Whether columns of a type can be seen as a matrix once they are [lists](as_lists).
pub(crate) fn can_be_lists(data_type: &DataType) -> bool {
    match data_type {
        DataType::ListView(item) | DataType::LargeListView(item) => is_number(item.data_type()),
        DataType::List(item) | DataType::LargeList(item) => match item.data_type() {
            DataType::FixedSizeList(inner, _) => is_array(inner.data_type()),
            DataType::List(inner) | DataType::LargeList(inner) => is_number(inner.data_type()),
            _ => false,
        },
        _ => false,
    }
}

/// Numbers, or nested fixed-size lists of them.
fn is_array(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(item, _) => is_array(item.data_type()),
        other => is_number(other),
    }
}

/// List views as lists, which share their elements where these lie one behind the other; lists of
/// lists, all of one shape, as fixed-size ones. Any other column as it is.
///
/// # Errors
///
/// [`Error::Ragged`] for lists of lists of different shapes, and [`Error::Arrow`] for views past
/// the end of their elements.
pub(crate) fn as_lists(
    field: FieldRef,
    arrays: Vec<ArrayRef>,
) -> Result<(FieldRef, Vec<ArrayRef>)> {
    if !can_be_lists(field.data_type()) {
        return Ok((field, arrays));
    }
    let made: Vec<ArrayRef> = match field.data_type() {
        DataType::ListView(_) => {
            arrays.iter().map(|array| of_views(array.as_list_view::<i32>())).try_gather()?
        }
        DataType::LargeListView(_) => {
            arrays.iter().map(|array| of_views(array.as_list_view::<i64>())).try_gather()?
        }
        _ => {
            // All chunks have the shape of the first row that is there.
            let mut sizes = Vec::new();
            arrays.iter().for_each(|array| shape_of(array, 0, &mut sizes));
            arrays.iter().map(|array| fixed(array, &sizes)).try_gather()?
        }
    };
    let data_type = match made.first() {
        Some(array) => array.data_type().clone(),
        None => match field.data_type() {
            DataType::ListView(item) => DataType::List(Arc::clone(item)),
            DataType::LargeListView(item) => DataType::LargeList(Arc::clone(item)),
            other => empty_type(other),
        },
    };
    let field = Field::new(field.name(), data_type, field.is_nullable());
    Ok((Arc::new(field), made))
}

/// The type of no rows of lists of lists: nothing says how long they are.
fn empty_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => {
            let inner = empty_type(item.data_type());
            DataType::new_fixed_size_list(inner, 0, true)
        }
        other => other.clone(),
    }
}

fn malformed(error: arrow_schema::ArrowError) -> Error {
    Error::Arrow { message: error.to_string() }
}

/// Views as lists of the same rows.
fn of_views<O: OffsetSizeTrait>(views: &GenericListViewArray<O>) -> Result<ArrayRef> {
    let (offsets, sizes, values) = (views.offsets(), views.sizes(), views.values());
    let nulls = views.nulls();
    let rows = views.len();
    let range = |row: usize| -> Result<(usize, usize)> {
        // What a null row points to is nothing.
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return Ok((0, 0));
        }
        let (start, len) = (offsets[row].to_usize(), sizes[row].to_usize());
        let fits = |start: usize, len: usize| {
            start.checked_add(len).is_some_and(|end| end <= values.len())
        };
        match (start, len) {
            (Some(start), Some(len)) if fits(start, len) => Ok((start, len)),
            _ => Err(Error::Arrow {
                message: format!("the Arrow data has a list view past its elements in row {row}"),
            }),
        }
    };
    let mut ends: Vec<O> = vec_with_capacity(rows + 1)?;
    let mut first = None;
    let mut total = 0;
    let mut is_in_order = true;
    ends.push(O::usize_as(0));
    for row in 0..rows {
        let (start, len) = range(row)?;
        if len > 0 {
            let base = *first.get_or_insert(start);
            is_in_order &= start == base + total;
        }
        total += len;
        let Some(end) = O::from_usize(total) else {
            let (width, limit) = (0, "list offsets");
            return Err(Error::TooLarge { rows, width, limit });
        };
        ends.push(end);
    }
    let elements = if is_in_order {
        values.slice(first.unwrap_or(0), total)
    } else {
        let data = values.to_data();
        let mut taken = MutableArrayData::new(vec![&data], false, total);
        for row in 0..rows {
            let (start, len) = range(row)?;
            taken.try_extend(0, start, start + len).map_err(malformed)?;
        }
        make_array(taken.freeze())
    };
    let (DataType::ListView(item) | DataType::LargeListView(item)) = views.data_type() else {
        return Err(super::unaccepted(views.data_type()));
    };
    let offsets = OffsetBuffer::new(ends.into());
    let lists = GenericListArray::<O>::try_new(Arc::clone(item), offsets, elements, nulls.cloned());
    Ok(Arc::new(lists.map_err(malformed)?))
}

/// The lengths of the first lists that are there at each level, as far as they are not known.
fn shape_of(array: &ArrayRef, level: usize, sizes: &mut Vec<usize>) {
    let (first, values) = match array.data_type() {
        DataType::List(_) => first_length(array.as_list::<i32>()),
        DataType::LargeList(_) => first_length(array.as_list::<i64>()),
        _ => return,
    };
    if sizes.len() == level {
        match first {
            Some(len) => sizes.push(len),
            None => return,
        }
    }
    shape_of(&values, level + 1, sizes);
}

fn first_length<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> (Option<usize>, ArrayRef) {
    let valid = (0..list.len()).find(|row| list.is_valid(*row));
    let first = valid.map(|row| list.value_length(row).as_usize());
    (first, Arc::clone(list.values()))
}

/// Lists as fixed-size ones of the lengths of their levels, outermost first.
fn fixed(array: &ArrayRef, sizes: &[usize]) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => fixed_lists(array.as_list::<i32>(), sizes),
        DataType::LargeList(_) => fixed_lists(array.as_list::<i64>(), sizes),
        _ => Ok(Arc::clone(array)),
    }
}

fn fixed_lists<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    sizes: &[usize],
) -> Result<ArrayRef> {
    let (rows, nulls) = (list.len(), list.nulls());
    let size = sizes.first().copied().unwrap_or(0);
    let width = i32::try_from(size).map_err(|_| Error::TooLarge {
        rows,
        width: size,
        limit: "a fixed-size list",
    })?;
    let offsets = list.value_offsets();
    let length = |row: usize| (offsets[row + 1] - offsets[row]).as_usize();
    let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let odd = |row: &usize| length(*row) != size;
    if let Some(row) = (0..rows).filter(|row| is_valid(*row)).find(odd) {
        return Err(Error::Ragged { expected: size, row, got: length(row) });
    }
    let values = if (0..rows).any(|row| odd(&row)) {
        // A null row has no elements: as many nulls.
        let data = list.values().to_data();
        let mut padded = MutableArrayData::new(vec![&data], true, rows * size);
        for row in 0..rows {
            match is_valid(row) {
                true => {
                    let (from, to) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
                    padded.try_extend(0, from, to).map_err(malformed)?;
                }
                false => padded.try_extend_nulls(size).map_err(malformed)?,
            }
        }
        make_array(padded.freeze())
    } else {
        list.values().slice(offsets[0].as_usize(), rows * size)
    };
    let values = fixed(&values, sizes.get(1..).unwrap_or(&[]))?;
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let nulls: Option<NullBuffer> = nulls.cloned();
    let lists = FixedSizeListArray::try_new_with_length(item, width, values, nulls, rows);
    Ok(Arc::new(lists.map_err(malformed)?))
}
