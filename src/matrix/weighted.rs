//! A source whose elements have weights: one for each row, each column or each element.

use std::ops::Range;

use super::source::{Source, TileWorkspace, Wanted};
use super::view::{TILE, steps};
use super::{Gathered, Number, View};
use crate::dispatch::Level;
use crate::kernel::Tile;
use crate::memory;

/// Weights, and what has one.
#[derive(Clone, Copy)]
pub(crate) enum Weights<W> {
    /// Each row: a source of one column.
    Rows(W),
    /// Each element: a source of as many columns.
    Elements(W),
    /// Each column: a source of one column, in which it is a row.
    Columns(W),
}

/// Elements with their weights, or without any. An element is null if its weight is.
pub(crate) struct Weighted<S, W = S> {
    pub(crate) x: S,
    pub(crate) weights: Option<Weights<W>>,
}

impl<T: Number> Weighted<View<'_, T>> {
    /// Rows of such a matrix, one for each index. Columns have no weights there.
    pub(crate) fn gathered<'g>(
        &'g self,
        level: Level,
        indices: &'g [u32],
    ) -> Weighted<Gathered<'g, T>> {
        let weights = self.weights.as_ref().and_then(|weights| match weights {
            Weights::Rows(view) => Some(Weights::Rows(Gathered { level, view, indices })),
            Weights::Elements(view) => Some(Weights::Elements(Gathered { level, view, indices })),
            Weights::Columns(_) => None,
        });
        Weighted { x: Gathered { level, view: &self.x, indices }, weights }
    }
}

/// What is copied at once: elements of a piece counted row by row, or a block of it.
#[derive(Clone)]
enum Piece {
    Flat(Range<usize>),
    Block(Range<usize>, Range<usize>),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Flat(range) => range.len(),
            Self::Block(rows, columns) => rows.len() * columns.len(),
        }
    }

    /// Elements of a row of it, if rows are as wide as `width`.
    fn wide(&self, width: usize) -> usize {
        match self {
            Self::Flat(_) => width.max(1),
            Self::Block(_, columns) => columns.len().max(1),
        }
    }

    /// The rows that it has elements of, and where in the first it begins.
    fn rows(&self, width: usize) -> (Range<usize>, usize) {
        let width = width.max(1);
        match self {
            Self::Flat(range) => {
                (range.start / width..range.end.div_ceil(width), range.start % width)
            }
            Self::Block(rows, _) => (rows.clone(), 0),
        }
    }

    /// Copies it, and says which elements are valid.
    fn copy<T: Number>(
        self,
        source: &impl Source<T>,
        fill: T,
        (values, valid): (&mut [T], &mut [bool]),
        workspace: &mut TileWorkspace<T>,
    ) {
        let wanted = Wanted { fill, with_validity: true };
        let wide = self.wide(source.width());
        let (tile, stride) = match self {
            Self::Flat(range) => (source.flat(range, wanted, workspace), wide),
            Self::Block(rows, columns) => source.block(rows, columns, wanted, workspace),
        };
        if stride == wide {
            values.copy_from_slice(tile.x);
        } else {
            for (out, x) in values.chunks_mut(wide).zip(tile.x.chunks(stride)) {
                out.copy_from_slice(&x[..wide]);
            }
        }
        if let Some(own) = tile.valid {
            valid.iter_mut().zip(own).for_each(|(valid, own)| *valid &= own);
        }
    }
}

impl<S, W> Weighted<S, W> {
    /// Copies elements and weights into the workspace.
    fn copy<'s, T: Number>(
        &self,
        weights: &Weights<W>,
        piece: Piece,
        fill: T,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T>
    where
        S: Source<T>,
        W: Source<T>,
    {
        let TileWorkspace { values, valid, weights: own, inner } = workspace;
        let inner = inner.get_or_insert_default();
        let len = piece.len();
        memory::resize(values, len, fill);
        memory::resize(own, len, fill);
        valid.clear();
        memory::resize(valid, len, true);
        piece.clone().copy(&self.x, fill, (values, valid), inner);
        let (wide, width) = (piece.wide(self.x.width()), self.x.width());
        let (rows, from) = piece.rows(width);
        match (weights, piece) {
            (Weights::Elements(source), piece) => {
                piece.copy(source, fill, (own, valid), inner);
            }
            (Weights::Rows(source), _) => {
                let wanted = Wanted { fill, with_validity: true };
                let (tile, stride) = source.block(rows, 0..1, wanted, inner);
                for (i, (own, valid)) in own.iter_mut().zip(valid.iter_mut()).enumerate() {
                    let row = (from + i) / wide;
                    *own = tile.x[row * stride];
                    *valid &= tile.valid.is_none_or(|valid| valid[row]);
                }
            }
            (Weights::Columns(source), piece) => {
                let columns = match &piece {
                    Piece::Flat(_) => 0..width,
                    Piece::Block(_, columns) => columns.clone(),
                };
                let wanted = Wanted { fill, with_validity: true };
                for (some, _) in source.pieces(columns.clone()) {
                    let first = some.start - columns.start;
                    let len = some.len();
                    let (tile, stride) = source.block(some, 0..1, wanted, inner);
                    for (i, (own, valid)) in own.iter_mut().zip(valid.iter_mut()).enumerate() {
                        let column = (from + i) % wide;
                        if (first..first + len).contains(&column) {
                            *own = tile.x[(column - first) * stride];
                            *valid &= tile.valid.is_none_or(|valid| valid[column - first]);
                        }
                    }
                }
            }
        }
        let has_null = valid.contains(&false);
        if has_null {
            for ((x, weight), valid) in values.iter_mut().zip(own.iter_mut()).zip(valid.iter()) {
                if !valid {
                    (*x, *weight) = (fill, T::default());
                }
            }
        }
        Tile { x: values, valid: has_null.then_some(&valid[..]), weights: Some(own) }
    }

