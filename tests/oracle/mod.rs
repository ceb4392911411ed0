//! What the tests compare with: tables of optional numbers, every Arrow form of them, and a naive
//! answer for every function of the table of functions.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod calls;
pub mod forms;
pub mod numbers;
pub mod raw;
pub mod spec;

use raptors_arrow::compute::Value;

pub use numbers::{Number, Random};

/// Rows of optional numbers; a row may be null as a whole.
#[derive(Clone, Debug)]
pub struct Table<T> {
    pub width: usize,
    pub rows: Vec<Option<Vec<Option<T>>>>,
}

/// Which nulls a table has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nulls {
    None,
    Rows,
    Elements,
    Both,
    All,
}

impl Nulls {
    pub const EACH: [Self; 5] = [Self::None, Self::Rows, Self::Elements, Self::Both, Self::All];
}

impl<T: Number> Table<T> {
    pub fn random(random: &mut Random, rows: usize, width: usize, nulls: Nulls) -> Self {
        let row_nulls = matches!(nulls, Nulls::Rows | Nulls::Both);
        let element_nulls = matches!(nulls, Nulls::Elements | Nulls::Both);
        let rows = (0..rows)
            .map(|_| {
                if nulls == Nulls::All || row_nulls && random.below(4) == 0 {
                    return None;
                }
                let element = |random: &mut Random| {
                    let value = T::random(random);
                    (!(element_nulls && random.below(4) == 0)).then_some(value)
                };
                Some((0..width).map(|_| element(random)).collect())
            })
            .collect();
        Self { width, rows }
    }

    /// The element, or `None` if it or its row is null.
    pub fn get(&self, row: usize, column: usize) -> Option<T> {
        self.rows[row].as_ref().and_then(|row| row[column])
    }

    /// All elements, row by row.
    pub fn flat(&self) -> Vec<Option<T>> {
        (0..self.rows.len())
            .flat_map(|row| (0..self.width).map(move |column| self.get(row, column)))
            .collect()
    }

    pub fn column(&self, column: usize) -> Vec<Option<T>> {
        (0..self.rows.len()).map(|row| self.get(row, column)).collect()
    }
}

/// Whether emulation or a hurry asks for fewer cases.
pub fn quick() -> bool {
    std::env::var_os("RAPTORS_TEST_QUICK").is_some()
}

/// The result of a function, in a shape that can be compared: each value's bits, `None` for null.
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Number of rows and width, for a matrix.
    pub shape: Option<(usize, usize)>,
    /// Null rows, for a matrix.
    pub row_is_null: Vec<bool>,
    /// Values row by row.
    pub bits: Vec<Option<u64>>,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let some: Vec<_> = self.bits.iter().take(12).collect();
        write!(f, "{:?} null rows {:?} bits {some:x?}", self.shape, self.row_is_null)
    }
}

impl Outcome {
    pub fn of_array<T: Number>(array: &dyn arrow_array::Array) -> Self {
        let bits = T::options(array).into_iter().map(|v| v.map(T::bits)).collect();
        Self { shape: None, row_is_null: Vec::new(), bits }
    }

    pub fn of_value<T: Number>(value: &Value) -> Self {
        match value {
            Value::Scalar(array) | Value::Vector(array) => Self::of_array::<T>(array),
            Value::Matrix(matrix) => {
                let table = forms::read::<T>(matrix);
                let row_is_null = table.rows.iter().map(Option::is_none).collect();
                let bits = table.flat().into_iter().map(|v| v.map(T::bits)).collect();
                Self { shape: Some((table.rows.len(), table.width)), row_is_null, bits }
            }
            Value::Number(number) => panic!("no function gives a bare number: {number}"),
        }
    }
}
