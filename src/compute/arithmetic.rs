//! Arithmetic of a matrix with a number, a row, a column or another matrix.
//!
//! One IEEE operation per element. The result has the chunks, layout and type of `x`; what lies
//! under its nulls is zero.

use std::borrow::Cow;
use std::ops::Range;

use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::operand::Aligned;
use super::{Operand, with_float};
use crate::buffer::Output;
use crate::dispatch::vendor::Operation;
use crate::dispatch::{Backend, Family, Plan, Store, Work, machine, plan, run, settings, simd};
use crate::error::Result;
use crate::kernel::{Add, Binary, Body, Divide, Multiply, Simd, Subtract};
use crate::kernel::{each, each_scalar, repeat_each};
use crate::matrix::{
    self, Bits, Chunk, Column, Matrix, Number, Part, Scratch, TILE, Values, steps,
};

/// `x + y`, where `y` is a number, a row, a column or a matrix.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, FixedSizeListArray, types::Float32Type};
/// use raptors_arrow::{Matrix, compute::add};
///
/// let rows = [Some([Some(1.0), Some(2.0)]), None];
/// let x: ArrayRef =
///     Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2));
/// let x = Matrix::try_from(&x)?;
/// let twice = add(&x, &x)?;
/// assert_eq!((twice.rows(), twice.width(), twice.null_rows()), (2, 2, 1));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`](crate::Error::Type) unless the elements are float32 or float64, and the errors
/// of a `y` whose type or shape does not fit.
pub fn add<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary("add", Add, Operation::Add, x, &y.into())
}

/// `x - y`, where `y` is a number, a row, a column or a matrix.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, FixedSizeListArray, types::Float32Type};
/// use raptors_arrow::{Matrix, compute::{self, Operand, Per}};
///
/// let rows = [Some([Some(1.0), Some(2.0)]), None, Some([Some(3.0), Some(6.0)])];
/// let array: ArrayRef =
///     Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2));
/// let x = Matrix::try_from(&array)?;
/// let mean = compute::mean(&x, Per::Column)?;
/// let centred = compute::subtract(&x, Operand::row(&mean)?)?;
/// let arrays = centred.to_arrays()?;
/// assert_eq!(arrays[0].data_type(), array.data_type());
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`add`].
pub fn subtract<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary("subtract", Subtract, Operation::Subtract, x, &y.into())
}

/// `x * y` element by element, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`add`].
pub fn multiply<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary("multiply", Multiply, Operation::Multiply, x, &y.into())
}

/// `x / y` element by element, where `y` is a number, a row, a column or a matrix.
///
/// # Errors
///
/// As [`add`].
pub fn divide<'a>(x: &Matrix, y: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary("divide", Divide, Operation::Divide, x, &y.into())
}

/// `x * factor`, where `factor` is one number.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::scale};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
/// let scaled = scale(&Matrix::try_from(&x)?, 2.0)?.to_arrays()?;
/// assert_eq!(scaled[0].as_primitive::<Float64Type>(), &Float64Array::from(vec![Some(3.0), None]));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// As [`add`].
pub fn scale<'a>(x: &Matrix, factor: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary("scale", Multiply, Operation::Multiply, x, &factor.into())
}

/// `x + row`: adds a 1-D array, one value per column, to every row.
///
/// # Errors
///
/// As [`add`].
pub fn broadcast_add<'a>(x: &Matrix, row: impl Into<Operand<'a>>) -> Result<Matrix> {
    binary("broadcast_add", Add, Operation::Add, x, &row.into())
}

/// The bytes that arithmetic moves; `other` are those of a second matrix.
pub(crate) fn work(x: &Matrix, other: usize) -> Work {
    Work {
        family: Family::Elementwise,
        bytes_read: x.bytes().saturating_add(other),
        bytes_written: x.bytes(),
        has_vdsp: true,
    }
}

fn binary<O: Binary>(
    function: &'static str,
    op: O,
    vendor: Operation,
    x: &Matrix,
    y: &Operand<'_>,
) -> Result<Matrix> {
    with_float!(function, x.element_type(), T => {
        let y = y.align::<T>(function, x)?;
        let other = if let Aligned::Matrix(_, y) = &y { y.bytes() } else { 0 };
        let plan = plan(&work(x, other), machine(), &settings::settings()?);
        Arithmetic { function, op, vendor, x, y, plan }.run()
    })
}

