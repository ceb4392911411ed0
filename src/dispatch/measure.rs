//! Measures this machine: what waking a worker costs, and how fast each cache and memory are.
//!
//! The loops do nothing but move words, so that the hardware is what binds. Machines are shared
//! and noisy: every figure is a median of many short samples, and [`measure`] goes round all of
//! them several times, so that a disturbance falls on each of them alike.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::profile::{Measurements, NAMES};
use super::run::Interrupt;
use super::{Backend, Machine, Plan, Store, machine, run, settings, simd};
use crate::error::{Error, Result};
use crate::kernel::{Body, Simd};

/// Words that one sample moves: long enough that reading the clock is nothing beside it (10 us
/// and more), short enough that a disturbance spoils few.
const SAMPLE_WORDS: usize = (1 << 20) / 8;

/// The shortest run of words a thread may be given: two vectors of every accumulator.
const LEAST_WORDS: usize = 64;

/// Rounds of [`measure`], and seconds for each figure in a round. 5 rounds of 16 bandwidths and
/// one wake take about 5 s.
const ROUNDS: usize = 5;
const SECONDS_EACH: f64 = 0.05;

/// After so long the first round is the last: what a busy machine delays is not made up for.
const ENOUGH: Duration = Duration::from_secs(8);

/// The largest working set, whatever the caches. Fresh pages cost up to a second for a GiB. A cache
/// that is larger than this is shared with others, who leave us less of it.
const MOST_BYTES: usize = 256 << 20;

/// Wakes in a round, the time they may take, and how long workers are left alone before each, so
/// that they sleep.
const WAKES: usize = 40;
const WAKES_WITHIN: Duration = Duration::from_millis(300);
const ASLEEP_AFTER: Duration = Duration::from_millis(1);

/// A worker that has not begun after so long is not waited for.
const WAKE_TIMEOUT: Duration = Duration::from_millis(100);

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Bytes are read.
    Read,
    /// Half of the bytes are read, and written to the other half.
    Copy,
}

/// Bytes per nanosecond (GB/s) that `threads` threads move in a working set of `bytes` bytes,
/// each in its own share and over again, for `seconds` seconds. A copy counts what it reads and
/// what it writes. Several loops take turns and the fastest counts: reads from one address or four,
/// copies with ordinary stores or by streaming stores.
///
/// ```
/// use raptors_arrow::dispatch::{Traffic, bandwidth};
///
/// assert!(bandwidth(Traffic::Read, 1 << 16, 1, 0.001)? > 0.0);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::OptionValue`] for a size, thread count or time that cannot be measured, and
/// [`Error::OutOfMemory`].
pub fn bandwidth(traffic: Traffic, bytes: usize, threads: usize, seconds: f64) -> Result<f64> {
    run::call("bandwidth", || {
        let refuse = |option, expected: &'static str, got| {
            let expected = expected.into();
            Err(Error::OptionValue { option, expected, got })
        };
        if !(1..=settings::MAX_THREADS).contains(&threads) {
            return refuse("threads", "1 to 1024", threads.to_string());
        }
        if bytes < 2 * 8 * LEAST_WORDS * threads {
            return refuse("nbytes", "at least 1024 for each thread", bytes.to_string());
        }
        if bytes > machine().memory / 2 {
            return refuse("nbytes", "at most half of the memory", bytes.to_string());
        }
        if !(seconds > 0.0 && seconds <= 60.0) {
            return refuse("seconds", "more than 0 and at most 60", seconds.to_string());
        }
        let mut workspace = Arena::new(bytes)?;
        moved(traffic, workspace.first(bytes), threads, seconds)
    })
}

