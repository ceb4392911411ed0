//! Comparisons: a yes or no for each element.

use super::arithmetic::{AXIS, Y};
use super::{X, argument};
use crate::compute::Choice;
use crate::compute::arithmetic::Operation;
use crate::compute::options::OptionSpec;
use crate::compute::registry::{Argument, ArgumentKind, Driver, Function, Gives, NullRule};

const fn comparison(
    name: &'static str,
    operation: Operation,
    arguments: &'static [Argument],
    options: &'static [OptionSpec],
    summary: &'static str,
) -> Function {
    Function {
        name,
        summary,
        family: "comparison",
        arguments,
        options,
        nulls: NullRule::Propagates,
        gives: Gives::Rows,
        by_name: &[],
        driver: Driver::Elementwise(operation),
        axis: None,
    }
}

/// A comparison with an operand.
const fn with_y(name: &'static str, operation: Operation, summary: &'static str) -> Function {
    comparison(name, operation, &[X, Y], &[AXIS], summary)
}

/// A question about each element alone.
const fn alone(name: &'static str, operation: Operation, summary: &'static str) -> Function {
    comparison(name, operation, &[X], &[], summary)
}

const VALUE: Argument = argument(
    "value",
    ArgumentKind::Operand,
    "A number, a 1-D array (one value per column, or per row with axis=0), a list of one \
     row or of width 1, or a matrix of the same shape.",
);

/// A function of nulls.
const fn choice(
    name: &'static str,
    choice: Choice,
    arguments: &'static [Argument],
    options: &'static [OptionSpec],
    summary: &'static str,
) -> Function {
    let driver = Driver::Choice(choice);
    Function { driver, ..comparison(name, Operation::IsNan, arguments, options, summary) }
}

const CONDITION: Argument = argument(
    "condition",
    ArgumentKind::Operand,
    "Booleans, or numbers, of which 0 is False: a matrix, a 1-D array (one value per column, or per \
     row with axis=0), a list of one row or of width 1.",
);
const CHOSEN: Argument = argument(
    "x",
    ArgumentKind::Operand,
    "What is taken where the condition holds: a number, a 1-D array, a list of one row or of width \
     1, or a matrix. Results have its type, or that of y where it is a number.",
);
const OTHERWISE: Argument = argument("y", ArgumentKind::Operand, "What is taken elsewhere.");

pub(super) static TABLE: &[Function] = &[
    Function {
        nulls: NullRule::Chooses,
        driver: Driver::Where,
        ..comparison(
            "where",
            Operation::IsNan,
            &[CONDITION, CHOSEN, OTHERWISE],
            &[AXIS],
            "x where a condition holds, y elsewhere, element by element.",
        )
    },
    with_y("greater", Operation::Greater, "Whether x > y, element by element."),
    with_y("greater_equal", Operation::GreaterEqual, "Whether x >= y, element by element."),
    with_y("less", Operation::Less, "Whether x < y, element by element."),
    with_y("less_equal", Operation::LessEqual, "Whether x <= y, element by element."),
    with_y("equal", Operation::Equal, "Whether x == y, element by element; a NaN equals nothing."),
    with_y(
        "not_equal",
        Operation::NotEqual,
        "Whether x != y, element by element; a NaN equals nothing.",
    ),
    alone("isnan", Operation::IsNan, "Whether each element is a NaN."),
    Function {
        nulls: NullRule::Answers,
        ..choice("is_null", Choice::IsNull, &[X], &[], "Whether each element is null.")
    },
    Function {
        nulls: NullRule::Fills,
        ..choice(
            "fill_null",
            Choice::FillNull,
            &[X, VALUE],
            &[AXIS],
            "Another value in place of each null element.",
        )
    },
    choice("nan_to_null", Choice::NanToNull, &[X], &[], "Null in place of each NaN."),
    alone("isfinite", Operation::IsFinite, "Whether each element is neither infinite nor a NaN."),
];
