//! Matrices: products, and how rows and columns lie to each other.

use super::{ROWS, X, argument, option};
use crate::compute::covariance::OfColumns;
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::product::Product;
use crate::compute::registry::{Argument, ArgumentKind, Driver, Function, Gives, NullRule};

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
    OptionKind::Choice(&[
        "dot",
        "cosine",
        "l2",
        "l1",
        "ip",
        "euclidean",
        "cityblock",
        "sqeuclidean",
    ]),
    "dot (or ip), cosine: the larger, the nearer; l2 (euclidean), l1 (cityblock), sqeuclidean: distances.",
);
const DDOF: OptionSpec = option(
    "ddof",
    OptionKind::Count(1),
    "What is taken from the count before it divides: 1 for the covariance of a sample.",
);

/// A function of the columns of one matrix.
const fn of_columns(
    name: &'static str,
    kind: OfColumns,
    options: &'static [OptionSpec],
    summary: &'static str,
) -> Function {
    Function {
        name,
        summary,
        family: "matrix",
        arguments: &[X],
        options,
        nulls: NullRule::DropsRows,
        gives: Gives::Square,
        by_name: &[],
        driver: Driver::Columns(kind),
        axis: None,
    }
}

const fn product(
    name: &'static str,
    product: Product,
    arguments: &'static [Argument],
    options: &'static [OptionSpec],
    summary: &'static str,
) -> Function {
    Function {
        name,
        summary,
        family: "matrix",
        arguments,
        options,
        nulls: NullRule::WholeRows,
        gives: Gives::Rows,
        by_name: &[],
        driver: Driver::Product(product),
        axis: None,
    }
}

pub(super) static TABLE: &[Function] = &[
    product(
        "matmul",
        Product::Matmul,
        &[ROWS, FACTOR],
        &[],
        "The product of two matrices, or of a matrix and a vector.",
    ),
    product(
        "pairwise",
        Product::Pairwise,
        &[ROWS, OTHER],
        &[METRIC],
        "How near each row is to each row of another matrix.",
    ),
    of_columns(
        "gram",
        OfColumns::Gram,
        &[],
        "The products of every two columns: the transpose of x times x.",
    ),
    of_columns(
        "covariance",
        OfColumns::Covariance,
        &[DDOF],
        "The covariance of every two columns.",
    ),
    of_columns("correlation", OfColumns::Correlation, &[], "The correlation of every two columns."),
];
