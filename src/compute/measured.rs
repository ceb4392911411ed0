//! What accumulators and groups share: one statistic of elements of one type, and results of it.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::Statistic;
use super::reduce::How;
use super::state::{Finish, Required, Seen};
use super::state_array::Description;
use crate::buffer::Output;
use crate::error::{Error, Result};
use crate::kernel::{Partial, Reducer};
use crate::matrix::{self, Matrix, Number, array_of};

/// A statistic, and how its results are made.
#[derive(Clone)]
pub(super) struct Measured<O, R, F> {
    pub(super) of: Description,
    pub(super) reducer: R,
    finish: F,
    min_count: u64,
    skip_nulls: bool,
    /// Whether the counts are the results.
    is_count: bool,
    to: DataType,
    made: PhantomData<fn() -> O>,
}

impl<O: Number, R: Copy, F> Measured<O, R, F> {
    pub(super) fn new<T: Number>(of: Description, how: How<T, R, F>, to: &DataType) -> Self
    where
        R: Reducer<T>,
    {
        let is_count = of.statistic == Statistic::Count;
        Self {
            reducer: how.reducer,
            finish: how.finish,
            min_count: if is_count { 0 } else { how.min_count as u64 },
            skip_nulls: is_count || of.options.skip_nulls,
            is_count,
            to: if is_count { DataType::Int64 } else { to.clone() },
            of,
            made: PhantomData,
        }
    }

    /// So many results, of nothing yet.
    pub(super) fn results(&self, len: usize) -> Result<Made<O>> {
        let (mut counts, mut values) = (Output::<i64>::new(len)?, Output::<O>::new(len)?);
        counts.fill(0);
        values.fill(O::default());
        let valid = crate::buffer::vec_of(self.min_count == 0, len)?;
        Ok(Made { counts, values, valid, failed: None })
    }

    /// Makes the results from number `at` on of some of the sequences that were seen, of so many
    /// elements each; errors name `index`, or the number of the result.
    pub(super) fn put<N: Copy>(
        &self,
        made: &mut Made<O>,
        at: usize,
        (seen, own): (&Seen<N>, Range<usize>),
        elements: u64,
        index: Option<usize>,
    ) where
        F: Finish<N, O>,
    {
        let required =
            Required { min: self.min_count, all: (!self.skip_nulls).then_some(elements) };
        for (at, i) in (at..).zip(own) {
            let (count, Partial { node, scale }) = (seen.counts.get(i), seen.nodes.get(i));
            let is_null = F::MAY_BE_NULL && self.finish.is_null(&node);
            let is_valid = required.is_met(count) && !is_null;
            made.counts[at] = count as i64;
            made.valid[at] = is_valid;
            if is_valid {
                made.values[at] = self.finish.one(node, count, scale.power());
                if !self.finish.fits(&node) {
                    made.failed = made.failed.or(Some(index.unwrap_or(at)));
                }
            }
        }
    }

    /// The results; `what` is what one of them that does not fit is of.
    pub(super) fn array(&self, made: Made<O>, what: &'static str) -> Result<ArrayRef> {
        let Made { counts, values, valid, failed } = made;
        if self.is_count {
            return array_of(counts, None, &self.to);
        }
        if let Some(index) = failed {
            return Err(Error::Overflow { what, index, into: self.to.clone() });
        }
        let nulls = Some(matrix::from_bools(&valid)?).filter(|nulls| nulls.null_count() > 0);
        array_of(values, nulls, &self.to)
    }
}

/// Results while they are made.
pub(super) struct Made<O: Number> {
    counts: Output<i64>,
    values: Output<O>,
    valid: Vec<bool>,
    /// The first that does not fit.
    failed: Option<usize>,
}

/// What is reduced batch by batch: nothing is known of it before the first.
pub(super) struct Batches<S: ?Sized> {
    /// None before the first batch, which says what elements there are.
    pub(super) state: Option<Box<S>>,
    /// Whether an update was interrupted: a batch that was taken in part would be counted twice if
    /// it came again.
    pub(super) is_broken: bool,
}

/// What a state is of.
pub(super) trait Described {
    fn of(&self) -> &Description;
}

impl<S: ?Sized + Described> Batches<S> {
    pub(super) fn new(state: Option<Box<S>>) -> Self {
        Self { state, is_broken: false }
    }

    /// Refuses to go on after an update that was interrupted.
    pub(super) fn refuse_broken(&self) -> Result<()> {
        if !self.is_broken {
            return Ok(());
        }
        let (argument, expected) = ("self", "a statistic whose updates all ended");
        Err(Error::Argument { argument, expected, got: "one that was interrupted".to_owned() })
    }

    /// A batch in the width of those before: a list column without a valid row has none of its own.
    pub(super) fn fitted<'x>(&self, x: &'x Matrix) -> Result<Cow<'x, Matrix>> {
        match &self.state {
            Some(state) => x.fitted(state.of().width),
            None => Ok(Cow::Borrowed(x)),
        }
    }

    /// The state that a batch belongs to: that of the first is made.
    pub(super) fn state_of(
        &mut self,
        x: &Matrix,
        is_weighted: bool,
        begin: impl FnOnce(DataType, usize) -> Result<Box<S>>,
    ) -> Result<&mut S> {
        self.refuse_broken()?;
        let (element, width) = (x.element_type(), x.width());
        let state = match &mut self.state {
            Some(state) => state,
            none => none.insert(begin(element.clone(), width)?),
        };
        let of = state.of();
        check(of, element, width)?;
        if of.is_weighted != is_weighted {
            let expected = if of.is_weighted { "weights, as before" } else { "none, as before" };
            let got = if is_weighted { "weights" } else { "none" }.to_owned();
            return Err(Error::Argument { argument: "weights", expected, got });
        }
        Ok(state)
    }

    /// What was seen, all of it.
    pub(super) fn ended(self) -> Result<Box<S>> {
        self.refuse_broken()?;
        self.state.ok_or(Error::Rows { what: "batches", expected: 1, got: 0 })
    }
}

/// Refuses rows of another type or width.
pub(super) fn check(of: &Description, element: &DataType, width: usize) -> Result<()> {
    let what = "a batch";
    if of.element != *element {
        let (expected, got) = (of.element.clone(), element.clone());
        return Err(Error::Mixed { what, expected, got });
    }
    if of.width != width {
        return Err(Error::Width { what, expected: of.width, got: width });
    }
    Ok(())
}
