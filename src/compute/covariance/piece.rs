//! Sums of products of some columns with some columns, over some rows: a state that takes panels of
//! rows, and joins with that of the rows that follow.
//!
//! ```text
//! for each panel of rows:
//!     if centred: the means of the panel's columns
//!     pack the columns of either side, in float64, less their means
//!     if centred: one row more, for the distance of these means from those of the rows before
//!     products += packedᵀ packed                  of columns with themselves, half of it
//! ```

use std::ops::Range;

use arrow_buffer::NullBuffer;

use crate::compute::contiguous::RowWorkspace;
use crate::dispatch::gemm::{Packed, add_products};
use crate::dispatch::{Plan, machine};
use crate::kernel::{Body, Mean, Simd};
use crate::matrix::{Number, View, steps};
use crate::memory::{self, Gather as _};

/// The most columns of a block: its products are 1.1 MiB.
pub(super) const BLOCK: usize = 384;

/// Elements of a panel: rows that are packed, and multiplied while they are in L2.
const PANEL: usize = 64 << 10;

/// Rows of a panel.
pub(super) fn panel_rows(width: usize) -> usize {
    (PANEL / width.max(1)).clamp(64, 4096)
}

/// What products are made of: rows of a matrix, except those that are not `whole`; columns times
/// `powers` of two, if there are any.
#[derive(Clone, Copy)]
pub(super) struct PieceSource<'a, T: Number> {
    pub(super) view: &'a View<'a, T>,
    pub(super) whole: Option<&'a NullBuffer>,
    pub(super) powers: &'a [f64],
}

/// Products of some columns with some columns, over some rows. It can be joined with that of the
/// rows that follow.
pub(super) struct Piece {
    pub(super) left: Range<usize>,
    pub(super) right: Range<usize>,
    centred: bool,
    pub(super) count: usize,
    /// The means of both sides, if products are of distances from them.
    means: [Vec<Mean>; 2],
    products: Vec<f64>,
}

/// What a thread keeps for its panels.
pub(super) struct PanelWorkspace<T> {
    rows: RowWorkspace<T>,
    packed: [Packed<f64>; 2],
    means: [Vec<Mean>; 2],
}

impl<T> Default for PanelWorkspace<T> {
    fn default() -> Self {
        let (rows, packed) = (RowWorkspace::default(), Default::default());
        Self { rows, packed, means: Default::default() }
    }
}

impl Piece {
    pub(super) fn new(left: Range<usize>, right: Range<usize>, centred: bool) -> Self {
        let means = [
            memory::filled(Mean::default(), left.len()),
            memory::filled(Mean::default(), right.len()),
        ];
        let products = Vec::new();
        Self { left, right, centred, count: 0, means, products }
    }

