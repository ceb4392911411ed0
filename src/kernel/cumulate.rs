//! Running sums: one addition after the other.

use super::Element;

/// A type of which running sums are made.
pub(crate) trait Accumulate: Element {
    /// What sums are kept in.
    type Sum: Copy + Send + Sync;
    /// The sum of nothing: −0 for floats, which leaves the sign of zeros alone.
    const NOTHING: Self::Sum;
    /// A sum with one more element, and whether it overflowed.
    fn add(sum: Self::Sum, x: Self) -> (Self::Sum, bool);
    /// The sum in this type, rounded once.
    fn of(sum: Self::Sum) -> Self;
}

macro_rules! floats {
    ($($t:ty)+) => {$(
        impl Accumulate for $t {
            type Sum = f64;
            const NOTHING: f64 = -0.0;
            #[inline(always)]
            fn add(sum: f64, x: Self) -> (f64, bool) {
                (sum + f64::from(x), false)
            }
            #[inline(always)]
            fn of(sum: f64) -> Self {
                (sum as Self).canonical()
            }
        }
    )+};
}
floats!(f32 f64);

macro_rules! integers {
    ($($t:ty)+) => {$(
        impl Accumulate for $t {
            type Sum = $t;
            const NOTHING: $t = 0;
            #[inline(always)]
            fn add(sum: $t, x: $t) -> ($t, bool) {
                sum.overflowing_add(x)
            }
            #[inline(always)]
            fn of(sum: $t) -> Self {
                sum
            }
        }
    )+};
}
integers!(i64 u64);

/// The sums of elements one behind the other, after those before; whether one did not fit.
pub(crate) fn running<T: Accumulate>(x: &[T], sum: &mut T::Sum, out: &mut [T]) -> bool {
    let mut any = false;
    let mut now = *sum;
    for (out, x) in out.iter_mut().zip(x) {
        let (next, overflowed) = T::add(now, *x);
        (now, any) = (next, any | overflowed);
        *out = T::of(now);
    }
    *sum = now;
    any
}

/// The sum of each column with one more element; the first that did not fit.
pub(crate) fn running_columns<T: Accumulate>(
    x: &[T],
    sums: &mut [T::Sum],
    out: &mut [T],
) -> Option<usize> {
    let mut first = usize::MAX;
    for (i, ((out, x), sum)) in out.iter_mut().zip(x).zip(sums).enumerate() {
        let (next, overflowed) = T::add(*sum, *x);
        first = first.min(if overflowed { i } else { usize::MAX });
        *sum = next;
        *out = T::of(next);
    }
    (first < usize::MAX).then_some(first)
}
