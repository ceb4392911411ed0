//! What a reduction is to the modules above: nodes that can be joined, and three ways to make them.
//!
//! A **node** is the partial result of a range of a sequence: it can be kept, sent and joined
//! with its right neighbour. The modules above split a matrix into ranges that are nodes of one
//! fixed tree (see [`super::sum`]), so the answer depends on the sequence alone.

use crate::memory;
use std::ops::Range;

use super::power::DOWN;
use super::scale::{Nodes, Partial, Scale};
use super::{Element, Simd};

/// Elements of a piece of a sequence, and which of them are valid if not all are. What stands in
/// place of a null is the reducer's [`fill`](Reducer::fill). What each weighs, if they are
/// weighed: a null nothing.
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a, T> {
    pub(crate) x: &'a [T],
    pub(crate) valid: Option<&'a [bool]>,
    pub(crate) weights: Option<&'a [T]>,
}

impl<T: Element> Tile<'_, T> {
    /// The same with another value in place of nulls.
    #[inline(always)]
    pub(crate) fn refilled<'s>(&'s self, fill: T, workspace: &'s mut Vec<T>) -> Tile<'s, T> {
        let Some(valid) = self.valid else { return *self };
        workspace.clear();
        memory::extend(
            workspace,
            self.x.iter().zip(valid).map(|(x, valid)| if *valid { *x } else { fill }),
        );
        Tile { x: workspace, valid: self.valid, weights: self.weights }
    }
}

/// The [`GRAIN`](Reducer::GRAIN) of reductions that any split gives the same answer: so many nodes
/// of columns cost little to join beside their rows.
pub(super) const ANY_SPLIT: usize = 256;

impl<'a, T> Tile<'a, T> {
    /// Some of its rows of `width` elements, which lie `stride` apart.
    #[inline(always)]
    pub(super) fn some_rows(self, rows: Range<usize>, width: usize, stride: usize) -> Self {
        let at = rows.start * stride..(rows.end - 1) * stride + width;
        Self {
            x: &self.x[at.clone()],
            valid: self.valid.map(|valid| &valid[at.clone()]),
            weights: self.weights.map(|weights| &weights[at]),
        }
    }

    /// Every other of the rows that lie `stride` apart, from row `first` on, and how far apart
    /// those lie.
    pub(crate) fn every_other_row(self, first: usize, stride: usize) -> (Self, usize) {
        let x = self.x.get(first * stride..).unwrap_or(&[]);
        let valid = self.valid.map(|valid| valid.get(first * stride..).unwrap_or(&[]));
        let weights = self.weights.map(|weights| weights.get(first * stride..).unwrap_or(&[]));
        (Self { x, valid, weights }, 2 * stride)
    }
}

/// A reduction of elements of type `T`.
pub(crate) trait Reducer<T: Element>: Copy + Send + Sync + 'static {
    /// A partial result.
    type Node: Copy + Send + Sync + 'static;
    /// The running state of one sequence.
    type One: One<T, Self::Node> + Send + 'static;
    /// The running state of many sequences that lie row by row.
    type Many: Many<T, Self::Node> + Send + 'static;

    /// Whether tiles must say which elements are valid.
    const NEEDS_VALIDITY: bool = false;

    /// Elements of a sequence that one task has to take: a power of two, the leaf of ordered sums.
    const GRAIN: usize;

    /// Whether it is worth an AVX-512 version, see [`Body`](super::Body).
    #[allow(dead_code, reason = "only x86-64 has AVX-512")]
    const WIDEST: bool = false;

    /// What stands in place of a null.
    fn fill(self) -> T;
    /// The node of no elements.
    fn empty(self) -> Self::Node;
    /// The node of `left`'s range and `right`'s, which follows it, both of one scale.
    fn join(self, left: Self::Node, right: Self::Node) -> Self::Node;
    /// Whether nothing overflowed on the way to a node.
    #[inline(always)]
    fn fits(self, _node: &Self::Node) -> bool {
        true
    }
    /// The node of the same elements multiplied by a power of two.
    #[inline(always)]
    fn rescaled(self, node: Self::Node, _power: f64) -> Self::Node {
        node
    }
    /// The same node if `by` more elements come before its own.
    fn moved(self, node: Self::Node, _by: u64) -> Self::Node {
        node
    }
    /// A sequence, of which element number `first` comes first.
    fn one(self, first: usize) -> Self::One;
    /// `width` sequences of `len` elements, of which element number `first` comes first in each.
    fn many(self, width: usize, first: usize, len: usize) -> Self::Many;
    /// The same, without care for what overflows or vanishes: for callers who feed single rows, have
    /// all of them at hand, and reduce the sequences in doubt once more by themselves.
    fn many_unwatched(self, width: usize, len: usize) -> Self::Many {
        self.many(width, 0, len)
    }
    /// The same for every other element of one [`GRAIN`](Self::GRAIN), from the first or the second
    /// on, if the nodes of both halves [join](Self::join) to that of the whole.
    fn half(self, _width: usize) -> Option<Self::Many> {
        None
    }
    /// One node for each row of contiguous rows of `width` elements. `scales` comes empty, and stays
    /// so while all nodes are plain.
    fn rows<S: Simd>(
        self,
        simd: S,
        tile: Tile<'_, T>,
        width: usize,
        out: &mut [Self::Node],
        scales: &mut Vec<Scale>,
    );

    /// The node of a row of at most a leaf, if it is made of nothing but the sum of its elements in
    /// the order of [`super::sum`], and care for what overflows is not needed.
    #[inline(always)]
    fn of_row_sum(self, _sum: f64, _width: usize) -> Option<Self::Node> {
        None
    }

    /// The partial result of no elements: as tiny as can be.
    #[inline(always)]
    fn nothing(self) -> Partial<Self::Node> {
        Partial { node: self.empty(), scale: Scale::Up }
    }

    /// [`join`](Self::join) of any scales: in the larger one, or the next if the node does not fit.
    #[inline(always)]
    fn joined(
        self,
        mut left: Partial<Self::Node>,
        mut right: Partial<Self::Node>,
    ) -> Partial<Self::Node> {
        let mut scale = left.scale.max(right.scale);
        loop {
            left = self.to_scale(left, scale);
            right = self.to_scale(right, scale);
            let node = self.join(left.node, right.node);
            if scale == Scale::Down || self.fits(&node) {
                return Partial { node, scale };
            }
            scale = Scale::Down;
        }
    }

    /// The same node of elements multiplied by a smaller power.
    #[inline(always)]
    fn to_scale(self, mut partial: Partial<Self::Node>, scale: Scale) -> Partial<Self::Node> {
        while partial.scale < scale {
            partial.scale = if partial.scale == Scale::Up { Scale::Plain } else { Scale::Down };
            partial.node = self.rescaled(partial.node, DOWN);
        }
        partial
    }
}

