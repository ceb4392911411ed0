//! Ordered sums of each of many contiguous rows, in the order of [`super::sum`].

use super::leaf::{OpenLeaf, is_trivial};
use super::mask::count_valid;
use super::reducer::{One, Tile};
use super::scale::{Scale, set_scale};
use super::sum::{LEAF, Sequence, TOGETHER, add_four, add_to_lanes, folded, padded, plus, stored};
use super::terms::Terms;
use super::width::by_width;
use super::{Element, LANES, Simd};

/// Bytes from which a row is worth a stream of its own: a page. Four shorter rows at once are a
/// quarter slower from memory than one after the other (docs/perf/lanes.md).
const OWN_STREAM: usize = 4096;

/// Writes the node of each row to `out`; there are `out.len()` rows of `width` elements.
#[inline(always)]
pub(super) fn row_sums<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    tile: Tile<'_, T>,
    width: usize,
    out: &mut [K::Node],
    scales: &mut Vec<Scale>,
) {
    let x = tile.x;
    debug_assert_eq!(x.len(), width * out.len());
    match width {
        0 => out.fill(terms.empty()),
        _ if width > LEAF => one_by_one(terms, simd, tile, width, out, scales),
        _ if K::SHIFTED && tile.valid.is_some() => {
            masked_leaf(terms, simd, tile, width, out, scales);
        }
        1..=16 if K::NARROW_ROWS => {
            by_width!(width, W => narrow::<T, K, N, W>(terms, x, out), else {});
        }
        _ => one_leaf(terms, simd, x, width, out),
    }
    if T::NEEDS_SCALE && (1..=LEAF).contains(&width) {
        let safe = |node: &K::Node| terms.fits(node) & terms.is_large(node);
        if !out.iter().fold(true, |all, node| all & safe(node)) {
            make_safe(terms, tile, width, out, scales);
        }
    }
}

/// Makes the nodes of rows of one leaf again that plain additions may have got wrong.
#[cold]
#[inline(never)]
fn make_safe<T: Element, K: Terms<N>, const N: usize>(
    terms: K,
    tile: Tile<'_, T>,
    width: usize,
    out: &mut [K::Node],
    scales: &mut Vec<Scale>,
) {
    for r in 0..out.len() {
        let at = r * width..(r + 1) * width;
        let (x, valid) = (&tile.x[at.clone()], tile.valid.map(|valid| &valid[at]));
        let is_plain = scales.get(r).is_none_or(|scale| *scale == Scale::Plain);
        let is_safe = terms.fits(&out[r]) && terms.is_large(&out[r]);
        let shift = if K::SHIFTED { x[0].widen() } else { 0.0 };
        if !is_plain || is_safe || is_trivial(x, shift) {
            continue;
        }
        let mut leaf = OpenLeaf::new(terms);
        leaf.feed_carefully(x, valid);
        let partial = leaf.close::<T>();
        out[r] = partial.node;
        set_scale(scales, out.len(), r, partial.scale);
    }
}

/// Rows of at most one leaf with nulls, where the terms depend on a shift: nulls hold it.
#[inline(always)]
fn masked_leaf<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    tile: Tile<'_, T>,
    width: usize,
    out: &mut [K::Node],
    scales: &mut Vec<Scale>,
) {
    let rows = out.len();
    let mut held = [0.0; LEAF];
    let held = &mut held[..width];
    for r in 0..rows {
        let at = r * width..(r + 1) * width;
        let (x, valid) = (&tile.x[at.clone()], tile.valid.map_or(&[][..], |valid| &valid[at]));
        let Some(first) = valid.iter().position(|valid| *valid) else {
            out[r] = terms.empty();
            continue;
        };
        let shift = x[first].widen();
        for c in 0..width {
            held[c] = if valid[c] { x[c].widen() } else { shift };
        }
        let lanes = add_to_lanes(terms, simd, [[-0.0; LANES]; N], 0, held, shift);
        let node = terms.node(folded(lanes), shift, count_valid(valid) as f64);
        out[r] = node;
        if T::NEEDS_SCALE && !(terms.fits(&node) && terms.is_large(&node)) {
            let mut leaf = OpenLeaf::new(terms);
            leaf.feed_masked(simd, x, valid);
            let partial = leaf.close::<T>();
            out[r] = partial.node;
            set_scale(scales, rows, r, partial.scale);
        }
    }
}

