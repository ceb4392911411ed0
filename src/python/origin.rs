//! Whose object an argument is, so that the result can be the same kind.
//!
//! No library is imported to find out: an object of a library that was never imported cannot be
//! here. Classes are looked up once and kept.

use arrow_schema::DataType;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use super::once::{Once, intern};
use crate::compute::TYPES;

/// What an argument is, and a result becomes.
#[derive(Clone)]
pub(super) enum Origin<'py> {
    /// `pyarrow.Array`, itself.
    PyArrowArray(Bound<'py, PyAny>),
    /// `pyarrow.ChunkedArray`.
    PyArrowChunked,
    /// `pyarrow.RecordBatch`.
    PyArrowBatch,
    /// `pyarrow.Table`.
    PyArrowTable,
    /// `polars.Series`, with its name.
    PolarsSeries(Bound<'py, PyAny>),
    /// `polars.DataFrame`.
    PolarsFrame,
    /// `pandas.Series`, itself.
    PandasSeries(Bound<'py, PyAny>),
    /// `pandas.DataFrame`, itself.
    PandasFrame(Bound<'py, PyAny>),
    /// `numpy.ndarray`.
    NumPy,
    /// `numpy.ma.MaskedArray`.
    Masked,
    /// Anything else with the Arrow PyCapsule methods or the buffer protocol.
    Other,
}

impl<'py> Origin<'py> {
    /// Asks the libraries whose calls are the smallest first. pandas comes last: beside what its
    /// own objects cost to make, to be asked for is nothing.
    pub(super) fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if let Some(pyarrow) = PyArrow::loaded(py) {
            if object.is_instance(pyarrow.array.bind(py))? {
                return Ok(Self::PyArrowArray(object.clone()));
            }
            for (class, origin) in [
                (&pyarrow.chunked_array, Self::PyArrowChunked),
                (&pyarrow.record_batch, Self::PyArrowBatch),
                (&pyarrow.table, Self::PyArrowTable),
            ] {
                if object.is_instance(class.bind(py))? {
                    return Ok(origin);
                }
            }
        }
        if let Some(numpy) = NumPy::loaded(py)
            && object.is_instance(numpy.ndarray.bind(py))?
        {
            // Only a subclass can have one, and asking an object for what it has not is slow.
            let is_plain = object.get_type().is(numpy.ndarray.bind(py));
            let is_masked = !is_plain && object.hasattr(intern!(py, "mask"))?;
            return Ok(if is_masked { Self::Masked } else { Self::NumPy });
        }
        if let Some(polars) = Polars::loaded(py) {
            if object.is_instance(polars.series.bind(py))? {
                return Ok(Self::PolarsSeries(object.getattr(intern!(py, "name"))?));
            }
            if object.is_instance(polars.frame.bind(py))? {
                return Ok(Self::PolarsFrame);
            }
        }
        if let Some(pandas) = Pandas::loaded(py) {
            if object.is_instance(pandas.series.bind(py))? {
                return Ok(Self::PandasSeries(object.clone()));
            }
            if object.is_instance(pandas.frame.bind(py))? {
                return Ok(Self::PandasFrame(object.clone()));
            }
        }
        Ok(Self::Other)
    }

    /// Whether its columns are the columns of the matrix: a table has no null rows.
    pub(super) fn is_table(&self) -> bool {
        matches!(self, Self::PyArrowBatch | Self::PyArrowTable | Self::PolarsFrame)
    }

    /// Whether it has an index, which its results get too.
    pub(super) fn is_pandas(&self) -> bool {
        matches!(self, Self::PandasSeries(_) | Self::PandasFrame(_))
    }
}

/// A module that somebody has imported. Asked at every call until it is there, so it raises and
/// catches nothing, which would cost more than a small call.
fn imported<'py>(py: Python<'py>, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
    static MODULES: Once<Py<PyDict>> = Once::new();
    let modules = MODULES.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
        PyResult::Ok(modules.unbind())
    });
    modules.ok()?.bind(py).get_item(name).ok()?.filter(|module| !module.is_none())
}

