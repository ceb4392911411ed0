//! A vector as the one row of a matrix.

use super::build::chunk;
use super::scattered::Scattered;
use super::{Chunk, Form, Matrix, Values};
use crate::error::Result;

impl Matrix {
    /// The elements of a [vector](Self::is_vector) as one row. In one chunk they stay where they
    /// are; a row cannot lie in several, so those are joined.
    ///
    /// # Errors
    ///
    /// No memory for what has to be joined.
    pub(crate) fn as_row(&self) -> Result<Self> {
        let len = self.rows * self.width;
        let row = match self.chunks() {
            [Chunk { values: Values::Rows(column), row_nulls: None, .. }] => {
                Some(Values::Rows(column.clone()))
            }
            [Chunk { values: Values::Scattered(elements), .. }] => match &**elements {
                Scattered::Strided { values, mask } => {
                    let mask = mask.as_ref().map(|mask| mask.as_row(len));
                    let values = values.as_row(len);
                    Some(Values::Scattered(Box::new(Scattered::Strided { values, mask })))
                }
                Scattered::Lists { .. } => None,
            },
            _ => None,
        };
        match row {
            Some(row) => {
                Self::one_chunk(self.element.clone(), len, Form::Flat, chunk(1, row, None))
            }
            None => Self::reshape_chunks(&self.to_arrays()?, len),
        }
    }
}
