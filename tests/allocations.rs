//! Memory that is refused at any point of a call is [`Error::OutOfMemory`], never an abort: every
//! function is called once for each of its allocations, with that one refused.
#![cfg(target_os = "linux")]

mod oracle;

use std::alloc::{GlobalAlloc, Layout as Size, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::forms::{Form, Layout, as_held, chunked, matrix};
use oracle::raw::Raw;
use oracle::{Draw, Nulls, Random, Table, quick};
use raptors_arrow::buffer::{pool_stats, release_unused};
use raptors_arrow::dispatch::{Level, Settings, with_settings};

/// Bytes from which on an allocation counts: all that grows with the rows does; what a tile or a block
/// of rows needs, however many there are, does not.
const COUNTED: usize = 192 << 10;

/// Allocations to go until one is refused; negative while none is to be.
static LEFT: AtomicIsize = AtomicIsize::new(-1);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, but for the one allocation that is to be refused.
struct Refusing;

impl Refusing {
    fn refuses(size: usize) -> bool {
        if size < COUNTED || LEFT.load(Ordering::Relaxed) < 0 {
            return false;
        }
        let is_refused = LEFT.fetch_sub(1, Ordering::Relaxed) == 0;
        REFUSED.fetch_add(is_refused.into(), Ordering::Relaxed);
        is_refused
    }
}

#[allow(unsafe_code)]
// SAFETY: gives what the system gives, or null, which an allocator may.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, size: Size) -> *mut u8 {
        if Self::refuses(size.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(size) }
    }

    unsafe fn alloc_zeroed(&self, size: Size) -> *mut u8 {
        if Self::refuses(size.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(size) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, size: Size, new: usize) -> *mut u8 {
        if new > size.size() && Self::refuses(new) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, size, new) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, size: Size) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Runs `f` with its `k`-th allocation refused, on whichever thread; `None` if it has fewer.
fn with_refused<R>(k: usize, f: impl FnOnce() -> R) -> Option<R> {
    let before = REFUSED.load(Ordering::Relaxed);
    LEFT.store(k as isize, Ordering::Relaxed);
    let result = f();
    LEFT.store(-1, Ordering::Relaxed);
    (REFUSED.load(Ordering::Relaxed) > before).then_some(result)
}

/// What ran when the process was ended by a refusal.
static RUNS: Mutex<String> = Mutex::new(String::new());

#[allow(unsafe_code)]
fn report_aborts() {
    extern "C" fn aborted(_: libc::c_int) {
        if let Ok(what) = RUNS.try_lock() {
            // SAFETY: writes bytes that are alive.
            unsafe { libc::write(2, what.as_ptr().cast(), what.len()) };
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(87) }
    }
    let handler = aborted as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler calls only what a handler may.
    unsafe { libc::signal(libc::SIGABRT, handler) };
}

#[test]
fn any_allocation_that_is_refused_ends_the_call_with_an_error() {
    report_aborts();
    let mut random = Random::new(10);
    let (mut made, mut refused) = (0, 0);
    let (rows, width) = (200_000, 2);
    let elements = [DataType::Float32, DataType::Float64, DataType::Int16, DataType::UInt64];
    let levels: Vec<Level> = Level::available().collect();
    for (j, element) in elements.iter().enumerate() {
        for (l, layout) in Layout::EACH.into_iter().enumerate() {
            if (j + l) % if quick() { 12 } else { 4 } != 0 {
                continue;
            }
            let nulls = [Nulls::None, Nulls::Both, Nulls::Rows, Nulls::Elements][l % 4];
            let x = First { element, rows, width, nulls, draw: Draw::Tame };
            let table = Table::random(&mut random, element, (rows, width), nulls, x.draw);
            let table = as_held(&table, layout);
            let form = Form::plain(layout);
            let x_matrix = if l % 3 == 0 && layout != Layout::Flat {
                chunked(&table, form, &[rows / 3, rows / 2])
            } else {
                matrix(&table, form)
            };
            let settings = Settings {
                threads: Some(1 + l % 2),
                exact_threads: true,
                simd: Some(levels[l % levels.len()]),
                ..Settings::default()
            };
            for call in calls(&mut random, x, Sample::Few) {
                with_settings(settings.clone(), || {
                    let what = format!("{call} on {rows} x {width} {element} {form:?} {nulls:?}");
                    let run = || call.run(&x_matrix).map(|value| Raw::of(&value));
                    let expected = run();
                    for k in 0.. {
                        release_unused();
                        *RUNS.lock().unwrap() = format!("allocation {k} of {what}\n");
                        let used = pool_stats().unwrap().used_bytes;
                        let Some(got) = with_refused(k, || call.run(&x_matrix)) else { break };
                        match got.map_err(|error| error.kind().to_string()) {
                            Err(error) if error.contains("no memory") => refused += 1,
                            // A retry after the pool was released, or a smaller workspace.
                            got => {
                                let got = got.map(|value| Raw::of(&value)).ok();
                                assert!(got.as_ref() == expected.as_ref().ok(), "{what}");
                            }
                        }
                        assert_eq!(pool_stats().unwrap().used_bytes, used, "{what}");
                    }
                    assert!(run().ok() == expected.ok(), "{what}: after a refusal");
                    made += 1;
                });
            }
        }
    }
    assert!(made > 100 && refused > 100, "{made} calls, {refused} refusals");
}