    /// Whether it has the same columns, of other rows.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.left == other.left && self.right == other.right
    }

    /// The product of two columns.
    pub(super) fn product(&self, a: usize, b: usize) -> f64 {
        // Of columns with themselves there is but half.
        let (a, b) = if self.left == self.right { (a.min(b), a.max(b)) } else { (a, b) };
        self.products[(a - self.left.start) * self.right.len() + b - self.right.start]
    }

    /// Takes rows.
    pub(super) fn feed<T: Number>(
        &mut self,
        plan: &Plan,
        from: PieceSource<'_, T>,
        rows: Range<usize>,
        workspace: &mut PanelWorkspace<T>,
        go_on: &dyn Fn() -> bool,
    ) {
        let PieceSource { view, whole, powers } = from;
        memory::resize(&mut self.products, self.left.len() * self.right.len(), 0.0);
        let level = plan.level(machine());
        let sides = [self.left.clone(), self.right.clone()];
        let sides = if self.left == self.right { &sides[..1] } else { &sides[..] };
        for rows in steps(rows, panel_rows(view.width)) {
            let count = match whole {
                None => rows.len(),
                Some(whole) => rows.clone().filter(|row| whole.is_valid(*row)).count(),
            };
            if count == 0 {
                continue;
            }
            if !go_on() {
                return;
            }
            let PanelWorkspace { rows: held, packed, means } = &mut *workspace;
            let x = held.block(view, rows.clone());
            let panel = PanelRows { x, width: view.width, rows, whole, powers };
            for (side, columns) in sides.iter().enumerate() {
                let (columns, packed) = (columns.clone(), &mut packed[side]);
                let between = usize::from(self.centred && self.count > 0);
                packed.reset(plan.backend, count + between, columns.len());
                means[side].clear();
                if self.centred {
                    let (columns, means) = (columns.clone(), &mut means[side]);
                    level.run(MeansOf { panel: panel.clone(), columns, count, means });
                }
                let means = &means[side];
                level.run(Pack { panel: panel.clone(), columns, means, packed: &mut *packed });
                if between > 0 {
                    self.between(side, count, means, packed);
                }
            }
            if self.centred {
                self.move_means(count, [&means[0], &means[sides.len() - 1]]);
            }
            self.count += count;
            let right = (sides.len() > 1).then_some(&packed[1]);
            add_products(plan.backend, &packed[0], right, &mut self.products);
        }
    }

    /// Adds to a centred panel the row whose products are those between the means of what came
    /// before and of the panel: `√(n m / (n + m))` times their distance.
    fn between(&self, side: usize, count: usize, means: &[Mean], packed: &mut Packed<f64>) {
        let (n, m) = (self.count as f64, count as f64);
        let weight = (n * (m / (n + m))).sqrt();
        packed.fill_row(count, |some, to| {
            let both = means[some.clone()].iter().zip(&self.means[side][some]);
            to.iter_mut().zip(both).for_each(|(to, (new, old))| *to = weight * new.minus(*old));
        });
    }

    fn move_means(&mut self, count: usize, means: [&[Mean]; 2]) {
        let all = (self.count + count) as f64;
        let (own_share, share) = (self.count as f64 / all, count as f64 / all);
        for (own, new) in self.means.iter_mut().zip(means) {
            for (own, new) in own.iter_mut().zip(new) {
                let apart = new.minus(*own);
                *own = match self.count {
                    0 => *new,
                    // From the mean of the more: it moves less, and is rounded by less.
                    n if n < count => new.plus(-apart * own_share),
                    _ => own.plus(apart * share),
                };
            }
        }
    }

    /// Takes the products of the same columns over the rows that follow.
    pub(super) fn join(&mut self, next: &Self) {
        for (own, next) in self.products.iter_mut().zip(&next.products) {
            *own += next;
        }
        if self.centred && self.count > 0 && next.count > 0 {
            let (n, m) = (self.count as f64, next.count as f64);
            let weight = n * (m / (n + m));
            let apart = |side: usize| {
                let both = next.means[side].iter().zip(&self.means[side]);
                both.map(|(new, old)| new.minus(*old)).gather()
            };
            let (left, right) = (apart(0), apart(1));
            for (products, left) in self.products.chunks_exact_mut(right.len().max(1)).zip(left) {
                products.iter_mut().zip(&right).for_each(|(p, right)| *p += weight * left * right);
            }
        }
        if next.count > 0 {
            self.move_means(next.count, [&next.means[0], &next.means[1]]);
        }
        self.count += next.count;
    }
}

/// Rows of a panel, of which those that are not whole are left out.
#[derive(Clone)]
struct PanelRows<'s, T> {
    x: &'s [T],
    width: usize,
    rows: Range<usize>,
    whole: Option<&'s NullBuffer>,
    powers: &'s [f64],
}

impl<'s, T> PanelRows<'s, T> {
    /// Some columns of each row.
    #[inline(always)]
    fn each(self, columns: Range<usize>, mut f: impl FnMut(&'s [T])) {
        for (row, x) in self.rows.zip(self.x.chunks_exact(self.width)) {
            if self.whole.is_none_or(|whole| whole.is_valid(row)) {
                f(&x[columns.clone()]);
            }
        }
    }
}

/// The mean of each of some columns.
///
/// It is measured from the first row, so that a constant column has it exactly, and its distances
/// are zero.
struct MeansOf<'s, T> {
    panel: PanelRows<'s, T>,
    columns: Range<usize>,
    count: usize,
    means: &'s mut Vec<Mean>,
}

impl<T: Number> Body for MeansOf<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { panel, columns, count, means } = self;
        let powers = panel.powers.get(columns.clone()).unwrap_or(&[]);
        let mut first: Vec<f64> = Vec::new();
        let mut sums = memory::filled(0.0, columns.len());
        let mut scaled: Vec<f64> = Vec::new();
        panel.each(columns, |row| {
            if !powers.is_empty() {
                scaled.clear();
                memory::extend(&mut scaled, row.iter().zip(powers).map(|(x, by)| x.widen() * by));
                if first.is_empty() {
                    first.clone_from(&scaled);
                }
                add_distances(&mut sums, &scaled, &first);
                return;
            }
            if first.is_empty() {
                memory::extend(&mut first, row.iter().map(|x| x.widen()));
            }
            add_distances(&mut sums, row, &first);
        });
        let mean =
            |(first, sum): (&f64, &f64)| Mean { high: *first, low: 0.0 }.plus(sum / count as f64);
        memory::extend(means, first.iter().zip(&sums).map(mean));
    }
}

