//! What a vendor library may do in place of our kernels.
//!
//! Every method says whether it ran: `false` and `None` mean that there is no such library here,
//! or that it has no such function, and our kernel runs. vDSP implements it on macOS.

use crate::kernel::Element;

/// An operation that vendors know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VendorOp {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// The vendor functions of an element type.
#[allow(unused_variables)]
pub(crate) trait Vendor: Element {
    /// `out = x op y`, element by element.
    fn vectors(op: VendorOp, x: &[Self], y: &[Self], out: &mut [Self]) -> bool {
        false
    }
    /// `out = x op y` with one `y`.
    fn scalar(op: VendorOp, x: &[Self], y: Self, out: &mut [Self]) -> bool {
        false
    }
    /// The sum, in an order of the vendor's own.
    fn sum(x: &[Self]) -> Option<Self> {
        None
    }
}

macro_rules! none {
    ($($t:ty),+) => { $(impl Vendor for $t {})+ };
}

none!(i8, i16, i32, i64, u8, u16, u32, u64);

#[cfg(not(any(target_os = "macos", test)))]
none!(f32, f64);
