//! Options of functions that are called by name.

use std::borrow::Cow;
use std::fmt;

use arrow_schema::DataType;

use super::{Interpolation, Metric, Operand, Order, Per, ReduceOptions};
use crate::error::{Error, Result};

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// No value: the option's own meaning of none.
    None,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Count(i64),
    /// Any number.
    Number(f64),
    /// A word.
    Text(String),
    /// Several, one for each column.
    List(Vec<Self>),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Flag(true) => f.write_str("True"),
            Self::Flag(false) => f.write_str("False"),
            Self::Count(n) => write!(f, "{n}"),
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(all) => {
                f.write_str("[")?;
                for (i, one) in all.iter().enumerate() {
                    write!(f, "{}{one}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

impl From<bool> for OptionValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<i64> for OptionValue {
    fn from(n: i64) -> Self {
        Self::Count(n)
    }
}

impl From<f64> for OptionValue {
    fn from(n: f64) -> Self {
        Self::Number(n)
    }
}

impl From<&str> for OptionValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<T: Into<OptionValue>> From<Option<T>> for OptionValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Options by name; those not set have the function's defaults.
///
/// ```
/// use raptors_arrow::compute::Options;
///
/// let options = Options::new().set("axis", 0).set("skip_nulls", false);
/// assert_eq!(options.iter().count(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(Vec<(Cow<'static, str>, OptionValue)>);

impl Options {
    /// No options set.
    pub fn new() -> Self {
        Self::default()
    }

    /// These options and one more.
    #[must_use]
    pub fn set(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<OptionValue>,
    ) -> Self {
        let (name, value) = (name.into(), value.into());
        // In the order of their names, so that options set in another order are the same.
        match self.0.binary_search_by(|(set, _)| set.cmp(&name)) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
        self
    }

    /// The value of an option, if it is set.
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        self.0.iter().find(|(set, _)| set == name).map(|(_, value)| value)
    }

    /// The options that are set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }
}

/// What values an option takes, and which it has if it is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// `None`, 0 or 1; -1 is 1.
    Axis(Option<i64>),
    /// Yes or no.
    Flag(bool),
    /// A whole number from 0 on.
    Count(usize),
    /// The order of a norm: 1, 2 or infinity. 2 if it is not set.
    Order,
    /// One of some words: the first if it is not set.
    Choice(&'static [&'static str]),
    /// 0 or 1; -1 is 1.
    Along(i64),
    /// `None` or a number, or such for each column. `None` if it is not set.
    Bound,
    /// `None` or a number, which may be a NaN. `None` if it is not set.
    Fill,
    /// A number from 0 to 1. A half if it is not set.
    Fraction,
    /// The name of an element type, which has to be set.
    Type,
    /// The name of an element type, or `None`, which it is if it is not set.
    OptionalType,
}

impl OptionKind {
    /// The value of an option that is not set.
    pub fn default_value(self) -> OptionValue {
        match self {
            Self::Axis(axis) => axis.into(),
            Self::Flag(flag) => OptionValue::Flag(flag),
            Self::Count(n) => OptionValue::Count(n as i64),
            Self::Order => OptionValue::Count(2),
            Self::Choice(words) => words[0].into(),
            Self::Along(axis) => OptionValue::Count(axis),
            Self::Bound | Self::Fill | Self::Type | Self::OptionalType => OptionValue::None,
            Self::Fraction => OptionValue::Number(0.5),
        }
    }

    /// Whether a call must set it.
    pub fn is_required(self) -> bool {
        self == Self::Type
    }

