//! Products and distances of all rows with all rows: `matmul` and `pairwise`.
//!
//! Blocks of the result are made one at a time, mostly by `dispatch::gemm`, finished while they
//! are in the cache and written in the stored type. A null in a row of `x` makes that row of the
//! result null; a null on the other side, its column.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Mutex;

use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;

use super::dense::{self, all_rows, norms};
use super::metric::{Metric, largest, scale};
use super::{real_type, same_type, with_float};
use crate::buffer::Output;
use crate::dispatch::gemm::{Gemm, Panel, multiply};
use crate::dispatch::{Family, Level, Plan, Work, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Body, Distance, Element, Guarded, Second, Simd, row_pairs};
use crate::matrix::{self, Matrix, Number, View, steps};

/// The product of two matrices: `x` of `n × d` and `y` of `d × m` give `n × m`.
///
/// Results have the floating-point type of the elements, or are float64. float16 and float32 are
/// multiplied and added up in float32, in an order that differs between machines: the error of a
/// result is at most `d · 2⁻²⁴` (float64: `d · 2⁻⁵³`) times the sum of the magnitudes of its
/// products. A row of `x` with a null gives a null row; a column of `y` with a null, a null in
/// every row. For one vector, see [`dot`](super::dot).
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, Float32Array, cast::AsArray, types::Float32Type};
/// use raptors_arrow::{Matrix, compute::matmul};
///
/// let flat: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let products = matmul(&x, &x)?.to_arrays()?;
/// let values = products[0].as_fixed_size_list().values().clone();
/// assert_eq!(values.as_primitive::<Float32Type>().values(), &[7.0, 10.0, 15.0, 22.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Rows`] if `y` has not as many rows as `x` has columns, [`Error::Mixed`] if its elements
/// have another type, and [`Error::TooLarge`] for a result that no list can hold.
pub fn matmul(x: &Matrix, y: &Matrix) -> Result<Matrix> {
    const FUNCTION: &str = "matmul";
    same_type(FUNCTION, Y, x, y)?;
    if x.width() != y.rows() {
        let (expected, got) = (x.width(), y.rows());
        return Err(Error::Rows { function: FUNCTION, what: Y, expected, got });
    }
    let plan = run::planned(&work(x, y.width(), y.bytes()))?;
    let call = Call { function: FUNCTION, x, columns: y.width(), plan };
    let nulls = (x.incomplete_rows(0..x.rows()), incomplete_columns(y));
    with_float!(FUNCTION, x.element_type(), T => {
        let elements = all_rows::<T>(FUNCTION, y)?;
        let y = Panel::new(&elements, y.rows(), y.width(), y.width());
        call.run(nulls, BLOCK, &Products { view: x.view::<T>(FUNCTION)?, y, plan })
    })
}

