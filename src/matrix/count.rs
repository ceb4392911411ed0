//! How many elements are valid: per matrix, column or row.

use std::ops::Range;

use super::{Bits, Chunk, Column, Mask, Matrix, Values};
use crate::buffer::vec_of;
use crate::compute::Per;
use crate::dispatch::{Family, Level, Work, machine, run, settings};
use crate::error::Result;
use crate::kernel::{Body, Counts, Simd, count_columns, count_rows};
use crate::memory;

/// Rows that are counted before an interrupt is looked at.
const ROWS_AT_ONCE: usize = 1 << 16;

/// Counts the valid elements of a matrix.
///
/// # Errors
///
/// No memory, or an interrupt.
pub(crate) fn count(matrix: &Matrix, per: Per) -> Result<Counts> {
    let (rows, width) = (matrix.rows, matrix.width);
    if !matrix.has_nulls() {
        return Ok(Counts::All(match per {
            Per::Matrix => rows * width,
            Per::Column => rows,
            Per::Row => width,
        }));
    }
    let mut counts = match per {
        Per::Matrix => vec![0],
        Per::Column => vec_of(0, width)?,
        Per::Row => vec_of(0, rows)?,
    };
    // Elements that are looked at between two interrupts stay about as many, however wide a row is.
    let step = (64 * ROWS_AT_ONCE / width.max(64)).max(1);
    if per == Per::Row {
        let mut tasks = Vec::new();
        let mut rest = counts.as_mut_slice();
        for chunk in &matrix.chunks {
            let (own, others) = rest.split_at_mut(chunk.rows);
            memory::extend(
                &mut tasks,
                own.chunks_mut(step).enumerate().map(|(i, out)| (chunk, i * step, out)),
            );
            rest = others;
        }
        let family = Family::Reduction;
        let bytes_read = matrix.bytes() / 8 + rows;
        let work = Work { family, bytes_read, bytes_written: 8 * rows, has_vdsp: false };
        let plan = run::planned(&work)?;
        let level = plan.level(machine());
        run::each(
            &plan,
            tasks,
            || (),
            |(), (chunk, first, out)| {
                chunk.count_rows(level, width, first, out);
            },
        )?;
        return Ok(Counts::Each(counts));
    }
    let level = settings::level();
    for chunk in &matrix.chunks {
        run::in_steps(0..chunk.rows, step, |rows| {
            match per {
                Per::Matrix => counts[0] += chunk.count_whole_rows(width, rows),
                _ => chunk.count_columns(level, width, rows, 0..width, &mut counts),
            }
            Ok(())
        })?;
    }
    Ok(Counts::Each(counts))
}

impl Chunk {
    /// How many of the elements `range`, counted row by row, are valid.
    pub(super) fn count_flat(&self, width: usize, range: Range<usize>) -> u64 {
        let (first, end) = (range.start.div_ceil(width), range.end / width);
        if first >= end {
            // Less than a row, or the end of one and the beginning of the next.
            let split = range.end.min(first * width);
            return [range.start..split, split..range.end]
                .into_iter()
                .filter(|part| !part.is_empty())
                .map(|part| {
                    let row = part.start / width;
                    self.count_row(width, row, part.start - row * width..part.end - row * width)
                })
                .sum::<usize>() as u64;
        }
        let before = range.start..first * width;
        let after = end * width..range.end;
        let ends = [before, after].into_iter().filter(|part| !part.is_empty());
        self.count_whole_rows(width, first..end)
            + ends.map(|part| self.count_flat(width, part)).sum::<u64>()
    }

    /// How many of `rows` are valid.
    fn valid_rows(&self, rows: Range<usize>) -> usize {
        match &self.row_nulls {
            None => rows.len(),
            Some(nulls) => Bits::new(nulls).count(rows),
        }
    }

    /// How many elements of one column are valid in `rows`.
    fn count_column(&self, column: &Column, rows: Range<usize>) -> usize {
        match (&column.nulls, &self.row_nulls) {
            (None, _) => self.valid_rows(rows),
            (Some(nulls), None) => Bits::new(nulls).count(rows),
            (Some(nulls), Some(whole)) => both(Bits::new(nulls), Bits::new(whole), rows),
        }
    }

    fn count_whole_rows(&self, width: usize, rows: Range<usize>) -> u64 {
        let count = match &self.values {
            values if !values.may_have_nulls() => self.valid_rows(rows) * width,
            Values::Rows(Column { nulls: Some(nulls), .. }) if self.row_nulls.is_none() => {
                Bits::new(nulls).count(rows.start * width..rows.end * width)
            }
            Values::Columns(columns) => {
                columns.iter().map(|column| self.count_column(column, rows.clone())).sum()
            }
            _ => rows.map(|row| self.count_row(width, row, 0..width)).sum(),
        };
        count as u64
    }

