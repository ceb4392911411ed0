//! The tile of a product: a few rows of one side, broadcast, times a few registers of columns of
//! the other, with all sums in registers.
//!
//! ```text
//! sums[r][v] = 0                                  for every row r and register v of the tile
//! for k in 0..depth:
//!     sums[r][v] += splat(a[r, k]) * b[k, v]      fused where the CPU can
//! c = sums, or c += sums
//! ```
//!
//! As many sums as registers allow: they hide the latency of a fused multiplication, and the fewer
//! loads there are for each. docs/perf/products.md compares this with other libraries.

#![allow(unsafe_code)]
// Loops over registers count: iterators over arrays are not always inlined into the SIMD context.
#![allow(clippy::needless_range_loop)]

use crate::dispatch::Level;
use crate::kernel::{Portable, Real};

/// Registers of elements of type `T` at an instruction set, and the shape of its tiles.
pub(crate) trait Registers<T>: Copy {
    /// A register, or what stands for one.
    type R: Copy;
    /// Elements of a register.
    const LANES: usize;
    /// Rows of a tile. They divide its columns, so that a tile's rows never lie in two panels.
    const ROWS: usize;
    /// Registers of columns of a tile.
    const VECTORS: usize;
    /// The same where both sides are packed. With 16 registers, the compiler spills one of three
    /// there, which halves the speed; two are as fast as they can be.
    const BOTH_PACKED: usize = Self::VECTORS;
    fn splat(self, x: T) -> Self::R;
    fn add(self, a: Self::R, b: Self::R) -> Self::R;
    /// `a * b + c`, rounded once where the CPU can.
    fn multiply_add(self, a: Self::R, b: Self::R, c: Self::R) -> Self::R;
    /// Computes a tile of `vectors` registers of columns, which are at least 1 and at most
    /// [`VECTORS`](Self::VECTORS).
    ///
    /// # Safety
    ///
    /// As [`MicroTile`] says.
    unsafe fn tile(self, vectors: usize, tile: MicroTile<T>);
}

/// Where a tile's elements are.
///
/// To be sound, `a` has elements at `r * row_step + k * depth_step` for every row `r < rows`, where
/// `rows` is not 0, and every `k < depth`; `b` has `depth` times `vectors` registers; and nothing
/// else reads or writes `c[r * stride + i]` for `r < rows`, `i < columns`.
pub(crate) struct MicroTile<T> {
    pub(super) depth: usize,
    pub(super) a: *const T,
    pub(super) row_step: usize,
    pub(super) depth_step: usize,
    pub(super) b: *const T,
    pub(super) c: *mut T,
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) adds: bool,
}

/// Work on tiles that is compiled once per instruction set. `run` must be `#[inline(always)]`.
pub(crate) trait OnTiles<T> {
    type Out;
    fn run<S: Registers<T>>(self, simd: S) -> Self::Out;
}

/// A type that there are registers of.
pub(crate) trait Native: Real {
    /// Runs `body` compiled for a level; a level the CPU lacks runs as portable.
    fn at<B: OnTiles<Self>>(level: Level, body: B) -> B::Out;
}

/// # Safety
///
/// As [`MicroTile`] says, with `V` registers of columns.
#[inline(always)]
unsafe fn sums_of<T: Real, S: Registers<T>, const ROWS: usize, const V: usize>(
    simd: S,
    tile: MicroTile<T>,
) {
    let MicroTile { depth, a, row_step, depth_step, mut b, c, stride, rows, columns, adds } = tile;
    let mut sums = [[simd.splat(T::default()); V]; ROWS];
    let mut rows_of_a = [a; ROWS];
    for r in 0..ROWS {
        // Rows that are missing repeat the last; their sums are not stored.
        rows_of_a[r] = a.wrapping_add(r.min(rows - 1) * row_step);
    }
    for _ in 0..depth {
        let mut right = [simd.splat(T::default()); V];
        for v in 0..V {
            // SAFETY: `b` has `depth` times V registers; this is number v of the k-th.
            right[v] = unsafe { b.add(v * S::LANES).cast::<S::R>().read_unaligned() };
        }
        for r in 0..ROWS {
            // SAFETY: an element of row r, or of the last, at k < depth.
            let left = simd.splat(unsafe { *rows_of_a[r] });
            for v in 0..V {
                sums[r][v] = simd.multiply_add(left, right[v], sums[r][v]);
            }
            rows_of_a[r] = rows_of_a[r].wrapping_add(depth_step);
        }
        b = b.wrapping_add(V * S::LANES);
    }
    if rows == ROWS && columns == V * S::LANES {
        for r in 0..ROWS {
            for v in 0..V {
                let at = c.wrapping_add(r * stride + v * S::LANES).cast::<S::R>();
                let mut sum = sums[r][v];
                // SAFETY: the tile is whole, so that all of it may be read and written.
                unsafe {
                    if adds {
                        sum = simd.add(at.read_unaligned(), sum);
                    }
                    at.write_unaligned(sum);
                }
            }
        }
        return;
    }
    // A copy has an address; the sums themselves stay in registers.
    let mut stored = [[simd.splat(T::default()); V]; ROWS];
    for r in 0..ROWS {
        for v in 0..V {
            stored[r][v] = sums[r][v];
        }
    }
    let stored = (&raw const stored).cast::<T>();
    for r in 0..rows {
        for i in 0..columns {
            let at = c.wrapping_add(r * stride + i);
            // SAFETY: row r and column i are among the tile's, in `c` and, the registers lying one
            // behind the other, in the sums.
            unsafe {
                let sum = *stored.add(r * V * S::LANES + i);
                *at = if adds { (*at).plus(sum).0 } else { sum };
            }
        }
    }
}

