//! Quantiles and the median: an element by its index in sorted order, found by selection.
//!
//! Elements become their ranks, integers of the same order (−0 before +0), one sequence at a time: a
//! row, a block of columns, or all. A NaN makes its result NaN.

use std::ops::Range;

use arrow_array::ArrayRef;

use super::call::{self, Call, Driven, Held, Pass};
use super::{Per, ReduceOptions, Value, real_type, with_wide};
use crate::buffer::{Output, vec_of};
use crate::dispatch::{Family, Plan, Work, run};
use crate::error::Result;
use crate::kernel::{Element, select};
use crate::matrix::{self, Matrix, Number, Part, Scratch, TILE, View, array_of, steps};
use crate::memory::{self, Gather as _};

/// What is made of the two elements that a quantile lies between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The number between them that divides their distance as the quantile does.
    Linear,
    /// The smaller.
    Lower,
    /// The larger.
    Higher,
    /// Their mean.
    Midpoint,
    /// The nearer; of two the one at an even index.
    Nearest,
}

impl Interpolation {
    pub(super) const NAMES: &'static [&'static str] =
        &["linear", "lower", "higher", "midpoint", "nearest"];

    pub(super) fn named(name: &str) -> Option<Self> {
        let all = [Self::Linear, Self::Lower, Self::Higher, Self::Midpoint, Self::Nearest];
        Self::NAMES.iter().position(|known| *known == name).map(|i| all[i])
    }

    /// What lies at `fraction` of the way from the element at an even or odd index to the next.
    fn between(self, a: f64, b: f64, fraction: f64, is_even: bool) -> f64 {
        if fraction == 0.0 || a == b {
            return a;
        }
        match self {
            Self::Linear => linear(a, b, fraction),
            Self::Lower => a,
            Self::Higher => b,
            Self::Midpoint => mean(a, b),
            Self::Nearest if fraction == 0.5 && is_even => a,
            Self::Nearest if fraction < 0.5 => a,
            Self::Nearest => b,
        }
    }
}

/// As NumPy has it; a distance past float64 does not disturb it.
fn linear(a: f64, b: f64, fraction: f64) -> f64 {
    let distance = b - a;
    if !distance.is_finite() {
        a * (1.0 - fraction) + b * fraction
    } else if fraction < 0.5 {
        a + distance * fraction
    } else {
        b - distance * (1.0 - fraction)
    }
}

fn mean(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if sum.is_finite() { sum / 2.0 } else { a / 2.0 + b / 2.0 }
}

/// The quantile `q`, from 0 to 1, of all elements, of each column or of each row. Of integers in
/// float64.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Interpolation, Per, ReduceOptions, quantile}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 20.0, 3.0, 40.0, 2.0, 30.0]));
/// let x = Matrix::reshape(&flat, 2)?;
/// let options = ReduceOptions::default();
/// let quarter = quantile(&x, 0.25, Interpolation::Linear, Per::Column, &options)?;
/// assert_eq!(quarter.as_primitive::<Float64Type>().values(), &[1.5, 25.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::OptionValue`](crate::Error::OptionValue) unless `q` is from 0 to 1, and
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory): the elements of a result are copied.
pub fn quantile(
    x: &Matrix,
    q: f64,
    interpolation: Interpolation,
    per: Per,
    options: &ReduceOptions,
) -> Result<ArrayRef> {
    let function = "quantile";
    if !(0.0..=1.0).contains(&q) {
        let (expected, got) = ("a number from 0 to 1".to_owned(), q.to_string());
        let error = crate::Error::OptionValue { option: "q", expected, got };
        return Err(error.in_function(function));
    }
    let x = Held::Borrowed(x);
    let call = Quantile { x, q, interpolation, per, options: *options };
    call::execute(function, &call)?.into_array()
}

/// The middle element in the order of all, of each column or of each row, or the mean of the two
/// middle ones, with the default options. Of integers in float64.
///
/// # Errors
///
/// As [`quantile`].
pub fn median(x: &Matrix, per: Per) -> Result<ArrayRef> {
    let (x, options) = (Held::Borrowed(x), ReduceOptions::default());
    let call = Quantile { x, q: 0.5, interpolation: Interpolation::Midpoint, per, options };
    call::execute("median", &call)?.into_array()
}

/// The call of a function of the table; the median has no options `q` and `interpolation`.
pub(super) fn bind<'a>(call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let (x, per, options) = (call.matrix(0)?, call.per(), call.options.reduce());
    let q = call.options.number("q").unwrap_or(0.5);
    let interpolation = call.options.interpolation().unwrap_or(Interpolation::Midpoint);
    Ok(Box::new(Quantile { x, q, interpolation, per, options }))
}

