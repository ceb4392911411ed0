//! Row by row: products and distances of each row with a row of another matrix, or with one
//! vector.
//!
//! Terms are added in float64 in the order of `kernel::sum`, and rounded once. A row with a null,
//! on either side, gives null.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::dense::all_rows;
use super::{Metric, same_type};
use crate::buffer::Output;
use crate::dispatch::{Family, Level, Work, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Body, Real, Second, Simd};
use crate::matrix::{self, Matrix, Number, Scratch, TILE, View, array_of, steps};

/// What rows are paired with.
#[derive(Clone, Debug)]
pub enum Vectors<'a> {
    /// As many rows, one for each.
    Rows(&'a Matrix),
    /// All elements of a matrix, in order: one vector for all rows.
    One(&'a Matrix),
}

/// The dot product of each row of `x` with a row of `y`, or with one vector.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float32Array, cast::AsArray, types::Float32Type};
/// use raptors_arrow::{Matrix, compute::{Vectors, dot}};
///
/// let flat: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
/// let weights: ArrayRef = Arc::new(Float32Array::from(vec![10.0, 1.0]));
/// let (x, y) = (Matrix::reshape(&flat, 2)?, Matrix::reshape(&weights, 1)?);
/// let dots = dot(&x, &Vectors::One(&y))?;
/// assert_eq!(dots.as_primitive::<Float32Type>().values(), &[12.0, 34.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Width`], [`Error::Rows`] or [`Error::Mixed`] if `y` does not fit.
pub fn dot(x: &Matrix, y: &Vectors<'_>) -> Result<ArrayRef> {
    call("dot", x, y, Metric::Dot)
}

/// The cosine of the angle between each row of `x` and a row of `y`, or one vector; null for a
/// zero vector.
///
/// # Errors
///
/// As [`dot`].
pub fn cosine_similarity(x: &Matrix, y: &Vectors<'_>) -> Result<ArrayRef> {
    call("cosine_similarity", x, y, Metric::Cosine)
}

/// The Euclidean distance of each row of `x` from a row of `y`, or from one vector.
///
/// # Errors
///
/// As [`dot`].
pub fn l2_distance(x: &Matrix, y: &Vectors<'_>) -> Result<ArrayRef> {
    call("l2_distance", x, y, Metric::L2)
}

/// The sum of the distances, element by element, of each row of `x` from a row of `y`, or from one
/// vector.
///
/// # Errors
///
/// As [`dot`].
pub fn l1_distance(x: &Matrix, y: &Vectors<'_>) -> Result<ArrayRef> {
    call("l1_distance", x, y, Metric::L1)
}

/// The bytes that such a function moves; `other` are those of `y`.
pub(crate) fn work(x: &Matrix, other: usize) -> Work {
    let element = x.bytes() / (x.rows() * x.width()).max(1);
    Work {
        family: Family::Reduction,
        bytes_read: x.bytes().saturating_add(other),
        bytes_written: x.rows() * element,
        has_vdsp: false,
    }
}

const Y: &str = "y";

fn call(function: &'static str, x: &Matrix, y: &Vectors<'_>, metric: Metric) -> Result<ArrayRef> {
    let other = match y {
        Vectors::Rows(y) | Vectors::One(y) => *y,
    };
    same_type(function, Y, x, other)?;
    match x.element_type() {
        // Rounded once, so not through float32.
        half @ DataType::Float16 => Pairs::<f64>::new(function, x, y, metric)?.run::<f64>(half),
        single @ DataType::Float32 => Pairs::<f32>::new(function, x, y, metric)?.run::<f32>(single),
        _ => Pairs::<f64>::new(function, x, y, metric)?.run::<f64>(&DataType::Float64),
    }
}

/// A call that is checked.
struct Pairs<'a, T: Number> {
    function: &'static str,
    metric: Metric,
    x: &'a Matrix,
    view: View<'a, T>,
    y: Paired<'a, T>,
    nulls: Option<NullBuffer>,
    work: Work,
}