/// How near each row of `x` is to each row of `y`, or of `x` itself: `n × m` scores.
///
/// Dot products and cosines come of a product of matrices, with the error that [`matmul`] has.
/// Distances are within a relative `2⁻³⁶` of the exact ones before they are rounded to the type of
/// the elements (`2⁻²⁸` for float16 and float32), and equal rows have the distance 0: where a
/// product would lose more digits, a distance is measured directly. A row of `x` with a null gives
/// a null row; a row of `y` with a null, a null in every row; and so do zero vectors with
/// [`Metric::Cosine`].
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Metric, pairwise}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 0.0, 3.0, 4.0]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let distances = pairwise(&x, None, Metric::L2)?.to_arrays()?;
/// let values = distances[0].as_fixed_size_list().values().clone();
/// assert_eq!(values.as_primitive::<Float64Type>().values(), &[0.0, 5.0, 5.0, 0.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Width`] if the rows of `y` are not as wide as those of `x`, [`Error::Mixed`] if their
/// elements have another type, and [`Error::TooLarge`] for a result that no list can hold.
pub fn pairwise(x: &Matrix, y: Option<&Matrix>, metric: Metric) -> Result<Matrix> {
    const FUNCTION: &str = "pairwise";
    let y = y.unwrap_or(x);
    same_type(FUNCTION, Y, x, y)?;
    let (width, rows) = (x.width(), y.rows());
    if width != y.width() {
        let (expected, got) = (width, y.width());
        return Err(Error::Width { function: FUNCTION, what: Y, expected, got });
    }
    let work = work(x, rows, y.bytes());
    let plan = run::planned(&work)?;
    let call = Call { function: FUNCTION, x, columns: rows, plan };
    let nulls = (x.incomplete_rows(0..x.rows()), y.incomplete_rows(0..rows));
    match metric {
        Metric::Dot => with_float!(FUNCTION, x.element_type(), T => {
            let elements = all_rows::<T>(FUNCTION, y)?;
            let y = Panel::new(&elements, rows, width, width).transposed();
            call.run(nulls, BLOCK, &Products { view: x.view::<T>(FUNCTION)?, y, plan })
        }),
        Metric::Cosine => with_float!(FUNCTION, x.element_type(), T => {
            let level = plan.level(machine());
            let view = x.view::<T>(FUNCTION)?;
            let of_y = unit_rows(level, &all_rows::<T>(FUNCTION, y)?, width, rows);
            let nonzero = some_zero(&of_y.norms);
            let nulls = (nulls.0, NullBuffer::union(nulls.1.as_ref(), nonzero.as_ref()));
            let y = Panel::new(&of_y.rows, rows, width, width).transposed();
            let zeros = Mutex::default();
            call.run(nulls, BLOCK, &Cosines { view, y, plan, level, zeros })
        }),
        Metric::L2 => {
            let level = plan.level(machine());
            let rows_of_y = all_rows::<f64>(FUNCTION, y)?;
            let mut squares = Vec::new();
            norms(level, &rows_of_y, width, &mut squares, rows);
            squares.iter_mut().for_each(|norm| *norm *= *norm);
            let near = nearness(width, x.element_type());
            let view = x.view::<f64>(FUNCTION)?;
            call.run(nulls, BLOCK, &Distances { view, y: rows_of_y, squares, near, plan, level })
        }
        Metric::L1 => with_float!(FUNCTION, x.element_type(), T => {
            let y = all_rows::<T>(FUNCTION, y)?;
            let level = plan.level(machine());
            // As many rows of y as half of an L2 holds: each meets every row of a block of x.
            let bytes = (width * std::mem::size_of::<T>()).max(1);
            let step = (machine().l2 / 2 / bytes).clamp(8, BLOCK);
            call.run(nulls, step, &Sums { view: x.view::<T>(FUNCTION)?, y, level })
        }),
    }
}

const Y: &str = "y";

/// Rows and columns of a block of the result: 512 KiB of float64, and packing either side costs
/// little beside 256 uses of it.
const BLOCK: usize = 256;

/// The least rows of a task, and columns if there are too few rows for the threads.
const LEAST_ROWS: usize = 32;
const LEAST_COLUMNS: usize = 64;

/// The work of a product with `columns` columns; `other` are the bytes of the other side.
///
/// The loops are not bound by what comes from memory but by what they load from L1: about a byte
/// for each multiplication of float32, two of float64. The plan weighs that.
pub(crate) fn work(x: &Matrix, columns: usize, other: usize) -> Work {
    let size = real_type(x.element_type()).primitive_width().unwrap_or(8);
    let loaded = (x.rows() * x.width()).saturating_mul(columns).saturating_mul(size.max(4) / 4);
    Work {
        family: Family::Elementwise,
        bytes_read: x.bytes().saturating_add(other).saturating_add(loaded),
        bytes_written: x.rows().saturating_mul(columns).saturating_mul(size),
        has_vdsp: true,
    }
}

/// Which columns have a null; `None` if none has.
fn incomplete_columns(y: &Matrix) -> Option<NullBuffer> {
    if !y.has_nulls() {
        return None;
    }
    let rows = y.rows() as u64;
    let counts = matrix::count(y, super::Per::Column);
    let whole: NullBuffer = (0..y.width()).map(|c| counts.get(c) == rows).collect();
    (whole.null_count() > 0).then_some(whole)
}

