//! Every way to call each function of the table: its arguments and options, with their oracle.

use std::sync::Arc;

use arrow_array::ArrayRef;
use raptors_arrow::compute::registry::ArgumentKind;
use raptors_arrow::compute::{Function, OptionKind, Options, Value, list_functions};

use super::forms::{Form, Layout, as_held, matrix};
use super::spec::{Other, Settings, answer};
use super::{Nulls, Number, Outcome, Random, Table};

/// A call of a function on some first argument.
pub struct Call<T> {
    pub function: &'static Function,
    pub other: Other<T>,
    second: Option<Value>,
    options: Options,
    settings: Settings,
}

impl<T: Number> Call<T> {
    pub fn value(&self, x: &raptors_arrow::Matrix) -> Value {
        let mut arguments = vec![Value::Matrix(x.clone())];
        arguments.extend(self.second.clone());
        match self.function.call(&arguments, &self.options) {
            Ok(value) => value,
            Err(error) => panic!("{self}: {error}"),
        }
    }

    pub fn run(&self, x: &raptors_arrow::Matrix) -> Outcome {
        Outcome::of_value::<T>(&self.value(x))
    }

    pub fn expected(&self, x: &Table<T>) -> Outcome {
        answer(self.function.name, x, &self.other, self.settings)
    }
}

impl<T: Number> std::fmt::Display for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &self.other {
            Other::Nothing => "nothing",
            Other::Number(_) => "a number",
            Other::Scalar(_) => "a scalar",
            Other::Row(_) => "a row",
            Other::Column(_) => "a column",
            Other::Matrix(_) => "a matrix",
        };
        write!(f, "{} with {kind} {:?}", self.function.name, self.settings)
    }
}

/// One call for each function, axis and kind of second operand.
pub fn few_calls<T: Number>(
    random: &mut Random,
    rows: usize,
    width: usize,
    nulls: Nulls,
) -> Vec<Call<T>> {
    let mut seen = std::collections::HashSet::new();
    let mut all = calls(random, rows, width, nulls);
    all.retain(|call| {
        let kind = std::mem::discriminant(&call.other);
        seen.insert((call.function.name, call.settings.axis, kind))
    });
    all
}

/// Every call of every function on a table of this shape.
pub fn calls<T: Number>(
    random: &mut Random,
    rows: usize,
    width: usize,
    nulls: Nulls,
) -> Vec<Call<T>> {
    let mut all = Vec::new();
    let seed = random.next();
    for function in list_functions() {
        // Numbers of its own for each function: a new one leaves the others' golden hashes alone.
        let name = function.name.bytes().fold(seed, |hash, b| hash.rotate_left(7) ^ u64::from(b));
        let mut random = Random::new(name);
        let seconds = match function.arguments.get(1) {
            None => vec![(Other::Nothing, None, None)],
            Some(argument) => seconds(&mut random, argument.kind, rows, width, nulls),
        };
        for (other, second, axis) in seconds {
            for (options, settings) in options(function, axis) {
                let (other, second) = (other.clone(), second.clone());
                all.push(Call { function, other, second, options, settings });
            }
        }
    }
    all
}

type Second<T> = (Other<T>, Option<Value>, Option<i64>);

/// The second arguments of a kind, each with the axis it needs.
fn seconds<T: Number>(
    random: &mut Random,
    kind: ArgumentKind,
    rows: usize,
    width: usize,
    nulls: Nulls,
) -> Vec<Second<T>> {
    let offset = random.below(16);
    let number = 0.1 + random.unit();
    let scalar = T::random(random);
    let one: ArrayRef = T::array(&[Some(scalar)], offset);
    let vector = |random: &mut Random, len: usize| -> Vec<Option<T>> {
        Table::random(random, len, 1, nulls).column(0)
    };
    let row = vector(random, width);
    let column = vector(random, rows);
    let as_vector = |values: &[Option<T>]| Some(Value::Vector(T::array(values, offset)));
    let numbers = vec![
        (Other::Number(number), Some(Value::Number(number)), None),
        (Other::Scalar(scalar), Some(Value::Scalar(Arc::clone(&one))), None),
    ];
    match kind {
        ArgumentKind::Matrix => panic!("a second matrix has no calls here yet"),
        ArgumentKind::Number => numbers,
        ArgumentKind::Row => vec![(Other::Row(row.clone()), as_vector(&row), None)],
        ArgumentKind::Operand => {
            let mut all = numbers;
            all.push((Other::Row(row.clone()), as_vector(&row), None));
            all.push((Other::Row(row.clone()), as_vector(&row), Some(1)));
            all.push((Other::Column(column.clone()), as_vector(&column), Some(0)));
            if rows != 1 {
                let one_row = Table { width, rows: vec![Some(row.clone())] };
                let value = matrix(&one_row, Form::new(Layout::FixedSizeList, offset));
                all.push((Other::Row(row), Some(value.into()), None));
            }
            if width != 1 {
                let one_wide =
                    Table { width: 1, rows: column.iter().map(|v| Some(vec![*v])).collect() };
                let value = matrix(&one_wide, Form::new(Layout::FixedSizeList, offset));
                all.push((Other::Column(column), Some(value.into()), None));
            }
            let layout = Layout::EACH[random.below(Layout::EACH.len())];
            let same = as_held(&Table::random(random, rows, width, nulls), layout);
            // A flat array of width 1 is a vector, and a list column without a valid row has no
            // width: neither lines up as a matrix.
            let no_row = same.rows.iter().all(Option::is_none);
            let layout = if width <= 1 || no_row { Layout::FixedSizeList } else { layout };
            let value = matrix(&same, Form::new(layout, offset));
            all.push((Other::Matrix(same), Some(value.into()), None));
            all
        }
    }
}

/// The option sets of a function.
fn options(function: &Function, axis: Option<i64>) -> Vec<(Options, Settings)> {
    let has = |name: &str| function.options.iter().any(|option| option.name == name);
    let reduces = has("min_count");
    let axes = match axis {
        Some(_) => vec![axis],
        None if reduces && has("axis") => vec![None, Some(0), Some(1)],
        None => vec![None],
    };
    let known = ["axis", "skip_nulls", "min_count"];
    for option in function.options {
        let is_known = known.contains(&option.name);
        assert!(is_known, "no test sets the option {} of {}", option.name, function.name);
        assert_eq!(option.name == "axis", option.kind == OptionKind::Axis);
    }
    let mut all = Vec::new();
    for axis in axes {
        let base = Settings { axis, ..Settings::default() };
        let with_axis = match axis {
            Some(axis) => Options::new().set("axis", axis),
            None => Options::new(),
        };
        all.push((with_axis.clone(), base));
        if reduces {
            for (skip_nulls, min_count) in [(false, 1), (true, 0), (true, 3), (false, 0)] {
                let options = with_axis
                    .clone()
                    .set("skip_nulls", skip_nulls)
                    .set("min_count", min_count as i64);
                all.push((options, Settings { axis, skip_nulls, min_count }));
            }
        }
    }
    all
}
