//! Stored numbers to and from the types that kernels compute on, a tile at a time.
//!
//! Stored numbers are bytes here: no alignment is asked for, and no type parameter reaches the
//! kernels. Widening is exact, but for 64-bit integers as float64, which are rounded once.

use half::f16;

use super::Element;

/// A type that numbers are stored in, in its own bytes.
pub(crate) trait Stored<const SIZE: usize>: Copy {
    fn from_bytes(bytes: [u8; SIZE]) -> Self;
    fn to_bytes(self) -> [u8; SIZE];
}

/// How a stored type is widened to `W`.
pub(crate) trait Wide<W>: Sized {
    fn widen(self) -> W;
}

/// How `W` is narrowed to a stored type.
pub(crate) trait Narrow<W>: Sized {
    /// The number, and whether it did not fit: integers must be hit exactly, floats round, and any
    /// NaN becomes the canonical one.
    fn narrow(x: W) -> (Self, bool);
}

/// Reads as many elements as `out` has.
#[inline(always)]
pub(crate) fn read<T: Stored<SIZE> + Wide<W>, W, const SIZE: usize>(bytes: &[u8], out: &mut [W]) {
    for (o, bytes) in out.iter_mut().zip(bytes.as_chunks::<SIZE>().0) {
        *o = T::from_bytes(*bytes).widen();
    }
}

/// Writes all elements of `x`; whether any did not fit.
#[inline(always)]
pub(crate) fn write<T: Stored<SIZE> + Narrow<W>, W: Copy, const SIZE: usize>(
    x: &[W],
    bytes: &mut [u8],
) -> bool {
    let mut any = false;
    for (bytes, x) in bytes.as_chunks_mut::<SIZE>().0.iter_mut().zip(x) {
        let (narrow, overflowed) = T::narrow(*x);
        *bytes = narrow.to_bytes();
        any |= overflowed;
    }
    any
}

macro_rules! stored {
    ($($t:ty: $size:literal),+) => {$(
        impl Stored<$size> for $t {
            #[inline(always)]
            fn from_bytes(bytes: [u8; $size]) -> Self {
                Self::from_ne_bytes(bytes)
            }
            #[inline(always)]
            fn to_bytes(self) -> [u8; $size] {
                self.to_ne_bytes()
            }
        }
    )+};
}

stored!(f16: 2, f32: 4, f64: 8, i8: 1, i16: 2, i32: 4, i64: 8, u8: 1, u16: 2, u32: 4, u64: 8);

/// A yes or no, stored as a byte of 1 or 0: what comparisons give. Arrow's bits are made of it where
/// a result leaves.
#[derive(Clone, Copy)]
pub(crate) struct Flag(u8);

impl Stored<1> for Flag {
    #[inline(always)]
    fn from_bytes([byte]: [u8; 1]) -> Self {
        Self(byte)
    }
    #[inline(always)]
    fn to_bytes(self) -> [u8; 1] {
        [self.0]
    }
}

macro_rules! flags {
    ($($w:ty)+) => {$(
        impl Wide<$w> for Flag {
            #[inline(always)]
            fn widen(self) -> $w {
                self.0 as $w
            }
        }
        impl Narrow<$w> for Flag {
            #[inline(always)]
            fn narrow(x: $w) -> (Self, bool) {
                (Self(u8::from(x != 0 as $w)), false)
            }
        }
    )+};
}

flags!(f32 f64 i64 u64);

/// Types as wider ones, or as themselves; integers as float64 too, which functions that give
/// floats compute on.
macro_rules! wide {
    ($($w:ty: $($t:ty)+;)+) => {$($(
        impl Wide<$w> for $t {
            #[inline(always)]
            fn widen(self) -> $w {
                self as $w
            }
        }
    )+)+};
}

wide! {
    f32: f32 i8 i16 u8 u16;
    f64: f32 f64 i8 i16 i32 i64 u8 u16 u32 u64;
    i64: i8 i16 i32 i64 u8 u16 u32;
    u64: u8 u16 u32 u64;
}

impl Wide<f32> for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        half_to_single(self)
    }
}

impl Wide<f64> for f16 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(half_to_single(self))
    }
}

macro_rules! to_integers {
    ($($t:ty)+) => {$(
        impl Narrow<i64> for $t {
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned integers have no sign")]
            fn narrow(x: i64) -> (Self, bool) {
                let narrow = x as Self;
                (narrow, narrow as i64 != x || (narrow < 0) != (x < 0))
            }
        }
        impl Narrow<u64> for $t {
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned integers have no sign")]
            fn narrow(x: u64) -> (Self, bool) {
                let narrow = x as Self;
                (narrow, narrow as u64 != x || narrow < 0)
            }
        }
        impl Narrow<f64> for $t {
            #[inline(always)]
            fn narrow(x: f64) -> (Self, bool) {
                // The bounds are powers of two, so they are exact.
                let is_inside = x >= Self::MIN as f64 && x < Self::MAX as f64 + 1.0;
                (x as Self, !(is_inside && x.trunc() == x))
            }
        }
        impl Narrow<f32> for $t {
            #[inline(always)]
            fn narrow(x: f32) -> (Self, bool) {
                <Self as Narrow<f64>>::narrow(f64::from(x))
            }
        }
    )+};
}

