//! Products and distances of all rows with all rows: `matmul` and `pairwise`.
//!
//! `blocks` drives both: rows of the result are made a few at a time, mostly by `dispatch::gemm`,
//! finished while they are in L1 and written in the stored type. What makes them is a [`Make`]:
//! `plain` products, `cosine`s or `distance`s. Of rows with themselves, half are made and the rest
//! mirrored. A null in a row of `x` makes that row of the result null; a null on the other side,
//! its column.

mod blocks;
mod cosine;
mod distance;
mod plain;

use arrow_buffer::NullBuffer;

use super::call::{self, Call, Driven, Held, Pass};
use super::contiguous::all_rows;
use super::metric::Metric;
use super::{Value, pairs, real_type, with_float};
use crate::dispatch::gemm::Panel;
use crate::dispatch::{Family, Plan, Work, machine};
use crate::error::{Error, Result};
use crate::matrix::{self, Matrix};
use crate::memory::Gather as _;
use blocks::Blocks;
pub(super) use cosine::unit_rows;

/// The product of two matrices: `x` of `n × d` and `y` of `d × m` give `n × m`.
///
/// Results have the floating-point type of the elements, or are float64. float16 and float32 are
/// multiplied and added up in float32, in an order that differs between machines: the error of a
/// result is at most `d · 2⁻²⁴` (float64: `d · 2⁻⁵³`) times the sum of the magnitudes of its
/// products. What overflows so is made again as [`dot`](super::dot) makes it. A row of `x` with a null gives a null row; a column of `y` with a null, a null in
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
    let (x, y) = (Held::Borrowed(x), Held::Borrowed(y));
    call::execute("matmul", &Matmul { x, y })?.into_matrix()
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
    let (x, y) = (Held::Borrowed(x), y.map(Held::Borrowed));
    call::execute("pairwise", &Pairwise { x, y, metric })?.into_matrix()
}

/// Which rows are multiplied or compared with which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Product {
    /// Rows with columns.
    Matmul,
    /// Rows with rows.
    Pairwise,
}

/// The call of a function of the table.
pub(super) fn bind<'a>(product: Product, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let (x, y) = (call.matrix(0)?, call.optional_matrix(1)?);
    Ok(match (product, y) {
        (Product::Matmul, Some(y)) if y.is_vector() => pairs::with_one(x, y),
        (Product::Matmul, Some(y)) => Box::new(Matmul { x, y }),
        (Product::Matmul, None) => return Err(Error::Arguments { expected: 2, got: 1 }),
        (Product::Pairwise, y) => {
            let metric = call.options.metric().unwrap_or(Metric::Dot);
            Box::new(Pairwise { x, y, metric })
        }
    })
}

/// A call of [`matmul`].
struct Matmul<'a> {
    x: Held<'a>,
    y: Held<'a>,
}

impl Driven for Matmul<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let multiply = ("multiply", work(&self.x, self.y.width(), self.y.bytes()));
        call::conversion(&self.x, &self.y).into_iter().chain([multiply]).gather()
    }

    fn run(&self, mut passes: &[Pass]) -> Result<Value> {
        let y = call::converted(Y, &self.x, &self.y, &mut passes)?;
        multiplied(&self.x, &y, passes[0].plan).map(Value::Matrix)
    }
}

/// A call of [`pairwise`].
struct Pairwise<'a> {
    x: Held<'a>,
    y: Option<Held<'a>>,
    metric: Metric,
}

impl Pairwise<'_> {
    fn other(&self) -> &Matrix {
        self.y.as_deref().unwrap_or(&self.x)
    }
}

impl Driven for Pairwise<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let y = self.other();
        let compare = ("compare", work(&self.x, y.rows(), y.bytes()));
        call::conversion(&self.x, y).into_iter().chain([compare]).gather()
    }

    fn run(&self, mut passes: &[Pass]) -> Result<Value> {
        let plan = |passes: &[Pass]| passes[0].plan;
        let Some(y) = &self.y else {
            return compared(&self.x, None, self.metric, plan(passes)).map(Value::Matrix);
        };
        let y = call::converted(Y, &self.x, y, &mut passes)?;
        compared(&self.x, Some(&y), self.metric, plan(passes)).map(Value::Matrix)
    }
}

fn multiplied(x: &Matrix, y: &Matrix, plan: Plan) -> Result<Matrix> {
    let x = &*x.fitted(y.rows())?;
    if x.width() != y.rows() {
        let (expected, got) = (x.width(), y.rows());
        return Err(Error::Rows { what: Y, expected, got });
    }
    let nulls = (x.incomplete_rows(0..x.rows())?, incomplete_columns(y)?);
    let call = Blocks { x, columns: y.width(), is_symmetric: false, nulls, plan };
    with_float!(x.element_type(), T => {
        let elements = all_rows::<T>(y)?;
        let panel = Panel::new(&elements, y.rows(), y.width(), y.width());
        call.run(&plain::Products::new(panel, &plan))
    })
}

fn compared(x: &Matrix, y: Option<&Matrix>, metric: Metric, plan: Plan) -> Result<Matrix> {
    let is_symmetric = y.is_none();
    let y = y.unwrap_or(x);
    let (x, y) = (&*x.fitted(y.width())?, &*y.fitted(x.width())?);
    let (width, rows) = (x.width(), y.rows());
    if width != y.width() {
        let (expected, got) = (width, y.width());
        return Err(Error::Width { what: Y, expected, got });
    }
    let level = plan.level(machine());
    let nulls = (x.incomplete_rows(0..x.rows())?, y.incomplete_rows(0..rows)?);
    let call = Blocks { x, columns: rows, is_symmetric, nulls, plan };
    match metric {
        Metric::Dot => with_float!(x.element_type(), T => {
            let elements = all_rows::<T>(y)?;
            let panel = Panel::new(&elements, rows, width, width).transposed();
            call.run(&plain::Products::new(panel, &plan))
        }),
        Metric::Cosine => with_float!(x.element_type(), T => {
            let of_y = unit_rows(level, &all_rows::<T>(y)?, width, rows);
            let zeros = cosine::some_zero(&of_y.norms)?;
            let nulls = (call.nulls.0, matrix::union(call.nulls.1, zeros)?);
            let call = Blocks { nulls, ..call };
            call.run(&cosine::Cosines::new(&of_y.rows, (rows, width), &plan))
        }),
        Metric::L2 | Metric::SquaredL2 => {
            let elements = all_rows::<f64>(y)?;
            let shape = (rows, width);
            call.run(&distance::Distances::new(metric, &elements, shape, x.element_type(), &plan))
        }
        Metric::L1 => with_float!(x.element_type(), T => {
            let elements = all_rows::<T>(y)?;
            call.run(&distance::Manhattan::new(&elements, width, level))
        }),
    }
}

const Y: &str = "y";

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
fn incomplete_columns(y: &Matrix) -> Result<Option<NullBuffer>> {
    if !y.has_nulls() {
        return Ok(None);
    }
    let rows = y.rows() as u64;
    let counts = matrix::count(y, super::Per::Column)?;
    let whole = matrix::from_bits(y.width(), |c| counts.get(c) == rows)?;
    Ok(Some(whole).filter(|whole| whole.null_count() > 0))
}
