//! NumPy arrays in and out, through the buffer protocol: no copy, and NumPy is never imported.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyTuple};

use super::errors::{Kind, detached};
use super::once::intern;
use super::origin::NumPy;
use crate::buffer::Output;
use crate::compute::registry::{self, Driver};
use crate::dispatch::run;
use crate::error::Error;
use crate::matrix::{self, Matrix, Ragged, Strides};
use crate::memory;

/// What an object of the buffer protocol is seen as.
pub(super) enum Seen {
    /// One number (0-D).
    Number,
    /// One or two dimensions.
    Matrix(Matrix),
    /// Lists of Arrow that differ in length.
    Ragged(Ragged),
}

/// Which elements of a masked array are masked: a byte for each, where it lies.
pub(super) struct NumpyMask {
    /// `None` where nothing is.
    bytes: Option<PyUntypedBuffer>,
    /// Whether it is that of one number, and set.
    hides_number: bool,
}

impl NumpyMask {
    pub(super) fn of(function: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let ma = py.import(intern!(py, "numpy.ma"))?;
        if !object.is_instance(&ma.getattr(intern!(py, "MaskedArray"))?)? {
            let got = object.get_type().fully_qualified_name()?;
            return Err(Kind::Type.error(format!(
                "{function}: expected an array without a mask or a numpy.ma.MaskedArray, got {got}"
            )));
        }
        let mask = ma.call_method1(intern!(py, "getmask"), (object,))?;
        if is_number(object) {
            return Ok(Self { bytes: None, hides_number: mask.is_truthy()? });
        }
        // `nomask`, which stands for no mask at all, has no dimension.
        let bytes = if is_number(&mask) { None } else { Some(PyUntypedBuffer::get(&mask)?) };
        Ok(Self { bytes, hides_number: false })
    }
}

/// Sees an array as a matrix: 2-D as it is, 1-D as a vector, or as rows of `width`. What is masked
/// is null.
pub(super) fn seen(
    function: &'static str,
    object: &Bound<'_, PyAny>,
    mask: Option<NumpyMask>,
    width: Option<usize>,
) -> PyResult<Seen> {
    if mask.as_ref().is_some_and(|mask| mask.hides_number) {
        return Err(Error::NullScalar { what: "a masked number" }.in_function(function).into());
    }
    // pyo3 takes no buffer without strides, as those of ctypes are; a memoryview works them out.
    let buffer = PyUntypedBuffer::get(object)
        .or_else(|_| PyUntypedBuffer::get(PyMemoryView::from(object)?.as_any()));
    let buffer = match buffer {
        Ok(buffer) => buffer,
        // pyo3 takes no buffer without a shape.
        Err(_) if is_number(object) => return Ok(Seen::Number),
        Err(_) => return Err(refused(function, object, None)),
    };
    if buffer.suboffsets().is_some_and(|all| all.iter().any(|suboffset| *suboffset >= 0)) {
        return Err(Kind::Type.error(format!(
            "{function}: expected an array in one block of memory, got a buffer with suboffsets, \
             whose rows lie behind pointers; copy it first, as memoryview(x).tobytes() does"
        )));
    }
    let Some(element) = element(buffer.format(), buffer.item_size()) else {
        return Err(refused(function, object, Some(buffer.format())));
    };
    let mask = mask.and_then(|mask| mask.bytes);
    let is_flags = element == DataType::Boolean;
    let matrix = match (buffer.shape().len(), buffer.shape()) {
        (0, _) => return Ok(Seen::Number),
        (1, &[len]) => vector(function, buffer, element, mask, len, width.unwrap_or(1)),
        (2, &[_, columns]) if width.is_some_and(|width| width != columns) => {
            let (what, expected) = ("rows, as width says,", width.unwrap_or(0));
            Err(Error::Width { what, expected, got: columns }.in_function(function))
        }
        (2, &[rows, columns]) => two_dimensional(function, buffer, element, mask, rows, columns),
        (_, shape) => {
            let shape = memory::copied(shape);
            let matrix = rows_of_tensors(function, buffer, element, mask, &shape, width)?;
            return Ok(Seen::Matrix(if is_flags { matrix.as_flags() } else { matrix }));
        }
    };
    let matrix = matrix.map_err(|error| error.in_function(function))?;
    Ok(Seen::Matrix(if is_flags { matrix.as_flags() } else { matrix }))
}

/// Whether it is an array of no dimension.
fn is_number(object: &Bound<'_, PyAny>) -> bool {
    let ndim = object.getattr(intern!(object.py(), "ndim"));
    ndim.and_then(|ndim| ndim.extract::<usize>()).is_ok_and(|ndim| ndim == 0)
}

