//! From Arrow arrays to a matrix.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, Field, FieldRef, Schema};

use super::{
    Chunk, Column, Form, Matrix, Values, common_type, expand, list, size_of_element, some_nulls,
    tensor, union,
};
use crate::buffer::Output;
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::memory::{self, Gather as _};

/// What can be seen as a matrix.
pub(super) const ACCEPTED: &str = "numbers, or lists of one length, tensors or a struct of them \
     (float16, float32, float64 or integers)";

impl Matrix {
    /// Sees an array, with its field, as a matrix. The field matters for extension types.
    ///
    /// # Errors
    ///
    /// Names the type, row or width that does not fit.
    pub fn from_field(field: &FieldRef, arrays: &[ArrayRef]) -> Result<Self> {
        memory::caught(|| {
            let mut chunks = memory::with_capacity(arrays.len());
            for array in arrays {
                if array.data_type() != field.data_type() {
                    return Err(Error::Mixed {
                        what: "a chunk",
                        expected: field.data_type().clone(),
                        got: array.data_type().clone(),
                    });
                }
                memory::push(&mut chunks, Self::try_from(array)?);
            }
            if chunks.is_empty() {
                memory::push(
                    &mut chunks,
                    Self::try_from(&arrow_array::new_empty_array(field.data_type()))?,
                );
            }
            let mut matrix = Self::from_chunks(chunks)?;
            tensor::check(field, matrix.width)?;
            matrix.field = Some(Arc::clone(field));
            Ok(matrix)
        })
    }

