//! A double of Accelerate's BLAS for tests off macOS: the documented signatures and meaning, and a
//! count of calls per thread.

#![allow(unsafe_code, clippy::too_many_arguments)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::blas::{AS_IS, ROW_MAJOR, TRANSPOSED};

thread_local! {
    static CALLS: RefCell<BTreeMap<&'static str, usize>> = const { RefCell::new(BTreeMap::new()) };
}

/// The calls made on this thread since the last time this was asked, by function.
pub(crate) fn take_calls() -> BTreeMap<&'static str, usize> {
    CALLS.with(RefCell::take)
}

macro_rules! products {
    ($($name:ident $t:ty;)*) => {$(
        /// # Safety
        /// As the framework's: the matrices lie behind their pointers, at their strides.
        pub(super) unsafe fn $name(
            order: i32, transpose_a: i32, transpose_b: i32, m: i32, n: i32, k: i32, alpha: $t,
            a: *const $t, lda: i32, b: *const $t, ldb: i32, beta: $t, c: *mut $t, ldc: i32,
        ) {
            CALLS.with(|calls| *calls.borrow_mut().entry(stringify!($name)).or_default() += 1);
            assert_eq!(order, ROW_MAJOR);
            // What the framework refuses: a stride shorter than a row.
            for (transpose, rows, columns, stride) in
                [(transpose_a, m, k, lda), (transpose_b, k, n, ldb), (AS_IS, m, n, ldc)]
            {
                assert!(transpose == AS_IS || transpose == TRANSPOSED);
                let width = if transpose == AS_IS { columns } else { rows };
                assert!(stride >= width.max(1), "{stride} {width}");
            }
            let at = |transpose: i32, stride: i32, row: i32, column: i32| {
                let (row, column) = (row as isize, column as isize);
                let stride = stride as isize;
                if transpose == AS_IS { row * stride + column } else { column * stride + row }
            };
            for row in 0..m {
                for column in 0..n {
                    let mut sum = 0.0;
                    for i in 0..k {
                        // SAFETY: the caller has both matrices behind their pointers.
                        sum += unsafe {
                            *a.offset(at(transpose_a, lda, row, i))
                                * *b.offset(at(transpose_b, ldb, i, column))
                        };
                    }
                    // SAFETY: the caller has the result behind its pointer.
                    let c = unsafe { &mut *c.offset(at(AS_IS, ldc, row, column)) };
                    // With a beta of zero, what is there is not read.
                    *c = alpha * sum + if beta == 0.0 { 0.0 } else { beta * *c };
                }
            }
        }
    )*};
}

products! { cblas_sgemm f32; cblas_dgemm f64; }
