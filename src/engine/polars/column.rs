//! Columns of polars as arguments of a function, and its results as a column again.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, cast::AsArray, make_array,
    new_empty_array, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef};

use super::request::{Given, Request};
use crate::compute::registry::ArgumentKind;
use crate::compute::{
    ArgumentType, Driver, Function, OptionValue, Options, ResultKind, ResultType, Shape, Value,
};
use crate::engine::types::{argument_type, element, is_list, is_variable, width, with_element};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::memory::{self, Gather as _};
use crate::type_name::TypeName;

/// A column, or a part of one, in chunks.
pub(super) struct Column {
    pub(super) field: FieldRef,
    pub(super) arrays: Vec<ArrayRef>,
}

impl Column {
    fn rows(&self) -> usize {
        self.arrays.iter().map(|array| array.len()).sum()
    }

    fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    fn matrix(&self) -> Result<Matrix> {
        Matrix::from_field(&self.field, &self.arrays)
    }

    /// Nulls of another type in place of its rows.
    fn nulls_of(&self, element: &DataType, rows: usize) -> Self {
        let field = Field::new(self.field.name(), element.clone(), true);
        Self { field: Arc::new(field), arrays: vec![new_null_array(element, rows)] }
    }

    /// The only row of it as often as is said.
    fn repeated(&self, rows: usize) -> Result<Self> {
        let one = self.arrays.iter().find(|array| array.len() == 1);
        let one = one.map_or_else(|| new_null_array(self.data_type(), 1), Arc::clone);
        // In blocks that share their memory, which is not in proportion to the rows.
        let data = one.to_data();
        let bytes = width(self.data_type()).unwrap_or(1).max(1) * size_of::<f64>();
        let most = (REPEATED_BYTES / bytes).clamp(1, rows.max(1));
        let mut block = MutableArrayData::new(vec![&data], false, most);
        for _ in 0..most {
            let extended = block.try_extend(0, 0, 1);
            extended.map_err(|error| Error::Arrow { message: error.to_string() })?;
        }
        let block = make_array(block.freeze());
        let starts = (0..rows).step_by(most);
        let arrays = starts.map(|from| block.slice(0, most.min(rows - from))).gather();
        Ok(Self { field: Arc::clone(&self.field), arrays })
    }
}

/// Bytes of a row that is one in all, repeated.
const REPEATED_BYTES: usize = 64 << 10;

/// The type of the result of a call, under the name of its first column.
pub(super) fn result_field(
    function: &'static Function,
    fields: &[FieldRef],
    request: &Request,
) -> Result<Field> {
    let (data_type, _) = result_type(function, fields, request)?;
    let name = fields.first().map_or("", |field| field.name());
    Ok(Field::new(name, data_type, true))
}

fn result_type(
    function: &'static Function,
    fields: &[FieldRef],
    request: &Request,
) -> Result<(DataType, ResultKind)> {
    let columns = 1 + request.arguments.iter().filter(|a| matches!(a, Given::Column)).count();
    let [x, others @ ..] = fields else {
        return Err(Error::Arguments { expected: columns, got: 0 });
    };
    if fields.len() != columns {
        return Err(Error::Arguments { expected: columns, got: fields.len() });
    }
    let own = argument_type(x.data_type())?;
    check_rows(function, x.data_type(), &request.options)?;
    let mut types = vec![own.clone()];
    let mut others = others.iter();
    for (given, argument) in request.arguments.iter().zip(&function.arguments[1..]) {
        types.push(match given {
            Given::Value(value) => type_of(value, &own.element),
            Given::Column => {
                let Some(other) = others.next() else { continue };
                let plain = || ArgumentType { element: own.element.clone(), shape: Shape::Vector };
                check_column(argument.name, argument.kind, other.data_type(), &request.options)?;
                match other.data_type() {
                    DataType::Null => plain(),
                    other => argument_type(other)?,
                }
            }
        });
    }
    let ResultType { element, kind } = function.result_type(&types, &request.options)?;
    if matches!(function.driver, Driver::Product(_)) && is_variable(x.data_type()) {
        return Err(Error::Argument {
            argument: "x",
            expected: "a column of pl.Array, whose width a plan knows,",
            got: TypeName(x.data_type()).to_string(),
        });
    }
    let data_type = match &kind {
        ResultKind::Number | ResultKind::PerRow => element,
        ResultKind::Like | ResultKind::PerColumn { .. } => with_element(x.data_type(), &element),
        ResultKind::Rows { width: Some(width) } => {
            let size = i32::try_from(*width).map_err(|_| Error::TooLarge {
                rows: 1,
                width: *width,
                limit: "a fixed-size list",
            })?;
            DataType::new_fixed_size_list(element, size, true)
        }
        _ => {
            let message = "the result is no column of as many rows, nor one row".to_owned();
            return Err(Error::Arrow { message });
        }
    };
    if has_empty_arrays(&data_type) {
        return Err(Error::Arrow {
            message:
                "the result has rows of width 0, which polars cannot hold; call it with NumPy \
                      or pyarrow data"
                    .to_owned(),
        });
    }
    Ok((data_type, kind))
}

