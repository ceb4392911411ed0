//! Eight float64 lanes at any instruction set.
//!
//! The lane count is part of the numbers contract (docs/guide/numbers.md): element `i` of a
//! sequence is added to lane `i mod 8`, on every machine. Eight is one AVX-512 register, two
//! AVX2, four NEON or SSE2. docs/perf/lanes.md has the figures that chose it.

/// Lanes of a running sum. Fixed for ever: it defines the order of additions.
pub(crate) const LANES: usize = 8;

/// Eight float64 values and the few operations the reductions need on them.
///
/// Explicit vectors because a loop over `[f64; 8]` compiles to half the speed when the input is
/// float32 (docs/perf/lanes.md); everything else in the kernels is plain loops.
pub(crate) trait Simd: Copy {
    /// Eight float64 values, in registers.
    type V: Copy;
    fn splat(self, x: f64) -> Self::V;
    fn load(self, x: &[f64; LANES]) -> Self::V;
    fn widen(self, x: &[f32; LANES]) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn store(self, v: Self::V) -> [f64; LANES];
}

/// Work that is compiled once per instruction set. `run` must be `#[inline(always)]`.
pub(crate) trait Body {
    type Out;
    fn run<S: Simd>(self, simd: S) -> Self::Out;
}

/// The level every target has: arrays, left to the compiler.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Simd for Portable {
    type V = [f64; LANES];

    #[inline(always)]
    fn splat(self, x: f64) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, x: &[f64; LANES]) -> Self::V {
        *x
    }
    #[inline(always)]
    fn widen(self, x: &[f32; LANES]) -> Self::V {
        x.map(f64::from)
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn store(self, v: Self::V) -> [f64; LANES] {
        v
    }
}

/// Joins the lanes of a leaf: halves onto each other, 8 → 4 → 2 → 1.
#[inline(always)]
pub(crate) fn fold(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
