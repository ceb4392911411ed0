//! The sink of products and distances, row by row.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::{Nulls, RowTile, Sink, SinkPart, SinkParts};
use crate::buffer::Output;
use crate::compute::pairs::{Paired, Scores};
use crate::compute::{Metric, Value};
use crate::dispatch::{Level, Store};
use crate::error::Result;
use crate::kernel::{Real, Second};
use crate::matrix::{self, Matrix, Number, Reader, Scratch, array_of};
use crate::memory;

/// The score of each row with a row of another matrix, or with one vector: read as `T`, made as `O`.
pub(in crate::compute) struct ScoreSink<'a, T: Number, O: Number> {
    metric: Metric,
    y: Paired<'a, T>,
    reader: Reader<T>,
    width: usize,
    to: DataType,
    nulls: Option<NullBuffer>,
    values: Output<O>,
    missing: Mutex<Vec<usize>>,
}

impl<'a, T: Number, O: Number> ScoreSink<'a, T, O> {
    /// `y`, and the rows that it makes null; `nulls` are those of `x`.
    pub(in crate::compute) fn new(
        metric: Metric,
        x: &Matrix,
        (y, y_nulls): (Paired<'a, T>, Option<NullBuffer>),
        to: &DataType,
        nulls: &Nulls,
    ) -> Result<Self> {
        let element = x.element_type();
        let reader = T::reader(element).ok_or_else(|| matrix::unaccepted(element))?;
        let own = nulls.whole_rows(x.rows(), x.width())?.rows;
        let nulls = matrix::union(own, y_nulls)?;
        let (width, to, values) = (x.width(), to.clone(), Output::new(x.rows())?);
        Ok(Self { metric, y, reader, width, to, nulls, values, missing: Mutex::default() })
    }
}

impl<T: Number, O: Number + Real> Sink for ScoreSink<'_, T, O> {
    fn bytes(&self) -> usize {
        self.values.len() * self.to.primitive_width().unwrap_or(8)
    }

    fn is_by_columns(&self) -> bool {
        false
    }

    fn split(&mut self, tasks: &[Range<usize>], _: Store) -> Result<SinkParts<'_>> {
        let Self { metric, y, reader, width, values, missing, .. } = self;
        let mut rest = &mut values[..];
        let mut parts: SinkParts<'_> = Vec::new();
        for rows in tasks {
            let out;
            (out, rest) = rest.split_at_mut(rows.len());
            parts.push(Box::new(ScorePart {
                metric: *metric,
                y,
                reader,
                width: *width,
                first: rows.start,
                out,
                x: Scratch::new(),
                scratch: Scratch::new(),
                sums: Vec::new(),
                found: Vec::new(),
                missing,
            }));
        }
        Ok(parts)
    }

    fn finish(self: Box<Self>) -> Result<Option<Value>> {
        let Self { nulls, values, to, missing, .. } = *self;
        let mut missing = missing.into_inner().unwrap_or_else(PoisonError::into_inner);
        missing.sort_unstable();
        missing.dedup();
        let nulls = matrix::union(nulls, matrix::null_at(values.len(), &missing)?)?;
        Ok(Some(Value::Vector(array_of(values, nulls, &to)?)))
    }
}

struct ScorePart<'s, 'a, T: Number, O> {
    metric: Metric,
    y: &'s Paired<'a, T>,
    reader: &'s Reader<T>,
    width: usize,
    first: usize,
    out: &'s mut [O],
    x: Scratch<T>,
    scratch: Scratch<T>,
    sums: Vec<f64>,
    /// Rows that have no score.
    found: Vec<usize>,
    missing: &'s Mutex<Vec<usize>>,
}

impl<T: Number, O: Number + Real> SinkPart for ScorePart<'_, '_, T, O> {
    fn take(&mut self, level: Level, tile: &RowTile<'_>) -> bool {
        let Self { metric, y, reader, width, first, out, x, scratch, sums, found, .. } = self;
        let (metric, width) = (*metric, *width);
        let rows = tile.first..tile.first + tile.rows;
        let missing = tile.missing.iter().enumerate().filter(|(_, missing)| **missing);
        memory::extend(found, missing.map(|(row, _)| rows.start + row));
        let x = tile.filled(reader, T::default(), x);
        let mut score = |first_row: usize, count: usize, y: Second<'_, T>| {
            let x = &x[(first_row - rows.start) * width..][..count * width];
            let out = &mut out[first_row - *first..][..count];
            level.run(Scores { metric, x, y, width, sums, out, first_row, missing: found });
        };
        match y {
            Paired::One(y) => score(rows.start, tile.rows, Second::Same(y)),
            Paired::Rows(y) => {
                for (part, some) in y.rows(rows.clone()) {
                    let (first_row, count) = (part.first + some.start, some.len());
                    score(first_row, count, Second::Each(part.flat_rows(some, scratch)));
                }
            }
        }
        false
    }

    fn end(self: Box<Self>) {
        if !self.found.is_empty() {
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            memory::extend(&mut missing, self.found);
        }
    }
}
