//! Products of matrices. The only file that names the `gemm` crates: those of two types, because
//! the whole of `gemm` has complex numbers too, and takes a minute more to build.
//!
//! A product runs on the thread that asks for it: the compute functions hand blocks of the result
//! to [`run`](super::run), and each block is one call here. On macOS Accelerate's BLAS takes the
//! place of the crate, as the plan's backend says. Either adds up in an order of its own, with
//! fused multiplications where the CPU has them: products are exempt from "the same bits
//! everywhere" (docs/guide/numbers.md).

#![allow(unsafe_code)]

use std::ops::Range;

use gemm_common::Parallelism;

use super::Backend;
use crate::kernel::Real;

/// A matrix that lies row by row in a slice, or such a matrix with rows and columns exchanged.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a, T> {
    x: &'a [T],
    rows: usize,
    columns: usize,
    stride: usize,
    turned: bool,
}

impl<'a, T> Panel<'a, T> {
    /// `rows × columns` elements; each row begins `stride` elements after the last.
    pub(crate) fn new(x: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(stride >= columns, "gemm: rows do not overlap");
        let needed = if columns == 0 { Some(0) } else { extent(rows, columns, stride) };
        assert!(needed.is_some_and(|needed| needed <= x.len()), "gemm: the slice holds all rows");
        Self { x, rows, columns, stride, turned: false }
    }

    /// The same elements with rows and columns exchanged.
    pub(crate) fn transposed(self) -> Self {
        Self { turned: !self.turned, ..self }
    }

    /// Some of the columns.
    pub(crate) fn columns(self, columns: Range<usize>) -> Self {
        if self.turned {
            let x = &self.x[columns.start * self.stride..];
            return Self::new(x, columns.len(), self.columns, self.stride).transposed();
        }
        Self::new(&self.x[columns.start..], self.rows, columns.len(), self.stride)
    }

    /// Rows and columns.
    pub(super) fn shape(&self) -> (usize, usize) {
        if self.turned { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }

    /// How far apart rows and columns lie.
    fn steps(&self) -> (isize, isize) {
        // A slice is at most isize::MAX bytes, and no step is taken past its end.
        let stride = self.stride as isize;
        if self.turned { (1, stride) } else { (stride, 1) }
    }

    #[cfg(any(target_os = "macos", test))]
    pub(super) fn parts(&self) -> (&'a [T], usize, bool) {
        (self.x, self.stride, self.turned)
    }
}

/// Elements from the first to the last of `rows`, if a number can say so.
fn extent(rows: usize, columns: usize, stride: usize) -> Option<usize> {
    match rows.checked_sub(1) {
        None => Some(0),
        Some(before) => before.checked_mul(stride)?.checked_add(columns),
    }
}

/// A product as the crates run it: `dst = beta * lhs * rhs`, or added to `alpha * dst`; each matrix
/// with the steps between its columns and its rows.
type Product<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// A type that a crate multiplies matrices in.
pub(crate) trait Native: Real {
    /// The product for this CPU.
    fn product() -> Product<Self>;
}

impl Native for f32 {
    fn product() -> Product<Self> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

impl Native for f64 {
    fn product() -> Product<Self> {
        gemm_f64::gemm::f64::get_gemm_fn()
    }
}

/// A type that matrices are multiplied in.
pub(crate) trait Gemm: Native {
    /// The unit roundoff: half the distance from 1 to the next number.
    const ROUNDOFF: f64;

