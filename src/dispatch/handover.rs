//! Hands a share of a call to workers, and ends the call only when no worker can touch it any more.
//!
//! ```text
//! caller                                   worker
//!   open a gate
//!   offer the job, spawn the rest ──────►    get the job
//!   run its own share                        enter the gate; if it is closed, forget the job
//!   close the gate                           run its share
//!   withdraw the offer                       leave the gate; the last one out wakes the caller
//!   wait until the gate is empty   ◄──────
//!   return, and drop the closure
//! ```
//!
//! # Why the pointer in a job is valid whenever it is followed
//!
//! The share of the workers is a closure in the caller's frame, and a job points to it. It is a raw
//! pointer and not a reference: a worker that wakes late still holds its job when the call is long
//! over, and a reference must not dangle even if it is never read.
//!
//! 1. Only [`Job::run`] follows the pointer, and only between an `enter` that succeeded and its
//!    `leave`. Cloning, comparing and dropping a job look at the gate alone, which is shared.
//! 2. The closure was made before the job, and the job reaches a worker through a lock (the post's or
//!    the pool's): the worker sees it whole.
//! 3. `enter` and `close` change one atomic number in one step each, so one of them comes first.
//!    A worker that enters after the gate was closed is refused. One that entered before is counted.
//! 4. The caller closes the gate and waits for a count of zero in the drop of [`OpenOffer`], which is made
//!    before the first job leaves the caller. So neither a return nor a panic, in the caller's share
//!    or in the pool, gets past it.
//! 5. Each `leave` is a release, and the load that sees zero an acquire. Only read-modify-writes lie
//!    between the two, so it synchronises with every worker that left, not with the last one only:
//!    all that they did in the closure happens before the caller goes on.
//! 6. The child of a fork does not wait: the workers stayed with the parent, and the jobs in the
//!    child's copy of the pool are never run, because that pool is never used (`run::pool`).
//!
//! The closure is `Sync`, so several workers may run it at once. `tests/loom` checks 2 to 5 on this
//! file and `linger`, and `make loom` also checks that it finds every weakening of them.

#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;

use super::linger::Post;
use super::sync::{
    Arc, AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, SPINS, spin_loop,
};

/// Runs `mine` here and `theirs` on up to `workers` workers, those that wait at the post and others
/// that `spawn` wakes. Returns when every worker that began has ended; a panic in any of them, or
/// here, goes on then. `is_forked` says whether `mine` came back in the child of a fork.
pub(super) fn with_workers<F: Fn() + Sync>(
    post: &Post<Job>,
    spawn: impl Fn(Job),
    workers: usize,
    theirs: &F,
    is_forked: &Cell<bool>,
    mine: impl FnOnce(),
) {
    let job = Job::new(theirs);
    let mut open = OpenOffer { post, job: &job, is_offered: false, is_forked };
    let awake = post.offer(&job, workers);
    open.is_offered = awake > 0;
    for _ in awake..workers {
        spawn(job.clone());
    }
    mine();
    drop(open);
    // The empty gate was seen by an acquire, and a worker says that it panicked before it leaves.
    if !is_forked.get() && job.gate.panicked.load(Ordering::Relaxed) {
        let panic = job.gate.first_panic().take();
        resume_unwind(panic.unwrap_or_else(|| Box::new("a worker panicked")));
    }
}

/// A worker's share of a call.
#[derive(Clone)]
pub(super) struct Job {
    gate: Arc<Gate>,
    /// The closure of `with_workers`, of the type that `call` was made for.
    share: *const (),
    call: unsafe fn(*const ()),
}

// SAFETY: the pointer is followed only while the closure is alive (the module's text), and the
// closure is `Sync` (`Job::new`), so that it may be called by any thread. The rest is `Send`.
unsafe impl Send for Job {}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.gate, &other.gate)
    }
}

impl Job {
    /// A job that must not be run once `share` is gone: `OpenOffer` sees to it.
    fn new<F: Fn() + Sync>(share: &F) -> Self {
        /// # Safety
        ///
        /// `share` points to an `F` that is alive.
        unsafe fn call<F: Fn()>(share: *const ()) {
            // SAFETY: the caller's promise.
            unsafe { (*share.cast::<F>())() }
        }
        Self { gate: Arc::new(Gate::new()), share: (&raw const *share).cast(), call: call::<F> }
    }

    /// Runs the share, unless the call is over.
    pub(super) fn run(&self) {
        if self.gate.enter() {
            // SAFETY: `new` made `call` for the type of `share`. The gate let us in, so the caller
            // is in `with_workers` and stays there until `leave`: the closure is alive.
            let run = || unsafe { (self.call)(self.share) };
            self.gate.leave(catch_unwind(AssertUnwindSafe(run)).err());
        }
    }
}

/// A call that workers may enter. Dropping it closes the gate, takes back the offer, so that other
/// calls can make theirs, and waits for the workers inside; also when the caller unwinds.
struct OpenOffer<'a> {
    post: &'a Post<Job>,
    job: &'a Job,
    is_offered: bool,
    is_forked: &'a Cell<bool>,
}

impl Drop for OpenOffer<'_> {
    fn drop(&mut self) {
        let gate = &*self.job.gate;
        gate.close();
        // In the child of a fork nobody is inside, whatever the gate says; and the post may be
        // locked for ever, by a thread that stayed with the parent.
        if self.is_forked.get() {
            return;
        }
        if self.is_offered {
            self.post.withdraw(self.job);
        }
        gate.wait_until_empty();
    }
}

/// What a panic carries.
type Panic = Box<dyn Any + Send>;

/// Lets workers in until it is closed, and knows how many are inside.
struct Gate {
    /// Workers inside, times two; plus one once it is closed.
    state: AtomicUsize,
    panicked: AtomicBool,
    /// What the first worker that panicked said. It is also the lock of `left`.
    panic: Mutex<Option<Panic>>,
    left: Condvar,
}

impl Gate {
    fn new() -> Self {
        Self {
            state: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            left: Condvar::new(),
        }
    }

    /// Relaxed: what the worker reads came with its job, not through the gate.
    fn enter(&self) -> bool {
        let open = |state: usize| (state & 1 == 0).then_some(state + 2);
        self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, open).is_ok()
    }

    fn first_panic(&self) -> MutexGuard<'_, Option<Panic>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, panic: Option<Panic>) {
        if let Some(panic) = panic {
            self.first_panic().get_or_insert(panic);
            self.panicked.store(true, Ordering::Relaxed);
        }
        // The last to leave a closed gate wakes the caller, who may sleep. It takes the lock first:
        // else the caller could look before we leave and fall asleep after we wake it.
        if self.state.fetch_sub(2, Ordering::Release) == 3 {
            drop(self.first_panic());
            self.left.notify_all();
        }
    }

    /// Relaxed: `is_empty` is asked before the caller goes on.
    fn close(&self) {
        self.state.fetch_or(1, Ordering::Relaxed);
    }

    fn is_empty(&self) -> bool {
        self.state.load(Ordering::Acquire) == 1
    }

    /// Waits until the workers have left a gate that is closed.
    fn wait_until_empty(&self) {
        for _ in 0..SPINS {
            if self.is_empty() {
                return;
            }
            spin_loop();
        }
        let mut held = self.first_panic();
        while !self.is_empty() {
            held = self.left.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
