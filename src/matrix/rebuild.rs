//! From a matrix back to the Arrow type that it came from.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, LargeListArray, ListArray, RecordBatch,
    StructArray, make_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};

use super::scattered::{Offsets, Scattered};
use super::{
    Bits, Chunk, Column, Form, Mask, Matrix, Number, Values, expand, from_words, size_of_element,
    unaccepted, union,
};
use crate::buffer::{Output, vec_with_capacity};
use crate::dispatch::{run, settings};
use crate::error::{Error, Result};
use crate::memory::{self, Gather as _};

impl Matrix {
    /// The chunks as arrays of the type that the matrix came from; for a record batch, structs.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if 32-bit list offsets cannot hold the elements.
    pub fn to_arrays(&self) -> Result<Vec<ArrayRef>> {
        memory::caught(|| self.chunks.iter().map(|chunk| self.chunk_to_array(chunk)).try_gather())
    }

    /// The rows as one array, if they lie in one chunk.
    pub fn to_array(&self) -> Option<Result<ArrayRef>> {
        match self.chunks.as_slice() {
            [chunk] => Some(memory::caught(|| self.chunk_to_array(chunk))),
            _ => None,
        }
    }

    /// The chunks as record batches, if that is what the matrix came from.
    ///
    /// # Errors
    ///
    /// As [`to_arrays`](Self::to_arrays).
    pub fn to_record_batches(&self) -> Option<Result<Vec<RecordBatch>>> {
        let Form::Batch(schema) = &self.form else { return None };
        let batches = self.chunks.iter().map(|chunk| {
            let fields = columns_of(&chunk.values);
            let columns: Vec<ArrayRef> = fields
                .iter()
                .enumerate()
                .map(|(c, column)| {
                    let nulls = union(column.nulls.clone(), chunk.row_nulls.clone())?;
                    let stored = chunk.stored(c, &self.element);
                    primitive(stored, column.values.clone(), chunk.rows, nulls)
                })
                .try_gather()?;
            let fields = nullable_where_needed(schema.fields(), &columns);
            let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
            let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(chunk.rows));
            RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(arrow)
        });
        Some(memory::caught(|| batches.try_gather()))
    }

    fn chunk_to_array(&self, chunk: &Chunk) -> Result<ArrayRef> {
        let rows = chunk.rows;
        let gathered;
        let (column, offsets) = match &chunk.values {
            Values::Rows(column) => (column, None),
            Values::Columns(columns) => return self.columns_to_array(columns, chunk),
            Values::Scattered(elements) => match (&**elements, &self.form) {
                (Scattered::Lists { column, offsets: o @ Offsets::Small(_) }, Form::List(_))
                | (
                    Scattered::Lists { column, offsets: o @ Offsets::Large(_) },
                    Form::LargeList(_),
                ) => (column, Some(o)),
                _ => {
                    gathered = self.gathered(chunk, elements)?;
                    (&gathered, None)
                }
            },
        };
        let row_nulls = chunk.row_nulls.clone();
        match &self.form {
            Form::Lists(levels) => self.lists_to_array(levels, column, chunk),
            Form::List(field) => {
                let offsets = match offsets {
                    Some(Offsets::Small(offsets)) => OffsetBuffer::new(offsets.clone()),
                    _ => self.offsets::<i32>(rows, "32-bit list offsets")?,
                };
                let values = self.elements_to_array(column)?;
                let field = nullable_if(field, values.null_count() > 0);
                let list = ListArray::try_new(field, offsets, values, row_nulls);
                Ok(Arc::new(list.map_err(arrow)?))
            }
            Form::LargeList(field) => {
                let offsets = match offsets {
                    Some(Offsets::Large(offsets)) => OffsetBuffer::new(offsets.clone()),
                    _ => self.offsets::<i64>(rows, "64-bit list offsets")?,
                };
                let values = self.elements_to_array(column)?;
                let field = nullable_if(field, values.null_count() > 0);
                let list = LargeListArray::try_new(field, offsets, values, row_nulls);
                Ok(Arc::new(list.map_err(arrow)?))
            }
            // A flat array has no rows to be null: their elements are.
            Form::Flat | Form::Struct(_) | Form::Batch(_) => {
                let elements = match row_nulls {
                    Some(nulls) => Some(expand(&nulls, self.width)?),
                    None => None,
                };
                self.column_to_array(column, elements, rows * self.width)
            }
        }
    }

    /// The elements of scattered rows, one behind the other; zeros in null rows.
    fn gathered(&self, chunk: &Chunk, elements: &Scattered) -> Result<Column> {
        let size = size_of_element(&self.element).unwrap_or(0);
        let (width, row_bytes) = (self.width, self.width * size);
        let mut values = Output::<u8>::new(chunk.rows * row_bytes)?;
        let row_nulls = chunk.row_nulls.as_ref().map(Bits::new);
        run::in_steps(0..chunk.rows, (AT_ONCE / width.max(1)).max(1), |rows| {
            let out = &mut values[rows.start * row_bytes..rows.end * row_bytes];
            if row_nulls.is_some() {
                out.fill(0);
            }
            elements.copy_rows(width, size, row_nulls, rows, out);
            Ok(())
        })?;
        let nulls = if elements.may_have_nulls() {
            let one = Self { rows: chunk.rows, chunks: vec![chunk.clone()], ..self.clone() };
            one.element_nulls(0..chunk.rows)?
        } else {
            None
        };
        Ok(Column { values: values.into_buffer(), nulls })
    }

    /// All elements of a column.
    fn elements_to_array(&self, column: &Column) -> Result<ArrayRef> {
        let len = column.values.len() / size_of_element(&self.element).unwrap_or(1).max(1);
        self.column_to_array(column, None, len)
    }

    fn lists_to_array(
        &self,
        levels: &[(FieldRef, i32)],
        column: &Column,
        chunk: &Chunk,
    ) -> Result<ArrayRef> {
        let mut lists = vec![chunk.rows];
        for (_, size) in levels {
            let last = lists.last().copied().unwrap_or(0);
            lists.push(last * usize::try_from(*size).unwrap_or(0));
        }
        let mut array = self.column_to_array(column, None, chunk.rows * self.width)?;
        for (level, (field, size)) in levels.iter().enumerate().rev() {
            let nulls = match level.checked_sub(1) {
                None => chunk.row_nulls.clone(),
                Some(inner) => chunk.inner_nulls.get(inner).cloned().flatten(),
            };
            let field = retyped(field, array.data_type(), array.null_count() > 0);
            let list =
                FixedSizeListArray::try_new_with_length(field, *size, array, nulls, lists[level]);
            array = Arc::new(list.map_err(arrow)?);
        }
        Ok(array)
    }

    fn columns_to_array(&self, columns: &[Column], chunk: &Chunk) -> Result<ArrayRef> {
        let arrays: Vec<ArrayRef> = columns
            .iter()
            .enumerate()
            .map(|(c, column)| {
                let stored = chunk.stored(c, &self.element);
                primitive(stored, column.values.clone(), chunk.rows, column.nulls.clone())
            })
            .try_gather()?;
        let fields = match &self.form {
            Form::Struct(fields) => nullable_where_needed(fields, &arrays),
            Form::Batch(schema) => nullable_where_needed(schema.fields(), &arrays),
            _ => Fields::from_iter(
                (0..arrays.len()).map(|i| Field::new(i.to_string(), self.element.clone(), true)),
            ),
        };
        let nulls = chunk.row_nulls.clone();
        let array = StructArray::try_new_with_length(fields, arrays, nulls, chunk.rows);
        Ok(Arc::new(array.map_err(arrow)?))
    }

    /// A primitive array of `len` elements; `more` nulls beside the column's own.
    fn column_to_array(
        &self,
        column: &Column,
        more: Option<NullBuffer>,
        len: usize,
    ) -> Result<ArrayRef> {
        let nulls = union(column.nulls.clone(), more)?;
        primitive(&self.element, column.values.clone(), len, nulls)
    }

    fn offsets<O: arrow_array::OffsetSizeTrait>(
        &self,
        rows: usize,
        limit: &'static str,
    ) -> Result<OffsetBuffer<O>> {
        let last = rows.checked_mul(self.width).and_then(O::from_usize);
        if last.is_none() {
            let width = self.width;
            return Err(Error::TooLarge { rows, width, limit });
        }
        let mut offsets = vec_with_capacity(rows + 1)?;
        memory::extend(&mut offsets, (0..=rows).map(|row| O::usize_as(row * self.width)));
        Ok(OffsetBuffer::new(offsets.into()))
    }
}

