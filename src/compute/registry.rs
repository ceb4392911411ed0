//! The table of all functions, and calling one by name.
//!
//! A function is one entry of [`TABLE`]: name, summary, arguments, options, null rule, the bytes
//! it moves, and its call. Python functions, stubs, documentation and the conformance tests are
//! made from it.

use super::options::{Checked, OptionKind, OptionSpec};
use super::{Operand, Options, Per, Value, arithmetic, reduce};
use crate::dispatch::{Plan, Work, machine, plan, settings};
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// A function that can be called by name.
#[derive(Debug)]
pub struct Function {
    /// Its name, unique in the table.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The family it belongs to.
    pub family: &'static str,
    /// What it takes.
    pub arguments: &'static [Argument],
    /// The options it has.
    pub options: &'static [OptionSpec],
    /// What it does with nulls.
    pub nulls: NullRule,
    work: fn(&Call<'_>) -> Result<Work>,
    invoke: fn(&Call<'_>) -> Result<Value>,
}

/// An argument of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgumentKind,
    /// What it means.
    pub doc: &'static str,
}

/// What an argument may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Anything that can be seen as a matrix.
    Matrix,
    /// A number, a vector or a matrix that lines up with the first argument.
    Operand,
    /// One value per column.
    Row,
    /// One number.
    Number,
}

/// What a function does with nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullRule {
    /// Skips them, and gives null where too few values are left.
    Skips,
    /// Gives null where an operand is null.
    Propagates,
}

impl NullRule {
    /// The rule in a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Skips => {
                "Null rows and elements are skipped; with skip_nulls=False one null makes its \
                 result null; fewer than min_count valid values give null."
            }
            Self::Propagates => "A null row or element of an operand is null in the result.",
        }
    }
}

/// How a call would run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explanation {
    /// The bytes that must move.
    pub work: Work,
    /// Where and how.
    pub plan: Plan,
}

impl Function {
    /// Calls it.
    ///
    /// # Errors
    ///
    /// Those of the function, and for arguments and options that it does not take.
    pub fn call(&'static self, arguments: &[Value], options: &Options) -> Result<Value> {
        (self.invoke)(&Call::new(self, arguments, options)?)
    }

    /// Says how a call would run, and touches no data.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), as far as arguments and options go.
    pub fn explain(&'static self, arguments: &[Value], options: &Options) -> Result<Explanation> {
        let work = (self.work)(&Call::new(self, arguments, options)?)?;
        Ok(Explanation { work, plan: plan(&work, machine(), &settings::settings()?) })
    }
}

/// All functions, by name.
pub fn list_functions() -> impl Iterator<Item = &'static Function> {
    TABLE.iter()
}

/// The function of a name.
///
/// # Errors
///
/// [`Error::NoSuchFunction`], with a name that is close if there is one.
pub fn get_function(name: &str) -> Result<&'static Function> {
    TABLE.iter().find(|function| function.name == name).ok_or_else(|| {
        let distance = |function: &&Function| edits(name, function.name);
        let near = TABLE.iter().min_by_key(distance).filter(|function| distance(function) <= 2);
        Error::NoSuchFunction { name: name.to_owned(), near: near.map(|function| function.name) }
    })
}

/// Calls a function by name.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, FixedSizeListArray, types::Float64Type};
/// use raptors_arrow::compute::{Options, Value, call_function};
///
/// let rows = [Some([Some(1.0), Some(2.0)]), Some([Some(3.0), Some(5.0)])];
/// let x: ArrayRef =
///     Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(rows, 2));
/// let sums = call_function("sum", &[Value::try_from(&x)?], &Options::new().set("axis", 1))?;
/// let expected: ArrayRef = Arc::new(Float64Array::from(vec![3.0, 8.0]));
/// assert_eq!(sums.as_array(), Some(&expected));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoSuchFunction`], and those of [`Function::call`].
pub fn call_function(name: &str, arguments: &[Value], options: &Options) -> Result<Value> {
    get_function(name)?.call(arguments, options)
}

