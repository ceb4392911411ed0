//! Steps: the kernels of elementwise functions, and of transforms row by row, over tiles.

use std::any::Any;

use arrow_schema::DataType;
use pulp::bytemuck;

use super::{Beside, Nulls, RowTile, Stage, Step, Stepped};
use crate::compute::by_rows::{Block as RowBlock, BlockRows};
use crate::compute::elementwise::{
    AtLevel, Kernel, SecondWorkspace, WithOperation, by_rows, element_nulls, pattern, row_nulls,
};
use crate::compute::operand::Aligned;
use crate::dispatch::vendor::VendorOp;
use crate::dispatch::{Level, Store, settings};
use crate::error::Result;
use crate::kernel::{Binary, Operation, Tile};
use crate::matrix::{self, Matrix, Number, Reader, Scratch, Writer};
use crate::memory;

/// Makes a step of an operation; `nulls` are those of its `x`.
pub(in crate::compute) struct AsStep<'n> {
    pub(in crate::compute) nulls: &'n Nulls,
}

impl<'y> WithOperation<'y> for AsStep<'_> {
    type Out = Stage<'y>;

    fn with<T: Number, O: Binary<T> + 'static>(
        self,
        op: O,
        _: Option<VendorOp>,
        x: &Matrix,
        y: Aligned<'y, T>,
        (to, safe): (&DataType, bool),
    ) -> Result<Stage<'y>> {
        let (rows, width) = (x.rows(), x.width());
        let reader = T::reader(x.element_type()).ok_or_else(|| unread(x))?;
        let writer = T::writer(to).ok_or_else(|| matrix::unaccepted(to))?;
        let added = (row_nulls(&y, 0..rows)?, element_nulls(&y, 0..rows, width, None)?);
        let nulls = self.nulls.with(added.0, added.1)?;
        let (level, store) = (settings::level(), Store::Cached);
        let kernel = Box::new(AtLevel { op, vendor: None, level, store });
        let pattern = pattern(&y).into_owned();
        let step = Box::new(ElementStep { kernel, y, pattern, reader, writer, safe });
        Ok(Stage::Step(Stepped { step, to: to.clone(), nulls, whole_rows: false }))
    }
}

fn unread(x: &Matrix) -> crate::Error {
    matrix::unaccepted(x.element_type())
}

/// An operation on elements, alone or with an operand.
struct ElementStep<'a, T: Number> {
    kernel: Box<dyn Kernel<T>>,
    y: Aligned<'a, T>,
    pattern: Vec<T>,
    reader: Reader<T>,
    writer: Writer<T>,
    /// Whether a result that does not fit is an error.
    safe: bool,
}

struct ElementWorkspace<T> {
    x: Scratch<T>,
    y: SecondWorkspace<T>,
    out: Scratch<T>,
}

impl<T: Number> Step for ElementStep<'_, T> {
    fn workspace(&self) -> Box<dyn Any> {
        let (x, y, out) = (Scratch::<T>::new(), SecondWorkspace::default(), Scratch::new());
        Box::new(ElementWorkspace { x, y, out })
    }

    fn run(
        &self,
        _: Level,
        tile: &RowTile<'_>,
        workspace: &mut dyn Any,
        out: &mut [u8],
        _: &mut Vec<bool>,
    ) -> bool {
        let Some(ElementWorkspace { x, y, out: held }) = workspace.downcast_mut() else {
            return true;
        };
        let x = tile.values(&self.reader, x);
        let second = (&self.y, &self.pattern[..]);
        let kernel = &*self.kernel;
        if self.writer.is_same {
            let out = bytemuck::cast_slice_mut(out);
            let failed = by_rows(kernel, x, second, tile.elements(), tile.width, y, out);
            return failed && self.safe;
        }
        memory::resize(held, x.len(), T::default());
        let failed = by_rows(kernel, x, second, tile.elements(), tile.width, y, held);
        (self.writer.write(held, out) | failed) && self.safe
    }

    fn operation(&self) -> Option<Operation> {
        self.kernel.operation().filter(|_| self.reader.is_same && self.writer.is_same)
    }

    fn operand<'w>(&'w self, tile: &RowTile<'_>, workspace: &'w mut dyn Any) -> Beside<'w> {
        let Some(ElementWorkspace { y, .. }) = workspace.downcast_mut::<ElementWorkspace<T>>()
        else {
            return Beside::Nothing;
        };
        match &self.y {
            Aligned::Scalar(y) => Beside::One(y.widen()),
            Aligned::Row(y, _) => Beside::Columns(bytemuck::cast_slice(y)),
            Aligned::Column(view, _) => {
                let rows = tile.first..tile.first + tile.rows;
                Beside::Rows(bytemuck::cast_slice(y.flat(view, rows)))
            }
            Aligned::Matrix(view, _) => {
                Beside::Each(bytemuck::cast_slice(y.flat(view, tile.elements())))
            }
        }
    }
}

