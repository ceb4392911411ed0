//! Variable-length lists whose rows all have one length: what plain Parquet and Spark give.

use arrow_array::{Array, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{BooleanBufferBuilder, MutableBuffer, NullBuffer};

use super::build::{chunk, numbers, unaccepted};
use super::{Column, Form, Matrix, Values, some_nulls};
use crate::error::{Error, Result};

/// Sees a list column as a matrix: no copy if every row, null rows too, has room for its
/// elements. Null rows that have none (as most producers write them) make the rows move apart.
pub(super) fn uniform<O: OffsetSizeTrait>(
    function: &'static str,
    list: &GenericListArray<O>,
    form: Form,
) -> Result<Matrix> {
    let (element, column) = numbers(list.values()).ok_or_else(|| unaccepted(list.data_type()))?;
    let size = element.primitive_width().unwrap_or(0);
    let nulls = some_nulls(list.nulls());
    let rows = list.len();
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let offsets = list.value_offsets();
    let start = |row: usize| offsets[row].as_usize();
    let length = |row: usize| start(row + 1) - start(row);

    let width = (0..rows).find(|&row| is_valid(row)).map_or(0, length);
    let mut has_room = true;
    for row in 0..rows {
        if length(row) != width {
            if is_valid(row) {
                return Err(Error::Ragged { function, expected: width, row, got: length(row) });
            }
            has_room = false;
        }
    }
    if has_room {
        let (from, len) = (start(0), rows * width);
        let values = column.values.slice_with_length(from * size, len * size);
        let elements = column.nulls.map(|nulls| nulls.slice(from, len));
        let column = Column { values, nulls: some_nulls(elements.as_ref()) };
        return Matrix::one_chunk(element, width, form, chunk(rows, Values::Rows(column), nulls));
    }

    let too_large = Error::TooLarge { function, rows, width, limit: "the address space" };
    let len = rows.checked_mul(width).ok_or(too_large.clone())?;
    let bytes = len.checked_mul(size).ok_or(too_large)?;
    let mut values = MutableBuffer::with_capacity(bytes);
    let mut elements = column.nulls.as_ref().map(|_| BooleanBufferBuilder::new(len));
    for row in 0..rows {
        if is_valid(row) {
            let from = start(row);
            values.extend_from_slice(&column.values[from * size..(from + width) * size]);
            if let (Some(builder), Some(nulls)) = (&mut elements, &column.nulls) {
                builder.append_buffer(nulls.slice(from, width).inner());
            }
        } else {
            values.extend_zeros(width * size);
            if let Some(builder) = &mut elements {
                builder.append_n(width, true);
            }
        }
    }
    let elements = elements.map(|mut builder| NullBuffer::new(builder.finish()));
    let column = Column { values: values.into(), nulls: some_nulls(elements.as_ref()) };
    let chunk = chunk(rows, Values::Rows(column), nulls);
    let mut matrix = Matrix::one_chunk(element, width, form, chunk)?;
    matrix.copied = Some("a list column whose null rows have no elements: rows moved apart");
    Ok(matrix)
}
