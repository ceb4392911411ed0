//! Columns as rows.

use arrow_buffer::NullBuffer;

use super::call::{self, Call, Driven, Held, Pass};
use super::{Value, with_wide};
use crate::buffer::Output;
use crate::dispatch::{Family, Plan, Work, run};
use crate::error::{Error, Result};
use crate::matrix::{self, Matrix, Number, Scratch, View, steps};
use crate::memory::{self, Gather as _};

/// Rows and columns of the blocks that are turned at once: a block of float64 is 8 KiB.
const BLOCK: usize = 32;

/// Blocks that are turned before an interrupt is looked at.
const BLOCKS_AT_ONCE: usize = 1 << 8;

/// Which elements are null once columns are rows; `None` if none is.
fn turned_nulls<T: Number>(view: &View<'_, T>) -> Result<Option<NullBuffer>> {
    let (rows, width) = (view.rows, view.width);
    let nulls = matrix::from_words(rows * width, |from| {
        // Most words lie in one column and one part: both are looked up once for each.
        let mut word = 0;
        let mut i = from;
        let end = (from + 64).min(rows * width);
        while i < end {
            let (row, column) = (i % rows, i / rows);
            for (part, own) in view.rows(row..rows.min(row + end - i)) {
                for row in own {
                    word |= u64::from(part.is_valid(row, column)) << (i - from);
                    i += 1;
                }
            }
        }
        word
    })?;
    Ok(Some(nulls).filter(|nulls| nulls.null_count() > 0))
}

/// The matrix with its columns as rows: fixed-size lists of as many elements as `x` has rows.
///
/// # Errors
///
/// [`Error::TooLarge`] if a list would have more elements than a 32-bit size can say.
pub fn transpose(x: &Matrix) -> Result<Matrix> {
    call::execute("transpose", &Transpose(Held::Borrowed(x)))?.into_matrix()
}

/// The call of the function of the table.
pub(super) fn bind<'a>(call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    Ok(Box::new(Transpose(call.matrix(0)?)))
}

/// A call of [`transpose`].
struct Transpose<'a>(Held<'a>);

impl Driven for Transpose<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let bytes = self.0.bytes();
        let family = Family::Elementwise;
        let work = Work { family, bytes_read: bytes, bytes_written: bytes, has_vdsp: false };
        vec![("transpose", work)]
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        transposed(&self.0, passes[0].plan).map(Value::Matrix)
    }
}

fn transposed(x: &Matrix, plan: Plan) -> Result<Matrix> {
    let (rows, width) = (x.rows(), x.width());
    if i32::try_from(rows).is_err() {
        let limit = "a fixed-size list";
        return Err(Error::TooLarge { rows: width, width: rows, limit });
    }
    with_wide!(x.element_type(), T => {
        let view = x.view::<T>()?;
        let to = x.element_type();
        let writer = T::writer(to).ok_or_else(|| matrix::unaccepted(to))?;
        let size = writer.size;
        let mut out = Output::<u8>::new(rows * width * size)?;
        let columns = steps(0..width, BLOCK);
        let tasks = columns.zip(out.chunks_mut((BLOCK * rows * size).max(1))).gather();
        let workspace = || (Scratch::<T>::new(), Scratch::<T>::new());
        run::each_while(&plan, tasks, workspace, |(scratch, turned), task, go_on| {
            let (columns, out) = task;
            for (part, rows_of_part) in view.rows(0..rows) {
                for (i, block) in steps(rows_of_part, BLOCK).enumerate() {
                    if i % BLOCKS_AT_ONCE == 0 && !go_on() {
                        return;
                    }
                    let (tile, stride) =
                        part.block(block.clone(), columns.clone(), T::default(), scratch);
                    memory::resize(turned, block.len(), T::default());
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
        let nulls = if x.has_nulls() { turned_nulls(&view)? } else { None };
        Matrix::of_lists(to.clone(), width, rows, out.into_buffer(), nulls, None)
    })
}
