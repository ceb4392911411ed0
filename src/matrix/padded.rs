//! Rows brought to a width: filled up behind their last element, or cut off.

use super::build::chunk;
use super::{
    Column, Form, Matrix, Number, Ragged, Values, from_bits, size_of_element, some_nulls,
    unaccepted,
};
use crate::buffer::{Output, vec_of};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::memory;

/// Elements that are moved before an interrupt is looked at.
const AT_ONCE: usize = 1 << 18;

/// What stands behind the last element of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Filling {
    Null,
    Number(f64),
    Integer(i128),
}

impl Ragged {
    /// Rows of `width`, with `fill` behind those that are shorter; a null row stays null.
    ///
    /// # Errors
    ///
    /// [`Error::Ragged`] for a row that is longer, and [`Error::Number`] for a filling that does not
    /// fit the elements.
    pub(crate) fn padded(&self, width: usize, fill: Filling) -> Result<Matrix> {
        let element = self.element_type().clone();
        let size = size_of_element(&element).unwrap_or(0);
        let filling = bytes_of(&element, fill)?;
        let mut parts = memory::with_capacity(self.chunk_count());
        let mut first = 0;
        for index in 0..self.chunk_count() {
            let (rows, column) = self.chunk_elements(index);
            let mut values = Output::<u8>::new(rows * width * size)?;
            let mut valid = vec_of(true, rows * width)?;
            let mut is_there = vec_of(true, rows)?;
            run::in_steps(0..rows, (AT_ONCE / width.max(1)).max(1), |some| {
                for row in some {
                    let out = &mut values[row * width * size..(row + 1) * width * size];
                    let valid = &mut valid[row * width..(row + 1) * width];
                    let Some(range) = self.row_range(index, row) else {
                        out.fill(0);
                        valid.fill(false);
                        is_there[row] = false;
                        continue;
                    };
                    let len = range.len();
                    if len > width {
                        return Err(Error::Ragged { expected: width, row: first + row, got: len });
                    }
                    out[..len * size]
                        .copy_from_slice(&column.values[range.start * size..range.end * size]);
                    out[len * size..]
                        .chunks_exact_mut(size)
                        .for_each(|o| o.copy_from_slice(&filling[..size]));
                    if let Some(nulls) = &column.nulls {
                        for (valid, i) in valid.iter_mut().zip(range) {
                            *valid = nulls.is_valid(i);
                        }
                    }
                    valid[len..].fill(fill != Filling::Null);
                }
                Ok(())
            })?;
            let nulls = some_nulls(Some(&from_bits(valid.len(), |i| {
                valid[i] || !is_there[i / width.max(1)]
            })?));
            let row_nulls = some_nulls(Some(&from_bits(rows, |row| is_there[row])?));
            let values = Values::Rows(Column { values: values.into_buffer(), nulls });
            let part = chunk(rows, values, row_nulls);
            let part = Matrix::one_chunk(element.clone(), width, Form::Flat, part)?;
            parts.push(part.into_lists()?);
            first += rows;
        }
        Matrix::from_chunks(parts)
    }
}

/// A filling as it is stored.
fn bytes_of(element: &arrow_schema::DataType, fill: Filling) -> Result<[u8; 8]> {
    fn stored<T: Number>(
        element: &arrow_schema::DataType,
        value: Option<T>,
        number: &dyn std::fmt::Display,
    ) -> Result<[u8; 8]> {
        let writer = T::writer(element).ok_or_else(|| unaccepted(element))?;
        let mut bytes = [0; 8];
        match value {
            Some(value) if !writer.write(&[value], &mut bytes[..writer.size]) => Ok(bytes),
            _ => {
                let (what, number) = ("fill", number.to_string());
                Err(Error::Number { what, number, element: element.clone() })
            }
        }
    }
    match (fill, element.is_integer()) {
        (Filling::Null, _) => Ok([0; 8]),
        (Filling::Integer(n), true) if *element == arrow_schema::DataType::UInt64 => {
            stored(element, u64::try_from(n).ok(), &n)
        }
        (Filling::Integer(n), true) => stored(element, i64::try_from(n).ok(), &n),
        (Filling::Integer(n), false) => stored(element, Some(n as f64), &n),
        (Filling::Number(n), _) => stored(element, Some(n), &n),
    }
}
