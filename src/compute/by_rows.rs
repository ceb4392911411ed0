//! Makes a matrix from a matrix, a block of rows at a time, while the block is in the cache.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use arrow_schema::DataType;
use pulp::bytemuck;

use crate::buffer::collected;
use crate::dispatch::{Family, Level, Plan, Store, Work, machine, run, simd};
use crate::error::Result;
use crate::kernel::{Element, Tile};
use crate::matrix::{self, ChunkNulls, Like, Matrix, Number, Part, Scratch, Writer, steps};
use crate::memory::{self, Gather as _};

/// What is done to a block of rows.
pub(super) trait Block<T, O>: Sync {
    /// Memory that a thread keeps.
    type Workspace: Default + 'static;
    /// What stands in place of a null.
    fn fill(&self) -> T;
    /// Whether tiles must say which elements are valid.
    const NEEDS_VALIDITY: bool;
    /// Whether a row with any null gives a null row.
    const WHOLE_ROWS: bool;
    /// Writes the results of some rows, and says which have none.
    fn run(&self, rows: BlockRows<'_, T, O>, workspace: &mut Self::Workspace);
}

/// Rows, and where their results go.
pub(super) struct BlockRows<'a, T, O> {
    pub(super) level: Level,
    pub(super) tile: Tile<'a, T>,
    /// Elements of each row.
    pub(super) width: usize,
    pub(super) out: &'a mut [O],
    /// Which rows have no result: none of them at first.
    pub(super) missing: &'a mut [bool],
}

/// Elements of a block: with input and output, some of them in float64, half of an L2.
const BLOCK: usize = 8192;

/// Bytes that such a function moves, whose results are stored as `to`.
pub(super) fn work(x: &Matrix, to: &DataType) -> Work {
    let size = matrix::size_of_element(to).unwrap_or(8);
    Work {
        family: Family::Elementwise,
        bytes_read: x.bytes(),
        bytes_written: x.rows().saturating_mul(x.width()).saturating_mul(size),
        has_vdsp: false,
    }
}

/// Runs `block` over all rows; the results are made as `O` and stored as `to`. Columns that are
/// `dead` are null throughout.
pub(super) fn by_rows<T: Number, O: Number, B: Block<T, O>>(
    x: &Matrix,
    to: &DataType,
    block: &B,
    dead: Option<&[bool]>,
    plan: Plan,
) -> Result<Matrix> {
    let writer = O::writer(to).ok_or_else(|| matrix::unaccepted(to))?;
    let view = x.view::<T>()?;
    let (width, size) = (x.width(), writer.size);
    let mut result = Like::new(x, to, size)?;
    let row_bytes = (width * (std::mem::size_of::<T>() + size)).max(1);
    let rows_per_task = (plan.task_bytes / row_bytes).max(1);
    let missing = Mutex::new(Vec::new());
    let mut tasks = Vec::new();
    for (part, runs) in view.parts.iter().zip(result.runs()) {
        let of_part = split(part, runs, rows_per_task, size);
        memory::extend(&mut tasks, of_part);
    }
    let rows = By { width, writer, plan, block, missing: &missing };
    run::each(&plan, tasks, BlockWorkspace::default, |workspace, task| {
        rows.run_task(task, workspace);
    })?;
    let missing = missing.into_inner().unwrap_or_else(PoisonError::into_inner);
    let nulls = view.parts.iter().map(|part| nulls::<T, B, O>(x, part, &missing, dead));
    result.finish(nulls, B::WHOLE_ROWS)
}

/// The nulls of the result of a part.
fn nulls<T: Number, B: Block<T, O>, O>(
    x: &Matrix,
    part: &Part<'_, T>,
    missing: &[usize],
    dead: Option<&[bool]>,
) -> Result<ChunkNulls> {
    let (rows, width) = (part.first..part.first + part.rows, part.width);
    let of_part = missing.iter().filter(|row| rows.contains(row)).map(|row| row - part.first);
    let more = matrix::null_at(part.rows, &collected(of_part)?)?;
    let own =
        if B::WHOLE_ROWS { x.incomplete_rows(rows.clone())? } else { x.row_nulls(rows.clone())? };
    let elements = if part.is_by_columns() {
        let column = |c: usize| match dead.is_some_and(|dead| dead[c]) {
            true => matrix::from_bits(part.rows, |_| false).map(Some),
            false if B::WHOLE_ROWS => Ok(None),
            false => x.column_nulls(c, rows.clone()),
        };
        (0..width).map(column).try_gather()?
    } else {
        let own = if B::WHOLE_ROWS { None } else { x.element_nulls(rows)? };
        let dead = match dead {
            Some(dead) => Some(matrix::from_bits(part.rows * width, |i| !dead[i % width])?),
            None => None,
        };
        vec![matrix::union(own, dead)?]
    };
    Ok(ChunkNulls { rows: matrix::union(own, more)?, elements })
}

/// Some rows of a part, and where their results go: one run, or one for each column.
struct Task<'t, 'a, T: Number> {
    part: &'t Part<'a, T>,
    first: usize,
    rows: usize,
    out: Vec<&'t mut [u8]>,
}

