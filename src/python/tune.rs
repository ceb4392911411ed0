//! Measuring the machine, its profile, and the plans that follow: for `raptors-arrow tune`.
//!
//! `bandwidth` and `profile_status` are for everybody. What only the command needs has a name that
//! begins with an underscore and is no part of the package.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt};

use super::errors::{Kind, detached, guarded};
use super::option;
use crate::dispatch::{
    self, Family, Machine, Measurements, Profile, Store, Traffic, Work, machine, settings,
};

/// Adds the functions to the module; those of the command not to its ``__all__``.
pub(super) fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(bandwidth, m)?)?;
    m.add_function(wrap_pyfunction!(profile_status, m)?)?;
    m.setattr("_measure", wrap_pyfunction!(measure, m)?)?;
    m.setattr("_model", wrap_pyfunction!(model, m)?)?;
    m.setattr("_plan", wrap_pyfunction!(plan, m)?)?;
    m.setattr("_write_profile", wrap_pyfunction!(write_profile, m)?)?;
    m.setattr("_remove_profile", wrap_pyfunction!(remove_profile, m)?)?;
    m.setattr("_profile_warning", wrap_pyfunction!(profile_warning, m)?)
}

/// Measure how many bytes this machine moves in a nanosecond, which is GB/s.
///
/// Parameters
/// ----------
/// kind
///     ``"read"``, or ``"copy"``: then half of the bytes are read and written to the other half,
///     and both halves count.
/// nbytes
///     Size of the working set, which each of the threads has a share of: at least 1024 for each,
///     at most half of the memory.
/// threads
///     From 1 to 1024.
/// seconds
///     How long to measure, at most 60.
///
/// Returns
/// -------
/// float
///     GB/s: a median of many short samples. Several loops take turns, and the fastest counts.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> ra.bandwidth("read", 16_384, threads=1, seconds=0.001) > 0
/// True
#[pyfunction]
#[pyo3(signature = (kind, nbytes, threads=1, seconds=0.1))]
fn bandwidth(
    py: Python<'_>,
    #[pyo3(from_py_with = traffic)] kind: Traffic,
    #[pyo3(from_py_with = bytes)] nbytes: usize,
    #[pyo3(from_py_with = threads)] threads: usize,
    #[pyo3(from_py_with = seconds)] seconds: f64,
) -> PyResult<f64> {
    guarded(BANDWIDTH, || Ok(detached(py, || dispatch::bandwidth(kind, nbytes, threads, seconds))?))
}

const BANDWIDTH: &str = "bandwidth";

fn traffic(kind: &Bound<'_, PyAny>) -> PyResult<Traffic> {
    match option::word(BANDWIDTH, "kind", kind)?.as_ref() {
        "read" => Ok(Traffic::Read),
        "copy" => Ok(Traffic::Copy),
        other => {
            let message = format!("bandwidth: option kind: expected read or copy, got {other:?}");
            Err(Kind::Value.error(message))
        }
    }
}

fn bytes(nbytes: &Bound<'_, PyAny>) -> PyResult<usize> {
    let n = option::count(BANDWIDTH, "nbytes", "a number of bytes that fit the memory", nbytes)?;
    // What is negative is as far out of range as nothing.
    Ok(usize::try_from(n).unwrap_or(0))
}

fn threads(threads: &Bound<'_, PyAny>) -> PyResult<usize> {
    let n = option::count(BANDWIDTH, "threads", "1 to 1024", threads)?;
    Ok(usize::try_from(n).unwrap_or(0))
}

fn seconds(seconds: &Bound<'_, PyAny>) -> PyResult<f64> {
    seconds.extract().map_err(|_| {
        let expected = "more than 0 and at most 60".to_owned();
        let is_int = seconds.is_instance_of::<PyInt>(); // of a size that no float has
        let wrong = option::refused(BANDWIDTH, "seconds", expected, seconds);
        (if is_int { Kind::Value } else { Kind::Type }).error(wrong.to_string())
    })
}

/// Say whether this machine has a profile, and whether this process uses it.
///
/// Returns
/// -------
/// dict
///     ``path`` of the file, or ``None``; ``state``: ``"used"``, ``"absent"``, ``"off"``,
///     ``"other machine"`` or ``"ignored"``; ``reason`` why it is not used; ``measured_at`` in
///     seconds since 1970, and ``measured``, the values by name, if it is used.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> sorted(ra.profile_status())
/// ['measured', 'measured_at', 'path', 'reason', 'state']
#[pyfunction]
fn profile_status(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let report = dispatch::profile_status();
    let profile = report.profile.as_ref();
    let status = PyDict::new(py);
    status.set_item("path", report.path.as_ref().map(|path| path.display().to_string()))?;
    status.set_item("state", report.state.describe())?;
    status.set_item("reason", report.reason.as_ref())?;
    status.set_item("measured_at", profile.map(|profile| profile.measured_at))?;
    let measured = profile.map(|profile| named(py, profile.measurements.values())).transpose()?;
    status.set_item("measured", measured)?;
    Ok(status)
}

