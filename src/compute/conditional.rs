//! One of two values for each element, as a condition says.

use std::ops::Range;

use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::arithmetic::{self, Operation};
use super::call::{self, Call, Driven, Held, Pass};
use super::elementwise::{
    AtLevel, Kernel, SecondWorkspace, Stretch, combined, element_nulls, pattern, row_nulls,
};
use super::operand::Aligned;
use super::{Operand, Value, with_wide};
use crate::buffer::Output;
use crate::dispatch::{Family, Level, Plan, Store, Work, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Body, Divisor, Element, Simd};
use crate::matrix::{
    self, Bits, ChunkNulls, Like, Matrix, Number, Part, Scratch, TILE, Writer, size_of_element,
    steps,
};
use crate::memory::{self, Gather as _};

/// `x` where the condition holds, `y` elsewhere. Each is a number, a row, a column or a matrix; the
/// first of the condition, `x` and `y` that is a matrix says how many rows and columns there are,
/// and the first of `x` and `y` that is no plain number, which type they have. A condition of
/// numbers holds where they are not zero. Where it is null, or what it chooses is, the result is.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{greater, r#where}};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![1.5, -2.0, f64::NAN]));
/// let x = Matrix::try_from(&x)?;
/// let positive = r#where(&greater(&x, 0.0)?, &x, 0.0)?.to_arrays()?;
/// assert_eq!(positive[0].as_primitive::<Float64Type>().values(), &[1.5, 0.0, 0.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// The errors of operands whose type or shape does not fit.
pub fn r#where<'a>(
    condition: &'a Matrix,
    x: impl Into<Operand<'a>>,
    y: impl Into<Operand<'a>>,
) -> Result<Matrix> {
    let condition = Operand::from(condition);
    run::call("where", || {
        let call = Where::new(condition, x.into(), y.into())?;
        call::execute("where", &call)?.into_matrix()
    })
}

/// The call of a function of the table.
pub(super) fn bind<'a>(call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let [condition, x, y] = [0, 1, 2].map(|i| call.operand_of_all(i));
    let (condition, x, y) = (condition?, x?, y?);
    Ok(Box::new(Where::new(condition, x, y)?))
}

/// The type of the results of values of these types, of which plain numbers take that of the other.
pub(super) fn result_type(x: Option<&DataType>, y: Option<&DataType>, whole: bool) -> DataType {
    let given = x.or(y).map(|element| match element {
        DataType::Boolean => DataType::UInt8,
        number => number.clone(),
    });
    given.unwrap_or(if whole { DataType::Int64 } else { DataType::Float64 })
}

struct Where<'a> {
    /// What the results lie like.
    like: Matrix,
    condition: Operand<'a>,
    x: Operand<'a>,
    y: Operand<'a>,
    to: DataType,
}

impl<'a> Where<'a> {
    fn new(condition: Operand<'a>, x: Operand<'a>, y: Operand<'a>) -> Result<Self> {
        let operands = [&condition, &x, &y];
        let matrices = || operands.iter().filter_map(|operand| operand.as_matrix());
        let size = |matrix: &&Matrix| (matrix.rows().max(1), matrix.width().max(1));
        let (rows, width) = matrices()
            .map(|m| size(&m))
            .fold((0, 0), |(rows, width), (r, w)| (rows.max(r), width.max(w)));
        let is_whole = |m: &&Matrix| size(m) == (rows, width);
        let whole = matrices().find(|m| is_whole(m) && !m.is_vector());
        let like = whole.or_else(|| matrices().find(is_whole)).or_else(|| matrices().next());
        let Some(like) = like.or_else(|| operands.iter().find_map(|operand| operand.matrix()))
        else {
            let (argument, expected) = ("condition", "a matrix or an array");
            return Err(Error::Argument { argument, expected, got: "a number".to_owned() });
        };
        let like = like.clone();
        let element = |operand: &Operand<'_>| operand.element_type();
        let whole = x.is_integer() && y.is_integer();
        let to = result_type(element(&x).as_ref(), element(&y).as_ref(), whole);
        Ok(Self { like, condition, x, y, to })
    }

    /// What the operands line up with.
    fn outline(&self) -> Matrix {
        self.like.outline(&self.to)
    }

