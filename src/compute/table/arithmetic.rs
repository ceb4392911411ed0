//! Arithmetic: element by element, with a number, a row, a column or a matrix, or alone.

use super::{DTYPE, X, argument, option, positional};
use crate::compute::arithmetic::Operation;
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Argument, ArgumentKind, Driver, Function, Gives, NullRule};

pub(super) const Y: Argument = argument(
    "y",
    ArgumentKind::Operand,
    "A number, a 1-D array (one value per column, or per row with axis=0), a list of one \
     row or of width 1, or a matrix of the same shape.",
);
const FACTOR: Argument = argument("factor", ArgumentKind::Number, "The number to multiply by.");
const ROW: Argument = argument("row", ArgumentKind::Row, "One value per column.");

pub(super) const AXIS: OptionSpec = option(
    "axis",
    OptionKind::Axis(None),
    "0: a 1-D y holds one value per row; None or 1: one per column.",
);
const DECIMALS: OptionSpec =
    positional("decimals", OptionKind::Count(0), "How many digits behind the point are left.");
const LOWEST: OptionSpec = positional(
    "min",
    OptionKind::Bound,
    "Smaller elements become this; None leaves them. A list has one for each column.",
);
const HIGHEST: OptionSpec = positional(
    "max",
    OptionKind::Bound,
    "Larger elements become this; None leaves them. A list has one for each column.",
);
const ALONG: OptionSpec =
    positional("axis", OptionKind::Along(0), "0: down the columns; 1: along the rows.");

/// Arithmetic of a matrix with an operand.
const fn binary(
    name: &'static str,
    operation: Operation,
    arguments: &'static [Argument],
    options: &'static [OptionSpec],
    summary: &'static str,
) -> Function {
    Function {
        name,
        summary,
        family: "arithmetic",
        arguments,
        options,
        nulls: NullRule::Propagates,
        gives: Gives::Rows,
        by_name: &[],
        driver: Driver::Elementwise(operation),
        axis: None,
    }
}

/// Arithmetic of a matrix alone.
const fn unary(
    name: &'static str,
    operation: Operation,
    options: &'static [OptionSpec],
    summary: &'static str,
) -> Function {
    binary(name, operation, &[X], options, summary)
}

const WITH_Y: &[Argument] = &[X, Y];

pub(super) static TABLE: &[Function] = &[
    binary("add", Operation::Add, WITH_Y, &[AXIS], "Adds y to x, element by element."),
    binary(
        "subtract",
        Operation::Subtract,
        WITH_Y,
        &[AXIS],
        "Subtracts y from x, element by element.",
    ),
    binary(
        "multiply",
        Operation::Multiply,
        WITH_Y,
        &[AXIS],
        "Multiplies x by y, element by element.",
    ),
    binary(
        "divide",
        Operation::Divide,
        WITH_Y,
        &[AXIS],
        "Divides x by y, element by element; integers towards zero.",
    ),
    binary(
        "minimum",
        Operation::Minimum,
        WITH_Y,
        &[AXIS],
        "The smaller of x and y, element by element; NaN if either is.",
    ),
    binary(
        "maximum",
        Operation::Maximum,
        WITH_Y,
        &[AXIS],
        "The larger of x and y, element by element; NaN if either is.",
    ),
    binary("broadcast_add", Operation::Add, &[X, ROW], &[], "Adds a row to every row of x."),
    binary(
        "scale",
        Operation::Multiply,
        &[X, FACTOR],
        &[],
        "Multiplies every element by one number.",
    ),
    unary("negate", Operation::Negate, &[], "Turns the sign of every element."),
    unary("abs", Operation::Abs, &[], "The magnitude of every element."),
    unary("square", Operation::Square, &[], "Multiplies every element by itself."),
    unary(
        "sqrt",
        Operation::Sqrt,
        &[],
        "The square root of every element; of integers in float64.",
    ),
    unary("exp", Operation::Exp, &[], "e to the power of every element; of integers in float64."),
    unary(
        "log",
        Operation::Log,
        &[],
        "The natural logarithm of every element; of integers in float64.",
    ),
    binary(
        "power",
        Operation::Power,
        WITH_Y,
        &[AXIS],
        "x to the power of y, element by element; of integers if it is one that fits.",
    ),
    unary("sign", Operation::Sign, &[], "1, -1 or 0 as each element is above, below or at zero."),
    unary(
        "round",
        Operation::Round,
        &[DECIMALS],
        "The nearest whole number, or number of so many decimals; of two the even one.",
    ),
    Function {
        nulls: NullRule::SkipsThenPropagates,
        driver: Driver::Cumsum,
        ..unary(
            "cumsum",
            Operation::Add,
            &[ALONG, DTYPE],
            "The sum of each element and all before it, down its column or along its row.",
        )
    },
    unary(
        "clip",
        Operation::Clip,
        &[LOWEST, HIGHEST],
        "Moves every element into bounds; a NaN stays one.",
    ),
];
