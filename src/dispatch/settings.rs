//! What the user set: environment variables, `set_num_threads`, and scopes.
//!
//! | variable | values | default |
//! |---|---|---|
//! | `RAPTORS_NUM_THREADS` | 1 to 1024 | the cores this process may use |
//! | `RAPTORS_SIMD` | `portable`, `avx2`, `avx512`, `neon` | the best this CPU has |
//! | `RAPTORS_BACKEND` | `native`, `vdsp`, `vdsp-reductions` | `vdsp` on macOS, else `native` |
//! | `RAPTORS_POOL_BYTES` | bytes, or with `K`, `M`, `G` | the smaller of 2 GiB and 1/8 of memory |
//! | `RAPTORS_PROFILE` | a file, or `off` | `raptors-arrow/profile.json` in the user's cache directory |
//!
//! They are read once, at the first call. A value that cannot be honoured is an error of every
//! call, not a silent default.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Level, Store, machine};
use crate::error::{Error, Result};

/// The most threads that can be asked for.
pub const MAX_THREADS: usize = 1024;

/// Which library runs the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// Our own kernels everywhere.
    Native,
    /// vDSP for elementwise work, whose results agree to the bit.
    Vdsp,
    /// vDSP for reductions too: faster on some machines, other bits.
    VdspReductions,
}

/// What a call is made to do, over what the plan would choose. `None` leaves it to the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The most threads a call may use; with `exact_threads`, just as many.
    pub threads: Option<usize>,
    /// Use `threads` threads however small the work: for tests and measurements.
    pub exact_threads: bool,
    /// The instruction set.
    pub simd: Option<Level>,
    /// The library.
    pub backend: Option<BackendChoice>,
    /// The kind of stores, for tests and measurements.
    pub store: Option<Store>,
    /// The limit of the pool of output buffers.
    pub pool_bytes: Option<usize>,
}

impl Settings {
    /// Reads settings from a source of variables, as from the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for a value that cannot be honoured here.
    pub fn from_variables<V: Into<OsString>>(get: impl Fn(&str) -> Option<V>) -> Result<Self> {
        let read = |variable: &'static str| -> Result<Option<Variable>> {
            let Some(value) = get(variable) else { return Ok(None) };
            match value.into().into_string() {
                Ok(value) => {
                    let value = value.trim().to_owned();
                    Ok((!value.is_empty()).then_some((variable, value)))
                }
                Err(value) => {
                    refuse((variable, value.to_string_lossy().into_owned()), "it is not UTF-8 text")
                }
            }
        };
        Ok(Self {
            threads: read("RAPTORS_NUM_THREADS")?.map(threads).transpose()?,
            simd: read("RAPTORS_SIMD")?.map(simd).transpose()?,
            backend: read("RAPTORS_BACKEND")?.map(backend).transpose()?,
            pool_bytes: read("RAPTORS_POOL_BYTES")?.map(bytes).transpose()?,
            ..Self::default()
        })
    }

    fn over(self, base: Self) -> Self {
        Self {
            threads: self.threads.or(base.threads),
            exact_threads: self.exact_threads || base.exact_threads,
            simd: self.simd.or(base.simd),
            backend: self.backend.or(base.backend),
            store: self.store.or(base.store),
            pool_bytes: self.pool_bytes.or(base.pool_bytes),
        }
    }
}

type Variable = (&'static str, String);

fn refuse<T>((variable, value): Variable, reason: impl Into<String>) -> Result<T> {
    Err(Error::Setting { variable, value, reason: reason.into() })
}

fn threads(variable: Variable) -> Result<usize> {
    match variable.1.parse() {
        Ok(n @ 1..=MAX_THREADS) => Ok(n),
        _ => refuse(variable, format!("expected a whole number from 1 to {MAX_THREADS}")),
    }
}

fn simd(variable: Variable) -> Result<Level> {
    let names = |levels: &mut dyn Iterator<Item = Level>| {
        levels.map(|level| level.to_string()).collect::<Vec<_>>().join(", ")
    };
    match variable.1.to_lowercase().parse::<Level>() {
        Ok(level) if level.is_available() => Ok(level),
        Ok(_) => {
            let here = names(&mut Level::available());
            refuse(variable, format!("this CPU does not run it; it runs {here}"))
        }
        Err(()) => refuse(variable, format!("expected {}", names(&mut Level::ALL.into_iter()))),
    }
}

fn backend(variable: Variable) -> Result<BackendChoice> {
    match variable.1.as_str() {
        "native" => Ok(BackendChoice::Native),
        "vdsp" | "vdsp-reductions" if !machine().has_vdsp => {
            refuse(variable, "vDSP is part of macOS, and this is another system")
        }
        "vdsp" => Ok(BackendChoice::Vdsp),
        "vdsp-reductions" => Ok(BackendChoice::VdspReductions),
        _ => refuse(variable, "expected native, vdsp or vdsp-reductions"),
    }
}

fn bytes(variable: Variable) -> Result<usize> {
    let text = variable.1.to_uppercase();
    let (number, scale) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) if text.ends_with('K') => (number, 1usize << 10),
        Some(number) if text.ends_with('M') => (number, 1 << 20),
        Some(number) => (number, 1 << 30),
        None => (text.as_str(), 1),
    };
    match number.trim().parse::<usize>().ok().and_then(|n| n.checked_mul(scale)) {
        Some(bytes) => Ok(bytes),
        None => refuse(variable, "expected a number of bytes, such as 1048576, 64M or 1G"),
    }
}

