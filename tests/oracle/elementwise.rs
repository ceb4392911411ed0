//! Functions that give one element for each: arithmetic, types, shapes.

use arrow_schema::DataType;

use super::Table;
use super::numbers::{Number, integer, limits, rounded, roundoff};
use super::outcome::{Failure, Outcome};
use super::spec::{Answer, Other, Settings, held, precedes, real_type};

/// Why an element has no result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    Overflow,
    ByZero,
}

pub type One = Result<Number, Fault>;

/// A table of type `to` with `f` of each element that is there, null rows as told.
fn table_of(
    x: &Table,
    to: &DataType,
    row_is_null: impl Fn(usize) -> bool,
    f: impl Fn(usize, usize) -> Option<One>,
) -> Answer {
    let mut rows = Vec::new();
    for row in 0..x.rows.len() {
        if row_is_null(row) {
            rows.push(None);
            continue;
        }
        let all: Vec<Option<One>> = (0..x.width).map(|column| f(row, column)).collect();
        let has = |fault| all.iter().flatten().any(|one| *one == Err(fault));
        let into = to.clone();
        match (has(Fault::Overflow), has(Fault::ByZero)) {
            (true, true) => return Err(Failure::Either { row, into }),
            (true, false) => return Err(Failure::Overflow { what: "row", index: row, into }),
            (false, true) => return Err(Failure::DivisionByZero { row }),
            (false, false) => rows.push(Some(all.iter().map(|one| (*one)?.ok()).collect())),
        }
    }
    Ok(Outcome::of_table(&Table { element: to.clone(), width: x.width, rows }))
}

pub fn unary(x: &Table, to: &DataType, f: impl Fn(Number) -> One) -> Answer {
    let is_null = |row: usize| x.rows[row].is_none();
    table_of(x, to, is_null, |row, column| x.get(row, column).map(&f))
}

pub fn binary(x: &Table, y: &Other, f: fn(&DataType, Number, Number) -> One) -> Answer {
    binary_to(x, y, &x.element, |a, b| f(&x.element, a, b))
}

/// `f` of each element and that of `y` beside it, stored as `to`.
pub fn binary_to(x: &Table, y: &Other, to: &DataType, f: impl Fn(Number, Number) -> One) -> Answer {
    let plain = match y {
        Other::Number(number) => Some(Number::Float(*number)),
        Other::Integer(number) => Some(Number::Int(*number)),
        _ => None,
    };
    let plain = match plain {
        Some(number) => {
            let refused = Failure::Number { element: x.element.clone() };
            Some(held(&x.element, number).ok_or(refused)?)
        }
        None => None,
    };
    let other = |row: usize, column: usize| match y {
        Other::Nothing | Other::Two(_) => panic!("arithmetic needs one second operand"),
        Other::Number(_) | Other::Integer(_) => plain,
        Other::Scalar(value) => Some(*value),
        Other::Row(values) => values[column],
        Other::Column(values) => values[row],
        Other::Matrix(table) => table.get(row, column),
    };
    let is_null = |row: usize| {
        x.rows[row].is_none()
            || match y {
                Other::Column(values) => values[row].is_none(),
                Other::Matrix(table) => table.rows[row].is_none(),
                _ => false,
            }
    };
    table_of(x, to, is_null, |row, column| Some(f(x.get(row, column)?, other(row, column)?)))
}

/// One IEEE operation, rounded once to the type: a float64 holds enough digits that rounding its
/// result again is harmless. Or one exact integer operation that has to fit.
fn operation(
    element: &DataType,
    a: Number,
    b: Number,
    float: fn(f64, f64) -> f64,
    whole: fn(i128, i128) -> Option<i128>,
) -> One {
    if element.is_floating() {
        return Ok(rounded(element, float(a.to_f64(), b.to_f64())));
    }
    let exact = whole(a.to_i128(), b.to_i128());
    exact.and_then(|x| integer(element, x)).ok_or(Fault::Overflow)
}

pub fn add(element: &DataType, a: Number, b: Number) -> One {
    operation(element, a, b, |a, b| a + b, i128::checked_add)
}

pub fn subtract(element: &DataType, a: Number, b: Number) -> One {
    operation(element, a, b, |a, b| a - b, i128::checked_sub)
}

