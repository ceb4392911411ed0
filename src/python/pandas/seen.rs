//! A matrix over the data of pandas objects.

use pyo3::exceptions::{PyException, PyMemoryError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice};

use super::super::errors::Kind;
use super::super::import::Imported;
use super::super::numpy::{self, Seen};
use super::super::once::intern;
use super::{Backend, Content, first_present, pyarrow};
use crate::error::Error;
use crate::matrix::Matrix;
use crate::memory::{self, Gather as _};

/// Sees a Series: plain numbers, or rows of them.
pub(in super::super) fn column_seen(
    function: &'static str,
    argument: &'static str,
    series: &Bound<'_, PyAny>,
    width: Option<usize>,
) -> PyResult<Seen> {
    let py = series.py();
    match Content::of_series(series)? {
        Content::Numbers(Backend::NumPy, _) => {
            let numbers = series.call_method0(intern!(py, "to_numpy"))?;
            of_numpy(function, &numbers, width).map(Seen::Matrix)
        }
        Content::Numbers(..) | Content::Vectors(_) => {
            of_arrow(function, &held(function, series)?, false, width)
        }
        Content::Objects { .. } => {
            let arrays = of_objects(function, argument, series)?;
            Ok(match of_arrow(function, &arrays, false, width)? {
                Seen::Matrix(x) => Seen::Matrix(x.with_copy(Some("a column of Python objects"))),
                other => other,
            })
        }
        Content::Other => {
            let dtype = series.getattr(intern!(py, "dtype"))?;
            Err(Kind::Type.error(format!(
                "{function}: expected {argument} to be a Series of numbers or of vectors, got one \
                 of dtype {dtype}"
            )))
        }
    }
}

/// Sees a DataFrame: columns of numbers, or one column of vectors.
pub(in super::super) fn frame_seen(
    function: &'static str,
    argument: &'static str,
    frame: &Bound<'_, PyAny>,
    width: Option<usize>,
) -> PyResult<Seen> {
    let py = frame.py();
    let columns = FrameColumns::of(frame)?;
    let matrix = match columns.contents.as_slice() {
        // A frame without columns has no type; NumPy's own is float64.
        [] => of_numpy(function, &frame.call_method1(intern!(py, "to_numpy"), ("float64",))?, None),
        [one] if one.is_vectors() => {
            return column_seen(function, argument, &columns.column(0)?, width);
        }
        _ => {
            columns.check(function, argument)?;
            match columns.backend() {
                Backend::NumPy => columns.of_numpy(function),
                Backend::Nullable | Backend::Arrow => columns.of_arrow(function),
            }
        }
    }?;
    match width {
        Some(expected) if expected != matrix.width() => {
            let (what, got) = ("rows, as width says,", matrix.width());
            Err(Error::Width { what, expected, got }.in_function(function).into())
        }
        _ => Ok(Seen::Matrix(matrix)),
    }
}

/// How the numbers of a frame are held; `None` if it is one column of vectors.
pub(super) fn frame_backend(frame: &Bound<'_, PyAny>) -> PyResult<Option<Backend>> {
    let columns = FrameColumns::of(frame)?;
    Ok(match columns.contents.as_slice() {
        [one] if one.is_vectors() => None,
        _ => Some(columns.backend()),
    })
}

/// How the numbers of a column are held.
pub(super) fn column_backend(series: &Bound<'_, PyAny>) -> PyResult<Backend> {
    Ok(Content::of_series(series)?.backend())
}

/// The columns of a frame. Labels may be anything, and the same twice.
struct FrameColumns<'py> {
    frame: Bound<'py, PyAny>,
    contents: Vec<Content>,
}

