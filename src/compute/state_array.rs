//! States as an Arrow struct, one row each: what `docs/guide/state.md` describes field by field.
//!
//! ```text
//! version  int32                the layout; a newer one is refused
//! of       dictionary<string>   what the state is of: statistic, axis, options, element type, width
//! rows     int64                rows that were seen, null or not
//! counts   list<int64>          valid elements: of each column, or one number for all
//! leaves   list<int64>          one for each node of the tree: how many leaves it covers
//! scales   list<int8>           the scale of each element of the nodes; empty if all are plain
//! …        list<number>         the words of the nodes, node by node, in each all columns
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int8Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float32Array, Float64Array, Int8Array, Int32Array,
    Int64Array, LargeListArray, StringArray, StructArray, downcast_integer_array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef};
use serde_json::{Value as Json, json};

use super::options::element_type;
use super::state::State;
use super::{Order, Per, ReduceOptions, Statistic, get_function, registry::Driver};
use crate::error::{Error, Result};
use crate::kernel::{Counts, Nodes, Partial, Reducer, Scale, Tree, WORDS, Word, Words};
use crate::matrix::Number;
use crate::memory::{self, Gather as _};
use crate::type_name::TypeName;

/// The newest layout: what has weights is written in it, all else in [`PLAIN`]. Older ones are read.
pub(crate) const VERSION: i32 = 2;

/// The layout of what has no weights.
const PLAIN: i32 = 1;

/// Rows, or leaves, of a state at most: sums of many such numbers still fit 64 bits.
const MAX: i64 = 1 << 48;

/// What a state is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) statistic: Statistic,
    pub(super) is_weighted: bool,
    pub(super) per: Per,
    pub(super) options: ReduceOptions,
    pub(super) element: DataType,
    pub(super) width: usize,
}

impl Description {
    pub(super) fn to_text(&self) -> String {
        let Self { statistic, is_weighted, per, options, element, width } = self;
        let order = match options.order {
            Order::One => "1",
            Order::Two => "2",
            Order::Infinity => "inf",
        };
        let mut text = json!({
            "statistic": statistic.name(),
            "axis": if *per == Per::Column { Json::from(0) } else { Json::Null },
            "element": TypeName(element).to_string(),
            "width": width,
            "skip_nulls": options.skip_nulls,
            "min_count": options.min_count,
            "ddof": options.ddof,
            "ord": order,
        });
        if *is_weighted {
            text["weighted"] = Json::from(true);
        }
        text.to_string()
    }

    fn of_text(text: &str) -> Result<Self> {
        let wrong = || refused("the description of a statistic in the field of", text);
        let json: Json = serde_json::from_str(text).map_err(|_| wrong())?;
        let text_of = |name: &str| json[name].as_str().ok_or_else(wrong);
        let count = |name: &str| {
            json[name].as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(wrong)
        };
        let Driver::Statistic(statistic) = get_function(text_of("statistic")?)?.driver else {
            return Err(wrong());
        };
        let per = match &json["axis"] {
            Json::Null => Per::Matrix,
            axis if axis.as_u64() == Some(0) => Per::Column,
            _ => return Err(wrong()),
        };
        let order = match text_of("ord")? {
            "1" => Order::One,
            "2" => Order::Two,
            "inf" => Order::Infinity,
            _ => return Err(wrong()),
        };
        let options = ReduceOptions {
            skip_nulls: json["skip_nulls"].as_bool().ok_or_else(wrong)?,
            min_count: count("min_count")?,
            ddof: count("ddof")?,
            order,
            dtype: None,
        };
        let element = element_type(text_of("element")?).ok_or_else(wrong)?;
        let is_weighted = json["weighted"].as_bool().unwrap_or(false);
        Ok(Self { statistic, is_weighted, per, options, element, width: count("width")? })
    }

    /// Sequences of a state: columns, or one.
    pub(super) fn sequences(&self) -> usize {
        if self.per == Per::Matrix { 1 } else { self.width }
    }
}

fn refused(expected: &'static str, got: impl ToString) -> Error {
    Error::Argument { argument: "state", expected, got: got.to_string() }
}

