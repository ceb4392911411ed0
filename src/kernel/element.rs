//! What a kernel needs to know of the type it computes on.
//!
//! Kernels are compiled for four types: float32, float64, and the integers of 64 bits. The
//! narrower ones (float16, integers of 8 to 32 bits) are widened to these a tile at a time, in L1,
//! by [`super::convert`]: eleven stored types through every kernel would make a library of many
//! megabytes. Only sums, differences and products of narrow integers are computed in their own
//! width, where a vector holds up to eight times as many (docs/perf/integers.md). Floats never
//! overflow; integers say when they did, and the caller finds the row.

use std::ops::{Add, BitAnd, BitOr, Mul, Not, Sub};

use super::exp::{exp, exp_32};
use super::log::{log, log_32};
use super::pow::{pow, pow_i64, pow_single, pow_u64};
use super::{LANES, Simd};

/// A signed integer of an element's size: its rank, or an index.
pub(crate) trait Rank:
    Copy
    + Ord
    + Default
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitOr<Output = Self>
    + Into<i64>
{
    /// The nearest to a number.
    fn clamped(n: i64) -> Self;
}
impl Rank for i32 {
    fn clamped(n: i64) -> Self {
        n.clamp(i32::MIN.into(), i32::MAX.into()) as Self
    }
}
impl Rank for i64 {
    fn clamped(n: i64) -> Self {
        n
    }
}

/// Bits that signs are looked for among.
pub(crate) trait Bits:
    Copy + Default + Send + Sync + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self>
{
}
impl Bits for u8 {}
impl Bits for u32 {}
impl Bits for u64 {}

/// A number that kernels compute on.
pub(crate) trait Element:
    Copy + Send + Sync + PartialOrd + std::fmt::Debug + Default + 'static
{
    /// Whether it is a float.
    const IS_FLOAT: bool = false;
    /// Whether narrow rows get loops of their own for each width. Integers do not: each is a loop
    /// more to build, in every kernel.
    const HAS_NARROW: bool;
    /// Whether sums and squares in float64 may overflow or vanish, see [`super::scale`]: those of
    /// float64 alone.
    const NEEDS_SCALE: bool;
    /// The neutral value of addition. Not `+0.0`, which would turn a sum of negative zeros around.
    const NEUTRAL: Self;
    /// One.
    const ONE: Self;
    /// The neutral values of the maximum and the minimum.
    const LOWEST: Self;
    const HIGHEST: Self;
    /// As float64: exact, but for integers of 64 bits, which are rounded.
    fn widen(self) -> f64;
    /// The value itself, or the canonical NaN in place of any NaN.
    fn canonical(self) -> Self;
    /// The same in two instructions instead of four, for what is no root: the compiler takes a
    /// comparison of a root with itself away.
    fn canonical_by_value(self) -> Self;
    /// Eight elements as float64.
    fn load<S: Simd>(simd: S, x: &[Self; LANES]) -> S::V;
    /// `sum + x y`, the product rounded first, for `x` and `y` loaded from elements of this type.
    #[inline(always)]
    fn add_product<S: Simd>(simd: S, sum: S::V, x: S::V, y: S::V) -> S::V {
        simd.add(sum, simd.mul(x, y))
    }

    /// The sum, and whether it overflowed; so the others.
    fn plus(self, other: Self) -> (Self, bool);
    fn minus(self, other: Self) -> (Self, bool);
    fn times(self, other: Self) -> (Self, bool);
    /// The quotient: for integers towards zero, and "overflowed" for a zero divisor too.
    fn over(self, other: Self) -> (Self, bool);

    /// The number to the power of another; "overflowed" too for an integer whose power is none.
    fn power(self, exponent: Self) -> (Self, bool);

    /// The number with the other sign.
    fn negative(self) -> (Self, bool);

    /// The number without its sign. The smallest integer stays as it is.
    fn magnitude(self) -> Self {
        if self.has_sign() { self.negative().0 } else { self }
    }

    fn is_nan(self) -> bool;
    fn is_finite(self) -> bool;
    /// The whole number that is nearest, of two the even one.
    fn to_whole(self) -> Self;
    /// Whether it is the same to the bit.
    fn is_same(self, other: Self) -> bool;
    /// Whether `self` comes before `other`; −0 comes before +0, and no NaN before or after
    /// anything.
    fn precedes(self, other: Self) -> bool;
    /// The same in one instruction: of two zeros, or with a NaN, it may say anything.
    fn below(self, other: Self) -> bool;
    /// Bits to look for a sign among: nothing for integers.
    type Bits: Bits;
    fn sign_bits(self) -> Self::Bits;
    /// Whether the sign is set in bits that were joined.
    fn has_sign_bit(bits: Self::Bits) -> bool;
    /// Minus zero and the canonical NaN, where there are such.
    const NEGATIVE_ZERO: Self;
    const NAN: Self;
    /// Whether the sign bit is set: of a negative number, −0.0 or a NaN.
    fn has_sign(self) -> bool;
    /// A signed integer of the same size.
    type Rank: Rank;
    /// The rank that none is above.
    const LAST: Self::Rank;
    /// A rank: less for what comes before by [`precedes`](Self::precedes), or if `reversed` after;
    /// smallest of all for a NaN.
    fn rank(self, reversed: bool) -> Self::Rank;
    /// What has that rank: of NaN, the canonical one.
    fn of_rank(rank: Self::Rank, reversed: bool) -> Self;
    /// An index below 2^31, in the size of a rank.
    fn rank_of_index(index: usize) -> Self::Rank;
    fn index(rank: Self::Rank) -> usize;

    /// An exact integer in this type, if it fits. Floats round it.
    fn from_integer(x: i128) -> Option<Self>;
    /// The number of that value, if there is one: floats round, integers take whole numbers.
    fn from_number(x: f64) -> Option<Self>;
}