enum Paired<'a, T: Number> {
    Rows(View<'a, T>),
    One(Cow<'a, [T]>),
}

impl<'a, T: Number> Pairs<'a, T> {
    fn new(function: &'static str, x: &'a Matrix, y: &Vectors<'a>, metric: Metric) -> Result<Self> {
        let rows = x.rows();
        let (paired, nulls, other) = match y {
            Vectors::Rows(y) => {
                if y.width() != x.width() {
                    let (expected, got) = (x.width(), y.width());
                    return Err(Error::Width { function, what: Y, expected, got });
                }
                if y.rows() != rows {
                    return Err(Error::Rows { function, what: Y, expected: rows, got: y.rows() });
                }
                (Paired::Rows(y.view(function)?), y.incomplete_rows(0..rows), y.bytes())
            }
            Vectors::One(y) => {
                let (expected, got) = (x.width(), y.rows() * y.width());
                if expected != got {
                    return Err(Error::Width { function, what: Y, expected, got });
                }
                let incomplete = y.incomplete_rows(0..y.rows());
                let nulls = incomplete.map(|_| NullBuffer::new_null(rows));
                (Paired::One(all_rows(function, y)?), nulls, 0)
            }
        };
        let own = x.incomplete_rows(0..rows);
        Ok(Self {
            function,
            metric,
            x,
            view: x.view(function)?,
            y: paired,
            nulls: NullBuffer::union(own.as_ref(), nulls.as_ref()),
            work: work(x, other),
        })
    }

    fn run<O: Number + Real>(&self, to: &DataType) -> Result<ArrayRef> {
        let plan = run::planned(&self.work)?;
        let level = plan.level(machine());
        let (rows, width) = (self.x.rows(), self.x.width());
        let mut out = Output::<O>::new(self.function, rows)?;
        let row_bytes = (width * std::mem::size_of::<T>()).max(1);
        let rows_per_task = (plan.task_bytes / row_bytes).max(1);
        let tasks: Vec<(usize, &mut [O])> = out
            .chunks_mut(rows_per_task)
            .enumerate()
            .map(|(i, out)| (i * rows_per_task, out))
            .collect();
        let zeros = Mutex::new(Vec::new());
        run::each(self.function, &plan, tasks, Room::default, |room, (first, out)| {
            self.some_rows(level, first, out, room);
            if !room.missing.is_empty() {
                let mut zeros = zeros.lock().unwrap_or_else(PoisonError::into_inner);
                zeros.append(&mut room.missing);
            }
        })?;
        let zeros = zeros.into_inner().unwrap_or_else(PoisonError::into_inner);
        let zeros = matrix::null_at(rows, zeros);
        let nulls = NullBuffer::union(self.nulls.as_ref(), zeros.as_ref());
        array_of(self.function, out, nulls, to)
    }

    /// Writes the results of the rows from `first` on, and says which of them are missing.
    fn some_rows<O: Number + Real>(
        &self,
        level: Level,
        first: usize,
        out: &mut [O],
        room: &mut Room<T>,
    ) {
        let (metric, width) = (self.metric, self.view.width);
        let Room { x: x_room, y: y_room, sums, missing } = room;
        for (part, rows) in self.view.rows(first..first + out.len()) {
            let step = if part.is_dense() { ROWS_HELD } else { (TILE / width.max(1)).max(1) };
            for rows in steps(rows, step.min(ROWS_HELD)) {
                let at = part.first + rows.start;
                let x = part.flat_rows(rows.clone(), x_room);
                let mut score = |rows: Range<usize>, y: Second<'_, T>| {
                    let x = &x[rows.start * width..rows.end * width];
                    let first_row = at + rows.start;
                    let out = &mut out[first_row - first..][..rows.len()];
                    level.run(Scores { metric, x, y, width, sums, out, first_row, missing });
                };
                match &self.y {
                    Paired::One(y) => score(0..rows.len(), Second::Same(y)),
                    Paired::Rows(y) => {
                        for (y_part, y_rows) in y.rows(at..at + rows.len()) {
                            let start = y_part.first + y_rows.start - at;
                            let len = y_rows.len();
                            let y = y_part.flat_rows(y_rows, y_room);
                            score(start..start + len, Second::Each(y));
                        }
                    }
                }
            }
        }
    }
}

/// Room for the tiles of a thread.
struct Room<T> {
    x: Scratch<T>,
    y: Scratch<T>,
    sums: Vec<f64>,
    missing: Vec<usize>,
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self { x: Scratch::new(), y: Scratch::new(), sums: Vec::new(), missing: Vec::new() }
    }
}

/// Rows whose sums are held before they become results.
const ROWS_HELD: usize = 256;

/// The scores of some rows, compiled for an instruction set.
struct Scores<'a, T, O> {
    metric: Metric,
    x: &'a [T],
    y: Second<'a, T>,
    width: usize,
    sums: &'a mut Vec<f64>,
    out: &'a mut [O],
    /// The number of the first row, to say which have no score.
    first_row: usize,
    missing: &'a mut Vec<usize>,
}

impl<T: Number, O: Real> Body for Scores<'_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { metric, x, y, width, sums, out, first_row, missing } = self;
        metric.scores(simd, (x, y), (out.len(), width), sums, |r, score| {
            if score.is_none() {
                missing.push(first_row + r);
            }
            out[r] = O::round(score.unwrap_or(0.0)).settled();
        });
    }
}