/// Lists of numbers while they are written.
struct ListBuilder<V> {
    values: Vec<V>,
    ends: Vec<i64>,
}

impl<V: Copy> ListBuilder<V> {
    fn new() -> Self {
        Self { values: Vec::new(), ends: vec![0] }
    }

    fn extend(&mut self, values: impl ExactSizeIterator<Item = V>) -> Result<()> {
        let reserved = crate::buffer::try_reserve(&mut self.values, values.len());
        reserved.map_err(|bytes| Error::OutOfMemory { bytes })?;
        self.values.extend(values);
        Ok(())
    }

    fn close(&mut self) {
        memory::push(&mut self.ends, self.values.len() as i64);
    }

    fn finish(self, values: impl FnOnce(Vec<V>) -> ArrayRef) -> Result<ArrayRef> {
        let values = values(self.values);
        let item = Arc::new(Field::new("item", values.data_type().clone(), false));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        Ok(Arc::new(LargeListArray::try_new(item, offsets, values, None).map_err(arrow)?))
    }
}

fn arrow(error: arrow_schema::ArrowError) -> Error {
    Error::Arrow { message: error.to_string() }
}

/// Writes states, a row each.
pub(super) struct StateWriter {
    rows: Vec<i64>,
    counts: ListBuilder<i64>,
    leaves: ListBuilder<i64>,
    scales: ListBuilder<i8>,
    words: [ListBuilder<u64>; WORDS],
    fields: &'static [(&'static str, Word)],
}

impl StateWriter {
    pub(super) fn new<N: Words>() -> Self {
        Self {
            rows: Vec::new(),
            counts: ListBuilder::new(),
            leaves: ListBuilder::new(),
            scales: ListBuilder::new(),
            words: std::array::from_fn(|_| ListBuilder::new()),
            fields: N::FIELDS,
        }
    }

    /// Adds a state of so many rows.
    pub(super) fn push<T: Number, R: Reducer<T, Node: Words>>(
        &mut self,
        reducer: R,
        rows: u64,
        state: State<R::Node>,
        width: usize,
    ) -> Result<()> {
        memory::push(&mut self.rows, rows as i64);
        match state.counts {
            Counts::All(n) => self.counts.extend(std::iter::once(n as i64))?,
            Counts::Each(counts) => self.counts.extend(counts.into_iter().map(|n| n as i64))?,
        }
        let mut is_scaled = false;
        let from = self.scales.values.len();
        for (size, nodes) in state.tree.into_stack() {
            self.leaves.extend(std::iter::once(size as i64))?;
            let get = |i: usize| nodes.as_ref().map_or(reducer.nothing(), |nodes| nodes.get(i));
            is_scaled |= (0..width).any(|i| get(i).scale != Scale::Plain);
            self.scales.extend((0..width).map(|i| get(i).scale as i8 - 1))?;
            for (n, words) in self.words.iter_mut().enumerate().take(self.fields.len()) {
                words.extend((0..width).map(|i| get(i).node.to_words()[n]))?;
            }
        }
        if !is_scaled {
            self.scales.values.truncate(from);
        }
        self.counts.close();
        self.leaves.close();
        self.scales.close();
        self.words.iter_mut().for_each(ListBuilder::close);
        Ok(())
    }

    pub(super) fn finish(self, of: &Description) -> Result<StructArray> {
        let len = self.rows.len();
        let keys = Int8Array::from(crate::buffer::vec_of(0i8, len)?);
        let version = if of.is_weighted { VERSION } else { PLAIN };
        let of: ArrayRef = Arc::new(StringArray::from(vec![of.to_text()]));
        let of = DictionaryArray::<Int8Type>::try_new(keys, of).map_err(arrow)?;
        let version = Int32Array::from(crate::buffer::vec_of(version, len)?);
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("version", Arc::new(version)),
            ("of", Arc::new(of)),
            ("rows", Arc::new(Int64Array::from(self.rows))),
            ("counts", self.counts.finish(|n| Arc::new(Int64Array::from(n)))?),
            ("leaves", self.leaves.finish(|n| Arc::new(Int64Array::from(n)))?),
            ("scales", self.scales.finish(|n| Arc::new(Int8Array::from(n)))?),
        ];
        for ((name, word), words) in self.fields.iter().zip(self.words) {
            columns.push((name, words.finish(|words| numbers(*word, words))?));
        }
        let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = columns
            .into_iter()
            .map(|(name, column)| {
                let field = Field::new(name, column.data_type().clone(), false);
                (Arc::new(field), column)
            })
            .unzip();
        StructArray::try_new(fields.into(), columns, None).map_err(arrow)
    }
}

