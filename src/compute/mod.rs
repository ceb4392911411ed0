//! What a user calls, in Arrow terms: one file per family, and the table of all functions.
//!
//! Each function checks types and shapes, asks for a plan, splits the work on boundaries that do
//! not change the answer, and joins values, counts and validity into arrays. Loops live in
//! `kernel`, layouts and nulls in `matrix`, threads in `dispatch`.

mod arithmetic;
mod by_rows;
mod covariance;
mod dense;
mod elementwise;
mod metric;
mod operand;
mod options;
mod pairs;
mod product;
mod reduce;
pub mod registry;
mod shape;
mod split;
mod table;
mod top_k;
mod transform;
mod value;

use std::fmt;

use arrow_schema::DataType;

pub use arithmetic::{
    abs, add, broadcast_add, clip, divide, maximum, minimum, multiply, negate, scale, sqrt, square,
    subtract,
};
pub use covariance::{correlation, covariance, gram};
pub use metric::Metric;
pub use operand::Operand;
#[cfg(feature = "python")]
pub(crate) use options::TYPES;
pub use options::{OptionKind, OptionSpec, OptionValue, Options};
pub use pairs::{Vectors, cosine_similarity, dot, l1_distance, l2_distance};
pub use product::{matmul, pairwise};
pub use reduce::{
    Order, ReduceOptions, argmax, argmin, count_valid, max, mean, mean_with, min, norm, std, sum,
    sum_with, var,
};
pub use registry::{Function, call_function, get_function, list_functions};
pub use shape::{cast, transpose};
pub use top_k::{TopK, top_k};
pub use transform::{center, minmax_scale, normalize, softmax, standardize};
pub use value::Value;

use crate::error::{Error, Result};
use crate::matrix::Matrix;

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

/// The element types that functions compute on.
pub(crate) const NUMBERS: &str = "elements of an integer or floating-point type";

/// Runs `$body` with `$T` standing for the type that elements of a matrix are computed in.
macro_rules! with_wide {
    ($function:expr, $element:expr, $T:ident => $body:expr) => {
        match $element {
            arrow_schema::DataType::Float16 | arrow_schema::DataType::Float32 => {
                type $T = f32;
                $body
            }
            arrow_schema::DataType::Float64 => {
                type $T = f64;
                $body
            }
            arrow_schema::DataType::UInt64 => {
                type $T = u64;
                $body
            }
            integer if integer.is_integer() => {
                type $T = i64;
                $body
            }
            other => Err(crate::error::Error::Type {
                function: $function,
                expected: crate::compute::NUMBERS,
                got: other.clone(),
            }),
        }
    };
}
pub(crate) use with_wide;

/// Runs `$body` with `$T` standing for the type in which functions that give floats compute:
/// float32 for float16 and float32, float64 for all others.
macro_rules! with_float {
    ($function:expr, $element:expr, $T:ident => $body:expr) => {
        match $element {
            arrow_schema::DataType::Float16 | arrow_schema::DataType::Float32 => {
                type $T = f32;
                $body
            }
            number if number.is_numeric() => {
                type $T = f64;
                $body
            }
            other => Err(crate::error::Error::Type {
                function: $function,
                expected: crate::compute::NUMBERS,
                got: other.clone(),
            }),
        }
    };
}
pub(crate) use with_float;

/// The type of means, norms, products and the like: that of the elements, or float64.
fn real_type(element: &DataType) -> &DataType {
    if element.is_floating() { element } else { &DataType::Float64 }
}

/// Refuses a `y` (called `what`) whose elements have another type than those of `x`.
fn same_type(function: &'static str, what: &'static str, x: &Matrix, y: &Matrix) -> Result<()> {
    if x.element_type() == y.element_type() {
        return Ok(());
    }
    let (expected, got) = (x.element_type().clone(), y.element_type().clone());
    Err(Error::Mixed { function, what, expected, got })
}
