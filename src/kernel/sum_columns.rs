//! Ordered sums of many sequences that lie row by row, in the order of [`super::sum`].
//!
//! ```text
//! for each leaf of 1024 rows:
//!     for each row r:   lanes[r mod 8][c] += x[r][c]     for all columns c, eight at once
//!     nodes[c] = fold of lanes[0..8][c];   push(nodes)
//! ```
//!
//! Eight rows fill eight lanes, so eight contiguous rows are one long row that is added to one long
//! row of sums; wide rows are taken lane by lane instead, four rows of a lane at a time. Where the
//! lanes of a column are in doubt after a piece of a leaf (see [`super::scale`]), its elements are
//! added again to a leaf of its own, and the column stays apart until the leaf ends.

use super::leaf::OpenLeaf;
use super::reducer::{Many, Tile, Tree};
use super::scale::{Nodes, Partial, Scale};
use super::sum::{LEAF, Sums, eights, plus};
use super::terms::Terms;
use super::width::by_width;
use super::{Element, LANES, Simd, fold};
use crate::memory::{self, Gather as _};

/// Columns that are summed at once: one lane of them is 16 KiB, half an L1; all eight lie in L2.
pub(crate) const COLUMN_BLOCK: usize = 2048;

/// Rows of one lane that are added before its sums are stored again: four rows are as many
/// streams as every prefetcher follows.
const ROWS_OF_LANE: usize = 4;

/// Widths from which rows are taken lane by lane; narrower ones go in the order they lie.
const WIDE: usize = 32;

/// Rows of a column that are added again at once, so that they are in the cache for the next one.
const ROWS_AGAIN: usize = 32;

/// The running sums of `width` sequences: row `r` holds element `r` of each.
pub(crate) struct ColumnSums<K: Terms<N>, const N: usize> {
    terms: K,
    width: usize,
    /// Lanes and rows of a leaf; half of both where only every other row comes.
    lane_count: usize,
    leaf: usize,
    /// Lane `l` of sequence `c` is `lanes[n][l * width + c]`: eight rows are one contiguous run.
    /// No more lanes than the open leaf has rows.
    lanes: [Vec<f64>; N],
    /// The lanes before the piece at hand, if they were not empty and may be needed again.
    before: [Vec<f64>; N],
    /// Of shifted terms: one after the other for each lane, so that eight rows are one run too, the
    /// first valid element of each sequence in the open leaf.
    shifts: Vec<f64>,
    /// Of shifted terms: how many elements of each sequence are valid in the open leaf. Empty
    /// while all are.
    valid: Vec<u32>,
    filled: usize,
    /// Whether lanes in doubt are looked after; else the columns are only noted.
    is_watched: bool,
    doubtful: Vec<bool>,
    /// Columns whose lanes are in doubt, in order, with a leaf of their own.
    apart: Vec<(usize, OpenLeaf<K, N>)>,
    /// Columns that have a NaN, so that nothing else matters; none until there is one.
    has_nan: Vec<bool>,
    /// The elements of each sequence, if they are no more than there are lanes.
    short: Option<usize>,
    /// The nodes, if such sequences came in one piece and no lanes had to be kept.
    nodes: Option<Nodes<K::Node>>,
    tree: Tree<K::Node>,
}

impl<K: Terms<N>, const N: usize> ColumnSums<K, N> {
    pub(crate) fn new(terms: K, width: usize, first: usize, len: usize) -> Self {
        Self {
            terms,
            width,
            lane_count: LANES,
            leaf: LEAF,
            lanes: std::array::from_fn(|_| Vec::new()),
            before: std::array::from_fn(|_| Vec::new()),
            shifts: Vec::new(),
            valid: Vec::new(),
            filled: 0,
            is_watched: true,
            doubtful: Vec::new(),
            apart: Vec::new(),
            has_nan: Vec::new(),
            short: (!K::SHIFTED && N == 1 && len <= LANES).then_some(len),
            nodes: None,
            tree: Tree::new(width, first / LEAF),
        }
    }

