//! The table of all functions, and calling one by name.
//!
//! A function is one entry of a family's table (`table/`): name, summary, arguments, options, null
//! rule, and the driver that runs it. An entry is data: Python functions, stubs, documentation,
//! engines and the conformance tests read it, and nothing is learnt by running a function.

use super::arithmetic::Operation;
use super::call::{Call, Driven, Pass, Prepared};
use super::choice::{self, Choice};
use super::covariance::OfColumns;
use super::options::{Checked, OptionSpec};
use super::product::Product;
use super::reduce::Statistic;
use super::transform::Transform;
use super::{
    Metric, Options, Per, Value, arithmetic, conditional, covariance, cumulative, pairs, product,
    quantile, reduce,
};
use super::{ragged, table, top_k, transform, transpose};
use crate::dispatch::run;
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
    /// What it takes by name alone, behind the others; all of it may be left out.
    pub by_name: &'static [Argument],
    /// The options it has.
    pub options: &'static [OptionSpec],
    /// What it does with nulls.
    pub nulls: NullRule,
    /// What it gives.
    pub gives: Gives,
    /// What runs it.
    pub driver: Driver,
    /// Its axis, if that is no option.
    pub axis: Option<Per>,
}

/// Which way of running a function takes, and what it does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// One result in all, per column or per row.
    Statistic(Statistic),
    /// An element by its index in sorted order, per column or per row.
    Quantile,
    /// Element by element, alone or with an operand.
    Elementwise(Operation),
    /// One of two values, as a condition says.
    Where,
    /// Running sums, down the columns or along the rows.
    Cumsum,
    /// Nulls asked for, filled or made.
    Choice(Choice),
    /// Each row with a row of another matrix, or with one vector.
    Pairs(Metric),
    /// Rows, columns or all, moved and scaled by what they measure.
    Transform(Transform),
    /// All rows of one matrix with all of another.
    Product(Product),
    /// Every two columns of one matrix.
    Columns(OfColumns),
    /// The rows that are nearest to vectors.
    TopK,
    /// Columns become rows.
    Transpose,
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
    /// A matrix with a row and a column for each column of the first argument.
    Square,
    /// A matrix with a row for each column of the first argument, and a column for each row.
    Transposed,
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
    /// Anything that can be seen as a matrix; plain numbers are one column.
    Matrix,
    /// A matrix whose rows are vectors, where a call takes it by rows. Plain numbers could be one
    /// row or one column, so they are neither.
    Rows,
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
    /// A number for each row, each column or each element of the first argument.
    Weights,
}

/// What a function does with nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullRule {
    /// Skips them, and gives null where too few values are left.
    Skips,
    /// Gives null where an operand is null.
    Propagates,
    /// Gives a value for each null element, and null only where that is null too, or the row.
    Fills,
    /// Gives null where the condition is null, or what it chooses.
    Chooses,
    /// Gives no null element; null rows stay.
    Answers,
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
            Self::Fills => {
                "Null elements take the value; where that is null too, the result is null. A null row \
                 stays null."
            }
            Self::Chooses => {
                "Null where the condition is null, or the value that it chooses. A row is null where the \
                 condition's is, or where all that it chooses is of null rows."
            }
            Self::Answers => "No element of the result is null. A null row stays null.",
            Self::WholeRows => "A row that is null, or has a null element, is null in the result.",
            Self::DropsRows => "Rows that are null, or have a null element, are left out.",
            Self::SkipsThenPropagates => {
                "Nulls are skipped where columns or rows are measured, and are null in the result."
            }
        }
    }
}

impl Function {
    /// Calls it.
    ///
    /// # Errors
    ///
    /// Those of the function, and for arguments and options that it does not take.
    pub fn call(&'static self, arguments: &[Value], options: &Options) -> Result<Value> {
        run::call(self.name, || {
            let result = match ragged::first(arguments) {
                Some(at) => ragged::call(self, at, arguments, options)?,
                None => self.call_here(arguments, options)?,
            };
            match Checked::new(self.options, options)?.flag("keepdims") {
                true => kept_dimensions(self.per(options)?, arguments, result),
                false => Ok(result),
            }
        })
    }

    /// [`call`](Self::call), inside of one.
    pub(super) fn call_here(
        &'static self,
        arguments: &[Value],
        options: &Options,
    ) -> Result<Value> {
        let call = Call::new(self, arguments, options)?;
        Prepared::new(self.bind(&call)?)?.run().map_err(|error| call.advised(error))
    }

    /// Says which passes a call takes, and how each would run; it touches no data. It is what a
    /// call does too, before it runs them.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), as far as arguments and options go.
    pub fn explain(&'static self, arguments: &[Value], options: &Options) -> Result<Vec<Pass>> {
        run::call(self.name, || match ragged::first(arguments) {
            Some(at) => ragged::explain(self, at, arguments, options),
            None => self.explain_here(arguments, options),
        })
    }

    /// [`explain`](Self::explain), inside of a call.
    pub(super) fn explain_here(
        &'static self,
        arguments: &[Value],
        options: &Options,
    ) -> Result<Vec<Pass>> {
        let call = Call::new(self, arguments, options)?;
        Ok(Prepared::new(self.bind(&call)?)?.passes)
    }

