//! What a reduction is to the rooms above: nodes that can be joined, and three ways to make them.
//!
//! A **node** is the partial result of a range of a sequence: it can be kept, sent and joined
//! with its right neighbour. The rooms above split a matrix into ranges that are nodes of one
//! fixed tree (see [`super::sum`]), so the answer depends on the sequence alone.

use super::{Element, Simd};

/// Elements of a piece of a sequence, and which of them are valid if not all are. What stands in
/// the place of a null is the reducer's [`fill`](Reducer::fill).
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a, T> {
    pub(crate) x: &'a [T],
    pub(crate) valid: Option<&'a [bool]>,
}

impl<T: Element> Tile<'_, T> {
    /// The same with another value in the place of nulls.
    #[inline(always)]
    pub(crate) fn refilled<'s>(&'s self, fill: T, room: &'s mut Vec<T>) -> Tile<'s, T> {
        let Some(valid) = self.valid else { return *self };
        room.clear();
        room.extend(self.x.iter().zip(valid).map(|(x, valid)| if *valid { *x } else { fill }));
        Tile { x: room, valid: self.valid }
    }
}

/// The [`GRAIN`](Reducer::GRAIN) of reductions that any split gives the same answer: so many nodes
/// of columns cost little to join beside their rows.
pub(super) const ANY_SPLIT: usize = 256;

impl<'a, T> Tile<'a, T> {
    /// Every other of the rows that lie `stride` apart, from row `first` on, and how far apart
    /// those lie.
    pub(crate) fn every_other_row(self, first: usize, stride: usize) -> (Self, usize) {
        let x = self.x.get(first * stride..).unwrap_or(&[]);
        let valid = self.valid.map(|valid| valid.get(first * stride..).unwrap_or(&[]));
        (Self { x, valid }, 2 * stride)
    }
}

/// A reduction of elements of type `T`.
pub(crate) trait Reducer<T: Element>: Copy + Send + Sync {
    /// A partial result.
    type Node: Copy + Send + Sync;
    /// The running state of one sequence.
    type One: One<T, Self::Node>;
    /// The running state of many sequences that lie row by row.
    type Many: Many<T, Self::Node>;

    /// Whether tiles must say which elements are valid.
    const NEEDS_VALIDITY: bool = false;

    /// Elements of a sequence that one task has to take: a power of two, the leaf of ordered sums.
    const GRAIN: usize;

    /// Whether it is worth an AVX-512 version, see [`Body`](super::Body).
    #[allow(dead_code, reason = "only x86-64 has AVX-512")]
    const WIDEST: bool = false;

    /// What stands in the place of a null.
    fn fill(self) -> T;
    /// The node of no elements.
    fn empty(self) -> Self::Node;
    /// The node of `left`'s range and `right`'s, which follows it.
    fn join(self, left: Self::Node, right: Self::Node) -> Self::Node;
    /// A sequence, of which element number `first` comes first.
    fn one(self, first: usize) -> Self::One;
    /// `width` sequences of `len` elements, of which element number `first` comes first in each.
    fn many(self, width: usize, first: usize, len: usize) -> Self::Many;
    /// The same for every other element of one [`GRAIN`](Self::GRAIN), from the first or the second
    /// on, if the nodes of both halves [join](Self::join) to that of the whole.
    fn half(self, _width: usize) -> Option<Self::Many> {
        None
    }
    /// One node for each row of contiguous rows of `width` elements.
    fn rows<S: Simd>(self, simd: S, tile: Tile<'_, T>, width: usize, out: &mut [Self::Node]);
}

/// The running state of one sequence.
pub(crate) trait One<T, N> {
    /// Takes the next elements.
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>);
    fn finish(self) -> N;
}

/// The running state of many sequences: row `r` holds element `r` of each.
pub(crate) trait Many<T, N> {
    /// Takes the next rows: the tile holds their first columns, each row `stride` elements after
    /// the last.
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>, stride: usize);
    fn finish(self) -> Vec<N>;
}

/// Joins nodes of `width` sequences, in the order of their index, by the binary tree in which node
/// `j` of level `k` covers nodes `j·2ᵏ ..` of the lowest; one without a right child is its left.
pub(crate) struct Tree<N> {
    width: usize,
    pushed: usize,
    stack: Vec<N>,
}

impl<N: Copy> Tree<N> {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, pushed: 0, stack: Vec::new() }
    }

    /// Adds the next nodes of the lowest level, one of each sequence.
    pub(crate) fn push(&mut self, nodes: &[N], join: impl Fn(N, N) -> N) {
        debug_assert_eq!(nodes.len(), self.width);
        self.stack.extend_from_slice(nodes);
        let mut whole = self.pushed;
        while whole & 1 == 1 {
            self.join_top(&join);
            whole >>= 1;
        }
        self.pushed += 1;
    }

    /// The nodes over everything pushed.
    pub(crate) fn finish(mut self, empty: N, join: impl Fn(N, N) -> N) -> Vec<N> {
        if self.pushed == 0 {
            return vec![empty; self.width];
        }
        while self.stack.len() > self.width {
            self.join_top(&join);
        }
        self.stack
    }

    fn join_top(&mut self, join: impl Fn(N, N) -> N) {
        let right = self.stack.len() - self.width;
        let (rest, top) = self.stack.split_at_mut(right);
        let left = &mut rest[right - self.width..];
        for (l, r) in left.iter_mut().zip(top) {
            *l = join(*l, *r);
        }
        self.stack.truncate(right);
    }
}
