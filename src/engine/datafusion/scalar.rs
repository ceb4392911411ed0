//! A function of the table as DataFusion's scalar function: columns and constants in, a column out.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray, new_empty_array, new_null_array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::arrow::compute::cast;
use datafusion_common::{Result as EngineResult, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::{first, given, serial};
use crate::compute::registry::ArgumentKind;
use crate::compute::{
    ArgumentType, Driver, Function, OptionKind, OptionValue, Options, ResultKind, Shape, Value,
    get_function,
};
use crate::engine::types::{argument_type, element, is_list, is_variable, with_element};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::type_name::TypeName;

/// A function that makes a row of its result from a row.
#[derive(Debug)]
pub(super) struct RowFunction {
    name: String,
    function: &'static Function,
    /// Arguments behind the first that are the same in every call.
    held: Arc<[Value]>,
    options: Options,
    /// Options that a call gives as constants, behind the arguments.
    bounds: Vec<&'static str>,
    signature: Signature,
}

/// The same name for the same function with the same options; what is held is compared by its address.
impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && std::ptr::eq(self.function, other.function)
            && self.options == other.options
            && (Arc::ptr_eq(&self.held, &other.held)
                || self.held.is_empty() && other.held.is_empty())
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl RowFunction {
    pub(super) fn new(
        name: &str,
        function: &'static Function,
        held: &[Value],
        options: &Options,
    ) -> Result<Self> {
        let given = function.arguments.len().checked_sub(held.len()).filter(|given| *given > 0);
        let Some(given) = given else {
            let (expected, got) = (function.arguments.len(), held.len() + 1);
            return Err(Error::Arguments { expected, got }.in_function(function.name));
        };
        let is_open = |kind: OptionKind| kind == OptionKind::Bound;
        let bounds = function.options.iter().filter(|option| is_open(option.kind));
        let bounds = bounds.map(|option| option.name);
        let bounds: Vec<_> = bounds.filter(|name| options.get(name).is_none()).collect();
        Ok(Self {
            name: name.to_owned(),
            function,
            held: held.into(),
            options: options.clone(),
            signature: Signature::any(given + bounds.len(), Volatility::Immutable),
            bounds,
        })
    }

    /// How many columns a call has.
    fn columns(&self) -> usize {
        self.function.arguments.len() - self.held.len()
    }

    /// The type of the results, and how they lie.
    fn typed(&self, fields: &[FieldRef]) -> Result<(DataType, ResultKind)> {
        let function = self.function;
        let x = first(fields)?.data_type();
        let own = argument_type(x)?;
        if function.arguments[0].kind == ArgumentKind::Rows && !is_list(x) {
            return Err(argument("x", "a column whose rows are vectors", TypeName(x).to_string()));
        }
        let mut types = vec![own.clone()];
        for (field, argument) in fields[1..self.columns()].iter().zip(&function.arguments[1..]) {
            let other = field.data_type();
            // Also what a parameter is while it has no value.
            if *other == DataType::Null {
                let shape = Shape::Matrix { rows: None, width: None };
                types.push(ArgumentType { element: own.element.clone(), shape });
                continue;
            }
            check(argument.name, argument.kind, other)?;
            types.push(argument_type(other)?);
        }
        types.extend(self.held.iter().map(|held| type_of(held, &own.element)));
        let typed = function.result_type(&types, &self.options)?;
        let data_type = match &typed.kind {
            ResultKind::Number | ResultKind::PerRow => typed.element,
            ResultKind::Like => with_element(x, &typed.element),
            ResultKind::Rows { width: Some(width) } => {
                let limit = "a fixed-size list";
                let size = i32::try_from(*width).map_err(|_| Error::TooLarge {
                    rows: 1,
                    width: *width,
                    limit,
                })?;
                DataType::new_fixed_size_list(typed.element, size, true)
            }
            _ => {
                let expected = "a function whose result has a row for each row";
                return Err(argument("function", expected, function.name.to_owned()));
            }
        };
        if matches!(function.driver, Driver::Product(_)) && is_variable(x) {
            let expected = "a column of fixed-size lists, whose width a plan knows";
            return Err(argument("x", expected, TypeName(x).to_string()));
        }
        Ok((data_type, typed.kind))
    }

    fn field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let (data_type, kind) = self.typed(fields)?;
        let mut field = Field::new(&self.name, data_type, true);
        if kind == ResultKind::Like {
            // A tensor stays one.
            field.set_metadata(first(fields)?.metadata().clone());
        }
        Ok(Arc::new(field))
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let x = array(&args.args[0], rows)?;
        let field = first(&args.arg_fields)?.as_ref().clone();
        let field = Arc::new(field.with_data_type(x.data_type().clone()));
        let mut fields = args.arg_fields.clone();
        fields[0] = Arc::clone(&field);
        let (to, kind) = self.typed(&fields)?;
        let mut options = self.options.clone();
        for (name, value) in self.bounds.iter().zip(&args.args[self.columns()..]) {
            options = options.set(*name, bound(name, value)?);
        }
        let mut function = self.function;
        let mut values = vec![Value::from_field(&field, &[Arc::clone(&x)])?];
        let others = args.args[1..self.columns()].iter().zip(&function.arguments[1..]);
        for (other, argument) in others {
            let Beside { value, is_per_row } = beside(argument.kind, other, x.data_type(), rows)?;
            if is_per_row {
                options = options.set("axis", 0);
            }
            if matches!(value, Value::Matrix(_)) {
                function = one_per_row(function)?;
            }
            values.push(value);
        }
        values.extend(self.held.iter().cloned());
        let made = match function.call(&values, &options)? {
            Value::Scalar(array) | Value::Vector(array) => vec![array],
            Value::Matrix(matrix) if matches!(kind, ResultKind::Rows { .. }) => {
                matrix.into_lists()?.to_arrays()?
            }
            Value::Matrix(matrix) => matrix.to_arrays()?,
            Value::Ragged(lists) => lists.to_arrays()?,
            other => return Err(argument("function", "one with one result", other.describe())),
        };
        match &made[..] {
            [] => Ok(new_empty_array(&to)),
            [one] if *one.data_type() == to => Ok(Arc::clone(one)),
            // The same elements: only what is said of nulls in lists may differ.
            [one] => cast(one, &to).map_err(arrow),
            more => Err(Error::Rows { what: "chunks", expected: 1, got: more.len() }),
        }
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        internal_err!("{} is asked for its return_field_from_args", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> EngineResult<FieldRef> {
        self.field(args.arg_fields).map_err(|error| given(error.in_function(self.function.name)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let made = serial(self.function.name, || self.run(&args, rows))?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

fn argument(argument: &'static str, expected: &'static str, got: String) -> Error {
    Error::Argument { argument, expected, got }
}

pub(super) fn arrow(error: arrow_schema::ArrowError) -> Error {
    Error::Arrow { message: error.to_string() }
}

fn engine(error: &datafusion_common::DataFusionError) -> Error {
    Error::Arrow { message: error.to_string() }
}

/// A column, or a constant in so many rows.
fn array(value: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    match value {
        ColumnarValue::Array(array) => Ok(Arc::clone(array)),
        ColumnarValue::Scalar(one) => one.to_array_of_size(rows).map_err(|error| engine(&error)),
    }
}

/// Refuses a column of numbers where vectors are expected, before any row is read.
fn check(name: &'static str, kind: ArgumentKind, data_type: &DataType) -> Result<()> {
    let takes_numbers = matches!(kind, ArgumentKind::Operand | ArgumentKind::Number);
    if takes_numbers || is_list(data_type) {
        return Ok(());
    }
    Err(argument(name, "a column of vectors, or one vector", TypeName(data_type).to_string()))
}

/// The type of an argument that is held; a number takes that of `x`.
fn type_of(value: &Value, element: &DataType) -> ArgumentType {
    let (element, shape) = match value {
        Value::Vector(array) => (array.data_type(), Shape::Vector),
        Value::Matrix(matrix) if matrix.is_vector() => (matrix.element_type(), Shape::Vector),
        Value::Matrix(matrix) => {
            let (rows, width) = (Some(matrix.rows()), Some(matrix.width()));
            (matrix.element_type(), Shape::Matrix { rows, width })
        }
        _ => (element, Shape::Number),
    };
    ArgumentType { element: element.clone(), shape }
}

/// Functions that take one value for all rows, and those that give the same bits with one per row.
fn one_per_row(function: &'static Function) -> Result<&'static Function> {
    match function.arguments[1].kind {
        ArgumentKind::Number => get_function("multiply"),
        ArgumentKind::Row => get_function("add"),
        _ => Ok(function),
    }
}

/// The value of an option: one for all rows.
fn bound(name: &'static str, value: &ColumnarValue) -> Result<OptionValue> {
    let expected = "a constant: one value for all rows";
    let ColumnarValue::Scalar(one) = value else {
        return Err(argument(name, expected, "a column".to_owned()));
    };
    if one.is_null() {
        return Ok(OptionValue::None);
    }
    let other = || argument(name, expected, one.to_string());
    match number(one).ok_or_else(other)? {
        Value::Integer(n) => Ok(i64::try_from(n).map_or(OptionValue::Number(n as f64), Into::into)),
        Value::Number(n) => Ok(n.into()),
        _ => Err(other()),
    }
}

/// A constant as a plain number, which takes the type of what it is combined with.
fn number(one: &ScalarValue) -> Option<Value> {
    let integer = |n: i128| Some(Value::Integer(n));
    match one {
        ScalarValue::Float16(Some(n)) => Some(Value::Number(n.to_f64())),
        ScalarValue::Float32(Some(n)) => Some(Value::Number(f64::from(*n))),
        ScalarValue::Float64(Some(n)) => Some(Value::Number(*n)),
        ScalarValue::Int8(Some(n)) => integer((*n).into()),
        ScalarValue::Int16(Some(n)) => integer((*n).into()),
        ScalarValue::Int32(Some(n)) => integer((*n).into()),
        ScalarValue::Int64(Some(n)) => integer((*n).into()),
        ScalarValue::UInt8(Some(n)) => integer((*n).into()),
        ScalarValue::UInt16(Some(n)) => integer((*n).into()),
        ScalarValue::UInt32(Some(n)) => integer((*n).into()),
        ScalarValue::UInt64(Some(n)) => integer((*n).into()),
        _ => None,
    }
}

/// An argument beside `x`.
struct Beside {
    value: Value,
    /// Whether it is one number for each row.
    is_per_row: bool,
}

/// What a column or a constant is beside `x`: a list that is constant is one vector.
fn beside(kind: ArgumentKind, other: &ColumnarValue, x: &DataType, rows: usize) -> Result<Beside> {
    let for_all = |value| Ok(Beside { value, is_per_row: false });
    if let ColumnarValue::Scalar(one) = other
        && !one.is_null()
    {
        if let Some(number) = number(one) {
            return for_all(number);
        }
        let flat = flat(one.to_array().map_err(|error| engine(&error))?)?;
        // A list of one number is that number, as a list column of width 1 is one for each row.
        let is_number = kind == ArgumentKind::Operand && flat.len() == 1 && flat.is_valid(0);
        return for_all(match is_number.then(|| ScalarValue::try_from_array(&flat, 0)) {
            Some(Ok(one)) if number(&one).is_some() => number(&one).unwrap_or(Value::Vector(flat)),
            _ => Value::Vector(flat),
        });
    }
    let own = element(x);
    let array = match array(other, rows)? {
        // Rows of no vectors, which take the width of `x`, or of no numbers.
        nulls if *nulls.data_type() == DataType::Null => match kind {
            ArgumentKind::Operand | ArgumentKind::Number => new_null_array(own, rows),
            _ => new_null_array(&DataType::new_list(own.clone(), true), rows),
        },
        array => array,
    };
    let is_per_row = !is_list(array.data_type());
    let field = Arc::new(Field::new("y", array.data_type().clone(), true));
    Ok(Beside { value: Value::Matrix(Matrix::from_field(&field, &[array])?), is_per_row })
}

/// The elements of lists of one row, as plain numbers.
fn flat(lists: ArrayRef) -> Result<ArrayRef> {
    let mut one = lists;
    loop {
        one = match one.data_type() {
            DataType::FixedSizeList(..) => {
                let lists = one.as_fixed_size_list();
                let size = lists.value_length() as usize;
                lists.values().slice(lists.offset() * size, lists.len() * size)
            }
            DataType::List(_) if one.len() == 1 => one.as_list::<i32>().value(0),
            DataType::LargeList(_) if one.len() == 1 => one.as_list::<i64>().value(0),
            other if is_list(other) => {
                let got = TypeName(other).to_string();
                return Err(argument("y", "one vector", got));
            }
            _ => return Ok(one),
        };
    }
}