/// Measures everything in [`NAMES`], in about 5 s and at most 10 s. `progress` is told of each step:
/// how many are done, how many there are, and what comes; it returns `false` to stop.
///
/// # Errors
///
/// [`Error::Interrupted`] if `progress` said stop, and [`Error::OutOfMemory`].
pub fn measure(mut progress: impl FnMut(usize, usize, &str) -> bool) -> Result<Measurements> {
    let machine = machine();
    let steps = ROUNDS * NAMES.len();
    let most =
        MemoryLevel::ALL.map(|memory| memory.bytes(machine, machine.cores)).into_iter().max();
    // Made once somebody was told what takes so long: fresh pages.
    let mut workspace = None;
    let begun = Instant::now();
    let mut samples = NAMES.map(|_| Vec::with_capacity(ROUNDS));
    for step in 0..steps {
        let figure = step % NAMES.len();
        if !progress(step, steps, NAMES[figure]) {
            return Err(Error::Interrupted);
        }
        if step >= NAMES.len() && begun.elapsed() > ENOUGH {
            continue;
        }
        samples[figure].push(match Figure::of(figure) {
            Figure::Wake => wake_ns()?,
            Figure::Bandwidth(traffic, memory, threads) => {
                let workspace = match &mut workspace {
                    Some(workspace) => workspace,
                    none => none.insert(Arena::new(most.unwrap_or(0))?),
                };
                let words = workspace.first(memory.bytes(machine, threads));
                moved(traffic, words, threads, SECONDS_EACH)?
            }
        });
    }
    progress(steps, steps, "");
    let mut found = samples.each_ref().map(|samples| median(samples.clone()));
    // A machine that is busy in most rounds may be idle in one, and a call waits for no worker.
    found[0] = samples[0].iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Measurements::new(found))
}

/// One of [`NAMES`].
enum Figure {
    Wake,
    Bandwidth(Traffic, MemoryLevel, usize),
}

impl Figure {
    /// The names are: the wake, then reads and copies, at each level of memory, by one thread and by all.
    fn of(index: usize) -> Self {
        let Some(index) = index.checked_sub(1) else { return Self::Wake };
        let traffic = if index < 8 { Traffic::Read } else { Traffic::Copy };
        let threads = if index.is_multiple_of(2) { 1 } else { machine().cores };
        Self::Bandwidth(traffic, MemoryLevel::ALL[index / 2 % 4], threads)
    }
}

/// Where the words lie.
#[derive(Clone, Copy)]
enum MemoryLevel {
    L1,
    L2,
    Llc,
    Memory,
}

impl MemoryLevel {
    const ALL: [Self; 4] = [Self::L1, Self::L2, Self::Llc, Self::Memory];

    /// Bytes of a working set that lies there and nowhere nearer.
    fn bytes(self, machine: &Machine, threads: usize) -> usize {
        let Machine { l1, l2, llc, .. } = *machine;
        match self {
            Self::L1 => l1 / 2 * threads,
            Self::L2 => l2 / 2 * threads,
            // Shares of four times the near cache, while they leave room in the far one.
            Self::Llc => (4 * l2 * threads).min(llc / 2).max(l2 / 2 * threads),
            Self::Memory => (4 * llc).max(64 << 20).min(machine.memory / 8),
        }
        .min(MOST_BYTES)
        .max(2 * 8 * LEAST_WORDS * threads)
    }
}

/// Words that are all written and begin with a cache line.
struct Arena {
    words: Vec<u64>,
    head: usize,
}

impl Arena {
    /// In huge pages where the system has them, as NumPy's arrays and our own outputs are.
    #[allow(unsafe_code)]
    fn new(bytes: usize) -> Result<Self> {
        let len = bytes / 8 + 8;
        let mut words: Vec<u64> = Vec::new();
        words.try_reserve_exact(len).map_err(|_| Error::OutOfMemory { bytes })?;
        #[cfg(target_os = "linux")]
        if bytes >= 4 << 20 {
            let start = words.as_mut_ptr().cast::<u8>();
            let head = start.align_offset(4096);
            let pages = (len * 8 - head) / 4096;
            // SAFETY: whole pages inside the vector's own allocation of `len` words; advice
            // changes no contents, and a refusal is harmless.
            unsafe { libc::madvise(start.add(head).cast(), pages * 4096, libc::MADV_HUGEPAGE) };
        }
        // The first touch of so much memory may take seconds.
        run::in_steps(0..len, 1 << 20, |range| {
            words.resize(range.end, 1);
            Ok(())
        })?;
        let head = words.as_ptr().align_offset(64).min(8);
        Ok(Self { words, head })
    }

