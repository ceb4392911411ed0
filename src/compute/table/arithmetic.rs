//! Arithmetic: element by element, with a number, a row, a column or a matrix, or alone.

use super::{X, argument, option, placed};
use crate::compute::arithmetic;
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Argument, ArgumentKind, Function, Gives, NullRule};
use crate::compute::value::Value;

const Y: Argument = argument(
    "y",
    ArgumentKind::Operand,
    "A number, a 1-D array (one value per column, or per row with axis=0), a list of one \
     row or of width 1, or a matrix of the same shape.",
);
const FACTOR: Argument = argument("factor", ArgumentKind::Number, "The number to multiply by.");
const ROW: Argument = argument("row", ArgumentKind::Row, "One value per column.");

const AXIS: OptionSpec = option(
    "axis",
    OptionKind::Axis(None),
    "0: a 1-D y holds one value per row; None or 1: one per column.",
);
const LOWEST: OptionSpec =
    placed("min", OptionKind::Bound, "Smaller elements become this; None leaves them.");
const HIGHEST: OptionSpec =
    placed("max", OptionKind::Bound, "Larger elements become this; None leaves them.");

/// Arithmetic of a matrix with an operand.
macro_rules! binary {
    ($name:literal, $call:path, $second:expr, $options:expr, $summary:literal) => {
        Function {
            name: $name,
            summary: $summary,
            family: "arithmetic",
            arguments: &[X, $second],
            options: $options,
            nulls: NullRule::Propagates,
            gives: Gives::Rows,
            work: |call| Ok(arithmetic::work(&*call.matrix(0)?, call.operand_bytes(1))),
            invoke: |call| {
                let x = call.matrix(0)?;
                let y = call.held(1)?;
                let result = $call(&*x, call.operand(1, y.as_deref())?);
                Ok(Value::Matrix(result.map_err(|error| error.about($second.name))?))
            },
        }
    };
}

/// Arithmetic of a matrix alone.
macro_rules! unary {
    ($name:literal, $options:expr, $summary:literal, |$x:ident, $call:ident| $run:expr) => {
        Function {
            name: $name,
            summary: $summary,
            family: "arithmetic",
            arguments: &[X],
            options: $options,
            nulls: NullRule::Propagates,
            gives: Gives::Rows,
            work: |call| Ok(arithmetic::work(&*call.matrix(0)?, 0)),
            invoke: |$call| {
                let held = $call.matrix(0)?;
                let $x = &*held;
                Ok(Value::Matrix($run?))
            },
        }
    };
}

pub(super) static TABLE: &[Function] = &[
    binary!("add", arithmetic::add, Y, &[AXIS], "Adds y to x, element by element."),
    binary!(
        "subtract",
        arithmetic::subtract,
        Y,
        &[AXIS],
        "Subtracts y from x, element by element."
    ),
    binary!("multiply", arithmetic::multiply, Y, &[AXIS], "Multiplies x by y, element by element."),
    binary!(
        "divide",
        arithmetic::divide,
        Y,
        &[AXIS],
        "Divides x by y, element by element; integers towards zero."
    ),
    binary!(
        "minimum",
        arithmetic::minimum,
        Y,
        &[AXIS],
        "The smaller of x and y, element by element; NaN if either is."
    ),
    binary!(
        "maximum",
        arithmetic::maximum,
        Y,
        &[AXIS],
        "The larger of x and y, element by element; NaN if either is."
    ),
    binary!("broadcast_add", arithmetic::broadcast_add, ROW, &[], "Adds a row to every row of x."),
    binary!("scale", arithmetic::scale, FACTOR, &[], "Multiplies every element by one number."),
    unary!("negate", &[], "Turns the sign of every element.", |x, _call| arithmetic::negate(x)),
    unary!("abs", &[], "The magnitude of every element.", |x, _call| arithmetic::abs(x)),
    unary!("square", &[], "Multiplies every element by itself.", |x, _call| arithmetic::square(x)),
    unary!("sqrt", &[], "The square root of every element; of integers in float64.", |x, _call| {
        arithmetic::sqrt(x)
    }),
    unary!(
        "clip",
        &[LOWEST, HIGHEST],
        "Moves every element into bounds; a NaN stays one.",
        |x, call| arithmetic::clip(x, call.options.bound("min"), call.options.bound("max"))
    ),
];
