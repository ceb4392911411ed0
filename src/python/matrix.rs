//! `raptors_arrow.Matrix`: a view that any Arrow library can read.

use pyo3::exceptions::{PyAttributeError, PyImportError, PyIndexError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyCapsule, PyDict, PyNotImplemented, PySlice, PyTuple};

use super::errors::{Kind, detached, guarded};
use super::once::intern;
use super::{argument, export, numpy, option, shown};
use crate::error::Error;
use crate::matrix::Matrix;
use crate::type_name::TypeName;

/// Numbers in rows and columns, over Arrow buffers that are shared, not copied.
///
/// Any Arrow library reads it through the Arrow PyCapsule methods, such as
/// ``pyarrow.array(m)`` or ``polars.Series(m)``.
///
/// A type that is asked for, as in ``pyarrow.array(m, type=...)``, may have other elements (they
/// are changed as ``cast`` does it: a number that does not fit is an error) and lists of another
/// kind. Any other type is an error too: what comes is what was asked for.
///
/// Examples
/// --------
/// >>> import pyarrow as pa
/// >>> import raptors_arrow as ra
/// >>> m = ra.as_matrix(pa.array([1.0, 2.0, 3.0, 4.0]), width=2)
/// >>> m
/// <raptors_arrow.Matrix: 2 x 2 float64>
///  [1, 2]
///  [3, 4]
/// >>> pa.array(m).type
/// FixedSizeListType(fixed_size_list<item: double>[2])
/// >>> m[1][0], m[1:].shape
/// (3.0, (1, 2))
#[pyclass(frozen, name = "Matrix", module = "raptors_arrow")]
pub(super) struct PyMatrix(Matrix);

impl PyMatrix {
    pub(super) fn new(matrix: Matrix) -> Self {
        Self(matrix)
    }

    /// The matrix, plain numbers reshaped to rows of `width`.
    pub(super) fn viewed(&self, width: Option<usize>) -> crate::Result<Matrix> {
        match width {
            Some(width) if self.0.is_vector() => {
                Matrix::reshape_chunks(&self.0.to_arrays()?, width)
            }
            Some(width) if width != self.0.width() => {
                let (what, got) = ("rows, as width says,", self.0.width());
                Err(Error::Width { what, expected: width, got }.in_function("as_matrix"))
            }
            _ => Ok(self.0.clone()),
        }
    }
}

impl PyMatrix {
    fn item<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let matrix = &self.0;
        if let Ok(slice) = index.cast::<PySlice>() {
            let len = isize::try_from(matrix.rows()).unwrap_or(isize::MAX);
            let at = slice.indices(len)?;
            if at.step != 1 {
                let step = at.step;
                return Err(Kind::Value.error(format!(
                    "as_matrix: expected a slice of rows that follow one another, got step {step}; \
                     take other rows with to_numpy() or to_pyarrow()"
                )));
            }
            let start = usize::try_from(at.start).unwrap_or(0);
            let rows = matrix.slice(start..start + at.slicelength);
            return Ok(Bound::new(py, Self(rows))?.into_any());
        }
        if let Ok(both) = index.cast::<PyTuple>()
            && both.len() == 2
            && !matrix.is_vector()
        {
            let row = self.item(py, &both.get_item(0)?)?;
            let of_matrix = row.cast::<Self>().is_ok_and(|row| row.get().0.is_vector());
            return match of_matrix || row.is_none() {
                true if row.is_none() => Ok(row),
                true => row.get_item(both.get_item(1)?),
                false => Err(refused(index)),
            };
        }
        let is_whole = index.hasattr(intern!(py, "__index__"))?;
        let at =
            index.extract::<isize>().ok().filter(|_| is_whole).ok_or_else(|| refused(index))?;
        let row =
            if at < 0 { matrix.rows().checked_add_signed(at) } else { Some(at.unsigned_abs()) };
        let Some(row) = row.filter(|row| *row < matrix.rows()) else {
            let rows = matrix.rows();
            return Err(PyIndexError::new_err(format!("as_matrix: row {at} of {rows}")));
        };
        if matrix.is_vector() {
            let one = matrix.slice(row..row + 1).to_arrays()?;
            return export::scalar(py, &one[0]);
        }
        match matrix.row_vector(row)? {
            Some(vector) => Ok(Bound::new(py, Self(vector))?.into_any()),
            None => Ok(py.None().into_bound(py)),
        }
    }
}

fn refused(index: &Bound<'_, PyAny>) -> PyErr {
    let got = index.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Kind::Type.error(format!(
        "as_matrix: expected a row number, a slice of rows, or a row and a column, got {got}"
    ))
}

/// A module that is imported now, or the extra that has it.
fn imported<'py>(py: Python<'py>, name: &str, extra: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        let message =
            format!("as_matrix: this needs {name}: pip install \"raptors-arrow[{extra}]\"");
        let missing = PyImportError::new_err(message);
        missing.set_cause(py, Some(error));
        missing
    })
}

/// The name of an element type, as NumPy and pyarrow users know it.
pub(super) fn dtype(matrix: &Matrix) -> String {
    TypeName(matrix.element_type()).to_string()
}

#[pymethods]
impl PyMatrix {
    /// Number of rows.
    #[getter]
    fn rows(&self) -> usize {
        self.0.rows()
    }

    /// Number of columns: the elements of a row.
    #[getter]
    fn width(&self) -> usize {
        self.0.width()
    }

