//! Statistics of rows that come one batch after the other: a state that is updated, merged and
//! finished.
//!
//! Batches of any lengths give the bits of the whole, as chunks do: the state is carried over their
//! ends. Merging gives them too where the first ends at a multiple of 1024 rows; elsewhere it is within
//! the error bound of the whole (`docs/guide/state.md`).

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;

use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;

use super::measured::{self, Batches, Described, Measured};
use super::reduce::{self, How, WithReducer, with_reducer};
use super::state::{Finish, Running, RunningOne, State};
use super::state_array::{Description, StateReader, StateWriter};
use super::weights::{Aligned, weighted};
use super::{Per, ReduceOptions, Statistic, call};
use crate::dispatch::{Level, Plan, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Reducer, Words};
use crate::matrix::{Matrix, Number, Source, TileWorkspace, steps};
use crate::memory::{self, Gather as _};

/// A statistic of all rows, or of each column, of batches that come one after the other.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Accumulator, Per, ReduceOptions, Statistic}};
///
/// let mut mean = Accumulator::new(Statistic::Mean, Per::Column, ReduceOptions::default())?;
/// for batch in [vec![1.0, 2.0], vec![3.0, 4.0, 5.0, 9.0]] {
///     let flat: ArrayRef = Arc::new(Float64Array::from(batch));
///     mean.update(&Matrix::reshape(&flat, 2)?)?;
/// }
/// assert_eq!(mean.finish()?.as_primitive::<Float64Type>().values(), &[3.0, 5.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
pub struct Accumulator {
    statistic: Statistic,
    per: Per,
    options: ReduceOptions,
    batches: Batches<dyn Accumulate>,
    rows: usize,
}

impl std::fmt::Debug for Accumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { statistic, per, rows, .. } = self;
        write!(f, "Accumulator {{ {statistic:?} per {per}, {rows} rows }}")
    }
}

impl Accumulator {
    /// Nothing seen yet.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for [`Per::Row`]: rows need no state.
    pub fn new(statistic: Statistic, per: Per, options: ReduceOptions) -> Result<Self> {
        if per == Per::Row {
            let (argument, expected) = ("axis", "None or 0, as a row is whole in its batch");
            let error = Error::Argument { argument, expected, got: "1".to_owned() };
            return Err(error.in_function(statistic.name()));
        }
        Ok(Self { statistic, per, options, batches: Batches::new(None), rows: 0 })
    }

    /// What is computed.
    pub fn statistic(&self) -> Statistic {
        self.statistic
    }

    /// What one result is made from.
    pub fn per(&self) -> Per {
        self.per
    }

    /// Rows that were seen.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the next rows.
    ///
    /// # Errors
    ///
    /// [`Error::Mixed`] or [`Error::Width`] if they differ in type or width from those before, and
    /// [`Error::Argument`] if those had weights.
    pub fn update(&mut self, x: &Matrix) -> Result<()> {
        self.take(x, None)
    }

    /// The same of elements that have weights, see [`reduce_weighted`](super::reduce_weighted): all
    /// batches have some, or none.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update), and for weights as
    /// [`reduce_weighted`](super::reduce_weighted).
    pub fn update_weighted(&mut self, x: &Matrix, weights: &Matrix) -> Result<()> {
        self.take(x, Some(weights))
    }

    fn take(&mut self, x: &Matrix, weights: Option<&Matrix>) -> Result<()> {
        run::call(self.statistic.name(), || {
            let Self { statistic, per, options, .. } = *self;
            if per == Per::Column {
                x.refuse_permuted()?;
            }
            let x = &*call::seen(x, options.dtype)?;
            let x = &*self.batches.fitted(x)?;
            let aligned = |weights| Aligned::new(x, per, Cow::Borrowed(weights));
            let weights = weights.map(aligned).transpose()?;
            weights.as_ref().map_or(Ok(()), |weights| weights.check(statistic))?;
            let is_weighted = weights.is_some();
            let options = ReduceOptions { dtype: None, ..options };
            let state = self.batches.state_of(x, is_weighted, |element, width| {
                begun(Description { statistic, is_weighted, per, options, element, width })
            })?;
            let plan = run::planned(&reduce::work(x, per, statistic))?;
            let updated = memory::caught(|| state.update(x, weights.as_ref(), &plan));
            self.batches.is_broken |= updated.is_err();
            self.rows += x.rows();
            updated
        })
    }

