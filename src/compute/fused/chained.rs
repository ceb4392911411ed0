//! Steps that follow one another, of which nobody else wants the tiles between them, in one loop.

use std::any::Any;
use std::marker::PhantomData;

use arrow_schema::DataType;
use pulp::bytemuck;

use super::{Beside, RowTile, Step};
use crate::dispatch::Level;
use crate::kernel::{Body, Link, Operation, Registers, Simd, With, chain, chain_sum, repeat_each};
use crate::matrix::{Number, Scratch, steps};
use crate::memory;

/// Steps of one loop at most: their operands are held on the stack.
const MOST: usize = 8;

/// Widths from which a tile is taken row by row; below, what there is one of for each row or column
/// is repeated for each element.
const WIDE: usize = 64;

/// Elements below that width that are taken at once: operands that are repeated stay in L1 beside
/// the tile and its result.
const PIECE: usize = 1024;

/// The step that does what `steps` do one after the other to elements of a type; `None` for other
/// types, and if one of them is more than an operation on registers.
pub(super) fn chained<'p>(
    steps: &[&'p (dyn Step + 'p)],
    element: &DataType,
) -> Option<Box<dyn Step + 'p>> {
    match element {
        DataType::Float32 => Some(Box::new(Chained::<f32>::of(steps)?)),
        DataType::Float64 => Some(Box::new(Chained::<f64>::of(steps)?)),
        _ => None,
    }
}

/// Whether one more step fits behind so many.
pub(super) fn takes_more(steps: usize) -> bool {
    steps < MOST
}

struct Chained<'p, T> {
    steps: Vec<(&'p (dyn Step + 'p), Operation)>,
    element: PhantomData<T>,
}

impl<'p, T> Chained<'p, T> {
    fn of(steps: &[&'p (dyn Step + 'p)]) -> Option<Self> {
        let steps = steps.iter().map(|step| Some((*step, step.operation()?)));
        Some(Self { steps: steps.collect::<Option<_>>()?, element: PhantomData })
    }
}

/// What a thread keeps: memory of each step, and operands that were repeated.
struct Kept<T> {
    own: Vec<Box<dyn Any>>,
    repeated: Vec<Scratch<T>>,
}

/// The operands of all steps, for one tile.
type Operands<'w> = [Beside<'w>; MOST];

