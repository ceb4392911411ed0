//! `explain`: how a call would run, in words and as attributes.

use std::fmt::Write as _;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::errors::{Kind, guarded};
use super::function::Call;
use super::matrix::dtype;
use super::option;
use crate::compute::{Pass, Value, registry};
use crate::dispatch::{Backend, Store, machine, num_threads};
use crate::matrix::Matrix;

/// How a call would run.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> import raptors_arrow as ra
/// >>> how = ra.explain("scale", np.ones((4, 2)), 2.0)
/// >>> how.function, how.threads, how.bytes_read, how.bytes_written
/// ('scale', 1, 64, 64)
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
    /// The passes over the data, in order.
    #[pyo3(get)]
    passes: Vec<Py<PyPass>>,
    most_threads: usize,
}

/// One pass over the data.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> import raptors_arrow as ra
/// >>> one, = ra.explain("scale", np.ones((4, 2)), 2.0).passes
/// >>> one.threads, one.store
/// (1, 'cached')
#[pyclass(frozen, name = "Pass", module = "raptors_arrow")]
pub(super) struct PyPass(pub(super) Pass);

#[pymethods]
impl PyPass {
    /// What it does.
    #[getter]
    fn what(&self) -> &'static str {
        self.0.what
    }

    /// The code that runs: ``"native"`` or ``"vdsp"``.
    #[getter]
    fn backend(&self) -> &'static str {
        match self.0.plan.backend {
            Backend::Native(_) => "native",
            Backend::Vdsp => "vdsp",
        }
    }

    /// The instruction set.
    #[getter]
    fn simd(&self) -> String {
        self.0.plan.level(machine()).to_string()
    }

    /// Threads, the calling one included.
    #[getter]
    fn threads(&self) -> usize {
        self.0.plan.threads
    }

    /// Bytes that one task moves, about.
    #[getter]
    fn task_bytes(&self) -> usize {
        self.0.plan.task_bytes
    }

    /// How outputs are stored: ``"cached"`` or ``"streaming"``.
    #[getter]
    fn store(&self) -> &'static str {
        match self.0.plan.store {
            Store::Cached => "cached",
            Store::Streaming => "streaming",
        }
    }

    /// Bytes of input that must be read.
    #[getter]
    fn bytes_read(&self) -> usize {
        self.0.work.bytes_read
    }

    /// Bytes of output that must be written.
    #[getter]
    fn bytes_written(&self) -> usize {
        self.0.work.bytes_written
    }

    fn __repr__(&self) -> String {
        let (what, threads, store) = (self.what(), self.threads(), self.store());
        let moved = (bytes(self.bytes_read()), bytes(self.bytes_written()));
        format!(
            "{what}: {} read, {} written, {} ({}), {threads} thread{}, {store} stores",
            moved.0,
            moved.1,
            self.backend(),
            self.simd(),
            if threads == 1 { "" } else { "s" },
        )
    }
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
            "streaming" => "streaming stores, which bypass the cache",
            _ => "cached, through the cache",
        };
        line("store", store.to_owned());
        let moved = (bytes(self.bytes_read), bytes(self.bytes_written));
        line("moves", format!("{} read, {} written", moved.0, moved.1));
        if self.passes.len() > 1 {
            for (i, pass) in self.passes.iter().enumerate() {
                line(&format!("pass {}", i + 1), pass.get().__repr__());
            }
        }
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
///     ``threads``, ``task_bytes``, ``store``, ``bytes_read``, ``bytes_written`` and ``passes``;
///     where there are several passes, the bytes are those of all, the rest that of the longest.
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
    name: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<PyExplanation> {
    let function = registry::get_function(&option::word("explain", "name", name)?)?;
    guarded(function.name, || {
        let arguments: Vec<_> = args.iter().collect();
        let named = options.into_iter().flat_map(|options| options.iter().map(Ok));
        let Some(call) = Call::new(function, &arguments, named)? else {
            let name = function.name;
            return Err(Kind::Type.error(format!(
                "explain: expected data in memory for {name}, got a stream, which is read batch by \
                 batch; explain a call on one batch"
            )));
        };
        let passes = function.explain(&call.values, &call.options)?;
        let given = call.values.iter().zip(function.all_arguments());
        let copies: Vec<String> = given
            .filter_map(|(value, argument)| {
                Some(format!("{}: {}", argument.name, value.as_matrix()?.copied()?))
            })
            .collect();
        // The longest is the one that a call's time depends on.
        let longest = passes.iter().max_by_key(|pass| pass.work.bytes());
        let main = PyPass(*longest.ok_or_else(|| Kind::Base.error("a call without a pass"))?);
        let all = |bytes: fn(&Pass) -> usize| passes.iter().map(bytes).sum();
        Ok(PyExplanation {
            function: function.name,
            view: call.values.first().and_then(Value::as_matrix).map_or_else(String::new, view),
            copied: (!copies.is_empty()).then(|| copies.join("; ")),
            backend: main.backend(),
            simd: main.simd(),
            threads: main.threads(),
            task_bytes: main.task_bytes(),
            store: main.store(),
            bytes_read: all(|pass| pass.work.bytes_read),
            bytes_written: all(|pass| pass.work.bytes_written),
            passes: passes
                .iter()
                .map(|pass| Py::new(name.py(), PyPass(*pass)))
                .collect::<PyResult<_>>()?,
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