/// A float: what float64 is rounded to.
pub(crate) trait Real: Element {
    /// Rounds to nearest, ties to even.
    fn round(x: f64) -> Self;
    /// `e` to the power of the number.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn log(self) -> Self;
}

/// An integer: what exact sums add up.
pub(crate) trait Integer: Element {
    /// `high * 2^32 + low`: sums of either half fit an i64 for 2^30 elements.
    fn split(self) -> (i64, i64);
}

macro_rules! float {
    ($t:ty, $bits:ty, $rank:ty, $load:ident, $exp:ident $log:ident $pow:ident $($more:item)*) => {
        impl Element for $t {
            const IS_FLOAT: bool = true;
            const HAS_NARROW: bool = true;
            const NEEDS_SCALE: bool = std::mem::size_of::<Self>() == 8;
            const NEUTRAL: Self = -0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = Self::NEG_INFINITY;
            const HIGHEST: Self = Self::INFINITY;

            #[inline(always)]
            fn widen(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn canonical_by_value(self) -> Self {
                if self != self { Self::NAN } else { self }
            }
            #[inline(always)]
            fn canonical(self) -> Self {
                // By its bits: the compiler takes a comparison of a root with itself away.
                let is_nan = self.to_bits() << 1 > Self::INFINITY.to_bits() << 1;
                if is_nan { Self::NAN } else { self }
            }
            #[inline(always)]
            fn load<S: Simd>(simd: S, x: &[Self; LANES]) -> S::V {
                simd.$load(x)
            }
            $($more)*
            #[inline(always)]
            fn plus(self, other: Self) -> (Self, bool) {
                (self + other, false)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> (Self, bool) {
                (self - other, false)
            }
            #[inline(always)]
            fn times(self, other: Self) -> (Self, bool) {
                (self * other, false)
            }
            #[inline(always)]
            fn over(self, other: Self) -> (Self, bool) {
                (self / other, false)
            }
            #[inline(always)]
            fn power(self, exponent: Self) -> (Self, bool) {
                ($pow(f64::from(self), f64::from(exponent)) as Self, false)
            }
            #[inline(always)]
            fn negative(self) -> (Self, bool) {
                (-self, false)
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.abs() < Self::INFINITY
            }
            #[inline(always)]
            fn to_whole(self) -> Self {
                // From here on all numbers are whole, so that adding it rounds to whole ones.
                const WHOLE: $t = 1.0 / <$t>::EPSILON;
                let magnitude = self.abs();
                let whole = (magnitude + WHOLE) - WHOLE;
                if magnitude < WHOLE { whole.copysign(self) } else { self }
            }
            #[inline(always)]
            fn is_same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }
            #[inline(always)]
            fn precedes(self, other: Self) -> bool {
                (self < other) | (self == other) & self.has_sign() & !other.has_sign()
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                self < other
            }
            type Bits = $bits;
            #[inline(always)]
            fn sign_bits(self) -> $bits {
                self.to_bits()
            }
            #[inline(always)]
            fn has_sign_bit(bits: $bits) -> bool {
                bits >> (<$bits>::BITS - 1) != 0
            }
            const NEGATIVE_ZERO: Self = -0.0;
            const NAN: Self = Self::NAN;
            #[inline(always)]
            fn has_sign(self) -> bool {
                self.is_sign_negative()
            }
            type Rank = $rank;
            const LAST: $rank = <$rank>::MAX;
            #[inline(always)]
            fn rank_of_index(index: usize) -> $rank {
                index as $rank
            }
            #[inline(always)]
            fn index(rank: $rank) -> usize {
                rank as usize
            }
            #[inline(always)]
            fn rank(self, reversed: bool) -> $rank {
                let bits = self.to_bits() as $rank;
                // Below zero, more bits are less.
                let rank = bits ^ ((bits >> (<$rank>::BITS - 1)) & <$rank>::MAX);
                let rank = if reversed { !rank } else { rank };
                if self != self { <$rank>::MIN } else { rank }
            }
            #[inline(always)]
            fn of_rank(rank: $rank, reversed: bool) -> Self {
                let rank = if reversed { !rank } else { rank };
                let bits = rank ^ ((rank >> (<$rank>::BITS - 1)) & <$rank>::MAX);
                Self::from_bits(bits as $bits).canonical()
            }
            #[inline(always)]
            fn from_integer(x: i128) -> Option<Self> {
                Some(x as Self)
            }
            #[inline(always)]
            fn from_number(x: f64) -> Option<Self> {
                Some(x as Self)
            }
        }

        impl Real for $t {
            #[inline(always)]
            fn round(x: f64) -> Self {
                x as Self
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn log(self) -> Self {
                $log(self)
            }
        }
    };
}

float!(f32, u32, i32, widen, exp_32 log_32 pow_single
    /// The product of two numbers of 24 digits has 48, and float64 holds 53: it is exact, so that
    /// one rounding is the same as two.
    #[inline(always)]
    fn add_product<S: Simd>(simd: S, sum: S::V, x: S::V, y: S::V) -> S::V {
        simd.add_exact_product(sum, x, y)
    }
);
float!(f64, u64, i64, load, exp log pow);

macro_rules! integer {
    ($($t:ty: $times:ident, $pow:ident of $wide:ty;)+) => {$(
        impl Element for $t {
            const HAS_NARROW: bool = false;
            const NEEDS_SCALE: bool = false;
            const NEUTRAL: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = Self::MIN;
            const HIGHEST: Self = Self::MAX;

            #[inline(always)]
            fn widen(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
            #[inline(always)]
            fn canonical_by_value(self) -> Self {
                self
            }
            #[inline(always)]
            fn load<S: Simd>(simd: S, x: &[Self; LANES]) -> S::V {
                let mut wide = [0.0; LANES];
                for i in 0..LANES {
                    wide[i] = x[i] as f64;
                }
                simd.load(&wide)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> (Self, bool) {
                let sum = self.wrapping_add(other);
                // Not `overflowing_add`, which is not vectorised: the sign of both is lost.
                let is_signed = Self::MIN != 0;
                (sum, if is_signed { ((self ^ sum) & (other ^ sum)).has_sign() } else { sum < self })
            }
            #[inline(always)]
            fn minus(self, other: Self) -> (Self, bool) {
                let rest = self.wrapping_sub(other);
                let is_signed = Self::MIN != 0;
                let lost = (self ^ other) & (self ^ rest);
                (rest, if is_signed { lost.has_sign() } else { self < other })
            }
            #[inline(always)]
            fn times(self, other: Self) -> (Self, bool) {
                $times!(self, other)
            }
            #[inline(always)]
            fn over(self, other: Self) -> (Self, bool) {
                match self.checked_div(other) {
                    Some(quotient) => (quotient, false),
                    None => (0, true),
                }
            }
            #[inline(always)]
            fn power(self, exponent: Self) -> (Self, bool) {
                let (power, failed) = $pow(self as $wide, exponent as $wide);
                (power as Self, failed || power as Self as $wide != power)
            }
            #[inline(always)]
            fn negative(self) -> (Self, bool) {
                (self.wrapping_neg(), if Self::MIN == 0 { self != 0 } else { self == Self::MIN })
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                true
            }
            #[inline(always)]
            fn to_whole(self) -> Self {
                self
            }
            #[inline(always)]
            fn is_same(self, other: Self) -> bool {
                self == other
            }
            #[inline(always)]
            fn precedes(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                self < other
            }
            type Bits = u8;
            #[inline(always)]
            fn sign_bits(self) -> u8 {
                0
            }
            #[inline(always)]
            fn has_sign_bit(_: u8) -> bool {
                false
            }
            const NEGATIVE_ZERO: Self = 0;
            const NAN: Self = 0;
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned integers have no sign")]
            fn has_sign(self) -> bool {
                self < 0
            }
            type Rank = i64;
            const LAST: i64 = i64::MAX;
            #[inline(always)]
            fn rank_of_index(index: usize) -> i64 {
                index as i64
            }
            #[inline(always)]
            fn index(rank: i64) -> usize {
                rank as usize
            }
            #[inline(always)]
            fn rank(self, reversed: bool) -> i64 {
                let rank = (self as i64) ^ if Self::MIN == 0 { i64::MIN } else { 0 };
                if reversed { !rank } else { rank }
            }
            #[inline(always)]
            fn of_rank(rank: i64, reversed: bool) -> Self {
                let rank = if reversed { !rank } else { rank };
                (rank ^ if Self::MIN == 0 { i64::MIN } else { 0 }) as Self
            }
            #[inline(always)]
            fn from_integer(x: i128) -> Option<Self> {
                Self::try_from(x).ok()
            }
            #[inline(always)]
            fn from_number(x: f64) -> Option<Self> {
                // The bounds are powers of two, so they are exact; a cast saturates at them.
                let fits = x >= Self::MIN as f64 && x < Self::MAX as f64 + 1.0;
                (fits && x.trunc() == x).then(|| x as Self)
            }
        }

    )+};
}

/// A product, and whether it overflowed.
macro_rules! widest_product {
    ($a:expr, $b:expr) => {
        $a.overflowing_mul($b)
    };
}

/// The same of integers for which there is one of twice the width: its upper half is all signs.
macro_rules! signed_product {
    ($a:expr, $b:expr) => {{
        let product = $a.wide_product($b);
        (product.0, product.1 != product.0 >> (Self::BITS - 1))
    }};
}

/// Of unsigned ones the upper half is zero. What nothing can be taken from is zero, but the compiler
/// does not know it: a comparison with zero it would make the overflow flag of a multiplication, which
/// there is no vector instruction for.
macro_rules! unsigned_product {
    ($a:expr, $b:expr) => {{
        let product = $a.wide_product($b);
        (product.0, product.1.saturating_sub(1) != product.1)
    }};
}

/// The lower and the upper half of a product.
trait WideProduct: Sized {
    fn wide_product(self, other: Self) -> (Self, Self);
}

macro_rules! wide_product {
    ($($t:ty as $wide:ty),+) => {$(
        impl WideProduct for $t {
            #[inline(always)]
            fn wide_product(self, other: Self) -> (Self, Self) {
                let product = <$wide>::from(self) * <$wide>::from(other);
                (product as Self, (product >> Self::BITS) as Self)
            }
        }
    )+};
}

wide_product!(i8 as i16, i16 as i32, i32 as i64, u8 as u16, u16 as u32, u32 as u64);

integer!(
    i64: widest_product, pow_i64 of i64;
    i32: signed_product, pow_i64 of i64;
    i16: signed_product, pow_i64 of i64;
    i8: signed_product, pow_i64 of i64;
    u64: widest_product, pow_u64 of u64;
    u32: unsigned_product, pow_u64 of u64;
    u16: unsigned_product, pow_u64 of u64;
    u8: unsigned_product, pow_u64 of u64;
);

macro_rules! split {
    ($($t:ty),+) => {$(
        impl Integer for $t {
            #[inline(always)]
            fn split(self) -> (i64, i64) {
                // Shifted in its own type, so that an unsigned high half stays positive.
                ((self >> 32) as i64, (self as i64) & 0xffff_ffff)
            }
        }
    )+};
}

split!(i64, u64);