    /// Rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.0.rows(), self.0.width())
    }

    /// Name of the element type, such as ``"float32"``.
    #[getter]
    fn dtype(&self) -> String {
        dtype(&self.0)
    }

    /// Number of chunks that the rows lie in.
    #[getter]
    fn num_chunks(&self) -> usize {
        self.0.num_chunks()
    }

    /// Number of rows that are null as a whole.
    #[getter]
    fn null_rows(&self) -> usize {
        self.0.null_rows()
    }

    /// Why values had to be copied on the way in, or ``None``.
    #[getter]
    fn copied(&self) -> Option<&'static str> {
        self.0.copied()
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        guarded("as_matrix", || shown::text(py, &self.0))
    }

    /// The shape, the type and the first rows as HTML, for notebooks.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        guarded("as_matrix", || shown::html(py, &self.0))
    }

    /// A row as a vector, ``None`` if it is null; an element of a vector, or of ``m[i, j]``, as a
    /// number; a slice as a matrix over the same memory.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded("as_matrix", || self.item(py, index))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let builtins = slf.py().import("builtins")?;
        let rows = builtins.call_method1("range", (slf.get().0.rows(),))?;
        let items = builtins.call_method1("map", (slf.getattr("__getitem__")?, rows))?;
        Ok(items.try_iter()?.into_any())
    }

    /// Whether both have the same shape, element type and nulls, and equal numbers; however they
    /// are stored. A NaN equals nothing.
    fn __eq__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(PyNotImplemented::get(py).to_owned().into_any());
        };
        let other = &other.get().0;
        let equal = guarded("as_matrix", || Ok(detached(py, || self.0.equals(other))?))?;
        Ok(equal.into_pyobject(py)?.to_owned().into_any())
    }

    /// The numbers as a NumPy array: a read-only view where they lie in one run without nulls, else
    /// a copy, in which a null is NaN, or masked among integers.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        guarded("as_matrix", || {
            imported(py, "numpy", "numpy")?;
            numpy::as_array(py, &self.0, false, true)
        })
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let is_view = self.0.one_run().is_some();
        if copy == Some(false) && !is_view {
            let why =
                self.0.copied().unwrap_or("its elements lie in several runs, or some are null");
            return Err(Kind::Value.error(format!("as_matrix: a NumPy array needs a copy: {why}")));
        }
        let array = self.to_numpy(py)?;
        let array = match dtype.filter(|dtype| !dtype.is_none()) {
            Some(dtype) => {
                let options = PyDict::new(py);
                options.set_item("copy", false)?;
                array.call_method("astype", (dtype,), Some(&options))?
            }
            None => array,
        };
        match copy {
            Some(true) => array.call_method0("copy"),
            _ => Ok(array),
        }
    }

    /// The numbers as pyarrow's own, without a copy: an array, a chunked array if they lie in
    /// several chunks, or a table if they came from one.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let pyarrow = imported(slf.py(), "pyarrow", "pyarrow")?;
        let matrix = &slf.get().0;
        let make = match matrix.num_chunks() {
            _ if matrix.is_table() => "table",
            1 => "array",
            _ => "chunked_array",
        };
        pyarrow.call_method1(make, (slf,))
    }

    /// The numbers as a polars Series, or as a DataFrame if they came from a table.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let polars = imported(slf.py(), "polars", "polars")?;
        let make = if slf.get().0.is_table() { "DataFrame" } else { "Series" };
        polars.call_method1(make, (slf,))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>,))> {
        let home = slf.py().import("raptors_arrow")?;
        Ok((home.getattr("as_matrix")?, (Self::to_pyarrow(slf)?,)))
    }

    /// The data as a pair of Arrow capsules. Only a matrix in one chunk has this method, so that
    /// others are asked for their stream.
    #[getter]
    fn __arrow_c_array__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCFunction>> {
        if self.0.num_chunks() != 1 {
            let message = "a matrix in several chunks has __arrow_c_stream__ only";
            return Err(PyAttributeError::new_err(message));
        }
        let matrix = self.0.clone();
        let name = Some(c"__arrow_c_array__");
        PyCFunction::new_closure(py, name, None, move |args, options| {
            guarded("as_matrix", || {
                let requested = match options {
                    Some(options) => options.get_item("requested_schema")?,
                    None => None,
                };
                let requested = requested.or_else(|| args.get_item(0).ok());
                Ok(export::array_capsules(args.py(), &matrix, requested.as_ref())?.unbind())
            })
        })
    }

    /// The data as an Arrow stream, one array for each chunk.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        guarded("as_matrix", || export::stream_capsule(py, &self.0, requested_schema))
    }

    /// The type as an Arrow capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        guarded("as_matrix", || export::schema_capsule(py, &self.0))
    }
}

/// See an object as a matrix, without copying it.
///
/// Parameters
/// ----------
/// x
///     Lists of one length, a tensor column, a table of columns, a NumPy array, or anything with
///     the Arrow PyCapsule methods.
/// width
///     For plain numbers: the elements of one row.
///
/// Returns
/// -------
/// Matrix
///     A view with ``rows``, ``width``, ``dtype`` and the Arrow PyCapsule methods. Plain numbers
///     with a ``width``, and 2-D NumPy arrays in C order, are exported as fixed-size lists.
///
/// Examples
/// --------
/// >>> import pyarrow as pa
/// >>> import raptors_arrow as ra
/// >>> ra.as_matrix(pa.array([1.0, 2.0, 3.0, 4.0]), width=2)
/// <raptors_arrow.Matrix: 2 x 2 float64>
///  [1, 2]
///  [3, 4]
#[pyfunction]
#[pyo3(signature = (x, width=None))]
pub(super) fn as_matrix<'py>(
    x: &Bound<'py, PyAny>,
    width: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyMatrix> {
    guarded("as_matrix", || {
        let width = width.map(|width| option::width("as_matrix", width)).transpose()?.flatten();
        let (matrix, _) = argument::take_matrix("as_matrix", x, width)?;
        Ok(PyMatrix(if width.is_some() { matrix.into_lists()? } else { matrix }))
    })
}
