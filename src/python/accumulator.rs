//! `Accumulator`: statistics of batches that come one after the other.

use std::sync::{Mutex, PoisonError};

use arrow_array::ArrayRef;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::errors::{Kind, detached, guarded};
use super::export::Source;
use super::origin::Origin;
use super::{argument, export, option};
use crate::compute::registry::{self, Driver};
use crate::compute::{Accumulator, Function, Per, Value};

/// A statistic of batches that come one after the other: in all, or for each column.
///
/// Batches of any lengths give the bits of the whole.
///
/// Parameters
/// ----------
/// function
///     The name of a reduction: ``sum mean min max count var std norm argmin argmax``.
/// **options
///     Its options. ``axis`` is ``None`` (one result) or 0 (one for each column).
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> import raptors_arrow as ra
/// >>> mean = ra.Accumulator("mean", axis=0)
/// >>> for batch in (np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 9.0]])):
/// ...     mean.update(batch)
/// >>> mean.rows, mean.finish()
/// (3, array([3., 5.]))
#[pyclass(frozen, name = "Accumulator", module = "raptors_arrow")]
pub(super) struct PyAccumulator {
    function: &'static Function,
    /// None once it was merged into another, or finished.
    state: Mutex<Option<Accumulator>>,
    /// What the results are given back as.
    kind: Mutex<Batches>,
}

/// Whose objects the batches are.
#[derive(Clone, Copy)]
enum Batches {
    PyArrow,
    Polars,
    NumPy,
    Other,
}

impl Batches {
    fn of(origin: &Origin<'_>) -> Self {
        match origin {
            Origin::PyArrowArray(_)
            | Origin::PyArrowChunked
            | Origin::PyArrowBatch
            | Origin::PyArrowTable => Self::PyArrow,
            Origin::PolarsSeries(_) | Origin::PolarsFrame => Self::Polars,
            Origin::NumPy | Origin::Masked | Origin::PandasSeries(_) | Origin::PandasFrame(_) => {
                Self::NumPy
            }
            Origin::Other => Self::Other,
        }
    }

    fn origin(self, py: Python<'_>) -> Origin<'_> {
        match self {
            Self::PyArrow => Origin::PyArrowArray(py.None().into_bound(py)),
            Self::Polars => Origin::PolarsSeries(PyString::new(py, "").into_any()),
            Self::NumPy => Origin::NumPy,
            Self::Other => Origin::Other,
        }
    }
}

impl PyAccumulator {
    fn gone(&self) -> PyErr {
        let name = self.function.name;
        Kind::Value.error(format!(
            "{name}: this accumulator was finished, or merged into another; make a new one"
        ))
    }

    fn take(&self) -> PyResult<Accumulator> {
        let taken = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| self.gone())
    }
}

#[pymethods]
impl PyAccumulator {
    #[new]
    #[pyo3(signature = (function, /, **options))]
    fn new(function: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let name = option::word("Accumulator", "function", function)?;
        let function = registry::get_function(&name)?;
        let Driver::Statistic(statistic) = function.driver else {
            return Err(Kind::Type.error(format!(
                "Accumulator: expected the name of a reduction, such as 'mean', got {name:?}"
            )));
        };
        let options = option::named(function, options)?;
        let (per, options) = function.reduce_options(&options)?;
        let state = Mutex::new(Some(Accumulator::new(statistic, per, options)?));
        Ok(Self { function, state, kind: Mutex::new(Batches::Other) })
    }

    /// Rows that were seen.
    #[getter]
    fn rows(&self) -> PyResult<usize> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().map(Accumulator::rows).ok_or_else(|| self.gone())
    }

    /// Take the next rows.
    fn update(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(self.function.name, || {
            let taken = argument::take(self.function, &self.function.arguments[0], x, None)?;
            let Some(matrix) = taken.value.as_matrix() else {
                let name = self.function.name;
                return Err(Kind::Type.error(format!("{name}: expected a batch of rows")));
            };
            let mut state = self.take()?;
            let updated = detached(py, || state.update(matrix));
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
            *self.kind.lock().unwrap_or_else(PoisonError::into_inner) = Batches::of(&taken.origin);
            Ok(updated?)
        })
    }

    /// Take the rows that another accumulator saw, after those that this one did. The other one
    /// is used up.
    fn merge(&self, other: &Bound<'_, Self>) -> PyResult<()> {
        guarded(self.function.name, || {
            let mut state = self.take()?;
            let merged = other.get().take().and_then(|right| Ok(state.merge(right)?));
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
            merged
        })
    }

    /// Give the results, of the kind of the batches; this one is used up.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        guarded(self.function.name, || {
            let state = self.take()?;
            let per = state.per();
            let results: ArrayRef = detached(py, || state.finish())?;
            let value = match per {
                Per::Matrix => Value::Scalar(results),
                Per::Column | Per::Row => Value::Vector(results),
            };
            let kind = *self.kind.lock().unwrap_or_else(PoisonError::into_inner);
            let (function, origin) = (self.function, kind.origin(py));
            export::give(py, &Source { function, origin, x: None, is_per_row: false }, value)
        })
    }

    fn __repr__(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = state.as_ref().map_or("used up".to_owned(), |s| format!("{} rows", s.rows()));
        format!("<raptors_arrow.Accumulator: {}, {rows}>", self.function.name)
    }
}
