//! What a kernel needs to know of an element type.

use std::ops::{Add, Div, Mul, Sub};

use super::{LANES, Simd};

/// A stored number: widened to float64 on the way in, rounded once on the way out.
pub(crate) trait Element:
    Copy
    + Send
    + Sync
    + PartialOrd
    + std::fmt::Debug
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + 'static
{
    /// The neutral value of addition. Not `+0.0`, which would turn a sum of negative zeros around.
    const NEUTRAL: Self;
    fn widen(self) -> f64;
    /// Rounds to nearest, ties to even.
    fn round(x: f64) -> Self;
    /// The value itself, or the canonical NaN in place of any NaN.
    fn settled(self) -> Self;
    fn load<S: Simd>(simd: S, x: &[Self; LANES]) -> S::V;
}

impl Element for f64 {
    const NEUTRAL: Self = -0.0;

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    fn round(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn settled(self) -> Self {
        if self.is_nan() { Self::NAN } else { self }
    }
    #[inline(always)]
    fn load<S: Simd>(simd: S, x: &[Self; LANES]) -> S::V {
        simd.load(x)
    }
}

impl Element for f32 {
    const NEUTRAL: Self = -0.0;

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn round(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn settled(self) -> Self {
        if self.is_nan() { Self::NAN } else { self }
    }
    #[inline(always)]
    fn load<S: Simd>(simd: S, x: &[Self; LANES]) -> S::V {
        simd.widen(x)
    }
}
