//! `gram`, `covariance` and `correlation` of rows that come one batch after the other.
//!
//! Rows are taken [`STEP`] at a time, whatever the batches: what is left of a batch waits for the
//! next. Batches of any lengths give the same bits; up to [`STEP`] rows they are those of the whole.

use std::ops::Range;

use arrow_schema::DataType;

use super::piece::Piece;
use super::square::Square;
use super::{AT_ONCE, Columns, Diagonal, LEAST_ROWS, OfColumns, work};
use crate::buffer::vec_with_capacity;
use crate::compute::with_float;
use crate::dispatch::{Plan, run};
use crate::error::{Error, Result};
use crate::matrix::{self, Matrix, Number, steps};
use crate::memory::{self, Gather as _};

/// Rows of a piece.
const STEP: usize = LEAST_ROWS;

/// How columns vary together, over batches that come one after the other.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{ColumnsAccumulator, OfColumns}};
///
/// let mut covariance = ColumnsAccumulator::new(OfColumns::Covariance, 1);
/// for batch in [vec![1.0, 2.0], vec![3.0, 6.0]] {
///     let flat: ArrayRef = Arc::new(Float64Array::from(batch));
///     covariance.update(&Matrix::reshape(&flat, 2)?)?;
/// }
/// let values = covariance.finish()?.to_arrays()?[0].as_fixed_size_list().values().clone();
/// assert_eq!(values.as_primitive::<Float64Type>().values(), &[2.0, 4.0, 4.0, 8.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
pub struct ColumnsAccumulator {
    kind: OfColumns,
    ddof: usize,
    /// None before the first batch, which says what elements there are.
    state: Option<RunningTotals>,
    rows: usize,
    /// Whether an update was interrupted.
    is_broken: bool,
}

impl std::fmt::Debug for ColumnsAccumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnsAccumulator {{ {:?}, {} rows }}", self.kind, self.rows)
    }
}

impl ColumnsAccumulator {
    /// Nothing seen yet; `ddof` is that of [`covariance`](super::covariance).
    pub fn new(kind: OfColumns, ddof: usize) -> Self {
        Self { kind, ddof, state: None, rows: 0, is_broken: false }
    }

    /// Rows that were seen.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the next rows.
    ///
    /// # Errors
    ///
    /// [`Error::Mixed`] or [`Error::Width`] if they differ in type or width from those before.
    pub fn update(&mut self, x: &Matrix) -> Result<()> {
        run::call(self.kind.name(), || {
            self.refuse_broken()?;
            x.refuse_permuted()?;
            if *x.element_type() == DataType::Boolean {
                return Err(Error::Type {
                    expected: crate::compute::NUMBERS,
                    got: DataType::Boolean,
                });
            }
            let totals = self.state.get_or_insert_with(|| RunningTotals::new(self.kind, x));
            let x = totals.checked(x)?;
            self.rows += x.rows();
            memory::push(&mut totals.waiting, x);
            let taken = memory::caught(|| totals.take(false));
            self.is_broken |= taken.is_err();
            taken
        })
    }

    /// Takes the rows that another one saw, after its own: within the error bound of the whole.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if it is one of another function or `ddof`, and as
    /// [`update`](Self::update).
    pub fn merge(&mut self, right: Self) -> Result<()> {
        run::call(self.kind.name(), || {
            self.refuse_broken()?;
            right.refuse_broken()?;
            if (self.kind, self.ddof) != (right.kind, right.ddof) {
                let (argument, expected) = ("other", "an accumulator of the same function");
                return Err(Error::Argument { argument, expected, got: format!("{right:?}") });
            }
            match (&mut self.state, right.state) {
                (_, None) => {}
                (state @ None, right) => *state = right,
                (Some(left), Some(mut right)) => {
                    check(&left.element, left.width, &right.element, right.width)?;
                    let merged = memory::caught(|| {
                        left.take(true)?;
                        right.take(true)?;
                        left.pieces.iter_mut().zip(&right.pieces).for_each(|(l, r)| l.join(r));
                        left.grow(&right.extents);
                        Ok(())
                    });
                    self.is_broken |= merged.is_err();
                    merged?;
                }
            }
            self.rows += right.rows;
            Ok(())
        })
    }

