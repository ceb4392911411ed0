//! What transforms do to a block of rows while it is in the cache.

use super::measure::{Found, Measure};
use crate::buffer::collected;
use crate::compute::by_rows::{Block, BlockRows};
use crate::compute::reduction::RowNodes;
use crate::error::Result;
use crate::kernel::{
    Affine, Body, Element, Extreme, Itself, One, Real, Reducer, Scale, Scaled, Simd, Sums, Tile,
    affine_all, affine_each, affine_each_with_rests, affine_rescaled, exp_each,
};
use crate::matrix::Number;
use crate::memory;

/// What is done to each column, repeated until the row is long enough that its ends cost nothing.
pub(super) struct Pattern {
    offsets: Vec<f64>,
    /// Empty if all are zero.
    rests: Vec<f64>,
    divisors: Vec<f64>,
    /// Columns that are multiplied by a power of two first.
    rescaled: Vec<(usize, f64, Affine)>,
}

impl Pattern {
    pub(super) fn new<O: Scaled>(found: &[Option<Found>]) -> Result<Self> {
        let times = 512usize.div_ceil(found.len().max(1));
        let found = || found.iter().map(|found| found.unwrap_or(Found::NONE));
        let all = |one: fn(Affine) -> f64| {
            let values = (0..times).flat_map(|_| found().map(|found| one(found.prepared::<O>())));
            collected(values)
        };
        let mut rests = all(|by| by.rest)?;
        if rests.iter().all(|rest| *rest == 0.0) {
            rests.clear();
        }
        let rescaled = found().enumerate().filter(|(_, found)| found.power != 1.0);
        let rescaled = rescaled.map(|(c, found)| (c, found.power, found.prepared::<O>()));
        let rescaled = collected(rescaled)?;
        Ok(Self { offsets: all(|by| by.offset)?, rests, divisors: all(|by| by.divisor)?, rescaled })
    }
}

impl<T: Element, O: Scaled> Block<T, O> for Pattern {
    type Workspace = ();
    const NEEDS_VALIDITY: bool = false;
    const WHOLE_ROWS: bool = false;

    fn fill(&self) -> T {
        T::default()
    }

    fn run(&self, rows: BlockRows<'_, T, O>, (): &mut ()) {
        let BlockRows { level, tile, width, out, .. } = rows;
        let period = self.offsets.len();
        for (x, out) in tile.x.chunks(period).zip(out.chunks_mut(period)) {
            let (offsets, rests, divisors) = (&self.offsets, &self.rests, &self.divisors);
            level.run(AffineEach { x, offsets, rests, divisors, out });
        }
        for (column, power, by) in &self.rescaled {
            let x = tile.x[*column..].iter().step_by(width);
            for (o, x) in out[*column..].iter_mut().step_by(width).zip(x) {
                *o = affine_rescaled(*x, *power, *by);
            }
        }
    }
}

/// Rows that are measured and scaled in the cache.
pub(super) struct PerRow<M>(pub(super) M);

/// Widths from which a row is scaled by two numbers; below, they are repeated for each element, so
/// that the loop does not stop at every row.
const WIDE: usize = 32;

/// Workspace for what is measured of a block.
pub(in crate::compute) struct Measured<N> {
    nodes: Vec<N>,
    scales: Vec<Scale>,
    offsets: Vec<f64>,
    /// Empty while all are zero.
    rests: Vec<f64>,
    divisors: Vec<f64>,
    /// Rows that are multiplied by a power of two first.
    rescaled: Vec<(usize, f64, Affine)>,
}

impl<N> Default for Measured<N> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            scales: Vec::new(),
            offsets: Vec::new(),
            rests: Vec::new(),
            divisors: Vec::new(),
            rescaled: Vec::new(),
        }
    }
}

/// What a measure reduces elements of type `T` to.
type NodeOf<T, M> = <<M as Measure<T>>::Reducer as Reducer<T>>::Node;

impl<T: Number + Real, O: Scaled, M: Measure<T>> Block<T, O> for PerRow<M> {
    type Workspace = Measured<NodeOf<T, M>>;
    // The count of valid elements is asked for, where they are not all.
    const NEEDS_VALIDITY: bool = true;
    const WHOLE_ROWS: bool = M::WHOLE_ROWS;

    fn fill(&self) -> T {
        self.0.reducer().fill()
    }

