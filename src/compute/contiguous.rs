//! Rows one behind the other, for the functions that multiply matrices.

use std::borrow::Cow;
use std::ops::Range;

use crate::buffer::vec_with_capacity;
use crate::dispatch::{Level, run};
use crate::error::Result;
use crate::kernel::{Body, Reducer, Scale, Simd, Squared, Sums, Tile};
use crate::matrix::{Matrix, Number, Part, Scratch, View};
use crate::memory;

/// All rows one behind the other, with zero in place of nulls.
pub(super) fn all_rows<'a, T: Number>(x: &'a Matrix) -> Result<Cow<'a, [T]>> {
    if !x.has_nulls()
        && let Some(values) = x.dense_values()
    {
        return Ok(Cow::Borrowed(values));
    }
    let view = x.view::<T>()?;
    let mut rows = vec_with_capacity(x.rows() * x.width())?;
    let mut tile = Scratch::new();
    let step = (ELEMENTS_AT_ONCE / x.width().max(1)).max(1);
    run::in_steps(0..x.rows(), step, |range| {
        for (part, range) in view.rows(range) {
            append(part, range, &mut tile, &mut rows);
        }
        Ok(())
    })?;
    Ok(Cow::Owned(rows))
}

/// Elements that are copied before an interrupt is looked at.
const ELEMENTS_AT_ONCE: usize = 1 << 16;

/// RowWorkspace for a block of rows.
pub(super) struct RowWorkspace<T> {
    tile: Scratch<T>,
    rows: Vec<T>,
}

impl<T> Default for RowWorkspace<T> {
    fn default() -> Self {
        Self { tile: Scratch::new(), rows: Vec::new() }
    }
}

impl<T: Number> RowWorkspace<T> {
    /// Some rows one behind the other, with zero in place of nulls: themselves if they lie so.
    pub(super) fn block<'s>(&'s mut self, view: &'s View<'_, T>, rows: Range<usize>) -> &'s [T] {
        let Self { tile, rows: held } = self;
        let mut parts = view.rows(rows.clone());
        if let Some((part, own)) = parts.next()
            && own.len() == rows.len()
            && view.width > 0
            && !part.is_by_columns()
        {
            return part.flat(own.start * view.width..own.end * view.width, T::default(), tile);
        }
        held.clear();
        memory::reserve(held, rows.len() * view.width);
        for (part, own) in view.rows(rows) {
            append(part, own, tile, held);
        }
        held
    }
}

/// Elements of a tile of a column: it stays in L1 while it is spread over its rows.
const COLUMN_TILE: usize = 256;

fn append<T: Number>(
    part: &Part<'_, T>,
    rows: Range<usize>,
    tile: &mut Scratch<T>,
    out: &mut Vec<T>,
) {
    let width = part.width;
    if width == 0 {
        return;
    }
    if !part.is_by_columns() {
        let range = rows.start * width..rows.end * width;
        out.extend_from_slice(part.flat(range, T::default(), tile));
        return;
    }
    let start = out.len();
    memory::resize(out, start + rows.len() * width, T::default());
    for step in crate::matrix::steps(rows.clone(), COLUMN_TILE) {
        let at = start + (step.start - rows.start) * width;
        for c in 0..width {
            let column = part.column(c, step.clone(), T::default(), tile);
            let elements = out[at + c..].iter_mut().step_by(width);
            elements.zip(column).for_each(|(o, x)| *o = *x);
        }
    }
}

/// The Euclidean norm of each row, in the order of `kernel::sum`.
pub(super) fn norms<T: Number>(
    level: Level,
    x: &[T],
    width: usize,
    out: &mut Vec<f64>,
    rows: usize,
) {
    out.clear();
    memory::resize(out, rows, 0.0);
    level.run(Norms { x, width, out });
}

struct Norms<'a, T> {
    x: &'a [T],
    width: usize,
    out: &'a mut [f64],
}

impl<T: Number> Body for Norms<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, width, out } = self;
        if width == 0 {
            return;
        }
        let mut scales = Vec::new();
        Sums(Squared).rows(simd, Tile { x, valid: None, weights: None }, width, out, &mut scales);
        for (r, norm) in out.iter_mut().enumerate() {
            *norm = norm.sqrt() / scales.get(r).map_or(1.0, |scale: &Scale| scale.power());
        }
    }
}