    /// The condition as a yes or no for each of its elements, which come as bytes of 1 or 0.
    fn flags(&self) -> Result<Operand<'_>> {
        let Some(condition) = self.condition.matrix() else { return Ok(self.condition.clone()) };
        let flags = match condition.element_type() {
            DataType::Boolean | DataType::UInt8 => condition.clone(),
            _ => arithmetic::execute(
                "where",
                Operation::NotEqual,
                condition,
                Some(Operand::from(0i64)),
            )?,
        };
        Ok(self.condition.with_matrix(flags.as_numbers().into_owned()))
    }
}

impl Driven for Where<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let outline = self.outline();
        let operands = [&self.condition, &self.x, &self.y];
        let size = size_of_element(&self.to).unwrap_or(8);
        let work = Work {
            family: Family::Elementwise,
            bytes_read: operands.iter().map(|operand| operand.bytes()).sum(),
            bytes_written: outline.rows().saturating_mul(outline.width()).saturating_mul(size),
            has_vdsp: false,
        };
        let converted = [&self.x, &self.y].into_iter().filter_map(|v| v.conversion(&outline));
        converted.chain([("choose", work)]).collect()
    }

    fn run(&self, mut passes: &[Pass]) -> Result<Value> {
        let outline = self.outline();
        let [mut x, mut y] = [self.x.clone(), self.y.clone()];
        for (name, value) in [("x", &mut x), ("y", &mut y)] {
            value.convert(name, &outline, &mut passes).map_err(|error| error.about(name))?;
        }
        let flags = self.flags()?;
        let mut like = Held::Borrowed(&self.like);
        for operand in [&mut x, &mut y, &mut flags.clone()] {
            // A list column without a valid row takes the width of the others.
            let fitted = operand.fitted(&like)?.into_owned();
            like = Held::Owned(fitted);
        }
        let plan = passes[0].plan;
        let outline = like.outline(&self.to);
        let of_flags = like.outline(&DataType::UInt8);
        let named = |name| move |error: Error| error.about(name);
        let condition = flags.align::<u8>(&of_flags).map_err(named("condition"))?;
        with_wide!(&self.to, T => {
            let x = x.align::<T>(&outline).map_err(named("x"))?;
            let y = y.align::<T>(&outline).map_err(named("y"))?;
            let writer = T::writer(&self.to).ok_or_else(|| matrix::unaccepted(&self.to))?;
            let level = plan.level(machine());
            Chosen { like: &like, condition, x, y, to: &self.to, writer, level, plan }.run()
        })
        .map(Value::Matrix)
    }
}

/// A call that is planned.
struct Chosen<'a, T: Number> {
    like: &'a Matrix,
    condition: Aligned<'a, u8>,
    x: Aligned<'a, T>,
    y: Aligned<'a, T>,
    to: &'a DataType,
    writer: Writer<T>,
    level: Level,
    plan: Plan,
}

/// A run of elements that lie one behind the other, in a part or in one column of it.
struct Task<'t> {
    stretch: Stretch,
    first: usize,
    out: &'t mut [u8],
    /// Which of the two each element is, where that is asked for.
    chosen: &'t mut [u8],
}

/// Workspace for an operand: its tile, what it is combined with, and pieces of it.
struct Operands<T> {
    tile: Scratch<T>,
    zeros: Scratch<T>,
    second: SecondWorkspace<T>,
}

impl<T> Default for Operands<T> {
    fn default() -> Self {
        Self { tile: Scratch::new(), zeros: Scratch::new(), second: SecondWorkspace::default() }
    }
}

