//! Ordered sums of many sequences that lie row by row, in the order of [`super::sum`].

use super::reducer::{Many, Tile, Tree};
use super::sum::{LEAF, eights, plus};
use super::terms::Terms;
use super::width::by_width;
use super::{Element, LANES, Simd, fold};

/// Columns that are summed at once: one lane of them is 16 KiB, half an L1; all eight lie in L2.
pub(crate) const COLUMN_BLOCK: usize = 2048;

/// Rows of one lane that are added before its sums are stored again: four rows are as many
/// streams as every prefetcher follows.
const ROWS_OF_LANE: usize = 4;

/// Widths from which rows are taken lane by lane; narrower ones go in the order they lie.
const WIDE: usize = 32;

/// The running sums of `width` sequences: row `r` holds element `r` of each.
pub(crate) struct Interleaved<K: Terms<N>, const N: usize> {
    terms: K,
    width: usize,
    /// Lanes and rows of a leaf; half of both where only every other row comes.
    lane_count: usize,
    leaf: usize,
    /// Lane `l` of sequence `c` is `lanes[n][l * width + c]`: eight rows are one contiguous run.
    lanes: [Vec<f64>; N],
    /// Of shifted terms: eight times one after the other, so that eight rows are one run too, the
    /// first valid element of each sequence in the open leaf.
    shifts: Vec<f64>,
    /// Of shifted terms: how many elements of each sequence are valid in the open leaf. Empty
    /// while all are.
    valid: Vec<u32>,
    filled: usize,
    /// The elements of each sequence, if they are no more than there are lanes.
    short: Option<usize>,
    /// The nodes, if such sequences came in one piece and no lanes had to be kept.
    nodes: Vec<K::Node>,
    tree: Tree<K::Node>,
}

impl<K: Terms<N>, const N: usize> Interleaved<K, N> {
    pub(crate) fn new(terms: K, width: usize, len: usize) -> Self {
        let short = (!K::SHIFTED && N == 1 && len <= LANES).then_some(len);
        let kept = if short.is_some() { 0 } else { LANES * width };
        Self {
            terms,
            width,
            lane_count: LANES,
            leaf: LEAF,
            lanes: std::array::from_fn(|_| vec![-0.0; kept]),
            short,
            nodes: Vec::new(),
            shifts: if K::SHIFTED { vec![0.0; LANES * width] } else { Vec::new() },
            valid: Vec::new(),
            filled: 0,
            tree: Tree::new(width),
        }
    }

    /// The sums of every other row of one leaf, from its first or its second on. [`fold`] joins
    /// the even lanes, and the odd ones, before it joins both: so a half is a node where nodes are
    /// sums.
    pub(crate) fn half(terms: K, width: usize) -> Self {
        let all = Self::new(terms, width, LEAF);
        Self { lane_count: LANES / 2, leaf: LEAF / 2, ..all }
    }

    /// Takes all rows of sequences that have one element a lane at most: the lanes are joined while
    /// they are in registers.
    #[inline(always)]
    fn feed_short<T: Element, S: Simd>(&mut self, simd: S, x: &[T], stride: usize, rows: usize) {
        let (terms, width) = (self.terms, self.width);
        let zero = simd.splat(0.0);
        self.nodes.resize(width, terms.empty());
        let (eights, tail) = self.nodes.as_chunks_mut::<LANES>();
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
    }

    /// Begins a leaf whose first row is valid throughout.
    #[inline(always)]
    fn shift_by<T: Element>(&mut self, row: &[T]) {
        for (shift, x) in self.shifts.iter_mut().zip(row) {
            *shift = x.widen();
        }
        for lane in 1..LANES {
            self.shifts.copy_within(..self.width, lane * self.width);
        }
    }