    /// The results: a row and a column for each column.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type, and
    /// [`Error::Argument`] for float64 columns whose products overflow, or whose spread vanishes,
    /// which takes all rows at once.
    pub fn finish(self) -> Result<Matrix> {
        run::call(self.kind.name(), || {
            self.refuse_broken()?;
            let what = "batches";
            let mut totals = self.state.ok_or(Error::Rows { what, expected: 1, got: 0 })?;
            totals.take(true)?;
            totals.finish(self.kind, self.ddof)
        })
    }

    fn refuse_broken(&self) -> Result<()> {
        if !self.is_broken {
            return Ok(());
        }
        let (argument, expected) = ("self", "an accumulator whose updates all ended");
        let got = "one that was interrupted".to_owned();
        Err(Error::Argument { argument, expected, got })
    }
}

fn check(element: &DataType, width: usize, got: &DataType, got_width: usize) -> Result<()> {
    let what = "a batch";
    if element != got {
        return Err(Error::Mixed { what, expected: element.clone(), got: got.clone() });
    }
    if width != got_width {
        return Err(Error::Width { what, expected: width, got: got_width });
    }
    Ok(())
}

/// What was seen.
struct RunningTotals {
    element: DataType,
    width: usize,
    /// Whether products are of distances from the mean.
    centred: bool,
    /// The products of every two blocks of columns; none before the first rows were taken.
    pieces: Vec<Piece>,
    /// Batches of which some rows were not taken yet, and how many of their first rows were.
    waiting: Vec<Matrix>,
    taken: usize,
    /// The largest magnitude of each column of float64; empty for others.
    extents: Vec<f64>,
}

impl RunningTotals {
    fn new(kind: OfColumns, x: &Matrix) -> Self {
        let (element, width) = (x.element_type().clone(), x.width());
        let (pieces, waiting, extents) = (Vec::new(), Vec::new(), Vec::new());
        let centred = kind != OfColumns::Gram;
        Self { element, width, centred, pieces, waiting, taken: 0, extents }
    }

    fn checked(&self, x: &Matrix) -> Result<Matrix> {
        let x = x.fitted(self.width)?;
        check(&self.element, self.width, x.element_type(), x.width())?;
        Ok(x.into_owned())
    }

    /// Takes the rows that wait: whole steps of them, or all.
    fn take(&mut self, all: bool) -> Result<()> {
        let waiting = self.waiting.iter().map(Matrix::rows).sum::<usize>() - self.taken;
        let rows = if all { waiting } else { waiting - waiting % STEP };
        let is_first = all && self.pieces.is_empty();
        if self.waiting.is_empty() || rows == 0 && !is_first {
            return Ok(());
        }
        let x = Matrix::from_chunks(self.waiting.clone())?;
        let range = self.taken..self.taken + rows;
        let plan = run::planned(&work(&x))?;
        with_float!(&self.element, T => self.feed::<T>(&x, range, plan))?;
        self.taken += rows;
        let gone = self.waiting.iter().take_while(|batch| {
            let is_gone = batch.rows() <= self.taken;
            self.taken -= if is_gone { batch.rows() } else { 0 };
            is_gone
        });
        let gone = gone.count();
        self.waiting.drain(..gone);
        Ok(())
    }

