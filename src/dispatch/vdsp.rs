//! Accelerate's vDSP as safe functions on slices.
//!
//! Elementwise functions are one IEEE operation per element and agree with our kernels to the
//! bit; they are the default on macOS. Reductions add in an order of Apple's own and run only
//! when asked for (`RAPTORS_BACKEND=vdsp-reductions`).
//!
//! Off macOS this file is compiled for tests, against a double with the documented signatures
//! that counts its calls, so that selection and argument order are tested everywhere. Note the
//! order of `vsub` and `vdiv`: they take the subtrahend, the divisor, first.

#![allow(unsafe_code)]

#[cfg(target_os = "macos")]
use accelerate_src as _;

use super::vendor::{Vendor, VendorOp};
use crate::kernel::Element;

/// The vDSP functions of one element type.
#[allow(dead_code, reason = "dotpr has no caller before the row-by-row functions")]
pub(crate) trait Vdsp: Element {
    /// `out = x + y`
    fn vadd(x: &[Self], y: &[Self], out: &mut [Self]);
    /// `out = x - y`
    fn vsub(x: &[Self], y: &[Self], out: &mut [Self]);
    /// `out = x * y`
    fn vmul(x: &[Self], y: &[Self], out: &mut [Self]);
    /// `out = x / y`
    fn vdiv(x: &[Self], y: &[Self], out: &mut [Self]);
    /// `out = x + y`
    fn vsadd(x: &[Self], y: Self, out: &mut [Self]);
    /// `out = x * y`
    fn vsmul(x: &[Self], y: Self, out: &mut [Self]);
    /// `out = x / y`
    fn vsdiv(x: &[Self], y: Self, out: &mut [Self]);
    /// The sum of `x`.
    fn sve(x: &[Self]) -> Self;
    /// The sum of the products of `x` and `y`.
    fn dotpr(x: &[Self], y: &[Self]) -> Self;
}

/// A function of `x`, `y` and `out`, written as the C functions are: pointers and strides.
macro_rules! vectors {
    ($c:path, $first:expr, $second:expr, $out:expr) => {{
        let (first, second, out) = ($first, $second, $out);
        assert!(first.len() == out.len() && second.len() == out.len(), "vdsp: one length");
        // SAFETY: all three are `out.len()` long (asserted), read and written with stride 1.
        unsafe { $c(first.as_ptr(), 1, second.as_ptr(), 1, out.as_mut_ptr(), 1, out.len()) }
    }};
}

macro_rules! with_scalar {
    ($c:path, $x:expr, $scalar:expr, $out:expr) => {{
        let (x, scalar, out) = ($x, $scalar, $out);
        assert!(x.len() == out.len(), "vdsp: one length");
        // SAFETY: both are `out.len()` long (asserted), with stride 1; `scalar` outlives the call.
        unsafe { $c(x.as_ptr(), 1, &raw const scalar, out.as_mut_ptr(), 1, out.len()) }
    }};
}

macro_rules! reduction {
    ($c:path, $t:ty, $x:expr) => {{
        let (x, mut out) = ($x, <$t>::default());
        // SAFETY: `x` is `x.len()` long, with stride 1; `out` holds one element.
        unsafe { $c(x.as_ptr(), 1, &raw mut out, x.len()) };
        out
    }};
}

macro_rules! vdsp {
    ($t:ty, $vadd:ident $vsub:ident $vmul:ident $vdiv:ident $vsadd:ident $vsmul:ident $vsdiv:ident
     $sve:ident $dotpr:ident) => {
        impl Vdsp for $t {
            fn vadd(x: &[Self], y: &[Self], out: &mut [Self]) {
                vectors!(c::$vadd, x, y, out)
            }
            fn vsub(x: &[Self], y: &[Self], out: &mut [Self]) {
                vectors!(c::$vsub, y, x, out)
            }
            fn vmul(x: &[Self], y: &[Self], out: &mut [Self]) {
                vectors!(c::$vmul, x, y, out)
            }
            fn vdiv(x: &[Self], y: &[Self], out: &mut [Self]) {
                vectors!(c::$vdiv, y, x, out)
            }
            fn vsadd(x: &[Self], y: Self, out: &mut [Self]) {
                with_scalar!(c::$vsadd, x, y, out)
            }
            fn vsmul(x: &[Self], y: Self, out: &mut [Self]) {
                with_scalar!(c::$vsmul, x, y, out)
            }
            fn vsdiv(x: &[Self], y: Self, out: &mut [Self]) {
                with_scalar!(c::$vsdiv, x, y, out)
            }
            fn sve(x: &[Self]) -> Self {
                reduction!(c::$sve, $t, x)
            }
            fn dotpr(x: &[Self], y: &[Self]) -> Self {
                assert_eq!(x.len(), y.len(), "vdsp: one length");
                let mut out = Self::default();
                // SAFETY: both are `x.len()` long (asserted), with stride 1; `out` holds one.
                unsafe { c::$dotpr(x.as_ptr(), 1, y.as_ptr(), 1, &raw mut out, x.len()) };
                out
            }
        }
    };
}

