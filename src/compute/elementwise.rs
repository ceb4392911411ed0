//! Runs an operation over the elements of a matrix and an operand, tile by tile.
//!
//! Knows how operands broadcast, which results are null and where they are stored; which operation it
//! is stands in [`super::arithmetic`]. A chain of operations runs the same kernels over tiles, see
//! [`super::fused`].

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use pulp::bytemuck;

use super::operand::Aligned;
use crate::dispatch::vendor::VendorOp;
use crate::dispatch::{Backend, Level, Plan, Store, machine, run, simd};
use crate::error::{Error, Result};
use crate::kernel::{
    Binary, Body, Divisor, Identity, Operation, Simd, each, each_scalar, each_scalar_streaming,
    each_streaming, repeat_each,
};
use crate::matrix::{
    self, Bits, ChunkNulls, Like, Mask, Matrix, Number, Part, Scratch, TILE, View, Writer, steps,
};
use crate::memory::{self, Gather as _};

/// What is done with an operation once its types are known: a call, or a step over tiles.
pub(super) trait WithOperation<'y> {
    type Out;
    /// Elements of `x` and of an operand that was aligned with it, computed as `T` and stored in a
    /// type. Unless it is `safe`, results that do not fit are stored as a cast makes them.
    fn with<T: Number, O: Binary<T> + 'static>(
        self,
        op: O,
        vendor: Option<VendorOp>,
        x: &Matrix,
        y: Aligned<'y, T>,
        stored: (&DataType, bool),
    ) -> Result<Self::Out>;
}

/// Runs the operation at once.
impl<'y> WithOperation<'y> for Plan {
    type Out = Matrix;

    fn with<T: Number, O: Binary<T> + 'static>(
        self,
        op: O,
        vendor: Option<VendorOp>,
        x: &Matrix,
        y: Aligned<'y, T>,
        (to, safe): (&DataType, bool),
    ) -> Result<Matrix> {
        let plan = self;
        let writer = T::writer(to).ok_or_else(|| matrix::unaccepted(to))?;
        let vendor = vendor.filter(|_| plan.backend == Backend::Vdsp);
        let level = plan.level(machine());
        let kernel = AtLevel { op, vendor, level, store: plan.store };
        let cached = AtLevel { store: Store::Cached, ..kernel };
        let failed = AtomicUsize::new(usize::MAX);
        let to = to.clone();
        let (kernel, cached) = (&kernel, &cached);
        Arithmetic { kernel, cached, level, x, y, to, writer, plan, safe, failed }.run()
    }
}

/// An operation on tiles. The rest of this file is compiled once for each type, not for each
/// operation and instruction set: a call through a pointer is nothing beside a tile.
pub(super) trait Kernel<T>: Sync {
    /// `out = x op y`; whether any element overflowed.
    fn each(&self, x: &[T], y: &[T], out: &mut [T]) -> bool;
    /// `out = x op y` with one `y`; whether any element overflowed.
    fn each_scalar(&self, x: &[T], y: T, out: &mut [T]) -> bool;
    /// Whether it divides, and so fails for a zero of integers.
    fn divides(&self) -> bool;
    /// Whether it is `y op x`.
    fn is_reversed(&self) -> bool;
    /// The same as an operation on registers, if there is one.
    fn operation(&self) -> Option<Operation>;
}

/// An operation at an instruction set, or by a vendor library.
#[derive(Clone, Copy)]
pub(super) struct AtLevel<O> {
    pub(super) op: O,
    pub(super) vendor: Option<VendorOp>,
    pub(super) level: Level,
    pub(super) store: Store,
}

impl<T: Number, O: Binary<T>> Kernel<T> for AtLevel<O> {
    fn each(&self, x: &[T], y: &[T], out: &mut [T]) -> bool {
        if self.vendor.is_some_and(|operation| T::vectors(operation, x, y, out)) {
            out.iter_mut().for_each(|o| *o = o.canonical());
            return false;
        }
        self.level.run(Each { op: self.op, x, y, out, store: self.store })
    }

    fn each_scalar(&self, x: &[T], y: T, out: &mut [T]) -> bool {
        if self.vendor.is_some_and(|operation| T::scalar(operation, x, y, out)) {
            out.iter_mut().for_each(|o| *o = o.canonical());
            return false;
        }
        self.level.run(EachScalar { op: self.op, x, y, out, store: self.store })
    }

    fn divides(&self) -> bool {
        O::DIVIDES
    }

    fn is_reversed(&self) -> bool {
        O::IS_REVERSED
    }

    fn operation(&self) -> Option<Operation> {
        self.op.operation()
    }
}

