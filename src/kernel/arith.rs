//! Element-by-element arithmetic: one IEEE operation per element, so any split of the work and
//! any vector width gives the same bits. A NaN comes out as the one canonical NaN, because which
//! NaN an operation makes differs between CPUs (docs/perf/nan.md has the cost: none outside L1).

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

/// `out[r][c] = x[r][c] op y[r]` for whole rows of `width`.
#[inline(always)]
pub(crate) fn each_row<T: Element, O: Binary>(
    op: O,
    x: &[T],
    y: &[T],
    width: usize,
    out: &mut [T],
) {
    match width {
        0 => {}
        1 => each(op, x, y, out),
        2 => each_row_narrow::<T, O, 2>(op, x, y, out),
        3 => each_row_narrow::<T, O, 3>(op, x, y, out),
        4 => each_row_narrow::<T, O, 4>(op, x, y, out),
        5 => each_row_narrow::<T, O, 5>(op, x, y, out),
        6 => each_row_narrow::<T, O, 6>(op, x, y, out),
        7 => each_row_narrow::<T, O, 7>(op, x, y, out),
        8 => each_row_narrow::<T, O, 8>(op, x, y, out),
        9 => each_row_narrow::<T, O, 9>(op, x, y, out),
        10 => each_row_narrow::<T, O, 10>(op, x, y, out),
        11 => each_row_narrow::<T, O, 11>(op, x, y, out),
        12 => each_row_narrow::<T, O, 12>(op, x, y, out),
        13 => each_row_narrow::<T, O, 13>(op, x, y, out),
        14 => each_row_narrow::<T, O, 14>(op, x, y, out),
        15 => each_row_narrow::<T, O, 15>(op, x, y, out),
        16 => each_row_narrow::<T, O, 16>(op, x, y, out),
        _ => {
            let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
            for ((x, out), y) in rows.zip(y) {
                each_scalar(op, x, *y, out);
            }
        }
    }
}

#[inline(always)]
fn each_row_narrow<T: Element, O: Binary, const W: usize>(op: O, x: &[T], y: &[T], out: &mut [T]) {
    let (x, _) = x.as_chunks::<W>();
    let (out, _) = out.as_chunks_mut::<W>();
    for ((x, out), y) in x.iter().zip(out).zip(y) {
        for c in 0..W {
            out[c] = op.apply(x[c], *y).settled();
        }
    }
}