impl<'py> FrameColumns<'py> {
    fn of(frame: &Bound<'py, PyAny>) -> PyResult<Self> {
        let dtypes = frame.getattr(intern!(frame.py(), "dtypes"))?;
        let mut columns = Self { frame: frame.clone(), contents: Vec::new() };
        let mut last: Option<Bound<'_, PyAny>> = None;
        for (i, dtype) in dtypes.try_iter()?.enumerate() {
            let dtype = dtype?;
            // Neighbours mostly have the very same dtype, and to ask it costs more than the column.
            let same = last.filter(|last| last.is(&dtype)).and_then(|_| columns.contents.last());
            let content = match same {
                Some(numbers @ Content::Numbers(..)) => numbers.clone(),
                _ => Content::of(&dtype, || columns.column(i))?,
            };
            columns.contents.push(content);
            last = Some(dtype);
        }
        Ok(columns)
    }

    /// A column as a Series.
    fn column(&self, i: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = self.frame.py();
        self.frame.getattr(intern!(py, "iloc"))?.get_item((PySlice::full(py), i))
    }

    /// A column as a NumPy array.
    fn array(&self, i: usize) -> PyResult<Bound<'py, PyAny>> {
        self.column(i)?.call_method0(intern!(self.frame.py(), "to_numpy"))
    }

    fn backend(&self) -> Backend {
        self.contents.iter().map(Content::backend).max().unwrap_or(Backend::NumPy)
    }

    /// Refuses columns that are no numbers, by their names.
    fn check(&self, function: &str, argument: &str) -> PyResult<()> {
        if let Some(i) = self.contents.iter().position(Content::is_vectors) {
            let label = self.label(i);
            let others = self.said(|j, _| j != i);
            return Err(Kind::Type.error(format!(
                "{function}: expected {argument} to have columns of numbers, or one column of \
                 vectors, got vectors in {label} beside {others}; pass that column: \
                 {argument}[{label}]"
            )));
        }
        if !self.contents.iter().all(Content::is_numbers) {
            let others = self.said(|_, content| !content.is_numbers());
            return Err(Kind::Type.error(format!(
                "{function}: expected {argument} to have columns of numbers, got {others}; leave \
                 them out: {argument}.select_dtypes(\"number\")"
            )));
        }
        Ok(())
    }

    /// Whether all columns have one type.
    fn are_of_one_type(&self) -> bool {
        let element = |content: &Content| match content {
            Content::Numbers(_, element) => numpy_name(element).to_owned(),
            _ => String::new(),
        };
        self.contents.windows(2).all(|pair| element(&pair[0]) == element(&pair[1]))
    }

    /// A label as Python writes it.
    fn label(&self, i: usize) -> String {
        let label = self.frame.getattr("columns").and_then(|columns| columns.get_item(i)?.repr());
        label.map_or_else(|_| "?".to_owned(), |label| label.to_string())
    }

    /// Some columns by name and dtype.
    fn said(&self, which: impl Fn(usize, &Content) -> bool) -> String {
        const MOST: usize = 8;
        let columns = self.contents.iter().enumerate().filter(|(i, content)| which(*i, content));
        let columns: Vec<usize> = columns.map(|(i, _)| i).gather();
        let dtype = |i: usize| self.column(i)?.getattr("dtype")?.str();
        let one = |i: &usize| {
            let dtype = dtype(*i).map_or_else(|_| "?".to_owned(), |dtype| dtype.to_string());
            format!("{} ({dtype})", self.label(*i))
        };
        let mut names: Vec<String> = columns.iter().take(MOST).map(one).gather();
        if columns.len() > MOST {
            names.push(format!("{} more", columns.len() - MOST));
        }
        names.join(", ")
    }

    /// All columns are NumPy arrays. pandas keeps those of one type in one array or in several: the
    /// one is seen as it is, the several each by itself; and so is one that was cut, by rows, from
    /// columns that are longer, as then only a column still lies in one piece.
    fn of_numpy(&self, function: &'static str) -> PyResult<Matrix> {
        let py = self.frame.py();
        let width = self.contents.len();
        let is_contiguous = |a: &Bound<'_, PyAny>| a.getattr("flags")?.getattr("forc")?.is_truthy();
        let (first, last) = (self.array(0)?, self.array(width - 1)?);
        if self.are_of_one_type() && share_an_array(&first, &last)? {
            let whole = self.frame.call_method0(intern!(py, "to_numpy"))?;
            if is_contiguous(&whole)? || !is_contiguous(&first)? {
                return of_numpy(function, &whole, None);
            }
        }
        let mut copied = None;
        let mut columns = memory::with_capacity(width);
        for i in 0..width {
            let column = of_numpy(function, &self.array(i)?, None)?;
            copied = copied.or(column.copied());
            memory::extend(&mut columns, column.to_arrays()?);
        }
        let matrix = Matrix::from_columns(&columns);
        Ok(matrix.map_err(|error| error.in_function(function))?.with_copy(copied))
    }

    /// Some columns have nulls, or lie in chunks: pyarrow lines the chunks up.
    fn of_arrow(&self, function: &'static str) -> PyResult<Matrix> {
        let py = self.frame.py();
        let pyarrow = pyarrow(py, "a column with nulls of its own")?;
        let (arrays, names) = (PyList::empty(py), PyList::empty(py));
        for (i, content) in self.contents.iter().enumerate() {
            arrays.append(match content.backend() {
                Backend::NumPy => pyarrow.to_array.bind(py).call1((self.array(i)?,))?,
                Backend::Nullable | Backend::Arrow => held(function, &self.column(i)?)?,
            })?;
            names.append(i.to_string())?;
        }
        let make = pyarrow.table.bind(py).getattr(intern!(py, "from_arrays"))?;
        matrix(function, of_arrow(function, &make.call1((arrays, names))?, true, None)?)
    }
}

