//! Every way to call each function of the table: its arguments and options, with their oracle.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::DataType;
use raptors_arrow::compute::registry::ArgumentKind;
use raptors_arrow::compute::{
    Function, OptionKind, OptionValue, Options, Pass, Value, list_functions,
};
use raptors_arrow::{Error, Matrix};

use super::forms::{Form, Layout, as_held, matrix};
use super::numbers::{self, Number};
use super::spec::{Answer, Other, Settings, answer};
use super::{Draw, Nulls, Random, Table};

/// A call of a function on some first argument.
pub struct Call {
    pub function: &'static Function,
    pub other: Arc<Other>,
    pub settings: Settings,
    arguments: Vec<Value>,
    pub options: Options,
}

impl Call {
    fn with(&self, x: &Matrix) -> Vec<Value> {
        let mut arguments = vec![Value::Matrix(x.clone())];
        arguments.extend(self.arguments.iter().cloned());
        arguments
    }

    pub fn run(&self, x: &Matrix) -> Result<Value, Error> {
        self.function.call(&self.with(x), &self.options)
    }

    pub fn explain(&self, x: &Matrix) -> Result<Vec<Pass>, Error> {
        self.function.explain(&self.with(x), &self.options)
    }

    /// The same call with other objects for its further arguments.
    pub fn map_arguments(&self, map: impl Fn(&Value) -> Value) -> Self {
        Self {
            function: self.function,
            other: Arc::clone(&self.other),
            settings: self.settings.clone(),
            arguments: self.arguments.iter().map(map).collect(),
            options: self.options.clone(),
        }
    }

    /// Whether the rows of the first argument are vectors, which plain numbers are not.
    pub fn is_by_rows(&self) -> bool {
        let has_axis = self.function.options.iter().any(|option| option.name == "axis");
        let is_rows = self.function.arguments[0].kind == ArgumentKind::Rows;
        is_rows && (!has_axis || self.settings.axis == Some(1))
    }

    pub fn expected(&self, x: &Table) -> Answer {
        answer(self.function.name, x, &self.other, &self.settings)
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &*self.other {
            Other::Nothing => "nothing",
            Other::Number(number) => &format!("the number {number}"),
            Other::Integer(number) => &format!("the integer {number}"),
            Other::Scalar(_) => "a scalar",
            Other::Row(_) => "a row",
            Other::Column(_) => "a column",
            Other::Matrix(table) => &format!("a matrix of {}", table.rows.len()),
            Other::Two(both) => &format!("{both:?}"),
        };
        write!(f, "{} with {kind}", self.function.name)?;
        self.options.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Which calls of each function to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    All,
    /// One for each axis, kind of second argument and variant.
    Few,
    /// So many, at random.
    Some(usize),
}

/// The matrix that calls are made for.
#[derive(Clone, Copy)]
pub struct First<'a> {
    pub element: &'a DataType,
    pub rows: usize,
    pub width: usize,
    pub nulls: Nulls,
    pub draw: Draw,
}

/// Calls of every function on such a matrix.
pub fn calls(random: &mut Random, x: First<'_>, sample: Sample) -> Vec<Call> {
    let mut all = Vec::new();
    let seed = random.next();
    for function in list_functions() {
        // Numbers of its own for each function: a new one leaves the others' golden hashes alone.
        let name = function.name.bytes().fold(seed, |hash, b| hash.rotate_left(7) ^ u64::from(b));
        let mut random = Random::new(name);
        let seconds = seconds(&mut random, function, x);
        let mut ways: Vec<(&Second, Chosen)> = Vec::new();
        for second in &seconds {
            ways.extend(options(function, x.element, second).into_iter().map(|o| (second, o)));
        }
        // Results that grow with the square of the shape are left to the smaller ones.
        ways.retain(|(second, _)| {
            let is_alone = matches!(*second.other, Other::Nothing);
            match function.name {
                "gram" | "covariance" | "correlation" => x.width <= MOST_SQUARED,
                "pairwise" if is_alone => x.rows <= MOST_SQUARED,
                _ => true,
            }
        });
        match sample {
            Sample::All => {}
            Sample::Few => {
                let mut seen = HashSet::new();
                ways.retain(|(second, chosen)| {
                    let kind = std::mem::discriminant(&*second.other);
                    !second.is_extra && seen.insert((kind, chosen.axis, chosen.variant.clone()))
                });
            }
            Sample::Some(n) => {
                for i in 0..n.min(ways.len()) {
                    let j = i + random.below(ways.len() - i);
                    ways.swap(i, j);
                }
                ways.truncate(n);
            }
        }
        for (second, Chosen { options, settings, .. }) in ways {
            let arguments = second.values(x.element);
            let other = Arc::clone(&second.other);
            all.push(Call { function, other, settings, arguments, options });
        }
    }
    all
}

