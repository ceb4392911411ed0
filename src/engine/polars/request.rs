//! What Python has said of a call when it made the expression: options, and operands that are no
//! columns. It goes through polars as keyword arguments: a pickled dict of one text, which is JSON.
//!
//! ```text
//! {"serial": true, "options": {"axis": 1}, "arguments": ["column", {"integer": "2"}]}
//! ```
//!
//! `arguments` are those behind `x`. Numbers that have to keep their bits are written in hexadecimal,
//! as they lie in memory (little-endian): JSON's would be rounded.

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
#[cfg(feature = "python")]
use serde_json::json;
use serde_json::{Map, Value as Json};

use crate::buffer::Output;
use crate::compute::{OptionValue, Options, Value, element_type};
use crate::error::{Error, Result};
use crate::matrix::{Matrix, Strides};
#[cfg(feature = "python")]
use crate::type_name::TypeName;

/// How a call goes, apart from its columns.
#[derive(Debug)]
pub(crate) struct Request {
    /// Whether to keep to the thread that calls.
    pub(crate) is_serial: bool,
    pub(crate) options: Options,
    /// The arguments behind `x`.
    pub(crate) arguments: Vec<Given>,
}

/// An argument behind the first.
#[derive(Debug)]
pub(crate) enum Given {
    /// The next column that polars gives.
    Column,
    /// What was there when the expression was made.
    Value(Value),
}

fn refused(what: impl Into<String>) -> Error {
    Error::Arrow { message: format!("the plugin's arguments {}", what.into()) }
}

impl Request {
    /// Reads the keyword arguments of a call.
    pub(super) fn from_kwargs(kwargs: &[u8]) -> Result<Self> {
        Self::from_json(unpickled(kwargs)?)
    }

    fn from_json(text: &str) -> Result<Self> {
        let json: Json =
            serde_json::from_str(text).map_err(|error| refused(format!("are no JSON: {error}")))?;
        let (Some(is_serial), Some(options), Some(arguments)) =
            (json["serial"].as_bool(), json["options"].as_object(), json["arguments"].as_array())
        else {
            return Err(refused("lack serial, options or arguments"));
        };
        let options = options.iter().try_fold(Options::new(), |options, (name, value)| {
            let value = option(value).ok_or_else(|| {
                refused(format!("have {value} for option {name}, which is no value of one"))
            })?;
            Ok::<_, Error>(options.set(name.clone(), value))
        })?;
        let arguments = arguments.iter().map(|argument| {
            if argument.as_str() == Some("column") {
                return Ok(Given::Column);
            }
            value(argument)?.map(Given::Value).ok_or_else(|| refused("have no value of an operand"))
        });
        Ok(Self { is_serial, options, arguments: arguments.collect::<Result<_>>()? })
    }

    /// Writes it as JSON; `None` if an argument has nulls, or more than `most` bytes.
    ///
    /// # Errors
    ///
    /// No memory, or an interrupt.
    #[cfg(feature = "python")]
    pub(crate) fn to_json(&self, most: usize) -> Result<Option<String>> {
        let mut options = Map::new();
        for (name, value) in self.options.iter() {
            options.insert(name.to_owned(), option_json(value));
        }
        let mut arguments = Vec::new();
        for argument in &self.arguments {
            arguments.push(match argument {
                Given::Column => json!("column"),
                Given::Value(Value::Number(n)) => json!({ "float": hex(&n.to_le_bytes()) }),
                Given::Value(Value::Integer(n)) => json!({ "integer": n.to_string() }),
                Given::Value(Value::Matrix(matrix)) => {
                    if matrix.has_nulls() || matrix.bytes() > most {
                        return Ok(None);
                    }
                    json!({
                        "values": hex(&matrix.filled()?),
                        "type": TypeName(matrix.element_type()).to_string(),
                        "rows": matrix.rows(),
                        "width": matrix.width(),
                        "by_columns": matrix.is_by_columns(),
                        "is_vector": matrix.is_vector(),
                    })
                }
                Given::Value(_) => return Ok(None),
            });
        }
        let serial = self.is_serial;
        let json = json!({ "serial": serial, "options": options, "arguments": arguments });
        Ok(Some(json.to_string()))
    }
}

#[cfg(feature = "python")]
fn option_json(value: &OptionValue) -> Json {
    match value {
        OptionValue::None => Json::Null,
        OptionValue::Flag(flag) => json!(flag),
        OptionValue::Count(n) => json!(n),
        OptionValue::Number(n) => json!({ "float": hex(&n.to_le_bytes()) }),
        OptionValue::Text(text) => json!(text),
        OptionValue::List(all) => Json::Array(all.iter().map(option_json).collect()),
    }
}

fn option(json: &Json) -> Option<OptionValue> {
    match json {
        Json::Null => Some(OptionValue::None),
        Json::Bool(flag) => Some(OptionValue::Flag(*flag)),
        Json::Number(n) => n.as_i64().map(OptionValue::Count),
        Json::String(text) => Some(OptionValue::Text(text.clone())),
        Json::Object(number) => float(number).map(OptionValue::Number),
        Json::Array(all) => all.iter().map(option).collect::<Option<_>>().map(OptionValue::List),
    }
}

