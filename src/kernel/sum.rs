//! The order of additions, and the loops that keep it.
//!
//! The sum of a sequence `x[0], x[1], …` is defined by position alone:
//!
//! ```text
//! for each leaf of 1024 elements:                        leaf k holds x[1024 k ..]
//!     lanes[0..8] = -0.0                                 the neutral value of addition
//!     for i in leaf, in order:   lanes[i mod 8] += x[i]
//!     node = ((l0+l4) + (l2+l6)) + ((l1+l5) + (l3+l7))   `fold`: halves onto each other
//!     push(node)
//!
//! push(node), the n-th (n = 0, 1, …):                    a binary counter of nodes
//!     for each trailing one bit of n:   node = pop() + node
//!     put node on the stack
//! sum = the nodes left on the stack, the last joined to the one before it, and so on
//! ```
//!
//! So node `j` of level `k` covers leaves `j·2ᵏ ..`, and one without a right child is its left
//! child. What is added may be the element or [terms](Terms) made of it; where a float64 would
//! overflow, or squares vanish, [`super::scale`] says what happens. [`Sequence`] sums one sequence of
//! contiguous elements, `ColumnSums` many sequences that lie row by row, `row_sums` each of many
//! short ones. The first two may be fed in pieces of any length; all give the same bits for the same
//! sequence. A task that starts at a leaf whose index is a multiple of 2ᵏ and takes 2ᵏ leaves
//! computes a whole node.

use super::leaf::OpenLeaf;
use super::reducer::{One, Reducer, Tile, Tree, is_right};
use super::scale::{Nodes, Partial, Scale};
use super::sum_columns::ColumnSums;
use super::sum_rows::row_sums;
use super::terms::Terms;
use super::{Element, LANES, Simd, fold};

/// Elements of a leaf. Fixed for ever: it defines the order of additions.
/// 1024 keeps the four streams of [`Sequence::feed`] a page apart (docs/perf/lanes.md).
pub(crate) const LEAF: usize = 1024;

/// Leaves, or rows, summed at once: four chains of additions hide the latency of one.
pub(super) const TOGETHER: usize = 4;

/// A reduction that adds up terms in the order of this file.
#[derive(Clone, Copy)]
pub(crate) struct Sums<K, const N: usize>(pub(crate) K);

impl<T: Element, K: Terms<N>, const N: usize> Reducer<T> for Sums<K, N> {
    type Node = K::Node;
    type One = Sequence<K, N>;
    type Many = ColumnSums<K, N>;
    const GRAIN: usize = LEAF;
    const NEEDS_VALIDITY: bool = K::SHIFTED;
    // Variances of floats: twice the terms, so that AVX2 computes longer than memory takes.
    const WIDEST: bool = K::NARROW_COLUMNS || (K::SHIFTED && T::IS_FLOAT);

    #[inline(always)]
    fn fill(self) -> T {
        T::NEUTRAL
    }
    #[inline(always)]
    fn empty(self) -> K::Node {
        self.0.empty()
    }
    #[inline(always)]
    fn join(self, left: K::Node, right: K::Node) -> K::Node {
        self.0.join(left, right)
    }
    #[inline(always)]
    fn one(self, first: usize) -> Sequence<K, N> {
        Sequence::new(self.0, first)
    }
    #[inline(always)]
    fn many(self, width: usize, first: usize, len: usize) -> ColumnSums<K, N> {
        ColumnSums::new(self.0, width, first, len)
    }
    fn many_unwatched(self, width: usize, _: usize) -> ColumnSums<K, N> {
        ColumnSums::unwatched(self.0, width)
    }
    #[inline(always)]
    fn half(self, width: usize) -> Option<ColumnSums<K, N>> {
        // Whether squares vanish is asked of a leaf as a whole.
        let is_separable = K::IS_SUM && (!T::NEEDS_SCALE || K::DEGREES[N - 1] == 1);
        is_separable.then(|| ColumnSums::half(self.0, width))
    }
    #[inline(always)]
    fn of_row_sum(self, sum: f64, width: usize) -> Option<K::Node> {
        let is_sum = K::IS_ELEMENT && !T::NEEDS_SCALE && width <= LEAF;
        is_sum.then(|| self.0.node([sum; N], 0.0, width as f64))
    }
    #[inline(always)]
    fn fits(self, node: &K::Node) -> bool {
        !T::NEEDS_SCALE || self.0.fits(node)
    }
    #[inline(always)]
    fn rescaled(self, node: K::Node, power: f64) -> K::Node {
        self.0.rescaled(node, power)
    }
    #[inline(always)]
    fn rows<S: Simd>(
        self,
        simd: S,
        tile: Tile<'_, T>,
        width: usize,
        out: &mut [K::Node],
        scales: &mut Vec<Scale>,
    ) {
        row_sums(self.0, simd, tile, width, out, scales);
    }
}