impl<T: Number + Registers> Chained<'_, T> {
    fn operands<'w>(&'w self, tile: &RowTile<'_>, own: &'w mut [Box<dyn Any>]) -> Operands<'w> {
        let mut operands = [Beside::Nothing; MOST];
        for (operand, ((step, _), own)) in operands.iter_mut().zip(self.steps.iter().zip(own)) {
            *operand = step.operand(tile, &mut **own);
        }
        operands
    }

    /// All steps with their operands, as far as these are the same for every row.
    fn links<'w>(&self, operands: &Operands<'w>) -> [Link<'w, T>; MOST] {
        let none = Link { operation: Operation::Negate, with: With::One(T::default()) };
        let mut links = [none; MOST];
        let steps = self.steps.iter().zip(operands);
        for (link, ((_, operation), operand)) in links.iter_mut().zip(steps) {
            link.operation = *operation;
            match *operand {
                Beside::One(y) => link.with = With::One(T::round(y)),
                Beside::Columns(y) => link.with = With::Each(cast(y)),
                Beside::Nothing | Beside::Rows(_) | Beside::Each(_) => {}
            }
        }
        links
    }

    /// Calls `f` with every row of a wide tile, and the steps with the operands of that row.
    fn each_row(
        &self,
        tile: &RowTile<'_>,
        own: &mut [Box<dyn Any>],
        mut f: impl FnMut(usize, &[T], &[Link<'_, T>]),
    ) {
        let operands = self.operands(tile, own);
        let mut links = self.links(&operands);
        let links = &mut links[..self.steps.len()];
        for (row, x) in cast(tile.bytes).chunks_exact(tile.width).enumerate() {
            for (link, operand) in links.iter_mut().zip(&operands) {
                match *operand {
                    Beside::Rows(y) => link.with = With::One(cast(y)[row]),
                    Beside::Each(y) => link.with = With::Each(row_of(cast(y), row, tile.width)),
                    Beside::Nothing | Beside::One(_) | Beside::Columns(_) => {}
                }
            }
            f(row, x, links);
        }
    }
}

/// Where the next tile lies, in elements, if this one is the matrix itself.
fn ahead(tile: &RowTile<'_>) -> usize {
    if tile.ahead.is_empty() { 0 } else { tile.rows * tile.width }
}

impl<T: Number + Registers> Step for Chained<'_, T> {
    fn workspace(&self) -> Box<dyn Any> {
        let own = self.steps.iter().map(|(step, _)| step.workspace()).collect();
        let repeated = self.steps.iter().map(|_| Scratch::<T>::new()).collect();
        Box::new(Kept { own, repeated })
    }

    fn run(
        &self,
        level: Level,
        tile: &RowTile<'_>,
        workspace: &mut dyn Any,
        out: &mut [u8],
        _: &mut Vec<bool>,
    ) -> bool {
        let Some(Kept { own, repeated }) = workspace.downcast_mut::<Kept<T>>() else { return true };
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        let (width, ahead) = (tile.width, ahead(tile));
        if width >= WIDE {
            self.each_row(tile, own, |row, x, links| {
                let out = &mut out[row * width..(row + 1) * width];
                level.run(Run { x, links, out, ahead });
            });
            return false;
        }
        let operands = self.operands(tile, own);
        let all = self.links(&operands);
        for rows in steps(0..tile.rows, PIECE / width) {
            let at = rows.start * width..rows.end * width;
            let mut links = all;
            let held = operands.iter().zip(&mut *repeated);
            for (link, (operand, repeated)) in links.iter_mut().zip(held) {
                match *operand {
                    Beside::Nothing | Beside::One(_) => {}
                    Beside::Each(y) => link.with = With::Each(&cast(y)[at.clone()]),
                    Beside::Columns(y) => {
                        // The same for all pieces and tiles.
                        if repeated.len() < at.len() {
                            repeated.clear();
                            memory::reserve(repeated, at.len());
                            rows.clone().for_each(|_| repeated.extend_from_slice(cast(y)));
                        }
                        link.with = With::Each(&repeated[..at.len()]);
                    }
                    Beside::Rows(y) => {
                        memory::resize(repeated, at.len(), T::default());
                        repeat_each(&cast(y)[rows.clone()], width, repeated);
                        link.with = With::Each(repeated);
                    }
                }
            }
            let (x, out) = (&cast(tile.bytes)[at.clone()], &mut out[at]);
            level.run(Run { x, links: &links[..self.steps.len()], out, ahead });
        }
        false
    }

    fn row_sums(
        &self,
        level: Level,
        tile: &RowTile<'_>,
        workspace: &mut dyn Any,
        sums: &mut Vec<f64>,
    ) -> bool {
        let Some(Kept { own, .. }) = workspace.downcast_mut::<Kept<T>>() else { return false };
        if tile.width < WIDE {
            return false;
        }
        memory::resize(sums, tile.rows, 0.0);
        let ahead = ahead(tile);
        self.each_row(tile, own, |row, x, links| {
            sums[row] = level.run(RunSum { x, links, ahead });
        });
        true
    }
}

fn row_of<T>(x: &[T], row: usize, width: usize) -> &[T] {
    &x[row * width..(row + 1) * width]
}

fn cast<T: Number>(bytes: &[u8]) -> &[T] {
    bytemuck::cast_slice(bytes)
}

struct Run<'a, T> {
    x: &'a [T],
    links: &'a [Link<'a, T>],
    out: &'a mut [T],
    ahead: usize,
}

impl<T: Registers> Body for Run<'_, T> {
    type Out = ();
    const WIDEST: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        chain(simd, self.x, self.links, self.out, self.ahead);
    }
}

struct RunSum<'a, T> {
    x: &'a [T],
    links: &'a [Link<'a, T>],
    ahead: usize,
}

impl<T: Registers> Body for RunSum<'_, T> {
    type Out = f64;
    const WIDEST: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f64 {
        chain_sum(simd, self.x, self.links, self.ahead)
    }
}
