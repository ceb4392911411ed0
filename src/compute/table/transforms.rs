//! Transforms: a matrix of the same shape.

use super::{DTYPE, ROWS, option};
use crate::compute::Per;
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Driver, Function, Gives, NullRule};
use crate::compute::transform::Transform;

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

const fn transform(
    name: &'static str,
    transform: Transform,
    options: &'static [OptionSpec],
    nulls: NullRule,
    summary: &'static str,
) -> Function {
    Function {
        name,
        summary,
        family: "transforms",
        arguments: &[ROWS],
        options,
        nulls,
        gives: Gives::Rows,
        by_name: &[],
        driver: Driver::Transform(transform),
        axis: None,
    }
}

pub(super) static TABLE: &[Function] = &[
    transform(
        "normalize",
        Transform::Normalize,
        &[OF_ROWS, ORD, DTYPE],
        NullRule::WholeRows,
        "Divides each row by its norm; a zero vector becomes null.",
    ),
    transform(
        "standardize",
        Transform::Standardize,
        &[OF_COLUMNS, DTYPE],
        NullRule::SkipsThenPropagates,
        "Subtracts the mean and divides by the standard deviation.",
    ),
    transform(
        "center",
        Transform::Center,
        &[OF_COLUMNS, DTYPE],
        NullRule::SkipsThenPropagates,
        "Subtracts the mean.",
    ),
    transform(
        "minmax_scale",
        Transform::MinMaxScale,
        &[OF_COLUMNS, DTYPE],
        NullRule::SkipsThenPropagates,
        "Moves the smallest element to 0 and the largest to 1.",
    ),
    Function {
        axis: Some(Per::Row),
        ..transform(
            "softmax",
            Transform::Softmax,
            &[DTYPE],
            NullRule::WholeRows,
            "The exponential of each element by the sum of these over its row.",
        )
    },
];