/// Calls a function on columns.
pub(super) fn run(
    function: &'static Function,
    columns: Vec<Column>,
    request: &Request,
) -> Result<(Field, Vec<ArrayRef>)> {
    let fields: Vec<FieldRef> = columns.iter().map(|column| Arc::clone(&column.field)).gather();
    let (data_type, kind) = result_type(function, &fields, request)?;
    let mut columns = columns.into_iter();
    let Some(mut x) = columns.next() else {
        return Err(Error::Arguments { expected: 1, got: 0 });
    };
    let mut options = request.options.clone();
    let mut others = memory::with_capacity(request.arguments.len());
    for (given, argument) in request.arguments.iter().zip(&function.arguments[1..]) {
        others.push(match given {
            Given::Value(value) => value.clone(),
            Given::Column => {
                let Some(y) = columns.next() else { continue };
                lined_up(argument.kind, &mut x, y, &mut options)?
            }
        });
    }
    let mut values = vec![Value::from_field(&x.field, &x.arrays)?];
    values.append(&mut others);
    let result = function.call(&values, &options)?;
    let mut arrays = arrays_of(result, &data_type, &kind)?;
    if arrays.is_empty() {
        memory::push(&mut arrays, new_empty_array(&data_type));
    }
    Ok((Field::new(x.field.name(), data_type, true), arrays))
}

/// The column `y` as an argument beside `x`. What is one row in all is repeated if it is `x`, and
/// broadcast if it is `y`; plain numbers are one value per row, or one in all.
fn lined_up(kind: ArgumentKind, x: &mut Column, y: Column, options: &mut Options) -> Result<Value> {
    let mut y = y;
    if x.rows() == 1 && y.rows() != 1 {
        *x = x.repeated(y.rows())?;
    }
    let rows = x.rows();
    let is_one_in_all = y.rows() == 1 && rows != 1;
    let element = element(x.data_type());
    if *y.data_type() == DataType::Null {
        y = y.nulls_of(element, rows);
    } else if is_one_in_all && kind == ArgumentKind::Operand && is_list(y.data_type()) {
        let vector = y.matrix()?;
        if vector.width() == 1 {
            // A list of one number is that number.
            y = Column { field: number_field(y.data_type()), arrays: vec![flat(&y.arrays)?] };
        } else {
            return Ok(Value::Matrix(vector));
        }
    }
    if is_list(y.data_type()) {
        return Ok(Value::Matrix(y.matrix()?));
    }
    if is_one_in_all && y.rows() == 1 {
        let one = y.arrays.iter().find(|array| array.len() == 1);
        match one.filter(|one| one.is_valid(0)) {
            Some(one) => return Ok(Value::Scalar(Arc::clone(one))),
            None => y = y.nulls_of(element, rows),
        }
    }
    *options = std::mem::take(options).set("axis", 0);
    Ok(Value::Matrix(y.matrix()?))
}

/// The elements of lists of one row, as plain numbers.
fn flat(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let Some(one) = arrays.iter().find(|array| array.len() == 1) else {
        return Err(Error::Rows { what: "y", expected: 1, got: 0 });
    };
    let mut one = Arc::clone(one);
    while is_list(one.data_type()) {
        if one.is_null(0) {
            return Ok(new_null_array(element(one.data_type()), 1));
        }
        one = match one.data_type() {
            DataType::FixedSizeList(..) => one.as_fixed_size_list().value(0),
            DataType::List(_) => one.as_list::<i32>().value(0),
            _ => one.as_list::<i64>().value(0),
        };
    }
    Ok(one)
}

fn number_field(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new("", element(data_type).clone(), true))
}

