//! The result of a function in a shape that can be compared, and the comparison.

use arrow_schema::DataType;
use raptors_arrow::compute::Value;
use raptors_arrow::{Error, Matrix};

use super::numbers::{self, Number};
use super::{Table, forms};

/// The result of a function: one part, or one for each name that it gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub parts: Vec<Part>,
}

/// Numbers in some shape: each value's bits, `None` for null.
#[derive(Clone, PartialEq)]
pub struct Part {
    pub element: DataType,
    /// Number of rows and width, for a matrix.
    pub shape: Option<(usize, usize)>,
    /// Null rows, for a matrix.
    pub row_is_null: Vec<bool>,
    /// Values row by row.
    pub bits: Vec<Option<u64>>,
    /// Of an expected part: how far each value may be off, infinity for "anything may come";
    /// `None` for not at all.
    pub within: Option<Vec<f64>>,
    /// Of an expected part: whether a NaN may keep the bits that it came with.
    pub keeps_nan: bool,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let some: Vec<_> = self.bits.iter().take(12).collect();
        write!(f, "{} {:?} null rows ", self.element, self.shape)?;
        let rows = self.row_is_null.iter().enumerate().filter(|(_, null)| **null);
        write!(f, "{:?} ", rows.map(|(row, _)| row).take(12).collect::<Vec<_>>())?;
        write!(f, "bits {some:x?}")
    }
}

/// Why a call fails, as far as the oracle says it.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The first row (or column) of a result that its type cannot hold.
    Overflow {
        what: &'static str,
        index: usize,
        into: DataType,
    },
    DivisionByZero {
        row: usize,
    },
    /// A row that divides by zero in one element and overflows in another: either may be said.
    Either {
        row: usize,
        into: DataType,
    },
    /// A number that the element type cannot hold.
    Number {
        element: DataType,
    },
}

impl Failure {
    /// Whether the error says this.
    pub fn is(&self, error: &Error) -> bool {
        match (self, error.kind()) {
            (
                Self::Overflow { what, index, into },
                Error::Overflow { what: w, index: i, into: t, .. },
            ) => what == w && index == i && into == t,
            (Self::DivisionByZero { row }, Error::DivisionByZero { row: r, .. })
            | (Self::Either { row, .. }, Error::DivisionByZero { row: r, .. }) => row == r,
            (Self::Either { row, into }, Error::Overflow { what, index, into: t, .. }) => {
                *what == "row" && row == index && into == t
            }
            (Self::Overflow { what, index, into }, Error::Cast { row, into: t }) => {
                *what == "row" && index == row && into == t
            }
            (Self::Number { element }, Error::Number { element: e, .. }) => element == e,
            _ => false,
        }
    }
}

impl Part {
    pub fn of_values(element: &DataType, values: &[Option<Number>]) -> Self {
        Self {
            element: element.clone(),
            shape: None,
            row_is_null: Vec::new(),
            bits: values.iter().map(|v| v.map(|v| v.bits(element))).collect(),
            within: None,
            keeps_nan: false,
        }
    }

    pub fn of_table(table: &Table) -> Self {
        Self {
            shape: Some((table.rows.len(), table.width)),
            row_is_null: table.rows.iter().map(Option::is_none).collect(),
            ..Self::of_values(&table.element, &table.flat())
        }
    }

    fn of_array(array: &dyn arrow_array::Array) -> Self {
        let element = array.data_type().clone();
        Self { bits: numbers::bits(array), ..Self::of_values(&element, &[]) }
    }

    fn of_matrix(matrix: &Matrix) -> Self {
        let (row_is_null, bits) = forms::read(matrix);
        let shape = Some((matrix.rows(), matrix.width()));
        assert_eq!(row_is_null.len(), matrix.rows(), "rows that were read");
        let element = matrix.element_type();
        Self { shape, row_is_null, bits, ..Self::of_values(element, &[]) }
    }

    pub fn value(&self, bits: u64) -> f64 {
        match self.element {
            DataType::Float64 => f64::from_bits(bits),
            DataType::Float32 => f32::from_bits(bits as u32).into(),
            DataType::Float16 => half::f16::from_bits(bits as u16).to_f64_const(),
            _ => panic!("{} has no tolerance", self.element),
        }
    }

