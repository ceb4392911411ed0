//! The keys of groups: from columns of keys to the number of each row's group, and the rows of each.
//!
//! ```text
//! one column of numbers, dates and the like   the value, as 64 bits, is hashed; values that lie close
//!                                             together are looked up in a table of their range first
//! anything else, or several columns           the bytes of arrow's row format are hashed
//! ```

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::matrix;
use crate::memory::{self, Gather as _};

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
    hasher: DefaultHashBuilder,
    keys: Keys,
}

/// The keys of all groups, in the order of their numbers.
enum Keys {
    /// Of one column whose values are a few bytes.
    KeyWords {
        key: DataType,
        width: usize,
        table: HashTable<(u64, u32)>,
        words: Vec<u64>,
        null: Option<u32>,
    },
    /// As bytes, and where each ends.
    Rows { converter: RowConverter, table: HashTable<u32>, bytes: Vec<u8>, ends: Vec<usize> },
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Groups {{ {} }}", self.len())
    }
}

/// Rows that are looked up before an interrupt is asked for.
const ROWS_OF_A_STEP: usize = 1 << 16;

impl Groups {
    /// No group yet; keys will have these types.
    ///
    /// # Errors
    ///
    /// [`Error::Arrow`] for types that cannot be keys.
    pub fn new<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Result<Self> {
        let types: Vec<&DataType> = types.into_iter().gather();
        let hasher = DefaultHashBuilder::default();
        let keys = match (&types[..], types.first().and_then(|key| key.primitive_width())) {
            ([key], Some(width @ (1 | 2 | 4 | 8))) => {
                let (table, words) = (HashTable::new(), Vec::new());
                Keys::KeyWords { key: (*key).clone(), width, table, words, null: None }
            }
            _ => {
                let fields = types.into_iter().map(|key| SortField::new(key.clone())).gather();
                let converter = RowConverter::new(fields).map_err(arrow)?;
                let (bytes, ends) = (Vec::new(), Vec::new());
                Keys::Rows { converter, table: HashTable::new(), bytes, ends }
            }
        };
        Ok(Self { hasher, keys })
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        match &self.keys {
            Keys::KeyWords { words, .. } => words.len(),
            Keys::Rows { ends, .. } => ends.len(),
        }
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The group of each row: of those seen before, or a new one.
    ///
    /// # Errors
    ///
    /// [`Error::Arrow`] if the columns are not of the types that were said, and
    /// [`Error::TooLarge`] for more than 2³² groups or rows.
    pub fn assign(&mut self, columns: &[ArrayRef]) -> Result<Members> {
        memory::caught(|| {
            let rows = columns.first().map_or(0, |column| column.len());
            u32::try_from(rows).map_err(|_| too_many(rows))?;
            let mut ids = crate::buffer::vec_with_capacity(rows)?;
            let hasher = &self.hasher;
            match &mut self.keys {
                Keys::KeyWords { key, width, table, words, null } => {
                    let data = match columns {
                        [column] if column.data_type() == key => {
                            memory::headroom(rows * *width);
                            canonical(column).to_data()
                        }
                        _ => {
                            let got = columns.first().map(|column| column.data_type());
                            return Err(Error::Mixed {
                                what: "keys",
                                expected: key.clone(),
                                got: got.cloned().unwrap_or(DataType::Null),
                            });
                        }
                    };
                    let mut found = KeyWords { hasher, table, words, null };
                    found.assign(&data, *width, &mut ids)?;
                }
                Keys::Rows { converter, table, bytes, ends } => {
                    run::in_steps(0..rows, ROWS_OF_A_STEP, |some| {
                        let columns =
                            columns.iter().map(|column| column.slice(some.start, some.len()));
                        let columns = columns.gather();
                        let bytes_of = |column: &ArrayRef| column.to_data().get_slice_memory_size();
                        let sizes = columns.iter().map(|column| bytes_of(column).unwrap_or(0));
                        memory::headroom(
                            sizes.sum::<usize>() * 3 + some.len() * columns.len() * 64,
                        );
                        let columns = columns.iter().map(canonical).gather();
                        for row in &converter.convert_columns(&columns).map_err(arrow)? {
                            let key = row.data();
                            let hash = hasher.hash_one(key);
                            if let Some(id) =
                                table.find(hash, |id| of_group(bytes, ends, *id) == key)
                            {
                                ids.push(*id);
                                continue;
                            }
                            let id = u32::try_from(ends.len()).map_err(|_| too_many(ends.len()))?;
                            memory::extend_from_slice(bytes, key);
                            memory::push(ends, bytes.len());
                            let rehash = |id: &u32| hasher.hash_one(of_group(bytes, ends, *id));
                            reserve_one(table, rehash);
                            table.insert_unique(hash, id, rehash);
                            ids.push(id);
                        }
                        Ok(())
                    })?;
                }
            }
            Members::new(&ids, self.len())
        })
    }

    /// The keys of all groups, in the order of their numbers: a column for each.
    ///
    /// # Errors
    ///
    /// None but [`Error::Arrow`], which would be a bug.
    pub fn keys(&self) -> Result<Vec<ArrayRef>> {
        memory::caught(|| match &self.keys {
            Keys::KeyWords { key, width, words, null, .. } => {
                let mut bytes = crate::buffer::vec_with_capacity(words.len() * width)?;
                words
                    .iter()
                    .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()[..*width]));
                let valid =
                    null.map(|null| matrix::from_bits(words.len(), |id| id != null as usize));
                let data = ArrayData::builder(key.clone())
                    .len(words.len())
                    .add_buffer(Buffer::from_vec(bytes))
                    .nulls(valid.transpose()?)
                    .align_buffers(true)
                    .build()
                    .map_err(arrow)?;
                Ok(vec![make_array(data)])
            }
            Keys::Rows { converter, bytes, ends, .. } => {
                memory::headroom(bytes.len().saturating_mul(2));
                let parser = converter.parser();
                let groups = (0..ends.len() as u32).map(|id| of_group(bytes, ends, id));
                converter.convert_rows(groups.map(|key| parser.parse(key))).map_err(arrow)
            }
        })
    }
}

