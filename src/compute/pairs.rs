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

use super::call::{self, Call, Driven, Held, Pass};
use super::contiguous::all_rows;
use super::fused::{Nulls, ScoreSink, Sink, Stage};
use super::{Metric, Value, real_type};
use crate::buffer::{Output, collected};
use crate::dispatch::{Family, Level, Plan, Work, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Body, Real, Second, Simd};
use crate::matrix::{self, Matrix, Number, Scratch, TILE, View, array_of, steps};
use crate::memory::{self, Gather as _};

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
    execute("dot", x, y, Metric::Dot)
}

/// The cosine of the angle between each row of `x` and a row of `y`, or one vector; null for a
/// zero vector.
///
/// # Errors
///
/// As [`dot`].
pub fn cosine_similarity(x: &Matrix, y: &Vectors<'_>) -> Result<ArrayRef> {
    execute("cosine_similarity", x, y, Metric::Cosine)
}

/// The Euclidean distance of each row of `x` from a row of `y`, or from one vector.
///
/// # Errors
///
/// As [`dot`].
pub fn l2_distance(x: &Matrix, y: &Vectors<'_>) -> Result<ArrayRef> {
    execute("l2_distance", x, y, Metric::L2)
}

/// The sum of the distances, element by element, of each row of `x` from a row of `y`, or from one
/// vector.
///
/// # Errors
///
/// As [`dot`].
pub fn l1_distance(x: &Matrix, y: &Vectors<'_>) -> Result<ArrayRef> {
    execute("l1_distance", x, y, Metric::L1)
}

const Y: &str = "y";

fn execute(
    function: &'static str,
    x: &Matrix,
    y: &Vectors<'_>,
    metric: Metric,
) -> Result<ArrayRef> {
    let (y, is_one) = match y {
        Vectors::Rows(y) => (*y, false),
        Vectors::One(y) => (*y, true),
    };
    let (x, y) = (Held::Borrowed(x), Held::Borrowed(y));
    let call = PairsCall { x, y, is_one, gives_one: false, metric };
    call::execute(function, &call)?.into_array()
}

/// The call of a function of the table.
pub(super) fn bind<'a>(metric: Metric, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let (x, y) = (call.matrix(0)?, call.matrix(1)?);
    if call.are_two_vectors() {
        let x = Held::Owned(x.as_row()?);
        return Ok(Box::new(PairsCall { x, y, is_one: true, gives_one: true, metric }));
    }
    // A vector is one for all rows, and so is a list of one row; never by its length.
    let is_one = y.is_vector() || y.rows() == 1 && x.rows() != 1;
    Ok(Box::new(PairsCall { x, y, is_one, gives_one: false, metric }))
}

/// The call that multiplies a matrix with one vector.
pub(super) fn with_one<'a>(x: Held<'a>, y: Held<'a>) -> Box<dyn Driven + 'a> {
    Box::new(PairsCall { x, y, is_one: true, gives_one: false, metric: Metric::Dot })
}

/// A call of such a function.
struct PairsCall<'a> {
    x: Held<'a>,
    y: Held<'a>,
    /// Whether `y` is one vector for all rows.
    is_one: bool,
    /// Whether both are one vector, and the result is one number.
    gives_one: bool,
    metric: Metric,
}

