//! The 2-D view over Arrow data: the only module that reads offsets, strides and validity.
//!
//! [`Matrix`] is what a caller has: `rows × width` numbers of one type in Arrow buffers that are
//! shared, not copied, with nulls of whole rows and of single elements. It remembers the type it
//! came from, so that a result can go back as what went in. `View` is what the compute functions
//! read: typed slices, and tiles in which nulls have been replaced by a neutral value.
//!
//! What it refuses: types that are no matrix, ragged lists, shapes that overflow. Each is an
//! [`Error`](crate::Error) that carries the values.

mod bits;
mod build;
mod common;
mod count;
mod foreign;
mod list;
mod mask;
#[cfg(feature = "python")]
mod nested;
mod nulls;
#[cfg(feature = "python")]
mod padded;
#[cfg(feature = "python")]
mod plain;
mod ragged;
mod rebuild;
mod result;
mod row;
mod scattered;
mod slice;
mod source;
mod spanning;
mod storage;
mod stored;
mod tensor;
mod view;
mod weighted;

use std::borrow::Cow;
use std::sync::Arc;

use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, FieldRef, Fields, SchemaRef};

pub(crate) use bits::{Bits, expand, from_bits, from_bools, from_words, null_at, union};
pub(crate) use build::unaccepted;
pub(crate) use common::common_type;
pub(crate) use count::count;
pub use foreign::Strides;
pub(crate) use mask::{Mask, fill_null};
#[cfg(feature = "python")]
pub(crate) use nested::{as_lists, can_be_lists};
#[cfg(feature = "python")]
pub(crate) use padded::Filling;
#[cfg(feature = "python")]
pub(crate) use plain::dense_numbers;
pub use ragged::Ragged;
pub(crate) use rebuild::array_of;
pub(crate) use result::{ChunkNulls, Like};
pub(crate) use source::{Gathered, Source, TileWorkspace, Wanted};
pub(crate) use storage::{Number, Reader, Writer, held, size_of_element};
pub(crate) use view::{Part, Scratch, TILE, View, steps};
pub(crate) use weighted::{Weighted, Weights};

use self::scattered::Scattered;
use crate::error::Result;
use crate::memory;

/// Numbers in `rows` rows of `width`, over shared Arrow buffers.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, FixedSizeListArray, types::Float32Type};
/// use raptors_arrow::Matrix;
///
/// let rows = [Some([Some(1.0), Some(2.0)]), None, Some([Some(3.0), None])];
/// let array: ArrayRef =
///     Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2));
/// let x = Matrix::try_from(&array)?;
/// assert_eq!((x.rows(), x.width(), x.null_rows()), (3, 2, 1));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Matrix {
    element: DataType,
    rows: usize,
    width: usize,
    chunks: Vec<Chunk>,
    form: Form,
    /// The column's own field where one was given: name, nullability, extension type.
    field: Option<FieldRef>,
    /// Why values had to be copied on the way in, if they had.
    copied: Option<&'static str>,
}

/// The Arrow type that a matrix came from, and goes back to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// A primitive array; `width` elements of it make a row.
    Flat,
    /// Fixed-size lists, outermost first.
    Lists(Vec<(FieldRef, i32)>),
    /// A list with 32-bit offsets.
    List(FieldRef),
    /// A list with 64-bit offsets.
    LargeList(FieldRef),
    /// A struct: one column each.
    Struct(Fields),
    /// A record batch: one column each.
    Batch(SchemaRef),
}

/// Rows that lie in one set of buffers.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) rows: usize,
    pub(crate) values: Values,
    pub(crate) row_nulls: Option<NullBuffer>,
    /// Nulls of the lists between the outermost and the elements, outermost first. They are part
    /// of the element nulls already; kept so that the type can be rebuilt.
    pub(crate) inner_nulls: Vec<Option<NullBuffer>>,
    /// The types that elements are stored in, where those are not the matrix's own, in which they
    /// are read: one for all, or one for each column.
    pub(crate) stored: Vec<DataType>,
}

/// How the numbers of a chunk lie.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// Row by row, in one buffer.
    Rows(Column),
    /// Column by column: shared, as there may be many, and a call copies its matrix.
    Columns(Arc<Vec<Column>>),
    /// In rows that do not lie one behind the other, or whose elements do not. Boxed, as it is
    /// rare and larger than the others, which are moved in every call.
    Scattered(Box<Scattered>),
}

impl Values {
    /// Whether any element may be null.
    fn may_have_nulls(&self) -> bool {
        match self {
            Self::Rows(column) => column.nulls.is_some(),
            Self::Columns(columns) => columns.iter().any(|column| column.nulls.is_some()),
            Self::Scattered(elements) => elements.may_have_nulls(),
        }
    }
}

impl Chunk {
    /// The type that a column is stored in, of a matrix of `element`.
    pub(crate) fn stored<'a>(&'a self, column: usize, element: &'a DataType) -> &'a DataType {
        match self.stored.as_slice() {
            [] => element,
            [one] => one,
            each => &each[column],
        }
    }

    fn row_is_valid(&self, row: usize) -> bool {
        self.row_nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }
}

/// A buffer that holds just its elements, and which of them are null.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) values: Buffer,
    pub(crate) nulls: Option<NullBuffer>,
}

impl Matrix {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The type of the elements.
    pub fn element_type(&self) -> &DataType {
        &self.element
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.rows * self.width * size_of_element(&self.element).unwrap_or(0)
    }