const X: Argument = Argument { name: "x", kind: ArgumentKind::Matrix, doc: "The matrix." };
const Y: Argument = Argument {
    name: "y",
    kind: ArgumentKind::Operand,
    doc: "A number, a 1-D array (one value per column, or per row with axis=0), a list of one \
          row or of width 1, or a matrix of the same shape.",
};
const FACTOR: Argument =
    Argument { name: "factor", kind: ArgumentKind::Number, doc: "The number to multiply by." };
const ROW: Argument =
    Argument { name: "row", kind: ArgumentKind::Row, doc: "One value per column." };

const AXIS: OptionSpec = OptionSpec {
    name: "axis",
    kind: OptionKind::Axis,
    doc: "None: one result; 0: one per column; 1: one per row.",
};
const OPERAND_AXIS: OptionSpec = OptionSpec {
    name: "axis",
    kind: OptionKind::Axis,
    doc: "0: a 1-D y holds one value per row; None or 1: one per column.",
};
const SKIP_NULLS: OptionSpec = OptionSpec {
    name: "skip_nulls",
    kind: OptionKind::Flag(true),
    doc: "Skip nulls; if False, one null makes its result null.",
};
const MIN_COUNT: OptionSpec = OptionSpec {
    name: "min_count",
    kind: OptionKind::Count(1),
    doc: "Fewer valid values than this give null.",
};

const REDUCTION: &[OptionSpec] = &[AXIS, SKIP_NULLS, MIN_COUNT];
const FIXED_REDUCTION: &[OptionSpec] = &[SKIP_NULLS, MIN_COUNT];

/// A reduction with an `axis`, or with a fixed one (`Some(per)`).
macro_rules! reduction {
    ($name:literal, $call:path, $per:expr, $options:expr, $summary:literal) => {
        Function {
            name: $name,
            summary: $summary,
            family: "reductions",
            arguments: &[X],
            options: $options,
            nulls: NullRule::Skips,
            work: |call| Ok(reduce::work(&*call.matrix(0)?, call.per($per))),
            invoke: |call| {
                let per = call.per($per);
                call.reduced(per, $call(&*call.matrix(0)?, per, &call.options.reduce())?)
            },
        }
    };
}

/// Arithmetic of a matrix with an operand.
macro_rules! arithmetic {
    ($name:literal, $call:path, $second:expr, $options:expr, $summary:literal) => {
        Function {
            name: $name,
            summary: $summary,
            family: "arithmetic",
            arguments: &[X, $second],
            options: $options,
            nulls: NullRule::Propagates,
            work: |call| Ok(arithmetic::work(&*call.matrix(0)?, call.operand_bytes(1))),
            invoke: |call| {
                let x = call.matrix(0)?;
                let y = call.held(1)?;
                Ok(Value::Matrix($call(&*x, call.operand(1, y.as_deref())?)?))
            },
        }
    };
}

/// All functions. A new one is one entry here.
static TABLE: &[Function] = &[
    reduction!("sum", reduce::sum_with, None, REDUCTION, "Adds up the elements."),
    reduction!("mean", reduce::mean_with, None, REDUCTION, "The mean of the elements."),
    reduction!(
        "sum_axis0",
        reduce::sum_with,
        Some(Per::Column),
        FIXED_REDUCTION,
        "Adds up each column: sum with axis=0."
    ),
    reduction!(
        "mean_axis0",
        reduce::mean_with,
        Some(Per::Column),
        FIXED_REDUCTION,
        "The mean of each column: mean with axis=0."
    ),
    reduction!(
        "mean_axis1",
        reduce::mean_with,
        Some(Per::Row),
        FIXED_REDUCTION,
        "The mean of each row: mean with axis=1."
    ),
    arithmetic!("add", arithmetic::add, Y, &[OPERAND_AXIS], "Adds y to x, element by element."),
    arithmetic!(
        "subtract",
        arithmetic::subtract,
        Y,
        &[OPERAND_AXIS],
        "Subtracts y from x, element by element."
    ),
    arithmetic!(
        "multiply",
        arithmetic::multiply,
        Y,
        &[OPERAND_AXIS],
        "Multiplies x by y, element by element."
    ),
    arithmetic!(
        "divide",
        arithmetic::divide,
        Y,
        &[OPERAND_AXIS],
        "Divides x by y, element by element."
    ),
    arithmetic!(
        "broadcast_add",
        arithmetic::broadcast_add,
        ROW,
        &[],
        "Adds a row to every row of x."
    ),
    arithmetic!("scale", arithmetic::scale, FACTOR, &[], "Multiplies every element by one number."),
];