/// A primitive array over a buffer; of bytes that say yes or no, their bits.
pub(super) fn primitive(
    element: &DataType,
    values: Buffer,
    len: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    if *element == DataType::Boolean {
        let bits = from_words(len, |from| {
            let (eights, rest) = values[from..len.min(from + 64)].as_chunks::<8>();
            // Eight bytes of 0 or 1 times this have their bits in the highest byte.
            let packed = |flags: &[u8; 8]| {
                u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56
            };
            let word = rest.iter().rev().fold(0, |word, flag| word << 1 | u64::from(*flag));
            eights.iter().rev().fold(word, |word, flags| word << 8 | packed(flags))
        })?;
        return Ok(Arc::new(BooleanArray::new(bits.into_inner(), nulls)));
    }
    let data = ArrayData::builder(element.clone()).len(len).add_buffer(values).nulls(nulls);
    Ok(make_array(data.build().map_err(arrow)?))
}

/// An array of the type `to` from results that were made as `O`; zero where they are null.
pub(crate) fn array_of<O: Number>(
    mut values: Output<O>,
    nulls: Option<NullBuffer>,
    to: &DataType,
) -> Result<ArrayRef> {
    let len = values.len();
    if let Some(nulls) = nulls.as_ref().map(Bits::new) {
        let mask = Mask::of(settings::level(), nulls);
        run::in_steps(0..len, AT_ONCE, |range| {
            mask.fill(range.clone(), O::default(), &mut values[range]);
            Ok(())
        })?;
    }
    let writer = O::writer(to).ok_or_else(|| unaccepted(to))?;
    let buffer = if writer.is_same {
        values.into_buffer()
    } else {
        let mut bytes = Output::<u8>::new(len * writer.size)?;
        run::in_steps(0..len, AT_ONCE, |range| {
            let out = &mut bytes[range.start * writer.size..range.end * writer.size];
            writer.write(&values[range], out);
            Ok(())
        })?;
        bytes.into_buffer()
    };
    primitive(to, buffer, len, nulls)
}