    /// The sums of every other row of one leaf, from its first or its second on. [`fold`] joins
    /// the even lanes, and the odd ones, before it joins both: so a half is a node where nodes are
    /// sums.
    pub(crate) fn half(terms: K, width: usize) -> Self {
        let all = Self::new(terms, width, 0, LEAF);
        Self { lane_count: LANES / 2, leaf: LEAF / 2, ..all }
    }

    /// The same, of which [`finish_unwatched`](Many::finish_unwatched) says what is in doubt.
    pub(crate) fn unwatched(terms: K, width: usize) -> Self {
        Self { is_watched: false, ..Self::new(terms, width, 0, usize::MAX) }
    }

    /// Takes all rows of sequences that have one element a lane at most: the lanes are joined while
    /// they are in registers.
    #[inline(always)]
    fn feed_short<T: Element, S: Simd>(&mut self, simd: S, x: &[T], stride: usize, rows: usize) {
        let (terms, width) = (self.terms, self.width);
        let zero = simd.splat(0.0);
        let mut all = memory::filled(terms.empty(), width);
        let (eights, tail) = all.as_chunks_mut::<LANES>();
        for (i, nodes) in eights.iter_mut().enumerate() {
            let mut lanes = [simd.splat(-0.0); LANES];
            for r in 0..LANES {
                if r < rows
                    && let Some(x) = x[r * stride + i * LANES..].first_chunk()
                {
                    lanes[r] = terms.eight(simd, T::load(simd, x), zero)[0];
                }
            }
            let [a, b, c, d, e, f, g, h] = lanes;
            let first = simd.add(simd.add(a, e), simd.add(c, g));
            let second = simd.add(simd.add(b, f), simd.add(d, h));
            let sums = simd.store(simd.add(first, second));
            for l in 0..LANES {
                nodes[l] = terms.node([sums[l]; N], 0.0, rows as f64);
            }
        }
        for (i, node) in tail.iter_mut().enumerate() {
            let at = width / LANES * LANES + i;
            let mut lanes = [-0.0; LANES];
            for (r, lane) in lanes.iter_mut().enumerate().take(rows) {
                *lane = terms.one(x[r * stride + at].widen(), 0.0)[0];
            }
            *node = terms.node([fold(lanes); N], 0.0, rows as f64);
        }
        let mut all = Nodes::plain(all);
        let is_safe = |node: &K::Node| terms.fits(node) & terms.is_large(node);
        if T::NEEDS_SCALE && !all.nodes.iter().fold(true, |safe, node| safe & is_safe(node)) {
            for c in (0..width).filter(|c| !is_safe(&all.nodes[*c])).gather() {
                let mut leaf = OpenLeaf::new(terms);
                leaf.feed_carefully(&column(x, c, stride, 0..rows), None);
                all.set(c, leaf.close::<T>());
            }
        }
        self.nodes = Some(all);
    }

    /// Reserves memory for rows of the open leaf up to number `rows`.
    #[inline(always)]
    fn grow(&mut self, rows: usize) {
        let wanted = rows.min(self.lane_count) * self.width;
        if self.lanes[0].len() < wanted {
            self.lanes.iter_mut().for_each(|lanes| memory::resize(lanes, wanted, -0.0));
        }
        if K::SHIFTED && self.shifts.len() < wanted {
            let len = self.shifts.len();
            memory::reserve(&mut self.shifts, wanted - len);
            memory::resize(&mut self.shifts, self.width.max(len), 0.0);
            while self.shifts.len() < wanted {
                self.shifts.extend_from_within(..self.width);
            }
        }
    }

    /// Begins a leaf whose first row is valid throughout.
    #[inline(always)]
    fn shift_by<T: Element>(&mut self, row: &[T]) {
        for (shift, x) in self.shifts.iter_mut().zip(row) {
            *shift = x.widen();
        }
        for lane in 1..self.shifts.len() / self.width {
            self.shifts.copy_within(..self.width, lane * self.width);
        }
    }

