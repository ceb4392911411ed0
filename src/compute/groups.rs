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

use std::borrow::Cow;

use arrow_array::{Array, ArrayRef, StructArray};

use super::group_states::begun;
use super::keys::Members;
use super::measured::{Batches, Described};
use super::reduce;
use super::state_array::{Description, StateReader, StateWriter};
use super::weights::Aligned;
use super::{Per, ReduceOptions, Statistic, call};
use crate::dispatch::{Plan, run};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
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
    batches: Batches<dyn Grouped>,
}

impl std::fmt::Debug for GroupStatistic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GroupStatistic {{ {:?} }}", self.statistic)
    }
}

impl GroupStatistic {
    /// Nothing seen yet.
    pub fn new(statistic: Statistic, options: ReduceOptions) -> Self {
        Self { statistic, options, is_partial: false, batches: Batches::new(None) }
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
            let Description { statistic, options, .. } = *reader.of();
            let batches = Batches::new(Some(begun(reader.of().clone(), true)?));
            Ok(Self { batches, ..Self::partial(statistic, options) })
        })
    }

    /// What it is of.
    pub fn statistic(&self) -> Statistic {
        self.statistic
    }

    /// Takes the rows of a batch.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`], [`Error::Mixed`] or [`Error::Width`] if there are not as many rows as
    /// members, or they differ in type or width from those before.
    pub fn update(&mut self, x: &Matrix, members: &Members) -> Result<()> {
        self.take(x, None, members)
    }

    /// The same of rows that have weights, or elements: all batches have some, or none.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update), and for weights as
    /// [`reduce_weighted`](super::reduce_weighted).
    pub fn update_weighted(
        &mut self,
        x: &Matrix,
        weights: &Matrix,
        members: &Members,
    ) -> Result<()> {
        self.take(x, Some(weights), members)
    }

    fn take(&mut self, x: &Matrix, weights: Option<&Matrix>, members: &Members) -> Result<()> {
        run::call(self.statistic.name(), || {
            check_rows(x, members)?;
            let Self { statistic, options, is_partial, .. } = *self;
            x.refuse_permuted()?;
            let x = &*call::seen(x, options.dtype)?;
            let x = &*self.batches.fitted(x)?;
            let weights = of_rows(statistic, x, weights)?;
            let is_weighted = weights.is_some();
            let options = ReduceOptions { dtype: None, ..options };
            let state = self.batches.state_of(x, is_weighted, |element, width| {
                let per = Per::Column;
                let of = Description { statistic, is_weighted, per, options, element, width };
                begun(of, is_partial)
            })?;
            let plan = run::planned(&reduce::work(x, Per::Column, statistic))?;
            let updated = memory::caught(|| state.update(x, weights.as_ref(), members, &plan));
            self.batches.is_broken = updated.is_err();
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
            self.batches.refuse_broken()?;
            if states.len() != members.len() {
                let (expected, got) = (members.len(), states.len());
                return Err(Error::Rows { what: "states", expected, got });
            }
            let Some(reader) = StateReader::new(states)? else { return Ok(()) };
            let of = reader.of();
            let is_same = |own: &Description| Description { width: of.width, ..own.clone() } == *of;
            let state = self.batches.state.as_mut().filter(|state| is_same(state.of()));
            if let Some(state) = &state
                && state.of().width != of.width
            {
                let (expected, got) = (state.of().width, of.width);
                return Err(Error::Width { what: "a batch", expected, got });
            }
            let Some(state) = state else {
                let (argument, expected) = ("state", "states of one statistic of one column");
                return Err(Error::Argument { argument, expected, got: reader.of().to_text() });
            };
            let merged = memory::caught(|| state.merge(&reader, members));
            self.batches.is_broken = merged.is_err();
            merged
        })
    }

    /// Takes the first of its groups out; the others are numbered from 0 on again.
    #[must_use]
    pub fn split_first(&mut self, groups: usize) -> Self {
        let Self { statistic, options, is_partial, .. } = *self;
        let state = self.batches.state.as_mut().map(|state| state.split_first(groups));
        let batches = Batches { state, is_broken: self.batches.is_broken };
        Self { statistic, options, is_partial, batches }
    }

    /// About how many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.batches.state.as_ref().map_or(0, |state| state.bytes())
    }

    /// The results: a row for each of so many groups.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type, and
    /// [`Error::Overflow`] for integers whose sum does not fit 64 bits.
    pub fn finish(self, groups: usize) -> Result<Matrix> {
        run::call(self.statistic.name(), || self.batches.ended()?.finish(groups))
    }

    /// What was seen as an Arrow struct, a row for each of so many groups, to be
    /// [merged](Self::merge) with that of other rows.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type.
    pub fn state(self, groups: usize) -> Result<StructArray> {
        run::call(self.statistic.name(), || {
            let state = self.batches.ended()?;
            let of = state.of().clone();
            state.write(groups)?.finish(&of)
        })
    }
}

/// Refuses rows that are not as many as their keys.
pub(super) fn check_rows(x: &Matrix, members: &Members) -> Result<()> {
    let (expected, got) = (members.len(), x.rows());
    if expected == got { Ok(()) } else { Err(Error::Rows { what: "values", expected, got }) }
}

/// Weights of the rows of groups.
pub(super) fn of_rows<'a>(
    statistic: Statistic,
    x: &Matrix,
    weights: Option<&'a Matrix>,
) -> Result<Option<Aligned<'a>>> {
    let Some(weights) = weights else { return Ok(None) };
    let weights = Aligned::new(x, Per::Column, Cow::Borrowed(weights))?;
    weights.check(statistic)?;
    Ok(Some(weights))
}

/// States of groups, of some types.
pub(super) trait Grouped: Described + Send {
    fn update(
        &mut self,
        x: &Matrix,
        weights: Option<&Aligned<'_>>,
        members: &Members,
        plan: &Plan,
    ) -> Result<()>;
    fn merge(&mut self, states: &StateReader<'_>, members: &Members) -> Result<()>;
    fn split_first(&mut self, groups: usize) -> Box<dyn Grouped>;
    fn bytes(&self) -> usize;
    fn write(self: Box<Self>, groups: usize) -> Result<StateWriter>;
    fn finish(self: Box<Self>, groups: usize) -> Result<Matrix>;
}

/// Groups that a task takes at most, so that an interrupt does not wait.
pub(super) const GROUPS_OF_A_TASK: usize = 4096;

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