    /// Takes rows, a step after the other: the order of the additions is that of the rows alone.
    fn feed<T: Number>(&mut self, x: &Matrix, rows: Range<usize>, plan: Plan) -> Result<()> {
        let columns = Columns::<T>::new(x, self.centred, plan)?;
        let blocks = super::blocks(self.width);
        let mut pairs: Vec<_> = blocks.iter().map(|block| (block, block)).gather();
        for (i, left) in blocks.iter().enumerate() {
            memory::extend(&mut pairs, blocks[i + 1..].iter().map(|right| (left, right)));
        }
        let rows_at_once = (AT_ONCE / pairs.len().max(1)).max(1) * STEP;
        let groups: Vec<_> = match rows.is_empty() {
            true => vec![rows],
            false => steps(rows, rows_at_once).gather(),
        };
        for rows in groups {
            for (some, pairs) in steps(0..pairs.len(), AT_ONCE).zip(pairs.chunks(AT_ONCE)) {
                let mut at = some.start;
                for piece in columns.steps_of(pairs, rows.clone(), STEP, &[])? {
                    // The steps of a pair come one after the other, and then those of the next.
                    if self.pieces.get(at).is_some_and(|own| !own.is_beside(&piece)) {
                        at += 1;
                    }
                    match self.pieces.get_mut(at) {
                        Some(own) => own.join(&piece),
                        None => memory::push(&mut self.pieces, piece),
                    }
                }
            }
        }
        if columns.is_double() {
            self.grow(&columns.extents()?);
        }
        Ok(())
    }

    fn grow(&mut self, extents: &[f64]) {
        if self.extents.is_empty() {
            self.extents = memory::copied(extents);
        }
        for (own, new) in self.extents.iter_mut().zip(extents) {
            // A NaN stays.
            if *new > *own || new.is_nan() {
                *own = *new;
            }
        }
    }

    fn finish(self, kind: OfColumns, ddof: usize) -> Result<Matrix> {
        let Self { element, width, pieces, extents, .. } = self;
        let mut out = Square::new(&element, width)?;
        let mut diagonal = Diagonal { count: 0, squares: vec_with_capacity(width)? };
        for piece in pieces.iter().filter(|piece| piece.left == piece.right) {
            diagonal.count = piece.count;
            memory::extend(&mut diagonal.squares, piece.left.clone().map(|c| piece.product(c, c)));
        }
        let divisor = diagonal.count.saturating_sub(ddof) as f64;
        for piece in &pieces {
            refuse_lost(piece, &extents, kind)?;
            out.put(piece, |product, a, b| match kind {
                OfColumns::Gram => product,
                OfColumns::Covariance if divisor > 0.0 => product / divisor,
                OfColumns::Covariance => 0.0,
                OfColumns::Correlation => diagonal.correlation(product, a, b),
            });
        }
        let valid = match kind {
            OfColumns::Gram => None,
            OfColumns::Covariance if divisor > 0.0 => None,
            OfColumns::Covariance => Some(matrix::from_bits(width * width, |_| false)?),
            OfColumns::Correlation => Some(matrix::from_bits(width * width, |i| {
                diagonal.squares[i / width] != 0.0 && diagonal.squares[i % width] != 0.0
            })?),
        };
        out.finish(valid)
    }
}

