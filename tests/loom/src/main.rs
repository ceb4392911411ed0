//! The hand-over of work to workers under every interleaving and every outcome of its atomics.
//!
//! The modules are those that ship; only `sync` is loom's. A frame of a caller is modelled by a
//! cell that the caller writes when its call is over: loom fails a model if a worker may read it
//! then, or before it was made. `scripts/loom_mutants.py` weakens the modules one line at a time, and
//! expects one of these models to fail.

#[path = "../../../src/dispatch/handover.rs"]
mod handover;
#[path = "../../../src/dispatch/linger.rs"]
#[allow(dead_code, reason = "how long a worker lingers is for the clock, which is not modelled")]
mod linger;
mod sync;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handover::{Job, with_workers};
use linger::Post;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

/// What a worker finds in the frame of a call that runs, and what lies there when it is over.
const ALIVE: u32 = 1;
const GONE: u32 = 2;

/// The frame of a call. The closure over it is never freed, so that a model in which a worker comes
/// too late fails by its assertion.
struct Frame {
    value: UnsafeCell<u32>,
}

// SAFETY: loom's cell reports every access that another thread's is not ordered with.
unsafe impl Sync for Frame {}

impl Frame {
    fn new() -> std::sync::Arc<Self> {
        let frame = Self { value: UnsafeCell::new(0) };
        // SAFETY: loom checks the access.
        frame.value.with_mut(|value| unsafe { *value = ALIVE });
        std::sync::Arc::new(frame)
    }

    fn read(&self) {
        // SAFETY: loom checks the access.
        self.value.with(|value| assert_eq!(unsafe { *value }, ALIVE, "the call is over"));
    }

    fn end(&self) {
        // SAFETY: loom checks the access.
        self.value.with_mut(|value| unsafe { *value = GONE });
    }
}

/// A call on up to so many workers: how it ended, and its frame is gone.
fn call(
    post: &Post<Job>,
    spawn: impl Fn(Job),
    workers: usize,
    mine: fn(),
    theirs: fn(),
) -> std::thread::Result<()> {
    let frame = Frame::new();
    let inner = std::sync::Arc::clone(&frame);
    let share: &'static _ = Box::leak(Box::new(move || {
        inner.read();
        theirs();
    }));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        with_workers(post, spawn, workers, share, &Cell::new(false), || {
            frame.read();
            mine();
        });
    }));
    frame.end();
    ended
}

/// A call whose workers wait at the post afterwards, if they linger; they are joined at the end.
fn call_on_threads(
    post: &Arc<Post<Job>>,
    workers: usize,
    lingers: bool,
    theirs: fn(),
) -> (std::thread::Result<()>, Vec<JoinHandle<()>>) {
    let started = RefCell::new(Vec::new());
    let spawn = |job: Job| {
        let post = Arc::clone(post);
        started.borrow_mut().push(thread::spawn(move || {
            job.run();
            if lingers {
                post.wait(|job| job.run());
            }
        }));
    };
    let ended = call(post, spawn, workers, || (), theirs);
    (ended, started.into_inner())
}

fn post() -> Arc<Post<Job>> {
    Arc::new(Post::new(Duration::ZERO))
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("a thread died"));
}

fn one_worker_that_may_be_late() {
    let (ended, worker) = call_on_threads(&post(), 1, false, || ());
    assert!(ended.is_ok());
    join(worker);
}

fn two_workers() {
    let (ended, workers) = call_on_threads(&post(), 2, false, || ());
    assert!(ended.is_ok());
    join(workers);
}

fn a_worker_that_lingers_for_the_next_call() {
    let post = post();
    let (first, workers) = call_on_threads(&post, 1, true, || ());
    let (second, others) = call_on_threads(&post, 1, false, || ());
    assert!(first.is_ok() && second.is_ok());
    join(workers.into_iter().chain(others));
}

fn two_callers_and_a_worker_that_waits() {
    let post = post();
    let (at_worker, at_caller) = (Arc::clone(&post), Arc::clone(&post));
    let worker = thread::spawn(move || at_worker.wait(|job| job.run()));
    // A share that the waiting worker does not take is not run at all.
    let other = thread::spawn(move || assert!(call(&at_caller, drop, 1, || (), || ()).is_ok()));
    assert!(call(&post, drop, 1, || (), || ()).is_ok());
    join([worker, other]);
}

fn a_panic_of_a_worker_reaches_the_caller() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    RAN.store(0, Ordering::SeqCst);
    let (ended, worker) = call_on_threads(&post(), 1, false, || {
        RAN.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("the worker's own words"));
    });
    match ended {
        Ok(()) => assert_eq!(RAN.load(Ordering::SeqCst), 0, "a panic was lost"),
        Err(panic) => assert_eq!(panic.downcast_ref(), Some(&"the worker's own words")),
    }
    join(worker);
}

/// Executions in which a call panicked before its offer was taken, and the next one made its own.
static OFFERED_AGAIN: AtomicUsize = AtomicUsize::new(0);

fn a_panic_of_the_caller_takes_its_offer_back() {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    TAKEN.store(0, Ordering::SeqCst);
    let post = post();
    let at_worker = Arc::clone(&post);
    let worker = thread::spawn(move || {
        at_worker.wait(|job| {
            TAKEN.fetch_add(1, Ordering::SeqCst);
            job.run();
        });
    });
    let refused = Cell::new(0);
    let spawn = |_| refused.set(refused.get() + 1);
    let panics = || resume_unwind(Box::new("the caller's own share"));
    assert!(call(&post, spawn, 1, panics, || ()).is_err());
    assert!(call(&post, spawn, 1, || (), || ()).is_ok());
    join([worker]);
    if refused.get() == 0 && TAKEN.load(Ordering::SeqCst) == 0 {
        OFFERED_AGAIN.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs a model: through every interleaving, or every one with so many preemptions.
fn check(name: &str, preemptions: Option<usize>, model: fn()) {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    EXECUTIONS.store(0, Ordering::SeqCst);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        EXECUTIONS.fetch_add(1, Ordering::SeqCst);
        model();
    });
    println!("{name}: {} executions", EXECUTIONS.load(Ordering::SeqCst));
}

fn main() {
    macro_rules! models {
        ($($model:ident $preemptions:expr;)*) => {
            $(check(stringify!($model), $preemptions, $model);)*
        };
    }
    // Of three threads not all are tried: bugs that need more than three preemptions are rare
    // (Musuvathi and Qadeer, PLDI 2007), and these would take an hour.
    models! {
        one_worker_that_may_be_late None;
        a_panic_of_a_worker_reaches_the_caller None;
        a_panic_of_the_caller_takes_its_offer_back None;
        a_worker_that_lingers_for_the_next_call Some(5);
        two_workers Some(4);
        two_callers_and_a_worker_that_waits Some(4);
    }
    assert!(OFFERED_AGAIN.load(Ordering::SeqCst) > 0, "an offer stood after its call had panicked");
}
