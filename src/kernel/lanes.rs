//! Eight float64 lanes at any instruction set.
//!
//! The lane count is part of the numbers contract (docs/guide/numbers.md): element `i` of a
//! sequence is added to lane `i mod 8`, on every machine. Eight is one AVX-512 register, two
//! AVX2, four NEON or SSE2. docs/perf/lanes.md has the figures that chose it.

use pulp::bytemuck::Pod;

/// Lanes of a running sum. Fixed for ever: it defines the order of additions.
pub(crate) const LANES: usize = 8;

/// Eight float64 values and the few operations the reductions need on them.
///
/// Explicit vectors because a loop over `[f64; 8]` compiles to half the speed when the input is
/// float32 (docs/perf/lanes.md); everything else in the kernels is plain loops.
pub(crate) trait Simd: Copy {
    /// Eight float64 values, in registers.
    type V: Copy;
    /// The registers of this level, for loops that name their element type.
    type P: pulp::Simd;
    fn registers(self) -> Self::P;
    fn splat(self, x: f64) -> Self::V;
    fn load(self, x: &[f64; LANES]) -> Self::V;
    fn widen(self, x: &[f32; LANES]) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `sum + x y` where the product is exact, so that fused or not gives the same bits.
    #[inline(always)]
    fn add_exact_product(self, sum: Self::V, x: Self::V, y: Self::V) -> Self::V {
        self.add(sum, self.mul(x, y))
    }
    /// Clears the signs.
    fn abs(self, a: Self::V) -> Self::V;
    fn store(self, v: Self::V) -> [f64; LANES];
    /// Asks for the cache line that lies `ahead` elements behind the first of `x`, if this level
    /// can.
    #[inline(always)]
    fn fetch<T>(self, _x: &[T], _ahead: usize) {}
    /// Whether there are registers of masks, which bits are as they are.
    const HAS_MASKS: bool = false;
    /// Copies 64 elements whose bits are set, and puts `fill` in place of the others.
    #[inline(always)]
    fn choose<T: Pod>(self, bits: u64, x: &[T; 64], fill: T, out: &mut [T; 64]) {
        for i in 0..64 {
            out[i] = if bits >> i & 1 == 1 { x[i] } else { fill };
        }
    }
    /// Writes elements by streaming stores, if this level can and their place is aligned to 16 bytes.
    #[inline(always)]
    fn put_streaming<T: Copy, const L: usize>(self, to: &mut [T; L], from: &[T; L]) {
        *to = *from;
    }
}

/// Work that is compiled once per instruction set. `run` must be `#[inline(always)]`.
pub(crate) trait Body {
    type Out;
    /// Whether it is worth an AVX-512 version of its own beside the AVX2 one. Most are bound by
    /// memory, and every further version makes the library larger and slower to build.
    #[allow(dead_code, reason = "only x86-64 has AVX-512")]
    const WIDEST: bool = false;
    /// Whether this call of it gains by AVX-512, where there is such a version.
    #[allow(dead_code, reason = "only x86-64 has AVX-512")]
    #[inline(always)]
    fn gains_by_widest(&self) -> bool {
        true
    }
    fn run<S: Simd>(self, simd: S) -> Self::Out;
}

/// The level every target has: arrays, left to the compiler.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Simd for Portable {
    type V = [f64; LANES];
    type P = pulp::Scalar128b;

    #[inline(always)]
    fn registers(self) -> Self::P {
        pulp::Scalar128b
    }
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
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn abs(self, a: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].abs())
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