/// The running state of one sequence.
pub(crate) trait One<T, N> {
    /// Keeps leaves apart, see [`Tree::loose`]. To be called before anything is fed.
    fn loosen(&mut self) {}
    /// Takes the next elements.
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>);
    fn finish(self) -> Partial<N>;
    /// What was fed as a tree, to be merged with its neighbours.
    fn into_tree(self) -> Tree<N>
    where
        Self: Sized,
        N: Copy,
    {
        Tree::of(1, vec![(1, Some(Nodes::alone(self.finish())))])
    }
}

/// The running state of many sequences: row `r` holds element `r` of each.
pub(crate) trait Many<T, N> {
    /// Keeps leaves apart, see [`Tree::loose`]. To be called before anything is fed.
    fn loosen(&mut self) {}
    /// Takes the next rows: the tile holds their first columns, each row `stride` elements after
    /// the last.
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>, stride: usize);
    fn finish(self) -> Nodes<N>;
    /// What was fed as a tree, to be merged with its neighbours.
    fn into_tree(self) -> Tree<N>
    where
        Self: Sized,
        N: Copy,
    {
        let nodes = self.finish();
        Tree::of(nodes.nodes.len(), vec![(1, Some(nodes))])
    }
    /// [`finish`](Self::finish) of [`many_unwatched`](Reducer::many_unwatched), and the sequences in
    /// doubt.
    fn finish_unwatched(self) -> (Nodes<N>, Vec<usize>)
    where
        Self: Sized,
    {
        (self.finish(), Vec::new())
    }
}

/// Nodes of the lowest level that a loose tree keeps apart.
const LOOSE: usize = 1024;

/// Joins nodes of `width` sequences, in the order of their index, by the binary tree in which node
/// `j` of level `k` covers nodes `j·2ᵏ ..` of the lowest; one without a right child is its left.
///
/// A tree may begin anywhere: then it holds the nodes that are whole, and [merges](Self::merge) with
/// what comes before it to the nodes of both. A [loose](Self::loose) one does so wherever it will
/// turn out to begin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree<N> {
    width: usize,
    is_loose: bool,
    /// The number of the next node of the lowest level.
    next: usize,
    /// Nodes that wait for the other child of their parent, and how many of the lowest level they
    /// cover; none where there are no elements.
    stack: Vec<(usize, Option<Nodes<N>>)>,
}

impl<N: Copy> Tree<N> {
    /// A tree whose first node of the lowest level is number `first`.
    pub(crate) fn new(width: usize, first: usize) -> Self {
        Self { width, is_loose: false, next: first, stack: Vec::new() }
    }

    /// A tree of which it is not known what comes before it, and so which nodes of the lowest level
    /// have one parent. They are kept apart, and joined only in runs of [`LOOSE`] from its own
    /// beginning on.
    pub(crate) fn loose(width: usize) -> Self {
        Self { is_loose: true, ..Self::new(width, 0) }
    }

