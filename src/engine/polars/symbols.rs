//! The names that polars looks for: two for each function, `_polars_plugin_raptors_normalize` and
//! `_polars_plugin_field_raptors_normalize`. A plan shows them, which is why each function has its own.

use arrow_array::ffi::FFI_ArrowSchema;

use super::series::SeriesExport;
use super::{CallerContext, call, field};

macro_rules! symbols {
    ($($name:literal)*) => {
        $(const _: () = {
            #[unsafe(export_name = concat!("_polars_plugin_raptors_", $name))]
            unsafe extern "C" fn called(
                inputs: *mut SeriesExport,
                count: usize,
                kwargs: *const u8,
                len: usize,
                out: *mut SeriesExport,
                _: CallerContext,
            ) {
                // SAFETY: polars keeps to its interface.
                unsafe { call($name, inputs, count, (kwargs, len), out) }
            }

            #[unsafe(export_name = concat!("_polars_plugin_field_raptors_", $name))]
            unsafe extern "C" fn planned(
                inputs: *const FFI_ArrowSchema,
                count: usize,
                out: *mut FFI_ArrowSchema,
                kwargs: *const u8,
                len: usize,
            ) {
                // SAFETY: polars keeps to its interface.
                unsafe { field($name, inputs, count, out, (kwargs, len)) }
            }
        };)*

        /// The functions that polars can call.
        pub(crate) const NAMES: &[&str] = &[$($name),*];
    };
}

symbols! {
    "sum" "mean" "min" "max" "count" "var" "std" "norm" "median" "quantile" "argmin" "argmax"
    "sum_axis0" "mean_axis0" "mean_axis1" "add" "subtract" "multiply" "divide" "minimum" "maximum"
    "broadcast_add" "scale" "negate" "abs" "square" "sqrt" "exp" "log" "power" "sign" "round"
    "cumsum" "clip" "where" "greater" "greater_equal" "less" "less_equal" "equal" "not_equal"
    "isnan" "is_null" "fill_null" "nan_to_null" "isfinite" "dot" "cosine_similarity" "l2_distance"
    "l1_distance" "normalize" "standardize" "center" "minmax_scale" "softmax" "matmul" "pairwise"
    "cast"
}