/// NumPy's name of a type of numbers, of which pyarrow's own differs in the floats.
fn numpy_name(name: &str) -> &str {
    match name {
        "double" => "float64",
        "float" => "float32",
        "halffloat" => "float16",
        other => other,
    }
}

/// Whether two columns are views of one array, by what NumPy says of them. If pandas holds several
/// views of that array, it copies them to give one: slower, but no less true.
fn share_an_array(first: &Bound<'_, PyAny>, last: &Bound<'_, PyAny>) -> PyResult<bool> {
    let base = first.getattr("base")?;
    Ok(!base.is_none() && base.is(&last.getattr("base")?))
}

fn of_numpy(
    function: &'static str,
    array: &Bound<'_, PyAny>,
    width: Option<usize>,
) -> PyResult<Matrix> {
    matrix(function, numpy::seen(function, array, None, width)?)
}

fn matrix(function: &'static str, seen: Seen) -> PyResult<Matrix> {
    match seen {
        Seen::Matrix(matrix) => Ok(matrix),
        Seen::Ragged(lists) => Err(lists.odd_row(None).in_function(function).into()),
        Seen::Number => Err(Kind::Base.error(format!("{function}: pandas gave one number"))),
    }
}

fn of_arrow(
    function: &'static str,
    data: &Bound<'_, PyAny>,
    is_table: bool,
    width: Option<usize>,
) -> PyResult<Seen> {
    let Some(imported) = Imported::from_object(function, data)? else {
        return Err(Kind::Base.error(format!("{function}: pandas gave no Arrow data")));
    };
    let seen = imported.into_seen(data.py(), Some(is_table), width);
    Ok(seen.map_err(|error| error.in_function(function))?)
}

/// The Arrow data of a column whose array can give it: what pyarrow itself asks pandas for.
fn held<'py>(function: &str, series: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = series.py();
    pyarrow(py, "a column with nulls of its own")?;
    let array = series.getattr(intern!(py, "array"))?;
    match array.getattr_opt(intern!(py, "__arrow_array__"))? {
        Some(give) => give.call0(),
        None => {
            let got = array.get_type().fully_qualified_name()?;
            let message = "to give its data to Arrow, which it does not";
            Err(Kind::Type.error(format!("{function}: expected {got} {message}")))
        }
    }
}

