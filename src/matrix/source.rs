//! Where tiles come from: a matrix, or rows of it gathered by index.
//!
//! A reduction asks a source for tiles of some rows × columns. The source lends the slice in place
//! where the elements lie as they are wanted, and else fills a workspace that stays in L1. So what is
//! reduced may as well be computed on the way: anything that can fill a tile is a source.

use std::ops::Range;

use super::Number;
use super::view::{Part, Scratch, TILE, View, steps};
use crate::dispatch::Level;
use crate::kernel::{GatherRows, Tile};
use crate::memory;

/// What a tile holds in place of nulls, and whether it says which elements are valid.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<T> {
    pub(crate) fill: T,
    pub(crate) with_validity: bool,
}

/// Workspace for the tiles of a thread.
pub(crate) struct TileWorkspace<T> {
    pub(super) values: Scratch<T>,
    pub(super) valid: Vec<bool>,
    pub(super) weights: Scratch<T>,
    /// That of a source inside of another.
    pub(super) inner: Option<Box<Self>>,
}

impl<T> Default for TileWorkspace<T> {
    fn default() -> Self {
        Self { values: Scratch::new(), valid: Vec::new(), weights: Scratch::new(), inner: None }
    }
}

/// A matrix that is read in tiles.
pub(crate) trait Source<T: Number>: Sync {
    fn rows(&self) -> usize;
    fn width(&self) -> usize;
    /// Whether the elements of a column are contiguous, rather than those of a row.
    fn is_by_columns(&self) -> bool;
    fn has_nulls(&self) -> bool;
    /// Whether all of `rows` are null.
    fn is_null(&self, rows: Range<usize>) -> bool;

    /// `rows` in pieces of which tiles can be asked for, and whether these are lent in place, so
    /// that they may be of any size; else of [`TILE`] elements or some rows.
    fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)>;
    /// The elements `range` of one piece, counted row by row.
    fn flat<'s>(
        &'s self,
        range: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T>;
    /// The block `rows × columns` of one piece, row by row, and how far apart its rows lie.
    fn block<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> (Tile<'s, T>, usize);
    /// The elements of one column in the rows of one piece.
    fn column<'s>(
        &'s self,
        column: usize,
        rows: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T> {
        self.block(rows, column..column + 1, wanted, workspace).0
    }

    // How many elements are valid: asked only of what has nulls.

    /// Of the elements `range` of one piece, counted row by row.
    fn count_flat(&self, range: Range<usize>) -> u64;
    /// Of each of `columns`, in `rows` of one piece: added to `counts`.
    fn count_columns(&self, rows: Range<usize>, columns: Range<usize>, counts: &mut [u64]);
    /// Of each row of one piece from `first` on.
    fn count_rows(&self, first: usize, counts: &mut [u64]);

    /// The pieces of the elements `range`, counted row by row, each of one tile.
    fn flat_tiles(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let width = self.width().max(1);
        let rows = range.start / width..range.end.div_ceil(width);
        self.pieces(rows).flat_map(move |(rows, is_lent)| {
            let from = range.start.max(rows.start * width);
            let to = range.end.min(rows.end * width);
            steps(from..to, if is_lent { to - from } else { TILE })
        })
    }
}

impl<'a, T: Number> View<'a, T> {
    /// The part that holds a row.
    #[inline(always)]
    fn part(&self, row: usize) -> &Part<'a, T> {
        match &self.parts[..] {
            [only] => only,
            parts => &parts[parts.partition_point(|part| part.first + part.rows <= row)],
        }
    }
}

/// `range` counted from `first` on.
#[inline(always)]
fn within(range: Range<usize>, first: usize) -> Range<usize> {
    range.start - first..range.end - first
}

impl<T: Number> Source<T> for View<'_, T> {
    fn rows(&self) -> usize {
        self.rows
    }
    fn width(&self) -> usize {
        self.width
    }
    fn is_by_columns(&self) -> bool {
        self.parts.iter().any(|part| part.is_by_columns())
    }
    fn has_nulls(&self) -> bool {
        self.parts.iter().any(|part| part.row_nulls.is_some() || part.chunk.values.may_have_nulls())
    }
    fn is_null(&self, rows: Range<usize>) -> bool {
        View::is_null(self, rows)
    }
    fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)> {
        View::rows(self, rows)
            .map(|(part, rows)| (part.first + rows.start..part.first + rows.end, part.is_dense()))
    }
    #[inline(always)]
    fn flat<'s>(
        &'s self,
        range: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T> {
        let part = self.part(range.start / self.width);
        let range = within(range, part.first * self.width);
        let workspace = (&mut workspace.values, &mut workspace.valid);
        part.flat_tile(range, wanted.fill, wanted.with_validity, workspace)
    }
    #[inline(always)]
    fn block<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> (Tile<'s, T>, usize) {
        let part = self.part(rows.start);
        let rows = within(rows, part.first);
        let workspace = (&mut workspace.values, &mut workspace.valid);
        part.block_tile(rows, columns, wanted.fill, wanted.with_validity, workspace)
    }
    #[inline(always)]
    fn column<'s>(
        &'s self,
        column: usize,
        rows: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T> {
        let part = self.part(rows.start);
        let rows = within(rows, part.first);
        let workspace = (&mut workspace.values, &mut workspace.valid);
        part.column_tile(column, rows, wanted.fill, wanted.with_validity, workspace)
    }
    fn count_flat(&self, range: Range<usize>) -> u64 {
        let part = self.part(range.start / self.width);
        part.chunk.count_flat(self.width, within(range, part.first * self.width))
    }
    fn count_columns(&self, rows: Range<usize>, columns: Range<usize>, counts: &mut [u64]) {
        let part = self.part(rows.start);
        part.chunk.count_columns(part.level, self.width, within(rows, part.first), columns, counts);
    }
    fn count_rows(&self, first: usize, counts: &mut [u64]) {
        let part = self.part(first);
        part.chunk.count_rows(part.level, self.width, first - part.first, counts);
    }
}

