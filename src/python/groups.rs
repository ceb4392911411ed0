//! Groups of rows by keys, and their statistics: what `raptors_arrow.groups` stands on.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, StructArray, make_array};
use arrow_schema::Field;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::errors::{Kind, detached, guarded};
use super::import::pointer;
use super::matrix::PyMatrix;
use super::{argument, capsule, option};
use crate::compute::registry::{self, Driver};
use crate::compute::{self, Function, GroupStatistic, Groups, Members, ReduceOptions};
use crate::memory::Gather as _;

const NAME: &str = "group_by";
const MERGE: &str = "merge_states";

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
impl PyMembers {
    /// How many groups there were in all.
    #[getter]
    fn seen(&self) -> usize {
        self.0.seen()
    }

    /// Give the first or the last row of each group: the numbers of the groups, and the rows.
    fn ends(&self, last: bool, valid: Option<Vec<bool>>) -> (Vec<u32>, Vec<u32>) {
        let is_valid =
            |row: usize| valid.as_ref().is_none_or(|valid| valid.get(row) == Some(&true));
        self.0.ends(last, is_valid)
    }
}

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

/// An array of any type. Only pyarrow's own arrays come here, which hold what their types
/// say: what others lie about is checked for numbers alone (`check.rs`).
#[allow(unsafe_code)]
pub(super) fn column(array: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
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

/// A column of states.
fn structs(array: &Bound<'_, PyAny>) -> PyResult<StructArray> {
    let array = column(array)?;
    let found = array.as_struct_opt().cloned();
    found.ok_or_else(|| Kind::Type.error(format!("{MERGE}: expected a struct of a state's fields")))
}

/// A statistic of each column of each group.
#[pyclass(frozen, name = "_GroupStatistic", module = "raptors_arrow._native")]
pub(super) struct PyGroupStatistic {
    function: &'static Function,
    options: ReduceOptions,
    state: Mutex<Option<GroupStatistic>>,
}

impl PyGroupStatistic {
    fn weights(&self, weights: Option<&Bound<'_, PyAny>>) -> PyResult<Option<crate::Matrix>> {
        weights.map(|weights| argument::take_weights(self.function, weights)).transpose()
    }

    fn take(&self) -> PyResult<GroupStatistic> {
        let taken = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        let name = self.function.name;
        taken.ok_or_else(|| Kind::Value.error(format!("{name}: these groups were finished")))
    }
}

#[pymethods]
impl PyGroupStatistic {
    #[new]
    #[pyo3(signature = (function, is_partial, /, **options))]
    fn new(
        function: &Bound<'_, PyAny>,
        is_partial: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let function = registry::get_function(&option::word(NAME, "function", function)?)?;
        let Driver::Statistic(statistic) = function.driver else {
            let name = function.name;
            return Err(Kind::Type.error(format!("group_by: expected a reduction, got {name}")));
        };
        let (_, options) = function.reduce_options(&option::named(function, options)?)?;
        let made = if is_partial { GroupStatistic::partial } else { GroupStatistic::new };
        Ok(Self { function, state: Mutex::new(Some(made(statistic, options))), options })
    }

    /// One that merges such states, of which nothing is taken yet.
    #[staticmethod]
    fn of_states(states: &Bound<'_, PyAny>) -> PyResult<Self> {
        guarded(MERGE, || {
            let state = GroupStatistic::of_states(&structs(states)?)?;
            let function = registry::get_function(state.statistic().name())?;
            let options = ReduceOptions::default();
            Ok(Self { function, state: Mutex::new(Some(state)), options })
        })
    }

    /// Take what states saw: each is of the group of its row.
    fn merge(
        &self,
        py: Python<'_>,
        states: &Bound<'_, PyAny>,
        members: &Bound<'_, PyMembers>,
    ) -> PyResult<()> {
        guarded(MERGE, || {
            let states = structs(states)?;
            let mut state = self.take()?;
            let members = &members.get().0;
            let merged = detached(py, || state.merge(&states, members));
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
            Ok(merged?)
        })
    }

    /// Give the states of so many groups, as the capsules of an array; these are used up.
    fn state<'py>(&self, py: Python<'py>, groups: usize) -> PyResult<Bound<'py, PyTuple>> {
        guarded(self.function.name, || {
            let state = self.take()?;
            let states: ArrayRef = Arc::new(detached(py, || state.state(groups))?);
            let field = Field::new("state", states.data_type().clone(), true);
            capsule::array(py, &field, &states)
        })
    }

    /// Give the results of rows that are all there are; these are used up.
    #[pyo3(signature = (x, members, weights=None))]
    fn reduce(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        members: &Bound<'_, PyMembers>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyMatrix> {
        guarded(self.function.name, || {
            let (matrix, _) = argument::take_matrix(self.function.name, x, None)?;
            let weights = self.weights(weights)?;
            let (statistic, members) = (self.take()?.statistic(), &members.get().0);
            let options = &self.options;
            let reduced = detached(py, || match &weights {
                None => compute::reduce_groups(statistic, &matrix, members, options),
                Some(weights) => {
                    compute::reduce_groups_weighted(statistic, &matrix, weights, members, options)
                }
            });
            Ok(PyMatrix::new(reduced?))
        })
    }

    /// Give the results of the rows in some lists: where each begins, and how many rows it has.
    #[pyo3(signature = (x, starts, lengths, weights=None))]
    fn pool(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyMatrix> {
        guarded("pool", || {
            let (matrix, _) = argument::take_matrix("pool", x, None)?;
            let (statistic, weights) = (self.take()?.statistic(), self.weights(weights)?);
            let (starts, lengths) = (column(starts)?, column(lengths)?);
            let integers = |array| AsArray::as_primitive::<Int64Type>(array).values().iter();
            let pairs = integers(&starts).zip(integers(&lengths));
            let pairs = pairs.map(|(from, len)| ((*from).max(0) as usize, (*len).max(0) as usize));
            let lists: Vec<_> = pairs.map(|(from, len)| from..from + len).gather();
            let options = &self.options;
            let pooled = detached(py, || match &weights {
                None => compute::reduce_lists(statistic, &matrix, &lists, options),
                Some(weights) => {
                    compute::reduce_lists_weighted(statistic, &matrix, weights, &lists, options)
                }
            });
            Ok(PyMatrix::new(pooled?))
        })
    }

    /// Take the rows of a batch.
    #[pyo3(signature = (x, members, weights=None))]
    fn update(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        members: &Bound<'_, PyMembers>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        guarded(self.function.name, || {
            let (matrix, _) = argument::take_matrix(self.function.name, x, None)?;
            let weights = self.weights(weights)?;
            let mut state = self.take()?;
            let members = &members.get().0;
            let updated = detached(py, || match &weights {
                None => state.update(&matrix, members),
                Some(weights) => state.update_weighted(&matrix, weights, members),
            });
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