fn numbers(word: Word, words: Vec<u64>) -> ArrayRef {
    let words = words.iter();
    match word {
        Word::F32 => {
            Arc::new(Float32Array::from(words.map(|w| f32::from_bits(*w as u32)).gather()))
        }
        Word::F64 => Arc::new(Float64Array::from(words.map(|w| f64::from_bits(*w)).gather())),
        Word::I64 => Arc::new(Int64Array::from(words.map(|w| *w as i64).gather())),
    }
}

/// Reads states that were written here, or by anybody.
pub(super) struct StateReader<'a> {
    states: &'a StructArray,
    of: Description,
}

impl<'a> StateReader<'a> {
    /// States that are all of one thing; `None` if there are none.
    pub(super) fn new(states: &'a StructArray) -> Result<Option<Self>> {
        let column = |name| column(states, name);
        let (version, of) = (column("version")?, column("of")?);
        let versions = version.as_primitive_opt::<Int32Type>();
        let versions = versions.ok_or_else(|| refused("versions of int32", type_of(version)))?;
        let texts = Texts::new(of)?;
        let mut found: Option<(String, Description)> = None;
        for row in (0..states.len()).filter(|row| states.is_valid(*row)) {
            let version = if versions.is_valid(row) { versions.value(row) } else { 0 };
            if !(1..=VERSION).contains(&version) {
                return Err(Error::StateVersion { known: VERSION, got: version });
            }
            let text = texts.get(row)?;
            match &found {
                Some((seen, _)) if *seen == text => {}
                Some((seen, _)) => {
                    let got = format!("{seen} and {text}");
                    return Err(refused("states of one statistic of one column", got));
                }
                None => found = Some((text.to_owned(), Description::of_text(text)?)),
            }
        }
        Ok(found.map(|(_, of)| Self { states, of }))
    }

    pub(super) fn of(&self) -> &Description {
        &self.of
    }

    /// The state of a row, and how many rows it saw; `None` for a null.
    pub(super) fn get<N: Words>(&self, row: usize) -> Result<Option<(u64, State<N>)>> {
        if self.states.is_null(row) {
            return Ok(None);
        }
        let width = self.of.sequences();
        let rows = column(self.states, "rows")?;
        let rows = rows.as_primitive_opt::<Int64Type>().ok_or_else(|| not_so("rows", rows))?;
        let rows = within(rows.value(row), 0)?;
        let counts = self.integers("counts", row)?;
        let counts = match &counts.values()[..] {
            [all] => Counts::All(within(*all, 0)? as usize),
            each if each.len() == width => {
                Counts::Each(each.iter().map(|n| within(*n, 0)).try_gather()?)
            }
            other => return Err(refused("a count for each column", other.len())),
        };
        let leaves = self.integers("leaves", row)?;
        let scales = self.list("scales", row)?;
        let scales =
            scales.as_primitive_opt::<Int8Type>().ok_or_else(|| not_so("scales", &scales))?;
        let words: Vec<ArrayRef> =
            N::FIELDS.iter().map(|(name, _)| self.list(name, row)).try_gather()?;
        let expected = leaves.len().checked_mul(width);
        let of_elements = |len: usize| Some(len) == expected;
        let has_all = words.iter().all(|words| of_elements(words.len()));
        if !has_all || !(scales.is_empty() || of_elements(scales.len())) {
            return Err(refused("nodes of as many elements as there are columns", words[0].len()));
        }
        let mut stack = memory::with_capacity(leaves.len());
        for (j, size) in leaves.values().iter().enumerate() {
            let size = within(*size, 1)? as usize;
            let mut nodes = Nodes::plain(memory::with_capacity(width));
            for i in j * width..(j + 1) * width {
                let mut all = [0; WORDS];
                for (word, ((_, kind), from)) in all.iter_mut().zip(N::FIELDS.iter().zip(&words)) {
                    *word = word_at(*kind, from, i)?;
                }
                let scale = if scales.is_empty() { 0 } else { scales.value(i) };
                let scale = match scale {
                    -1 => Scale::Up,
                    0 => Scale::Plain,
                    1 => Scale::Down,
                    other => return Err(refused("scales of -1, 0 or 1", other)),
                };
                nodes.push(Partial { node: N::of_words(all), scale });
            }
            stack.push((size, Some(nodes)));
        }
        Ok(Some((rows, State { tree: Tree::of(width, stack), counts })))
    }