/// Rows of a matrix, one for each index, in that order: a group.
pub(crate) struct Gathered<'a, T: Number> {
    pub(crate) level: Level,
    pub(crate) view: &'a View<'a, T>,
    pub(crate) indices: &'a [u32],
}

impl<T: Number> Gathered<'_, T> {
    /// Calls `f` with the part of each row, the row in it, and the elements of `range` in the row.
    fn each_row(&self, range: Range<usize>, mut f: impl FnMut(&Part<'_, T>, usize, Range<usize>)) {
        let width = self.view.width;
        let mut at = range.start;
        while at < range.end {
            let i = at / width;
            let to = range.end.min((i + 1) * width);
            let row = self.indices[i] as usize;
            let part = self.view.part(row);
            f(part, row - part.first, at - i * width..to - i * width);
            at = to;
        }
    }

    fn copy<'s>(
        &'s self,
        rows: impl Iterator<Item = Range<usize>>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T> {
        let TileWorkspace { values, valid, .. } = workspace;
        values.clear();
        valid.clear();
        let (mut row_values, mut row_valid) = (Scratch::new(), Vec::new());
        for range in rows {
            self.each_row(range, |part, row, columns| {
                memory::reserve(values, columns.len());
                let (x, _) =
                    part.block(row..row + 1, columns.clone(), wanted.fill, &mut row_values);
                memory::extend_from_slice(values, x);
                if wanted.with_validity {
                    let end = valid.len() + columns.len();
                    memory::resize(valid, end, true);
                    if let Some(own) = part.validity(row..row + 1, columns.clone(), &mut row_valid)
                    {
                        valid[end - columns.len()..].copy_from_slice(own);
                    }
                }
            });
        }
        let has_null = wanted.with_validity && valid.contains(&false);
        Tile { x: values, valid: has_null.then_some(&valid[..]), weights: None }
    }
}

impl<T: Number> Source<T> for Gathered<'_, T> {
    fn rows(&self) -> usize {
        self.indices.len()
    }
    fn width(&self) -> usize {
        self.view.width
    }
    /// Tiles are copied, so they lie as they are wanted.
    fn is_by_columns(&self) -> bool {
        false
    }
    fn has_nulls(&self) -> bool {
        self.view.has_nulls()
    }
    fn is_null(&self, rows: Range<usize>) -> bool {
        let is_null = |row: &u32| View::is_null(self.view, *row as usize..*row as usize + 1);
        self.view.has_nulls() && self.indices[rows].iter().all(is_null)
    }
    fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)> {
        (!rows.is_empty()).then_some((rows, false)).into_iter()
    }
    fn flat<'s>(
        &'s self,
        range: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T> {
        self.copy(std::iter::once(range), wanted, workspace)
    }
    fn block<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> (Tile<'s, T>, usize) {
        let (width, stride) = (self.view.width, columns.len());
        if stride == width && self.view.parts.iter().all(Part::is_dense) {
            let values = &mut workspace.values;
            values.clear();
            memory::reserve(values, rows.len() * width);
            let indices = &self.indices[rows];
            if let [only] = &self.view.parts[..] {
                let x = only.dense_values().unwrap_or(&[]);
                self.level.run(GatherRows { x, width, indices, out: values });
            } else {
                for row in indices {
                    let part = self.view.part(*row as usize);
                    let at = (*row as usize - part.first) * width;
                    memory::extend_from_slice(
                        values,
                        &part.dense_values().unwrap_or(&[])[at..at + width],
                    );
                }
            }
            return (Tile { x: values, valid: None, weights: None }, stride);
        }
        let each = rows.map(|row| row * width + columns.start..row * width + columns.end);
        (self.copy(each, wanted, workspace), stride)
    }
    fn count_flat(&self, range: Range<usize>) -> u64 {
        let mut count = 0;
        self.each_row(range, |part, row, columns| {
            let first = row * part.width;
            let range = first + columns.start..first + columns.end;
            count += part.chunk.count_flat(part.width, range);
        });
        count
    }
    fn count_columns(&self, rows: Range<usize>, columns: Range<usize>, counts: &mut [u64]) {
        for row in &self.indices[rows] {
            let row = *row as usize;
            self.view.count_columns(row..row + 1, columns.clone(), counts);
        }
    }
    fn count_rows(&self, first: usize, counts: &mut [u64]) {
        for (row, count) in self.indices[first..].iter().zip(counts) {
            self.view.count_rows(*row as usize, std::slice::from_mut(count));
        }
    }
}
