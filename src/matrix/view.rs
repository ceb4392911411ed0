//! Typed slices of a matrix, and tiles of it.
//!
//! A tile is a dense piece in which every null holds a value the caller chose. Where the matrix
//! lies row by row and has no null in the piece, the tile is the matrix itself; else it is copied
//! to a scratch that stays in L1. Kernels see tiles only, so they know neither layout nor nulls.

use std::ops::Range;

use super::{Bits, Column, Matrix, Number, Values};

/// Elements of a tile that has to be copied: 4096 float64 are a 32 KiB L1.
pub(crate) const TILE: usize = 4096;

/// Room for one tile.
pub(crate) type Scratch<T> = Vec<T>;

/// A matrix as typed slices.
pub(crate) struct View<'a, T> {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) parts: Vec<Part<'a, T>>,
}

/// The rows of one chunk.
pub(crate) struct Part<'a, T> {
    /// Number of its first row in the matrix.
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) store: Store<'a, T>,
    pub(crate) row_nulls: Option<Bits<'a>>,
}

/// How its elements lie.
pub(crate) enum Store<'a, T> {
    Rows(Slice<'a, T>),
    Columns(Vec<Slice<'a, T>>),
}

/// Elements, and which of them are null.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) nulls: Option<Bits<'a>>,
}