/// An operation that is planned.
struct Arithmetic<'a, T: Clone, O> {
    function: &'static str,
    op: O,
    vendor: Operation,
    x: &'a Matrix,
    y: Aligned<'a, T>,
    plan: Plan,
}

/// Validity of one chunk of the result.
struct Nulls {
    rows: Option<NullBuffer>,
    /// One for a chunk that lies by rows, one per column else.
    elements: Vec<Option<NullBuffer>>,
}

/// A run of elements that lie one behind the other.
struct Task<'t, 'a, T> {
    part: &'t Part<'a, T>,
    nulls: &'t Nulls,
    /// The column, if the part lies by columns.
    column: Option<usize>,
    /// The first element, counted in the part, or in the column.
    first: usize,
    out: &'t mut [T],
}

impl<T: Number, O: Binary> Arithmetic<'_, T, O> {
    fn run(&self) -> Result<Matrix> {
        let x = self.x;
        let view = x.view::<T>();
        let nulls: Vec<Nulls> = view.parts.iter().map(|part| self.nulls(part)).collect();
        let mut outputs: Vec<Output<T>> = view
            .parts
            .iter()
            .map(|part| Output::new(self.function, part.rows * part.width))
            .collect::<Result<_>>()?;
        // Whole cache lines, so that no two threads write to one.
        let step = (self.plan.task_bytes / (2 * std::mem::size_of::<T>())).next_multiple_of(TILE);
        let mut tasks = Vec::new();
        for ((part, nulls), out) in view.parts.iter().zip(&nulls).zip(&mut outputs) {
            if out.is_empty() {
                continue;
            }
            let by_columns = matches!(part.store, matrix::Store::Columns(_));
            let run = if by_columns { part.rows } else { out.len() };
            for (c, out) in out.chunks_mut(run).enumerate() {
                let column = by_columns.then_some(c);
                tasks.extend(out.chunks_mut(step).enumerate().map(|(i, out)| Task {
                    part,
                    nulls,
                    column,
                    first: i * step,
                    out,
                }));
            }
        }
        let level = self.plan.level(machine());
        let pattern = self.pattern();
        let pattern = pattern.as_ref();
        run::each(self.function, &self.plan, tasks, Tiles::default, |tiles, task| {
            level.run(Elementwise { work: self, pattern, tiles, task });
        })?;
        let chunks = x.chunks().iter().zip(nulls).zip(outputs);
        Ok(x.with_chunks(chunks.map(|((chunk, nulls), out)| rebuilt(chunk, nulls, out)).collect()))
    }

    /// A row vector, repeated until it is long enough that its ends cost nothing.
    fn pattern(&self) -> Cow<'_, [T]> {
        match &self.y {
            Aligned::Row(row, _) if (1..1024).contains(&row.len()) => {
                Cow::Owned(row.repeat(1024usize.div_ceil(row.len())))
            }
            Aligned::Row(row, _) => Cow::Borrowed(row),
            _ => Cow::Borrowed(&[]),
        }
    }

    fn nulls(&self, part: &Part<'_, T>) -> Nulls {
        let rows = part.first..part.first + part.rows;
        let width = part.width;
        let by_columns = matches!(part.store, matrix::Store::Columns(_));
        let own = |y: &Matrix| y.row_nulls(rows.clone());
        let row_nulls = match &self.y {
            Aligned::Scalar(_) | Aligned::Row(..) => None,
            Aligned::Matrix(_, y) => own(y),
            // One value per row: a null value makes the row null.
            Aligned::Column(_, y) if y.width() == 1 => {
                NullBuffer::union(own(y).as_ref(), y.element_nulls(rows.clone()).as_ref())
            }
            Aligned::Column(_, y) => flat_validity(y).map(|all| all.slice(rows.start, rows.len())),
        };
        let element_nulls = |column: Option<usize>| match (&self.y, column) {
            (Aligned::Scalar(_) | Aligned::Column(..), _) => None,
            (Aligned::Matrix(_, y), None) => y.element_nulls(rows.clone()),
            (Aligned::Matrix(_, y), Some(c)) => y.column_nulls(c, rows.clone()),
            (Aligned::Row(_, y), None) => flat_validity(y).map(|row| {
                let repeated =
                    BooleanBuffer::collect_bool(part.rows * width, |i| row.is_valid(i % width));
                NullBuffer::new(repeated)
            }),
            (Aligned::Row(_, y), Some(c)) => flat_validity(y)
                .filter(|row| row.is_null(c))
                .map(|_| NullBuffer::new_null(part.rows)),
        };
        let union = |own: Option<NullBuffer>, other: Option<NullBuffer>| {
            NullBuffer::union(own.as_ref(), other.as_ref())
        };
        let elements = if by_columns {
            let own = |c| self.x.column_nulls(c, rows.clone());
            (0..width).map(|c| union(own(c), element_nulls(Some(c)))).collect()
        } else {
            vec![union(self.x.element_nulls(rows.clone()), element_nulls(None))]
        };
        Nulls { rows: union(self.x.row_nulls(rows.clone()), row_nulls), elements }
    }
}

