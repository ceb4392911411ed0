//! Runs a body at an instruction set, and stores by streaming stores.
//!
//! A `pulp` token proves that the CPU has the instructions; `vectorize` compiles the body for
//! them. A new level is one variant, one token and one `impl Simd`.

#![allow(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use pulp::NullaryFnOnce;

use crate::kernel::{Body, LANES, Portable, Simd};

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// What every CPU of the target has: SSE2 on x86-64, NEON on aarch64.
    Portable,
    /// AVX2 (x86-64-v3).
    Avx2,
    /// AVX-512 (x86-64-v4).
    Avx512,
    /// NEON with explicit vectors.
    Neon,
}

impl Level {
    /// Every level, slowest first.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Neon, Self::Avx2, Self::Avx512];

    /// Whether this CPU runs it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => pulp::x86::V3::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => pulp::x86::V4::is_available(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => pulp::aarch64::Neon::is_available(),
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// The levels this CPU runs, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|level| level.is_available())
    }

    /// The fastest level this CPU runs.
    pub fn best() -> Self {
        Self::available().last().unwrap_or(Self::Portable)
    }

    /// Whether there are stores that bypass the cache at this level.
    pub fn has_streaming_stores(self) -> bool {
        matches!(self, Self::Avx2 | Self::Avx512)
    }

    /// Runs `body` compiled for this level; a level the CPU lacks runs as portable.
    pub(crate) fn run<B: Body>(self, body: B) -> B::Out {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 if B::WIDEST && body.gains_by_widest() => {
                if let Some(token) = pulp::x86::V4::try_new() {
                    return token.vectorize(At(body, token));
                }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx512 => {
                if let Some(token) = pulp::x86::V3::try_new() {
                    return token.vectorize(At(body, token));
                }
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => {
                if let Some(token) = pulp::aarch64::Neon::try_new() {
                    return token.vectorize(At(body, token));
                }
            }
            _ => {}
        }
        body.run(Portable)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        })
    }
}

impl FromStr for Level {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|level| level.to_string() == name).ok_or(())
    }
}

/// A body with the token it will be compiled for.
struct At<B, S>(B, S);

impl<B: Body, S: Simd> NullaryFnOnce for At<B, S> {
    type Output = B::Out;

    #[inline(always)]
    fn call(self) -> B::Out {
        self.0.run(self.1)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256d, __m512d};

    use pulp::bytemuck::{self, Pod};
    use pulp::x86::{V3, V4};

    use super::{LANES, Simd};