/// Nodes that wait at most: two of each level of a tree of more leaves than any data has.
const LEVELS: usize = 64;

/// The running sums of one sequence.
pub(crate) struct Sequence<K: Terms<N>, const N: usize> {
    terms: K,
    open: OpenLeaf<K, N>,
    /// The number of the open leaf.
    leaf: usize,
    /// Nodes that wait for the other child of their parent, and their levels.
    stack: [Partial<K::Node>; LEVELS],
    levels: [u8; LEVELS],
    depth: usize,
    /// The nodes, if leaves are kept apart.
    loose: Option<Box<Tree<K::Node>>>,
    /// Whether an element was a NaN, and nothing else matters.
    has_nan: bool,
}

impl<K: Terms<N>, const N: usize> Sequence<K, N> {
    #[inline(always)]
    pub(crate) fn new(terms: K, first: usize) -> Self {
        Self {
            terms,
            open: OpenLeaf::new(terms),
            leaf: first / LEAF,
            stack: [Partial::plain(terms.empty()); LEVELS],
            levels: [0; LEVELS],
            depth: 0,
            loose: None,
            has_nan: false,
        }
    }

    #[inline(always)]
    fn push<T: Element>(&mut self, mut node: Partial<K::Node>) {
        if let Some(tree) = &mut self.loose {
            let nodes = Some(Nodes::alone(node));
            return Tree::push::<T, _>(tree, Sums(self.terms), 1, nodes);
        }
        let (mut begin, mut level) = (self.leaf, 0);
        while self.depth > 0 && is_right(1 << self.levels[self.depth - 1], begin, 1 << level) {
            self.depth -= 1;
            node = Reducer::<T>::joined(Sums(self.terms), self.stack[self.depth], node);
            begin -= 1 << level;
            level += 1;
        }
        (self.stack[self.depth], self.levels[self.depth]) = (node, level);
        self.depth += 1;
        self.leaf += 1;
    }

    /// The node of a whole leaf, of which it is known what plain additions make of it.
    #[inline(always)]
    fn whole_leaf<T: Element, S: Simd>(
        &mut self,
        simd: S,
        x: &[T],
        node: K::Node,
    ) -> Partial<K::Node> {
        let is_safe = self.terms.fits(&node) && self.terms.is_large(&node);
        if !T::NEEDS_SCALE || is_safe || self.has_nan {
            return Partial::plain(node);
        }
        self.has_nan = x.iter().any(|x| x.is_nan());
        if self.has_nan {
            return Partial::plain(node);
        }
        let mut leaf = OpenLeaf::new(self.terms);
        leaf.feed(simd, x);
        leaf.close::<T>()
    }
}

impl<T: Element, K: Terms<N>, const N: usize> One<T, K::Node> for Sequence<K, N> {
    fn loosen(&mut self) {
        self.loose = Some(Box::new(Tree::loose(1)));
    }

    #[inline(always)]
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>) {
        let Tile { mut x, mut valid, .. } = tile;
        while !x.is_empty() {
            if N == 1 && !K::SHIFTED && self.open.filled == 0 && x.len() >= TOGETHER * LEAF {
                let (group, rest) = x.split_at(TOGETHER * LEAF);
                let nodes = leaves_together(self.terms, simd, group);
                for (node, leaf) in nodes.into_iter().zip(group.chunks_exact(LEAF)) {
                    let node = self.whole_leaf(simd, leaf, node);
                    self.push::<T>(node);
                }
                x = rest;
                continue;
            }
            let take = (LEAF - self.open.filled).min(x.len());
            let (now, rest) = x.split_at(take);
            match valid {
                Some(all) if K::SHIFTED => {
                    self.open.feed_masked(simd, now, &all[..take]);
                    valid = Some(&all[take..]);
                }
                _ => self.open.feed(simd, now),
            }
            if self.open.filled == LEAF {
                let node = self.open.close::<T>();
                self.push::<T>(node);
            }
            x = rest;
        }
    }

    /// The node of everything fed.
    #[inline(always)]
    fn finish(mut self) -> Partial<K::Node> {
        if self.open.filled > 0 {
            let node = self.open.close::<T>();
            self.push::<T>(node);
        }
        let reducer = Sums(self.terms);
        if let Some(tree) = self.loose {
            return Tree::finish::<T, _>(*tree, reducer).get(0);
        }
        let Some(mut depth) = self.depth.checked_sub(1) else {
            return Reducer::<T>::nothing(reducer);
        };
        let mut node = self.stack[depth];
        while depth > 0 {
            depth -= 1;
            // The right child was always pushed last: the tree is the same as if it were whole.
            node = Reducer::<T>::joined(reducer, self.stack[depth], node);
        }
        node
    }

    fn into_tree(mut self) -> Tree<K::Node> {
        if self.open.filled > 0 {
            let node = self.open.close::<T>();
            self.push::<T>(node);
        }
        if let Some(tree) = self.loose {
            return *tree;
        }
        let sizes = self.levels.map(|level| 1 << level);
        let covered: usize = sizes[..self.depth].iter().sum();
        let mut tree = Tree::new(1, self.leaf - covered);
        for (size, node) in sizes.into_iter().zip(self.stack).take(self.depth) {
            Tree::push::<T, _>(&mut tree, Sums(self.terms), size, Some(Nodes::alone(node)));
        }
        tree
    }
}