fn too_many(rows: usize) -> Error {
    Error::TooLarge { rows, width: 1, limit: "32-bit row numbers" }
}

/// Makes room for one more group.
fn reserve_one<T>(table: &mut HashTable<T>, rehash: impl Fn(&T) -> u64) {
    if table.len() == table.capacity() {
        let bytes = table.allocation_size().saturating_mul(2);
        memory::granted(memory::or_released(|| table.try_reserve(1, &rehash).ok()).ok_or(bytes));
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

/// Groups whose keys are words.
struct KeyWords<'a> {
    hasher: &'a DefaultHashBuilder,
    table: &'a mut HashTable<(u64, u32)>,
    words: &'a mut Vec<u64>,
    null: &'a mut Option<u32>,
}

/// No group, in a table of a range of keys.
const NONE: u32 = u32::MAX;

impl KeyWords<'_> {
    fn assign(&mut self, data: &ArrayData, width: usize, ids: &mut Vec<u32>) -> Result<()> {
        match width {
            1 => self.assign_each(data, data.buffer::<u8>(0), ids),
            2 => self.assign_each(data, data.buffer::<u16>(0), ids),
            4 => self.assign_each(data, data.buffer::<u32>(0), ids),
            _ => self.assign_each(data, data.buffer::<u64>(0), ids),
        }
    }

    fn assign_each<W: Copy + Into<u64>>(
        &mut self,
        data: &ArrayData,
        keys: &[W],
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let keys = &keys[..data.len()];
        let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
        let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        // What is under a null may be anything; it costs no more than a larger range.
        let (mut low, mut high) = (u64::MAX, 0);
        run::in_steps(0..keys.len(), ROWS_OF_A_STEP, |some| {
            let each = keys[some].iter().map(|key| (*key).into());
            (low, high) = each.fold((low, high), |(low, high), key| (low.min(key), high.max(key)));
            Ok(())
        })?;
        let range = high.checked_sub(low).and_then(|range| usize::try_from(range).ok());
        let most = keys.len().saturating_mul(2).max(1 << 10);
        let mut near = match range.filter(|range| *range < most) {
            Some(range) => crate::buffer::vec_of(NONE, range + 1)?,
            None => Vec::new(),
        };
        run::in_steps(0..keys.len(), ROWS_OF_A_STEP, |rows| {
            for row in rows {
                if !is_valid(row) {
                    let id = match *self.null {
                        Some(id) => id,
                        None => *self.null.insert(next(self.words, 0)?),
                    };
                    ids.push(id);
                    continue;
                }
                let key: u64 = keys[row].into();
                let id = match near.get_mut(key.wrapping_sub(low) as usize) {
                    Some(slot) if *slot != NONE => *slot,
                    Some(slot) => {
                        *slot = self.find(key)?;
                        *slot
                    }
                    None => self.find(key)?,
                };
                ids.push(id);
            }
            Ok(())
        })
    }

    fn find(&mut self, key: u64) -> Result<u32> {
        let Self { hasher, table, words, .. } = self;
        let hash = hasher.hash_one(key);
        if let Some((_, id)) = table.find(hash, |(own, _)| *own == key) {
            return Ok(*id);
        }
        let id = next(words, key)?;
        let rehash = |(key, _): &(u64, u32)| hasher.hash_one(key);
        reserve_one(table, rehash);
        table.insert_unique(hash, (key, id), rehash);
        Ok(id)
    }
}

