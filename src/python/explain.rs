//! `explain`: how a call would run, in words and as attributes.

use std::fmt::Write as _;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::errors::guarded;
use super::function::Call;
use super::matrix::dtype;
use crate::compute::{Value, registry};
use crate::dispatch::{Backend, Store, machine, num_threads};
use crate::matrix::Matrix;

/// How a call would run.
#[pyclass(frozen, name = "Explanation", module = "raptors_arrow")]
pub(super) struct PyExplanation {
    /// The function.
    #[pyo3(get)]
    function: &'static str,
    /// The view that was taken of the first argument.
    #[pyo3(get)]
    view: String,
    /// Why values were copied to see them as a matrix, or ``None``.
    #[pyo3(get)]
    copied: Option<String>,
    /// The code that runs: ``"native"`` or ``"vdsp"``.
    #[pyo3(get)]
    backend: &'static str,
    /// The instruction set.
    #[pyo3(get)]
    simd: String,
    /// Threads, the calling one included.
    #[pyo3(get)]
    threads: usize,
    /// Bytes that one task moves, about.
    #[pyo3(get)]
    task_bytes: usize,
    /// How outputs are stored: ``"cached"`` or ``"streaming"``.
    #[pyo3(get)]
    store: &'static str,
    /// Bytes of input that must be read.
    #[pyo3(get)]
    bytes_read: usize,
    /// Bytes of output that must be written.
    #[pyo3(get)]
    bytes_written: usize,
    most_threads: usize,
}

#[pymethods]
impl PyExplanation {
    fn __str__(&self) -> String {
        let mut text = format!("{}: how this call would run\n", self.function);
        let mut line = |name: &str, what: String| {
            let _ = writeln!(text, "  {name:<9} {what}");
        };
        line("view", self.view.clone());
        line("copied", self.copied.clone().unwrap_or_else(|| "nothing".to_owned()));
        line("backend", self.backend.to_owned());
        line("simd", self.simd.clone());
        line("threads", format!("{} of {}", self.threads, self.most_threads));
        line("chunk", format!("{} for each task", bytes(self.task_bytes)));
        let store = match self.store {
            "streaming" => "streaming, past the cache",
            _ => "cached, through the cache",
        };
        line("store", store.to_owned());
        let moved = (bytes(self.bytes_read), bytes(self.bytes_written));
        line("moves", format!("{} read, {} written", moved.0, moved.1));
        text.truncate(text.trim_end().len());
        text
    }

    fn __repr__(&self) -> String {
        self.__str__()
    }
}

/// Say how a call would run, without running it.
///
/// Parameters
/// ----------
/// name
///     One of ``list_functions()``.
/// *args
///     The arguments of the call.
/// **options
///     The options of the call.
///
/// Returns
/// -------
/// Explanation
///     Prints as text; its attributes are ``view``, ``copied``, ``backend``, ``simd``,
///     ``threads``, ``task_bytes``, ``store``, ``bytes_read`` and ``bytes_written``.
///
/// Examples
/// --------
/// >>> import pyarrow as pa
/// >>> import raptors_arrow as ra
/// >>> x = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2))
/// >>> plan = ra.explain("scale", x, 2.0)
/// >>> plan.view
/// '2 x 2 float64, row by row, in 1 chunk, no nulls'
/// >>> plan.copied is None, plan.bytes_read
/// (True, 32)
#[pyfunction]
#[pyo3(signature = (name, /, *args, **options))]
pub(super) fn explain<'py>(
    name: &str,
    args: &Bound<'py, PyTuple>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<PyExplanation> {
    let function = registry::get_function(name)?;
    guarded(function.name, || {
        let arguments: Vec<_> = args.iter().collect();
        let named = options.into_iter().flat_map(|options| options.iter().map(Ok));
        let call = Call::new(function, &arguments, named)?;
        let explained = function
            .explain(&call.values, &call.options)
            .map_err(|error| error.in_function(function.name))?;
        let given = call.values.iter().zip(function.arguments);
        let copies: Vec<String> = given
            .filter_map(|(value, argument)| {
                Some(format!("{}: {}", argument.name, value.as_matrix()?.copied()?))
            })
            .collect();
        let plan = explained.plan;
        Ok(PyExplanation {
            function: function.name,
            view: call.values.first().and_then(Value::as_matrix).map_or_else(String::new, view),
            copied: (!copies.is_empty()).then(|| copies.join("; ")),
            backend: match plan.backend {
                Backend::Native(_) => "native",
                Backend::Vdsp => "vdsp",
            },
            simd: plan.level(machine()).to_string(),
            threads: plan.threads,
            task_bytes: plan.task_bytes,
            store: match plan.store {
                Store::Cached => "cached",
                Store::Streaming => "streaming",
            },
            bytes_read: explained.work.bytes_read,
            bytes_written: explained.work.bytes_written,
            most_threads: num_threads()?,
        })
    })
}

fn view(matrix: &Matrix) -> String {
    let order = if matrix.is_by_columns() { "column by column" } else { "row by row" };
    let chunks = match matrix.num_chunks() {
        1 => "1 chunk".to_owned(),
        n => format!("{n} chunks"),
    };
    let nulls = match (matrix.has_nulls(), matrix.null_rows()) {
        (false, _) => "no nulls".to_owned(),
        (true, 0) => "some elements null".to_owned(),
        (true, rows) => format!("{rows} rows null"),
    };
    let (rows, width, dtype) = (matrix.rows(), matrix.width(), dtype(matrix));
    format!("{rows} x {width} {dtype}, {order}, in {chunks}, {nulls}")
}

/// A number of bytes as people read it.
fn bytes(n: usize) -> String {
    let units = [("GiB", 1usize << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, size)| n >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", n as f64 / *size as f64),
        None => format!("{n} B"),
    }
}