    /// The driver's call.
    pub(super) fn bind<'a>(&self, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
        match self.driver {
            Driver::Statistic(statistic) => reduce::bind(statistic, call),
            Driver::Quantile => quantile::bind(call),
            Driver::Elementwise(operation) => arithmetic::bind(operation, call),
            Driver::Where => conditional::bind(call),
            Driver::Cumsum => cumulative::bind(call),
            Driver::Choice(choice) => choice::bind(choice, call),
            Driver::Pairs(metric) => pairs::bind(metric, call),
            Driver::Transform(transform) => transform::bind(transform, call),
            Driver::Product(product) => product::bind(product, call),
            Driver::Columns(kind) => covariance::bind(kind, call),
            Driver::TopK => top_k::bind(call),
            Driver::Transpose => transpose::bind(call),
        }
    }

    /// Whether it takes yes and no for its argument `i`, as they are.
    pub(super) fn takes_flags(&self, i: usize) -> bool {
        self.driver == Driver::Where && i == 0
    }

    /// Whether it takes yes and no as 1 and 0 for its first argument.
    pub(super) fn counts_flags(&self) -> bool {
        matches!(
            self.driver,
            Driver::Statistic(_)
                | Driver::Quantile
                | Driver::Cumsum
                | Driver::Elementwise(Operation::Cast)
                | Driver::Choice(Choice::IsNull)
        )
    }

    /// All that it takes, by position and by name.
    pub fn all_arguments(&self) -> impl Iterator<Item = &'static Argument> + Clone + use<> {
        self.arguments.iter().chain(self.by_name)
    }

    pub(super) fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name == name)
    }

    /// Whether its axis is an option.
    #[cfg(feature = "datafusion")]
    pub(crate) fn has_axis(&self) -> bool {
        self.has_option("axis")
    }

    /// Whether the result has the columns of the first argument: a product has those of the second.
    pub fn keeps_columns(&self) -> bool {
        self.gives == Gives::Rows && !matches!(self.driver, Driver::Product(_))
    }
}

/// What a reduction gives, with as many dimensions as the first argument had.
fn kept_dimensions(per: Per, arguments: &[Value], result: Value) -> Result<Value> {
    let array = match &result {
        Value::Scalar(array) | Value::Vector(array) => array,
        _ => return Ok(result),
    };
    let x = arguments.first().and_then(Value::as_matrix);
    let kept = match (per, x) {
        (Per::Column, Some(x)) => x.one_row(array)?,
        (Per::Column, None) | (Per::Row | Per::Matrix, _) => {
            Matrix::reshape(array, 1)?.into_lists()?
        }
    };
    Ok(Value::Matrix(kept))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float32Array, cast::AsArray, types::Float32Type};
    use arrow_schema::DataType;

    use super::*;
    use crate::compute::options::OptionKind;
    use crate::compute::{ArgumentType, ResultKind, Shape};

    /// A function that no table has: an entry is all that there is to one.
    static PROBE: Function = Function {
        name: "probe",
        summary: "The norm of each row.",
        family: "reductions",
        arguments: &[Argument {
            name: "x",
            kind: ArgumentKind::Rows,
            doc: "The matrix.",
            optional: false,
        }],
        options: &[OptionSpec {
            name: "min_count",
            kind: OptionKind::Count(1),
            doc: "Fewer valid values than this give null.",
            positional: false,
        }],
        nulls: NullRule::Skips,
        gives: Gives::Reduced,
        by_name: &[],
        driver: Driver::Statistic(Statistic::Norm),
        axis: Some(Per::Row),
    };

    #[test]
    fn an_entry_is_all_that_a_new_function_needs() {
        let flat: ArrayRef = Arc::new(Float32Array::from(vec![3.0, 4.0, 6.0, 8.0]));
        let x = crate::Matrix::reshape(&flat, 2).unwrap();
        let arguments = [Value::Matrix(x.into_lists().unwrap())];
        let norms = PROBE.call(&arguments, &Options::new()).unwrap();
        let norms = norms.as_array().unwrap().as_primitive::<Float32Type>();
        assert_eq!(norms.values(), &[5.0, 10.0]);

        let passes = PROBE.explain(&arguments, &Options::new()).unwrap();
        assert_eq!((passes.len(), passes[0].work.bytes_read), (1, 16));
        assert!(PROBE.is_row_by_row(&Options::new()).unwrap());
        let shape = Shape::Matrix { rows: None, width: Some(2) };
        let x = ArgumentType { element: DataType::Int8, shape };
        let given = PROBE.result_type(&[x], &Options::new()).unwrap();
        assert_eq!((given.element, given.kind), (DataType::Float64, ResultKind::PerRow));

        let error = PROBE.call(&[], &Options::new()).unwrap_err();
        assert_eq!(error.to_string(), "probe: expected 1 argument, got 0");
        let error = PROBE.call(&arguments, &Options::new().set("axis", 0)).unwrap_err();
        assert!(error.to_string().starts_with("probe: no option \"axis\""), "{error}");
    }
}
