//! Variable-length lists whose rows all have one length: what plain Parquet and Spark give.

use arrow_array::{Array, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{NullBuffer, ScalarBuffer};

use super::build::{chunk, numbers};
use super::scattered::{Offsets, Scattered};
use super::{Column, Form, Matrix, Values, size_of_element, some_nulls};
use crate::dispatch::run;
use crate::error::{Error, Result};

/// Rows whose lengths are looked at before an interrupt is: a millisecond or so.
const ROWS_AT_ONCE: usize = 1 << 20;

/// Sees a list column as a matrix, without a copy: row by row if every row, null rows too, has room
/// for its elements; else by its offsets, as null rows have none where most producers write them.
pub(super) fn uniform<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    form: Form,
) -> Result<Matrix> {
    let (element, column) = numbers(list.values(), list.data_type())?;
    let size = size_of_element(&element).unwrap_or(0);
    let nulls = some_nulls(list.nulls());
    let rows = list.len();
    let (width, has_room) = width_of_rows(list.value_offsets(), nulls.as_ref())?;
    if has_room {
        let (from, len) = (list.value_offsets()[0].as_usize(), rows * width);
        let values = column.values.slice_with_length(from * size, len * size);
        let elements = column.nulls.map(|nulls| nulls.slice(from, len));
        let column = Column { values, nulls: some_nulls(elements.as_ref()) };
        return Matrix::one_chunk(element, width, form, chunk(rows, Values::Rows(column), nulls));
    }
    let offsets = list.offsets().inner().inner().clone();
    let offsets = if O::IS_LARGE {
        Offsets::Large(ScalarBuffer::from(offsets))
    } else {
        Offsets::Small(ScalarBuffer::from(offsets))
    };
    let values = Values::Scattered(Box::new(Scattered::Lists { column, offsets }));
    let mut matrix = Matrix::one_chunk(element, width, form, chunk(rows, values, nulls))?;
    matrix.copied = Some("tile by tile: a list column whose null rows have no elements");
    Ok(matrix)
}

/// How many elements each valid row has, and whether null rows have as many. Without a valid row
/// nothing says how many: 0, and no.
fn width_of_rows<O: OffsetSizeTrait>(
    offsets: &[O],
    nulls: Option<&NullBuffer>,
) -> Result<(usize, bool)> {
    let rows = offsets.len() - 1;
    let length = |row: usize| offsets[row + 1].as_usize() - offsets[row].as_usize();
    let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let first_valid = match nulls {
        None => (rows > 0).then_some(0),
        Some(nulls) => nulls.valid_indices().next(),
    };
    let Some(width) = first_valid.map(length) else { return Ok((0, rows == 0)) };
    let mut has_room = true;
    run::in_steps(0..rows, ROWS_AT_ONCE, |rows| {
        for row in rows {
            if length(row) != width {
                if is_valid(row) {
                    return Err(Error::Ragged { expected: width, row, got: length(row) });
                }
                has_room = false;
            }
        }
        Ok(())
    })?;
    Ok((width, has_room))
}
