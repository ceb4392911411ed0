//! Some rows of a matrix, and whether two matrices hold the same.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
#[cfg(feature = "python")]
use arrow_schema::{Field, FieldRef, Schema};

use super::scattered::{Offsets, Scattered};
use super::source::{Source, TileWorkspace, Wanted};
use super::{
    Chunk, Column, Form, Matrix, Number, TILE, Values, size_of_element, some_nulls, steps,
};
#[cfg(feature = "python")]
use super::{build, from_bits};
use crate::dispatch::run;
use crate::error::Result;
use crate::memory::{self, Gather as _};

impl Matrix {
    /// The rows of a range, which stay where they are; past the last there are none.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Float64Array};
    /// use raptors_arrow::Matrix;
    ///
    /// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    /// let last = Matrix::reshape(&flat, 2)?.slice(1..3);
    /// assert_eq!((last.rows(), last.width()), (2, 2));
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    #[must_use]
    pub fn slice(&self, rows: Range<usize>) -> Self {
        let rows = rows.start.min(self.rows)..rows.end.min(self.rows);
        let mut first = 0;
        let mut chunks = Vec::new();
        for chunk in &self.chunks {
            let from = rows.start.max(first).min(first + chunk.rows) - first;
            let to = rows.end.max(first).min(first + chunk.rows) - first;
            // One chunk is left, also of no rows: it says how the elements lie.
            let is_last = chunks.is_empty() && first + chunk.rows >= self.rows;
            if from < to || is_last {
                memory::push(&mut chunks, self.chunk_of(chunk, from..to.max(from)));
            }
            first += chunk.rows;
        }
        Self { rows: rows.len(), chunks, ..self.clone() }
    }

    fn chunk_of(&self, chunk: &Chunk, rows: Range<usize>) -> Chunk {
        let len = rows.len();
        let size = |column| size_of_element(chunk.stored(column, &self.element)).unwrap_or(0);
        let cut = |nulls: &Option<NullBuffer>, each: usize| {
            some_nulls(nulls.as_ref().map(|n| n.slice(rows.start * each, len * each)).as_ref())
        };
        let column = |column: &Column, width: usize, size: usize| Column {
            values: column.values.slice_with_length(rows.start * width * size, len * width * size),
            nulls: cut(&column.nulls, width),
        };
        let values = match &chunk.values {
            Values::Rows(all) => Values::Rows(column(all, self.width, size(0))),
            Values::Columns(all) => {
                let all = all.iter().enumerate();
                Values::Columns(Arc::new(all.map(|(c, own)| column(own, 1, size(c))).gather()))
            }
            Values::Scattered(elements) => Values::Scattered(Box::new(elements.after(&rows))),
        };
        let mut lists_per_row = 1;
        let inner_nulls = chunk.inner_nulls.iter().enumerate().map(|(i, nulls)| {
            if let Form::Lists(levels) = &self.form {
                lists_per_row *= usize::try_from(levels[i].1).unwrap_or(0);
            }
            cut(nulls, lists_per_row)
        });
        let inner_nulls = inner_nulls.gather();
        let stored = chunk.stored.clone();
        Chunk { rows: len, values, row_nulls: cut(&chunk.row_nulls, 1), inner_nulls, stored }
    }

    /// Whether both have the same shape and element type, nulls in the same places, and equal
    /// numbers in all others, however their rows are split or stored. A NaN equals nothing.
    ///
    /// # Errors
    ///
    /// An interrupt.
    pub fn equals(&self, other: &Self) -> Result<bool> {
        if (self.rows, self.width) != (other.rows, other.width) || self.element != other.element {
            return Ok(false);
        }
        let nulls = |matrix: &Self| matrix.row_nulls(0..matrix.rows);
        if self.null_rows() != other.null_rows()
            || self.null_rows() > 0 && nulls(self)? != nulls(other)?
        {
            return Ok(false);
        }
        match &self.element {
            DataType::Float16 | DataType::Float32 => self.same_as::<f32>(other),
            DataType::Float64 => self.same_as::<f64>(other),
            DataType::UInt64 => self.same_as::<u64>(other),
            _ => self.same_as::<i64>(other),
        }
    }