/// A dict in the order that people read it in.
fn named(
    py: Python<'_>,
    values: impl IntoIterator<Item = (&'static str, f64)>,
) -> PyResult<Bound<'_, PyDict>> {
    let named = PyDict::new(py);
    values.into_iter().try_for_each(|(name, value)| named.set_item(name, value))?;
    Ok(named)
}

fn measurements(values: &BTreeMap<String, f64>) -> PyResult<Measurements> {
    Measurements::from_values(values.iter().map(|(name, value)| (name.as_str(), *value)))
        .map_err(|why| Kind::Value.error(format!("tune: {why}")))
}

/// Measure this machine; ``progress(done, steps, name)`` is called before each step.
#[pyfunction]
#[pyo3(name = "_measure")]
fn measure(py: Python<'_>, progress: Py<PyAny>) -> PyResult<Bound<'_, PyDict>> {
    guarded("tune", || {
        let mut raised = None;
        let told = |done: usize, steps: usize, name: &str| {
            // What the callback raises, Ctrl-C among it, ends the measurement.
            let told = Python::attach(|py| progress.call1(py, (done, steps, name)).map(drop));
            told.map_err(|error| raised = Some(error)).is_ok()
        };
        let measured = detached(py, || dispatch::measure(told));
        match raised {
            Some(error) => Err(error),
            None => named(py, measured?.values()),
        }
    })
}

/// The machine in force, or this machine with other measurements.
fn machine_with(values: Option<&BTreeMap<String, f64>>) -> PyResult<Machine> {
    match values {
        Some(values) => Ok(Machine::detect().measured(&measurements(values)?)),
        None => Ok(machine().clone()),
    }
}

/// The speeds that plans weigh: those in force, or those of other measurements.
#[pyfunction]
#[pyo3(name = "_model", signature = (values=None))]
fn model(py: Python<'_>, values: Option<BTreeMap<String, f64>>) -> PyResult<Bound<'_, PyDict>> {
    let machine = machine_with(values.as_ref())?;
    let speeds = [
        ("wake_ns", machine.wake_ns),
        ("near_bandwidth", machine.near_bandwidth),
        ("far_bandwidth", machine.far_bandwidth),
        ("far_scaling", machine.far_scaling),
        ("shared_gain", machine.shared_gain),
    ];
    named(py, speeds)
}

/// Threads and stores that a call would have, in force or with other measurements.
#[pyfunction]
#[pyo3(name = "_plan", signature = (bytes_read, bytes_written, has_vdsp, values=None))]
fn plan(
    bytes_read: usize,
    bytes_written: usize,
    has_vdsp: bool,
    values: Option<BTreeMap<String, f64>>,
) -> PyResult<(usize, &'static str)> {
    let is_reduction = bytes_written < bytes_read / 2;
    let family = if is_reduction { Family::Reduction } else { Family::Elementwise };
    let work = Work { family, bytes_read, bytes_written, has_vdsp };
    let plan = dispatch::plan(&work, &machine_with(values.as_ref())?, &settings::settings()?);
    let store = match plan.store {
        Store::Cached => "cached",
        Store::Streaming => "streaming",
    };
    Ok((plan.threads, store))
}

fn path() -> PyResult<PathBuf> {
    settings::profile_path().ok_or_else(|| {
        PyOSError::new_err(
            "tune: there is no place for a profile: RAPTORS_PROFILE says off, or there is no \
             cache directory; set RAPTORS_PROFILE to a file",
        )
    })
}

/// Keep measurements of this machine for later processes; returns the file.
#[pyfunction]
#[pyo3(name = "_write_profile")]
fn write_profile(values: BTreeMap<String, f64>) -> PyResult<PathBuf> {
    let path = path()?;
    Profile::new(machine(), measurements(&values)?).write(&path)?;
    Ok(path)
}

/// Remove the profile; returns the file and whether there was one.
#[pyfunction]
#[pyo3(name = "_remove_profile")]
fn remove_profile() -> PyResult<(PathBuf, bool)> {
    let path = path()?;
    let removed = dispatch::remove_profile(&path)?;
    Ok((path, removed))
}

/// What the user should be told of the profile. Where there is none, the machine is not looked at.
#[pyfunction]
#[pyo3(name = "_profile_warning")]
fn profile_warning() -> Option<String> {
    if settings::profile_path()?.exists() { dispatch::profile_status().warning() } else { None }
}
