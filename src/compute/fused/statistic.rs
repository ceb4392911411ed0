//! Sinks that reduce: one result for each row, for each column, or in all.

use std::ops::Range;

use arrow_schema::DataType;

use super::{LEAF_ROWS, Nulls, RowTile, Sink, SinkPart, SinkParts};
use crate::buffer::{Output, collected, vec_of};
use crate::compute::reduce::{How, WithReducer, with_reducer};
use crate::compute::reduction::{FinishAll, RowNodes};
use crate::compute::state::{FeedMany, FeedOne, Finish, Required, Seen, State};
use crate::compute::{Per, ReduceOptions, Statistic, Value};
use crate::dispatch::{Level, Store};
use crate::error::Result;
use crate::kernel::{COLUMN_BLOCK, Counts, Many as _, Nodes, One as _, Partial, Reducer, Tile};
use crate::matrix::{self, Matrix, Number, Reader, Scratch, array_of, steps};
use crate::memory::{self, Gather as _};

/// The sink of a statistic of rows like those of `x`, of which some are null.
pub(in crate::compute) fn statistic_sink(
    statistic: Statistic,
    x: &Matrix,
    per: Per,
    options: &ReduceOptions,
    nulls: &Nulls,
) -> Result<Box<dyn Sink>> {
    let make =
        MakeSink { x, per, options: *options, nulls, is_count: statistic == Statistic::Count };
    with_reducer((statistic, false), x.element_type(), options, make)
}

/// Makes the sink, once the types are known.
struct MakeSink<'a> {
    x: &'a Matrix,
    per: Per,
    options: ReduceOptions,
    nulls: &'a Nulls,
    is_count: bool,
}

impl WithReducer for MakeSink<'_> {
    type Out = Box<dyn Sink>;

    fn with<T: Number, O: Number, R: Reducer<T>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<Box<dyn Sink>> {
        let Self { x, per, options, nulls, is_count } = self;
        let (rows, width) = (x.rows(), x.width());
        let element = x.element_type();
        let reader = T::reader(element).ok_or_else(|| matrix::unaccepted(element))?;
        let full = match per {
            Per::Matrix => rows * width,
            Per::Column => rows,
            Per::Row => width,
        };
        let all = (!options.skip_nulls && !is_count).then_some(full as u64);
        let min = if is_count { 0 } else { how.min_count as u64 };
        let to = if is_count { DataType::Int64 } else { to.clone() };
        let reduced = Reduced {
            reducer: how.reducer,
            finish: how.finish,
            reader,
            required: Required { min, all },
            width,
            has_nulls: nulls.are_any(),
            is_count,
            to,
        };
        if per == Per::Row {
            let valid = if reduced.has_nulls { vec_of(true, rows)? } else { Vec::new() };
            let counts = Output::new(if is_count { rows } else { 0 })?;
            let values = Output::new(if is_count { 0 } else { rows })?;
            return Ok(Box::new(RowSink::<T, O, R, F> { reduced, rows, values, counts, valid }));
        }
        Ok(Box::new(AllSink::<T, O, R, F> {
            reduced,
            by_columns: per == Per::Column,
            states: Vec::new(),
            made: std::marker::PhantomData,
        }))
    }
}

/// What is reduced, and what becomes of it.
struct Reduced<T: Number, R, F> {
    reducer: R,
    finish: F,
    reader: Reader<T>,
    required: Required,
    width: usize,
    has_nulls: bool,
    /// Whether the counts are the results.
    is_count: bool,
    to: DataType,
}

/// Memory for a tile.
struct Tiles<T> {
    x: Scratch<T>,
    valid: Vec<bool>,
}

impl<T> Default for Tiles<T> {
    fn default() -> Self {
        Self { x: Scratch::new(), valid: Vec::new() }
    }
}

impl<T: Number, R: Reducer<T>, F> Reduced<T, R, F> {
    /// The elements of a tile as the reducer wants them, and which are valid if not all are.
    fn tile<'s>(
        &self,
        tile: &RowTile<'s>,
        tiles: &'s mut Tiles<T>,
    ) -> (Tile<'s, T>, Option<&'s [bool]>) {
        let valid = tile.valid(&mut tiles.valid);
        let x = tile.filled(&self.reader, self.reducer.fill(), &mut tiles.x);
        (Tile { x, valid: valid.filter(|_| R::NEEDS_VALIDITY), weights: None }, valid)
    }
}

