//! The table of all functions, and calling one by name.
//!
//! A function is one entry of a family's table (`table/`): name, summary, arguments, options, null
//! rule, the bytes it moves, and its call. Python functions, stubs, documentation and the
//! conformance tests are made from it.

use super::options::{Checked, OptionSpec};
use super::{Operand, Options, Per, Value, table};
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
    /// What it gives.
    pub gives: Gives,
    pub(super) work: fn(&Call<'_>) -> Result<Work>,
    pub(super) invoke: fn(&Call<'_>) -> Result<Value>,
}

/// What a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// One number, or one per column or per row, by its axis.
    Reduced,
    /// A matrix with a row for each row of the first argument.
    Rows,
    /// One number per row of the first argument.
    Numbers,
    /// A matrix of another shape.
    Matrix,
    /// Several results, by these names.
    Named(&'static [&'static str]),
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
    /// Whether it may be left out.
    pub optional: bool,
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
    /// A matrix with as many rows and columns as the first, or one vector for all its rows.
    Vectors,
    /// One vector, or a matrix of vectors, as wide as the first argument.
    Queries,
}

/// What a function does with nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullRule {
    /// Skips them, and gives null where too few values are left.
    Skips,
    /// Gives null where an operand is null.
    Propagates,
    /// Gives a null row, or null, for a row with any null.
    WholeRows,
    /// Leaves out rows with any null.
    DropsRows,
    /// Skips nulls where it measures columns, and gives null where an operand is null.
    SkipsThenPropagates,
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
            Self::WholeRows => "A row that is null, or has a null element, is null in the result.",
            Self::DropsRows => "Rows that are null, or have a null element, are left out.",
            Self::SkipsThenPropagates => {
                "Nulls are skipped where columns or rows are measured, and are null in the result."
            }
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

/// All functions, family by family.
pub fn list_functions() -> impl Iterator<Item = &'static Function> + Clone {
    table::FAMILIES.iter().copied().flatten()
}

/// The function of a name.
///
/// # Errors
///
/// [`Error::NoSuchFunction`], with a name that is close if there is one.
pub fn get_function(name: &str) -> Result<&'static Function> {
    list_functions().find(|function| function.name == name).ok_or_else(|| {
        let distance = |function: &&Function| edits(name, function.name);
        let near = list_functions().min_by_key(distance).filter(|function| distance(function) <= 2);
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

/// A call whose arguments were counted and whose options were checked.
pub(super) struct Call<'a> {
    function: &'static Function,
    arguments: &'a [Value],
    pub(super) options: Checked<'a>,
}

/// A matrix that the call made from an argument, or the argument itself.
pub(super) type Held<'a> = std::borrow::Cow<'a, Matrix>;

impl<'a> Call<'a> {
    fn new(
        function: &'static Function,
        arguments: &'a [Value],
        options: &'a Options,
    ) -> Result<Self> {
        let (most, got) = (function.arguments.len(), arguments.len());
        let least = function.arguments.iter().filter(|argument| !argument.optional).count();
        if got < least || got > most {
            let expected = if got < least { least } else { most };
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

    pub(super) fn matrix(&self, i: usize) -> Result<Held<'a>> {
        self.held(i)?.ok_or_else(|| self.refuse(i, "a matrix"))
    }

    /// The argument as a matrix, if it was given.
    pub(super) fn optional_matrix(&self, i: usize) -> Result<Option<Held<'a>>> {
        if i < self.arguments.len() { self.matrix(i).map(Some) } else { Ok(None) }
    }

    /// The argument as a matrix, unless it is one number.
    pub(super) fn held(&self, i: usize) -> Result<Option<Held<'a>>> {
        Ok(match &self.arguments[i] {
            Value::Matrix(matrix) => Some(Held::Borrowed(matrix)),
            Value::Vector(array) => Some(Held::Owned(Matrix::reshape(array, 1)?)),
            _ => None,
        })
    }

    /// The argument as an operand; `held` is what [`held`](Self::held) gave for it.
    pub(super) fn operand<'m>(&self, i: usize, held: Option<&'m Matrix>) -> Result<Operand<'m>> {
        let kind = self.function.arguments[i].kind;
        let axis = self.options.axis();
        match (&self.arguments[i], held, kind) {
            (_, Some(_), ArgumentKind::Number) => Err(self.refuse(i, "one number")),
            (_, None, ArgumentKind::Row) => Err(self.refuse(i, "one value per column")),
            (Value::Number(number), ..) => Ok(Operand::from(*number)),
            (Value::Integer(number), ..) => Ok(Operand::from(*number)),
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

    pub(super) fn operand_bytes(&self, i: usize) -> usize {
        match self.arguments.get(i) {
            Some(Value::Matrix(matrix)) => matrix.bytes(),
            _ => 0,
        }
    }

    pub(super) fn per(&self, fixed: Option<Per>) -> Per {
        fixed.unwrap_or_else(|| self.options.per())
    }

    pub(super) fn reduced(&self, per: Per, result: arrow_array::ArrayRef) -> Result<Value> {
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