    /// Takes one row of which some elements are null.
    #[inline(always)]
    fn feed_masked<T: Element>(&mut self, x: &[T], valid: &[bool]) {
        let width = self.width;
        if self.valid.is_empty() {
            memory::resize(&mut self.valid, width, self.filled as u32);
        }
        let lane = self.filled % self.lane_count * width;
        for (c, (x, _)) in x.iter().zip(valid).enumerate().filter(|(_, (_, valid))| **valid) {
            if self.valid[c] == 0 {
                for lane in 0..self.shifts.len() / width {
                    self.shifts[lane * width + c] = x.widen();
                }
            }
            self.valid[c] += 1;
            let one = self.terms.one(x.widen(), self.shifts[c]);
            for n in 0..N {
                self.lanes[n][lane + c] += one[n];
            }
        }
        self.filled += 1;
    }

    #[inline(always)]
    fn advance(&mut self, rows: usize) {
        self.filled += rows;
        self.valid.iter_mut().for_each(|valid| *valid = valid.wrapping_add(rows as u32));
    }

    /// Takes rows of the open leaf of which some elements are null. Rows in which a sequence has its
    /// first valid element, and so its shift, are taken one by one; in all others nulls hold the
    /// shift, whose terms are zero.
    #[inline(always)]
    fn feed_nulls<T: Element, S: Simd>(&mut self, simd: S, x: &[T], valid: &[bool], stride: usize) {
        let width = self.width;
        let rows = rows_of(x, width, stride);
        if self.valid.is_empty() {
            memory::resize(&mut self.valid, width, self.filled as u32);
        }
        let open = (0..width).filter(|c| self.valid[*c] == 0);
        let first = |c: usize| (0..rows).find(|r| valid[r * stride + c]);
        let mut firsts: Vec<usize> = open.filter_map(first).gather();
        firsts.sort_unstable();
        firsts.dedup();
        memory::push(&mut firsts, rows);
        let mut next = 0;
        let mut held = Vec::new();
        for first in firsts {
            memory::resize(&mut held, first.saturating_sub(next) * width, T::default());
            let (shifts, counts) = (&self.shifts[..width], &mut self.valid[..width]);
            for r in next..first {
                let at = r * stride..r * stride + width;
                let (x, valid) = (&x[at.clone()], &valid[at]);
                let row = (r - next) * width..(r - next + 1) * width;
                let row = &mut held[row];
                // What a sequence without a valid element has for a shift does not matter.
                for c in 0..width {
                    let shift = T::from_number(shifts[c]).unwrap_or_default();
                    row[c] = if valid[c] { x[c] } else { shift };
                }
                for c in 0..width {
                    counts[c] = counts[c].wrapping_sub(u32::from(!valid[c]));
                }
            }
            self.add_rows(simd, &held, width);
            if first < rows {
                let at = first * stride..first * stride + width;
                self.feed_masked(&x[at.clone()], &valid[at]);
            }
            next = first + 1;
        }
    }

    /// Takes rows of the open leaf that have no null, or hold the neutral value.
    #[inline(always)]
    fn feed_dense<T: Element, S: Simd>(&mut self, simd: S, mut x: &[T], stride: usize) {
        let width = self.width;
        if K::SHIFTED && self.filled == 0 {
            self.shift_by(&x[..width]);
        }
        // Sequences that had only nulls so far find their shift in this row.
        while K::SHIFTED && !x.is_empty() && self.valid.contains(&0) {
            self.feed_masked(&x[..width], &memory::filled(true, width));
            x = x.get(stride..).unwrap_or(&[]);
        }
        self.add_rows(simd, x, stride);
    }

    /// Adds rows of the open leaf, whose shifts are known.
    #[inline(always)]
    fn add_rows<T: Element, S: Simd>(&mut self, simd: S, mut x: &[T], stride: usize) {
        let width = self.width;
        while !x.is_empty() {
            let rows = rows_of(x, width, stride);
            let lane_count = self.lane_count;
            let block = lane_count * ROWS_OF_LANE;
            let (terms, shifts) = (self.terms, &self.shifts);
            if width >= WIDE && self.filled.is_multiple_of(lane_count) && rows >= block {
                let shape = (lane_count, width, stride);
                add_lane_by_lane(terms, simd, &mut self.lanes, shifts, x, shape);
                self.advance(block);
                x = x.get(block * stride..).unwrap_or(&[]);
            } else if stride == width
                && lane_count == LANES
                && self.filled.is_multiple_of(LANES)
                && rows >= LANES
            {
                let take = rows / LANES * LANES;
                let (now, rest) = x.split_at(take * width);
                add_whole_lanes(terms, simd, &mut self.lanes, shifts, now, width);
                self.advance(take);
                x = rest;
            } else {
                let lane = self.filled % lane_count * width;
                let at = lane..lane + width;
                add_into(terms, simd, &mut self.lanes, at, shifts, &x[..width]);
                self.advance(1);
                x = x.get(stride..).unwrap_or(&[]);
            }
        }
    }

