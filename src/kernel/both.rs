//! Two reductions of the same elements, a tile at a time while it is in the cache.

use super::reducer::{Many, One, Reducer, Tile};
use super::scale::{Nodes, Partial, Scale};
use super::{Element, Simd};
use crate::memory::{self, Gather as _};

/// Both of two reductions.
#[derive(Clone, Copy)]
pub(crate) struct Both<A, B>(pub(crate) A, pub(crate) B);

type NodesOf<T, A, B> = (Partial<<A as Reducer<T>>::Node>, Partial<<B as Reducer<T>>::Node>);

impl<T: Element, A: Reducer<T>, B: Reducer<T>> Reducer<T> for Both<A, B> {
    /// Each has a scale of its own, and both together none.
    type Node = (Partial<A::Node>, Partial<B::Node>);
    type One = BothRunning<T, A, B, A::One, B::One>;
    type Many = BothRunning<T, A, B, A::Many, B::Many>;
    const GRAIN: usize = if A::GRAIN > B::GRAIN { A::GRAIN } else { B::GRAIN };
    /// What stands in place of a null differs between the two.
    const NEEDS_VALIDITY: bool = true;

    #[inline(always)]
    fn fill(self) -> T {
        self.0.fill()
    }
    #[inline(always)]
    fn empty(self) -> Self::Node {
        (self.0.nothing(), self.1.nothing())
    }
    #[inline(always)]
    fn join(self, left: Self::Node, right: Self::Node) -> Self::Node {
        (self.0.joined(left.0, right.0), self.1.joined(left.1, right.1))
    }
    #[inline(always)]
    fn one(self, first: usize) -> Self::One {
        BothRunning { of: self, a: self.0.one(first), b: self.1.one(first), refilled: Vec::new() }
    }
    fn many(self, width: usize, first: usize, len: usize) -> Self::Many {
        let (a, b) = (self.0.many(width, first, len), self.1.many(width, first, len));
        BothRunning { of: self, a, b, refilled: Vec::new() }
    }
    #[inline(always)]
    fn rows<S: Simd>(
        self,
        simd: S,
        tile: Tile<'_, T>,
        width: usize,
        out: &mut [Self::Node],
        _: &mut Vec<Scale>,
    ) {
        let mut refilled = Vec::new();
        let mut a = Nodes::plain(memory::filled(self.0.empty(), out.len()));
        let mut b = Nodes::plain(memory::filled(self.1.empty(), out.len()));
        let first = tile.refilled(self.0.fill(), &mut refilled);
        self.0.rows(simd, first, width, &mut a.nodes, &mut a.scales);
        let second = tile.refilled(self.1.fill(), &mut refilled);
        self.1.rows(simd, second, width, &mut b.nodes, &mut b.scales);
        for (i, o) in out.iter_mut().enumerate() {
            *o = (a.get(i), b.get(i));
        }
    }
}

/// The running states of both.
pub(crate) struct BothRunning<T, A, B, X, Y> {
    of: Both<A, B>,
    a: X,
    b: Y,
    refilled: Vec<T>,
}

impl<T: Element, A: Reducer<T>, B: Reducer<T>> One<T, NodesOf<T, A, B>>
    for BothRunning<T, A, B, A::One, B::One>
{
    #[inline(always)]
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>) {
        self.a.feed(simd, tile.refilled(self.of.0.fill(), &mut self.refilled));
        self.b.feed(simd, tile.refilled(self.of.1.fill(), &mut self.refilled));
    }
    #[inline(always)]
    fn finish(self) -> Partial<NodesOf<T, A, B>> {
        Partial::plain((self.a.finish(), self.b.finish()))
    }
}

impl<T: Element, A: Reducer<T>, B: Reducer<T>> Many<T, NodesOf<T, A, B>>
    for BothRunning<T, A, B, A::Many, B::Many>
{
    #[inline(always)]
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>, stride: usize) {
        self.a.feed(simd, tile.refilled(self.of.0.fill(), &mut self.refilled), stride);
        self.b.feed(simd, tile.refilled(self.of.1.fill(), &mut self.refilled), stride);
    }
    fn finish(self) -> Nodes<NodesOf<T, A, B>> {
        let (a, b) = (self.a.finish(), self.b.finish());
        Nodes::plain((0..a.nodes.len()).map(|i| (a.get(i), b.get(i))).gather())
    }
}