#[inline(always)]
fn one_by_one<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    tile: Tile<'_, T>,
    width: usize,
    out: &mut [K::Node],
    scales: &mut Vec<Scale>,
) {
    let rows = out.len();
    for (r, (o, x)) in out.iter_mut().zip(tile.x.chunks_exact(width)).enumerate() {
        let mut sum = Sequence::new(terms, 0);
        let valid = tile.valid.map(|valid| &valid[r * width..(r + 1) * width]);
        sum.feed(simd, Tile { x, valid, weights: None });
        let partial = One::<T, K::Node>::finish(sum);
        *o = partial.node;
        set_scale(scales, rows, r, partial.scale);
    }
}

/// Rows of at most two elements a lane: the compiler sees the width and vectorises over rows.
#[inline(always)]
fn narrow<T: Element, K: Terms<N>, const N: usize, const W: usize>(
    terms: K,
    x: &[T],
    out: &mut [K::Node],
) {
    let (rows, _) = x.as_chunks::<W>();
    for (o, row) in out.iter_mut().zip(rows) {
        let shift = if K::SHIFTED { row[0].widen() } else { 0.0 };
        let mut all = [[0.0; N]; W];
        for c in 0..W {
            all[c] = terms.one(row[c].widen(), shift);
        }
        let sums = narrow_sum(all);
        *o = terms.node(sums, shift, W as f64);
    }
}

/// The sums of the terms of a row of at most two elements a lane.
#[inline(always)]
pub(super) fn narrow_sum<const N: usize, const W: usize>(terms: [[f64; N]; W]) -> [f64; N] {
    let mut lanes = [[-0.0; N]; LANES];
    for c in 0..W {
        for n in 0..N {
            let before = lanes[c % LANES][n];
            lanes[c % LANES][n] = if c < LANES { terms[c][n] } else { before + terms[c][n] };
        }
    }
    // The same as `fold`, without the lanes that such a row never fills.
    for half in [4, 2, 1] {
        for l in 0..half {
            if l + half < W {
                for n in 0..N {
                    lanes[l][n] += lanes[l + half][n];
                }
            }
        }
    }
    lanes[0]
}

/// Rows of at most one leaf: one after the other while they are short, four at once where each is
/// a stream of its own.
#[inline(always)]
fn one_leaf<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    x: &[T],
    width: usize,
    out: &mut [K::Node],
) {
    let streams = N == 1 && !K::SHIFTED && std::mem::size_of::<T>() * width >= OWN_STREAM;
    let together = if streams { out.len() / TOGETHER * TOGETHER } else { 0 };
    let (groups, rest) = out.split_at_mut(together);
    let (x, x_rest) = x.split_at(groups.len() * width);
    for (o, rows) in groups.chunks_exact_mut(TOGETHER).zip(x.chunks_exact(TOGETHER * width)) {
        let (a, rows) = rows.split_at(width);
        let (b, rows) = rows.split_at(width);
        let (c, d) = rows.split_at(width);
        let acc = add_four(terms, simd, [a, b, c, d]);
        let whole = width / LANES * LANES;
        for ((o, mut acc), row) in o.iter_mut().zip(acc).zip([a, b, c, d]) {
            if whole < width {
                let eight = simd.load(&padded(&row[whole..], -0.0));
                acc = plus(simd, acc, terms.eight(simd, eight, simd.splat(0.0)));
            }
            *o = terms.node(folded(stored(simd, acc)), 0.0, width as f64);
        }
    }
    for (o, row) in rest.iter_mut().zip(x_rest.chunks_exact(width)) {
        let shift = if K::SHIFTED { row[0].widen() } else { 0.0 };
        let lanes = add_to_lanes(terms, simd, [[-0.0; LANES]; N], 0, row, shift);
        *o = terms.node(folded(lanes), shift, width as f64);
    }
}
