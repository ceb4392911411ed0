//! Element types and shapes: `cast` and `transpose`.

use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

use super::elementwise::converted;
use super::with_wide;
use crate::buffer::Output;
use crate::dispatch::{Family, Work, run};
use crate::error::{Error, Result};
use crate::kernel::Identity;
use crate::matrix::{self, Matrix, Number, Scratch, steps};

/// The matrix with its elements in another type.
///
/// Floats are rounded to nearest. An integer that does not fit, or a float that is no whole number
/// on its way to an integer, is an error that names the row; unless the cast is not `safe`: then
/// integers wrap, and floats are cut off and kept in bounds, NaN becoming 0.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float32Type};
/// use arrow_schema::DataType;
/// use raptors_arrow::{Matrix, compute::cast};
///
/// let x: ArrayRef = Arc::new(Float64Array::from(vec![0.1, 2.0]));
/// let single = cast(&Matrix::try_from(&x)?, &DataType::Float32, true)?.to_arrays()?;
/// assert_eq!(single[0].as_primitive::<Float32Type>().values(), &[0.1, 2.0]);
/// assert!(cast(&Matrix::try_from(&x)?, &DataType::Int8, true).is_err());
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Overflow`] as said above, and [`Error::Type`] for what is no type of numbers.
pub fn cast(x: &Matrix, to: &DataType, safe: bool) -> Result<Matrix> {
    const FUNCTION: &str = "cast";
    if x.element_type() == to {
        return Ok(x.clone());
    }
    with_wide!(FUNCTION, x.element_type(), T => converted::<T, _>(FUNCTION, Identity, x, to, safe))
}

/// Rows and columns of the blocks that are turned at once: a block of float64 is 8 KiB.
const BLOCK: usize = 32;

/// The matrix with its columns as rows: fixed-size lists of as many elements as `x` has rows.
///
/// # Errors
///
/// [`Error::TooLarge`] if a list would have more elements than a 32-bit size can say.
pub fn transpose(x: &Matrix) -> Result<Matrix> {
    const FUNCTION: &str = "transpose";
    let (rows, width) = (x.rows(), x.width());
    if i32::try_from(rows).is_err() {
        let limit = "a fixed-size list";
        return Err(Error::TooLarge { function: FUNCTION, rows: width, width: rows, limit });
    }
    with_wide!(FUNCTION, x.element_type(), T => {
        let view = x.view::<T>(FUNCTION)?;
        let to = x.element_type();
        let writer = T::writer(to).ok_or_else(|| matrix::unaccepted(to).in_function(FUNCTION))?;
        let size = writer.size;
        let mut out = Output::<u8>::new(FUNCTION, rows * width * size)?;
        let plan = run::planned(&work(x))?;
        let columns = steps(0..width, BLOCK);
        let tasks = columns.zip(out.chunks_mut((BLOCK * rows * size).max(1))).collect();
        let room = || (Scratch::<T>::new(), Scratch::<T>::new());
        run::each(FUNCTION, &plan, tasks, room, |(scratch, turned), (columns, out)| {
            for (part, rows_of_part) in view.rows(0..rows) {
                for block in steps(rows_of_part, BLOCK) {
                    let (tile, stride) =
                        part.block(block.clone(), columns.clone(), T::default(), scratch);
                    turned.resize(block.len(), T::default());
                    for c in 0..columns.len() {
                        for (r, t) in turned.iter_mut().enumerate() {
                            *t = tile[r * stride + c];
                        }
                        let at = (c * rows + part.first + block.start) * size;
                        writer.write(turned, &mut out[at..at + block.len() * size]);
                    }
                }
            }
        })?;
        let nulls = x.has_nulls().then(|| {
            let is_valid = |i: usize| {
                let (row, column) = (i % rows, i / rows);
                view.rows(row..row + 1).all(|(part, rows)| part.is_valid(rows.start, column))
            };
            NullBuffer::new(BooleanBuffer::collect_bool(rows * width, is_valid))
        });
        Matrix::of_lists(FUNCTION, to.clone(), width, rows, out.into_buffer(), nulls, None)
    })
}

/// The bytes that a change of type or shape moves.
pub(crate) fn work(x: &Matrix) -> Work {
    Work {
        family: Family::Elementwise,
        bytes_read: x.bytes(),
        bytes_written: x.bytes(),
        has_vdsp: false,
    }
}
