//! Distances: Euclidean ones from products, Manhattan ones term by term.

use std::ops::Range;

use arrow_schema::DataType;

use super::blocks::Make;
use crate::compute::Metric;
use crate::compute::contiguous::norms;
use crate::dispatch::gemm::{Factor, Panel, ProductWorkspace};
use crate::dispatch::{Level, Plan, machine};
use crate::kernel::{Body, Distance, Second, Simd, row_pairs};
use crate::matrix::{Number, steps};
use crate::memory;

/// The share of `|x|² + |y|²` from which a squared distance is measured directly.
///
/// As a product, `|x|² + |y|² − 2xy` is off by at most `(d + 4) u (|x|² + |y|²)` with `u = 2⁻⁵³`;
/// its root, by half of that over the squared distance. What is not within `2⁻³⁶` so, or a quarter
/// of a unit in the last place of float32, is near.
fn nearness(width: usize, element: &DataType) -> f64 {
    let bits = if matches!(element, DataType::Float16 | DataType::Float32) { 28 } else { 36 };
    (width as f64 + 4.0) * f64::EPSILON / 4.0 * 2f64.powi(bits)
}

/// Euclidean distances. In float64 whatever the elements are: in float32, the error bound of a
/// product of wide rows is larger than most distances.
pub(super) struct Distances<'a> {
    /// These, or their squares.
    metric: Metric,
    y: &'a [f64],
    factor: Factor<'a, f64>,
    width: usize,
    /// The squared norms of the rows of `y`.
    squares: Vec<f64>,
    near: f64,
    level: Level,
}

impl<'a> Distances<'a> {
    pub(super) fn new(
        metric: Metric,
        y: &'a [f64],
        (rows, width): (usize, usize),
        element: &DataType,
        plan: &Plan,
    ) -> Self {
        let level = plan.level(machine());
        let mut squares = Vec::new();
        squared_norms(level, y, width, &mut squares, rows);
        let factor = Factor::new(plan.backend, Panel::new(y, rows, width, width).transposed());
        Self { metric, y, factor, width, squares, near: nearness(width, element), level }
    }
}

fn squared_norms(level: Level, x: &[f64], width: usize, out: &mut Vec<f64>, rows: usize) {
    norms(level, x, width, out, rows);
    out.iter_mut().for_each(|norm| *norm *= *norm);
}

impl Make for Distances<'_> {
    type X = f64;
    type Out = f64;
    type Workspace = (Vec<f64>, ProductWorkspace<f64>);

    fn column_step(&self) -> usize {
        self.factor.column_step()
    }

    fn prepare(&self, (squares, _): &mut Self::Workspace, rows: Range<usize>, x: &[f64]) {
        squared_norms(self.level, x, self.width, squares, rows.len());
    }

    fn block(
        &self,
        (squares, workspace): &mut Self::Workspace,
        x: (&[f64], usize),
        columns: Range<usize>,
        go_on: &dyn Fn() -> bool,
        sink: &mut dyn FnMut(Range<usize>, &mut [f64]),
    ) {
        let (width, near) = (self.width, self.near);
        let of_y = &self.squares[columns.clone()];
        let y = &self.y[columns.start * width..columns.end * width];
        self.factor.multiply(x, columns, workspace, go_on, &mut |rows, out| {
            let x = &x.0[rows.start * width..rows.end * width];
            let squares = (&squares[rows.clone()], of_y);
            let metric = self.metric;
            self.level.run(FromProducts { metric, x, y, width, squares, near, out });
            sink(rows, out);
        });
    }
}

/// Turns products into distances.
struct FromProducts<'a> {
    metric: Metric,
    x: &'a [f64],
    y: &'a [f64],
    width: usize,
    squares: (&'a [f64], &'a [f64]),
    near: f64,
    out: &'a mut [f64],
}

/// Sums of squares outside of these have overflowed or lost digits.
const SAFE: Range<f64> = 1e-280..f64::INFINITY;

impl Body for FromProducts<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { metric, x, y, width, squares: (of_x, of_y), near, out } = self;
        let is_root = metric == Metric::L2;
        if of_y.is_empty() {
            return;
        }
        for (r, (xx, out)) in of_x.iter().zip(out.chunks_exact_mut(of_y.len())).enumerate() {
            let mut any = false;
            for (yy, o) in of_y.iter().zip(out.iter_mut()) {
                let both = xx + yy;
                let squared = both - 2.0 * *o;
                let is_far = (squared > near * both) & (both > SAFE.start) & (both < SAFE.end);
                any |= !is_far;
                // Less than nothing marks what is measured below.
                let marked = if both.is_nan() { f64::NAN } else { -1.0 };
                let far = if is_root { squared.sqrt() } else { squared };
                *o = if is_far { far } else { marked };
            }
            if !any {
                continue;
            }
            for (c, o) in out.iter_mut().enumerate().filter(|(_, o)| **o == -1.0) {
                let (x, y) = (&x[r * width..(r + 1) * width], &y[c * width..(c + 1) * width]);
                *o = metric.score(simd, x, y).unwrap_or(0.0);
            }
        }
    }
}

/// Sums of distances, element by element, in the order of `kernel::sum`.
pub(super) struct Manhattan<'a, T> {
    y: &'a [T],
    width: usize,
    level: Level,
    column_step: usize,
}

/// Rows that are made at once, and the most columns.
const ROWS: usize = 8;
const COLUMNS: usize = 256;

impl<'a, T: Number> Manhattan<'a, T> {
    pub(super) fn new(y: &'a [T], width: usize, level: Level) -> Self {
        // As many rows of y as half of an L2 holds: each meets every row of a task.
        let column_step = (machine().l2 / 2 / (width * size_of::<T>()).max(1)).clamp(8, COLUMNS);
        Self { y, width, level, column_step }
    }
}

impl<T: Number> Make for Manhattan<'_, T> {
    type X = T;
    type Out = f64;
    type Workspace = Vec<f64>;

    fn column_step(&self) -> usize {
        self.column_step
    }

    fn block(
        &self,
        out: &mut Vec<f64>,
        (x, rows): (&[T], usize),
        columns: Range<usize>,
        go_on: &dyn Fn() -> bool,
        sink: &mut dyn FnMut(Range<usize>, &mut [f64]),
    ) {
        let width = self.width;
        let y = &self.y[columns.start * width..columns.end * width];
        for rows in steps(0..rows, ROWS) {
            if rows.start > 0 && !go_on() {
                return;
            }
            out.clear();
            memory::resize(out, rows.len() * columns.len(), 0.0);
            let x = &x[rows.start * width..rows.end * width];
            self.level.run(SumsOfBlock { x, y, width, columns: columns.len(), out });
            sink(rows, out);
        }
    }
}

struct SumsOfBlock<'a, T> {
    x: &'a [T],
    y: &'a [T],
    width: usize,
    columns: usize,
    out: &'a mut [f64],
}

impl<T: Number> Body for SumsOfBlock<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, y, width, columns, out } = self;
        if width == 0 || columns == 0 {
            return;
        }
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(columns)) {
            let out = out.as_chunks_mut::<1>().0;
            row_pairs(Distance, simd, y, Second::Same(x), width, out);
        }
    }
}
