//! The driver of products and distances: splits the result into tasks, and writes what is made.
//!
//! ```text
//! for each task, rows × columns of the result:
//!     fetch the rows of x, prepare them           norms, unit vectors
//!     for each block of columns that the maker wants:
//!         make a few rows; clear nulls; write them, and if x is on both sides their mirror
//! ```

use std::ops::Range;

use arrow_buffer::NullBuffer;

use super::super::contiguous::RowWorkspace;
use super::super::real_type;
use crate::buffer::{Output, collected, vec_with_capacity};
use crate::dispatch::{Plan, run};
use crate::error::{Error, Result};
use crate::kernel::Element;
use crate::matrix::{self, Bits, Matrix, Number, Writer, steps};
use crate::memory;

/// How rows of a result are made.
pub(super) trait Make: Sync {
    /// The type that elements of `x` are read in.
    type X: Number;
    /// The type of results, before they are stored.
    type Out: Number;
    /// Workspace that a thread keeps.
    type Workspace: Default;

    /// Columns that are made at once. Blocks begin at its multiples.
    fn column_step(&self) -> usize;

    /// Makes ready for the rows of a task, whose elements are `x`.
    fn prepare(&self, _workspace: &mut Self::Workspace, _rows: Range<usize>, _x: &[Self::X]) {}

    /// Makes a block of columns of the rows that were prepared, and gives the rows to `sink`,
    /// counted from the first of the task, a few at a time; not all if it is not to go on.
    #[allow(clippy::type_complexity, reason = "rows and their results")]
    fn block(
        &self,
        workspace: &mut Self::Workspace,
        x: (&[Self::X], usize),
        columns: Range<usize>,
        go_on: &dyn Fn() -> bool,
        sink: &mut dyn FnMut(Range<usize>, &mut [Self::Out]),
    );

    /// Rows prepared so far that have no result.
    fn missing(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// A call that is planned: a result with a row for each of `x`.
pub(super) struct Blocks<'a> {
    pub(super) x: &'a Matrix,
    pub(super) columns: usize,
    /// Whether the columns are the rows of `x` again, and a score does not ask which came first.
    pub(super) is_symmetric: bool,
    /// Rows and columns that are null.
    pub(super) nulls: (Option<NullBuffer>, Option<NullBuffer>),
    pub(super) plan: Plan,
}

/// Rows of a task: enough that packing the other side costs little where it is packed for each.
const ROWS: usize = 512;

/// The smallest rows of a task, and columns if there are too few rows for the threads.
const LEAST_ROWS: usize = 32;
const LEAST_COLUMNS: usize = 64;

/// A part of the result.
struct Task<'t> {
    rows: Range<usize>,
    columns: Range<usize>,
    out: Cells<'t>,
    /// The same part with rows and columns exchanged.
    mirror: Option<Vec<&'t mut [u8]>>,
}

/// The bytes of a part of the result.
enum Cells<'t> {
    /// Whole rows, one behind the other.
    Rows(&'t mut [u8]),
    /// Some columns: a slice for each row.
    Columns(Vec<&'t mut [u8]>),
}

impl Blocks<'_> {
    /// Makes the result.
    pub(super) fn run<M: Make>(self, make: &M) -> Result<Matrix> {
        let Self { x, columns, is_symmetric, nulls, plan } = self;
        let rows = x.rows();
        let to = real_type(x.element_type()).clone();
        let writer = M::Out::writer(&to).ok_or_else(|| matrix::unaccepted(&to))?;
        let too_large = |limit| Error::TooLarge { rows, width: columns, limit };
        i32::try_from(columns).map_err(|_| too_large("a fixed-size list"))?;
        let bytes = rows.checked_mul(columns).and_then(|n| n.checked_mul(writer.size));
        let bytes = bytes.ok_or_else(|| too_large("the address space"))?;
        let mut out = Output::<u8>::new(bytes)?;
        let view = x.view::<M::X>()?;
        let step = make.column_step();
        let shape = (rows, columns, writer.size);
        // Mirrored blocks are as wide as they are high; a task that makes one block is not worth it.
        let tasks = if is_symmetric && rows > step {
            halves(&mut out, shape, step)?
        } else {
            parts(&mut out, shape, plan.threads, step)?
        };
        let workspace = || (RowWorkspace::default(), M::Workspace::default(), Vec::new());
        run::each_while(&plan, tasks, workspace, |(held, workspace, turned), task, go_on| {
            let Task { rows, columns, mut out, mut mirror } = task;
            let x = (held.block(&view, rows.clone()), rows.len());
            make.prepare(workspace, rows.clone(), x.0);
            for some in steps(columns.clone(), step) {
                if !go_on() {
                    return;
                }
                let within = some.start - columns.start..some.end - columns.start;
                make.block(workspace, x, some.clone(), go_on, &mut |made_rows, made| {
                    let first = rows.start + made_rows.start;
                    clear(&nulls, first..first + made_rows.len(), some.clone(), made);
                    out.write(&writer, columns.len(), made_rows.start, within.clone(), made);
                    if let Some(mirror) = &mut mirror {
                        write_turned(&writer, mirror, made_rows, some.len(), made, turned);
                    }
                });
            }
        })?;
        let missing = matrix::null_at(rows, &make.missing())?;
        let row_nulls = matrix::union(nulls.0, missing)?;
        let elements = match nulls.1.as_ref().map(Bits::new) {
            Some(of_row) => Some(matrix::from_bits(rows * columns, |i| of_row.get(i % columns))?),
            None => None,
        };
        Matrix::of_lists(to, rows, columns, out.into_buffer(), elements, row_nulls)
    }
}

