//! The functions that are made of matrix products, with derived tolerances: a product adds in an
//! order of its own, so its bits are not promised. And `top_k`, whose bits are.
//!
//! With u the roundoff of the type that a product is made in (float32 for float16 and float32, else
//! float64), a sum of d products is off by at most (d + 1) u / (1 − (d + 1) u) of the sum of their
//! magnitudes, in any order (Higham 3.5), and rounding to the stored type adds one roundoff of it.
//! Products below the normal numbers add one of the smallest number each. Where a sum of magnitudes
//! may overflow, or an operand is not finite, anything may come: infinite tolerance.

use arrow_schema::DataType;

use super::Table;
use super::numbers::{Number, rounded, roundoff};
use super::outcome::{Outcome, Part};
use super::pairs::{self, Measure, whole};
use super::spec::{Answer, Other, Settings, real_type};

/// The type that products of an element type are made in.
fn made_in(element: &DataType) -> DataType {
    match element {
        DataType::Float16 | DataType::Float32 => DataType::Float32,
        _ => DataType::Float64,
    }
}

fn largest(element: &DataType) -> f64 {
    match element {
        DataType::Float16 => 65504.0,
        DataType::Float32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

fn smallest(element: &DataType) -> f64 {
    match element {
        DataType::Float16 => (-24f64).exp2(),
        DataType::Float32 => (-149f64).exp2(),
        _ => f64::from_bits(1),
    }
}

/// A value and how far it may be off before it is rounded to the stored type.
type Near = (f64, f64);

/// Rounds to `to`, which adds to what it may be off.
fn stored(to: &DataType, (value, off): Near) -> (Number, f64) {
    let within = off + roundoff(to) * (value.abs() + off) * 2.0 + smallest(to);
    let is_far = !value.is_finite() || value.abs() + within > largest(to);
    (rounded(to, value), if is_far || within.is_nan() { f64::INFINITY } else { within })
}

/// A matrix whose rows are `None` where they are null.
fn of_rows(to: &DataType, width: usize, rows: Vec<Option<Vec<Option<Near>>>>) -> Answer {
    let mut within = Vec::new();
    let rows = rows.into_iter().map(|row| {
        let Some(row) = row else {
            within.extend(vec![0.0; width]);
            return None;
        };
        let made = |near: Option<Near>| {
            let made = near.map(|near| stored(to, near));
            within.push(made.map_or(0.0, |(_, within)| within));
            made.map(|(number, _)| number)
        };
        Some(row.into_iter().map(made).collect())
    });
    let rows = rows.collect();
    let mut outcome = Outcome::of_table(&Table { element: to.clone(), width, rows });
    outcome.parts[0].within = Some(within);
    Ok(outcome)
}

/// The sum of products of two sequences, made in a type.
fn product(made_in: &DataType, x: &[f64], y: &[f64]) -> Near {
    let value: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
    let magnitude: f64 = x.iter().zip(y).map(|(x, y)| (x * y).abs()).sum();
    if magnitude.is_nan() || magnitude >= largest(made_in) {
        return (value, f64::INFINITY);
    }
    let d = x.len() as f64 + 1.0;
    // The oracle's own sum has the same bound, in float64.
    let u = d * (roundoff(made_in) + (-53f64).exp2()) * 1.01;
    (value, u * magnitude + d * smallest(made_in))
}

pub fn matmul(x: &Table, y: &Other) -> Answer {
    let y = match y {
        Other::Row(_) => return pairs::row_by_row(x, y, pairs::dot),
        Other::Matrix(y) => y,
        other => panic!("{other:?} is no matrix"),
    };
    let (to, made_in) = (real_type(&x.element), made_in(&x.element));
    let columns: Vec<Option<Vec<f64>>> = (0..y.width).map(|c| whole(&y.column(c))).collect();
    let rows = (0..x.rows.len()).map(|r| {
        let row = x.rows[r].as_ref().and_then(|row| whole(row))?;
        let one = |column: &Option<Vec<f64>>| Some(product(&made_in, &row, column.as_ref()?));
        Some(columns.iter().map(one).collect())
    });
    of_rows(&to, y.width, rows.collect())
}

/// The complete rows of a table: `None` for the others.
fn complete(x: &Table) -> Vec<Option<Vec<f64>>> {
    x.rows.iter().map(|row| row.as_ref().and_then(|row| whole(row))).collect()
}

pub fn pairwise(x: &Table, y: &Other, settings: &Settings) -> Answer {
    let y = match y {
        Other::Nothing => x,
        Other::Matrix(y) => y,
        other => panic!("{other:?} is no matrix"),
    };
    let (to, made_in) = (real_type(&x.element), made_in(&x.element));
    let (x, y) = (complete(x), complete(y));
    let is_finite = |x: &[f64]| x.iter().all(|v| v.is_finite());
    let one = |x: &[f64], y: &[f64]| -> Option<Near> {
        let (value, off) = match settings.metric.as_str() {
            "dot" => product(&made_in, x, y),
            // Rows are divided by their norms, each element off by 3 u: then a product of numbers
            // whose magnitudes add up to at most 1.
            "cosine" => {
                let value = pairs::cosine(x, y)?;
                let d = x.len() as f64;
                (value, (d + 9.0) * roundoff(&made_in) + d * smallest(&made_in))
            }
            // As the function says of itself.
            "l2" => {
                let value = pairs::l2(x, y)?;
                let relative = if made_in == DataType::Float32 { -28f64 } else { -36f64 };
                (value, relative.exp2() * value)
            }
            "sqeuclidean" => {
                let value = pairs::squared_l2(x, y)?;
                let relative = if made_in == DataType::Float32 { -27f64 } else { -35f64 };
                (value, relative.exp2() * value + smallest(&DataType::Float64))
            }
            // In the order of additions, rounded once, or twice for float16.
            "l1" => (pairs::l1(x, y)?, 0.0),
            other => panic!("no metric {other}"),
        };
        // A matrix product may make NaN of what a loop makes infinite.
        let is_plain = is_finite(x) && is_finite(y) && value.is_finite();
        Some((value, if is_plain { off } else { f64::INFINITY }))
    };
    // With cosine a zero vector of x is a null row.
    let is_zero = |x: &[f64]| settings.metric == "cosine" && x.iter().all(|v| *v == 0.0);
    let rows = x.iter().map(|row| {
        let row = row.as_ref().filter(|row| !is_zero(row))?;
        Some(y.iter().map(|y| one(row, y.as_ref()?)).collect())
    });
    of_rows(&to, y.len(), rows.collect())
}

/// The columns of the rows without a null.
fn complete_columns(x: &Table) -> (usize, Vec<Vec<f64>>) {
    let rows: Vec<Vec<f64>> = complete(x).into_iter().flatten().collect();
    (rows.len(), (0..x.width).map(|c| rows.iter().map(|row| row[c]).collect()).collect())
}

fn square(x: &Table, one: impl Fn(usize, usize) -> Option<Near>) -> Answer {
    let rows = (0..x.width).map(|a| Some((0..x.width).map(|b| one(a, b)).collect()));
    of_rows(&real_type(&x.element), x.width, rows.collect())
}

/// Added up in float64, whatever the type.
pub fn gram(x: &Table) -> Answer {
    let (_, columns) = complete_columns(x);
    square(x, |a, b| Some(product(&DataType::Float64, &columns[a], &columns[b])))
}

/// The sum of products of distances from the means. A mean is off by (n + 1) u of the mean of the
/// magnitudes; a distance by that, e, and u of itself. So the sum is off by
/// `Σ (|dx| e_y + |dy| e_x + e_x e_y)` and (n + 4) u of `Σ |dx dy|`; twice, for the oracle.
fn co_moment(a: &[f64], b: &[f64]) -> Near {
    let n = a.len() as f64;
    let u = (-53f64).exp2();
    let is_huge = a.iter().chain(b).any(|v| v.is_nan() || v.abs() >= 1e300 / n);
    let around = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / n;
        let magnitude = x.iter().map(|v| v.abs()).sum::<f64>() / n;
        (x.iter().map(|v| v - mean).collect::<Vec<f64>>(), (n + 1.0) * u * magnitude)
    };
    let ((a, of_a), (b, of_b)) = (around(a), around(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(&b).map(|(a, b)| f(*a, *b)).sum::<f64>();
    let off = sum(&|a, b| a.abs() * of_b + b.abs() * of_a + of_a * of_b)
        + (n + 4.0) * u * sum(&|a, b| (a * b).abs());
    let value = sum(&|a, b| a * b);
    // The sum of a column or of squares may overflow on the way, in one order or another.
    let is_far =
        is_huge || !value.is_finite() || !off.is_finite() || sum(&|a, b| (a * b).abs()) > 1e300;
    (value, if is_far { f64::INFINITY } else { 2.02 * off + 1e-300 })
}

pub fn covariance(x: &Table, settings: &Settings) -> Answer {
    let (n, columns) = complete_columns(x);
    square(x, |a, b| {
        let by = n.checked_sub(settings.ddof).filter(|by| *by > 0)? as f64;
        let (value, off) = co_moment(&columns[a], &columns[b]);
        Some((value / by, off / by))
    })
}

/// Null where a column is constant. The quotient is off by what its parts are off by, relative to
/// them: the spreads are roots, which halves it.
pub fn correlation(x: &Table) -> Answer {
    let (_, columns) = complete_columns(x);
    // One infinity is not constant: it is no finite distance from itself.
    let is_constant = |c: usize| columns[c].iter().all(|v| *v == columns[c][0] && v.is_finite());
    let moments: Vec<Near> = columns.iter().map(|c| co_moment(c, c)).collect();
    square(x, |a, b| {
        if is_constant(a) || is_constant(b) {
            return None;
        }
        let (value, off) = co_moment(&columns[a], &columns[b]);
        let (of_a, of_b) = (moments[a], moments[b]);
        let spread = of_a.0.sqrt() * of_b.0.sqrt();
        let relative = of_a.1 / of_a.0 + of_b.1 / of_b.0;
        let is_plain = spread > 1e-280 && relative < 0.5;
        let off = off / spread + relative + 8.0 * (-53f64).exp2();
        Some((value / spread, if is_plain { off } else { f64::INFINITY }))
    })
}

/// The rows with the best scores, which are those of the functions row by row, to the bit; of
/// float16 before they are rounded.
pub fn top_k(x: &Table, query: &Other, settings: &Settings) -> Answer {
    let to = real_type(&x.element);
    let (measure, largest_first): (Measure, bool) = match settings.metric.as_str() {
        "cosine" => (pairs::cosine, true),
        "dot" => (pairs::dot, true),
        "l2" => (pairs::l2, false),
        "sqeuclidean" => (pairs::squared_l2, false),
        "l1" => (pairs::l1, false),
        other => panic!("no metric {other}"),
    };
    let rows = complete(x);
    let best = |query: &[f64]| {
        let mut all: Vec<(usize, f64)> = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let score = row.as_ref().and_then(|row| measure(row, query));
            // float16 has too few digits to rank by.
            let ranked = if to == DataType::Float16 { &DataType::Float64 } else { &to };
            all.extend(score.map(|score| (index, rounded(ranked, score).to_f64())));
        }
        // Stable, so ties stay in the order of the rows; NaN after every number.
        all.sort_by(|(_, a), (_, b)| {
            let order = a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
            if largest_first && !a.is_nan() && !b.is_nan() { order.reverse() } else { order }
        });
        all
    };
    let filled = |query: Option<Vec<f64>>, length: usize| {
        let found = query.map_or_else(Vec::new, |query| best(&query));
        let at = |i: usize| found.get(i).copied();
        let indices = (0..length).map(|i| at(i).map(|(row, _)| Number::Int(row as i64)));
        let scores = (0..length).map(|i| at(i).map(|(_, score)| rounded(&to, score)));
        (indices.collect::<Vec<_>>(), scores.collect::<Vec<_>>())
    };
    let indices = DataType::Int64;
    match query {
        Other::Row(query) => {
            // The rows found, at most k.
            let (mut indices_found, mut scores) =
                filled(whole(query), settings.k.min(x.rows.len()));
            indices_found.retain(Option::is_some);
            scores.retain(Option::is_some);
            let parts = [Part::of_values(&indices, &indices_found), Part::of_values(&to, &scores)];
            Ok(Outcome { parts: parts.into() })
        }
        Other::Matrix(queries) => {
            let each = complete(queries).into_iter().map(|query| {
                let found = query.map(|query| filled(Some(query), settings.k));
                (found.as_ref().map(|f| f.0.clone()), found.map(|f| f.1))
            });
            let (indices_found, scores): (Vec<_>, Vec<_>) = each.unzip();
            let table = |element: &DataType, rows| {
                Part::of_table(&Table { element: element.clone(), width: settings.k, rows })
            };
            Ok(Outcome { parts: vec![table(&indices, indices_found), table(&to, scores)] })
        }
        other => panic!("{other:?} is no query"),
    }
}