/// A call whose arguments were counted and whose options were checked.
struct Call<'a> {
    function: &'static Function,
    arguments: &'a [Value],
    options: Checked<'a>,
}

/// A matrix that the call made from an argument, or the argument itself.
type Held<'a> = std::borrow::Cow<'a, Matrix>;

impl<'a> Call<'a> {
    fn new(
        function: &'static Function,
        arguments: &'a [Value],
        options: &'a Options,
    ) -> Result<Self> {
        let (expected, got) = (function.arguments.len(), arguments.len());
        if expected != got {
            return Err(Error::Arguments { function: function.name, expected, got });
        }
        let options = Checked::new(function.name, function.options, options)?;
        Ok(Self { function, arguments, options })
    }

    fn refuse(&self, i: usize, expected: &'static str) -> Error {
        Error::Argument {
            function: self.function.name,
            argument: self.function.arguments[i].name,
            expected,
            got: self.arguments[i].describe(),
        }
    }

    fn matrix(&self, i: usize) -> Result<Held<'a>> {
        self.held(i)?.ok_or_else(|| self.refuse(i, "a matrix"))
    }

    /// The argument as a matrix, unless it is one number.
    fn held(&self, i: usize) -> Result<Option<Held<'a>>> {
        Ok(match &self.arguments[i] {
            Value::Matrix(matrix) => Some(Held::Borrowed(matrix)),
            Value::Vector(array) => Some(Held::Owned(Matrix::reshape(array, 1)?)),
            Value::Number(_) | Value::Scalar(_) => None,
        })
    }

    /// The argument as an operand; `held` is what [`held`](Self::held) gave for it.
    fn operand<'m>(&self, i: usize, held: Option<&'m Matrix>) -> Result<Operand<'m>> {
        let kind = self.function.arguments[i].kind;
        let axis = self.options.axis();
        match (&self.arguments[i], held, kind) {
            (_, Some(_), ArgumentKind::Number) => Err(self.refuse(i, "one number")),
            (_, None, ArgumentKind::Row) => Err(self.refuse(i, "one value per column")),
            (Value::Number(number), ..) => Ok(Operand::from(*number)),
            (Value::Scalar(one), ..) => Ok(Operand::scalar(one.clone())),
            (_, Some(y), ArgumentKind::Row) => Ok(Operand::as_row(y)),
            (_, Some(y), _) if y.is_vector() && axis == Some(0) => Ok(Operand::as_column(y)),
            (_, Some(y), _) if y.is_vector() => Ok(Operand::as_row(y)),
            (_, Some(_), _) if axis.is_some() => {
                Err(self.refuse(i, "a 1-D array, as axis is given (leave axis out for a matrix)"))
            }
            (_, Some(y), _) => Ok(Operand::from(y)),
            (_, None, _) => Err(self.refuse(i, "a number, an array or a matrix")),
        }
    }

    fn operand_bytes(&self, i: usize) -> usize {
        match &self.arguments[i] {
            Value::Matrix(matrix) => matrix.bytes(),
            _ => 0,
        }
    }

    fn per(&self, fixed: Option<Per>) -> Per {
        fixed.unwrap_or_else(|| self.options.per())
    }

    fn reduced(&self, per: Per, result: arrow_array::ArrayRef) -> Result<Value> {
        Ok(match per {
            Per::Matrix => Value::Scalar(result),
            Per::Column | Per::Row => Value::Vector(result),
        })
    }
}

/// Edits between two words: insertions, deletions, replacements.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
