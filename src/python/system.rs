//! The build, the machine, threads and the pool of output buffers.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors::guarded;
use super::option;
use crate::buffer::{self, PoolStats};
use crate::compute::registry;
use crate::dispatch::settings::MAX_THREADS;
use crate::dispatch::{self, Level, machine, num_threads, threads_started};
use crate::error::Error;

/// Optional parts of the crate that are in this build.
const FEATURES: [&str; 1] = ["python"];

/// What this build was compiled for.
fn target() -> String {
    let env = if cfg!(target_env = "gnu") {
        "-gnu"
    } else if cfg!(target_env = "musl") {
        "-musl"
    } else if cfg!(target_env = "msvc") {
        "-msvc"
    } else {
        ""
    };
    format!("{}-{}{env}", std::env::consts::ARCH, std::env::consts::OS)
}

/// What this build is and what machine it runs on.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> sorted(ra.build_info())[:3]
/// ['arch', 'backends', 'cores']
#[pyfunction]
pub(super) fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let machine = machine();
    let info = PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
    info.set_item("target", target())?;
    info.set_item("features", FEATURES)?;
    info.set_item("os", std::env::consts::OS)?;
    info.set_item("arch", std::env::consts::ARCH)?;
    info.set_item("cpu", &machine.cpu)?;
    info.set_item("simd", machine.level.to_string())?;
    let levels: Vec<String> = Level::available().map(|level| level.to_string()).collect();
    info.set_item("simd_available", levels)?;
    let backends: &[&str] = if machine.has_vdsp { &["native", "vdsp"] } else { &["native"] };
    info.set_item("backends", backends)?;
    info.set_item("cores", machine.cores)?;
    info.set_item("num_threads", num_threads()?)?;
    info.set_item("threads_started", threads_started())?;
    info.set_item("l1_bytes", machine.l1)?;
    info.set_item("l2_bytes", machine.l2)?;
    info.set_item("llc_bytes", machine.llc)?;
    info.set_item("memory_bytes", machine.memory)?;
    info.set_item("functions", registry::list_functions().count())?;
    Ok(info)
}

/// The most threads that a call may use.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> ra.get_num_threads() >= 1
/// True
#[pyfunction]
pub(super) fn get_num_threads() -> PyResult<usize> {
    Ok(num_threads()?)
}

/// Set the most threads that a call of this process may use.
///
/// Parameters
/// ----------
/// n
///     From 1 to 1024. It goes over ``RAPTORS_NUM_THREADS``.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> before = ra.get_num_threads()
/// >>> ra.set_num_threads(1)
/// >>> ra.get_num_threads()
/// 1
/// >>> ra.set_num_threads(before)
#[pyfunction]
pub(super) fn set_num_threads(n: &Bound<'_, PyAny>) -> PyResult<()> {
    const FUNCTION: &str = "set_num_threads";
    let expected = format!("a whole number from 1 to {MAX_THREADS}");
    let n = option::count(FUNCTION, "n", &expected, n)?;
    match usize::try_from(n) {
        Ok(threads @ 1..=MAX_THREADS) => Ok(dispatch::set_num_threads(threads)?),
        _ => {
            let got = n.to_string();
            Err(Error::OptionValue { option: "n", expected, got }.in_function(FUNCTION).into())
        }
    }
}

/// What the pool of output buffers holds and has done.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> stats = ra.pool_stats()
/// >>> stats.held_bytes <= stats.limit_bytes
/// True
#[pyclass(frozen, name = "PoolStats", module = "raptors_arrow")]
pub(super) struct PyPoolStats(PoolStats);

#[pymethods]
impl PyPoolStats {
    /// Bytes that wait in the pool for a call.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.0.held_bytes
    }

    /// Buffers that wait in the pool.
    #[getter]
    fn held_buffers(&self) -> usize {
        self.0.held_buffers
    }

    /// Bytes of pooled outputs that arrays still use.
    #[getter]
    fn used_bytes(&self) -> usize {
        self.0.used_bytes
    }

    /// The most bytes that the pool may hold.
    #[getter]
    fn limit_bytes(&self) -> usize {
        self.0.limit_bytes
    }

    /// Outputs that came out of the pool.
    #[getter]
    fn hits(&self) -> u64 {
        self.0.hits
    }

    /// Outputs of a size to be pooled that had to be allocated.
    #[getter]
    fn misses(&self) -> u64 {
        self.0.misses
    }

    fn __repr__(&self) -> String {
        let PoolStats { held_bytes, held_buffers, used_bytes, limit_bytes, hits, misses } = self.0;
        format!(
            "PoolStats(held_bytes={held_bytes}, held_buffers={held_buffers}, \
             used_bytes={used_bytes}, limit_bytes={limit_bytes}, hits={hits}, misses={misses})"
        )
    }
}

/// What the pool of output buffers holds and has done.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> stats = ra.pool_stats()
/// >>> stats.held_bytes <= stats.limit_bytes
/// True
#[pyfunction]
pub(super) fn pool_stats() -> PyResult<PyPoolStats> {
    guarded("pool_stats", || Ok(PyPoolStats(buffer::pool_stats()?)))
}

/// Give back to the system what waits in the pool; returns how many bytes that were.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> ra.release_unused() >= 0
/// True
#[pyfunction]
pub(super) fn release_unused() -> usize {
    buffer::release_unused()
}