impl<'a, T: Number> View<'a, T> {
    pub(super) fn new(matrix: &'a Matrix) -> Self {
        let slice = |column: &'a Column| Slice {
            values: column.values.typed_data::<T>(),
            nulls: column.nulls.as_ref().map(Bits::new),
        };
        let mut first = 0;
        let parts = matrix
            .chunks()
            .iter()
            .map(|chunk| {
                let store = match &chunk.values {
                    Values::Rows(column) => Store::Rows(slice(column)),
                    Values::Columns(columns) => Store::Columns(columns.iter().map(slice).collect()),
                };
                let row_nulls = chunk.row_nulls.as_ref().map(Bits::new);
                let part = Part { first, rows: chunk.rows, width: matrix.width, store, row_nulls };
                first += chunk.rows;
                part
            })
            .collect();
        Self { rows: matrix.rows, width: matrix.width, parts }
    }

    /// The parts that hold some of `rows`, each with the rows it holds, numbered inside it.
    pub(crate) fn rows(
        &self,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (&Part<'a, T>, Range<usize>)> {
        // Parts lie in order: the first that reaches past the start is found by halving.
        let skip = self.parts.partition_point(|part| part.first + part.rows <= rows.start);
        self.parts[skip..]
            .iter()
            .take_while(move |part| part.first < rows.end)
            .map(move |part| {
                let from = rows.start.max(part.first) - part.first;
                let to = rows.end.min(part.first + part.rows) - part.first;
                (part, from..to)
            })
            .filter(|(_, rows)| !rows.is_empty())
    }

    /// The pieces of the elements `range`, counted row by row, each small enough for
    /// [`Part::flat`].
    pub(crate) fn flat_pieces(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (&Part<'a, T>, Range<usize>)> {
        let width = self.width.max(1);
        let rows = range.start / width..range.end.div_ceil(width);
        self.rows(rows).flat_map(move |(part, rows)| {
            let first = part.first * width;
            let from = range.start.max(first + rows.start * width) - first;
            let to = range.end.min(first + rows.end * width) - first;
            let step = if part.is_dense() { to - from } else { TILE };
            steps(from..to, step).map(move |piece| (part, piece))
        })
    }
}

/// `range` in steps of `step`.
pub(crate) fn steps(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(step.max(1)).map(move |from| from..end.min(from + step.max(1)))
}

impl<'a, T: Number> Part<'a, T> {
    /// Whether the part lies row by row and has no null: tiles of it are never copied.
    pub(crate) fn is_dense(&self) -> bool {
        matches!(&self.store, Store::Rows(slice) if slice.nulls.is_none())
            && self.row_nulls.is_none()
    }

    pub(crate) fn row_is_valid(&self, row: usize) -> bool {
        self.row_nulls.is_none_or(|nulls| nulls.get(row))
    }

    /// The elements `range`, counted row by row, with `fill` in the place of nulls.
    pub(crate) fn flat<'s>(
        &'s self,
        range: Range<usize>,
        fill: T,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T] {
        let width = self.width;
        match &self.store {
            Store::Rows(slice) => {
                let whole = &slice.values[range.clone()];
                let rows = range.start / width..range.end.div_ceil(width);
                let no_null = slice.nulls.is_none_or(|nulls| nulls.all(range.clone()))
                    && self.row_nulls.is_none_or(|nulls| nulls.all(rows.clone()));
                if no_null {
                    return whole;
                }
                scratch.clear();
                scratch.extend_from_slice(whole);
                if let Some(nulls) = slice.nulls {
                    fill_unset(nulls, range.clone(), scratch, fill);
                }
                if let Some(nulls) = self.row_nulls {
                    nulls.each_unset(rows, |row| {
                        let from = (row * width).max(range.start) - range.start;
                        let to = ((row + 1) * width).min(range.end) - range.start;
                        scratch[from..to].fill(fill);
                    });
                }
            }
            Store::Columns(columns) => {
                scratch.clear();
                scratch.resize(range.len(), fill);
                for (c, column) in columns.iter().enumerate() {
                    let first = range.start.saturating_sub(c).div_ceil(width);
                    let end = range.end.saturating_sub(c).div_ceil(width);
                    for row in first..end {
                        let valid = column.nulls.is_none_or(|nulls| nulls.get(row));
                        if valid && self.row_is_valid(row) {
                            scratch[row * width + c - range.start] = column.values[row];
                        }
                    }
                }
            }
        }
        scratch
    }

    /// The block `rows × columns`, row by row, with `fill` in the place of nulls, and how far
    /// apart its rows lie. Only a dense part gives more than [`TILE`] elements without a copy.
    pub(crate) fn block<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        fill: T,
        scratch: &'s mut Scratch<T>,
    ) -> (&'s [T], usize) {
        let width = self.width;
        if columns.len() == width {
            return (self.flat(rows.start * width..rows.end * width, fill, scratch), width);
        }
        match &self.store {
            Store::Rows(slice) => {
                let from = rows.start * width + columns.start;
                let to = (rows.end - 1) * width + columns.end;
                let no_null = slice.nulls.is_none_or(|nulls| nulls.all(from..to))
                    && self.row_nulls.is_none_or(|nulls| nulls.all(rows.clone()));
                if no_null {
                    return (&slice.values[from..to], width);
                }
                scratch.clear();
                for row in rows {
                    let at = row * width + columns.start..row * width + columns.end;
                    let start = scratch.len();
                    if self.row_is_valid(row) {
                        scratch.extend_from_slice(&slice.values[at.clone()]);
                        if let Some(nulls) = slice.nulls {
                            fill_unset(nulls, at, &mut scratch[start..], fill);
                        }
                    } else {
                        scratch.resize(start + columns.len(), fill);
                    }
                }
            }
            Store::Columns(all) => {
                scratch.clear();
                scratch.resize(rows.len() * columns.len(), fill);
                for (c, column) in all[columns.clone()].iter().enumerate() {
                    for (r, row) in rows.clone().enumerate() {
                        let valid = column.nulls.is_none_or(|nulls| nulls.get(row));
                        if valid && self.row_is_valid(row) {
                            scratch[r * columns.len() + c] = column.values[row];
                        }
                    }
                }
            }
        }
        (scratch, columns.len())
    }

    /// The elements of one column in `rows`, with `fill` in the place of nulls.
    pub(crate) fn column<'s>(
        &'s self,
        column: usize,
        rows: Range<usize>,
        fill: T,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T] {
        match &self.store {
            Store::Columns(columns) => {
                let slice = columns[column];
                let whole = &slice.values[rows.clone()];
                let nulls = [slice.nulls, self.row_nulls];
                if nulls.iter().flatten().all(|nulls| nulls.all(rows.clone())) {
                    return whole;
                }
                scratch.clear();
                scratch.extend_from_slice(whole);
                for nulls in nulls.iter().flatten() {
                    fill_unset(*nulls, rows.clone(), scratch, fill);
                }
            }
            Store::Rows(slice) => {
                scratch.clear();
                scratch.extend(rows.map(|row| {
                    let at = row * self.width + column;
                    let valid = slice.nulls.is_none_or(|nulls| nulls.get(at));
                    if valid && self.row_is_valid(row) { slice.values[at] } else { fill }
                }));
            }
        }
        scratch
    }
}

/// Puts `fill` where the bits of `range` are not set; `values` are the elements of `range`.
pub(crate) fn fill_unset<T: Copy>(nulls: Bits<'_>, range: Range<usize>, values: &mut [T], fill: T) {
    for (word, values) in values.chunks_mut(64).enumerate() {
        let bits = nulls.word(range.start + 64 * word);
        if bits == u64::MAX {
            continue;
        }
        for (i, value) in values.iter_mut().enumerate() {
            *value = if bits >> i & 1 == 1 { *value } else { fill };
        }
    }
}
