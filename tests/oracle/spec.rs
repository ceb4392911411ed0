//! The naive answer of every function. A function that has no answer here fails the tests.

use std::cmp::Ordering;

use arrow_schema::DataType;
use raptors_arrow::compute::OptionValue;

use super::numbers::{self, Number, integer, rounded};
use super::outcome::{Failure, Outcome};
use super::{Table, comparison, elementwise, pairs, products, reduce, transform};

/// A second argument.
#[derive(Clone, Debug)]
pub enum Other {
    Nothing,
    /// A plain number, which takes the element type.
    Number(f64),
    Integer(i64),
    Scalar(Number),
    Row(Vec<Option<Number>>),
    Column(Vec<Option<Number>>),
    Matrix(Table),
    /// Two arguments.
    Two(Box<[Self; 2]>),
}

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    One,
    Two,
    Infinity,
}

/// Options as the oracle takes them.
#[derive(Clone, Debug)]
pub struct Settings {
    pub axis: Option<i64>,
    pub skip_nulls: bool,
    pub min_count: usize,
    pub ddof: usize,
    pub order: Order,
    pub min: Option<Number>,
    pub max: Option<Number>,
    pub to: DataType,
    pub safe: bool,
    pub metric: String,
    pub k: usize,
    pub decimals: usize,
    pub q: f64,
    pub interpolation: String,
    /// The type that the table is seen in.
    pub dtype: Option<DataType>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            axis: None,
            skip_nulls: true,
            min_count: 1,
            ddof: 0,
            order: Order::Two,
            min: None,
            max: None,
            to: DataType::Null,
            safe: true,
            metric: String::new(),
            k: 0,
            decimals: 0,
            q: 0.5,
            interpolation: String::new(),
            dtype: None,
        }
    }
}

impl Settings {
    /// Takes an option's value. Panics for one that no oracle knows.
    pub fn take(&mut self, name: &str, value: &OptionValue) {
        match (name, value) {
            ("axis", OptionValue::None) => self.axis = None,
            ("axis", OptionValue::Count(axis)) => self.axis = Some(*axis),
            ("skip_nulls", OptionValue::Flag(flag)) => self.skip_nulls = *flag,
            ("safe", OptionValue::Flag(flag)) => self.safe = *flag,
            ("min_count", OptionValue::Count(n)) => self.min_count = *n as usize,
            ("ddof", OptionValue::Count(n)) => self.ddof = *n as usize,
            ("k", OptionValue::Count(n)) => self.k = *n as usize,
            ("decimals", OptionValue::Count(n)) => self.decimals = *n as usize,
            ("ord", OptionValue::Count(1)) => self.order = Order::One,
            ("ord", OptionValue::Count(2)) => self.order = Order::Two,
            ("ord", OptionValue::Number(1.0)) => self.order = Order::One,
            ("ord", OptionValue::Number(2.0)) => self.order = Order::Two,
            ("ord", OptionValue::Number(f64::INFINITY)) => self.order = Order::Infinity,
            ("ord", OptionValue::Text(word)) if word == "inf" => self.order = Order::Infinity,
            ("q", OptionValue::Number(q)) => self.q = *q,
            ("q", OptionValue::Count(q)) => self.q = *q as f64,
            ("interpolation", OptionValue::Text(word)) => self.interpolation.clone_from(word),
            ("metric", OptionValue::Text(word)) => self.metric.clone_from(word),
            ("min", value) => self.min = bound(value),
            ("max", value) => self.max = bound(value),
            ("type" | "dtype", OptionValue::None) => {}
            ("keepdims", OptionValue::Flag(false)) => {}
            ("dtype", OptionValue::Text(name)) => {
                let known = numbers::TYPES.iter().find(|(known, _)| known == name);
                self.dtype = Some(known.expect("a type").1.clone());
            }
            ("type", OptionValue::Text(name)) => {
                let known = numbers::TYPES.iter().find(|(known, _)| known == name);
                self.to = known.expect("a type").1.clone();
            }
            _ => panic!("no oracle knows the option {name} with the value {value}"),
        }
    }
}

fn bound(value: &OptionValue) -> Option<Number> {
    match value {
        OptionValue::None => None,
        OptionValue::Count(n) => Some(Number::Int(*n)),
        OptionValue::Number(n) => Some(Number::Float(*n)),
        other => panic!("{other} is no bound"),
    }
}

/// A plain number in an element type, if it can hold it: floats round, integers take whole ones.
pub fn held(element: &DataType, number: Number) -> Option<Number> {
    match number {
        _ if element.is_floating() => Some(rounded(element, number.to_f64())),
        Number::Float(x) if x.fract() == 0.0 && x.abs() < 2f64.powi(100) => {
            integer(element, x as i128)
        }
        Number::Float(_) => None,
        whole => integer(element, whole.to_i128()),
    }
}

/// What a call gives.
pub type Answer = Result<Outcome, Failure>;