to_integers!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Narrow integers as themselves.
macro_rules! as_they_are {
    ($($t:ty)+) => {$(
        impl Wide<$t> for $t {
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
        }
        impl Narrow<$t> for $t {
            #[inline(always)]
            fn narrow(x: $t) -> (Self, bool) {
                (x, false)
            }
        }
    )+};
}

as_they_are!(i8 i16 i32 u8 u16 u32);

macro_rules! to_floats {
    ($($w:ty)+) => {$(
        impl Narrow<$w> for f64 {
            #[inline(always)]
            fn narrow(x: $w) -> (Self, bool) {
                ((x as f64).canonical(), false)
            }
        }
        impl Narrow<$w> for f32 {
            #[inline(always)]
            fn narrow(x: $w) -> (Self, bool) {
                ((x as f32).canonical(), false)
            }
        }
        impl Narrow<$w> for f16 {
            #[inline(always)]
            fn narrow(x: $w) -> (Self, bool) {
                // Integers that float64 rounds are infinite in float16 either way.
                (half_from_double(x as f64), false)
            }
        }
    )+};
}

to_floats!(f32 f64 i64 u64);

// The conversions of float16 are written here and not taken from the `half` crate, which picks
// instructions at run time (so its loops do not vectorise) and rounds float64 through float32 on
// CPUs that have F16C, but not on others: twice-rounded results would differ between machines.

/// Exact. Multiplying by 2^112 moves the exponent from float16's bias to float32's, subnormal
/// numbers included.
#[inline(always)]
fn half_to_single(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    let moved = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    // Infinities and NaNs have all exponent bits set before and after.
    let moved = if magnitude >= 0x0f80_0000 { magnitude | 0x7f80_0000 } else { moved };
    f32::from_bits(moved | (bits & 0x8000) << 16)
}

/// Rounds to nearest, ties to even, once.
#[inline(always)]
fn half_from_double(x: f64) -> f16 {
    let bits = x.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    let whole = bits & !(1 << 63);
    let magnitude = f64::from_bits(whole);
    // Normal numbers: 42 bits are dropped, half of the last kept one is added.
    let rounded = (whole + ((1 << 41) - 1) + (whole >> 42 & 1)) >> 42;
    let normal = rounded.wrapping_sub((1023 - 15) << 10) as u16;
    // Subnormal numbers: units of 2^-24; adding 2^52 rounds to whole units.
    let units = magnitude * (1u64 << 24) as f64 + (1u64 << 52) as f64;
    let subnormal = units.to_bits() as u16;
    let finite = if magnitude < 6.103_515_625e-5 { subnormal } else { normal };
    // 65520 is half way from the largest number to the next power of two.
    let limited = if magnitude >= 65520.0 { 0x7c00 } else { finite };
    f16::from_bits(if x.is_nan() { 0x7e00 } else { sign | limited })
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::{half_from_double, half_to_single};

    #[test]
    fn every_float16_widens_exactly_and_comes_back() {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits);
            if x.is_nan() {
                assert!(half_to_single(x).is_nan());
                continue;
            }
            assert_eq!(half_to_single(x).to_bits(), x.to_f32_const().to_bits(), "{bits:#x}");
            assert_eq!(half_from_double(f64::from(half_to_single(x))).to_bits(), bits, "{bits:#x}");
        }
    }

    #[test]
    fn rounds_to_the_nearest_and_ties_to_even() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            let middle = (low.to_f64_const() + high.to_f64_const()) / 2.0;
            let even = if bits % 2 == 0 { low } else { high };
            assert_eq!(half_from_double(middle), even, "{bits:#x}");
            assert_eq!(half_from_double(middle.next_down()), low, "{bits:#x}");
            assert_eq!(half_from_double(middle.next_up()), high, "{bits:#x}");
            assert_eq!(half_from_double(-middle.next_up()), -high, "{bits:#x}");
        }
        assert_eq!(half_from_double(65519.999), f16::MAX);
        assert_eq!(half_from_double(65520.0), f16::INFINITY);
        assert_eq!(half_from_double(1e300), f16::INFINITY);
        assert_eq!(half_from_double(f64::NEG_INFINITY), f16::NEG_INFINITY);
    }
}
