//! Signatures and docstrings of the Python functions, from the registry's table and
//! `examples.txt`.

use std::fmt::Write as _;

use super::results::tuple_name;
use crate::compute::registry::{Argument, ArgumentKind, Gives};
use crate::compute::{Function, OptionKind, OptionSpec, OptionValue};

/// The options that are positional too: `axis` of a reduction, as in NumPy.
pub(super) fn positional_options(
    function: &'static Function,
) -> impl Iterator<Item = &'static OptionSpec> {
    function.options.iter().filter(|option| option.positional)
}

/// `(x, axis=None, *, skip_nulls=True, min_count=1, width=None)`.
pub(super) fn signature(function: &'static Function) -> String {
    let argument = |argument: &Argument| {
        let default = if argument.optional { "=None" } else { "" };
        format!("{}{default}", argument.name)
    };
    let set = |option: &OptionSpec| match default(option) {
        Some(default) => format!("{}={default}", option.name),
        None => option.name.to_owned(),
    };
    let mut parameters: Vec<String> = function.arguments.iter().map(argument).collect();
    parameters.extend(positional_options(function).map(set));
    parameters.push("*".to_owned());
    parameters.extend(function.by_name.iter().map(argument));
    parameters.extend(function.options.iter().filter(|option| !option.positional).map(set));
    parameters.push("width=None".to_owned());
    format!("({})", parameters.join(", "))
}

/// The value of an option that is not set, as Python writes it; none if it must be set.
fn default(option: &OptionSpec) -> Option<String> {
    if option.kind.is_required() {
        return None;
    }
    Some(match option.kind.default_value() {
        OptionValue::Text(word) => format!("'{word}'"),
        other => other.to_string(),
    })
}

/// The docstring, in NumPy's style.
pub(super) fn docstring(function: &'static Function) -> String {
    let mut text = format!("{}\n\nParameters\n----------\n", function.summary);
    for argument in function.all_arguments() {
        let default = if argument.optional { ", default None" } else { "" };
        let head = format!("{} : {}{default}", argument.name, kind(argument));
        push(&mut text, &head, argument.doc);
    }
    for option in function.options {
        let default = default(option).map_or_else(String::new, |word| format!(", default {word}"));
        let head = format!("{} : {}{default}", option.name, takes(option.kind));
        push(&mut text, &head, option.doc);
    }
    let width = "For plain numbers: the elements that make one row of x.";
    push(&mut text, "width : int or None, default None", width);
    let _ = write!(text, "\nReturns\n-------\n{}\n", returns(function));
    let _ = write!(text, "\nNotes\n-----\n{}\n", function.nulls.describe());
    text.push_str(&examples(function.name));
    text
}

/// The section of a docstring that shows what a function does; none if it has no example.
pub(super) fn examples(name: &str) -> String {
    example(name)
        .map_or_else(String::new, |example| format!("\nExamples\n--------\n{SETUP}{example}"))
}

fn push(text: &mut String, head: &str, body: &str) {
    let _ = writeln!(text, "{head}\n    {body}");
}

fn kind(argument: &Argument) -> &'static str {
    match argument.kind {
        ArgumentKind::Matrix | ArgumentKind::Rows => "matrix",
        ArgumentKind::Operand => "number, list, 1-D array or matrix",
        ArgumentKind::Row => "list or 1-D array",
        ArgumentKind::Weights => "list, 1-D array or matrix",
        ArgumentKind::Number => "number",
        ArgumentKind::Vectors | ArgumentKind::Queries => "list, 1-D array or matrix",
    }
}

fn takes(kind: OptionKind) -> String {
    match kind {
        OptionKind::Axis(_) => "{None, 0, 1, -1}".to_owned(),
        OptionKind::Flag(_) => "bool".to_owned(),
        OptionKind::Count(_) => "int".to_owned(),
        OptionKind::Order => "{1, 2, inf}".to_owned(),
        OptionKind::Choice(words) => format!("{{'{}'}}", words.join("', '")),
        OptionKind::Fill => "number or None".to_owned(),
        OptionKind::Along(_) => "{0, 1, -1}".to_owned(),
        OptionKind::OptionalType => {
            "str, or a type of pyarrow, NumPy, polars or Python, or None".to_owned()
        }
        OptionKind::Bound => "number, list of them, or None".to_owned(),
        OptionKind::Fraction => "number from 0 to 1".to_owned(),
        OptionKind::Type => "str, or a type of pyarrow, NumPy, polars or Python".to_owned(),
    }
}

fn returns(function: &Function) -> String {
    let has_axis = function.options.iter().any(|option| option.name == "axis");
    match function.gives {
        Gives::Reduced if has_axis => {
            "number or None\n    For axis=None; else a 1-D array of the library that x is of."
                .to_owned()
        }
        Gives::Reduced => "array\n    1-D, of the library that x is of.".to_owned(),
        Gives::Numbers => {
            "array\n    1-D, of the library that x is of; of two 1-D arrays one number or None."
                .to_owned()
        }
        Gives::Rows => "matrix\n    Of x's own kind.".to_owned(),
        Gives::Square | Gives::Transposed => {
            "matrix\n    Fixed-size lists, of the library that x is of.".to_owned()
        }
        Gives::Named(names) => {
            let tuple = tuple_name(function);
            format!("{tuple}\n    A named tuple of {}.", names.join(" and "))
        }
    }
}

const SETUP: &str = "\
>>> import pyarrow as pa
>>> import raptors_arrow as ra
>>> x = pa.array([[1.0, 2.0], None, [3.0, 6.0]], pa.list_(pa.float64(), 2))
";

/// What a function does to the `x` of [`SETUP`]: a piece of `examples.txt`, under its name.
fn example(name: &str) -> Option<&'static str> {
    let examples = include_str!("examples.txt");
    let (_, rest) = examples.split_once(&format!("\n# {name}\n"))?;
    // The next piece begins with the name of its function.
    Some(rest.find("\n# ").map_or(rest, |end| &rest[..=end]))
}
