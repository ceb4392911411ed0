//! Element types and shapes.

use super::{X, option, placed};
use crate::compute::options::{OptionKind, OptionSpec};
use crate::compute::registry::{Function, Gives, NullRule};
use crate::compute::shape;
use crate::compute::value::Value;

const TYPE: OptionSpec =
    placed("type", OptionKind::Type, "The element type to change to, or its name.");
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
        work: |call| Ok(shape::work(&*call.matrix(0)?)),
        invoke: |call| {
            let to = call.options.element_type("type");
            Ok(Value::Matrix(shape::cast(&*call.matrix(0)?, &to, call.options.flag("safe"))?))
        },
    },
    Function {
        name: "transpose",
        summary: "Turns columns into rows.",
        family: "shape",
        arguments: &[X],
        options: &[],
        nulls: NullRule::Propagates,
        gives: Gives::Matrix,
        work: |call| Ok(shape::work(&*call.matrix(0)?)),
        invoke: |call| Ok(Value::Matrix(shape::transpose(&*call.matrix(0)?)?)),
    },
];