    /// Whether value `i` may be this.
    fn is_close(&self, i: usize, expected: Option<u64>, got: Option<u64>) -> bool {
        // Where anything may come, so may null: a spread that vanishes is none.
        if expected.is_some() && self.within.as_ref().is_some_and(|w| w[i] == f64::INFINITY) {
            return true;
        }
        let (Some(expected), Some(got)) = (expected, got) else { return expected == got };
        let is_nan = || self.value(expected).is_nan() && self.value(got).is_nan();
        if expected == got {
            return true;
        }
        match &self.within {
            Some(within) => {
                let (expected, got) = (self.value(expected), self.value(got));
                is_nan() || expected == got || (expected - got).abs() <= within[i]
            }
            None => self.keeps_nan && self.element.is_floating() && is_nan(),
        }
    }

    /// The first value that `got` has no right to, if it has the same form.
    fn first_wrong(&self, got: &Self) -> Option<usize> {
        let pairs = self.bits.iter().zip(&got.bits).enumerate();
        let mut wrong = pairs.filter(|(i, (expected, got))| !self.is_close(*i, **expected, **got));
        wrong.next().map(|(i, _)| i)
    }

    /// Whether `got` is this, within what this allows.
    fn agrees(&self, got: &Self) -> bool {
        self.element == got.element
            && self.shape == got.shape
            && self.row_is_null == got.row_is_null
            && self.bits.len() == got.bits.len()
            && self.first_wrong(got).is_none()
    }
}

impl Outcome {
    pub fn one(part: Part) -> Self {
        Self { parts: vec![part] }
    }

    pub fn of_table(table: &Table) -> Self {
        Self::one(Part::of_table(table))
    }

    pub fn of_value(value: &Value) -> Self {
        match value {
            Value::Scalar(array) | Value::Vector(array) => Self::one(Part::of_array(array)),
            Value::Matrix(matrix) => Self::one(Part::of_matrix(matrix)),
            Value::Named(values) => {
                let parts = values.iter().flat_map(|(_, value)| Self::of_value(value).parts);
                Self { parts: parts.collect() }
            }
            Value::Ragged(_) => panic!("no argument is ragged"),
            Value::Number(_) | Value::Integer(_) => panic!("no function gives a bare number"),
        }
    }

    /// What is to be expected from a layout that cannot say that a row is null.
    #[must_use]
    pub fn without_null_rows(mut self) -> Self {
        self.parts.iter_mut().for_each(|part| part.row_is_null.fill(false));
        self
    }

    /// Where the values of a result begin that differ from what is expected, if any do.
    pub fn difference(
        expected: &Result<Self, Failure>,
        got: &Result<Value, Error>,
    ) -> Option<String> {
        match (expected, got) {
            (Err(expected), Err(got)) if expected.is(got) => None,
            (Ok(expected), Ok(value)) => {
                let got = Self::of_value(value);
                let agree = expected.parts.len() == got.parts.len()
                    && expected.parts.iter().zip(&got.parts).all(|(e, g)| e.agrees(g));
                (!agree).then(|| expected.explained(&got))
            }
            (Ok(_), Err(error)) => Some(format!("got the error {error:?}")),
            (Err(expected), Ok(value)) => {
                Some(format!("expected {expected:?}, got {:?}", Self::of_value(value)))
            }
            (Err(expected), Err(got)) => Some(format!("expected {expected:?}, got {got:?}")),
        }
    }

    fn explained(&self, got: &Self) -> String {
        let first = self.parts.iter().zip(&got.parts).find_map(|(e, g)| {
            let i = e.first_wrong(g)?;
            let within = e.within.as_ref().map(|within| within[i]);
            Some(format!("value {i}: {:x?} and not {:x?}, within {within:?}", e.bits[i], g.bits[i]))
        });
        let first = first.unwrap_or_else(|| "another form".to_owned());
        format!("{first}\n expected {self:?}\n got      {got:?}")
    }
}
