//! Selection: the rows that are nearest to vectors.

use super::{X, argument, option, placed};
use crate::compute::Metric;
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Argument, ArgumentKind, Function, Gives, NullRule};
use crate::compute::top_k::{self, TopK};
use crate::compute::value::Value;

const QUERY: Argument =
    argument("query", ArgumentKind::Queries, "One vector as wide as x, or a matrix of them.");
const K: OptionSpec = placed("k", OptionKind::Count(10), "How many rows to give for each vector.");
const METRIC: OptionSpec = option(
    "metric",
    OptionKind::Choice(&["cosine", "dot", "l2", "l1"]),
    "cosine, dot: the largest first; l2, l1: the smallest distance first.",
);

pub(super) static TABLE: &[Function] = &[Function {
    name: "top_k",
    summary: "The rows nearest to a vector, or to each of several, and their scores.",
    family: "selection",
    arguments: &[X, QUERY],
    options: &[K, METRIC],
    nulls: NullRule::DropsRows,
    gives: Gives::Named(&["indices", "scores"]),
    work: |call| {
        let (x, query) = (call.matrix(0)?, call.matrix(1)?);
        let count = if query.is_vector() { 1 } else { query.rows() };
        Ok(top_k::work(&x, count, call.options.count("k"), query.bytes()))
    },
    invoke: |call| {
        let (x, query) = (call.matrix(0)?, call.matrix(1)?);
        let metric = Metric::named(&call.options.choice("metric")).unwrap_or(Metric::Cosine);
        let TopK { indices, scores } = top_k::top_k(&x, &query, call.options.count("k"), metric)?;
        Ok(Value::Named(vec![
            ("indices", Value::try_from(&indices)?),
            ("scores", Value::try_from(&scores)?),
        ]))
    },
}];
