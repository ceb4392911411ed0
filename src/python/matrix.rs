//! `raptors_arrow.Matrix`: a view that any Arrow library can read.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyCapsule};

use super::errors::guarded;
use super::{argument, export, option};
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
/// >>> pa.array(m).type
/// FixedSizeListType(fixed_size_list<item: double>[2])
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

    fn __repr__(&self) -> String {
        let (rows, width, dtype) = (self.0.rows(), self.0.width(), self.dtype());
        format!("<raptors_arrow.Matrix: {rows} x {width} {dtype}>")
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