    /// Chunks that the rows lie in.
    pub fn num_chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Rows that are null as a whole.
    pub fn null_rows(&self) -> usize {
        self.chunks.iter().filter_map(|c| c.row_nulls.as_ref()).map(NullBuffer::null_count).sum()
    }

    /// Whether any row or element is null, or an array has a mask.
    pub fn has_nulls(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.row_nulls.is_some() || chunk.values.may_have_nulls())
    }

    /// Whether the elements lie column by column.
    pub fn is_by_columns(&self) -> bool {
        matches!(self.form, Form::Struct(_) | Form::Batch(_))
            || self.chunks.iter().any(|chunk| matches!(chunk.values, Values::Columns(_)))
    }

    /// Why values have to be copied to compute on them, if they have: mostly a tile at a time.
    pub fn copied(&self) -> Option<&'static str> {
        self.copied
    }

    /// The field that the column came with.
    pub fn field(&self) -> Option<&FieldRef> {
        self.field.as_ref()
    }

    /// Whether its rows are tensors whose elements do not lie in the order of their dimensions.
    pub(crate) fn is_permuted(&self) -> bool {
        self.field.as_ref().is_some_and(|field| tensor::is_permuted(field))
    }

    /// Refuses such tensors, where the order of the columns matters.
    ///
    /// # Errors
    ///
    /// [`Error::Tensor`](crate::Error::Tensor).
    pub(crate) fn refuse_permuted(&self) -> Result<()> {
        if !self.is_permuted() {
            return Ok(());
        }
        let reason = "its permutation is another order of the columns than that of its dimensions, \
                      which matters here; store the tensors in row-major order first";
        Err(crate::Error::Tensor { reason: reason.to_owned() })
    }

    /// The shape of its rows, if they are tensors.
    #[cfg(feature = "python")]
    pub(crate) fn tensor_shape(&self) -> Option<Vec<usize>> {
        let shape = tensor::numbers(self.field.as_ref()?, "shape")?;
        shape.into_iter().map(|len| usize::try_from(len).ok()).collect()
    }

    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Whether it came from a plain array of numbers: a vector, which lines up with columns or
    /// rows as the caller says.
    pub fn is_vector(&self) -> bool {
        self.form == Form::Flat && self.width == 1
    }

    /// Whether it is a list column in which every row is null, so that nothing says how wide its
    /// rows would be.
    pub(crate) fn is_of_unknown_width(&self) -> bool {
        matches!(self.form, Form::List(_) | Form::LargeList(_))
            && self.width == 0
            && self.null_rows() == self.rows
    }

    /// The matrix itself; or, if its width is [unknown](Self::is_of_unknown_width), null rows of
    /// `width`.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`](crate::Error::TooLarge) if the shape overflows.
    pub(crate) fn fitted(&self, width: usize) -> Result<Cow<'_, Self>> {
        if width == 0 || !self.is_of_unknown_width() {
            return Ok(Cow::Borrowed(self));
        }
        let fitted = Self { width, ..self.clone() };
        fitted.check_size()?;
        Ok(Cow::Owned(fitted))
    }

    /// A matrix of the same shape and form over other chunks.
    pub(crate) fn with_chunks(self, chunks: Vec<Chunk>) -> Self {
        debug_assert_eq!(chunks.iter().map(|chunk| chunk.rows).sum::<usize>(), self.rows);
        Self { chunks, copied: None, ..self }
    }

    /// The rows of each chunk, as bytes: the number of the first, how many, and where they lie;
    /// `None` if they do not lie one behind the other.
    pub(crate) fn row_bytes(&self) -> Option<Vec<(usize, usize, &[u8])>> {
        let mut all = memory::with_capacity(self.chunks.len());
        let mut first = 0;
        for chunk in &self.chunks {
            let Values::Rows(column) = &chunk.values else { return None };
            if !chunk.stored.is_empty() {
                return None;
            }
            memory::push(&mut all, (first, chunk.rows, column.values.as_slice()));
            first += chunk.rows;
        }
        Some(all)
    }

    /// A matrix of the same rows, width and form with elements of another type, of which none is
    /// there: to check what would be computed on it.
    pub(crate) fn outline(&self, element: &DataType) -> Self {
        Self { chunks: Vec::new(), copied: None, ..self.retyped(element) }
    }

    /// All elements row by row, if they lie so, as `T`, in one chunk. What is under a null is any
    /// value.
    pub(crate) fn dense_values<T: Number>(&self) -> Option<&[T]> {
        match self.chunks.as_slice() {
            [Chunk { values: Values::Rows(column), stored, .. }]
                if stored.is_empty() && T::reader(&self.element)?.is_same =>
            {
                Some(column.values.typed_data())
            }
            _ => None,
        }
    }

    /// The matrix as elements of `T`.
    ///
    /// # Errors
    ///
    /// [`Error::Type`](crate::Error::Type) if they are not read as `T`.
    pub(crate) fn view<T: Number>(&self) -> Result<View<'_, T>> {
        View::new(self).ok_or_else(|| unaccepted(&self.element))
    }
}

/// `nulls` if there are any. Counts them anew: producers of C data get the count wrong.
fn some_nulls(nulls: Option<&NullBuffer>) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(nulls?.inner().clone());
    (nulls.null_count() > 0).then_some(nulls)
}
