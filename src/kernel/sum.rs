//! The order of additions, and the loops that keep it.
//!
//! The sum of a sequence `x[0], x[1], …` is defined by position alone:
//!
//! * a **leaf** is 1024 consecutive elements; leaf `k` holds `x[1024 k ..]`;
//! * inside a leaf, element `i` is added to **lane** `i mod 8`, in order, starting from −0.0;
//!   [`fold`] joins the lanes;
//! * leaves are joined by the binary tree in which node `j` of level `k` covers leaves
//!   `j·2ᵏ ..`; a node without a right child is its left child.
//!
//! What is added may be the element or [terms](Terms) made of it. [`Sequence`] sums one sequence
//! of contiguous elements, `Interleaved` many sequences that lie row by row. Both may be fed in
//! pieces of any length; both give the same bits for the same sequence. A task that starts at a
//! leaf whose index is a multiple of 2ᵏ and takes 2ᵏ leaves computes a whole node.

use super::interleaved::Interleaved;
use super::reducer::{One, Reducer, Tile};
use super::rows::row_sums;
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
    type Many = Interleaved<K, N>;
    const GRAIN: usize = LEAF;
    const NEEDS_VALIDITY: bool = K::SHIFTED;
    const WIDEST: bool = K::NARROW_COLUMNS;

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
    fn one(self, _: usize) -> Sequence<K, N> {
        Sequence::new(self.0)
    }
    #[inline(always)]
    fn many(self, width: usize, _: usize, len: usize) -> Interleaved<K, N> {
        Interleaved::new(self.0, width, len)
    }
    #[inline(always)]
    fn half(self, width: usize) -> Option<Interleaved<K, N>> {
        K::IS_SUM.then(|| Interleaved::half(self.0, width))
    }
    #[inline(always)]
    fn rows<S: Simd>(self, simd: S, tile: Tile<'_, T>, width: usize, out: &mut [K::Node]) {
        row_sums(self.0, simd, tile, width, out);
    }
}

/// The running sums of one sequence.
pub(crate) struct Sequence<K: Terms<N>, const N: usize> {
    terms: K,
    lanes: [[f64; LANES]; N],
    /// The first valid element of the open leaf, and how many are valid.
    shift: f64,
    valid: usize,
    /// Elements in the open leaf.
    filled: usize,
    leaves: usize,
    /// One entry per set bit of `leaves`: the deepest tree has 64 levels.
    stack: [K::Node; 64],
    depth: usize,
}

impl<K: Terms<N>, const N: usize> Sequence<K, N> {
    #[inline(always)]
    pub(crate) fn new(terms: K) -> Self {
        Self {
            terms,
            lanes: [[-0.0; LANES]; N],
            shift: 0.0,
            valid: 0,
            filled: 0,
            leaves: 0,
            stack: [terms.empty(); 64],
            depth: 0,
        }
    }

    /// Takes elements of the open leaf, all of one leaf.
    #[inline(always)]
    fn feed_leaf<T: Element, S: Simd>(&mut self, simd: S, x: &[T]) {
        if K::SHIFTED && self.valid == 0 {
            self.shift = x[0].widen();
        }
        self.lanes = add_to_lanes(self.terms, simd, self.lanes, self.filled, x, self.shift);
        self.valid += x.len();
        self.advance(x.len());
    }

    /// The same where some are null: they hold the shift, whose terms are zero.
    #[inline(always)]
    fn feed_masked<T: Element, S: Simd>(&mut self, simd: S, x: &[T], valid: &[bool]) {
        let mut held = [0.0; LEAF];
        let held = &mut held[..x.len()];
        for ((held, x), valid) in held.iter_mut().zip(x).zip(valid) {
            if *valid {
                if self.valid == 0 {
                    self.shift = x.widen();
                }
                self.valid += 1;
                *held = x.widen();
            }
        }
        for (held, valid) in held.iter_mut().zip(valid) {
            *held = if *valid { *held } else { self.shift };
        }
        self.lanes = add_to_lanes(self.terms, simd, self.lanes, self.filled, held, self.shift);
        self.advance(x.len());
    }

    #[inline(always)]
    fn advance(&mut self, elements: usize) {
        self.filled += elements;
        if self.filled == LEAF {
            self.close();
        }
    }

    #[inline(always)]
    fn close(&mut self) {
        let sums = folded(self.lanes);
        let node = self.terms.node(sums, self.shift, self.valid as f64);
        self.lanes = [[-0.0; LANES]; N];
        (self.filled, self.valid, self.shift) = (0, 0, 0.0);
        self.push(node);
    }

    #[inline(always)]
    fn push(&mut self, mut node: K::Node) {
        let mut whole = self.leaves;
        while whole & 1 == 1 {
            self.depth -= 1;
            node = self.terms.join(self.stack[self.depth], node);
            whole >>= 1;
        }
        self.stack[self.depth] = node;
        self.depth += 1;
        self.leaves += 1;
    }
}

impl<T: Element, K: Terms<N>, const N: usize> One<T, K::Node> for Sequence<K, N> {
    #[inline(always)]
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>) {
        let Tile { mut x, mut valid } = tile;
        while !x.is_empty() {
            if N == 1 && !K::SHIFTED && self.filled == 0 && x.len() >= TOGETHER * LEAF {
                let (group, rest) = x.split_at(TOGETHER * LEAF);
                for node in leaves_together(self.terms, simd, group) {
                    self.push(node);
                }
                x = rest;
                continue;
            }
            let take = (LEAF - self.filled).min(x.len());
            let (now, rest) = x.split_at(take);
            match valid {
                Some(all) if K::SHIFTED => {
                    self.feed_masked(simd, now, &all[..take]);
                    valid = Some(&all[take..]);
                }
                _ => self.feed_leaf(simd, now),
            }
            x = rest;
        }
    }

    /// The node of everything fed.
    #[inline(always)]
    fn finish(mut self) -> K::Node {
        if self.filled > 0 {
            self.close();
        }
        let Some(mut depth) = self.depth.checked_sub(1) else { return self.terms.empty() };
        let mut node = self.stack[depth];
        while depth > 0 {
            depth -= 1;
            // The right child was always pushed last: the tree is the same as if it were whole.
            node = self.terms.join(self.stack[depth], node);
        }
        node
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
    if !tail.is_empty() {
        let eight = simd.load(&padded(tail, if K::SHIFTED { shift } else { -0.0 }));
        acc = plus(simd, acc, terms.eight(simd, eight, by));
    }
    stored(simd, acc)
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
