//! pandas objects: seen without their index, and results with it.
//!
//! pandas is never imported: an object of it is proof that somebody did. Only what is public in it
//! is used. A column holds its numbers in one of three ways, and gets results in the same one:
//!
//! | held | read through | nulls |
//! |---|---|---|
//! | NumPy array | the buffer protocol, in place | none: NaN is a number |
//! | numbers and a mask (`Int64`, `Float64`) | `__arrow_array__`, the numbers in place | the mask |
//! | Arrow array (`pandas.ArrowDtype`) | `__arrow_array__`, in place | Arrow's own |
//!
//! Vectors are Arrow lists, or Python objects: lists, tuples and arrays, which are copied.

mod given;
mod seen;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

pub(super) use given::given;
pub(super) use seen::{column_seen, frame_seen};

use super::errors::Kind;
use super::once::intern;
use super::origin::{NumPy, Pandas, PyArrow};

/// How the numbers of a column are held. A frame has the last of those of its columns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Backend {
    NumPy,
    /// Numbers and a mask.
    Nullable,
    Arrow,
}

/// What a column holds.
#[derive(Clone)]
enum Content {
    /// Numbers of a type that has this name.
    Numbers(Backend, String),
    /// Rows of numbers.
    Vectors(Backend),
    /// Python objects: rows of numbers, or numbers.
    Objects { are_vectors: bool },
    /// Nothing that is a matrix.
    Other,
}

impl Content {
    /// What a column of a dtype holds; `series` gives the column, if its objects must be seen.
    fn of<'py>(
        dtype: &Bound<'py, PyAny>,
        series: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let py = dtype.py();
        let is_numpy = match NumPy::loaded(py) {
            Some(numpy) => dtype.is_instance(numpy.dtype.bind(py))?,
            None => false,
        };
        if !is_numpy && let Some(own) = dtype.getattr_opt(intern!(py, "pyarrow_dtype"))? {
            return of_arrow(&own);
        }
        let kind = dtype.getattr_opt(intern!(py, "kind"))?;
        let kind = kind.and_then(|kind| kind.extract::<char>().ok());
        let own = if is_numpy {
            Some(dtype.clone())
        } else {
            dtype.getattr_opt(intern!(py, "numpy_dtype"))?
        };
        match (kind, own) {
            (Some('i' | 'u' | 'f' | 'b'), Some(own)) => {
                let backend = if is_numpy { Backend::NumPy } else { Backend::Nullable };
                Ok(Self::Numbers(backend, own.getattr(intern!(py, "name"))?.extract()?))
            }
            (Some('O'), Some(_)) if is_numpy => of_objects(&series()?),
            _ => Ok(Self::Other),
        }
    }

    fn of_series(series: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(&series.getattr(intern!(series.py(), "dtype"))?, || Ok(series.clone()))
    }

    /// How results of it are held. Objects get NumPy arrays, as pandas itself would make.
    fn backend(&self) -> Backend {
        match self {
            Self::Numbers(backend, _) | Self::Vectors(backend) => *backend,
            Self::Objects { .. } | Self::Other => Backend::NumPy,
        }
    }

    fn is_numbers(&self) -> bool {
        matches!(self, Self::Numbers(..))
    }

    fn is_vectors(&self) -> bool {
        matches!(self, Self::Vectors(_) | Self::Objects { are_vectors: true })
    }
}

fn of_arrow(data_type: &Bound<'_, PyAny>) -> PyResult<Content> {
    let py = data_type.py();
    let name = data_type.str()?.to_string();
    if pyarrow(py, "a column of an Arrow dtype")?.is_number(data_type)? || name == "bool" {
        return Ok(Content::Numbers(Backend::Arrow, name));
    }
    // Lists and tensors say what their values are; so do dictionaries, which have an index too.
    let has = |name: &Bound<'_, PyString>| data_type.hasattr(name);
    let is_struct = data_type.getattr(intern!(py, "num_fields"))?.extract::<usize>()? > 0;
    let is_list = has(intern!(py, "value_type"))? && !has(intern!(py, "index_type"))?;
    Ok(if is_struct || is_list { Content::Vectors(Backend::Arrow) } else { Content::Other })
}

/// What the first object that is there says of all of them; whether it is true shows later.
fn of_objects(series: &Bound<'_, PyAny>) -> PyResult<Content> {
    // If no row says what the column holds, it is nulls: of vectors, which need such a column.
    let Some(value) = first_present(series)? else {
        return Ok(Content::Objects { are_vectors: true });
    };
    let is_number = value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>();
    let is_array = match NumPy::loaded(value.py()) {
        Some(numpy) => value.is_instance(numpy.ndarray.bind(value.py()))?,
        None => false,
    };
    let are_vectors =
        is_array || value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    let is_taken = are_vectors || is_number && !value.is_instance_of::<PyBool>();
    Ok(if is_taken { Content::Objects { are_vectors } } else { Content::Other })
}

/// The first object that is not missing.
fn first_present<'py>(objects: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    for (i, value) in objects.try_iter()?.enumerate() {
        if i % 4096 == 0 {
            objects.py().check_signals()?;
        }
        let value = value?;
        if !is_missing(&value) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Whether pandas calls an object of a column missing.
fn is_missing(value: &Bound<'_, PyAny>) -> bool {
    let is_nan = value.cast::<PyFloat>().is_ok_and(|float| float.value().is_nan());
    let is_na = || Pandas::loaded(value.py()).is_some_and(|pandas| pandas.missing.is(value));
    value.is_none() || is_nan || is_na()
}

/// pyarrow, which holds vectors in pandas; imported if nobody has.
fn pyarrow<'py>(py: Python<'py>, what: &str) -> PyResult<&'py PyArrow> {
    if PyArrow::loaded(py).is_none() {
        py.import("pyarrow").map_err(|error| {
            let message = format!("{what} needs pyarrow: pip install \"raptors-arrow[pyarrow]\"");
            let missing = PyImportError::new_err(message);
            missing.set_cause(py, Some(error));
            missing
        })?;
    }
    PyArrow::loaded(py).ok_or_else(|| Kind::Base.error("pyarrow is imported, but not whole"))
}
