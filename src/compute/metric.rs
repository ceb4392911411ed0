//! How near two vectors are, by five measures.

use std::fmt;

use crate::kernel::{
    Distance, Element, PairTerms, Product, ProductAndSquare, Products, Second, Simd,
    SquaredDistance, exponent_of, is_safe_root, one_pair, power_of_two, row_pairs, times_power,
};
use crate::memory;

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
    /// The square of the Euclidean distance: the smaller, the nearer.
    SquaredL2,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 5] = [Self::Cosine, Self::Dot, Self::L2, Self::L1, Self::SquaredL2];

    /// The metric of a name, or of one that other libraries give it: `ip`, `euclidean`, `cityblock`.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name {
            "ip" => "dot",
            "euclidean" => "l2",
            "cityblock" => "l1",
            own => own,
        };
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::Dot => "dot",
            Self::L2 => "l2",
            Self::L1 => "l1",
            Self::SquaredL2 => "sqeuclidean",
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
        memory::resize(sums, rows * n, 0.0);
        match self {
            Self::Dot => row_pairs(Product, simd, x, second, width, sums.as_chunks_mut().0),
            Self::L1 => row_pairs(Distance, simd, x, second, width, sums.as_chunks_mut().0),
            Self::L2 | Self::SquaredL2 => {
                row_pairs(SquaredDistance, simd, x, second, width, sums.as_chunks_mut().0);
            }
            Self::Cosine if squares.is_some() => {
                row_pairs(ProductAndSquare, simd, x, second, width, sums.as_chunks_mut().0);
            }
            Self::Cosine => row_pairs(Products, simd, x, second, width, sums.as_chunks_mut().0),
        }
        for (r, sums) in sums.chunks_exact(n).enumerate() {
            let score = match self {
                Self::Dot => product::<T>(sums[0]).map(Some),
                Self::L1 | Self::SquaredL2 => Some(Some(sums[0])),
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
            Self::Dot => match product::<T>(sum(Product, simd, x, y)) {
                None => self.scaled(simd, x, y),
                product => product,
            },
            Self::L1 => Some(sum(Distance, simd, x, y)),
            Self::SquaredL2 => Some(sum(SquaredDistance, simd, x, y)),
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

    /// The score where a sum overflows, or one of squares vanishes: that of vectors which were
    /// multiplied by powers of two.
    #[cold]
    fn scaled<T: Element, S: Simd>(self, simd: S, x: &[T], y: &[T]) -> Option<f64> {
        let are_finite = |x: &[T]| x.iter().all(|x| x.widen().is_finite());
        if self == Self::Dot && !(are_finite(x) && are_finite(y)) {
            // Nothing overflowed: it is what the elements make it.
            return Some(sum(Product, simd, x, y));
        }
        let wide = |x: &[T]| {
            let mut wide = Vec::new();
            memory::extend(&mut wide, x.iter().map(|x| x.widen()));
            wide
        };
        let (x, y) = (wide(x), wide(y));
        if self == Self::L2 {
            let exponent = exponent_of(largest(&x).max(largest(&y)));
            let (x, y) = (over_power(&x, exponent), over_power(&y, exponent));
            return Some(times_power(sum(SquaredDistance, simd, &x, &y).sqrt(), exponent));
        }
        let (of_x, of_y) = (exponent_of(largest(&x)), exponent_of(largest(&y)));
        let (x, y) = (over_power(&x, of_x), over_power(&y, of_y));
        if self == Self::Dot {
            return Some(times_power(sum(Product, simd, &x, &y), of_x + of_y));
        }
        finished(one_pair(Products, simd, [&x[..]], &y, 0)[0])
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

/// A sum of products; `None` if it cannot be trusted. Products of float32 in float64 do not
/// overflow.
#[inline(always)]
fn product<T>(sum: f64) -> Option<f64> {
    (std::mem::size_of::<T>() == 4 || sum.is_finite()).then_some(sum)
}

/// The distance from a sum of squares; `None` if the sum cannot be trusted. Squares of float32 in
/// float64 do not vanish, so that a zero is one.
#[inline(always)]
fn distance<T>(squares: f64) -> Option<f64> {
    let root = squares.sqrt();
    let is_zero = root == 0.0 && std::mem::size_of::<T>() == 4;
    (is_zero || is_safe_root(root)).then_some(root)
}

/// The cosine from the product and both sums of squares; `None` if those cannot be trusted.
#[inline(always)]
fn cosine(sums: [f64; 3]) -> Option<Option<f64>> {
    let is_safe = is_safe_root(sums[1].sqrt()) && is_safe_root(sums[2].sqrt());
    is_safe.then(|| finished(sums))
}

/// None for a zero vector, whatever the other is.
#[inline(always)]
fn finished([product, x, y]: [f64; 3]) -> Option<f64> {
    if x == 0.0 || y == 0.0 {
        return None;
    }
    // A vector and itself, or its opposite: the product of two roots need not be the square.
    let norms = if x == y && product.abs() == x { x } else { x.sqrt() * y.sqrt() };
    // Rounding must not leave more than 1 for arccos to choke on; a NaN passes.
    Some((product / norms).clamp(-1.0, 1.0))
}

pub(super) fn over_power(x: &[f64], exponent: i32) -> Vec<f64> {
    let power = power_of_two(-exponent);
    let mut scaled = Vec::new();
    memory::extend(&mut scaled, x.iter().map(|x| x * power));
    scaled
}

/// The largest magnitude among finite numbers.
pub(super) fn largest(x: &[f64]) -> f64 {
    let finite = x.iter().map(|x| x.abs()).filter(|x| x.is_finite());
    finite.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::Metric;
    use crate::kernel::{Portable, times_power};

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

    #[test]
    fn a_product_that_fits_does_not_overflow_on_the_way() {
        let dot = |x: &[f64], y: &[f64]| Metric::Dot.score(Portable, x, y).unwrap();
        assert_eq!(dot(&[1e200, 1e200, 3.0], &[1e200, -1e200, 5.0]), 0.0);
        let (x, y) = ([1e200, 0.0, 1e150, 0.0, 1e200], [1e200, 0.0, 1e150, 0.0, -1e200]);
        assert_eq!(dot(&x, &y), 1e150 * 1e150);
        // The exponents are apart: neither factor may be brought back before the other.
        assert_eq!(dot(&[f64::MAX; 4], &[0.25; 4]), f64::MAX);
        assert_eq!(dot(&[f64::MAX, -f64::MAX], &[4.0, 4.0]), 0.0);
        assert_eq!(dot(&[1e200], &[-1e200]), f64::NEG_INFINITY);
        assert_eq!(dot(&[1e300, 1e-300], &[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(dot(&[f64::NAN, 1e200], &[1.0, 1e200]).is_nan());
    }

    #[test]
    fn a_zero_vector_has_no_cosine_even_with_nan() {
        for odd in [f64::NAN, f64::INFINITY, 1e-200, 1e200, 1.0] {
            assert_eq!(Metric::Cosine.score(Portable, &[0.0, -0.0], &[odd, 1.0]), None, "{odd}");
            assert_eq!(Metric::Cosine.score(Portable, &[1.0, odd], &[0.0, 0.0]), None, "{odd}");
        }
    }

    #[test]
    fn a_vector_has_the_cosine_one_with_itself() {
        for power in [-1060, -700, -1, 0, 3, 700, 1010] {
            for i in 1..2000 {
                let x = [f64::from(i), 0.1, -7.3 / f64::from(i)].map(|x| times_power(x, power));
                assert_eq!(Metric::Cosine.score(Portable, &x, &x), Some(1.0), "{x:?}");
                let y = x.map(|x| -x);
                assert_eq!(Metric::Cosine.score(Portable, &x, &y), Some(-1.0), "{x:?}");
            }
        }
    }
}