    /// What it takes, for an error.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Axis(_) => "None, 0 or 1".to_owned(),
            Self::Flag(_) => "True or False".to_owned(),
            Self::Count(_) => "a whole number from 0 on".to_owned(),
            Self::Order => "1, 2 or inf".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Along(_) => "0 (down the columns) or 1 (along the rows)".to_owned(),
            Self::Bound => "None, a number, or a list of them, one for each column".to_owned(),
            Self::Fill => "None or a number".to_owned(),
            Self::Fraction => "a number from 0 to 1".to_owned(),
            Self::OptionalType => format!("None, or {}", Self::Type.expected()),
            Self::Type => format!(
                "the name of an element type: {}",
                TYPES.iter().map(|t| t.0).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    fn takes(self, value: &OptionValue) -> bool {
        match (self, value) {
            (Self::Axis(_), OptionValue::None | OptionValue::Count(-1..=1)) => true,
            (Self::Flag(_), OptionValue::Flag(_)) => true,
            (Self::Count(_), OptionValue::Count(n)) => *n >= 0,
            (Self::Order, value) => order(value).is_some(),
            (Self::Choice(words), OptionValue::Text(word)) => words.contains(&word.as_str()),
            (Self::Along(_), OptionValue::Count(-1..=1)) => true,
            (Self::Fill, OptionValue::None | OptionValue::Count(_) | OptionValue::Number(_)) => {
                true
            }
            (Self::Bound, OptionValue::None | OptionValue::Count(_)) => true,
            (Self::Bound, OptionValue::Number(n)) => !n.is_nan(),
            (Self::Bound, OptionValue::List(all)) => {
                all.iter().all(|one| !matches!(one, OptionValue::List(_)) && self.takes(one))
            }
            (Self::OptionalType, OptionValue::None) => true,
            (Self::OptionalType, name) => Self::Type.takes(name),
            (Self::Fraction, OptionValue::Number(n)) => (0.0..=1.0).contains(n),
            (Self::Fraction, OptionValue::Count(n)) => (0..=1).contains(n),
            (Self::Type, OptionValue::Text(name)) => element_type(name).is_some(),
            _ => false,
        }
    }
}

/// The element types by the names they have in pyarrow and NumPy.
pub(crate) static TYPES: [(&str, DataType); 11] = [
    ("float16", DataType::Float16),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
];

/// The element type of a name; pyarrow prints some under names of its own.
pub(crate) fn element_type(name: &str) -> Option<DataType> {
    named_type(name).cloned()
}

fn named_type(name: &str) -> Option<&'static DataType> {
    let name = match name {
        "halffloat" => "float16",
        "float" => "float32",
        "double" => "float64",
        other => other,
    };
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, element)| element)
}

fn order(value: &OptionValue) -> Option<Order> {
    match value {
        OptionValue::Count(1) => Some(Order::One),
        OptionValue::Count(2) => Some(Order::Two),
        OptionValue::Number(n) if *n == 1.0 => Some(Order::One),
        OptionValue::Number(n) if *n == 2.0 => Some(Order::Two),
        OptionValue::Number(n) if *n == f64::INFINITY => Some(Order::Infinity),
        OptionValue::Text(word) if word == "inf" => Some(Order::Infinity),
        _ => None,
    }
}

/// An option of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// What it does.
    pub doc: &'static str,
    /// Whether Python takes it positionally too, after the arguments.
    pub positional: bool,
}

fn refused(spec: &OptionSpec, got: &OptionValue) -> Error {
    let (option, expected) = (spec.name, spec.kind.expected());
    Error::OptionValue { option, expected, got: got.to_string() }
}

/// A bound of elements.
pub(super) enum Bound {
    None,
    One(Operand<'static>),
    PerColumn(Vec<Option<Operand<'static>>>),
}

/// Options that were checked against a function's own.
#[derive(Clone, Debug)]
pub(super) struct Checked<'a> {
    specs: &'static [OptionSpec],
    given: &'a Options,
}

impl<'a> Checked<'a> {
    pub(super) fn new(specs: &'static [OptionSpec], given: &'a Options) -> Result<Self> {
        for (name, value) in given.iter() {
            let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
                return Err(Error::NoSuchOption {
                    option: name.to_owned(),
                    known: specs.iter().map(|spec| spec.name).collect(),
                });
            };
            if !spec.kind.takes(value) {
                return Err(refused(spec, value));
            }
        }
        let unset = |spec: &&OptionSpec| spec.kind.is_required() && given.get(spec.name).is_none();
        if let Some(spec) = specs.iter().find(unset) {
            return Err(refused(spec, &OptionValue::None));
        }
        Ok(Self { specs, given })
    }

