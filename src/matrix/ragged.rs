//! List columns whose rows differ in length.
//!
//! No matrix, but what needs only its own row computes on them too: element by element on all
//! elements one behind the other, or row by row on all rows of one length, which are a matrix that
//! is read by its offsets. Results go back to the indices of their rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, LargeListArray, ListArray, OffsetSizeTrait};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef};

use super::build::{chunk, numbers};
use super::rebuild::primitive;
use super::scattered::{Offsets, Scattered};
use super::{
    Bits, Column, Form, Matrix, Values, from_bits, size_of_element, some_nulls, unaccepted, union,
};
use crate::buffer::{Output, collected, vec_with_capacity};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::memory::{self, Gather as _};

/// Rows that are looked at before an interrupt is.
const ROWS_AT_ONCE: usize = 1 << 18;

/// Lists of numbers of any lengths.
#[derive(Clone, Debug)]
pub struct Ragged {
    element: DataType,
    field: FieldRef,
    rows: usize,
    chunks: Vec<RaggedChunk>,
}

/// Rows that lie in one set of buffers. A null row has no elements.
#[derive(Clone, Debug)]
struct RaggedChunk {
    rows: usize,
    elements: Column,
    /// One more than there are rows, from 0 on.
    ends: ScalarBuffer<i64>,
    row_nulls: Option<NullBuffer>,
}

impl RaggedChunk {
    fn range(&self, row: usize) -> Range<usize> {
        self.ends[row] as usize..self.ends[row + 1] as usize
    }

