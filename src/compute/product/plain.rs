//! Products with the columns of a panel.

use std::ops::Range;

use super::blocks::Make;
use crate::compute::Metric;
use crate::dispatch::gemm::{Factor, Gemm, Panel, ProductWorkspace};
use crate::dispatch::{Level, Plan, machine};
use crate::kernel::{Body, Element, Simd};
use crate::matrix::Number;
use crate::memory::Gather as _;

pub(super) struct Products<'a, T> {
    y: Panel<'a, T>,
    factor: Factor<'a, T>,
    level: Level,
}

impl<'a, T: Gemm> Products<'a, T> {
    pub(super) fn new(y: Panel<'a, T>, plan: &Plan) -> Self {
        let factor = Factor::new(plan.backend, y);
        Self { y, factor, level: plan.level(machine()) }
    }
}

impl<T: Number + Gemm> Make for Products<'_, T> {
    type X = T;
    type Out = T;
    type Workspace = ProductWorkspace<T>;

    fn column_step(&self) -> usize {
        self.factor.column_step()
    }

    fn block(
        &self,
        workspace: &mut Self::Workspace,
        x: (&[T], usize),
        columns: Range<usize>,
        go_on: &dyn Fn() -> bool,
        sink: &mut dyn FnMut(Range<usize>, &mut [T]),
    ) {
        let width = self.y.shape().0;
        self.factor.multiply(x, columns.clone(), workspace, go_on, &mut |rows, out| {
            if !self.level.run(AreFinite(out)) {
                let x = &x.0[rows.start * width..rows.end * width];
                self.level.run(Mend { y: self.y, x, columns: columns.clone(), out });
            }
            sink(rows, out);
        });
    }
}

fn is_finite<T: Element>(x: T) -> bool {
    x.widen().is_finite()
}

/// Whether all are finite. All are asked, so that the loop has no branch.
struct AreFinite<'a, T>(&'a [T]);

impl<T: Element> Body for AreFinite<'_, T> {
    type Out = bool;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> bool {
        // Of a number less itself nothing is left, of all others NaN.
        self.0.iter().fold(true, |all, x| all & !x.minus(*x).0.is_nan())
    }
}

/// Makes the products that overflowed once more, row by row as `dot` does: it adds up in float64,
/// and does not overflow on the way to what fits.
struct Mend<'m, 'a, T> {
    y: Panel<'a, T>,
    x: &'m [T],
    columns: Range<usize>,
    out: &'m mut [T],
}

impl<T: Number + Gemm> Body for Mend<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { y, x, columns, out } = self;
        let width = y.shape().0;
        // What is not finite itself makes no finite product.
        let finite: Vec<bool> = columns.clone().map(|c| y.column(c).all(is_finite)).gather();
        let rows = x.chunks_exact(width.max(1)).zip(out.chunks_exact_mut(columns.len()));
        for (x, out) in rows.filter(|(x, _)| x.iter().all(|x| is_finite(*x))) {
            for ((c, finite), o) in columns.clone().zip(&finite).zip(out) {
                if *finite && !is_finite(*o) {
                    let column: Vec<T> = y.column(c).gather();
                    *o = T::round(Metric::Dot.score(simd, x, &column).unwrap_or(0.0)).canonical();
                }
            }
        }
    }
}
