//! Statistics of groups of rows over batches: one running state for each group.
//!
//! ```text
//! keys of a batch      ->  the rows of each group (`keys`)
//! rows of each group   ->  its running state, as of a matrix of these rows alone
//! ```
//!
//! A group's result has the bits of the same function on the group's rows, in their order: rows are
//! gathered by index, and each group has its own state, which is carried over batches. Tasks take
//! ranges of groups, so no state is kept twice. Where all rows are at hand, `group_rows` needs no
//! states.

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;

use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;

use super::keys::Members;
use super::reduce::{self, How, WithReducer, with_reducer};
use super::state::{Finish, Required, Running, Seen, State};
use super::state_array::{Description, StateReader, StateWriter};
use super::{Per, ReduceOptions, Statistic, call};
use crate::buffer::Output;
use crate::dispatch::{Plan, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Partial, Reducer, Words};
use crate::matrix::{self, Gathered, Matrix, Number, TileWorkspace, array_of};
use crate::memory;

/// A statistic of each column of each group, over batches that come one after the other.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, Int32Array};
/// use raptors_arrow::{Matrix, compute::{GroupStatistic, Groups, ReduceOptions, Statistic}};
///
/// let keys: ArrayRef = Arc::new(Int32Array::from(vec![7, 8, 7]));
/// let mut groups = Groups::new([keys.data_type()])?;
/// let members = groups.assign(&[keys])?;
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 5.0, 6.0, 3.0, 4.0]));
/// let mut means = GroupStatistic::new(Statistic::Mean, ReduceOptions::default());
/// means.update(&Matrix::reshape(&flat, 2)?, &members)?;
/// let means = means.finish(groups.len())?;
/// assert_eq!((means.rows(), means.width()), (2, 2));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
pub struct GroupStatistic {
    statistic: Statistic,
    options: ReduceOptions,
    /// Whether what comes before the rows is not known, as they are a part of the whole.
    is_partial: bool,
    /// None before the first batch, which says what elements there are.
    state: Option<Box<dyn Grouped>>,
    is_broken: bool,
}

impl std::fmt::Debug for GroupStatistic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GroupStatistic {{ {:?} }}", self.statistic)
    }
}

impl GroupStatistic {
    /// Nothing seen yet.
    pub fn new(statistic: Statistic, options: ReduceOptions) -> Self {
        Self { statistic, options, is_partial: false, state: None, is_broken: false }
    }

    /// The same for a part of the whole, of which the [`state`](Self::state) will be asked.
    pub fn partial(statistic: Statistic, options: ReduceOptions) -> Self {
        Self { is_partial: true, ..Self::new(statistic, options) }
    }

    /// One that [merges](Self::merge) such states: nothing of them is taken yet.
    ///
    /// # Errors
    ///
    /// As [`Accumulator::from_state`](super::Accumulator::from_state).
    pub fn of_states(states: &StructArray) -> Result<Self> {
        run::call("merge_states", || {
            let reader = StateReader::new(states)?;
            let reader = reader.ok_or(Error::Rows { what: "states", expected: 1, got: 0 })?;
            let Description { statistic, options, element, width, .. } = reader.of().clone();
            let begun =
                Begun { statistic, options, element: element.clone(), width, is_partial: true };
            let state = with_reducer(statistic, &element, &options, begun)?;
            Ok(Self { state: Some(state), ..Self::partial(statistic, options) })
        })
    }

    /// What it is of.
    pub fn statistic(&self) -> Statistic {
        self.statistic
    }

    fn refuse_broken(&self) -> Result<()> {
        if !self.is_broken {
            return Ok(());
        }
        let (argument, expected) = ("self", "a statistic whose updates all ended");
        Err(Error::Argument { argument, expected, got: "one that was interrupted".to_owned() })
    }

    /// Takes the rows of a batch.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`], [`Error::Mixed`] or [`Error::Width`] if there are not as many rows as
    /// members, or they differ in type or width from those before.
    pub fn update(&mut self, x: &Matrix, members: &Members) -> Result<()> {
        run::call(self.statistic.name(), || {
            self.refuse_broken()?;
            check_rows(x, members)?;
            let Self { statistic, options, is_partial, .. } = *self;
            x.refuse_permuted()?;
            let x = &*call::seen(x, self.options.dtype)?;
            let x = &*match &self.state {
                Some(state) => x.fitted(state.width())?,
                None => Cow::Borrowed(x),
            };
            let (element, width) = (x.element_type(), x.width());
            let state = match &mut self.state {
                Some(state) => state,
                None => {
                    let element = element.clone();
                    let begun = Begun { statistic, options, element, width, is_partial };
                    self.state.insert(with_reducer(statistic, x.element_type(), &options, begun)?)
                }
            };
            let what = "a batch";
            if state.element() != element {
                let (expected, got) = (state.element().clone(), element.clone());
                return Err(Error::Mixed { what, expected, got });
            }
            if state.width() != width {
                return Err(Error::Width { what, expected: state.width(), got: width });
            }
            let plan = run::planned(&reduce::work(x, Per::Column, statistic))?;
            let updated = memory::caught(|| state.update(x, members, &plan));
            self.is_broken = updated.is_err();
            updated
        })
    }

