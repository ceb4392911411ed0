//! Validity of a range of rows, whatever the chunks and the layout.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};

use super::{Bits, Chunk, Column, Matrix, Values};

impl Matrix {
    /// Which of `rows` are null as a whole; `None` if none is.
    pub(crate) fn row_nulls(&self, rows: Range<usize>) -> Option<NullBuffer> {
        if self.chunks.iter().all(|chunk| chunk.row_nulls.is_none()) {
            return None;
        }
        self.collect(rows, 1, |chunk| chunk.row_nulls.clone())
    }

    /// Which elements of `rows` are null, row by row; `None` if none is. Null rows do not count.
    pub(crate) fn element_nulls(&self, rows: Range<usize>) -> Option<NullBuffer> {
        if self.chunks.iter().all(|chunk| columns(chunk).iter().all(|c| c.nulls.is_none())) {
            return None;
        }
        self.collect(rows, self.width, |chunk| match &chunk.values {
            Values::Rows(column) => column.nulls.clone(),
            Values::Columns(columns) => {
                let bits: Vec<_> =
                    columns.iter().map(|column| column.nulls.as_ref().map(Bits::new)).collect();
                let is_valid =
                    |i: usize| bits[i % self.width].is_none_or(|bits| bits.get(i / self.width));
                let all = BooleanBuffer::collect_bool(chunk.rows * self.width, is_valid);
                Some(NullBuffer::new(all))
            }
        })
    }

    /// Which elements of one column are null in `rows`; `None` if none is. Null rows do not count.
    pub(crate) fn column_nulls(&self, column: usize, rows: Range<usize>) -> Option<NullBuffer> {
        self.collect(rows, 1, |chunk| match &chunk.values {
            Values::Columns(columns) => columns[column].nulls.clone(),
            Values::Rows(elements) => elements.nulls.as_ref().map(|nulls| {
                let is_valid = |row: usize| nulls.is_valid(row * self.width + column);
                NullBuffer::new(BooleanBuffer::collect_bool(chunk.rows, is_valid))
            }),
        })
    }

    /// Which of `rows` are null or have a null element; `None` if none is.
    pub(crate) fn incomplete_rows(&self, rows: Range<usize>) -> Option<NullBuffer> {
        let own = self.row_nulls(rows.clone());
        let elements = self.element_nulls(rows.clone()).map(|elements| {
            let (width, bits) = (self.width, Bits::new(&elements));
            let is_whole = |row: usize| bits.all(row * width..(row + 1) * width);
            NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), is_whole))
        });
        NullBuffer::union(own.as_ref(), elements.as_ref()).filter(|nulls| nulls.null_count() > 0)
    }

    /// Joins what `nulls` gives for each chunk, `per_row` bits a row.
    fn collect(
        &self,
        rows: Range<usize>,
        per_row: usize,
        nulls: impl Fn(&Chunk) -> Option<NullBuffer>,
    ) -> Option<NullBuffer> {
        let mut whole: Option<NullBuffer> = None;
        let mut builder: Option<BooleanBufferBuilder> = None;
        let mut first = 0;
        for chunk in &self.chunks {
            let from = rows.start.max(first);
            let to = rows.end.min(first + chunk.rows);
            if from < to {
                let piece = match nulls(chunk) {
                    Some(nulls) => nulls.slice((from - first) * per_row, (to - from) * per_row),
                    None => NullBuffer::new_valid((to - from) * per_row),
                };
                if from == rows.start && to == rows.end {
                    whole = Some(piece);
                } else {
                    builder
                        .get_or_insert_with(|| BooleanBufferBuilder::new(rows.len() * per_row))
                        .append_buffer(piece.inner());
                }
            }
            first += chunk.rows;
        }
        let joined = whole.or_else(|| builder.map(|mut b| NullBuffer::new(b.finish())));
        joined.filter(|nulls| nulls.null_count() > 0)
    }
}

/// Of `len` values, those at `places` null; `None` if there are no places.
pub(crate) fn null_at(len: usize, places: Vec<usize>) -> Option<NullBuffer> {
    (!places.is_empty()).then(|| {
        let mut valid = vec![true; len];
        places.into_iter().for_each(|place| valid[place] = false);
        NullBuffer::from(valid)
    })
}

fn columns(chunk: &Chunk) -> &[Column] {
    match &chunk.values {
        Values::Rows(column) => std::slice::from_ref(column),
        Values::Columns(columns) => columns,
    }
}
