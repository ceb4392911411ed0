//! How near two vectors are, by four measures.

use std::fmt;

use crate::kernel::{
    Distance, Element, Guarded, PairTerms, Product, ProductAndSquare, Products, Second, Simd,
    SquaredDistance, one_pair, row_pairs,
};

/// How near two vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// The cosine of the angle between them: the larger, the nearer. Zero vectors have none.
    Cosine,
    /// The dot product: the larger, the nearer.
    Dot,
    /// The Euclidean distance: the smaller, the nearer.
    L2,
    /// The sum of the distances element by element: the smaller, the nearer.
    L1,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 4] = [Self::Cosine, Self::Dot, Self::L2, Self::L1];

    /// The metric of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::Dot => "dot",
            Self::L2 => "l2",
            Self::L1 => "l1",
        }
    }

    /// Whether the nearer of two vectors has the larger score.
    pub fn is_similarity(self) -> bool {
        matches!(self, Self::Cosine | Self::Dot)
    }

    /// Calls `f` with the score of each row of `x`, `width` elements long, with its own row of `y`
    /// or with the one vector; see [`score`](Self::score).
    #[inline(always)]
    pub(super) fn scores<T: Element, S: Simd>(
        self,
        simd: S,
        (x, second): (&[T], Second<'_, T>),
        (rows, width): (usize, usize),
        sums: &mut Vec<f64>,
        mut f: impl FnMut(usize, Option<f64>),
    ) {
        // The squares of one vector are added up once, in the order that they have beside a row.
        let squares = match second {
            Second::Same(y) if self == Self::Cosine => Some(sum(Product, simd, y, y)),
            _ => None,
        };
        let n = match (self, squares) {
            (Self::Cosine, None) => 3,
            (Self::Cosine, Some(_)) => 2,
            _ => 1,
        };
        sums.clear();
        sums.resize(rows * n, 0.0);
        match self {
            Self::Dot => row_pairs(Product, simd, x, second, width, sums.as_chunks_mut().0),
            Self::L1 => row_pairs(Distance, simd, x, second, width, sums.as_chunks_mut().0),
            Self::L2 => row_pairs(SquaredDistance, simd, x, second, width, sums.as_chunks_mut().0),
            Self::Cosine if squares.is_some() => {
                row_pairs(ProductAndSquare, simd, x, second, width, sums.as_chunks_mut().0);
            }
            Self::Cosine => row_pairs(Products, simd, x, second, width, sums.as_chunks_mut().0),
        }
        for (r, sums) in sums.chunks_exact(n).enumerate() {
            let score = match self {
                Self::Dot | Self::L1 => Some(Some(sums[0])),
                Self::L2 => distance::<T>(sums[0]).map(Some),
                Self::Cosine => cosine([sums[0], sums[1], squares.unwrap_or_else(|| sums[2])]),
            };
            let row = r * width..(r + 1) * width;
            let y = match second {
                Second::Each(y) => &y[row.clone()],
                Second::Same(y) => y,
            };
            f(r, score.unwrap_or_else(|| self.scaled(simd, &x[row], y)));
        }
    }

    /// The score of one pair, in float64, in the order of `kernel::sum`: the number that the
    /// functions row by row give before it is rounded. `None` for the cosine with a zero vector.
    #[inline(always)]
    pub(super) fn score<T: Element, S: Simd>(self, simd: S, x: &[T], y: &[T]) -> Option<f64> {
        match self {
            Self::Dot => Some(sum(Product, simd, x, y)),
            Self::L1 => Some(sum(Distance, simd, x, y)),
            Self::L2 => match distance::<T>(sum(SquaredDistance, simd, x, y)) {
                None => self.scaled(simd, x, y),
                distance => distance,
            },
            Self::Cosine => {
                let cosine = cosine(one_pair(Products, simd, [x], y, 0)[0]);
                cosine.unwrap_or_else(|| self.scaled(simd, x, y))
            }
        }
    }

    /// The score where a sum of squares overflows or vanishes: that of vectors which were
    /// multiplied by powers of two.
    #[cold]
    fn scaled<T: Element, S: Simd>(self, simd: S, x: &[T], y: &[T]) -> Option<f64> {
        let wide = |x: &[T]| x.iter().map(|x| x.widen()).collect::<Vec<f64>>();
        let (x, y) = (wide(x), wide(y));
        let (of_x, of_y) = (largest(&x), largest(&y));
        if self == Self::Cosine {
            let (x, y) = (times(&x, scale(of_x)), times(&y, scale(of_y)));
            return finished(one_pair(Products, simd, [&x[..]], &y, 0)[0]);
        }
        let scale = scale(of_x.max(of_y));
        Some(sum(SquaredDistance, simd, &times(&x, scale), &times(&y, scale)).sqrt() / scale)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[inline(always)]
fn sum<T: Element, K: PairTerms<1>, S: Simd>(terms: K, simd: S, x: &[T], y: &[T]) -> f64 {
    one_pair(terms, simd, [x], y, 0)[0][0]
}

/// The distance from a sum of squares; `None` if the sum cannot be trusted. Squares of float32 in
/// float64 do not vanish, so that a zero is one.
#[inline(always)]
fn distance<T>(squares: f64) -> Option<f64> {
    let root = squares.sqrt();
    let is_zero = root == 0.0 && std::mem::size_of::<T>() == 4;
    (is_zero || Guarded::is_safe(root)).then_some(root)
}

/// The cosine from the product and both sums of squares; `None` if those cannot be trusted.
#[inline(always)]
fn cosine(sums: [f64; 3]) -> Option<Option<f64>> {
    let is_safe = Guarded::is_safe(sums[1].sqrt()) && Guarded::is_safe(sums[2].sqrt());
    is_safe.then(|| finished(sums))
}

#[inline(always)]
fn finished([product, x, y]: [f64; 3]) -> Option<f64> {
    let (x, y) = (x.sqrt(), y.sqrt());
    // Rounding must not leave more than 1 for arccos to choke on; a NaN passes.
    (x > 0.0 && y > 0.0 || x.is_nan() || y.is_nan()).then(|| (product / (x * y)).clamp(-1.0, 1.0))
}

fn times(x: &[f64], scale: f64) -> Vec<f64> {
    x.iter().map(|x| x * scale).collect()
}

pub(super) fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

/// The power of two that brings a magnitude near 1; 1 for zero, infinities and NaN.
pub(super) fn scale(magnitude: f64) -> f64 {
    if magnitude == 0.0 || !magnitude.is_finite() {
        return 1.0;
    }
    // Bounded, because the inverse of a subnormal number may be infinite.
    2f64.powi(-(magnitude.log2().floor() as i32).clamp(-1000, 1000))
}

#[cfg(test)]
mod tests {
    use super::Metric;
    use crate::kernel::Portable;

    #[test]
    fn scores_neither_overflow_nor_vanish() {
        for scale in [1.0, 1e200, 1e-200, 1e-310] {
            let (x, y) = ([3.0 * scale, 0.0], [0.0, 4.0 * scale]);
            let l2 = Metric::L2.score(Portable, &x, &y).unwrap();
            assert!((l2 / (5.0 * scale) - 1.0).abs() < 1e-12, "{l2}");
            let cosine = Metric::Cosine.score(Portable, &x, &[4.0 * scale, 3.0 * scale]).unwrap();
            assert!((cosine - 0.8).abs() < 1e-12, "{cosine}");
        }
        assert_eq!(Metric::Cosine.score(Portable, &[0.0f32, 0.0], &[1.0, 2.0]), None);
        assert!(Metric::Cosine.score(Portable, &[f32::NAN, 0.0], &[1.0, 2.0]).unwrap().is_nan());
        assert_eq!(Metric::L2.score(Portable, &[1.0f32], &[f32::INFINITY]), Some(f64::INFINITY));
    }
}
