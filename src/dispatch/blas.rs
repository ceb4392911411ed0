//! Accelerate's BLAS: the product of two matrices, as `cblas.h` declares it.
//!
//! Off macOS this file is compiled for tests, against a double with the documented signatures
//! that counts its calls, so that selection and arguments are tested everywhere.

#![allow(unsafe_code)]

#[cfg(target_os = "macos")]
use accelerate_src as _;

use super::gemm::{Gemm, Panel};

/// `CblasRowMajor`, `CblasNoTrans` and `CblasTrans` of `cblas.h`.
pub(super) const ROW_MAJOR: i32 = 101;
pub(super) const AS_IS: i32 = 111;
pub(super) const TRANSPOSED: i32 = 112;

macro_rules! by_blas {
    ($t:ty, $gemm:ident) => {
        impl Gemm for $t {
            const ROUNDOFF: f64 = <$t>::EPSILON as f64 / 2.0;

            fn vendor(
                a: Panel<'_, Self>,
                b: Panel<'_, Self>,
                adds: bool,
                out: &mut [Self],
            ) -> bool {
                let ((rows, inner), (_, columns)) = (a.shape(), b.shape());
                let ((ax, a_stride, a_turned), (bx, b_stride, b_turned)) = (a.parts(), b.parts());
                // Sizes are 32-bit integers there.
                let sizes = [rows, columns, inner, a_stride, b_stride].map(i32::try_from);
                let [Ok(m), Ok(n), Ok(k), Ok(lda), Ok(ldb)] = sizes else { return false };
                let order = |turned| if turned { TRANSPOSED } else { AS_IS };
                let (order_a, order_b) = (order(a_turned), order(b_turned));
                let beta = if adds { 1.0 } else { 0.0 };
                // SAFETY: `Panel::new` checked that each slice holds its rows at its stride, which
                // is at least the width of a row and, the panels not being empty (`multiply`
                // returns before), at least 1; `out` has m * n elements, asserted by `multiply`,
                // at a stride of n.
                unsafe {
                    c::$gemm(
                        ROW_MAJOR,
                        order_a,
                        order_b,
                        m,
                        n,
                        k,
                        1.0,
                        ax.as_ptr(),
                        lda,
                        bx.as_ptr(),
                        ldb,
                        beta,
                        out.as_mut_ptr(),
                        n,
                    );
                }
                true
            }
        }
    };
}

by_blas!(f32, cblas_sgemm);
by_blas!(f64, cblas_dgemm);

/// The functions of the framework, as its headers declare them.
#[cfg(target_os = "macos")]
mod c {
    unsafe extern "C" {
        pub(super) fn cblas_sgemm(
            order: i32,
            transpose_a: i32,
            transpose_b: i32,
            m: i32,
            n: i32,
            k: i32,
            alpha: f32,
            a: *const f32,
            lda: i32,
            b: *const f32,
            ldb: i32,
            beta: f32,
            c: *mut f32,
            ldc: i32,
        );
        pub(super) fn cblas_dgemm(
            order: i32,
            transpose_a: i32,
            transpose_b: i32,
            m: i32,
            n: i32,
            k: i32,
            alpha: f64,
            a: *const f64,
            lda: i32,
            b: *const f64,
            ldb: i32,
            beta: f64,
            c: *mut f64,
            ldc: i32,
        );
    }
}

#[cfg(not(target_os = "macos"))]
use super::blas_double as c;

#[cfg(all(test, not(target_os = "macos")))]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, cast::AsArray};

    use crate::Matrix;
    use crate::compute::{Metric, covariance, matmul, pairwise};
    use crate::dispatch::blas_double::take_calls;
    use crate::dispatch::settings::BackendChoice;
    use crate::dispatch::{Settings, with_settings};

    fn with<R>(backend: BackendChoice, f: impl FnOnce() -> R) -> (R, Vec<&'static str>) {
        let settings = Settings { backend: Some(backend), threads: Some(1), ..Settings::default() };
        take_calls();
        let result = with_settings(settings, f);
        (result, take_calls().into_keys().collect())
    }

    fn values(x: &Matrix) -> Vec<f64> {
        let array = x.to_arrays().unwrap().remove(0);
        let values = array.as_fixed_size_list().values().clone();
        match values.as_any().downcast_ref::<Float32Array>() {
            Some(single) => single.values().iter().map(|x| f64::from(*x)).collect(),
            None => values.as_any().downcast_ref::<Float64Array>().unwrap().values().to_vec(),
        }
    }

    /// Whole numbers, so that both orders of additions are exact.
    #[test]
    fn products_go_to_blas_unless_native_code_is_asked_for() {
        let whole = |i: usize| (i % 13) as f32 - 6.0;
        let single: ArrayRef = Arc::new(Float32Array::from_iter_values((0..120).map(whole)));
        let double: ArrayRef =
            Arc::new(Float64Array::from_iter_values((0..120).map(|i| f64::from(whole(i)))));
        let (x, y) = (Matrix::reshape(&single, 6).unwrap(), Matrix::reshape(&single, 20).unwrap());
        let d = Matrix::reshape(&double, 6).unwrap();
        let calls: [(&str, &dyn Fn() -> Matrix); 3] = [
            ("cblas_sgemm", &|| matmul(&x, &y).unwrap()),
            ("cblas_dgemm", &|| pairwise(&d, None, Metric::Dot).unwrap()),
            ("cblas_dgemm", &|| covariance(&x, 1).unwrap()),
        ];
        for (name, call) in calls {
            let (native, none) = with(BackendChoice::Native, call);
            let (vendor, called) = with(BackendChoice::Vdsp, call);
            assert!(none.is_empty(), "{none:?}");
            assert_eq!(called, [name]);
            for (n, v) in values(&native).iter().zip(values(&vendor)) {
                assert!((n - v).abs() <= 1e-12 * n.abs(), "{name}: {n} {v}");
            }
        }
    }
}