/// Where the profile of this machine is kept; `None` if there shall be none.
pub fn profile_path() -> Option<PathBuf> {
    profile_path_from(|name| std::env::var_os(name))
}

/// The same from any source of variables. `RAPTORS_PROFILE` names the file, or is `off` or empty;
/// else it lies where the system keeps what a program can make again.
pub fn profile_path_from(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(chosen) = get("RAPTORS_PROFILE") {
        let off = chosen.is_empty() || chosen.eq_ignore_ascii_case("off");
        return (!off).then(|| PathBuf::from(chosen));
    }
    // A relative one must be ignored, says the XDG specification.
    let directory = |name| get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = if cfg!(target_os = "windows") {
        directory("LOCALAPPDATA")?
    } else if cfg!(target_os = "macos") {
        directory("HOME")?.join("Library").join("Caches")
    } else {
        directory("XDG_CACHE_HOME").or_else(|| Some(directory("HOME")?.join(".cache")))?
    };
    Some(cache.join("raptors-arrow").join("profile.json"))
}

/// 0: not set.
static NUM_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SCOPE: RefCell<Settings> = RefCell::new(Settings::default());
}

/// The settings in force on this thread: the innermost [`with_settings`], then
/// [`set_num_threads`], then the environment.
///
/// # Errors
///
/// [`Error::Setting`] for an environment variable that cannot be honoured here.
pub fn settings() -> Result<Settings> {
    static ENVIRONMENT: OnceLock<Result<Settings>> = OnceLock::new();
    let environment =
        ENVIRONMENT.get_or_init(|| Settings::from_variables(|name| std::env::var_os(name)));
    let mut base = environment.clone()?;
    match NUM_THREADS.load(Ordering::Relaxed) {
        0 => {}
        n => base.threads = Some(n),
    }
    Ok(SCOPE.with(|scope| scope.borrow().clone()).over(base))
}

/// The instruction set that plans of this thread have.
pub(crate) fn level() -> Level {
    settings().ok().and_then(|settings| settings.simd).unwrap_or(machine().level)
}

/// The most threads a call on this thread may use.
///
/// # Errors
///
/// [`Error::Setting`] for an environment variable that cannot be honoured here.
pub fn num_threads() -> Result<usize> {
    Ok(settings()?.threads.unwrap_or(machine().cores))
}

/// Sets the most threads that a call of this process may use, over the environment.
///
/// # Errors
///
/// [`Error::Setting`] unless `n` is 1 to [`MAX_THREADS`].
pub fn set_num_threads(n: usize) -> Result<()> {
    threads(("num_threads", n.to_string()))?;
    NUM_THREADS.store(n, Ordering::Relaxed);
    Ok(())
}

/// Runs `f` with `settings` in force on this thread, over those around it.
///
/// ```
/// use raptors_arrow::dispatch::{Level, Settings, num_threads, with_settings};
///
/// let one = Settings { threads: Some(1), simd: Some(Level::Portable), ..Settings::default() };
/// assert_eq!(with_settings(one, num_threads), Ok(1));
/// ```
pub fn with_settings<R>(settings: Settings, f: impl FnOnce() -> R) -> R {
    struct Restore(Settings);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPE.with(|scope| scope.swap(&RefCell::new(std::mem::take(&mut self.0))));
        }
    }
    let outer = SCOPE.with(|scope| {
        let outer = scope.borrow().clone();
        *scope.borrow_mut() = settings.over(outer.clone());
        outer
    });
    let _restore = Restore(outer);
    f()
}
