//! Sums whose scale follows the data, so that one pass is always safe.
//!
//! A float64 sum can overflow on the way to a result that is a number, and squares can vanish. So a
//! node says by which power of two its elements were multiplied:
//!
//! ```text
//! Up     2^600    only tiny numbers so far: their squares would vanish
//! Plain  1        ordinary data: the same additions as without any of this
//! Down   2^-600   a sum, or a square, overflowed
//!
//! leaf:  add plainly; only if that is not safe (see Terms::is_sure)
//!          a lane that overflowed:   Down, from the very element on that overflowed it
//!          squares that vanish:      Up, from the first element of the leaf on
//! join:  bring both nodes to the larger scale (Up < Plain < Down); Down if the sum overflows
//! ```
//!
//! Multiplying by a power of two commutes with rounding, but for numbers that are nothing beside
//! the others. What is scaled, and from where on, depends on the position of elements alone: not on
//! tiles, chunks or tasks. Only float64 data needs it.

use super::power::{DOWN, UP};
use crate::memory;

/// By which power of two the elements behind a node were multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scale {
    Up,
    Plain,
    Down,
}

impl Scale {
    /// That power.
    #[inline(always)]
    pub(crate) fn power(self) -> f64 {
        match self {
            Self::Up => UP,
            Self::Plain => 1.0,
            Self::Down => DOWN,
        }
    }
}

/// The partial result of a range of one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Partial<N> {
    pub(crate) node: N,
    pub(crate) scale: Scale,
}

impl<N> Partial<N> {
    #[inline(always)]
    pub(crate) fn plain(node: N) -> Self {
        Self { node, scale: Scale::Plain }
    }
}

/// The partial results of the same range of many sequences.
#[derive(Debug, PartialEq)]
pub(crate) struct Nodes<N> {
    pub(crate) nodes: Vec<N>,
    /// One for each node; none while all are [`Scale::Plain`].
    pub(crate) scales: Vec<Scale>,
}

impl<N: Clone> Clone for Nodes<N> {
    fn clone(&self) -> Self {
        Self { nodes: memory::copied(&self.nodes), scales: memory::copied(&self.scales) }
    }
}

impl<N: Copy> Nodes<N> {
    pub(crate) fn plain(nodes: Vec<N>) -> Self {
        Self { nodes, scales: Vec::new() }
    }

    /// The node of one sequence.
    pub(crate) fn alone(partial: Partial<N>) -> Self {
        let mut nodes = Self::plain(Vec::with_capacity(1));
        nodes.push(partial);
        nodes
    }

    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Partial<N> {
        let scale = self.scales.get(i).copied().unwrap_or(Scale::Plain);
        Partial { node: self.nodes[i], scale }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, i: usize, partial: Partial<N>) {
        self.nodes[i] = partial.node;
        set_scale(&mut self.scales, self.nodes.len(), i, partial.scale);
    }

    /// Adds the node of a further sequence.
    pub(crate) fn push(&mut self, partial: Partial<N>) {
        memory::push(&mut self.nodes, partial.node);
        set_scale(&mut self.scales, self.nodes.len(), self.nodes.len() - 1, partial.scale);
    }

    /// Adds the nodes of further sequences.
    pub(crate) fn append(&mut self, others: Self) {
        if self.nodes.capacity() == 0 {
            *self = others;
            return;
        }
        let own = self.nodes.len();
        memory::extend_from_slice(&mut self.nodes, &others.nodes);
        if !(self.scales.is_empty() && others.scales.is_empty()) {
            memory::resize(&mut self.scales, own, Scale::Plain);
            memory::extend_from_slice(&mut self.scales, &others.scales);
            memory::resize(&mut self.scales, self.nodes.len(), Scale::Plain);
        }
    }
}

/// Says the scale of node `i` of `len`.
#[inline(always)]
pub(super) fn set_scale(scales: &mut Vec<Scale>, len: usize, i: usize, scale: Scale) {
    if !(scales.is_empty() && scale == Scale::Plain) {
        memory::resize(scales, len, Scale::Plain);
        scales[i] = scale;
    }
}
