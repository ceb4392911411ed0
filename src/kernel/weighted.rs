//! Sums of elements times their weights, in the order of [`super::sum`].
//!
//! ```text
//! for each leaf of 1024 elements:
//!     for i in leaf, in order:   lanes[i mod 8] += terms(x[i], weight[i])
//!     node = the terms' sums, lanes joined by `fold`
//! ```
//!
//! The terms of a sum are `w` and `w·x`; those of a variance `w`, `w·d` and `w·d²`, where `d` is the
//! distance from a shift: the first valid element of the leaf, until one comes that weighs more than
//! twice as much, to which the sums are moved then. So what is left of the squares around the mean is
//! at least a 2049th of them, whatever the weights. Weights of one give the additions of the sums
//! without any, and so their bits. Nothing is scaled: what overflows a float64 on the way is
//! infinite, or NaN.

use super::reducer::{Many, One, Reducer, Tile, Tree};
use super::scale::{Nodes, Partial, Scale};
use super::sum::LEAF;
use super::terms::Spread;
use super::{LANES, Mean, Simd, fold};
use crate::memory::{self, Gather as _};

/// What is added up of an element and its weight.
pub(crate) trait Weigh<const N: usize>: Copy + Send + Sync + 'static {
    /// What a leaf becomes.
    type Node: Copy + Send + Sync + 'static;
    /// Whether the terms depend on a shift.
    const SHIFTED: bool;
    fn terms(self, x: f64, weight: f64, shift: f64) -> [f64; N];
    fn node(self, sums: [f64; N], shift: f64) -> Self::Node;
    /// The sums if the shift were less by a distance.
    #[inline(always)]
    fn shifted(self, sums: [f64; N], _by: f64) -> [f64; N] {
        sums
    }
    fn empty(self) -> Self::Node;
    fn join(self, left: Self::Node, right: Self::Node) -> Self::Node;
}

/// A sum of elements times their weights, and that of the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weighed {
    pub(crate) sum: f64,
    pub(crate) weight: f64,
}

/// Elements times their weights.
#[derive(Clone, Copy)]
pub(crate) struct WeighedTotal;

impl Weigh<2> for WeighedTotal {
    type Node = Weighed;
    const SHIFTED: bool = false;

    #[inline(always)]
    fn terms(self, x: f64, weight: f64, _: f64) -> [f64; 2] {
        [weight, weight * x]
    }
    #[inline(always)]
    fn node(self, [weight, sum]: [f64; 2], _: f64) -> Weighed {
        Weighed { sum, weight }
    }
    #[inline(always)]
    fn empty(self) -> Weighed {
        Weighed { sum: -0.0, weight: -0.0 }
    }
    #[inline(always)]
    fn join(self, left: Weighed, right: Weighed) -> Weighed {
        Weighed { sum: left.sum + right.sum, weight: left.weight + right.weight }
    }
}

/// Squared distances from the weighted mean, times the weights. The `count` of a node is the sum of
/// the weights, none of which is negative.
#[derive(Clone, Copy)]
pub(crate) struct WeighedDeviation;

impl Weigh<3> for WeighedDeviation {
    type Node = Spread;
    const SHIFTED: bool = true;

    #[inline(always)]
    fn terms(self, x: f64, weight: f64, shift: f64) -> [f64; 3] {
        let distance = x - shift;
        [weight, weight * distance, weight * (distance * distance)]
    }
    #[inline(always)]
    fn node(self, [count, sum, squares]: [f64; 3], shift: f64) -> Spread {
        if count == 0.0 {
            // Of nothing, or of what weighs nothing: a NaN among it stays one.
            return Spread { squares: squares * 0.0, ..self.empty() };
        }
        let mean = sum / count;
        let around = squares - sum * mean;
        // Rounding may leave a little less than nothing.
        let squares = if around < 0.0 && around.is_finite() { 0.0 } else { around };
        Spread { count, mean: Mean { high: shift, low: mean }, squares }
    }
    #[inline(always)]
    fn shifted(self, [count, sum, squares]: [f64; 3], by: f64) -> [f64; 3] {
        [count, sum + count * by, squares + by * (2.0 * sum + count * by)]
    }
    #[inline(always)]
    fn empty(self) -> Spread {
        Spread { count: 0.0, mean: Mean::default(), squares: 0.0 }
    }
    #[inline(always)]
    fn join(self, left: Spread, right: Spread) -> Spread {
        if left.count == 0.0 || right.count == 0.0 {
            let all = if left.count == 0.0 { right } else { left };
            return Spread { squares: left.squares + right.squares, ..all };
        }
        left.joined(right)
    }
}