    /// The sums of term `n` in the open leaf, lanes joined as by [`fold`]: those that are not there
    /// hold the neutral value.
    fn folded(&self, n: usize) -> Vec<f64> {
        let width = self.width;
        let mut sums = memory::copied(&self.lanes[n]);
        let mut half = self.lane_count / 2;
        while half > 0 {
            let middle = (half * width).min(sums.len());
            let (low, high) = sums.split_at_mut(middle);
            for (l, h) in low.iter_mut().zip(high.iter()) {
                *l += *h;
            }
            half /= 2;
        }
        sums.truncate(width);
        sums
    }

    fn shift(&self, c: usize) -> f64 {
        if K::SHIFTED { self.shifts[c] } else { 0.0 }
    }

    /// Whether no column is in doubt.
    #[inline(always)]
    fn is_sure(&self, sums: &[f64]) -> bool {
        let (terms, shifts) = (self.terms, &self.shifts);
        if K::SHIFTED {
            let pairs = sums.iter().zip(shifts);
            return pairs.fold(true, |sure, (sum, shift)| sure & terms.is_sure(*sum, *shift));
        }
        sums.iter().fold(true, |sure, sum| sure & terms.is_sure(*sum, 0.0))
    }

    /// Takes rows of the open leaf again where their plain sums leave doubt, or did so before.
    #[cold]
    #[inline(never)]
    fn feed_apart<T: Element>(
        &mut self,
        tile: Tile<'_, T>,
        stride: usize,
        from: usize,
        sums: &[f64],
    ) {
        let (terms, width) = (self.terms, self.width);
        let rows = rows_of(tile.x, width, stride);
        let step = LANES / self.lane_count;
        let mut open: Vec<usize> =
            (0..width).filter(|c| !terms.is_sure(sums[*c], self.shift(*c))).gather();
        open.retain(|c| !self.has_nan.get(*c).is_some_and(|has_nan| *has_nan));
        open.retain(|c| self.apart.binary_search_by_key(c, |(c, _)| *c).is_err());
        if !open.is_empty() {
            // One look at all columns, row by row: is there a NaN, or anything but zero terms?
            let (mut has_nan, mut has_terms) =
                (memory::filled(false, width), memory::filled(false, width));
            for row in tile.x.chunks(stride) {
                for (c, x) in row[..width].iter().enumerate() {
                    has_nan[c] |= x.is_nan();
                    has_terms[c] |= x.widen() != if K::SHIFTED { self.shifts[c] } else { 0.0 };
                }
            }
            memory::resize(&mut self.has_nan, width, false);
            open.retain(|c| {
                self.has_nan[*c] = has_nan[*c];
                has_terms[*c] && !has_nan[*c]
            });
        }
        for c in open {
            let seen = tile.valid.map_or(rows, |valid| {
                valid[c..].iter().step_by(stride).filter(|valid| **valid).count()
            });
            let valid = self.valid.get(c).map_or(self.filled, |valid| *valid as usize) - seen;
            let lane = |n: usize, l: usize| {
                if from == 0 {
                    -0.0
                } else {
                    self.before[n].get(l * width + c).copied().unwrap_or(-0.0)
                }
            };
            let leaf = OpenLeaf::resumed(terms, lane, (self.shift(c), valid, from, step));
            memory::push(&mut self.apart, (c, leaf));
        }
        self.apart.sort_unstable_by_key(|(c, _)| *c);
        for first in (0..rows).step_by(ROWS_AGAIN) {
            let some = first..rows.min(first + ROWS_AGAIN);
            for (c, leaf) in &mut self.apart {
                let valid = tile.valid.map(|valid| column(valid, *c, stride, some.clone()));
                leaf.feed_carefully(&column(tile.x, *c, stride, some.clone()), valid.as_deref());
            }
        }
    }