    /// The product by a vendor library; `false` if there is none here, or it cannot say the shape.
    #[allow(unused_variables)]
    fn vendor(a: Panel<'_, Self>, b: Panel<'_, Self>, adds: bool, out: &mut [Self]) -> bool {
        false
    }
}

#[cfg(not(any(target_os = "macos", test)))]
impl Gemm for f32 {
    const ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
}

#[cfg(not(any(target_os = "macos", test)))]
impl Gemm for f64 {
    const ROUNDOFF: f64 = f64::EPSILON / 2.0;
}

/// Writes the product `a b` to `out`, row by row, or adds it to what `out` holds.
pub(crate) fn multiply<T: Gemm>(
    backend: Backend,
    a: Panel<'_, T>,
    b: Panel<'_, T>,
    adds: bool,
    out: &mut [T],
) {
    let ((rows, inner), (b_rows, columns)) = (a.shape(), b.shape());
    assert_eq!(inner, b_rows, "gemm: the shapes fit");
    assert_eq!(rows.checked_mul(columns), Some(out.len()), "gemm: the result fits");
    if out.is_empty() {
        return;
    }
    if inner == 0 {
        if !adds {
            out.fill(T::default());
        }
        return;
    }
    if backend == Backend::Vdsp && T::vendor(a, b, adds, out) {
        return;
    }
    let ((a_row, a_column), (b_row, b_column)) = (a.steps(), b.steps());
    let one = T::round(1.0);
    // The crates want results column by column, so the turned result is made from both turned:
    // rows of `out` are columns of it.
    // SAFETY: the panels were checked by `Panel::new` to lie inside their slices at these steps,
    // which are not negative; `out` has `rows * columns` elements (asserted) and overlaps neither,
    // being unique.
    unsafe {
        T::product()(
            columns,
            rows,
            inner,
            out.as_mut_ptr(),
            columns as isize,
            1,
            adds,
            b.x.as_ptr(),
            b_row,
            b_column,
            a.x.as_ptr(),
            a_row,
            a_column,
            one,
            one,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Level;

    /// Every layout and shape, by the crate and by the vendor's double, against a plain loop.
    /// The numbers are small whole ones, so that every order of additions is exact.
    #[test]
    fn products_agree_with_a_plain_loop_in_every_layout() {
        let value = |i: usize| (i * 7 % 11) as f64 - 5.0;
        for backend in [Backend::Native(Level::Portable), Backend::Vdsp] {
            for (rows, inner, columns) in
                [(0, 3, 2), (3, 0, 2), (1, 1, 1), (5, 7, 3), (33, 20, 17), (1, 40, 9), (64, 3, 1)]
            {
                for (turn_a, turn_b, gap, adds) in [
                    (false, false, 0, false),
                    (true, false, 2, true),
                    (false, true, 1, false),
                    (true, true, 0, true),
                ] {
                    let held = |rows: usize, columns: usize, turned: bool| {
                        let (r, c) = if turned { (columns, rows) } else { (rows, columns) };
                        let x: Vec<f64> = (0..r * (c + gap)).map(value).collect();
                        (x, r, c)
                    };
                    let (ax, ar, ac) = held(rows, inner, turn_a);
                    let (bx, br, bc) = held(inner, columns, turn_b);
                    let mut a = Panel::new(&ax, ar, ac, ac + gap);
                    let mut b = Panel::new(&bx, br, bc, bc + gap);
                    if turn_a {
                        a = a.transposed();
                    }
                    if turn_b {
                        b = b.transposed();
                    }
                    let at = |x: &[f64], stride: usize, turned: bool, r: usize, c: usize| {
                        if turned { x[c * stride + r] } else { x[r * stride + c] }
                    };
                    let mut out: Vec<f64> = vec![2.0; rows * columns];
                    let expected: Vec<f64> = (0..rows * columns)
                        .map(|i| {
                            let (r, c) = (i / columns, i % columns);
                            let product = |k: usize| {
                                at(&ax, ac + gap, turn_a, r, k) * at(&bx, bc + gap, turn_b, k, c)
                            };
                            (0..inner).map(product).sum::<f64>() + if adds { 2.0 } else { 0.0 }
                        })
                        .collect();
                    multiply(backend, a, b, adds, &mut out);
                    assert_eq!(
                        out, expected,
                        "{backend} {rows} {inner} {columns} {turn_a} {turn_b}"
                    );
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "the slice holds all rows")]
    fn a_panel_that_its_slice_cannot_hold_is_refused() {
        let _ = Panel::new(&[0.0f32; 5], 2, 3, 3);
    }
}