/// Refuses products of finite columns that overflowed, and spreads that vanished: a matrix would be
/// read once more for them.
fn refuse_lost(piece: &Piece, extents: &[f64], kind: OfColumns) -> Result<()> {
    if extents.is_empty() {
        return Ok(());
    }
    for a in piece.left.clone() {
        for b in piece.right.clone() {
            let product = piece.product(a, b);
            let has_overflowed =
                !product.is_finite() && extents[a].is_finite() && extents[b].is_finite();
            let has_vanished = kind == OfColumns::Correlation
                && a == b
                && product.abs() < 1e-280
                && extents[a] > 0.0
                && extents[a] < 1e-120;
            if has_overflowed || has_vanished {
                let argument = "x";
                let expected =
                    "columns whose products a float64 can hold (scale them, or pass a table)";
                let got = format!("magnitudes up to {:e} in column {a}", extents[a]);
                return Err(Error::Argument { argument, expected, got });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array};

    use super::*;
    use crate::compute::{correlation, covariance, gram};

    fn rows(n: usize, width: usize) -> ArrayRef {
        let values = (0..n * width).map(|i| ((i * i) % 1009) as f64 / 7.0 - 60.0);
        Arc::new(Float64Array::from_iter_values(values))
    }

    fn values(matrix: &Matrix) -> Vec<f64> {
        matrix.dense_values::<f64>().unwrap().to_vec()
    }

    fn accumulated(kind: OfColumns, x: &ArrayRef, width: usize, batch: usize) -> Vec<f64> {
        let mut state = ColumnsAccumulator::new(kind, 1);
        for rows in steps(0..x.len() / width, batch) {
            let part = x.slice(rows.start * width, rows.len() * width);
            state.update(&Matrix::reshape(&part, width).unwrap()).unwrap();
        }
        assert_eq!(state.rows(), x.len() / width);
        values(&state.finish().unwrap())
    }

    #[test]
    fn batches_of_any_lengths_give_the_same_bits() {
        let width = 5;
        for n in [1, 100, STEP, STEP + 1, 3 * STEP + 77] {
            let x = rows(n, width);
            let whole = Matrix::reshape(&x, width).unwrap();
            for (kind, expected) in [
                (OfColumns::Gram, gram(&whole).unwrap()),
                (OfColumns::Covariance, covariance(&whole, 1).unwrap()),
                (OfColumns::Correlation, correlation(&whole).unwrap()),
            ] {
                let once = accumulated(kind, &x, width, n);
                for batch in [997, STEP, 4 * STEP] {
                    assert_eq!(accumulated(kind, &x, width, batch), once, "{kind:?} {n} {batch}");
                }
                let expected = values(&expected);
                if n <= STEP {
                    assert_eq!(once, expected, "{kind:?} {n}");
                }
                // n products of magnitudes below 85², with relative errors of n u.
                let bound = (n * n) as f64 * 85.0 * 85.0 * f64::EPSILON;
                for (a, b) in once.iter().zip(&expected) {
                    assert!((a - b).abs() <= bound, "{kind:?} {n}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn merged_states_are_those_of_all_rows() {
        let (width, n) = (3, 2 * STEP);
        let x = rows(n, width);
        let mut left = ColumnsAccumulator::new(OfColumns::Covariance, 0);
        let mut right = ColumnsAccumulator::new(OfColumns::Covariance, 0);
        let cut = STEP * width;
        left.update(&Matrix::reshape(&x.slice(0, cut), width).unwrap()).unwrap();
        right.update(&Matrix::reshape(&x.slice(cut, x.len() - cut), width).unwrap()).unwrap();
        left.merge(right).unwrap();
        assert_eq!(left.rows(), n);
        let mut whole = ColumnsAccumulator::new(OfColumns::Covariance, 0);
        whole.update(&Matrix::reshape(&x, width).unwrap()).unwrap();
        assert_eq!(values(&left.finish().unwrap()), values(&whole.finish().unwrap()));
        let other = ColumnsAccumulator::new(OfColumns::Gram, 0);
        let error = ColumnsAccumulator::new(OfColumns::Covariance, 0).merge(other).unwrap_err();
        assert!(error.to_string().contains("an accumulator of the same function"), "{error}");
    }

    #[test]
    fn what_only_a_second_reading_could_tell_is_refused() {
        let huge: ArrayRef = Arc::new(Float64Array::from(vec![1e200, 1.0, -1e200, 2.0]));
        let mut state = ColumnsAccumulator::new(OfColumns::Gram, 0);
        state.update(&Matrix::reshape(&huge, 2).unwrap()).unwrap();
        let error = state.finish().unwrap_err().to_string();
        assert!(error.contains("magnitudes up to 1e200 in column 0"), "{error}");
        let infinite: ArrayRef = Arc::new(Float64Array::from(vec![f64::INFINITY, 1.0]));
        let mut state = ColumnsAccumulator::new(OfColumns::Gram, 0);
        state.update(&Matrix::reshape(&infinite, 2).unwrap()).unwrap();
        assert_eq!(values(&state.finish().unwrap())[0], f64::INFINITY);
    }
}
