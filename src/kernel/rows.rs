//! Ordered sums of each of many contiguous rows, in the order of [`super::sum`].

use super::reducer::{One, Tile};
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
) {
    let x = tile.x;
    debug_assert_eq!(x.len(), width * out.len());
    match width {
        0 => out.fill(terms.empty()),
        _ if K::SHIFTED && tile.valid.is_some() => one_by_one(terms, simd, tile, width, out),
        1..=16 if K::NARROW_ROWS => {
            by_width!(width, W => narrow::<T, K, N, W>(terms, x, out), else {});
        }
        1..=LEAF => one_leaf(terms, simd, x, width, out),
        _ => one_by_one(terms, simd, tile, width, out),
    }
}

#[inline(always)]
fn one_by_one<T: Element, K: Terms<N>, S: Simd, const N: usize>(
    terms: K,
    simd: S,
    tile: Tile<'_, T>,
    width: usize,
    out: &mut [K::Node],
) {
    for (r, (o, x)) in out.iter_mut().zip(tile.x.chunks_exact(width)).enumerate() {
        let mut sum = Sequence::new(terms);
        let valid = tile.valid.map(|valid| &valid[r * width..(r + 1) * width]);
        sum.feed(simd, Tile { x, valid });
        *o = One::<T, K::Node>::finish(sum);
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
        let mut lanes = [[-0.0; LANES]; N];
        for c in 0..W {
            let one = terms.one(row[c].widen(), shift);
            for n in 0..N {
                lanes[n][c % LANES] = if c < LANES { one[n] } else { lanes[n][c % LANES] + one[n] };
            }
        }
        // The same as `fold`, without the lanes that such a row never fills.
        for half in [4, 2, 1] {
            for l in 0..half {
                if l + half < W {
                    for n in 0..N {
                        lanes[n][l] += lanes[n][l + half];
                    }
                }
            }
        }
        let mut sums = [0.0; N];
        for n in 0..N {
            sums[n] = lanes[n][0];
        }
        *o = terms.node(sums, shift, W as f64);
    }
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
