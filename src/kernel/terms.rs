//! What the ordered sums add up: the elements, their squares, their distances from a shift.

use super::Simd;

/// `N` terms of each element, added up side by side, and what becomes of the sums of a leaf.
pub(crate) trait Terms<const N: usize>: Copy + Send + Sync {
    /// What a leaf becomes: a node of the tree.
    type Node: Copy + Send + Sync;
    /// Whether the terms depend on a shift, which is the first valid element of a leaf. Then a
    /// null must hold the shift; else any value whose terms are neutral.
    const SHIFTED: bool;
    /// Whether narrow rows get loops of their own for each width, and whether narrow columns and
    /// AVX-512 do: only where it matters most, as each is a loop more to build.
    const NARROW_ROWS: bool = false;
    const NARROW_COLUMNS: bool = false;
    /// Whether nodes are sums, and joined by addition.
    const IS_SUM: bool = false;
    /// The terms of eight elements.
    fn eight<S: Simd>(self, simd: S, x: S::V, shift: S::V) -> [S::V; N];
    /// The terms of one element: the same operations.
    fn one(self, x: f64, shift: f64) -> [f64; N];
    /// The node of a leaf with `count` valid elements.
    fn node(self, sums: [f64; N], shift: f64, count: f64) -> Self::Node;
    fn empty(self) -> Self::Node;
    fn join(self, left: Self::Node, right: Self::Node) -> Self::Node;
}

/// One term whose sums are nodes as they are.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident, $rows:literal, $columns:literal: |$simd:ident, $x:ident| $eight:expr, $one:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Terms<1> for $name {
            type Node = f64;
            const SHIFTED: bool = false;
            const NARROW_ROWS: bool = $rows;
            const NARROW_COLUMNS: bool = $columns;
            const IS_SUM: bool = true;

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
        }
    )+};
}

plain! {
    /// The element.
    Itself, true, true: |_simd, x| x, x;
    /// Its magnitude.
    Magnitude, false, false: |simd, x| simd.abs(x), x.abs();
    /// Its square.
    Squared, true, false: |simd, x| simd.mul(x, x), x * x;
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
    pub(crate) mean: f64,
    pub(crate) squares: f64,
}

impl Terms<2> for Deviation {
    type Node = Spread;
    const SHIFTED: bool = true;

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
        // Rounding may leave a little less than nothing; and finite elements whose squares
        // overflow spread infinitely, not by NaN.
        let squares = match around {
            _ if squares == f64::INFINITY && sum.is_finite() => f64::INFINITY,
            _ if around < 0.0 => 0.0,
            _ => around,
        };
        Spread { count, mean: shift + mean, squares }
    }
    #[inline(always)]
    fn empty(self) -> Spread {
        Spread { count: 0.0, mean: 0.0, squares: 0.0 }
    }
    #[inline(always)]
    fn join(self, left: Spread, right: Spread) -> Spread {
        if left.count == 0.0 {
            return right;
        }
        if right.count == 0.0 {
            return left;
        }
        let count = left.count + right.count;
        let apart = right.mean - left.mean;
        let mean = left.mean + apart * (right.count / count);
        let between = apart * apart * (left.count * (right.count / count));
        Spread { count, mean, squares: left.squares + right.squares + between }
    }
}

/// Squares of the element, of a large part of it and of a large multiple of it: one of the three
/// neither overflows nor vanishes.
#[derive(Clone, Copy)]
pub(crate) struct Guarded;

/// What parts are made with: that of the largest float64 is below 2^424, and its square a number.
const PART: f64 = f64::from_bits((1023 - 600) << 52);
/// What multiples are made with: that of the smallest float64 is 2^-474, and its square a number.
const MULTIPLE: f64 = f64::from_bits((1023 + 600) << 52);

impl Guarded {
    /// Whether the root of a plain sum of squares can be trusted: it neither overflowed nor lost
    /// digits to squares below the smallest normal number.
    pub(crate) fn is_safe(norm: f64) -> bool {
        !(norm < 1e-140 || norm == f64::INFINITY)
    }

    /// The root of the sum of squares.
    #[inline(always)]
    pub(crate) fn root([squares, of_parts, of_multiples]: [f64; 3]) -> f64 {
        let root = squares.sqrt();
        match root {
            _ if Self::is_safe(root) => root,
            _ if root == f64::INFINITY => of_parts.sqrt() / PART,
            _ => of_multiples.sqrt() / MULTIPLE,
        }
    }
}

impl Terms<3> for Guarded {
    type Node = [f64; 3];
    const SHIFTED: bool = false;

    #[inline(always)]
    fn eight<S: Simd>(self, simd: S, x: S::V, _: S::V) -> [S::V; 3] {
        let part = simd.mul(x, simd.splat(PART));
        let multiple = simd.mul(x, simd.splat(MULTIPLE));
        [simd.mul(x, x), simd.mul(part, part), simd.mul(multiple, multiple)]
    }
    #[inline(always)]
    fn one(self, x: f64, _: f64) -> [f64; 3] {
        let (part, multiple) = (x * PART, x * MULTIPLE);
        [x * x, part * part, multiple * multiple]
    }
    #[inline(always)]
    fn node(self, sums: [f64; 3], _: f64, _: f64) -> [f64; 3] {
        sums
    }
    #[inline(always)]
    fn empty(self) -> [f64; 3] {
        [-0.0; 3]
    }
    #[inline(always)]
    fn join(self, left: [f64; 3], right: [f64; 3]) -> [f64; 3] {
        [left[0] + right[0], left[1] + right[1], left[2] + right[2]]
    }
}
