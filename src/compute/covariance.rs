//! How columns vary together: `gram`, `covariance` and `correlation`.
//!
//! Elements are widened to float64 a panel of rows at a time and added up there (`piece`), whatever
//! their type, and results are rounded once (`square`). The split into pieces depends on the shape alone, and
//! pieces are joined in order, so the number of threads does not change a bit of the answer.
//!
//! Products of float64 columns that overflow, or whose spread vanishes, are made once more of
//! columns that were multiplied by powers of two; a product takes the second answer only where the
//! first is in doubt.

mod piece;
mod running;
mod square;

use std::ops::Range;

use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::call::{self, Call, Driven, Held, Pass};
use super::contiguous::RowWorkspace;
use super::{Value, real_type, with_float};
use crate::buffer::{vec_of, vec_with_capacity};
use crate::dispatch::{Family, Plan, Work, run};
use crate::error::{Error, Result};
use crate::kernel::{exponent_of, power_of_two, times_power};
use crate::matrix::{self, Matrix, Number, View, steps};
use crate::memory::{self, Gather as _};
use piece::{BLOCK, PanelWorkspace, Piece, PieceSource, panel_rows};
pub use running::ColumnsAccumulator;
use square::Square;

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
    execute("gram", OfColumns::Gram, x, 0)
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
    execute("covariance", OfColumns::Covariance, x, ddof)
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
    execute("correlation", OfColumns::Correlation, x, 0)
}

/// What is made of every two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OfColumns {
    /// Their product.
    Gram,
    /// Their covariance.
    Covariance,
    /// Their correlation.
    Correlation,
}

impl OfColumns {
    /// The function that it is.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gram => "gram",
            Self::Covariance => "covariance",
            Self::Correlation => "correlation",
        }
    }
}

fn execute(function: &'static str, kind: OfColumns, x: &Matrix, ddof: usize) -> Result<Matrix> {
    call::execute(function, &ColumnsCall { x: Held::Borrowed(x), kind, ddof })?.into_matrix()
}

/// The call of a function of the table.
pub(super) fn bind<'a>(kind: OfColumns, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    Ok(Box::new(ColumnsCall { x: call.matrix(0)?, kind, ddof: call.options.count("ddof") }))
}

/// A call of such a function.
struct ColumnsCall<'a> {
    x: Held<'a>,
    kind: OfColumns,
    ddof: usize,
}

impl Driven for ColumnsCall<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        vec![("multiply", work(&self.x))]
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        let (x, plan) = (&*self.x, passes[0].plan);
        let made = with_float!(x.element_type(), T => match self.kind {
            OfColumns::Gram => products::<T>(x, plan),
            OfColumns::Covariance => covariances::<T>(x, self.ddof, plan),
            OfColumns::Correlation => correlations::<T>(x, plan),
        })?;
        Ok(Value::Matrix(made))
    }
}

fn products<T: Number>(x: &Matrix, plan: Plan) -> Result<Matrix> {
    let call = Columns::<T>::new(x, false, plan)?;
    let mut out = Square::new(x.element_type(), x.width())?;
    call.products(None, |piece, _| out.put(piece, |product, _, _| product))?;
    call.mend(&mut out, 1.0)?;
    out.finish(None)
}

fn covariances<T: Number>(x: &Matrix, ddof: usize, plan: Plan) -> Result<Matrix> {
    let call = Columns::<T>::new(x, true, plan)?;
    let mut out = Square::new(x.element_type(), x.width())?;
    let divisor = |count: usize| count.saturating_sub(ddof) as f64;
    let Diagonal { count, .. } = call.products(None, |piece, diagonal| {
        let divisor = divisor(diagonal.count);
        out.put(piece, |product, _, _| if divisor > 0.0 { product / divisor } else { 0.0 });
    })?;
    if count <= ddof {
        let none = matrix::from_bits(x.width() * x.width(), |_| false)?;
        return out.finish(Some(none));
    }
    call.mend(&mut out, divisor(count))?;
    out.finish(None)
}

