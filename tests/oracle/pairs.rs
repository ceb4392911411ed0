//! Products and distances of rows.

use super::Table;
use super::numbers::{Number, rounded};
use super::order::ordered_sum;
use super::outcome::{Outcome, Part};
use super::spec::{Answer, Other, real_type};

/// What two rows give: `None` is null.
pub type Measure = fn(&[f64], &[f64]) -> Option<f64>;

/// The numbers of a row as float64, unless one is null.
pub fn whole(row: &[Option<Number>]) -> Option<Vec<f64>> {
    row.iter().map(|v| v.map(Number::to_f64)).collect()
}

/// The measure of each row with a row of `y`, or with one vector.
pub fn row_by_row(x: &Table, y: &Other, measure: Measure) -> Answer {
    let to = real_type(&x.element);
    let one = |row: usize| {
        let other = match y {
            Other::Row(values) => whole(values),
            Other::Matrix(table) => whole(&table.row(row)),
            other => panic!("{other:?} has no rows"),
        };
        measure(&whole(&x.row(row))?, &other?).map(|value| rounded(&to, value))
    };
    // A null row of no elements is null too.
    let is_null = |row: usize| {
        x.rows[row].is_none() || matches!(y, Other::Matrix(y) if y.rows[row].is_none())
    };
    let values: Vec<Option<Number>> =
        (0..x.rows.len()).map(|row| if is_null(row) { None } else { one(row) }).collect();
    Ok(Outcome::one(Part::of_values(&to, &values)))
}

fn sum_of(x: &[f64], y: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    if x.is_empty() {
        return 0.0;
    }
    let terms: Vec<f64> = x.iter().zip(y).map(|(x, y)| term(*x, *y)).collect();
    ordered_sum(&terms)
}

#[allow(clippy::unnecessary_wraps, reason = "a measure")]
pub fn dot(x: &[f64], y: &[f64]) -> Option<f64> {
    Some(sum_of(x, y, |x, y| x * y))
}

#[allow(clippy::unnecessary_wraps, reason = "a measure")]
pub fn l1(x: &[f64], y: &[f64]) -> Option<f64> {
    Some(sum_of(x, y, |x, y| (x - y).abs()))
}

/// Whether the root of a sum of squares neither overflowed nor lost digits to subnormal squares.
fn is_safe(squares: f64) -> bool {
    let root = squares.sqrt();
    !(root < 1e-140 || root == f64::INFINITY)
}

/// The power of two that brings the largest magnitude near 1.
fn scale(x: &[f64]) -> f64 {
    let largest = x.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    if largest == 0.0 || largest.is_infinite() {
        return 1.0;
    }
    let exponent = (-1074..1024).rev().find(|e| f64::from(*e).exp2() <= largest).unwrap();
    f64::from(-exponent.clamp(-1000, 1000)).exp2()
}

fn times(x: &[f64], by: f64) -> Vec<f64> {
    x.iter().map(|x| x * by).collect()
}

#[allow(clippy::unnecessary_wraps, reason = "a measure")]
pub fn l2(x: &[f64], y: &[f64]) -> Option<f64> {
    let squares = |x: &[f64], y: &[f64]| sum_of(x, y, |x, y| (x - y) * (x - y));
    let plain = squares(x, y);
    if is_safe(plain) {
        return Some(plain.sqrt());
    }
    let by = scale(&[x, y].concat());
    Some(squares(&times(x, by), &times(y, by)).sqrt() / by)
}

/// Null for a zero vector.
pub fn cosine(x: &[f64], y: &[f64]) -> Option<f64> {
    let square = |x: &[f64]| sum_of(x, x, |x, y| x * y);
    if !is_safe(square(x)) || !is_safe(square(y)) {
        let (x, y) = (times(x, scale(x)), times(y, scale(y)));
        return plain_cosine(sum_of(&x, &y, |x, y| x * y), square(&x), square(&y));
    }
    plain_cosine(sum_of(x, y, |x, y| x * y), square(x), square(y))
}

fn plain_cosine(product: f64, x: f64, y: f64) -> Option<f64> {
    let (x, y) = (x.sqrt(), y.sqrt());
    let is_zero = !(x.is_nan() || y.is_nan()) && (x == 0.0 || y == 0.0);
    (!is_zero).then(|| (product / (x * y)).clamp(-1.0, 1.0))
}