    /// A hint to read a line into the cache.
    #[inline(always)]
    fn fetch<T>(x: &[T], ahead: usize) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        // SAFETY: a hint that reads nothing: it may be given any address. SSE is part of x86-64.
        #[allow(unused_unsafe)]
        unsafe {
            _mm_prefetch(x.as_ptr().wrapping_add(ahead).cast(), _MM_HINT_T0);
        }
    }

    /// Stores by streaming stores while the values are in registers or just were: a tile that is
    /// computed first and copied out then reads and writes in turns, not at once
    /// (docs/perf/stores.md).
    #[inline(always)]
    fn put_streaming<T: Copy, const L: usize>(to: &mut [T; L], from: &[T; L]) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

        let bytes = std::mem::size_of_val(from);
        let (dst, src) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        if !dst.is_aligned() || !bytes.is_multiple_of(16) {
            *to = *from;
            return;
        }
        for i in 0..bytes / 16 {
            // SAFETY: both are `bytes` long and do not overlap (`to` is unique); `dst` is aligned to
            // 16 as `stream` needs, loads are unaligned. SSE2 is part of x86-64.
            unsafe { _mm_stream_si128(dst.add(i), _mm_loadu_si128(src.add(i))) };
        }
    }

    impl Simd for V3 {
        type V = [__m256d; 2];
        type P = Self;

        #[inline(always)]
        fn registers(self) -> Self {
            self
        }
        #[inline(always)]
        fn splat(self, x: f64) -> Self::V {
            [self.avx._mm256_set1_pd(x); 2]
        }
        #[inline(always)]
        fn load(self, x: &[f64; LANES]) -> Self::V {
            pulp::cast(*x)
        }
        #[inline(always)]
        fn widen(self, x: &[f32; LANES]) -> Self::V {
            let halves: [[f32; 4]; 2] = pulp::cast(*x);
            // Not `map`: its closure is not always inlined, and would then run without AVX.
            [
                self.avx._mm256_cvtps_pd(pulp::cast(halves[0])),
                self.avx._mm256_cvtps_pd(pulp::cast(halves[1])),
            ]
        }
        #[inline(always)]
        fn add(self, a: Self::V, b: Self::V) -> Self::V {
            [self.avx._mm256_add_pd(a[0], b[0]), self.avx._mm256_add_pd(a[1], b[1])]
        }
        #[inline(always)]
        fn sub(self, a: Self::V, b: Self::V) -> Self::V {
            [self.avx._mm256_sub_pd(a[0], b[0]), self.avx._mm256_sub_pd(a[1], b[1])]
        }
        #[inline(always)]
        fn mul(self, a: Self::V, b: Self::V) -> Self::V {
            [self.avx._mm256_mul_pd(a[0], b[0]), self.avx._mm256_mul_pd(a[1], b[1])]
        }
        #[inline(always)]
        fn add_exact_product(self, sum: Self::V, x: Self::V, y: Self::V) -> Self::V {
            [
                self.fma._mm256_fmadd_pd(x[0], y[0], sum[0]),
                self.fma._mm256_fmadd_pd(x[1], y[1], sum[1]),
            ]
        }
        #[inline(always)]
        fn abs(self, a: Self::V) -> Self::V {
            let sign = self.avx._mm256_set1_pd(-0.0);
            [self.avx._mm256_andnot_pd(sign, a[0]), self.avx._mm256_andnot_pd(sign, a[1])]
        }
        #[inline(always)]
        fn store(self, v: Self::V) -> [f64; LANES] {
            pulp::cast(v)
        }
        #[inline(always)]
        fn fetch<T>(self, x: &[T], ahead: usize) {
            fetch(x, ahead);
        }
        #[inline(always)]
        fn put_streaming<T: Copy, const L: usize>(self, to: &mut [T; L], from: &[T; L]) {
            put_streaming(to, from);
        }
    }

    impl Simd for V4 {
        type V = __m512d;
        type P = Self;

        #[inline(always)]
        fn registers(self) -> Self {
            self
        }
        #[inline(always)]
        fn splat(self, x: f64) -> Self::V {
            self.avx512f._mm512_set1_pd(x)
        }
        #[inline(always)]
        fn load(self, x: &[f64; LANES]) -> Self::V {
            pulp::cast(*x)
        }
        #[inline(always)]
        fn widen(self, x: &[f32; LANES]) -> Self::V {
            self.avx512f._mm512_cvtps_pd(pulp::cast(*x))
        }
        #[inline(always)]
        fn add(self, a: Self::V, b: Self::V) -> Self::V {
            self.avx512f._mm512_add_pd(a, b)
        }
        #[inline(always)]
        fn sub(self, a: Self::V, b: Self::V) -> Self::V {
            self.avx512f._mm512_sub_pd(a, b)
        }
        #[inline(always)]
        fn mul(self, a: Self::V, b: Self::V) -> Self::V {
            self.avx512f._mm512_mul_pd(a, b)
        }
        #[inline(always)]
        fn add_exact_product(self, sum: Self::V, x: Self::V, y: Self::V) -> Self::V {
            self.avx512f._mm512_fmadd_pd(x, y, sum)
        }
        #[inline(always)]
        fn abs(self, a: Self::V) -> Self::V {
            self.avx512f._mm512_abs_pd(a)
        }
        #[inline(always)]
        fn store(self, v: Self::V) -> [f64; LANES] {
            pulp::cast(v)
        }
        const HAS_MASKS: bool = true;

        #[inline(always)]
        fn choose<T: Pod>(self, bits: u64, x: &[T; 64], fill: T, out: &mut [T; 64]) {
            let avx = self.avx512f;
            if std::mem::size_of::<T>() == 4 {
                let fill = avx._mm512_set1_epi32(bytemuck::cast(fill));
                let (x, _) = bytemuck::cast_slice::<T, u32>(x).as_chunks::<16>();
                let (out, _) = bytemuck::cast_slice_mut::<T, u32>(out).as_chunks_mut::<16>();
                for i in 0..4 {
                    let mask = (bits >> (16 * i)) as u16;
                    out[i] = pulp::cast(avx._mm512_mask_blend_epi32(mask, fill, pulp::cast(x[i])));
                }
            } else if std::mem::size_of::<T>() == 8 {
                let fill = avx._mm512_set1_epi64(bytemuck::cast(fill));
                let (x, _) = bytemuck::cast_slice::<T, u64>(x).as_chunks::<8>();
                let (out, _) = bytemuck::cast_slice_mut::<T, u64>(out).as_chunks_mut::<8>();
                for i in 0..8 {
                    let mask = (bits >> (8 * i)) as u8;
                    out[i] = pulp::cast(avx._mm512_mask_blend_epi64(mask, fill, pulp::cast(x[i])));
                }
            } else {
                for i in 0..64 {
                    out[i] = if bits >> i & 1 == 1 { x[i] } else { fill };
                }
            }
        }
        #[inline(always)]
        fn fetch<T>(self, x: &[T], ahead: usize) {
            fetch(x, ahead);
        }
        #[inline(always)]
        fn put_streaming<T: Copy, const L: usize>(self, to: &mut [T; L], from: &[T; L]) {
            put_streaming(to, from);
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::float64x2_t;

    use pulp::aarch64::Neon;

    use super::{LANES, Simd};

    impl Simd for Neon {
        type V = [float64x2_t; 4];
        type P = Self;

        #[inline(always)]
        fn registers(self) -> Self {
            self
        }
        #[inline(always)]
        fn splat(self, x: f64) -> Self::V {
            pulp::cast([x; LANES])
        }
        #[inline(always)]
        fn load(self, x: &[f64; LANES]) -> Self::V {
            pulp::cast(*x)
        }
        #[inline(always)]
        fn widen(self, x: &[f32; LANES]) -> Self::V {
            let pairs: [[f32; 2]; 4] = pulp::cast(*x);
            pairs.map(|pair| self.neon.vcvt_f64_f32(pulp::cast(pair)))
        }
        #[inline(always)]
        fn add(self, a: Self::V, b: Self::V) -> Self::V {
            std::array::from_fn(|i| self.neon.vaddq_f64(a[i], b[i]))
        }
        #[inline(always)]
        fn sub(self, a: Self::V, b: Self::V) -> Self::V {
            std::array::from_fn(|i| self.neon.vsubq_f64(a[i], b[i]))
        }
        #[inline(always)]
        fn mul(self, a: Self::V, b: Self::V) -> Self::V {
            std::array::from_fn(|i| self.neon.vmulq_f64(a[i], b[i]))
        }
        #[inline(always)]
        fn add_exact_product(self, sum: Self::V, x: Self::V, y: Self::V) -> Self::V {
            std::array::from_fn(|i| self.neon.vfmaq_f64(sum[i], x[i], y[i]))
        }
        #[inline(always)]
        fn abs(self, a: Self::V) -> Self::V {
            std::array::from_fn(|i| self.neon.vabsq_f64(a[i]))
        }
        #[inline(always)]
        fn store(self, v: Self::V) -> [f64; LANES] {
            pulp::cast(v)
        }
    }
}

/// Copies `from` to `to` with stores that do not pull the destination into the cache, where the
/// target has them; else as `copy_from_slice`. Meanwhile `ahead` is fetched into it. Call
/// [`stream_fence`] once after the last; docs/perf/stores.md has the figures.
#[inline]
pub(crate) fn stream<T: Copy>(to: &mut [T], from: &[T], ahead: &[u8]) {
    assert_eq!(to.len(), from.len(), "stream: both sides have one length");
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_stream_si128,
        };

        let bytes = std::mem::size_of_val(from);
        let dst = to.as_mut_ptr().cast::<u8>();
        let src = from.as_ptr().cast::<u8>();
        let head = dst.align_offset(64).min(bytes);
        let lines = (bytes - head) / 64;
        // What is behind the end of `ahead` is not asked for: it may be another task's.
        let lines_ahead = ahead.len() / 64;
        // SAFETY: `to` and `from` are `bytes` long (asserted) and do not overlap (`to` is unique);
        // head + 64 * lines <= bytes; 64 * lines_ahead <= ahead.len(). `dst + head` is aligned to 64
        // as `stream` needs, loads are unaligned. SSE2 is part of x86-64.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, head);
            for line in 0..lines {
                if line < lines_ahead {
                    _mm_prefetch(ahead.as_ptr().add(64 * line).cast(), _MM_HINT_T0);
                }
                let at = head + 64 * line;
                for part in 0..4 {
                    let from = src.add(at + 16 * part).cast::<__m128i>();
                    let to = dst.add(at + 16 * part).cast::<__m128i>();
                    _mm_stream_si128(to, _mm_loadu_si128(from));
                }
            }
            let done = head + 64 * lines;
            std::ptr::copy_nonoverlapping(src.add(done), dst.add(done), bytes - done);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = ahead;
        to.copy_from_slice(from);
    }
}

/// Makes earlier [`stream`] stores of this thread visible before later ones.
#[inline]
pub(crate) fn stream_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    #[allow(unused_unsafe)]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