/// Refuses a column of numbers where rows are vectors: it could be one row or one column.
fn check_rows(function: &'static Function, data_type: &DataType, options: &Options) -> Result<()> {
    let axis = function.options.iter().find(|option| option.name == "axis");
    let given = options.get("axis").cloned();
    let by_rows = match given.or_else(|| axis.map(|axis| axis.kind.default_value())) {
        None | Some(OptionValue::Count(1)) => true,
        Some(_) => false,
    };
    if function.arguments[0].kind != ArgumentKind::Rows || !by_rows || is_list(data_type) {
        return Ok(());
    }
    let by_column = if axis.is_some() { "; if it is one column, pass axis=0" } else { "" };
    Err(Error::Arrow {
        message: format!(
            "expected a column whose rows are vectors, got {}; if it is one row, pass its \
             implode(){by_column}",
            TypeName(data_type)
        ),
    })
}

/// Refuses a column that can be no second argument.
fn check_column(
    argument: &'static str,
    kind: ArgumentKind,
    data_type: &DataType,
    options: &Options,
) -> Result<()> {
    if is_list(data_type) {
        return Ok(());
    }
    let got = TypeName(data_type);
    if kind != ArgumentKind::Operand && kind != ArgumentKind::Matrix {
        return Err(Error::Arrow {
            message: format!(
                "expected a column of vectors for {argument}, or one vector as a list, a literal or \
                 an array, got a column of {got}, which is one value per row"
            ),
        });
    }
    if options.get("axis") == Some(&OptionValue::Count(1)) {
        return Err(Error::OptionValue {
            option: "axis",
            expected: "None or 0 beside a column, which is one value per row".to_owned(),
            got: "1; pass one value per column as a list, a literal or an array".to_owned(),
        });
    }
    Ok(())
}

/// The results as arrays of a type.
fn arrays_of(result: Value, to: &DataType, kind: &ResultKind) -> Result<Vec<ArrayRef>> {
    match (result, kind) {
        (Value::Vector(array), ResultKind::PerColumn { .. }) => Ok(vec![lists(array, to)?]),
        (Value::Scalar(array) | Value::Vector(array), _) => Ok(vec![array]),
        (Value::Matrix(matrix), ResultKind::Rows { .. }) => matrix.into_lists()?.to_arrays(),
        (Value::Matrix(matrix), _) => matrix.to_arrays(),
        (Value::Ragged(lists), _) => lists.to_arrays(),
        (other, _) => Err(Error::Arrow { message: format!("no column can be made of {other:?}") }),
    }
}

/// Elements as lists of a type: one row of variable-size lists, or as many of fixed size as there
/// are elements for.
fn lists(values: ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let made: std::result::Result<ArrayRef, ArrowError> = match to {
        DataType::FixedSizeList(item, size) => {
            let values = lists(values, item.data_type())?;
            FixedSizeListArray::try_new(Arc::clone(item), *size, values, None)
                .map(|lists| Arc::new(lists) as ArrayRef)
        }
        DataType::List(item) => {
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            ListArray::try_new(Arc::clone(item), offsets, values, None)
                .map(|lists| Arc::new(lists) as ArrayRef)
        }
        DataType::LargeList(item) => {
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            LargeListArray::try_new(Arc::clone(item), offsets, values, None)
                .map(|lists| Arc::new(lists) as ArrayRef)
        }
        _ => Ok(values),
    };
    made.map_err(|error| Error::Arrow { message: error.to_string() })
}

/// The type of an operand that is no column; a number takes that of `x`.
fn type_of(value: &Value, element: &DataType) -> ArgumentType {
    let (element, shape) = match value {
        Value::Matrix(matrix) if matrix.is_vector() => (matrix.element_type(), Shape::Vector),
        Value::Matrix(matrix) => {
            let (rows, width) = (Some(matrix.rows()), Some(matrix.width()));
            (matrix.element_type(), Shape::Matrix { rows, width })
        }
        _ => (element, Shape::Number),
    };
    ArgumentType { element: element.clone(), shape }
}

/// Whether polars panics on a type: it has such arrays, but cannot import them.
fn has_empty_arrays(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(item, size) => *size == 0 || has_empty_arrays(item.data_type()),
        DataType::List(item) | DataType::LargeList(item) => has_empty_arrays(item.data_type()),
        _ => false,
    }
}
