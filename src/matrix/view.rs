//! A matrix in the type that kernels compute on, and tiles of it.
//!
//! A tile is a dense piece in which every null holds a value the caller chose. Where the matrix
//! lies row by row, is stored in that very type and has no null in the piece, the tile is the
//! matrix itself; else it is copied to a scratch that stays in L1. Kernels see tiles only, so they
//! know neither layout nor nulls nor stored type.

use std::ops::Range;

use super::scattered::Scattered;
use super::{Bits, Chunk, Column, Matrix, Number, Reader, Values};
use crate::dispatch::run;
use crate::kernel::Tile;

/// Elements of a tile that has to be copied: 4096 float64 are a 32 KiB L1.
pub(crate) const TILE: usize = 4096;

/// Workspace for one tile.
pub(crate) type Scratch<T> = Vec<T>;

/// A matrix as slices of what is stored, to be read as `T`.
pub(crate) struct View<'a, T: 'static> {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) parts: Vec<Part<'a, T>>,
}

/// The rows of one chunk.
pub(crate) struct Part<'a, T: 'static> {
    /// Number of its first row in the matrix.
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    store: Store<'a, T>,
    pub(crate) row_nulls: Option<Bits<'a>>,
    /// What it is a view of.
    pub(super) chunk: &'a Chunk,
}

/// How its elements lie.
enum Store<'a, T: 'static> {
    Rows(Slice<'a, T>),
    Columns(Vec<Slice<'a, T>>),
    /// Rows that are copied tile by tile, as they are read.
    Scattered(&'a Scattered, Reader<T>),
}

/// Elements, and which of them are null.
#[derive(Clone, Copy)]
struct Slice<'a, T: 'static> {
    bytes: &'a [u8],
    reader: Reader<T>,
    nulls: Option<Bits<'a>>,
}

impl<'a, T: Number> Slice<'a, T> {
    /// The elements themselves, if they are stored as `T`.
    #[inline(always)]
    fn values(&self) -> Option<&'a [T]> {
        self.reader.is_same.then(|| pulp::bytemuck::cast_slice(self.bytes))
    }

    /// Writes the elements `range` to `out`.
    fn read(&self, range: Range<usize>, out: &mut [T]) {
        match self.values() {
            Some(values) => out.copy_from_slice(&values[range]),
            None => {
                let size = self.reader.size;
                self.reader.read(&self.bytes[range.start * size..range.end * size], out);
            }
        }
    }

    fn get(&self, i: usize) -> T {
        let mut one = [T::default()];
        self.read(i..i + 1, &mut one);
        one[0]
    }

    /// The bytes in which the elements from `first` on lie, `elements` of them if there are so many.
    fn stored(&self, first: usize, elements: usize) -> &'a [u8] {
        let (start, len) = (first * self.reader.size, elements * self.reader.size);
        let rest = self.bytes.get(start..).unwrap_or(&[]);
        &rest[..len.min(rest.len())]
    }

    /// The elements `range`, nulls and all: themselves, or a copy at the end of `scratch`.
    #[inline(always)]
    fn raw<'s>(&'s self, range: Range<usize>, scratch: &'s mut Scratch<T>) -> &'s [T] {
        match self.values() {
            Some(values) => &values[range],
            None => {
                scratch.clear();
                self.append(range, scratch)
            }
        }
    }

    fn append<'s>(&self, range: Range<usize>, scratch: &'s mut Scratch<T>) -> &'s mut [T] {
        let start = scratch.len();
        run::resize(scratch, start + range.len(), T::default());
        self.read(range, &mut scratch[start..]);
        &mut scratch[start..]
    }
}