    /// Takes what states saw, each after what came before it: row `i` of `states` is of the group
    /// that row `i` of `members` is of.
    ///
    /// # Errors
    ///
    /// As [`Accumulator::from_state`](super::Accumulator::from_state), [`Error::Width`] for states
    /// of rows of another width, and [`Error::Argument`] for those of something else.
    pub fn merge(&mut self, states: &StructArray, members: &Members) -> Result<()> {
        let merged = self.merge_here(states, members);
        match &merged {
            // As if the rows had come themselves.
            Err(error) if matches!(error.kind(), Error::Width { .. }) => {
                merged.map_err(|error| error.in_function(self.statistic.name()))
            }
            _ => merged,
        }
    }

    fn merge_here(&mut self, states: &StructArray, members: &Members) -> Result<()> {
        run::call("merge_states", || {
            self.refuse_broken()?;
            if states.len() != members.len() {
                let (expected, got) = (members.len(), states.len());
                return Err(Error::Rows { what: "states", expected, got });
            }
            let Some(reader) = StateReader::new(states)? else { return Ok(()) };
            let Self { statistic, options, .. } = *self;
            let of = reader.of().clone();
            let is_same = self.state.as_ref().is_some_and(|state| {
                state.element() == &of.element
                    && (statistic, Per::Column, ReduceOptions { dtype: None, ..options })
                        == (of.statistic, of.per, of.options)
            });
            if let Some(state) = self.state.as_ref().filter(|_| is_same)
                && state.width() != of.width
            {
                let (expected, got) = (state.width(), of.width);
                return Err(Error::Width { what: "a batch", expected, got });
            }
            let Some(state) = self.state.as_mut().filter(|_| is_same) else {
                let (argument, expected) = ("state", "states of one statistic of one column");
                return Err(Error::Argument { argument, expected, got: of.to_text() });
            };
            let merged = memory::caught(|| state.merge(&reader, members));
            self.is_broken = merged.is_err();
            merged
        })
    }

    /// Takes the first of its groups out; the others are numbered from 0 on again.
    #[must_use]
    pub fn split_first(&mut self, groups: usize) -> Self {
        let Self { statistic, options, is_partial, is_broken, .. } = *self;
        let state = self.state.as_mut().map(|state| state.split_first(groups));
        Self { statistic, options, is_partial, state, is_broken }
    }

    /// About how many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.bytes())
    }

    /// The results: a row for each of so many groups.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type, and
    /// [`Error::Overflow`] for integers whose sum does not fit 64 bits.
    pub fn finish(self, groups: usize) -> Result<Matrix> {
        run::call(self.statistic.name(), || {
            self.refuse_broken()?;
            let what = "batches";
            self.state.ok_or(Error::Rows { what, expected: 1, got: 0 })?.finish(groups)
        })
    }

    /// What was seen as an Arrow struct, a row for each of so many groups, to be
    /// [merged](Self::merge) with that of other rows.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type.
    pub fn state(self, groups: usize) -> Result<StructArray> {
        run::call(self.statistic.name(), || {
            self.refuse_broken()?;
            let Self { statistic, options, .. } = self;
            let what = "batches";
            let state = self.state.ok_or(Error::Rows { what, expected: 1, got: 0 })?;
            let (element, width) = (state.element().clone(), state.width());
            let of = Description { statistic, per: Per::Column, options, element, width };
            state.write(groups)?.finish(&of)
        })
    }
}

/// Refuses rows that are not as many as their keys.
pub(super) fn check_rows(x: &Matrix, members: &Members) -> Result<()> {
    let (expected, got) = (members.len(), x.rows());
    if expected == got { Ok(()) } else { Err(Error::Rows { what: "values", expected, got }) }
}

/// States of groups, of some types.
trait Grouped: Send + Any {
    fn element(&self) -> &DataType;
    fn width(&self) -> usize;
    fn update(&mut self, x: &Matrix, members: &Members, plan: &Plan) -> Result<()>;
    fn merge(&mut self, states: &StateReader<'_>, members: &Members) -> Result<()>;
    fn split_first(&mut self, groups: usize) -> Box<dyn Grouped>;
    fn bytes(&self) -> usize;
    fn write(self: Box<Self>, groups: usize) -> Result<StateWriter>;
    fn finish(self: Box<Self>, groups: usize) -> Result<Matrix>;
}

struct Begun {
    statistic: Statistic,
    options: ReduceOptions,
    element: DataType,
    width: usize,
    is_partial: bool,
}

impl WithReducer for Begun {
    type Out = Box<dyn Grouped>;