    /// Takes one row of which some elements are null.
    #[inline(always)]
    fn feed_masked<T: Element>(&mut self, x: &[T], valid: &[bool]) {
        let width = self.width;
        if self.valid.is_empty() {
            self.valid.resize(width, self.filled as u32);
        }
        let lane = self.filled % self.lane_count * width;
        for (c, (x, _)) in x.iter().zip(valid).enumerate().filter(|(_, (_, valid))| **valid) {
            if self.valid[c] == 0 {
                for lane in 0..LANES {
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
        if self.filled == self.leaf {
            self.close();
        }
    }

    #[inline(always)]
    fn advance(&mut self, rows: usize) {
        self.filled += rows;
        self.valid.iter_mut().for_each(|valid| *valid += rows as u32);
        if self.filled == self.leaf {
            self.close();
        }
    }

    fn close(&mut self) {
        let width = self.width;
        for lanes in &mut self.lanes {
            let mut half = self.lane_count / 2;
            while half > 0 {
                let (low, high) = lanes.split_at_mut(half * width);
                for (l, h) in low.iter_mut().zip(high.iter()) {
                    *l += *h;
                }
                half /= 2;
            }
        }
        let terms = self.terms;
        let nodes: Vec<K::Node> = (0..width)
            .map(|c| {
                let sums = std::array::from_fn(|n| self.lanes[n][c]);
                let count = self.valid.get(c).map_or(self.filled, |valid| *valid as usize);
                let shift = if K::SHIFTED { self.shifts[c] } else { 0.0 };
                terms.node(sums, shift, count as f64)
            })
            .collect();
        self.tree.push(&nodes, |left, right| terms.join(left, right));
        self.lanes.iter_mut().for_each(|lanes| lanes.fill(-0.0));
        self.valid.clear();
        self.filled = 0;
    }
}

impl<T: Element, K: Terms<N>, const N: usize> Many<T, K::Node> for Interleaved<K, N> {
    #[inline(always)]
    fn feed<S: Simd>(&mut self, simd: S, tile: Tile<'_, T>, stride: usize) {
        let width = self.width;
        if width == 0 {
            return;
        }
        let mut x = tile.x;
        if self.short.is_some() {
            let rows = (x.len() + stride - width) / stride;
            if self.short == Some(rows) && self.filled == 0 {
                return self.feed_short(simd, x, stride, rows);
            }
            self.lanes.iter_mut().for_each(|lanes| lanes.resize(LANES * width, -0.0));
        }
        if K::SHIFTED
            && let Some(valid) = tile.valid
        {
            for (x, valid) in x.chunks(stride).zip(valid.chunks(stride)) {
                self.feed_masked(&x[..width], &valid[..width]);
            }
            return;
        }
        while !x.is_empty() {
            if K::SHIFTED && self.filled == 0 {
                self.shift_by(&x[..width]);
            } else if K::SHIFTED && self.valid.contains(&0) {
                // Sequences that had only nulls so far find their shift in this row.
                self.feed_masked(&x[..width], &vec![true; width]);
                x = x.get(stride..).unwrap_or(&[]);
                continue;
            }
            let room = self.leaf - self.filled;
            let rows = (x.len() + stride - width) / stride;
            let lane_count = self.lane_count;
            let block = lane_count * ROWS_OF_LANE;
            let (terms, shifts) = (self.terms, &self.shifts);
            if width >= WIDE && self.filled.is_multiple_of(lane_count) && rows.min(room) >= block {
                let shape = (lane_count, width, stride);
                add_lane_by_lane(terms, simd, &mut self.lanes, shifts, x, shape);
                self.advance(block);
                x = x.get(block * stride..).unwrap_or(&[]);
            } else if stride == width
                && lane_count == LANES
                && self.filled.is_multiple_of(LANES)
                && rows.min(room) >= LANES
            {
                let take = rows.min(room) / LANES * LANES;
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

    /// The nodes of everything fed.
    fn finish(mut self) -> Vec<K::Node> {
        if self.filled > 0 {
            self.close();
        }
        if !self.nodes.is_empty() {
            return self.nodes;
        }
        let terms = self.terms;
        self.tree.finish(terms.empty(), |left, right| terms.join(left, right))
    }
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
