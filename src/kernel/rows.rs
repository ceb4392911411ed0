//! One sum per row of contiguous rows, in the order of [`super::sum`].

use super::sum::{add_to_lanes, eights, padded};
use super::{Element, LANES, LEAF, Sequence, Simd, fold};

/// Long rows summed at once: four chains of additions hide the latency of one.
const TOGETHER: usize = 4;

/// Bytes from which a row is worth a stream of its own: a page. Four shorter rows at once are a
/// quarter slower from memory than one after the other (docs/perf/lanes.md).
const OWN_STREAM: usize = 4096;

/// Writes the sum of each row of `x` to `out`; there are `out.len()` rows of `width` elements.
#[inline(always)]
pub(crate) fn row_sums<T: Element, S: Simd>(simd: S, x: &[T], width: usize, out: &mut [f64]) {
    debug_assert_eq!(x.len(), width * out.len());
    match width {
        0 => out.fill(-0.0),
        1 => narrow::<T, 1>(x, out),
        2 => narrow::<T, 2>(x, out),
        3 => narrow::<T, 3>(x, out),
        4 => narrow::<T, 4>(x, out),
        5 => narrow::<T, 5>(x, out),
        6 => narrow::<T, 6>(x, out),
        7 => narrow::<T, 7>(x, out),
        8 => narrow::<T, 8>(x, out),
        9 => narrow::<T, 9>(x, out),
        10 => narrow::<T, 10>(x, out),
        11 => narrow::<T, 11>(x, out),
        12 => narrow::<T, 12>(x, out),
        13 => narrow::<T, 13>(x, out),
        14 => narrow::<T, 14>(x, out),
        15 => narrow::<T, 15>(x, out),
        16 => narrow::<T, 16>(x, out),
        17..=LEAF => one_leaf(simd, x, width, out),
        _ => {
            for (o, row) in out.iter_mut().zip(x.chunks_exact(width)) {
                let mut sum = Sequence::new();
                sum.feed(simd, row);
                *o = sum.finish();
            }
        }
    }
}

/// Rows of at most two elements a lane: the compiler sees the width and vectorises over rows.
#[inline(always)]
fn narrow<T: Element, const W: usize>(x: &[T], out: &mut [f64]) {
    let (rows, _) = x.as_chunks::<W>();
    for (o, row) in out.iter_mut().zip(rows) {
        let mut lanes = [-0.0; LANES];
        for c in 0..W {
            lanes[c % LANES] =
                if c < LANES { row[c].widen() } else { lanes[c % LANES] + row[c].widen() };
        }
        // The same as `fold`, without the lanes that such a row never fills.
        for half in [4, 2, 1] {
            for l in 0..half {
                if l + half < W {
                    lanes[l] += lanes[l + half];
                }
            }
        }
        *o = lanes[0];
    }
}

/// Rows of at most one leaf: one after the other while they are short, four at once where each is
/// a stream of its own.
#[inline(always)]
fn one_leaf<T: Element, S: Simd>(simd: S, x: &[T], width: usize, out: &mut [f64]) {
    let (groups, rest) = if std::mem::size_of::<T>() * width < OWN_STREAM {
        out.split_at_mut(0)
    } else {
        let together = out.len() / TOGETHER * TOGETHER;
        out.split_at_mut(together)
    };
    let (x, x_rest) = x.split_at(groups.len() * width);
    for (o, rows) in groups.chunks_exact_mut(TOGETHER).zip(x.chunks_exact(TOGETHER * width)) {
        let (a, rows) = rows.split_at(width);
        let (b, rows) = rows.split_at(width);
        let (c, d) = rows.split_at(width);
        let mut acc = [simd.splat(-0.0); TOGETHER];
        for (((a, b), c), d) in eights(a).iter().zip(eights(b)).zip(eights(c)).zip(eights(d)) {
            acc[0] = simd.add(acc[0], T::load(simd, a));
            acc[1] = simd.add(acc[1], T::load(simd, b));
            acc[2] = simd.add(acc[2], T::load(simd, c));
            acc[3] = simd.add(acc[3], T::load(simd, d));
        }
        let whole = width / LANES * LANES;
        for ((o, mut acc), row) in o.iter_mut().zip(acc).zip([a, b, c, d]) {
            if whole < width {
                acc = simd.add(acc, T::load(simd, &padded(&row[whole..])));
            }
            *o = fold(simd.store(acc));
        }
    }
    for (o, row) in rest.iter_mut().zip(x_rest.chunks_exact(width)) {
        *o = fold(add_to_lanes(simd, [-0.0; LANES], 0, row));
    }
}
