//! A call, from its arguments to its result: bound, prepared, run.
//!
//! A driver's call is a value that knows which passes over the data it takes and can run them. It
//! is planned once: what `explain` prints is what a call runs.

use arrow_schema::DataType;

use super::fused::{Nulls, Stage};
use super::options::Checked;
use super::reduce::Statistic;
use super::registry::{ArgumentKind, Driver, Function};
use super::{Operand, Options, Per, Value, arithmetic};
use crate::dispatch::{Family, Plan, Work, run};
use crate::error::{Error, Result};
use crate::matrix::{Matrix, size_of_element};
use crate::memory::Gather as _;
use crate::type_name::TypeName;

/// A matrix that the call made from an argument, or the argument itself.
pub(super) type Held<'a> = std::borrow::Cow<'a, Matrix>;

/// One pass over the data: what it does, the bytes that it moves, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// What it does, in a word or two.
    pub what: &'static str,
    /// The bytes that must move.
    pub work: Work,
    /// Where and how.
    pub plan: Plan,
}

/// A call of a driver, with its arguments.
pub(super) trait Driven {
    /// The passes that it takes, in order: what each does, and the bytes that it moves.
    fn works(&self) -> Vec<(&'static str, Work)>;
    /// Runs the passes, which are planned.
    fn run(&self, passes: &[Pass]) -> Result<Value>;

    // How it takes part in a pass over tiles, see `fused`. Its `x` is an outline then.

    /// The type of the elements that it gives, if it gives a matrix of as many rows and columns as
    /// `x` has.
    fn like(&self) -> Option<DataType> {
        None
    }
    /// Whether it makes a result of tiles, and not tiles.
    fn is_sink(&self) -> bool {
        false
    }
    /// Converts operands of another type.
    fn ready(&mut self) -> Result<()> {
        Ok(())
    }
    /// What it does to tiles, if it can, once it is ready; `nulls` are those of `x`.
    fn stage(&self, _nulls: &Nulls) -> Result<Option<Stage<'_>>> {
        Ok(None)
    }
}

/// A pass, planned as things stand.
pub(super) fn planned((what, work): (&'static str, Work)) -> Result<Pass> {
    Ok(Pass { what, work, plan: run::planned(&work)? })
}

/// A call that is planned.
pub(super) struct Prepared<D> {
    driven: D,
    pub(super) passes: Vec<Pass>,
}

impl<D: std::ops::Deref<Target: Driven>> Prepared<D> {
    pub(super) fn new(driven: D) -> Result<Self> {
        let passes = driven.works().into_iter().map(planned).try_gather()?;
        Ok(Self { driven, passes })
    }

    pub(super) fn run(&self) -> Result<Value> {
        self.driven.run(&self.passes)
    }
}

/// The pass that converts `y` to the element type of `x`, if theirs differ: the column's type wins.
pub(super) fn conversion(x: &Matrix, y: &Matrix) -> Option<(&'static str, Work)> {
    let to = x.element_type();
    (y.element_type() != to).then(|| {
        let size = size_of_element(to).unwrap_or(8);
        let bytes_written = y.rows().saturating_mul(y.width()).saturating_mul(size);
        let (family, bytes_read) = (Family::Elementwise, y.bytes());
        (CONVERT, Work { family, bytes_read, bytes_written, has_vdsp: false })
    })
}

const CONVERT: &str = "convert";

/// `y` in the element type of `x`: itself, or converted in the first of `passes`, which is taken
/// off. A float column takes all numbers, rounded once; an integer column takes integers that fit.
pub(super) fn converted<'y>(
    what: &'static str,
    x: &Matrix,
    y: &'y Matrix,
    passes: &mut &[Pass],
) -> Result<Held<'y>> {
    let (to, from) = (x.element_type(), y.element_type());
    if from == to {
        return Ok(Held::Borrowed(y));
    }
    let Some((Pass { what: CONVERT, plan, .. }, rest)) = passes.split_first() else {
        return Err(Error::Mixed { what, expected: to.clone(), got: from.clone() });
    };
    *passes = rest;
    if to.is_integer() && !from.is_integer() {
        return Err(Error::Mixed { what, expected: to.clone(), got: from.clone() });
    }
    let made = arithmetic::converted(y, to, *plan).map_err(|error| match error {
        Error::Overflow { index: row, into: element, .. } => Error::Unfit { what, row, element },
        other => other,
    })?;
    Ok(Held::Owned(made))
}