    fn run(&self, rows: BlockRows<'_, T, O>, workspace: &mut Self::Workspace) {
        let BlockRows { level, tile, width, out, missing } = rows;
        let reducer = self.0.reducer();
        let Measured { nodes, scales, offsets, rests, divisors, rescaled } = workspace;
        nodes.clear();
        memory::resize(nodes, missing.len(), reducer.empty());
        scales.clear();
        level.run(RowNodes { reducer, tile, width, out: nodes, scales });
        offsets.clear();
        rests.clear();
        divisors.clear();
        if width < WIDE {
            memory::reserve(offsets, tile.x.len());
            memory::reserve(divisors, tile.x.len());
        }
        rescaled.clear();
        for (r, (node, missing)) in nodes.iter().zip(missing).enumerate() {
            let at = r * width..(r + 1) * width;
            let valid = tile.valid.map(|valid| &valid[at.clone()]);
            let count =
                valid.map_or(width, |valid| valid.iter().filter(|valid| **valid).count()) as u64;
            let x = &tile.x[at.clone()];
            let power = scales.get(r).map_or(1.0, |scale| scale.power());
            let found = self.0.found(*node, count, power);
            *missing = found.is_none();
            let found = found.unwrap_or(Found::NONE);
            let by = found.prepared::<O>();
            if found.power != 1.0 {
                memory::push(rescaled, (r, found.power, by));
            }
            if width < WIDE {
                memory::resize(offsets, at.end, by.offset);
                memory::resize(divisors, at.end, by.divisor);
                if by.rest != 0.0 || !rests.is_empty() {
                    // Those before it were zero.
                    memory::resize(rests, at.start, 0.0);
                    memory::resize(rests, at.end, by.rest);
                }
            } else {
                level.run(AffineAll { x, by, out: &mut out[at] });
            }
        }
        if width < WIDE {
            level.run(AffineEach { x: tile.x, offsets, rests, divisors, out });
        }
        for (r, power, by) in rescaled {
            let at = *r * width..(*r + 1) * width;
            for (o, x) in out[at.clone()].iter_mut().zip(&tile.x[at]) {
                *o = affine_rescaled(*x, *power, *by);
            }
        }
    }
}

/// Rows of which exponentials are made, by their sum.
pub(super) struct Softmax;

impl<T: Element, O: Scaled> Block<T, O> for Softmax {
    type Workspace = Vec<f64>;
    const NEEDS_VALIDITY: bool = false;
    const WHOLE_ROWS: bool = true;

    fn fill(&self) -> T {
        T::default()
    }

    fn run(&self, rows: BlockRows<'_, T, O>, powers: &mut Vec<f64>) {
        let BlockRows { level, tile, width, out, .. } = rows;
        memory::resize(powers, width, 0.0);
        level.run(SoftmaxRows { x: tile.x, powers, out });
    }
}

struct SoftmaxRows<'a, T, O> {
    x: &'a [T],
    /// Workspace for one row.
    powers: &'a mut [f64],
    out: &'a mut [O],
}

impl<T: Element, O: Scaled> Body for SoftmaxRows<'_, T, O> {
    type Out = ();
    const WIDEST: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, powers, out } = self;
        let width = powers.len();
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let mut max = Reducer::<T>::one(Extreme::<true, false>, 0);
            max.feed(simd, Tile { x, valid: None, weights: None });
            exp_each::<T, O>(x, max.finish().node.widen(), powers);
            let mut sum = Reducer::<f64>::one(Sums(Itself), 0);
            sum.feed(simd, Tile { x: &*powers, valid: None, weights: None });
            let divisor = O::prepared(One::<f64, f64>::finish(sum).node);
            affine_all(powers, Affine { offset: 0.0, rest: 0.0, divisor }, out);
        }
    }
}

struct AffineAll<'a, T, O> {
    x: &'a [T],
    by: Affine,
    out: &'a mut [O],
}

impl<T: Element, O: Scaled> Body for AffineAll<'_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        affine_all(self.x, self.by, self.out);
    }
}

struct AffineEach<'a, T, O> {
    x: &'a [T],
    offsets: &'a [f64],
    /// Empty if all are zero.
    rests: &'a [f64],
    divisors: &'a [f64],
    out: &'a mut [O],
}

impl<T: Element, O: Scaled> Body for AffineEach<'_, T, O> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { x, offsets, rests, divisors, out } = self;
        if O::SHOWS_REST && !rests.is_empty() {
            affine_each_with_rests(x, [offsets, rests, divisors], out);
        } else {
            affine_each(x, offsets, divisors, out);
        }
    }
}
