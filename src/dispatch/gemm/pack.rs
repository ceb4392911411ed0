//! Columns of a matrix, packed for the tiles of a product.
//!
//! A panel is as many columns as a tile has. Its elements lie row by row, one row right behind the
//! other, so that a tile reads them in order; the panels follow each other. The last panel is
//! only as many registers wide as it needs, and filled up with zeros.

use crate::memory;
use std::ops::Range;

use super::super::{Backend, Level, machine};
use super::Panel;
use super::tile::{Native, OnTiles, Registers};

/// How an instruction set cuts a product into tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileShape {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Columns where both sides are packed.
    both_packed: usize,
    pub(super) lanes: usize,
}

impl TileShape {
    pub(super) fn of<T: Native>(level: Level) -> Self {
        T::at(level, AskShape)
    }
}

struct AskShape;

impl<T> OnTiles<T> for AskShape {
    type Out = TileShape;

    #[inline(always)]
    fn run<S: Registers<T>>(self, _: S) -> TileShape {
        let lanes = S::LANES;
        let (columns, both_packed) = (S::VECTORS * lanes, S::BOTH_PACKED * lanes);
        TileShape { rows: S::ROWS, columns, both_packed, lanes }
    }
}

/// The instruction set that tiles run at, where no vendor's library takes the product.
pub(super) fn level_of(backend: Backend) -> Level {
    match backend {
        Backend::Native(level) => level,
        Backend::Vdsp => machine().level,
    }
}

/// Elements from a cache line's start on, so that no load of a register takes two lines.
#[derive(Debug)]
struct Aligned<T> {
    held: Vec<T>,
    from: usize,
}

const LINE: usize = 64;

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Self { held: Vec::new(), from: 0 }
    }
}

impl<T: Native> Aligned<T> {
    /// At least `len` elements; what they are is left open.
    fn resize(&mut self, len: usize) {
        let spare = LINE / size_of::<T>();
        if self.held.len() < len + spare {
            memory::resize(&mut self.held, len + spare, T::default());
            self.from = self.held.as_ptr().align_offset(LINE).min(spare);
        }
    }
}

/// Some columns of a matrix, over some of its rows.
#[derive(Debug)]
pub(crate) struct Packed<T> {
    elements: Aligned<T>,
    depth: usize,
    columns: usize,
    /// Columns of a panel, and elements that the last one is a multiple of.
    panel: usize,
    lanes: usize,
}

impl<T> Default for Packed<T> {
    fn default() -> Self {
        Self { elements: Aligned::default(), depth: 0, columns: 0, panel: 1, lanes: 1 }
    }
}

/// A panel of [`Packed`].
#[derive(Clone, Copy)]
pub(super) struct PanelOf<'a, T> {
    pub(super) elements: &'a [T],
    /// Elements of a row of it, with the zeros.
    pub(super) width: usize,
    /// The first of its columns, and how many there are.
    pub(super) first: usize,
    pub(super) columns: usize,
}

impl<T: Native> Packed<T> {
    /// Takes the shape of `depth` rows of `columns` columns, to be multiplied with other packed
    /// ones; its elements are to be filled in. A vendor's library takes all columns as one panel:
    /// rows one behind the other.
    pub(crate) fn reset(&mut self, backend: Backend, depth: usize, columns: usize) {
        let (panel, lanes) = match backend {
            Backend::Vdsp => (columns.max(1), 1),
            Backend::Native(level) => {
                let shape = TileShape::of::<T>(level);
                (shape.both_packed, shape.lanes)
            }
        };
        self.reshape(depth, columns, panel, lanes);
    }

    fn reshape(&mut self, depth: usize, columns: usize, panel: usize, lanes: usize) {
        (self.panel, self.lanes) = (panel, lanes);
        (self.depth, self.columns) = (depth, columns);
        self.elements.resize(depth * columns.next_multiple_of(self.lanes));
    }

    /// Rows and columns.
    pub(super) fn shape(&self) -> (usize, usize) {
        (self.depth, self.columns)
    }

    /// Whether its panels are of so many registers of an instruction set.
    #[inline(always)]
    pub(super) fn is_for<S: Registers<T>>(&self, vectors: usize) -> bool {
        (self.panel, self.lanes) == (vectors * S::LANES, S::LANES)
    }

    fn elements(&self) -> &[T] {
        let len = self.depth * self.columns.next_multiple_of(self.lanes);
        &self.elements.held[self.elements.from..][..len]
    }

    /// The panels, in order.
    pub(super) fn panels(&self) -> impl Iterator<Item = PanelOf<'_, T>> {
        (0..self.columns.div_ceil(self.panel)).map(|i| self.panel(i))
    }

    pub(super) fn panel(&self, i: usize) -> PanelOf<'_, T> {
        let (first, columns, width) = self.bounds(i);
        let elements = &self.elements()[first * self.depth..][..width * self.depth];
        PanelOf { elements, width, first, columns }
    }

    /// The first column of a panel, its columns, and the elements of a row of it.
    #[inline(always)]
    fn bounds(&self, i: usize) -> (usize, usize, usize) {
        let first = i * self.panel;
        let columns = self.panel.min(self.columns - first);
        (first, columns, columns.next_multiple_of(self.lanes))
    }

    /// Fills row `k`: `put` is given some columns and the elements that they go to.
    #[inline(always)]
    pub(crate) fn fill_row(&mut self, k: usize, mut put: impl FnMut(Range<usize>, &mut [T])) {
        let Self { depth, columns, panel, .. } = *self;
        for i in 0..columns.div_ceil(panel) {
            let (first, columns, width) = self.bounds(i);
            let at = self.elements.from + first * depth + k * width;
            let (to, zeros) = self.elements.held[at..at + width].split_at_mut(columns);
            put(first..first + columns, to);
            zeros.fill(T::default());
        }
    }

    /// Packs some rows of some columns of `b`, to be multiplied with rows that are not packed.
    pub(super) fn pack(
        &mut self,
        level: Level,
        b: Panel<'_, T>,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        let shape = TileShape::of::<T>(level);
        self.reshape(rows.len(), columns.len(), shape.columns, shape.lanes);
        if let Some(rows_of_b) = b.rows_in_order() {
            for (k, row) in rows.enumerate() {
                let row = &rows_of_b(row)[columns.clone()];
                self.fill_row(k, |some, to| to.copy_from_slice(&row[some]));
            }
            return;
        }
        // Eight columns at a time are turned: each is read in order, and what is written of them
        // side by side is an eighth of a page.
        let b = b.transposed();
        let Some(columns_of_b) = b.rows_in_order() else { return };
        for i in 0..columns.len().div_ceil(self.panel) {
            let (first, count, width) = self.bounds(i);
            let at = self.elements.from + first * self.depth;
            let panel = &mut self.elements.held[at..at + width * rows.len()];
            for some in crate::matrix::steps(0..count, TURNED) {
                let column = |c: usize| {
                    let c = (some.start + c).min(some.end - 1);
                    &columns_of_b(columns.start + first + c)[rows.clone()]
                };
                let from: [&[T]; TURNED] = std::array::from_fn(column);
                for (k, to) in panel.chunks_exact_mut(width).enumerate() {
                    for (to, from) in to[some.clone()].iter_mut().zip(from) {
                        *to = from[k];
                    }
                }
            }
            for to in panel.chunks_exact_mut(width) {
                to[count..].fill(T::default());
            }
        }
    }
}

/// Columns that are turned at once.
const TURNED: usize = 8;
