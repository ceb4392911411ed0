//! Element-by-element arithmetic: one IEEE operation per element, so any split of the work and
//! any vector width gives the same bits. A NaN comes out as the one canonical NaN, because which
//! NaN an operation makes differs between CPUs (docs/perf/nan.md).
//!
//! Integers are checked: each loop says whether any element overflowed, and the caller looks for
//! it. For floats that answer is known when compiling, and costs nothing.

use super::chain::Operation;
use super::width::by_width;
use super::{Element, Real, Simd};

/// An operation on two numbers, or on one that leaves the other alone.
pub(crate) trait Binary<T>: Copy + Send + Sync {
    /// Whether it divides, by `b` or, reversed, by `a`, and so fails for a zero of integers.
    const DIVIDES: bool = false;
    /// Whether `a` stands behind the sign, and `b` before it.
    const IS_REVERSED: bool = false;
    /// Whether it is worth an AVX-512 version, see [`Body`](super::Body).
    #[allow(dead_code, reason = "only x86-64 has AVX-512")]
    const WIDEST: bool = false;
    /// The result, and whether it overflowed.
    fn apply(self, a: T, b: T) -> (T, bool);
    /// The same as an operation on registers, if there is one.
    fn operation(self) -> Option<Operation> {
        None
    }
}

/// An operation of this file: what it is called, and what it does.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($a:pat, $b:pat) => $result:expr $(, as $operation:ident)?;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl<T: Element> Binary<T> for $name {
            #[inline(always)]
            fn apply(self, $a: T, $b: T) -> (T, bool) {
                $result
            }
            $(fn operation(self) -> Option<Operation> {
                Some(Operation::$operation)
            })?
        }
    )+};
}

operations! {
    /// `a`
    Identity(a, _) => (a, false);
    /// `a + b`
    Add(a, b) => a.plus(b), as Add;
    /// `a - b`
    Subtract(a, b) => a.minus(b), as Subtract;
    /// `a * b`
    Multiply(a, b) => a.times(b), as Multiply;
    /// The smaller; NaN if either is, and −0 is smaller than +0.
    Minimum(a, b) => (if a.is_nan() || a.precedes(b) { a } else { b }, false);
    /// The larger; NaN if either is, and +0 is larger than −0.
    Maximum(a, b) => (if a.is_nan() || b.precedes(a) { a } else { b }, false);
    /// `a`, or `b` if that is larger; a NaN of `a` stays.
    AtLeast(a, b) => (if a < b { b } else { a }, false);
    /// `a`, or `b` if that is smaller; a NaN of `a` stays.
    AtMost(a, b) => (if a > b { b } else { a }, false);
    /// `-a`
    Negate(a, _) => a.negative(), as Negate;
    /// `a` without its sign.
    Abs(a, _) => if a.has_sign() { a.negative() } else { (a, false) }, as Abs;
    /// `b`: what `a` is divided by, to say why a division failed.
    Divisor(_, b) => (b, false);
    /// `a * a`
    Square(a, _) => a.times(a), as Square;
    /// 1, −1 or 0; NaN of NaN.
    Sign(a, _) => (sign(a), false);
    /// The nearest whole number, of two the even one.
    Round(a, _) => (a.to_whole(), false);
    /// Whether `a > b`, as 1 or 0; so the others.
    Greater(a, b) => (truth(a > b), false);
    /// Whether `a >= b`
    GreaterEqual(a, b) => (truth(a >= b), false);
    /// Whether `a < b`
    Less(a, b) => (truth(a < b), false);
    /// Whether `a <= b`
    LessEqual(a, b) => (truth(a <= b), false);
    /// Whether `a == b`
    Equal(a, b) => (truth(a == b), false);
    /// Whether `a != b`
    NotEqual(a, b) => (truth(a != b), false);
    /// Whether `a` is a NaN.
    IsNan(a, _) => (truth(a.is_nan()), false);
    /// Whether `a` is neither infinite nor a NaN.
    IsFinite(a, _) => (truth(a.is_finite()), false);
}