vdsp!(f32, vDSP_vadd vDSP_vsub vDSP_vmul vDSP_vdiv vDSP_vsadd vDSP_vsmul vDSP_vsdiv
      vDSP_sve vDSP_dotpr);
vdsp!(f64, vDSP_vaddD vDSP_vsubD vDSP_vmulD vDSP_vdivD vDSP_vsaddD vDSP_vsmulD vDSP_vsdivD
      vDSP_sveD vDSP_dotprD);

impl Vendor for f32 {
    fn vectors(op: VendorOp, x: &[Self], y: &[Self], out: &mut [Self]) -> bool {
        vectors(op, x, y, out)
    }
    fn scalar(op: VendorOp, x: &[Self], y: Self, out: &mut [Self]) -> bool {
        scalar(op, x, y, out)
    }
    fn sum(x: &[Self]) -> Option<Self> {
        Some(Self::sve(x))
    }
}

impl Vendor for f64 {
    fn vectors(op: VendorOp, x: &[Self], y: &[Self], out: &mut [Self]) -> bool {
        vectors(op, x, y, out)
    }
    fn scalar(op: VendorOp, x: &[Self], y: Self, out: &mut [Self]) -> bool {
        scalar(op, x, y, out)
    }
    fn sum(x: &[Self]) -> Option<Self> {
        Some(Self::sve(x))
    }
}

fn vectors<T: Vdsp>(op: VendorOp, x: &[T], y: &[T], out: &mut [T]) -> bool {
    match op {
        VendorOp::Add => T::vadd(x, y, out),
        VendorOp::Subtract => T::vsub(x, y, out),
        VendorOp::Multiply => T::vmul(x, y, out),
        VendorOp::Divide => T::vdiv(x, y, out),
    }
    true
}

fn scalar<T: Vdsp>(op: VendorOp, x: &[T], y: T, out: &mut [T]) -> bool {
    match op {
        VendorOp::Add => T::vsadd(x, y, out),
        // x - y is x + (-y), to the bit; vDSP has no vssub.
        VendorOp::Subtract => T::vsadd(x, T::NEUTRAL.minus(y).0, out),
        VendorOp::Multiply => T::vsmul(x, y, out),
        VendorOp::Divide => T::vsdiv(x, y, out),
    }
    true
}

/// The functions of the framework, as its headers declare them.
#[cfg(target_os = "macos")]
#[allow(non_snake_case, dead_code, reason = "the framework's names; dotpr has no caller yet")]
mod c {
    type Stride = isize;
    type Length = usize;