/// The number of a new group.
fn next(words: &mut Vec<u64>, key: u64) -> Result<u32> {
    let id = u32::try_from(words.len()).ok().filter(|id| *id != NONE);
    let id = id.ok_or_else(|| too_many(words.len()))?;
    memory::push(words, key);
    Ok(id)
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
        DataType::Float16 => floats::<Float16Type>(column, |x| match x {
            x if x.is_nan() => half::f16::NAN,
            x if x == half::f16::ZERO => half::f16::ZERO,
            x => x,
        }),
        DataType::Float32 => floats::<Float32Type>(column, |x| match x {
            x if x.is_nan() => f32::NAN,
            0.0 => 0.0,
            x => x,
        }),
        DataType::Float64 => floats::<Float64Type>(column, |x| match x {
            x if x.is_nan() => f64::NAN,
            0.0 => 0.0,
            x => x,
        }),
        _ => Arc::clone(column),
    }
}

/// The rows of a batch, group by group.
#[derive(Clone, Debug)]
pub struct Members {
    /// Rows, those of one group after those of another, in their order.
    rows: Vec<u32>,
    /// The groups that have rows, in the order of their numbers, and where in `rows` each ends.
    ids: Vec<u32>,
    ends: Vec<u32>,
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

    /// How many groups there were in all when the rows came.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// The groups that have rows, in the order of their numbers.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Where in all rows those of the `i`-th of these groups are.
    pub(super) fn range(&self, i: usize) -> Range<usize> {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        from as usize..self.ends[i] as usize
    }

    /// The rows of the `i`-th of these groups, in their order.
    pub(super) fn rows(&self, i: usize) -> &[u32] {
        &self.rows[self.range(i)]
    }

    /// The first or the last row of each group that has any for which `is_wanted`: the numbers of
    /// these groups, and the rows.
    pub fn ends(&self, last: bool, is_wanted: impl Fn(usize) -> bool) -> (Vec<u32>, Vec<u32>) {
        let wanted = |row: &&u32| is_wanted(**row as usize);
        let found = (0..self.ids.len()).filter_map(|i| {
            let mut rows = self.rows(i).iter();
            let row = if last { rows.rfind(wanted) } else { rows.find(wanted) };
            row.map(|row| (self.ids[i], *row))
        });
        let found = found.gather();
        (found.iter().map(|(id, _)| *id).gather(), found.iter().map(|(_, row)| *row).gather())
    }

    /// Rows whose groups are known: row `i` is of group `of_rows[i]`, of so many groups.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] for a number that is none of a group.
    pub fn of_groups(of_rows: &[u32], groups: usize) -> Result<Self> {
        u32::try_from(of_rows.len()).map_err(|_| too_many(of_rows.len()))?;
        match of_rows.iter().max() {
            Some(most) if *most as usize >= groups => {
                let got = *most as usize + 1;
                Err(Error::Rows { what: "groups", expected: groups, got })
            }
            _ => Self::new(of_rows, groups),
        }
    }

    /// Rows in lists: list `i` is group `i`.
    pub(super) fn of_lists(lists: &[Range<usize>]) -> Result<Self> {
        let len = lists.iter().map(ExactSizeIterator::len).sum();
        u32::try_from(len).map_err(|_| too_many(len))?;
        let mut rows = crate::buffer::vec_with_capacity(len)?;
        let mut ids = crate::buffer::vec_with_capacity(lists.len())?;
        let mut ends = crate::buffer::vec_with_capacity(lists.len())?;
        for (id, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            u32::try_from(list.end).map_err(|_| too_many(list.end))?;
            rows.extend(list.clone().map(|row| row as u32));
            ids.push(id as u32);
            ends.push(rows.len() as u32);
        }
        Ok(Self { rows, ids, ends, seen: lists.len() })
    }

    /// Sorts rows by group, by counting.
    fn new(of_rows: &[u32], seen: usize) -> Result<Self> {
        let mut next = crate::buffer::vec_of(0u32, seen + 1)?;
        run::in_steps(0..of_rows.len(), ROWS_OF_A_STEP, |some| {
            of_rows[some].iter().for_each(|id| next[*id as usize + 1] += 1);
            Ok(())
        })?;
        for i in 0..seen {
            next[i + 1] += next[i];
        }
        let present = next.windows(2).filter(|ends| ends[0] < ends[1]).count();
        let mut ids = crate::buffer::vec_with_capacity(present)?;
        let mut ends = crate::buffer::vec_with_capacity(present)?;
        for (id, of_group) in next.windows(2).enumerate() {
            if of_group[0] < of_group[1] {
                ids.push(id as u32);
                ends.push(of_group[1]);
            }
        }
        let mut rows = crate::buffer::vec_of(0u32, of_rows.len())?;
        run::in_steps(0..of_rows.len(), ROWS_OF_A_STEP, |some| {
            for row in some {
                let at = &mut next[of_rows[row] as usize];
                rows[*at as usize] = row as u32;
                *at += 1;
            }
            Ok(())
        })?;
        Ok(Self { rows, ids, ends, seen })
    }
}