/// One result for each row.
struct RowSink<T: Number, O: Number, R, F> {
    reduced: Reduced<T, R, F>,
    rows: usize,
    values: Output<O>,
    /// The results, if counts are asked for.
    counts: Output<i64>,
    /// Which results are valid; empty where nothing is null.
    valid: Vec<bool>,
}

impl<T: Number, O: Number, R: Reducer<T>, F: Finish<R::Node, O>> Sink for RowSink<T, O, R, F> {
    fn bytes(&self) -> usize {
        self.rows * self.reduced.to.primitive_width().unwrap_or(8)
    }

    fn is_by_columns(&self) -> bool {
        false
    }

    fn split(&mut self, tasks: &[Range<usize>], _: Store) -> Result<SinkParts<'_>> {
        let Self { reduced, values, counts, valid, .. } = self;
        let (mut values, mut counts, mut valid) =
            (&mut values[..], &mut counts[..], &mut valid[..]);
        let mut parts: SinkParts<'_> = Vec::new();
        for rows in tasks {
            let (own, own_counts, own_valid);
            (own, values) = values.split_at_mut(rows.len().min(values.len()));
            (own_counts, counts) = counts.split_at_mut(rows.len().min(counts.len()));
            (own_valid, valid) = valid.split_at_mut(rows.len().min(valid.len()));
            parts.push(Box::new(RowPart {
                reduced,
                first: rows.start,
                values: own,
                counts: own_counts,
                valid: own_valid,
                tiles: Tiles::default(),
                nodes: Nodes::plain(Vec::new()),
            }));
        }
        Ok(parts)
    }

    fn finish(self: Box<Self>) -> Result<Option<Value>> {
        let Self { reduced, rows, values, counts, valid } = *self;
        let all_are = reduced.required.is_met(reduced.width as u64);
        let nulls = match reduced.has_nulls {
            true => Some(matrix::from_bits(rows, |i| valid[i])?),
            false if all_are => None,
            false => Some(matrix::from_bits(rows, |_| false)?),
        };
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let array = match reduced.is_count {
            true => array_of(counts, nulls, &reduced.to)?,
            false => array_of(values, nulls, &reduced.to)?,
        };
        Ok(Some(Value::Vector(array)))
    }
}

struct RowPart<'s, T: Number, O, R: Reducer<T>, F> {
    reduced: &'s Reduced<T, R, F>,
    first: usize,
    values: &'s mut [O],
    counts: &'s mut [i64],
    valid: &'s mut [bool],
    tiles: Tiles<T>,
    nodes: Nodes<R::Node>,
}