pub fn multiply(element: &DataType, a: Number, b: Number) -> One {
    operation(element, a, b, |a, b| a * b, i128::checked_mul)
}

pub fn divide(element: &DataType, a: Number, b: Number) -> One {
    if element.is_integer() && b.to_i128() == 0 {
        return Err(Fault::ByZero);
    }
    operation(element, a, b, |a, b| a / b, i128::checked_div)
}

pub fn minimum(_: &DataType, a: Number, b: Number) -> One {
    Ok(if a.is_nan() || !b.is_nan() && precedes(a, b) { a } else { b })
}

pub fn maximum(_: &DataType, a: Number, b: Number) -> One {
    Ok(if a.is_nan() || !b.is_nan() && precedes(b, a) { a } else { b })
}

pub fn negate(x: &Table) -> Answer {
    unary(x, &x.element, |v| match v {
        Number::Float(v) => Ok(Number::Float(-v)),
        whole => integer(&x.element, -whole.to_i128()).ok_or(Fault::Overflow),
    })
}

pub fn abs(x: &Table) -> Answer {
    unary(x, &x.element, |v| match v {
        Number::Float(v) => Ok(Number::Float(v.abs())),
        whole => integer(&x.element, whole.to_i128().abs()).ok_or(Fault::Overflow),
    })
}

pub fn square(x: &Table) -> Answer {
    unary(x, &x.element, |v| multiply(&x.element, v, v))
}

pub fn sqrt(x: &Table) -> Answer {
    let to = real_type(&x.element);
    unary(x, &to, |v| Ok(rounded(&to, v.to_f64().sqrt())))
}

/// An answer that the machine's own library may have rounded otherwise: both are less than 1 ulp off.
fn nearly(answer: Answer) -> Answer {
    answer.map(|mut outcome| {
        let part = &mut outcome.parts[0];
        let smallest = match part.element {
            DataType::Float16 => (-24f64).exp2(),
            DataType::Float32 => (-149f64).exp2(),
            _ => f64::from_bits(1),
        };
        let value = |bits: &Option<u64>| bits.map_or(0.0, |bits| part.value(bits));
        let near = |v: f64| {
            if v.is_finite() {
                2.0 * smallest + 4.0 * roundoff(&part.element) * v.abs()
            } else {
                0.0
            }
        };
        part.within = Some(part.bits.iter().map(value).map(near).collect());
        outcome
    })
}

pub fn elementary(x: &Table, f: fn(f64) -> f64) -> Answer {
    let to = real_type(&x.element);
    nearly(unary(x, &to, |v| Ok(rounded(&to, f(v.to_f64())))))
}

pub fn power(x: &Table, y: &Other) -> Answer {
    if x.element.is_floating() {
        return nearly(binary(x, y, |element, a, b| {
            let (a, b) = (a.to_f64(), b.to_f64());
            // Beside any NaN; libm makes NaN of signalling ones.
            let power = if a == 1.0 || b == 0.0 { 1.0 } else { a.powf(b) };
            Ok(rounded(element, power))
        }));
    }
    binary(x, y, |element, a, b| {
        let (a, b) = (a.to_i128(), b.to_i128());
        let exact = match (a, b) {
            (0 | 1, 0..) => Some(if b == 0 { 1 } else { a }),
            (1, _) => Some(1),
            (-1, _) => Some(if b % 2 == 0 { 1 } else { -1 }),
            _ => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        };
        exact.and_then(|x| integer(element, x)).ok_or(Fault::Overflow)
    })
}

/// The sums of each element and those before it, down the columns or along the rows: of floats in
/// float64, of integers in 64 bits.
pub fn cumsum(x: &Table, settings: &Settings) -> Answer {
    let to = match &x.element {
        float if float.is_floating() => float.clone(),
        unsigned if unsigned.is_unsigned_integer() => DataType::UInt64,
        _ => DataType::Int64,
    };
    let along = settings.axis == Some(1);
    let sequences = if along { x.rows.len() } else { x.width };
    let mut floats = vec![-0.0f64; sequences];
    let mut wholes = vec![0i128; sequences];
    let mut rows = Vec::new();
    for (row, own) in x.rows.iter().enumerate() {
        let Some(own) = own else {
            rows.push(None);
            continue;
        };
        let mut made = Vec::new();
        for (column, value) in own.iter().enumerate() {
            let i = if along { row } else { column };
            made.push(match value {
                None => None,
                Some(Number::Float(v)) => {
                    floats[i] += v;
                    Some(rounded(&to, floats[i]))
                }
                Some(whole) => {
                    wholes[i] += whole.to_i128();
                    match integer(&to, wholes[i]) {
                        Some(sum) => Some(sum),
                        None => {
                            return Err(Failure::Overflow { what: "row", index: row, into: to });
                        }
                    }
                }
            });
        }
        rows.push(Some(made));
    }
    Ok(Outcome::of_table(&Table { element: to, width: x.width, rows }))
}

