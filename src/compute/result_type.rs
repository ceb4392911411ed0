//! What a call gives, known before it runs: by the entry, the types of the arguments and the
//! options. Engines plan with it; no function is run on sample data to learn it.

use arrow_schema::DataType;

use super::options::Checked;
use super::product::Product;
use super::reduce::Statistic;
use super::registry::{ArgumentKind, Driver, Function, Gives};
use super::{Options, Per, ReduceOptions, conditional, real_type};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::memory::Gather as _;

/// The type of an argument: its elements, and how they lie. What is not known is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentType {
    /// The type of the elements.
    pub element: DataType,
    /// How they lie.
    pub shape: Shape,
}

/// How the elements of an argument lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One number.
    Number,
    /// Plain numbers, one behind the other.
    Vector,
    /// Rows of elements.
    Matrix {
        /// How many rows, if that is known.
        rows: Option<usize>,
        /// Elements of a row, if that is known.
        width: Option<usize>,
    },
}

/// The type of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultType {
    /// The type of the elements.
    pub element: DataType,
    /// How they lie.
    pub kind: ResultKind,
}

/// How the elements of a result lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// One number in all.
    Number,
    /// One number for each column of `x`.
    PerColumn {
        /// How many, if that is known.
        width: Option<usize>,
    },
    /// One number for each row of `x`.
    PerRow,
    /// A matrix of the layout of `x`.
    Like,
    /// A row for each row of `x`, as lists of another width.
    Rows {
        /// The width, if that is known.
        width: Option<usize>,
    },
    /// A row for each column of `x`.
    Columns {
        /// The width, if that is known.
        width: Option<usize>,
    },
    /// Several results, by name.
    Named(Vec<(&'static str, ResultType)>),
}

impl Function {
    /// What a call with arguments of these types gives.
    ///
    /// ```
    /// use arrow_schema::DataType;
    /// use raptors_arrow::compute::{ArgumentType, Options, ResultKind, Shape, get_function};
    ///
    /// let shape = Shape::Matrix { rows: None, width: Some(384) };
    /// let x = ArgumentType { element: DataType::Int8, shape };
    /// let mean = get_function("mean")?.result_type(&[x], &Options::new().set("axis", 1))?;
    /// assert_eq!((mean.element, mean.kind), (DataType::Float64, ResultKind::PerRow));
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// For a wrong number of arguments, types that the function does not compute on, and options
    /// that it does not have.
    pub fn result_type(
        &'static self,
        arguments: &[ArgumentType],
        options: &Options,
    ) -> Result<ResultType> {
        run::call(self.name, || self.typed(arguments, &Checked::new(self.options, options)?))
    }

    /// The type of the elements that a call on rows of `element` gives.
    pub(super) fn result_element(&self, element: &DataType, options: &Options) -> Result<DataType> {
        let shape = Shape::Matrix { rows: None, width: None };
        let x = ArgumentType { element: element.clone(), shape };
        Ok(self.typed(&[x], &Checked::new(self.options, options)?)?.element)
    }

    /// Whether a row of the result needs only its own row of `x`, so that an engine may split the
    /// rows as it likes.
    ///
    /// # Errors
    ///
    /// For options that the function does not have.
    pub fn is_row_by_row(&'static self, options: &Options) -> Result<bool> {
        let is_by_columns = matches!(self.driver, Driver::Transform(_) | Driver::Cumsum)
            && self.per(options)? != Per::Row;
        Ok(!is_by_columns && self.keeps_rows(options)?)
    }

    /// Whether the result has a row, or a number, for each row of `x`.
    ///
    /// # Errors
    ///
    /// For options that the function does not have.
    pub fn keeps_rows(&'static self, options: &Options) -> Result<bool> {
        Ok(match self.driver {
            Driver::Statistic(_) | Driver::Quantile => self.per(options)? == Per::Row,
            Driver::Elementwise(_)
            | Driver::Where
            | Driver::Cumsum
            | Driver::Choice(_)
            | Driver::Pairs(_)
            | Driver::Transform(_)
            | Driver::Product(_) => true,
            Driver::Columns(_) | Driver::TopK | Driver::Transpose => false,
        })
    }

    /// The options of a reduction.
    ///
    /// # Errors
    ///
    /// For options that the function does not have.
    pub fn reduce_options(&'static self, options: &Options) -> Result<(Per, ReduceOptions)> {
        let per = self.per(options)?;
        run::call(self.name, || {
            let options = Checked::new(self.options, options)?;
            options.refuse_kept_dimensions()?;
            Ok((per, options.reduce()))
        })
    }

    /// What one result is made from, or what is measured, by its own axis or by the option.
    pub(crate) fn per(&'static self, options: &Options) -> Result<Per> {
        run::call(self.name, || {
            let options = Checked::new(self.options, options)?;
            Ok(self.axis.unwrap_or_else(|| options.per()))
        })
    }

    fn typed(&self, arguments: &[ArgumentType], options: &Checked<'_>) -> Result<ResultType> {
        let fewest = self.arguments.iter().filter(|argument| !argument.optional).count();
        let got = arguments.len();
        let most = self.all_arguments().count();
        if got < fewest || got > most {
            let expected = if got < fewest { fewest } else { most };
            return Err(Error::Arguments { expected, got });
        }
        let x = &arguments[0];
        let flags = ArgumentType { element: DataType::UInt8, shape: x.shape };
        let x = if x.element == DataType::Boolean && self.counts_flags() { &flags } else { x };
        let is_condition = self.takes_flags(0) && x.element == DataType::Boolean;
        let is_number = x.element.is_numeric() || is_condition;
        if !is_number || matches!(x.element, DataType::Decimal128(..)) {
            let got = x.element.clone();
            return Err(Error::Type { expected: super::NUMBERS, got });
        }
        let (rows, width) = match x.shape {
            Shape::Matrix { rows, width } => (rows, width),
            Shape::Vector | Shape::Number => (None, Some(1)),
        };
        let seen =
            options.dtype().map(|dtype| ArgumentType { element: dtype.clone(), shape: x.shape });
        let x = seen.as_ref().unwrap_or(x);
        let real = || real_type(&x.element).clone();
        let per = self.axis.unwrap_or_else(|| options.per());
        let reduced = match per {
            Per::Row if options.flag("keepdims") => ResultKind::Rows { width: Some(1) },
            Per::Matrix if options.flag("keepdims") => ResultKind::Columns { width: Some(1) },
            Per::Column if options.flag("keepdims") => ResultKind::Columns { width },
            Per::Matrix => ResultKind::Number,
            Per::Column => ResultKind::PerColumn { width },
            Per::Row => ResultKind::PerRow,
        };
        let (element, kind) = match self.driver {
            Driver::Statistic(statistic) => {
                let is_weighted = got > self.arguments.len();
                (statistic.result_type(&x.element, is_weighted), reduced)
            }
            Driver::Quantile => (real(), reduced),
            Driver::Elementwise(operation) => {
                let cast = options.element_type("type");
                (operation.result_type(&x.element, cast), ResultKind::Like)
            }
            Driver::Cumsum => (Statistic::Sum.result_type(&x.element, false), ResultKind::Like),
            Driver::Where => chosen(arguments),
            Driver::Choice(choice) => (choice.result_type(&x.element), ResultKind::Like),
            Driver::Pairs(_) => {
                let is_vector = |argument: &ArgumentType| argument.shape == Shape::Vector;
                let are_two = arguments.iter().all(is_vector);
                (real(), if are_two { ResultKind::Number } else { ResultKind::PerRow })
            }
            Driver::Transform(_) => (real(), ResultKind::Like),
            Driver::Product(product) => {
                let y = arguments.get(1).map(|y| y.shape);
                let kind = match (product, y) {
                    (Product::Matmul, Some(Shape::Matrix { width, .. })) => {
                        ResultKind::Rows { width }
                    }
                    (Product::Matmul, _) => ResultKind::PerRow,
                    (Product::Pairwise, Some(Shape::Matrix { rows, .. })) => {
                        ResultKind::Rows { width: rows }
                    }
                    (Product::Pairwise, _) => ResultKind::Rows { width: rows },
                };
                (real(), kind)
            }
            Driver::Columns(_) => (real(), ResultKind::Columns { width }),
            Driver::Transpose => (x.element.clone(), ResultKind::Columns { width: rows }),
            Driver::TopK => (real(), self.nearest(arguments, options, real())),
        };
        Ok(ResultType { element, kind })
    }

    /// What `top_k` gives: for one vector as many rows as are found, for several `k` each.
    fn nearest(
        &self,
        arguments: &[ArgumentType],
        options: &Checked<'_>,
        scores: DataType,
    ) -> ResultKind {
        let is_one = arguments.get(1).is_some_and(|query| query.shape == Shape::Vector);
        let width = (!is_one).then(|| options.count("k"));
        let kind = if is_one { ResultKind::PerRow } else { ResultKind::Rows { width } };
        let elements = [DataType::Int64, scores];
        let Gives::Named(names) = self.gives else { return kind };
        let named = names.iter().zip(elements);
        let typed = |(name, element): (&&'static str, DataType)| {
            (*name, ResultType { element, kind: kind.clone() })
        };
        ResultKind::Named(named.map(typed).gather())
    }

    /// Whether its second argument is one value, or one vector, for all rows.
    pub fn has_operand_for_all(&self) -> bool {
        let second = self.arguments.get(1).map(|argument| argument.kind);
        matches!(second, Some(ArgumentKind::Number | ArgumentKind::Row))
    }
}

/// What a choice between the second and the third argument gives.
fn chosen(arguments: &[ArgumentType]) -> (DataType, ResultKind) {
    let [condition, values @ ..] = arguments else { return (DataType::Null, ResultKind::Like) };
    let typed = |value: Option<&'_ ArgumentType>| match value {
        Some(value) if value.shape != Shape::Number => Some(value.element.clone()),
        _ => None,
    };
    let [x, y] = [typed(values.first()), typed(values.get(1))];
    let whole = values.iter().all(|value| value.element.is_integer());
    let element = conditional::result_type(x.as_ref(), y.as_ref(), whole);
    let width = |value: &ArgumentType| match value.shape {
        Shape::Matrix { width, .. } => Some(width),
        Shape::Vector | Shape::Number => None,
    };
    // Of a condition that is one value per row, the rows of what it chooses.
    let kind = match (width(condition), values.iter().find_map(width)) {
        (None, Some(width)) => ResultKind::Rows { width },
        _ => ResultKind::Like,
    };
    (element, kind)
}
