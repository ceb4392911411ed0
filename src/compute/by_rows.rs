//! Makes a matrix from a matrix, a block of rows at a time, while the block is in the cache.

use std::sync::Mutex;

use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use pulp::bytemuck;

use crate::buffer::Output;
use crate::dispatch::{Family, Level, Plan, Store, Work, machine, run, simd};
use crate::error::Result;
use crate::kernel::{Element, Tile};
use crate::matrix::{self, Chunk, Column, Matrix, Number, Part, Scratch, Values, Writer, steps};

/// What is done to a block of rows.
pub(super) trait Block<T, O>: Sync {
    /// Room that a thread keeps.
    type Room: Default;
    /// What stands in the place of a null.
    fn fill(&self) -> T;
    /// Whether tiles must say which elements are valid.
    const NEEDS_VALIDITY: bool;
    /// Whether a row with any null gives a null row.
    const WHOLE_ROWS: bool;
    /// Writes the results of the rows of `tile`, `width` elements each, to `out`, and says which
    /// rows have none.
    fn run(
        &self,
        level: Level,
        tile: Tile<'_, T>,
        width: usize,
        room: &mut Self::Room,
        out: &mut [O],
        missing: &mut [bool],
    );
}

/// Elements of a block: with input and output, some of them in float64, half of an L2.
const BLOCK: usize = 8192;

/// Bytes that such a function moves.
pub(crate) fn work(x: &Matrix, passes: usize) -> Work {
    Work {
        family: Family::Elementwise,
        bytes_read: x.bytes().saturating_mul(passes),
        bytes_written: x.bytes(),
        has_vdsp: false,
    }
}

/// Runs `block` over all rows; the results are made as `O` and stored as `to`. Columns that are
/// `dead` are null throughout.
pub(super) fn by_rows<T: Number, O: Number, B: Block<T, O>>(
    function: &'static str,
    x: &Matrix,
    to: &DataType,
    block: &B,
    dead: Option<&[bool]>,
) -> Result<Matrix> {
    let writer = O::writer(to).ok_or_else(|| matrix::unaccepted(to).in_function(function))?;
    let view = x.view::<T>(function)?;
    let (width, size) = (x.width(), writer.size);
    let plan = run::planned(&work(x, 1))?;
    let mut outputs: Vec<Output<u8>> = view
        .parts
        .iter()
        .map(|part| Output::new(function, part.rows * width * size))
        .collect::<Result<_>>()?;
    let row_bytes = (width * (std::mem::size_of::<T>() + size)).max(1);
    let rows_per_task = (plan.task_bytes / row_bytes).max(1);
    let missing = Mutex::new(Vec::new());
    let mut tasks = Vec::new();
    for (part, out) in view.parts.iter().zip(&mut outputs) {
        tasks.extend(split(part, out, rows_per_task, size));
    }
    let rows = By { width, writer, plan, block, missing: &missing };
    run::each(function, &plan, tasks, Room::default, |room, task| rows.run_task(task, room))?;
    let missing = missing.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let chunks = view.parts.iter().zip(x.chunks()).zip(outputs).map(|((part, chunk), out)| {
        let rows = part.first..part.first + part.rows;

        let of_part = missing.iter().filter(|row| rows.contains(row)).map(|row| row - part.first);
        let more = matrix::null_at(part.rows, of_part.collect());
        let own = if B::WHOLE_ROWS { x.incomplete_rows(rows) } else { x.row_nulls(rows) };
        let row_nulls = NullBuffer::union(own.as_ref(), more.as_ref());
        rebuilt(x, part.first, chunk, size, out, row_nulls, dead, B::WHOLE_ROWS)
    });
    Ok(x.retyped(to).with_chunks(chunks.collect()))
}

