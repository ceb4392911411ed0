//! Selection: the rows that are nearest to vectors.

use super::{ROWS, argument, option, positional};
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Argument, ArgumentKind, Driver, Function, Gives, NullRule};

const QUERY: Argument =
    argument("query", ArgumentKind::Queries, "One vector as wide as x, or a matrix of them.");
const K: OptionSpec =
    positional("k", OptionKind::Count(10), "How many rows to give for each vector.");
const METRIC: OptionSpec = option(
    "metric",
    OptionKind::Choice(&[
        "cosine",
        "dot",
        "l2",
        "l1",
        "ip",
        "euclidean",
        "cityblock",
        "sqeuclidean",
    ]),
    "cosine, dot (or ip): the largest first; l2 (euclidean), l1 (cityblock): the smallest first.",
);

pub(super) static TABLE: &[Function] = &[Function {
    name: "top_k",
    summary: "The rows nearest to a vector, or to each of several, and their scores.",
    family: "selection",
    arguments: &[ROWS, QUERY],
    options: &[K, METRIC],
    nulls: NullRule::DropsRows,
    gives: Gives::Named(&["indices", "scores"]),
    by_name: &[],
    driver: Driver::TopK,
    axis: None,
}];
