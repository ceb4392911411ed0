//! Carries a plan out: hands tasks to threads. The only file that names rayon.
//!
//! The calling thread takes its share, so a call with `n` threads wakes `n - 1` workers: a caller
//! that only waits gained nothing at 32 MB (docs/perf/threads.md). It waits only for workers that
//! have begun: one that wakes after the last task was taken finds the gate closed, so a machine
//! that wakes threads late costs a call nothing but the wake itself. Workers of a call just before
//! may still be awake ([`super::linger`]); then less work is worth sharing. The pool belongs to the
//! process that made it; a forked child makes its own. If a pool cannot be started, the caller
//! does all the work.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::linger::{LINGER, Post};
use super::{Machine, Plan, Settings, Work, machine, plan, settings};
use crate::error::{Error, Result};

/// How often a long call asks whether to stop.
const INTERRUPT_EVERY: Duration = Duration::from_millis(50);

/// Turns that the caller looks whether the workers are done before it sleeps: about the time of
/// one task.
const SPINS: usize = 2_000;

thread_local! {
    static INTERRUPT_CHECK: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
    /// When this thread's last call ended.
    static LAST_CALL: Cell<Option<Instant>> = const { Cell::new(None) };
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

/// Plans a call as things stand: with this machine and the caller's settings, and with the workers
/// that are still awake after the last call. Only the threads differ from [`plan`].
///
/// # Errors
///
/// [`Error::Setting`](crate::Error::Setting) for a setting that cannot be honoured.
pub(crate) fn planned(work: &Work) -> Result<Plan> {
    static AWAKE: OnceLock<Machine> = OnceLock::new();
    let settings = settings::settings()?;
    let cold = plan(work, machine(), &settings);
    if cold.threads > 1 || settings.exact_threads {
        return Ok(cold);
    }
    let mut awake = current_pool().map_or(0, |pool| pool.post.waiting());
    if awake == 0 && LAST_CALL.get().is_some_and(|last| last.elapsed() < LINGER) {
        // One call after the other: workers that this one wakes will be awake for the next.
        awake = machine().cores - 1;
    }
    if awake == 0 {
        return Ok(cold);
    }
    let most = settings.threads.unwrap_or(awake + 1).min(awake + 1);
    let at_once = AWAKE.get_or_init(|| machine().awake());
    Ok(plan(work, at_once, &Settings { threads: Some(most), ..settings }))
}

/// Runs `body` once for each task, on the plan's threads. Each thread makes one `state` for all
/// the tasks it takes. The caller takes them from the first on, workers from the last: so the same
/// call again finds what it read and wrote in the caches of the same cores (docs/perf/threads.md).
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
    let queue = Mutex::new(tasks.into_iter());
    // A panicking body poisons nothing that matters: the iterator is never left half-advanced.
    let next = |who: Who| {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        match who {
            Who::Caller => queue.next(),
            Who::Worker => queue.next_back(),
        }
    };
    share(function, threads, &|who, go_on| {
        // Made only when there is a task, so that a worker that wakes late costs nothing.
        let mut mine = None;
        while go_on() {
            let Some(task) = next(who) else { break };
            body(mine.get_or_insert_with(&state), task);
        }
    })
}

/// Whose thread works.
#[derive(Clone, Copy)]
enum Who {
    Caller,
    Worker,
}

/// What a thread does for as long as it may go on.
type Share<'a> = dyn Fn(Who, &dyn Fn() -> bool) + Sync + 'a;

/// Runs `work` on `threads` threads at once, the caller's among them, until it returns in each.
fn share(function: &'static str, threads: usize, work: &Share<'_>) -> Result<()> {
    let stop = AtomicBool::new(false);
    let interrupt = Interrupt::new();
    let ask = || {
        if interrupt.asked() {
            stop.store(true, Ordering::Relaxed);
        }
        !stop.load(Ordering::Relaxed)
    };
    match if threads > 1 { pool(threads - 1) } else { None } {
        None => work(Who::Caller, &ask),
        Some(pool) => {
            let on_worker = || work(Who::Worker, &|| !stop.load(Ordering::Relaxed));
            with_workers(pool, threads - 1, &on_worker, || work(Who::Caller, &ask));
        }
    }
    LAST_CALL.set(Some(Instant::now()));
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted { function }) } else { Ok(()) }
}

