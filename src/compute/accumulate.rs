//! Statistics of rows that come one batch after the other: a state that is updated, merged and
//! finished.
//!
//! Batches of any lengths give the bits of the whole, as chunks do: the state is carried over their
//! ends. Merging gives them too where the first ends at a multiple of 1024 rows; elsewhere it is within
//! the error bound of the whole (`docs/guide/state.md`).

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;

use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;

use super::reduce::{self, How, WithReducer, with_reducer};
use super::state::{Finish, Required, Running, RunningOne, Seen, State};
use super::state_array::{Description, StateReader, StateWriter};
use super::{Per, ReduceOptions, Statistic, call};
use crate::buffer::Output;
use crate::dispatch::{Level, Plan, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Partial, Reducer, Words};
use crate::matrix::{self, Matrix, Number, TileWorkspace, View, array_of, steps};
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
    /// None before the first batch, which says what elements there are.
    state: Option<Box<dyn Accumulate>>,
    rows: usize,
    /// Whether an update was interrupted.
    is_broken: bool,
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
        Ok(Self { statistic, per, options, state: None, rows: 0, is_broken: false })
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

    fn refuse_broken(&self) -> Result<()> {
        if !self.is_broken {
            return Ok(());
        }
        let (argument, expected) = ("self", "an accumulator whose updates all ended");
        let got = "one that was interrupted".to_owned();
        Err(Error::Argument { argument, expected, got })
    }

    /// Takes the next rows.
    ///
    /// # Errors
    ///
    /// [`Error::Mixed`] or [`Error::Width`] if they differ in type or width from those before.
    pub fn update(&mut self, x: &Matrix) -> Result<()> {
        run::call(self.statistic.name(), || {
            self.refuse_broken()?;
            let Self { statistic, per, options, .. } = *self;
            // A list column without a valid row has no width of its own.
            if per == Per::Column {
                x.refuse_permuted()?;
            }
            let x = &*call::seen(x, options.dtype)?;
            let x = &*match &self.state {
                Some(state) => x.fitted(state.width())?,
                None => Cow::Borrowed(x),
            };
            let state = match &mut self.state {
                Some(state) => state,
                None => {
                    let (element, width) = (x.element_type().clone(), x.width());
                    let begun = Begun { statistic, per, options, element, width };
                    let state = with_reducer(statistic, x.element_type(), &options, begun)?;
                    self.state.insert(state)
                }
            };
            check(&**state, x.element_type(), x.width())?;
            let plan = run::planned(&reduce::work(x, per, statistic))?;
            let updated = memory::caught(|| state.update(x, &plan));
            // A batch that was taken in part would be counted twice if it came again.
            self.is_broken |= updated.is_err();
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
            self.refuse_broken()?;
            right.refuse_broken()?;
            // The type that elements are seen in is that of the states.
            let plain = |options: ReduceOptions| ReduceOptions { dtype: None, ..options };
            let own = (self.statistic, self.per, plain(self.options));
            if own != (right.statistic, right.per, plain(right.options)) {
                let (argument, expected) = ("other", "an accumulator of the same statistic");
                return Err(Error::Argument { argument, expected, got: format!("{right:?}") });
            }
            let before = self.rows;
            self.rows += right.rows;
            match (&mut self.state, right.state) {
                (_, None) => Ok(()),
                (state @ None, right) => {
                    *state = right;
                    Ok(())
                }
                (Some(state), Some(right)) => {
                    let merged = memory::caught(|| state.merge(right, before as u64));
                    self.is_broken |= merged.is_err();
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
            self.refuse_broken()?;
            let Self { statistic, per, options, rows, .. } = self;
            let what = "batches";
            let state = self.state.ok_or(Error::Rows { what, expected: 1, got: 0 })?;
            let (element, width) = (state.element().clone(), state.width());
            let of = Description { statistic, per, options, element, width };
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
            let Description { statistic, per, options, element, width } = reader.of().clone();
            let begun = Begun { statistic, per, options, element: element.clone(), width };
            let mut state = with_reducer(statistic, &element, &options, begun)?;
            let mut rows = 0;
            for row in 0..states.len() {
                rows += state.read(&reader, row, rows)?;
            }
            let (state, rows) = (Some(state), rows as usize);
            Ok(Self { statistic, per, options, state, rows, is_broken: false })
        })
    }

    /// The results: one in all, or one for each column.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type, and
    /// [`Error::Overflow`] for integers whose sum does not fit 64 bits.
    pub fn finish(self) -> Result<ArrayRef> {
        run::call(self.statistic.name(), || {
            self.refuse_broken()?;
            let what = "batches";
            let state = self.state.ok_or(Error::Rows { what, expected: 1, got: 0 })?;
            state.finish(self.rows)
        })
    }
}

/// Columns of one running state: each is a task of an update.
const COLUMNS_OF_A_GROUP: usize = 256;

/// A state of some types.
trait Accumulate: Send {
    fn element(&self) -> &DataType;
    fn width(&self) -> usize;
    fn update(&mut self, x: &Matrix, plan: &Plan) -> Result<()>;
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

/// Refuses rows of another type or width.
fn check(state: &dyn Accumulate, element: &DataType, width: usize) -> Result<()> {
    let (what, expected, got) = ("a batch", state.element(), element);
    if expected != got {
        return Err(Error::Mixed { what, expected: expected.clone(), got: got.clone() });
    }
    if state.width() != width {
        return Err(Error::Width { what, expected: state.width(), got: width });
    }
    Ok(())
}

/// Makes the state of a statistic, once its types are known.
struct Begun {
    statistic: Statistic,
    per: Per,
    options: ReduceOptions,
    element: DataType,
    width: usize,
}

impl WithReducer for Begun {
    type Out = Box<dyn Accumulate>;

    fn with<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<Box<dyn Accumulate>> {
        let Self { statistic, per, options, element, width } = self;
        let is_count = statistic == Statistic::Count;
        let groups: Vec<_> = columns_of(per, width).gather();
        let sequences =
            groups.iter().map(|group| Sequences::new(how.reducer, per, group.len())).gather();
        Ok(Box::new(Totals::<T, O, R, F> {
            element,
            width,
            per,
            reducer: how.reducer,
            finish: how.finish,
            min_count: if is_count { 0 } else { how.min_count as u64 },
            skip_nulls: is_count || options.skip_nulls,
            is_count,
            to: if is_count { DataType::Int64 } else { to.clone() },
            groups,
            before: Vec::new(),
            sequences,
            made: PhantomData,
        }))
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

impl<T: Number, R: Reducer<T>> Sequences<T, R> {
    pub(super) fn new(reducer: R, per: Per, columns: usize) -> Self {
        match per {
            Per::Matrix => Self::One(RunningOne::loose(reducer)),
            Per::Column | Per::Row => Self::Columns(Running::loose(reducer, columns)),
        }
    }

    /// Takes the next rows.
    pub(super) fn update(
        &mut self,
        level: Level,
        view: &View<'_, T>,
        columns: Range<usize>,
        workspace: &mut TileWorkspace<T>,
    ) {
        let (rows, width) = (view.rows, view.width);
        match self {
            Self::One(one) => one.update(level, view, 0..rows * width, workspace),
            Self::Columns(all) => all.update(level, view, (0..rows, columns), None, workspace),
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
    element: DataType,
    width: usize,
    per: Per,
    reducer: R,
    finish: F,
    min_count: u64,
    skip_nulls: bool,
    /// Whether the counts are the results.
    is_count: bool,
    to: DataType,
    /// The columns of each of `sequences`.
    groups: Vec<Range<usize>>,
    /// The states of rows before the running ones; none before the first merge.
    before: Vec<State<R::Node>>,
    sequences: Vec<Sequences<T, R>>,
    made: PhantomData<fn() -> O>,
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
        let (reducer, per) = (self.reducer, self.per);
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

    /// Takes what was seen after so many rows.
    fn append(&mut self, right: Vec<State<R::Node>>, before: u64) {
        let reducer = self.reducer;
        let by = if self.per == Per::Matrix { before * self.width as u64 } else { before };
        let pairs = self.pause().into_iter().zip(right);
        self.before =
            pairs.map(|(left, right)| left.merge(reducer, right.moved(reducer, by))).gather();
    }
}

impl<T, O, R, F> Accumulate for Totals<T, O, R, F>
where
    T: Number,
    O: Number,
    R: Reducer<T, Node: Words>,
    F: Finish<R::Node, O>,
{
    fn element(&self) -> &DataType {
        &self.element
    }

    fn width(&self) -> usize {
        self.width
    }

    fn update(&mut self, x: &Matrix, plan: &Plan) -> Result<()> {
        let (view, level) = (x.view::<T>()?, plan.level(machine()));
        let tasks = self.groups.iter().cloned().zip(&mut self.sequences).gather();
        run::each(plan, tasks, TileWorkspace::default, |workspace, (columns, sequences)| {
            sequences.update(level, &view, columns, workspace);
        })
    }

    fn merge(&mut self, right: Box<dyn Accumulate>, before: u64) -> Result<()> {
        check(self, right.element(), right.width())?;
        let Ok(mut right) = right.into_any().downcast::<Self>() else {
            let (argument, expected) = ("other", "an accumulator of the same statistic");
            let got = "one of other types".to_owned();
            return Err(Error::Argument { argument, expected, got });
        };
        self.append(right.pause(), before);
        Ok(())
    }

    fn write(mut self: Box<Self>, rows: u64) -> Result<StateWriter> {
        let state = State::of_columns(self.pause(), &self.groups);
        let width = self.groups.last().map_or(0, |group| group.end);
        let mut writer = StateWriter::new::<R::Node>();
        writer.push(self.reducer, rows, state, width)?;
        Ok(writer)
    }

    fn read(&mut self, states: &StateReader<'_>, row: usize, before: u64) -> Result<u64> {
        let Some((rows, state)) = states.get::<R::Node>(row)? else { return Ok(0) };
        let right = self.groups.iter().map(|columns| state.columns(columns)).gather();
        self.append(right, before);
        Ok(rows)
    }

    fn finish(mut self: Box<Self>, rows: usize) -> Result<ArrayRef> {
        let elements = if self.per == Per::Matrix { rows * self.width } else { rows };
        let required =
            Required { min: self.min_count, all: (!self.skip_nulls).then_some(elements as u64) };
        let results = self.groups.last().map_or(0, |group| group.end);
        let (mut counts, mut values) = (Output::<i64>::new(results)?, Output::<O>::new(results)?);
        let mut failed = None;
        let states = self.pause();
        for (group, state) in self.groups.iter().zip(states) {
            let Seen { nodes, counts: seen } = state.nodes(self.reducer);
            for (i, column) in group.clone().enumerate() {
                let (count, Partial { node, scale }) = (seen.get(i), nodes.get(i));
                counts[column] = count as i64;
                values[column] = self.finish.one(node, count, scale.power());
                if required.is_met(count) && !self.finish.fits(&node) {
                    failed = failed.or(Some(column));
                }
            }
        }
        if self.is_count {
            return array_of(counts, None, &self.to);
        }
        if let Some(index) = failed {
            let what = if self.per == Per::Matrix { "result" } else { "column" };
            return Err(Error::Overflow { what, index, into: self.to });
        }
        let valid = matrix::from_bits(results, |i| required.is_met(counts[i] as u64))?;
        array_of(values, Some(valid).filter(|valid| valid.null_count() > 0), &self.to)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
