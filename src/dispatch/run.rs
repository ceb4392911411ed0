//! Carries a plan out: hands tasks to threads. The only file that names rayon.
//!
//! The calling thread takes its share, so a call with `n` threads wakes `n - 1` workers: a caller
//! that only waits gained nothing at 32 MB (docs/perf/threads.md). The pool belongs to the
//! process that made it; a forked child makes its own. If a pool cannot be started, the caller
//! does all the work.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::Plan;
use crate::error::{Error, Result};

/// How often a long call asks whether to stop.
const INTERRUPT_EVERY: Duration = Duration::from_millis(50);

thread_local! {
    static INTERRUPT_CHECK: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// Sets the function that long calls of this thread ask, about every 50 ms, whether to stop.
/// Returning `true` ends the call with [`Error::Interrupted`].
pub fn set_interrupt_check(check: Option<fn() -> bool>) {
    INTERRUPT_CHECK.with(|cell| cell.set(check));
}

/// Workers of this process's pool; 0 before the first parallel call.
pub fn threads_started() -> usize {
    current_pool().map_or(0, |pool| pool.workers)
}

/// Runs `body` once for each task, on the plan's threads. Each thread makes one `state` for all
/// the tasks it takes. Tasks are taken in order, but may end in any.
///
/// # Errors
///
/// [`Error::Interrupted`] if the caller's interrupt check said so; some tasks have not run then.
pub(crate) fn each<T: Send, S>(
    function: &'static str,
    plan: &Plan,
    tasks: Vec<T>,
    state: impl Fn() -> S + Sync,
    body: impl Fn(&mut S, T) + Sync,
) -> Result<()> {
    let threads = plan.threads.min(tasks.len());
    let pool = if threads > 1 { pool(threads - 1) } else { None };
    let Some(pool) = pool else {
        let mut state = state();
        let mut interrupt = Interrupt::new();
        for task in tasks {
            if interrupt.asked() {
                return Err(Error::Interrupted { function });
            }
            body(&mut state, task);
        }
        return Ok(());
    };
    let queue = Mutex::new(tasks.into_iter());
    // A panicking body poisons nothing that matters: the iterator is never left half-advanced.
    let next = || queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    let stop = AtomicBool::new(false);
    pool.pool.in_place_scope(|scope| {
        for _ in 0..threads - 1 {
            scope.spawn(|_| {
                // Made only when there is a task, so that a worker that wakes late costs nothing.
                let mut mine = None;
                while !stop.load(Ordering::Relaxed) {
                    let Some(task) = next() else { break };
                    body(mine.get_or_insert_with(&state), task);
                }
            });
        }
        let mut mine = state();
        let mut interrupt = Interrupt::new();
        while let Some(task) = next() {
            if interrupt.asked() {
                stop.store(true, Ordering::Relaxed);
                break;
            }
            body(&mut mine, task);
        }
    });
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted { function }) } else { Ok(()) }
}

/// Asks the caller's check now and then.
struct Interrupt {
    check: Option<fn() -> bool>,
    last: Option<Instant>,
}

impl Interrupt {
    fn new() -> Self {
        Self { check: INTERRUPT_CHECK.with(Cell::get), last: None }
    }

    fn asked(&mut self) -> bool {
        let Some(check) = self.check else { return false };
        let now = Instant::now();
        match self.last {
            Some(last) if now - last >= INTERRUPT_EVERY => {
                self.last = Some(now);
                check()
            }
            Some(_) => false,
            None => {
                self.last = Some(now);
                false
            }
        }
    }
}

struct Pool {
    process: u32,
    workers: usize,
    pool: ThreadPool,
}

/// The pool of this process. A pointer and no lock: a lock that another thread holds while this
/// process forks would stay locked in the child for ever.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// The process in which starting a pool failed; it is not tried again there.
static FAILED: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code)]
fn current_pool() -> Option<&'static Pool> {
    // SAFETY: POOL is null or came from Box::leak below and is never freed.
    let pool = unsafe { POOL.load(Ordering::Acquire).as_ref() }?;
    (pool.process == std::process::id()).then_some(pool)
}

/// A pool with at least `workers` workers. One that is too small, or that belongs to the parent
/// of a fork, is replaced and leaked: others may still be using it, and a process grows its pool
/// a few times at most.
fn pool(workers: usize) -> Option<&'static Pool> {
    if let Some(pool) = current_pool().filter(|pool| pool.workers >= workers) {
        return Some(pool);
    }
    let process = std::process::id();
    if FAILED.load(Ordering::Relaxed) == process as usize {
        return None;
    }
    let old = POOL.load(Ordering::Acquire);
    let built = ThreadPoolBuilder::new()
        .num_threads(workers)
        .thread_name(|i| format!("raptors-{i}"))
        .build();
    let Ok(pool) = built else {
        FAILED.store(process as usize, Ordering::Relaxed);
        return None;
    };
    let new = Box::into_raw(Box::new(Pool { process, workers, pool }));
    match POOL.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
        #[allow(unsafe_code)]
        // SAFETY: `new` came from Box::into_raw and, once published, is never freed.
        Ok(_) => Some(unsafe { &*new }),
        Err(_) => {
            #[allow(unsafe_code)]
            // SAFETY: `new` came from Box::into_raw just now and was not published.
            drop(unsafe { Box::from_raw(new) });
            current_pool().filter(|pool| pool.workers >= workers)
        }
    }
}