/// A reduction that adds up such terms.
#[derive(Clone, Copy)]
pub(crate) struct WeighedSums<K, const N: usize>(pub(crate) K);

impl<K: Weigh<N>, const N: usize> Reducer<f64> for WeighedSums<K, N> {
    type Node = K::Node;
    type One = WeighedOne<K, N>;
    type Many = WeighedMany<K, N>;
    const GRAIN: usize = LEAF;
    // Where a null is, no weight is read.
    const NEEDS_VALIDITY: bool = true;

    #[inline(always)]
    fn fill(self) -> f64 {
        -0.0
    }
    #[inline(always)]
    fn empty(self) -> K::Node {
        self.0.empty()
    }
    #[inline(always)]
    fn join(self, left: K::Node, right: K::Node) -> K::Node {
        self.0.join(left, right)
    }
    fn one(self, first: usize) -> WeighedOne<K, N> {
        WeighedOne(self.many(1, first, usize::MAX))
    }
    fn many(self, width: usize, first: usize, _: usize) -> WeighedMany<K, N> {
        debug_assert!(first.is_multiple_of(LEAF));
        WeighedMany {
            terms: self.0,
            width,
            at: 0,
            lanes: std::array::from_fn(|_| memory::filled(-0.0, LANES * width)),
            shifts: memory::filled(0.0, if K::SHIFTED { LANES * width } else { 0 }),
            limits: memory::filled(NO_SHIFT, if K::SHIFTED { LANES * width } else { 0 }),
            tree: Tree::new(width, first / LEAF),
        }
    }
    #[inline(always)]
    fn rows<S: Simd>(
        self,
        simd: S,
        tile: Tile<'_, f64>,
        width: usize,
        out: &mut [K::Node],
        scales: &mut Vec<Scale>,
    ) {
        for (i, out) in out.iter_mut().enumerate() {
            let row = tile.some_rows(i..i + 1, width, width);
            if width > LEAF || K::SHIFTED && !is_calm(row) {
                let mut one = self.one(0);
                one.feed(simd, row);
                let Partial { node, scale } = one.finish();
                debug_assert!(scale == Scale::Plain && scales.is_empty());
                *out = node;
                continue;
            }
            let shift = if K::SHIFTED { row.x.first().copied().unwrap_or(0.0) } else { 0.0 };
            let mut lanes = [[-0.0; LANES]; N];
            add(self.0, row, &[shift; LANES], &mut lanes.each_mut().map(|lanes| &mut lanes[..]));
            *out = self.0.node(lanes.map(fold), shift);
        }
    }
}

/// Whether the first element of a row stays the shift of all of it.
fn is_calm(row: Tile<'_, f64>) -> bool {
    let first = row.weights.and_then(|weights| weights.first()).copied().unwrap_or(0.0);
    let heavy = row.weights.unwrap_or(&[]).iter().any(|weight| *weight > 2.0 * first);
    !heavy && row.valid.is_none_or(|valid| valid[0])
}

/// Below any weight: there is no shift yet.
const NO_SHIFT: f64 = -1.0;

/// Adds the terms of rows that lie one behind the other: element `j` to lane `j` modulo as many as
/// there are.
#[inline(always)]
fn add<K: Weigh<N>, const N: usize>(
    terms: K,
    tile: Tile<'_, f64>,
    shifts: &[f64],
    lanes: &mut [&mut [f64]; N],
) {
    let weights = tile.weights.unwrap_or(&[]);
    let some = lanes[0].len().max(1);
    let pieces = tile.x.chunks(some).zip(weights.chunks(some));
    for (p, (x, weights)) in pieces.enumerate() {
        let valid = tile.valid.map(|valid| &valid[p * some..]);
        for j in 0..x.len().min(weights.len()).min(some) {
            let shift = if K::SHIFTED { shifts[j] } else { 0.0 };
            // A null is no distance apart, so that its weight of zero meets no infinity.
            let is_null = K::SHIFTED && valid.is_some_and(|valid| !valid[j]);
            let one = terms.terms(if is_null { shift } else { x[j] }, weights[j], shift);
            for n in 0..N {
                lanes[n][j] += one[n];
            }
        }
    }
}

