//! What a user calls, in Arrow terms: one file per family, and the table of all functions.
//!
//! Each function checks types and shapes, asks for a plan, splits the work on boundaries that do
//! not change the answer, and joins values, counts and validity into arrays. Loops live in
//! `kernel`, layouts and nulls in `matrix`, threads in `dispatch`.

mod arithmetic;
mod operand;
mod options;
mod reduce;
pub mod registry;
mod value;

use std::fmt;

pub use arithmetic::{add, broadcast_add, divide, multiply, scale, subtract};
pub use operand::Operand;
pub use options::{OptionKind, OptionSpec, OptionValue, Options};
pub use reduce::{ReduceOptions, mean, mean_with, sum, sum_with};
pub use registry::{Function, call_function, get_function, list_functions};
pub use value::Value;

/// What one result of a reduction is made from. NumPy's `axis` beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Per {
    /// One result for everything: `axis=None`.
    Matrix,
    /// One result per column: `axis=0`.
    Column,
    /// One result per row: `axis=1`.
    Row,
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Matrix => "matrix",
            Self::Column => "column",
            Self::Row => "row",
        })
    }
}

/// The element types that a function computes on now.
pub(crate) const FLOATS: &str = "elements of float32 or float64";

/// Runs `$body` with `$T` standing for the element type of a matrix.
macro_rules! with_float {
    ($function:expr, $element:expr, $T:ident => $body:expr) => {
        match $element {
            arrow_schema::DataType::Float32 => {
                type $T = f32;
                $body
            }
            arrow_schema::DataType::Float64 => {
                type $T = f64;
                $body
            }
            other => Err(crate::error::Error::Type {
                function: $function,
                expected: crate::compute::FLOATS,
                got: other.clone(),
            }),
        }
    };
}
pub(crate) use with_float;
