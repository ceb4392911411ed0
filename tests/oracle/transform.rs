//! Transforms: `(x − offset) / divisor`, and softmax.

use arrow_schema::DataType;

use super::Table;
use super::numbers::{Number, rounded, roundoff};
use super::order::{
    looked_at_twice, moved, ordered_sum, power_for_spread, power_for_squares, power_for_sum,
    spread, sum_of_terms,
};
use super::outcome::Outcome;
use super::spec::{Answer, Order, Settings, real_type};

/// The numbers of a sequence that are not null, with their indices.
type Sequence<'a> = &'a [Option<f64>];

/// What is done to elements: `(x · power − offset − rest) / divisor`.
#[derive(Clone, Copy)]
struct Found {
    power: f64,
    offset: f64,
    rest: f64,
    divisor: f64,
}

const NONE: Found = Found { power: 1.0, offset: 0.0, rest: 0.0, divisor: 1.0 };

/// What is measured of a sequence: `None` for a null result.
type Measure<'a> = &'a dyn Fn(Sequence<'_>) -> Option<Found>;

/// Only float64 can overflow or vanish in float64.
fn is_wide(x: &Table) -> bool {
    x.element == DataType::Float64
}

pub fn normalize(x: &Table, settings: &Settings) -> Answer {
    let norm = |s: Sequence<'_>| {
        let values: Vec<f64> = s.iter().map(|v| v.unwrap_or(0.0)).collect();
        let sum_of = |term: fn(f64) -> f64, power: fn(f64) -> Option<f64>| {
            let power = |sum: &f64| power(*sum).filter(|_| is_wide(x));
            looked_at_twice(s, |s| sum_of_terms(s, term), power)
        };
        let (divisor, power) = match settings.order {
            Order::One => sum_of(f64::abs, power_for_sum),
            Order::Infinity if values.iter().any(|v| v.is_nan()) => (f64::NAN, 1.0),
            Order::Infinity => (values.iter().fold(0.0f64, |a, b| a.max(b.abs())), 1.0),
            Order::Two => {
                let (squares, power) = sum_of(|v| v * v, power_for_squares);
                (squares.sqrt(), power)
            }
        };
        (divisor != 0.0).then_some(Found { power, divisor, ..NONE })
    };
    affine(x, settings, true, &norm)
}

fn not_zero(divisor: f64) -> f64 {
    if divisor == 0.0 { 1.0 } else { divisor }
}

pub fn standardize(x: &Table, settings: &Settings) -> Answer {
    affine(x, settings, false, &|s| {
        let power = |found: &_| power_for_spread(found).filter(|_| is_wide(x));
        let (spread, power) = looked_at_twice(s, spread, power);
        let (offset, rest) = moved(spread.mean, 0.0);
        let divisor = not_zero((spread.squares / spread.count).sqrt());
        Some(Found { power, offset, rest, divisor })
    })
}

pub fn center(x: &Table, settings: &Settings) -> Answer {
    affine(x, settings, false, &|s| {
        let power = |sum: &f64| power_for_sum(*sum).filter(|_| is_wide(x));
        let (sum, power) = looked_at_twice(s, |s| sum_of_terms(s, |v| v), power);
        Some(Found { offset: sum / s.iter().flatten().count() as f64 / power, ..NONE })
    })
}

pub fn minmax_scale(x: &Table, settings: &Settings) -> Answer {
    affine(x, settings, false, &|s| {
        let valid = || s.iter().flatten().copied();
        if valid().any(f64::is_nan) {
            return Some(Found { offset: f64::NAN, divisor: f64::NAN, ..NONE });
        }
        // Of zeros the smallest is −0, which shows in x − min.
        let zero = valid().any(|v| v == 0.0 && v.is_sign_negative());
        let min = valid().fold(f64::INFINITY, f64::min);
        let min = if min == 0.0 && zero { -0.0 } else { min };
        let max = valid().fold(f64::NEG_INFINITY, f64::max);
        if min.is_finite() && max.is_finite() && (max - min).is_infinite() {
            let (power, offset) = (0.5, min / 2.0);
            return Some(Found { power, offset, rest: 0.0, divisor: max / 2.0 - offset });
        }
        Some(Found { offset: min, divisor: not_zero(max - min), ..NONE })
    })
}