    /// A loose tree of such nodes.
    pub(crate) fn of(width: usize, stack: Vec<(usize, Option<Nodes<N>>)>) -> Self {
        let next = stack.iter().map(|(size, _)| size).sum();
        Self { width, is_loose: true, next, stack }
    }

    /// The same tree of other nodes.
    pub(crate) fn map(mut self, f: impl Fn(N) -> N) -> Self {
        let nodes = self.stack.iter_mut().filter_map(|(_, nodes)| nodes.as_mut());
        nodes.flat_map(|nodes| &mut nodes.nodes).for_each(|node| *node = f(*node));
        self
    }

    /// Its nodes, and how many of the lowest level each covers.
    pub(crate) fn into_stack(self) -> Vec<(usize, Option<Nodes<N>>)> {
        self.stack
    }

    /// Adds the next nodes of each sequence, which cover `size` of the lowest level.
    pub(crate) fn push<T: Element, R: Reducer<T, Node = N>>(
        &mut self,
        reducer: R,
        mut size: usize,
        mut nodes: Option<Nodes<N>>,
    ) {
        debug_assert!(nodes.as_ref().is_none_or(|nodes| nodes.nodes.len() == self.width));
        let mut begin = self.next;
        self.next += size;
        if self.is_loose {
            self.stack.push((size, nodes));
            return self.join_run(reducer);
        }
        while let Some((_, left)) = self.stack.pop_if(|(left, _)| is_right(*left, begin, size)) {
            nodes = match (left, nodes) {
                (Some(left), Some(right)) => Some(join_nodes(reducer, left, &right)),
                (left, right) => left.or(right),
            };
            begin -= size;
            size *= 2;
        }
        self.stack.push((size, nodes));
    }

    /// Joins the last nodes of a loose tree if they are a run of [`LOOSE`].
    fn join_run<T: Element, R: Reducer<T, Node = N>>(&mut self, reducer: R) {
        let Some(first) = self.stack.len().checked_sub(LOOSE) else { return };
        let is_run = self.next.is_multiple_of(LOOSE);
        if is_run && self.stack[first..].iter().all(|(size, _)| *size == 1) {
            let mut run = Self::new(self.width, 0);
            for (size, nodes) in self.stack.drain(first..) {
                run.push(reducer, size, nodes);
            }
            self.stack.append(&mut run.stack);
        }
    }

    /// Adds a tree that begins where this one ends, or later: what lies between has no elements.
    pub(crate) fn merge<T: Element, R: Reducer<T, Node = N>>(&mut self, reducer: R, right: Self) {
        let covered: usize = right.stack.iter().map(|(size, _)| size).sum();
        let first = right.next - covered;
        while self.next < first {
            let most = 1 << (first - self.next).ilog2();
            let aligned = if self.next == 0 { most } else { 1 << self.next.trailing_zeros() };
            self.push(reducer, most.min(aligned), None);
        }
        for (size, nodes) in right.stack {
            self.push(reducer, size, nodes);
        }
    }

    /// The nodes over everything.
    pub(crate) fn finish<T: Element, R: Reducer<T, Node = N>>(mut self, reducer: R) -> Nodes<N> {
        if self.is_loose {
            let mut whole = Self::new(self.width, 0);
            for (size, nodes) in self.stack {
                whole.push(reducer, size, nodes);
            }
            self = whole;
        }
        let nodes = self.stack.into_iter().rev().filter_map(|(_, nodes)| nodes);
        nodes
            .reduce(|right, left| join_nodes(reducer, left, &right))
            .unwrap_or_else(|| no_elements(reducer, self.width))
    }
}

/// Whether a node that begins at number `begin` of the lowest level and covers `size` of them is the
/// right child of a parent whose left child is the node before it, which covers `left`.
#[inline(always)]
pub(super) fn is_right(left: usize, begin: usize, size: usize) -> bool {
    left == size && begin & size != 0 && begin.is_multiple_of(size)
}

/// The nodes of `width` sequences without elements.
pub(crate) fn no_elements<T: Element, R: Reducer<T>>(reducer: R, width: usize) -> Nodes<R::Node> {
    Nodes {
        nodes: memory::filled(reducer.empty(), width),
        scales: memory::filled(Scale::Up, width),
    }
}

/// The nodes of `left`'s range and `right`'s, which follows it.
pub(crate) fn join_nodes<T: Element, R: Reducer<T>>(
    reducer: R,
    mut left: Nodes<R::Node>,
    right: &Nodes<R::Node>,
) -> Nodes<R::Node> {
    let pairs = left.nodes.iter().zip(&right.nodes);
    let fit = pairs.fold(true, |fit, (l, r)| fit & reducer.fits(&reducer.join(*l, *r)));
    if fit && left.scales.is_empty() && right.scales.is_empty() {
        for (l, r) in left.nodes.iter_mut().zip(&right.nodes) {
            *l = reducer.join(*l, *r);
        }
        return left;
    }
    for i in 0..left.nodes.len() {
        left.set(i, reducer.joined(left.get(i), right.get(i)));
    }
    left
}
