//! The states of groups while batches come: one for each group, or its rows while they are few.

use arrow_schema::DataType;

use super::few_rows::{Chain, FEW, FewRows};
use super::groups::{GROUPS_OF_A_TASK, Grouped, lists, results_of};
use super::keys::Members;
use super::measured::{Described, Made, Measured};
use super::reduce::{How, WithReducer, with_reducer};
use super::state::{FeedMany, Finish, Running, Seen, State};
use super::state_array::{Description, StateReader, StateWriter};
use super::weights::{Aligned, weighted};
use crate::dispatch::{Level, Plan, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Counts, Many, Reducer, Tile, Words};
use crate::matrix::{Matrix, Number, Source, TILE, TileWorkspace, View, Wanted, Weighted};
use crate::memory::{self, Gather as _};

/// Nothing seen of such a statistic.
pub(super) fn begun(of: Description, is_partial: bool) -> Result<Box<dyn Grouped>> {
    let (statistic, is_weighted, options) = (of.statistic, of.is_weighted, of.options);
    let element = of.element.clone();
    with_reducer((statistic, is_weighted), &element, &options, Begun { of, is_partial })
}

struct Begun {
    of: Description,
    is_partial: bool,
}

impl WithReducer for Begun {
    type Out = Box<dyn Grouped>;

