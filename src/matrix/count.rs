//! How many elements are valid: per matrix, column or row.

use super::{Matrix, Values};
use crate::compute::Per;
use crate::kernel::count_columns;
use crate::matrix::Bits;

/// Valid elements behind each result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// The same for all: nothing is null.
    All(usize),
    /// One count for each.
    Each(Vec<u64>),
}

impl Counts {
    pub(crate) fn get(&self, i: usize) -> u64 {
        match self {
            Self::All(n) => *n as u64,
            Self::Each(counts) => counts[i],
        }
    }
}

/// Counts the valid elements of a matrix.
pub(crate) fn count(matrix: &Matrix, per: Per) -> Counts {
    let (rows, width) = (matrix.rows, matrix.width);
    if !matrix.has_nulls() {
        return Counts::All(match per {
            Per::Matrix => rows * width,
            Per::Column => rows,
            Per::Row => width,
        });
    }
    Counts::Each(match per {
        Per::Matrix => vec![matrix.chunks.iter().map(|chunk| matrix_count(chunk, width)).sum()],
        Per::Column => {
            let mut counts = vec![0; width];
            for chunk in &matrix.chunks {
                column_counts(chunk, width, &mut counts);
            }
            counts
        }
        Per::Row => {
            let mut counts = Vec::with_capacity(rows);
            for chunk in &matrix.chunks {
                row_counts(chunk, width, &mut counts);
            }
            counts
        }
    })
}

fn valid_rows(chunk: &super::Chunk) -> usize {
    chunk.rows - chunk.row_nulls.as_ref().map_or(0, |nulls| nulls.null_count())
}

fn matrix_count(chunk: &super::Chunk, width: usize) -> u64 {
    let rows = chunk.row_nulls.as_ref().map(Bits::new);
    let count = match &chunk.values {
        Values::Rows(column) => match (&column.nulls, rows) {
            (None, _) => valid_rows(chunk) * width,
            (Some(nulls), None) => nulls.len() - nulls.null_count(),
            (Some(nulls), Some(rows)) => {
                let nulls = Bits::new(nulls);
                let valid = (0..chunk.rows).filter(|&row| rows.get(row));
                valid.map(|row| nulls.count(row * width..(row + 1) * width)).sum()
            }
        },
        Values::Columns(columns) => columns
            .iter()
            .map(|column| match (&column.nulls, rows) {
                (None, _) => valid_rows(chunk),
                (Some(nulls), None) => nulls.len() - nulls.null_count(),
                (Some(nulls), Some(rows)) => both(Bits::new(nulls), rows, chunk.rows),
            })
            .sum(),
    };
    count as u64
}

fn column_counts(chunk: &super::Chunk, width: usize, counts: &mut [u64]) {
    let rows = chunk.row_nulls.as_ref().map(Bits::new);
    match &chunk.values {
        Values::Rows(column) => match &column.nulls {
            None => {
                let valid = valid_rows(chunk) as u64;
                counts.iter_mut().for_each(|count| *count += valid);
            }
            Some(nulls) => {
                let nulls = Bits::new(nulls);
                count_columns(0..chunk.rows, counts, |row, c| {
                    if rows.is_none_or(|rows| rows.get(row)) {
                        nulls.word(row * width + c)
                    } else {
                        0
                    }
                });
            }
        },
        Values::Columns(columns) => {
            for (count, column) in counts.iter_mut().zip(columns) {
                *count += match (&column.nulls, rows) {
                    (None, _) => valid_rows(chunk),
                    (Some(nulls), None) => nulls.len() - nulls.null_count(),
                    (Some(nulls), Some(rows)) => both(Bits::new(nulls), rows, chunk.rows),
                } as u64;
            }
        }
    }
}

/// A null row counts 0.
fn row_counts(chunk: &super::Chunk, width: usize, counts: &mut Vec<u64>) {
    let rows = chunk.row_nulls.as_ref().map(Bits::new);
    let is_valid = |row: usize| rows.is_none_or(|rows| rows.get(row));
    match &chunk.values {
        Values::Rows(column) => {
            let nulls = column.nulls.as_ref().map(Bits::new);
            counts.extend((0..chunk.rows).map(|row| match nulls {
                _ if !is_valid(row) => 0,
                None => width as u64,
                Some(nulls) => nulls.count(row * width..(row + 1) * width) as u64,
            }));
        }
        Values::Columns(columns) => {
            let start = counts.len();
            counts.resize(start + chunk.rows, width as u64);
            let counts = &mut counts[start..];
            for nulls in columns.iter().filter_map(|column| column.nulls.as_ref()) {
                Bits::new(nulls).each_unset(0..chunk.rows, |row| counts[row] -= 1);
            }
            if let Some(rows) = rows {
                rows.each_unset(0..chunk.rows, |row| counts[row] = 0);
            }
        }
    }
}

/// How many of the first `len` bits are set in both.
fn both(a: Bits<'_>, b: Bits<'_>, len: usize) -> usize {
    (0..len).step_by(64).map(|i| (a.word(i) & b.word(i)).count_ones() as usize).sum()
}
