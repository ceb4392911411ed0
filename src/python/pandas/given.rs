//! Results as pandas objects, with the index and the names of what they were made from.

use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};

use super::super::errors::Kind;
use super::super::export::Source;
use super::super::lists::PyLists;
use super::super::matrix::PyMatrix;
use super::super::numpy;
use super::super::once::intern;
use super::super::origin::{NumPy, Origin, Pandas};
use super::super::results;
use super::seen::{column_backend, frame_backend};
use super::{Backend, pyarrow};
use crate::compute::Value;
use crate::compute::registry::Gives;
use crate::matrix::{Matrix, Ragged};

/// Labels of rows or columns; `None` for pandas' own numbers from 0.
type Labels<'py> = Option<Bound<'py, PyAny>>;

/// Gives a result that is more than a number.
pub(in super::super) fn given<'py>(
    py: Python<'py>,
    source: &Source<'_, 'py>,
    result: Value,
) -> PyResult<Bound<'py, PyAny>> {
    let result = match result {
        Value::Vector(array) => Matrix::reshape(&array, 1)?,
        Value::Matrix(matrix) => matrix,
        Value::Ragged(lists) => return of_lists(py, &source.origin, lists),
        Value::Named(values) => {
            let values = values.into_iter().map(|(name, value)| found(py, name, value));
            return results::named(py, source.function.name, values.collect::<PyResult<_>>()?);
        }
        Value::Number(_) | Value::Integer(_) | Value::Scalar(_) => {
            return Err(Kind::Base.error("a number has no index"));
        }
    };
    match &source.origin {
        Origin::PandasFrame(frame) => match frame_backend(frame)? {
            Some(backend) => of_frame(frame, backend, source, result),
            None => of_vectors(frame, source, result),
        },
        Origin::PandasSeries(series) => {
            let labels = if source.is_per_row { index(series)? } else { None };
            let name = series.getattr(intern!(py, "name"))?;
            of_series(py, column_backend(series)?, result, labels, name)
        }
        _ => Err(Kind::Base.error("a result of pandas from something else")),
    }
}

/// Lists that differ in length, as the column that they came from.
fn of_lists<'py>(
    py: Python<'py>,
    origin: &Origin<'py>,
    lists: Ragged,
) -> PyResult<Bound<'py, PyAny>> {
    let (column, frame) = match origin {
        Origin::PandasFrame(frame) => {
            let iloc = frame.getattr(intern!(py, "iloc"))?;
            (iloc.get_item((PySlice::full(py), 0))?, Some(frame))
        }
        Origin::PandasSeries(series) => (series.clone(), None),
        _ => return Err(Kind::Base.error("a result of pandas from something else")),
    };
    let pyarrow = pyarrow(py, "a column of vectors")?;
    let data = pyarrow.to_chunked_array.bind(py).call1((PyLists::new(lists),))?;
    let values = pandas(py)?.arrow_array.bind(py).call1((data,))?;
    let options = PyDict::new(py);
    options.set_item(intern!(py, "index"), index(&column)?)?;
    options.set_item(intern!(py, "name"), column.getattr(intern!(py, "name"))?)?;
    options.set_item(intern!(py, "copy"), false)?;
    let series = pandas(py)?.series.bind(py).call((values,), Some(&options))?;
    let Some(frame) = frame else { return Ok(series) };
    let frame_of = series.call_method0(intern!(py, "to_frame"))?;
    frame_of.setattr(intern!(py, "columns"), frame.getattr(intern!(py, "columns"))?)?;
    Ok(frame_of)
}

/// What is found by a function with several results: numbers, or a row of them for each query.
fn found<'py>(py: Python<'py>, name: &str, value: Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Matrix(matrix) => table(py, Backend::NumPy, matrix, None, None),
        Value::Vector(array) => {
            let name = name.into_pyobject(py)?.into_any();
            of_series(py, Backend::NumPy, Matrix::reshape(&array, 1)?, None, name)
        }
        _ => Err(Kind::Base.error(format!("{name} is neither numbers nor rows of them"))),
    }
}