fn class(module: &Bound<'_, PyAny>, name: &str) -> Option<Py<PyType>> {
    Some(module.getattr(name).ok()?.cast_into::<PyType>().ok()?.unbind())
}

fn attribute(module: &Bound<'_, PyAny>, name: &str) -> Option<Py<PyAny>> {
    Some(module.getattr(name).ok()?.unbind())
}

/// What this module uses of pyarrow.
pub(super) struct PyArrow {
    pub(super) array: Py<PyType>,
    chunked_array: Py<PyType>,
    record_batch: Py<PyType>,
    pub(super) table: Py<PyType>,
    pub(super) scalar: Py<PyType>,
    pub(super) to_array: Py<PyAny>,
    pub(super) to_chunked_array: Py<PyAny>,
    pub(super) to_record_batch: Py<PyAny>,
    pub(super) to_table: Py<PyAny>,
    pub(super) data_type: Py<PyType>,
    /// `Array._export_to_c` and `Array._import_from_c`, if this pyarrow has them: with a type that
    /// is known already, half the cost of capsules, whose schema is written, read and thrown away.
    pub(super) export_to_c: Option<Py<PyAny>>,
    pub(super) import_from_c: Option<Py<PyAny>>,
    /// `Array.__arrow_c_array__`, and what gives the attribute `Array.type` of an array.
    pub(super) to_capsules: Py<PyAny>,
    get_type: Py<PyAny>,
    /// The types of numbers, by the names that Arrow has for them.
    numbers: Vec<(DataType, Py<PyAny>)>,
}

impl PyArrow {
    /// `None` until pyarrow was imported.
    pub(super) fn loaded(py: Python<'_>) -> Option<&Self> {
        static LOADED: Once<PyArrow> = Once::new();
        if let Some(loaded) = LOADED.get(py) {
            return Some(loaded);
        }
        let module = imported(py, intern!(py, "pyarrow"))?;
        let array = class(&module, "Array")?;
        let found = Self {
            export_to_c: attribute(array.bind(py), "_export_to_c"),
            import_from_c: attribute(array.bind(py), "_import_from_c"),
            to_capsules: attribute(array.bind(py), "__arrow_c_array__")?,
            get_type: attribute(array.bind(py).getattr("type").ok()?.as_any(), "__get__")?,
            array,
            chunked_array: class(&module, "ChunkedArray")?,
            record_batch: class(&module, "RecordBatch")?,
            table: class(&module, "Table")?,
            scalar: class(&module, "Scalar")?,
            to_array: attribute(&module, "array")?,
            to_chunked_array: attribute(&module, "chunked_array")?,
            to_record_batch: attribute(&module, "record_batch")?,
            to_table: attribute(&module, "table")?,
            data_type: class(&module, "DataType")?,
            numbers: TYPES
                .iter()
                .map(|(name, data_type)| {
                    Some((data_type.clone(), module.call_method0(*name).ok()?.unbind()))
                })
                .collect::<Option<_>>()?,
        };
        Some(LOADED.get_or(py, found))
    }

    /// The type of an array as pyarrow itself has it, whatever a class that somebody derived in
    /// Python says of it; `None` if such a class exports its arrays in a way of its own.
    pub(super) fn type_of<'py>(
        &self,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = array.py();
        if is_written_in_c(array) {
            return array.getattr(intern!(py, "type")).map(Some);
        }
        let export = array.get_type().getattr(intern!(py, "__arrow_c_array__"))?;
        if !self.to_capsules.bind(py).is(&export) {
            return Ok(None);
        }
        self.get_type.bind(py).call1((array,)).map(Some)
    }

    /// Whether a type of pyarrow is one of numbers.
    pub(super) fn is_number(&self, data_type: &Bound<'_, PyAny>) -> PyResult<bool> {
        for (_, number) in &self.numbers {
            if data_type.eq(number)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// pyarrow's type for a type of numbers.
    pub(super) fn number_type<'py>(
        &self,
        py: Python<'py>,
        data_type: &DataType,
    ) -> Option<&Bound<'py, PyAny>> {
        let known = self.numbers.iter().find(|(own, _)| own == data_type);
        known.map(|(_, object)| object.bind(py))
    }
}

