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
//! [`Sequence`] sums one sequence of contiguous elements, [`Interleaved`] many sequences that lie
//! row by row. Both may be fed in pieces of any length; both give the same bits for the same
//! sequence. A task that starts at a leaf whose index is a multiple of 2ᵏ and takes 2ᵏ leaves
//! computes a whole node, so [`Tree`] joins the results of tasks as it joins leaves.

use super::{Element, LANES, Simd, fold};

/// Elements of a leaf. Fixed for ever: it defines the order of additions.
/// 1024 keeps the four streams of [`Sequence::feed`] a page apart (docs/perf/lanes.md).
pub(crate) const LEAF: usize = 1024;

/// Leaves summed at once: four chains of additions hide the latency of one.
const TOGETHER: usize = 4;

/// Columns that are summed at once: one lane of them is 16 KiB, half an L1; all eight lie in L2.
pub(crate) const COLUMN_BLOCK: usize = 2048;

/// Rows of one lane that are added before its sums are stored again: four rows are as many
/// streams as every prefetcher follows.
const ROWS_OF_LANE: usize = 4;

/// Widths from which rows are taken lane by lane; narrower ones go in the order they lie.
const WIDE: usize = 32;

/// Joins leaves `width` sums wide, in the order of their index.
pub(crate) struct Tree {
    width: usize,
    leaves: usize,
    stack: Vec<f64>,
}

impl Tree {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, leaves: 0, stack: Vec::new() }
    }

    /// Adds the next node of the lowest level.
    pub(crate) fn push(&mut self, node: &[f64]) {
        debug_assert_eq!(node.len(), self.width);
        self.stack.extend_from_slice(node);
        let mut whole = self.leaves;
        while whole & 1 == 1 {
            self.join_top();
            whole >>= 1;
        }
        self.leaves += 1;
    }

    /// The sums over everything pushed; −0.0 if nothing was.
    pub(crate) fn finish(mut self) -> Vec<f64> {
        if self.leaves == 0 {
            return vec![-0.0; self.width];
        }
        while self.stack.len() > self.width {
            self.join_top();
        }
        self.stack
    }

    fn join_top(&mut self) {
        let right = self.stack.len() - self.width;
        let (rest, top) = self.stack.split_at_mut(right);
        let left = &mut rest[right - self.width..];
        for (l, r) in left.iter_mut().zip(top) {
            *l += *r;
        }
        self.stack.truncate(right);
    }
}

/// The running sum of one sequence.
pub(crate) struct Sequence {
    lanes: [f64; LANES],
    /// Elements in the open leaf.
    filled: usize,
    leaves: usize,
    /// One entry per set bit of `leaves`: the deepest tree has 64 levels.
    stack: [f64; 64],
    depth: usize,
}

impl Sequence {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { lanes: [-0.0; LANES], filled: 0, leaves: 0, stack: [0.0; 64], depth: 0 }
    }

    #[inline(always)]
    pub(crate) fn feed<T: Element, S: Simd>(&mut self, simd: S, mut x: &[T]) {
        while !x.is_empty() {
            if self.filled == 0 && x.len() >= TOGETHER * LEAF {
                let (group, rest) = x.split_at(TOGETHER * LEAF);
                for sum in leaves_together(simd, group) {
                    self.push(sum);
                }
                x = rest;
                continue;
            }
            let take = (LEAF - self.filled).min(x.len());
            let (now, rest) = x.split_at(take);
            self.lanes = add_to_lanes(simd, self.lanes, self.filled, now);
            self.filled += take;
            if self.filled == LEAF {
                self.close();
            }
            x = rest;
        }
    }

    /// The sum of everything fed; −0.0 if nothing was.
    #[inline(always)]
    pub(crate) fn finish(mut self) -> f64 {
        if self.filled > 0 {
            self.close();
        }
        let Some(mut depth) = self.depth.checked_sub(1) else { return -0.0 };
        let mut sum = self.stack[depth];
        while depth > 0 {
            depth -= 1;
            sum += self.stack[depth];
        }
        sum
    }

    #[inline(always)]
    fn close(&mut self) {
        let sum = fold(self.lanes);
        self.lanes = [-0.0; LANES];
        self.filled = 0;
        self.push(sum);
    }

    #[inline(always)]
    fn push(&mut self, mut sum: f64) {
        let mut whole = self.leaves;
        while whole & 1 == 1 {
            self.depth -= 1;
            sum += self.stack[self.depth];
            whole >>= 1;
        }
        self.stack[self.depth] = sum;
        self.depth += 1;
        self.leaves += 1;
    }
}

