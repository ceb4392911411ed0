//! `Accumulator`: functions that reduce rows, of batches that come one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::Field;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::errors::{Kind, detached, guarded};
use super::export::Source;
use super::once::intern;
use super::origin::Origin;
use super::{argument, capsule, export, groups, option};
use crate::compute::registry;
use crate::compute::{Accumulator, Function, FunctionAccumulator};
use crate::memory::{self, Gather as _};
use crate::type_name::TypeName;

/// What functions reduce batches to that come one after the other.
///
/// Batches of any lengths give the bits of the whole. (``gram``, ``covariance`` and ``correlation``
/// give the same bits for batches of any lengths: those of the whole up to 4096 rows, and within
/// its error bound beyond.)
///
/// Parameters
/// ----------
/// function
///     The name of a reduction (``sum mean min max count var std norm argmin argmax``), ``gram``,
///     ``covariance``, ``correlation`` or ``top_k``. Or several: a list of names, or of pairs of a
///     name and its options; their results are a dict.
/// *args
///     Arguments of the function after the rows: the ``query`` of ``top_k``.
/// **options
///     Its options. ``axis`` is ``None`` (one result) or 0 (one for each column). Of several
///     functions each takes those that it has.
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
/// >>> both = ra.Accumulator(["min", "max"])
/// >>> both.update(np.array([[1.0, 2.0]]))
/// >>> both.finish()
/// {'min': 1.0, 'max': 2.0}
#[pyclass(frozen, name = "Accumulator", module = "raptors_arrow")]
pub(super) struct PyAccumulator {
    functions: Vec<&'static Function>,
    /// Whether the results are a dict.
    is_several: bool,
    /// None once it was merged into another, or finished.
    states: Mutex<Option<Vec<FunctionAccumulator>>>,
    /// What the results are given back as.
    kind: Mutex<Batches>,
    /// The arguments that it was made of; none if it was made of a state.
    made_of: Option<(Py<PyAny>, Py<PyTuple>, Py<PyDict>)>,
}

/// Whose objects the batches are.
#[derive(Clone, Copy, PartialEq)]
enum Batches {
    PyArrow,
    Polars,
    NumPy,
    Other,
}

impl Batches {
    const NAMES: [(&str, Self); 4] = [
        ("pyarrow", Self::PyArrow),
        ("polars", Self::Polars),
        ("numpy", Self::NumPy),
        ("arrow", Self::Other),
    ];

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

const NAME: &str = "Accumulator";

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PyAccumulator {
    /// What errors are said to come from.
    fn name(&self) -> &'static str {
        match self.functions[..] {
            [function] => function.name,
            _ => NAME,
        }
    }

    fn gone(&self) -> PyErr {
        let name = self.name();
        Kind::Value.error(format!(
            "{name}: this accumulator was finished, or merged into another; make a new one"
        ))
    }

    fn take(&self) -> PyResult<Vec<FunctionAccumulator>> {
        locked(&self.states).take().ok_or_else(|| self.gone())
    }

    /// The states as they are kept; they go on from there.
    fn kept(&self, py: Python<'_>) -> PyResult<Vec<StructArray>> {
        let states = self.take()?;
        let lasting = states.iter().zip(&self.functions).find(|(state, _)| !state.is_kept());
        if let Some((_, function)) = lasting {
            let name = function.name;
            *locked(&self.states) = Some(states);
            return Err(Kind::Type.error(format!("{name}: it has no state that can be kept")));
        }
        if self.rows_of(&states) == 0 && self.made_of.is_some() {
            *locked(&self.states) = Some(states);
            let name = self.name();
            return Err(Kind::Value
                .error(format!("{name}: expected rows before its state is asked for, got none")));
        }
        let kept = detached(py, || {
            states.into_iter().map(FunctionAccumulator::state).collect::<crate::Result<Vec<_>>>()
        })?;
        let again = kept
            .iter()
            .map(|state| Accumulator::from_state(state).map(FunctionAccumulator::Statistic));
        *locked(&self.states) = Some(again.collect::<crate::Result<_>>()?);
        Ok(kept)
    }

