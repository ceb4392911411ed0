//! Validity of a range of rows, whatever the chunks and the layout.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, bit_mask::set_bits};

use super::bits::{from_bits, union};
use super::{Bits, Chunk, Matrix, Values};
use crate::buffer::vec_of;
use crate::error::Result;
use crate::memory::{self, Gather as _};

impl Matrix {
    /// Which of `rows` are null as a whole; `None` if none is.
    ///
    /// # Errors
    ///
    /// No memory, or an interrupt.
    pub(crate) fn row_nulls(&self, rows: Range<usize>) -> Result<Option<NullBuffer>> {
        if self.chunks.iter().all(|chunk| chunk.row_nulls.is_none()) {
            return Ok(None);
        }
        self.collect(rows, 1, |chunk, rows| {
            Ok(chunk.row_nulls.as_ref().map(|nulls| nulls.slice(rows.start, rows.len())))
        })
    }

    /// Which elements of `rows` are null, row by row; `None` if none is. Null rows do not count.
    ///
    /// # Errors
    ///
    /// As [`row_nulls`](Self::row_nulls).
    pub(crate) fn element_nulls(&self, rows: Range<usize>) -> Result<Option<NullBuffer>> {
        if !self.chunks.iter().any(|chunk| chunk.values.may_have_nulls()) {
            return Ok(None);
        }
        let width = self.width;
        self.collect(rows, width, |chunk, rows| {
            let (first, len) = (rows.start * width, rows.len() * width);
            match &chunk.values {
                Values::Rows(column) => {
                    Ok(column.nulls.as_ref().map(|nulls| nulls.slice(first, len)))
                }
                Values::Columns(columns) => {
                    let bits: Vec<_> =
                        columns.iter().map(|column| column.nulls.as_ref().map(Bits::new)).gather();
                    from_bits(len, |i| {
                        bits[i % width].is_none_or(|bits| bits.get(rows.start + i / width))
                    })
                    .map(Some)
                }
                Values::Scattered(elements) if !elements.may_have_nulls() => Ok(None),
                Values::Scattered(elements) => from_bits(len, |i| {
                    let row = rows.start + i / width;
                    !chunk.row_is_valid(row) || elements.is_valid(row, i % width)
                })
                .map(Some),
            }
        })
    }

    /// Which elements of one column are null in `rows`; `None` if none is. Null rows do not count.
    ///
    /// # Errors
    ///
    /// As [`row_nulls`](Self::row_nulls).
    pub(crate) fn column_nulls(
        &self,
        column: usize,
        rows: Range<usize>,
    ) -> Result<Option<NullBuffer>> {
        let width = self.width;
        self.collect(rows, 1, |chunk, rows| match &chunk.values {
            Values::Columns(columns) => {
                let nulls = columns[column].nulls.as_ref();
                Ok(nulls.map(|nulls| nulls.slice(rows.start, rows.len())))
            }
            values if !values.may_have_nulls() => Ok(None),
            Values::Rows(elements) => elements
                .nulls
                .as_ref()
                .map(|nulls| {
                    let bits = Bits::new(nulls);
                    let at = |i: usize| (rows.start + i) * width + column;
                    from_bits(rows.len(), |i| bits.get(at(i)))
                })
                .transpose(),
            Values::Scattered(elements) => from_bits(rows.len(), |i| {
                let row = rows.start + i;
                !chunk.row_is_valid(row) || elements.is_valid(row, column)
            })
            .map(Some),
        })
    }

    /// Which of `rows` are null or have a null element; `None` if none is.
    ///
    /// # Errors
    ///
    /// As [`row_nulls`](Self::row_nulls).
    pub(crate) fn incomplete_rows(&self, rows: Range<usize>) -> Result<Option<NullBuffer>> {
        let own = self.row_nulls(rows.clone())?;
        let elements = match self.element_nulls(rows.clone())? {
            None => None,
            Some(elements) => {
                let (width, bits) = (self.width, Bits::new(&elements));
                let is_whole = |row: usize| bits.all(row * width..(row + 1) * width);
                Some(from_bits(rows.len(), is_whole)?)
            }
        };
        Ok(union(own, elements)?.filter(|nulls| nulls.null_count() > 0))
    }

    /// Joins what `nulls` gives for the rows of each chunk, `per_row` bits a row.
    fn collect(
        &self,
        rows: Range<usize>,
        per_row: usize,
        nulls: impl Fn(&Chunk, Range<usize>) -> Result<Option<NullBuffer>>,
    ) -> Result<Option<NullBuffer>> {
        let mut pieces = Vec::new();
        let mut first = 0;
        for chunk in &self.chunks {
            let from = rows.start.max(first);
            let to = rows.end.min(first + chunk.rows);
            if from < to {
                memory::push(&mut pieces, (to - from, nulls(chunk, from - first..to - first)?));
            }
            first += chunk.rows;
        }
        if pieces.iter().all(|(_, piece)| piece.is_none()) {
            return Ok(None);
        }
        if let [(_, piece)] = pieces.as_mut_slice() {
            return Ok(piece.take().filter(|nulls| nulls.null_count() > 0));
        }
        let len = rows.len() * per_row;
        let mut bits = vec_of(0, len.div_ceil(8))?;
        let mut at = 0;
        for (rows, piece) in pieces {
            let len = rows * per_row;
            match piece {
                Some(piece) => {
                    set_bits(&mut bits, piece.validity(), at, piece.offset(), len);
                }
                None => set_all(&mut bits, at..at + len),
            }
            at += len;
        }
        let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, len));
        Ok(Some(nulls).filter(|nulls| nulls.null_count() > 0))
    }
}

/// Sets the bits `range`, which are not set.
fn set_all(bits: &mut [u8], range: Range<usize>) {
    let inside = |byte: usize| {
        let from = range.start.max(8 * byte) - 8 * byte;
        let to = range.end.min(8 * byte + 8) - 8 * byte;
        ((1u16 << to) - (1 << from)) as u8
    };
    let (first, end) = (range.start / 8, range.end.div_ceil(8));
    for byte in [first, end.saturating_sub(1)] {
        if byte < end {
            bits[byte] |= inside(byte);
        }
    }
    if first + 2 < end {
        bits[first + 1..end - 1].fill(u8::MAX);
    }
}