/// Rows, columns and the bytes of an element of a result.
type Shape = (usize, usize, usize);

/// Tasks of whole rows; of some columns each where there are too few rows for the threads.
fn parts(
    out: &mut [u8],
    (rows, columns, size): Shape,
    threads: usize,
    block: usize,
) -> Result<Vec<Task<'_>>> {
    let row_step = rows.div_ceil(4 * threads).clamp(LEAST_ROWS, ROWS);
    let column_step = if rows.div_ceil(row_step) < threads {
        columns.div_ceil(2 * threads).clamp(LEAST_COLUMNS, columns.max(LEAST_COLUMNS))
    } else {
        columns.max(1)
    };
    let mut tasks = Vec::new();
    if column_step >= columns {
        let mut rest = out;
        for rows in steps(0..rows, row_step) {
            let (out, after) = rest.split_at_mut(rows.len() * columns * size);
            let out = Cells::Rows(out);
            memory::push(&mut tasks, Task { rows, columns: 0..columns, out, mirror: None });
            rest = after;
        }
        return Ok(tasks);
    }
    let column_step = column_step.next_multiple_of(block);
    let mut cells = cut(out, (rows, columns, size), column_step)?.into_iter();
    for rows in steps(0..rows, row_step) {
        let first = tasks.len();
        for columns in steps(0..columns, column_step) {
            let out = Cells::Columns(vec_with_capacity(rows.len())?);
            memory::push(&mut tasks, Task { rows: rows.clone(), columns, out, mirror: None });
        }
        for _ in rows {
            for task in &mut tasks[first..] {
                if let (Cells::Columns(out), Some(cell)) = (&mut task.out, cells.next()) {
                    memory::push(out, cell);
                }
            }
        }
    }
    Ok(tasks)
}

/// Tasks of a square result that is its own mirror: the blocks of `step` rows and columns on the
/// diagonal, and those right of it, which are written to their mirrors' cells too.
fn halves(out: &mut [u8], (rows, columns, size): Shape, step: usize) -> Result<Vec<Task<'_>>> {
    let blocks: Vec<Range<usize>> = collected(steps(0..columns, step))?;
    let mut cells = cut(out, (rows, columns, size), step)?.into_iter();
    let mut tasks: Vec<Task<'_>> = Vec::new();
    // Where the task of a row of blocks and a block of columns is.
    let at = |i: usize, j: usize| i * blocks.len() - i * (i + 1) / 2 + j;
    for (i, rows) in blocks.iter().enumerate() {
        for (j, columns) in blocks.iter().enumerate().skip(i) {
            let out = Cells::Columns(vec_with_capacity(rows.len())?);
            let mirror = if i < j { Some(vec_with_capacity(columns.len())?) } else { None };
            let (rows, columns) = (rows.clone(), columns.clone());
            memory::push(&mut tasks, Task { rows, columns, out, mirror });
        }
    }
    for (i, rows) in blocks.iter().enumerate() {
        for _ in rows.clone() {
            for j in 0..blocks.len() {
                let Some(cell) = cells.next() else { continue };
                let task = &mut tasks[at(i.min(j), i.max(j))];
                match (&mut task.out, &mut task.mirror) {
                    (_, Some(mirror)) if j < i => memory::push(mirror, cell),
                    (Cells::Columns(out), _) => memory::push(out, cell),
                    (Cells::Rows(_), _) => {}
                }
            }
        }
    }
    Ok(tasks)
}

/// Every row of a result cut into cells of `step` columns.
fn cut(out: &mut [u8], shape: Shape, step: usize) -> Result<Vec<&mut [u8]>> {
    let (rows, columns, size) = shape;
    let mut cells = vec_with_capacity(rows * columns.div_ceil(step))?;
    for row in out.chunks_exact_mut((columns * size).max(1)) {
        memory::extend(&mut cells, row.chunks_mut(step * size));
    }
    Ok(cells)
}

impl Cells<'_> {
    /// Writes rows from `first` on, of some of the task's `width` columns.
    fn write<O: Number>(
        &mut self,
        writer: &Writer<O>,
        width: usize,
        first: usize,
        columns: Range<usize>,
        made: &[O],
    ) {
        let size = writer.size;
        match self {
            Self::Rows(out) if columns.len() == width => {
                let at = first * width * size;
                writer.write(made, &mut out[at..at + made.len() * size]);
            }
            Self::Rows(out) => {
                for (row, made) in (first..).zip(made.chunks_exact(columns.len())) {
                    let at = (row * width + columns.start) * size;
                    writer.write(made, &mut out[at..at + made.len() * size]);
                }
            }
            Self::Columns(out) => {
                for (out, made) in out[first..].iter_mut().zip(made.chunks_exact(columns.len())) {
                    writer.write(made, &mut out[columns.start * size..columns.end * size]);
                }
            }
        }
    }
}

/// Writes rows of a block, `width` columns wide, to the columns of its mirror.
fn write_turned<O: Number>(
    writer: &Writer<O>,
    mirror: &mut [&mut [u8]],
    rows: Range<usize>,
    width: usize,
    made: &[O],
    turned: &mut Vec<O>,
) {
    let count = rows.len();
    turned.clear();
    memory::reserve(turned, made.len());
    for column in 0..width {
        memory::extend(turned, made[column..].iter().step_by(width).copied());
    }
    for (out, made) in mirror.iter_mut().zip(turned.chunks_exact(count)) {
        writer.write(made, &mut out[rows.start * writer.size..rows.end * writer.size]);
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
    if of_rows.is_none() && of_columns.is_none() {
        return;
    }
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