    /// The first `bytes` bytes.
    fn first(&mut self, bytes: usize) -> &mut [u64] {
        &mut self.words[self.head..self.head + bytes / 8]
    }
}

/// Bytes per nanosecond that `threads` threads move in `words`, with the fastest loop.
fn moved(traffic: Traffic, words: &mut [u64], threads: usize, seconds: f64) -> Result<f64> {
    let share = words.len() / threads;
    let mut best = 0.0;
    match traffic {
        Traffic::Read => {
            for read in [read_in_order, read_four_places] {
                let shares = words.chunks_exact(share).take(threads);
                let rate = together(shares, |words, start| {
                    let runs = Runs::new(words.len());
                    runs.rate(seconds / 2.0, start, |i| read(&words[runs.at(i)]))
                })?;
                best = f64::max(best, rate);
            }
        }
        Traffic::Copy => {
            for copy in [copy_plainly, copy_at_level, copy_streaming] {
                let shares = words.chunks_exact_mut(share).take(threads);
                let rate = together(shares, |words, start| {
                    let (from, to) = words.split_at_mut(words.len() / 2);
                    let runs = Runs::new(from.len());
                    let run = |i| copy(&mut to[runs.at(i)], &from[runs.at(i)]);
                    2.0 * runs.rate(seconds / 3.0, start, run)
                })?;
                best = f64::max(best, rate);
            }
        }
    }
    Ok(best)
}

/// How often the caller looks whether the threads are done: a sleep disturbs no measurement.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Runs `body` on each share, one thread each, all at once; gives the sum of their results. The
/// threads are started once and work until the time is over, so that no wake is measured.
fn together<S: Send>(
    shares: impl ExactSizeIterator<Item = S>,
    body: impl Fn(S, &Gate) -> f64 + Sync,
) -> Result<f64> {
    let asked = shares.len();
    let (body, gate) = (&body, &Gate::new());
    std::thread::scope(|scope| {
        let start =
            |share| std::thread::Builder::new().spawn_scoped(scope, move || body(share, gate)).ok();
        let threads: Vec<_> = shares.map_while(start).collect();
        gate.open_for(threads.len());
        let started = threads.len();
        let interrupt = Interrupt::new();
        while !threads.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(LOOK_EVERY);
            if interrupt.asked() {
                gate.stop.store(true, Ordering::Relaxed);
            }
        }
        let sum = threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum();
        if gate.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if started == asked {
            return Ok(sum);
        }
        let reason = format!("the system starts only {started} threads");
        Err(Error::Setting { variable: "threads", value: asked.to_string(), reason })
    })
}

/// Holds threads until all have come. How many that are is known only when all are started: a
/// barrier would wait for ever for one that the system refused.
struct Gate {
    come: AtomicUsize,
    expected: AtomicUsize,
    /// Whether the measurement was interrupted.
    stop: AtomicBool,
}

impl Gate {
    fn new() -> Self {
        let (come, expected) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        Self { come, expected, stop: AtomicBool::new(false) }
    }

    fn open_for(&self, threads: usize) {
        self.expected.store(threads, Ordering::Release);
    }

