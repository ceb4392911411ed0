//! What arrays of other libraries need: a list type for numbers that came without one, and the
//! numbers back in one run.

use std::sync::Arc;

use arrow_schema::{DataType, Field};

use super::{Form, Matrix};
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
                function: "as_matrix",
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

#[cfg(feature = "python")]
mod runs {
    use std::ptr::NonNull;
    use std::sync::Arc;

    use arrow_buffer::{Buffer, MutableBuffer};
    use arrow_schema::DataType;

    use crate::error::Result;
    use crate::matrix::{Column, Form, Matrix, Number, Scratch, Values, unaccepted};

    impl Matrix {
        /// Says that values were copied on the way in, and why.
        pub(crate) fn with_copy(mut self, reason: Option<&'static str>) -> Self {
            self.copied = self.copied.or(reason);
            self
        }

        /// Whether it came from, and goes back to, a plain array of numbers.
        pub(crate) fn is_flat(&self) -> bool {
            self.form == Form::Flat
        }

        /// The rows of each chunk.
        pub(crate) fn chunk_rows(&self) -> impl ExactSizeIterator<Item = usize> {
            self.chunks.iter().map(|chunk| chunk.rows)
        }

        /// All numbers in one run, row by row or column by column as they lie; `None` if they lie
        /// in several runs or some are null.
        pub(crate) fn one_run(&self) -> Option<Buffer> {
            let [chunk] = self.chunks.as_slice() else { return None };
            if self.has_nulls() {
                return None;
            }
            match &chunk.values {
                Values::Rows(column) => Some(column.values.clone()),
                Values::Columns(columns) => joined(columns),
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
        pub(crate) fn null_mask(&self) -> Result<Buffer> {
            let view = self.view::<f64>("as_matrix")?;
            let parts = &view.parts;
            let mask: Vec<u8> = if self.is_by_columns() {
                (0..self.width)
                    .flat_map(|column| parts.iter().map(move |part| (part, column)))
                    .flat_map(|(part, c)| (0..part.rows).map(move |row| !part.is_valid(row, c)))
                    .map(u8::from)
                    .collect()
            } else {
                let rows = parts.iter().flat_map(|part| (0..part.rows).map(move |row| (part, row)));
                rows.flat_map(|(part, row)| (0..self.width).map(move |c| !part.is_valid(row, c)))
                    .map(u8::from)
                    .collect()
            };
            Ok(Buffer::from_vec(mask))
        }

        /// [`filled`](Self::filled), read as `T` and written as it is stored.
        fn filled_with<T: Number>(&self, fill: T) -> Result<Buffer> {
            let view = self.view::<T>("as_matrix")?;
            let writer = T::writer(&self.element).ok_or_else(|| unaccepted(&self.element))?;
            let mut scratch = Scratch::new();
            let mut out = Vec::with_capacity(self.rows * self.width);
            if self.is_by_columns() {
                for column in 0..self.width {
                    for (part, rows) in view.rows(0..self.rows) {
                        out.extend_from_slice(part.column(column, rows, fill, &mut scratch));
                    }
                }
            } else {
                for (part, range) in view.flat_pieces(0..self.rows * self.width) {
                    out.extend_from_slice(part.flat(range, fill, &mut scratch));
                }
            }
            if writer.is_same {
                return Ok(Buffer::from_vec(out));
            }
            let mut bytes = MutableBuffer::from_len_zeroed(out.len() * writer.size);
            writer.write(&out, &mut bytes);
            Ok(bytes.into())
        }
    }

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