/// The sums of four whole leaves that lie one behind the other.
#[inline(always)]
fn leaves_together<T: Element, S: Simd>(simd: S, x: &[T]) -> [f64; TOGETHER] {
    let (a, x) = x.split_at(LEAF);
    let (b, x) = x.split_at(LEAF);
    let (c, d) = x.split_at(LEAF);
    let mut acc = [simd.splat(-0.0); TOGETHER];
    for (((a, b), c), d) in eights(a).iter().zip(eights(b)).zip(eights(c)).zip(eights(d)) {
        acc[0] = simd.add(acc[0], T::load(simd, a));
        acc[1] = simd.add(acc[1], T::load(simd, b));
        acc[2] = simd.add(acc[2], T::load(simd, c));
        acc[3] = simd.add(acc[3], T::load(simd, d));
    }
    let [a, b, c, d] = acc;
    [fold(simd.store(a)), fold(simd.store(b)), fold(simd.store(c)), fold(simd.store(d))]
}

/// Adds `x`, whose first element is number `at` of its leaf, to the lanes.
#[inline(always)]
pub(crate) fn add_to_lanes<T: Element, S: Simd>(
    simd: S,
    mut lanes: [f64; LANES],
    at: usize,
    x: &[T],
) -> [f64; LANES] {
    let first = at % LANES;
    let head = if first == 0 { 0 } else { (LANES - first).min(x.len()) };
    let (head, x) = x.split_at(head);
    for (lane, v) in lanes[first..].iter_mut().zip(head) {
        *lane += v.widen();
    }
    let (body, tail) = x.as_chunks::<LANES>();
    let mut acc = simd.load(&lanes);
    for eight in body {
        acc = simd.add(acc, T::load(simd, eight));
    }
    if !tail.is_empty() {
        acc = simd.add(acc, T::load(simd, &padded(tail)));
    }
    simd.store(acc)
}

/// Fewer than eight elements, followed by neutral ones.
#[inline(always)]
pub(crate) fn padded<T: Element>(tail: &[T]) -> [T; LANES] {
    let mut eight = [T::NEUTRAL; LANES];
    eight[..tail.len()].copy_from_slice(tail);
    eight
}

#[inline(always)]
pub(crate) fn eights<T>(x: &[T]) -> &[[T; LANES]] {
    x.as_chunks::<LANES>().0
}

/// The running sums of `width` sequences that lie row by row: row `r` holds element `r` of each.
pub(crate) struct Interleaved {
    width: usize,
    /// Lane `l` of sequence `c` is `lanes[l * width + c]`: eight rows are one contiguous run.
    lanes: Vec<f64>,
    filled: usize,
    tree: Tree,
}

impl Interleaved {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, lanes: vec![-0.0; LANES * width], filled: 0, tree: Tree::new(width) }
    }

    /// Takes the next rows: `x` holds their first columns, each `stride` elements after the last.
    #[inline(always)]
    pub(crate) fn feed<T: Element, S: Simd>(&mut self, simd: S, x: &[T], stride: usize) {
        let width = self.width;
        if width == 0 {
            return;
        }
        let mut x = x;
        while !x.is_empty() {
            let room = LEAF - self.filled;
            let rows = (x.len() + stride - width) / stride;
            let block = LANES * ROWS_OF_LANE;
            if width >= WIDE && self.filled.is_multiple_of(LANES) && rows.min(room) >= block {
                add_lane_by_lane(simd, &mut self.lanes, x, width, stride);
                self.advance(block);
                x = x.get(block * stride..).unwrap_or(&[]);
            } else if stride == width
                && self.filled.is_multiple_of(LANES)
                && rows.min(room) >= LANES
            {
                let take = rows.min(room) / LANES * LANES;
                let (now, rest) = x.split_at(take * width);
                add_whole_lanes(simd, &mut self.lanes, now, width);
                self.advance(take);
                x = rest;
            } else {
                let lane = self.filled % LANES * width;
                add_into(simd, &mut self.lanes[lane..lane + width], &x[..width]);
                self.advance(1);
                x = x.get(stride..).unwrap_or(&[]);
            }
        }
    }

    /// The sums of everything fed; −0.0 where nothing was.
    pub(crate) fn finish(mut self) -> Vec<f64> {
        if self.filled > 0 {
            self.close();
        }
        self.tree.finish()
    }

    #[inline(always)]
    fn advance(&mut self, rows: usize) {
        self.filled += rows;
        if self.filled == LEAF {
            self.close();
        }
    }

    fn close(&mut self) {
        let width = self.width;
        let mut half = LANES / 2;
        while half > 0 {
            let (low, high) = self.lanes.split_at_mut(half * width);
            for (l, h) in low.iter_mut().zip(high.iter()) {
                *l += *h;
            }
            half /= 2;
        }
        self.tree.push(&self.lanes[..width]);
        self.lanes.fill(-0.0);
        self.filled = 0;
    }
}

