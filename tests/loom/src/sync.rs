//! What `src/dispatch/sync.rs` has, as loom sees it. A spin is one turn, and a worker looks once
//! before it goes to sleep: loom tries that look at every point of the other threads.

pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(super) use loom::thread::yield_now;

use std::time::Duration;

pub(super) const SPINS: usize = 1;
pub(super) const TURNS: usize = 1;
pub(super) const LOOKS: usize = 1;

pub(super) struct Deadline;

impl Deadline {
    pub(super) fn after(_: Duration) -> Self {
        Self
    }

    pub(super) fn has_passed(&self) -> bool {
        true
    }
}