    fn with<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<Box<dyn Grouped>> {
        let Self { statistic, options, element, width, is_partial } = self;
        let is_count = statistic == Statistic::Count;
        Ok(Box::new(States::<T, O, R, F> {
            element,
            width,
            is_partial,
            reducer: how.reducer,
            finish: how.finish,
            min_count: if is_count { 0 } else { how.min_count as u64 },
            skip_nulls: is_count || options.skip_nulls,
            is_count,
            to: if is_count { DataType::Int64 } else { to.clone() },
            groups: Vec::new(),
            made: PhantomData,
        }))
    }
}

/// The state of one group, and how many rows it took.
struct Group<T: Number, R: Reducer<T>> {
    /// Of what was merged.
    before: Option<State<R::Node>>,
    /// Of the rows that came then.
    running: Option<Running<T, R>>,
    rows: u64,
}

impl<T: Number, R: Reducer<T>> Group<T, R> {
    /// The state of all.
    fn pause(self, reducer: R) -> Option<State<R::Node>> {
        let running = self.running.map(Running::pause);
        match (self.before, running) {
            (Some(before), Some(running)) => Some(before.merge(reducer, running)),
            (before, running) => before.or(running),
        }
    }

    /// What was seen, all of it.
    fn nodes(self, reducer: R) -> Option<Seen<R::Node>> {
        match self {
            Self { before: None, running, .. } => running.map(Running::nodes),
            all => all.pause(reducer).map(|state| state.nodes(reducer)),
        }
    }
}

struct States<T: Number, O, R: Reducer<T>, F> {
    element: DataType,
    width: usize,
    is_partial: bool,
    reducer: R,
    finish: F,
    min_count: u64,
    skip_nulls: bool,
    is_count: bool,
    to: DataType,
    /// None for a group without rows here.
    groups: Vec<Option<Box<Group<T, R>>>>,
    made: PhantomData<fn() -> O>,
}

impl<T: Number, O, R: Reducer<T>, F> States<T, O, R, F> {
    /// Reserves memory for so many groups.
    fn grow(&mut self, groups: usize) -> Result<()> {
        let missing = groups.saturating_sub(self.groups.len());
        crate::buffer::try_reserve(&mut self.groups, missing)
            .map_err(|bytes| Error::OutOfMemory { bytes })?;
        self.groups.resize_with(groups.max(self.groups.len()), || None);
        Ok(())
    }
}

/// Groups that a task takes at most, so that an interrupt does not wait.
pub(super) const GROUPS_OF_A_TASK: usize = 4096;

impl<T, O, R, F> Grouped for States<T, O, R, F>
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

    fn update(&mut self, x: &Matrix, members: &Members, plan: &Plan) -> Result<()> {
        let (reducer, width, is_partial) = (self.reducer, self.width, self.is_partial);
        self.grow(members.seen())?;
        let (view, level) = (x.view::<T>()?, plan.level(machine()));
        // Ranges of groups with about as many rows each: the states of each range are its own.
        let rows_of_a_task = members.len().div_ceil(8 * plan.threads).max(1);
        let mut tasks = Vec::new();
        let (mut rest, mut first) = (&mut self.groups[..], 0);
        let (ids, mut from) = (members.ids(), 0);
        while from < ids.len() {
            let begin = members.range(from).start;
            let within = |i: &usize| members.range(*i).end - begin <= rows_of_a_task;
            let some = (from..ids.len()).take_while(within).count();
            let to = from + some.clamp(1, GROUPS_OF_A_TASK);
            let end = ids[to - 1] as usize + 1;
            let (states, after) = std::mem::take(&mut rest).split_at_mut(end - first);
            memory::push(&mut tasks, (first, states, from..to));
            (rest, first, from) = (after, end, to);
        }
        run::each_while(plan, tasks, TileWorkspace::default, |workspace, task, go_on| {
            let (first, states, groups) = task;
            for (n, i) in groups.enumerate() {
                if n % 64 == 63 && !go_on() {
                    return;
                }
                let indices = members.rows(i);
                let state = states[ids[i] as usize - first].get_or_insert_with(|| {
                    Box::new(Group { before: None, running: None, rows: 0 })
                });
                let running = state.running.get_or_insert_with(|| match is_partial {
                    true => Running::loose(reducer, width),
                    false => Running::new(reducer, width, 0, None),
                });
                let gathered = Gathered { level, view: &view, indices };
                let all = (0..indices.len(), 0..width);
                running.update(level, &gathered, all, None, workspace);
                state.rows += indices.len() as u64;
            }
        })
    }

