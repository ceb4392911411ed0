//! Reductions: one number in all, per column or per row.

use super::{X, option, placed};
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Function, Gives, NullRule};
use crate::compute::{Per, reduce};

const AXIS: OptionSpec =
    placed("axis", OptionKind::Axis(None), "None: one result; 0: one per column; 1: one per row.");
const SKIP_NULLS: OptionSpec = option(
    "skip_nulls",
    OptionKind::Flag(true),
    "Skip nulls; if False, one null makes its result null.",
);
const MIN_COUNT: OptionSpec =
    option("min_count", OptionKind::Count(1), "Fewer valid values than this give null.");
const DDOF: OptionSpec = option(
    "ddof",
    OptionKind::Count(0),
    "What is taken from the count before it divides: 1 for the variance of a sample.",
);
const ORD: OptionSpec = option(
    "ord",
    OptionKind::Order,
    "2: the root of the sum of squares; 1: the sum of magnitudes; inf: the largest magnitude.",
);

const WITH_AXIS: &[OptionSpec] = &[AXIS, SKIP_NULLS, MIN_COUNT];
const FIXED_AXIS: &[OptionSpec] = &[SKIP_NULLS, MIN_COUNT];

/// A reduction of `x`; `$per` fixes its axis, and `$run` makes the array of results.
macro_rules! reduction {
    ($name:literal, $per:expr, $options:expr, $summary:literal, |$x:ident, $at:ident, $call:ident| $run:expr) => {
        Function {
            name: $name,
            summary: $summary,
            family: "reductions",
            arguments: &[X],
            options: $options,
            nulls: NullRule::Skips,
            gives: Gives::Reduced,
            work: |call| Ok(reduce::work(&*call.matrix(0)?, call.per($per))),
            invoke: |$call| {
                let held = $call.matrix(0)?;
                let ($x, $at) = (&*held, $call.per($per));
                $call.reduced($at, $run?)
            },
        }
    };
}

pub(super) static TABLE: &[Function] = &[
    reduction!("sum", None, WITH_AXIS, "Adds up the elements.", |x, per, call| {
        reduce::sum_with(x, per, &call.options.reduce())
    }),
    reduction!("mean", None, WITH_AXIS, "The mean of the elements.", |x, per, call| {
        reduce::mean_with(x, per, &call.options.reduce())
    }),
    reduction!("min", None, WITH_AXIS, "The least element.", |x, per, call| {
        reduce::min(x, per, &call.options.reduce())
    }),
    reduction!("max", None, WITH_AXIS, "The greatest element.", |x, per, call| {
        reduce::max(x, per, &call.options.reduce())
    }),
    reduction!("count", None, &[AXIS], "How many elements are not null.", |x, per, call| {
        reduce::count_valid(x, per)
    }),
    reduction!(
        "var",
        None,
        &[AXIS, DDOF, SKIP_NULLS, MIN_COUNT],
        "The variance of the elements.",
        |x, per, call| reduce::var(x, per, call.options.count("ddof"), &call.options.reduce())
    ),
    reduction!(
        "std",
        None,
        &[AXIS, DDOF, SKIP_NULLS, MIN_COUNT],
        "The standard deviation of the elements.",
        |x, per, call| reduce::std(x, per, call.options.count("ddof"), &call.options.reduce())
    ),
    reduction!(
        "norm",
        None,
        &[AXIS, ORD, SKIP_NULLS, MIN_COUNT],
        "The norm of the elements.",
        |x, per, call| reduce::norm(x, per, call.options.order(), &call.options.reduce())
    ),
    reduction!(
        "argmin",
        None,
        WITH_AXIS,
        "Where the least element is: the first of several, the first NaN if there is one.",
        |x, per, call| reduce::argmin(x, per, &call.options.reduce())
    ),
    reduction!(
        "argmax",
        None,
        WITH_AXIS,
        "Where the greatest element is: the first of several, the first NaN if there is one.",
        |x, per, call| reduce::argmax(x, per, &call.options.reduce())
    ),
    reduction!(
        "sum_axis0",
        Some(Per::Column),
        FIXED_AXIS,
        "Adds up each column: sum with axis=0.",
        |x, per, call| reduce::sum_with(x, per, &call.options.reduce())
    ),
    reduction!(
        "mean_axis0",
        Some(Per::Column),
        FIXED_AXIS,
        "The mean of each column: mean with axis=0.",
        |x, per, call| reduce::mean_with(x, per, &call.options.reduce())
    ),
    reduction!(
        "mean_axis1",
        Some(Per::Row),
        FIXED_AXIS,
        "The mean of each row: mean with axis=1.",
        |x, per, call| reduce::mean_with(x, per, &call.options.reduce())
    ),
];