    /// Takes the rows that another one saw, after its own.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if it is one of another statistic, axis or options, and as
    /// [`update`](Self::update).
    pub fn merge(&mut self, right: Self) -> Result<()> {
        run::call(self.statistic.name(), || {
            self.batches.refuse_broken()?;
            right.batches.refuse_broken()?;
            // The type that elements are seen in is that of the states.
            let plain = |options: ReduceOptions| ReduceOptions { dtype: None, ..options };
            let own = (self.statistic, self.per, plain(self.options));
            if own != (right.statistic, right.per, plain(right.options)) {
                let (argument, expected) = ("other", "an accumulator of the same statistic");
                return Err(Error::Argument { argument, expected, got: format!("{right:?}") });
            }
            let before = self.rows;
            self.rows += right.rows;
            match (&mut self.batches.state, right.batches.state) {
                (_, None) => Ok(()),
                (state @ None, right) => {
                    *state = right;
                    Ok(())
                }
                (Some(state), Some(right)) => {
                    let merged = memory::caught(|| state.merge(right, before as u64));
                    self.batches.is_broken |= merged.is_err();
                    merged
                }
            }
        })
    }

    /// What was seen as an Arrow struct of one row, to be kept or sent:
    /// [`from_state`](Self::from_state) makes an accumulator of it again.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
    /// use raptors_arrow::{Matrix, compute::{Accumulator, Per, ReduceOptions, Statistic}};
    ///
    /// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 5.0, 6.0]));
    /// let mut mean = Accumulator::new(Statistic::Mean, Per::Column, ReduceOptions::default())?;
    /// mean.update(&Matrix::reshape(&flat, 2)?)?;
    /// let sent = mean.state()?;
    /// let mean = Accumulator::from_state(&sent)?.finish()?;
    /// assert_eq!(mean.as_primitive::<Float64Type>().values(), &[3.0, 4.0]);
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type.
    pub fn state(self) -> Result<StructArray> {
        run::call(self.statistic.name(), || {
            let Self { batches, rows, .. } = self;
            let state = batches.ended()?;
            let of = state.of().clone();
            state.write(rows as u64)?.finish(&of)
        })
    }

    /// An accumulator that saw what those of some states did, one after the other.
    ///
    /// # Errors
    ///
    /// [`Error::StateVersion`] for states of a newer version, and [`Error::Argument`] for what is no
    /// state, or states of different statistics.
    pub fn from_state(states: &StructArray) -> Result<Self> {
        run::call("from_state", || {
            let reader = StateReader::new(states)?;
            let reader = reader.ok_or(Error::Rows { what: "states", expected: 1, got: 0 })?;
            let Description { statistic, per, options, .. } = *reader.of();
            let mut state = begun(reader.of().clone())?;
            let mut rows = 0;
            for row in 0..states.len() {
                rows += state.read(&reader, row, rows)?;
            }
            let (batches, rows) = (Batches::new(Some(state)), rows as usize);
            Ok(Self { statistic, per, options, batches, rows })
        })
    }

    /// The results: one in all, or one for each column.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type, and
    /// [`Error::Overflow`] for integers whose sum does not fit 64 bits.
    pub fn finish(self) -> Result<ArrayRef> {
        run::call(self.statistic.name(), || self.batches.ended()?.finish(self.rows))
    }
}

/// Columns of one running state: each is a task of an update.
const COLUMNS_OF_A_GROUP: usize = 256;

