//! A matrix in the type that kernels compute on, and tiles of it.
//!
//! A tile is a dense piece in which every null holds a value the caller chose. Where the matrix
//! lies row by row, is stored in that very type and has no null in the piece, the tile is the
//! matrix itself; else it is copied to a scratch that stays in L1. Kernels see tiles only, so they
//! know neither layout nor nulls nor stored type.

use std::ops::Range;

use super::scattered::Scattered;
use super::stored::Slice;
use super::{Bits, Chunk, Column, Mask, Matrix, Number, Reader, Values};
use crate::dispatch::Level;
use crate::kernel::Tile;
use crate::memory::{self, Gather as _};

/// Elements of a tile that has to be copied: 4096 float64 are a 32 KiB L1.
pub(crate) const TILE: usize = 4096;

/// Elements of a column that are held on their way to rows.
const HELD: usize = 512;

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
    store: Storage<'a, T>,
    pub(crate) row_nulls: Option<Bits<'a>>,
    /// The instruction set that tiles are filled at.
    pub(super) level: Level,
    /// What it is a view of.
    pub(super) chunk: &'a Chunk,
}

/// How its elements lie.
enum Storage<'a, T: 'static> {
    Rows(Slice<'a, T>),
    Columns(Vec<Slice<'a, T>>),
    /// Rows that are copied tile by tile, as they are read.
    Scattered(&'a Scattered, Reader<T>),
}

impl<'a, T: Number> View<'a, T> {
    /// The view of a matrix; `None` if its elements are not read as `T`.
    pub(super) fn new(matrix: &'a Matrix) -> Option<Self> {
        let reader = T::reader(&matrix.element)?;
        let element = &matrix.element;
        // As a column of a chunk is stored.
        let slice = |chunk: &'a Chunk, (c, column): (usize, &'a Column)| {
            let reader = match chunk.stored.is_empty() {
                true => reader,
                false => T::reader(chunk.stored(c, element))?,
            };
            let nulls = column.nulls.as_ref().map(Bits::new);
            Some(Slice { bytes: column.values.as_slice(), reader, nulls })
        };
        let mut first = 0;
        let parts = matrix
            .chunks()
            .iter()
            .map(|chunk| {
                let store = match &chunk.values {
                    Values::Rows(column) => Storage::Rows(slice(chunk, (0, column))?),
                    Values::Columns(columns) => {
                        let mut all = memory::with_capacity(columns.len());
                        for column in columns.iter().enumerate() {
                            memory::push(&mut all, slice(chunk, column)?);
                        }
                        Storage::Columns(all)
                    }
                    Values::Scattered(rows) => {
                        Storage::Scattered(rows, T::reader(chunk.stored(0, element))?)
                    }
                };
                let row_nulls = chunk.row_nulls.as_ref().map(Bits::new);
                let (rows, width) = (chunk.rows, matrix.width);
                let level = reader.level;
                let part = Part { first, rows, width, store, row_nulls, level, chunk };
                first += chunk.rows;
                Some(part)
            })
            .map(|part| part.ok_or(()))
            .try_gather()
            .ok()?;
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

/// The rows of `width` elements whose element `column` is among those of `range`.
fn rows_with(column: usize, range: &Range<usize>, width: usize) -> Range<usize> {
    let row = |element: usize| element.saturating_sub(column).div_ceil(width);
    row(range.start)..row(range.end)
}

/// `range` in steps of `step`.
pub(crate) fn steps(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(step.max(1)).map(move |from| from..end.min(from + step.max(1)))
}

impl<'a, T: Number> Part<'a, T> {
    /// Whether the part lies row by row, as `T`, and has no null: tiles of it are never copied.
    pub(crate) fn is_dense(&self) -> bool {
        matches!(&self.store, Storage::Rows(slice) if slice.nulls.is_none() && slice.reader.is_same)
            && self.row_nulls.is_none()
    }

    /// The elements of such a part.
    pub(crate) fn dense_values(&self) -> Option<&'a [T]> {
        match &self.store {
            Storage::Rows(slice) if self.is_dense() => slice.values(),
            _ => None,
        }
    }

    /// Whether the part lies column by column.
    pub(crate) fn is_by_columns(&self) -> bool {
        matches!(self.store, Storage::Columns(_))
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
            (Storage::Columns(columns), Some(c)) => columns[c].raw(elements, scratch),
            (Storage::Rows(rows), _) => rows.raw(elements, scratch),
            (Storage::Scattered(..) | Storage::Columns(_), _) => {
                self.flat(elements, T::default(), scratch)
            }
        }
    }

    /// The bytes in which elements from `first` on lie, counted row by row, if they lie so.
    pub(crate) fn stored(&self, first: usize, elements: usize) -> &'a [u8] {
        match &self.store {
            Storage::Rows(rows) => rows.stored(first, elements),
            Storage::Columns(_) | Storage::Scattered(..) => &[],
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
                Storage::Rows(slice) => {
                    slice.nulls.is_none_or(|nulls| nulls.get(row * self.width + column))
                }
                Storage::Columns(columns) => {
                    columns[column].nulls.is_none_or(|nulls| nulls.get(row))
                }
                Storage::Scattered(elements, _) => elements.is_valid(row, column),
            }
    }

    /// Whether no element of `rows` and `columns` is null.
    fn no_null(&self, rows: Range<usize>, columns: Range<usize>) -> bool {
        let width = self.width;
        self.row_nulls.is_none_or(|nulls| nulls.all(rows.clone()))
            && match &self.store {
                Storage::Rows(slice) => slice.nulls.is_none_or(|nulls| {
                    if columns.len() == width {
                        return nulls.all(rows.start * width..rows.end * width);
                    }
                    let row = |r: usize| r * width + columns.start..r * width + columns.end;
                    rows.clone().all(|r| nulls.all(row(r)))
                }),
                Storage::Columns(all) => all[columns]
                    .iter()
                    .all(|column| column.nulls.is_none_or(|nulls| nulls.all(rows.clone()))),
                Storage::Scattered(elements, _) => elements.all_valid(rows, columns),
            }
    }

    /// The validity of elements that lie row by row, if these do.
    fn mask(&self, elements: Option<Bits<'a>>) -> Mask<'a> {
        Mask { level: self.level, elements, rows: self.row_nulls, width: self.width.max(1) }
    }

    /// The validity of the elements of one column that lie one behind the other.
    fn column_mask(&self, elements: Option<Bits<'a>>) -> Mask<'a> {
        Mask { width: 1, ..self.mask(elements) }
    }

    /// Says in `valid` which elements of the block `rows × columns` are valid, row by row; `None`
    /// if all are.
    pub(crate) fn validity<'s>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        valid: &'s mut Vec<bool>,
    ) -> Option<&'s [bool]> {
        let (width, wide) = (self.width, columns.len());
        if wide == width {
            return self.flat_validity(rows.start * width..rows.end * width, valid);
        }
        if self.no_null(rows.clone(), columns.clone()) {
            return None;
        }
        // What it held is overwritten.
        memory::resize(valid, rows.len() * wide, false);
        match &self.store {
            Storage::Rows(slice) => {
                let mask = self.mask(slice.nulls);
                for (row, valid) in rows.zip(valid.chunks_exact_mut(wide)) {
                    mask.spread(row * width + columns.start..row * width + columns.end, valid);
                }
            }
            Storage::Columns(all) => {
                for (c, column) in all[columns].iter().enumerate() {
                    self.scatter_validity(column, rows.clone(), c, wide, valid);
                }
            }
            Storage::Scattered(..) => {
                for (row, valid) in rows.zip(valid.chunks_exact_mut(wide)) {
                    for (column, valid) in columns.clone().zip(valid) {
                        *valid = self.is_valid(row, column);
                    }
                }
            }
        }
        Some(valid)
    }

    /// Says in `valid` which of the elements `range`, counted row by row, are valid; `None` if all
    /// are.
    fn flat_validity<'s>(
        &self,
        range: Range<usize>,
        valid: &'s mut Vec<bool>,
    ) -> Option<&'s [bool]> {
        let width = self.width.max(1);
        if self.no_null(range.start / width..range.end.div_ceil(width), 0..self.width) {
            return None;
        }
        memory::resize(valid, range.len(), false);
        match &self.store {
            Storage::Rows(slice) => self.mask(slice.nulls).spread(range, valid),
            Storage::Columns(columns) => {
                for (c, column) in columns.iter().enumerate() {
                    let rows = rows_with(c, &range, width);
                    let at = rows.start * width + c - range.start;
                    self.scatter_validity(column, rows, at, width, valid);
                }
            }
            Storage::Scattered(..) => {
                for (i, valid) in range.zip(valid.iter_mut()) {
                    *valid = self.is_valid(i / width, i % width);
                }
            }
        }
        Some(valid)
    }

    /// Says which elements of a column are valid in `rows`, in every `step`th of `valid` from number
    /// `at` on.
    fn scatter_validity(
        &self,
        column: &Slice<'a, T>,
        rows: Range<usize>,
        at: usize,
        step: usize,
        valid: &mut [bool],
    ) {
        let mask = self.column_mask(column.nulls);
        if step == 1 {
            return mask.spread(rows, valid);
        }
        let mut held = [false; HELD];
        for some in steps(rows.clone(), HELD) {
            let at = at + (some.start - rows.start) * step;
            let held = &mut held[..some.len()];
            mask.spread(some, held);
            let valid = valid.get_mut(at..).unwrap_or(&mut []).iter_mut().step_by(step);
            valid.zip(held).for_each(|(valid, held)| *valid = *held);
        }
    }

    /// The elements `range`, counted row by row, with `fill` in place of nulls.
    pub(crate) fn flat<'s>(
        &'s self,
        range: Range<usize>,
        fill: T,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T] {
        let width = self.width;
        match &self.store {
            Storage::Rows(slice) => {
                return slice.filled(&self.mask(slice.nulls), range, fill, scratch);
            }
            Storage::Scattered(elements, reader) => {
                scratch.clear();
                memory::resize(scratch, range.len(), fill);
                elements.read_rows(reader, width, self.row_nulls, range.clone(), scratch);
                if elements.may_have_nulls() {
                    for (value, i) in scratch.iter_mut().zip(range) {
                        if !self.is_valid(i / width, i % width) {
                            *value = fill;
                        }
                    }
                }
            }
            Storage::Columns(columns) => {
                // What it held is overwritten.
                memory::resize(scratch, range.len(), fill);
                for (c, column) in columns.iter().enumerate() {
                    let rows = rows_with(c, &range, width);
                    let at = rows.start * width + c - range.start;
                    self.scatter(column, rows, fill, at, width, scratch);
                }
            }
        }
        scratch
    }

    /// Writes the elements of a column in `rows`, with `fill` in place of nulls, to every
    /// `step`th element of `out` from number `at` on.
    fn scatter(
        &self,
        column: &Slice<'a, T>,
        rows: Range<usize>,
        fill: T,
        at: usize,
        step: usize,
        out: &mut [T],
    ) {
        let mask = self.column_mask(column.nulls);
        let mut held = [T::default(); HELD];
        for some in steps(rows.clone(), HELD) {
            let at = at + (some.start - rows.start) * step;
            let held = column.filled_into(&mask, some, fill, &mut held);
            let out = out.get_mut(at..).unwrap_or(&mut []).iter_mut().step_by(step);
            out.zip(held).for_each(|(out, x)| *out = *x);
        }
    }

    /// The elements of whole rows, with zero in place of nulls.
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

    /// [`flat`](Self::flat) with its validity, if it is asked for and something is null.
    #[inline(always)]
    pub(crate) fn flat_tile<'s>(
        &'s self,
        range: Range<usize>,
        fill: T,
        with_validity: bool,
        (scratch, valid): (&'s mut Scratch<T>, &'s mut Vec<bool>),
    ) -> Tile<'s, T> {
        if !with_validity || self.is_dense() {
            return Tile { x: self.flat(range, fill, scratch), valid: None, weights: None };
        }
        let valid = self.flat_validity(range.clone(), valid);
        Tile { x: self.flat(range, fill, scratch), valid, weights: None }
    }

    /// The block `rows × columns`, row by row, with `fill` in place of nulls, and how far
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
            Storage::Rows(slice) => {
                let from = rows.start * width + columns.start;
                let to = (rows.end - 1) * width + columns.end;
                if let Some(values) = slice.values()
                    && self.no_null(rows.clone(), columns.clone())
                {
                    return (&values[from..to], width);
                }
                memory::resize(scratch, rows.len() * columns.len(), fill);
                let mask = self.mask(slice.nulls);
                for (row, out) in rows.zip(scratch.chunks_exact_mut(columns.len())) {
                    let at = row * width + columns.start..row * width + columns.end;
                    slice.fill_into(&mask, at, fill, out);
                }
            }
            Storage::Scattered(elements, reader) => {
                scratch.clear();
                memory::resize(scratch, rows.len() * columns.len(), fill);
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
            Storage::Columns(all) => {
                memory::resize(scratch, rows.len() * columns.len(), fill);
                for (c, column) in all[columns.clone()].iter().enumerate() {
                    self.scatter(column, rows.clone(), fill, c, columns.len(), scratch);
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
        (Tile { x, valid, weights: None }, stride)
    }

    /// The elements of one column in `rows`, with `fill` in place of nulls.
    pub(crate) fn column<'s>(
        &'s self,
        column: usize,
        rows: Range<usize>,
        fill: T,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T] {
        match &self.store {
            Storage::Columns(columns) => {
                let slice = &columns[column];
                return slice.filled(&self.column_mask(slice.nulls), rows, fill, scratch);
            }
            Storage::Scattered(elements, reader) => {
                scratch.clear();
                memory::resize(scratch, rows.len(), fill);
                for (row, out) in rows.zip(scratch.iter_mut()) {
                    if self.is_valid(row, column) {
                        elements.read(reader, row, column, std::slice::from_mut(out));
                    }
                }
            }
            Storage::Rows(slice) => {
                scratch.clear();
                memory::reserve(scratch, rows.len());
                memory::extend(
                    scratch,
                    rows.map(|row| {
                        let at = row * self.width + column;
                        let valid = slice.nulls.is_none_or(|nulls| nulls.get(at));
                        if valid && self.row_is_valid(row) { slice.get(at) } else { fill }
                    }),
                );
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
        Tile { x: self.column(column, rows, fill, scratch), valid, weights: None }
    }
}
