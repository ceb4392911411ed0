//! What the ordered sums add up: the elements, their squares, their distances from a shift.

use super::{Mean, Simd};

/// `N` terms of each element, added up side by side, and what becomes of the sums of a leaf.
pub(crate) trait Terms<const N: usize>: Copy + Send + Sync + 'static {
    /// What a leaf becomes: a node of the tree.
    type Node: Copy + Send + Sync + 'static;
    /// Whether the terms depend on a shift, which is the first valid element of a leaf. Then a
    /// null must hold the shift; else any value whose terms are neutral.
    const SHIFTED: bool;
    /// Whether narrow rows get loops of their own for each width, and whether narrow columns and
    /// AVX-512 do: only where it matters most, as each is a loop more to build.
    const NARROW_ROWS: bool = false;
    const NARROW_COLUMNS: bool = false;
    /// Whether the term is the element itself.
    const IS_ELEMENT: bool = false;
    /// Whether nodes are sums, and joined by addition.
    const IS_SUM: bool = false;
    /// The power in which elements enter each term, the highest last.
    const DEGREES: [u32; N];
    /// The terms of eight elements.
    fn eight<S: Simd>(self, simd: S, x: S::V, shift: S::V) -> [S::V; N];
    /// The terms of one element: the same operations.
    fn one(self, x: f64, shift: f64) -> [f64; N];
    /// The node of a leaf with `count` valid elements.
    fn node(self, sums: [f64; N], shift: f64, count: f64) -> Self::Node;
    fn empty(self) -> Self::Node;
    fn join(self, left: Self::Node, right: Self::Node) -> Self::Node;

    // What follows is asked of float64 data alone, see [`super::scale`].

    /// Whether nothing overflowed on the way to a node.
    fn fits(self, node: &Self::Node) -> bool;
    /// Whether no squares vanished on the way to a node.
    fn is_large(self, node: &Self::Node) -> bool;
    /// Whether the node of a leaf will be both, by the sum of its last term so far; then it is so
    /// for any elements that follow, unless they overflow.
    fn is_sure(self, last: f64, shift: f64) -> bool;
    /// The node of elements multiplied by a power of two.
    fn rescaled(self, node: Self::Node, power: f64) -> Self::Node;
}

/// Sums of squares below this have lost digits to squares below the smallest normal number.
const SMALL_SQUARES: f64 = 1e-280;

/// Whether the root of a plain sum of squares can be trusted: nothing overflowed or vanished.
pub(crate) fn is_safe_root(norm: f64) -> bool {
    !(norm < 1e-140 || norm == f64::INFINITY)
}

/// One term whose sums are nodes as they are.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident, $degree:literal, $rows:literal, $columns:literal, $element:literal: |$simd:ident, $x:ident| $eight:expr, $one:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Terms<1> for $name {
            type Node = f64;
            const SHIFTED: bool = false;
            const NARROW_ROWS: bool = $rows;
            const NARROW_COLUMNS: bool = $columns;
            const IS_ELEMENT: bool = $element;
            const IS_SUM: bool = true;
            const DEGREES: [u32; 1] = [$degree];

            #[inline(always)]
            fn eight<S: Simd>(self, $simd: S, $x: S::V, _: S::V) -> [S::V; 1] {
                [$eight]
            }
            #[inline(always)]
            fn one(self, $x: f64, _: f64) -> [f64; 1] {
                [$one]
            }
            #[inline(always)]
            fn node(self, sums: [f64; 1], _: f64, _: f64) -> f64 {
                sums[0]
            }
            #[inline(always)]
            fn empty(self) -> f64 {
                -0.0
            }
            #[inline(always)]
            fn join(self, left: f64, right: f64) -> f64 {
                left + right
            }
            #[inline(always)]
            fn fits(self, sum: &f64) -> bool {
                sum.is_finite()
            }
            #[inline(always)]
            fn is_large(self, sum: &f64) -> bool {
                $degree == 1 || *sum >= SMALL_SQUARES || sum.is_nan()
            }
            #[inline(always)]
            fn is_sure(self, sum: f64, _: f64) -> bool {
                // A NaN among squares is an element; among sums it may be a difference of
                // infinities.
                if $degree == 1 { sum.is_finite() } else { !(sum < SMALL_SQUARES || sum == f64::INFINITY) }
            }
            #[inline(always)]
            fn rescaled(self, sum: f64, power: f64) -> f64 {
                if $degree == 1 { sum * power } else { sum * power * power }
            }
        }
    )+};
}

