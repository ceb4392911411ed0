//! Results of the layout of an input: allocated like it, split into slices for tasks, joined with
//! their validity, and given its Arrow type.

use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, bit_mask::set_bits};
use arrow_schema::DataType;

use super::scattered::{Offsets, Scattered};
use super::{Bits, Chunk, Column, Form, Matrix, Values};
use crate::buffer::{Output, vec_of, vec_with_capacity};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::memory::{self, Gather as _};

/// A result with the chunks and the layout of `x`, stored in another type perhaps.
pub(crate) struct Like<'x> {
    x: &'x Matrix,
    to: DataType,
    /// Bytes of an element.
    size: usize,
    /// One for each chunk: its rows one behind the other, or its columns.
    outputs: Vec<Output<u8>>,
}

/// Which elements and rows of a chunk of a result are null.
pub(crate) struct ChunkNulls {
    pub(crate) rows: Option<NullBuffer>,
    /// One for a chunk that lies by rows, one per column else.
    pub(crate) elements: Vec<Option<NullBuffer>>,
}

impl ChunkNulls {
    /// Those of the elements of a column, or of all.
    pub(crate) fn of(&self, column: Option<usize>) -> Option<&NullBuffer> {
        self.elements.get(column.unwrap_or(0))?.as_ref()
    }

    /// Whether any element of a column, or of all, may be null.
    pub(crate) fn are_any(&self, column: Option<usize>) -> bool {
        self.of(column).is_some() || self.rows.is_some()
    }

    /// Whether element `i` of the chunk, or of one column of it, is null.
    pub(crate) fn is_null(&self, width: usize, column: Option<usize>, i: usize) -> bool {
        let row = if column.is_some() { i } else { i / width };
        self.of(column).is_some_and(|nulls| nulls.is_null(i))
            || self.rows.as_ref().is_some_and(|rows| rows.is_null(row))
    }
}

impl<'x> Like<'x> {
    /// Allocates a result whose elements take `size` bytes as `to`.
    pub(crate) fn new(x: &'x Matrix, to: &DataType, size: usize) -> Result<Self> {
        let output = |chunk: &Chunk| Output::new(chunk.rows * x.width * size);
        let outputs = x.chunks.iter().map(output).try_gather()?;
        Ok(Self { x, to: to.clone(), size, outputs })
    }

    /// The bytes of each chunk in runs of elements that lie one behind the other: all of it, or
    /// each column, which has a number then.
    pub(crate) fn runs(
        &mut self,
    ) -> impl Iterator<Item = impl Iterator<Item = (Option<usize>, &mut [u8])>> {
        let size = self.size;
        self.x.chunks.iter().zip(&mut self.outputs).map(move |(chunk, out)| {
            let by_columns = matches!(chunk.values, Values::Columns(_));
            let run = if by_columns { chunk.rows * size } else { out.len() };
            let runs = out.chunks_mut(run.max(1)).enumerate();
            runs.map(move |(c, run)| (by_columns.then_some(c), run))
        })
    }

    /// The result, given the nulls of each chunk. Null lists inside a row make their elements null;
    /// `whole_rows` says that rows are null as a whole, and none of them is needed.
    pub(crate) fn finish(
        self,
        nulls: impl IntoIterator<Item = Result<ChunkNulls>>,
        whole_rows: bool,
    ) -> Result<Matrix> {
        let Self { x, to, size, outputs } = self;
        let chunks = x.chunks.iter().zip(outputs).zip(nulls).map(|((chunk, out), nulls)| {
            let ChunkNulls { rows: row_nulls, elements } = nulls?;
            let values = match &chunk.values {
                Values::Rows(_) | Values::Scattered(_) => {
                    let nulls = elements.into_iter().next().flatten();
                    list_rows(x, out, x.width * size, nulls, row_nulls.as_ref())?
                }
                Values::Columns(_) => {
                    let (bytes, buffer) = (chunk.rows * size, out.into_buffer());
                    let columns = elements.into_iter().enumerate().map(|(c, nulls)| {
                        let values = buffer.slice_with_length(c * bytes, bytes);
                        Column { values, nulls }
                    });
                    Values::Columns(Arc::new(columns.gather()))
                }
            };
            let inner_nulls = if whole_rows { Vec::new() } else { chunk.inner_nulls.clone() };
            Ok(Chunk { rows: chunk.rows, values, row_nulls, inner_nulls, stored: Vec::new() })
        });
        let chunks = chunks.try_gather()?;
        Ok(x.retyped(&to).with_chunks(chunks))
    }
}

