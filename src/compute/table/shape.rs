//! Element types and shapes.

use super::{X, option, positional};
use crate::compute::arithmetic::Operation;
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Driver, Function, Gives, NullRule};

const TYPE: OptionSpec =
    positional("type", OptionKind::Type, "The element type to change to, or its name.");
const SAFE: OptionSpec = option(
    "safe",
    OptionKind::Flag(true),
    "Refuse what an integer type cannot hold; if False, integers wrap and floats are cut off.",
);

pub(super) static TABLE: &[Function] = &[
    Function {
        name: "cast",
        summary: "Changes the element type.",
        family: "shape",
        arguments: &[X],
        options: &[TYPE, SAFE],
        nulls: NullRule::Propagates,
        gives: Gives::Rows,
        by_name: &[],
        driver: Driver::Elementwise(Operation::Cast),
        axis: None,
    },
    Function {
        name: "transpose",
        summary: "Turns columns into rows.",
        family: "shape",
        arguments: &[X],
        options: &[],
        nulls: NullRule::Propagates,
        gives: Gives::Transposed,
        by_name: &[],
        driver: Driver::Transpose,
        axis: None,
    },
];
