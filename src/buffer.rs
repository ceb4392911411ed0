//! Output buffers, recycled.
//!
//! Fresh pages cost as much as the work that fills them (docs/perf/buffers.md), so outputs from
//! `RECYCLE_FROM` bytes on go back to a pool when the last array over them is dropped, and come
//! out again for a later call. The pool holds a bounded number of bytes, only buffers that nothing
//! refers to, and never waits for a lock: where it is busy, memory comes from and goes to the
//! system.
//!
//! An output never shares memory with anything: a block is owned by one output, then by the arrays
//! over it, then by the pool, and only one of them at a time. It changes hands in the drop of the
//! last array, where the count of its `Arc` orders every read of every thread before, and under the
//! pool's lock. So kernels may write it while others read their inputs, outputs of earlier calls
//! among them.
//!
//! Its memory is mapped and was zeroed or written at some time, so any element is some value of a
//! number type; but which one is not defined, nor is it the same twice before it is written (see
//! `offer`). Callers write all of it and read nothing that they did not write; the padding is
//! cleared before it leaves. `tests/buffers.rs` fills the pool with poison and compares.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use arrow_buffer::{ArrowNativeType, Buffer};

use crate::dispatch::{machine, settings};
use crate::error::{Error, Result};

/// Alignment of every output: a cache line, and what Arrow recommends.
const ALIGN: usize = 64;

/// Bytes from which an output is recycled. Smaller ones the allocator recycles itself.
const RECYCLE_FROM: usize = 128 << 10;

/// Bytes from which memory is mapped directly: the system hands it out zeroed, where
/// `alloc_zeroed` with an alignment would clear it by hand.
const MAP_FROM: usize = 1 << 20;

/// Bytes from which huge pages are asked for, as NumPy does.
const HUGE_FROM: usize = 4 << 20;

/// Bytes from which a buffer in the pool is offered to the system, which may take its pages back
/// when memory is short. Until then they stay, and cost nothing to use again.
const OFFER_FROM: usize = 64 << 20;

/// Buffers that the pool keeps at most, whatever their size: a search through them stays short.
const MOST_BUFFERS: usize = 64;

/// What the pool holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes that wait in the pool for a call.
    pub held_bytes: usize,
    /// Buffers that wait in the pool.
    pub held_buffers: usize,
    /// Bytes of outputs, of a size to be recycled, that arrays still use.
    pub used_bytes: usize,
    /// The most bytes that the pool may hold.
    pub limit_bytes: usize,
    /// Outputs that came out of the pool.
    pub hits: u64,
    /// Outputs of a size to be recycled that had to be allocated.
    pub misses: u64,
}

/// What the pool holds and has done.
///
/// # Errors
///
/// [`Error::Setting`] for an environment variable that cannot be honoured here.
pub fn pool_stats() -> Result<PoolStats> {
    let (held_bytes, held_buffers) = match lock() {
        Some(free) => (free.bytes, free.blocks.len()),
        None => (0, 0),
    };
    Ok(PoolStats {
        held_bytes,
        held_buffers,
        used_bytes: USED.load(Ordering::Relaxed),
        limit_bytes: limit()?,
        hits: HITS.load(Ordering::Relaxed),
        misses: MISSES.load(Ordering::Relaxed),
    })
}

/// Gives back to the system what waits in the pool; returns how many bytes that were.
pub fn release_unused() -> usize {
    let blocks = match lock() {
        Some(mut free) => {
            free.bytes = 0;
            std::mem::take(&mut free.blocks)
        }
        None => Vec::new(),
    };
    blocks.iter().map(|block| block.capacity).sum()
}

static FREE: Mutex<Free> = Mutex::new(Free { blocks: Vec::new(), bytes: 0 });
static USED: AtomicUsize = AtomicUsize::new(0);
static HITS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);

/// The blocks that nothing refers to, oldest first.
struct Free {
    blocks: Vec<Mapping>,
    bytes: usize,
}

/// The pool, or `None` while another thread has it: after a fork that thread may not exist.
fn lock() -> Option<std::sync::MutexGuard<'static, Free>> {
    for _ in 0..32 {
        match FREE.try_lock() {
            Ok(free) => return Some(free),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    None
}

fn limit() -> Result<usize> {
    let default = (2 << 30).min(machine().memory / 8);
    Ok(settings::settings()?.pool_bytes.unwrap_or(default))
}

/// Memory that is aligned, and zeroed when new.
struct Mapping {
    ptr: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a block owns its memory; nothing else refers to it.
unsafe impl Send for Mapping {}
// SAFETY: a shared block gives no access to its memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(capacity: usize) -> Option<Self> {
        let ptr = if capacity >= MAP_FROM { map(capacity) } else { None };
        let ptr = match ptr {
            Some(ptr) => ptr,
            None if capacity >= MAP_FROM && cfg!(unix) => return None,
            // SAFETY: `capacity` is at least ALIGN (see `Output::new`), so the layout is not empty.
            None => NonNull::new(unsafe { alloc_zeroed(Self::layout(capacity)?) })?,
        };
        Some(Self { ptr, capacity })
    }

    fn layout(capacity: usize) -> Option<Layout> {
        Layout::from_size_align(capacity, ALIGN).ok()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.capacity >= MAP_FROM && unmap(self.ptr, self.capacity) {
            return;
        }
        if let Some(layout) = Self::layout(self.capacity) {
            // SAFETY: `new` allocated it with this layout, and a block is dropped once.
            unsafe { dealloc(self.ptr.as_ptr(), layout) };
        }
    }
}