    /// Sees the elements of a primitive array as rows of `width`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Float64Array};
    /// use raptors_arrow::Matrix;
    ///
    /// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    /// assert_eq!(Matrix::reshape(&flat, 3)?.rows(), 2);
    /// assert!(Matrix::reshape(&flat, 4).is_err());
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Reshape`] if the length is no multiple of the width, [`Error::Type`] if the array
    /// is not of numbers.
    pub fn reshape(array: &dyn Array, width: usize) -> Result<Self> {
        let (element, column) = numbers(array, array.data_type())?;
        let len = array.len();
        let rows = match len.checked_rem(width) {
            Some(0) => len / width,
            None if len == 0 => 0,
            _ => return Err(Error::Reshape { len, width }),
        };
        Self::one_chunk(element, width, Form::Flat, chunk(rows, Values::Rows(column), None))
    }

    /// One matrix from the rows of several, which stay where they are.
    ///
    /// # Errors
    ///
    /// [`Error::Width`] or [`Error::Mixed`] if they differ in width or type.
    pub fn from_chunks(parts: Vec<Self>) -> Result<Self> {
        memory::caught(|| {
            // A list column knows its width only from its rows.
            let width =
                parts.iter().find(|part| !part.is_of_unknown_width()).map(|part| part.width);
            let mut parts = parts.into_iter().map(|part| match width {
                Some(width) if part.is_of_unknown_width() => {
                    part.fitted(width).map(Cow::into_owned)
                }
                _ => Ok(part),
            });
            let Some(whole) = parts.next() else {
                return Err(Error::Rows { what: "a list of chunks", expected: 1, got: 0 });
            };
            let mut whole = whole?;
            for part in parts {
                let part = part?;
                if part.element != whole.element {
                    return Err(Error::Mixed {
                        what: "a chunk",
                        expected: whole.element,
                        got: part.element,
                    });
                }
                if part.width != whole.width || part.is_by_columns() != whole.is_by_columns() {
                    return Err(Error::Width {
                        what: "a chunk",
                        expected: whole.width,
                        got: part.width,
                    });
                }
                whole.rows = whole.rows.saturating_add(part.rows);
                memory::extend(&mut whole.chunks, part.chunks);
                whole.copied = whole.copied.or(part.copied);
            }
            whole.check_size()?;
            Ok(whole)
        })
    }

    /// A matrix of columns that are buffers of one element type: what column-major arrays of
    /// other libraries are. It has no Arrow type of its own and goes back as a struct.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if the columns differ in length.
    pub fn from_columns(columns: &[ArrayRef]) -> Result<Self> {
        memory::caught(|| {
            let fields = columns
                .iter()
                .enumerate()
                .map(|(i, column)| Field::new(i.to_string(), column.data_type().clone(), true));
            let rows = columns.first().map_or(0, |column| column.len());
            by_columns(columns, rows, None, Form::Struct(memory::fields(fields)))
        })
    }

    /// A matrix of fixed-size lists over a buffer that holds `rows * width` elements row by row.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if 32 bits cannot say how wide it is.
    pub(crate) fn of_lists(
        element: DataType,
        rows: usize,
        width: usize,
        values: Buffer,
        nulls: Option<NullBuffer>,
        row_nulls: Option<NullBuffer>,
    ) -> Result<Self> {
        let limit = "a fixed-size list";
        let size = i32::try_from(width).map_err(|_| Error::TooLarge { rows, width, limit })?;
        let field = Arc::new(Field::new_list_field(element.clone(), true));
        let values = Values::Rows(Column { values, nulls: some_nulls(nulls.as_ref()) });
        let chunk = chunk(rows, values, some_nulls(row_nulls.as_ref()));
        Self::one_chunk(element, width, Form::Lists(vec![(field, size)]), chunk)
    }

    /// The same matrix, said to have elements of another type: for results that keep its form.
    pub(crate) fn retyped(&self, element: &DataType) -> Self {
        if self.element == *element && !self.is_converted() {
            return self.clone();
        }
        let field = |field: &FieldRef| {
            let to = with_leaf(field.data_type(), element);
            Arc::new(field.as_ref().clone().with_data_type(to))
        };
        let form = match &self.form {
            Form::Flat => Form::Flat,
            Form::Lists(levels) => {
                Form::Lists(levels.iter().map(|(inner, size)| (field(inner), *size)).gather())
            }
            Form::List(inner) => Form::List(field(inner)),
            Form::LargeList(inner) => Form::LargeList(field(inner)),
            Form::Struct(fields) => Form::Struct(memory::fields(fields.iter().map(field))),
            Form::Batch(schema) => {
                let fields = memory::fields(schema.fields().iter().map(field));
                Form::Batch(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
            }
        };
        let own = self.field.as_ref().map(field);
        Self { element: element.clone(), form, field: own, ..self.clone() }
    }

    pub(super) fn one_chunk(
        element: DataType,
        width: usize,
        form: Form,
        chunk: Chunk,
    ) -> Result<Self> {
        let rows = chunk.rows;
        let matrix =
            Self { element, rows, width, chunks: vec![chunk], form, field: None, copied: None };
        matrix.check_size()?;
        Ok(matrix)
    }

    /// Refuses a shape whose bytes cannot be counted.
    pub(super) fn check_size(&self) -> Result<()> {
        let (rows, width) = (self.rows, self.width);
        let bytes = size_of_element(&self.element)
            .and_then(|size| rows.checked_mul(width)?.checked_mul(size))
            .filter(|bytes| isize::try_from(*bytes).is_ok());
        match bytes {
            Some(_) => Ok(()),
            None => {
                let limit = "the address space";
                Err(Error::TooLarge { rows, width, limit })
            }
        }
    }
}

impl TryFrom<&ArrayRef> for Matrix {
    type Error = Error;

    fn try_from(array: &ArrayRef) -> Result<Self> {
        Self::try_from(array.as_ref())
    }
}

impl TryFrom<&dyn Array> for Matrix {
    type Error = Error;

    fn try_from(array: &dyn Array) -> Result<Self> {
        memory::caught(|| match array.data_type() {
            DataType::FixedSizeList(..) => fixed_size_lists(array),
            DataType::List(field) => {
                let list = array.as_list::<i32>();
                list::uniform(list, Form::List(Arc::clone(field)))
            }
            DataType::LargeList(field) => {
                let list = array.as_list::<i64>();
                list::uniform(list, Form::LargeList(Arc::clone(field)))
            }
            DataType::Struct(fields) => {
                let form = Form::Struct(fields.clone());
                let columns = array.as_struct();
                by_columns(columns.columns(), columns.len(), columns.nulls(), form)
            }
            _ => Self::reshape(array, 1),
        })
    }
}

impl TryFrom<&RecordBatch> for Matrix {
    type Error = Error;

    fn try_from(batch: &RecordBatch) -> Result<Self> {
        memory::caught(|| {
            by_columns(batch.columns(), batch.num_rows(), None, Form::Batch(batch.schema()))
        })
    }
}

/// A type of numbers, lists or structs of them, with another type of numbers.
fn with_leaf(of: &DataType, element: &DataType) -> DataType {
    let inner = |field: &FieldRef| {
        let to = with_leaf(field.data_type(), element);
        Arc::new(field.as_ref().clone().with_data_type(to))
    };
    match of {
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(inner(field), *size),
        DataType::List(field) => DataType::List(inner(field)),
        DataType::LargeList(field) => DataType::LargeList(inner(field)),
        DataType::Struct(fields) => DataType::Struct(memory::fields(fields.iter().map(inner))),
        _ => element.clone(),
    }
}

/// The element type and values of an array of numbers, in a column of type `of`. A yes or no takes a
/// byte here, so that the bits of Arrow are copied.
pub(super) fn numbers(array: &dyn Array, of: &DataType) -> Result<(DataType, Column)> {
    use DataType::{Float16, Float32, Float64};
    let element = array.data_type();
    if let Some(flags) = array.as_boolean_opt() {
        let bits = flags.values();
        let mut values = Output::<u8>::new(flags.len())?;
        run::in_steps(0..flags.len(), FLAGS_AT_ONCE, |range| {
            let bits = bits.slice(range.start, range.len());
            values[range].iter_mut().zip(&bits).for_each(|(out, bit)| *out = bit.into());
            Ok(())
        })?;
        let nulls = some_nulls(flags.nulls());
        return Ok((DataType::Boolean, Column { values: values.into_buffer(), nulls }));
    }
    if !(element.is_integer() || matches!(element, Float16 | Float32 | Float64)) {
        return Err(unaccepted(of));
    }
    let size = element.primitive_width().unwrap_or(0);
    let data = array.to_data();
    let start = data.offset() * size;
    let values = match data.buffers() {
        [values, ..] => values.slice_with_length(start, data.len() * size),
        [] => return Err(unaccepted(of)),
    };
    Ok((element.clone(), Column { values, nulls: some_nulls(data.nulls()) }))
}

/// Bits that are copied before an interrupt is looked at.
const FLAGS_AT_ONCE: usize = 1 << 20;

pub(crate) fn unaccepted(got: &DataType) -> Error {
    Error::Type { expected: ACCEPTED, got: got.clone() }
}

pub(super) fn chunk(rows: usize, values: Values, row_nulls: Option<NullBuffer>) -> Chunk {
    Chunk { rows, values, row_nulls, inner_nulls: Vec::new(), stored: Vec::new() }
}

fn fixed_size_lists(array: &dyn Array) -> Result<Matrix> {
    let outer = array.as_fixed_size_list();
    let rows = outer.len();
    let mut levels = Vec::new();
    let mut nulls = Vec::new();
    let mut width = 1usize;
    let mut values: &dyn Array = array;
    while let DataType::FixedSizeList(field, size) = values.data_type() {
        let list = values.as_fixed_size_list();
        levels.push((Arc::clone(field), *size));
        nulls.push(some_nulls(list.nulls()));
        let size = usize::try_from(*size).unwrap_or(0);
        width = width.checked_mul(size).ok_or(Error::TooLarge {
            rows,
            width: usize::MAX,
            limit: "the address space",
        })?;
        values = list.values().as_ref();
    }
    let (element, mut column) = numbers(values, array.data_type())?;
    let inner_nulls = nulls.split_off(1);
    // A null list between the rows and the elements makes its elements null.
    let mut lists_per_row = 1usize;
    for ((_, size), inner) in levels.iter().zip(&inner_nulls) {
        lists_per_row *= usize::try_from(*size).unwrap_or(0);
        if let Some(inner) = inner {
            let expanded = expand(inner, width / lists_per_row.max(1))?;
            column.nulls = union(column.nulls, Some(expanded))?;
        }
    }
    let row_nulls = nulls.pop().flatten();
    let values = Values::Rows(column);
    let chunk = Chunk { rows, values, row_nulls, inner_nulls, stored: Vec::new() };
    Matrix::one_chunk(element, width, Form::Lists(levels), chunk)
}

pub(super) fn by_columns(
    columns: &[ArrayRef],
    rows: usize,
    nulls: Option<&NullBuffer>,
    form: Form,
) -> Result<Matrix> {
    let mut stored = memory::with_capacity(columns.len());
    let mut parts = memory::with_capacity(columns.len());
    for array in columns {
        let (element, column) = numbers(array, array.data_type())?;
        stored.push(element);
        if array.len() != rows {
            return Err(Error::Rows { what: "every column", expected: rows, got: array.len() });
        }
        memory::push(&mut parts, column);
    }
    // No columns have no type; float64 is what NumPy gives an empty array.
    let element = common_type(stored.iter()).unwrap_or(DataType::Float64);
    let width = parts.len();
    let mut chunk = chunk(rows, Values::Columns(Arc::new(parts)), some_nulls(nulls));
    if stored.iter().any(|stored| *stored != element) {
        chunk.stored = stored;
    }
    Matrix::one_chunk(element, width, form, chunk)
}
