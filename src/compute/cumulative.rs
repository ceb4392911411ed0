//! Running sums: each element with all before it, down its column or along its row.
//!
//! ```text
//! sum = −0                                  for each column, or each row
//! for each element, in order:
//!     sum = sum + element                   in float64, or checked 64-bit integers; nulls are passed over
//!     result = sum, rounded to its type     null where the element is
//! ```
//!
//! One addition after the other, in the order of the rows or columns alone: so the bits are the same
//! for any chunks and threads, and those of NumPy for float64. Rows, and columns that lie by
//! themselves, are shared among threads; columns of rows that lie one behind the other are not.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_schema::DataType;

use super::call::{self, Call, Driven, Held, Pass};
use super::elementwise::PartRun;
use super::reduce::Statistic;
use super::{Per, Value};
use crate::dispatch::{Family, Level, Plan, Work, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Accumulate, running, running_columns};
use crate::matrix::{
    self, ChunkNulls, Like, Matrix, Number, Part, Scratch, TILE, Writer, size_of_element, steps,
};
use crate::memory::{self, Gather as _};

/// The sum of each element and all before it in its column, or in its row. Floats are added in
/// float64 and rounded to their type for each result; integers are checked, and come out as int64 or
/// uint64. Nulls are passed over, and are null in the result.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Per, cumsum}};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(2.5)]));
/// let sums = cumsum(&Matrix::try_from(&x)?, Per::Column)?.to_arrays()?;
/// let expected = Float64Array::from(vec![Some(1.0), None, Some(3.5)]);
/// assert_eq!(sums[0].as_primitive::<Float64Type>(), &expected);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`](crate::Error::Type) unless the elements are numbers,
/// [`Error::Overflow`](crate::Error::Overflow) for integers whose sum does not fit 64 bits, and
/// [`Error::OptionValue`](crate::Error::OptionValue) for [`Per::Matrix`].
pub fn cumsum(x: &Matrix, per: Per) -> Result<Matrix> {
    if per == Per::Matrix {
        let (expected, got) = ("0 or 1".to_owned(), "None".to_owned());
        let error = Error::OptionValue { option: "axis", expected, got };
        return Err(error.in_function("cumsum"));
    }
    let to = Statistic::Sum.result_type(x.element_type(), false);
    let call = Cumsum { x: Held::Borrowed(x), per, to };
    call::execute("cumsum", &call)?.into_matrix()
}

/// The call of a function of the table.
pub(super) fn bind<'a>(call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let (x, per) = (call.matrix(0)?, call.per());
    let to = Statistic::Sum.result_type(x.element_type(), false);
    Ok(Box::new(Cumsum { x, per, to }))
}

struct Cumsum<'a> {
    x: Held<'a>,
    per: Per,
    to: DataType,
}

impl Driven for Cumsum<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let size = size_of_element(&self.to).unwrap_or(8);
        let work = Work {
            family: Family::Elementwise,
            bytes_read: self.x.bytes(),
            bytes_written: self.x.rows().saturating_mul(self.x.width()).saturating_mul(size),
            has_vdsp: false,
        };
        vec![("add up", work)]
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        let plan = passes[0].plan;
        let element = self.x.element_type();
        let sums = match element {
            DataType::Float32 => self.typed::<f32>(plan),
            // float16 is rounded once, from float64.
            DataType::Float16 | DataType::Float64 => self.typed::<f64>(plan),
            unsigned if unsigned.is_unsigned_integer() => self.typed::<u64>(plan),
            signed if signed.is_signed_integer() => self.typed::<i64>(plan),
            other => Err(Error::Type { expected: super::NUMBERS, got: other.clone() }),
        };
        sums.map(Value::Matrix)
    }
}

/// A call that is planned.
struct Running<'a, T: Number> {
    x: &'a Matrix,
    writer: Writer<T>,
    level: Level,
    plan: Plan,
    /// The first row known to have overflowed.
    failed: AtomicUsize,
}

/// Workspace for tiles.
struct Workspace<T: Accumulate> {
    scratch: Scratch<T>,
    held: Scratch<T>,
    sums: Vec<T::Sum>,
}

impl<T: Accumulate> Default for Workspace<T> {
    fn default() -> Self {
        Self { scratch: Scratch::new(), held: Scratch::new(), sums: Vec::new() }
    }
}

/// Rows of a part, of which each run of results lies in a slice: all of them, or one per column.
struct Task<'t, 'a, T: Number> {
    part: &'t Part<'a, T>,
    nulls: &'t ChunkNulls,
    rows: Range<usize>,
    /// The columns of a part that lies by columns.
    columns: Range<usize>,
    out: Vec<&'t mut [u8]>,
}