/// Rows or columns of which every two are compared.
const MOST_SQUARED: usize = 80;

/// A second argument: what it is, how it is passed, and the axis that it needs.
struct Second {
    other: Arc<Other>,
    passed: Passed,
    axis: Option<i64>,
    offset: usize,
    /// Not among the few, whose golden hashes were made without it.
    is_extra: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Passed {
    Plainly,
    /// A row or column vector as lists.
    AsLists(Layout),
}

impl Second {
    fn new(other: Other, passed: Passed, axis: Option<i64>, offset: usize) -> Self {
        Self { other: Arc::new(other), passed, axis, offset, is_extra: false }
    }

    fn values(&self, element: &DataType) -> Vec<Value> {
        match &*self.other {
            Other::Two(both) => {
                let one = |other: &Other| Self {
                    other: Arc::new(other.clone()),
                    passed: self.passed,
                    ..*self
                };
                both.iter().filter_map(|other| one(other).value(element)).collect()
            }
            _ => self.value(element).into_iter().collect(),
        }
    }

    fn value(&self, element: &DataType) -> Option<Value> {
        let vector =
            |values: &[Option<Number>]| Value::Vector(numbers::array(element, values, self.offset));
        let lists = |table: &Table, layout: Layout| {
            Value::Matrix(matrix(table, Form::new(layout, self.offset)))
        };
        let table = |width: usize, rows: Vec<Vec<Option<Number>>>| Table {
            element: element.clone(),
            width,
            rows: rows.into_iter().map(Some).collect(),
        };
        Some(match (&*self.other, self.passed) {
            (Other::Nothing, _) => return None,
            (Other::Number(number), _) => Value::Number(*number),
            (Other::Integer(number), _) => Value::Integer((*number).into()),
            (Other::Scalar(number), _) => {
                Value::Scalar(numbers::array(element, &[Some(*number)], self.offset))
            }
            (Other::Row(values) | Other::Column(values), Passed::Plainly) => vector(values),
            (Other::Row(values), Passed::AsLists(layout)) => {
                lists(&table(values.len(), vec![values.clone()]), layout)
            }
            (Other::Column(values), Passed::AsLists(layout)) => {
                lists(&table(1, values.iter().map(|v| vec![*v]).collect()), layout)
            }
            (Other::Matrix(table), Passed::AsLists(layout)) => lists(table, layout),
            (Other::Matrix(_) | Other::Two(_), _) => panic!("a matrix has some layout"),
        })
    }
}

/// The second arguments of a function.
fn seconds(random: &mut Random, function: &Function, x: First<'_>) -> Vec<Second> {
    let First { element, rows, width, nulls, draw } = x;
    if function.name == "where" {
        return choices(random, x);
    }
    let [_, argument] = function.arguments else {
        assert_eq!(function.arguments.len(), 1, "no test calls {} with three", function.name);
        return vec![Second::new(Other::Nothing, Passed::Plainly, None, 0)];
    };
    // The order in which numbers are drawn is part of the golden hashes.
    let draw = if draw == Draw::Tame { Draw::TameY } else { draw };
    let offset = random.below(16);
    let number = 0.1 + random.unit();
    let scalar = numbers::tame(element, random, true);
    let vector = |random: &mut Random, len: usize| -> Vec<Option<Number>> {
        Table::random(random, element, (len, 1), nulls, draw).column(0)
    };
    let row = vector(random, width);
    let column = vector(random, rows);
    let made =
        |other: Other, passed: Passed, axis: Option<i64>| Second::new(other, passed, axis, offset);
    let plain = |other: Other| made(other, Passed::Plainly, None);
    let is_integer = element.is_integer();
    let numbers = || {
        let whole = numbers::tame(&DataType::Int8, &mut Random::new(offset as u64 + 7), true);
        let mut all = vec![
            plain(Other::Number(if is_integer { scalar.to_f64() } else { number })),
            plain(Other::Scalar(scalar)),
        ];
        // Whole numbers that unsigned types refuse when they are negative; and for integers one
        // that is not whole.
        let mut extras = vec![Other::Integer(whole.to_i128() as i64)];
        extras.extend(is_integer.then_some(Other::Number(number)));
        let extra = |other| Second { is_extra: !is_integer, ..plain(other) };
        all.extend(extras.into_iter().map(extra));
        all
    };
    // A matrix in some layout. A flat array of width 1 is a vector, and a list column without a
    // valid row has no width: neither lines up as a matrix.
    let table = |random: &mut Random, rows: usize, width: usize| {
        let layout = Layout::EACH[random.below(Layout::EACH.len())];
        let drawn = Table::random(random, element, (rows, width), nulls, draw);
        let same = as_held(&drawn, layout);
        let no_row = same.rows.iter().all(Option::is_none);
        let layout = if width <= 1 || no_row { Layout::FixedSizeList } else { layout };
        made(Other::Matrix(same), Passed::AsLists(layout), None)
    };
    let lists = Passed::AsLists(Layout::FixedSizeList);
    let mut all = match argument.kind {
        ArgumentKind::Number => numbers(),
        // Weights come by name alone, and are tested by themselves.
        ArgumentKind::Row | ArgumentKind::Weights => vec![plain(Other::Row(row))],
        ArgumentKind::Operand => {
            let mut all = numbers();
            all.push(plain(Other::Row(row.clone())));
            all.push(made(Other::Row(row.clone()), Passed::Plainly, Some(1)));
            all.push(made(Other::Column(column.clone()), Passed::Plainly, Some(0)));
            if rows != 1 {
                all.push(made(Other::Row(row), lists, None));
            }
            if width != 1 {
                all.push(made(Other::Column(column), lists, None));
            }
            all.push(table(random, rows, width));
            all
        }
        ArgumentKind::Vectors => {
            vec![plain(Other::Row(row)), table(random, rows, width)]
        }
        ArgumentKind::Queries => {
            let queries = 1 + random.below(5);
            vec![plain(Other::Row(row)), table(random, queries, width)]
        }
        ArgumentKind::Matrix | ArgumentKind::Rows => {
            let others = 1 + random.below(6);
            if function.name == "matmul" {
                vec![table(random, width, others), plain(Other::Row(row))]
            } else {
                vec![table(random, others, width)]
            }
        }
    };
    if argument.optional {
        all.push(plain(Other::Nothing));
    }
    all
}

/// The two values of a choice: numbers, rows and columns.
fn choices(random: &mut Random, x: First<'_>) -> Vec<Second> {
    let First { element, rows, width, nulls, draw } = x;
    let offset = random.below(16);
    let mut vector = |len: usize| -> Vec<Option<Number>> {
        Table::random(random, element, (len, 1), nulls, draw).column(0)
    };
    let (row, column, one) = (vector(width), vector(rows), vector(1));
    let scalar = one[0].unwrap_or_else(|| numbers::tame(element, random, true));
    let made = |x: Other, y: Other, axis: Option<i64>| {
        Second::new(Other::Two(Box::new([x, y])), Passed::Plainly, axis, offset)
    };
    // A vector beside another is one with it, element by element.
    vec![
        made(Other::Row(row.clone()), Other::Scalar(scalar), Some(1)),
        made(Other::Integer(3), Other::Row(row), Some(1)),
        made(Other::Column(column.clone()), Other::Integer(7), Some(0)),
        made(Other::Scalar(scalar), Other::Column(column), Some(0)),
        made(Other::Integer(1), Other::Integer(0), None),
        made(Other::Number(0.5), Other::Integer(-1), None),
    ]
}

/// A set of options.
struct Chosen {
    axis: Option<OptionAxis>,
    /// What sets it apart from the plainest, axis and nulls aside.
    variant: String,
    options: Options,
    settings: Settings,
}

/// An axis that was given: `None` or a number.
type OptionAxis = Option<i64>;

/// The option sets of a function: the plainest, and every other value of each option by itself,
/// for each axis.
fn options(function: &Function, element: &DataType, second: &Second) -> Vec<Chosen> {
    let kind = |name: &str| {
        let spec = function.options.iter().find(|option| option.name == name);
        spec.map(|option| option.kind)
    };
    let reduces = kind("min_count").is_some();
    let takes_operand = function.arguments.get(1).is_some_and(|argument| {
        matches!(argument.kind, ArgumentKind::Operand | ArgumentKind::Vectors)
    });
    let axes: Vec<Option<OptionAxis>> = match kind("axis") {
        None => vec![None],
        Some(_) if takes_operand => vec![second.axis.map(Some)],
        Some(OptionKind::Along(_)) => vec![None, Some(Some(0)), Some(Some(1))],
        Some(OptionKind::Axis(None)) => vec![None, Some(Some(0)), Some(Some(1))],
        Some(_) => vec![None, Some(None), Some(Some(0)), Some(Some(1))],
    };
    let required = match kind("type") {
        None => vec![None],
        Some(_) => numbers::TYPES.iter().map(|(name, _)| Some(*name)).collect(),
    };
    let mut all = Vec::new();
    for axis in axes {
        for name in &required {
            let mut base: Vec<(&str, OptionValue)> = Vec::new();
            base.extend(axis.map(|axis| ("axis", axis.into())));
            base.extend(name.map(|name| ("type", name.into())));
            let mut add = |more: &[(&'static str, OptionValue)], is_variant: bool| {
                let given: Vec<_> = base.iter().chain(more).cloned().collect();
                let said = |(name, value): &(&str, OptionValue)| format!("{name}={value} ");
                let variant = base.iter().chain(more.iter().filter(|_| is_variant));
                let variant = variant.filter(|(name, _)| *name != "axis").map(said).collect();
                all.push(chosen(function, axis, variant, &given));
            };
            add(&[], false);
            if reduces {
                for (skip_nulls, min_count) in [(false, 1), (true, 0), (true, 3), (false, 0)] {
                    let count: i64 = min_count;
                    add(&[("skip_nulls", skip_nulls.into()), ("min_count", count.into())], false);
                }
            }
            for option in function.options {
                for value in other_values(option.name, option.kind, element) {
                    add(&[(option.name, value)], true);
                }
            }
            if kind("min") == Some(OptionKind::Bound) {
                let (min, max) = bounds(element);
                let both = |a: OptionValue, b: OptionValue| [("min", a), ("max", b)];
                add(&both(min.into(), max.into()), true);
                // The wrong way round: the highest wins.
                add(&both(max.into(), min.into()), true);
                add(&both(OptionValue::None, (max as f64 + 0.5).into()), true);
            }
        }
    }
    all
}

/// Bounds that cut a part of the tame numbers of a type.
fn bounds(element: &DataType) -> (i64, i64) {
    if element.is_unsigned_integer() { (9, 12) } else { (-2, 5) }
}

/// Values of an option beside its default. A kind or name that is not known here fails.
fn other_values(name: &str, kind: OptionKind, element: &DataType) -> Vec<OptionValue> {
    match (kind, name) {
        // Set by `options` itself.
        (OptionKind::Axis(_) | OptionKind::Along(_), "axis") => vec![],
        (OptionKind::Type, "type") => vec![],
        // Of which the tests from Python know more.
        (OptionKind::Flag(false), "keepdims") => vec![],
        (OptionKind::OptionalType, "dtype") => vec!["float64".into()],
        (OptionKind::Flag(true), "skip_nulls") | (OptionKind::Count(1), "min_count") => vec![],
        (OptionKind::Flag(true), "safe") => vec![false.into()],
        (OptionKind::Count(default), "ddof") => {
            (0..3).filter(|n| *n != default as i64).map(Into::into).collect()
        }
        (OptionKind::Count(0), "decimals") => [1i64, 3, 20, 400].map(Into::into).to_vec(),
        (OptionKind::Count(_), "k") => [0i64, 1, 3, 1000].map(Into::into).to_vec(),
        (OptionKind::Order, "ord") => {
            vec![1i64.into(), "inf".into(), 1.0.into(), 2i64.into(), f64::INFINITY.into()]
        }
        (OptionKind::Fraction, "q") => vec![0i64.into(), 0.1.into(), 0.75.into(), 1.0.into()],
        (OptionKind::Choice(words), "interpolation") => {
            words[1..].iter().map(|w| (*w).into()).collect()
        }
        // Behind them are other names of the same, see tests/registry.rs.
        (OptionKind::Choice(words), "metric") => {
            words[1..4].iter().chain(&["sqeuclidean"]).map(|w| (*w).into()).collect()
        }
        (OptionKind::Bound, "min") => vec![bounds(element).0.into()],
        (OptionKind::Bound, "max") => {
            // And one that narrow integers cannot hold.
            vec![bounds(element).1.into(), 300i64.into(), (-1i64).into()]
        }
        (kind, name) => panic!("no test sets an option {name} of kind {kind:?}"),
    }
}

fn chosen(
    function: &Function,
    axis: Option<OptionAxis>,
    variant: String,
    given: &[(&str, OptionValue)],
) -> Chosen {
    let mut settings = Settings::default();
    for option in function.options {
        settings.take(option.name, &option.kind.default_value());
    }
    let mut options = Options::new();
    for (name, value) in given {
        settings.take(name, value);
        options = options.set(name.to_string(), value.clone());
    }
    Chosen { axis, variant, options, settings }
}