impl<T: Number> Operands<T> {
    /// The elements of an operand beside those of a stretch.
    fn tile(
        &mut self,
        level: Level,
        y: (&Aligned<'_, T>, &[T]),
        stretch: Stretch,
        elements: Range<usize>,
    ) -> &[T] {
        let Self { tile, zeros, second } = self;
        memory::resize(tile, elements.len(), T::default());
        memory::resize(zeros, elements.len(), T::default());
        let kernel: &dyn Kernel<T> =
            &AtLevel { op: Divisor, vendor: None, level, store: Store::Cached };
        combined(kernel, &zeros[..], y, stretch, elements, second, tile);
        tile
    }
}

struct Workspace<T> {
    condition: Operands<u8>,
    x: Operands<T>,
    y: Operands<T>,
    out: Scratch<T>,
}

impl<T> Default for Workspace<T> {
    fn default() -> Self {
        let (condition, out) = (Operands::default(), Scratch::new());
        Self { condition, x: Operands::default(), y: Operands::default(), out }
    }
}

/// Which rows and elements of an operand are null, in one run of a part.
struct Missing {
    rows: Option<NullBuffer>,
    elements: Option<NullBuffer>,
}

impl Missing {
    fn of<T: Number>(y: &Aligned<'_, T>, part: &Part<'_, f64>, c: Option<usize>) -> Result<Self> {
        let rows = part.first..part.first + part.rows;
        let elements = element_nulls(y, rows.clone(), part.width, c)?;
        Ok(Self { rows: row_nulls(y, rows)?, elements })
    }

    fn row(&self, row: usize) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.is_null(row))
    }

    fn element(&self, row: usize, i: usize) -> bool {
        self.row(row) || self.elements.as_ref().is_some_and(|elements| elements.is_null(i))
    }
}

