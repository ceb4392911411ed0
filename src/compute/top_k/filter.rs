//! Many vectors at once: products tell which rows need a score.

use std::ops::Range;

use super::Search;
use crate::compute::Metric;
use crate::dispatch::gemm::Gemm;
use crate::kernel::{Best, Body, Simd};
use crate::matrix::Number;
use crate::memory;

/// Scores the rows of a block whose products with unit vectors are large enough.
pub(super) struct Filter<'s, 'a, T: Number> {
    pub(super) search: &'s Search<'a, T>,
    pub(super) queries: Range<usize>,
    /// The numbers of the rows in `x`, from the first on.
    pub(super) rows: Range<usize>,
    pub(super) x: &'s [T],
    pub(super) norms: &'s [f64],
    /// One product for each vector in the row of each row of `x`.
    pub(super) products: &'s [T],
    pub(super) limits: &'s mut Limits,
    pub(super) best: &'s mut [Best],
}

impl<T: Number + Gemm> Body for Filter<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { search, queries, rows, x, norms, products, limits, best } = self;
        let (width, count) = (search.view.width, queries.len());
        let safe = safe_norms::<T>();
        for (r, (products, norm)) in products.chunks_exact(count).zip(norms).enumerate() {
            // A norm that is no number makes the limits none, and the row is scored.
            let norm = if safe.contains(norm) { *norm } else { f64::NAN };
            if limits.are_above(products, norm) {
                continue;
            }
            let row = rows.start + r;
            if search.whole.as_ref().is_some_and(|whole| whole.is_null(row)) {
                continue;
            }
            let x = &x[r * width..(r + 1) * width];
            for (q, product) in products.iter().enumerate() {
                if product.widen() <= limits.at(q, norm) {
                    continue;
                }
                let query = queries.start + q;
                if search.is_missing(query) {
                    continue;
                }
                let score = search.metric.score(simd, x, search.query(query));
                if search.offer(&mut best[q], row, score) {
                    limits.set(q, search, query, &best[q]);
                }
            }
        }
    }
}

/// Norms whose squares float64 holds, and with which products in `T` neither overflow nor lose
/// digits to numbers below the smallest normal one.
fn safe_norms<T: Gemm>() -> Range<f64> {
    if std::mem::size_of::<T>() == 4 { 1e-30..1e37 } else { 1e-140..1e140 }
}

/// What the product `p` of a row with the unit vector of each query must exceed, or the row is not
/// among the nearest: `a + b |x| + c |x|²`.
///
/// The product that was computed is within `γ |x|` of the true one. A product of `d` terms in any
/// order, fused or not, is off by at most `d u` times the sum of the magnitudes of its terms,
/// which is at most `|x|` with a unit vector; rounding that to `T`, norms and scores adds a few
/// units more. `γ = (d + 16) (1.01 u + 8 · 2⁻⁵³)` covers all of it, the computed score included,
/// whose additions are in float64. With `q` the norm of the query and `w` the worst score kept:
///
/// * dot: `q p ≤ w` if `p ≤ w / q − γ |x|`;
/// * cosine: `p / |x| ≤ w` if `p ≤ (w − γ) |x|`;
/// * l2: `|x|² + q² − 2 q p ≥ w²` if `p ≤ (|x|² + q² − w²) / 2q − γ |x|`, with slack for the rounding
///   of the squares.
///
/// While there are too few rows, or a number is not safe, the limit is NaN: nothing is below it.
pub(super) struct Limits {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Limits {
    /// The limits of some vectors, with what was kept for each so far.
    pub(super) fn new<T: Number + Gemm>(
        search: &Search<'_, T>,
        queries: Range<usize>,
        best: &[Best],
    ) -> Self {
        let count = queries.len();
        let mut limits = Self {
            a: memory::filled(f64::NAN, count),
            b: memory::filled(0.0, count),
            c: memory::filled(0.0, count),
        };
        for (i, (query, best)) in queries.zip(best).enumerate() {
            limits.set(i, search, query, best);
        }
        limits
    }

    #[inline(always)]
    fn set<T: Number + Gemm>(
        &mut self,
        i: usize,
        search: &Search<'_, T>,
        query: usize,
        best: &Best,
    ) {
        let (q, safe) = (search.norms[query], safe_norms::<T>());
        let d = search.view.width as f64;
        let Some(w) = search.worst(query, best).filter(|w| safe.contains(&q) && w.abs() < safe.end)
        else {
            self.a[i] = f64::NAN;
            return;
        };
        let gamma = (d + 16.0) * (1.01 * T::ROUNDOFF + 4.0 * f64::EPSILON);
        (self.a[i], self.b[i], self.c[i]) = match search.metric {
            Metric::Dot => (w / q - (w / q).abs() * 4.0 * f64::EPSILON, -gamma, 0.0),
            Metric::Cosine => (0.0, w - gamma, 0.0),
            Metric::L2 | Metric::L1 | Metric::SquaredL2 => {
                let squared = if search.metric == Metric::SquaredL2 { w } else { w * w };
                let slack = (d + 16.0) * 4.0 * f64::EPSILON;
                let a = (q * q * (1.0 - slack) - squared * (1.0 + slack)) / (2.0 * q);
                (a, -gamma, (1.0 - slack) / (2.0 * q))
            }
        };
    }

    #[inline(always)]
    fn at(&self, i: usize, norm: f64) -> f64 {
        self.a[i] + self.b[i] * norm + self.c[i] * (norm * norm)
    }

    /// Whether the product of every query is at most its limit.
    #[inline(always)]
    fn are_above<T: Number>(&self, products: &[T], norm: f64) -> bool {
        let mut above = true;
        let limits = self.a.iter().zip(&self.b).zip(&self.c);
        for (product, ((a, b), c)) in products.iter().zip(limits) {
            above &= product.widen() <= a + b * norm + c * (norm * norm);
        }
        above
    }
}