struct Quantile<'a> {
    x: Held<'a>,
    q: f64,
    interpolation: Interpolation,
    per: Per,
    options: ReduceOptions,
}

impl Driven for Quantile<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let size = real_type(self.x.element_type()).primitive_width().unwrap_or(8);
        let work = Work {
            family: Family::Reduction,
            bytes_read: self.x.bytes(),
            bytes_written: self.results().saturating_mul(size),
            has_vdsp: false,
        };
        vec![("select", work)]
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        let plan = passes[0].plan;
        let array = with_wide!(self.x.element_type(), T => self.typed::<T>(plan))?;
        Ok(match self.per {
            Per::Matrix => Value::Scalar(array),
            Per::Column | Per::Row => Value::Vector(array),
        })
    }
}

/// Columns that are gathered at once: what is read of a row is a cache line.
const COLUMNS: usize = 16;

/// Rows of a task: enough that taking it costs nothing.
const ELEMENTS: usize = 1 << 14;

/// One result of a task, and whether it is none.
type Results<'t> = (&'t mut [f64], &'t mut [bool]);

impl Quantile<'_> {
    fn results(&self) -> usize {
        match self.per {
            Per::Matrix => 1,
            Per::Column => self.x.width(),
            Per::Row => self.x.rows(),
        }
    }

    fn typed<T: Number>(&self, plan: Plan) -> Result<ArrayRef> {
        let (x, view) = (&*self.x, self.x.view::<T>()?);
        let mut values = Output::<f64>::new(self.results())?;
        values.fill(0.0);
        let mut valid = vec_of(false, values.len())?;
        let at_once = match self.per {
            Per::Matrix => 1,
            Per::Column => COLUMNS,
            Per::Row => (ELEMENTS / x.width().max(1)).max(1),
        };
        let results = values.chunks_mut(at_once).zip(valid.chunks_mut(at_once));
        let tasks: Vec<(usize, Results<'_>)> =
            results.enumerate().map(|(i, found)| (i * at_once, found)).gather();
        run::each_while(&plan, tasks, Workspace::<T>::default, |workspace, task, go_on| {
            let (first, (values, valid)) = task;
            let wanted = first..first + values.len();
            let done = match self.per {
                Per::Matrix => self.all(&view, workspace, (values, valid), go_on),
                Per::Column => self.columns(&view, wanted, workspace, (values, valid), go_on),
                Per::Row => self.rows(&view, wanted, workspace, (values, valid), go_on),
            };
            // Nothing was found because the call ends.
            debug_assert!(done.is_some() || !go_on());
        })?;
        let to = real_type(x.element_type());
        let nulls = if valid.contains(&false) {
            Some(matrix::from_bits(valid.len(), |i| valid[i])?)
        } else {
            None
        };
        array_of(values, nulls, to)
    }

    /// All elements as one sequence.
    fn all<T: Number>(
        &self,
        view: &View<'_, T>,
        workspace: &mut Workspace<T>,
        (values, valid): Results<'_>,
        go_on: &dyn Fn() -> bool,
    ) -> Option<()> {
        let Workspace { scratch, flags, sequences } = workspace;
        memory::resize(sequences, 1, Ranks::default());
        let sequence = &mut sequences[0];
        sequence.clear();
        let step = (ELEMENTS / view.width.max(1)).max(1);
        for (part, rows) in view.rows(0..view.rows) {
            for rows in steps(rows, step) {
                if !go_on() {
                    return None;
                }
                add_rows(part, rows, (&mut *scratch, &mut *flags), sequence);
            }
        }
        let full = view.rows * view.width;
        self.found(sequence, full, (&mut values[0], &mut valid[0]), go_on)
    }

    /// Some columns, each a sequence.
    fn columns<T: Number>(
        &self,
        view: &View<'_, T>,
        columns: Range<usize>,
        workspace: &mut Workspace<T>,
        (values, valid): Results<'_>,
        go_on: &dyn Fn() -> bool,
    ) -> Option<()> {
        let Workspace { scratch, flags, sequences } = workspace;
        memory::resize(sequences, columns.len(), Ranks::default());
        sequences.iter_mut().for_each(Ranks::clear);
        for (part, rows) in view.rows(0..view.rows) {
            for rows in steps(rows, TILE / COLUMNS) {
                if !go_on() {
                    return None;
                }
                let fill = T::default();
                if part.is_by_columns() {
                    for (c, sequence) in columns.clone().zip(&mut *sequences) {
                        let workspace = (&mut *scratch, &mut *flags);
                        let tile = part.column_tile(c, rows.clone(), fill, true, workspace);
                        sequence.add(tile.x, tile.valid);
                    }
                    continue;
                }
                let workspace = (&mut *scratch, &mut *flags);
                let (tile, stride) =
                    part.block_tile(rows.clone(), columns.clone(), fill, true, workspace);
                for (c, sequence) in sequences.iter_mut().enumerate().take(columns.len()) {
                    sequence.add_strided(tile.x, tile.valid, c, stride, rows.len());
                }
            }
        }
        for (c, sequence) in sequences.iter_mut().enumerate().take(columns.len()) {
            self.found(sequence, view.rows, (&mut values[c], &mut valid[c]), go_on)?;
        }
        Some(())
    }

    /// Some rows, each a sequence.
    fn rows<T: Number>(
        &self,
        view: &View<'_, T>,
        rows: Range<usize>,
        workspace: &mut Workspace<T>,
        (values, valid): Results<'_>,
        go_on: &dyn Fn() -> bool,
    ) -> Option<()> {
        let Workspace { scratch, flags, sequences } = workspace;
        memory::resize(sequences, 1, Ranks::default());
        let sequence = &mut sequences[0];
        for (part, own) in view.rows(rows.clone()) {
            for row in own {
                let i = part.first + row - rows.start;
                if !part.row_is_valid(row) {
                    continue;
                }
                sequence.clear();
                add_rows(part, row..row + 1, (&mut *scratch, &mut *flags), sequence);
                self.found(sequence, view.width, (&mut values[i], &mut valid[i]), go_on)?;
            }
        }
        Some(())
    }

    /// The quantile of a sequence, of `full` elements with its nulls; nothing if too few are valid.
    fn found<T: Element>(
        &self,
        sequence: &mut Ranks<T>,
        full: usize,
        (value, valid): (&mut f64, &mut bool),
        go_on: &dyn Fn() -> bool,
    ) -> Option<()> {
        let count = sequence.ranks.len();
        let has_nulls = count < full && !self.options.skip_nulls;
        if count == 0 || count < self.options.min_count || has_nulls {
            return Some(());
        }
        *valid = true;
        if sequence.has_nan {
            *value = f64::NAN;
            return Some(());
        }
        let position = self.q * (count - 1) as f64;
        let index = position as usize;
        let (rank, next) = select(&mut sequence.ranks, index, go_on)?;
        let a = T::of_rank(rank, false).widen();
        let b = next.map_or(a, |next| T::of_rank(next, false).widen());
        let fraction = position - index as f64;
        *value = self.interpolation.between(a, b, fraction, index.is_multiple_of(2));
        Some(())
    }
}