    /// An option's value. A name that the function does not declare has none.
    fn get(&self, name: &str) -> OptionValue {
        let default = || self.specs.iter().find(|spec| spec.name == name);
        match self.given.get(name) {
            Some(value) => value.clone(),
            None => default().map_or(OptionValue::None, |spec| spec.kind.default_value()),
        }
    }

    pub(super) fn count(&self, name: &str) -> usize {
        match self.get(name) {
            OptionValue::Count(n) => usize::try_from(n).unwrap_or(0),
            _ => 0,
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name) == OptionValue::Flag(true)
    }

    pub(super) fn order(&self) -> Order {
        order(&self.get("ord")).unwrap_or(Order::Two)
    }

    /// A number, if it is set.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            OptionValue::Count(n) => Some(n as f64),
            OptionValue::Number(n) => Some(n),
            _ => None,
        }
    }

    pub(super) fn interpolation(&self) -> Option<Interpolation> {
        match self.get("interpolation") {
            OptionValue::Text(word) => Interpolation::named(&word),
            _ => None,
        }
    }

    /// The metric chosen.
    pub(super) fn metric(&self) -> Option<Metric> {
        match self.get("metric") {
            OptionValue::Text(word) => Metric::named(&word),
            _ => None,
        }
    }

    /// A number, or none.
    pub(super) fn bound(&self, name: &str) -> Option<Operand<'static>> {
        match self.bounds(name) {
            Bound::One(number) => Some(number),
            _ => None,
        }
    }

    /// A number, such for each column, or none.
    pub(super) fn bounds(&self, name: &str) -> Bound {
        let number = |value: &OptionValue| match value {
            OptionValue::Count(n) => Some(Operand::from(*n)),
            OptionValue::Number(n) => Some(Operand::from(*n)),
            _ => None,
        };
        match self.get(name) {
            OptionValue::List(all) => Bound::PerColumn(all.iter().map(number).collect()),
            one => number(&one).map_or(Bound::None, Bound::One),
        }
    }

    /// Whether a bound differs from column to column.
    pub(super) fn has_bounds_by_column(&self) -> bool {
        ["min", "max"].iter().any(|name| matches!(self.bounds(name), Bound::PerColumn(_)))
    }

    /// Refuses dimensions that are kept, where results are no arrays of rows and columns.
    pub(super) fn refuse_kept_dimensions(&self) -> Result<()> {
        if !self.flag("keepdims") {
            return Ok(());
        }
        let expected = "False for streams, groups and accumulators".to_owned();
        Err(Error::OptionValue { option: "keepdims", expected, got: "True".to_owned() })
    }

    /// The type that a call computes in, if it is set.
    pub(super) fn dtype(&self) -> Option<&'static DataType> {
        match self.get("dtype") {
            OptionValue::Text(word) => named_type(&word),
            _ => None,
        }
    }

    pub(super) fn element_type(&self, name: &str) -> DataType {
        match self.get(name) {
            OptionValue::Text(word) => element_type(&word).unwrap_or(DataType::Null),
            _ => DataType::Null,
        }
    }

    pub(super) fn axis(&self) -> Option<i64> {
        match self.get("axis") {
            // The last axis, as NumPy counts.
            OptionValue::Count(-1) => Some(1),
            OptionValue::Count(n) => Some(n),
            _ => None,
        }
    }

    pub(super) fn per(&self) -> Per {
        match self.axis() {
            Some(0) => Per::Column,
            Some(_) => Per::Row,
            None => Per::Matrix,
        }
    }

    pub(super) fn reduce(&self) -> ReduceOptions {
        let default = ReduceOptions::default();
        ReduceOptions {
            skip_nulls: match self.get("skip_nulls") {
                OptionValue::Flag(flag) => flag,
                _ => default.skip_nulls,
            },
            min_count: match self.get("min_count") {
                OptionValue::Count(n) => usize::try_from(n).unwrap_or(default.min_count),
                _ => default.min_count,
            },
            ddof: self.count("ddof"),
            order: self.order(),
            dtype: self.dtype(),
        }
    }
}