/// Which elements are null, row by row, null rows included.
fn flat_validity(y: &Matrix) -> Option<NullBuffer> {
    let rows = y.row_nulls(0..y.rows()).map(|rows| rows.expand(y.width()));
    NullBuffer::union(rows.as_ref(), y.element_nulls(0..y.rows()).as_ref())
}

/// The result's chunk.
fn rebuilt<T: Number>(chunk: &Chunk, nulls: Nulls, out: Output<T>) -> Chunk {
    let buffer = out.into_buffer();
    let bytes = chunk.rows * std::mem::size_of::<T>();
    let values = match &chunk.values {
        Values::Rows(_) => {
            let nulls = nulls.elements.into_iter().next().flatten();
            Values::Rows(Column { values: buffer, nulls })
        }
        Values::Columns(_) => Values::Columns(
            nulls
                .elements
                .into_iter()
                .enumerate()
                .map(|(c, nulls)| {
                    let values = buffer.slice_with_length(c * bytes, bytes);
                    Column { values, nulls }
                })
                .collect(),
        ),
    };
    Chunk {
        rows: chunk.rows,
        values,
        row_nulls: nulls.rows,
        inner_nulls: chunk.inner_nulls.clone(),
    }
}

/// Room for the tiles of a thread.
struct Tiles<T> {
    /// A piece of `y` that had to be copied.
    y: Scratch<T>,
    /// One value per row, once for each element of the row.
    repeated: Scratch<T>,
    /// Results on their way past the cache.
    held: Scratch<T>,
}

impl<T> Default for Tiles<T> {
    fn default() -> Self {
        Self { y: Scratch::new(), repeated: Scratch::new(), held: Scratch::new() }
    }
}

/// Widths from which a value per row is taken as a number for its row; below, it is repeated for
/// each element, so that the loop does not stop at every row.
const WIDE: usize = 64;

/// Elements that are computed to L1 before they are stored past the cache: few enough to share
/// L1 with the operands (docs/perf/stores.md).
const STREAMED: usize = 1024;

/// One task, compiled for an instruction set.
struct Elementwise<'r, 't, 'a, T: Clone, O> {
    work: &'r Arithmetic<'r, T, O>,
    pattern: &'r [T],
    tiles: &'r mut Tiles<T>,
    task: Task<'t, 'a, T>,
}

impl<T: Number, O: Binary> Body for Elementwise<'_, '_, '_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { work, pattern, tiles, task } = self;
        let streams = work.plan.store == Store::Streaming;
        let step = if streams { STREAMED } else { TILE };
        for piece in steps(0..task.out.len(), step) {
            let out = &mut task.out[piece.clone()];
            let elements = task.first + piece.start..task.first + piece.end;
            let Tiles { y, repeated, held } = &mut *tiles;
            held.resize(STREAMED, T::default());
            let tile = if streams { &mut held[..out.len()] } else { &mut *out };
            work.compute(task.part, task.column, elements.clone(), pattern, y, repeated, tile);
            clear_nulls(task.part.width, task.nulls, task.column, elements, tile);
            if streams {
                simd::stream(out, &held[..piece.len()]);
            }
        }
        if streams {
            simd::stream_fence();
        }
    }
}