    /// Ends the leaf, of which `last` is the sum of the last term.
    fn close<T: Element>(&mut self, last: Vec<f64>) {
        let terms = self.terms;
        let mut sums: [Vec<f64>; N] =
            std::array::from_fn(|n| if n < N - 1 { self.folded(n) } else { Vec::new() });
        sums[N - 1] = last;
        let nodes = (0..self.width).map(|c| {
            let count = self.valid.get(c).map_or(self.filled, |valid| *valid as usize);
            terms.node(std::array::from_fn(|n| sums[n][c]), self.shift(c), count as f64)
        });
        let mut nodes = Nodes::plain(nodes.gather());
        let is_safe = |node: &K::Node| terms.fits(node) & terms.is_large(node);
        if T::NEEDS_SCALE && !self.is_watched {
            if !nodes.nodes.iter().fold(true, |all, node| all & is_safe(node)) {
                memory::resize(&mut self.doubtful, self.width, false);
                let each = self.doubtful.iter_mut().zip(&nodes.nodes);
                each.for_each(|(doubtful, node)| *doubtful |= !is_safe(node));
            }
        } else if T::NEEDS_SCALE {
            // What is small and not apart has zero terms: any scale is right, and the lowest does
            // not hide what comes.
            let is_large = nodes.nodes.iter().fold(true, |all, node| all & terms.is_large(node));
            if !is_large {
                for c in 0..self.width {
                    let node = nodes.nodes[c];
                    if terms.fits(&node) && !terms.is_large(&node) {
                        let node = terms.rescaled(node, Scale::Up.power());
                        nodes.set(c, Partial { node, scale: Scale::Up });
                    }
                }
            }
            for (c, mut leaf) in self.apart.drain(..) {
                nodes.set(c, leaf.close::<T>());
            }
        }
        Tree::push::<T, _>(&mut self.tree, Sums(terms), 1, Some(nodes));
        self.lanes.iter_mut().for_each(|lanes| lanes.fill(-0.0));
        self.valid.clear();
        self.filled = 0;
    }
}

impl<T: Element, K: Terms<N>, const N: usize> Many<T, K::Node> for ColumnSums<K, N> {
    fn loosen(&mut self) {
        self.tree = Tree::loose(self.width);
    }

    #[inline(always)]
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>, stride: usize) {
        let width = self.width;
        if width == 0 || tile.x.is_empty() {
            return;
        }
        let rows = rows_of(tile.x, width, stride);
        if self.short == Some(rows) && self.filled == 0 {
            return self.feed_short(simd, tile.x, stride, rows);
        }
        let mut next = 0;
        while next < rows {
            let (from, take) = (self.filled, (rows - next).min(self.leaf - self.filled));
            let piece = tile.some_rows(next..next + take, width, stride);
            self.grow(from + take);
            if T::NEEDS_SCALE && self.is_watched && from > 0 {
                for (before, lanes) in self.before.iter_mut().zip(&self.lanes) {
                    before.clear();
                    memory::extend_from_slice(before, lanes);
                }
            }
            match piece.valid {
                Some(valid) if K::SHIFTED => self.feed_nulls(simd, piece.x, valid, stride),
                _ => self.feed_dense(simd, piece.x, stride),
            }
            let ends = self.filled == self.leaf;
            let is_watched = T::NEEDS_SCALE && self.is_watched;
            if is_watched || ends {
                let last = self.folded(N - 1);
                if is_watched && !(self.apart.is_empty() && self.is_sure(&last)) {
                    self.feed_apart(piece, stride, from, &last);
                }
                if ends {
                    self.close::<T>(last);
                }
            }
            next += take;
        }
    }

    /// The nodes of everything fed.
    fn finish(mut self) -> Nodes<K::Node> {
        if self.filled > 0 {
            self.close::<T>(self.folded(N - 1));
        }
        match self.nodes {
            Some(nodes) => nodes,
            None => Tree::finish::<T, _>(self.tree, Sums(self.terms)),
        }
    }

    fn into_tree(mut self) -> Tree<K::Node> {
        if self.filled > 0 {
            self.close::<T>(self.folded(N - 1));
        }
        if let Some(nodes) = self.nodes {
            Tree::push::<T, _>(&mut self.tree, Sums(self.terms), 1, Some(nodes));
        }
        self.tree
    }

    fn finish_unwatched(mut self) -> (Nodes<K::Node>, Vec<usize>) {
        if self.filled > 0 {
            self.close::<T>(self.folded(N - 1));
        }
        let doubtful = std::mem::take(&mut self.doubtful);
        let doubtful = doubtful.iter().enumerate().filter(|(_, doubtful)| **doubtful);
        let doubtful = doubtful.map(|(c, _)| c).gather();
        (Many::<T, K::Node>::finish(self), doubtful)
    }
}