/// Adds `x` to as many accumulators, element by element.
#[inline(always)]
fn add_into<T: Element, S: Simd>(simd: S, acc: &mut [f64], x: &[T]) {
    let (acc8, acc_tail) = acc.as_chunks_mut::<LANES>();
    let (x8, x_tail) = x.as_chunks::<LANES>();
    for (a, x) in acc8.iter_mut().zip(x8) {
        *a = simd.store(simd.add(simd.load(a), T::load(simd, x)));
    }
    for (a, x) in acc_tail.iter_mut().zip(x_tail) {
        *a += x.widen();
    }
}

/// Adds the next 32 rows, all rows of a lane before the next lane. In the order they lie, each
/// row would load and store the sums of its lane; and a block of columns narrow enough to keep
/// all lanes in L1 reads pieces too short to be prefetched (docs/perf/lanes.md).
#[inline(always)]
fn add_lane_by_lane<T: Element, S: Simd>(
    simd: S,
    lanes: &mut [f64],
    x: &[T],
    width: usize,
    stride: usize,
) {
    for (lane, acc) in lanes.chunks_exact_mut(width).enumerate() {
        let row = |i: usize| {
            let at = (lane + i * LANES) * stride;
            &x[at..at + width]
        };
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (sums, sums_tail) = acc.as_chunks_mut::<LANES>();
        let rows = eights(a).iter().zip(eights(b)).zip(eights(c)).zip(eights(d));
        for (sum, (((a, b), c), d)) in sums.iter_mut().zip(rows) {
            let mut v = simd.load(sum);
            v = simd.add(v, T::load(simd, a));
            v = simd.add(v, T::load(simd, b));
            v = simd.add(v, T::load(simd, c));
            v = simd.add(v, T::load(simd, d));
            *sum = simd.store(v);
        }
        for (i, sum) in sums_tail.iter_mut().enumerate() {
            let at = width / LANES * LANES + i;
            for row in [a, b, c, d] {
                *sum += row[at].widen();
            }
        }
    }
}

/// Adds whole groups of eight contiguous rows. Narrow rows keep their lanes in registers: through
/// memory each group would wait for the stores of the last.
#[inline(always)]
fn add_whole_lanes<T: Element, S: Simd>(simd: S, lanes: &mut [f64], x: &[T], width: usize) {
    match width {
        1 => in_registers::<T, S, 1>(simd, lanes, x),
        2 => in_registers::<T, S, 2>(simd, lanes, x),
        3 => in_registers::<T, S, 3>(simd, lanes, x),
        4 => in_registers::<T, S, 4>(simd, lanes, x),
        5 => in_registers::<T, S, 5>(simd, lanes, x),
        6 => in_registers::<T, S, 6>(simd, lanes, x),
        7 => in_registers::<T, S, 7>(simd, lanes, x),
        8 => in_registers::<T, S, 8>(simd, lanes, x),
        _ => {
            for group in x.chunks_exact(LANES * width) {
                add_into(simd, lanes, group);
            }
        }
    }
}

#[inline(always)]
fn in_registers<T: Element, S: Simd, const W: usize>(simd: S, lanes: &mut [f64], x: &[T]) {
    let (acc_out, _) = lanes.as_chunks_mut::<LANES>();
    let mut acc: [S::V; W] = std::array::from_fn(|w| simd.load(&acc_out[w]));
    let (groups, _) = eights(x).as_chunks::<W>();
    for group in groups {
        for w in 0..W {
            acc[w] = simd.add(acc[w], T::load(simd, &group[w]));
        }
    }
    for (out, v) in acc_out.iter_mut().zip(acc) {
        *out = simd.store(v);
    }
}
