//! Sums over two rows at once: products and distances, in the order of [`super::sum`].

use super::sum::{LEAF, folded, stored};
use super::sum_rows::narrow_sum;
use super::width::by_width;
use super::{Element, LANES, Simd};

/// `N` terms of each pair of elements, added up side by side.
pub(crate) trait PairTerms<const N: usize>: Copy + Send + Sync {
    /// Adds the terms of eight pairs of elements of type `T` to their sums.
    fn add<T: Element, S: Simd>(self, simd: S, to: [S::V; N], x: S::V, y: S::V) -> [S::V; N];
    /// The terms of one pair: the same operations.
    fn one(self, x: f64, y: f64) -> [f64; N];
}

macro_rules! pair_terms {
    ($($(#[$doc:meta])* $name:ident<$n:literal>:
       |$simd:ident, $to:ident, $x:ident, $y:ident| [$($add:expr),+], [$($one:expr),+];)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl PairTerms<$n> for $name {
            #[inline(always)]
            fn add<T: Element, S: Simd>(
                self,
                $simd: S,
                $to: [S::V; $n],
                $x: S::V,
                $y: S::V,
            ) -> [S::V; $n] {
                [$($add),+]
            }
            #[inline(always)]
            fn one(self, $x: f64, $y: f64) -> [f64; $n] {
                [$($one),+]
            }
        }
    )+};
}

pair_terms! {
    /// The product.
    Product<1>: |simd, to, x, y| [T::add_product(simd, to[0], x, y)], [x * y];
    /// The product, and the square of the first.
    ProductAndSquare<2>: |simd, to, x, y|
        [T::add_product(simd, to[0], x, y), T::add_product(simd, to[1], x, x)],
        [x * y, x * x];
    /// The product, and the squares of both.
    Products<3>: |simd, to, x, y|
        [
            T::add_product(simd, to[0], x, y),
            T::add_product(simd, to[1], x, x),
            T::add_product(simd, to[2], y, y)
        ],
        [x * y, x * x, y * y];
    /// The distance.
    Distance<1>: |simd, to, x, y|
        [simd.add(to[0], simd.abs(simd.sub(x, y)))],
        [(x - y).abs()];
    /// The square of the distance.
    SquaredDistance<1>: |simd, to, x, y|
        [{
            let distance = simd.sub(x, y);
            simd.add(to[0], simd.mul(distance, distance))
        }],
        [(x - y) * (x - y)];
}

/// The second rows: one for each first row, or the same for all.
#[derive(Clone, Copy)]
pub(crate) enum Second<'a, T> {
    Each(&'a [T]),
    Same(&'a [T]),
}

/// Writes the sums of each pair of rows to `out`; `x` has `out.len()` rows of `width`.
#[inline(always)]
pub(crate) fn row_pairs<T: Element, K: PairTerms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    x: &[T],
    y: Second<'_, T>,
    width: usize,
    out: &mut [[f64; N]],
) {
    let (y, stride) = match y {
        Second::Each(y) => (y, width),
        Second::Same(y) => (y, 0),
    };
    if width == 0 {
        return out.fill([0.0; N]);
    }
    by_width!(to 8, width, W => narrow::<T, K, N, W>(terms, x, y, stride, out), else {
        let rest = match (stride, N) {
            (0, 1) => with_one::<T, K, S, N, 4>(terms, simd, x, y, out),
            (0, _) => with_one::<T, K, S, N, 2>(terms, simd, x, y, out),
            _ => 0,
        };
        for (r, o) in out.iter_mut().enumerate().skip(rest) {
            let row = &x[r * width..(r + 1) * width];
            *o = one_pair(terms, simd, [row], &y[r * stride..r * stride + width], 0)[0];
        }
    });
}

/// Writes the sums of rows with one vector, `R` rows at once: so many chains of additions hide the
/// latency of one and fit the registers, and the vector is loaded once for all. The rows after them
/// are asked for meanwhile, as pieces of several rows are too short to be foreseen
/// (docs/perf/lanes.md). Returns how many rows there were: a multiple of `R`.
#[inline(always)]
fn with_one<T: Element, K: PairTerms<N>, S: Simd, const N: usize, const R: usize>(
    terms: K,
    simd: S,
    x: &[T],
    y: &[T],
    out: &mut [[f64; N]],
) -> usize {
    let width = y.len();
    let (groups, _) = out.as_chunks_mut::<R>();
    for (o, group) in groups.iter_mut().zip(x.chunks_exact(R * width)) {
        let mut rows = [&group[..width]; R];
        for r in 0..R {
            rows[r] = &group[r * width..(r + 1) * width];
        }
        *o = one_pair(terms, simd, rows, y, R * width);
    }
    groups.len() * R
}