/// How many rows of `width` elements, each `stride` after the last, there are.
#[inline(always)]
fn rows_of<T>(x: &[T], width: usize, stride: usize) -> usize {
    (x.len() + stride - width) / stride
}

/// Some elements of a column.
fn column<T: Copy>(x: &[T], c: usize, stride: usize, rows: std::ops::Range<usize>) -> Vec<T> {
    rows.map(|r| x[r * stride + c]).gather()
}

/// The shifts of eight sequences, where terms have any.
#[inline(always)]
fn shift_of<K: Terms<N>, S: Simd, const N: usize>(simd: S, shifts: &[f64], at: usize) -> S::V {
    match shifts.get(at..).and_then(|shifts| shifts.first_chunk()) {
        Some(eight) if K::SHIFTED => simd.load(eight),
        _ => simd.splat(0.0),
    }
}

/// Adds the terms of one element to accumulator `at`.
#[inline(always)]
fn add_one<K: Terms<N>, const N: usize>(
    terms: K,
    lanes: &mut [Vec<f64>; N],
    at: usize,
    shifts: &[f64],
    x: f64,
) {
    let one = terms.one(x, if K::SHIFTED { shifts[at] } else { 0.0 });
    for n in 0..N {
        lanes[n][at] += one[n];
    }
}

/// Eight accumulators from `at` on.
#[inline(always)]
fn loaded<S: Simd, const N: usize>(simd: S, lanes: &[Vec<f64>; N], at: usize) -> [S::V; N] {
    let mut acc = [simd.splat(0.0); N];
    for n in 0..N {
        if let Some(eight) = lanes[n][at..].first_chunk() {
            acc[n] = simd.load(eight);
        }
    }
    acc
}

#[inline(always)]
fn put<S: Simd, const N: usize>(simd: S, lanes: &mut [Vec<f64>; N], at: usize, acc: [S::V; N]) {
    for n in 0..N {
        if let Some(eight) = lanes[n][at..].first_chunk_mut() {
            *eight = simd.store(acc[n]);
        }
    }
}

/// Adds `x` to the accumulators `at`, element by element.
#[inline(always)]
fn add_into<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    lanes: &mut [Vec<f64>; N],
    at: std::ops::Range<usize>,
    shifts: &[f64],
    x: &[T],
) {
    let (x8, tail) = x.as_chunks::<LANES>();
    for (i, x) in x8.iter().enumerate() {
        let at = at.start + i * LANES;
        let shift = shift_of::<K, S, N>(simd, shifts, at);
        let acc = loaded(simd, lanes, at);
        put(simd, lanes, at, plus(simd, acc, terms.eight(simd, T::load(simd, x), shift)));
    }
    for (i, x) in tail.iter().enumerate() {
        add_one(terms, lanes, at.start + x8.len() * LANES + i, shifts, x.widen());
    }
}

/// Adds the next four rows of each lane, all rows of a lane before the next lane. In the order they
/// lie, each row would load and store the sums of its lane; and a block of columns narrow enough to
/// keep all lanes in L1 reads pieces too short to be prefetched (docs/perf/lanes.md).
#[inline(always)]
fn add_lane_by_lane<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    lanes: &mut [Vec<f64>; N],
    shifts: &[f64],
    x: &[T],
    (lane_count, width, stride): (usize, usize, usize),
) {
    for lane in 0..lane_count {
        let row = |i: usize| {
            let at = (lane + i * lane_count) * stride;
            &x[at..at + width]
        };
        let rows = [row(0), row(1), row(2), row(3)];
        add_four_rows(terms, simd, lanes, lane * width, shifts, rows);
    }
}