impl Driven for PairsCall<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let x = &self.x;
        let size = real_type(x.element_type()).primitive_width().unwrap_or(8);
        let work = Work {
            family: Family::Reduction,
            bytes_read: x.bytes().saturating_add(self.y.bytes()),
            bytes_written: x.rows().saturating_mul(size),
            has_vdsp: false,
        };
        call::conversion(x, &self.y).into_iter().chain([("pair", work)]).gather()
    }

    fn run(&self, mut passes: &[Pass]) -> Result<Value> {
        let y = call::converted(Y, &self.x, &self.y, &mut passes)?;
        let y = if self.is_one { Vectors::One(&y) } else { Vectors::Rows(&y) };
        let scores = scored(&self.x, &y, self.metric, passes[0].plan)?;
        Ok(if self.gives_one { Value::Scalar(scores) } else { Value::Vector(scores) })
    }

    fn is_sink(&self) -> bool {
        !self.gives_one
    }

    fn ready(&mut self) -> Result<()> {
        let conversion = call::conversion(&self.x, &self.y).map(call::planned).transpose()?;
        let y = call::converted(Y, &self.x, &self.y, &mut conversion.as_slice())?;
        self.y = Held::Owned(y.fitted(self.x.width())?.into_owned());
        Ok(())
    }

    fn stage(&self, nulls: &Nulls) -> Result<Option<Stage<'_>>> {
        if self.gives_one {
            return Ok(None);
        }
        let (x, metric) = (&*self.x, self.metric);
        let y = if self.is_one { Vectors::One(&self.y) } else { Vectors::Rows(&self.y) };
        let sink: Box<dyn Sink> = match x.element_type() {
            // As `scored` reads and makes them.
            half @ DataType::Float16 => {
                Box::new(ScoreSink::<f64, f64>::new(metric, x, paired(x, &y)?, half, nulls)?)
            }
            single @ DataType::Float32 => {
                Box::new(ScoreSink::<f32, f32>::new(metric, x, paired(x, &y)?, single, nulls)?)
            }
            _ => {
                let to = &DataType::Float64;
                Box::new(ScoreSink::<f64, f64>::new(metric, x, paired(x, &y)?, to, nulls)?)
            }
        };
        Ok(Some(Stage::Sink(sink)))
    }
}

fn scored(x: &Matrix, y: &Vectors<'_>, metric: Metric, plan: Plan) -> Result<ArrayRef> {
    let other = match y {
        Vectors::Rows(y) | Vectors::One(y) => *y,
    };
    let wanted = match y {
        Vectors::Rows(y) => y.width(),
        Vectors::One(y) => y.rows() * y.width(),
    };
    let (x, other) = (&*x.fitted(wanted)?, &*other.fitted(x.width())?);
    let y = &match y {
        Vectors::Rows(_) => Vectors::Rows(other),
        Vectors::One(_) => Vectors::One(other),
    };
    match x.element_type() {
        // Rounded once, so not through float32.
        half @ DataType::Float16 => Pairs::<f64>::new(x, y, metric)?.run::<f64>(half, plan),
        single @ DataType::Float32 => Pairs::<f32>::new(x, y, metric)?.run::<f32>(single, plan),
        _ => Pairs::<f64>::new(x, y, metric)?.run::<f64>(&DataType::Float64, plan),
    }
}

/// A call that is checked.
struct Pairs<'a, T: Number> {
    metric: Metric,
    x: &'a Matrix,
    view: View<'a, T>,
    y: Paired<'a, T>,
    nulls: Option<NullBuffer>,
}

