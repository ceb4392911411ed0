//! Numeric kernels on Arrow columns of vectors, seen as matrices.
//!
//! A column of `FixedSizeList<float>` is a matrix: embeddings, feature rows, sensor windows. This
//! crate computes on it in place: [`Matrix`] is a view over Arrow buffers, [`compute`] has the
//! functions, and results are Arrow arrays again, with Arrow's nulls.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, FixedSizeListArray, cast::AsArray, types::Float32Type};
//! use raptors_arrow::{Matrix, compute::{self, Per}};
//!
//! let rows = [Some([Some(1.0), Some(2.0)]), None, Some([Some(3.0), Some(6.0)])];
//! let emb: ArrayRef =
//!     Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2));
//!
//! let mean = compute::mean(&Matrix::try_from(&emb)?, Per::Column)?;
//! assert_eq!(mean.as_primitive::<Float32Type>().values(), &[2.0, 4.0]);
//! # Ok::<(), raptors_arrow::Error>(())
//! ```
//!
//! The same input gives the same bits, whatever the threads, chunks, offsets and instruction set.

pub mod buffer;
pub mod compute;
pub mod dispatch;
#[cfg(any(feature = "datafusion", feature = "python", test))]
pub mod engine;
mod error;
pub mod expr;
#[cfg(any(feature = "python", test))]
mod ffi;
mod kernel;
mod matrix;
mod memory;
#[cfg(feature = "python")]
mod python;
mod type_name;

pub use error::{Error, Result};
pub use matrix::{Matrix, Ragged, Strides};