#[allow(clippy::too_many_arguments, reason = "what a chunk is made of")]
fn rebuilt(
    x: &Matrix,
    first: usize,
    chunk: &Chunk,
    size: usize,
    out: Output<u8>,
    row_nulls: Option<NullBuffer>,
    dead: Option<&[bool]>,
    whole_rows: bool,
) -> Chunk {
    let (rows, width) = (first..first + chunk.rows, x.width());
    let buffer = out.into_buffer();
    let is_dead = |c: usize| dead.is_some_and(|dead| dead[c]);
    let values = match &chunk.values {
        Values::Rows(_) => {
            let own = if whole_rows { None } else { x.element_nulls(rows) };
            let more = dead.map(|dead| {
                let is_valid = |i: usize| !dead[i % width];
                NullBuffer::new(BooleanBuffer::collect_bool(chunk.rows * width, is_valid))
            });
            let nulls = NullBuffer::union(own.as_ref(), more.as_ref());
            Values::Rows(Column { values: buffer, nulls })
        }
        Values::Columns(columns) => {
            let bytes = chunk.rows * size;
            let column = |c: usize| {
                let nulls = match is_dead(c) {
                    true => Some(NullBuffer::new_null(chunk.rows)),
                    false if whole_rows => None,
                    false => x.column_nulls(c, rows.clone()),
                };
                Column { values: buffer.slice_with_length(c * bytes, bytes), nulls }
            };
            Values::Columns((0..columns.len()).map(column).collect())
        }
    };
    // Null lists inside a row make their elements null; a null row needs none of them.
    let inner_nulls = if whole_rows { Vec::new() } else { chunk.inner_nulls.clone() };
    Chunk { rows: chunk.rows, values, row_nulls, inner_nulls }
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
    out: &'t mut [u8],
    rows_per_task: usize,
    size: usize,
) -> Vec<Task<'t, 'a, T>> {
    let by_columns = matches!(part.store, matrix::Store::Columns(_));
    let mut tasks: Vec<Task<'t, 'a, T>> = steps(0..part.rows, rows_per_task)
        .map(|rows| Task { part, first: rows.start, rows: rows.len(), out: Vec::new() })
        .collect();
    if out.is_empty() {
        return tasks;
    }
    let (run, each) = if by_columns {
        (part.rows * size, rows_per_task * size)
    } else {
        (out.len(), rows_per_task * part.width * size)
    };
    for run in out.chunks_mut(run) {
        tasks.iter_mut().zip(run.chunks_mut(each)).for_each(|(task, out)| task.out.push(out));
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

struct Room<T, O, R> {
    x: Scratch<T>,
    valid: Vec<bool>,
    held: Scratch<O>,
    column: Scratch<O>,
    missing: Vec<bool>,
    own: R,
}

impl<T, O, R: Default> Default for Room<T, O, R> {
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
    fn run_task<T: Number>(&self, mut task: Task<'_, '_, T>, room: &mut Room<T, O, B::Room>)
    where
        B: Block<T, O>,
    {
        let Self { width, writer, plan, block, missing } = *self;
        let level = plan.level(machine());
        let (part, size) = (task.part, writer.size);
        let by_columns = matches!(part.store, matrix::Store::Columns(_));
        let streams = plan.store == Store::Streaming && !by_columns && writer.is_same;
        let in_place = writer.is_same && !by_columns && !streams;
        let step = (BLOCK / width.max(1)).max(1);
        if width == 0 {
            return;
        }
        for rows in steps(0..task.rows, step) {
            let Room { x, valid, held, column, missing: dead, own } = &mut *room;
            let at = task.first + rows.start..task.first + rows.end;
            let elements = at.start * width..at.end * width;
            let len = elements.len();
            held.resize(if in_place { 0 } else { len }, O::default());
            dead.clear();
            dead.resize(rows.len(), false);
            let bytes = rows.start * width * size..rows.end * width * size;
            let out: &mut [O] = if in_place {
                bytemuck::cast_slice_mut(&mut task.out[0][bytes.clone()])
            } else {
                &mut held[..]
            };
            let tile =
                part.flat_tile(elements, block.fill(), B::NEEDS_VALIDITY, (&mut *x, &mut *valid));
            block.run(level, tile, width, own, out, dead);
            clear(part, at.clone(), B::WHOLE_ROWS, valid, dead, out);
            if dead.contains(&true) {
                let rows = dead.iter().enumerate().filter(|(_, dead)| **dead);
                let rows = rows.map(|(r, _)| part.first + at.start + r);
                missing.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(rows);
            }
            if by_columns {
                for (c, out) in task.out.iter_mut().enumerate() {
                    column.clear();
                    column.extend((0..rows.len()).map(|r| held[r * width + c]));
                    writer.write(column, &mut out[rows.start * size..rows.end * size]);
                }
            } else if streams {
                // The next rows come in while these go out.
                let ahead = match &part.store {
                    matrix::Store::Rows(rows) => rows.stored(at.end * width, len),
                    matrix::Store::Columns(_) => &[],
                };
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
    part: &Part<'_, T>,
    rows: std::ops::Range<usize>,
    whole_rows: bool,
    valid: &mut Vec<bool>,
    dead: &[bool],
    out: &mut [O],
) {
    let width = part.width;
    if let Some(valid) = part.validity(rows, 0..width, valid) {
        for (out, valid) in out.chunks_exact_mut(width).zip(valid.chunks_exact(width)) {
            if whole_rows && valid.contains(&false) {
                out.fill(O::default());
            }
            for (o, _) in out.iter_mut().zip(valid).filter(|(_, valid)| !**valid) {
                *o = O::default();
            }
        }
    }
    for (out, _) in out.chunks_exact_mut(width).zip(dead).filter(|(_, dead)| **dead) {
        out.fill(O::default());
    }
}