    fn with<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<Box<dyn Grouped>> {
        let Self { of, is_partial } = self;
        let few = FewRows::new(of.width);
        let measured = Measured::new(of, how, to);
        let (level, groups) = (Level::Portable, Vec::new());
        Ok(Box::new(States::<T, O, R, F> { measured, is_partial, level, few, groups }))
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
    const NEW: Self = Self { before: None, running: None, rows: 0 };

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

/// What is known of one group.
enum Slot<T: Number, R: Reducer<T>> {
    /// It has no rows here.
    Empty,
    /// All of its rows.
    Few(Chain),
    State(Box<Group<T, R>>),
}

/// How states begin.
#[derive(Clone, Copy)]
struct Beginning<R> {
    reducer: R,
    width: usize,
    is_partial: bool,
    level: Level,
}

impl<R> Beginning<R> {
    fn running<T: Number>(self) -> Running<T, R>
    where
        R: Reducer<T>,
    {
        match self.is_partial {
            true => Running::loose(self.reducer, self.width),
            false => Running::new(self.reducer, self.width, 0, None),
        }
    }

    /// The state of a group; none if it has no rows.
    fn state<T: Number>(self, slot: Slot<T, R>, few: &FewRows<T>) -> Option<Box<Group<T, R>>>
    where
        R: Reducer<T>,
    {
        match slot {
            Slot::Empty => None,
            Slot::State(group) => Some(group),
            Slot::Few(chain) => {
                let mut running = self.running();
                few.rows(chain).for_each(|row| running.update_row(self.level, row));
                let (running, rows) = (Some(running), chain.len() as u64);
                Some(Box::new(Group { before: None, running, rows }))
            }
        }
    }
}

struct States<T: Number, O, R: Reducer<T>, F> {
    measured: Measured<O, R, F>,
    is_partial: bool,
    /// The instruction set of the last update.
    level: Level,
    few: FewRows<T>,
    groups: Vec<Slot<T, R>>,
}

impl<T: Number, O, R: Reducer<T>, F> Described for States<T, O, R, F> {
    fn of(&self) -> &Description {
        &self.measured.of
    }
}

impl<T: Number, O: Number, R: Reducer<T>, F> States<T, O, R, F> {
    /// Reserves memory for so many groups.
    fn grow(&mut self, groups: usize) -> Result<()> {
        let missing = groups.saturating_sub(self.groups.len());
        crate::buffer::try_reserve(&mut self.groups, missing)
            .map_err(|bytes| Error::OutOfMemory { bytes })?;
        self.groups.resize_with(groups.max(self.groups.len()), || Slot::Empty);
        Ok(())
    }

    fn beginning(&self) -> Beginning<R> {
        let (reducer, width) = (self.measured.reducer, self.measured.of.width);
        Beginning { reducer, width, is_partial: self.is_partial, level: self.level }
    }

    /// Keeps the rows of groups that have few as they are, and says which groups those are.
    fn keep(&mut self, source: &Weighted<View<'_, T>>, members: &Members) -> Result<Vec<bool>> {
        let (ids, width, level) = (members.ids(), self.measured.of.width, self.level);
        let mut kept = crate::buffer::vec_of(false, ids.len())?;
        if source.has_nulls() {
            return Ok(kept);
        }
        let wanted = Wanted { fill: self.measured.reducer.fill(), with_validity: false };
        let mut workspace = TileWorkspace::default();
        run::in_steps(0..ids.len(), GROUPS_OF_A_TASK, |some| {
            for i in some {
                let (slot, indices) = (&mut self.groups[ids[i] as usize], members.rows(i));
                let mut chain = match slot {
                    Slot::Empty => Chain::EMPTY,
                    Slot::Few(chain) => *chain,
                    Slot::State(_) => continue,
                };
                if !self.few.takes(chain, indices.len()) {
                    continue;
                }
                let gathered = source.gathered(level, indices);
                let all = (0..indices.len(), 0..width);
                let (tile, stride) = gathered.block(all.0, all.1, wanted, &mut workspace);
                for row in tile.x.chunks(stride) {
                    self.few.push(&mut chain, &row[..width])?;
                }
                *slot = Slot::Few(chain);
                kept[i] = true;
            }
            Ok(())
        })?;
        Ok(kept)
    }

    /// Makes the results of groups that are rows: those of one length side by side, as the columns
    /// of one tile.
    fn finish_few(&mut self, made: &mut Made<O>) -> Result<()>
    where
        F: Finish<R::Node, O>,
    {
        let (reducer, width, level) = (self.measured.reducer, self.measured.of.width, self.level);
        let mut tile = Vec::new();
        for len in 1..=FEW {
            let is_so = |slot: &Slot<T, R>| matches!(slot, Slot::Few(chain) if chain.len() == len);
            let groups = (0..self.groups.len()).filter(|g| is_so(&self.groups[*g]));
            let groups: Vec<usize> = crate::buffer::collected(groups)?;
            let together = (TILE / (len * width).max(1)).max(1);
            run::in_steps(0..groups.len(), together, |some| {
                let some = &groups[some];
                let columns = some.len() * width;
                memory::resize(&mut tile, len * columns, T::default());
                for (nth, g) in some.iter().enumerate() {
                    let Slot::Few(chain) = self.groups[*g] else { continue };
                    for (r, row) in self.few.rows(chain).enumerate() {
                        let at = r * columns + nth * width;
                        tile[at..at + width].copy_from_slice(row);
                    }
                }
                let mut many = reducer.many(columns, 0, len);
                let x = Tile { x: &tile[..len * columns], valid: None, weights: None };
                level.run(FeedMany::<T, R> { many: &mut many, tile: x, stride: columns });
                let nodes = Many::<T, R::Node>::finish(many);
                let seen = Seen { nodes, counts: Counts::All(len) };
                for (nth, g) in some.iter().enumerate() {
                    let own = nth * width..(nth + 1) * width;
                    self.measured.put(made, g * width, (&seen, own), len as u64, Some(*g));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl<T, O, R, F> Grouped for States<T, O, R, F>
where
    T: Number,
    O: Number,
    R: Reducer<T, Node: Words>,
    F: Finish<R::Node, O>,
{
    fn update(
        &mut self,
        x: &Matrix,
        weights: Option<&Aligned<'_>>,
        members: &Members,
        plan: &Plan,
    ) -> Result<()> {
        self.grow(members.seen())?;
        let (source, level) = (weighted::<T>(x, weights)?, plan.level(machine()));
        self.level = level;
        let beginning = self.beginning();
        let kept = self.keep(&source, members)?;
        let Self { few, groups, .. } = self;
        let is_left = |slot: &Slot<T, R>| match slot {
            Slot::Few(chain) => Some(*chain),
            _ => None,
        };
        let grown = members.ids().iter().zip(&kept).filter(|(_, kept)| !**kept);
        let grown = grown.filter_map(|(id, _)| is_left(&groups[*id as usize]));
        let grown: Vec<Chain> = crate::buffer::collected(grown)?;
        // Ranges of groups with about as many rows each: the states of each range are its own.
        let rows_of_a_task = members.len().div_ceil(8 * plan.threads).max(1);
        let mut tasks = Vec::new();
        let (mut rest, mut first) = (&mut groups[..], 0);
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
                if kept[i] {
                    continue;
                }
                let (slot, indices) = (&mut states[ids[i] as usize - first], members.rows(i));
                let state = beginning.state(std::mem::replace(slot, Slot::Empty), &*few);
                let mut state = state.unwrap_or_else(|| Box::new(Group::NEW));
                let running = state.running.get_or_insert_with(|| beginning.running());
                let gathered = source.gathered(level, indices);
                let all = (0..indices.len(), 0..beginning.width);
                running.update(level, &gathered, all, None, workspace);
                state.rows += indices.len() as u64;
                *slot = Slot::State(state);
            }
        })?;
        grown.into_iter().try_for_each(|chain| few.give_up(chain))
    }

    fn merge(&mut self, states: &StateReader<'_>, members: &Members) -> Result<()> {
        self.grow(members.seen())?;
        let (reducer, ids) = (self.measured.reducer, members.ids());
        let beginning = self.beginning();
        run::in_steps(0..ids.len(), GROUPS_OF_A_TASK, |some| {
            for i in some {
                let slot = &mut self.groups[ids[i] as usize];
                let group = beginning.state(std::mem::replace(slot, Slot::Empty), &self.few);
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
                *slot = Slot::State(Box::new(Group { before, running: None, rows }));
            }
            Ok(())
        })
    }

    fn split_first(&mut self, groups: usize) -> Box<dyn Grouped> {
        let beginning = self.beginning();
        let rest = self.groups.split_off(groups.min(self.groups.len()));
        let first = std::mem::replace(&mut self.groups, rest);
        // Rows that are kept as such stay where they are: those that leave are states.
        let states = first.into_iter().map(|slot| {
            let state = beginning.state(slot, &self.few);
            state.map_or(Slot::Empty, Slot::State)
        });
        let (groups, few) = (states.gather(), FewRows::new(self.measured.of.width));
        let Self { is_partial, level, .. } = *self;
        Box::new(Self { measured: self.measured.clone(), is_partial, level, few, groups })
    }

    /// Of each group a node for a column while its leaf is filled, and one or two that are whole.
    fn bytes(&self) -> usize {
        let of_a_group =
            size_of::<Group<T, R>>() + 3 * self.measured.of.width * size_of::<R::Node>();
        self.groups.len() * of_a_group
    }

    fn write(mut self: Box<Self>, groups: usize) -> Result<StateWriter> {
        self.grow(groups)?;
        let (reducer, width) = (self.measured.reducer, self.measured.of.width);
        let beginning = self.beginning();
        let mut writer = StateWriter::new::<R::Node>();
        let mut all = std::mem::take(&mut self.groups).into_iter();
        run::in_steps(0..groups, GROUPS_OF_A_TASK, |some| {
            for slot in all.by_ref().take(some.len()) {
                let group = beginning.state(slot, &self.few);
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
        let (reducer, width) = (self.measured.reducer, self.measured.of.width);
        let mut made = self.measured.results(results_of(groups, width)?)?;
        self.finish_few(&mut made)?;
        let mut all = std::mem::take(&mut self.groups).into_iter();
        run::in_steps(0..groups, GROUPS_OF_A_TASK, |some| {
            for (g, slot) in some.clone().zip(all.by_ref().take(some.len())) {
                let Slot::State(group) = slot else { continue };
                let rows = group.rows;
                let Some(seen) = group.nodes(reducer) else { continue };
                self.measured.put(&mut made, g * width, (&seen, 0..width), rows, Some(g));
            }
            Ok(())
        })?;
        lists(&self.measured.array(made, "group")?, groups, width)
    }
}
