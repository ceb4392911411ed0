//! Options of functions that are called by name.

use std::collections::BTreeMap;
use std::fmt;

use super::{Per, ReduceOptions};
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
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Flag(true) => f.write_str("True"),
            Self::Flag(false) => f.write_str("False"),
            Self::Count(n) => write!(f, "{n}"),
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
pub struct Options(BTreeMap<String, OptionValue>);

impl Options {
    /// No options set.
    pub fn new() -> Self {
        Self::default()
    }

    /// These options and one more.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// The options that are set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// What values an option takes, and which it has if it is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// `None`, 0 or 1.
    Axis,
    /// Yes or no.
    Flag(bool),
    /// A whole number from 0 on.
    Count(usize),
}

impl OptionKind {
    /// The value of an option that is not set.
    pub fn default_value(self) -> OptionValue {
        match self {
            Self::Axis => OptionValue::None,
            Self::Flag(flag) => OptionValue::Flag(flag),
            Self::Count(n) => OptionValue::Count(n as i64),
        }
    }

    /// What it takes, for an error.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Axis => "None, 0 or 1",
            Self::Flag(_) => "True or False",
            Self::Count(_) => "a whole number from 0 on",
        }
    }

    fn takes(self, value: &OptionValue) -> bool {
        match (self, value) {
            (Self::Axis, OptionValue::None | OptionValue::Count(0 | 1)) => true,
            (Self::Flag(_), OptionValue::Flag(_)) => true,
            (Self::Count(_), OptionValue::Count(n)) => *n >= 0,
            _ => false,
        }
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
}

/// Options that were checked against a function's own.
#[derive(Clone, Debug)]
pub(super) struct Checked<'a> {
    specs: &'static [OptionSpec],
    given: &'a Options,
}

impl<'a> Checked<'a> {
    pub(super) fn new(
        function: &'static str,
        specs: &'static [OptionSpec],
        given: &'a Options,
    ) -> Result<Self> {
        for (name, value) in given.iter() {
            let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
                return Err(Error::NoSuchOption {
                    function,
                    option: name.to_owned(),
                    known: specs.iter().map(|spec| spec.name).collect(),
                });
            };
            if !spec.kind.takes(value) {
                return Err(Error::OptionValue {
                    function,
                    option: spec.name,
                    expected: spec.kind.expected(),
                    got: value.to_string(),
                });
            }
        }
        Ok(Self { specs, given })
    }

    /// An option's value. A name that the function does not declare has none.
    fn get(&self, name: &str) -> OptionValue {
        let default = || self.specs.iter().find(|spec| spec.name == name);
        match self.given.0.get(name) {
            Some(value) => value.clone(),
            None => default().map_or(OptionValue::None, |spec| spec.kind.default_value()),
        }
    }

    pub(super) fn axis(&self) -> Option<i64> {
        match self.get("axis") {
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
        }
    }
}
