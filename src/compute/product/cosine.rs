//! Cosines: products of rows that were divided by their norms first, so that none overflows.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use arrow_buffer::NullBuffer;

use super::blocks::Make;
use crate::compute::contiguous::norms;
use crate::compute::metric::{largest, over_power};
use crate::dispatch::gemm::{Factor, Gemm, Panel, ProductWorkspace};
use crate::dispatch::{Level, Plan, machine};
use crate::error::Result;
use crate::kernel::{Body, Real, Simd, exponent_of, is_safe_root};
use crate::matrix::{self, Number};
use crate::memory;

pub(super) struct Cosines<'a, T> {
    /// Unit vectors, one behind the other.
    y: &'a [T],
    factor: Factor<'a, T>,
    width: usize,
    level: Level,
    /// Rows of `x` that are zero vectors.
    zeros: Mutex<Vec<usize>>,
}

impl<'a, T: Gemm> Cosines<'a, T> {
    pub(super) fn new(y: &'a [T], (rows, width): (usize, usize), plan: &Plan) -> Self {
        let factor = Factor::new(plan.backend, Panel::new(y, rows, width, width).transposed());
        Self { y, factor, width, level: plan.level(machine()), zeros: Mutex::default() }
    }
}

impl<T: Number + Gemm> Make for Cosines<'_, T> {
    type X = T;
    type Out = T;
    type Workspace = (UnitRows<T>, ProductWorkspace<T>);

    fn column_step(&self) -> usize {
        self.factor.column_step()
    }

    fn prepare(&self, (unit, _): &mut Self::Workspace, rows: Range<usize>, x: &[T]) {
        *unit = unit_rows(self.level, x, self.width, rows.len());
        if unit.norms.contains(&0.0) {
            let zeros = rows.zip(&unit.norms).filter(|(_, norm)| **norm == 0.0);
            let mut held = self.zeros.lock().unwrap_or_else(PoisonError::into_inner);
            memory::extend(&mut held, zeros.map(|(row, _)| row));
        }
    }

    fn block(
        &self,
        (unit, workspace): &mut Self::Workspace,
        (_, rows): (&[T], usize),
        columns: Range<usize>,
        go_on: &dyn Fn() -> bool,
        sink: &mut dyn FnMut(Range<usize>, &mut [T]),
    ) {
        let width = self.width;
        let y = &self.y[columns.start * width..columns.end * width];
        self.factor.multiply((&unit.rows, rows), columns, workspace, go_on, &mut |rows, out| {
            let x = &unit.rows[rows.start * width..rows.end * width];
            let norms = &unit.norms[rows.clone()];
            self.level.run(FromUnitProducts { x, y, width, norms, out });
            sink(rows, out);
        });
    }

    fn missing(&self) -> Vec<usize> {
        std::mem::take(&mut self.zeros.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Turns products of unit vectors into cosines.
struct FromUnitProducts<'a, T> {
    x: &'a [T],
    y: &'a [T],
    width: usize,
    /// The norms that rows of `x` had.
    norms: &'a [f64],
    out: &'a mut [T],
}

impl<T: Gemm> Body for FromUnitProducts<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { x, y, width, norms, out } = self;
        let columns = out.len() / norms.len().max(1);
        if columns == 0 {
            return;
        }
        let one = T::round(1.0);
        // The product of a unit vector with itself is off by so much at most.
        let near = T::round(1.0 - (width as f64 + 9.0) * T::ROUNDOFF);
        for (r, (norm, out)) in norms.iter().zip(out.chunks_exact_mut(columns)).enumerate() {
            if *norm == 0.0 {
                out.fill(T::default());
                continue;
            }
            let mut any_near = false;
            for o in out.iter_mut() {
                let magnitude = o.magnitude();
                any_near |= (magnitude >= near) & (magnitude < one);
                // As row by row: never more than 1; a NaN passes.
                let most = if o.has_sign() { one.negative().0 } else { one };
                *o = if magnitude > one { most } else { *o };
            }
            if any_near {
                let x = &x[r * width..(r + 1) * width];
                let y = y.chunks_exact(width.max(1));
                y.zip(out).for_each(|(y, o)| *o = exact_cosine(x, y, *o, near));
            }
        }
    }
}

/// The cosine of two unit vectors whose product is at hand: exactly 1 or -1 where the product is no
/// nearer to 0 than `near`, and they are the same or opposite.
fn exact_cosine<T: Real>(x: &[T], y: &[T], product: T, near: T) -> T {
    let one = T::round(if product.has_sign() { -1.0 } else { 1.0 });
    let is_same = || x.iter().zip(y).all(|(x, y)| x.widen() == y.widen() * one.widen());
    if product.magnitude() >= near && is_same() { one } else { product }
}

/// Rows divided by their norms.
#[derive(Default)]
pub(in crate::compute) struct UnitRows<T> {
    pub(in crate::compute) rows: Vec<T>,
    pub(in crate::compute) norms: Vec<f64>,
}

pub(in crate::compute) fn unit_rows<T: Number + Gemm>(
    level: Level,
    x: &[T],
    width: usize,
    rows: usize,
) -> UnitRows<T> {
    let mut norms_of_x = Vec::new();
    norms(level, x, width, &mut norms_of_x, rows);
    let mut unit = Vec::new();
    memory::reserve(&mut unit, x.len());
    for (row, norm) in x.chunks_exact(width.max(1)).zip(&norms_of_x) {
        if is_safe_root(*norm) || *norm == 0.0 {
            let norm = if *norm == 0.0 { 1.0 } else { *norm };
            memory::extend(&mut unit, row.iter().map(|x| T::round(x.widen() / norm)));
            continue;
        }
        // The norm overflows, or dividing by it would: a power of two comes first.
        let mut wide = Vec::new();
        memory::extend(&mut wide, row.iter().map(|x| x.widen()));
        let scaled = over_power(&wide, exponent_of(largest(&wide)));
        let mut norm = Vec::new();
        norms(level, &scaled, width, &mut norm, 1);
        memory::extend(&mut unit, scaled.iter().map(|x| T::round(x / norm[0])));
    }
    UnitRows { rows: unit, norms: norms_of_x }
}

/// Which norms are those of zero vectors; `None` if none is.
pub(super) fn some_zero(norms: &[f64]) -> Result<Option<NullBuffer>> {
    let are_zero = norms.contains(&0.0);
    are_zero.then(|| matrix::from_bits(norms.len(), |i| norms[i] != 0.0)).transpose()
}
