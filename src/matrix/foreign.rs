//! What arrays of other libraries need: a list type for numbers that came without one, and the
//! numbers back in one run.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field};

use super::build::{by_columns, chunk};
use super::scattered::{Scattered, Strided, span};
use super::{Form, Matrix, Number, Values, unaccepted};
use crate::error::{Error, Result};

impl Matrix {
    /// The same numbers as fixed-size lists, if they came as a flat array: what goes back is a
    /// list column, and a width of 1 is a column vector.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{Array, ArrayRef, Float64Array};
    /// use raptors_arrow::Matrix;
    ///
    /// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0]));
    /// let lists = Matrix::reshape(&flat, 2)?.into_lists()?.to_arrays()?;
    /// assert_eq!(lists[0].len(), 2);
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the width does not fit a fixed-size list.
    pub fn into_lists(mut self) -> Result<Self> {
        if self.form == Form::Flat {
            let size = i32::try_from(self.width).map_err(|_| Error::TooLarge {
                rows: self.rows,
                width: self.width,
                limit: "a fixed-size list",
            })?;
            let item = Arc::new(Field::new_list_field(self.element.clone(), true));
            // Named `item` and nullable, as pyarrow and polars make them.
            self.field = Some(Arc::new(Field::new(
                "",
                DataType::FixedSizeList(Arc::clone(&item), size),
                true,
            )));
            self.form = Form::Lists(vec![(item, size)]);
        }
        Ok(self)
    }
}

impl Matrix {
    /// One number for each column, as a matrix of one row: of a table, a table of its columns; else
    /// a list, or nested ones of the same sizes.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the width does not fit a fixed-size list.
    pub(crate) fn one_row(&self, numbers: &ArrayRef) -> Result<Self> {
        let element = numbers.data_type();
        let form = self.retyped(element).form;
        if let Form::Batch(_) | Form::Struct(_) = form {
            let columns: Vec<ArrayRef> = (0..self.width).map(|c| numbers.slice(c, 1)).collect();
            return by_columns(&columns, 1, None, form);
        }
        if self.width == 0 {
            let lists = new_empty_array(&DataType::new_fixed_size_list(element.clone(), 0, true));
            return Self::try_from(&lists);
        }
        let row = Self::reshape(numbers, self.width)?;
        match form {
            Form::Lists(levels) => {
                let field = self.retyped(element).field;
                Ok(Self { form: Form::Lists(levels), field, ..row })
            }
            _ => row.into_lists(),
        }
    }
}

/// Where the elements of an array of two dimensions lie, as NumPy and ndarray have it.
#[derive(Clone, Debug)]
pub struct Strides {
    /// All bytes from the lowest element to the end of the highest.
    pub memory: Buffer,
    /// Bytes from a row to the next, and from a column to the next; they may be 0 or negative.
    pub strides: [isize; 2],
}

impl Strides {
    /// Bytes from the first element of an array, at `[0, 0]`, to its lowest, and to the end of its
    /// highest; `None` if that overflows, or if there are no elements.
    pub fn span(
        shape: [usize; 2],
        strides: [isize; 2],
        element_bytes: usize,
    ) -> Option<(isize, isize)> {
        span(shape, strides, element_bytes)
    }
}

impl Matrix {
    /// Sees an array of rows and columns at any strides. It is never copied as a whole, but a tile
    /// at a time as it is read: a broadcast array takes no memory. Where the mask has a byte that
    /// is not 0, the element is null.
    ///
    /// ```
    /// use arrow_array::{cast::AsArray, types::Float64Type};
    /// use arrow_buffer::Buffer;
    /// use arrow_schema::DataType;
    /// use raptors_arrow::{Matrix, Strides, compute::{Per, sum}};
    ///
    /// // A million rows that are all [1, 2].
    /// let row = Strides { memory: Buffer::from_vec(vec![1.0f64, 2.0]), strides: [0, 8] };
    /// let x = Matrix::from_strides(&DataType::Float64, [1_000_000, 2], row, None)?;
    /// assert_eq!(sum(&x, Per::Column)?.as_primitive::<Float64Type>().values(), &[1e6, 2e6]);
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for what is no type of numbers, [`Error::TooLarge`] if shape, strides and
    /// memory do not fit each other.
    pub fn from_strides(
        element: &DataType,
        shape: [usize; 2],
        values: Strides,
        mask: Option<Strides>,
    ) -> Result<Self> {
        let size = f64::reader(element).ok_or_else(|| unaccepted(element))?.size;
        let strided =
            |Strides { memory, strides }, size| Strided::new(memory, shape, strides, size);
        let mask = mask.map(|mask| strided(mask, 1)).transpose()?;
        let values = Scattered::Strided { values: strided(values, size)?, mask };
        let [rows, width] = shape;
        let chunk = chunk(rows, Values::Scattered(Box::new(values)), None);
        let mut matrix = Self::one_chunk(element.clone(), width, Form::Flat, chunk)?;
        matrix.copied = Some("tile by tile: an array at strides of its own");
        Ok(matrix)
    }
}

