//! Memory flush against pages that nobody may touch: inputs that are placed there, and an
//! allocator that puts everything else there too.

#![allow(unsafe_code, unreachable_pub)]

pub mod allocator;

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use raptors_arrow::Matrix;
use raptors_arrow::compute::Value;

pub const PAGE: usize = 4096;

/// Which end of a buffer meets the protected page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Front,
    Back,
}

/// What lies in the rest of a page: a NaN as float32 and float64, and no zero as an integer.
pub const POISON: u8 = 0xff;

/// Pages with a protected one on each side.
struct Mapping {
    base: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: the pages are read-only once a mapping is made, and unmapped by its only owner.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl std::panic::RefUnwindSafe for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `place` made exactly this range, and the last buffer over it is gone.
        assert_eq!(unsafe { libc::munmap(self.base, self.bytes) }, 0);
    }
}

/// A copy of some bytes that cannot be written, flush against a page that cannot be read.
pub fn place(bytes: &[u8], end: End) -> Buffer {
    let inner = bytes.len().next_multiple_of(PAGE).max(PAGE);
    let whole = inner + 2 * PAGE;
    // SAFETY: a new mapping, of which only the inner pages are written, within their bounds.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        let base = libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED);
        let pages = base.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(pages.cast(), inner, libc::PROT_READ | libc::PROT_WRITE), 0);
        pages.write_bytes(POISON, inner);
        let at = pages.add(if end == End::Front { 0 } else { inner - bytes.len() });
        at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        assert_eq!(libc::mprotect(pages.cast(), inner, libc::PROT_READ), 0);
        let owner = Arc::new(Mapping { base, bytes: whole });
        Buffer::from_custom_allocation(NonNull::new(at).unwrap(), bytes.len(), owner)
    }
}

/// The same array over guarded memory: no buffer is a byte longer than the format asks.
fn guarded_data(data: &ArrayData, end: End) -> ArrayData {
    let until = data.offset() + data.len();
    let bytes = match data.data_type() {
        DataType::List(_) => (until + 1) * 4,
        DataType::LargeList(_) => (until + 1) * 8,
        other => other.primitive_width().map_or(0, |size| until * size),
    };
    let buffers =
        data.buffers().iter().map(|buffer| place(&buffer[..bytes.min(buffer.len())], end));
    let nulls = data.nulls().map(|nulls| {
        let (offset, len) = (nulls.offset(), nulls.len());
        let bits = place(&nulls.buffer()[..(offset + len).div_ceil(8)], end);
        NullBuffer::new(BooleanBuffer::new(bits, offset, len))
    });
    let children = data.child_data().iter().map(|child| guarded_data(child, end));
    ArrayData::builder(data.data_type().clone())
        .len(data.len())
        .offset(data.offset())
        .nulls(nulls)
        .buffers(buffers.collect())
        .child_data(children.collect())
        .build()
        .unwrap()
}

pub fn guarded_array(array: &ArrayRef, end: End) -> ArrayRef {
    make_array(guarded_data(&array.to_data(), end))
}

pub fn guarded_matrix(matrix: &Matrix, end: End) -> Matrix {
    let chunk = |array: &ArrayRef| {
        let array = guarded_array(array, end);
        let is_flat = array.data_type().is_numeric();
        if is_flat { Matrix::reshape(&array, matrix.width()) } else { Matrix::try_from(&array) }
    };
    let chunks = matrix.to_arrays().unwrap().iter().map(|array| chunk(array).unwrap()).collect();
    Matrix::from_chunks(chunks).unwrap()
}

pub fn guarded_value(value: &Value, end: End) -> Value {
    match value {
        Value::Vector(array) => Value::Vector(guarded_array(array, end)),
        Value::Scalar(array) => Value::Scalar(guarded_array(array, end)),
        Value::Matrix(matrix) => Value::Matrix(guarded_matrix(matrix, end)),
        other => other.clone(),
    }
}

thread_local! {
    /// What runs now, for the one who reads that it crashed.
    static RUNS: Cell<&'static str> = const { Cell::new("") };
}

/// How the process ends when it touches a protected page.
pub const TOUCHED: i32 = 86;

/// Names what runs, so that a touch of a protected page can say where it was.
pub fn runs(what: &str) {
    thread_local! {
        static HELD: Cell<[u8; 256]> = const { Cell::new([0; 256]) };
    }
    let len = what.len().min(256);
    HELD.with(|held| {
        let at = held.as_ptr().cast::<u8>();
        // SAFETY: `at` has room for `len` bytes, lives as long as its thread, and `what` is UTF-8
        // that is cut, at worst, in a character that is only ever printed as bytes.
        RUNS.set(unsafe {
            at.copy_from_nonoverlapping(what.as_ptr(), len);
            std::str::from_utf8_unchecked(std::slice::from_raw_parts(at, len))
        });
    });
}

/// Ends the process with a word on what ran: by calls that a signal handler may make.
fn report(what: &str) -> ! {
    for text in [what, ": ", RUNS.get(), "\n"] {
        // SAFETY: writes bytes that are alive.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(TOUCHED) }
}

/// Ends the process with a word on what ran, when it touches a protected page.
pub fn report_touches() {
    extern "C" fn touched(_: libc::c_int) {
        report("touched a protected page");
    }
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        let handler = touched as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler calls only what a handler may.
        unsafe { libc::signal(signal, handler) };
    }
}
