//! Signatures and docstrings of the Python functions, from the registry's table.

use std::fmt::Write as _;

use crate::compute::registry::{Argument, ArgumentKind};
use crate::compute::{Function, OptionSpec};

/// The options that may be given by place: `axis` of a reduction, as in NumPy.
pub(super) fn positional_options(
    function: &'static Function,
) -> impl Iterator<Item = &'static OptionSpec> {
    function.options.iter().filter(|option| function.arguments.len() == 1 && option.name == "axis")
}

/// `(x, axis=None, *, skip_nulls=True, min_count=1, width=None)`.
pub(super) fn signature(function: &'static Function) -> String {
    let set = |option: &OptionSpec| format!("{}={}", option.name, option.kind.default_value());
    let mut parameters: Vec<String> =
        function.arguments.iter().map(|argument| argument.name.to_owned()).collect();
    parameters.extend(positional_options(function).map(set));
    parameters.push("*".to_owned());
    let by_place: Vec<_> = positional_options(function).map(|option| option.name).collect();
    let others = function.options.iter().filter(|option| !by_place.contains(&option.name));
    parameters.extend(others.map(set));
    parameters.push("width=None".to_owned());
    format!("({})", parameters.join(", "))
}

/// The docstring, in NumPy's style.
pub(super) fn docstring(function: &'static Function) -> String {
    let mut text = format!("{}\n\nParameters\n----------\n", function.summary);
    for argument in function.arguments {
        push(&mut text, &format!("{} : {}", argument.name, kind(argument)), argument.doc);
    }
    for option in function.options {
        let default = option.kind.default_value();
        push(&mut text, &format!("{} : default {default}", option.name), option.doc);
    }
    let width = "For plain numbers: the elements that make one row of x.";
    push(&mut text, "width : default None", width);
    let _ = write!(text, "\nReturns\n-------\n{}\n", returns(function));
    let _ = write!(text, "\nNotes\n-----\n{}\n", function.nulls.describe());
    let _ = write!(text, "\nExamples\n--------\n{}", example(function));
    text
}

fn push(text: &mut String, head: &str, body: &str) {
    let _ = writeln!(text, "{head}\n    {body}");
}

fn kind(argument: &Argument) -> &'static str {
    match argument.kind {
        ArgumentKind::Matrix => "matrix",
        ArgumentKind::Operand => "number, 1-D array or matrix",
        ArgumentKind::Row => "1-D array",
        ArgumentKind::Number => "number",
    }
}

fn returns(function: &Function) -> &'static str {
    let has_axis = function.options.iter().any(|option| option.name == "axis");
    match (function.family, has_axis) {
        ("reductions", true) => {
            "float or None\n    For axis=None; else a 1-D array of the library that x is of."
        }
        ("reductions", false) => "array\n    1-D, of the library that x is of.",
        _ => "matrix\n    Of x's own kind and type.",
    }
}

const SETUP: &str = "\
>>> import pyarrow as pa
>>> import raptors_arrow as ra
>>> x = pa.array([[1.0, 2.0], None, [3.0, 6.0]], pa.list_(pa.float64(), 2))
";

/// What the examples show. A function that is not here gets a call without its result.
const EXAMPLES: &[(&str, &str)] = &[
    ("sum", ">>> ra.sum(x)\n12.0\n>>> ra.sum(x, axis=0).to_pylist()\n[4.0, 8.0]\n"),
    ("mean", ">>> ra.mean(x)\n3.0\n>>> ra.mean(x, axis=1).to_pylist()\n[1.5, None, 4.5]\n"),
    ("sum_axis0", ">>> ra.sum_axis0(x).to_pylist()\n[4.0, 8.0]\n"),
    ("mean_axis0", ">>> ra.mean_axis0(x).to_pylist()\n[2.0, 4.0]\n"),
    ("mean_axis1", ">>> ra.mean_axis1(x).to_pylist()\n[1.5, None, 4.5]\n"),
    (
        "add",
        ">>> ra.add(x, pa.array([10.0, 20.0])).to_pylist()\n[[11.0, 22.0], None, [13.0, 26.0]]\n",
    ),
    (
        "subtract",
        ">>> ra.subtract(x, pa.array([1.0, 2.0, 3.0]), axis=0).to_pylist()\n\
         [[0.0, 1.0], None, [0.0, 3.0]]\n",
    ),
    ("multiply", ">>> ra.multiply(x, x).to_pylist()\n[[1.0, 4.0], None, [9.0, 36.0]]\n"),
    ("divide", ">>> ra.divide(x, 2).to_pylist()\n[[0.5, 1.0], None, [1.5, 3.0]]\n"),
    (
        "broadcast_add",
        ">>> ra.broadcast_add(x, pa.array([10.0, 20.0])).to_pylist()\n\
         [[11.0, 22.0], None, [13.0, 26.0]]\n",
    ),
    ("scale", ">>> ra.scale(x, 10).to_pylist()\n[[10.0, 20.0], None, [30.0, 60.0]]\n"),
];

fn example(function: &Function) -> String {
    let known = EXAMPLES.iter().find(|(name, _)| *name == function.name);
    let call = match known {
        Some((_, call)) => (*call).to_owned(),
        None => {
            let arguments: Vec<&str> =
                function.arguments.iter().map(|argument| sample(argument.kind)).collect();
            format!(">>> result = ra.{}({})\n", function.name, arguments.join(", "))
        }
    };
    format!("{SETUP}{call}")
}

/// An argument for the matrix of [`SETUP`].
fn sample(kind: ArgumentKind) -> &'static str {
    match kind {
        ArgumentKind::Matrix | ArgumentKind::Operand => "x",
        ArgumentKind::Row => "pa.array([10.0, 20.0])",
        ArgumentKind::Number => "2.0",
    }
}
