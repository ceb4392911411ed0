//! How columns vary together: `gram`, `covariance` and `correlation`.
//!
//! Elements are widened to float64 a panel of rows at a time and added up there, whatever their
//! type, and results are rounded once. The split into pieces depends on the shape alone, and
//! pieces are joined in order, so the number of threads does not change a bit of the answer.

use std::ops::Range;

use arrow_buffer::NullBuffer;

use super::{dense, real_type};
use crate::buffer::Output;
use crate::dispatch::gemm::{Panel, multiply};
use crate::dispatch::{Backend, Family, Work, run};
use crate::error::{Error, Result};
use crate::matrix::{self, Matrix, Number, View, steps};

/// The Gram matrix of the columns: `xᵀx`, `d × d`. Rows with a null are left out.
///
/// [`pairwise`](super::pairwise) with [`Metric::Dot`](super::Metric::Dot) gives `xxᵀ`.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, Float32Array, cast::AsArray, types::Float32Type};
/// use raptors_arrow::{Matrix, compute::gram};
///
/// let flat: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
/// let products = gram(&Matrix::reshape(&flat, 2)?)?.to_arrays()?;
/// let values = products[0].as_fixed_size_list().values().clone();
/// assert_eq!(values.as_primitive::<Float32Type>().values(), &[10.0, 14.0, 14.0, 20.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`] unless the elements are numbers.
pub fn gram(x: &Matrix) -> Result<Matrix> {
    const FUNCTION: &str = "gram";
    let moments = Moments::of(FUNCTION, x, false)?;
    square(FUNCTION, x, &moments.products, None)
}

/// The covariance of every two columns, `d × d`: as `numpy.cov(x, rowvar=False)`.
///
/// Rows with a null are left out. `ddof` is taken from the number of rows before it divides: 1 for
/// the covariance of a sample. With no more rows than `ddof`, everything is null.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::covariance};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 6.0]));
/// let covariances = covariance(&Matrix::reshape(&flat, 2)?, 1)?.to_arrays()?;
/// let values = covariances[0].as_fixed_size_list().values().clone();
/// assert_eq!(values.as_primitive::<Float64Type>().values(), &[2.0, 4.0, 4.0, 8.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`] unless the elements are numbers.
pub fn covariance(x: &Matrix, ddof: usize) -> Result<Matrix> {
    const FUNCTION: &str = "covariance";
    let mut moments = Moments::of(FUNCTION, x, true)?;
    let Some(divisor) = moments.count.checked_sub(ddof).filter(|left| *left > 0) else {
        let none = NullBuffer::new_null(moments.products.len());
        moments.products.fill(0.0);
        return square(FUNCTION, x, &moments.products, Some(none));
    };
    moments.products.iter_mut().for_each(|product| *product /= divisor as f64);
    square(FUNCTION, x, &moments.products, None)
}

/// The correlation of every two columns, `d × d`: as `numpy.corrcoef(x, rowvar=False)`, but null
/// where a column is constant, and 1 for a column with itself.
///
/// Rows with a null are left out.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::correlation};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, -6.0]));
/// let correlations = correlation(&Matrix::reshape(&flat, 2)?)?.to_arrays()?;
/// let values = correlations[0].as_fixed_size_list().values().clone();
/// assert_eq!(values.as_primitive::<Float64Type>().values(), &[1.0, -1.0, -1.0, 1.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Type`] unless the elements are numbers.
pub fn correlation(x: &Matrix) -> Result<Matrix> {
    const FUNCTION: &str = "correlation";
    let Moments { width, mut products, .. } = Moments::of(FUNCTION, x, true)?;
    let squares: Vec<f64> = (0..width).map(|c| products[c * width + c]).collect();
    let mut valid = vec![true; products.len()];
    for (i, (product, valid)) in products.iter_mut().zip(&mut valid).enumerate() {
        let (row, column) = (i / width, i % width);
        (*product, *valid) = match (squares[row], squares[column]) {
            (0.0, _) | (_, 0.0) => (0.0, false),
            (own, _) if row == column && own.is_finite() => (1.0, true),
            // A NaN passes.
            (a, b) => ((*product / root(a, b)).clamp(-1.0, 1.0), true),
        };
    }
    square(FUNCTION, x, &products, Some(NullBuffer::from(valid)))
}