/// A 1-D array as rows of `width`.
fn vector(
    function: &'static str,
    buffer: PyUntypedBuffer,
    element: DataType,
    mask: Option<PyUntypedBuffer>,
    len: usize,
    width: usize,
) -> crate::Result<Matrix> {
    if let (None, Some(reason)) = (&mask, why_scattered(&buffer)) {
        if width == 0 || !len.is_multiple_of(width) {
            return Err(Error::Reshape { len, width }.in_function(function));
        }
        return strided(function, buffer, element, None, [len / width, width], reason);
    }
    match mask {
        Some(mask) if len > 0 && width > 0 && len.is_multiple_of(width) => {
            strided(function, buffer, element, Some(mask), [len / width, width], MASKED)
        }
        _ => Matrix::reshape(&primitive(&element, shared(buffer), len)?, width),
    }
}

fn two_dimensional(
    function: &'static str,
    buffer: PyUntypedBuffer,
    element: DataType,
    mask: Option<PyUntypedBuffer>,
    rows: usize,
    columns: usize,
) -> crate::Result<Matrix> {
    if rows == 0 || columns == 0 {
        let none = primitive(&element, Buffer::from_vec(Vec::<u64>::new()), 0)?;
        if columns == 0 {
            return rows_of_nothing(&element, none, rows);
        }
        return Matrix::reshape(&none, columns)?.into_lists();
    }
    if let Some(mask) = mask {
        return strided(function, buffer, element, Some(mask), [rows, columns], MASKED)?
            .into_lists();
    }
    // One column at a time, unless there are many more of them than rows: then its rows, which
    // would be the columns of its transpose, are the longer runs.
    let by_columns = !buffer.is_c_contiguous() && buffer.is_fortran_contiguous();
    if by_columns && is_aligned(&buffer) && columns <= rows.max(MANY_COLUMNS) {
        let bytes = rows * buffer.item_size();
        let values = shared(buffer);
        let columns: Vec<ArrayRef> = (0..columns)
            .map(|i| primitive(&element, values.slice_with_length(i * bytes, bytes), rows))
            .collect::<crate::Result<_>>()?;
        return Matrix::from_columns(&columns);
    }
    if let Some(reason) = why_scattered(&buffer) {
        return strided(function, buffer, element, None, [rows, columns], reason)?.into_lists();
    }
    Matrix::reshape(&primitive(&element, shared(buffer), rows * columns)?, columns)?.into_lists()
}

/// An array of three or more dimensions as rows × the rest, for functions that go row by row: what
/// takes rows as vectors would lose their shape.
fn rows_of_tensors(
    function: &'static str,
    buffer: PyUntypedBuffer,
    element: DataType,
    mask: Option<PyUntypedBuffer>,
    shape: &[usize],
    width: Option<usize>,
) -> PyResult<Matrix> {
    let keeps_shape = function == "as_matrix"
        || registry::get_function(function).is_ok_and(|function| match function.driver {
            Driver::Statistic(_) | Driver::Quantile | Driver::Elementwise(_) => true,
            Driver::Transform(_) | Driver::Choice(_) | Driver::Cumsum | Driver::Where => true,
            Driver::Pairs(_) | Driver::Product(_) | Driver::Columns(_) => false,
            Driver::TopK | Driver::Transpose => false,
        });
    let dimensions = shape.len();
    let refused = |expected: &str| {
        Kind::Value.error(format!("{function}: expected {expected}, got {dimensions}"))
    };
    if !keeps_shape {
        let flat = "x.reshape(len(x), -1) is one of them";
        return Err(refused(&format!("an array of 1 or 2 dimensions ({flat})")));
    }
    if width.is_some() {
        return Err(refused("an array of 1 or 2 dimensions, as width is given"));
    }
    let (rows, rest) = (shape[0], &shape[1..]);
    let columns = rest.iter().product::<usize>();
    if columns == 0 || rows == 0 {
        return Err(refused("an array of 1 or 2 dimensions where there are no elements"));
    }
    let is_dense = mask.is_none() && buffer.is_c_contiguous() && is_aligned(&buffer);
    let flat = match is_dense {
        true => {
            let flat = primitive(&element, shared(buffer), rows * columns);
            flat.and_then(|flat| Matrix::reshape(&flat, columns))
        }
        // A row whose elements do not lie at one step from each other has to be copied.
        false => gathered(function, &buffer, mask.as_ref(), &element, shape),
    };
    Ok(flat.and_then(|flat| flat.shaped(rest)).map_err(|error| error.in_function(function))?)
}

