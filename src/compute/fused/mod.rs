//! Chains of calls in one pass over tiles, without temporaries.
//!
//! ```text
//! for each task of some rows, on the threads of the plan:
//!     for each tile of whole rows, as x stores them:             lent in place
//!         visit(root, tile)
//! visit(node, tile):
//!     each sink at the node takes the tile                       result column, statistic, scores
//!     for each step that follows: visit(it, step(tile))          in one of a few buffers in L1
//! ```
//!
//! A tile holds elements as they would be stored between two calls: a step reads them in the type
//! that its function computes in, runs the function's own kernel, and stores what it makes. So what
//! a chain gives has the bits of the same functions called one after the other. Statistics of
//! columns or of all are fed tile by tile, and joined at multiples of 1024 rows, as those of a
//! stream are (see [`super::state`]).
//!
//! Which rows and elements are null is known before the pass, from the nulls of the operands; but
//! for rows that a step finds nothing to give for (the unit vector of zeros), which a tile carries
//! along.
//!
//! A result that does not fit its type ends the pass: the caller runs the functions one after the
//! other, which say what went wrong, and where.

mod block;
mod chained;
mod graph;
mod pairs;
mod pass;
mod statistic;
mod step;
mod whole;

use std::any::Any;
use std::ops::Range;

use arrow_schema::DataType;

pub(super) use block::{Nulls, RowTile};
pub(crate) use graph::{Link, with_chain};
pub(super) use pairs::ScoreSink;
use pass::Fused;
pub(super) use statistic::statistic_sink;
pub(super) use step::{AsStep, block_step};

use super::Value;
use crate::dispatch::{Level, Store};
use crate::error::Result;
use crate::kernel::Operation;

/// What a call does to tiles.
pub(super) enum Stage<'a> {
    /// Makes another tile of as many rows and columns.
    Step(Stepped<'a>),
    /// Makes a result.
    Sink(Box<dyn Sink + 'a>),
}

/// A step, and what is known of its results.
pub(super) struct Stepped<'a> {
    pub(super) step: Box<dyn Step + 'a>,
    /// The type that results are stored in.
    pub(super) to: DataType,
    /// Which of them are null.
    pub(super) nulls: Nulls,
    /// Whether a row with a null becomes a null row.
    pub(super) whole_rows: bool,
}

/// Makes a tile of a tile.
pub(super) trait Step: Sync {
    /// Memory that a thread keeps for it.
    fn workspace(&self) -> Box<dyn Any>;
    /// Writes the results of a tile, as they are stored, and says which further rows have none.
    /// Whether a result does not fit.
    fn run(
        &self,
        level: Level,
        tile: &RowTile<'_>,
        workspace: &mut dyn Any,
        out: &mut [u8],
        missing: &mut Vec<bool>,
    ) -> bool;
    /// Writes the sums of the rows of its results, in the order of [`crate::kernel::Sums`], and
    /// nothing else; `false` if it cannot.
    fn row_sums(&self, _: Level, _: &RowTile<'_>, _: &mut dyn Any, _: &mut Vec<f64>) -> bool {
        false
    }
    /// The same as an operation on registers of elements as they are stored, if there is one.
    fn operation(&self) -> Option<Operation> {
        None
    }
    /// What that operation takes beside a tile.
    fn operand<'w>(&'w self, _: &RowTile<'_>, _: &'w mut dyn Any) -> Beside<'w> {
        Beside::Nothing
    }
}

/// The operand of a step, for one tile, as it is stored.
#[derive(Clone, Copy)]
pub(super) enum Beside<'w> {
    Nothing,
    /// One number, exact in float64.
    One(f64),
    /// One for each column.
    Columns(&'w [u8]),
    /// One for each row of the tile.
    Rows(&'w [u8]),
    /// One for each element of the tile.
    Each(&'w [u8]),
}

/// Makes a result of tiles.
pub(super) trait Sink {
    /// Bytes that it writes.
    fn bytes(&self) -> usize;
    /// Whether tasks must begin at multiples of [`LEAF_ROWS`], and tiles should have some rows.
    fn is_by_columns(&self) -> bool;
    /// One part for each task, which takes some rows, and how it stores what it writes.
    fn split(&mut self, tasks: &[Range<usize>], store: Store) -> Result<SinkParts<'_>>;
    /// The result; `None` if it does not fit.
    fn finish(self: Box<Self>) -> Result<Option<Value>>;
}

/// What a sink does in each task.
pub(super) type SinkParts<'s> = Vec<Box<dyn SinkPart + 's>>;

/// What a sink does in one task.
pub(super) trait SinkPart: Send {
    /// Takes the next rows. Whether a result does not fit.
    fn take(&mut self, level: Level, tile: &RowTile<'_>) -> bool;
    /// Whether the sums of rows are all that it needs of a tile.
    fn takes_row_sums(&self) -> bool {
        false
    }
    /// Takes the next rows, from row `first` on, by their sums. Whether a result does not fit.
    fn take_row_sums(&mut self, _level: Level, _first: usize, _sums: &[f64]) -> bool {
        true
    }
    /// Hands over what was made of all of them.
    fn end(self: Box<Self>) {}
}

/// Rows at whose multiples states of columns, and of everything, may be joined.
const LEAF_ROWS: usize = 1024;
