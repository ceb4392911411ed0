//! Reductions: one number in all, per column or per row.

use super::{DTYPE, X, option, positional};
use crate::compute::Interpolation;
use crate::compute::Per;
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::reduce::Statistic;
use crate::compute::registry::{Argument, ArgumentKind, Driver, Function, Gives, NullRule};

const AXIS: OptionSpec = positional(
    "axis",
    OptionKind::Axis(None),
    "None: one result; 0: one per column; 1: one per row.",
);
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

const Q: OptionSpec = positional(
    "q",
    OptionKind::Fraction,
    "Which: 0 is the smallest element, 0.5 the median, 1 the largest.",
);
const INTERPOLATION: OptionSpec = option(
    "interpolation",
    OptionKind::Choice(Interpolation::NAMES),
    "What is given between two elements: linear as NumPy, one of them, their mean or the nearest.",
);

const KEEPDIMS: OptionSpec = option(
    "keepdims",
    OptionKind::Flag(false),
    "Keep the dimensions of x: one row for axis 0, rows of one element for 1, both for None.",
);

const WEIGHTS: Argument = Argument {
    name: "weights",
    kind: ArgumentKind::Weights,
    doc: "What each element counts for: one number per row with axis=0, per column with axis=1, or \
          a matrix of one per element. A null weight leaves out what it is of; var and std take \
          none below 0; where they add up to 0 (or no more than ddof) mean, var and std are null.",
    optional: true,
};

const WITH_AXIS: &[OptionSpec] = &[AXIS, SKIP_NULLS, MIN_COUNT, KEEPDIMS];
const WITH_DTYPE: &[OptionSpec] = &[AXIS, SKIP_NULLS, MIN_COUNT, KEEPDIMS, DTYPE];
const WITH_DDOF: &[OptionSpec] = &[AXIS, DDOF, SKIP_NULLS, MIN_COUNT, KEEPDIMS, DTYPE];
const WITH_ORD: &[OptionSpec] = &[AXIS, ORD, SKIP_NULLS, MIN_COUNT, KEEPDIMS, DTYPE];
const FIXED_AXIS: &[OptionSpec] = &[SKIP_NULLS, MIN_COUNT];

const fn reduction(
    name: &'static str,
    statistic: Statistic,
    options: &'static [OptionSpec],
    summary: &'static str,
) -> Function {
    Function {
        name,
        summary,
        family: "reductions",
        arguments: &[X],
        options,
        nulls: NullRule::Skips,
        gives: Gives::Reduced,
        by_name: &[],
        driver: Driver::Statistic(statistic),
        axis: None,
    }
}

/// The same of elements that may have weights.
const fn weighed(function: Function) -> Function {
    Function { by_name: &[WEIGHTS], ..function }
}

/// An element by its index in sorted order.
const fn ordered(
    name: &'static str,
    options: &'static [OptionSpec],
    summary: &'static str,
) -> Function {
    let driver = Driver::Quantile;
    Function { driver, ..reduction(name, Statistic::Min, options, summary) }
}

/// The same along one axis.
const fn along(
    axis: Per,
    name: &'static str,
    statistic: Statistic,
    summary: &'static str,
) -> Function {
    Function { axis: Some(axis), ..reduction(name, statistic, FIXED_AXIS, summary) }
}

pub(super) static TABLE: &[Function] = &[
    weighed(reduction("sum", Statistic::Sum, WITH_DTYPE, "Adds up the elements.")),
    weighed(reduction("mean", Statistic::Mean, WITH_DTYPE, "The mean of the elements.")),
    reduction("min", Statistic::Min, WITH_AXIS, "The smallest element."),
    reduction("max", Statistic::Max, WITH_AXIS, "The largest element."),
    reduction("count", Statistic::Count, &[AXIS, KEEPDIMS], "How many elements are not null."),
    weighed(reduction("var", Statistic::Var, WITH_DDOF, "The variance of the elements.")),
    weighed(reduction("std", Statistic::Std, WITH_DDOF, "The standard deviation of the elements.")),
    reduction("norm", Statistic::Norm, WITH_ORD, "The norm of the elements."),
    ordered(
        "median",
        WITH_AXIS,
        "The middle element in the order of all, or the mean of the two middle ones.",
    ),
    ordered(
        "quantile",
        &[Q, AXIS, INTERPOLATION, SKIP_NULLS, MIN_COUNT, KEEPDIMS],
        "The element, or what lies between two, at a fraction of the order of all.",
    ),
    reduction(
        "argmin",
        Statistic::ArgMin,
        WITH_AXIS,
        "Where the smallest element is: the first of several, the first NaN if there is one.",
    ),
    reduction(
        "argmax",
        Statistic::ArgMax,
        WITH_AXIS,
        "Where the largest element is: the first of several, the first NaN if there is one.",
    ),
    along(Per::Column, "sum_axis0", Statistic::Sum, "Adds up each column: sum with axis=0."),
    along(Per::Column, "mean_axis0", Statistic::Mean, "The mean of each column: mean with axis=0."),
    along(Per::Row, "mean_axis1", Statistic::Mean, "The mean of each row: mean with axis=1."),
];