    fn wait(&self) {
        self.come.fetch_add(1, Ordering::AcqRel);
        while self.come.load(Ordering::Acquire) < self.expected.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// A share cut into runs of one length, each a sample; a share shorter than a sample is one run,
/// moved several times for a sample.
#[derive(Clone, Copy)]
struct Runs {
    len: usize,
    count: usize,
    repeats: usize,
}

impl Runs {
    fn new(share: usize) -> Self {
        let count = share.div_ceil(SAMPLE_WORDS);
        let len = share / count;
        Self { len, count, repeats: (SAMPLE_WORDS / len).max(1) }
    }

    fn at(self, i: usize) -> std::ops::Range<usize> {
        i * self.len..(i + 1) * self.len
    }

    /// Bytes per nanosecond of `run`, by the median of its samples.
    fn rate(self, seconds: f64, start: &Gate, mut run: impl FnMut(usize)) -> f64 {
        // Into the caches; what is too large for them is not worth the time.
        let begun = Instant::now();
        for i in 0..self.count {
            run(i);
            if begun.elapsed().as_secs_f64() > seconds || start.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        start.wait();
        let mut samples = Vec::new();
        let begun = Instant::now();
        let mut last = begun;
        for i in (0..self.count).cycle() {
            for _ in 0..self.repeats {
                run(i);
            }
            let now = Instant::now();
            samples.push((now - last).as_nanos() as f64);
            last = now;
            if (now - begun).as_secs_f64() >= seconds || start.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        (self.len * self.repeats * 8) as f64 / median(samples).max(1.0)
    }
}

/// Reads every word in order, as the kernels do. Eight accumulators of a register each, so that
/// nothing but loads binds.
struct Read<'a>(&'a [u64]);

impl Body for Read<'_> {
    type Out = u64;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> u64 {
        let mut lanes = [0u64; 32];
        let (chunks, rest) = self.0.as_chunks::<32>();
        for chunk in chunks {
            for (lane, word) in lanes.iter_mut().zip(chunk) {
                *lane |= word;
            }
        }
        lanes.iter().chain(rest).fold(0, |all, word| all | word)
    }
}

/// Reads every word, from four addresses at once: the prefetcher follows each, and memory gives a
/// quarter more than to one (docs/perf/threads.md).
struct ReadFour<'a>(&'a [u64]);

impl Body for ReadFour<'_> {
    type Out = u64;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> u64 {
        let (lines, rest) = self.0.as_chunks::<8>();
        let quarter = lines.len() / 4;
        let (fours, more) = lines.split_at(4 * quarter);
        let (first, second) = fours.split_at(2 * quarter);
        let [(a, b), (c, d)] = [first.split_at(quarter), second.split_at(quarter)];
        let mut lanes = [[0u64; 8]; 4];
        for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
            for (lanes, line) in lanes.iter_mut().zip([a, b, c, d]) {
                for (lane, word) in lanes.iter_mut().zip(line) {
                    *lane |= word;
                }
            }
        }
        let rest = more.iter().flatten().chain(rest);
        lanes.iter().flatten().chain(rest).fold(0, |all, word| all | word)
    }
}

fn read_in_order(words: &[u64]) {
    black_box(machine().level.run(Read(words)));
}

fn read_four_places(words: &[u64]) {
    black_box(machine().level.run(ReadFour(words)));
}

fn copy_plainly(to: &mut [u64], from: &[u64]) {
    black_box(to).copy_from_slice(from);
}

/// As a kernel stores. The compiler would make a call of `memcpy` of a loop that only copies.
fn copy_at_level(to: &mut [u64], from: &[u64]) {
    struct Xor<'a>(&'a mut [u64], &'a [u64], u64);
    impl Body for Xor<'_> {
        type Out = ();

        #[inline(always)]
        fn run<S: Simd>(self, _: S) {
            for (to, from) in self.0.iter_mut().zip(self.1) {
                *to = from ^ self.2;
            }
        }
    }
    machine().level.run(Xor(black_box(to), from, black_box(0)));
}

fn copy_streaming(to: &mut [u64], from: &[u64]) {
    simd::stream(black_box(to), from, &[]);
    simd::stream_fence();
}

/// Nanoseconds until a sleeping worker has begun its task and its end is known, through the same
/// pool as every call. The caller keeps its core busy meanwhile, as it does in a call. The lower
/// decile: the system puts some workers on the caller's core, or on one that is busy, where they
/// wait for their turn (3 ms here); a call loses the help of such a worker, but finds its tasks
/// done when it ends.
fn wake_ns() -> Result<f64> {
    let backend = Backend::Native(machine().level);
    let plan = Plan { backend, threads: 2, task_bytes: 0, store: Store::Cached };
    let caller = std::thread::current().id();
    let mut samples = Vec::with_capacity(WAKES);
    let begun = Instant::now();
    let interrupt = Interrupt::new();
    while samples.len() < WAKES && begun.elapsed() < WAKES_WITHIN {
        std::thread::sleep(ASLEEP_AFTER);
        if interrupt.asked() {
            return Err(Error::Interrupted);
        }
        let woken = AtomicBool::new(false);
        let start = Instant::now();
        run::each(
            &plan,
            vec![(), ()],
            || (),
            |(), ()| {
                if std::thread::current().id() != caller {
                    woken.store(true, Ordering::Release);
                }
                while !woken.load(Ordering::Acquire) && start.elapsed() < WAKE_TIMEOUT {
                    std::hint::spin_loop();
                }
            },
        )?;
        samples.push(start.elapsed().as_nanos() as f64);
        if !woken.load(Ordering::Relaxed) {
            break; // no worker can be started here
        }
    }
    Ok(quantile(samples, 0.1))
}

