//! What is null, and what is not: nulls asked for, filled, or made of NaN.

use std::ops::Range;

use arrow_schema::DataType;
use pulp::bytemuck::Zeroable;

use super::call::{self, Call, Driven, Held, Pass};
use super::operand::Aligned;
use super::{Operand, Value, with_wide};
use crate::buffer::Output;
use crate::dispatch::{Family, Plan, Work, run};
use crate::error::Result;
use crate::matrix::{
    self, Bits, ChunkNulls, Like, Matrix, Number, Part, Scratch, TILE, size_of_element, steps,
};
use crate::memory::{self, Gather as _};

/// What is done with nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Whether each element is null.
    IsNull,
    /// Another value in place of each null.
    FillNull,
    /// Null in place of each NaN.
    NanToNull,
}

impl Choice {
    /// The type of the results.
    pub(super) fn result_type(self, element: &DataType) -> DataType {
        match self {
            Self::IsNull => DataType::Boolean,
            Self::FillNull | Self::NanToNull => element.clone(),
        }
    }
}

/// Whether each element is null; none of the results is. A null row has no elements to ask for and
/// stays null, as it must where the lists of a column have no length but their own.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, BooleanArray, Float64Array, cast::AsArray};
/// use raptors_arrow::{Matrix, compute::is_null};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
/// let flags = is_null(&Matrix::try_from(&x)?)?.to_arrays()?;
/// assert_eq!(flags[0].as_boolean(), &BooleanArray::from(vec![false, true]));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`](crate::Error::Type) unless the elements are numbers.
pub fn is_null(x: &Matrix) -> Result<Matrix> {
    execute("is_null", Choice::IsNull, x, None)
}

/// `value`, a number, a row, a column or a matrix, in place of each null element. Where it is
/// null as well, the result is; a null row stays null, as for [`is_null`].
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::fill_null};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
/// let filled = fill_null(&Matrix::try_from(&x)?, 0.0)?.to_arrays()?;
/// assert_eq!(filled[0].as_primitive::<Float64Type>(), &Float64Array::from(vec![1.5, 0.0]));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`](crate::Error::Type) unless the elements are numbers, and the errors of a value
/// whose type or shape does not fit.
pub fn fill_null<'a>(x: &Matrix, value: impl Into<Operand<'a>>) -> Result<Matrix> {
    execute("fill_null", Choice::FillNull, x, Some(value.into()))
}

/// Null in place of each NaN.
///
/// # Errors
///
/// As [`is_null`].
pub fn nan_to_null(x: &Matrix) -> Result<Matrix> {
    execute("nan_to_null", Choice::NanToNull, x, None)
}

fn execute(
    function: &'static str,
    choice: Choice,
    x: &Matrix,
    value: Option<Operand<'_>>,
) -> Result<Matrix> {
    let call = Choose { choice, x: Held::Borrowed(x), value };
    call::execute(function, &call)?.into_matrix()
}

/// The call of a function of the table.
pub(super) fn bind<'a>(choice: Choice, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let value = (call.function.arguments.len() > 1).then(|| call.operand(1)).transpose()?;
    Ok(Box::new(Choose { choice, x: call.matrix(0)?, value }))
}

struct Choose<'a> {
    choice: Choice,
    x: Held<'a>,
    value: Option<Operand<'a>>,
}

const VALUE: &str = "value";

impl Driven for Choose<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let x = &self.x;
        let size = size_of_element(&self.choice.result_type(x.element_type())).unwrap_or(8);
        let elements = x.rows().saturating_mul(x.width());
        let work = Work {
            family: Family::Elementwise,
            // Of what is asked for its nulls, no values are read.
            bytes_read: if self.choice == Choice::IsNull {
                elements.div_ceil(8)
            } else {
                x.bytes()
            },
            bytes_written: elements.saturating_mul(size),
            has_vdsp: false,
        };
        let convert = self.value.as_ref().and_then(|value| value.conversion(x));
        convert.into_iter().chain([("choose", work)]).gather()
    }

    fn run(&self, mut passes: &[Pass]) -> Result<Value> {
        let mut value = self.value.clone();
        let x = match &mut value {
            Some(value) => {
                value.convert(VALUE, &self.x, &mut passes).map_err(|error| error.about(VALUE))?;
                value.fitted(&self.x)?
            }
            None => Held::Borrowed(&*self.x),
        };
        let plan = passes[0].plan;
        with_wide!(x.element_type(), T => {
            let value = match &value {
                Some(value) => value.align::<T>(&x).map_err(|error| error.about(VALUE))?,
                None => Aligned::Scalar(T::zeroed()),
            };
            Chosen { choice: self.choice, x: &x, value, plan }.run()
        })
        .map(Value::Matrix)
    }
}