    fn merge(&mut self, states: &StateReader<'_>, members: &Members) -> Result<()> {
        self.grow(members.seen())?;
        let (reducer, ids) = (self.reducer, members.ids());
        run::in_steps(0..ids.len(), GROUPS_OF_A_TASK, |some| {
            for i in some {
                let group = self.groups[ids[i] as usize].take();
                let mut rows = group.as_ref().map_or(0, |group| group.rows);
                let mut before = group.and_then(|group| group.pause(reducer));
                for row in members.rows(i) {
                    let Some((more, state)) = states.get::<R::Node>(*row as usize)? else {
                        continue;
                    };
                    let state = state.moved(reducer, rows);
                    rows += more;
                    before = Some(match before {
                        Some(before) => before.merge(reducer, state),
                        None => state,
                    });
                }
                self.groups[ids[i] as usize] =
                    Some(Box::new(Group { before, running: None, rows }));
            }
            Ok(())
        })
    }

    fn split_first(&mut self, groups: usize) -> Box<dyn Grouped> {
        let rest = self.groups.split_off(groups.min(self.groups.len()));
        let groups = std::mem::replace(&mut self.groups, rest);
        let (element, to) = (self.element.clone(), self.to.clone());
        Box::new(Self { element, to, groups, ..*self })
    }

    /// Of each group a node for a column while its leaf is filled, and one or two that are whole.
    fn bytes(&self) -> usize {
        let of_a_group = size_of::<Group<T, R>>() + 3 * self.width * size_of::<R::Node>();
        self.groups.len() * of_a_group
    }

    fn write(mut self: Box<Self>, groups: usize) -> Result<StateWriter> {
        self.grow(groups)?;
        let (reducer, width) = (self.reducer, self.width);
        let mut writer = StateWriter::new::<R::Node>();
        let mut all = std::mem::take(&mut self.groups).into_iter();
        run::in_steps(0..groups, GROUPS_OF_A_TASK, |some| {
            for group in all.by_ref().take(some.len()) {
                let rows = group.as_ref().map_or(0, |group| group.rows);
                let state = group.and_then(|group| group.pause(reducer));
                let state = state.unwrap_or_else(|| State::new(width, false));
                writer.push(reducer, rows, state, width)?;
            }
            Ok(())
        })?;
        Ok(writer)
    }

    fn finish(mut self: Box<Self>, groups: usize) -> Result<Matrix> {
        let (width, finish) = (self.width, self.finish);
        let results = results_of(groups, width)?;
        let (mut counts, mut values) = (Output::<i64>::new(results)?, Output::<O>::new(results)?);
        counts.fill(0);
        values.fill(O::default());
        let mut valid = crate::buffer::vec_of(self.min_count == 0, results)?;
        let mut failed = None;
        let (reducer, mut all) = (self.reducer, std::mem::take(&mut self.groups).into_iter());
        run::in_steps(0..groups, GROUPS_OF_A_TASK, |some| {
            for (g, group) in some.clone().zip(all.by_ref().take(some.len())) {
                let Some(group) = group else { continue };
                let required =
                    Required { min: self.min_count, all: (!self.skip_nulls).then_some(group.rows) };
                let Some(Seen { nodes, counts: seen }) = group.nodes(reducer) else { continue };
                for c in 0..width {
                    let (count, Partial { node, scale }) = (seen.get(c), nodes.get(c));
                    let at = g * width + c;
                    counts[at] = count as i64;
                    valid[at] = required.is_met(count);
                    if valid[at] {
                        values[at] = finish.one(node, count, scale.power());
                        if !finish.fits(&node) {
                            failed = failed.or(Some(g));
                        }
                    }
                }
            }
            Ok(())
        })?;
        if self.is_count {
            let counts = array_of(counts, None, &self.to)?;
            return lists(&counts, groups, width);
        }
        if let Some(index) = failed {
            return Err(Error::Overflow { what: "group", index, into: self.to });
        }
        let nulls = matrix::from_bools(&valid)?;
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        lists(&array_of(values, nulls, &self.to)?, groups, width)
    }
}

/// How many results there are of so many groups.
pub(super) fn results_of(groups: usize, width: usize) -> Result<usize> {
    let limit = "the address space";
    groups.checked_mul(width).ok_or(Error::TooLarge { rows: groups, width, limit })
}

/// Numbers as fixed-size lists.
pub(super) fn lists(flat: &ArrayRef, rows: usize, width: usize) -> Result<Matrix> {
    let data = flat.to_data();
    let (values, nulls) = (data.buffers()[0].clone(), flat.nulls().cloned());
    Matrix::of_lists(flat.data_type().clone(), rows, width, values, nulls, None)
}