struct Each<'a, T, O> {
    op: O,
    x: &'a [T],
    y: &'a [T],
    out: &'a mut [T],
    store: Store,
}

impl<T: Number, O: Binary<T>> Body for Each<'_, T, O> {
    type Out = bool;
    const WIDEST: bool = O::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        match self.store {
            Store::Cached => each(self.op, self.x, self.y, self.out),
            Store::Streaming => each_streaming(simd, self.op, self.x, self.y, self.out),
        }
    }
}

struct EachScalar<'a, T, O> {
    op: O,
    x: &'a [T],
    y: T,
    out: &'a mut [T],
    store: Store,
}

impl<T: Number, O: Binary<T>> Body for EachScalar<'_, T, O> {
    type Out = bool;
    const WIDEST: bool = O::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        match self.store {
            Store::Cached => each_scalar(self.op, self.x, self.y, self.out),
            Store::Streaming => each_scalar_streaming(simd, self.op, self.x, self.y, self.out),
        }
    }
}

/// An operation that is planned.
struct Arithmetic<'a, T: Number> {
    kernel: &'a dyn Kernel<T>,
    /// The same with stores through the cache.
    cached: &'a dyn Kernel<T>,
    level: Level,
    x: &'a Matrix,
    y: Aligned<'a, T>,
    /// The type of the results.
    to: DataType,
    writer: Writer<T>,
    plan: Plan,
    /// Whether a result that does not fit is an error.
    safe: bool,
    /// The first row known to have overflowed, times two, plus one for a division by zero.
    failed: AtomicUsize,
}

/// Elements that lie one behind the other: where they are, and which of their results are null.
#[derive(Clone, Copy)]
pub(super) struct PartRun<'t, 'a, T: Number> {
    pub(super) part: &'t Part<'a, T>,
    pub(super) nulls: &'t ChunkNulls,
    /// The column, if the part lies by columns.
    pub(super) column: Option<usize>,
}

impl<T: Number> PartRun<'_, '_, T> {
    fn has_nulls(&self) -> bool {
        self.nulls.are_any(self.column)
    }

    /// Puts zero where the result is null: values under nulls never leave.
    pub(super) fn clear_nulls(&self, level: Level, elements: Range<usize>, out: &mut [T]) {
        if self.has_nulls() {
            let (own, rows) = (self.nulls.of(self.column), self.nulls.rows.as_ref());
            let width = if self.column.is_some() { 1 } else { self.part.width };
            let (own, rows) = (own.map(Bits::new), rows.map(Bits::new));
            Mask { level, elements: own, rows, width }.fill(elements, T::default(), out);
        }
    }
}

/// A run of elements that lie one behind the other.
struct Task<'t, 'a, T: Number> {
    run: PartRun<'t, 'a, T>,
    /// The first element, counted in the part, or in the column.
    first: usize,
    /// Where the results go, as they are stored.
    out: &'t mut [u8],
}

impl<T: Number> Arithmetic<'_, T> {
    fn run(&self) -> Result<Matrix> {
        let x = self.x;
        let size = self.writer.size;
        let view = x.view::<T>()?;
        let nulls: Vec<ChunkNulls> = view.parts.iter().map(|part| self.nulls(part)).try_gather()?;
        let mut result = Like::new(x, &self.to, size)?;
        // Whole cache lines, so that no two threads write to one.
        let step = (self.plan.task_bytes / (2 * std::mem::size_of::<T>())).next_multiple_of(TILE);
        let mut tasks = Vec::new();
        for ((part, nulls), runs) in view.parts.iter().zip(&nulls).zip(result.runs()) {
            for (column, out) in runs {
                let run = PartRun { part, nulls, column };
                let runs = out.chunks_mut(step * size).enumerate();
                memory::reserve(&mut tasks, runs.len());
                tasks.extend(runs.map(|(i, out)| Task { run, first: i * step, out }));
            }
        }
        let pattern = pattern(&self.y);
        run::each(&self.plan, tasks, Tiles::default, |tiles, task| {
            self.run_task(task, &pattern, tiles);
        })?;
        let failed = self.failed.load(Ordering::Relaxed);
        if self.safe && failed != usize::MAX {
            let row = failed / 2;
            return Err(if failed % 2 == 1 {
                Error::DivisionByZero { row }
            } else {
                Error::Overflow { what: "row", index: row, into: self.to.clone() }
            });
        }
        result.finish(nulls.into_iter().map(Ok), false)
    }

    fn nulls(&self, part: &Part<'_, T>) -> Result<ChunkNulls> {
        let (x, y, width) = (self.x, &self.y, part.width);
        let rows = part.first..part.first + part.rows;
        let elements = if part.is_by_columns() {
            let column = |c| {
                let own = x.column_nulls(c, rows.clone())?;
                matrix::union(own, element_nulls(y, rows.clone(), width, Some(c))?)
            };
            (0..width).map(column).try_gather()?
        } else {
            let own = x.element_nulls(rows.clone())?;
            vec![matrix::union(own, element_nulls(y, rows.clone(), width, None)?)?]
        };
        let own = x.row_nulls(rows.clone())?;
        Ok(ChunkNulls { rows: matrix::union(own, row_nulls(y, rows)?)?, elements })
    }
}