/// Rows that are moved before an interrupt is looked at.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Bytes that the length of an Arrow buffer is padded to.
const PADDING: usize = 64;

/// The values of a chunk of a result of the form of `x`: `out` holds its rows, `row_bytes` each,
/// one behind the other, null rows too.
///
/// A null row of a variable list becomes an empty list, as every reader of lists expects: so the
/// rows behind it move up, in place. All other forms keep `out` as it is.
///
/// # Errors
///
/// No memory, an interrupt, or [`Error::TooLarge`] if 32-bit offsets cannot hold the elements.
fn list_rows(
    x: &Matrix,
    out: Output<u8>,
    row_bytes: usize,
    nulls: Option<NullBuffer>,
    row_nulls: Option<&NullBuffer>,
) -> Result<Values> {
    let is_large = match (&x.form, row_nulls) {
        (Form::List(_), Some(_)) => false,
        (Form::LargeList(_), Some(_)) => true,
        _ => return Ok(Values::Rows(Column { values: out.into_buffer(), nulls })),
    };
    let row_nulls = row_nulls.map(Bits::new);
    let is_valid = |row: usize| row_nulls.is_none_or(|nulls| nulls.get(row));
    let (rows, width) = (row_nulls.map_or(0, |nulls| nulls.len()), x.width);
    let mut out = out;
    let mut ends = vec_with_capacity(rows)?;
    let mut kept = 0;
    run::in_steps(0..rows, ROWS_AT_ONCE, |rows| {
        for row in rows {
            if is_valid(row) {
                if kept != row {
                    out.copy_within(row * row_bytes..(row + 1) * row_bytes, kept * row_bytes);
                }
                kept += 1;
            }
            memory::push(&mut ends, kept);
        }
        Ok(())
    })?;
    let nulls = match nulls {
        None => None,
        Some(nulls) => {
            let mut bits = vec_of(0u8, (kept * width).div_ceil(8))?;
            let mut at = 0;
            run::in_steps(0..rows, ROWS_AT_ONCE, |rows| {
                for row in rows.filter(|row| is_valid(*row)) {
                    let from = nulls.offset() + row * width;
                    set_bits(&mut bits, nulls.validity(), at, from, width);
                    at += width;
                }
                Ok(())
            })?;
            Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, kept * width)))
        }
    };
    let offsets = offsets(&ends, width, is_large)?;
    // Behind the rows that are kept lie those that moved; padding is zero.
    let end = kept * row_bytes;
    let padded = end.next_multiple_of(PADDING).min(out.len());
    out[end..padded].fill(0);
    let values = out.into_buffer().slice_with_length(0, end);
    let column = Column { values, nulls: nulls.filter(|nulls| nulls.null_count() > 0) };
    Ok(Values::Scattered(Box::new(Scattered::Lists { column, offsets })))
}

/// The offsets of lists: `ends[i]` lists of `width` lie before the end of row `i`.
fn offsets(ends: &[usize], width: usize, is_large: bool) -> Result<Offsets> {
    let last = ends.last().copied().unwrap_or(0);
    let limit = if is_large { i64::MAX as usize } else { i32::MAX as usize };
    if last.checked_mul(width).is_none_or(|elements| elements > limit) {
        let limit = if is_large { "64-bit list offsets" } else { "32-bit list offsets" };
        return Err(Error::TooLarge { rows: last, width, limit });
    }
    let elements = std::iter::once(0).chain(ends.iter().map(|end| end * width));
    Ok(if is_large {
        let mut offsets = vec_with_capacity(ends.len() + 1)?;
        memory::extend(&mut offsets, elements.map(|end| end as i64));
        Offsets::Large(ScalarBuffer::from(offsets))
    } else {
        let mut offsets = vec_with_capacity(ends.len() + 1)?;
        memory::extend(&mut offsets, elements.map(|end| end as i32));
        Offsets::Small(ScalarBuffer::from(offsets))
    })
}