fn correlations<T: Number>(x: &Matrix, plan: Plan) -> Result<Matrix> {
    let call = Columns::<T>::new(x, true, plan)?;
    let width = x.width();
    let mut out = Square::new(x.element_type(), x.width())?;
    let first = call.products(None, |piece, diagonal| {
        out.put(piece, |product, a, b| diagonal.correlation(product, a, b));
    })?;
    let doubt = call.doubt(&first)?;
    let is_doubtful = |a: usize, b: usize| doubt.as_ref().is_some_and(|doubt| doubt.is_of(a, b));
    let again = match &doubt {
        Some(doubt) => Some(call.products(Some(&doubt.exponents), |piece, diagonal| {
            out.put_some(piece, &is_doubtful, |product, a, b| diagonal.correlation(product, a, b));
        })?),
        None => None,
    };
    let valid = matrix::from_bits(width * width, |i| {
        let (a, b) = (i / width, i % width);
        let squares = match &again {
            Some(again) if is_doubtful(a, b) => &again.squares,
            _ => &first.squares,
        };
        squares[a] != 0.0 && squares[b] != 0.0
    })?;
    out.finish(Some(valid))
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

/// Pieces that a call is split into, where it is large enough: enough for many threads, and few
/// enough that their products are no burden.
const PIECES: usize = 24;

/// Pieces that are held at once, 27 MiB, where there are more blocks of columns than that.
const AT_ONCE: usize = 24;

/// The smallest rows of a piece.
const LEAST_ROWS: usize = 4096;

/// Blocks of so many columns: even ones, of whole tiles at every level.
fn blocks(width: usize) -> Vec<Range<usize>> {
    let block = width.div_ceil(width.div_ceil(BLOCK).max(1)).next_multiple_of(24).min(BLOCK);
    steps(0..width, block).gather()
}

/// A call that is checked and planned.
struct Columns<'a, T: Number> {
    x: &'a Matrix,
    view: View<'a, T>,
    /// Rows without a null.
    whole: Option<NullBuffer>,
    plan: Plan,
    /// Whether products are of distances from the mean.
    centred: bool,
}

impl<'a, T: Number> Columns<'a, T> {
    fn new(x: &'a Matrix, centred: bool, plan: Plan) -> Result<Self> {
        let width = x.width();
        let all = width.checked_mul(width).filter(|n| isize::try_from(n * 8).is_ok());
        if all.is_none() || i32::try_from(width).is_err() {
            let limit = "a fixed-size list of such lists";
            return Err(Error::TooLarge { rows: width, width, limit });
        }
        let view = x.view::<T>()?;
        let whole = x.incomplete_rows(0..x.rows())?;
        Ok(Self { x, view, whole, plan, centred })
    }

    /// Makes the products of all rows without a null, of every two columns; of columns over two to
    /// the power of `exponents`, if there are any. `put` is given those of each block of columns
    /// with itself first, and then with every other. Some blocks are held at a time, never all.
    fn products(
        &self,
        exponents: Option<&[i32]>,
        mut put: impl FnMut(&Piece, &Diagonal),
    ) -> Result<Diagonal> {
        let View { rows, width, .. } = self.view;
        let powers: Vec<f64> =
            exponents.unwrap_or(&[]).iter().map(|exponent| power_of_two(-exponent)).gather();
        let blocks = blocks(width);
        let ranges = (2 * PIECES / (blocks.len() * (blocks.len() + 1)).max(1)).max(1);
        let step = rows.div_ceil(ranges).max(LEAST_ROWS);

        let at_once = (AT_ONCE / ranges).max(1);
        let mut diagonal = Diagonal { count: 0, squares: vec_with_capacity(width)? };
        let own: Vec<_> = blocks.iter().map(|block| (block, block)).gather();
        for pairs in own.chunks(at_once) {
            let own = self.pieces(pairs, 0..rows, step, &powers)?;
            for piece in &own {
                diagonal.count = piece.count;
                memory::extend(
                    &mut diagonal.squares,
                    piece.left.clone().map(|c| piece.product(c, c)),
                );
            }
            own.iter().for_each(|piece| put(piece, &diagonal));
        }

        let others: Vec<_> = blocks
            .iter()
            .enumerate()
            .flat_map(|(i, left)| blocks[i + 1..].iter().map(move |right| (left, right)))
            .gather();
        for pairs in others.chunks(at_once) {
            for piece in self.pieces(pairs, 0..rows, step, &powers)? {
                put(&piece, &diagonal);
            }
        }
        Ok(diagonal)
    }

