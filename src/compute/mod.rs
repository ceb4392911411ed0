//! What a user calls, in Arrow terms. The way of a call, from Arrow array to Arrow array:
//!
//! ```text
//!   ArrayRef, RecordBatch, chunks         any layout of numbers                       arrow
//!      │  Matrix::try_from
//!      ▼
//!   Matrix                                rows × width, a view: no copy               matrix
//!      │  sum(&x, per) · call_function("sum", [x], options)
//!      ▼
//!   Function                              an entry of the table: data                 table/
//!      │  bind: arguments counted, options checked                                    call
//!      ▼
//!   Driven                                x, operands, options of one driver          reduce, arithmetic,
//!      │  works: the passes it takes, and the bytes that each moves                   transform, …
//!      ▼
//!   Prepared { passes: [Pass { work, plan }] }   explain prints it                    dispatch::plan
//!      │  run
//!      ▼
//!   tasks on threads, tiles in L1         boundaries that do not change the answer    dispatch::run,
//!      │  Level::run                                                                  matrix::view
//!      ▼
//!   loops over slices                     compiled for an instruction set             kernel
//!      │
//!      ▼
//!   Like::finish, array_of                values and validity of the caller's type    matrix::result
//!      │  Matrix::to_arrays
//!      ▼
//!   ArrayRef                              of the type that came in                    arrow
//! ```
//!
//! One driver for each way of running: `reduce` (split by `reduction`), `elementwise`,
//! `pairs`, `transform` (by blocks of rows, `by_rows`), `product`, `covariance`, `top_k` and
//! `transpose`. They hold no loops, no layouts and no threads.

mod accumulate;
mod arithmetic;
mod bounds;
mod by_rows;
mod call;
mod choice;

mod comparison;
mod conditional;
mod contiguous;
mod covariance;
mod cumulative;
mod elementary;
mod elementwise;
mod few_rows;
mod function_accumulator;
mod fused;
mod group_rows;
mod group_states;
mod groups;
mod keys;
mod measured;
mod metric;
mod operand;
mod options;
mod pairs;
mod product;
mod quantile;
mod ragged;
mod reduce;
mod reduction;
pub mod registry;
mod result_type;
mod state;
mod state_array;
mod statistic;
mod table;
mod top_k;
mod transform;
mod transpose;
mod value;
mod weights;

use std::fmt;

use arrow_schema::DataType;

pub use accumulate::Accumulator;
pub use arithmetic::{
    Operation, abs, add, broadcast_add, cast, clip, divide, maximum, minimum, multiply, negate,
    scale, sqrt, square, subtract,
};
pub use call::Pass;
pub use choice::{Choice, fill_null, is_null, nan_to_null};
pub use comparison::{equal, greater, greater_equal, isfinite, isnan, less, less_equal, not_equal};
pub use conditional::r#where;
pub use covariance::{ColumnsAccumulator, OfColumns, correlation, covariance, gram};
pub use cumulative::cumsum;
pub use elementary::{exp, log, power, round, sign};
pub use function_accumulator::FunctionAccumulator;
pub(crate) use fused::{Link, with_chain};
pub use group_rows::{reduce_groups, reduce_groups_weighted, reduce_lists, reduce_lists_weighted};
pub use groups::GroupStatistic;
pub use keys::{Groups, Members};
pub use metric::Metric;
pub use operand::Operand;
#[cfg(any(feature = "datafusion", feature = "python"))]
pub(crate) use options::TYPES;
#[cfg(any(feature = "python", test))]
pub(crate) use options::element_type;
pub use options::{OptionKind, OptionSpec, OptionValue, Options};
pub use pairs::{Vectors, cosine_similarity, dot, l1_distance, l2_distance};
pub use product::{Product, matmul, pairwise};
pub use quantile::{Interpolation, median, quantile};
pub use reduce::{
    Order, ReduceOptions, Statistic, argmax, argmin, count, max, mean, min, norm, reduce,
    reduce_weighted, std, sum, var,
};
pub use registry::{Driver, Function, call_function, get_function, list_functions};
pub use result_type::{ArgumentType, ResultKind, ResultType, Shape};
pub use top_k::{TopK, TopKAccumulator, top_k};
pub use transform::{
    Fit, Fitted, Transform, center, minmax_scale, normalize, softmax, standardize,
};
pub use transpose::transpose;
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

/// The element types that functions compute on.
pub(crate) const NUMBERS: &str = "elements of an integer or floating-point type";

/// Whether it is a type of numbers that functions compute on, or of yes and no, which count as 1 and
/// 0.
#[cfg(any(feature = "datafusion", feature = "python", test))]
pub(crate) fn is_number(data_type: &DataType) -> bool {
    use DataType::{Boolean, Float16, Float32, Float64};
    data_type.is_integer() || matches!(data_type, Float16 | Float32 | Float64 | Boolean)
}

/// Runs `$body` with `$T` standing for the type that elements of a matrix are computed in.
macro_rules! with_wide {
    ($element:expr, $T:ident => $body:expr) => {
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
                expected: crate::compute::NUMBERS,
                got: other.clone(),
            }),
        }
    };
}
pub(crate) use with_wide;

/// The same, but for narrow integers, of which `$T` is their own type.
macro_rules! with_own_width {
    ($element:expr, $T:ident => $body:expr) => {
        crate::compute::with_own_width!(@narrow $element, $T => $body;
            Int8 i8, Int16 i16, Int32 i32, UInt8 u8, UInt16 u16, UInt32 u32)
    };
    (@narrow $element:expr, $T:ident => $body:expr; $($variant:ident $t:ty),+) => {
        match $element {
            $(arrow_schema::DataType::$variant => {
                type $T = $t;
                $body
            })+
            wide => crate::compute::with_wide!(wide, $T => $body),
        }
    };
}
pub(crate) use with_own_width;

/// Runs `$body` with `$T` standing for the type in which functions that give floats compute:
/// float32 for float16 and float32, float64 for all others.
macro_rules! with_float {
    ($element:expr, $T:ident => $body:expr) => {
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
