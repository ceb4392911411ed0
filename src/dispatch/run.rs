//! Carries a plan out: hands tasks to threads. The only file that names rayon.
//!
//! The calling thread takes its share, so a call with `n` threads wakes `n - 1` workers: a caller
//! that only waits gained nothing at 32 MB (docs/perf/threads.md). It waits only for workers that
//! have begun: one that wakes after the last task was taken finds the gate closed, so a machine
//! that wakes threads late costs a call nothing but the wake itself. Workers of a call just before
//! may still be awake ([`super::linger`]); then less work is worth sharing. The pool belongs to the
//! process that made it; a forked child makes its own. If a pool cannot be started, the caller
//! does all the work.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::handover::{Job, with_workers};
use super::linger::{LINGER, Post};
use super::machine::awake as awake_machine;
use super::{Plan, Settings, Work, machine, plan, settings};
use crate::error::{Error, Result};
use crate::memory;

/// How often a long call asks whether to stop.
pub const INTERRUPT_EVERY: Duration = Duration::from_millis(20);

thread_local! {
    static INTERRUPT_CHECK: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
    static CHECK_EVERY: Cell<Duration> = const { Cell::new(INTERRUPT_EVERY) };
    /// When the check was asked last, or set: by whichever part of a call.
    static LAST_ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The plans that were carried out, while somebody wants to know.
    static EXECUTED: RefCell<Option<Vec<Plan>>> = const { RefCell::new(None) };
    /// When this thread's last call ended.
    static LAST_CALL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Sets the function that long calls of this thread ask, about every 20 ms, whether to stop.
/// Returning `true` ends the call with [`Error::Interrupted`].
pub fn set_interrupt_check(check: Option<fn() -> bool>) {
    INTERRUPT_CHECK.set(check);
    LAST_ASKED.set(None);
}

/// Sets how often long calls of this thread ask the check, for tests: with no time in between, they
/// ask wherever they can be stopped, and their stops can be counted.
pub fn set_interrupt_interval(every: Duration) {
    CHECK_EVERY.set(every);
}

/// Runs `body`, and says which plans the calls of this thread carried out meanwhile, in order: for
/// tests that compare them with what was explained.
pub fn executed<T>(body: impl FnOnce() -> T) -> (T, Vec<Plan>) {
    EXECUTED.set(Some(Vec::new()));
    let result = body();
    (result, EXECUTED.take().unwrap_or_default())
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
    Ok(plan(work, awake_machine(), &Settings { threads: Some(most), ..settings }))
}

/// Runs `body` once for each task, on the plan's threads. Each thread makes one `state` for all
/// the tasks it takes. The caller takes them from the first on, workers from the last: so the same
/// call again finds what it read and wrote in the caches of the same cores (docs/perf/threads.md).
///
/// # Errors
///
/// [`Error::Interrupted`] if the caller's interrupt check said so, [`Error::OutOfMemory`] if a task
/// was refused [`memory`], [`Error::Forked`] in the child of a fork during the call; some
/// tasks have not run then.
pub(crate) fn each<T: Send, S>(
    plan: &Plan,
    tasks: Vec<T>,
    state: impl Fn() -> S + Sync,
    body: impl Fn(&mut S, T) + Sync,
) -> Result<()> {
    each_while(plan, tasks, state, |state, task, _| body(state, task))
}

/// [`each`] for tasks that may take long: `body` asks now and then whether to go on.
///
/// # Errors
///
/// As [`each`].
pub(crate) fn each_while<T: Send, S>(
    plan: &Plan,
    tasks: Vec<T>,
    state: impl Fn() -> S + Sync,
    body: impl Fn(&mut S, T, &dyn Fn() -> bool) + Sync,
) -> Result<()> {
    EXECUTED.with_borrow_mut(|plans| {
        if let Some(plans) = plans {
            plans.push(*plan);
        }
    });
    let tasks_in_all = tasks.len();
    let threads = plan.threads.min(tasks_in_all);
    let queue = Mutex::new(tasks.into_iter());
    // A panicking body poisons nothing that matters: the iterator is never left half-advanced.
    let next = |who: Who| {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        match who {
            Who::Caller => queue.next(),
            Who::Worker => queue.next_back(),
        }
    };
    // Bytes that the system refused to a task.
    let refused = AtomicUsize::new(0);
    let is_small = tasks_in_all <= 1;
    share(threads, &|who, go_on| {
        let go_on = || go_on() && refused.load(Ordering::Relaxed) == 0;
        let ended = memory::caught(|| {
            // Made only when there is a task, so that a worker that wakes late costs nothing.
            let mut mine = None;
            while go_on() {
                let Some(task) = next(who) else { break };
                let make = || {
                    if !is_small {
                        memory::headroom(HEADROOM);
                    }
                    state()
                };
                body(mine.get_or_insert_with(make), task, &go_on);
            }
            Ok(())
        });
        if let Err(Error::OutOfMemory { bytes }) = ended {
            refused.store(bytes, Ordering::Relaxed);
        }
    })?;
    match refused.into_inner() {
        0 => Ok(()),
        bytes => Err(Error::OutOfMemory { bytes }),
    }
}

/// Bytes that the system must have for a thread that begins on a large call. Kernels and the GEMM
/// library keep running sums and packed panels in memory that they do not ask for fallibly: some
/// hundred KiB, whatever the input. They are asked for here, and given back at once.
const HEADROOM: usize = 4 << 20;

/// Runs a whole call: its errors say which function it was, and memory that was refused to it
/// outside of its tasks is one of them.
///
/// # Errors
///
/// Those of `body`, and [`Error::OutOfMemory`].
pub(crate) fn call<T>(function: &'static str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    memory::caught(body).map_err(|error| error.in_function(function))
}

/// Calls `body` with pieces of `range`, and asks between them whether to go on: for work of the
/// calling thread that may take long.
///
/// # Errors
///
/// [`Error::Interrupted`] if the caller's interrupt check said so, and those of `body`.
pub(crate) fn in_steps(
    range: Range<usize>,
    step: usize,
    mut body: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    let interrupt = Interrupt::new();
    let mut from = range.start;
    while from < range.end {
        let to = from.saturating_add(step.max(1)).min(range.end);
        body(from..to)?;
        if interrupt.asked() {
            return Err(Error::Interrupted);
        }
        from = to;
    }
    Ok(())
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
fn share(threads: usize, work: &Share<'_>) -> Result<()> {
    let stop = AtomicBool::new(false);
    let interrupt = Interrupt::new();
    let pool = if threads > 1 { pool(threads - 1) } else { None };
    let ask = || {
        // A check runs the user's signal handlers, which may fork: the child has no workers.
        if interrupt.asked() || (pool.is_some() && interrupt.is_forked.get()) {
            stop.store(true, Ordering::Relaxed);
        }
        !stop.load(Ordering::Relaxed)
    };
    match pool {
        None => work(Who::Caller, &ask),
        Some(pool) => {
            let on_worker = || work(Who::Worker, &|| !stop.load(Ordering::Relaxed));
            let is_forked = &interrupt.is_forked;
            let spawn = |job: Job| {
                pool.pool.spawn(move || {
                    job.run();
                    pool.post.wait(|job| job.run());
                });
            };
            with_workers(&pool.post, spawn, threads - 1, &on_worker, is_forked, || {
                work(Who::Caller, &ask);
            });
            if is_forked.get() {
                return Err(Error::Forked);
            }
        }
    }
    LAST_CALL.set(Some(Instant::now()));
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

/// Asks the caller's check now and then.
pub(super) struct Interrupt {
    check: Option<fn() -> bool>,
    /// Whether a check came back in a child of the process that the call began in.
    is_forked: Cell<bool>,
}

impl Interrupt {
    pub(super) fn new() -> Self {
        Self { check: INTERRUPT_CHECK.get(), is_forked: Cell::new(false) }
    }

    pub(super) fn asked(&self) -> bool {
        let Some(check) = self.check else { return false };
        let now = Instant::now();
        match LAST_ASKED.get() {
            Some(last) if now - last < CHECK_EVERY.get() => false,
            Some(_) => {
                LAST_ASKED.set(Some(now));
                let process = std::process::id();
                let stop = check();
                self.is_forked.set(std::process::id() != process);
                stop
            }
            None => {
                LAST_ASKED.set(Some(now));
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
    // Every worker has run once, so that its thread-local storage is there: glibc ends the process
    // where it finds no memory for that later.
    pool.broadcast(|_| ());
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

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use super::*;
    use crate::dispatch::{Backend, Level, Store};

    fn three_threads() -> Plan {
        let backend = Backend::Native(Level::Portable);
        Plan { backend, threads: 3, task_bytes: 1, store: Store::Cached }
    }

    fn on_worker() -> bool {
        std::thread::current().name().is_some_and(|name| name.starts_with("raptors-"))
    }

    /// The pool runs whole calls, and its workers take a share of them.
    fn assert_works() {
        let mut shared = 0;
        for _ in 0..1000 {
            let (ran, theirs) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let done = each(
                &three_threads(),
                (0..64).collect(),
                || (),
                |(), task: usize| {
                    ran.fetch_add(task, Ordering::Relaxed);
                    theirs.fetch_add(usize::from(on_worker()), Ordering::Relaxed);
                    std::thread::yield_now();
                },
            );
            assert_eq!((done, ran.into_inner()), (Ok(()), 63 * 32));
            shared += theirs.into_inner();
        }
        assert!(shared > 0, "no worker ever took a task");
    }

    fn said(panic: &(dyn Any + Send)) -> &str {
        panic.downcast_ref::<&str>().copied().unwrap_or("something else")
    }

    #[test]
    fn a_panic_in_a_worker_comes_back_in_the_caller_and_the_pool_works() {
        for _ in 0..20 {
            let panicked = AtomicBool::new(false);
            let call = || {
                each(
                    &three_threads(),
                    (0..8).collect(),
                    || (),
                    |(), _: usize| {
                        if on_worker() {
                            panicked.store(true, Ordering::Release);
                            // Not `panic!`, which would print.
                            resume_unwind(Box::new("injected in a worker"));
                        }
                        // The caller leaves the workers a task.
                        while !panicked.load(Ordering::Acquire) {
                            std::thread::yield_now();
                        }
                    },
                )
            };
            let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("the panic was lost");
            assert_eq!(said(&*panic), "injected in a worker");
        }
        assert_works();
    }

    #[test]
    fn a_panic_in_the_callers_share_waits_for_the_workers_and_the_pool_works() {
        for _ in 0..20 {
            let (begun, inside) = (AtomicBool::new(false), AtomicUsize::new(0));
            let call = || {
                each(
                    &three_threads(),
                    (0..8).collect(),
                    || (),
                    |(), _: usize| {
                        if !on_worker() {
                            while !begun.load(Ordering::Acquire) {
                                std::thread::yield_now();
                            }
                            resume_unwind(Box::new("injected in the caller"));
                        }
                        inside.fetch_add(1, Ordering::Relaxed);
                        begun.store(true, Ordering::Release);
                        (0..100).for_each(|_| std::thread::yield_now());
                        inside.fetch_sub(1, Ordering::Relaxed);
                    },
                )
            };
            let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("the panic was lost");
            assert_eq!(said(&*panic), "injected in the caller");
            assert_eq!(inside.into_inner(), 0, "a worker outlived the call");
        }
        assert_works();
    }

    #[test]
    fn a_panic_in_the_interrupt_check_comes_back_and_the_pool_works() {
        set_interrupt_interval(Duration::ZERO);
        set_interrupt_check(Some(|| resume_unwind(Box::new("injected in a callback"))));
        let call = || each(&three_threads(), (0..8).collect(), || (), |(), _: usize| ());
        let panic = catch_unwind(AssertUnwindSafe(|| (0..100).try_for_each(|_| call())));
        set_interrupt_check(None);
        set_interrupt_interval(INTERRUPT_EVERY);
        assert_eq!(said(&*panic.expect_err("the panic was lost")), "injected in a callback");
        assert_works();
    }
}