    fn rows_of(&self, states: &[FunctionAccumulator]) -> usize {
        states.first().map_or(0, FunctionAccumulator::rows)
    }
}

/// The one pyarrow array that an object holds.
fn one_array<'py>(function: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let class = py.import(intern!(py, "pyarrow"))?.getattr(intern!(py, "Array"))?;
    if object.is_instance(&class)? {
        return Ok(object.clone());
    }
    if object.hasattr(intern!(py, "combine_chunks"))? {
        let whole = object.call_method0(intern!(py, "combine_chunks"))?;
        if whole.is_instance(&class)? {
            return Ok(whole);
        }
    }
    let got = object.get_type().fully_qualified_name()?;
    Err(Kind::Type.error(format!("{function}: expected a pyarrow array of states, got {got}")))
}

/// The state of a function before the first batch.
fn state(
    function: &'static Function,
    arguments: &Bound<'_, PyTuple>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<FunctionAccumulator> {
    let given = function.arguments.iter().skip(1).zip(arguments);
    let mut values = Vec::new();
    for (argument, object) in given {
        values.push(argument::take(function, argument, &object, None)?.value);
    }
    let (expected, got) = (function.arguments.len(), arguments.len() + 1);
    if got > expected {
        return Err(crate::Error::Arguments { expected, got }.in_function(function.name).into());
    }
    if !function.is_accumulated() {
        return Err(Kind::Type.error(format!(
            "{NAME}: expected the name of a reduction, such as 'mean', got {:?}",
            function.name
        )));
    }
    Ok(function.accumulator(&values, &option::named(function, options)?)?)
}

/// Options that all of several functions share, as far as this one has them.
fn shared<'py>(
    function: &'static Function,
    options: Option<&Bound<'py, PyDict>>,
    own: Option<&Bound<'py, PyDict>>,
    py: Python<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let taken = PyDict::new(py);
    for (key, value) in options.into_iter().flat_map(|options| options.iter()) {
        let name = option::word(NAME, "the name of an option", &key)?;
        if function.options.iter().any(|spec| spec.name == name) {
            taken.set_item(&key, value)?;
        }
    }
    if let Some(own) = own {
        taken.update(own.as_mapping())?;
    }
    Ok(taken)
}

#[pymethods]
impl PyAccumulator {
    #[new]
    #[pyo3(signature = (function, /, *args, **options))]
    fn new(
        py: Python<'_>,
        function: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let kind = Mutex::new(Batches::Other);
        let all = options.map_or_else(|| PyDict::new(py), Bound::clone).unbind();
        let made_of = Some((function.clone().unbind(), args.clone().unbind(), all));
        let Ok(several) = function.cast::<PyList>() else {
            let name = option::word(NAME, "function", function)?;
            let function = registry::get_function(&name)?;
            let states = Mutex::new(Some(vec![state(function, args, options)?]));
            let functions = vec![function];
            return Ok(Self { functions, is_several: false, states, kind, made_of });
        };
        let (mut functions, mut states) = (Vec::new(), Vec::new());
        for item in several {
            let (name, own) = match item.extract::<(Bound<'_, PyAny>, Bound<'_, PyDict>)>() {
                Ok((name, own)) => (name, Some(own)),
                Err(_) => (item, None),
            };
            let name = option::word(NAME, "each function", &name)?;
            let function = registry::get_function(&name)?;
            if functions.iter().any(|known: &&Function| known.name == function.name) {
                return Err(Kind::Value.error(format!(
                    "{NAME}: expected each function once, as results are told apart by their \
                     names, got {name} twice"
                )));
            }
            let taken = shared(function, options, own.as_ref(), py)?;
            states.push(state(function, args, Some(&taken))?);
            functions.push(function);
        }
        let Some(first) = functions.first() else {
            return Err(Kind::Value.error(format!("{NAME}: expected functions, got an empty list")));
        };
        // An option that none of them has is a mistake in one of them.
        for (key, _) in options.into_iter().flat_map(|options| options.iter()) {
            let key = option::word(NAME, "the name of an option", &key)?;
            let has = |function: &&Function| function.options.iter().any(|spec| spec.name == key);
            if !functions.iter().any(has) {
                let known = first.options.iter().map(|spec| spec.name).gather();
                let option = key.clone().into_owned();
                return Err(crate::Error::NoSuchOption { option, known }.in_function(NAME).into());
            }
        }
        Ok(Self { functions, is_several: true, states: Mutex::new(Some(states)), kind, made_of })
    }