/// The sums of `R` rows with one. What lies `ahead` elements behind each is fetched, unless that is
/// 0.
#[inline(always)]
pub(crate) fn one_pair<T: Element, K: PairTerms<N>, S: Simd, const N: usize, const R: usize>(
    terms: K,
    simd: S,
    x: [&[T]; R],
    y: &[T],
    ahead: usize,
) -> [[f64; N]; R] {
    if y.is_empty() {
        // The sum of nothing is +0.0, though the neutral value is -0.0.
        return [[0.0; N]; R];
    }
    if y.len() <= LEAF {
        return leaf(terms, simd, x, y, 0, ahead);
    }
    // The tree of leaves, as in `sum::Sequence`.
    let mut stack = [[[0.0; N]; R]; 64];
    let (mut depth, mut leaves) = (0, 0usize);
    for at in (0..y.len()).step_by(LEAF) {
        let mut node = leaf(terms, simd, x, &y[at..y.len().min(at + LEAF)], at, ahead);
        let mut whole = leaves;
        while whole & 1 == 1 {
            depth -= 1;
            node = joined(stack[depth], node);
            whole >>= 1;
        }
        stack[depth] = node;
        depth += 1;
        leaves += 1;
    }
    let mut node = stack[depth - 1];
    for below in (0..depth - 1).rev() {
        node = joined(stack[below], node);
    }
    node
}

#[inline(always)]
fn joined<const N: usize, const R: usize>(
    left: [[f64; N]; R],
    right: [[f64; N]; R],
) -> [[f64; N]; R] {
    let mut sum = left;
    for r in 0..R {
        for n in 0..N {
            sum[r][n] = left[r][n] + right[r][n];
        }
    }
    sum
}

/// One leaf: `y`, and the elements of each row of `x` from `at` on.
#[inline(always)]
fn leaf<T: Element, K: PairTerms<N>, S: Simd, const N: usize, const R: usize>(
    terms: K,
    simd: S,
    x: [&[T]; R],
    y: &[T],
    at: usize,
    ahead: usize,
) -> [[f64; N]; R] {
    // Elements of a cache line.
    let line = 64 / std::mem::size_of::<T>();
    let mut rows = [&x[0][at..at + y.len()]; R];
    for r in 0..R {
        rows[r] = &x[r][at..at + y.len()];
    }
    let (y8, y_tail) = y.as_chunks::<LANES>();
    let mut acc = [[simd.splat(-0.0); N]; R];
    for (i, y) in y8.iter().enumerate() {
        let y = T::load(simd, y);
        for r in 0..R {
            if ahead > 0 && (i * LANES).is_multiple_of(line) {
                simd.fetch(&rows[r][i * LANES..], ahead);
            }
            if let Some(x) = rows[r][i * LANES..].first_chunk() {
                acc[r] = terms.add::<T, S>(simd, acc[r], T::load(simd, x), y);
            }
        }
    }
    let mut sums = [[0.0; N]; R];
    for r in 0..R {
        let mut lanes = stored(simd, acc[r]);
        for (i, y) in y_tail.iter().enumerate() {
            let one = terms.one(rows[r][y8.len() * LANES + i].widen(), y.widen());
            for n in 0..N {
                lanes[n][i] += one[n];
            }
        }
        sums[r] = folded(lanes);
    }
    sums
}

/// Rows of at most eight elements: the compiler sees the width and vectorises over rows.
#[inline(always)]
fn narrow<T: Element, K: PairTerms<N>, const N: usize, const W: usize>(
    terms: K,
    x: &[T],
    y: &[T],
    y_stride: usize,
    out: &mut [[f64; N]],
) {
    let (rows, _) = x.as_chunks::<W>();
    for (r, (o, x)) in out.iter_mut().zip(rows).enumerate() {
        let Some(y) = y[r * y_stride..].first_chunk::<W>() else { return };
        let mut all = [[0.0; N]; W];
        for c in 0..W {
            all[c] = terms.one(x[c].widen(), y[c].widen());
        }
        *o = narrow_sum(all);
    }
}