impl<'a, T: Number> View<'a, T> {
    /// The view of a matrix; `None` if its elements are not read as `T`.
    pub(super) fn new(matrix: &'a Matrix) -> Option<Self> {
        let reader = T::reader(&matrix.element)?;
        let slice = |column: &'a Column| Slice {
            bytes: column.values.as_slice(),
            reader,
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
                    Values::Scattered(rows) => Store::Scattered(rows, reader),
                };
                let row_nulls = chunk.row_nulls.as_ref().map(Bits::new);
                let (rows, width) = (chunk.rows, matrix.width);
                let part = Part { first, rows, width, store, row_nulls, chunk };
                first += chunk.rows;
                part
            })
            .collect();
        Some(Self { rows: matrix.rows, width: matrix.width, parts })
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

    /// Whether all of `rows` are null.
    pub(crate) fn is_null(&self, rows: Range<usize>) -> bool {
        self.parts.iter().any(|part| part.row_nulls.is_some())
            && self.rows(rows).all(|(part, rows)| part.is_null(rows))
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
    /// Whether the part lies row by row, as `T`, and has no null: tiles of it are never copied.
    pub(crate) fn is_dense(&self) -> bool {
        matches!(&self.store, Store::Rows(slice) if slice.nulls.is_none() && slice.reader.is_same)
            && self.row_nulls.is_none()
    }

    /// The elements of such a part.
    pub(crate) fn dense_values(&self) -> Option<&'a [T]> {
        match &self.store {
            Store::Rows(slice) if self.is_dense() => slice.values(),
            _ => None,
        }
    }

    /// Whether the part lies column by column.
    pub(crate) fn is_by_columns(&self) -> bool {
        matches!(self.store, Store::Columns(_))
    }

    /// Elements, whatever lies under nulls and all: those of one column, if the part lies by
    /// columns, else counted row by row. Themselves, or a copy in `scratch`.
    #[inline(always)]
    pub(crate) fn raw<'s>(
        &'s self,
        column: Option<usize>,
        elements: Range<usize>,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T] {
        match (&self.store, column) {
            (Store::Columns(columns), Some(c)) => columns[c].raw(elements, scratch),
            (Store::Rows(rows), _) => rows.raw(elements, scratch),
            (Store::Scattered(..) | Store::Columns(_), _) => {
                self.flat(elements, T::default(), scratch)
            }
        }
    }

    /// The bytes in which elements from `first` on lie, counted row by row, if they lie so.
    pub(crate) fn stored(&self, first: usize, elements: usize) -> &'a [u8] {
        match &self.store {
            Store::Rows(rows) => rows.stored(first, elements),
            Store::Columns(_) | Store::Scattered(..) => &[],
        }
    }

    /// Whether all of `rows` are null.
    pub(crate) fn is_null(&self, rows: Range<usize>) -> bool {
        self.row_nulls.is_some_and(|nulls| nulls.count(rows) == 0)
    }

    pub(crate) fn row_is_valid(&self, row: usize) -> bool {
        self.row_nulls.is_none_or(|nulls| nulls.get(row))
    }

    /// Whether an element and its row are valid.
    pub(crate) fn is_valid(&self, row: usize, column: usize) -> bool {
        self.row_is_valid(row)
            && match &self.store {
                Store::Rows(slice) => {
                    slice.nulls.is_none_or(|nulls| nulls.get(row * self.width + column))
                }
                Store::Columns(columns) => columns[column].nulls.is_none_or(|nulls| nulls.get(row)),
                Store::Scattered(elements, _) => elements.is_valid(row, column),
            }
    }

    /// Whether no element of `rows` and `columns` is null.
    fn no_null(&self, rows: Range<usize>, columns: Range<usize>) -> bool {
        let width = self.width;
        self.row_nulls.is_none_or(|nulls| nulls.all(rows.clone()))
            && match &self.store {
                Store::Rows(slice) => slice.nulls.is_none_or(|nulls| {
                    if columns.len() == width {
                        return nulls.all(rows.start * width..rows.end * width);
                    }
                    let row = |r: usize| r * width + columns.start..r * width + columns.end;
                    rows.clone().all(|r| nulls.all(row(r)))
                }),
                Store::Columns(all) => all[columns]
                    .iter()
                    .all(|column| column.nulls.is_none_or(|nulls| nulls.all(rows.clone()))),
                Store::Scattered(elements, _) => elements.all_valid(rows, columns),
            }
    }

    /// Says in `valid` which elements of the block `rows × columns` are valid, row by row; `None`
    /// if all are.
    pub(crate) fn validity<'s>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        valid: &'s mut Vec<bool>,
    ) -> Option<&'s [bool]> {
        if self.no_null(rows.clone(), columns.clone()) {
            return None;
        }
        valid.clear();
        run::reserve(valid, rows.len() * columns.len());
        for row in rows {
            valid.extend(columns.clone().map(|column| self.is_valid(row, column)));
        }
        Some(valid)
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
                let rows = range.start / width..range.end.div_ceil(width);
                let no_null = slice.nulls.is_none_or(|nulls| nulls.all(range.clone()))
                    && self.row_nulls.is_none_or(|nulls| nulls.all(rows.clone()));
                if no_null {
                    return slice.raw(range, scratch);
                }
                scratch.clear();
                slice.append(range.clone(), scratch);
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
            Store::Scattered(elements, reader) => {
                scratch.clear();
                run::resize(scratch, range.len(), fill);
                elements.read_rows(reader, width, self.row_nulls, range.clone(), scratch);
                if elements.may_have_nulls() {
                    for (value, i) in scratch.iter_mut().zip(range) {
                        if !self.is_valid(i / width, i % width) {
                            *value = fill;
                        }
                    }
                }
            }
            Store::Columns(columns) => {
                scratch.clear();
                run::resize(scratch, range.len(), fill);
                for (c, column) in columns.iter().enumerate() {
                    let first = range.start.saturating_sub(c).div_ceil(width);
                    let end = range.end.saturating_sub(c).div_ceil(width);
                    for row in first..end {
                        let valid = column.nulls.is_none_or(|nulls| nulls.get(row));
                        if valid && self.row_is_valid(row) {
                            scratch[row * width + c - range.start] = column.get(row);
                        }
                    }
                }
            }
        }
        scratch
    }

    /// The elements of whole rows, with zero in the place of nulls.
    pub(crate) fn flat_rows<'s>(
        &'s self,
        rows: Range<usize>,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T] {
        if self.width == 0 {
            return &[];
        }
        self.flat(rows.start * self.width..rows.end * self.width, T::default(), scratch)
    }

    /// [`flat`](Self::flat) with its validity, if it is asked for and something is null. Then
    /// `range` must be at most a row, or whole rows.
    #[inline(always)]
    pub(crate) fn flat_tile<'s>(
        &'s self,
        range: Range<usize>,
        fill: T,
        with_validity: bool,
        (scratch, valid): (&'s mut Scratch<T>, &'s mut Vec<bool>),
    ) -> Tile<'s, T> {
        if !with_validity || self.is_dense() {
            return Tile { x: self.flat(range, fill, scratch), valid: None };
        }
        let width = self.width;
        let all_valid = self.no_null(range.start / width..range.end.div_ceil(width), 0..width);
        let valid = (!all_valid).then(|| {
            valid.clear();
            run::reserve(valid, range.len());
            valid.extend(range.clone().map(|i| self.is_valid(i / width, i % width)));
            &**valid
        });
        Tile { x: self.flat(range, fill, scratch), valid }
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
                if let Some(values) = slice.values()
                    && self.no_null(rows.clone(), columns.clone())
                {
                    return (&values[from..to], width);
                }
                scratch.clear();
                for row in rows {
                    let at = row * width + columns.start..row * width + columns.end;
                    let start = scratch.len();
                    if self.row_is_valid(row) {
                        slice.append(at.clone(), scratch);
                        if let Some(nulls) = slice.nulls {
                            fill_unset(nulls, at, &mut scratch[start..], fill);
                        }
                    } else {
                        run::resize(scratch, start + columns.len(), fill);
                    }
                }
            }
            Store::Scattered(elements, reader) => {
                scratch.clear();
                run::resize(scratch, rows.len() * columns.len(), fill);
                let blocks = scratch.chunks_exact_mut(columns.len());
                for (row, out) in rows.zip(blocks).filter(|(row, _)| self.row_is_valid(*row)) {
                    elements.read(reader, row, columns.start, out);
                    if elements.may_have_nulls() {
                        let nulls = columns.clone().zip(out);
                        nulls
                            .filter(|(c, _)| !elements.is_valid(row, *c))
                            .for_each(|(_, x)| *x = fill);
                    }
                }
            }
            Store::Columns(all) => {
                scratch.clear();
                run::resize(scratch, rows.len() * columns.len(), fill);
                for (c, column) in all[columns.clone()].iter().enumerate() {
                    for (r, row) in rows.clone().enumerate() {
                        let valid = column.nulls.is_none_or(|nulls| nulls.get(row));
                        if valid && self.row_is_valid(row) {
                            scratch[r * columns.len() + c] = column.get(row);
                        }
                    }
                }
            }
        }
        (scratch, columns.len())
    }

    /// [`block`](Self::block) with its validity, if it is asked for and something is null; the
    /// validity has the stride of the block.
    #[inline(always)]
    pub(crate) fn block_tile<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        fill: T,
        with_validity: bool,
        (scratch, valid): (&'s mut Scratch<T>, &'s mut Vec<bool>),
    ) -> (Tile<'s, T>, usize) {
        // A block with a null is copied, so it is as far apart as it is wide.
        let valid = if with_validity && !self.is_dense() {
            self.validity(rows.clone(), columns.clone(), valid)
        } else {
            None
        };
        let (x, stride) = self.block(rows, columns, fill, scratch);
        (Tile { x, valid }, stride)
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
                let slice = &columns[column];
                let nulls = [slice.nulls, self.row_nulls];
                if nulls.iter().flatten().all(|nulls| nulls.all(rows.clone())) {
                    return slice.raw(rows, scratch);
                }
                scratch.clear();
                slice.append(rows.clone(), scratch);
                for nulls in nulls.iter().flatten() {
                    fill_unset(*nulls, rows.clone(), scratch, fill);
                }
            }
            Store::Scattered(elements, reader) => {
                scratch.clear();
                run::resize(scratch, rows.len(), fill);
                for (row, out) in rows.zip(scratch.iter_mut()) {
                    if self.is_valid(row, column) {
                        elements.read(reader, row, column, std::slice::from_mut(out));
                    }
                }
            }
            Store::Rows(slice) => {
                scratch.clear();
                run::reserve(scratch, rows.len());
                scratch.extend(rows.map(|row| {
                    let at = row * self.width + column;
                    let valid = slice.nulls.is_none_or(|nulls| nulls.get(at));
                    if valid && self.row_is_valid(row) { slice.get(at) } else { fill }
                }));
            }
        }
        scratch
    }

    /// [`column`](Self::column) with its validity, if it is asked for and something is null.
    #[inline(always)]
    pub(crate) fn column_tile<'s>(
        &'s self,
        column: usize,
        rows: Range<usize>,
        fill: T,
        with_validity: bool,
        (scratch, valid): (&'s mut Scratch<T>, &'s mut Vec<bool>),
    ) -> Tile<'s, T> {
        let valid = if with_validity {
            self.validity(rows.clone(), column..column + 1, valid)
        } else {
            None
        };
        Tile { x: self.column(column, rows, fill, scratch), valid }
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
