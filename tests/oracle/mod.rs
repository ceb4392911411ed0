//! What the tests compare with: tables of optional numbers, every Arrow form of them, and a naive
//! answer for every function of the table of functions.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses a part of it")]

pub mod calls;
pub mod check;
mod comparison;
mod elementwise;
pub mod forms;
pub mod numbers;
pub mod order;
pub mod outcome;
mod pairs;
mod products;
pub mod raw;
mod reduce;
pub mod spec;
mod transform;

use arrow_schema::DataType;

pub use numbers::{Number, Random};
pub use outcome::Outcome;

/// Rows of optional numbers of one type; a row may be null as a whole.
#[derive(Clone, Debug)]
pub struct Table {
    pub element: DataType,
    pub width: usize,
    pub rows: Vec<Option<Vec<Option<Number>>>>,
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

/// Which numbers a table has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// Those of [`numbers::tame`], for a first operand.
    Tame,
    /// The same for a second.
    TameY,
    /// The same, but for a few extremes.
    Spoiled,
    /// Any that the type has.
    Wild,
}

impl Table {
    pub fn random(
        random: &mut Random,
        element: &DataType,
        (rows, width): (usize, usize),
        nulls: Nulls,
        draw: Draw,
    ) -> Self {
        let row_nulls = matches!(nulls, Nulls::Rows | Nulls::Both);
        let element_nulls = matches!(nulls, Nulls::Elements | Nulls::Both);
        let made = (0..rows)
            .map(|_| {
                if nulls == Nulls::All || row_nulls && random.below(4) == 0 {
                    return None;
                }
                let one = |random: &mut Random| {
                    let value = match draw {
                        Draw::Wild => numbers::wild(element, random),
                        _ => numbers::tame(element, random, draw == Draw::TameY),
                    };
                    (!(element_nulls && random.below(4) == 0)).then_some(value)
                };
                Some((0..width).map(|_| one(random)).collect())
            })
            .collect();
        let mut table = Self { element: element.clone(), width, rows: made };
        if draw == Draw::Spoiled && width > 0 && rows > 0 {
            let extremes = numbers::extremes(element);
            for _ in 0..=random.below(3) {
                let (row, column) = (random.below(rows), random.below(width));
                let extreme = extremes[random.below(extremes.len())];
                if let Some(Some(place)) = table.rows[row].as_mut().map(|row| row[column].as_mut())
                {
                    *place = extreme;
                }
            }
        }
        table
    }

    /// Other rows of the same type and width.
    pub fn with_rows(&self, rows: Vec<Option<Vec<Option<Number>>>>) -> Self {
        Self { element: self.element.clone(), width: self.width, rows }
    }

    /// The element, or `None` if it or its row is null.
    pub fn get(&self, row: usize, column: usize) -> Option<Number> {
        self.rows[row].as_ref().and_then(|row| row[column])
    }

    /// All elements, row by row.
    pub fn flat(&self) -> Vec<Option<Number>> {
        (0..self.rows.len()).flat_map(|row| self.row(row)).collect()
    }

    pub fn row(&self, row: usize) -> Vec<Option<Number>> {
        self.rows[row].clone().unwrap_or_else(|| vec![None; self.width])
    }

    pub fn column(&self, column: usize) -> Vec<Option<Number>> {
        (0..self.rows.len()).map(|row| self.get(row, column)).collect()
    }
}

/// Whether emulation or a hurry asks for fewer cases.
pub fn quick() -> bool {
    std::env::var_os("RAPTORS_TEST_QUICK").is_some()
}