/// The root of a product, which may itself overflow or vanish.
fn root(a: f64, b: f64) -> f64 {
    let product = a * b;
    if product.is_normal() { product.sqrt() } else { a.sqrt() * b.sqrt() }
}

/// The work of such a function; see [`product::work`](super::product::work).
pub(crate) fn work(x: &Matrix) -> Work {
    let size = real_type(x.element_type()).primitive_width().unwrap_or(8);
    let products = (x.rows() * x.width()).saturating_mul(x.width());
    Work {
        family: Family::Elementwise,
        // Two bytes a multiplication of float64, and half of them are made.
        bytes_read: x.bytes().saturating_add(products),
        bytes_written: x.width().saturating_mul(x.width()).saturating_mul(size),
        has_vdsp: true,
    }
}

/// A `d × d` result in the type that results of `x` have.
fn square(
    function: &'static str,
    x: &Matrix,
    values: &[f64],
    nulls: Option<NullBuffer>,
) -> Result<Matrix> {
    let (to, width) = (real_type(x.element_type()).clone(), x.width());
    let writer = f64::writer(&to).ok_or_else(|| matrix::unaccepted(&to).in_function(function))?;
    let mut out = Output::<u8>::new(function, values.len() * writer.size)?;
    writer.write(values, &mut out);
    Matrix::of_lists(function, to, width, width, out.into_buffer(), nulls, None)
}

/// Columns of a block of the products: 512 KiB.
const BLOCK: usize = 256;

/// Elements of a panel: rows that are widened, and multiplied while they are in L2.
const PANEL: usize = 32 << 10;

/// Pieces that a call is split into, where it is large enough: enough for many threads, and few
/// enough that their products are no burden.
const PIECES: usize = 32;

/// The least rows of a piece.
const LEAST_ROWS: usize = 4096;

/// The products of every two columns, and what is needed to join them with those of other rows.
struct Moments {
    count: usize,
    width: usize,
    products: Vec<f64>,
}

impl Moments {
    /// Of all rows without a null; products of distances from the mean if `centred`.
    fn of(function: &'static str, x: &Matrix, centred: bool) -> Result<Self> {
        let (rows, width) = (x.rows(), x.width());
        let all = width.checked_mul(width).filter(|n| isize::try_from(n * 8).is_ok());
        if all.is_none() || i32::try_from(width).is_err() {
            let limit = "a fixed-size list of such lists";
            return Err(Error::TooLarge { function, rows: width, width, limit });
        }
        let plan = run::planned(&work(x))?;
        let view = x.view::<f64>(function)?;
        let whole = x.incomplete_rows(0..rows);
        let blocks: Vec<Range<usize>> = steps(0..width, BLOCK).collect();
        let pairs = blocks.len() * (blocks.len() + 1) / 2;
        let ranges = (PIECES / pairs.max(1)).max(1);
        let step = rows.div_ceil(ranges).max(LEAST_ROWS);
        let mut pieces = Vec::new();
        for (i, left) in blocks.iter().enumerate() {
            for right in &blocks[i..] {
                let of = |rows| (rows, Piece::new(left.clone(), right.clone(), centred));
                pieces.extend(steps(0..rows, step).map(of));
                if rows == 0 {
                    pieces.push(of(0..0));
                }
            }
        }
        let tasks = pieces.iter_mut().collect();
        run::each(function, &plan, tasks, Room::default, |room, (rows, piece)| {
            piece.feed(plan.backend, &view, rows.clone(), whole.as_ref(), room);
        })?;
        let mut moments = Self { count: 0, width, products: vec![0.0; width * width] };
        let mut pieces = pieces.into_iter().map(|(_, piece)| piece).peekable();
        while let Some(mut piece) = pieces.next() {
            while let Some(next) = pieces.next_if(|next| next.is_beside(&piece)) {
                piece.join(&next);
            }
            moments.put(&piece);
        }
        Ok(moments)
    }

