//! States of groups, as DataFusion's grouped aggregations keep them.
//!
//! DataFusion's batches are small (8192 rows), and with many groups each of them has a row or two of
//! each group. So batches are kept as they came, which copies nothing, until there are enough rows to
//! be sorted by their groups and added at once.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, cast::AsArray, new_null_array};
use datafusion_common::Result as EngineResult;
use datafusion_common::arrow::compute::{filter, prep_null_mask_filter};
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::aggregate::Column;
use super::scalar::arrow;
use super::serial;
use crate::compute::{GroupStatistic, Members, reduce_groups};
use crate::engine::types::{is_variable, width};
use crate::error::{Error, Result};

/// Rows that are added at once, and bytes of them, whichever are reached first.
const ROWS_AT_ONCE: usize = 256 << 10;
const BYTES_AT_ONCE: usize = 64 << 20;

pub(super) struct GroupStates {
    column: Column,
    /// What was added. None before the first rows.
    statistic: Option<GroupStatistic>,
    /// Rows to be added, and the group of each.
    batches: Vec<ArrayRef>,
    of_rows: Vec<u32>,
    groups: usize,
}

impl GroupStates {
    pub(super) fn new(column: Column) -> Self {
        let (batches, of_rows) = (Vec::new(), Vec::new());
        Self { column, statistic: None, batches, of_rows, groups: 0 }
    }

    /// Bytes of the rows that are to be added, about.
    fn waiting(&self) -> usize {
        let row = width(self.column.field.data_type()).unwrap_or(1) * size_of::<f64>();
        self.of_rows.len() * row
    }

    fn update(
        &mut self,
        x: &ArrayRef,
        groups: &[usize],
        chosen: Option<&BooleanArray>,
    ) -> Result<()> {
        let (x, of_rows) = kept(x, groups, chosen)?;
        if of_rows.is_empty() {
            return Ok(());
        }
        crate::buffer::try_reserve(&mut self.of_rows, of_rows.len())
            .map_err(|bytes| Error::OutOfMemory { bytes })?;
        self.of_rows.extend(of_rows);
        self.batches.push(x);
        if self.of_rows.len() >= ROWS_AT_ONCE || self.waiting() >= BYTES_AT_ONCE {
            self.add()?;
        }
        Ok(())
    }

    /// Adds the rows that wait. Where none of them says how wide it is, they wait on.
    fn add(&mut self) -> Result<()> {
        let Some(rows) = self.column.matrix(&self.batches)? else { return Ok(()) };
        let members = Members::of_groups(&self.of_rows, self.groups)?;
        let Column { statistic, options, .. } = self.column;
        let add_to = || GroupStatistic::partial(statistic, options);
        self.statistic.get_or_insert_with(add_to).update(&rows, &members)?;
        self.batches.clear();
        self.of_rows.clear();
        Ok(())
    }

    /// The first groups, or all, and how many they are; the others are numbered from 0 on again.
    fn emitted(&mut self, emit: EmitTo) -> Result<(Option<GroupStatistic>, usize)> {
        self.add()?;
        let (first, groups) = match emit {
            EmitTo::All => {
                // Nulls of an unknown width are nothing.
                self.batches.clear();
                self.of_rows.clear();
                (self.statistic.take(), self.groups)
            }
            EmitTo::First(n) => {
                let waiting = std::mem::take(&mut self.of_rows);
                self.of_rows = waiting.iter().map(|group| group.saturating_sub(n as u32)).collect();
                (self.statistic.as_mut().map(|all| all.split_first(n)), n)
            }
        };
        self.groups -= groups;
        Ok((first, groups))
    }

    fn evaluated(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let Column { statistic, options, .. } = self.column;
        if matches!(emit, EmitTo::All)
            && self.statistic.is_none()
            && let Some(rows) = self.column.matrix(&self.batches)?
        {
            // All rows are at hand: no state is needed.
            let members = Members::of_groups(&self.of_rows, self.groups)?;
            let results = reduce_groups(statistic, &rows, &members, &options)?;
            (self.groups, self.batches, self.of_rows) = (0, Vec::new(), Vec::new());
            return self.column.results(results);
        }
        match self.emitted(emit)? {
            (Some(first), groups) => self.column.results(first.finish(groups)?),
            (None, groups) if is_variable(self.column.field.data_type()) => {
                Ok(new_null_array(&self.column.to, groups))
            }
            (None, groups) => self.column.results(self.column.of_no_rows()?.finish(groups)?),
        }
    }

    fn merge(&mut self, states: &ArrayRef, groups: &[usize]) -> Result<()> {
        self.add()?;
        let states = states.as_struct();
        if states.null_count() == states.len() {
            return Ok(());
        }
        let of_rows: Vec<u32> = numbers(groups)?;
        let members = Members::of_groups(&of_rows, self.groups)?;
        let all = match self.statistic.take() {
            Some(all) => all,
            None => GroupStatistic::of_states(states)?,
        };
        self.statistic.insert(all).merge(states, &members)
    }

    fn state_of(&self, statistic: Option<GroupStatistic>, groups: usize) -> Result<Vec<ArrayRef>> {
        Ok(vec![match statistic {
            Some(statistic) => Arc::new(statistic.state(groups)?),
            None => new_null_array(&self.column.state, groups),
        }])
    }
}

/// The numbers of groups.
fn numbers(groups: &[usize]) -> Result<Vec<u32>> {
    let limit = "32-bit numbers of groups";
    let number =
        |n: &usize| u32::try_from(*n).map_err(|_| Error::TooLarge { rows: *n, width: 1, limit });
    groups.iter().map(number).collect()
}

/// The rows that are chosen, and the group of each.
fn kept(
    x: &ArrayRef,
    groups: &[usize],
    chosen: Option<&BooleanArray>,
) -> Result<(ArrayRef, Vec<u32>)> {
    let Some(chosen) = chosen else { return Ok((Arc::clone(x), numbers(groups)?)) };
    let chosen = match chosen.null_count() {
        0 => chosen.clone(),
        _ => prep_null_mask_filter(chosen),
    };
    let x = filter(x, &chosen).map_err(arrow)?;
    let groups: Vec<usize> = chosen.values().set_indices().map(|row| groups[row]).collect();
    Ok((x, numbers(&groups)?))
}

impl GroupsAccumulator for GroupStates {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> EngineResult<()> {
        self.groups = total_num_groups;
        serial(self.column.name, || self.update(&values[0], group_indices, opt_filter))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> EngineResult<ArrayRef> {
        serial(self.column.name, || self.evaluated(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> EngineResult<Vec<ArrayRef>> {
        serial(self.column.name, || {
            let (first, groups) = self.emitted(emit_to)?;
            self.state_of(first, groups)
        })
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> EngineResult<()> {
        self.groups = total_num_groups;
        serial(self.column.name, || self.merge(&values[0], group_indices))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> EngineResult<Vec<ArrayRef>> {
        serial(self.column.name, || {
            let rows = values[0].len();
            let each: Vec<usize> = (0..rows).collect();
            let (x, of_rows) = kept(&values[0], &each, opt_filter)?;
            let Some(x) = self.column.matrix(&[x])? else { return self.state_of(None, rows) };
            let Column { statistic, options, .. } = self.column;
            let mut states = GroupStatistic::partial(statistic, options);
            states.update(&x, &Members::of_groups(&of_rows, rows)?)?;
            self.state_of(Some(states), rows)
        })
    }

    fn size(&self) -> usize {
        let states = self.statistic.as_ref().map_or(0, GroupStatistic::bytes);
        states + self.waiting() + self.of_rows.len() * size_of::<u32>()
    }
}
