//! From a matrix back to the Arrow type that it came from.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, RecordBatch, StructArray,
    make_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};

use super::{Chunk, Column, Form, Matrix, Number, Values, unaccepted};
use crate::buffer::Output;
use crate::error::{Error, Result};

const TO_ARRAYS: &str = "to_arrays";

impl Matrix {
    /// The chunks as arrays of the type that the matrix came from; for a record batch, structs.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if 32-bit list offsets cannot hold the elements.
    pub fn to_arrays(&self) -> Result<Vec<ArrayRef>> {
        self.chunks.iter().map(|chunk| self.chunk_to_array(chunk)).collect()
    }

    /// The rows as one array, if they lie in one chunk.
    pub fn to_array(&self) -> Option<Result<ArrayRef>> {
        match self.chunks.as_slice() {
            [chunk] => Some(self.chunk_to_array(chunk)),
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
                .map(|column| self.column_to_array(column, chunk.row_nulls.as_ref(), chunk.rows))
                .collect::<Result<_>>()?;
            let fields = nullable_where_needed(schema.fields(), &columns);
            let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
            let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(chunk.rows));
            RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(arrow)
        });
        Some(batches.collect())
    }

    fn chunk_to_array(&self, chunk: &Chunk) -> Result<ArrayRef> {
        let rows = chunk.rows;
        let column = match &chunk.values {
            Values::Rows(column) => column,
            Values::Columns(columns) => return self.columns_to_array(columns, chunk),
        };
        let row_nulls = chunk.row_nulls.clone();
        match &self.form {
            Form::Lists(levels) => self.lists_to_array(levels, column, chunk),
            Form::List(field) => {
                let values = self.column_to_array(column, None, rows * self.width)?;
                let field = nullable_if(field, values.null_count() > 0);
                let offsets = self.offsets::<i32>(rows, "32-bit list offsets")?;
                let list = ListArray::try_new(field, offsets, values, row_nulls);
                Ok(Arc::new(list.map_err(arrow)?))
            }
            Form::LargeList(field) => {
                let values = self.column_to_array(column, None, rows * self.width)?;
                let field = nullable_if(field, values.null_count() > 0);
                let offsets = self.offsets::<i64>(rows, "64-bit list offsets")?;
                let list = LargeListArray::try_new(field, offsets, values, row_nulls);
                Ok(Arc::new(list.map_err(arrow)?))
            }
            // A flat array has no rows to be null: their elements are.
            Form::Flat | Form::Struct(_) | Form::Batch(_) => {
                let elements = row_nulls.map(|nulls| nulls.expand(self.width));
                self.column_to_array(column, elements.as_ref(), rows * self.width)
            }
        }
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
            .map(|column| self.column_to_array(column, None, chunk.rows))
            .collect::<Result<_>>()?;
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
        more: Option<&NullBuffer>,
        len: usize,
    ) -> Result<ArrayRef> {
        primitive(&self.element, column.values.clone(), len, column.nulls.as_ref(), more)
    }

    fn offsets<O: arrow_array::OffsetSizeTrait>(
        &self,
        rows: usize,
        limit: &'static str,
    ) -> Result<OffsetBuffer<O>> {
        let last = rows.checked_mul(self.width).and_then(O::from_usize);
        if last.is_none() {
            let width = self.width;
            return Err(Error::TooLarge { function: TO_ARRAYS, rows, width, limit });
        }
        Ok(OffsetBuffer::from_repeated_length(self.width, rows))
    }
}

/// A primitive array over a buffer.
pub(super) fn primitive(
    element: &DataType,
    values: Buffer,
    len: usize,
    nulls: Option<&NullBuffer>,
    more: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let nulls = NullBuffer::union(nulls, more);
    let data = ArrayData::builder(element.clone()).len(len).add_buffer(values).nulls(nulls);
    Ok(make_array(data.build().map_err(arrow)?))
}

/// An array of the type `to` from results that were made as `O`; zero where they are null.
pub(crate) fn array_of<O: Number>(
    function: &'static str,
    mut values: Output<O>,
    nulls: Option<NullBuffer>,
    to: &DataType,
) -> Result<ArrayRef> {
    if let Some(nulls) = &nulls {
        for (value, valid) in values.iter_mut().zip(nulls) {
            if !valid {
                *value = O::default();
            }
        }
    }
    let len = values.len();
    let writer = O::writer(to).ok_or_else(|| unaccepted(to).in_function(function))?;
    let buffer = if writer.is_same {
        values.into_buffer()
    } else {
        let mut bytes = Output::<u8>::new(function, len * writer.size)?;
        writer.write(&values, &mut bytes);
        bytes.into_buffer()
    };
    primitive(to, buffer, len, nulls.as_ref(), None)
}

fn columns_of(values: &Values) -> &[Column] {
    match values {
        Values::Rows(column) => std::slice::from_ref(column),
        Values::Columns(columns) => columns,
    }
}

fn arrow(error: arrow_schema::ArrowError) -> Error {
    Error::Arrow { function: TO_ARRAYS, message: error.to_string() }
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
    fields
        .iter()
        .zip(columns)
        .map(|(field, column)| nullable_if(field, column.null_count() > 0))
        .collect()
}