/// A yes or no as a number; a result is stored as one of them, see [`super::convert`].
#[inline(always)]
fn truth<T: Element>(is_true: bool) -> T {
    if is_true { T::ONE } else { T::default() }
}

#[inline(always)]
fn sign<T: Element>(a: T) -> T {
    let magnitude = if a > T::default() { T::ONE } else { T::default() };
    let signed = if a < T::default() { T::ONE.negative().0 } else { magnitude };
    if a.is_nan() { a } else { signed }
}

/// `a / b`
#[derive(Clone, Copy)]
pub(crate) struct Divide;

impl<T: Element> Binary<T> for Divide {
    const DIVIDES: bool = true;

    #[inline(always)]
    fn apply(self, a: T, b: T) -> (T, bool) {
        a.over(b)
    }
    fn operation(self) -> Option<Operation> {
        Some(Operation::Divide)
    }
}

/// An operation with its operands the other way round.
#[derive(Clone, Copy)]
pub(crate) struct Reversed<O>(pub(crate) O);

impl<T, O: Binary<T>> Binary<T> for Reversed<O> {
    const DIVIDES: bool = O::DIVIDES;
    const IS_REVERSED: bool = true;

    #[inline(always)]
    fn apply(self, a: T, b: T) -> (T, bool) {
        self.0.apply(b, a)
    }
    fn operation(self) -> Option<Operation> {
        self.0.operation()?.reversed()
    }
}

/// The square root, rounded once.
#[derive(Clone, Copy)]
pub(crate) struct Sqrt;

impl<T: Real> Binary<T> for Sqrt {
    const WIDEST: bool = true;

    #[inline(always)]
    fn apply(self, a: T, _: T) -> (T, bool) {
        // The root of a float16 or float32 taken in float64 and rounded is the rounded root.
        (T::round(a.widen().sqrt()).canonical(), false)
    }
}

/// `e` to the power of `a`
#[derive(Clone, Copy)]
pub(crate) struct Exp;

impl<T: Real> Binary<T> for Exp {
    const WIDEST: bool = true;

    #[inline(always)]
    fn apply(self, a: T, _: T) -> (T, bool) {
        (a.exp(), false)
    }
}

/// `a` to the power of `b`
#[derive(Clone, Copy)]
pub(crate) struct Power;

impl<T: Element> Binary<T> for Power {
    const WIDEST: bool = T::IS_FLOAT;

    #[inline(always)]
    fn apply(self, a: T, b: T) -> (T, bool) {
        a.power(b)
    }
}

/// The natural logarithm.
#[derive(Clone, Copy)]
pub(crate) struct Log;

impl<T: Real> Binary<T> for Log {
    const WIDEST: bool = true;

    #[inline(always)]
    fn apply(self, a: T, _: T) -> (T, bool) {
        (a.log(), false)
    }
}

/// The nearest number of so many decimals, computed in float64 as NumPy does.
#[derive(Clone, Copy)]
pub(crate) struct RoundDecimals {
    /// Ten to the power of the decimals.
    pub(crate) scale: f64,
}

impl<T: Real> Binary<T> for RoundDecimals {
    #[inline(always)]
    fn apply(self, a: T, _: T) -> (T, bool) {
        let scaled = a.widen() * self.scale;
        let rounded = T::round(scaled.to_whole() / self.scale);
        // What is whole at that scale, or past float64 there, has no more decimals.
        (if scaled.abs() < 1.0 / f64::EPSILON { rounded } else { a }, false)
    }
}

/// `a` moved into the bounds; a NaN stays one.
#[derive(Clone, Copy)]
pub(crate) struct Clip<T> {
    pub(crate) lowest: T,
    pub(crate) highest: T,
}