/// A result of columns of numbers.
fn of_frame<'py>(
    frame: &Bound<'py, PyAny>,
    backend: Backend,
    source: &Source<'_, 'py>,
    result: Matrix,
) -> PyResult<Bound<'py, PyAny>> {
    let py = frame.py();
    let columns = || frame.getattr(intern!(py, "columns")).map(Some);
    if result.is_flat() {
        // One number for each row, or for each column.
        let labels = if source.is_per_row { index(frame)? } else { columns()? };
        return of_series(py, backend, result, labels, py.None().into_bound(py));
    }
    let (rows, names) = match source.function.gives {
        Gives::Square => (columns()?, columns()?),
        Gives::Transposed => (columns()?, index(frame)?),
        // Dimensions that were kept.
        Gives::Reduced if source.is_per_row => (index(frame)?, None),
        Gives::Reduced if source.x.is_some_and(|x| x.width() == result.width()) => {
            (None, columns()?)
        }
        Gives::Reduced => (None, None),
        _ if source.function.keeps_columns() => (index(frame)?, columns()?),
        _ => (index(frame)?, None),
    };
    table(py, backend, result, rows, names)
}

/// A result of a frame of one column of vectors: such a frame again, if it has those rows.
fn of_vectors<'py>(
    frame: &Bound<'py, PyAny>,
    source: &Source<'_, 'py>,
    result: Matrix,
) -> PyResult<Bound<'py, PyAny>> {
    let py = frame.py();
    let column = frame.getattr(intern!(py, "iloc"))?.get_item((PySlice::full(py), 0))?;
    let labels = if source.is_per_row { index(frame)? } else { None };
    let is_same = source.function.keeps_columns() && !result.is_flat();
    let name = column.getattr(intern!(py, "name"))?;
    let series = of_series(py, column_backend(&column)?, result, labels, name)?;
    if !is_same {
        return Ok(series);
    }
    let frame_of = series.call_method0(intern!(py, "to_frame"))?;
    frame_of.setattr(intern!(py, "columns"), frame.getattr(intern!(py, "columns"))?)?;
    Ok(frame_of)
}

fn index<'py>(object: &Bound<'py, PyAny>) -> PyResult<Labels<'py>> {
    object.getattr(intern!(object.py(), "index")).map(Some)
}

/// Plain numbers, or rows of them, as a Series. Labels of another length are not theirs: plain
/// numbers that were read as rows of a width have fewer results.
fn of_series<'py>(
    py: Python<'py>,
    backend: Backend,
    result: Matrix,
    labels: Labels<'py>,
    name: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let values = match (result.is_flat(), backend) {
        (true, Backend::NumPy) => numbers(py, result)?,
        (true, Backend::Nullable) => nullable(py, result)?,
        (false, _) | (_, Backend::Arrow) => arrow(py, result)?,
    };
    let len = values.len()?;
    let labels = match labels {
        Some(labels) if labels.len()? == len => Some(labels),
        _ => None,
    };
    let options = PyDict::new(py);
    options.set_item(intern!(py, "index"), labels)?;
    options.set_item(intern!(py, "name"), name)?;
    options.set_item(intern!(py, "copy"), false)?;
    pandas(py)?.series.bind(py).call((values,), Some(&options))
}