impl Cumsum<'_> {
    fn typed<T: Number + Accumulate>(&self, plan: Plan) -> Result<Matrix> {
        let x = &*self.x;
        let view = x.view::<T>()?;
        let writer = T::writer(&self.to).ok_or_else(|| matrix::unaccepted(&self.to))?;
        let size = writer.size;
        let mut result = Like::new(x, &self.to, size)?;
        let nulls = view.parts.iter().map(|part| nulls_of(x, part)).try_gather()?;
        let level = plan.level(machine());
        let running = Running { x, writer, level, plan, failed: AtomicUsize::new(usize::MAX) };
        let parts = view.parts.iter().zip(&nulls).zip(result.runs());
        match self.per {
            Per::Row => {
                let row_bytes = (x.width() * size_of::<T>()).max(1);
                let at_once = (plan.task_bytes / row_bytes).max(1);
                let mut tasks = Vec::new();
                for ((part, nulls), runs) in parts {
                    let mut runs: Vec<&mut [u8]> = runs.map(|(_, out)| out).gather();
                    for rows in steps(0..part.rows, at_once) {
                        let mut out = Vec::new();
                        memory::reserve(&mut out, runs.len());
                        for run in &mut runs {
                            let bytes = match part.is_by_columns() {
                                true => rows.len() * size,
                                false => rows.len() * part.width * size,
                            };
                            let (own, rest) = std::mem::take(run).split_at_mut(bytes);
                            *run = rest;
                            memory::push(&mut out, own);
                        }
                        let columns = 0..out.len();
                        memory::push(&mut tasks, Task { part, nulls, rows, columns, out });
                    }
                }
                running.along_rows(tasks)?;
            }
            Per::Column | Per::Matrix if x.is_by_columns() => {
                let mut tasks: Vec<Vec<Task<'_, '_, T>>> =
                    (0..x.width()).map(|_| Vec::new()).gather();
                for ((part, nulls), runs) in parts {
                    for (c, out) in runs {
                        let c = c.unwrap_or(0);
                        let (rows, columns, out) = (0..part.rows, c..c + 1, vec![out]);
                        memory::push(&mut tasks[c], Task { part, nulls, rows, columns, out });
                    }
                }
                running.down_each(tasks)?;
            }
            Per::Column | Per::Matrix => {
                let task = |((part, nulls), runs): ((_, _), _)| {
                    let part: &Part<'_, T> = part;
                    let out = Iterator::map(runs, |(_, out)| out).gather();
                    Task { part, nulls, rows: 0..part.rows, columns: 0..part.width, out }
                };
                running.down_all(parts.map(task).gather())?;
            }
        }
        let failed = running.failed.into_inner();
        if failed != usize::MAX {
            return Err(Error::Overflow { what: "row", index: failed, into: self.to.clone() });
        }
        result.finish(nulls.into_iter().map(Ok), false)
    }
}

fn nulls_of<T: Number>(x: &Matrix, part: &Part<'_, T>) -> Result<ChunkNulls> {
    let rows = part.first..part.first + part.rows;
    let elements = match part.is_by_columns() {
        true => (0..part.width).map(|c| x.column_nulls(c, rows.clone())).try_gather()?,
        false => vec![x.element_nulls(rows.clone())?],
    };
    Ok(ChunkNulls { rows: x.row_nulls(rows)?, elements })
}