    /// Rows that were seen.
    #[getter]
    fn rows(&self) -> PyResult<usize> {
        let states = locked(&self.states);
        let first = states.as_ref().and_then(|states| states.first());
        first.map(FunctionAccumulator::rows).ok_or_else(|| self.gone())
    }

    /// Take the next rows; with ``weights``, as the function takes them: all batches, or none.
    #[pyo3(signature = (x, *, weights=None))]
    fn update(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let name = self.name();
        guarded(name, || {
            let taken =
                argument::take(self.functions[0], &self.functions[0].arguments[0], x, None)?;
            if let Some(lists) = taken.value.as_ragged() {
                return Err(lists.odd_row(None).in_function(name).into());
            }
            let Some(matrix) = taken.value.as_matrix() else {
                return Err(Kind::Type.error(format!("{name}: expected a batch of rows")));
            };
            let weights = weights.map(|weights| argument::take_weights(self.functions[0], weights));
            let weights = weights.transpose()?;
            let mut states = self.take()?;
            let update = |state: &mut FunctionAccumulator| match &weights {
                Some(weights) => state.update_weighted(matrix, weights),
                None => state.update(matrix),
            };
            let updated = detached(py, || states.iter_mut().try_for_each(update));
            *locked(&self.states) = Some(states);
            *locked(&self.kind) = Batches::of(&taken.origin);
            Ok(updated?)
        })
    }

    /// Take the rows that another accumulator saw, after those that this one did. The other one
    /// is used up.
    fn merge(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        guarded(self.name(), || {
            let mut states = self.take()?;
            let merged = other.get().take().and_then(|right| {
                if right.len() != states.len() {
                    let (expected, got) = (states.len(), right.len());
                    return Err(Kind::Value.error(format!(
                        "{NAME}: expected other to be one of {expected} functions, got {got}"
                    )));
                }
                let mut pairs = states.iter_mut().zip(right);
                let join = |(state, right): (&mut FunctionAccumulator, _)| state.merge(right);
                Ok(detached(py, || pairs.try_for_each(join))?)
            });
            *locked(&self.states) = Some(states);
            let theirs = *locked(&other.get().kind);
            let mut kind = locked(&self.kind);
            if matches!(*kind, Batches::Other) {
                *kind = theirs;
            }
            merged
        })
    }