/// Adds four rows to the sums from `at` on, one after the other.
#[inline(always)]
fn add_four_rows<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    lanes: &mut [Vec<f64>; N],
    at: usize,
    shifts: &[f64],
    rows: [&[T]; ROWS_OF_LANE],
) {
    let [a, b, c, d] = rows;
    let width = a.len();
    // The sums of each term as a slice: through the vectors, every store would make their pointers
    // be loaded again.
    let sums = lanes.each_mut().map(|lanes| lanes[at..at + width].as_chunks_mut::<LANES>().0);
    let eight = eights(a).iter().zip(eights(b)).zip(eights(c)).zip(eights(d));
    for (i, (((a, b), c), d)) in eight.enumerate() {
        let shift = shift_of::<K, S, N>(simd, shifts, at + i * LANES);
        let mut acc = [simd.splat(0.0); N];
        for n in 0..N {
            acc[n] = simd.load(&sums[n][i]);
        }
        acc = plus(simd, acc, terms.eight(simd, T::load(simd, a), shift));
        acc = plus(simd, acc, terms.eight(simd, T::load(simd, b), shift));
        acc = plus(simd, acc, terms.eight(simd, T::load(simd, c), shift));
        acc = plus(simd, acc, terms.eight(simd, T::load(simd, d), shift));
        for n in 0..N {
            sums[n][i] = simd.store(acc[n]);
        }
    }
    for i in width / LANES * LANES..width {
        for row in rows {
            add_one(terms, lanes, at + i, shifts, row[i].widen());
        }
    }
}

/// Adds whole groups of eight contiguous rows, each of which is one long row of all lanes. Narrow
/// rows keep their lanes in registers: through memory each group would wait for the stores of the
/// last.
#[inline(always)]
fn add_whole_lanes<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    lanes: &mut [Vec<f64>; N],
    shifts: &[f64],
    x: &[T],
    width: usize,
) {
    let narrow = if K::NARROW_COLUMNS { width } else { 0 };
    by_width!(to 8, narrow, W => in_registers::<T, K, S, N, W>(terms, simd, lanes, shifts, x),
    else {
        let long = LANES * width;
        let (fours, rest) = x.split_at(x.len() / (ROWS_OF_LANE * long) * ROWS_OF_LANE * long);
        for four in fours.chunks_exact(ROWS_OF_LANE * long) {
            fetch_behind(simd, four);
            let row = |i: usize| &four[i * long..(i + 1) * long];
            let rows = [row(0), row(1), row(2), row(3)];
            add_four_rows(terms, simd, lanes, 0, shifts, rows);
        }
        for group in rest.chunks_exact(long) {
            add_into(terms, simd, lanes, 0..long, shifts, group);
        }
    });
}

/// Fetches what lies behind `x`, as much again: of four short streams in one page the prefetchers
/// make nothing (docs/perf/narrow.md).
#[inline(always)]
fn fetch_behind<T: Element, S: Simd>(simd: S, x: &[T]) {
    for line in (0..x.len()).step_by(64 / std::mem::size_of::<T>()) {
        simd.fetch(x, x.len() + line);
    }
}

#[inline(always)]
fn in_registers<T: Element, K: Terms<N>, S: Simd, const N: usize, const W: usize>(
    terms: K,
    simd: S,
    lanes: &mut [Vec<f64>; N],
    shifts: &[f64],
    x: &[T],
) {
    let mut acc = [[simd.splat(0.0); N]; W];
    let mut shift = [simd.splat(0.0); W];
    for w in 0..W {
        acc[w] = loaded(simd, lanes, w * LANES);
        shift[w] = shift_of::<K, S, N>(simd, shifts, w * LANES);
    }
    let (groups, _) = eights(x).as_chunks::<W>();
    for group in groups {
        for w in 0..W {
            let term = terms.eight(simd, T::load(simd, &group[w]), shift[w]);
            acc[w] = plus(simd, acc[w], term);
        }
    }
    for w in 0..W {
        put(simd, lanes, w * LANES, acc[w]);
    }
}
