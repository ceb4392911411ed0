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
    let product = |x: &[f64], y: &[f64]| sum_of(x, y, |x, y| x * y);
    let plain = product(x, y);
    // What is not finite itself makes nothing finite.
    if plain.is_finite() || x.iter().chain(y).any(|v| !v.is_finite()) {
        return Some(plain);
    }
    let (of_x, of_y) = (exponent(x), exponent(y));
    let scaled = product(&over(x, of_x), &over(y, of_y));
    // Half of the power at a time, because all of it may not be a number.
    let half = (of_x + of_y) / 2;
    Some(scaled * f64::from(half).exp2() * f64::from(of_x + of_y - half).exp2())
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

/// The exponent of the largest finite magnitude, kept where its inverse is a number.
fn exponent(x: &[f64]) -> i32 {
    let finite = x.iter().map(|x| x.abs()).filter(|x| x.is_finite());
    let largest = finite.fold(0.0f64, f64::max);
    if largest == 0.0 {
        return 0;
    }
    let exponent = (-1074..1024).rev().find(|e| f64::from(*e).exp2() <= largest).unwrap();
    exponent.clamp(-1000, 1000)
}

fn over(x: &[f64], exponent: i32) -> Vec<f64> {
    x.iter().map(|x| x * f64::from(-exponent).exp2()).collect()
}

#[allow(clippy::unnecessary_wraps, reason = "a measure")]
pub fn l2(x: &[f64], y: &[f64]) -> Option<f64> {
    let squares = |x: &[f64], y: &[f64]| sum_of(x, y, |x, y| (x - y) * (x - y));
    let plain = squares(x, y);
    if is_safe(plain) {
        return Some(plain.sqrt());
    }
    let by = exponent(&[x, y].concat());
    Some(squares(&over(x, by), &over(y, by)).sqrt() * f64::from(by).exp2())
}

#[allow(clippy::unnecessary_wraps, reason = "a measure")]
pub fn squared_l2(x: &[f64], y: &[f64]) -> Option<f64> {
    Some(sum_of(x, y, |x, y| (x - y) * (x - y)))
}

/// Null for a zero vector, whatever the other is.
pub fn cosine(x: &[f64], y: &[f64]) -> Option<f64> {
    let square = |x: &[f64]| sum_of(x, x, |x, y| x * y);
    if !is_safe(square(x)) || !is_safe(square(y)) {
        let (x, y) = (over(x, exponent(x)), over(y, exponent(y)));
        return plain_cosine(sum_of(&x, &y, |x, y| x * y), square(&x), square(&y));
    }
    plain_cosine(sum_of(x, y, |x, y| x * y), square(x), square(y))
}

fn plain_cosine(product: f64, x: f64, y: f64) -> Option<f64> {
    if x == 0.0 || y == 0.0 {
        return None;
    }
    // A vector and itself, or its opposite.
    let norms = if x == y && product.abs() == x { x } else { x.sqrt() * y.sqrt() };
    Some((product / norms).clamp(-1.0, 1.0))
}