    /// Give what was seen as an array of one struct, which can be written to a file or sent: a
    /// pyarrow array, for `from_state`. It goes on from there.
    ///
    /// The state of several functions is a struct of theirs. ``docs/guide/state.md`` describes the
    /// fields. ``gram``, ``covariance``, ``correlation`` and ``top_k`` have no such state.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        guarded(self.name(), || {
            let kept = self.kept(py)?;
            let array: ArrayRef = Arc::new(if self.is_several {
                let fields = self.functions.iter().zip(&kept).map(|(function, state)| {
                    Field::new(function.name, state.data_type().clone(), false)
                });
                let columns = kept.iter().map(|state| Arc::new(state.clone()) as ArrayRef);
                StructArray::new(memory::fields(fields), columns.gather(), None)
            } else {
                kept[0].clone()
            });
            let field = Field::new("state", array.data_type().clone(), false);
            let pyarrow = py.import(intern!(py, "pyarrow"))?.getattr(intern!(py, "Array"))?;
            let capsules = capsule::array(py, &field, &array)?;
            pyarrow.call_method1(intern!(py, "_import_from_c_capsule"), capsules)
        })
    }

    /// Make an accumulator that goes on from a state, or from several one after the other.
    ///
    /// Parameters
    /// ----------
    /// state
    ///     What `state` gave: an array, or a column of a table that was read back.
    /// kind
    ///     What the results are given back as, if no batch comes that says so: ``"pyarrow"``,
    ///     ``"polars"``, ``"numpy"``, or ``"arrow"`` for any object with the PyCapsule methods.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np
    /// >>> import raptors_arrow as ra
    /// >>> mean = ra.Accumulator("mean")
    /// >>> mean.update(np.array([[1.0, 2.0]]))
    /// >>> ra.Accumulator.from_state(mean.state()).finish()
    /// 1.5
    #[staticmethod]
    #[pyo3(signature = (state, *, kind="pyarrow"))]
    fn from_state(py: Python<'_>, state: &Bound<'_, PyAny>, kind: &str) -> PyResult<Self> {
        const NAME: &str = "from_state";
        guarded(NAME, || {
            let known = Batches::NAMES.into_iter().find(|(name, _)| *name == kind);
            let Some((_, kind)) = known else {
                return Err(Kind::Value.error(format!(
                    "{NAME}: expected kind to be 'pyarrow', 'polars', 'numpy' or 'arrow', got \
                     {kind:?}"
                )));
            };
            let array = groups::column(&one_array(NAME, state)?)?;
            let Some(all) = array.as_struct_opt() else {
                let got = TypeName(array.data_type()).to_string();
                return Err(Kind::Type.error(format!("{NAME}: expected a struct, got {got}")));
            };
            let is_several = all.column_by_name("version").is_none();
            let each: Vec<&StructArray> = match is_several {
                true => all.columns().iter().filter_map(|column| column.as_struct_opt()).gather(),
                false => vec![all],
            };
            if each.is_empty() || is_several && each.len() != all.num_columns() {
                let message = "expected what Accumulator.state() gave, got another struct";
                return Err(Kind::Value.error(format!("{NAME}: {message}")));
            }
            let (mut functions, mut states) = (Vec::new(), Vec::new());
            for state in each {
                let state = detached(py, || Accumulator::from_state(state))?;
                functions.push(registry::get_function(state.statistic().name())?);
                states.push(FunctionAccumulator::Statistic(state));
            }
            let (states, kind) = (Mutex::new(Some(states)), Mutex::new(kind));
            Ok(Self { functions, is_several, states, kind, made_of: None })
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let restored = py.import("raptors_arrow._accumulators")?.getattr("restored")?;
        // Nothing was seen: it is made anew.
        let is_new = self.rows()? == 0;
        let made_of = self.made_of.as_ref().filter(|_| is_new);
        let made_of =
            made_of.map(|(f, args, options)| (f.bind(py), args.bind(py), options.bind(py)));
        let state = match made_of {
            Some(_) => py.None().into_bound(py),
            None => self.state(py)?,
        };
        let kind = *locked(&self.kind);
        let name = Batches::NAMES.into_iter().find(|(_, own)| *own == kind).map(|(name, _)| name);
        let arguments = (made_of, state, name).into_pyobject(py)?;
        PyTuple::new(py, [restored, arguments.into_any()])
    }

    /// Give the results, of the kind of the batches; this one is used up.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        guarded(self.name(), || {
            let states = self.take()?;
            let kind = *locked(&self.kind);
            let results = PyDict::new(py);
            for (function, state) in self.functions.iter().copied().zip(states) {
                let value = detached(py, || state.finish())?;
                let origin = kind.origin(py);
                let source = Source { function, origin, x: None, lists: None, is_per_row: false };
                let given = export::give(py, &source, value)?;
                if !self.is_several {
                    return Ok(given);
                }
                results.set_item(function.name, given)?;
            }
            Ok(results.into_any())
        })
    }

    fn __repr__(&self) -> String {
        let rows = self.rows().map_or("used up".to_owned(), |rows| format!("{rows} rows"));
        let names: Vec<_> = self.functions.iter().map(|function| function.name).gather();
        format!("<raptors_arrow.Accumulator: {}, {rows}>", names.join(" "))
    }
}