#[cfg(feature = "python")]
mod runs {
    use std::ops::Range;
    use std::ptr::NonNull;
    use std::sync::Arc;

    use arrow_buffer::Buffer;
    use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};

    use crate::buffer::Output;
    use crate::dispatch::{Family, Work, run};
    use crate::error::Result;
    use crate::matrix::{Column, Form, Matrix, Number, Scratch, Values, tensor, unaccepted};
    use crate::memory::{self, Gather as _};

    impl Matrix {
        /// The same numbers in another Arrow type of the same width and element type; `None` if
        /// that type cannot hold them. A table stays one, with the names that it has.
        ///
        /// # Errors
        ///
        /// [`Error::Tensor`](crate::Error::Tensor) for a tensor of another size.
        pub(crate) fn in_type(self, field: &FieldRef) -> Result<Option<Self>> {
            let is_own = |item: &FieldRef| *item.data_type() == self.element;
            let has_own = |to: &Fields, own: &Fields| {
                let names = || to.iter().map(|f| f.name()).eq(own.iter().map(|f| f.name()));
                to.iter().all(is_own) && names()
            };
            let form = match (field.data_type(), &self.form) {
                (DataType::Struct(to), Form::Struct(own)) if has_own(to, own) => {
                    Form::Struct(to.clone())
                }
                (DataType::Struct(to), Form::Batch(own)) if has_own(to, own.fields()) => {
                    let metadata = field.metadata().clone();
                    Form::Batch(Arc::new(Schema::new_with_metadata(to.clone(), metadata)))
                }
                (_, Form::Struct(_) | Form::Batch(_)) => return Ok(None),
                (to, Form::Flat) if *to == self.element => Form::Flat,
                (_, Form::Flat) => return Ok(None),
                (DataType::List(item), _) if is_own(item) => Form::List(Arc::clone(item)),
                (DataType::LargeList(item), _) if is_own(item) => Form::LargeList(Arc::clone(item)),
                (to, _) => match self.levels_of(to) {
                    Some(levels) => Form::Lists(levels),
                    None => return Ok(None),
                },
            };
            // A null between the rows and the elements has no place in a type of other levels.
            let levels = |form: &Form| match form {
                Form::Lists(levels) => levels.iter().map(|(_, size)| *size).gather(),
                _ => vec![],
            };
            let has_inner_nulls =
                || self.chunks.iter().any(|c| c.inner_nulls.iter().any(Option::is_some));
            if levels(&form) != levels(&self.form) && has_inner_nulls() {
                return Ok(None);
            }
            tensor::check(field, self.width)?;
            Ok(Some(Self { form, field: Some(Arc::clone(field)), ..self }))
        }

        /// The levels of nested fixed-size lists, if rows of them have as many elements as here.
        fn levels_of(&self, mut to: &DataType) -> Option<Vec<(FieldRef, i32)>> {
            let mut levels = Vec::new();
            let mut width = 1usize;
            while let DataType::FixedSizeList(item, size) = to {
                width = width.checked_mul(usize::try_from(*size).ok()?)?;
                levels.push((Arc::clone(item), *size));
                to = item.data_type();
            }
            (*to == self.element && width == self.width && !levels.is_empty()).then_some(levels)
        }

        /// Says that values were copied on the way in, and why.
        pub(crate) fn with_copy(mut self, reason: Option<&'static str>) -> Self {
            self.copied = reason.or(self.copied);
            self
        }

        /// Whether it came from, and goes back to, a plain array of numbers.
        pub(crate) fn is_flat(&self) -> bool {
            self.form == Form::Flat
        }

        /// The same rows as nested lists of a shape, whose product is the width.
        ///
        /// # Errors
        ///
        /// [`Error::TooLarge`](crate::Error::TooLarge) if a length does not fit a list.
        pub(crate) fn shaped(self, shape: &[usize]) -> Result<Self> {
            let (rows, width, limit) = (self.rows, self.width, "a fixed-size list");
            let mut item = self.element.clone();
            let mut levels = memory::with_capacity(shape.len());
            for len in shape.iter().rev() {
                let size = i32::try_from(*len).map_err(|_| crate::Error::TooLarge {
                    rows,
                    width,
                    limit,
                })?;
                let field = Arc::new(Field::new_list_field(item, true));
                item = DataType::FixedSizeList(Arc::clone(&field), size);
                levels.insert(0, (field, size));
            }
            let mut chunks = self.chunks.clone();
            chunks
                .iter_mut()
                .for_each(|chunk| chunk.inner_nulls = memory::filled(None, levels.len() - 1));
            let field = Some(Arc::new(Field::new("", item, true)));
            Ok(Self { form: Form::Lists(levels), field, chunks, ..self })
        }

        /// The lengths of the lists that a row is made of, outermost first.
        pub(crate) fn row_shape(&self) -> Vec<usize> {
            match &self.form {
                Form::Lists(levels) => {
                    levels.iter().map(|(_, size)| usize::try_from(*size).unwrap_or(0)).gather()
                }
                _ => vec![self.width],
            }
        }

        /// Whether it came from, and goes back to, a table.
        pub(crate) fn is_table(&self) -> bool {
            matches!(self.form, Form::Batch(_))
        }

        /// The same, of no column that has a name and a type of its own.
        pub(crate) fn without_field(self) -> Self {
            Self { field: None, ..self }
        }

        /// Each chunk by itself.
        pub(crate) fn chunk_slices(&self) -> impl Iterator<Item = Self> {
            self.chunks.iter().map(|chunk| {
                let chunks = vec![chunk.clone()];
                Self { rows: chunk.rows, chunks, ..self.clone() }
            })
        }

        /// The elements of its one chunk, if they lie row by row.
        pub(crate) fn one_column(&self) -> Option<Column> {
            match self.chunks.as_slice() {
                [chunk] if chunk.stored.is_empty() => match &chunk.values {
                    Values::Rows(column) => Some(column.clone()),
                    Values::Columns(_) | Values::Scattered(_) => None,
                },
                _ => None,
            }
        }

        /// A copy of all numbers, row by row.
        ///
        /// # Errors
        ///
        /// No memory, or an interrupt.
        pub(crate) fn row_major(&self) -> Result<Buffer> {
            match &self.element {
                DataType::Float16 | DataType::Float32 => self.copied_rows::<f32>(),
                DataType::Float64 => self.copied_rows::<f64>(),
                DataType::UInt64 => self.copied_rows::<u64>(),
                _ => self.copied_rows::<i64>(),
            }
        }

        fn copied_rows<T: Number>(&self) -> Result<Buffer> {
            let view = self.view::<T>()?;
            let writer = T::writer(&self.element).ok_or_else(|| unaccepted(&self.element))?;
            let size = writer.size;
            let mut out = Output::<u8>::new(self.rows * self.width * size)?;
            let mut scratch = Scratch::new();
            run::in_steps(0..self.rows * self.width, RUN, |range| {
                let mut at = range.start * size;
                for (part, piece) in view.flat_pieces(range) {
                    let bytes = piece.len() * size;
                    let x = part.flat(piece, T::default(), &mut scratch);
                    writer.write(x, &mut out[at..at + bytes]);
                    at += bytes;
                }
                Ok(())
            })?;
            Ok(out.into_buffer())
        }

        /// The rows of each chunk.
        pub(crate) fn chunk_rows(&self) -> impl ExactSizeIterator<Item = usize> {
            self.chunks.iter().map(|chunk| chunk.rows)
        }

        /// All numbers in one run, row by row or column by column as they lie; `None` if they lie
        /// in several runs or some are null.
        pub(crate) fn one_run(&self) -> Option<Buffer> {
            let [chunk] = self.chunks.as_slice() else { return None };
            if self.has_nulls() || !chunk.stored.is_empty() {
                return None;
            }
            match &chunk.values {
                Values::Rows(column) => Some(column.values.clone()),
                Values::Columns(columns) => joined(columns),
                Values::Scattered(_) => None,
            }
        }

        /// A copy of all numbers in one run, as they lie: NaN for a null float, 0 for a null
        /// integer.
        ///
        /// # Errors
        ///
        /// [`Error::Type`](crate::Error::Type) for what is no type of numbers.
        pub(crate) fn filled(&self) -> Result<Buffer> {
            match &self.element {
                DataType::Float16 | DataType::Float32 => self.filled_with(f32::NAN),
                DataType::Float64 => self.filled_with(f64::NAN),
                DataType::UInt64 => self.filled_with(0_u64),
                _ => self.filled_with(0_i64),
            }
        }

        /// Which elements are null, as they lie, a byte for each.
        ///
        /// # Errors
        ///
        /// No memory, or an interrupt.
        pub(crate) fn null_mask(&self) -> Result<Buffer> {
            let view = self.view::<f64>()?;
            let mut mask = Output::<u8>::new(self.rows * self.width)?;
            self.by_runs(&mut mask, 1, |column, range, out, _: &mut Scratch<f64>| {
                let at = |i: usize| match column {
                    Some(column) => (i, column),
                    None => (i / self.width, i % self.width),
                };
                for (i, out) in range.zip(out) {
                    let (row, column) = at(i);
                    let mut parts = view.rows(row..row + 1);
                    *out = u8::from(parts.any(|(part, rows)| !part.is_valid(rows.start, column)));
                }
            })?;
            Ok(mask.into_buffer())
        }

        /// [`filled`](Self::filled), read as `T` and written as it is stored.
        fn filled_with<T: Number>(&self, fill: T) -> Result<Buffer> {
            let view = self.view::<T>()?;
            let writer = T::writer(&self.element).ok_or_else(|| unaccepted(&self.element))?;
            let size = writer.size;
            let mut out = Output::<u8>::new(self.rows * self.width * size)?;
            self.by_runs(&mut out, size, |column, range, mut out, scratch| {
                let mut write = |x: &[T]| {
                    let (now, rest) = std::mem::take(&mut out).split_at_mut(x.len() * size);
                    writer.write(x, now);
                    out = rest;
                };
                match column {
                    Some(column) => {
                        for (part, rows) in view.rows(range) {
                            write(part.column(column, rows, fill, scratch));
                        }
                    }
                    None => {
                        for (part, range) in view.flat_pieces(range) {
                            write(part.flat(range, fill, scratch));
                        }
                    }
                }
            })?;
            Ok(out.into_buffer())
        }

        /// Runs `body` for runs of elements, counted in their column or row by row, as they lie,
        /// with room for `size` bytes for each of them.
        fn by_runs<T: Number>(
            &self,
            out: &mut [u8],
            size: usize,
            body: impl Fn(Option<usize>, Range<usize>, &mut [u8], &mut Scratch<T>) + Sync,
        ) -> Result<()> {
            if out.is_empty() {
                return Ok(());
            }
            let by_columns = self.is_by_columns();
            let sequence = if by_columns { self.rows } else { self.rows * self.width };
            let tasks = out.chunks_mut(sequence * size).enumerate().flat_map(|(column, out)| {
                let column = by_columns.then_some(column);
                out.chunks_mut(RUN * size).enumerate().map(move |(i, out)| (column, i * RUN, out))
            });
            let family = Family::Elementwise;
            let bytes = self.bytes();
            let work = Work { family, bytes_read: bytes, bytes_written: bytes, has_vdsp: false };
            let plan = run::planned(&work)?;
            run::each(&plan, tasks.gather(), Scratch::new, |scratch, task| {
                let (column, first, out) = task;
                body(column, first..first + out.len() / size, out, scratch);
            })
        }
    }

    /// Elements of a task.
    const RUN: usize = 1 << 16;

    /// The buffer that holds all columns one behind the other, if there is one.
    #[allow(unsafe_code)]
    fn joined(columns: &[Column]) -> Option<Buffer> {
        let first = &columns.first()?.values;
        let bytes = first.len().checked_mul(columns.len())?;
        let follows = |(i, column): (usize, &Column)| {
            column.values.len() == first.len()
                && column.values.data_ptr() == first.data_ptr()
                && column.values.ptr_offset() == first.ptr_offset() + i * first.len()
        };
        if !columns.iter().enumerate().all(follows) {
            return None;
        }
        let start = NonNull::new(first.as_ptr().cast_mut())?;
        // SAFETY: `follows` saw that the columns lie one behind the other in one allocation, which
        // the clone of the first keeps alive.
        Some(unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(first.clone())) })
    }
}
