//! Rows one behind the other, for the functions that multiply matrices.

use std::borrow::Cow;
use std::ops::Range;

use crate::dispatch::Level;
use crate::error::Result;
use crate::kernel::{Body, Guarded, Reducer, Simd, Squared, Sums, Tile};
use crate::matrix::{Matrix, Number, Part, Scratch, Store, View};

/// All rows one behind the other, with zero in the place of nulls.
pub(super) fn all_rows<'a, T: Number>(
    function: &'static str,
    x: &'a Matrix,
) -> Result<Cow<'a, [T]>> {
    if !x.has_nulls()
        && let Some(values) = x.dense_values()
    {
        return Ok(Cow::Borrowed(values));
    }
    let view = x.view::<T>(function)?;
    let mut rows = Vec::with_capacity(x.rows() * x.width());
    let mut tile = Scratch::new();
    for (part, range) in view.rows(0..x.rows()) {
        append(part, range, &mut tile, &mut rows);
    }
    Ok(Cow::Owned(rows))
}

/// Room for a block of rows.
pub(super) struct Room<T> {
    tile: Scratch<T>,
    rows: Vec<T>,
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self { tile: Scratch::new(), rows: Vec::new() }
    }
}

impl<T: Number> Room<T> {
    /// Some rows one behind the other, with zero in the place of nulls: themselves if they lie so.
    pub(super) fn block<'s>(&'s mut self, view: &'s View<'_, T>, rows: Range<usize>) -> &'s [T] {
        let Self { tile, rows: held } = self;
        let mut parts = view.rows(rows.clone());
        if let Some((part, own)) = parts.next()
            && own.len() == rows.len()
            && view.width > 0
            && matches!(part.store, Store::Rows(_))
        {
            return part.flat(own.start * view.width..own.end * view.width, T::default(), tile);
        }
        held.clear();
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
    match &part.store {
        Store::Rows(_) => {
            let range = rows.start * width..rows.end * width;
            out.extend_from_slice(part.flat(range, T::default(), tile));
        }
        Store::Columns(_) => {
            let start = out.len();
            out.resize(start + rows.len() * width, T::default());
            for step in crate::matrix::steps(rows.clone(), COLUMN_TILE) {
                let at = start + (step.start - rows.start) * width;
                for c in 0..width {
                    let column = part.column(c, step.clone(), T::default(), tile);
                    let places = out[at + c..].iter_mut().step_by(width);
                    places.zip(column).for_each(|(o, x)| *o = *x);
                }
            }
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
    out.resize(rows, 0.0);
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
        Sums(Squared).rows(simd, Tile { x, valid: None }, width, out);
        for (norm, row) in out.iter_mut().zip(x.chunks_exact(width)) {
            let root = norm.sqrt();
            *norm = if Guarded::is_safe(root) {
                root
            } else {
                let mut guarded = [[0.0; 3]];
                Sums(Guarded).rows(simd, Tile { x: row, valid: None }, width, &mut guarded);
                Guarded::root(guarded[0])
            };
        }
    }
}