/// A row vector, repeated until it is long enough that its ends cost nothing.
pub(super) fn pattern<'y, T: Number>(y: &'y Aligned<'_, T>) -> Cow<'y, [T]> {
    match y {
        Aligned::Row(row, _) if (1..pattern_of::<T>()).contains(&row.len()) => {
            Cow::Owned(row.repeat(pattern_of::<T>().div_ceil(row.len())))
        }
        Aligned::Row(row, _) => Cow::Borrowed(row),
        _ => Cow::Borrowed(&[]),
    }
}

/// Which of `rows` an operand makes null as a whole.
pub(super) fn row_nulls<T: Number>(
    y: &Aligned<'_, T>,
    rows: Range<usize>,
) -> Result<Option<NullBuffer>> {
    match y {
        Aligned::Scalar(_) | Aligned::Row(..) => Ok(None),
        Aligned::Matrix(_, y) => y.row_nulls(rows),
        // One value per row: a null value makes the row null.
        Aligned::Column(_, y) if y.width() == 1 => y.incomplete_rows(rows),
        Aligned::Column(_, y) => {
            let all = flat_validity(y)?;
            Ok(all.map(|all| all.slice(rows.start, rows.len())))
        }
    }
}

/// Which elements of `rows`, row by row or in one column, an operand makes null.
pub(super) fn element_nulls<T: Number>(
    y: &Aligned<'_, T>,
    rows: Range<usize>,
    width: usize,
    column: Option<usize>,
) -> Result<Option<NullBuffer>> {
    match (y, column) {
        (Aligned::Scalar(_) | Aligned::Column(..), _) => Ok(None),
        (Aligned::Matrix(_, y), None) => y.element_nulls(rows),
        (Aligned::Matrix(_, y), Some(c)) => y.column_nulls(c, rows),
        (Aligned::Row(_, y), column) => {
            let Some(nulls) = flat_validity(y)? else { return Ok(None) };
            let row = Bits::new(&nulls);
            match column {
                None => matrix::from_bits(rows.len() * width, |i| row.get(i % width)).map(Some),
                Some(c) if !row.get(c) => matrix::from_bits(rows.len(), |_| false).map(Some),
                Some(_) => Ok(None),
            }
        }
    }
}

/// Which elements are null, row by row, null rows included.
fn flat_validity(y: &Matrix) -> Result<Option<NullBuffer>> {
    let rows = match y.row_nulls(0..y.rows())? {
        Some(rows) => Some(matrix::expand(&rows, y.width())?),
        None => None,
    };
    matrix::union(rows, y.element_nulls(0..y.rows())?)
}

/// Workspace for the tiles of a thread.
struct Tiles<T> {
    /// Results on their way to another type.
    held: Scratch<T>,
    workspace: OperandWorkspace<T>,
}

/// Workspace for pieces of the operands.
struct OperandWorkspace<T> {
    /// A piece of `x` that is stored in another type.
    x: Scratch<T>,
    y: SecondWorkspace<T>,
}

/// Workspace for pieces of the second operand.
pub(super) struct SecondWorkspace<T> {
    /// A piece that had to be copied.
    y: Scratch<T>,
    /// One value per row, once for each element of the row.
    repeated: Scratch<T>,
}

impl<T: Number> SecondWorkspace<T> {
    /// Elements of a view, one behind the other: in place, or copied here.
    pub(super) fn flat<'s>(&'s mut self, view: &'s View<'_, T>, elements: Range<usize>) -> &'s [T] {
        let Self { y: scratch, repeated: all } = self;
        let mut pieces = view.flat_pieces(elements.clone());
        if let Some((part, range)) = pieces.next() {
            if range.len() == elements.len() {
                return part.flat(range, T::default(), scratch);
            }
            memory::resize(all, 0, T::default());
            memory::reserve(all, elements.len());
            all.extend_from_slice(part.flat(range, T::default(), scratch));
        }
        for (part, range) in pieces {
            all.extend_from_slice(part.flat(range, T::default(), scratch));
        }
        all
    }
}

