//! The sink that keeps what a step makes: a column of the form of the first one.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use arrow_schema::DataType;

use super::{Nulls, RowTile, Sink, SinkPart, SinkParts};
use crate::compute::Value;
use crate::dispatch::{Level, Store, simd};
use crate::error::Result;
use crate::matrix::{self, Bits, ChunkNulls, Like, Matrix};
use crate::memory::{self, Gather as _};

/// The results of a step, to be stored like `x`.
pub(super) struct WholeSink<'x> {
    x: &'x Matrix,
    like: Like<'x>,
    nulls: Nulls,
    whole_rows: bool,
    /// Bytes of an element.
    size: usize,
    missing: Mutex<Vec<usize>>,
}

impl<'x> WholeSink<'x> {
    pub(super) fn new(
        x: &'x Matrix,
        to: &DataType,
        nulls: Nulls,
        whole_rows: bool,
    ) -> Result<Self> {
        let size = matrix::size_of_element(to).unwrap_or(8);
        let like = Like::new(x, to, size)?;
        Ok(Self { x, like, nulls, whole_rows, size, missing: Mutex::default() })
    }
}

impl Sink for WholeSink<'_> {
    fn bytes(&self) -> usize {
        self.x.rows() * self.x.width() * self.size
    }

    fn is_by_columns(&self) -> bool {
        false
    }

    fn split(&mut self, tasks: &[Range<usize>], store: Store) -> Result<SinkParts<'_>> {
        let row_bytes = self.x.width() * self.size;
        let mut parts: Vec<WholePart<'_>> = tasks
            .iter()
            .map(|rows| WholePart {
                rest: Vec::new(),
                next: rows.start,
                size: self.size,
                store,
                found: Vec::new(),
                missing: &self.missing,
            })
            .gather();
        let mut first = 0;
        for run in self.like.runs().flatten().map(|(_, run)| run) {
            let rows = run.len() / row_bytes.max(1);
            let mut run = run;
            // The tasks that hold some of its rows.
            let from = tasks.partition_point(|task| task.end <= first);
            for (task, part) in tasks.iter().zip(&mut parts).skip(from) {
                let end = task.end.min(first + rows);
                if task.start >= first + rows {
                    break;
                }
                let held = end - task.start.max(first);
                let (own, others) = run.split_at_mut(held * row_bytes);
                run = others;
                part.rest.push(own);
            }
            first += rows;
        }
        // Taken from the last on.
        parts.iter_mut().for_each(|part| part.rest.reverse());
        Ok(parts.into_iter().map(|part| Box::new(part) as Box<dyn SinkPart>).gather())
    }

    fn finish(self: Box<Self>) -> Result<Option<Value>> {
        let Self { x, like, nulls, whole_rows, missing, .. } = *self;
        let mut missing = missing.into_inner().unwrap_or_else(PoisonError::into_inner);
        missing.sort_unstable();
        let more = matrix::null_at(x.rows(), &missing)?;
        let rows = matrix::union(nulls.rows, more)?.filter(|rows| rows.null_count() > 0);
        let elements = nulls.elements;
        let width = x.width();
        let mut first = 0;
        let of_chunks = x.chunks().iter().map(|chunk| chunk.rows).map(|len| {
            let some = |nulls: &Option<arrow_buffer::NullBuffer>, per_row: usize| {
                let part = nulls.as_ref()?.slice(first * per_row, len * per_row);
                (part.null_count() > 0).then_some(part)
            };
            let of_chunk =
                ChunkNulls { rows: some(&rows, 1), elements: vec![some(&elements, width)] };
            first += len;
            Ok(of_chunk)
        });
        let of_chunks: Vec<_> = of_chunks.gather();
        Ok(Some(Value::Matrix(like.finish(of_chunks, whole_rows)?)))
    }
}

/// Where the results of a task go.
struct WholePart<'s> {
    /// Pieces, one for each chunk, the next one last; their rows are taken from the front.
    rest: Vec<&'s mut [u8]>,
    next: usize,
    size: usize,
    store: Store,
    /// Rows that have no values.
    found: Vec<usize>,
    missing: &'s Mutex<Vec<usize>>,
}

impl SinkPart for WholePart<'_> {
    fn take(&mut self, _: Level, tile: &RowTile<'_>) -> bool {
        debug_assert_eq!(self.next, tile.first);
        self.next += tile.rows;
        // A tile lies in one chunk.
        let Some(piece) = self.rest.pop() else { return true };
        let (out, rest) = piece.split_at_mut(tile.bytes.len());
        if !rest.is_empty() {
            memory::push(&mut self.rest, rest);
        }
        if !tile.has_nulls() {
            match self.store {
                Store::Cached => out.copy_from_slice(tile.bytes),
                Store::Streaming => simd::stream(out, tile.bytes, tile.ahead),
            }
            return false;
        }
        out.copy_from_slice(tile.bytes);
        // Values under nulls never leave.
        let (size, elements) = (self.size, tile.elements());
        if let Some(nulls) = &tile.nulls.elements {
            Bits::new(nulls).each_unset(elements.clone(), |i| {
                out[(i - elements.start) * size..][..size].fill(0);
            });
        }
        tile.each_null_row(|row| out[row * tile.width * size..][..tile.width * size].fill(0));
        let missing = tile.missing.iter().enumerate().filter(|(_, missing)| **missing);
        memory::extend(&mut self.found, missing.map(|(row, _)| tile.first + row));
        false
    }

    fn end(self: Box<Self>) {
        if self.store == Store::Streaming {
            simd::stream_fence();
        }
        if !self.found.is_empty() {
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            memory::extend(&mut missing, self.found);
        }
    }
}
