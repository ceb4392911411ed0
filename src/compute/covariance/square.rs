//! The result of `gram`, `covariance` and `correlation`.

use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use pulp::bytemuck;

use super::piece::{BLOCK, Piece};
use crate::buffer::Output;
use crate::compute::real_type;
use crate::error::Result;
use crate::matrix::{self, Matrix, Number, Writer};

/// A `d × d` result in the type that results of such elements have. It is the only thing of its size: the
/// products are rounded into it block by block.
pub(super) struct Square {
    to: DataType,
    width: usize,
    writer: Writer<f64>,
    out: Output<u8>,
}

impl Square {
    pub(super) fn new(element: &DataType, width: usize) -> Result<Self> {
        let to = real_type(element).clone();
        let writer = f64::writer(&to).ok_or_else(|| matrix::unaccepted(&to))?;
        let out = Output::new(width * width * writer.size)?;
        Ok(Self { to, width, writer, out })
    }

    /// Puts what `made` makes of the products of a piece on both sides of the diagonal.
    pub(super) fn put(&mut self, piece: &Piece, made: impl Fn(f64, usize, usize) -> f64) {
        let (left, right) = (piece.left.clone(), piece.right.clone());
        let mut row = [0.0; BLOCK];
        for a in left.clone() {
            right.clone().zip(&mut row).for_each(|(b, o)| *o = made(piece.product(a, b), a, b));
            self.write(a, right.start, &row[..right.len()]);
        }
        if left != right {
            for b in right {
                left.clone().zip(&mut row).for_each(|(a, o)| *o = made(piece.product(a, b), a, b));
                self.write(b, left.start, &row[..left.len()]);
            }
        }
    }

    /// [`put`](Self::put) of some of them.
    pub(super) fn put_some(
        &mut self,
        piece: &Piece,
        is_wanted: &impl Fn(usize, usize) -> bool,
        made: impl Fn(f64, usize, usize) -> f64,
    ) {
        for a in piece.left.clone() {
            for b in piece.right.clone().filter(|b| is_wanted(a, *b)) {
                let made = [made(piece.product(a, b), a, b)];
                self.write(a, b, &made);
                self.write(b, a, &made);
            }
        }
    }

    fn write(&mut self, row: usize, column: usize, values: &[f64]) {
        let at = (row * self.width + column) * self.writer.size;
        self.writer.write(values, &mut self.out[at..at + values.len() * self.writer.size]);
    }

    /// The results themselves, if they are float64.
    pub(super) fn doubles(&self) -> &[f64] {
        if self.writer.is_same { bytemuck::cast_slice(&self.out) } else { &[] }
    }

    pub(super) fn finish(self, nulls: Option<NullBuffer>) -> Result<Matrix> {
        let Self { to, width, out, .. } = self;
        Matrix::of_lists(to, width, width, out.into_buffer(), nulls, None)
    }
}
