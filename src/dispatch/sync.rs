//! What the hand-over of work stands on: locks, atomics, a clock, and how long to spin.
//!
//! `handover` and `linger` name nothing else, so that `tests/loom` can put a module of its own in
//! the place of this one and run the very same code under every interleaving.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(super) use std::thread::yield_now;

use std::time::{Duration, Instant};

/// Turns that the caller looks whether the workers are done before it sleeps: about the time of
/// one task.
pub(super) const SPINS: usize = 2_000;

/// Turns of a waiting worker between two looks at the clock, about a microsecond, and looks between
/// two offers of the core to others.
pub(super) const TURNS: usize = 20;
pub(super) const LOOKS: usize = 8;

/// A moment on the clock.
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(patience: Duration) -> Self {
        Self(Instant::now() + patience)
    }

    pub(super) fn has_passed(&self) -> bool {
        Instant::now() >= self.0
    }
}