/// Elements of lists that are converted at once: some milliseconds, between which Ctrl-C is heard.
const AT_ONCE: usize = 1 << 20;

/// A column of Python objects as a chunked array. What pandas calls missing is null; a NaN inside
/// of a list is a number.
fn of_objects<'py>(
    function: &str,
    argument: &str,
    series: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = series.py();
    let pyarrow = pyarrow(py, "a column of Python objects")?;
    let values = series.call_method0(intern!(py, "to_numpy"))?;
    let is_null = series.call_method0(intern!(py, "isna"))?;
    let is_null = is_null.call_method0(intern!(py, "to_numpy"))?;
    let convert = |rows: &Bound<'py, PySlice>| -> PyResult<Bound<'py, PyAny>> {
        let options = PyDict::new(py);
        options.set_item(intern!(py, "mask"), is_null.get_item(rows)?)?;
        let array = pyarrow.to_array.bind(py).call((values.get_item(rows)?,), Some(&options));
        array.map_err(|error| unread(py, function, argument, error))
    };
    let rows = series.len()?;
    let step = rows_at_once(&values)?;
    let mut chunks = Vec::new();
    for first in (0..rows).step_by(step) {
        py.check_signals()?;
        let last = rows.min(first.saturating_add(step));
        chunks.push(convert(&PySlice::new(py, first as isize, last as isize, 1))?);
    }
    let data_type = intern!(py, "type");
    let mut known: Option<Bound<'_, PyAny>> = None;
    for chunk in &chunks {
        let own = chunk.getattr(data_type)?;
        match &known {
            _ if says_nothing(&own)? => {}
            None => known = Some(own),
            Some(known) if known.eq(&own)? => {}
            // Whole numbers in some lists, fractions in others: pyarrow finds what holds both.
            Some(_) => {
                let all = convert(&PySlice::full(py))?;
                known = Some(all.getattr(data_type)?);
                chunks = vec![all];
                break;
            }
        }
    }
    // No row has an element: its type may be any, and that of Python's own numbers is float64.
    let known = match known {
        Some(known) => known,
        None => {
            let module = py.import("pyarrow")?;
            module.call_method1("list_", (module.call_method0("float64")?,))?
        }
    };
    for chunk in &mut chunks {
        if !chunk.getattr(data_type)?.eq(&known)? {
            *chunk = chunk.call_method1(intern!(py, "cast"), (&known,))?;
        }
    }
    pyarrow.to_chunked_array.bind(py).call1((chunks, known))
}

/// What pyarrow says of objects that it cannot read, as an error of ours.
fn unread(py: Python<'_>, function: &str, argument: &str, error: PyErr) -> PyErr {
    let kind = if error.is_instance_of::<PyMemoryError>(py) {
        Kind::Memory
    } else if error.is_instance_of::<PyOverflowError>(py) {
        Kind::Overflow
    } else if error.is_instance_of::<PyException>(py) {
        Kind::Type
    } else {
        return error;
    };
    let said = error.value(py).str().map_or_else(|_| "?".to_owned(), |said| said.to_string());
    let ours = kind.error(format!(
        "{function}: expected {argument} to be a column of numbers, or of lists or 1-D arrays of \
         them, got objects that pyarrow does not read: {said}"
    ));
    ours.set_cause(py, Some(error));
    ours
}

/// Whether a type was made from nothing: nulls, or lists of no elements.
fn says_nothing(data_type: &Bound<'_, PyAny>) -> PyResult<bool> {
    let said = data_type.str()?;
    let said = said.to_cow()?;
    Ok(said == "null" || said == "list<item: null>")
}

/// The rows of which [`AT_ONCE`] elements are, if all are as long as the first.
fn rows_at_once(values: &Bound<'_, PyAny>) -> PyResult<usize> {
    let first = first_present(values)?;
    let len = first.map_or(1, |first| first.len().unwrap_or(1));
    Ok((AT_ONCE / len.max(1)).max(1))
}
