//! A double of vDSP for tests off macOS: the documented signatures and meaning, and a count of
//! calls per thread.

#![allow(unsafe_code, non_snake_case)]

use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local! {
    static CALLS: RefCell<BTreeMap<&'static str, usize>> = const { RefCell::new(BTreeMap::new()) };
}

/// The calls made on this thread since the last time this was asked, by function.
pub(crate) fn take_calls() -> BTreeMap<&'static str, usize> {
    CALLS.with(RefCell::take)
}

fn count(name: &'static str) {
    CALLS.with(|calls| *calls.borrow_mut().entry(name).or_default() += 1);
}

/// C = f(A, B), in the order of the arguments.
macro_rules! vectors {
    ($($name:ident $t:ty: $f:expr;)*) => {$(
        /// # Safety
        /// As the framework's: `n` elements behind each pointer, at its stride.
        pub(super) unsafe fn $name(
            a: *const $t, ia: isize, b: *const $t, ib: isize, c: *mut $t, ic: isize, n: usize,
        ) {
            count(stringify!($name));
            let f: fn($t, $t) -> $t = $f;
            for i in 0..n as isize {
                // SAFETY: the caller has `n` elements behind each pointer.
                unsafe { *c.offset(i * ic) = f(*a.offset(i * ia), *b.offset(i * ib)) };
            }
        }
    )*};
}

macro_rules! scalars {
    ($($name:ident $t:ty: $f:expr;)*) => {$(
        /// # Safety
        /// As the framework's: `n` elements behind `a` and `c`, one behind `b`.
        pub(super) unsafe fn $name(
            a: *const $t, ia: isize, b: *const $t, c: *mut $t, ic: isize, n: usize,
        ) {
            count(stringify!($name));
            let f: fn($t, $t) -> $t = $f;
            for i in 0..n as isize {
                // SAFETY: the caller has `n` elements behind `a` and `c`, one behind `b`.
                unsafe { *c.offset(i * ic) = f(*a.offset(i * ia), *b) };
            }
        }
    )*};
}

macro_rules! reductions {
    ($($name:ident $t:ty: $finish:expr;)*) => {$(
        /// # Safety
        /// As the framework's: `n` elements behind `a`, one behind `c`.
        pub(super) unsafe fn $name(a: *const $t, ia: isize, c: *mut $t, n: usize) {
            count(stringify!($name));
            let finish: fn($t, usize) -> $t = $finish;
            // SAFETY: the caller has `n` elements behind `a`, one behind `c`.
            unsafe { *c = finish((0..n as isize).map(|i| *a.offset(i * ia)).sum(), n) };
        }
    )*};
}

macro_rules! dots {
    ($($name:ident $t:ty;)*) => {$(
        /// # Safety
        /// As the framework's: `n` elements behind `a` and `b`, one behind `c`.
        pub(super) unsafe fn $name(
            a: *const $t, ia: isize, b: *const $t, ib: isize, c: *mut $t, n: usize,
        ) {
            count(stringify!($name));
            // SAFETY: the caller has `n` elements behind `a` and `b`, one behind `c`.
            unsafe {
                *c = (0..n as isize).map(|i| *a.offset(i * ia) * *b.offset(i * ib)).sum();
            }
        }
    )*};
}

vectors! {
    vDSP_vadd f32: |a, b| a + b; vDSP_vaddD f64: |a, b| a + b;
    vDSP_vmul f32: |a, b| a * b; vDSP_vmulD f64: |a, b| a * b;
    vDSP_vsub f32: |b, a| a - b; vDSP_vsubD f64: |b, a| a - b;
    vDSP_vdiv f32: |b, a| a / b; vDSP_vdivD f64: |b, a| a / b;
}
scalars! {
    vDSP_vsadd f32: |a, b| a + b; vDSP_vsaddD f64: |a, b| a + b;
    vDSP_vsmul f32: |a, b| a * b; vDSP_vsmulD f64: |a, b| a * b;
    vDSP_vsdiv f32: |a, b| a / b; vDSP_vsdivD f64: |a, b| a / b;
}
reductions! {
    vDSP_sve f32: |sum, _| sum; vDSP_sveD f64: |sum, _| sum;
}
dots! { vDSP_dotpr f32; vDSP_dotprD f64; }