/// How a block of a result is made, in the type `O`.
trait Make<O>: Sync {
    /// Room that a thread keeps.
    type Room: Default;
    fn block(
        &self,
        room: &mut Self::Room,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [O],
    );
    /// Rows of blocks made so far that have no result.
    fn missing(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// A call that is planned: a result with a row for each of `x`.
#[derive(Clone, Copy)]
struct Call<'a> {
    function: &'static str,
    x: &'a Matrix,
    columns: usize,
    plan: Plan,
}

/// A part of the result, row by row.
struct Task<'t> {
    rows: Range<usize>,
    columns: Range<usize>,
    out: &'t mut [u8],
}

impl Call<'_> {
    /// Makes the result, `step` columns at a time, null in the rows and columns given.
    fn run<O: Number, M: Make<O>>(
        &self,
        nulls: (Option<NullBuffer>, Option<NullBuffer>),
        step: usize,
        make: &M,
    ) -> Result<Matrix> {
        let Self { function, x, columns, plan } = *self;
        let rows = x.rows();
        let to = real_type(x.element_type()).clone();
        let writer = O::writer(&to).ok_or_else(|| matrix::unaccepted(&to).in_function(function))?;
        let too_large = |limit| Error::TooLarge { function, rows, width: columns, limit };
        i32::try_from(columns).map_err(|_| too_large("a fixed-size list"))?;
        let bytes = rows.checked_mul(columns).and_then(|n| n.checked_mul(writer.size));
        let bytes = bytes.ok_or_else(|| too_large("the address space"))?;
        let mut out = Output::<u8>::new(function, bytes)?;
        let row_step = rows.div_ceil(4 * plan.threads).clamp(LEAST_ROWS, BLOCK);
        let column_step = if rows.div_ceil(row_step) < plan.threads {
            columns.div_ceil(2 * plan.threads).clamp(LEAST_COLUMNS, columns.max(LEAST_COLUMNS))
        } else {
            columns.max(1)
        };
        // Rows of tasks that are only some columns wide are put in their places in the end.
        let mut apart =
            if column_step < columns { Some(Output::<u8>::new(function, bytes)?) } else { None };
        let mut rest: &mut [u8] = apart.as_deref_mut().unwrap_or(&mut out);
        let mut tasks = Vec::new();
        for rows in steps(0..rows, row_step) {
            for columns in steps(0..columns, column_step) {
                let (out, after) = rest.split_at_mut(rows.len() * columns.len() * writer.size);
                tasks.push(Task { rows: rows.clone(), columns, out });
                rest = after;
            }
        }
        let room = || (M::Room::default(), Vec::new());
        run::each(function, &plan, tasks, room, |(room, made), task| {
            let Task { rows, columns, out } = task;
            let size = writer.size;
            for some in steps(columns.clone(), step) {
                made.clear();
                made.resize(rows.len() * some.len(), O::default());
                make.block(room, rows.clone(), some.clone(), made);
                clear(&nulls, rows.clone(), some.clone(), made);
                if some.len() == columns.len() {
                    writer.write(made, out);
                    continue;
                }
                for (r, made) in made.chunks_exact(some.len()).enumerate() {
                    let at = (r * columns.len() + some.start - columns.start) * size;
                    writer.write(made, &mut out[at..at + made.len() * size]);
                }
            }
        })?;
        if let Some(apart) = apart {
            let mut from = &apart[..];
            for rows in steps(0..rows, row_step) {
                for some in steps(0..columns, column_step) {
                    for row in rows.clone() {
                        let (now, after) = from.split_at(some.len() * writer.size);
                        let at = (row * columns + some.start) * writer.size;
                        out[at..at + now.len()].copy_from_slice(now);
                        from = after;
                    }
                }
            }
        }
        let missing = matrix::null_at(rows, make.missing());
        let row_nulls = NullBuffer::union(nulls.0.as_ref(), missing.as_ref());
        let elements = nulls.1.map(|of_row| {
            let mut all = BooleanBufferBuilder::new(rows * columns);
            (0..rows).for_each(|_| all.append_buffer(of_row.inner()));
            NullBuffer::new(all.finish())
        });
        Matrix::of_lists(function, to, rows, columns, out.into_buffer(), elements, row_nulls)
    }
}