    /// The products of pairs of blocks of columns over some rows, made `step` rows at a time.
    fn pieces(
        &self,
        pairs: &[(&Range<usize>, &Range<usize>)],
        rows: Range<usize>,
        step: usize,
        powers: &[f64],
    ) -> Result<Vec<Piece>> {
        let mut joined: Vec<Piece> = memory::with_capacity(pairs.len());
        for piece in self.steps_of(pairs, rows, step, powers)? {
            match joined.last_mut() {
                Some(last) if last.is_beside(&piece) => last.join(&piece),
                _ => memory::push(&mut joined, piece),
            }
        }
        Ok(joined)
    }

    /// The products of pairs of blocks of columns, over each `step` of some rows: all of a pair,
    /// then those of the next.
    fn steps_of(
        &self,
        pairs: &[(&Range<usize>, &Range<usize>)],
        rows: Range<usize>,
        step: usize,
        powers: &[f64],
    ) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        for (left, right) in pairs {
            let of = |rows| (rows, Piece::new((*left).clone(), (*right).clone(), self.centred));
            memory::extend(&mut pieces, steps(rows.clone(), step).map(of));
            if rows.is_empty() {
                memory::push(&mut pieces, of(rows.clone()));
            }
        }
        let tasks = pieces.iter_mut().gather();
        let source = PieceSource { view: &self.view, whole: self.whole.as_ref(), powers };
        let plan = &self.plan;
        run::each_while(plan, tasks, PanelWorkspace::default, |workspace, task, go_on| {
            let (rows, piece) = task;
            piece.feed(plan, source, rows.clone(), workspace, go_on);
        })?;
        Ok(pieces.into_iter().map(|(_, piece)| piece).gather())
    }

    /// The largest magnitude of each column, in rows without a null; not finite if one is not.
    fn extents(&self) -> Result<Vec<f64>> {
        let View { rows, width, .. } = self.view;
        let step = rows.div_ceil(PIECES).max(LEAST_ROWS);
        let mut found: Vec<(Range<usize>, Vec<f64>)> =
            steps(0..rows, step).map(|rows| Ok((rows, vec_of(0.0, width)?))).try_gather()?;
        let larger = |largest: &mut f64, x: f64| {
            // A NaN stays.
            if x.abs() > *largest || x.is_nan() {
                *largest = x.abs();
            }
        };
        let tasks = found.iter_mut().gather();
        let held = RowWorkspace::default;
        run::each(&self.plan, tasks, held, |held, (rows, extents)| {
            for rows in steps(rows.clone(), panel_rows(width)) {
                let x = held.block(&self.view, rows.clone());
                for (row, x) in rows.zip(x.chunks_exact(width)) {
                    if self.whole.as_ref().is_none_or(|whole| whole.is_valid(row)) {
                        extents.iter_mut().zip(x).for_each(|(extent, x)| larger(extent, x.widen()));
                    }
                }
            }
        })?;
        let mut extents = vec_of(0.0, width)?;
        for (_, found) in found {
            extents.iter_mut().zip(found).for_each(|(extent, found)| larger(extent, found));
        }
        Ok(extents)
    }

    /// Makes products, which were divided already, once more where they are not finite though both
    /// columns are.
    fn mend(&self, out: &mut Square, divisor: f64) -> Result<()> {
        if !self.is_double() || out.doubles().iter().all(|product| product.is_finite()) {
            return Ok(());
        }
        let (width, extents) = (self.view.width, self.extents()?);
        let is_finite = |a: usize, b: usize| extents[a].is_finite() && extents[b].is_finite();
        let is_doubtful =
            |i: usize, product: f64| !product.is_finite() && is_finite(i / width, i % width);
        let mut products = out.doubles().iter().enumerate();
        if !products.any(|(i, product)| is_doubtful(i, *product)) {
            return Ok(());
        }
        let exponents: Vec<i32> = extents.iter().map(|extent| exponent_of(*extent)).gather();
        self.products(Some(&exponents), |piece, diagonal| {
            let of_piece =
                piece.left.clone().flat_map(|a| piece.right.clone().map(move |b| (a, b)));
            let doubtful: Vec<bool> = of_piece
                .map(|(a, b)| is_doubtful(a * width + b, out.doubles()[a * width + b]))
                .gather();
            let is_wanted = |a: usize, b: usize| {
                doubtful[(a - piece.left.start) * piece.right.len() + b - piece.right.start]
            };
            out.put_some(piece, &is_wanted, |again, a, b| {
                // What cancels leaves rounding errors, which must not be blown up to infinity.
                let largest = root(diagonal.squares[a], diagonal.squares[b]);
                let noise = diagonal.count as f64 * f64::EPSILON * largest;
                let again = if again.abs() <= noise { 0.0 } else { again };
                times_power(again / divisor, exponents[a] + exponents[b])
            });
        })?;
        Ok(())
    }

    /// The columns whose correlations are in doubt, because their spread overflowed or vanished.
    fn doubt(&self, first: &Diagonal) -> Result<Option<Doubtful>> {
        let is_safe = |square: &f64| (1e-280..f64::INFINITY).contains(square);
        if !self.is_double() || first.squares.iter().all(is_safe) {
            return Ok(None);
        }
        let extents = self.extents()?;
        // Numbers that are further from zero and different differ by more than 1e-140.
        let is_spread = |extent: f64| extent == 0.0 || extent >= 1e-120;
        let is_in_doubt = |(square, extent): (&f64, &f64)| {
            let is_odd = !square.is_finite() || *square < 1e-280 && !is_spread(*extent);
            // What is not finite itself has no spread.
            is_odd && extent.is_finite()
        };
        let columns: Vec<bool> = first.squares.iter().zip(&extents).map(is_in_doubt).gather();
        if !columns.contains(&true) {
            return Ok(None);
        }
        let exponents = extents.iter().map(|extent| exponent_of(*extent)).gather();
        Ok(Some(Doubtful { columns, extents, exponents }))
    }

    /// Whether elements are float64: products of all others neither overflow nor vanish.
    fn is_double(&self) -> bool {
        *self.x.element_type() == DataType::Float64
    }
}

/// The products of each column with itself, over `count` rows.
struct Diagonal {
    count: usize,
    squares: Vec<f64>,
}

impl Diagonal {
    /// The correlation of two columns with such a product: 0 where there is none, because a column
    /// is constant.
    fn correlation(&self, product: f64, a: usize, b: usize) -> f64 {
        match (self.squares[a], self.squares[b]) {
            (0.0, _) | (_, 0.0) => 0.0,
            (own, _) if a == b && own.is_finite() => 1.0,
            // A NaN passes.
            (x, y) => (product / root(x, y)).clamp(-1.0, 1.0),
        }
    }
}

/// Columns whose correlations are made once more, of columns that were brought near 1.
struct Doubtful {
    columns: Vec<bool>,
    extents: Vec<f64>,
    exponents: Vec<i32>,
}

impl Doubtful {
    fn is_of(&self, a: usize, b: usize) -> bool {
        let are_finite = self.extents[a].is_finite() && self.extents[b].is_finite();
        are_finite && (self.columns[a] || self.columns[b])
    }
}
