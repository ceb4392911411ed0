//! The loops: slices in, slices out.
//!
//! Nothing here knows Arrow, validity, offsets, threads or which CPU it runs on. A kernel is
//! given dense tiles (the matrix module has already put the neutral value where a null was) and a
//! [`Simd`] token that stands for eight float64 lanes at some instruction set; plain loops are
//! left to the compiler, which vectorises them for the level the kernel is inlined into.

// Loops over lanes count: iterators over arrays are not always inlined into the SIMD context.
#![allow(clippy::needless_range_loop)]

mod affine;
mod arg;
mod arg_columns;
mod arith;
mod both;
mod chain;
mod convert;
mod counts;
mod cumulate;
mod double;
mod element;
mod exact;
mod exp;
mod extreme;
mod extreme_columns;
mod gather;
mod heap;
mod lanes;
mod leaf;
mod log;
mod mask;
mod mean;
mod pairs;
mod pow;
mod power;
mod reducer;
mod scale;
mod select;
mod sum;
mod sum_columns;
mod sum_rows;
mod terms;
mod weighted;
mod width;
mod words;

pub(crate) use affine::{
    Affine, Scaled, affine_all, affine_each, affine_each_with_rests, affine_rescaled,
};
pub(crate) use arg::{ArgExtreme, Indexed};
pub(crate) use arith::{
    Abs, Add, AtLeast, AtMost, Binary, Clip, Divide, Divisor, Equal, Exp, Greater, GreaterEqual,
    Identity, IsFinite, IsNan, Less, LessEqual, Log, Maximum, Minimum, Multiply, Negate, NotEqual,
    Power, Reversed, Round, RoundDecimals, Sign, Sqrt, Square, Subtract, each, each_scalar,
    each_scalar_streaming, each_streaming, repeat_each,
};
pub(crate) use both::Both;
pub(crate) use chain::{Link, Operation, Registers, With, chain, chain_sum};
pub(crate) use convert::{Flag, Narrow, Stored, Wide, read, write};
pub(crate) use counts::{Counts, count_columns, count_rows};
pub(crate) use cumulate::{Accumulate, running, running_columns};
pub(crate) use element::{Element, Integer, Real};
pub(crate) use exact::ExactSum;
pub(crate) use exp::exp_each;
pub(crate) use extreme::Extreme;
pub(crate) use gather::GatherRows;
pub(crate) use heap::Best;
pub(crate) use lanes::{Body, LANES, Portable, Simd, fold};
pub(crate) use mask::{and_rows, copy_valid, fill_invalid, pack, spread};
pub(crate) use mean::Mean;
pub(crate) use pairs::{
    Distance, PairTerms, Product, ProductAndSquare, Products, Second, SquaredDistance, one_pair,
    row_pairs,
};
pub(crate) use power::{exponent_of, power_of_two, times_power};
pub(crate) use reducer::{Many, One, Reducer, Tile, Tree, join_nodes, no_elements};
pub(crate) use scale::{Nodes, Partial, Scale};
pub(crate) use select::select;
pub(crate) use sum::Sums;
pub(crate) use sum_columns::COLUMN_BLOCK;
pub(crate) use terms::{Deviation, Itself, Magnitude, Spread, Squared, is_safe_root};
pub(crate) use weighted::{Weighed, WeighedDeviation, WeighedSums, WeighedTotal};
pub(crate) use words::{WORDS, Word, Words};