/// Puts zero where the result is null: values under nulls never leave.
fn clear<O: Element>(
    nulls: &(Option<NullBuffer>, Option<NullBuffer>),
    rows: Range<usize>,
    columns: Range<usize>,
    made: &mut [O],
) {
    let (of_rows, of_columns) = nulls;
    for (row, made) in rows.zip(made.chunks_exact_mut(columns.len().max(1))) {
        if of_rows.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            made.fill(O::default());
        } else if let Some(nulls) = of_columns {
            for (column, made) in columns.clone().zip(made) {
                if nulls.is_null(column) {
                    *made = O::default();
                }
            }
        }
    }
}

/// Products with a panel.
struct Products<'a, T: Number> {
    view: View<'a, T>,
    y: Panel<'a, T>,
    plan: Plan,
}

impl<T: Number + Gemm> Make<T> for Products<'_, T> {
    type Room = dense::Room<T>;

    fn block(
        &self,
        room: &mut Self::Room,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [T],
    ) {
        let (count, width) = (rows.len(), self.view.width);
        let x = Panel::new(room.block(&self.view, rows), count, width, width);
        multiply(self.plan.backend, x, self.y.columns(columns), false, out);
    }
}

/// Cosines: products of rows that were divided by their norms first, so that none overflows.
struct Cosines<'a, T: Number> {
    view: View<'a, T>,
    /// Unit vectors.
    y: Panel<'a, T>,
    plan: Plan,
    level: Level,
    /// Rows of `x` that are zero vectors.
    zeros: Mutex<Vec<usize>>,
}

impl<T: Number + Gemm> Make<T> for Cosines<'_, T> {
    type Room = dense::Room<T>;

    fn block(
        &self,
        room: &mut Self::Room,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [T],
    ) {
        let (count, width) = (rows.len(), self.view.width);
        let x = unit_rows(self.level, room.block(&self.view, rows.clone()), width, count);
        let panel = Panel::new(&x.rows, count, width, width);
        multiply(self.plan.backend, panel, self.y.columns(columns.clone()), false, out);
        let one = T::round(1.0);
        for o in out.iter_mut() {
            // As row by row: never more than 1; a NaN passes.
            if o.magnitude() > one {
                *o = if o.has_sign() { one.negative().0 } else { one };
            }
        }
        for (r, row) in rows.enumerate().filter(|(r, _)| x.norms[*r] == 0.0) {
            out[r * columns.len()..(r + 1) * columns.len()].fill(T::default());
            self.zeros.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(row);
        }
    }

    fn missing(&self) -> Vec<usize> {
        self.zeros.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Rows divided by their norms.
pub(super) struct UnitRows<T> {
    pub(super) rows: Vec<T>,
    pub(super) norms: Vec<f64>,
}

pub(super) fn unit_rows<T: Number + Gemm>(
    level: Level,
    x: &[T],
    width: usize,
    rows: usize,
) -> UnitRows<T> {
    let mut norms_of_x = Vec::new();
    norms(level, x, width, &mut norms_of_x, rows);
    let mut unit = Vec::with_capacity(x.len());
    for (row, norm) in x.chunks_exact(width.max(1)).zip(&norms_of_x) {
        if Guarded::is_safe(*norm) || *norm == 0.0 {
            let norm = if *norm == 0.0 { 1.0 } else { *norm };
            unit.extend(row.iter().map(|x| T::round(x.widen() / norm)));
            continue;
        }
        // The norm overflows, or dividing by it would: a power of two comes first.
        let wide: Vec<f64> = row.iter().map(|x| x.widen()).collect();
        let scale = scale(largest(&wide));
        let scaled: Vec<f64> = wide.iter().map(|x| x * scale).collect();
        let mut norm = Vec::new();
        norms(level, &scaled, width, &mut norm, 1);
        unit.extend(scaled.iter().map(|x| T::round(x / norm[0])));
    }
    UnitRows { rows: unit, norms: norms_of_x }
}

/// Which norms are those of zero vectors; `None` if none is.
fn some_zero(norms: &[f64]) -> Option<NullBuffer> {
    norms.contains(&0.0).then(|| norms.iter().map(|norm| *norm != 0.0).collect())
}

/// The share of `|x|² + |y|²` from which a squared distance is measured directly.
///
/// As a product, `|x|² + |y|² − 2xy` is off by at most `(d + 4) u (|x|² + |y|²)` with `u = 2⁻⁵³`;
/// its root, by half of that over the squared distance. What is not within `2⁻³⁶` so, or a quarter
/// of a unit in the last place of float32, is near.
fn nearness(width: usize, element: &DataType) -> f64 {
    let bits = if matches!(element, DataType::Float16 | DataType::Float32) { 28 } else { 36 };
    (width as f64 + 4.0) * f64::EPSILON / 4.0 * 2f64.powi(bits)
}

/// Distances from products. In float64 whatever the elements are: in float32, the error bound of a
/// product of wide rows is larger than most distances.
struct Distances<'a> {
    view: View<'a, f64>,
    y: Cow<'a, [f64]>,
    /// The squared norms of the rows of `y`.
    squares: Vec<f64>,
    near: f64,
    plan: Plan,
    level: Level,
}

