//! Element-by-element arithmetic: one IEEE operation per element, so any split of the work and
//! any vector width gives the same bits. A NaN comes out as the one canonical NaN, because which
//! NaN an operation makes differs between CPUs (docs/perf/nan.md).

use super::Element;

/// An operation on two numbers.
pub(crate) trait Binary: Copy + Send + Sync {
    fn apply<T: Element>(self, a: T, b: T) -> T;
}

/// `a + b`
#[derive(Clone, Copy)]
pub(crate) struct Add;
/// `a - b`
#[derive(Clone, Copy)]
pub(crate) struct Subtract;
/// `a * b`
#[derive(Clone, Copy)]
pub(crate) struct Multiply;
/// `a / b`
#[derive(Clone, Copy)]
pub(crate) struct Divide;

impl Binary for Add {
    #[inline(always)]
    fn apply<T: Element>(self, a: T, b: T) -> T {
        a + b
    }
}
impl Binary for Subtract {
    #[inline(always)]
    fn apply<T: Element>(self, a: T, b: T) -> T {
        a - b
    }
}
impl Binary for Multiply {
    #[inline(always)]
    fn apply<T: Element>(self, a: T, b: T) -> T {
        a * b
    }
}
impl Binary for Divide {
    #[inline(always)]
    fn apply<T: Element>(self, a: T, b: T) -> T {
        a / b
    }
}

/// `out[i] = x[i] op y[i]`
#[inline(always)]
pub(crate) fn each<T: Element, O: Binary>(op: O, x: &[T], y: &[T], out: &mut [T]) {
    for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
        *o = op.apply(*x, *y).settled();
    }
}

/// `out[i] = x[i] op y`
#[inline(always)]
pub(crate) fn each_scalar<T: Element, O: Binary>(op: O, x: &[T], y: T, out: &mut [T]) {
    for (o, x) in out.iter_mut().zip(x) {
        *o = op.apply(*x, y).settled();
    }
}

/// Writes each value `width` times: one value per row becomes one per element.
#[inline(always)]
pub(crate) fn repeat_each<T: Element>(y: &[T], width: usize, out: &mut [T]) {
    match width {
        2 => repeat_narrow::<T, 2>(y, out),
        3 => repeat_narrow::<T, 3>(y, out),
        4 => repeat_narrow::<T, 4>(y, out),
        5 => repeat_narrow::<T, 5>(y, out),
        6 => repeat_narrow::<T, 6>(y, out),
        7 => repeat_narrow::<T, 7>(y, out),
        8 => repeat_narrow::<T, 8>(y, out),
        9 => repeat_narrow::<T, 9>(y, out),
        10 => repeat_narrow::<T, 10>(y, out),
        11 => repeat_narrow::<T, 11>(y, out),
        12 => repeat_narrow::<T, 12>(y, out),
        13 => repeat_narrow::<T, 13>(y, out),
        14 => repeat_narrow::<T, 14>(y, out),
        15 => repeat_narrow::<T, 15>(y, out),
        16 => repeat_narrow::<T, 16>(y, out),
        _ => out.chunks_exact_mut(width).zip(y).for_each(|(row, y)| row.fill(*y)),
    }
}

#[inline(always)]
fn repeat_narrow<T: Element, const W: usize>(y: &[T], out: &mut [T]) {
    let (rows, _) = out.as_chunks_mut::<W>();
    for (row, y) in rows.iter_mut().zip(y) {
        *row = [*y; W];
    }
}
