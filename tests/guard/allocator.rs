//! An allocator that, while it is armed on a thread, gives every allocation pages of its own: its
//! end, but for the alignment, meets a page that cannot be touched, the rest of its pages is seen to
//! be unchanged when it is freed, and freed pages cannot be touched any more. What it gives is full
//! of garbage, unless zeros were asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::PAGE;

/// Addresses that are set aside for it: no memory until it is used.
const ARENA: usize = 1 << 38;

const GARBAGE: u8 = 0xa5;

/// Bytes up to which an allocation is filled with garbage: to touch more takes too long.
const FILLED: usize = 64 << 10;

static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static USED: AtomicUsize = AtomicUsize::new(PAGE);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static GIVEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
}

pub struct Guarding;

/// Runs `f` with every allocation of this thread guarded.
pub fn armed<R>(f: impl FnOnce() -> R) -> R {
    struct Disarm;
    impl Drop for Disarm {
        fn drop(&mut self) {
            ARMED.set(false);
        }
    }
    if START.load(Ordering::Acquire).is_null() {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at a place of the system's choice.
        let arena =
            unsafe { libc::mmap(std::ptr::null_mut(), ARENA, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(arena, libc::MAP_FAILED);
        START.store(arena.cast(), Ordering::Release);
    }
    // Addresses are used again once nothing lives there.
    if LIVE.load(Ordering::Acquire) == 0 {
        USED.store(PAGE, Ordering::Release);
    }
    ARMED.set(true);
    let _disarm = Disarm;
    f()
}

/// Allocations that were guarded so far.
pub fn given() -> usize {
    GIVEN.load(Ordering::Relaxed)
}

/// The pages of an allocation, and where in them it begins.
fn pages(layout: Layout) -> (usize, usize) {
    let size = layout.size().next_multiple_of(layout.align());
    let pages = size.next_multiple_of(PAGE);
    (pages, pages - size)
}

impl Guarding {
    fn give(layout: Layout) -> *mut u8 {
        let (pages, skipped) = pages(layout);
        let at = USED.fetch_add(pages + PAGE, Ordering::Relaxed);
        if at + pages + PAGE > ARENA {
            super::report("the arena is used up");
        }
        LIVE.fetch_add(1, Ordering::Relaxed);
        GIVEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the range lies in the arena, is nobody else's, and becomes writable before it is
        // written.
        unsafe {
            let first = START.load(Ordering::Relaxed).add(at);
            if libc::mprotect(first.cast(), pages, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                super::report("no memory for a guarded allocation");
            }
            // All of it, or, of what is large, the part that must stay as it is.
            let end = skipped + layout.size();
            let filled = if pages <= FILLED { pages } else { skipped };
            first.write_bytes(GARBAGE, filled);
            first.add(end).write_bytes(GARBAGE, pages - end);
            first.add(skipped)
        }
    }

    /// # Safety
    ///
    /// `give` gave `ptr` for this layout, and nobody uses it any more.
    unsafe fn take_back(ptr: *mut u8, layout: Layout) {
        let (pages, skipped) = pages(layout);
        // SAFETY: the caller's promise: these are the pages that `give` made.
        unsafe {
            let first = ptr.sub(skipped);
            let all = std::slice::from_raw_parts(first, pages);
            let is_garbage = |bytes: &[u8]| bytes.iter().all(|b| *b == GARBAGE);
            if !is_garbage(&all[..skipped]) || !is_garbage(&all[skipped + layout.size()..]) {
                super::report("wrote beside an allocation");
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE | libc::MAP_FIXED;
            libc::mmap(first.cast(), pages, libc::PROT_NONE, flags, -1, 0);
        }
        LIVE.fetch_sub(1, Ordering::Release);
    }

    fn is_ours(ptr: *mut u8) -> bool {
        let start = START.load(Ordering::Relaxed) as usize;
        start != 0 && (start..start + ARENA).contains(&(ptr as usize))
    }
}

// SAFETY: `give` gives memory of its own, large enough and aligned: its end is that of a page, less
// a multiple of the alignment. Everything else is the system's.
unsafe impl GlobalAlloc for Guarding {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ARMED.try_with(Cell::get) == Ok(true) && layout.align() <= PAGE {
            return Self::give(layout);
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if ARMED.try_with(Cell::get) == Ok(true) && layout.align() <= PAGE {
            let ptr = Self::give(layout);
            // SAFETY: `give` gave so many bytes.
            unsafe { ptr.write_bytes(0, layout.size()) };
            return ptr;
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if Self::is_ours(ptr) {
            // SAFETY: the caller's promise, and the arena has only what `give` gave.
            return unsafe { Self::take_back(ptr, layout) };
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}