/// Rows of numbers as a DataFrame, a column for each of theirs.
fn table<'py>(
    py: Python<'py>,
    backend: Backend,
    result: Matrix,
    rows: Labels<'py>,
    names: Labels<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(py);
    options.set_item(intern!(py, "index"), rows)?;
    options.set_item(intern!(py, "copy"), false)?;
    let frame = pandas(py)?.frame.bind(py);
    let columns = PyDict::new(py);
    // Flags are no numbers, of which a column could be seen as a matrix.
    let are_flags = *result.element_type() == DataType::Boolean;
    let is_whole = backend == Backend::NumPy || are_flags;
    let batches = if is_whole { None } else { result.to_record_batches() };
    if let Some(batches) = batches.transpose()? {
        for i in 0..result.width() {
            let chunks = batches.iter().map(|batch| Matrix::reshape(batch.column(i), 1));
            let column = Matrix::from_chunks(chunks.collect::<crate::Result<_>>()?)?;
            let values = match backend {
                Backend::Arrow => arrow(py, column)?,
                _ => nullable(py, column)?,
            };
            columns.set_item(i, values)?;
        }
    } else {
        let values = numpy::returned(py, result, are_flags)?;
        let has_mask = are_flags && backend != Backend::NumPy;
        if !has_mask && !is_masked(py, &values) {
            options.set_item(intern!(py, "columns"), names)?;
            return frame.call((values,), Some(&options));
        }
        // Integers or flags, some of them null, or flags beside a mask.
        let width = values.getattr("shape")?.get_item(1)?.extract::<usize>()?;
        for i in 0..width {
            let mut column = masked(py, &values.get_item((PySlice::full(py), i))?)?;
            if has_mask && backend == Backend::Arrow {
                let to_array = &pyarrow(py, "a column of an Arrow dtype")?.to_array;
                let data = to_array.bind(py).call1((column,))?;
                column = pandas(py)?.arrow_array.bind(py).call1((data,))?;
            }
            columns.set_item(i, column)?;
        }
    }
    let made = frame.call((columns,), Some(&options))?;
    if let Some(names) = names {
        made.setattr(intern!(py, "columns"), names)?;
    }
    Ok(made)
}

/// Plain numbers as a NumPy array: NaN for a null, and integers with nulls with a mask.
fn numbers(py: Python<'_>, result: Matrix) -> PyResult<Bound<'_, PyAny>> {
    let values = numpy::returned(py, result, false)?;
    if is_masked(py, &values) { masked(py, &values) } else { Ok(values) }
}

/// Plain numbers as a column with a mask. pandas has none of float16.
fn nullable(py: Python<'_>, result: Matrix) -> PyResult<Bound<'_, PyAny>> {
    if *result.element_type() == DataType::Float16 {
        return numbers(py, result);
    }
    masked(py, &numpy::returned(py, result, true)?)
}

/// A NumPy array, masked or not, as a column with a mask.
fn masked<'py>(py: Python<'py>, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let ma = py.import(intern!(py, "numpy.ma"))?;
    let mask = ma.call_method1(intern!(py, "getmaskarray"), (values,))?;
    let values = ma.call_method1(intern!(py, "getdata"), (values,))?;
    let pandas = pandas(py)?;
    let make = match values.getattr("dtype")?.getattr("kind")?.extract()? {
        'f' => &pandas.floating_array,
        'b' => &pandas.boolean_array,
        _ => &pandas.integer_array,
    };
    make.bind(py).call1((values, mask))
}

fn is_masked(py: Python<'_>, values: &Bound<'_, PyAny>) -> bool {
    NumPy::loaded(py).is_some_and(|numpy| !values.get_type().is(numpy.ndarray.bind(py)))
}

/// Numbers, or rows of them, as a column of an Arrow dtype.
fn arrow(py: Python<'_>, result: Matrix) -> PyResult<Bound<'_, PyAny>> {
    let pyarrow = pyarrow(py, "a column of vectors")?;
    let data = pyarrow.to_chunked_array.bind(py).call1((PyMatrix::new(result),))?;
    pandas(py)?.arrow_array.bind(py).call1((data,))
}

fn pandas(py: Python<'_>) -> PyResult<&Pandas> {
    Pandas::loaded(py).ok_or_else(|| Kind::Base.error("pandas is not imported"))
}
