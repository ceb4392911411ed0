//! The loops: slices in, slices out.
//!
//! Nothing here knows Arrow, validity, offsets, threads or which CPU it runs on. A kernel is
//! given dense tiles (the matrix room has already put the neutral value where a null was) and a
//! [`Simd`] token that stands for eight float64 lanes at some instruction set; plain loops are
//! left to the compiler, which vectorises them for the level the kernel is inlined into.

// Loops over lanes count: iterators over arrays are not always inlined into the SIMD context.
#![allow(clippy::needless_range_loop)]

mod affine;
mod arg;
mod arith;
mod both;
mod columns;
mod convert;
mod counts;
mod element;
mod exact;
mod exp;
mod extreme;
mod heap;
mod interleaved;
mod lanes;
mod pairs;
mod placed;
mod reducer;
mod rows;
mod sum;
mod terms;
mod width;

pub(crate) use affine::{Affine, Scaled, affine_all, affine_each};
pub(crate) use arg::{At, Place};
pub(crate) use arith::{
    Abs, Add, Binary, Clip, Divide, Divisor, Identity, Maximum, Minimum, Multiply, Negate, Sqrt,
    Square, Subtract, each, each_past_cache, each_scalar, each_scalar_past_cache, repeat_each,
};
pub(crate) use both::Both;
pub(crate) use convert::{Narrow, Stored, Wide, read, write};
pub(crate) use counts::count_columns;
pub(crate) use element::{Element, Integer, Real};
pub(crate) use exact::ExactSum;
pub(crate) use exp::exp_each;
pub(crate) use extreme::Extreme;
pub(crate) use heap::Best;
pub(crate) use interleaved::COLUMN_BLOCK;
pub(crate) use lanes::{Body, LANES, Portable, Simd, fold};
pub(crate) use pairs::{
    Distance, PairTerms, Product, ProductAndSquare, Products, Second, SquaredDistance, one_pair,
    row_pairs,
};
pub(crate) use reducer::{Many, One, Reducer, Tile, Tree};
pub(crate) use sum::Sums;
pub(crate) use terms::{Deviation, Guarded, Itself, Magnitude, Spread, Squared};
