//! Rows of plain numbers that come in several arrays, whose ends need not be those of rows.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::build::{chunk, numbers};
use super::{Bits, Column, Form, Matrix, Values, from_bools, size_of_element};
use crate::buffer::{Output, vec_with_capacity};
use crate::error::{Error, Result};
use crate::memory;

impl Matrix {
    /// Sees the elements of several primitive arrays of one type, one behind the other, as rows of
    /// `width`. Rows that lie in one array stay there; those that span several are copied.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Int64Array};
    /// use raptors_arrow::Matrix;
    ///
    /// let chunk = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    /// let chunks = [chunk(vec![1, 2, 3]), chunk(vec![4, 5]), chunk(vec![6])];
    /// assert_eq!(Matrix::reshape_chunks(&chunks, 2)?.rows(), 3);
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`reshape`](Self::reshape), of the length of all, and [`Error::Mixed`] for arrays of
    /// several types.
    pub fn reshape_chunks(arrays: &[ArrayRef], width: usize) -> Result<Self> {
        memory::caught(|| {
            let len = arrays.iter().map(|array| array.len()).sum::<usize>();
            let reshape_error = Error::Reshape { len, width };
            let Some(first) = arrays.first() else { return Err(reshape_error) };
            if let Some(other) = arrays.iter().find(|array| array.data_type() != first.data_type())
            {
                let (expected, got) = (first.data_type().clone(), other.data_type().clone());
                return Err(Error::Mixed { what: "a chunk", expected, got });
            }
            if arrays.len() == 1 || len == 0 {
                return Self::reshape(first, width);
            }
            if width == 0 || !len.is_multiple_of(width) {
                return Err(reshape_error);
            }
            let mut parts = Vec::new();
            let mut open = OpenRows::default();
            for array in arrays {
                let head = open.missing(width).min(array.len());
                let whole = (array.len() - head) / width * width;
                open.push(array.slice(0, head));
                if whole > 0 {
                    parts.extend(open.close(width)?);
                    memory::push(&mut parts, Self::reshape(&array.slice(head, whole), width)?);
                }
                open.push(array.slice(head + whole, array.len() - head - whole));
            }
            parts.extend(open.close(width)?);
            Self::from_chunks(parts)
        })
    }
}

/// Pieces of rows that span arrays.
#[derive(Default)]
struct OpenRows {
    pieces: Vec<ArrayRef>,
    len: usize,
}

impl OpenRows {
    /// Elements that the last row still wants.
    fn missing(&self, width: usize) -> usize {
        self.len.next_multiple_of(width) - self.len
    }

    fn push(&mut self, piece: ArrayRef) {
        if !piece.is_empty() {
            self.len += piece.len();
            memory::push(&mut self.pieces, piece);
        }
    }

    /// The rows, one behind the other, if there are any.
    fn close(&mut self, width: usize) -> Result<Option<Matrix>> {
        let (pieces, len) = (std::mem::take(&mut self.pieces), std::mem::take(&mut self.len));
        let mut columns: Vec<(DataType, Column)> = vec_with_capacity(pieces.len())?;
        for piece in &pieces {
            memory::push(&mut columns, numbers(piece, piece.data_type())?);
        }
        let Some((element, _)) = columns.first() else { return Ok(None) };
        let size = size_of_element(element).unwrap_or(0);
        let mut values = Output::<u8>::new(len * size)?;
        let mut valid = vec_with_capacity(len)?;
        for (_, Column { values: own, nulls }) in &columns {
            let first = valid.len();
            values[first * size..first * size + own.len()].copy_from_slice(own);
            let nulls = nulls.as_ref().map(Bits::new);
            memory::extend(
                &mut valid,
                (0..own.len() / size).map(|i| nulls.is_none_or(|nulls| nulls.get(i))),
            );
        }
        let nulls = if valid.contains(&false) { Some(from_bools(&valid)?) } else { None };
        let values = Values::Rows(Column { values: values.into_buffer(), nulls });
        let element = element.clone();
        let mut rows =
            Matrix::one_chunk(element, width, Form::Flat, chunk(len / width, values, None))?;
        rows.copied = Some("rows that span the chunks of a flat array");
        Ok(Some(rows))
    }
}