    /// Takes the products of a piece over all rows, on both sides of the diagonal.
    fn put(&mut self, piece: &Piece) {
        self.count = piece.count;
        let products = piece.products.chunks_exact(piece.right.len().max(1));
        for (a, products) in piece.left.clone().zip(products) {
            for (b, product) in piece.right.clone().zip(products) {
                self.products[a * self.width + b] = *product;
                self.products[b * self.width + a] = *product;
            }
        }
    }
}

/// Products of some columns with some columns, over some rows. It can be joined with that of the
/// rows that follow.
struct Piece {
    left: Range<usize>,
    right: Range<usize>,
    centred: bool,
    count: usize,
    /// The means of both sides, if products are of distances from them.
    means: [Vec<f64>; 2],
    products: Vec<f64>,
}

/// Room for panels.
#[derive(Default)]
struct Room {
    rows: dense::Room<f64>,
    panels: [Vec<f64>; 2],
    means: [Vec<f64>; 2],
}

impl Piece {
    fn new(left: Range<usize>, right: Range<usize>, centred: bool) -> Self {
        let means = [vec![0.0; left.len()], vec![0.0; right.len()]];
        let products = Vec::new();
        Self { left, right, centred, count: 0, means, products }
    }

    /// Whether it has the same columns, of other rows.
    fn is_beside(&self, other: &Self) -> bool {
        self.left == other.left && self.right == other.right
    }

    /// Takes rows, except those that are not `whole`.
    fn feed(
        &mut self,
        backend: Backend,
        view: &View<'_, f64>,
        rows: Range<usize>,
        whole: Option<&NullBuffer>,
        room: &mut Room,
    ) {
        self.products = vec![0.0; self.left.len() * self.right.len()];
        let sides = [self.left.clone(), self.right.clone()];
        let is_one = self.left == self.right;
        for rows in steps(rows, (PANEL / view.width.max(1)).clamp(64, 4096)) {
            let count = match whole {
                None => rows.len(),
                Some(whole) => rows.clone().filter(|row| whole.is_valid(*row)).count(),
            };
            if count == 0 {
                continue;
            }
            let Room { rows: held, panels, means } = &mut *room;
            let x = held.block(view, rows.clone());
            for (side, columns) in sides.iter().enumerate().take(if is_one { 1 } else { 2 }) {
                let panel = &mut panels[side];
                panel.clear();
                for (row, x) in rows.clone().zip(x.chunks_exact(view.width)) {
                    if whole.is_none_or(|whole| whole.is_valid(row)) {
                        panel.extend_from_slice(&x[columns.clone()]);
                    }
                }
                if self.centred {
                    centre(panel, columns.len(), count, &mut means[side]);
                    self.between(side, count, &means[side], panel);
                }
            }
            if self.centred {
                self.move_means(
                    count,
                    if is_one { [&means[0], &means[0]] } else { [&means[0], &means[1]] },
                );
            }
            self.count += count;
            let (left, right) = (&panels[0], &panels[if is_one { 0 } else { 1 }]);
            let of = |panel: &'_ [f64], width: usize| panel.len() / width.max(1);
            let (a, b) = (sides[0].len(), sides[1].len());
            let left = Panel::new(left, of(left, a), a, a).transposed();
            let right = Panel::new(right, of(right, b), b, b);
            multiply(backend, left, right, true, &mut self.products);
        }
    }

    /// Adds to a centred panel the row whose products are those between the means of what came
    /// before and of the panel: `√(n m / (n + m))` times their distance.
    fn between(&self, side: usize, count: usize, means: &[f64], panel: &mut Vec<f64>) {
        if self.count > 0 {
            let (n, m) = (self.count as f64, count as f64);
            let weight = (n * (m / (n + m))).sqrt();
            panel
                .extend(means.iter().zip(&self.means[side]).map(|(new, old)| weight * (new - old)));
        }
    }

    fn move_means(&mut self, count: usize, means: [&[f64]; 2]) {
        let share = count as f64 / (self.count + count) as f64;
        for (own, new) in self.means.iter_mut().zip(means) {
            for (own, new) in own.iter_mut().zip(new) {
                *own = if self.count == 0 { *new } else { *own + (new - *own) * share };
            }
        }
    }

