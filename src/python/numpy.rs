//! NumPy arrays in and out, through the buffer protocol: no copy, and NumPy is never imported.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;

use super::errors::Kind;
use super::origin::NumPy;
use crate::error::Error;
use crate::matrix::Matrix;

/// What an object of the buffer protocol is seen as.
pub(super) enum Seen {
    /// One number (0-D).
    Number,
    /// One or two dimensions.
    Matrix(Matrix),
}

/// Which elements of a masked array are masked, row by row.
pub(super) struct Mask(Vec<u8>);

impl Mask {
    pub(super) fn of(function: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let ma = py.import(intern!(py, "numpy.ma"))?;
        if !object.is_instance(&ma.getattr(intern!(py, "MaskedArray"))?)? {
            let got = object.get_type().fully_qualified_name()?;
            return Err(Kind::Type.error(format!(
                "{function}: expected an array without a mask or a numpy.ma.MaskedArray, got {got}"
            )));
        }
        let mask = ma.call_method1(intern!(py, "getmaskarray"), (object,))?;
        // A copy in C order, of a byte for each element.
        Ok(Self(mask.call_method0(intern!(py, "tobytes"))?.extract()?))
    }

    /// The nulls of `len` elements from `first` on, `step` apart.
    fn nulls(&self, first: usize, step: usize, len: usize) -> Option<NullBuffer> {
        let is_valid = |i: usize| self.0.get(first + i * step) == Some(&0);
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(len, is_valid));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

/// Sees an array as a matrix: 2-D as it is, 1-D as a vector, or as rows of `width`. What is masked
/// is null.
pub(super) fn seen(
    function: &'static str,
    object: &Bound<'_, PyAny>,
    mask: Option<&Mask>,
    width: Option<usize>,
) -> PyResult<Seen> {
    if mask.is_some_and(|mask| mask.0 == [1]) && is_number(object) {
        return Err(Error::NullScalar { function, what: "a masked number" }.into());
    }
    let buffer = match PyUntypedBuffer::get(object) {
        Ok(buffer) => buffer,
        // pyo3 takes no buffer without a shape.
        Err(_) if is_number(object) => return Ok(Seen::Number),
        Err(_) => return Err(refused(function, object, None)),
    };
    let Some(element) = element(buffer.format(), buffer.item_size()) else {
        return Err(refused(function, object, Some(buffer.format())));
    };
    let (rows, columns) = match *buffer.shape() {
        [] => return Ok(Seen::Number),
        [rows] => (rows, None),
        [rows, columns] => (rows, Some(columns)),
        _ => {
            let got = buffer.dimensions();
            let message = format!("{function}: expected an array of 1 or 2 dimensions, got {got}");
            return Err(Kind::Value.error(message));
        }
    };
    let matrix = match (columns, width) {
        (None, _) => {
            let (values, copied) = by_rows(buffer);
            let nulls = mask.and_then(|mask| mask.nulls(0, 1, rows));
            let flat = primitive(&element, values, rows, nulls)?;
            Matrix::reshape(&flat, width.unwrap_or(1)).map(|matrix| matrix.with_copy(copied))
        }
        (Some(columns), Some(width)) if columns != width => {
            let what = "rows, as width says,";
            Err(Error::Width { function, what, expected: width, got: columns })
        }
        (Some(columns), _) => two_dimensional(buffer, &element, mask, rows, columns),
    };
    Ok(Seen::Matrix(matrix.map_err(|error| error.in_function(function))?))
}

/// Whether it is an array of no dimension.
fn is_number(object: &Bound<'_, PyAny>) -> bool {
    let ndim = object.getattr(intern!(object.py(), "ndim"));
    ndim.and_then(|ndim| ndim.extract::<usize>()).is_ok_and(|ndim| ndim == 0)
}

fn two_dimensional(
    buffer: PyUntypedBuffer,
    element: &DataType,
    mask: Option<&Mask>,
    rows: usize,
    columns: usize,
) -> crate::Result<Matrix> {
    let by_columns = !buffer.is_c_contiguous() && buffer.is_fortran_contiguous();
    if by_columns && is_aligned(&buffer) {
        let bytes = rows * buffer.item_size();
        let values = shared(buffer);
        let columns: Vec<ArrayRef> = (0..columns)
            .map(|i| {
                let nulls = mask.and_then(|mask| mask.nulls(i, columns, rows));
                primitive(element, values.slice_with_length(i * bytes, bytes), rows, nulls)
            })
            .collect::<crate::Result<_>>()?;
        return Matrix::from_columns(&columns);
    }
    let (values, copied) = by_rows(buffer);
    let len = rows.checked_mul(columns).ok_or(Error::TooLarge {
        function: "as_matrix",
        rows,
        width: columns,
        limit: "the address space",
    })?;
    let flat = primitive(element, values, len, mask.and_then(|mask| mask.nulls(0, 1, len)))?;
    let matrix = if columns == 0 {
        rows_of_nothing(element, flat, rows)
    } else {
        Matrix::reshape(&flat, columns)?.into_lists()
    };
    Ok(matrix?.with_copy(copied))
}

/// Rows of width 0, of which no element says how many there are.
fn rows_of_nothing(element: &DataType, none: ArrayRef, rows: usize) -> crate::Result<Matrix> {
    let item = Arc::new(Field::new_list_field(element.clone(), true));
    let lists = FixedSizeListArray::try_new_with_length(item, 0, none, None, rows);
    Matrix::try_from(&(Arc::new(lists.map_err(arrow)?) as ArrayRef))
}

fn arrow(error: ArrowError) -> Error {
    Error::Arrow { function: "as_matrix", message: error.to_string() }
}

fn primitive(
    element: &DataType,
    values: Buffer,
    len: usize,
    nulls: Option<NullBuffer>,
) -> crate::Result<ArrayRef> {
    let data = ArrayData::builder(element.clone()).len(len).add_buffer(values).nulls(nulls);
    Ok(make_array(data.build().map_err(arrow)?))
}

fn is_aligned(buffer: &PyUntypedBuffer) -> bool {
    (buffer.buf_ptr() as usize).is_multiple_of(buffer.item_size().max(1))
}

/// The values row by row, and why they were copied if they were.
fn by_rows(buffer: PyUntypedBuffer) -> (Buffer, Option<&'static str>) {
    if !is_aligned(&buffer) {
        return (copied(&buffer), Some("an array that is not aligned to its elements"));
    }
    if !buffer.is_c_contiguous() {
        let reason = "an array whose elements do not lie one behind the other (its strides)";
        return (copied(&buffer), Some(reason));
    }
    (shared(buffer), None)
}

/// The memory itself, kept alive by the Python object.
fn shared(buffer: PyUntypedBuffer) -> Buffer {
    let bytes = buffer.len_bytes();
    match NonNull::new(buffer.buf_ptr().cast::<u8>()) {
        // SAFETY: the buffer is contiguous (the callers saw so) and its owner keeps it exported,
        // so it stays in place. Others may write to it, as to any array that threads share.
        Some(start) if bytes > 0 => unsafe {
            Buffer::from_custom_allocation(start, bytes, Arc::new(Exported(buffer)))
        },
        // Aligned for any element, though there is none.
        _ => Buffer::from_vec(Vec::<u64>::new()),
    }
}

/// Keeps memory exported. Dropping it takes the GIL, which pyo3 does.
struct Exported(#[allow(dead_code)] PyUntypedBuffer);

impl std::panic::RefUnwindSafe for Exported {}

/// A copy of the values row by row, whatever the strides.
fn copied(buffer: &PyUntypedBuffer) -> Buffer {
    match buffer.item_size() {
        1 => gathered::<u8>(buffer),
        2 => gathered::<u16>(buffer),
        4 => gathered::<u32>(buffer),
        _ => gathered::<u64>(buffer),
    }
}

fn gathered<T: ArrowNativeType>(buffer: &PyUntypedBuffer) -> Buffer {
    let (shape, strides) = (buffer.shape(), buffer.strides());
    let (rows, columns) = (shape[0], shape.get(1).copied().unwrap_or(1));
    let (down, across) = (strides[0], strides.get(1).copied().unwrap_or(0));
    let start = buffer.buf_ptr().cast::<u8>().cast_const();
    let mut values = Vec::<T>::with_capacity(rows * columns);
    for row in 0..rows as isize {
        for column in 0..columns as isize {
            // SAFETY: the indices are inside the shape, so the strides lead to an element; it may
            // not be aligned.
            values.push(unsafe {
                start.offset(row * down + column * across).cast::<T>().read_unaligned()
            });
        }
    }
    Buffer::from_vec(values)
}

/// The Arrow type of a buffer's format, in this machine's byte order.
fn element(format: &CStr, size: usize) -> Option<DataType> {
    let native = if cfg!(target_endian = "little") { b'<' } else { b'>' };
    let code = match *format.to_bytes() {
        [code] => code,
        [order, code] if order == b'@' || order == b'=' || order == native => code,
        _ => return None,
    };
    // C's long has another size on another system: the item size says which it is.
    Some(match (code, size) {
        (b'e', 2) => DataType::Float16,
        (b'f', 4) => DataType::Float32,
        (b'd', 8) => DataType::Float64,
        (b'b', 1) => DataType::Int8,
        (b'B', 1) => DataType::UInt8,
        (b'h', 2) => DataType::Int16,
        (b'H', 2) => DataType::UInt16,
        (b'i' | b'l' | b'q', 4) => DataType::Int32,
        (b'I' | b'L' | b'Q', 4) => DataType::UInt32,
        (b'l' | b'q' | b'n', 8) => DataType::Int64,
        (b'L' | b'Q' | b'N', 8) => DataType::UInt64,
        _ => return None,
    })
}

fn refused(function: &str, object: &Bound<'_, PyAny>, format: Option<&CStr>) -> PyErr {
    let dtype = object.getattr(intern!(object.py(), "dtype")).map(|dtype| dtype.to_string());
    let got = match (dtype, format) {
        (Ok(dtype), _) => format!("dtype {dtype}"),
        (Err(_), Some(format)) => format!("buffer format {:?}", format.to_string_lossy()),
        (Err(_), None) => "a buffer that cannot be read".to_owned(),
    };
    Kind::Type.error(format!(
        "{function}: expected an array of integers, float16, float32 or float64 in native byte \
         order, got {got}"
    ))
}

/// Memory of a result, as an object that NumPy can make an array over.
#[pyclass(frozen, name = "_Memory", module = "raptors_arrow._native")]
pub(super) struct Memory(Buffer);

#[pymethods]
impl Memory {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let buffer = &slf.get().0;
        let Ok(len) = ffi::Py_ssize_t::try_from(buffer.len()) else {
            return Err(Kind::Overflow.error("the result is too long for a buffer"));
        };
        let start = buffer.as_ptr().cast_mut().cast();
        // SAFETY: `view` is Python's to be filled. The memory lives as long as this object, to
        // which the view holds a reference. It may be written to: it was made for this result
        // (`returned`), so nothing else reads it.
        let code = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if code == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// A result as a NumPy array over its own memory. NumPy has no nulls: a float becomes NaN, and
/// integers with nulls a masked array, as there is no integer to stand for a null. Where masked
/// arrays came in, results with nulls are masked too.
pub(super) fn returned<'py>(
    py: Python<'py>,
    matrix: Matrix,
    masks: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(numpy) = NumPy::loaded(py) else {
        return Err(Kind::Base.error("numpy is not imported"));
    };
    let is_masked = matrix.has_nulls() && (masks || matrix.element_type().is_integer());
    let buffer = match matrix.one_run() {
        Some(run) => run,
        None => matrix.filled()?,
    };
    let dtype = match matrix.element_type() {
        DataType::Float32 => numpy.float32.bind(py).clone(),
        DataType::Float64 => numpy.float64.bind(py).clone(),
        // Arrow's names of numbers are NumPy's, but for the case.
        other => numpy.dtype.bind(py).call1((other.to_string().to_lowercase(),))?,
    };
    let values = over(numpy, buffer, &matrix, dtype)?;
    if !is_masked {
        return Ok(values);
    }
    let is_null = numpy.dtype.bind(py).call1((intern!(py, "bool"),))?;
    let mask = over(numpy, matrix.null_mask()?, &matrix, is_null)?;
    py.import(intern!(py, "numpy.ma"))?.getattr(intern!(py, "MaskedArray"))?.call1((values, mask))
}

/// A NumPy array of the shape of `matrix` over a buffer.
fn over<'py>(
    numpy: &NumPy,
    buffer: Buffer,
    matrix: &Matrix,
    dtype: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let order = if matrix.is_by_columns() { intern!(py, "F") } else { intern!(py, "C") };
    let memory = Bound::new(py, Memory(buffer))?;
    let ndarray = numpy.ndarray.bind(py);
    if matrix.is_flat() {
        let len = matrix.rows() * matrix.width();
        ndarray.call1((len, dtype, memory, 0, py.None(), order))
    } else {
        let shape = (matrix.rows(), matrix.width());
        ndarray.call1((shape, dtype, memory, 0, py.None(), order))
    }
}