plain! {
    /// The element.
    Itself, 1, true, true, true: |_simd, x| x, x;
    /// Its magnitude.
    Magnitude, 1, false, false, false: |simd, x| simd.abs(x), x.abs();
    /// Its square.
    Squared, 2, true, false, false: |simd, x| simd.mul(x, x), x * x;
}

/// The element's distance from a shift, and the square of it.
///
/// The shift is the first valid element of the leaf. Then the sum of squared distances from the
/// mean, `Σd² − (Σd)²/n`, loses at most a factor n of 1024 to cancellation: `Σd²` is at most n
/// times what is left, because the shift is itself one of the elements (docs/guide/numbers.md).
#[derive(Clone, Copy)]
pub(crate) struct Deviation;

/// Count, mean, and sum of squared distances from the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) count: f64,
    pub(crate) mean: Mean,
    pub(crate) squares: f64,
}

impl Spread {
    /// Its elements and those of another, neither of which is empty (Chan, Golub and LeVeque, 1979).
    #[inline(always)]
    pub(super) fn joined(self, right: Self) -> Self {
        let left = self;
        let count = left.count + right.count;
        let apart = right.mean.minus(left.mean);
        // From the mean of the more: it moves less, and is rounded by less.
        let mean = if right.count > left.count {
            right.mean.plus(-apart * (left.count / count))
        } else {
            left.mean.plus(apart * (right.count / count))
        };
        let between = apart * apart * (left.count * (right.count / count));
        Spread { count, mean, squares: left.squares + right.squares + between }
    }
}

/// Numbers that are further from zero than this, and different, are further from each other than
/// 1e-140: their squares do not vanish.
const FAR_FROM_ZERO: f64 = 1e-120;

impl Terms<2> for Deviation {
    type Node = Spread;
    const SHIFTED: bool = true;
    const DEGREES: [u32; 2] = [1, 2];

    #[inline(always)]
    fn eight<S: Simd>(self, simd: S, x: S::V, shift: S::V) -> [S::V; 2] {
        let distance = simd.sub(x, shift);
        [distance, simd.mul(distance, distance)]
    }
    #[inline(always)]
    fn one(self, x: f64, shift: f64) -> [f64; 2] {
        let distance = x - shift;
        [distance, distance * distance]
    }
    #[inline(always)]
    fn node(self, [sum, squares]: [f64; 2], shift: f64, count: f64) -> Spread {
        if count == 0.0 {
            return self.empty();
        }
        let mean = sum / count;
        let around = squares - sum * mean;
        // Rounding may leave a little less than nothing.
        let squares = if around < 0.0 && around.is_finite() { 0.0 } else { around };
        Spread { count, mean: Mean { high: shift, low: mean }, squares }
    }
    #[inline(always)]
    fn empty(self) -> Spread {
        Spread { count: 0.0, mean: Mean::default(), squares: 0.0 }
    }
    #[inline(always)]
    fn join(self, left: Spread, right: Spread) -> Spread {
        if left.count == 0.0 {
            return right;
        }
        if right.count == 0.0 {
            return left;
        }
        left.joined(right)
    }
    #[inline(always)]
    fn fits(self, spread: &Spread) -> bool {
        spread.squares.is_finite()
    }
    #[inline(always)]
    fn is_large(self, spread: &Spread) -> bool {
        spread.squares >= SMALL_SQUARES || spread.mean.high.abs() >= FAR_FROM_ZERO
    }
    /// What is left of the squares around the mean is at least a 1025th of them.
    #[inline(always)]
    fn is_sure(self, squares: f64, shift: f64) -> bool {
        let is_small = squares < 1e4 * SMALL_SQUARES && shift.abs() < FAR_FROM_ZERO;
        !(is_small || squares == f64::INFINITY)
    }
    #[inline(always)]
    fn rescaled(self, spread: Spread, power: f64) -> Spread {
        let Spread { count, mean: Mean { high, low }, squares } = spread;
        let mean = Mean { high: high * power, low: low * power };
        Spread { count, mean, squares: squares * power * power }
    }
}
