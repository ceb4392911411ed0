//! What this machine is: read once, from the system and from its profile.

use std::sync::OnceLock;

use super::profile::{Measurements, ProfileReport};
use super::{Level, settings};

/// The facts and speeds that [`plan`](super::plan()) weighs. Speeds are bytes per nanosecond,
/// which is GB/s.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The model of the CPU, as the system names it; empty if it does not.
    pub cpu: String,
    /// Cores this process may use, by affinity and cgroup quota.
    pub cores: usize,
    /// The fastest instruction set.
    pub level: Level,
    /// Bytes of level-1 data cache of a core.
    pub l1: usize,
    /// Bytes of level-2 cache of a core.
    pub l2: usize,
    /// Bytes of the last-level cache.
    pub llc: usize,
    /// Bytes of memory this process may use.
    pub memory: usize,
    /// Whether Accelerate's vDSP is here.
    pub has_vdsp: bool,
    /// Nanoseconds until a sleeping worker has begun and its end is known.
    pub wake_ns: f64,
    /// Bytes per nanosecond that one core reads from its own caches.
    pub near_bandwidth: f64,
    /// Bytes per nanosecond that one core reads from memory.
    pub far_bandwidth: f64,
    /// Bytes per nanosecond that all cores together read from memory, over `far_bandwidth`.
    pub far_scaling: f64,
    /// Share of its own bandwidth that each further core adds while the data lies in the shared
    /// cache.
    pub shared_gain: f64,
}

/// Nanoseconds until a worker that is awake has begun.
const AWAKE_NS: f64 = 6_000.0;

impl Machine {
    /// A machine like the one that the defaults were measured on (docs/perf/threads.md): two
    /// cores, AVX2, 512 KiB L2, 32 MiB L3. For tests of the plan.
    pub fn reference() -> Self {
        Self {
            cpu: String::new(),
            cores: 2,
            level: Level::Avx2,
            l1: 32 << 10,
            l2: 512 << 10,
            llc: 32 << 20,
            memory: 24 << 30,
            has_vdsp: false,
            wake_ns: 44_000.0,
            near_bandwidth: 50.0,
            far_bandwidth: 23.0,
            far_scaling: 1.5,
            shared_gain: 0.9,
        }
    }

    /// This machine as the system describes it, with the default speeds.
    pub fn detect() -> Self {
        let reference = Self::reference();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            cpu: system::cpu().unwrap_or_default(),
            cores,
            level: Level::best(),
            l1: system::cache_bytes(1).unwrap_or(reference.l1),
            l2: system::cache_bytes(2).unwrap_or(reference.l2),
            llc: system::cache_bytes(3).or_else(|| system::cache_bytes(2)).unwrap_or(reference.llc),
            memory: system::memory_bytes().unwrap_or(4 << 30),
            has_vdsp: cfg!(any(target_os = "macos", test)),
            // A memory controller feeds a few cores: more than four add nothing anywhere we know.
            far_scaling: (1.0 + 0.55 * (cores.min(4) as f64 - 1.0)).max(1.0),
            ..reference
        }
    }

    /// The same machine while its workers are awake: a call is shared at once.
    #[must_use]
    pub fn awake(&self) -> Self {
        Self { wake_ns: AWAKE_NS, ..self.clone() }
    }

    /// The same machine with measured speeds. The plan compares times of work that reads, so
    /// they are those of reading; noise may not make more threads slower than one.
    #[must_use]
    pub fn measured(self, by: &Measurements) -> Self {
        let more = |memory: &str| {
            let speed = |who| by.get(&format!("read_{memory}_{who}"));
            (speed("all") / speed("one")).max(1.0)
        };
        let further = self.cores.saturating_sub(1).max(1) as f64;
        Self {
            wake_ns: by.get("wake_ns"),
            near_bandwidth: by.get("read_llc_one"),
            far_bandwidth: by.get("read_memory_one"),
            far_scaling: more("memory"),
            shared_gain: ((more("llc") - 1.0) / further).min(1.0),
            ..self
        }
    }
}