/// The answer of a function. Panics for one it does not know: add its oracle here.
pub fn answer(name: &str, x: &Table, y: &Other, settings: &Settings) -> Answer {
    if let Some(dtype) = &settings.dtype {
        let seen = |v: Option<Number>| v.map(|v| rounded(dtype, v.to_f64()));
        let seen = |row: &Vec<Option<Number>>| row.iter().copied().map(seen).collect();
        let rows = x.rows.iter().map(|row| row.as_ref().map(seen)).collect();
        let x = Table { element: dtype.clone(), width: x.width, rows };
        return answer(name, &x, y, &Settings { dtype: None, ..settings.clone() });
    }
    let fixed = |axis| Settings { axis: Some(axis), ..settings.clone() };
    match name {
        "sum" => reduce::sum(x, settings),
        "mean" => reduce::mean(x, settings),
        "sum_axis0" => reduce::sum(x, &fixed(0)),
        "mean_axis0" => reduce::mean(x, &fixed(0)),
        "mean_axis1" => reduce::mean(x, &fixed(1)),
        "min" => reduce::extreme(x, settings, false),
        "max" => reduce::extreme(x, settings, true),
        "argmin" => reduce::arg_extreme(x, settings, false),
        "argmax" => reduce::arg_extreme(x, settings, true),
        "count" => reduce::count(x, settings),
        "var" => reduce::var(x, settings, false),
        "std" => reduce::var(x, settings, true),
        "norm" => reduce::norm(x, settings),
        "median" => reduce::quantile(x, settings, 0.5, "midpoint"),
        "quantile" => reduce::quantile(x, settings, settings.q, &settings.interpolation),
        "add" | "broadcast_add" => elementwise::binary(x, y, elementwise::add),
        "subtract" => elementwise::binary(x, y, elementwise::subtract),
        "multiply" | "scale" => elementwise::binary(x, y, elementwise::multiply),
        "divide" => elementwise::binary(x, y, elementwise::divide),
        "minimum" => elementwise::binary(x, y, elementwise::minimum),
        "maximum" => elementwise::binary(x, y, elementwise::maximum),
        "negate" => elementwise::negate(x),
        "abs" => elementwise::abs(x),
        "square" => elementwise::square(x),
        "sqrt" => elementwise::sqrt(x),
        "exp" => elementwise::elementary(x, f64::exp),
        "log" => elementwise::elementary(x, f64::ln),
        "power" => elementwise::power(x, y),
        "sign" => elementwise::sign(x),
        "round" => elementwise::round(x, settings),
        "greater" => comparison::compare(x, y, |order| order.is_some_and(Ordering::is_gt)),
        "greater_equal" => comparison::compare(x, y, |order| order.is_some_and(Ordering::is_ge)),
        "less" => comparison::compare(x, y, |order| order.is_some_and(Ordering::is_lt)),
        "less_equal" => comparison::compare(x, y, |order| order.is_some_and(Ordering::is_le)),
        "equal" => comparison::compare(x, y, |order| order.is_some_and(Ordering::is_eq)),
        "not_equal" => comparison::compare(x, y, |order| order.is_none_or(Ordering::is_ne)),
        "where" => match y {
            Other::Two(both) => comparison::choose(x, &both[0], &both[1]),
            other => panic!("where takes two values, not {other:?}"),
        },
        "cumsum" => elementwise::cumsum(x, settings),
        "is_null" => comparison::is_null(x),
        "fill_null" => comparison::fill_null(x, y),
        "nan_to_null" => comparison::nan_to_null(x),
        "isnan" => comparison::ask(x, f64::is_nan),
        "isfinite" => comparison::ask(x, f64::is_finite),
        "clip" => elementwise::clip(x, settings),
        "cast" => elementwise::cast(x, settings),
        "transpose" => Ok(elementwise::transpose(x)),
        "dot" => pairs::row_by_row(x, y, pairs::dot),
        "cosine_similarity" => pairs::row_by_row(x, y, pairs::cosine),
        "l2_distance" => pairs::row_by_row(x, y, pairs::l2),
        "l1_distance" => pairs::row_by_row(x, y, pairs::l1),
        "normalize" => transform::normalize(x, settings),
        "standardize" => transform::standardize(x, settings),
        "center" => transform::center(x, settings),
        "minmax_scale" => transform::minmax_scale(x, settings),
        "softmax" => transform::softmax(x),
        "matmul" => products::matmul(x, y),
        "pairwise" => products::pairwise(x, y, settings),
        "gram" => products::gram(x),
        "covariance" => products::covariance(x, settings),
        "correlation" => products::correlation(x),
        "top_k" => products::top_k(x, y, settings),
        _ => panic!("no oracle for the function {name:?}: write one in tests/oracle/spec.rs"),
    }
}

/// The type of means, norms and the like.
pub fn real_type(element: &DataType) -> DataType {
    if element.is_integer() { DataType::Float64 } else { element.clone() }
}

/// Whether `a` comes before `b`: −0 before +0, and no NaN before or after anything.
pub fn precedes(a: Number, b: Number) -> bool {
    match (a, b) {
        (Number::Float(a), Number::Float(b)) => {
            a < b || a == b && a.is_sign_negative() && b.is_sign_positive()
        }
        _ => a.to_i128() < b.to_i128(),
    }
}
