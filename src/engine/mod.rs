//! Inside of query engines: an engine splits, moves and schedules rows; the functions of the table
//! compute on its batches.

#[cfg(feature = "datafusion")]
pub mod datafusion;
#[cfg(any(feature = "python", test))]
pub(crate) mod polars;
mod types;
