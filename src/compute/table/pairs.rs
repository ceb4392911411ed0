//! Row by row: each row with a row of another matrix, or with one vector.

use super::{ROWS, argument};
use crate::compute::Metric;
use crate::compute::registry::{Argument, ArgumentKind, Driver, Function, Gives, NullRule};

const Y: Argument = argument(
    "y",
    ArgumentKind::Vectors,
    "A matrix of the same shape, paired row by row; or one vector for all rows: a 1-D array or a \
     list of one row. With a 1-D x of the same length: one number.",
);

const fn pairs(name: &'static str, metric: Metric, summary: &'static str) -> Function {
    Function {
        name,
        summary,
        family: "row by row",
        arguments: &[ROWS, Y],
        options: &[],
        nulls: NullRule::WholeRows,
        gives: Gives::Numbers,
        by_name: &[],
        driver: Driver::Pairs(metric),
        axis: None,
    }
}

pub(super) static TABLE: &[Function] = &[
    pairs("dot", Metric::Dot, "The dot product of each row with a row of y."),
    pairs(
        "cosine_similarity",
        Metric::Cosine,
        "The cosine of the angle between each row and a row of y; null for a zero vector.",
    ),
    pairs("l2_distance", Metric::L2, "The Euclidean distance of each row from a row of y."),
    pairs(
        "l1_distance",
        Metric::L1,
        "The sum of the distances, element by element, of each row from a row of y.",
    ),
];
