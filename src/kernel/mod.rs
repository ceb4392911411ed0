//! The loops: slices in, slices out.
//!
//! Nothing here knows Arrow, validity, offsets, threads or which CPU it runs on. A kernel is
//! given dense tiles (the matrix room has already put the neutral value where a null was) and a
//! [`Simd`] token that stands for eight float64 lanes at some instruction set; plain loops are
//! left to the compiler, which vectorises them for the level the kernel is inlined into.

mod arith;
mod counts;
mod element;
mod lanes;
mod rows;
mod sum;

pub(crate) use arith::{Add, Binary, Divide, Multiply, Subtract, each, each_scalar, repeat_each};
pub(crate) use counts::count_columns;
pub(crate) use element::Element;
pub(crate) use lanes::{Body, LANES, Portable, Simd, fold};
pub(crate) use rows::row_sums;
pub(crate) use sum::{COLUMN_BLOCK, Interleaved, LEAF, Sequence, Tree};
