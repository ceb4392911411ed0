//! Transforms that measure all rows before they scale one: what two passes over a stream stand on.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors::{Kind, detached, guarded};
use super::export::Source;
use super::{argument, export, option};
use crate::compute::registry;
use crate::compute::{Fit, Fitted, Function, Value};

/// Adds the class to the module, but not to its ``__all__``.
pub(super) fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.setattr("_Fit", m.py().get_type::<PyFit>())
}

/// What a transform measures of batches, and then applies to them.
#[pyclass(frozen, name = "_Fit", module = "raptors_arrow._native")]
pub(super) struct PyFit {
    function: &'static Function,
    state: Mutex<FitState>,
}

enum FitState {
    Measuring(Fit),
    Measured(Arc<Fitted>),
    /// A call has it, or its end failed.
    Gone,
}

impl PyFit {
    fn late(&self) -> PyErr {
        let name = self.function.name;
        Kind::Value.error(format!("{name}: rows were scaled already, so no more are measured"))
    }

    /// Puts another state in place of its own, which it gives.
    fn replaced(&self, state: FitState) -> FitState {
        let mut own = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *own, state)
    }

    fn fitted(&self) -> PyResult<Arc<Fitted>> {
        let fitted = match self.replaced(FitState::Gone) {
            FitState::Measuring(fit) => Arc::new(fit.finish()?),
            FitState::Measured(fitted) => fitted,
            FitState::Gone => return Err(self.late()),
        };
        self.replaced(FitState::Measured(Arc::clone(&fitted)));
        Ok(fitted)
    }
}

#[pymethods]
impl PyFit {
    #[new]
    #[pyo3(signature = (name, /, **options))]
    fn new(name: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let function = registry::get_function(&option::word("_Fit", "name", name)?)?;
        let fit = function.fit(&option::named(function, options)?)?;
        Ok(Self { function, state: Mutex::new(FitState::Measuring(fit)) })
    }

    /// Measure the next rows.
    fn update(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let name = self.function.name;
        guarded(name, || {
            let (matrix, _) = argument::take_matrix(name, x, None)?;
            // Taken out: a lock must not be held while others run.
            let mut fit = match self.replaced(FitState::Gone) {
                FitState::Measuring(fit) => fit,
                other => {
                    self.replaced(other);
                    return Err(self.late());
                }
            };
            let updated = detached(py, || fit.update(&matrix));
            self.replaced(FitState::Measuring(fit));
            Ok(updated?)
        })
    }

    /// Move and scale rows by what was measured.
    fn apply<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let function = self.function;
        guarded(function.name, || {
            let (matrix, origin) = argument::take_matrix(function.name, x, None)?;
            let fitted = self.fitted()?;
            let made = detached(py, || fitted.apply(&matrix))?;
            let x = Some(&matrix);
            let source = Source { function, origin, x, lists: None, is_per_row: false };
            export::give(py, &source, Value::Matrix(made))
        })
    }
}
