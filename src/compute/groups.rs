//! Statistics of groups of rows: one result for each column of each group.
//!
//! ```text
//! keys of a batch      ->  the number of each row's group, in the order of first appearance
//! rows of each group   ->  its running state, as of a matrix of these rows alone
//! ```
//!
//! A group's result has the bits of the same function on the group's rows, in their order: rows are
//! gathered by index, and each group has its own state, which is carried over batches. Tasks take
//! ranges of groups, so no state is kept twice.

use std::any::Any;
use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::reduce::{self, How, WithReducer, with_reducer};
use super::state::{Finish, Required, Running, Seen};
use super::{Per, ReduceOptions, Statistic};
use crate::buffer::Output;
use crate::dispatch::{Plan, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Partial, Reducer, Words};
use crate::matrix::{self, Gathered, Matrix, Number, TileWorkspace, array_of};

/// The keys that were seen, each a group. Nulls are a group; so is NaN, and −0 is +0.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, StringArray};
/// use raptors_arrow::compute::Groups;
///
/// let keys: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("a"), None, Some("b")]));
/// let mut groups = Groups::new([keys.data_type()])?;
/// let members = groups.assign(&[keys])?;
/// assert_eq!((groups.len(), members.len()), (3, 4));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
pub struct Groups {
    converter: RowConverter,
    hasher: DefaultHashBuilder,
    /// Numbers of groups, found by the bytes of their keys.
    table: HashTable<u32>,
    /// The keys of all groups as bytes, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Groups {{ {} }}", self.len())
    }
}

/// The rows of a batch, group by group.
#[derive(Clone, Debug)]
pub struct Members {
    /// Rows, those of one group after those of another, in their order.
    rows: Vec<u32>,
    /// The groups that have rows, in the order of their numbers, and which of `rows` are theirs.
    groups: Vec<(u32, Range<usize>)>,
    /// How many groups there were in all.
    seen: usize,
}

impl Members {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Groups {
    /// No group yet; keys will have these types.
    ///
    /// # Errors
    ///
    /// [`Error::Arrow`] for types that cannot be keys.
    pub fn new<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Result<Self> {
        let fields = types.into_iter().map(|key| SortField::new(key.clone())).collect();
        let converter = RowConverter::new(fields).map_err(arrow)?;
        let (hasher, table) = (DefaultHashBuilder::default(), HashTable::new());
        Ok(Self { converter, hasher, table, bytes: Vec::new(), ends: Vec::new() })
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The group of each row: of those seen before, or a new one.
    ///
    /// # Errors
    ///
    /// [`Error::Arrow`] if the columns are not of the types that were said, and
    /// [`Error::TooLarge`] for more than 2³² groups or rows.
    pub fn assign(&mut self, columns: &[ArrayRef]) -> Result<Members> {
        let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
        let keys = self.converter.convert_columns(&columns).map_err(arrow)?;
        let rows = keys.num_rows();
        let too_many = |rows| Error::TooLarge { rows, width: 1, limit: "32-bit row numbers" };
        u32::try_from(rows).map_err(|_| too_many(rows))?;
        let mut ids = crate::buffer::vec_with_capacity(rows)?;
        let Self { hasher, table, bytes, ends, .. } = self;
        for key in &keys {
            let key = key.data();
            let hash = hasher.hash_one(key);
            if let Some(id) = table.find(hash, |id| of_group(bytes, ends, *id) == key) {
                ids.push(*id);
                continue;
            }
            let id = u32::try_from(ends.len()).map_err(|_| too_many(ends.len()))?;
            bytes.extend_from_slice(key);
            ends.push(bytes.len());
            table.insert_unique(hash, id, |id| hasher.hash_one(of_group(bytes, ends, *id)));
            ids.push(id);
        }
        Members::new(&ids, self.len())
    }

    /// The keys of all groups, in the order of their numbers: a column for each.
    ///
    /// # Errors
    ///
    /// None but [`Error::Arrow`], which would be a bug.
    pub fn keys(&self) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let groups = (0..self.len() as u32).map(|id| of_group(&self.bytes, &self.ends, id));
        self.converter.convert_rows(groups.map(|key| parser.parse(key))).map_err(arrow)
    }
}

fn of_group<'b>(bytes: &'b [u8], ends: &[usize], id: u32) -> &'b [u8] {
    let id = id as usize;
    let from = if id == 0 { 0 } else { ends[id - 1] };
    &bytes[from..ends[id]]
}

fn arrow(error: arrow_schema::ArrowError) -> Error {
    Error::Arrow { message: error.to_string() }
}