/// Measures each sequence of the axis and scales its elements. With `whole_rows` a row of which
/// an element is null, or that has no result, is null, if it is rows that are measured.
fn affine(x: &Table, settings: &Settings, whole_rows: bool, measure: Measure<'_>) -> Answer {
    let to = real_type(&x.element);
    let wide = |s: Vec<Option<Number>>| s.iter().map(|v| v.map(Number::to_f64)).collect::<Vec<_>>();
    let by_row = settings.axis == Some(1);
    let found: Vec<Option<Found>> = match settings.axis {
        None => vec![measure(&wide(x.flat()))],
        Some(0) => (0..x.width).map(|c| measure(&wide(x.column(c)))).collect(),
        Some(_) => (0..x.rows.len()).map(|r| measure(&wide(x.row(r)))).collect(),
    };
    let rows = x.rows.iter().enumerate().map(|(r, row)| {
        let row = row.as_ref()?;
        if by_row && x.width > 0 && whole_rows && (row.contains(&None) || found[r].is_none()) {
            return None;
        }
        let scaled = |(c, v): (usize, &Option<Number>)| {
            let at = if settings.axis.is_none() {
                0
            } else if by_row {
                r
            } else {
                c
            };
            let Found { power, offset, rest, divisor } = found[at]?;
            let moved = v.as_ref()?.to_f64() * power - offset;
            // Numbers of float32 are multiplied by the inverse, in float64; the rest is too small
            // for them.
            let scaled = match to {
                DataType::Float32 => moved * (1.0 / divisor),
                _ => (moved - rest) / divisor,
            };
            Some(rounded(&to, scaled))
        };
        Some(row.iter().enumerate().map(scaled).collect())
    });
    let rows = rows.collect();
    Ok(Outcome::of_table(&Table { element: to.clone(), width: x.width, rows }))
}

/// Within a tolerance: the exponential of the crate may be 1 ulp off (2 u), and so may that of the
/// machine that the tests run on. So a power is 4 u off; their sum, of terms that are not negative,
/// as much and `depth` u for its additions; the quotient another two roundings, and one to the
/// type. Powers below the normal numbers are off by one of the smallest of them.
pub fn softmax(x: &Table) -> Answer {
    let to = real_type(&x.element);
    let depth = (x.width.min(1024).div_ceil(8) + 3) as f64
        + f64::from(x.width.div_ceil(1024).max(1).next_power_of_two().trailing_zeros());
    let relative = (4.0 + 4.0 + depth + 3.0) * (-53f64).exp2() + 2.0 * roundoff(&to);
    let smallest = match to {
        DataType::Float16 => (-24f64).exp2(),
        DataType::Float32 => (-149f64).exp2(),
        _ => f64::from_bits(4),
    };
    let mut within = Vec::new();
    let rows = x.rows.iter().map(|row| {
        let row = row.as_ref().filter(|row| !row.contains(&None));
        let Some(row) = row else {
            within.extend(vec![0.0; x.width]);
            return None;
        };
        let values: Vec<f64> = row.iter().flatten().map(|v| v.to_f64()).collect();
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<f64> = values.iter().map(|v| (v - max).exp()).collect();
        let sum = ordered_sum(&powers);
        within.extend(powers.iter().map(|power| power / sum * relative + smallest));
        Some(powers.iter().map(|power| Some(rounded(&to, power / sum))).collect())
    });
    let rows = rows.collect();
    let mut outcome = Outcome::of_table(&Table { element: to.clone(), width: x.width, rows });
    outcome.parts[0].within = Some(within);
    Ok(outcome)
}
