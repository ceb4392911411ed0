//! The functions that reduce rows, over batches, by name: what `Accumulator` in Python is.

use arrow_array::StructArray;

use super::options::Checked;
use super::registry::{Driver, Function};
use super::{Accumulator, ColumnsAccumulator, Metric, Options, Per, TopKAccumulator, Value};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// A function of the table that reduces rows, over batches that come one after the other.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array};
/// use raptors_arrow::{Matrix, compute::{Options, get_function}};
///
/// let mut mean = get_function("mean")?.accumulator(&[], &Options::new().set("axis", 0))?;
/// let batch: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 6.0]));
/// mean.update(&Matrix::reshape(&batch, 2)?)?;
/// let expected: ArrayRef = Arc::new(Float64Array::from(vec![2.0, 4.0]));
/// assert_eq!(mean.finish()?.as_array(), Some(&expected));
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
#[derive(Debug)]
pub enum FunctionAccumulator {
    /// One result in all, or one for each column.
    Statistic(Accumulator),
    /// One for every two columns.
    Columns(ColumnsAccumulator),
    /// The nearest rows.
    TopK(Box<TopKAccumulator>),
}

impl Function {
    /// Whether it reduces rows batch by batch.
    pub fn is_accumulated(&self) -> bool {
        matches!(self.driver, Driver::Statistic(_) | Driver::Columns(_) | Driver::TopK)
    }

    /// Its state before the first batch; `arguments` are those after the rows.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if it is no function that reduces rows batch by batch, and those of its
    /// arguments and options.
    pub fn accumulator(
        &'static self,
        arguments: &[Value],
        options: &Options,
    ) -> Result<FunctionAccumulator> {
        run::call(self.name, || {
            let checked = Checked::new(self.options, options)?;
            checked.refuse_kept_dimensions()?;
            let (expected, got) = (self.arguments.len(), arguments.len() + 1);
            if expected != got {
                return Err(Error::Arguments { expected, got });
            }
            match self.driver {
                Driver::Statistic(statistic) => {
                    let per = self.axis.unwrap_or_else(|| checked.per());
                    let state = Accumulator::new(statistic, per, checked.reduce());
                    state.map(FunctionAccumulator::Statistic)
                }
                Driver::Columns(kind) => Ok(FunctionAccumulator::Columns(ColumnsAccumulator::new(
                    kind,
                    checked.count("ddof"),
                ))),
                Driver::TopK => {
                    let query = match &arguments[0] {
                        Value::Matrix(query) => query.clone(),
                        Value::Vector(query) => Matrix::reshape(query, 1)?,
                        other => {
                            let (argument, expected) = ("query", "a vector, or a matrix of them");
                            let got = other.describe();
                            return Err(Error::Argument { argument, expected, got });
                        }
                    };
                    let metric = checked.metric().unwrap_or(Metric::Cosine);
                    let nearest = TopKAccumulator::new(query, checked.count("k"), metric);
                    Ok(FunctionAccumulator::TopK(Box::new(nearest)))
                }
                _ => {
                    let (argument, expected) =
                        ("function", "one that reduces rows batch by batch, such as mean");
                    let got = self.name.to_owned();
                    Err(Error::Argument { argument, expected, got })
                }
            }
        })
    }
}

impl FunctionAccumulator {
    /// Rows that were seen.
    pub fn rows(&self) -> usize {
        match self {
            Self::Statistic(state) => state.rows(),
            Self::Columns(state) => state.rows(),
            Self::TopK(state) => state.rows(),
        }
    }

    /// Takes the next rows.
    ///
    /// # Errors
    ///
    /// [`Error::Mixed`] or [`Error::Width`] if they differ in type or width from those before.
    pub fn update(&mut self, x: &Matrix) -> Result<()> {
        match self {
            Self::Statistic(state) => state.update(x),
            Self::Columns(state) => state.update(x),
            Self::TopK(state) => state.update(x),
        }
    }

    /// The same of rows that have weights, see [`Accumulator::update_weighted`].
    ///
    /// # Errors
    ///
    /// As that, and [`Error::Argument`] for functions that take none.
    pub fn update_weighted(&mut self, x: &Matrix, weights: &Matrix) -> Result<()> {
        match self {
            Self::Statistic(state) => state.update_weighted(x, weights),
            other => {
                let (argument, expected) = ("weights", "none but for sum, mean, var and std");
                Err(Error::Argument { argument, expected, got: format!("{other:?}") })
            }
        }
    }

    /// Takes the rows that another one saw, after its own.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if it is one of another function or other options, and as
    /// [`update`](Self::update).
    pub fn merge(&mut self, right: Self) -> Result<()> {
        match (self, right) {
            (Self::Statistic(state), Self::Statistic(right)) => state.merge(right),
            (Self::Columns(state), Self::Columns(right)) => state.merge(right),
            (Self::TopK(state), Self::TopK(right)) => state.merge(*right),
            (_, right) => {
                let (argument, expected) = ("other", "an accumulator of the same function");
                Err(Error::Argument { argument, expected, got: format!("{right:?}") })
            }
        }
    }

    /// What was seen, as an Arrow struct of one row, to be kept or sent:
    /// [`Accumulator::from_state`] makes an accumulator of it again.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for functions whose states have no lasting form, and as
    /// [`Accumulator::state`].
    pub fn state(self) -> Result<StructArray> {
        match self {
            Self::Statistic(state) => state.state(),
            other => {
                let (argument, expected) = ("self", "a reduction, whose state can be kept");
                Err(Error::Argument { argument, expected, got: format!("{other:?}") })
            }
        }
    }

    /// Whether it has a [`state`](Self::state) that can be kept.
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Statistic(_))
    }

    /// The result, as the function itself gives it.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type, and those of the
    /// function's results.
    pub fn finish(self) -> Result<Value> {
        match self {
            Self::Statistic(state) if state.per() == Per::Matrix => {
                state.finish().map(Value::Scalar)
            }
            Self::Statistic(state) => state.finish().map(Value::Vector),
            Self::Columns(state) => state.finish().map(Value::Matrix),
            Self::TopK(state) => state.finish()?.into_value(),
        }
    }
}
