//! The plan of a call: a pure function of the work, the machine and the settings.
//!
//! No data is touched, nothing is measured, and every threshold that chooses threads, stores or a
//! backend is in this file; sizes of tiles and blocks stand beside the loops that use them. It
//! weighs the bytes that must move against the cost of waking a thread; there are no special
//! sizes. `docs/perf/threads.md` and `docs/perf/stores.md` hold the figures.

use std::fmt;

use super::settings::BackendChoice;
use super::{Level, Machine, Settings};

/// A parallel plan must be expected to take at most this share of the serial time: a machine
/// busy with other work wakes threads late, and two threads must never lose to one.
const WORTH_WAKING: f64 = 0.9;

/// What each further worker adds to the time until all have begun, in nanoseconds.
const WAKE_EACH_NS: f64 = 2_000.0;

/// Share of its own bandwidth that each further core adds at least while the data lies in memory,
/// until `Machine::far_scaling` is reached.
const MEMORY_GAIN: f64 = 0.5;

/// Output bytes from which stores bypass the cache, as a share of the last-level cache.
const STREAM_FROM_LLC_SHARE: f64 = 0.5;

/// Tasks per thread: enough that a thread which is held up leaves little to the others.
const TASKS_PER_THREAD: usize = 8;

/// Bytes of the smallest and the largest task. Below, handing tasks out costs more than 1 %;
/// above, an interrupt waits.
const TASK_BYTES: std::ops::RangeInclusive<usize> = (64 << 10)..=(1 << 20);

/// Bytes of a row below which a task that takes some columns reads short pieces, which are not
/// prefetched: plain sums are then not shared by columns (docs/perf/lanes.md).
pub(crate) const SHORT_PIECE: usize = 2048;

/// Bytes from which they are shared by even and odd rows instead; below, one thread is as fast.
pub(crate) const WORTH_HALVING: usize = 3 << 20;

/// What kind of work it is, as far as the plan cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Reads much, writes little.
    Reduction,
    /// Writes about as much as it reads.
    Elementwise,
}

/// The work of one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Its kind.
    pub family: Family,
    /// Bytes of input that must be read.
    pub bytes_read: usize,
    /// Bytes of output that must be written.
    pub bytes_written: usize,
    /// Whether vDSP has a function for it.
    pub has_vdsp: bool,
}

impl Work {
    /// Bytes that must move.
    pub fn bytes(&self) -> usize {
        self.bytes_read.saturating_add(self.bytes_written)
    }
}

/// Which code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Our kernels, at an instruction set.
    Native(Level),
    /// Accelerate's vDSP.
    Vdsp,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(level) => write!(f, "native ({level})"),
            Self::Vdsp => f.write_str("vdsp"),
        }
    }
}

/// How outputs are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Through the cache.
    Cached,
    /// By streaming stores, which bypass the cache.
    Streaming,
}

/// How a call runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Which code runs.
    pub backend: Backend,
    /// Threads, the calling one included.
    pub threads: usize,
    /// Bytes that one task moves, about.
    pub task_bytes: usize,
    /// How outputs are stored.
    pub store: Store,
}

impl Plan {
    /// The instruction set for parts that no vendor library runs.
    pub fn level(&self, machine: &Machine) -> Level {
        match self.backend {
            Backend::Native(level) => level,
            Backend::Vdsp => machine.level,
        }
    }
}

/// Plans a call.
pub fn plan(work: &Work, machine: &Machine, settings: &Settings) -> Plan {
    let level = settings.simd.unwrap_or(machine.level);
    let backend =
        if takes_vdsp(work, machine, settings) { Backend::Vdsp } else { Backend::Native(level) };
    let most = settings.threads.unwrap_or(machine.cores).max(1);
    let threads = if settings.exact_threads { most } else { best_threads(work, machine, most) };
    let streams = work.bytes_written as f64 >= machine.llc as f64 * STREAM_FROM_LLC_SHARE
        && level.has_streaming_stores()
        && backend != Backend::Vdsp;
    let store = match settings.store {
        Some(store) => store,
        None if streams => Store::Streaming,
        None => Store::Cached,
    };
    let share = work.bytes() / (threads * TASKS_PER_THREAD);
    Plan {
        backend,
        threads,
        task_bytes: share.clamp(*TASK_BYTES.start(), *TASK_BYTES.end()),
        store,
    }
}

fn takes_vdsp(work: &Work, machine: &Machine, settings: &Settings) -> bool {
    let chosen = settings.backend.unwrap_or(BackendChoice::Vdsp);
    machine.has_vdsp
        && work.has_vdsp
        && match work.family {
            Family::Elementwise => chosen != BackendChoice::Native,
            Family::Reduction => chosen == BackendChoice::VdspReductions,
        }
}

/// The thread count of smallest expected time.
fn best_threads(work: &Work, machine: &Machine, most: usize) -> usize {
    let serial = expected_ns(work, machine, 1);
    (2..=most.min(machine.cores))
        .map(|threads| (threads, expected_ns(work, machine, threads)))
        .filter(|(_, ns)| *ns <= serial * WORTH_WAKING)
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(1, |(threads, _)| threads)
}

/// Nanoseconds the call is expected to take: the caller works alone until the workers are awake,
/// then all share what is left.
fn expected_ns(work: &Work, machine: &Machine, threads: usize) -> f64 {
    let alone = work.bytes() as f64 / bandwidth(work, machine, 1);
    if threads == 1 {
        return alone;
    }
    let woken = machine.wake_ns + WAKE_EACH_NS * (threads - 1) as f64;
    let left = (alone - woken).max(0.0) * bandwidth(work, machine, 1);
    woken + left / bandwidth(work, machine, threads)
}

/// Bytes per nanosecond that `threads` cores move together.
fn bandwidth(work: &Work, machine: &Machine, threads: usize) -> f64 {
    let further = (threads - 1) as f64;
    if work.bytes() <= machine.l2.saturating_mul(threads) {
        machine.near_bandwidth * threads as f64
    } else if work.bytes() <= machine.llc {
        machine.near_bandwidth * (1.0 + machine.shared_gain * further)
    } else {
        // What all cores reach is spread over them, if it is more than is usual for each.
        let others = machine.cores.saturating_sub(1).max(1) as f64;
        let gain = MEMORY_GAIN.max((machine.far_scaling - 1.0) / others);
        let scaling = (1.0 + gain * further).min(machine.far_scaling);
        machine.far_bandwidth * scaling
    }
}