/// The nodes of four whole leaves that lie one behind the other.
#[inline(always)]
fn leaves_together<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    x: &[T],
) -> [K::Node; TOGETHER] {
    let (a, x) = x.split_at(LEAF);
    let (b, x) = x.split_at(LEAF);
    let (c, d) = x.split_at(LEAF);
    let acc = add_four(terms, simd, [a, b, c, d]);
    let node = |acc: [S::V; N]| terms.node(folded(stored(simd, acc)), 0.0, LEAF as f64);
    let [a, b, c, d] = acc;
    [node(a), node(b), node(c), node(d)]
}

/// Sums of four runs of one length, each in eight lanes; what is left over at their ends is not
/// added.
#[inline(always)]
pub(super) fn add_four<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    [a, b, c, d]: [&[T]; TOGETHER],
) -> [[S::V; N]; TOGETHER] {
    let zero = simd.splat(0.0);
    let mut acc = [[simd.splat(-0.0); N]; TOGETHER];
    for (((a, b), c), d) in eights(a).iter().zip(eights(b)).zip(eights(c)).zip(eights(d)) {
        acc[0] = plus(simd, acc[0], terms.eight(simd, T::load(simd, a), zero));
        acc[1] = plus(simd, acc[1], terms.eight(simd, T::load(simd, b), zero));
        acc[2] = plus(simd, acc[2], terms.eight(simd, T::load(simd, c), zero));
        acc[3] = plus(simd, acc[3], terms.eight(simd, T::load(simd, d), zero));
    }
    acc
}

#[inline(always)]
pub(super) fn plus<S: Simd, const N: usize>(simd: S, a: [S::V; N], b: [S::V; N]) -> [S::V; N] {
    let mut sum = a;
    for n in 0..N {
        sum[n] = simd.add(a[n], b[n]);
    }
    sum
}

#[inline(always)]
pub(super) fn stored<S: Simd, const N: usize>(simd: S, acc: [S::V; N]) -> [[f64; LANES]; N] {
    let mut lanes = [[0.0; LANES]; N];
    for n in 0..N {
        lanes[n] = simd.store(acc[n]);
    }
    lanes
}

#[inline(always)]
pub(super) fn folded<const N: usize>(lanes: [[f64; LANES]; N]) -> [f64; N] {
    let mut sums = [0.0; N];
    for n in 0..N {
        sums[n] = fold(lanes[n]);
    }
    sums
}

/// Adds `x`, whose first element is number `at` of its leaf, to the lanes.
#[inline(always)]
pub(super) fn add_to_lanes<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    mut lanes: [[f64; LANES]; N],
    at: usize,
    x: &[T],
    shift: f64,
) -> [[f64; LANES]; N] {
    let first = at % LANES;
    let head = if first == 0 { 0 } else { (LANES - first).min(x.len()) };
    let (head, x) = x.split_at(head);
    for (i, v) in head.iter().enumerate() {
        let one = terms.one(v.widen(), shift);
        for n in 0..N {
            lanes[n][first + i] += one[n];
        }
    }
    let (body, tail) = x.as_chunks::<LANES>();
    let mut acc = [simd.splat(0.0); N];
    for n in 0..N {
        acc[n] = simd.load(&lanes[n]);
    }
    let by = simd.splat(shift);
    for eight in body {
        acc = plus(simd, acc, terms.eight(simd, T::load(simd, eight), by));
    }
    if K::SHIFTED && !tail.is_empty() {
        let eight = simd.load(&padded(tail, shift));
        acc = plus(simd, acc, terms.eight(simd, eight, by));
    }
    let mut lanes = stored(simd, acc);
    if !K::SHIFTED {
        // One by one: a register that is loaded from elements just stored waits for all of them.
        for (i, v) in tail.iter().enumerate() {
            let one = terms.one(v.widen(), shift);
            for n in 0..N {
                lanes[n][i] += one[n];
            }
        }
    }
    lanes
}

/// Fewer than eight elements as float64, followed by `fill`.
#[inline(always)]
pub(super) fn padded<T: Element>(tail: &[T], fill: f64) -> [f64; LANES] {
    let mut eight = [fill; LANES];
    for (wide, x) in eight.iter_mut().zip(tail) {
        *wide = x.widen();
    }
    eight
}

#[inline(always)]
pub(super) fn eights<T>(x: &[T]) -> &[[T; LANES]] {
    x.as_chunks::<LANES>().0
}