impl<T> Default for Tiles<T> {
    fn default() -> Self {
        Self { held: Scratch::new(), workspace: OperandWorkspace::default() }
    }
}

impl<T> Default for OperandWorkspace<T> {
    fn default() -> Self {
        Self { x: Scratch::new(), y: SecondWorkspace::default() }
    }
}

impl<T> Default for SecondWorkspace<T> {
    fn default() -> Self {
        Self { y: Scratch::new(), repeated: Scratch::new() }
    }
}

/// Elements of a tile: of narrow integers as many as fill 16 KiB.
const fn tile_of<T>() -> usize {
    let of_bytes = (16 << 10) / std::mem::size_of::<T>();
    if of_bytes > TILE { of_bytes } else { TILE }
}

/// Elements that a row vector is repeated to.
const fn pattern_of<T>() -> usize {
    tile_of::<T>() / 4
}

/// Widths from which a value per row is taken as a number for its row; below, it is repeated for
/// each element, so that the loop does not stop at every row.
const WIDE: usize = 64;

impl<T: Number> Arithmetic<'_, T> {
    fn run_task(&self, task: Task<'_, '_, T>, pattern: &[T], tiles: &mut Tiles<T>) {
        let Task { run, first, out } = task;
        let (size, is_same) = (self.writer.size, self.writer.is_same);
        // Results that are looked at again, for nulls or for their type, are held in L1 until then.
        let is_cached = run.has_nulls() || !is_same;
        let kernel = if is_cached { self.cached } else { self.kernel };
        let streams = is_cached && is_same && self.plan.store == Store::Streaming;
        let in_place = is_same && !streams;
        for piece in steps(0..out.len() / size, tile_of::<T>()) {
            let bytes = &mut out[piece.start * size..piece.end * size];
            let elements = first + piece.start..first + piece.end;
            let Tiles { held, workspace } = &mut *tiles;
            memory::resize(held, if in_place { 0 } else { piece.len() }, T::default());
            // A reborrow of this task's own bytes as elements, checked for size and alignment. It
            // overlaps no operand: an output is memory that nothing else refers to (buffer.rs).
            let tile = if in_place { bytemuck::cast_slice_mut(bytes) } else { &mut held[..] };
            let overflowed = self.compute(kernel, &run, elements.clone(), pattern, workspace, tile);
            if overflowed && self.safe {
                self.find_overflow(&run, elements.clone(), pattern);
            }
            run.clear_nulls(self.level, elements.clone(), tile);
            if streams {
                // The next elements come in while these go out.
                let ahead = run.part.stored(elements.end, piece.len());
                simd::stream(bytes, bytemuck::cast_slice(held), ahead);
            } else if !is_same && self.writer.write(held, bytes) && self.safe {
                self.find_overflow(&run, elements, pattern);
            }
        }
        if self.plan.store == Store::Streaming {
            simd::stream_fence();
        }
    }

    /// Looks at a tile in which something overflowed, for the first row in which it is no null.
    #[cold]
    fn find_overflow(&self, task: &PartRun<'_, '_, T>, elements: Range<usize>, pattern: &[T]) {
        let mut workspace = OperandWorkspace::default();
        for i in elements {
            if task.nulls.is_null(task.part.width, task.column, i) {
                continue;
            }
            let mut result = [T::default()];
            let at = i..i + 1;
            if self.compute(self.cached, task, at.clone(), pattern, &mut workspace, &mut result)
                || !self.writer.holds(result[0])
            {
                let row = if task.column.is_some() { i } else { i / task.part.width };
                let by_zero = self.kernel.divides() && {
                    let level = Level::Portable;
                    let store = Store::Cached;
                    let (own, other) = (
                        AtLevel { op: Identity, vendor: None, level, store },
                        AtLevel { op: Divisor, vendor: None, level, store },
                    );
                    let divisor: &dyn Kernel<T> =
                        if self.kernel.is_reversed() { &own } else { &other };
                    self.compute(divisor, task, at, pattern, &mut workspace, &mut result);
                    result[0] == T::default()
                };
                let failed = 2 * (task.part.first + row) + usize::from(by_zero);
                self.failed.fetch_min(failed, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Computes a tile: `elements` of the part, counted row by row, or of one column. Whether an
    /// element overflowed.
    fn compute(
        &self,
        kernel: &dyn Kernel<T>,
        task: &PartRun<'_, '_, T>,
        elements: Range<usize>,
        pattern: &[T],
        workspace: &mut OperandWorkspace<T>,
        out: &mut [T],
    ) -> bool {
        let PartRun { part, column, .. } = *task;
        let OperandWorkspace { x: stored, y: workspace } = workspace;
        let x = part.raw(column, elements.clone(), stored);
        let stretch = Stretch { first: part.first, width: part.width, column };
        combined(kernel, x, (&self.y, pattern), stretch, elements, workspace, out)
    }
}

/// Where elements are in a matrix: in the rows of a part, or in one column of it.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    /// Number of the part's first row.
    pub(super) first: usize,
    pub(super) width: usize,
    /// The column, if the part lies by columns.
    pub(super) column: Option<usize>,
}

/// Combines `x`, the `elements` of a stretch, with those of an operand and its [pattern]. Whether an
/// element overflowed.
pub(super) fn combined<T: Number>(
    kernel: &dyn Kernel<T>,
    x: &[T],
    (y, pattern): (&Aligned<'_, T>, &[T]),
    stretch: Stretch,
    elements: Range<usize>,
    workspace: &mut SecondWorkspace<T>,
    out: &mut [T],
) -> bool {
    let Stretch { first, width, column } = stretch;
    let Some(c) = column else {
        let first = first * width;
        let elements = first + elements.start..first + elements.end;
        return by_rows(kernel, x, (y, pattern), elements, width, workspace, out);
    };
    let scratch = &mut workspace.y;
    let rows = first + elements.start..first + elements.end;
    let mut any = false;
    let mut at = 0;
    let mut each = |y: &[T]| {
        any |= kernel.each(&x[at..at + y.len()], y, &mut out[at..at + y.len()]);
        at += y.len();
    };
    match y {
        Aligned::Scalar(y) => return kernel.each_scalar(x, *y, out),
        Aligned::Row(y, _) => return kernel.each_scalar(x, y[c], out),
        Aligned::Column(y, _) => {
            for (y_part, range) in y.flat_pieces(rows) {
                each(y_part.flat(range, T::default(), scratch));
            }
        }
        Aligned::Matrix(y, _) => {
            for (y_part, rows) in y.rows(rows) {
                each(y_part.column(c, rows, T::default(), scratch));
            }
        }
    }
    any
}

/// Combines `x`, the `elements` of a matrix counted row by row, with those of an operand and its
/// [pattern]. Whether an element overflowed.
pub(super) fn by_rows<T: Number>(
    kernel: &dyn Kernel<T>,
    x: &[T],
    (y, pattern): (&Aligned<'_, T>, &[T]),
    elements: Range<usize>,
    width: usize,
    workspace: &mut SecondWorkspace<T>,
    out: &mut [T],
) -> bool {
    let SecondWorkspace { y: scratch, repeated } = workspace;
    let fill = T::default();
    let mut any = false;
    let mut at = 0;
    match y {
        Aligned::Scalar(y) => any = kernel.each_scalar(x, *y, out),
        Aligned::Row(..) => {
            let mut phase = elements.start % width;
            while at < out.len() {
                let take = (pattern.len() - phase).min(out.len() - at);
                any |= kernel.each(
                    &x[at..at + take],
                    &pattern[phase..phase + take],
                    &mut out[at..at + take],
                );
                at += take;
                phase = 0;
            }
        }
        Aligned::Column(y, _) => {
            let mut row = elements.start / width;
            for (y_part, range) in y.flat_pieces(row..elements.end.div_ceil(width)) {
                let y = y_part.flat(range, fill, scratch);
                if width >= WIDE {
                    for y in y {
                        let end = ((row + 1) * width).min(elements.end) - elements.start;
                        any |= kernel.each_scalar(&x[at..end], *y, &mut out[at..end]);
                        (at, row) = (end, row + 1);
                    }
                } else {
                    // The piece may begin or end inside a row.
                    let inside = elements.start + at - row * width;
                    memory::resize(repeated, y.len() * width, fill);
                    repeat_each(y, width, repeated);
                    let end = ((row + y.len()) * width).min(elements.end) - elements.start;
                    let y_each = &repeated[inside..inside + end - at];
                    any |= kernel.each(&x[at..end], y_each, &mut out[at..end]);
                    (at, row) = (end, row + y.len());
                }
            }
        }
        Aligned::Matrix(y, _) => {
            for (y_part, range) in y.flat_pieces(elements) {
                let y = y_part.flat(range, fill, scratch);
                any |= kernel.each(&x[at..at + y.len()], y, &mut out[at..at + y.len()]);
                at += y.len();
            }
        }
    }
    any
}