/// Results that are written before an interrupt is looked at.
const AT_ONCE: usize = 1 << 20;

fn columns_of(values: &Values) -> &[Column] {
    match values {
        Values::Rows(column) => std::slice::from_ref(column),
        Values::Columns(columns) => columns,
        // A record batch has columns.
        Values::Scattered(_) => &[],
    }
}

fn arrow(error: arrow_schema::ArrowError) -> Error {
    Error::Arrow { message: error.to_string() }
}

/// The field, made nullable if there are nulls that it does not allow.
fn nullable_if(field: &FieldRef, has_nulls: bool) -> FieldRef {
    if has_nulls && !field.is_nullable() {
        Arc::new(field.as_ref().clone().with_nullable(true))
    } else {
        Arc::clone(field)
    }
}

fn retyped(field: &FieldRef, to: &DataType, has_nulls: bool) -> FieldRef {
    let field = nullable_if(field, has_nulls);
    if field.data_type() == to {
        field
    } else {
        Arc::new(field.as_ref().clone().with_data_type(to.clone()))
    }
}

fn nullable_where_needed(fields: &Fields, columns: &[ArrayRef]) -> Fields {
    let nullable = |(field, column): (_, &ArrayRef)| nullable_if(field, column.null_count() > 0);
    memory::fields(fields.iter().zip(columns).map(nullable))
}