#[inline(always)]
fn add_distances<T: Number>(sums: &mut [f64], row: &[T], first: &[f64]) {
    for ((sum, x), first) in sums.iter_mut().zip(row).zip(first) {
        *sum += x.widen() - first;
    }
}

/// Packs some columns, less their means if there are any.
struct Pack<'s, T> {
    panel: PanelRows<'s, T>,
    columns: Range<usize>,
    means: &'s [Mean],
    packed: &'s mut Packed<f64>,
}

impl<T: Number> Body for Pack<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { panel, columns, means, packed } = self;
        let powers = panel.powers.get(columns.clone()).unwrap_or(&[]);
        // Apart, for the loops below.
        let high: Vec<f64> = means.iter().map(|mean| mean.high).gather();
        let low: Vec<f64> = means.iter().map(|mean| mean.low).gather();
        let mut k = 0;
        panel.each(columns, |row| {
            packed.fill_row(k, |some, to| {
                for (to, x) in to.iter_mut().zip(&row[some.clone()]) {
                    *to = x.widen();
                }
                if !powers.is_empty() {
                    to.iter_mut().zip(&powers[some.clone()]).for_each(|(to, by)| *to *= by);
                }
                if !high.is_empty() {
                    let means = high[some.clone()].iter().zip(&low[some]);
                    for (to, (high, low)) in to.iter_mut().zip(means) {
                        *to = *to - high - low;
                    }
                }
            });
            k += 1;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::dispatch::{Family, Settings, Work, plan};

    fn fed(view: &View<'_, f64>, rows: Range<usize>) -> Piece {
        let mut piece = Piece::new(0..view.width, 0..view.width, true);
        let source = PieceSource { view, whole: None, powers: &[] };
        let work =
            Work { family: Family::Elementwise, bytes_read: 0, bytes_written: 0, has_vdsp: false };
        let plan = plan(&work, machine(), &Settings::default());
        piece.feed(&plan, source, rows, &mut PanelWorkspace::default(), &|| true);
        piece
    }

    /// Whatever the cut, the joined state is that of the whole: a sum of `n` products is off by at
    /// most `n u` times the sum of their magnitudes, which the largest sum of squares is above.
    #[test]
    fn pieces_joined_are_the_whole() {
        let values =
            (0..3000).map(|i| 1e6 + f64::from(i % 17) * f64::from(i % 5)).collect::<Vec<_>>();
        let array: arrow_array::ArrayRef =
            std::sync::Arc::new(arrow_array::Float64Array::from(values));
        let x = Matrix::reshape(&array, 3).unwrap();
        let view = x.view::<f64>().unwrap();
        let whole = fed(&view, 0..1000);
        for cut in [0, 1, 500, 999, 1000] {
            let mut joined = fed(&view, 0..cut);
            joined.join(&fed(&view, cut..1000));
            assert_eq!(joined.count, 1000);
            let largest = whole.products.iter().fold(0.0f64, |a, b| a.max(b.abs()));
            for (a, b) in joined.products.iter().zip(&whole.products) {
                let bound = 2.0 * 1000.0 * f64::EPSILON / 2.0 * largest;
                assert!((a - b).abs() <= bound, "{cut}: {a} {b}");
            }
            for (a, b) in joined.means[0].iter().zip(&whole.means[0]) {
                // A few units of the distances from the first row, not of the mean.
                assert!(a.minus(*b).abs() <= 1e-15 * 64.0 * 8.0, "{cut}: {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_constant_column_has_no_spread() {
        let array: arrow_array::ArrayRef =
            std::sync::Arc::new(arrow_array::Float64Array::from(vec![0.1; 10_000]));
        let x = Matrix::reshape(&array, 1).unwrap();
        let view = x.view::<f64>().unwrap();
        let mut joined = fed(&view, 0..3333);
        joined.join(&fed(&view, 3333..10_000));
        assert_eq!(joined.products, [0.0]);
        assert_eq!(joined.means[0], [Mean { high: 0.1, low: 0.0 }]);
    }
}