/// Runs `mine` here and `theirs` on up to `workers` workers of the pool, and returns when all that
/// began have ended.
#[allow(unsafe_code)]
fn with_workers(
    pool: &'static Pool,
    workers: usize,
    theirs: &(dyn Fn() + Sync),
    mine: impl FnOnce(),
) {
    let gate = Arc::new(Gate::default());
    // SAFETY: only the lifetime changes. `theirs` is called only by workers that entered the gate
    // (below); `Closed` shuts it and waits for them before this function returns or unwinds.
    let theirs: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(theirs) };
    let job = Job { gate: Arc::clone(&gate), theirs };
    let awake = pool.post.offer(&job, workers);
    for _ in awake..workers {
        let job = job.clone();
        pool.pool.spawn(move || {
            job.run();
            pool.post.wait(|job| job.run());
        });
    }
    let closed = Closed(&gate);
    mine();
    drop(closed);
    if awake > 0 {
        pool.post.withdraw(&job);
    }
    if gate.panicked.load(Ordering::Relaxed) {
        resume_unwind(Box::new("a worker panicked"));
    }
}

/// A worker's share of a call.
#[derive(Clone)]
struct Job {
    gate: Arc<Gate>,
    theirs: &'static (dyn Fn() + Sync),
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.gate, &other.gate)
    }
}

impl Job {
    fn run(&self) {
        if self.gate.enter() {
            self.gate.leave(catch_unwind(AssertUnwindSafe(self.theirs)).is_err());
        }
    }
}

/// Lets workers in until it is closed, and knows how many are inside.
#[derive(Default)]
struct Gate {
    /// Workers inside, times two; plus one once it is closed.
    state: AtomicUsize,
    panicked: AtomicBool,
    lock: Mutex<()>,
    left: Condvar,
}

impl Gate {
    fn enter(&self) -> bool {
        let open = |state: usize| (state & 1 == 0).then_some(state + 2);
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, open).is_ok()
    }

    fn leave(&self, panicked: bool) {
        if panicked {
            self.panicked.store(true, Ordering::Relaxed);
        }
        // The last to leave a closed gate wakes the caller, who may sleep.
        if self.state.fetch_sub(2, Ordering::Release) == 3 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.left.notify_all();
        }
    }

    fn is_empty(&self) -> bool {
        self.state.load(Ordering::Acquire) == 1
    }
}

/// Closes the gate and waits for those inside, also when the caller unwinds.
struct Closed<'a>(&'a Gate);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_or(1, Ordering::Acquire);
        for _ in 0..SPINS {
            if self.0.is_empty() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut held = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.0.is_empty() {
            held = self.0.left.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Asks the caller's check now and then.
struct Interrupt {
    check: Option<fn() -> bool>,
    last: Cell<Option<Instant>>,
}

impl Interrupt {
    fn new() -> Self {
        Self { check: INTERRUPT_CHECK.with(Cell::get), last: Cell::new(None) }
    }

    fn asked(&self) -> bool {
        let Some(check) = self.check else { return false };
        let now = Instant::now();
        match self.last.get() {
            Some(last) if now - last < INTERRUPT_EVERY => false,
            Some(_) => {
                self.last.set(Some(now));
                check()
            }
            None => {
                self.last.set(Some(now));
                false
            }
        }
    }
}

struct Pool {
    process: u32,
    workers: usize,
    pool: ThreadPool,
    post: Post<Job>,
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
    let new = Box::into_raw(Box::new(Pool { process, workers, pool, post: Post::new(LINGER) }));
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