/// A matrix with 1 and 0 for yes and no, seen in another type if one is asked for.
pub(super) fn seen<'x>(x: &'x Matrix, dtype: Option<&DataType>) -> Result<Held<'x>> {
    let x = x.as_numbers();
    let Some(dtype) = dtype else { return Ok(x) };
    match x.seen_as(dtype) {
        Some(seen) => Ok(Held::Owned(seen)),
        None => {
            let (own, to) = (TypeName(x.element_type()), TypeName(dtype));
            let expected = format!("None or a type that holds every {own}");
            let got = format!("{to}; cast x or the result instead");
            Err(Error::OptionValue { option: "dtype", expected, got })
        }
    }
}

/// Plans and runs a call under the name that errors give it.
pub(super) fn execute(function: &'static str, driven: &dyn Driven) -> Result<Value> {
    run::call(function, || Prepared::new(driven)?.run())
}

/// The arguments of a call by name, counted, and its options, checked.
pub(super) struct Call<'a> {
    pub(super) function: &'static Function,
    arguments: &'a [Value],
    pub(super) options: Checked<'a>,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        function: &'static Function,
        arguments: &'a [Value],
        options: &'a Options,
    ) -> Result<Self> {
        let (most, got) = (function.all_arguments().count(), arguments.len());
        let fewest = function.arguments.iter().filter(|argument| !argument.optional).count();
        if got < fewest || got > most {
            let expected = if got < fewest { fewest } else { most };
            return Err(Error::Arguments { expected, got });
        }
        let options = Checked::new(function.options, options)?;
        let call = Self { function, arguments, options };
        call.refuse_one_vector()?;
        call.refuse_permuted()?;
        Ok(call)
    }

    /// Refuses tensors whose elements do not lie in the order of their dimensions, where that would
    /// matter: not for what treats all elements of a row alike.
    fn refuse_permuted(&self) -> Result<()> {
        let is_permuted = |value: &Value| value.as_matrix().is_some_and(Matrix::is_permuted);
        if !self.arguments.iter().any(is_permuted) {
            return Ok(());
        }
        let is_number = |value: &Value| value.as_matrix().is_none() && !value.is_vector();
        let is_alone = self.arguments[1..].iter().all(is_number);
        let by_rows = self.per() != Per::Column;
        let order_matters = match self.function.driver {
            Driver::Elementwise(_) | Driver::Choice(_) => {
                !is_alone || self.options.has_bounds_by_column()
            }
            Driver::Statistic(Statistic::ArgMin | Statistic::ArgMax) => true,
            Driver::Statistic(_) | Driver::Quantile | Driver::Transform(_) => !by_rows,
            _ => true,
        };
        if !order_matters {
            return Ok(());
        }
        self.arguments.iter().filter_map(Value::as_matrix).try_for_each(Matrix::refuse_permuted)
    }

    /// Refuses plain numbers where rows are vectors, unless the call goes by columns or takes all
    /// elements at once, or they are one vector beside another.
    fn refuse_one_vector(&self) -> Result<()> {
        let has_axis = self.function.has_option("axis");
        if has_axis && self.per() != Per::Row || self.are_two_vectors() {
            return Ok(());
        }
        for (argument, value) in self.function.all_arguments().zip(self.arguments) {
            if argument.kind == ArgumentKind::Rows && value.is_vector() {
                let (argument, len) = (argument.name, value.len());
                return Err(Error::OneVector { argument, len, has_axis });
            }
        }
        Ok(())
    }

    /// Whether vectors that are paired with rows came as one vector, and the rows as another.
    pub(super) fn are_two_vectors(&self) -> bool {
        use ArgumentKind::{Rows, Vectors};
        let kinds = self.function.arguments.iter().map(|argument| argument.kind);
        kinds.eq([Rows, Vectors]) && self.are_vectors()
    }

    /// Whether all arguments are plain numbers, one behind the other.
    fn are_vectors(&self) -> bool {
        self.arguments.iter().all(Value::is_vector)
    }

    /// The error, with the option that would help if there is one: a 1-D operand that does not fit
    /// the columns may be meant for the rows.
    pub(super) fn advised(&self, error: Error) -> Error {
        let (rows, length) = match self.arguments {
            [Value::Matrix(x), Value::Matrix(y)] if y.is_vector() => (x.rows(), y.rows()),
            [Value::Matrix(x), Value::Vector(y)] => (x.rows(), y.len()),
            _ => return error,
        };
        match *error.kind() {
            Error::Width { what, expected, got }
                if rows == length && self.function.has_option("axis") =>
            {
                Error::OnePerRow { what, expected, got }
            }
            _ => error,
        }
    }

    fn refuse(&self, i: usize, expected: &'static str) -> Error {
        let got = self.arguments[i].describe();
        let argument = self.function.all_arguments().nth(i).map_or("", |argument| argument.name);
        Error::Argument { argument, expected, got }
    }

    /// The argument as a matrix.
    pub(super) fn matrix(&self, i: usize) -> Result<Held<'a>> {
        let matrix = self.held(i)?.ok_or_else(|| self.refuse(i, "a matrix"))?;
        Ok(match self.options.dtype() {
            Some(dtype) if i == 0 => Held::Owned(seen(&matrix, Some(dtype))?.into_owned()),
            _ => matrix,
        })
    }

    /// The argument as a matrix, if it was given.
    pub(super) fn optional_matrix(&self, i: usize) -> Result<Option<Held<'a>>> {
        if i < self.arguments.len() { self.matrix(i).map(Some) } else { Ok(None) }
    }

    /// The argument as a matrix, unless it is one number.
    fn held(&self, i: usize) -> Result<Option<Held<'a>>> {
        Ok(match &self.arguments[i] {
            Value::Matrix(matrix) => Some(self.as_numbers(i, Held::Borrowed(matrix))?),
            Value::Vector(array) => {
                Some(self.as_numbers(i, Held::Owned(Matrix::reshape(array, 1)?))?)
            }
            _ => None,
        })
    }

    /// The argument with 1 and 0 for yes and no, where that is what the function takes.
    fn as_numbers(&self, i: usize, matrix: Held<'a>) -> Result<Held<'a>> {
        if *matrix.element_type() != DataType::Boolean || self.function.takes_flags(i) {
            return Ok(matrix);
        }
        if i == 0 && !self.function.counts_flags() {
            let argument = self.function.arguments[0].name;
            let expected = "numbers (cast(x, \"uint8\") makes 1 and 0 of booleans)";
            return Err(Error::Argument { argument, expected, got: "bool".to_owned() });
        }
        Ok(Held::Owned(matrix.as_numbers().into_owned()))
    }

    /// Whether the second argument is the matrix, and the first lines up with it: a number, plain
    /// numbers beside rows, or one row beside several.
    pub(super) fn is_reversed(&self) -> bool {
        let [x, y] = self.arguments else { return false };
        match (x, y) {
            (Value::Number(_) | Value::Integer(_) | Value::Scalar(_), y) => {
                matches!(y, Value::Vector(_) | Value::Matrix(_))
            }
            // Rows of one element are a column, which lines up with plain numbers as they are.
            (x, Value::Matrix(y)) if x.is_vector() => !y.is_vector() && y.width() != 1,
            (Value::Matrix(x), Value::Matrix(y)) => {
                x.rows() == 1 && y.rows() > 1 && x.width() == y.width() && !y.is_vector()
            }
            _ => false,
        }
    }

    /// The argument as an operand, of what [lines up](Self::is_reversed) with it.
    pub(super) fn operand(&self, i: usize) -> Result<Operand<'a>> {
        let kind = match i {
            0 => ArgumentKind::Operand,
            i => self.function.arguments[i].kind,
        };
        let axis = self.options.axis();
        match (&self.arguments[i], self.held(i)?, kind) {
            (_, Some(_), ArgumentKind::Number) => Err(self.refuse(i, "one number")),
            (_, None, ArgumentKind::Row) => Err(self.refuse(i, "one value per column")),
            (Value::Number(number), ..) => Ok(Operand::from(*number)),
            (Value::Integer(number), ..) => Ok(Operand::from(*number)),
            (Value::Scalar(one), ..) => Ok(Operand::scalar(one.clone())),
            (_, Some(y), ArgumentKind::Row) => Ok(Operand::held_row(y)),
            (_, Some(y), _) if y.is_vector() && axis == Some(0) => Ok(Operand::held_column(y)),
            // Two 1-D arguments are combined element by element.
            (_, Some(y), _) if y.is_vector() && y.rows() != 1 && self.are_vectors() => {
                Ok(Operand::held_column(y))
            }
            (_, Some(y), _) if y.is_vector() => Ok(Operand::held_row(y)),
            (_, Some(_), _) if axis.is_some() && self.function.driver != Driver::Where => {
                Err(self.refuse(i, "a 1-D array, as axis is given (leave axis out for a matrix)"))
            }
            (_, Some(y), _) => Ok(Operand::held(y)),
            (_, None, _) => Err(self.refuse(i, "a number, an array or a matrix")),
        }
    }

    /// The argument as an operand beside others that are alike: plain numbers alone are combined
    /// element by element.
    pub(super) fn operand_of_all(&self, i: usize) -> Result<Operand<'a>> {
        let is_number = |value: &Value| matches!(value, Value::Matrix(m) if !m.is_vector());
        match self.held(i)? {
            // One value is one for all, as elsewhere.
            Some(vector) if vector.rows() != 1 && !self.arguments.iter().any(is_number) => {
                Ok(Operand::held_column(vector))
            }
            _ => self.operand(i),
        }
    }

    /// What one result is made from: by the function itself, or by the option `axis`.
    pub(super) fn per(&self) -> Per {
        self.function.axis.unwrap_or_else(|| self.options.per())
    }
}
