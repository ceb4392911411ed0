//! The entries of all functions, one file per family.

mod arithmetic;
mod comparison;
mod matrix;
mod pairs;
mod reductions;
mod selection;
mod shape;
mod transforms;

use super::options::{OptionKind, OptionSpec};
use super::registry::{Argument, ArgumentKind, Function};

/// The tables of the families. A new function is one entry in one of them.
pub(super) static FAMILIES: &[&[Function]] = &[
    reductions::TABLE,
    arithmetic::TABLE,
    comparison::TABLE,
    pairs::TABLE,
    transforms::TABLE,
    matrix::TABLE,
    selection::TABLE,
    shape::TABLE,
];

/// The first argument of a function of elements or columns.
const X: Argument = argument("x", ArgumentKind::Matrix, "The matrix.");
/// The first argument of a function of rows.
const ROWS: Argument = argument("x", ArgumentKind::Rows, "The matrix, whose rows are vectors.");

/// The type that is computed in.
const DTYPE: OptionSpec = option(
    "dtype",
    OptionKind::OptionalType,
    "The type that x is seen in, as if it had been cast: one that holds all its numbers.",
);

const fn argument(name: &'static str, kind: ArgumentKind, doc: &'static str) -> Argument {
    Argument { name, kind, doc, optional: false }
}

const fn option(name: &'static str, kind: OptionKind, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind, doc, positional: false }
}

/// An option that Python takes positionally too.
const fn positional(name: &'static str, kind: OptionKind, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind, doc, positional: true }
}