/// The step that runs `block` over rows, which is read as `T`, and whose results are made as `O` and
/// stored as `to`. `finds_none` says that it may find nothing to give for a row.
pub(in crate::compute) fn block_step<'a, T: Number, O: Number, B: RowBlock<T, O> + 'a>(
    x: &Matrix,
    to: &DataType,
    block: B,
    finds_none: bool,
    nulls: &Nulls,
) -> Result<Stage<'a>> {
    let reader = T::reader(x.element_type()).ok_or_else(|| unread(x))?;
    let writer = O::writer(to).ok_or_else(|| matrix::unaccepted(to))?;
    let whole_rows = B::WHOLE_ROWS;
    let mut nulls = if whole_rows { nulls.whole_rows(x.rows(), x.width())? } else { nulls.clone() };
    nulls.may_miss_rows |= finds_none;
    let step = Box::new(BlockStep { block, reader, writer });
    Ok(Stage::Step(Stepped { step, to: to.clone(), nulls, whole_rows }))
}

/// A function of rows that gives rows.
struct BlockStep<T: Number, O: Number, B> {
    block: B,
    reader: Reader<T>,
    writer: Writer<O>,
}

struct BlockWorkspace<T, O, W> {
    x: Scratch<T>,
    valid: Vec<bool>,
    out: Scratch<O>,
    dead: Vec<bool>,
    own: W,
}

impl<T: Number, O: Number, B: RowBlock<T, O>> Step for BlockStep<T, O, B> {
    fn workspace(&self) -> Box<dyn Any> {
        Box::new(BlockWorkspace::<T, O, B::Workspace> {
            x: Scratch::new(),
            valid: Vec::new(),
            out: Scratch::new(),
            dead: Vec::new(),
            own: B::Workspace::default(),
        })
    }

    fn run(
        &self,
        level: Level,
        tile: &RowTile<'_>,
        workspace: &mut dyn Any,
        out: &mut [u8],
        missing: &mut Vec<bool>,
    ) -> bool {
        let Some(workspace) = workspace.downcast_mut::<BlockWorkspace<T, O, B::Workspace>>() else {
            return true;
        };
        let BlockWorkspace { x, valid, out: held, dead, own } = workspace;
        let valid = if B::NEEDS_VALIDITY { tile.valid(valid) } else { None };
        let rows =
            Tile { x: tile.filled(&self.reader, self.block.fill(), x), valid, weights: None };
        let width = tile.width;
        dead.clear();
        memory::resize(dead, tile.rows, false);
        if self.writer.is_same {
            let out = bytemuck::cast_slice_mut(out);
            self.block.run(BlockRows { level, tile: rows, width, out, missing: dead }, own);
        } else {
            memory::resize(held, rows.x.len(), O::default());
            self.block
                .run(BlockRows { level, tile: rows, width, out: &mut *held, missing: dead }, own);
            self.writer.write(held, out);
        }
        if dead.contains(&true) {
            memory::resize(missing, tile.rows, false);
            missing.iter_mut().zip(dead).for_each(|(missing, dead)| *missing |= *dead);
        }
        false
    }
}
