//! Matrices: products, and how rows and columns lie to each other.

use super::{X, argument, option};
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::pairs::{self, Vectors};
use crate::compute::registry::{Argument, ArgumentKind, Function, Gives, NullRule};
use crate::compute::value::Value;
use crate::compute::{Metric, covariance, product};

const FACTOR: Argument = argument(
    "y",
    ArgumentKind::Matrix,
    "A matrix with as many rows as x has columns, or one vector of that length.",
);
const OTHER: Argument = Argument {
    name: "y",
    kind: ArgumentKind::Matrix,
    doc: "A matrix as wide as x; x itself if it is left out.",
    optional: true,
};

const METRIC: OptionSpec = option(
    "metric",
    OptionKind::Choice(&["dot", "cosine", "l2", "l1"]),
    "dot, cosine: the larger, the nearer; l2, l1: distances.",
);
const DDOF: OptionSpec = option(
    "ddof",
    OptionKind::Count(1),
    "What is taken from the count before it divides: 1 for the covariance of a sample.",
);

/// A function of the columns of one matrix.
macro_rules! of_columns {
    ($name:literal, $options:expr, $summary:literal, |$x:ident, $call:ident| $run:expr) => {
        Function {
            name: $name,
            summary: $summary,
            family: "matrix",
            arguments: &[X],
            options: $options,
            nulls: NullRule::DropsRows,
            gives: Gives::Matrix,
            work: |call| Ok(covariance::work(&*call.matrix(0)?)),
            invoke: |$call| {
                let held = $call.matrix(0)?;
                let $x = &*held;
                Ok(Value::Matrix($run?))
            },
        }
    };
}

pub(super) static TABLE: &[Function] = &[
    Function {
        name: "matmul",
        summary: "The product of two matrices, or of a matrix and a vector.",
        family: "matrix",
        arguments: &[X, FACTOR],
        options: &[],
        nulls: NullRule::WholeRows,
        gives: Gives::Rows,
        work: |call| {
            let (x, y) = (call.matrix(0)?, call.matrix(1)?);
            Ok(if y.is_vector() {
                pairs::work(&x, 0)
            } else {
                product::work(&x, y.width(), y.bytes())
            })
        },
        invoke: |call| {
            let (x, y) = (call.matrix(0)?, call.matrix(1)?);
            if y.is_vector() {
                let dots = pairs::dot(&x, &Vectors::One(&y));
                return Ok(Value::Vector(dots.map_err(|error| error.in_function("matmul"))?));
            }
            Ok(Value::Matrix(product::matmul(&x, &y)?))
        },
    },
    Function {
        name: "pairwise",
        summary: "How near each row is to each row of another matrix.",
        family: "matrix",
        arguments: &[X, OTHER],
        options: &[METRIC],
        nulls: NullRule::WholeRows,
        gives: Gives::Rows,
        work: |call| {
            let (x, y) = (call.matrix(0)?, call.optional_matrix(1)?);
            let y = y.as_deref().unwrap_or(&x);
            Ok(product::work(&x, y.rows(), y.bytes()))
        },
        invoke: |call| {
            let (x, y) = (call.matrix(0)?, call.optional_matrix(1)?);
            let metric = Metric::named(&call.options.choice("metric")).unwrap_or(Metric::Dot);
            Ok(Value::Matrix(product::pairwise(&x, y.as_deref(), metric)?))
        },
    },
    of_columns!(
        "gram",
        &[],
        "The products of every two columns: the transpose of x times x.",
        |x, call| covariance::gram(x)
    ),
    of_columns!("covariance", &[DDOF], "The covariance of every two columns.", |x, call| {
        covariance::covariance(x, call.options.count("ddof"))
    }),
    of_columns!("correlation", &[], "The correlation of every two columns.", |x, call| {
        covariance::correlation(x)
    }),
];