/// What is known of this machine.
struct Known {
    machine: Machine,
    awake: Machine,
    profile: ProfileReport,
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let machine = Machine::detect();
        let profile = ProfileReport::read(settings::profile_path(), &machine);
        let machine = match &profile.profile {
            Some(profile) => machine.measured(&profile.measurements),
            None => machine,
        };
        Known { awake: machine.awake(), machine, profile }
    })
}

/// This machine.
pub fn machine() -> &'static Machine {
    &known().machine
}

/// This machine while its workers are awake.
pub(super) fn awake() -> &'static Machine {
    &known().awake
}

/// Whether this machine has a profile, and whether this process uses it.
pub fn profile_status() -> &'static ProfileReport {
    &known().profile
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::read_to_string;

    pub(super) fn cpu() -> Option<String> {
        let text = read_to_string("/proc/cpuinfo").ok()?;
        let value = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        // Arm has numbers in memory of a name.
        let arm = || Some(format!("{} {}", value("CPU implementer")?, value("CPU part")?));
        value("model name").or_else(arm)
    }

    pub(super) fn cache_bytes(level: u32) -> Option<usize> {
        (0..8).find_map(|index| {
            let dir = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
            let read = |name: &str| read_to_string(format!("{dir}/{name}")).ok();
            let is_level = read("level")?.trim().parse() == Ok(level);
            let holds_data = read("type")?.trim() != "Instruction";
            if is_level && holds_data { size(read("size")?.trim()) } else { None }
        })
    }

    pub(super) fn memory_bytes() -> Option<usize> {
        let total = read_to_string("/proc/meminfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<usize>().ok()?.checked_mul(1024)
        });
        let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        let cgroup = limits.iter().find_map(|path| read_to_string(path).ok()?.trim().parse().ok());
        total.into_iter().chain(cgroup).min()
    }

    /// `512K`, `32M` as sysfs writes them.
    fn size(text: &str) -> Option<usize> {
        let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: usize = text[..unit].parse().ok()?;
        let scale = match &text[unit..] {
            "" => 1,
            "K" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => return None,
        };
        number.checked_mul(scale)
    }
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
mod system {
    use std::ffi::CStr;

    pub(super) fn cpu() -> Option<String> {
        let mut name = [0u8; 128];
        let mut size = name.len();
        // SAFETY: the name asked for ends in NUL, `name` is `size` bytes long, and nothing is
        // written to the system (null new value of length 0).
        let status = unsafe {
            libc::sysctlbyname(
                c"machdep.cpu.brand_string".as_ptr(),
                name.as_mut_ptr().cast(),
                &raw mut size,
                std::ptr::null_mut(),
                0,
            )
        };
        let text = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
        (status == 0 && !text.is_empty()).then(|| text.to_owned())
    }

    pub(super) fn cache_bytes(level: u32) -> Option<usize> {
        match level {
            1 => value(c"hw.perflevel0.l1dcachesize").or_else(|| value(c"hw.l1dcachesize")),
            2 => value(c"hw.perflevel0.l2cachesize").or_else(|| value(c"hw.l2cachesize")),
            _ => value(c"hw.l3cachesize"),
        }
    }

    pub(super) fn memory_bytes() -> Option<usize> {
        value(c"hw.memsize")
    }

    fn value(name: &CStr) -> Option<usize> {
        let mut value: u64 = 0;
        let mut size = std::mem::size_of::<u64>();
        // SAFETY: `name` ends in NUL, `value` is `size` bytes long, and nothing is written to the
        // system (null new value of length 0).
        let status = unsafe {
            libc::sysctlbyname(
                name.as_ptr(),
                (&raw mut value).cast(),
                &raw mut size,
                std::ptr::null_mut(),
                0,
            )
        };
        (status == 0 && value > 0).then(|| usize::try_from(value).ok()).flatten()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod system {
    pub(super) fn cpu() -> Option<String> {
        None
    }

    pub(super) fn cache_bytes(_: u32) -> Option<usize> {
        None
    }

    pub(super) fn memory_bytes() -> Option<usize> {
        None
    }
}
