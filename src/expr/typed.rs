//! What an expression gives, known before it is evaluated.

use arrow_array::new_empty_array;
use arrow_schema::Schema;

use super::{Expr, Node};
use crate::compute::{ArgumentType, ResultKind, ResultType, Shape, Value};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::memory::Gather as _;

impl Expr {
    /// The type of its value on columns of a schema.
    ///
    /// ```
    /// use arrow_schema::{DataType, Field, Schema};
    /// use raptors_arrow::{compute::ResultKind, expr::col};
    ///
    /// let item = Field::new("item", DataType::Int8, true);
    /// let emb = DataType::FixedSizeList(item.into(), 384);
    /// let schema = Schema::new(vec![Field::new("emb", emb, true)]);
    /// let given = col("emb").normalize().mean(1).result_type(&schema)?;
    /// assert_eq!((given.element, given.kind), (DataType::Float64, ResultKind::PerRow));
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// For columns that are not there, and types and options that a function does not take.
    pub fn result_type(&self, schema: &Schema) -> Result<ResultType> {
        match &*self.0 {
            Node::Call { function, arguments, options } => {
                let types = arguments.iter().map(|argument| argument.argument_type(schema));
                function.result_type(&types.try_gather()?, options)
            }
            _ => {
                let ArgumentType { element, shape } = self.argument_type(schema)?;
                let kind = match shape {
                    Shape::Number => ResultKind::Number,
                    Shape::Vector => ResultKind::PerRow,
                    Shape::Matrix { width, .. } => ResultKind::Rows { width },
                };
                Ok(ResultType { element, kind })
            }
        }
    }

    /// Its type as an argument of another.
    fn argument_type(&self, schema: &Schema) -> Result<ArgumentType> {
        let (function, arguments) = match &*self.0 {
            Node::Column(name) => {
                let field = schema.field_with_name(name).map_err(|_| Error::Argument {
                    argument: "col",
                    expected: "the name of a column of the schema",
                    got: format!("{name:?}"),
                })?;
                let empty = Matrix::try_from(&new_empty_array(field.data_type()))?;
                // A list without rows has no width.
                let width = Some(empty.width()).filter(|width| *width > 0);
                let shape = match empty.is_vector() {
                    true => Shape::Vector,
                    false => Shape::Matrix { rows: None, width },
                };
                return Ok(ArgumentType { element: empty.element_type().clone(), shape });
            }
            Node::Value(value) => return Ok(type_of(value)),
            Node::Call { function, arguments, .. } => (function, arguments),
        };
        let ResultType { element, kind } = self.result_type(schema)?;
        let shape = match kind {
            ResultKind::Number => Shape::Number,
            ResultKind::PerRow | ResultKind::PerColumn { .. } => Shape::Vector,
            ResultKind::Like => match arguments.first() {
                Some(x) => x.argument_type(schema)?.shape,
                None => Shape::Vector,
            },
            ResultKind::Rows { width } | ResultKind::Columns { width } => {
                Shape::Matrix { rows: None, width }
            }
            ResultKind::Named(_) => {
                let (argument, expected) = ("x", "one result");
                let got = format!("the results of {}", function.name);
                return Err(Error::Argument { argument, expected, got });
            }
        };
        Ok(ArgumentType { element, shape })
    }
}

fn type_of(value: &Value) -> ArgumentType {
    use arrow_schema::DataType;

    let (element, shape) = match value {
        Value::Number(_) | Value::Named(_) => (DataType::Float64, Shape::Number),
        Value::Integer(_) => (DataType::Int64, Shape::Number),
        Value::Scalar(one) => (one.data_type().clone(), Shape::Number),
        Value::Vector(array) => (array.data_type().clone(), Shape::Vector),
        Value::Matrix(matrix) => {
            let (rows, width) = (Some(matrix.rows()), Some(matrix.width()));
            let shape = match matrix.is_vector() {
                true => Shape::Vector,
                false => Shape::Matrix { rows, width },
            };
            (matrix.element_type().clone(), shape)
        }
        Value::Ragged(lists) => {
            let shape = Shape::Matrix { rows: Some(lists.rows()), width: None };
            (lists.element_type().clone(), shape)
        }
    };
    ArgumentType { element, shape }
}