impl<T: Number, O: Number, R: Reducer<T>, F: Finish<R::Node, O>> SinkPart
    for RowPart<'_, T, O, R, F>
{
    fn take(&mut self, level: Level, tile: &RowTile<'_>) -> bool {
        let Self { reduced, first, values, counts, valid, tiles, nodes } = self;
        let Reduced { reducer, finish, required, width, .. } = **reduced;
        let at = tile.first - *first..tile.first - *first + tile.rows;
        let (x, is_valid) = reduced.tile(tile, tiles);
        let count = |row: usize| match is_valid {
            None => width as u64,
            Some(valid) => valid[row * width..][..width].iter().filter(|v| **v).count() as u64,
        };
        if let Some(valid) = valid.get_mut(at.clone()) {
            let rows = valid.iter_mut().enumerate();
            rows.for_each(|(row, valid)| *valid = required.is_met(count(row)));
            tile.each_null_row(|row| valid[row] = false);
        }
        if reduced.is_count {
            let rows = counts[at].iter_mut().enumerate();
            rows.for_each(|(row, out)| *out = count(row) as i64);
            return false;
        }
        // What they hold before is overwritten, so it is not cleared.
        memory::resize(&mut nodes.nodes, tile.rows, reducer.empty());
        nodes.scales.clear();
        let out = &mut values[at.clone()];
        let Nodes { nodes: found, scales } = &mut *nodes;
        level.run(RowNodes { reducer, tile: x, width, out: found, scales });
        if is_valid.is_none() && nodes.scales.is_empty() {
            let fits =
                level.run(FinishAll { finish, nodes: &nodes.nodes, count: width, out: &mut *out });
            return !fits;
        }
        let mut failed = false;
        for (row, out) in out.iter_mut().enumerate() {
            let Partial { node, scale } = nodes.get(row);
            *out = finish.one(node, count(row), scale.power());
            failed |= !finish.fits(&node) && valid.get(at.start + row).is_none_or(|valid| *valid);
        }
        failed
    }

    fn takes_row_sums(&self) -> bool {
        let Reduced { reducer, reader, width, has_nulls, is_count, .. } = self.reduced;
        let is_sum = reducer.of_row_sum(0.0, *width).is_some();
        is_sum && T::IS_FLOAT && reader.is_same && !has_nulls && !is_count
    }

    fn take_row_sums(&mut self, level: Level, first: usize, sums: &[f64]) -> bool {
        let Reduced { reducer, finish, width, .. } = *self.reduced;
        let out = &mut self.values[first - self.first..][..sums.len()];
        let nodes = &mut self.nodes.nodes;
        memory::resize(nodes, sums.len(), reducer.empty());
        for (node, sum) in nodes.iter_mut().zip(sums) {
            *node = reducer.of_row_sum(*sum, width).unwrap_or(*node);
        }
        !level.run(FinishAll { finish, nodes, count: width, out })
    }
}

/// One result for each column, or in all.
struct AllSink<T: Number, O, R: Reducer<T>, F> {
    reduced: Reduced<T, R, F>,
    by_columns: bool,
    /// What each task saw: of each block of columns, or of everything.
    states: Vec<Vec<State<R::Node>>>,
    made: std::marker::PhantomData<fn() -> O>,
}

impl<T: Number, O, R: Reducer<T>, F> AllSink<T, O, R, F> {
    /// The number of results.
    fn len(&self) -> usize {
        if self.by_columns { self.reduced.width } else { 1 }
    }
}

impl<T: Number, O: Number, R: Reducer<T>, F: Finish<R::Node, O>> Sink for AllSink<T, O, R, F> {
    fn bytes(&self) -> usize {
        self.len() * self.reduced.to.primitive_width().unwrap_or(8)
    }

    fn is_by_columns(&self) -> bool {
        true
    }

    fn split(&mut self, tasks: &[Range<usize>], _: Store) -> Result<SinkParts<'_>> {
        let Self { reduced, by_columns, states, .. } = self;
        *states = collected(tasks.iter().map(|_| Vec::new()))?;
        let part = |(rows, state): (&Range<usize>, _)| {
            debug_assert!(rows.start.is_multiple_of(LEAF_ROWS));
            let part: Box<dyn SinkPart> = Box::new(AllPart {
                reduced,
                first: rows.start,
                by_columns: *by_columns,
                running: None,
                tiles: Tiles::default(),
                state,
            });
            part
        };
        Ok(tasks.iter().zip(states).map(part).gather())
    }

    fn finish(mut self: Box<Self>) -> Result<Option<Value>> {
        let len = self.len();
        let Reduced { reducer, finish, required, has_nulls, is_count, .. } = self.reduced;
        let mut states: Vec<_> =
            std::mem::take(&mut self.states).into_iter().map(Vec::into_iter).gather();
        let mut all = Seen::none(has_nulls);
        for columns in steps(0..len, COLUMN_BLOCK) {
            let nothing = State::new(columns.len(), has_nulls);
            let of_tasks = states.iter_mut().filter_map(Iterator::next);
            all.append(
                of_tasks.fold(nothing, |left, next| left.merge(reducer, next)).nodes(reducer),
            );
        }
        let Seen { nodes, counts } = all;
        let to = &self.reduced.to;
        let array = if is_count {
            let mut out = Output::<i64>::new(len)?;
            out.iter_mut().enumerate().for_each(|(i, out)| *out = counts.get(i) as i64);
            array_of(out, None, to)?
        } else {
            let mut out = Output::<O>::new(len)?;
            for (i, out) in out.iter_mut().enumerate() {
                let Partial { node, scale } = nodes.get(i);
                let count = counts.get(i);
                *out = finish.one(node, count, scale.power());
                if required.is_met(count) && !finish.fits(&node) {
                    return Ok(None);
                }
            }
            let valid = matrix::from_bits(len, |i| required.is_met(counts.get(i)))?;
            array_of(out, Some(valid).filter(|valid| valid.null_count() > 0), to)?
        };
        Ok(Some(if self.by_columns { Value::Vector(array) } else { Value::Scalar(array) }))
    }
}