/// A state of some types.
trait Accumulate: Described + Send {
    fn update(&mut self, x: &Matrix, weights: Option<&Aligned<'_>>, plan: &Plan) -> Result<()>;
    /// Takes what another one saw after so many rows.
    fn merge(&mut self, right: Box<dyn Accumulate>, before: u64) -> Result<()>;
    /// What so many rows left, all columns as one state.
    fn write(self: Box<Self>, rows: u64) -> Result<StateWriter>;
    /// Takes what a state saw after so many rows, and says how many those are.
    fn read(&mut self, states: &StateReader<'_>, row: usize, before: u64) -> Result<u64>;
    /// The results of so many rows.
    fn finish(self: Box<Self>, rows: usize) -> Result<ArrayRef>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Nothing seen of such a statistic.
fn begun(of: Description) -> Result<Box<dyn Accumulate>> {
    let (statistic, is_weighted, options) = (of.statistic, of.is_weighted, of.options);
    let element = of.element.clone();
    with_reducer((statistic, is_weighted), &element, &options, Begun(of))
}

/// Makes the state of a statistic, once its types are known.
struct Begun(Description);

impl WithReducer for Begun {
    type Out = Box<dyn Accumulate>;

    fn with<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<Box<dyn Accumulate>> {
        let (reducer, per) = (how.reducer, self.0.per);
        if per == Per::Column {
            // The states of many columns are many small vectors.
            memory::headroom(self.0.width.saturating_mul(4 * size_of::<R::Node>() + 128));
        }
        let groups: Vec<_> = columns_of(per, self.0.width).gather();
        let sequences =
            groups.iter().map(|group| Sequences::new(reducer, per, group.len())).gather();
        let measured = Measured::new(self.0, how, to);
        Ok(Box::new(Totals::<T, O, R, F> { measured, groups, before: Vec::new(), sequences }))
    }
}

/// The columns of each running state: all of them as one sequence, or groups of them.
pub(super) fn columns_of(per: Per, width: usize) -> impl Iterator<Item = Range<usize>> {
    steps(0..if per == Per::Matrix { 1 } else { width }, COLUMNS_OF_A_GROUP)
}

/// The running state of a group of columns, or of everything as one sequence.
pub(super) enum Sequences<T: Number, R: Reducer<T>> {
    One(RunningOne<T, R>),
    Columns(Running<T, R>),
}

/// Elements between two questions whether to go on, about: a millisecond.
const ELEMENTS_OF_A_STEP: usize = 1 << 18;

impl<T: Number, R: Reducer<T>> Sequences<T, R> {
    pub(super) fn new(reducer: R, per: Per, columns: usize) -> Self {
        match per {
            Per::Matrix => Self::One(RunningOne::loose(reducer)),
            Per::Column | Per::Row => Self::Columns(Running::loose(reducer, columns)),
        }
    }

    /// Takes the next rows, while it is to go on.
    pub(super) fn update<S: Source<T>>(
        &mut self,
        level: Level,
        source: &S,
        columns: Range<usize>,
        workspace: &mut TileWorkspace<T>,
        go_on: &dyn Fn() -> bool,
    ) {
        let (rows, width) = (source.rows(), source.width());
        let step = ELEMENTS_OF_A_STEP.div_ceil(columns.len().max(1));
        for rows in steps(0..rows, step) {
            match self {
                Self::One(one) => {
                    one.update(level, source, rows.start * width..rows.end * width, workspace);
                }
                Self::Columns(all) => {
                    all.update(level, source, (rows, columns.clone()), None, workspace);
                }
            }
            if !go_on() {
                return;
            }
        }
    }

    pub(super) fn pause(self) -> State<R::Node> {
        match self {
            Self::One(one) => one.pause(),
            Self::Columns(columns) => columns.pause(),
        }
    }
}

/// States of all columns, and what becomes of them.
struct Totals<T: Number, O, R: Reducer<T>, F> {
    measured: Measured<O, R, F>,
    /// The columns of each of `sequences`.
    groups: Vec<Range<usize>>,
    /// The states of rows before the running ones; none before the first merge.
    before: Vec<State<R::Node>>,
    sequences: Vec<Sequences<T, R>>,
}

impl<T, O, R, F> Totals<T, O, R, F>
where
    T: Number,
    O: Number,
    R: Reducer<T, Node: Words>,
    F: Finish<R::Node, O>,
{
    /// The states of all rows; those that come are new ones.
    fn pause(&mut self) -> Vec<State<R::Node>> {
        let (reducer, per) = (self.measured.reducer, self.measured.of.per);
        let fresh = self.groups.iter().map(|group| Sequences::new(reducer, per, group.len()));
        let running = std::mem::replace(&mut self.sequences, fresh.gather());
        let running = running.into_iter().map(Sequences::pause);
        let before = std::mem::take(&mut self.before);
        if before.is_empty() {
            return running.gather();
        }
        let merged = before.into_iter().zip(running);
        merged.map(|(before, running)| before.merge(reducer, running)).gather()
    }

    /// How far a row takes each sequence.
    fn elements_of_a_row(&self) -> u64 {
        let of = &self.measured.of;
        if of.per == Per::Matrix { of.width as u64 } else { 1 }
    }

    /// Takes what was seen after so many rows.
    fn append(&mut self, right: Vec<State<R::Node>>, before: u64) {
        let reducer = self.measured.reducer;
        let by = before * self.elements_of_a_row();
        let pairs = self.pause().into_iter().zip(right);
        self.before =
            pairs.map(|(left, right)| left.merge(reducer, right.moved(reducer, by))).gather();
    }
}

impl<T: Number, O, R: Reducer<T>, F> Described for Totals<T, O, R, F> {
    fn of(&self) -> &Description {
        &self.measured.of
    }
}

impl<T, O, R, F> Accumulate for Totals<T, O, R, F>
where
    T: Number,
    O: Number,
    R: Reducer<T, Node: Words>,
    F: Finish<R::Node, O>,
{
    fn update(&mut self, x: &Matrix, weights: Option<&Aligned<'_>>, plan: &Plan) -> Result<()> {
        let (source, level) = (weighted::<T>(x, weights)?, plan.level(machine()));
        let tasks = self.groups.iter().cloned().zip(&mut self.sequences).gather();
        run::each_while(plan, tasks, TileWorkspace::default, |workspace, task, go_on| {
            let (columns, sequences) = task;
            sequences.update(level, &source, columns, workspace, go_on);
        })
    }

    fn merge(&mut self, right: Box<dyn Accumulate>, before: u64) -> Result<()> {
        measured::check(self.of(), &right.of().element, right.of().width)?;
        let is_same = right.of().is_weighted == self.of().is_weighted;
        let Some(mut right) = right.into_any().downcast::<Self>().ok().filter(|_| is_same) else {
            let (argument, expected) = ("other", "an accumulator of the same statistic");
            let got = "one of other types, or of weights".to_owned();
            return Err(Error::Argument { argument, expected, got });
        };
        self.append(right.pause(), before);
        Ok(())
    }

    fn write(mut self: Box<Self>, rows: u64) -> Result<StateWriter> {
        let state = State::of_columns(self.pause(), &self.groups);
        let width = self.groups.last().map_or(0, |group| group.end);
        let mut writer = StateWriter::new::<R::Node>();
        writer.push(self.measured.reducer, rows, state, width)?;
        Ok(writer)
    }

    fn read(&mut self, states: &StateReader<'_>, row: usize, before: u64) -> Result<u64> {
        let Some((rows, state)) = states.get::<R::Node>(row)? else { return Ok(0) };
        let right = self.groups.iter().map(|columns| state.columns(columns)).gather();
        self.append(right, before);
        Ok(rows)
    }

    fn finish(mut self: Box<Self>, rows: usize) -> Result<ArrayRef> {
        let elements = rows as u64 * self.elements_of_a_row();
        let mut made = self.measured.results(self.groups.last().map_or(0, |group| group.end))?;
        let states = self.pause();
        for (group, state) in self.groups.iter().zip(states) {
            let seen = state.nodes(self.measured.reducer);
            self.measured.put(&mut made, group.start, (&seen, 0..group.len()), elements, None);
        }
        let what = if self.measured.of.per == Per::Matrix { "result" } else { "column" };
        self.measured.array(made, what)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