/// A call that is planned.
struct Chosen<'a, T: Number> {
    choice: Choice,
    x: &'a Matrix,
    /// What stands in place of nulls.
    value: Aligned<'a, T>,
    plan: Plan,
}

/// A run of elements that lie one behind the other, in a part or in one column of it.
struct Task<'t, 'a, T: Number> {
    part: &'t Part<'a, T>,
    nulls: &'t ChunkNulls,
    column: Option<usize>,
    first: usize,
    out: &'t mut [u8],
    /// 1 for each NaN, where they are asked for.
    is_nan: &'t mut [u8],
}

impl<T: Number> Chosen<'_, T> {
    fn run(&self) -> Result<Matrix> {
        let x = self.x;
        let view = x.view::<T>()?;
        let to = self.choice.result_type(x.element_type());
        let size = size_of_element(&to).unwrap_or(8);
        let mut result = Like::new(x, &to, size)?;
        let own = view.parts.iter().map(|part| self.own_nulls(part));
        let own: Vec<ChunkNulls> = own.try_gather()?;
        let nans = |part: &Part<'_, T>| {
            let len = if self.choice == Choice::NanToNull { part.rows * part.width } else { 0 };
            Output::<u8>::new(len)
        };
        let mut is_nan: Vec<Output<u8>> = view.parts.iter().map(nans).try_gather()?;
        let step = (self.plan.task_bytes / (2 * std::mem::size_of::<T>())).next_multiple_of(TILE);
        let mut tasks = Vec::new();
        let parts = view.parts.iter().zip(&own).zip(&mut is_nan);
        for (((part, nulls), is_nan), runs) in parts.zip(result.runs()) {
            let mut is_nan = &mut is_nan[..];
            for (column, out) in runs {
                for (i, out) in out.chunks_mut(step * size).enumerate() {
                    let len = is_nan.len().min(out.len() / size);
                    let (flags, rest) = std::mem::take(&mut is_nan).split_at_mut(len);
                    is_nan = rest;
                    let (first, is_nan) = (i * step, flags);
                    memory::push(&mut tasks, Task { part, nulls, column, first, out, is_nan });
                }
            }
        }
        run::each(&self.plan, tasks, Default::default, |workspace, task| {
            self.run_task(task, size, workspace);
        })?;
        let parts = view.parts.iter().zip(own).zip(&is_nan);
        let nulls = parts.map(|((part, own), is_nan)| self.nulls(part, own, is_nan));
        // A null list inside a row has elements now.
        result.finish(nulls, self.choice != Choice::NanToNull)
    }

    fn own_nulls(&self, part: &Part<'_, T>) -> Result<ChunkNulls> {
        let (x, rows) = (self.x, part.first..part.first + part.rows);
        let elements = if part.is_by_columns() {
            let column = |c| x.column_nulls(c, rows.clone());
            (0..part.width).map(column).try_gather()?
        } else {
            vec![x.element_nulls(rows.clone())?]
        };
        Ok(ChunkNulls { rows: x.row_nulls(rows)?, elements })
    }

    fn run_task(
        &self,
        task: Task<'_, '_, T>,
        size: usize,
        (scratch, held): &mut (Scratch<T>, Scratch<T>),
    ) {
        let Task { part, nulls, column, first, out, is_nan } = task;
        for piece in steps(0..out.len() / size, TILE) {
            let bytes = &mut out[piece.start * size..piece.end * size];
            let elements = first + piece.start..first + piece.end;
            if self.choice == Choice::IsNull {
                bytes.fill(0);
                each_null(part.width, nulls, column, elements.clone(), |i, is_row| {
                    bytes[i - elements.start] = u8::from(!is_row);
                });
                continue;
            }
            held.clear();
            memory::reserve(held, piece.len());
            let x = part.raw(column, elements.clone(), scratch);
            held.extend(x.iter().map(|x| x.canonical()));
            if self.choice == Choice::NanToNull {
                for (flag, x) in is_nan[piece].iter_mut().zip(&mut *held) {
                    *flag = u8::from(x.is_nan());
                    *x = if x.is_nan() { T::zeroed() } else { *x };
                }
            }
            each_null(part.width, nulls, column, elements.clone(), |i, is_row| {
                let value = if is_row { None } else { self.value_at(part, column, i) };
                held[i - elements.start] = value.unwrap_or(T::zeroed());
            });
            if let Some(writer) = T::writer(self.x.element_type()) {
                writer.write(held, bytes);
            }
        }
    }

    /// The value for element `i` of a part, or of one of its columns; `None` if that is null.
    fn value_at(&self, part: &Part<'_, T>, column: Option<usize>, i: usize) -> Option<T> {
        let (row, column) = match column {
            Some(column) => (part.first + i, column),
            None => (part.first + i / part.width, i % part.width),
        };
        let read = |part: &Part<'_, T>, row: usize, column: usize| {
            let mut scratch = Scratch::new();
            let at = row * part.width + column;
            let is_valid = part.is_valid(row, column);
            is_valid.then(|| part.flat(at..at + 1, T::zeroed(), &mut scratch)[0].canonical())
        };
        match &self.value {
            Aligned::Scalar(value) => Some(*value),
            Aligned::Row(values, y) => {
                let is_valid = !y.has_nulls() || {
                    let (row, column) = (column / y.width(), column % y.width());
                    let view = y.view::<T>().ok()?;
                    view.rows(row..row + 1).all(|(part, rows)| part.is_valid(rows.start, column))
                };
                is_valid.then(|| values[column].canonical())
            }
            Aligned::Column(view, _) => {
                let (row, column) = (row / view.width, row % view.width);
                let (part, rows) = view.rows(row..row + 1).next()?;
                read(part, rows.start, column)
            }
            Aligned::Matrix(view, _) => {
                let (part, rows) = view.rows(row..row + 1).next()?;
                read(part, rows.start, column)
            }
        }
    }

    /// The nulls of the results of a part.
    fn nulls(&self, part: &Part<'_, T>, own: ChunkNulls, is_nan: &[u8]) -> Result<ChunkNulls> {
        let columns = own.elements.len();
        let len = if part.is_by_columns() { part.rows } else { part.rows * part.width };
        match self.choice {
            Choice::IsNull => {
                Ok(ChunkNulls { rows: own.rows, elements: memory::filled(None, columns) })
            }
            Choice::NanToNull => {
                let elements = own.elements.into_iter().enumerate().map(|(c, own)| {
                    let is_nan = &is_nan[c * len..(c + 1) * len];
                    let more = if is_nan.contains(&1) {
                        Some(matrix::from_bits(len, |i| is_nan[i] == 0)?)
                    } else {
                        None
                    };
                    matrix::union(own, more)
                });
                let elements = elements.try_gather()?;
                Ok(ChunkNulls { rows: own.rows, elements })
            }
            Choice::FillNull => {
                let has_nulls = match &self.value {
                    Aligned::Scalar(_) => false,
                    Aligned::Row(_, y) | Aligned::Column(_, y) | Aligned::Matrix(_, y) => {
                        y.has_nulls()
                    }
                };
                if !has_nulls {
                    return Ok(ChunkNulls {
                        rows: own.rows,
                        elements: memory::filled(None, columns),
                    });
                }
                let elements = (0..columns).map(|c| {
                    let column = part.is_by_columns().then_some(c);
                    let is_valid = |i: usize| {
                        !own.is_null(part.width, column, i)
                            || self.value_at(part, column, i).is_some()
                    };
                    let nulls = matrix::from_bits(len, is_valid)?;
                    Ok(Some(nulls).filter(|nulls| nulls.null_count() > 0))
                });
                let elements = elements.try_gather()?;
                Ok(ChunkNulls { rows: own.rows, elements })
            }
        }
    }
}

/// Calls `f` with each of `elements` that is null, in a part or in one column of it: first those
/// that are null themselves, then, with `true`, those of null rows.
fn each_null(
    width: usize,
    nulls: &ChunkNulls,
    column: Option<usize>,
    elements: Range<usize>,
    mut f: impl FnMut(usize, bool),
) {
    if let Some(own) = nulls.of(column) {
        Bits::new(own).each_unset(elements.clone(), |i| f(i, false));
    }
    let Some(rows) = nulls.rows.as_ref().map(Bits::new) else { return };
    if column.is_some() || width == 1 {
        rows.each_unset(elements, |i| f(i, true));
        return;
    }
    rows.each_unset(elements.start / width..elements.end.div_ceil(width), |row| {
        let of_row = (row * width).max(elements.start)..((row + 1) * width).min(elements.end);
        of_row.for_each(|i| f(i, true));
    });
}