/// The running state of some columns, or of everything, row by row.
enum RunningPart<T: Number, R: Reducer<T>> {
    Columns(Vec<(Range<usize>, R::Many)>, Counts),
    One(R::One, u64),
}

struct AllPart<'s, T: Number, R: Reducer<T>, F> {
    reduced: &'s Reduced<T, R, F>,
    first: usize,
    by_columns: bool,
    /// None before the first tile, so that tasks that wait take no memory.
    running: Option<RunningPart<T, R>>,
    tiles: Tiles<T>,
    state: &'s mut Vec<State<R::Node>>,
}

impl<T: Number, R: Reducer<T>, F: Send + Sync> AllPart<'_, T, R, F> {
    fn begun(&self) -> RunningPart<T, R> {
        let Reduced { reducer, width, has_nulls, .. } = *self.reduced;
        if !self.by_columns {
            return RunningPart::One(reducer.one(self.first * width), 0);
        }
        let many = |columns: Range<usize>| {
            let many = reducer.many(columns.len(), self.first, usize::MAX);
            (columns, many)
        };
        let columns = steps(0..width, COLUMN_BLOCK).map(many).gather();
        let counts =
            if has_nulls { Counts::Each(memory::filled(0, width)) } else { Counts::All(0) };
        RunningPart::Columns(columns, counts)
    }
}

impl<T: Number, R: Reducer<T>, F: Send + Sync> SinkPart for AllPart<'_, T, R, F> {
    fn take(&mut self, level: Level, tile: &RowTile<'_>) -> bool {
        let width = self.reduced.width;
        let mut running = self.running.take().unwrap_or_else(|| self.begun());
        let (x, is_valid) = self.reduced.tile(tile, &mut self.tiles);
        match &mut running {
            RunningPart::One(one, count) => {
                *count += is_valid
                    .map_or(x.x.len(), |valid| valid.iter().filter(|valid| **valid).count())
                    as u64;
                level.run(FeedOne::<T, R> { one, tile: x });
            }
            RunningPart::Columns(columns, counts) => {
                match (&mut *counts, is_valid) {
                    (Counts::All(count), _) => *count += tile.rows,
                    (Counts::Each(counts), None) => {
                        counts.iter_mut().for_each(|count| *count += tile.rows as u64);
                    }
                    (Counts::Each(counts), Some(valid)) => {
                        for row in valid.chunks_exact(width) {
                            let pairs = counts.iter_mut().zip(row);
                            pairs.for_each(|(count, valid)| *count += u64::from(*valid));
                        }
                    }
                }
                for (columns, many) in columns {
                    let at = columns.start..(tile.rows - 1) * width + columns.end;
                    let valid = x.valid.map(|valid| &valid[at.clone()]);
                    let tile = Tile { x: &x.x[at], valid, weights: None };
                    level.run(FeedMany::<T, R> { many, tile, stride: width });
                }
            }
        }
        self.running = Some(running);
        false
    }

    fn end(self: Box<Self>) {
        let has_nulls = self.reduced.has_nulls;
        match self.running {
            None => {}
            Some(RunningPart::One(one, count)) => {
                let counts = match has_nulls {
                    true => Counts::Each(vec![count]),
                    false => Counts::All(count as usize),
                };
                self.state.push(State { tree: one.into_tree(), counts });
            }
            Some(RunningPart::Columns(columns, counts)) => {
                for (columns, many) in columns {
                    let counts = match &counts {
                        Counts::All(count) => Counts::All(*count),
                        Counts::Each(each) => Counts::Each(memory::copied(&each[columns])),
                    };
                    self.state.push(State { tree: many.into_tree(), counts });
                }
            }
        }
    }
}
