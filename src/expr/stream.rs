//! Expressions over batches that come one after the other.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{Field, Schema};

use super::{Expr, Node, evaluate_all};
use crate::compute::registry::Driver;
use crate::compute::{Accumulator, Per, Value};
use crate::error::{Error, Result};
use crate::memory::{self, Gather as _};

/// Batches of results; see [`evaluate_reader`].
#[derive(Debug)]
pub struct Evaluated<R> {
    reader: R,
    names: Vec<String>,
    expressions: Vec<Expr>,
}

/// Expressions, each by a name and with a value for each row, over the batches of a reader: a batch
/// of results for each, pulled when it is asked for.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator};
/// use raptors_arrow::expr::{col, evaluate_reader};
///
/// let price: ArrayRef = Arc::new(Float64Array::from(vec![1.0, -2.0]));
/// let batch = RecordBatch::try_from_iter([("price", price)])?;
/// let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
/// let paid = col("price").abs().scale(1.5);
/// let made: Vec<_> = evaluate_reader([("paid", paid)], reader).collect::<Result<_, _>>()?;
/// assert_eq!((made.len(), made[0].num_rows()), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate_reader<R: RecordBatchReader, N: Into<String>>(
    expressions: impl IntoIterator<Item = (N, Expr)>,
    reader: R,
) -> Evaluated<R> {
    let named = expressions.into_iter().map(|(name, expr)| (name.into(), expr));
    let (names, expressions) = named.unzip();
    Evaluated { reader, names, expressions }
}

impl<R: RecordBatchReader> Iterator for Evaluated<R> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?.map_err(arrow);
        Some(batch.and_then(|batch| {
            let values = evaluate_all(&self.expressions, &batch)?;
            let arrays = values.into_iter().map(one_array).try_gather()?;
            let fields = self.names.iter().zip(&arrays);
            let fields =
                fields.map(|(name, array)| Field::new(name, array.data_type().clone(), true));
            let schema = Arc::new(Schema::new(fields.gather()));
            RecordBatch::try_new(schema, arrays).map_err(arrow)
        }))
    }
}

fn arrow(error: arrow_schema::ArrowError) -> Error {
    Error::Arrow { message: error.to_string() }
}

/// A value as the column of a batch.
fn one_array(value: Value) -> Result<ArrayRef> {
    let got = value.describe();
    let refused = || Error::Argument { argument: "expression", expected: "a value per row", got };
    match value {
        Value::Vector(array) => Ok(array),
        // A batch has one chunk.
        Value::Matrix(matrix) => matrix.to_arrays()?.into_iter().next().ok_or_else(refused),
        _ => Err(refused()),
    }
}

/// Statistics of all rows of a reader, or of each column, in memory that is bounded by the batches:
/// expressions that end in one, of what is made row by row. Their values have the bits of the whole.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator};
/// use arrow_array::{cast::AsArray, types::Float64Type};
/// use raptors_arrow::expr::{col, reduce_reader};
///
/// let price: ArrayRef = Arc::new(Float64Array::from(vec![1.0, -2.0]));
/// let batch = RecordBatch::try_from_iter([("price", price)])?;
/// let reader = RecordBatchIterator::new([Ok(batch.clone()), Ok(batch.clone())], batch.schema());
/// let found = reduce_reader(&[col("price").abs().sum(0), col("price").min(0)], reader)?;
/// assert_eq!(found[0].as_primitive::<Float64Type>().values(), &[6.0]);
/// assert_eq!(found[1].as_primitive::<Float64Type>().values(), &[-2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Those of the reader and of the functions, and [`Error::Argument`] for an expression that does not
/// end in a statistic of columns or of all.
pub fn reduce_reader(
    expressions: &[Expr],
    reader: impl RecordBatchReader,
) -> Result<Vec<ArrayRef>> {
    memory::caught(|| {
        let mut inputs = memory::with_capacity(expressions.len());
        let mut totals = memory::with_capacity(expressions.len());
        for expr in expressions {
            let refused = || Error::Argument {
                argument: "expression",
                expected: "one that ends in a statistic with axis 0 or none, of what is made row by row",
                got: expr.to_string(),
            };
            let Node::Call { function, arguments, options } = &*expr.0 else {
                return Err(refused());
            };
            let (Driver::Statistic(statistic), [x, weights @ ..]) =
                (function.driver, &arguments[..])
            else {
                return Err(refused());
            };
            let (per, options) = function.reduce_options(options)?;
            if per == Per::Row {
                return Err(refused());
            }
            for argument in arguments {
                if !argument.is_row_by_row()? {
                    return Err(refused());
                }
            }
            totals.push((Accumulator::new(statistic, per, options)?, !weights.is_empty()));
            inputs.push(x.clone());
            inputs.extend(weights.iter().cloned());
        }
        for batch in reader {
            let values = evaluate_all(&inputs, &batch.map_err(arrow)?)?;
            let mut values = values.into_iter();
            let mut next = || values.next().ok_or(Error::Arguments { expected: 1, got: 0 });
            for (total, is_weighted) in &mut totals {
                let x = rows(next()?)?;
                match is_weighted {
                    true => total.update_weighted(&x, &rows(next()?)?)?,
                    false => total.update(&x)?,
                }
            }
        }
        totals.into_iter().map(|(total, _)| total.finish()).try_gather()
    })
}

/// A value for each row.
fn rows(value: Value) -> Result<crate::Matrix> {
    match value {
        Value::Matrix(matrix) => Ok(matrix),
        other => crate::Matrix::reshape(&one_array(other)?, 1),
    }
}