impl<T: Element> Binary<T> for Clip<T> {
    #[inline(always)]
    fn apply(self, a: T, _: T) -> (T, bool) {
        // As NumPy does it: first up to the lowest, then down to the highest.
        let a = if a < self.lowest { self.lowest } else { a };
        (if a > self.highest { self.highest } else { a }, false)
    }
    fn operation(self) -> Option<Operation> {
        let (lowest, highest) = (self.lowest.widen(), self.highest.widen());
        Some(Operation::Clip { lowest, highest })
    }
}

/// `out[i] = x[i] op y[i]`; whether any overflowed.
#[inline(always)]
pub(crate) fn each<T: Element, O: Binary<T>>(op: O, x: &[T], y: &[T], out: &mut [T]) -> bool {
    let mut any = false;
    for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
        let (result, overflowed) = op.apply(*x, *y);
        *o = result.canonical_by_value();
        any |= overflowed;
    }
    any
}

/// `out[i] = x[i] op y`; whether any overflowed.
#[inline(always)]
pub(crate) fn each_scalar<T: Element, O: Binary<T>>(op: O, x: &[T], y: T, out: &mut [T]) -> bool {
    let mut any = false;
    for (o, x) in out.iter_mut().zip(x) {
        let (result, overflowed) = op.apply(*x, y);
        *o = result.canonical_by_value();
        any |= overflowed;
    }
    any
}

/// Elements that are computed before they are stored by streaming stores: few enough to stay in
/// registers or the newest lines of L1.
const HELD: usize = 64;

/// [`each`], with stores by streaming stores.
#[inline(always)]
pub(crate) fn each_streaming<T: Element, O: Binary<T>, S: Simd>(
    simd: S,
    op: O,
    x: &[T],
    y: &[T],
    out: &mut [T],
) -> bool {
    let head = until_aligned(out);
    let (out_head, out) = out.split_at_mut(head);
    let mut any = each(op, x, y, out_head);
    let (x, x_rest) = x[head..out.len() + head].as_chunks::<HELD>();
    let (y, y_rest) = y[head..out.len() + head].as_chunks::<HELD>();
    let (out, out_rest) = out.as_chunks_mut::<HELD>();
    for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
        let mut held = [T::default(); HELD];
        any |= each(op, x, y, &mut held);
        simd.put_streaming(out, &held);
    }
    any | each(op, x_rest, y_rest, out_rest)
}

/// [`each_scalar`], with stores by streaming stores.
#[inline(always)]
pub(crate) fn each_scalar_streaming<T: Element, O: Binary<T>, S: Simd>(
    simd: S,
    op: O,
    x: &[T],
    y: T,
    out: &mut [T],
) -> bool {
    let head = until_aligned(out);
    let (out_head, out) = out.split_at_mut(head);
    let mut any = each_scalar(op, x, y, out_head);
    let (x, x_rest) = x[head..out.len() + head].as_chunks::<HELD>();
    let (out, out_rest) = out.as_chunks_mut::<HELD>();
    for (out, x) in out.iter_mut().zip(x) {
        let mut held = [T::default(); HELD];
        any |= each_scalar(op, x, y, &mut held);
        simd.put_streaming(out, &held);
    }
    any | each_scalar(op, x_rest, y, out_rest)
}

/// Elements before the first that begins a cache line.
#[inline(always)]
fn until_aligned<T>(out: &[T]) -> usize {
    out.as_ptr().align_offset(64).min(out.len())
}

/// Writes each value `width` times: one value per row becomes one per element. Compiled once, not
/// into every operation.
#[inline(never)]
pub(crate) fn repeat_each<T: Element>(y: &[T], width: usize, out: &mut [T]) {
    by_width!(width, W => repeat_narrow::<T, W>(y, out),
        else out.chunks_exact_mut(width).zip(y).for_each(|(row, y)| row.fill(*y)));
}

#[inline(always)]
fn repeat_narrow<T: Element, const W: usize>(y: &[T], out: &mut [T]) {
    let (rows, _) = out.as_chunks_mut::<W>();
    for (row, y) in rows.iter_mut().zip(y) {
        *row = [*y; W];
    }
}
