//! Row by row: each row with a row of another matrix, or with one vector.

use super::{X, argument};
use crate::compute::pairs::{self, Vectors};
use crate::compute::registry::{Argument, ArgumentKind, Function, Gives, NullRule};
use crate::compute::value::Value;

const Y: Argument = argument(
    "y",
    ArgumentKind::Vectors,
    "A matrix of the same shape, paired row by row; or one vector for all rows: a 1-D array or a \
     list of one row.",
);

macro_rules! pairs {
    ($name:literal, $call:path, $summary:literal) => {
        Function {
            name: $name,
            summary: $summary,
            family: "row by row",
            arguments: &[X, Y],
            options: &[],
            nulls: NullRule::WholeRows,
            gives: Gives::Numbers,
            work: |call| Ok(pairs::work(&*call.matrix(0)?, call.operand_bytes(1))),
            invoke: |call| {
                let (x, y) = (call.matrix(0)?, call.matrix(1)?);
                // A vector is one for all rows, and so is a list of one row; never by its length.
                let is_one = y.is_vector() || y.rows() == 1 && x.rows() != 1;
                let y = if is_one { Vectors::One(&y) } else { Vectors::Rows(&y) };
                Ok(Value::Vector($call(&*x, &y)?))
            },
        }
    };
}

pub(super) static TABLE: &[Function] = &[
    pairs!("dot", pairs::dot, "The dot product of each row with a row of y."),
    pairs!(
        "cosine_similarity",
        pairs::cosine_similarity,
        "The cosine of the angle between each row and a row of y; null for a zero vector."
    ),
    pairs!(
        "l2_distance",
        pairs::l2_distance,
        "The Euclidean distance of each row from a row of y."
    ),
    pairs!(
        "l1_distance",
        pairs::l1_distance,
        "The sum of the distances, element by element, of each row from a row of y."
    ),
];