fn median(samples: Vec<f64>) -> f64 {
    quantile(samples, 0.5)
}

fn quantile(mut samples: Vec<f64>, share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get((samples.len() as f64 * share) as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_in_the_order_of_their_names() {
        for (i, name) in NAMES.iter().enumerate() {
            let said = match Figure::of(i) {
                Figure::Wake => "wake_ns".to_owned(),
                Figure::Bandwidth(traffic, memory, _) => {
                    let memory = match memory {
                        MemoryLevel::L1 => "l1",
                        MemoryLevel::L2 => "l2",
                        MemoryLevel::Llc => "llc",
                        MemoryLevel::Memory => "memory",
                    };
                    let who = if i % 2 == 1 { "one" } else { "all" };
                    format!("{traffic:?}_{memory}_{who}").to_lowercase()
                }
            };
            assert_eq!(&said, name);
        }
    }

    #[test]
    fn working_sets_are_capped_whatever_the_caches() {
        let (l1, l2, llc, memory) = (64 << 10, 4 << 20, 512 << 20, 64 << 30);
        let large = Machine { l1, l2, llc, memory, cores: 1024, ..machine().clone() };
        for memory in MemoryLevel::ALL {
            for threads in [1, 64, 1024] {
                let bytes = memory.bytes(&large, threads);
                assert!(bytes <= MOST_BYTES && bytes >= 2 * 8 * LEAST_WORDS * threads, "{bytes}");
            }
        }
        assert_eq!(MemoryLevel::Memory.bytes(&large, 1), MOST_BYTES);
    }

    #[test]
    fn runs_cover_a_share_evenly() {
        for share in [64, 1000, SAMPLE_WORDS - 1, SAMPLE_WORDS, SAMPLE_WORDS + 1, 10_000_019] {
            let runs = Runs::new(share);
            assert!(runs.at(runs.count - 1).end <= share);
            assert!(share - runs.at(runs.count - 1).end < runs.count, "{share}");
            assert!(runs.len * runs.repeats <= SAMPLE_WORDS && runs.repeats >= 1, "{share}");
        }
    }

    #[test]
    fn every_copy_copies() {
        for copy in [copy_plainly, copy_at_level, copy_streaming] {
            let from: Vec<u64> = (0..1003).collect();
            let mut to = vec![0; 1003];
            copy(&mut to, &from);
            assert_eq!(to, from);
        }
        let words: Vec<u64> = (0..77).map(|i| 1 << (i % 64)).collect();
        assert_eq!(machine().level.run(Read(&words)), u64::MAX);
        assert_eq!(machine().level.run(ReadFour(&words)), u64::MAX);
        // Every single word counts.
        for i in 0..words.len() {
            let mut one = vec![0; words.len()];
            one[i] = 1;
            assert_eq!(machine().level.run(ReadFour(&one)), 1, "{i}");
            assert_eq!(machine().level.run(Read(&one)), 1, "{i}");
        }
    }

    #[test]
    fn threads_that_work_together_start_together() {
        let sum = together([1.0, 2.0, 4.0].into_iter(), |x, gate| {
            gate.wait();
            assert_eq!(gate.come.load(Ordering::Acquire), 3);
            x
        });
        assert_eq!(sum, Ok(7.0));
    }

    #[test]
    fn a_wake_takes_some_time() {
        let ns = wake_ns().unwrap();
        assert!(ns > 0.0 && ns.is_finite(), "{ns}");
    }
}