/// A copy of the elements of an array of any strides and a mask, row by row.
fn gathered(
    function: &'static str,
    buffer: &PyUntypedBuffer,
    mask: Option<&PyUntypedBuffer>,
    element: &DataType,
    shape: &[usize],
) -> crate::Result<Matrix> {
    let elements = shape.iter().product::<usize>();
    let size = buffer.item_size();
    let mut values = Output::<u8>::new(elements * size)?;
    copied(buffer, shape, size, &mut values)?;
    let columns = elements / shape[0];
    let nulls = match mask {
        None => None,
        Some(mask) => {
            let mut flags = Output::<u8>::new(elements)?;
            copied(mask, shape, 1, &mut flags)?;
            Some(matrix::from_bits(elements, |i| flags[i] == 0)?)
        }
    };
    let reason = "a masked array, or one of other strides, of three or more dimensions";
    let element = if *element == DataType::Boolean { &DataType::UInt8 } else { element };
    let data = ArrayData::builder(element.clone()).len(elements).add_buffer(values.into_buffer());
    let flat = make_array(data.nulls(nulls).build().map_err(arrow)?);
    let rows = Matrix::reshape(&flat, columns).map_err(|error| error.in_function(function))?;
    Ok(rows.with_copy(Some(reason)))
}

/// Copies the elements of an array of any strides, in C order.
fn copied(
    buffer: &PyUntypedBuffer,
    shape: &[usize],
    size: usize,
    out: &mut [u8],
) -> crate::Result<()> {
    let start = buffer.buf_ptr().cast::<u8>();
    let mut index = vec![0usize; shape.len()];
    run::in_steps(0..out.len() / size, COPIED_AT_ONCE, |elements| {
        for out in out[elements.start * size..elements.end * size].chunks_exact_mut(size) {
            let steps = index.iter().zip(buffer.strides());
            let at = steps.map(|(i, step)| *i as isize * step).sum::<isize>();
            // SAFETY: by the buffer protocol, each index inside the shape leads by the strides to an
            // element of `size` bytes, which stays there while the buffer is exported.
            unsafe { std::ptr::copy_nonoverlapping(start.offset(at), out.as_mut_ptr(), size) };
            for (i, len) in index.iter_mut().zip(shape).rev() {
                *i += 1;
                if *i < *len {
                    break;
                }
                *i = 0;
            }
        }
        Ok(())
    })
}

/// Elements that are copied before an interrupt is looked at.
const COPIED_AT_ONCE: usize = 1 << 18;

/// Columns that may each be seen by themselves, however few rows there are.
const MANY_COLUMNS: usize = 1024;

const MASKED: &str = "tile by tile: a masked array";

/// Why an array has to be read tile by tile, if it has.
fn why_scattered(buffer: &PyUntypedBuffer) -> Option<&'static str> {
    if buffer.item_count() == 0 {
        None
    } else if !is_aligned(buffer) {
        Some("tile by tile: an array that is not aligned to its elements")
    } else if !buffer.is_c_contiguous() {
        Some("tile by tile: an array whose elements do not lie one behind the other (its strides)")
    } else {
        None
    }
}

/// An array that has elements, at any strides.
fn strided(
    function: &'static str,
    values: PyUntypedBuffer,
    element: DataType,
    mask: Option<PyUntypedBuffer>,
    shape: [usize; 2],
    reason: &'static str,
) -> crate::Result<Matrix> {
    let too_large = || {
        let limit = "the address space";
        Error::TooLarge { rows: shape[0], width: shape[1], limit }.in_function(function)
    };
    let at = |buffer: PyUntypedBuffer| -> crate::Result<Strides> {
        let width = isize::try_from(shape[1]).ok();
        let strides = match *buffer.strides() {
            [step] => width.and_then(|width| Some([step.checked_mul(width)?, step])),
            [down, across] => Some([down, across]),
            _ => None,
        };
        let strides = strides.ok_or_else(too_large)?;
        let size = buffer.item_size();
        let (low, high) = Strides::span(shape, strides, size).ok_or_else(too_large)?;
        let start = buffer.buf_ptr().cast::<u8>().wrapping_offset(low);
        let start = NonNull::new(start).ok_or_else(too_large)?;
        let exported = Arc::new(Exported(buffer));
        // SAFETY: by the buffer protocol, shape and strides lead to elements only, so every byte
        // from the lowest element to the end of the highest belongs to the exporter's memory, which
        // stays in place while it is exported. Others may write to it, as to any array that threads
        // share.
        let memory = unsafe { Buffer::from_custom_allocation(start, high.abs_diff(low), exported) };
        Ok(Strides { memory, strides })
    };
    let mask = mask.map(at).transpose()?;
    Ok(Matrix::from_strides(&element, shape, at(values)?, mask)?.with_copy(Some(reason)))
}