#[cfg(unix)]
fn map(capacity: usize) -> Option<NonNull<u8>> {
    // SAFETY: an anonymous private mapping at a place of the system's choice touches nothing else.
    let ptr = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            capacity,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON,
            -1,
            0,
        )
    };
    if ptr == libc::MAP_FAILED {
        return None;
    }
    #[cfg(target_os = "linux")]
    if capacity >= HUGE_FROM {
        // SAFETY: the range was mapped just now. A refusal is harmless: pages stay small.
        unsafe { libc::madvise(ptr, capacity, libc::MADV_HUGEPAGE) };
    }
    NonNull::new(ptr.cast())
}

/// Lets the system take back the pages of a block that waits in the pool.
///
/// From then on, and also once the block is in use again, a page that was not written since may
/// turn from what it held to zeros at any moment, between two reads too. A write of any byte of a
/// page ends that for the whole page: what a kernel wrote stays.
fn offer(block: &Mapping) {
    #[cfg(target_os = "linux")]
    if block.capacity >= OFFER_FROM {
        // SAFETY: the block is mapped (OFFER_FROM is above MAP_FROM), its last array is gone, and the
        // next output over it is written before it is read (the module's text). A refusal is
        // harmless: the pages stay.
        unsafe { libc::madvise(block.ptr.as_ptr().cast(), block.capacity, libc::MADV_FREE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (block.capacity, OFFER_FROM);
}

#[cfg(unix)]
fn unmap(ptr: NonNull<u8>, capacity: usize) -> bool {
    // SAFETY: `map` made exactly this range, and nothing refers to it any more.
    unsafe { libc::munmap(ptr.as_ptr().cast(), capacity) == 0 }
}

#[cfg(not(unix))]
fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(not(unix))]
fn unmap(_: NonNull<u8>, _: usize) -> bool {
    false
}

/// A block that goes back to the pool when its last array is dropped. It lies in the `Arc` that all
/// arrays over it share, so that this drop runs once, after all that they read.
struct Recycled(Option<Mapping>);

impl Drop for Recycled {
    fn drop(&mut self) {
        let Some(block) = self.0.take() else { return };
        if block.capacity < RECYCLE_FROM {
            return;
        }
        USED.fetch_sub(block.capacity, Ordering::Relaxed);
        let Ok(limit) = limit() else { return };
        if block.capacity > limit {
            return;
        }
        offer(&block);
        // What is evicted is given to the system after the lock is free again.
        let mut evicted = Vec::new();
        if let Some(mut free) = lock() {
            free.bytes += block.capacity;
            free.blocks.push(block);
            while free.bytes > limit || free.blocks.len() > MOST_BUFFERS {
                let oldest = free.blocks.remove(0);
                free.bytes -= oldest.capacity;
                evicted.push(oldest);
            }
        }
    }
}

/// Asks for memory; if there is none, gives back what waits in the pool and asks once more.
pub(crate) fn or_released<M>(mut ask: impl FnMut() -> Option<M>) -> Option<M> {
    ask().or_else(|| if release_unused() > 0 { ask() } else { None })
}

/// Makes room for `more` elements in a vector whose size comes from an input, or says how many
/// bytes the system refused.
pub(crate) fn try_reserve<T>(vec: &mut Vec<T>, more: usize) -> std::result::Result<(), usize> {
    or_released(|| vec.try_reserve(more).ok())
        .ok_or_else(|| vec.len().saturating_add(more).saturating_mul(std::mem::size_of::<T>()))
}

/// An empty vector with room for `capacity` elements.
///
/// # Errors
///
/// [`Error::OutOfMemory`] if the system has no memory for them.
pub(crate) fn vec_with_capacity<T>(capacity: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    match try_reserve(&mut vec, capacity) {
        Ok(()) => Ok(vec),
        Err(bytes) => Err(Error::OutOfMemory { bytes }),
    }
}

/// A vector of `len` times `value`.
///
/// # Errors
///
/// As [`vec_with_capacity`].
pub(crate) fn vec_of<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    let mut vec = vec_with_capacity(len)?;
    vec.resize(len, value);
    Ok(vec)
}

/// The items of an iterator whose number comes from an input.
///
/// # Errors
///
/// As [`vec_with_capacity`].
pub(crate) fn collected<T>(items: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut vec = vec_with_capacity(items.size_hint().0)?;
    for item in items {
        if vec.len() == vec.capacity() {
            let more = vec.len().max(16);
            try_reserve(&mut vec, more).map_err(|bytes| Error::OutOfMemory { bytes })?;
        }
        vec.push(item);
    }
    Ok(vec)
}

/// A slice to write a result to, which becomes an Arrow buffer without a copy.
pub(crate) struct Output<T> {
    block: Recycled,
    ptr: NonNull<u8>,
    len: usize,
    element: PhantomData<T>,
}

// SAFETY: an output owns its block alone, as a `Vec<T>` would.
unsafe impl<T: Send> Send for Output<T> {}
// SAFETY: as a `Vec<T>`: a shared output gives shared slices only.
unsafe impl<T: Sync> Sync for Output<T> {}

impl<T: ArrowNativeType> Output<T> {
    /// Workspace for `len` elements. The contents are any initialised values: write all of them.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the system has none.
    pub(crate) fn new(len: usize) -> Result<Self> {
        let bytes = len
            .checked_mul(std::mem::size_of::<T>())
            .and_then(|bytes| bytes.checked_next_multiple_of(ALIGN))
            .ok_or(Error::OutOfMemory { bytes: usize::MAX })?
            .max(ALIGN);
        let block = match take(bytes) {
            Some(block) => block,
            None => {
                or_released(|| Mapping::new(rounded(bytes))).ok_or(Error::OutOfMemory { bytes })?
            }
        };
        if block.capacity >= RECYCLE_FROM {
            USED.fetch_add(block.capacity, Ordering::Relaxed);
        }
        let ptr = block.ptr;
        Ok(Self { block: Recycled(Some(block)), ptr, len, element: PhantomData })
    }

    /// The elements as bytes up to the padded end that leaves with the buffer.
    fn padded_bytes(&self) -> (usize, usize) {
        let bytes = self.len * std::mem::size_of::<T>();
        (bytes, bytes.next_multiple_of(ALIGN))
    }

    /// The finished buffer, its padding cleared.
    pub(crate) fn into_buffer(self) -> Buffer {
        let (bytes, padded) = self.padded_bytes();
        // SAFETY: the block holds `padded` bytes or more (`new` rounded up to ALIGN), is alive as
        // long as its owner, and is written by nobody once the output is gone.
        unsafe {
            std::ptr::write_bytes(self.ptr.as_ptr().add(bytes), 0, padded - bytes);
            Buffer::from_custom_allocation(self.ptr, bytes, Arc::new(self.block))
        }
    }
}

impl<T> std::ops::Deref for Output<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: see `deref_mut`.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr().cast(), self.len) }
    }
}