    /// Calls `f` with the validity of some rows, step by step: of what has a null weight.
    fn each_valid<T: Number>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        mut f: impl FnMut(&[bool]),
    ) where
        S: Source<T>,
        W: Source<T>,
    {
        let Some(weights) = &self.weights else { return };
        let mut workspace = TileWorkspace::<T>::default();
        let all = memory::filled(true, TILE.max(columns.len()));
        for rows in steps(rows, (TILE / columns.len().max(1)).max(1)) {
            let piece = Piece::Block(rows, columns.clone());
            let len = piece.len();
            let tile = self.copy(weights, piece, T::default(), &mut workspace);
            f(tile.valid.unwrap_or(&all[..len]));
        }
    }
}

impl<W> Weights<W> {
    fn source(&self) -> &W {
        match self {
            Self::Rows(source) | Self::Elements(source) | Self::Columns(source) => source,
        }
    }
}

impl<T: Number, S: Source<T>, W: Source<T>> Source<T> for Weighted<S, W> {
    fn rows(&self) -> usize {
        self.x.rows()
    }
    fn width(&self) -> usize {
        self.x.width()
    }
    fn is_by_columns(&self) -> bool {
        self.weights.is_none() && self.x.is_by_columns()
    }
    /// What weighs nothing in all has a null result.
    fn has_nulls(&self) -> bool {
        self.weights.is_some() || self.x.has_nulls()
    }
    fn is_null(&self, rows: Range<usize>) -> bool {
        self.x.is_null(rows)
    }
    fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)> {
        let each = match &self.weights {
            Some(Weights::Rows(source) | Weights::Elements(source)) => Some(source),
            _ => None,
        };
        let is_lent = self.weights.is_none();
        self.x.pieces(rows).flat_map(move |(rows, lent)| {
            let whole = each.is_none().then_some((rows.clone(), lent && is_lent));
            let cut = each.map(|source| source.pieces(rows).map(|(rows, _)| (rows, false)));
            whole.into_iter().chain(cut.into_iter().flatten())
        })
    }
    fn flat<'s>(
        &'s self,
        range: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T> {
        match &self.weights {
            Some(weights) => self.copy(weights, Piece::Flat(range), wanted.fill, workspace),
            None => self.x.flat(range, wanted, workspace),
        }
    }
    fn block<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> (Tile<'s, T>, usize) {
        match &self.weights {
            Some(weights) => {
                let wide = columns.len();
                let piece = Piece::Block(rows, columns);
                (self.copy(weights, piece, wanted.fill, workspace), wide)
            }
            None => self.x.block(rows, columns, wanted, workspace),
        }
    }
    fn column<'s>(
        &'s self,
        column: usize,
        rows: Range<usize>,
        wanted: Wanted<T>,
        workspace: &'s mut TileWorkspace<T>,
    ) -> Tile<'s, T> {
        match &self.weights {
            Some(_) => self.block(rows, column..column + 1, wanted, workspace).0,
            None => self.x.column(column, rows, wanted, workspace),
        }
    }
    fn count_flat(&self, range: Range<usize>) -> u64 {
        if let Some(weights) = self.weights.as_ref().filter(|weights| weights.source().has_nulls())
        {
            let mut workspace = TileWorkspace::<T>::default();
            let len = range.len() as u64;
            let tile = self.copy(weights, Piece::Flat(range), T::default(), &mut workspace);
            let valid = |valid: &[bool]| valid.iter().filter(|valid| **valid).count() as u64;
            return tile.valid.map_or(len, valid);
        }
        if self.x.has_nulls() { self.x.count_flat(range) } else { range.len() as u64 }
    }
    fn count_columns(&self, rows: Range<usize>, columns: Range<usize>, counts: &mut [u64]) {
        if self.weights.as_ref().is_some_and(|weights| weights.source().has_nulls()) {
            let wide = columns.len().max(1);
            return self.each_valid::<T>(rows, columns, |valid| {
                for row in valid.chunks_exact(wide) {
                    counts.iter_mut().zip(row).for_each(|(n, valid)| *n += u64::from(*valid));
                }
            });
        }
        match self.x.has_nulls() {
            true => self.x.count_columns(rows, columns, counts),
            false => counts.iter_mut().for_each(|count| *count += rows.len() as u64),
        }
    }
    fn count_rows(&self, first: usize, counts: &mut [u64]) {
        let width = self.x.width();
        if self.weights.as_ref().is_some_and(|weights| weights.source().has_nulls()) {
            let rows = first..first + counts.len();
            let mut counts = counts.iter_mut();
            return self.each_valid::<T>(rows, 0..width, |valid| {
                for (row, count) in valid.chunks_exact(width.max(1)).zip(&mut counts) {
                    *count = row.iter().filter(|valid| **valid).count() as u64;
                }
            });
        }
        match self.x.has_nulls() {
            true => self.x.count_rows(first, counts),
            false => counts.fill(width as u64),
        }
    }
}
