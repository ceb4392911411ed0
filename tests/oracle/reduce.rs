//! Reductions, one sequence at a time.

use std::cmp::Ordering;

use arrow_schema::DataType;

use super::Table;
use super::numbers::{Number, integer, rounded};
use super::order::{
    looked_at_twice, power_for_spread, power_for_squares, power_for_sum, spread, sum_of_terms,
};
use super::outcome::{Failure, Outcome, Part};
use super::spec::{Answer, Order, Settings, precedes, real_type};

type Sequence<'a> = &'a [Option<Number>];

/// The sequences that results are made from, and whether each is a null row.
fn sequences(x: &Table, axis: Option<i64>) -> Vec<(Vec<Option<Number>>, bool)> {
    match axis {
        None => vec![(x.flat(), false)],
        Some(0) => (0..x.width).map(|c| (x.column(c), false)).collect(),
        Some(_) => (0..x.rows.len()).map(|r| (x.row(r), x.rows[r].is_none())).collect(),
    }
}

/// One result of type `to` for each sequence; `f` gives `None` for one that does not fit.
fn reduced(
    x: &Table,
    settings: &Settings,
    min_count: usize,
    to: &DataType,
    f: impl Fn(Sequence<'_>) -> Option<Number>,
) -> Answer {
    let mut values = Vec::new();
    for (index, (sequence, row_is_null)) in sequences(x, settings.axis).into_iter().enumerate() {
        let valid = sequence.iter().flatten().count();
        let is_null = row_is_null
            || valid < settings.min_count.max(min_count)
            || !settings.skip_nulls && valid < sequence.len();
        if is_null {
            values.push(None);
            continue;
        }
        let what = match settings.axis {
            None => "result",
            Some(0) => "column",
            Some(_) => "row",
        };
        let overflow = || Failure::Overflow { what, index, into: to.clone() };
        values.push(Some(f(&sequence).ok_or_else(overflow)?));
    }
    Ok(Outcome::one(Part::of_values(to, &values)))
}

/// The same for floats, made as float64 and rounded once.
fn reals(
    x: &Table,
    settings: &Settings,
    min_count: usize,
    f: impl Fn(Sequence<'_>) -> f64,
) -> Answer {
    let to = real_type(&x.element);
    reduced(x, settings, min_count, &to, |sequence| Some(rounded(&to, f(sequence))))
}

/// The numbers as float64.
fn wide(x: Sequence<'_>) -> Vec<Option<f64>> {
    x.iter().map(|v| v.map(Number::to_f64)).collect()
}

/// A sum of terms, and what elements were multiplied by on the way: only float64 can overflow or
/// vanish in float64.
fn float_sum(
    x: Sequence<'_>,
    element: &DataType,
    term: impl Fn(f64) -> f64,
    power: impl Fn(f64) -> Option<f64>,
) -> (f64, f64) {
    if x.iter().all(Option::is_none) {
        return (0.0, 1.0);
    }
    let is_wide = *element == DataType::Float64;
    let power = |sum: &f64| power(*sum).filter(|_| is_wide);
    looked_at_twice(&wide(x), |x| sum_of_terms(x, &term), power)
}

fn integer_sum(x: Sequence<'_>) -> i128 {
    x.iter().flatten().map(|v| v.to_i128()).sum()
}

pub fn sum(x: &Table, settings: &Settings) -> Answer {
    let to = match &x.element {
        unsigned if unsigned.is_unsigned_integer() => DataType::UInt64,
        signed if signed.is_signed_integer() => DataType::Int64,
        _ => {
            return reals(x, settings, 0, |s| {
                let (sum, by) = float_sum(s, &x.element, |v| v, power_for_sum);
                sum / by
            });
        }
    };
    reduced(x, settings, 0, &to, |s| integer(&to, integer_sum(s)))
}

pub fn mean(x: &Table, settings: &Settings) -> Answer {
    reals(x, settings, 0, |s| {
        let count = s.iter().flatten().count();
        if x.element.is_integer() && count > 0 {
            return exact_quotient(integer_sum(s), count as i128);
        }
        let (sum, by) = float_sum(s, &x.element, |v| v, power_for_sum);
        sum / count as f64 / by
    })
}

/// The float64 that is nearest to `sum / count`, ties to even: long division in integers.
pub fn exact_quotient(sum: i128, count: i128) -> f64 {
    if sum == 0 {
        return 0.0;
    }
    let (mut over, mut under, mut exponent) = (sum.unsigned_abs(), count as u128, 0);
    while over / under >= 1 << 53 {
        under *= 2;
        exponent += 1;
    }
    while over / under < 1 << 52 {
        over *= 2;
        exponent -= 1;
    }
    let (mut quotient, rest) = (over / under, over % under);
    if 2 * rest > under || 2 * rest == under && quotient % 2 == 1 {
        quotient += 1;
    }
    let magnitude = quotient as f64 * f64::from(exponent).exp2();
    if sum < 0 { -magnitude } else { magnitude }
}

pub fn extreme(x: &Table, settings: &Settings, max: bool) -> Answer {
    reduced(x, settings, 1, &x.element, |s| best(s, max).map(|(_, value)| value))
}

pub fn arg_extreme(x: &Table, settings: &Settings, max: bool) -> Answer {
    reduced(x, settings, 1, &DataType::Int64, |s| {
        best(s, max).map(|(index, _)| Number::Int(index as i64))
    })
}

/// The first of the best; the first NaN if there is one.
fn best(x: Sequence<'_>, max: bool) -> Option<(usize, Number)> {
    let valid = || x.iter().enumerate().filter_map(|(i, v)| v.map(|v| (i, v)));
    if let Some(nan) = valid().find(|(_, v)| v.is_nan()) {
        return Some(nan);
    }
    valid().reduce(|a, b| {
        let better = if max { precedes(a.1, b.1) } else { precedes(b.1, a.1) };
        if better { b } else { a }
    })
}

pub fn count(x: &Table, settings: &Settings) -> Answer {
    let all = Settings { skip_nulls: true, min_count: 0, ..settings.clone() };
    reduced(x, &all, 0, &DataType::Int64, |s| Some(Number::Int(s.iter().flatten().count() as i64)))
}

pub fn var(x: &Table, settings: &Settings, root: bool) -> Answer {
    let is_wide = x.element == DataType::Float64;
    reals(x, settings, settings.ddof + 1, |s| {
        let power = |found: &_| power_for_spread(found).filter(|_| is_wide);
        let (spread, by) = looked_at_twice(&wide(s), spread, power);
        let variance = spread.squares / (spread.count - settings.ddof as f64);
        if root { variance.sqrt() / by } else { variance / by / by }
    })
}

pub fn norm(x: &Table, settings: &Settings) -> Answer {
    reals(x, settings, 0, |s| {
        let values: Vec<f64> = s.iter().map(|v| v.map_or(0.0, Number::to_f64)).collect();
        match settings.order {
            Order::One => {
                let (sum, by) = float_sum(s, &x.element, f64::abs, power_for_sum);
                sum / by
            }
            Order::Infinity if values.iter().any(|v| v.is_nan()) => f64::NAN,
            Order::Infinity => values.iter().fold(0.0f64, |a, b| a.max(b.abs())),
            Order::Two => {
                let (squares, by) = float_sum(s, &x.element, |v| v * v, power_for_squares);
                squares.sqrt() / by
            }
        }
    })
}

/// By sorting; what lies between two ranks as it is written in NumPy's documentation.
pub fn quantile(x: &Table, settings: &Settings, q: f64, interpolation: &str) -> Answer {
    reals(x, settings, 1, |s| {
        let mut sorted: Vec<Number> = s.iter().flatten().copied().collect();
        if sorted.iter().any(|v| v.is_nan()) {
            return f64::NAN;
        }
        sorted.sort_by(|a, b| match (precedes(*a, *b), precedes(*b, *a)) {
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => Ordering::Equal,
        });
        let rank = q * (sorted.len() - 1) as f64;
        let (index, part) = (rank.floor() as usize, rank.fract());
        let a = sorted[index].to_f64();
        let b = sorted[(index + 1).min(sorted.len() - 1)].to_f64();
        // Halves and parts of numbers whose sum or distance is past float64.
        let (sum, distance) = (a + b, b - a);
        match interpolation {
            _ if part == 0.0 || a == b => a,
            "lower" => a,
            "higher" => b,
            "midpoint" if sum.is_finite() => sum / 2.0,
            "midpoint" => a / 2.0 + b / 2.0,
            "nearest" => sorted[rank.round_ties_even() as usize].to_f64(),
            "linear" if !distance.is_finite() => a * (1.0 - part) + b * part,
            "linear" if part < 0.5 => a + distance * part,
            "linear" => b - distance * (1.0 - part),
            other => panic!("no oracle knows the interpolation {other}"),
        }
    })
}
