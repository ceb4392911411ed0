//! Groups of rows by keys, and their statistics: what `raptors_arrow.groups` stands on.

use std::sync::{Mutex, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::Field;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::errors::{Kind, detached, guarded};
use super::import::pointer;
use super::matrix::PyMatrix;
use super::{argument, capsule, option};
use crate::compute::registry::{self, Driver};
use crate::compute::{Function, GroupStatistic, Groups, Members};

const NAME: &str = "group_by";

/// Adds the classes to the module, but not to its ``__all__``.
pub(super) fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.setattr("_Groups", py.get_type::<PyGroups>())?;
    m.setattr("_GroupStatistic", py.get_type::<PyGroupStatistic>())
}

/// The keys that were seen.
#[pyclass(frozen, name = "_Groups", module = "raptors_arrow._native")]
pub(super) struct PyGroups(Mutex<Option<Groups>>);

/// The rows of a batch, group by group.
#[pyclass(frozen, name = "_Members", module = "raptors_arrow._native")]
pub(super) struct PyMembers(Members);

#[pymethods]
impl PyGroups {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn __len__(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Groups::len)
    }

    /// Give the rows of a batch by group; its keys are pyarrow arrays of one length.
    fn assign(&self, py: Python<'_>, keys: Vec<Bound<'_, PyAny>>) -> PyResult<PyMembers> {
        guarded(NAME, || {
            let keys = keys.iter().map(column).collect::<PyResult<Vec<ArrayRef>>>()?;
            let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            let named = |error: crate::Error| error.in_function(NAME);
            let mut groups = match taken {
                Some(groups) => groups,
                None => Groups::new(keys.iter().map(|key| key.data_type())).map_err(named)?,
            };
            let members = detached(py, || groups.assign(&keys));
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(groups);
            Ok(PyMembers(members.map_err(named)?))
        })
    }

    /// Give the keys of all groups: a column for each, as the capsules of an array.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        guarded(NAME, || {
            let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let keys = match &*groups {
                Some(groups) => groups.keys().map_err(|error| error.in_function(NAME))?,
                None => Vec::new(),
            };
            let given = |key: ArrayRef| {
                let field = Field::new("key", key.data_type().clone(), true);
                capsule::array(py, &field, &key)
            };
            keys.into_iter().map(given).collect()
        })
    }
}

/// A column of keys, of any type. Only pyarrow's own arrays come here, which hold what their types
/// say: what others lie about is checked for numbers alone (`check.rs`).
#[allow(unsafe_code)]
fn column(array: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    const METHOD: &str = "__arrow_c_array__";
    let pair = array.call_method0(METHOD)?;
    let schema = pointer::<FFI_ArrowSchema>(NAME, &pair.get_item(0)?, METHOD, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(NAME, &pair.get_item(1)?, METHOD, c"arrow_array")?;
    // SAFETY: capsules of these names hold such structures, and live as long as `pair`. The array
    // is moved out, which marks it as released there.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array), &*schema) };
    let data = data.map_err(|error| Kind::Value.error(format!("{NAME}: {error}")))?;
    Ok(make_array(data))
}

/// A statistic of each column of each group.
#[pyclass(frozen, name = "_GroupStatistic", module = "raptors_arrow._native")]
pub(super) struct PyGroupStatistic {
    function: &'static Function,
    state: Mutex<Option<GroupStatistic>>,
}

impl PyGroupStatistic {
    fn take(&self) -> PyResult<GroupStatistic> {
        let taken = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        let name = self.function.name;
        taken.ok_or_else(|| Kind::Value.error(format!("{name}: these groups were finished")))
    }
}

#[pymethods]
impl PyGroupStatistic {
    #[new]
    #[pyo3(signature = (function, /, **options))]
    fn new(function: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let function = registry::get_function(&option::word(NAME, "function", function)?)?;
        let Driver::Statistic(statistic) = function.driver else {
            let name = function.name;
            return Err(Kind::Type.error(format!("group_by: expected a reduction, got {name}")));
        };
        let (_, options) = function.reduce_options(&option::named(function, options)?)?;
        let state = Mutex::new(Some(GroupStatistic::new(statistic, options)));
        Ok(Self { function, state })
    }

    /// Take the rows of a batch.
    fn update(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        members: &Bound<'_, PyMembers>,
    ) -> PyResult<()> {
        guarded(self.function.name, || {
            let (matrix, _) = argument::take_matrix(self.function.name, x, None)?;
            let mut state = self.take()?;
            let members = &members.get().0;
            let updated = detached(py, || state.update(&matrix, members));
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
            Ok(updated?)
        })
    }

    /// Give the results of so many groups, a row each; these are used up.
    fn finish(&self, py: Python<'_>, groups: usize) -> PyResult<PyMatrix> {
        guarded(self.function.name, || {
            let state = self.take()?;
            Ok(PyMatrix::new(detached(py, || state.finish(groups))?))
        })
    }
}