impl<T: Number + Accumulate> Running<'_, T> {
    /// Keeps the first row in which a sum did not fit.
    fn fail(&self, row: usize) {
        self.failed.fetch_min(row, Ordering::Relaxed);
    }

    /// Stores a tile of results, `elements` of the part or of one of its columns.
    fn store(
        &self,
        task: (&Part<'_, T>, &ChunkNulls),
        column: Option<usize>,
        elements: Range<usize>,
        held: &mut [T],
        out: &mut [u8],
    ) {
        let (part, nulls) = task;
        PartRun { part, nulls, column }.clear_nulls(self.level, elements, held);
        self.writer.write(held, out);
    }

    /// Sums along the rows of each task.
    fn along_rows(&self, tasks: Vec<Task<'_, '_, T>>) -> Result<()> {
        run::each(&self.plan, tasks, Workspace::default, |workspace, task| {
            let Task { part, nulls, rows, mut out, .. } = task;
            match part.is_by_columns() {
                true => self.across(part, nulls, rows, &mut out, workspace),
                false => {
                    if let Some(out) = out.first_mut() {
                        self.along(part, nulls, rows, out, workspace);
                    }
                }
            }
        })
    }

    /// Sums along rows that lie one behind the other.
    fn along(
        &self,
        part: &Part<'_, T>,
        nulls: &ChunkNulls,
        rows: Range<usize>,
        out: &mut [u8],
        workspace: &mut Workspace<T>,
    ) {
        let (width, size) = (part.width, self.writer.size);
        if width == 0 {
            return;
        }
        let Workspace { scratch, held, .. } = workspace;
        let first = rows.start * width;
        let mut sum = T::NOTHING;
        for piece in steps(first..rows.end * width, TILE) {
            let x = part.flat(piece.clone(), T::NEUTRAL, scratch);
            memory::resize(held, piece.len(), T::default());
            let mut at = piece.start;
            while at < piece.end {
                if at.is_multiple_of(width) {
                    sum = T::NOTHING;
                }
                let row = at / width;
                let end = ((row + 1) * width).min(piece.end);
                let own = at - piece.start..end - piece.start;
                if running(&x[own.clone()], &mut sum, &mut held[own]) {
                    self.fail(part.first + row);
                }
                at = end;
            }
            let bytes = (piece.start - first) * size..(piece.end - first) * size;
            self.store((part, nulls), None, piece, held, &mut out[bytes]);
        }
    }

    /// Sums along rows whose columns lie by themselves.
    fn across(
        &self,
        part: &Part<'_, T>,
        nulls: &ChunkNulls,
        rows: Range<usize>,
        out: &mut [&mut [u8]],
        workspace: &mut Workspace<T>,
    ) {
        let size = self.writer.size;
        let Workspace { scratch, held, sums } = workspace;
        for piece in steps(rows.clone(), TILE) {
            sums.clear();
            memory::resize(sums, piece.len(), T::NOTHING);
            for (c, out) in out.iter_mut().enumerate() {
                let x = part.column(c, piece.clone(), T::NEUTRAL, scratch);
                memory::resize(held, piece.len(), T::default());
                if let Some(row) = running_columns(x, sums, held) {
                    self.fail(part.first + piece.start + row);
                }
                let bytes = (piece.start - rows.start) * size..(piece.end - rows.start) * size;
                self.store((part, nulls), Some(c), piece.clone(), held, &mut out[bytes]);
            }
        }
    }

    /// Sums down columns that lie by themselves, each through all parts.
    fn down_each(&self, columns: Vec<Vec<Task<'_, '_, T>>>) -> Result<()> {
        let size = self.writer.size;
        run::each_while(&self.plan, columns, Workspace::default, |workspace, parts, go_on| {
            let Workspace { scratch, held, .. } = workspace;
            let mut sum = T::NOTHING;
            for Task { part, nulls, rows, columns, mut out } in parts {
                let Some(out) = out.first_mut() else { continue };
                for piece in steps(rows, TILE) {
                    if !go_on() {
                        return;
                    }
                    let x = part.column(columns.start, piece.clone(), T::NEUTRAL, scratch);
                    memory::resize(held, piece.len(), T::default());
                    let before = sum;
                    if running(x, &mut sum, held) {
                        self.fail(part.first + piece.start + first_failure(x, before));
                    }
                    let out = &mut out[piece.start * size..piece.end * size];
                    self.store((part, nulls), Some(columns.start), piece, held, out);
                }
            }
        })
    }

    /// Sums down the columns of rows that lie one behind the other.
    fn down_all(&self, parts: Vec<Task<'_, '_, T>>) -> Result<()> {
        let size = self.writer.size;
        run::each_while(&self.plan, vec![parts], Workspace::default, |workspace, parts, go_on| {
            let Workspace { scratch, held, sums } = workspace;
            memory::resize(sums, self.x.width(), T::NOTHING);
            for Task { part, nulls, rows, mut out, .. } in parts {
                let (Some(out), width @ 1..) = (out.first_mut(), part.width) else { continue };
                // Rows may be wider than a tile.
                let across = width.min(TILE);
                for rows in steps(rows, (TILE / across).max(1)) {
                    for columns in steps(0..width, across) {
                        if !go_on() {
                            return;
                        }
                        let first = rows.start * width + columns.start;
                        let elements = first..(rows.end - 1) * width + columns.end;
                        let x = part.flat(elements.clone(), T::NEUTRAL, scratch);
                        memory::resize(held, elements.len(), T::default());
                        let sums = &mut sums[columns];
                        let lines = x.chunks(width).zip(held.chunks_mut(width));
                        for (row, (x, held)) in rows.clone().zip(lines) {
                            if running_columns(x, sums, held).is_some() {
                                self.fail(part.first + row);
                            }
                        }
                        let out = &mut out[elements.start * size..elements.end * size];
                        self.store((part, nulls), None, elements, held, out);
                    }
                }
            }
        })
    }
}

/// The first element whose sum, after `sum`, did not fit.
fn first_failure<T: Accumulate>(x: &[T], mut sum: T::Sum) -> usize {
    let mut out = [T::default()];
    x.iter().position(|x| running(&[*x], &mut sum, &mut out)).unwrap_or(0)
}
