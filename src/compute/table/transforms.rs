//! Transforms: a matrix of the same shape.

use super::{X, option};
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Function, Gives, NullRule};
use crate::compute::value::Value;
use crate::compute::{by_rows, transform};

const OF_COLUMNS: OptionSpec = option(
    "axis",
    OptionKind::Axis(Some(0)),
    "0: each column by itself; 1: each row; None: the whole matrix.",
);
const OF_ROWS: OptionSpec = option(
    "axis",
    OptionKind::Axis(Some(1)),
    "1: each row by itself; 0: each column; None: the whole matrix.",
);
const ORD: OptionSpec = option(
    "ord",
    OptionKind::Order,
    "2: the root of the sum of squares; 1: the sum of magnitudes; inf: the largest magnitude.",
);

macro_rules! transform {
    ($name:literal, $options:expr, $nulls:ident, $summary:literal, |$x:ident, $call:ident| $run:expr) => {
        Function {
            name: $name,
            summary: $summary,
            family: "transforms",
            arguments: &[X],
            options: $options,
            nulls: NullRule::$nulls,
            gives: Gives::Rows,
            work: |call| Ok(by_rows::work(&*call.matrix(0)?, 1)),
            invoke: |$call| {
                let held = $call.matrix(0)?;
                let $x = &*held;
                Ok(Value::Matrix($run?))
            },
        }
    };
}

pub(super) static TABLE: &[Function] = &[
    transform!(
        "normalize",
        &[OF_ROWS, ORD],
        WholeRows,
        "Divides each row by its norm; a zero vector becomes null.",
        |x, call| transform::normalize(x, call.options.per(), call.options.order())
    ),
    transform!(
        "standardize",
        &[OF_COLUMNS],
        SkipsThenPropagates,
        "Subtracts the mean and divides by the standard deviation.",
        |x, call| transform::standardize(x, call.options.per())
    ),
    transform!("center", &[OF_COLUMNS], SkipsThenPropagates, "Subtracts the mean.", |x, call| {
        transform::center(x, call.options.per())
    }),
    transform!(
        "minmax_scale",
        &[OF_COLUMNS],
        SkipsThenPropagates,
        "Moves the least element to 0 and the greatest to 1.",
        |x, call| transform::minmax_scale(x, call.options.per())
    ),
    transform!(
        "softmax",
        &[],
        WholeRows,
        "The exponential of each element by the sum of these over its row.",
        |x, _call| transform::softmax(x)
    ),
];