/// Adds the elements of whole rows to a sequence.
fn add_rows<T: Number>(
    part: &Part<'_, T>,
    rows: Range<usize>,
    workspace: (&mut Scratch<T>, &mut Vec<bool>),
    sequence: &mut Ranks<T>,
) {
    let width = part.width;
    if width > 0 {
        let elements = rows.start * width..rows.end * width;
        let tile = part.flat_tile(elements, T::default(), true, workspace);
        sequence.add(tile.x, tile.valid);
    }
}

struct Workspace<T: Element> {
    scratch: Scratch<T>,
    flags: Vec<bool>,
    sequences: Vec<Ranks<T>>,
}

impl<T: Element> Default for Workspace<T> {
    fn default() -> Self {
        Self { scratch: Scratch::new(), flags: Vec::new(), sequences: Vec::new() }
    }
}

/// The ranks of valid elements.
#[derive(Clone)]
struct Ranks<T: Element> {
    ranks: Vec<T::Rank>,
    has_nan: bool,
}

impl<T: Element> Default for Ranks<T> {
    fn default() -> Self {
        Self { ranks: Vec::new(), has_nan: false }
    }
}

impl<T: Element> Ranks<T> {
    fn clear(&mut self) {
        self.ranks.clear();
        self.has_nan = false;
    }

    fn add(&mut self, x: &[T], valid: Option<&[bool]>) {
        self.add_strided(x, valid, 0, 1, x.len());
    }

    /// Adds `len` elements from `first` on, `stride` apart.
    fn add_strided(
        &mut self,
        x: &[T],
        valid: Option<&[bool]>,
        first: usize,
        stride: usize,
        len: usize,
    ) {
        memory::reserve(&mut self.ranks, len);
        let elements = x.get(first..).unwrap_or(&[]).iter().step_by(stride).take(len);
        match valid {
            None => {
                let mut has_nan = false;
                self.ranks.extend(elements.map(|x| {
                    has_nan |= x.is_nan();
                    x.rank(false)
                }));
                self.has_nan |= has_nan;
            }
            Some(valid) => {
                let valid = valid[first..].iter().step_by(stride);
                for (x, _) in elements.zip(valid).filter(|(_, valid)| **valid) {
                    self.has_nan |= x.is_nan();
                    memory::push(&mut self.ranks, x.rank(false));
                }
            }
        }
    }
}