/// The running state of many sequences that are weighed.
pub(crate) struct WeighedMany<K: Weigh<N>, const N: usize> {
    terms: K,
    width: usize,
    /// Rows of the open leaf.
    at: usize,
    /// The sums of each term, lane by lane, in each all sequences.
    lanes: [Vec<f64>; N],
    /// The shift of each sequence in the open leaf, as often as there are lanes.
    shifts: Vec<f64>,
    /// What weighs more becomes the shift: twice what that weighs, as often as there are lanes.
    limits: Vec<f64>,
    tree: Tree<K::Node>,
}

impl<K: Weigh<N>, const N: usize> WeighedMany<K, N> {
    /// Whether some elements are heavier than the shifts of their sequences, which then change.
    #[inline(always)]
    fn is_heavy(&self, weights: &[f64]) -> bool {
        weights.iter().zip(&self.limits).fold(false, |any, (w, limit)| any | (w > limit))
    }

    /// Makes the heavy elements of a row the shifts of their sequences.
    fn take_shifts(&mut self, row: Tile<'_, f64>) {
        let (width, weights) = (self.width, row.weights.unwrap_or(&[]));
        for c in 0..width {
            let is_valid = row.valid.is_none_or(|valid| valid[c]);
            let (x, limit) = (row.x[c], self.limits[c]);
            if !is_valid || weights[c] <= limit || weights[c].is_nan() {
                continue;
            }
            for at in (0..LANES).map(|lane| lane * width + c) {
                if limit != NO_SHIFT {
                    let sums = std::array::from_fn(|n| self.lanes[n][at]);
                    let moved = self.terms.shifted(sums, self.shifts[at] - x);
                    (0..N).for_each(|n| self.lanes[n][at] = moved[n]);
                }
                (self.shifts[at], self.limits[at]) = (x, 2.0 * weights[c]);
            }
        }
    }

    /// Makes nodes of the open leaf.
    fn close(&mut self) {
        let (width, lanes) = (self.width, &self.lanes);
        let sum = |n: usize, c: usize| fold(std::array::from_fn(|l| lanes[n][l * width + c]));
        let nodes = (0..width).map(|c| {
            let shift = if K::SHIFTED { self.shifts[c] } else { 0.0 };
            self.terms.node(std::array::from_fn(|n| sum(n, c)), shift)
        });
        let nodes = Nodes::plain(nodes.gather());
        self.tree.push(WeighedSums(self.terms), 1, Some(nodes));
        self.lanes.iter_mut().for_each(|lanes| lanes.fill(-0.0));
        self.shifts.fill(0.0);
        self.limits.fill(NO_SHIFT);
        self.at = 0;
    }
}

impl<K: Weigh<N>, const N: usize> Many<f64, K::Node> for WeighedMany<K, N> {
    fn loosen(&mut self) {
        self.tree = Tree::loose(self.width);
    }

    #[inline(always)]
    fn feed<S: Simd>(&mut self, _: S, tile: Tile<'_, f64>, stride: usize) {
        let width = self.width;
        if width == 0 || tile.x.is_empty() {
            return;
        }
        let rows = (tile.x.len() - width) / stride + 1;
        let mut row = 0;
        while row < rows {
            // Eight rows at once, where they fill all lanes and lie one behind the other.
            let lane = self.at % LANES;
            let mut some =
                if lane == 0 && stride == width && rows - row >= LANES { LANES } else { 1 };
            let mut own = tile.some_rows(row..row + some, width, stride);
            if K::SHIFTED && self.is_heavy(own.weights.unwrap_or(&[])) {
                some = 1;
                own = tile.some_rows(row..row + some, width, stride);
                self.take_shifts(own);
            }
            let at = lane * width..(lane + some) * width;
            let mut lanes = self.lanes.each_mut().map(|lanes| &mut lanes[at.clone()]);
            add(self.terms, own, &self.shifts, &mut lanes);
            self.at += some;
            row += some;
            if self.at == LEAF {
                self.close();
            }
        }
    }

    fn finish(self) -> Nodes<K::Node> {
        let reducer = WeighedSums(self.terms);
        self.into_tree().finish(reducer)
    }

    fn into_tree(mut self) -> Tree<K::Node> {
        if self.at > 0 {
            self.close();
        }
        self.tree
    }
}

/// The running state of one sequence that is weighed.
pub(crate) struct WeighedOne<K: Weigh<N>, const N: usize>(WeighedMany<K, N>);

impl<K: Weigh<N>, const N: usize> One<f64, K::Node> for WeighedOne<K, N> {
    fn loosen(&mut self) {
        self.0.loosen();
    }