/// Keys with one NaN and one zero.
fn canonical(column: &ArrayRef) -> ArrayRef {
    fn floats<P: ArrowPrimitiveType>(
        column: &ArrayRef,
        one: impl Fn(P::Native) -> P::Native,
    ) -> ArrayRef {
        let keys: PrimitiveArray<P> = column.as_primitive::<P>().unary(one);
        Arc::new(keys)
    }
    match column.data_type() {
        DataType::Float16 => floats::<Float16Type>(column, |x| {
            let zero = half::f16::ZERO;
            if x.is_nan() {
                half::f16::NAN
            } else if x == zero {
                zero
            } else {
                x
            }
        }),
        DataType::Float32 => floats::<Float32Type>(column, |x| {
            if x.is_nan() {
                f32::NAN
            } else if x == 0.0 {
                0.0
            } else {
                x
            }
        }),
        DataType::Float64 => floats::<Float64Type>(column, |x| {
            if x.is_nan() {
                f64::NAN
            } else if x == 0.0 {
                0.0
            } else {
                x
            }
        }),
        _ => Arc::clone(column),
    }
}

impl Members {
    /// Sorts rows by group, by counting.
    fn new(ids: &[u32], seen: usize) -> Result<Self> {
        let mut next = crate::buffer::vec_of(0usize, seen + 1)?;
        for id in ids {
            next[*id as usize + 1] += 1;
        }
        for i in 0..seen {
            next[i + 1] += next[i];
        }
        let groups = next.windows(2).enumerate().filter(|(_, ends)| ends[0] < ends[1]);
        let groups = groups.map(|(id, ends)| (id as u32, ends[0]..ends[1])).collect();
        let mut rows = crate::buffer::vec_of(0u32, ids.len())?;
        for (row, id) in ids.iter().enumerate() {
            let at = &mut next[*id as usize];
            rows[*at] = row as u32;
            *at += 1;
        }
        Ok(Self { rows, groups, seen })
    }
}

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
        Self { statistic, options, state: None, is_broken: false }
    }

    /// Takes the rows of a batch.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`], [`Error::Mixed`] or [`Error::Width`] if there are not as many rows as
    /// members, or they differ in type or width from those before.
    pub fn update(&mut self, x: &Matrix, members: &Members) -> Result<()> {
        run::call(self.statistic.name(), || {
            if self.is_broken {
                let (argument, expected) = ("self", "a statistic whose updates all ended");
                let got = "one that was interrupted".to_owned();
                return Err(Error::Argument { argument, expected, got });
            }
            if x.rows() != members.len() {
                let (expected, got) = (members.len(), x.rows());
                return Err(Error::Rows { what: "values", expected, got });
            }
            let Self { statistic, options, .. } = *self;
            let x = &*match &self.state {
                Some(state) => x.fitted(state.width())?,
                None => std::borrow::Cow::Borrowed(x),
            };
            let (element, width) = (x.element_type(), x.width());
            let state = match &mut self.state {
                Some(state) => state,
                None => {
                    let begun = Begun { statistic, options, element: element.clone(), width };
                    self.state.insert(with_reducer(statistic, element, &options, begun)?)
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
            let updated = state.update(x, members, &plan);
            self.is_broken = updated.is_err();
            updated
        })
    }

    /// The results: a row for each of so many groups.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type, and
    /// [`Error::Overflow`] for integers whose sum does not fit 64 bits.
    pub fn finish(self, groups: usize) -> Result<Matrix> {
        run::call(self.statistic.name(), || {
            let what = "batches";
            self.state.ok_or(Error::Rows { what, expected: 1, got: 0 })?.finish(groups)
        })
    }
}

/// States of groups, of some types.
trait Grouped: Send + Any {
    fn element(&self) -> &DataType;
    fn width(&self) -> usize;
    fn update(&mut self, x: &Matrix, members: &Members, plan: &Plan) -> Result<()>;
    fn finish(self: Box<Self>, groups: usize) -> Result<Matrix>;
}

struct Begun {
    statistic: Statistic,
    options: ReduceOptions,
    element: DataType,
    width: usize,
}

impl WithReducer for Begun {
    type Out = Box<dyn Grouped>;

    fn with<T: Number, O: Number, R: Reducer<T, Node: Words>, F: Finish<R::Node, O>>(
        self,
        how: How<T, R, F>,
        to: &DataType,
    ) -> Result<Box<dyn Grouped>> {
        let Self { statistic, options, element, width } = self;
        let is_count = statistic == Statistic::Count;
        Ok(Box::new(States::<T, O, R, F> {
            element,
            width,
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

/// The running state of one group, and how many rows it took.
struct Group<T: Number, R: Reducer<T>> {
    running: Running<T, R>,
    rows: u64,
}

struct States<T: Number, O, R: Reducer<T>, F> {
    element: DataType,
    width: usize,
    reducer: R,
    finish: F,
    min_count: u64,
    skip_nulls: bool,
    is_count: bool,
    to: DataType,
    /// None for a group without rows here.
    groups: Vec<Option<Group<T, R>>>,
    made: PhantomData<fn() -> O>,
}

/// Groups that a task takes at most, so that an interrupt does not wait.
const GROUPS_OF_A_TASK: usize = 4096;

impl<T: Number, O: Number, R: Reducer<T>, F: Finish<R::Node, O>> Grouped for States<T, O, R, F> {
    fn element(&self) -> &DataType {
        &self.element
    }

    fn width(&self) -> usize {
        self.width
    }

    fn update(&mut self, x: &Matrix, members: &Members, plan: &Plan) -> Result<()> {
        let (reducer, width) = (self.reducer, self.width);
        let missing = members.seen.saturating_sub(self.groups.len());
        crate::buffer::try_reserve(&mut self.groups, missing)
            .map_err(|bytes| Error::OutOfMemory { bytes })?;
        self.groups.resize_with(members.seen.max(self.groups.len()), || None);
        let (view, level) = (x.view::<T>()?, plan.level(machine()));
        // Ranges of groups with about as many rows each: the states of each range are its own.
        let rows_of_a_task = members.len().div_ceil(8 * plan.threads).max(1);
        let mut tasks = Vec::new();
        let (mut rest, mut first) = (&mut self.groups[..], 0);
        let mut from = 0;
        while from < members.groups.len() {
            let begin = members.groups[from].1.start;
            let within = |(_, rows): &&(u32, Range<usize>)| rows.end - begin <= rows_of_a_task;
            let some = members.groups[from..].iter().take_while(within).count();
            let to = from + some.clamp(1, GROUPS_OF_A_TASK);
            let end = members.groups[to - 1].0 as usize + 1;
            let (states, after) = std::mem::take(&mut rest).split_at_mut(end - first);
            tasks.push((first, states, &members.groups[from..to]));
            (rest, first, from) = (after, end, to);
        }
        run::each_while(plan, tasks, TileWorkspace::default, |workspace, task, go_on| {
            let (first, states, groups) = task;
            for (i, (id, rows)) in groups.iter().enumerate() {
                if i % 64 == 63 && !go_on() {
                    return;
                }
                let indices = &members.rows[rows.clone()];
                let state = states[*id as usize - first].get_or_insert_with(|| Group {
                    running: Running::new(reducer, width, 0, None),
                    rows: 0,
                });
                let gathered = Gathered { view: &view, indices };
                let all = (0..indices.len(), 0..width);
                state.running.update(level, &gathered, all, None, workspace);
                state.rows += indices.len() as u64;
            }
        })
    }

    fn finish(mut self: Box<Self>, groups: usize) -> Result<Matrix> {
        let (width, finish) = (self.width, self.finish);
        let too_large = |limit| Error::TooLarge { rows: groups, width, limit };
        let results = groups.checked_mul(width).ok_or_else(|| too_large("the address space"))?;
        let (mut counts, mut values) = (Output::<i64>::new(results)?, Output::<O>::new(results)?);
        counts.fill(0);
        values.fill(O::default());
        let mut valid = crate::buffer::vec_of(false, results)?;
        let mut failed = None;
        for (g, group) in self.groups.drain(..).enumerate() {
            let Some(Group { running, rows }) = group else { continue };
            let all = (!self.skip_nulls).then_some(rows);
            let required = Required { min: self.min_count, all };
            let Seen { nodes, counts: seen } = running.nodes();
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
        if self.is_count {
            let counts = array_of(counts, None, &self.to)?;
            return lists(&counts, groups, width);
        }
        if let Some(index) = failed {
            return Err(Error::Overflow { what: "group", index, into: self.to });
        }
        let nulls = matrix::from_bits(results, |i| valid[i])?;
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        lists(&array_of(values, nulls, &self.to)?, groups, width)
    }
}

/// Numbers as fixed-size lists.
fn lists(flat: &ArrayRef, rows: usize, width: usize) -> Result<Matrix> {
    let data = flat.to_data();
    let (values, nulls) = (data.buffers()[0].clone(), flat.nulls().cloned());
    Matrix::of_lists(flat.data_type().clone(), rows, width, values, nulls, None)
}