/// What rows are paired with, read as `T`.
pub(super) enum Paired<'a, T: Number> {
    Rows(View<'a, T>),
    One(Cow<'a, [T]>),
}

impl<'a, T: Number> Pairs<'a, T> {
    fn new(x: &'a Matrix, y: &Vectors<'a>, metric: Metric) -> Result<Self> {
        let (y, nulls) = paired(x, y)?;
        let own = x.incomplete_rows(0..x.rows())?;
        Ok(Self { metric, x, view: x.view()?, y, nulls: matrix::union(own, nulls)? })
    }

    fn run<O: Number + Real>(&self, to: &DataType, plan: Plan) -> Result<ArrayRef> {
        let level = plan.level(machine());
        let (rows, width) = (self.x.rows(), self.x.width());
        let mut out = Output::<O>::new(rows)?;
        let row_bytes = (width * std::mem::size_of::<T>()).max(1);
        let rows_per_task = (plan.task_bytes / row_bytes).max(1);
        let tasks = out.chunks_mut(rows_per_task).enumerate();
        let tasks = collected(tasks.map(|(i, out)| (i * rows_per_task, out)))?;
        let zeros = Mutex::new(Vec::new());
        run::each(&plan, tasks, PairWorkspace::default, |workspace, (first, out)| {
            self.some_rows(level, first, out, workspace);
            if !workspace.missing.is_empty() {
                let mut zeros = zeros.lock().unwrap_or_else(PoisonError::into_inner);
                memory::extend(&mut zeros, workspace.missing.drain(..));
            }
        })?;
        let zeros = zeros.into_inner().unwrap_or_else(PoisonError::into_inner);
        let zeros = matrix::null_at(rows, &zeros)?;
        let nulls = matrix::union(self.nulls.clone(), zeros)?;
        array_of(out, nulls, to)
    }

    /// Writes the results of the rows from `first` on, and says which of them are missing.
    fn some_rows<O: Number + Real>(
        &self,
        level: Level,
        first: usize,
        out: &mut [O],
        workspace: &mut PairWorkspace<T>,
    ) {
        let (metric, width) = (self.metric, self.view.width);
        let PairWorkspace { x: x_workspace, y: y_workspace, sums, missing } = workspace;
        for (part, rows) in self.view.rows(first..first + out.len()) {
            let step = if part.is_dense() { ROWS_HELD } else { (TILE / width.max(1)).max(1) };
            for rows in steps(rows, step.min(ROWS_HELD)) {
                let at = part.first + rows.start;
                let x = part.flat_rows(rows.clone(), x_workspace);
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
                            let y = y_part.flat_rows(y_rows, y_workspace);
                            score(start..start + len, Second::Each(y));
                        }
                    }
                }
            }
        }
    }
}

/// What rows of `x` are paired with, and the rows that it makes null.
fn paired<'y, T: Number>(
    x: &Matrix,
    y: &Vectors<'y>,
) -> Result<(Paired<'y, T>, Option<NullBuffer>)> {
    let rows = x.rows();
    match y {
        Vectors::Rows(y) => {
            if y.width() != x.width() {
                let (expected, got) = (x.width(), y.width());
                return Err(Error::Width { what: Y, expected, got });
            }
            if y.rows() != rows {
                return Err(Error::Rows { what: Y, expected: rows, got: y.rows() });
            }
            Ok((Paired::Rows(y.view()?), y.incomplete_rows(0..rows)?))
        }
        Vectors::One(y) => {
            let (expected, got) = (x.width(), y.rows() * y.width());
            if expected != got {
                return Err(Error::Width { what: Y, expected, got });
            }
            let nulls = match y.incomplete_rows(0..y.rows())? {
                Some(_) => Some(matrix::from_bits(rows, |_| false)?),
                None => None,
            };
            Ok((Paired::One(all_rows(y)?), nulls))
        }
    }
}

/// What a thread needs for its tiles.
struct PairWorkspace<T> {
    x: Scratch<T>,
    y: Scratch<T>,
    sums: Vec<f64>,
    missing: Vec<usize>,
}

impl<T> Default for PairWorkspace<T> {
    fn default() -> Self {
        Self { x: Scratch::new(), y: Scratch::new(), sums: Vec::new(), missing: Vec::new() }
    }
}

/// Rows whose sums are held before they become results.
const ROWS_HELD: usize = 256;

/// The scores of some rows, compiled for an instruction set.
pub(super) struct Scores<'a, T, O> {
    pub(super) metric: Metric,
    pub(super) x: &'a [T],
    pub(super) y: Second<'a, T>,
    pub(super) width: usize,
    pub(super) sums: &'a mut Vec<f64>,
    pub(super) out: &'a mut [O],
    /// The number of the first row, to say which have no score.
    pub(super) first_row: usize,
    pub(super) missing: &'a mut Vec<usize>,
}

impl<T: Number, O: Real> Body for Scores<'_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { metric, x, y, width, sums, out, first_row, missing } = self;
        metric.scores(simd, (x, y), (out.len(), width), sums, |r, score| {
            if score.is_none() {
                memory::push(missing, first_row + r);
            }
            out[r] = O::round(score.unwrap_or(0.0)).canonical();
        });
    }
}