    unsafe extern "C" {
        pub(super) fn vDSP_vadd(
            a: *const f32,
            ia: Stride,
            b: *const f32,
            ib: Stride,
            c: *mut f32,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vsub(
            a: *const f32,
            ia: Stride,
            b: *const f32,
            ib: Stride,
            c: *mut f32,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vmul(
            a: *const f32,
            ia: Stride,
            b: *const f32,
            ib: Stride,
            c: *mut f32,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vdiv(
            a: *const f32,
            ia: Stride,
            b: *const f32,
            ib: Stride,
            c: *mut f32,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vsadd(
            a: *const f32,
            ia: Stride,
            b: *const f32,
            c: *mut f32,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vsmul(
            a: *const f32,
            ia: Stride,
            b: *const f32,
            c: *mut f32,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vsdiv(
            a: *const f32,
            ia: Stride,
            b: *const f32,
            c: *mut f32,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_sve(a: *const f32, ia: Stride, c: *mut f32, n: Length);
        pub(super) fn vDSP_dotpr(
            a: *const f32,
            ia: Stride,
            b: *const f32,
            ib: Stride,
            c: *mut f32,
            n: Length,
        );
        pub(super) fn vDSP_vaddD(
            a: *const f64,
            ia: Stride,
            b: *const f64,
            ib: Stride,
            c: *mut f64,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vsubD(
            a: *const f64,
            ia: Stride,
            b: *const f64,
            ib: Stride,
            c: *mut f64,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vmulD(
            a: *const f64,
            ia: Stride,
            b: *const f64,
            ib: Stride,
            c: *mut f64,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vdivD(
            a: *const f64,
            ia: Stride,
            b: *const f64,
            ib: Stride,
            c: *mut f64,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vsaddD(
            a: *const f64,
            ia: Stride,
            b: *const f64,
            c: *mut f64,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vsmulD(
            a: *const f64,
            ia: Stride,
            b: *const f64,
            c: *mut f64,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_vsdivD(
            a: *const f64,
            ia: Stride,
            b: *const f64,
            c: *mut f64,
            ic: Stride,
            n: Length,
        );
        pub(super) fn vDSP_sveD(a: *const f64, ia: Stride, c: *mut f64, n: Length);
        pub(super) fn vDSP_dotprD(
            a: *const f64,
            ia: Stride,
            b: *const f64,
            ib: Stride,
            c: *mut f64,
            n: Length,
        );
    }
}

#[cfg(not(target_os = "macos"))]
use super::vdsp_double as c;

#[cfg(all(test, not(target_os = "macos")))]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float32Array, Float64Array};

    use super::Vdsp;
    use crate::compute::{Operand, Per, add, divide, mean, multiply, scale, subtract, sum};
    use crate::dispatch::settings::BackendChoice;
    use crate::dispatch::vdsp_double::take_calls;
    use crate::dispatch::{Settings, with_settings};
    use crate::{Matrix, Result};

    fn singles(n: usize) -> ArrayRef {
        Arc::new(Float32Array::from((0..n).map(|i| 0.1 + i as f32).collect::<Vec<_>>()))
    }

    fn doubles(n: usize) -> ArrayRef {
        Arc::new(Float64Array::from((0..n).map(|i| 0.1 + i as f64).collect::<Vec<_>>()))
    }

    fn with<R>(
        backend: BackendChoice,
        f: impl FnOnce() -> R,
    ) -> (R, BTreeMap<&'static str, usize>) {
        let settings = Settings { backend: Some(backend), threads: Some(1), ..Settings::default() };
        take_calls();
        let result = with_settings(settings, f);
        (result, take_calls())
    }

    /// Runs natively and by vDSP: the bits agree, and just these functions were called.
    fn agree(called: &[&str], f: impl Fn() -> Result<Matrix>) {
        let arrays = |m: Result<Matrix>| m.unwrap().to_arrays().unwrap();
        let (native, no_calls) = with(BackendChoice::Native, &f);
        let (vendor, calls) = with(BackendChoice::Vdsp, &f);
        assert_eq!(arrays(native), arrays(vendor));
        assert!(no_calls.is_empty(), "{no_calls:?}");
        assert_eq!(calls.keys().copied().collect::<Vec<_>>(), called);
    }

    #[test]
    fn elementwise_work_goes_to_vdsp_and_agrees_to_the_bit() {
        let x = Matrix::reshape(&singles(10_000), 10).unwrap();
        let d = Matrix::reshape(&doubles(10_000), 10).unwrap();
        agree(&["vDSP_vsmul"], || scale(&x, 1.7));
        agree(&["vDSP_vsmulD"], || scale(&d, 1.7));
        agree(&["vDSP_vsadd"], || add(&x, 1.7));
        agree(&["vDSP_vsadd"], || subtract(&x, 1.7));
        agree(&["vDSP_vsaddD"], || subtract(&d, 0.0));
        agree(&["vDSP_vsdiv"], || divide(&x, 1.7));
        agree(&["vDSP_vsdivD"], || divide(&d, 1.7));
        agree(&["vDSP_vadd"], || add(&x, &x));
        let y = add(&x, &x).unwrap();
        agree(&["vDSP_vsub"], || subtract(&x, &y));
        agree(&["vDSP_vmulD"], || multiply(&d, &d));
        agree(&["vDSP_vadd"], || add(&x, Operand::row(&singles(10))?));
        agree(&["vDSP_vdivD"], || divide(&d, Operand::row(&doubles(10))?));
    }

    #[test]
    fn a_large_call_is_split_into_tiles() {
        let x = Matrix::reshape(&singles(100_000), 10).unwrap();
        let (_, calls) = with(BackendChoice::Vdsp, || scale(&x, 2.0));
        assert_eq!(calls["vDSP_vsmul"], 100_000usize.div_ceil(crate::matrix::TILE));
    }

    #[test]
    fn reductions_go_to_vdsp_only_when_asked_for() {
        let x = Matrix::reshape(&singles(1000), 10).unwrap();
        for choice in [BackendChoice::Native, BackendChoice::Vdsp] {
            let (_, calls) = with(choice, || sum(&x, Per::Matrix));
            assert!(calls.is_empty(), "{calls:?}");
        }
        let asked = BackendChoice::VdspReductions;
        let names = |calls: BTreeMap<&'static str, usize>| calls.into_iter().collect::<Vec<_>>();
        let (_, calls) = with(asked, || sum(&x, Per::Matrix));
        assert_eq!(names(calls), [("vDSP_sve", 1)]);
        let (sums, calls) = with(asked, || sum(&x, Per::Row).unwrap());
        assert_eq!(names(calls), [("vDSP_sve", 100)]);
        assert_eq!(sums.len(), 100);
        let (_, calls) = with(asked, || mean(&x, Per::Row));
        assert_eq!(names(calls), [("vDSP_sve", 100)]);
        // Columns and nulls stay with our kernels.
        let (_, calls) = with(asked, || sum(&x, Per::Column));
        assert!(calls.is_empty());
    }

    #[test]
    fn arguments_are_in_the_order_that_apple_documents() {
        let (x, y) = ([7.0f32, 9.0], [2.0f32, 3.0]);
        let mut out = [0.0; 2];
        f32::vsub(&x, &y, &mut out);
        assert_eq!(out, [5.0, 6.0]);
        f32::vdiv(&x, &y, &mut out);
        assert_eq!(out, [3.5, 3.0]);
        assert_eq!(f32::dotpr(&x, &y), 41.0);
        assert_eq!(f64::dotpr(&[2.0], &[4.0]), 8.0);
        assert_eq!(f32::sve(&x), 16.0);
    }
}