/// Registers of a token: `token, element, register: lanes, rows × vectors [every number of them]`,
/// and the three operations.
macro_rules! registers {
    ($token:ty, $t:ty, $r:ty: $lanes:literal, $rows:literal x $vectors:literal [$($few:literal)*],
     |$s:ident, $a:ident, $b:ident, $c:ident| $splat:expr, $add:expr, $multiply_add:expr
     $(, $more:item)?) => {
        impl Registers<$t> for $token {
            type R = $r;
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;
            const VECTORS: usize = $vectors;
            $($more)?
            #[inline(always)]
            fn splat(self, $a: $t) -> $r {
                let $s = self;
                let _ = $s; // not every level needs its token for it
                $splat
            }
            #[inline(always)]
            fn add(self, $a: $r, $b: $r) -> $r {
                let $s = self;
                $add
            }
            #[inline(always)]
            fn multiply_add(self, $a: $r, $b: $r, $c: $r) -> $r {
                let $s = self;
                $multiply_add
            }
            #[inline(always)]
            unsafe fn tile(self, vectors: usize, tile: MicroTile<$t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    match vectors {
                        $($few => sums_of::<$t, Self, $rows, $few>(self, tile),)*
                        _ => sums_of::<$t, Self, $rows, $vectors>(self, tile),
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};

    use pulp::x86::{V3, V4};

    use super::{MicroTile, Registers, sums_of};

    // Of 32 registers, 24 hold sums; of 16, 12.
    registers!(V4, f64, __m512d: 8, 8 x 3 [1 2], |s, a, b, c|
        s.avx512f._mm512_set1_pd(a), s.avx512f._mm512_add_pd(a, b),
        s.avx512f._mm512_fmadd_pd(a, b, c));
    registers!(V4, f32, __m512: 16, 8 x 3 [1 2], |s, a, b, c|
        s.avx512f._mm512_set1_ps(a), s.avx512f._mm512_add_ps(a, b),
        s.avx512f._mm512_fmadd_ps(a, b, c));
    registers!(V3, f64, __m256d: 4, 4 x 3 [1 2], |s, a, b, c|
        s.avx._mm256_set1_pd(a), s.avx._mm256_add_pd(a, b), s.fma._mm256_fmadd_pd(a, b, c),
        const BOTH_PACKED: usize = 2;);
    registers!(V3, f32, __m256: 8, 4 x 3 [1 2], |s, a, b, c|
        s.avx._mm256_set1_ps(a), s.avx._mm256_add_ps(a, b), s.fma._mm256_fmadd_ps(a, b, c),
        const BOTH_PACKED: usize = 2;);
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::{float32x4_t, float64x2_t};

    use pulp::aarch64::Neon;

    use super::{MicroTile, Registers, sums_of};

    // Of 32 registers, 16 hold sums: four chains for each of up to four units.
    registers!(Neon, f64, float64x2_t: 2, 4 x 4 [1 2 3], |s, a, b, c|
        pulp::cast([a; 2]), s.neon.vaddq_f64(a, b), s.neon.vfmaq_f64(c, a, b));
    registers!(Neon, f32, float32x4_t: 4, 4 x 4 [1 2 3], |s, a, b, c|
        pulp::cast([a; 4]), s.neon.vaddq_f32(a, b), s.neon.vfmaq_f32(c, a, b));
}

// Plain arrays of two SSE2 registers; the compiler knows what to do with them.
registers!(Portable, f64, [f64; 4]: 4, 4 x 1 [], |_s, a, b, c|
    [a; 4], std::array::from_fn(|i| a[i] + b[i]), std::array::from_fn(|i| a[i] * b[i] + c[i]));
registers!(Portable, f32, [f32; 8]: 8, 4 x 1 [], |_s, a, b, c|
    [a; 8], std::array::from_fn(|i| a[i] + b[i]), std::array::from_fn(|i| a[i] * b[i] + c[i]));

/// A body with the token it will be compiled for.
struct At<B, S>(B, S);

macro_rules! native {
    ($($t:ty),+) => {$(
        impl Native for $t {
            fn at<B: OnTiles<Self>>(level: Level, body: B) -> B::Out {
                // One closure for each token: a generic one would need to name the type twice.
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => {
                        if let Some(token) = pulp::x86::V4::try_new() {
                            return token.vectorize(On::<$t, _>(At(body, token), []));
                        }
                    }
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => {
                        if let Some(token) = pulp::x86::V3::try_new() {
                            return token.vectorize(On::<$t, _>(At(body, token), []));
                        }
                    }
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => {
                        if let Some(token) = pulp::aarch64::Neon::try_new() {
                            return token.vectorize(On::<$t, _>(At(body, token), []));
                        }
                    }
                    _ => {}
                }
                body.run(Portable)
            }
        }
    )+};
}

native!(f32, f64);

/// A body for elements of type `T`, as pulp wants it.
struct On<T, B>(B, [T; 0]);

impl<T, B: OnTiles<T>, S: Registers<T>> pulp::NullaryFnOnce for On<T, At<B, S>> {
    type Output = B::Out;

    #[inline(always)]
    fn call(self) -> B::Out {
        let Self(At(body, token), []) = self;
        body.run(token)
    }
}