impl Make<f64> for Distances<'_> {
    type Room = (dense::Room<f64>, Vec<f64>);

    fn block(
        &self,
        (room, squares): &mut Self::Room,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [f64],
    ) {
        let (count, width) = (rows.len(), self.view.width);
        let x = room.block(&self.view, rows);
        norms(self.level, x, width, squares, count);
        squares.iter_mut().for_each(|norm| *norm *= *norm);
        let y = Panel::new(&self.y, self.squares.len(), width, width).transposed();
        let columns_of_y = y.columns(columns.clone());
        let x_panel = Panel::new(x, count, width, width);
        multiply(self.plan.backend, x_panel, columns_of_y, false, out);
        let of_y = &self.squares[columns.clone()];
        let y = &self.y[columns.start * width..columns.end * width];
        let near = self.near;
        self.level.run(FromProducts { x, y, width, squares: (squares, of_y), near, out });
    }
}

/// Turns products into distances.
struct FromProducts<'a> {
    x: &'a [f64],
    y: &'a [f64],
    width: usize,
    squares: (&'a [f64], &'a [f64]),
    near: f64,
    out: &'a mut [f64],
}

/// Sums of squares outside of these have overflowed or lost digits.
const SAFE: Range<f64> = 1e-280..f64::INFINITY;

impl Body for FromProducts<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, y, width, squares: (of_x, of_y), near, out } = self;
        if of_y.is_empty() {
            return;
        }
        for (r, (xx, out)) in of_x.iter().zip(out.chunks_exact_mut(of_y.len())).enumerate() {
            let mut any = false;
            for (yy, o) in of_y.iter().zip(out.iter_mut()) {
                let both = xx + yy;
                let squared = both - 2.0 * *o;
                let is_far = squared > near * both && both > SAFE.start && both < SAFE.end;
                any |= !is_far;
                // Less than nothing marks what is measured below.
                let marked = if both.is_nan() { f64::NAN } else { -1.0 };
                *o = if is_far { squared.sqrt() } else { marked };
            }
            if !any {
                continue;
            }
            for (c, o) in out.iter_mut().enumerate().filter(|(_, o)| **o == -1.0) {
                let (x, y) = (&x[r * width..(r + 1) * width], &y[c * width..(c + 1) * width]);
                *o = Metric::L2.score(simd, x, y).unwrap_or(0.0);
            }
        }
    }
}

/// Sums of distances, element by element, in the order of `kernel::sum`.
struct Sums<'a, T: Number> {
    view: View<'a, T>,
    y: Cow<'a, [T]>,
    level: Level,
}

impl<T: Number> Make<f64> for Sums<'_, T> {
    type Room = dense::Room<T>;

    fn block(
        &self,
        room: &mut Self::Room,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [f64],
    ) {
        let width = self.view.width;
        let x = room.block(&self.view, rows);
        let y = &self.y[columns.start * width..columns.end * width];
        let columns = columns.len();
        self.level.run(SumsOfBlock { x, y, width, columns, out });
    }
}

struct SumsOfBlock<'a, T> {
    x: &'a [T],
    y: &'a [T],
    width: usize,
    columns: usize,
    out: &'a mut [f64],
}

impl<T: Number> Body for SumsOfBlock<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, y, width, columns, out } = self;
        if width == 0 || columns == 0 {
            return;
        }
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(columns)) {
            let out = out.as_chunks_mut::<1>().0;
            row_pairs(Distance, simd, y, Second::Same(x), width, out);
        }
    }
}