    #[inline(always)]
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, f64>) {
        self.0.feed(simd, tile, 1);
    }

    fn finish(self) -> Partial<K::Node> {
        self.0.finish().get(0)
    }

    fn into_tree(self) -> Tree<K::Node> {
        self.0.into_tree()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Deviation, Itself, Portable, Sums};

    fn numbers(count: usize) -> (Vec<f64>, Vec<f64>, Vec<bool>) {
        let random = |i: usize| (i * 7919 % 1009) as f64 / 1009.0;
        let x = (0..count).map(|i| 1e6 + 100.0 * random(i)).collect();
        let weight = |i: usize| if i % 11 == 3 { 0.0 } else { (20.0 * random(3 * i)).exp2() };
        let valid: Vec<bool> = (0..count).map(|i| i % 13 != 0).collect();
        let weights = (0..count).map(|i| if valid[i] { weight(i) } else { 0.0 }).collect();
        (x, weights, valid)
    }

    fn tile<'a>(x: &'a [f64], weights: &'a [f64], valid: &'a [bool]) -> Tile<'a, f64> {
        Tile { x, valid: Some(valid), weights: Some(weights) }
    }

    fn check<K: Weigh<N, Node: PartialEq + std::fmt::Debug>, const N: usize>(terms: K) {
        let reducer = WeighedSums(terms);
        let count = 3000;
        let (x, weights, valid) = numbers(count);
        let mut whole = reducer.one(0);
        whole.feed(Portable, tile(&x, &weights, &valid));
        let whole = whole.finish().node;
        for step in [1, 7, 8, 1000] {
            let mut one = reducer.one(0);
            for from in (0..count).step_by(step) {
                let at = from..count.min(from + step);
                one.feed(Portable, tile(&x[at.clone()], &weights[at.clone()], &valid[at]));
            }
            assert_eq!(one.finish().node, whole, "in steps of {step}");
        }
        // As a column between two others, which lies by rows.
        let wide = |values: &[f64]| values.iter().flat_map(|v| [1.0, *v, 1.0]).collect::<Vec<_>>();
        let valid3: Vec<bool> = valid.iter().flat_map(|v| [true, *v, false]).collect();
        let mut weights3 = wide(&weights);
        weights3.chunks_mut(3).for_each(|row| row[2] = 0.0);
        let x3 = wide(&x);
        let mut many = reducer.many(3, 0, count);
        for from in (0..count).step_by(100) {
            let at = 3 * from..3 * (from + 100);
            let some = tile(&x3[at.clone()], &weights3[at.clone()], &valid3[at]);
            many.feed(Portable, some, 3);
        }
        assert_eq!(many.finish().get(1).node, whole);
        for width in [1, 5, 8, 100, 1500] {
            let rows = count / width;
            let mut nodes = vec![reducer.empty(); rows];
            let some = tile(&x[..rows * width], &weights[..rows * width], &valid[..rows * width]);
            reducer.rows(Portable, some, width, &mut nodes, &mut Vec::new());
            for (row, node) in nodes.into_iter().enumerate() {
                let at = row * width..(row + 1) * width;
                let mut one = reducer.one(0);
                one.feed(Portable, tile(&x[at.clone()], &weights[at.clone()], &valid[at]));
                assert_eq!(one.finish().node, node, "row {row} of {width}");
            }
        }
    }

    #[test]
    fn sequences_columns_and_rows_agree_to_the_bit() {
        check(WeighedTotal);
        check(WeighedDeviation);
    }

    #[test]
    fn weights_of_one_are_the_sums_without_any() {
        let (x, ..) = numbers(2500);
        let ones = vec![1.0; x.len()];
        let weighed = Tile { x: &x, valid: None, weights: Some(&ones) };
        let plain = Tile { x: &x, valid: None, weights: None };
        let mut own = WeighedSums(WeighedDeviation).one(0);
        own.feed(Portable, weighed);
        let mut other = Reducer::<f64>::one(Sums(Deviation), 0);
        other.feed(Portable, plain);
        assert_eq!(own.finish().node, One::<f64, Spread>::finish(other).node);
        let mut own = WeighedSums(WeighedTotal).one(0);
        own.feed(Portable, weighed);
        let mut other = Reducer::<f64>::one(Sums(Itself), 0);
        other.feed(Portable, plain);
        let Weighed { sum, weight } = own.finish().node;
        assert_eq!((sum, weight), (One::<f64, f64>::finish(other).node, 2500.0));
    }
}