fn split<'t, 'a, T: Number>(
    part: &'t Part<'a, T>,
    runs: impl Iterator<Item = (Option<usize>, &'t mut [u8])>,
    rows_per_task: usize,
    size: usize,
) -> Vec<Task<'t, 'a, T>> {
    let mut tasks: Vec<Task<'t, 'a, T>> = Vec::new();
    memory::reserve(&mut tasks, part.rows.div_ceil(rows_per_task));
    let task =
        |rows: Range<usize>| Task { part, first: rows.start, rows: rows.len(), out: Vec::new() };
    tasks.extend(steps(0..part.rows, rows_per_task).map(task));
    for (column, run) in runs {
        let row_bytes = if column.is_some() { size } else { part.width * size };
        let pieces = run.chunks_mut(rows_per_task * row_bytes);
        tasks.iter_mut().zip(pieces).for_each(|(task, out)| memory::push(&mut task.out, out));
    }
    tasks
}

/// A call that is planned.
struct By<'r, O: Number, B> {
    width: usize,
    writer: Writer<O>,
    plan: Plan,
    block: &'r B,
    missing: &'r Mutex<Vec<usize>>,
}

struct BlockWorkspace<T, O, R> {
    x: Scratch<T>,
    valid: Vec<bool>,
    held: Scratch<O>,
    column: Scratch<O>,
    missing: Vec<bool>,
    own: R,
}

impl<T, O, R: Default> Default for BlockWorkspace<T, O, R> {
    fn default() -> Self {
        Self {
            x: Scratch::new(),
            valid: Vec::new(),
            held: Scratch::new(),
            column: Scratch::new(),
            missing: Vec::new(),
            own: R::default(),
        }
    }
}

impl<O: Number, B> By<'_, O, B> {
    fn run_task<T: Number>(
        &self,
        mut task: Task<'_, '_, T>,
        workspace: &mut BlockWorkspace<T, O, B::Workspace>,
    ) where
        B: Block<T, O>,
    {
        let Self { width, writer, plan, block, missing } = *self;
        let level = plan.level(machine());
        let (part, size) = (task.part, writer.size);
        let by_columns = part.is_by_columns();
        let streams = plan.store == Store::Streaming && !by_columns && writer.is_same;
        let in_place = writer.is_same && !by_columns && !streams;
        let step = (BLOCK / width.max(1)).max(1);
        if width == 0 {
            return;
        }
        for rows in steps(0..task.rows, step) {
            let BlockWorkspace { x, valid, held, column, missing: dead, own } = &mut *workspace;
            let at = task.first + rows.start..task.first + rows.end;
            let elements = at.start * width..at.end * width;
            let len = elements.len();
            memory::resize(held, if in_place { 0 } else { len }, O::default());
            dead.clear();
            memory::resize(dead, rows.len(), false);
            let bytes = rows.start * width * size..rows.end * width * size;
            // In place of the output, never of the input: those are different memory (buffer.rs).
            let out: &mut [O] = if in_place {
                bytemuck::cast_slice_mut(&mut task.out[0][bytes.clone()])
            } else {
                &mut held[..]
            };
            let tile =
                part.flat_tile(elements, block.fill(), B::NEEDS_VALIDITY, (&mut *x, &mut *valid));
            block.run(BlockRows { level, tile, width, out: &mut *out, missing: &mut *dead }, own);
            clear(level, part, at.clone(), B::WHOLE_ROWS, valid, dead, out);
            if dead.contains(&true) {
                let rows = dead.iter().enumerate().filter(|(_, dead)| **dead);
                let rows = rows.map(|(r, _)| part.first + at.start + r);
                memory::extend(&mut missing.lock().unwrap_or_else(PoisonError::into_inner), rows);
            }
            if by_columns {
                for (c, out) in task.out.iter_mut().enumerate() {
                    column.clear();
                    memory::reserve(column, rows.len());
                    column.extend((0..rows.len()).map(|r| held[r * width + c]));
                    writer.write(column, &mut out[rows.start * size..rows.end * size]);
                }
            } else if streams {
                // The next rows come in while these go out.
                let ahead = part.stored(at.end * width, len);
                simd::stream(&mut task.out[0][bytes], bytemuck::cast_slice(held), ahead);
            } else if !in_place {
                writer.write(held, &mut task.out[0][bytes]);
            }
        }
        if streams {
            simd::stream_fence();
        }
    }
}

/// Puts zero where the result is null: values under nulls never leave.
fn clear<T: Number, O: Element>(
    level: Level,
    part: &Part<'_, T>,
    rows: Range<usize>,
    whole_rows: bool,
    valid: &mut Vec<bool>,
    dead: &[bool],
    out: &mut [O],
) {
    let width = part.width;
    if let Some(valid) = part.validity(rows, 0..width, valid) {
        if whole_rows {
            let rows = out.chunks_exact_mut(width).zip(valid.chunks_exact(width));
            let odd = rows.filter(|(_, valid)| valid.contains(&false));
            odd.for_each(|(out, _)| out.fill(O::default()));
        } else {
            matrix::fill_null(level, valid, O::default(), out);
        }
    }
    for (out, _) in out.chunks_exact_mut(width).zip(dead).filter(|(_, dead)| **dead) {
        out.fill(O::default());
    }
}