    /// The list of a row.
    fn list(&self, name: &'static str, row: usize) -> Result<ArrayRef> {
        let lists = column(self.states, name)?;
        let list = match lists.data_type() {
            DataType::List(_) => lists.as_list::<i32>().value(row),
            DataType::LargeList(_) => lists.as_list::<i64>().value(row),
            _ => return Err(not_so(name, lists)),
        };
        if lists.is_null(row) || list.null_count() > 0 {
            return Err(refused("fields without nulls", format!("a null in {name}")));
        }
        Ok(list)
    }

    fn integers(&self, name: &'static str, row: usize) -> Result<Int64Array> {
        let list = self.list(name, row)?;
        list.as_primitive_opt::<Int64Type>().cloned().ok_or_else(|| not_so(name, &list))
    }
}

fn column<'a>(states: &'a StructArray, name: &'static str) -> Result<&'a ArrayRef> {
    let found = states.column_by_name(name);
    found.ok_or_else(|| refused("the fields of a state", format!("a struct without {name:?}")))
}

fn type_of(array: &ArrayRef) -> String {
    TypeName(array.data_type()).to_string()
}

fn not_so(name: &str, got: &ArrayRef) -> Error {
    refused("the fields of a state", format!("{name} of {}", type_of(got)))
}

fn within(n: i64, min: i64) -> Result<u64> {
    if (min..=MAX).contains(&n) { Ok(n as u64) } else { Err(refused("numbers of rows", n)) }
}

fn word_at(kind: Word, from: &ArrayRef, i: usize) -> Result<u64> {
    let word = match kind {
        Word::F32 => {
            from.as_primitive_opt::<Float32Type>().map(|x| u64::from(x.value(i).to_bits()))
        }
        Word::F64 => from.as_primitive_opt::<Float64Type>().map(|x| x.value(i).to_bits()),
        Word::I64 => from.as_primitive_opt::<Int64Type>().map(|x| x.value(i) as u64),
    };
    word.ok_or_else(|| not_so("words", from))
}

/// Texts of any layout.
struct Texts<'a> {
    values: &'a ArrayRef,
    /// Which of the values each row has, if they are a dictionary.
    keys: Option<&'a dyn Array>,
    all: &'a ArrayRef,
}

impl<'a> Texts<'a> {
    fn new(all: &'a ArrayRef) -> Result<Self> {
        let (values, keys) = match all.as_any_dictionary_opt() {
            Some(dictionary) if !dictionary.values().is_empty() => {
                (dictionary.values(), Some(dictionary.keys()))
            }
            _ => (all, None),
        };
        match values.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {}
            _ if values.is_empty() => {}
            _ => return Err(not_so("of", all)),
        }
        Ok(Self { values, keys, all })
    }

    fn get(&self, row: usize) -> Result<&'a str> {
        // What lies under a null may be any number.
        let at = self.keys.filter(|_| !self.all.is_null(row)).map_or(row, |keys| key(keys, row));
        if self.all.is_null(row) || at >= self.values.len() || self.values.is_null(at) {
            return Err(refused("a description of the statistic", "null"));
        }
        Ok(match self.values.data_type() {
            DataType::LargeUtf8 => self.values.as_string::<i64>().value(at),
            DataType::Utf8View => self.values.as_string_view().value(at),
            _ => self.values.as_string::<i32>().value(at),
        })
    }
}

/// A key of a dictionary.
fn key(keys: &dyn Array, row: usize) -> usize {
    downcast_integer_array!(
        keys => keys.value(row) as usize,
        _ => usize::MAX
    )
}