pub fn sign(x: &Table) -> Answer {
    unary(x, &x.element, |v| match v {
        Number::Float(v) if v.is_nan() => Ok(Number::Float(v)),
        Number::Float(0.0) => Ok(Number::Float(0.0)),
        Number::Float(v) => Ok(Number::Float(v.signum())),
        whole => integer(&x.element, whole.to_i128().signum()).ok_or(Fault::Overflow),
    })
}

pub fn round(x: &Table, settings: &Settings) -> Answer {
    unary(x, &x.element, |v| match v {
        Number::Float(v) => {
            let scale = 10f64.powi(settings.decimals as i32);
            let scaled = v * scale;
            // Beyond, numbers have no digits behind the point.
            let is_whole = scaled.is_nan() || scaled.abs() >= 2f64.powi(52);
            let near = if is_whole { v } else { scaled.round_ties_even() / scale };
            Ok(rounded(&x.element, near))
        }
        whole => Ok(whole),
    })
}

pub fn clip(x: &Table, settings: &Settings) -> Answer {
    let bound = |bound: Option<Number>| match bound {
        None => Ok(None),
        Some(number) => {
            let refused = Failure::Number { element: x.element.clone() };
            held(&x.element, number).map(Some).ok_or(refused)
        }
    };
    let (lowest, highest) = (bound(settings.min)?, bound(settings.max)?);
    let is_less = |a: Number, b: Number| match (a, b) {
        (Number::Float(a), Number::Float(b)) => a < b,
        _ => a.to_i128() < b.to_i128(),
    };
    unary(x, &x.element, |v| {
        let v = lowest.filter(|lowest| is_less(v, *lowest)).unwrap_or(v);
        Ok(highest.filter(|highest| is_less(*highest, v)).unwrap_or(v))
    })
}

pub fn cast(x: &Table, settings: &Settings) -> Answer {
    let to = &settings.to;
    let mut outcome = unary(x, to, |v| match v {
        _ if x.element == *to => Ok(v),
        Number::Float(v) if to.is_floating() => Ok(rounded(to, v)),
        Number::Float(v) => {
            let (min, max) = limits(to);
            let fits = v.fract() == 0.0 && (min..=max).contains(&(v as i128));
            if settings.safe && (v.is_nan() || !fits) {
                return Err(Fault::Overflow);
            }
            // `as` cuts off, keeps in bounds and makes 0 of NaN.
            Ok(integer(to, (v as i128).clamp(min, max)).unwrap())
        }
        Number::Int(v) if *to == DataType::Float32 => Ok(Number::Float((v as f32).into())),
        Number::UInt(v) if *to == DataType::Float32 => Ok(Number::Float((v as f32).into())),
        // float64 holds all that float16 does not make infinite.
        whole if to.is_floating() => Ok(rounded(to, whole.to_f64())),
        whole => match integer(to, whole.to_i128()) {
            Some(same) => Ok(same),
            None if settings.safe => Err(Fault::Overflow),
            None => Ok(wrapped(to, whole.to_i128())),
        },
    })?;
    // What is of the type already is handed on as it is.
    outcome.parts[0].keeps_nan = x.element == *to;
    Ok(outcome)
}

/// The integer that is the same modulo 2 to the bits of the type.
fn wrapped(to: &DataType, x: i128) -> Number {
    let (min, max) = limits(to);
    integer(to, (x - min).rem_euclid(max - min + 1) + min).unwrap()
}

pub fn transpose(x: &Table) -> Outcome {
    let rows = (0..x.width).map(|column| Some(x.column(column))).collect();
    let turned = Table { element: x.element.clone(), width: x.rows.len(), rows };
    let mut outcome = Outcome::of_table(&turned);
    outcome.parts[0].keeps_nan = true;
    outcome
}