/// Rows of width 0, of which no element says how many there are.
fn rows_of_nothing(element: &DataType, none: ArrayRef, rows: usize) -> crate::Result<Matrix> {
    let item = Arc::new(Field::new_list_field(element.clone(), true));
    let lists = FixedSizeListArray::try_new_with_length(item, 0, none, None, rows);
    Matrix::try_from(&(Arc::new(lists.map_err(arrow)?) as ArrayRef))
}

fn arrow(error: ArrowError) -> Error {
    Error::Arrow { message: error.to_string() }.in_function("as_matrix")
}

fn primitive(element: &DataType, values: Buffer, len: usize) -> crate::Result<ArrayRef> {
    // A byte each, as a matrix holds them; the caller sees to the name of the type.
    let element = if *element == DataType::Boolean { &DataType::UInt8 } else { element };
    let data = ArrayData::builder(element.clone()).len(len).add_buffer(values);
    Ok(make_array(data.build().map_err(arrow)?))
}

fn is_aligned(buffer: &PyUntypedBuffer) -> bool {
    (buffer.buf_ptr() as usize).is_multiple_of(buffer.item_size().max(1))
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
        (b'?', 1) => DataType::Boolean,
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
pub(super) struct Memory {
    buffer: Buffer,
    /// Whether others may read it too, so that it may not be written to.
    is_shared: bool,
}

#[pymethods]
impl Memory {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Self { buffer, is_shared } = slf.get();
        let Ok(len) = ffi::Py_ssize_t::try_from(buffer.len()) else {
            return Err(Kind::Overflow.error("the result is too long for a buffer"));
        };
        let start = buffer.as_ptr().cast_mut().cast();
        // SAFETY: `view` is Python's to be filled. The memory lives as long as this object, to
        // which the view holds a reference. It may be written to only if it was made for this result
        // (`returned`), so that nothing else reads it; what is shared is read-only.
        let code = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, c_int::from(*is_shared), flags)
        };
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
    as_array(py, &matrix, masks, false)
}

/// A matrix as an array over its memory, read-only if that `is_shared`; over a copy where its
/// elements lie in several runs or some are null.
pub(super) fn as_array<'py>(
    py: Python<'py>,
    matrix: &Matrix,
    masks: bool,
    is_shared: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(numpy) = NumPy::loaded(py) else {
        return Err(Kind::Base.error("numpy is not imported"));
    };
    let is_masked = matrix.has_nulls() && (masks || !matrix.element_type().is_floating());
    let (buffer, is_shared) = match matrix.one_run() {
        Some(run) => (run, is_shared),
        None => (detached(py, || matrix.filled())?, false),
    };
    let dtype = match matrix.element_type() {
        DataType::Float32 => numpy.float32.bind(py).clone(),
        DataType::Float64 => numpy.float64.bind(py).clone(),
        DataType::Boolean => numpy.dtype.bind(py).call1((intern!(py, "bool"),))?,
        // Arrow's names of numbers are NumPy's, but for the case.
        other => numpy.dtype.bind(py).call1((other.to_string().to_lowercase(),))?,
    };
    let values = over(numpy, Memory { buffer, is_shared }, matrix, dtype)?;
    if !is_masked {
        return Ok(values);
    }
    let is_null = numpy.dtype.bind(py).call1((intern!(py, "bool"),))?;
    let mask = Memory { buffer: detached(py, || matrix.null_mask())?, is_shared: false };
    let mask = over(numpy, mask, matrix, is_null)?;
    py.import(intern!(py, "numpy.ma"))?.getattr(intern!(py, "MaskedArray"))?.call1((values, mask))
}

/// A NumPy array of the shape of `matrix` over a buffer.
fn over<'py>(
    numpy: &NumPy,
    memory: Memory,
    matrix: &Matrix,
    dtype: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let order = if matrix.is_by_columns() { intern!(py, "F") } else { intern!(py, "C") };
    let memory = Bound::new(py, memory)?;
    let ndarray = numpy.ndarray.bind(py);
    if matrix.is_flat() {
        let len = matrix.rows() * matrix.width();
        ndarray.call1((len, dtype, memory, 0, py.None(), order))
    } else {
        let mut shape = vec![matrix.rows()];
        shape.extend(matrix.row_shape());
        let shape = PyTuple::new(py, shape)?;
        ndarray.call1((shape, dtype, memory, 0, py.None(), order))
    }
}