    fn is_valid(&self, row: usize) -> bool {
        self.row_nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    fn len(&self) -> usize {
        self.ends[self.rows] as usize
    }
}

impl Ragged {
    /// Sees the chunks of a list column, whatever the lengths of their rows.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] unless they are lists of numbers.
    pub(crate) fn from_field(field: &FieldRef, arrays: &[ArrayRef]) -> Result<Self> {
        memory::caught(|| {
            let (DataType::List(item) | DataType::LargeList(item)) = field.data_type() else {
                return Err(unaccepted(field.data_type()));
            };
            let mut chunks = vec_with_capacity(arrays.len())?;
            for array in arrays {
                memory::push(
                    &mut chunks,
                    match array.data_type() {
                        DataType::List(_) => lists(array.as_list::<i32>())?,
                        DataType::LargeList(_) => lists(array.as_list::<i64>())?,
                        other => return Err(unaccepted(other)),
                    },
                );
            }
            let rows = chunks.iter().map(|chunk| chunk.rows).sum();
            let element = item.data_type().clone();
            Ok(Self { element, field: Arc::clone(field), rows, chunks })
        })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The type of the elements.
    pub fn element_type(&self) -> &DataType {
        &self.element
    }

    /// The rows of each chunk.
    #[cfg(feature = "python")]
    pub(crate) fn chunk_rows(&self) -> impl Iterator<Item = usize> {
        self.chunks.iter().map(|chunk| chunk.rows)
    }

    /// Elements in all.
    pub(crate) fn elements(&self) -> usize {
        self.chunks.iter().map(RaggedChunk::len).sum()
    }

    /// The error that names the first row whose length is not that of the first; or not `expected`.
    pub(crate) fn odd_row(&self, expected: Option<usize>) -> Error {
        let mut expected = expected;
        for (row, len) in self.valid_rows().map(|(row, chunk, at)| (row, chunk.range(at).len())) {
            match expected {
                Some(expected) if expected != len => {
                    return Error::Ragged { expected, row, got: len };
                }
                _ => expected = Some(len),
            }
        }
        Error::Ragged { expected: expected.unwrap_or(0), row: 0, got: 0 }
    }

    /// The error that names the first row whose length is not that of `other`, if there is one. A
    /// null row has none, and what it is paired with must be null too.
    pub(crate) fn same_lengths(&self, other: &Self) -> Result<()> {
        if self.rows != other.rows {
            let (expected, got) = (other.rows, self.rows);
            return Err(Error::Rows { what: "y", expected, got });
        }
        let lengths = |lists: &Self| {
            let all = lists.chunks.iter().flat_map(|chunk| chunk.ends.windows(2));
            collected(all.map(|ends| (ends[1] - ends[0]) as usize))
        };
        let pairs = lengths(self)?.into_iter().zip(lengths(other)?);
        match pairs.enumerate().find(|(_, (got, expected))| got != expected) {
            Some((row, (got, expected))) => Err(Error::Ragged { expected, row, got }),
            None => Ok(()),
        }
    }

    /// The rows that are not null: their number in all, their chunk, and their number in it.
    fn valid_rows(&self) -> impl Iterator<Item = (usize, &RaggedChunk, usize)> {
        let mut first = 0;
        self.chunks.iter().flat_map(move |chunk| {
            let at = first;
            first += chunk.rows;
            (0..chunk.rows)
                .filter(|row| chunk.is_valid(*row))
                .map(move |row| (at + row, chunk, row))
        })
    }

    /// The row of an element, counted over all.
    pub(crate) fn row_of(&self, element: usize) -> usize {
        let (mut first, mut skipped) = (0, 0);
        for chunk in &self.chunks {
            if element < skipped + chunk.len() {
                let at = (element - skipped) as i64;
                return first + chunk.ends.partition_point(|end| *end <= at).saturating_sub(1);
            }
            (first, skipped) = (first + chunk.rows, skipped + chunk.len());
        }
        first.saturating_sub(1)
    }

    /// All elements, one behind the other, where they are.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if they are too many to count.
    pub(crate) fn flat(&self) -> Result<Matrix> {
        let parts = self.chunks.iter().map(|own| {
            let values = Values::Rows(own.elements.clone());
            Matrix::one_chunk(self.element.clone(), 1, Form::Flat, chunk(own.len(), values, None))
        });
        Matrix::from_chunks(parts.try_gather()?)
    }

    /// Lists of the same lengths over other elements: those of [`flat`](Self::flat), computed.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for what are no numbers.
    pub(crate) fn with_elements(&self, elements: &Matrix) -> Result<Self> {
        let mut chunks = vec_with_capacity(self.chunks.len())?;
        for (own, array) in self.chunks.iter().zip(elements.to_arrays()?) {
            let elements = numbers(&array, array.data_type())?.1;
            memory::push(&mut chunks, RaggedChunk { elements, ..own.clone() });
        }
        Ok(self.of(elements.element_type(), chunks))
    }

    fn of(&self, element: &DataType, chunks: Vec<RaggedChunk>) -> Self {
        let item = match self.field.data_type() {
            DataType::List(item) | DataType::LargeList(item) => item.as_ref().clone(),
            _ => Field::new_list_field(element.clone(), true),
        };
        let item = Arc::new(item.with_data_type(element.clone()));
        let data_type = match self.field.data_type() {
            DataType::LargeList(_) => DataType::LargeList(item),
            _ => DataType::List(item),
        };
        let field = Arc::new(self.field.as_ref().clone().with_data_type(data_type));
        Self { element: element.clone(), field, rows: self.rows, chunks }
    }

    /// One value for each row as often as the row has elements.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if there is not one for each.
    pub(crate) fn repeated(&self, per_row: &Matrix) -> Result<Matrix> {
        let got = per_row.rows() * per_row.width();
        if got != self.rows {
            return Err(Error::Rows { what: "y", expected: self.rows, got });
        }
        let element = per_row.element_type();
        let size = size_of_element(element).unwrap_or(0);
        let mut values = Output::<u8>::new(self.elements() * size)?;
        let mut starts =
            collected(self.valid_rows().map(|(row, chunk, at)| (row, chunk.range(at).len())))?;
        starts.retain(|(_, len)| *len > 0);
        let mut at = 0;
        let mut nulls = vec_with_capacity(self.elements())?;
        let mut rows = starts.iter().peekable();
        let mut first = 0;
        for array in per_row.to_arrays()? {
            let (_, column) = numbers(&array, array.data_type())?;
            while let Some((row, len)) = rows.next_if(|(row, _)| *row < first + array.len()) {
                let from = (row - first) * size;
                let is_valid = column.nulls.as_ref().is_none_or(|n| n.is_valid(row - first));
                for _ in 0..*len {
                    values[at..at + size].copy_from_slice(&column.values[from..from + size]);
                    at += size;
                    memory::push(&mut nulls, is_valid);
                }
            }
            first += array.len();
        }
        let nulls = some_nulls(Some(&from_bits(nulls.len(), |i| nulls[i])?));
        let len = at / size.max(1);
        Matrix::reshape(&primitive(element, values.into_buffer(), len, nulls)?, 1)
    }

    /// The rows of each length as a matrix over the same memory, with the numbers of the rows.
    ///
    /// # Errors
    ///
    /// No memory, or an interrupt.
    pub(crate) fn by_length(&self) -> Result<Vec<(Matrix, Vec<usize>)>> {
        let mut order =
            collected(self.valid_rows().map(|(row, chunk, at)| (chunk.range(at).len(), row)))?;
        order.sort_unstable();
        let mut groups = Vec::new();
        for same in order.chunk_by(|a, b| a.0 == b.0) {
            let width = same[0].0;
            let rows = collected(same.iter().map(|(_, row)| *row))?;
            memory::push(&mut groups, (self.rows_of(width, &rows)?, rows));
            run::in_steps(0..1, 1, |_| Ok(()))?;
        }
        Ok(groups)
    }

    /// Some rows of one length, in order.
    fn rows_of(&self, width: usize, rows: &[usize]) -> Result<Matrix> {
        let (mut first, mut rest) = (0, rows);
        let mut parts = Vec::new();
        for own in &self.chunks {
            let here = rest.partition_point(|row| *row < first + own.rows);
            let (now, later) = rest.split_at(here);
            if !now.is_empty() {
                let starts = collected(now.iter().map(|row| own.ends[row - first]))?;
                let offsets = Offsets::Large(ScalarBuffer::from(starts));
                let column = own.elements.clone();
                let values = Values::Scattered(Box::new(Scattered::Lists { column, offsets }));
                let lists = chunk(now.len(), values, None);
                let part = Matrix::one_chunk(self.element.clone(), width, Form::Flat, lists)?;
                memory::push(&mut parts, part.into_lists()?);
            }
            (first, rest) = (first + own.rows, later);
        }
        Matrix::from_chunks(parts)
    }

    /// One number for each row from those of the rows [of each length](Self::by_length); null for a
    /// null row.
    ///
    /// # Errors
    ///
    /// No memory, or an interrupt.
    pub(crate) fn numbers(&self, to: &DataType, of: &[(ArrayRef, Vec<usize>)]) -> Result<ArrayRef> {
        let size = size_of_element(to).unwrap_or(0);
        let mut values = Output::<u8>::new(self.rows * size)?;
        values.fill(0);
        let mut valid = crate::buffer::vec_of(false, self.rows)?;
        for (array, rows) in of {
            let (_, column) = numbers(array, array.data_type())?;
            run::in_steps(0..rows.len(), ROWS_AT_ONCE, |some| {
                for i in some {
                    let (from, to) = (i * size, rows[i] * size);
                    values[to..to + size].copy_from_slice(&column.values[from..from + size]);
                    valid[rows[i]] = column.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
                }
                Ok(())
            })?;
        }
        let nulls = some_nulls(Some(&from_bits(self.rows, |row| valid[row])?));
        primitive(to, values.into_buffer(), self.rows, nulls)
    }

    /// Lists of the same lengths from the rows [of each length](Self::by_length). A row without a
    /// result is null, and has no elements.
    ///
    /// # Errors
    ///
    /// No memory, or an interrupt.
    pub(crate) fn rows_from(&self, to: &DataType, of: &[(Matrix, Vec<usize>)]) -> Result<Self> {
        let size = size_of_element(to).unwrap_or(0);
        let mut firsts = vec_with_capacity(self.chunks.len())?;
        let mut all = vec_with_capacity(self.chunks.len())?;
        let mut first = 0;
        for own in &self.chunks {
            memory::push(&mut firsts, first);
            first += own.rows;
            let valid = collected((0..own.rows).map(|row| own.is_valid(row)))?;
            let elements = crate::buffer::vec_of(true, own.len())?;
            let mut values = Output::<u8>::new(own.len() * size)?;
            values.fill(0);
            memory::push(&mut all, (values, elements, valid));
        }
        for (results, rows) in of {
            let mut left = rows.iter();
            for array in results.to_arrays()? {
                let lists = array.as_fixed_size_list();
                let (_, column) = numbers(lists.values(), to)?;
                let width = usize::try_from(lists.value_length()).unwrap_or(0);
                let bits = column.nulls.as_ref().map(Bits::new);
                for (i, row) in left.by_ref().take(lists.len()).enumerate() {
                    let at = firsts.partition_point(|first| first <= row).saturating_sub(1);
                    let (own, row) = (&self.chunks[at], row - firsts[at]);
                    let (values, elements, valid) = &mut all[at];
                    let range = own.range(row);
                    if lists.is_null(i) {
                        valid[row] = false;
                        continue;
                    }
                    let from = i * width * size;
                    values[range.start * size..range.end * size]
                        .copy_from_slice(&column.values[from..from + width * size]);
                    if let Some(bits) = bits {
                        for (j, element) in range.enumerate() {
                            elements[element] = bits.get(i * width + j);
                        }
                    }
                }
            }
        }
        let mut chunks = vec_with_capacity(all.len())?;
        for (own, (values, elements, valid)) in self.chunks.iter().zip(all) {
            let nulls = from_bits(elements.len(), |i| elements[i])?;
            let row_nulls = some_nulls(Some(&from_bits(valid.len(), |row| valid[row])?));
            let elements = Column { values: values.into_buffer(), nulls: some_nulls(Some(&nulls)) };
            let made = RaggedChunk { elements, row_nulls, ..own.clone() };
            memory::push(&mut chunks, without_elements_under_nulls(made, size)?);
        }
        Ok(self.of(to, chunks))
    }

    /// The rows of a matrix as lists, which all have its width.
    ///
    /// # Errors
    ///
    /// No memory for elements that do not lie one behind the other.
    #[cfg(feature = "python")]
    pub(crate) fn from_matrix(matrix: &Matrix) -> Result<Self> {
        let element = matrix.element_type().clone();
        let width = matrix.width();
        let item = Arc::new(Field::new_list_field(element.clone(), true));
        let name = matrix.field().map_or("", |field| field.name().as_str()).to_owned();
        let field = Arc::new(Field::new(name, DataType::LargeList(item), true));
        let mut chunks = Vec::new();
        for part in matrix.chunk_slices() {
            let rows = part.rows();
            let size = size_of_element(&element).unwrap_or(0);
            let elements = match part.one_column() {
                Some(column) => column,
                None => Column { values: part.row_major()?, nulls: part.element_nulls(0..rows)? },
            };
            let ends = collected((0..=rows).map(|row| (row * width) as i64))?.into();
            let row_nulls = part.row_nulls(0..rows)?;
            let chunk = RaggedChunk { rows, elements, ends, row_nulls };
            chunks.push(without_elements_under_nulls(chunk, size)?);
        }
        Ok(Self { element, field, rows: matrix.rows(), chunks })
    }

    /// Chunks.
    #[cfg(feature = "python")]
    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The rows and the elements of a chunk.
    #[cfg(feature = "python")]
    pub(super) fn chunk_elements(&self, chunk: usize) -> (usize, &Column) {
        (self.chunks[chunk].rows, &self.chunks[chunk].elements)
    }

    /// The elements of a row of a chunk; `None` of a null row.
    #[cfg(feature = "python")]
    pub(super) fn row_range(&self, chunk: usize, row: usize) -> Option<Range<usize>> {
        let chunk = &self.chunks[chunk];
        chunk.is_valid(row).then(|| chunk.range(row))
    }

    /// At most `width` elements of each row: the first.
    ///
    /// # Errors
    ///
    /// No memory.
    #[cfg(feature = "python")]
    pub(crate) fn truncated(&self, width: usize) -> Result<Self> {
        let size = size_of_element(&self.element).unwrap_or(0);
        let mut chunks = vec_with_capacity(self.chunks.len())?;
        for own in &self.chunks {
            if (0..own.rows).all(|row| own.range(row).len() <= width) {
                chunks.push(own.clone());
                continue;
            }
            let kept = |row: usize| own.range(row).len().min(width);
            let total = (0..own.rows).map(kept).sum::<usize>();
            let mut values = Output::<u8>::new(total * size)?;
            let mut valid = vec_with_capacity(total)?;
            let mut ends = vec_with_capacity(own.rows + 1)?;
            ends.push(0i64);
            run::in_steps(0..own.rows, ROWS_AT_ONCE, |rows| {
                for row in rows {
                    let from = own.range(row).start;
                    let (at, len) = (valid.len() * size, kept(row));
                    values[at..at + len * size]
                        .copy_from_slice(&own.elements.values[from * size..(from + len) * size]);
                    let nulls = own.elements.nulls.as_ref();
                    let is_valid = |i: usize| nulls.is_none_or(|nulls| nulls.is_valid(i));
                    valid.extend((from..from + len).map(is_valid));
                    ends.push(valid.len() as i64);
                }
                Ok(())
            })?;
            let nulls = some_nulls(Some(&from_bits(total, |i| valid[i])?));
            let elements = Column { values: values.into_buffer(), nulls };
            chunks.push(RaggedChunk { elements, ends: ends.into(), ..own.clone() });
        }
        Ok(Self { chunks, ..self.clone() })
    }

    /// The field of the column.
    #[cfg(feature = "python")]
    pub(crate) fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The chunks as arrays of lists.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if 32-bit list offsets cannot hold the elements.
    pub fn to_arrays(&self) -> Result<Vec<ArrayRef>> {
        memory::caught(|| {
            let array = |own: &RaggedChunk| -> Result<ArrayRef> {
                let Column { values, nulls } = own.elements.clone();
                let values = primitive(&self.element, values, own.len(), nulls)?;
                let arrow =
                    |error: arrow_schema::ArrowError| Error::Arrow { message: error.to_string() };
                let nullable = |item: &FieldRef| match values.null_count() {
                    0 => Arc::clone(item),
                    _ => Arc::new(item.as_ref().clone().with_nullable(true)),
                };
                let nulls = own.row_nulls.clone();
                Ok(match self.field.data_type() {
                    DataType::LargeList(item) => {
                        let offsets = OffsetBuffer::new(own.ends.clone());
                        let list = LargeListArray::try_new(nullable(item), offsets, values, nulls);
                        Arc::new(list.map_err(arrow)?)
                    }
                    DataType::List(item) => {
                        let limit = "32-bit list offsets";
                        let (rows, width) = (own.rows, own.len());
                        i32::try_from(width).map_err(|_| Error::TooLarge { rows, width, limit })?;
                        let ends = collected(own.ends.iter().map(|end| *end as i32))?;
                        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
                        Arc::new(
                            ListArray::try_new(nullable(item), offsets, values, nulls)
                                .map_err(arrow)?,
                        )
                    }
                    other => return Err(unaccepted(other)),
                })
            };
            self.chunks.iter().map(array).try_gather()
        })
    }
}

/// The rows of a list array: offsets from 0 on, in 64 bits, and no elements under nulls.
fn lists<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<RaggedChunk> {
    let (element, column) = numbers(list.values(), list.data_type())?;
    let size = size_of_element(&element).unwrap_or(0);
    let offsets = list.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
    let ends = collected(offsets.iter().map(|end| (end.as_usize() - first) as i64))?;
    let elements = Column {
        values: column.values.slice_with_length(first * size, (last - first) * size),
        nulls: some_nulls(column.nulls.map(|nulls| nulls.slice(first, last - first)).as_ref()),
    };
    let row_nulls = some_nulls(list.nulls());
    let chunk = RaggedChunk { rows: list.len(), elements, ends: ends.into(), row_nulls };
    without_elements_under_nulls(chunk, size)
}

/// The chunk itself, or a copy of what its valid rows have if a null row has elements.
fn without_elements_under_nulls(chunk: RaggedChunk, size: usize) -> Result<RaggedChunk> {
    let hidden = |row: usize| !chunk.is_valid(row) && !chunk.range(row).is_empty();
    if chunk.row_nulls.is_none() || !(0..chunk.rows).any(hidden) {
        return Ok(chunk);
    }
    let kept: usize =
        (0..chunk.rows).filter(|row| chunk.is_valid(*row)).map(|row| chunk.range(row).len()).sum();
    let mut values = Output::<u8>::new(kept * size)?;
    let mut valid = vec_with_capacity(kept)?;
    let mut ends = vec_with_capacity(chunk.rows + 1)?;
    memory::push(&mut ends, 0i64);
    for row in 0..chunk.rows {
        if chunk.is_valid(row) {
            let range = chunk.range(row);
            let at = valid.len() * size;
            values[at..at + range.len() * size]
                .copy_from_slice(&chunk.elements.values[range.start * size..range.end * size]);
            let nulls = chunk.elements.nulls.as_ref();
            memory::extend(&mut valid, range.map(|i| nulls.is_none_or(|nulls| nulls.is_valid(i))));
        }
        memory::push(&mut ends, valid.len() as i64);
    }
    let nulls = union(None, some_nulls(Some(&from_bits(kept, |i| valid[i])?)))?;
    let elements = Column { values: values.into_buffer(), nulls };
    Ok(RaggedChunk { elements, ends: ends.into(), ..chunk })
}