impl<T: Number, O: Binary> Arithmetic<'_, T, O> {
    /// Computes a tile: `elements` of the part, counted row by row, or of one column.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "three of them are room that the thread keeps")]
    fn compute(
        &self,
        part: &Part<'_, T>,
        column: Option<usize>,
        elements: Range<usize>,
        pattern: &[T],
        scratch: &mut Scratch<T>,
        repeated: &mut Scratch<T>,
        out: &mut [T],
    ) {
        let width = part.width;
        let x = match (&part.store, column) {
            (matrix::Store::Columns(columns), Some(c)) => &columns[c].values[elements.clone()],
            (matrix::Store::Rows(rows), _) => &rows.values[elements.clone()],
            (matrix::Store::Columns(_), None) => return,
        };
        let fill = T::default();
        match (&self.y, column) {
            (Aligned::Scalar(y), _) => self.each_scalar(x, *y, out),
            (Aligned::Row(y, _), Some(c)) => self.each_scalar(x, y[c], out),
            (Aligned::Row(..), None) => {
                let mut phase = elements.start % width;
                let mut at = 0;
                while at < out.len() {
                    let take = (pattern.len() - phase).min(out.len() - at);
                    self.each(
                        &x[at..at + take],
                        &pattern[phase..phase + take],
                        &mut out[at..at + take],
                    );
                    at += take;
                    phase = 0;
                }
            }
            (Aligned::Column(y, _), Some(_)) => {
                let first = part.first + elements.start;
                let mut at = 0;
                for (y_part, range) in y.flat_pieces(first..first + out.len()) {
                    let y = y_part.flat(range, fill, scratch);
                    self.each(&x[at..at + y.len()], y, &mut out[at..at + y.len()]);
                    at += y.len();
                }
            }
            (Aligned::Column(y, _), None) => {
                let rows = elements.start / width..elements.end.div_ceil(width);
                let first = part.first + rows.start;
                let mut at = 0;
                let mut row = rows.start;
                for (y_part, range) in y.flat_pieces(first..part.first + rows.end) {
                    let y = y_part.flat(range, fill, scratch);
                    if width >= WIDE {
                        for y in y {
                            let end = ((row + 1) * width).min(elements.end) - elements.start;
                            self.each_scalar(&x[at..end], *y, &mut out[at..end]);
                            (at, row) = (end, row + 1);
                        }
                    } else {
                        // The piece may begin or end inside a row.
                        let inside = elements.start + at - row * width;
                        repeated.resize(y.len() * width, fill);
                        repeat_each(y, width, repeated);
                        let end = ((row + y.len()) * width).min(elements.end) - elements.start;
                        let y_each = &repeated[inside..inside + end - at];
                        self.each(&x[at..end], y_each, &mut out[at..end]);
                        (at, row) = (end, row + y.len());
                    }
                }
            }
            (Aligned::Matrix(y, _), None) => {
                let first = part.first * width + elements.start;
                let mut at = 0;
                for (y_part, range) in y.flat_pieces(first..first + out.len()) {
                    let y = y_part.flat(range, fill, scratch);
                    self.each(&x[at..at + y.len()], y, &mut out[at..at + y.len()]);
                    at += y.len();
                }
            }
            (Aligned::Matrix(y, _), Some(c)) => {
                let first = part.first + elements.start;
                let mut at = 0;
                for (y_part, rows) in y.rows(first..first + out.len()) {
                    let y = y_part.column(c, rows, fill, scratch);
                    self.each(&x[at..at + y.len()], y, &mut out[at..at + y.len()]);
                    at += y.len();
                }
            }
        }
    }

    #[inline(always)]
    fn each(&self, x: &[T], y: &[T], out: &mut [T]) {
        if self.plan.backend == Backend::Vdsp && T::vectors(self.vendor, x, y, out) {
            out.iter_mut().for_each(|o| *o = o.settled());
        } else {
            each(self.op, x, y, out);
        }
    }

    #[inline(always)]
    fn each_scalar(&self, x: &[T], y: T, out: &mut [T]) {
        if self.plan.backend == Backend::Vdsp && T::scalar(self.vendor, x, y, out) {
            out.iter_mut().for_each(|o| *o = o.settled());
        } else {
            each_scalar(self.op, x, y, out);
        }
    }
}

/// Puts zero where the result is null: values under nulls never leave.
fn clear_nulls<T: Number>(
    width: usize,
    nulls: &Nulls,
    column: Option<usize>,
    elements: Range<usize>,
    out: &mut [T],
) {
    let own = nulls.elements.get(column.unwrap_or(0)).and_then(Option::as_ref);
    if let Some(own) = own {
        matrix::fill_unset(Bits::new(own), elements.clone(), out, T::default());
    }
    let Some(rows) = &nulls.rows else { return };
    let rows = Bits::new(rows);
    if column.is_some() || width == 1 {
        matrix::fill_unset(rows, elements, out, T::default());
        return;
    }
    let first = elements.start;
    rows.each_unset(first / width..elements.end.div_ceil(width), |row| {
        let from = (row * width).max(first) - first;
        let to = ((row + 1) * width).min(elements.end) - first;
        out[from..to].fill(T::default());
    });
}