fn float(json: &Map<String, Json>) -> Option<f64> {
    let mut bytes = [0; 8];
    unhex(json.get("float")?.as_str()?, &mut bytes)?;
    Some(f64::from_le_bytes(bytes))
}

/// The value of an operand; `None` for what is none.
fn value(json: &Json) -> Result<Option<Value>> {
    let Some(object) = json.as_object() else { return Ok(None) };
    if let Some(number) = float(object) {
        return Ok(Some(Value::Number(number)));
    }
    if let Some(number) = object.get("integer").and_then(Json::as_str) {
        return Ok(number.parse().ok().map(Value::Integer));
    }
    matrix(object).map(|matrix| matrix.map(Value::Matrix))
}

fn matrix(json: &Map<String, Json>) -> Result<Option<Matrix>> {
    let number = |name: &str| usize::try_from(json.get(name)?.as_u64()?).ok();
    let flag = |name: &str| json.get(name)?.as_bool();
    let parts = || {
        let element = element_type(json.get("type")?.as_str()?)?;
        let shape = [number("rows")?, number("width")?];
        let text = json.get("values")?.as_str()?;
        Some((element, shape, text, flag("by_columns")?, flag("is_vector")?))
    };
    let Some((element, [rows, width], text, by_columns, is_vector)) = parts() else {
        return Ok(None);
    };
    let size = element.primitive_width().unwrap_or(1);
    let needed = rows.checked_mul(width).and_then(|n| n.checked_mul(size));
    if needed != Some(text.len() / 2) {
        return Ok(None);
    }
    let mut values = Output::<u8>::new(text.len() / 2)?;
    if unhex(text, &mut values).is_none() {
        return Ok(None);
    }
    let memory = values.into_buffer();
    if by_columns {
        let step = |n: usize| isize::try_from(n).unwrap_or(isize::MAX);
        let strides = [step(size), step(rows * size)];
        let values = Strides { memory, strides };
        return Matrix::from_strides(&element, [rows, width], values, None).map(Some);
    }
    let flat = Matrix::reshape(&numbers(&element, rows * width, memory)?, width)?;
    Ok(Some(if is_vector { flat } else { flat.into_lists()? }))
}

fn numbers(element: &arrow_schema::DataType, len: usize, memory: Buffer) -> Result<ArrayRef> {
    let data = ArrayData::builder(element.clone()).len(len).add_buffer(memory).build();
    data.map(make_array).map_err(|error| refused(format!("have values that {error}")))
}

/// Bytes as text, two digits each.
#[cfg(feature = "python")]
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads what [`hex`] wrote; `None` unless it is just as long as `out`.
fn unhex(text: &str, out: &mut [u8]) -> Option<()> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != out.len() || !rest.is_empty() {
        return None;
    }
    for ([high, low], out) in pairs.iter().zip(out) {
        *out = digit(*high)? << 4 | digit(*low)?;
    }
    Some(())
}

/// The text in a pickled dict `{"call": text}`, as Python's pickle of protocol 5 writes it.
fn unpickled(pickle: &[u8]) -> Result<&str> {
    let mut reader = Pickle(pickle);
    reader.header()?;
    reader.expect(b'}', "a dict")?;
    if reader.text()? != "call" {
        return Err(refused("have another key than \"call\""));
    }
    let text = reader.text()?;
    reader.expect(b's', "a dict of one item")?;
    reader.expect(b'.', "an end")?;
    if reader.0.is_empty() { Ok(text) } else { Err(refused("go on behind their end")) }
}

struct Pickle<'a>(&'a [u8]);

impl<'a> Pickle<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(|| refused("are cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<usize> {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(self.take(bytes)?);
        usize::try_from(u64::from_le_bytes(wide)).map_err(|_| refused("are too long"))
    }

    fn header(&mut self) -> Result<()> {
        match self.take(2)? {
            [0x80, 5] => Ok(()),
            _ => Err(refused("are no pickle of protocol 5")),
        }
    }

    /// The next opcode. Frames say how long their content is, and memoised objects are never asked
    /// for again: both are passed over.
    fn opcode(&mut self) -> Result<u8> {
        loop {
            match self.take(1)?[0] {
                0x95 => _ = self.take(8)?,
                0x94 => {}
                other => return Ok(other),
            }
        }
    }

    fn expect(&mut self, opcode: u8, what: &str) -> Result<()> {
        match self.opcode()? {
            got if got == opcode => Ok(()),
            got => Err(refused(format!("have opcode {got:#04x} where {what} was expected"))),
        }
    }

    fn text(&mut self) -> Result<&'a str> {
        let len = match self.opcode()? {
            0x8c => self.number(1)?,
            b'X' => self.number(4)?,
            0x8d => self.number(8)?,
            got => {
                return Err(refused(format!("have opcode {got:#04x} where a text was expected")));
            }
        };
        std::str::from_utf8(self.take(len)?).map_err(|_| refused("have a text that is not UTF-8"))
    }
}