impl<T> std::ops::DerefMut for Output<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the block holds `len` elements, aligned to 64, owned by this output alone.
        // Its bytes were zeroed or written at some time, and `new` takes only native number types,
        // for which any bytes are a value. Whoever reads an element wrote it first.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr().cast(), self.len) }
    }
}

/// Large capacities are rounded, so that a buffer fits calls of about its size.
fn rounded(bytes: usize) -> usize {
    let step = if bytes >= HUGE_FROM {
        2 << 20
    } else if bytes >= RECYCLE_FROM {
        64 << 10
    } else {
        1
    };
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// The best fitting block of the pool: the smallest that is large enough, and not twice as large.
fn take(bytes: usize) -> Option<Mapping> {
    if bytes < RECYCLE_FROM {
        return None;
    }
    let found = lock().and_then(|mut free| {
        let (at, _) = free
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.capacity >= bytes && block.capacity / 2 <= bytes)
            .min_by_key(|(_, block)| block.capacity)?;
        let block = free.blocks.remove(at);
        free.bytes -= block.capacity;
        Some(block)
    });
    let counter = if found.is_some() { &HITS } else { &MISSES };
    counter.fetch_add(1, Ordering::Relaxed);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_with_the_pool_in_hand_leaves_it_in_use() {
        let thread = std::thread::spawn(|| {
            let _free = FREE.lock();
            std::panic::resume_unwind(Box::new("injected in the pool"));
        });
        assert!(thread.join().is_err() && FREE.is_poisoned());
        for _ in 0..100 {
            // Another test may have the pool for a moment; then nothing is held, and nothing lost.
            let mut out = Output::<u64>::new(RECYCLE_FROM).unwrap();
            out.fill(7);
            assert!(out.into_buffer().typed_data::<u64>().iter().all(|word| *word == 7));
            if pool_stats().unwrap().held_buffers > 0 {
                return;
            }
        }
        panic!("no buffer went back to the pool");
    }
}
