//! Inside of query engines: an engine splits, moves and schedules rows; the functions of the table
//! compute on its batches.

pub(crate) mod polars;