    /// Takes the products of the same columns over the rows that follow.
    fn join(&mut self, next: &Self) {
        for (own, next) in self.products.iter_mut().zip(&next.products) {
            *own += next;
        }
        if self.centred && self.count > 0 && next.count > 0 {
            let (n, m) = (self.count as f64, next.count as f64);
            let weight = n * (m / (n + m));
            let apart = |side: usize| {
                let both = next.means[side].iter().zip(&self.means[side]);
                both.map(|(new, old)| new - old).collect::<Vec<f64>>()
            };
            let (left, right) = (apart(0), apart(1));
            for (products, left) in self.products.chunks_exact_mut(right.len().max(1)).zip(left) {
                products.iter_mut().zip(&right).for_each(|(p, right)| *p += weight * left * right);
            }
        }
        if next.count > 0 {
            self.move_means(next.count, [&next.means[0], &next.means[1]]);
        }
        self.count += next.count;
    }
}

/// Takes the mean of each column from a panel, and says what it was.
///
/// The mean is measured from the first row, so that a constant column has it exactly, and its
/// distances are zero.
fn centre(panel: &mut [f64], width: usize, count: usize, means: &mut Vec<f64>) {
    means.clear();
    means.resize(width, 0.0);
    let Some(first) = panel.get(..width).map(<[f64]>::to_vec) else { return };
    for row in panel.chunks_exact(width.max(1)) {
        for ((mean, x), first) in means.iter_mut().zip(row).zip(&first) {
            *mean += x - first;
        }
    }
    for (mean, first) in means.iter_mut().zip(&first) {
        *mean = first + *mean / count as f64;
    }
    for row in panel.chunks_exact_mut(width.max(1)) {
        row.iter_mut().zip(means.iter()).for_each(|(x, mean)| *x -= mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Level;

    const BACKEND: Backend = Backend::Native(Level::Portable);

    fn fed(view: &View<'_, f64>, rows: Range<usize>) -> Piece {
        let mut piece = Piece::new(0..view.width, 0..view.width, true);
        piece.feed(BACKEND, view, rows, None, &mut Room::default());
        piece
    }

    /// Whatever the cut, the joined state is that of the whole, to a few units in the last place
    /// of the largest product.
    #[test]
    fn pieces_joined_are_the_whole() {
        let values =
            (0..3000).map(|i| 1e6 + f64::from(i % 17) * f64::from(i % 5)).collect::<Vec<_>>();
        let array: arrow_array::ArrayRef =
            std::sync::Arc::new(arrow_array::Float64Array::from(values));
        let x = Matrix::reshape(&array, 3).unwrap();
        let view = x.view::<f64>("covariance").unwrap();
        let whole = fed(&view, 0..1000);
        for cut in [0, 1, 500, 999, 1000] {
            let mut joined = fed(&view, 0..cut);
            joined.join(&fed(&view, cut..1000));
            assert_eq!(joined.count, 1000);
            let largest = whole.products.iter().fold(0.0f64, |a, b| a.max(b.abs()));
            for (a, b) in joined.products.iter().zip(&whole.products) {
                assert!((a - b).abs() <= 1e-9 * largest, "{cut}: {a} {b}");
            }
            for (a, b) in joined.means[0].iter().zip(&whole.means[0]) {
                assert!((a - b).abs() <= 1e-15 * 1e6 * 8.0, "{cut}: {a} {b}");
            }
        }
    }

    #[test]
    fn a_constant_column_has_no_spread() {
        let array: arrow_array::ArrayRef =
            std::sync::Arc::new(arrow_array::Float64Array::from(vec![0.1; 10_000]));
        let x = Matrix::reshape(&array, 1).unwrap();
        let view = x.view::<f64>("covariance").unwrap();
        let mut joined = fed(&view, 0..3333);
        joined.join(&fed(&view, 3333..10_000));
        assert_eq!(joined.products, [0.0]);
        assert_eq!(joined.means[0], [0.1]);
    }
}