    fn same_as<T: Number>(&self, other: &Self) -> Result<bool> {
        let (a, b) = (self.view::<T>()?, other.view::<T>()?);
        let wanted = Wanted { fill: T::default(), with_validity: true };
        let (mut room_a, mut room_b) = (TileWorkspace::default(), TileWorkspace::default());
        let mut same = true;
        let across = TILE.min(self.width.max(1));
        let step = (TILE / across).max(1);
        run::in_steps(0..self.rows, step, |rows| {
            for (of_a, _) in a.pieces(rows) {
                for (both, _) in b.pieces(of_a) {
                    if !same || a.is_null(both.clone()) && b.is_null(both.clone()) {
                        continue;
                    }
                    for columns in steps(0..self.width, across) {
                        let (x, across_x) =
                            a.block(both.clone(), columns.clone(), wanted, &mut room_a);
                        let (y, across_y) =
                            b.block(both.clone(), columns.clone(), wanted, &mut room_b);
                        for row in 0..both.len() {
                            let (x0, y0) = (row * across_x, row * across_y);
                            let n = columns.len();
                            same &= x.x[x0..x0 + n] == y.x[y0..y0 + n];
                            let valid = |v: Option<&[bool]>, i: usize| v.is_none_or(|v| v[i]);
                            same &=
                                (0..n).all(|i| valid(x.valid, x0 + i) == valid(y.valid, y0 + i));
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(same)
    }
}

#[cfg(feature = "python")]
impl Matrix {
    /// A symmetric matrix with a row for each column of the table `x`, as a table of those columns;
    /// `None` unless `x` is a table.
    ///
    /// # Errors
    ///
    /// No memory for elements that have to be gathered.
    pub(crate) fn in_columns_of(&self, x: &Self) -> Result<Option<Self>> {
        let Form::Batch(schema) = &x.form else { return Ok(None) };
        let mut columns = memory::with_capacity(self.rows);
        for row in 0..self.rows {
            // A column of a symmetric matrix is its row.
            let Some(column) = self.row_vector(row)? else { return Ok(None) };
            memory::extend(&mut columns, column.to_arrays()?);
        }
        let named = |field: &FieldRef| Field::new(field.name(), self.element.clone(), true);
        let fields: Vec<Field> = schema.fields().iter().map(named).gather();
        let form = Form::Batch(Arc::new(Schema::new(fields)));
        build::by_columns(&columns, self.rows, None, form).map(Some)
    }

    /// The elements of a row as a vector: where they are, if they lie one behind the other. `None`
    /// for a null row.
    ///
    /// # Errors
    ///
    /// No memory for elements that have to be gathered.
    pub(crate) fn row_vector(&self, row: usize) -> Result<Option<Self>> {
        let one = self.slice(row..row + 1);
        let width = one.width;
        let [Chunk { values, row_nulls: None, .. }] = one.chunks.as_slice() else {
            return Ok(None);
        };
        let column = match values {
            Values::Rows(column) => column.clone(),
            Values::Columns(_) | Values::Scattered(_) => Column {
                values: one.filled()?,
                nulls: match one.has_nulls() {
                    true => {
                        let mask = one.null_mask()?;
                        some_nulls(Some(&from_bits(width, |i| mask[i] == 0)?))
                    }
                    false => None,
                },
            },
        };
        let chunk = build::chunk(width, Values::Rows(column), None);
        Self::one_chunk(one.element.clone(), 1, Form::Flat, chunk).map(Some)
    }
}

impl Scattered {
    /// The elements of some rows.
    fn after(&self, rows: &Range<usize>) -> Self {
        match self {
            Self::Strided { values, mask } => Self::Strided {
                values: values.after(rows.start),
                mask: mask.as_ref().map(|mask| mask.after(rows.start)),
            },
            Self::Lists { column, offsets } => Self::Lists {
                column: column.clone(),
                offsets: match offsets {
                    Offsets::Small(all) => Offsets::Small(all.slice(rows.start, rows.len() + 1)),
                    Offsets::Large(all) => Offsets::Large(all.slice(rows.start, rows.len() + 1)),
                },
            },
        }
    }
}