/// Whether the class of an object is written in C, so that nobody has overridden its attributes.
#[allow(unsafe_code)]
fn is_written_in_c(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the type is alive as long as its object, and only asked for its flags.
    let flags = unsafe { ffi::PyType_GetFlags(object.get_type_ptr()) };
    flags & ffi::Py_TPFLAGS_HEAPTYPE == 0
}

/// What this module uses of NumPy.
pub(super) struct NumPy {
    pub(super) ndarray: Py<PyType>,
    /// The base of all NumPy scalars.
    pub(super) generic: Py<PyType>,
    pub(super) dtype: Py<PyType>,
    pub(super) float32: Py<PyAny>,
    pub(super) float64: Py<PyAny>,
}

impl NumPy {
    /// `None` until NumPy was imported.
    pub(super) fn loaded(py: Python<'_>) -> Option<&Self> {
        static LOADED: Once<NumPy> = Once::new();
        if let Some(loaded) = LOADED.get(py) {
            return Some(loaded);
        }
        let module = imported(py, intern!(py, "numpy"))?;
        let dtype = class(&module, "dtype")?;
        let float = |name| Some(dtype.bind(py).call1((name,)).ok()?.unbind());
        let found = Self {
            ndarray: class(&module, "ndarray")?,
            generic: class(&module, "generic")?,
            float32: float("float32")?,
            float64: float("float64")?,
            dtype,
        };
        Some(LOADED.get_or(py, found))
    }
}

/// What this module uses of polars.
pub(super) struct Polars {
    pub(super) series: Py<PyType>,
    pub(super) frame: Py<PyType>,
    pub(super) data_type: Py<PyType>,
}

impl Polars {
    /// `None` until polars was imported.
    pub(super) fn loaded(py: Python<'_>) -> Option<&Self> {
        static LOADED: Once<Polars> = Once::new();
        if let Some(loaded) = LOADED.get(py) {
            return Some(loaded);
        }
        let module = imported(py, intern!(py, "polars"))?;
        let found = Self {
            series: class(&module, "Series")?,
            frame: class(&module, "DataFrame")?,
            data_type: class(&module, "DataType")?,
        };
        Some(LOADED.get_or(py, found))
    }
}

/// What this module uses of pandas.
pub(super) struct Pandas {
    pub(super) series: Py<PyType>,
    pub(super) frame: Py<PyType>,
    /// What holds Arrow data in a column.
    pub(super) arrow_array: Py<PyType>,
    /// What holds numbers and a mask in a column.
    pub(super) floating_array: Py<PyType>,
    pub(super) integer_array: Py<PyType>,
    pub(super) boolean_array: Py<PyType>,
    /// `pandas.NA`.
    pub(super) missing: Py<PyAny>,
}

impl Pandas {
    /// `None` until pandas was imported.
    pub(super) fn loaded(py: Python<'_>) -> Option<&Self> {
        static LOADED: Once<Pandas> = Once::new();
        if let Some(loaded) = LOADED.get(py) {
            return Some(loaded);
        }
        let module = imported(py, intern!(py, "pandas"))?;
        let arrays = module.getattr(intern!(py, "arrays")).ok()?;
        let found = Self {
            series: class(&module, "Series")?,
            frame: class(&module, "DataFrame")?,
            arrow_array: class(&arrays, "ArrowExtensionArray")?,
            floating_array: class(&arrays, "FloatingArray")?,
            integer_array: class(&arrays, "IntegerArray")?,
            boolean_array: class(&arrays, "BooleanArray")?,
            missing: attribute(&module, "NA")?,
        };
        Some(LOADED.get_or(py, found))
    }
}
