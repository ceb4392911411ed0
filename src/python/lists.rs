//! Lists that differ in length, on their way to another library.

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::capsule;
use super::errors::{Kind, guarded};
use super::export::in_table;
use super::once::intern;
use super::origin::{Origin, Polars, PyArrow};
use crate::matrix::Ragged;

/// Lists of numbers that differ in length. Any Arrow library reads them, as `pyarrow.chunked_array`
/// and `polars.Series` do.
#[pyclass(frozen, name = "_Lists", module = "raptors_arrow._native")]
pub(super) struct PyLists(Ragged);

impl PyLists {
    pub(super) fn new(lists: Ragged) -> Self {
        Self(lists)
    }
}

#[pymethods]
impl PyLists {
    fn __len__(&self) -> usize {
        self.0.rows()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer may ask for a type, and has to look whether it got it.
        let _ = requested_schema;
        guarded("as_matrix", || {
            let arrays = self.0.to_arrays()?;
            let data_type = arrays.first().map(|array| array.data_type().clone());
            let has_nulls = arrays.iter().any(|array| array.null_count() > 0);
            let mut field = self.0.field().as_ref().clone();
            field.set_data_type(data_type.unwrap_or_else(|| field.data_type().clone()));
            field.set_nullable(field.is_nullable() || has_nulls);
            capsule::stream(py, field.into(), arrays)
        })
    }
}

/// Lists as an object of the library that they came from.
pub(super) fn given<'py>(
    py: Python<'py>,
    origin: &Origin<'py>,
    lists: Ragged,
) -> PyResult<Bound<'py, PyAny>> {
    let field = lists.field().clone();
    let exported = Bound::new(py, PyLists::new(lists))?;
    let chunked = |exported| match PyArrow::loaded(py) {
        Some(pyarrow) => pyarrow.to_chunked_array.bind(py).call1((exported,)),
        None => Err(Kind::Base.error("pyarrow is not imported")),
    };
    match origin {
        Origin::PyArrowArray(_) => chunked(exported)?.call_method0(intern!(py, "combine_chunks")),
        Origin::PyArrowChunked => chunked(exported),
        Origin::PyArrowTable => in_table(py, "Table", chunked(exported)?, &field),
        Origin::PyArrowBatch => {
            let column = chunked(exported)?.call_method0(intern!(py, "combine_chunks"))?;
            in_table(py, "RecordBatch", column, &field)
        }
        Origin::PolarsSeries(_) | Origin::PolarsFrame => {
            let Some(polars) = Polars::loaded(py) else {
                return Err(Kind::Base.error("polars is not imported"));
            };
            let made = polars.series.bind(py).call1((exported,))?;
            match origin {
                Origin::PolarsSeries(name) => made.call_method1(intern!(py, "alias"), (name,)),
                _ => made.call_method0(intern!(py, "to_frame")),
            }
        }
        Origin::NumPy
        | Origin::Masked
        | Origin::PandasSeries(_)
        | Origin::PandasFrame(_)
        | Origin::Other => Ok(exported.into_any()),
    }
}
