//! Values that the first call which needs them makes, and all later ones share; and names of
//! attributes, made once.
//!
//! In place of pyo3's `PyOnceLock` and `intern!`, which let go of the GIL while their cell is locked: a
//! child that another thread forks then finds it locked by a thread that it does not have, and waits
//! for ever. Here a value is made before the cell is touched, and put there without letting go of the
//! GIL, which a fork from Python needs. If two threads make one, the first is kept.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

/// A value that is made once, by a thread that holds the GIL.
pub(super) struct Once<T>(OnceLock<T>);

impl<T> Once<T> {
    pub(super) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The value, if it was made.
    pub(super) fn get(&self, _py: Python<'_>) -> Option<&T> {
        self.0.get()
    }

    /// The value: `made`, unless there is one.
    pub(super) fn get_or(&self, _py: Python<'_>, made: T) -> &T {
        self.0.get_or_init(|| made)
    }

    /// The value, made now if there is none.
    ///
    /// # Errors
    ///
    /// Those of `make`; then there is none still.
    pub(super) fn get_or_try_init<E>(
        &self,
        py: Python<'_>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&T, E> {
        match self.get(py) {
            Some(value) => Ok(value),
            None => Ok(self.get_or(py, make()?)),
        }
    }
}

impl Once<Py<PyType>> {
    /// A class of a module, imported now if it was not.
    ///
    /// # Errors
    ///
    /// Those of the import, and of a name that is not a class.
    pub(super) fn import<'py>(
        &self,
        py: Python<'py>,
        module: &str,
        name: &str,
    ) -> PyResult<&Bound<'py, PyType>> {
        let class = self.get_or_try_init(py, || {
            PyResult::Ok(py.import(module)?.getattr(name)?.cast_into::<PyType>()?.unbind())
        })?;
        Ok(class.bind(py))
    }
}

/// A name that `intern!` made.
pub(super) struct Interned(&'static str, Once<Py<PyString>>);

impl Interned {
    pub(super) const fn new(text: &'static str) -> Self {
        Self(text, Once::new())
    }

    pub(super) fn get<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        let name = match self.1.get(py) {
            Some(name) => name,
            None => self.1.get_or(py, PyString::intern(py, self.0).unbind()),
        };
        name.bind(py)
    }
}

/// A Python string for a name in the source, made at its first use.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static INTERNED: $crate::python::once::Interned =
            $crate::python::once::Interned::new($text);
        INTERNED.get($py)
    }};
}
pub(super) use intern;