    /// Adds to `counts` how many elements of each of `columns` are valid in `rows`.
    pub(super) fn count_columns(
        &self,
        level: Level,
        width: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        counts: &mut [u64],
    ) {
        match &self.values {
            Values::Columns(all) => {
                for (count, column) in counts.iter_mut().zip(&all[columns]) {
                    *count += self.count_column(column, rows.clone()) as u64;
                }
            }
            values if !values.may_have_nulls() => {
                let valid = self.valid_rows(rows) as u64;
                counts.iter_mut().for_each(|count| *count += valid);
            }
            Values::Rows(column) => {
                let Some(nulls) = column.nulls.as_ref().map(Bits::new) else { return };
                let whole = self.row_nulls.as_ref().map(Bits::new);
                let first = columns.start;
                let each = CountColumns { rows, width, first, nulls, whole, counts };
                level.run(each);
            }
            Values::Scattered(elements) => {
                for row in rows.filter(|row| self.row_is_valid(*row)) {
                    for (c, count) in columns.clone().zip(counts.iter_mut()) {
                        *count += u64::from(elements.is_valid(row, c));
                    }
                }
            }
        }
    }

    /// How many elements of some columns of a row are valid; of a null row none.
    fn count_row(&self, width: usize, row: usize, columns: Range<usize>) -> usize {
        if !self.row_is_valid(row) {
            return 0;
        }
        match &self.values {
            Values::Rows(Column { nulls: None, .. }) => columns.len(),
            Values::Rows(Column { nulls: Some(nulls), .. }) => {
                Bits::new(nulls).count(row * width + columns.start..row * width + columns.end)
            }
            Values::Columns(all) => {
                let is_valid =
                    |column: &&Column| column.nulls.as_ref().is_none_or(|n| n.is_valid(row));
                all[columns].iter().filter(is_valid).count()
            }
            Values::Scattered(elements) => elements.count(row, columns),
        }
    }

    /// Says how many elements of each row from `first` on are valid.
    pub(super) fn count_rows(&self, level: Level, width: usize, first: usize, out: &mut [u64]) {
        let rows = first..first + out.len();
        match &self.values {
            Values::Columns(columns) => {
                // Column by column, so that each bitmap is read once.
                out.fill(width as u64);
                for nulls in columns.iter().filter_map(|column| column.nulls.as_ref()) {
                    let mut held = [false; HELD];
                    for (rows, out) in rows.clone().step_by(HELD).zip(out.chunks_mut(HELD)) {
                        let valid = &mut held[..out.len()];
                        Bits::new(nulls).spread(level, rows..rows + out.len(), valid);
                        let each = out.iter_mut().zip(valid);
                        each.for_each(|(count, valid)| *count -= u64::from(!*valid));
                    }
                }
            }
            values if !values.may_have_nulls() => out.fill(width as u64),
            Values::Rows(Column { nulls: Some(nulls), .. }) if (1..=64).contains(&width) => {
                level.run(CountRows { nulls: Bits::new(nulls), width, first, out });
            }
            _ => {
                for (row, out) in rows.zip(out) {
                    *out = self.count_row(width, row, 0..width) as u64;
                }
                return;
            }
        }
        if let Some(nulls) = &self.row_nulls {
            Mask::of(level, Bits::new(nulls)).fill(rows, 0, out);
        }
    }
}

/// Rows whose validity is held at once.
const HELD: usize = 512;

struct CountColumns<'a> {
    rows: Range<usize>,
    width: usize,
    /// The first column.
    first: usize,
    nulls: Bits<'a>,
    whole: Option<Bits<'a>>,
    counts: &'a mut [u64],
}

impl Body for CountColumns<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { rows, width, first, nulls, whole, counts } = self;
        let Some(whole) = whole else {
            // Narrow rows are joined to long ones, as many as a word holds.
            let together = if counts.len() == width { 64 / width.max(1) } else { 1 };
            let long = if together > 1 { rows.len() / together } else { 0 };
            let mut joined = [0; 64];
            count_columns(0..long, &mut joined[..(together * width).min(64)], |i, _| {
                nulls.word((rows.start + i * together) * width)
            });
            if long > 0 {
                let joined = joined.iter().take(together * width).enumerate();
                joined.for_each(|(i, count)| counts[i % width] += count);
            }
            let rest = rows.start + long * together..rows.end;
            return count_columns(rest, counts, |row, c| nulls.word(row * width + first + c));
        };
        count_columns(rows, counts, |row, c| {
            // No branch: which rows are null is not foretold.
            nulls.word(row * width + first + c) & u64::from(whole.get(row)).wrapping_neg()
        });
    }
}

struct CountRows<'a> {
    nulls: Bits<'a>,
    width: usize,
    /// The first row.
    first: usize,
    out: &'a mut [u64],
}

impl Body for CountRows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { nulls, width, first, out } = self;
        count_rows(width, out, |row| nulls.word((first + row) * width));
    }
}

/// How many of the bits `range` are set in both.
fn both(a: Bits<'_>, b: Bits<'_>, range: Range<usize>) -> usize {
    let end = range.end;
    let words = range.step_by(64).map(|i| {
        let both = a.word(i) & b.word(i);
        if end - i < 64 { both & ((1 << (end - i)) - 1) } else { both }
    });
    words.map(|word| word.count_ones() as usize).sum()
}