impl<T: Number> Chosen<'_, T> {
    fn has_nulls(&self) -> bool {
        fn of<T: Number>(y: &Aligned<'_, T>) -> bool {
            y.as_matrix().is_some_and(Matrix::has_nulls)
        }
        of(&self.condition) || of(&self.x) || of(&self.y)
    }

    fn run(&self) -> Result<Matrix> {
        // Any type is read as float64; here it is asked how rows lie, and no element is read.
        let view = self.like.view::<f64>()?;
        let size = self.writer.size;
        let mut result = Like::new(self.like, self.to, size)?;
        let has_nulls = self.has_nulls();
        let flags = |part: &Part<'_, f64>| {
            Output::<u8>::new(if has_nulls { part.rows * part.width } else { 0 })
        };
        let mut chosen: Vec<Output<u8>> = view.parts.iter().map(flags).try_gather()?;
        let step = (self.plan.task_bytes / (4 * size_of::<T>())).next_multiple_of(TILE);
        let mut tasks = Vec::new();
        for ((part, chosen), runs) in view.parts.iter().zip(&mut chosen).zip(result.runs()) {
            let mut rest = &mut chosen[..];
            for (column, out) in runs {
                let stretch = Stretch { first: part.first, width: part.width, column };
                for (i, out) in out.chunks_mut(step * size).enumerate() {
                    let len = rest.len().min(out.len() / size);
                    let (chosen, others) = std::mem::take(&mut rest).split_at_mut(len);
                    rest = others;
                    memory::push(&mut tasks, Task { stretch, first: i * step, out, chosen });
                }
            }
        }
        let patterns = (pattern(&self.condition), pattern(&self.x), pattern(&self.y));
        run::each(&self.plan, tasks, Workspace::default, |workspace, task| {
            self.run_task(task, (&patterns.0, &patterns.1, &patterns.2), workspace);
        })?;
        if !has_nulls {
            let none = |part: &Part<'_, f64>| {
                let columns = if part.is_by_columns() { part.width } else { 1 };
                Ok(ChunkNulls { rows: None, elements: memory::filled(None, columns) })
            };
            return result.finish(view.parts.iter().map(none), false);
        }
        let parts = view.parts.iter().zip(&chosen);
        let nulls = parts.map(|(part, chosen)| self.nulls(part, chosen));
        let nulls: Vec<ChunkNulls> = nulls.try_gather()?;
        // Values under nulls never leave.
        for ((part, nulls), runs) in view.parts.iter().zip(&nulls).zip(result.runs()) {
            for (column, out) in runs {
                let width = if column.is_some() { 1 } else { part.width };
                if let Some(elements) = nulls.of(column) {
                    let all = 0..out.len() / size;
                    Bits::new(elements).each_unset(all, |i| out[i * size..][..size].fill(0));
                }
                if let Some(rows) = &nulls.rows {
                    let bytes = width * size;
                    Bits::new(rows)
                        .each_unset(0..part.rows, |row| out[row * bytes..][..bytes].fill(0));
                }
            }
        }
        result.finish(nulls.into_iter().map(Ok), true)
    }

    fn run_task(
        &self,
        task: Task<'_>,
        patterns: (&[u8], &[T], &[T]),
        workspace: &mut Workspace<T>,
    ) {
        let Task { stretch, first, out, chosen } = task;
        let size = self.writer.size;
        for piece in steps(0..out.len() / size, TILE) {
            let bytes = &mut out[piece.start * size..piece.end * size];
            let elements = first + piece.start..first + piece.end;
            let Workspace { condition, x, y, out: held } = &mut *workspace;
            let of_condition = (&self.condition, patterns.0);
            let condition = condition.tile(self.level, of_condition, stretch, elements.clone());
            let x = x.tile(self.level, (&self.x, patterns.1), stretch, elements.clone());
            let y = y.tile(self.level, (&self.y, patterns.2), stretch, elements);
            memory::resize(held, piece.len(), T::default());
            self.level.run(Choose { condition, x, y, out: held });
            self.writer.write(held, bytes);
            if !chosen.is_empty() {
                chosen[piece].copy_from_slice(condition);
            }
        }
    }

    /// The nulls of the results of a part, of which each element was chosen so.
    fn nulls(&self, part: &Part<'_, f64>, chosen: &[u8]) -> Result<ChunkNulls> {
        let by_columns = part.is_by_columns();
        let (rows, width) = (part.rows, part.width);
        let columns = if by_columns { width } else { 1 };
        let len = if by_columns { rows } else { rows * width };
        let mut elements = memory::with_capacity(columns);
        // Where the condition is null, in each run: what lies there chooses nothing.
        let mut unknown = memory::with_capacity(columns);
        let missing = |c: Option<usize>| -> Result<[Missing; 3]> {
            let condition = Missing::of(&self.condition, part, c)?;
            Ok([condition, Missing::of(&self.x, part, c)?, Missing::of(&self.y, part, c)?])
        };
        for c in 0..columns {
            let [condition, x, y] = missing(by_columns.then_some(c))?;
            let chosen = &chosen[c * len..(c + 1) * len];
            let is_valid = |i: usize| {
                let row = if by_columns { i } else { i / width };
                let value = if chosen[i] != 0 { &x } else { &y };
                !condition.element(row, i) && !value.element(row, i)
            };
            let nulls = matrix::from_bits(len, is_valid)?;
            elements.push(Some(nulls).filter(|nulls| nulls.null_count() > 0));
            unknown.push(condition);
        }
        // A row is null where the condition is, or all that it chose lies in null rows.
        let all = || part.first..part.first + rows;
        let condition = row_nulls(&self.condition, all())?;
        let (x, y) = (row_nulls(&self.x, all())?, row_nulls(&self.y, all())?);
        let is_missing = |nulls: &Option<NullBuffer>, row: usize| {
            nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
        };
        let is_valid = |row: usize| {
            let at = |c: usize| chosen[if by_columns { c * rows + row } else { row * width + c }];
            let is_unknown = |c: usize| match by_columns {
                true => unknown[c].element(row, row),
                false => unknown[0].element(row, row * width + c),
            };
            let is_null = |c: usize| is_missing(if at(c) != 0 { &x } else { &y }, row);
            let is_there = |c: usize| is_unknown(c) || !is_null(c);
            let any = match width {
                0 => !is_missing(&x, row) || !is_missing(&y, row),
                width => (0..width).any(is_there),
            };
            any && !is_missing(&condition, row)
        };
        let nulls = matrix::from_bits(rows, is_valid)?;
        Ok(ChunkNulls { rows: Some(nulls).filter(|nulls| nulls.null_count() > 0), elements })
    }
}

struct Choose<'a, T> {
    condition: &'a [u8],
    x: &'a [T],
    y: &'a [T],
    out: &'a mut [T],
}

impl<T: Element> Body for Choose<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let values = self.x.iter().zip(self.y);
        for ((out, flag), (x, y)) in self.out.iter_mut().zip(self.condition).zip(values) {
            *out = if *flag != 0 { *x } else { *y }.canonical();
        }
    }
}
