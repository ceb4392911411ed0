//! Many sequences that lie row by row, taken by accumulators of many lanes.
//!
//! Rows come in pieces that stay in L2. Of each piece, runs of columns go through their
//! accumulators, a few rows at a time, and then the accumulators are joined to the results so far:
//! what they could not tell is found by reading the piece once more.

use crate::memory;
use std::ops::Range;

use super::Element;

/// Runs `$body` with `$L` the lanes of one accumulator: four AVX2 registers of either size. With
/// half of them the instructions wait for each other.
macro_rules! with_lanes {
    ($T:ty, $L:ident => $body:expr) => {
        if std::mem::size_of::<$T>() == 4 {
            const $L: usize = 32;
            $body
        } else {
            const $L: usize = 16;
            $body
        }
    };
}
pub(super) use with_lanes;

/// Accumulators of `L` sequences.
pub(super) trait Lanes<T: Element, const L: usize>: Copy {
    /// Whether elements have to come in their order.
    const IN_ORDER: bool;
    fn new() -> Self;
    /// Takes the next element of each.
    fn take(&mut self, x: &[T; L], step: T::Rank);
}

/// Not zero if either is a NaN.
#[inline(always)]
pub(super) fn oddness<T: Element>(a: T, b: T) -> T::Rank {
    if a.is_nan() | b.is_nan() { T::rank_of_index(usize::MAX) } else { T::Rank::default() }
}

/// Results of as many sequences as there are columns.
pub(super) trait Each<T: Element, const L: usize> {
    type Lanes: Lanes<T, L>;
    /// Joins what the accumulators of a run of columns have, to the results of the rows before.
    fn join(&mut self, lanes: &Self::Lanes, run: Run<'_, T>);
    /// Takes one row that was not for the accumulators; [`passed`](Self::passed) follows.
    fn row(&mut self, x: &[T]);
    /// Says that so many rows were taken.
    fn passed(&mut self, rows: usize);
}

/// A run of `L` columns of a piece.
#[derive(Clone, Copy)]
pub(super) struct Run<'a, T> {
    /// Its elements, from the first on; those of step `s` begin at `s * stride`.
    pub(super) x: &'a [T],
    pub(super) stride: usize,
    steps: usize,
    /// The rows of one step: narrow ones are joined to one long row.
    pub(super) together: usize,
    /// The column of the first lane, and its row in the step.
    pub(super) column: usize,
    pub(super) row: usize,
}

impl<T: Element> Run<'_, T> {
    /// What other accumulators make of it.
    #[inline(always)]
    pub(super) fn again<A: Lanes<T, L>, const L: usize>(self) -> A {
        let mut lanes = A::new();
        take_steps(&mut lanes, self.x, self.stride, std::iter::once(0..self.steps));
        lanes
    }
}

/// Bytes of the rows of a piece, and the fewest rows.
const PIECE: usize = 256 << 10;
const FEWEST_ROWS: usize = 64;

/// Bytes of rows that are taken while accumulators stay in registers, and the fewest rows: as many
/// as an L1 has ways, so that rows a power of two apart do not drive each other out.
const GROUP: usize = 4 << 10;
const FEWEST_TOGETHER: usize = 8;

/// Streams that are read at once, and how far apart two have to be: each in pages of its own, as
/// prefetchers follow a stream to the end of its page. One stream from memory has 15 to 20 GB/s,
/// four have 20 to 26 (docs/perf/narrow.md).
const STREAMS: usize = 4;
const PAGE: usize = 4 << 10;

/// Widths up to which contiguous rows are joined to runs of whole accumulators.
const JOINED: usize = 256;

/// Feeds rows of `width` elements, each `stride` after the last, to `each`.
#[inline(always)]
pub(super) fn feed_each<T: Element, E: Each<T, L>, const L: usize>(
    each: &mut E,
    x: &[T],
    width: usize,
    stride: usize,
) {
    let is_joined = stride == width && width <= JOINED && !width.is_multiple_of(L);
    // Contiguous narrow rows: as many as make whole runs are one long row.
    let together = if is_joined { L >> width.trailing_zeros() } else { 1 };
    let (long, long_stride) = (together * width, together * stride);
    let steps = (PIECE / (long * std::mem::size_of::<T>())).max(FEWEST_ROWS);
    let mut runs = Vec::new();
    for x in x.chunks(steps * long_stride) {
        let fits = long >= L && x.len() >= long;
        let steps = if fits { (x.len() - long) / long_stride + 1 } else { 0 };
        if steps > 0 {
            let run = Run { x, stride: long_stride, steps, together, column: 0, row: 0 };
            feed_piece(each, run, width, &mut runs);
            each.passed(steps * together);
        }
        let rest = x.get(steps * long_stride..).unwrap_or(&[]);
        for row in rest.chunks(stride).filter(|row| row.len() >= width) {
            each.row(&row[..width]);
            each.passed(1);
        }
    }
}

/// Feeds a piece: `whole` is a run of all its columns, `runs` is room for accumulators.
#[inline(always)]
fn feed_piece<T: Element, E: Each<T, L>, const L: usize>(
    each: &mut E,
    whole: Run<'_, T>,
    width: usize,
    runs: &mut Vec<E::Lanes>,
) {
    let Run { x, stride, steps, together, .. } = whole;
    let long = together * width;
    let count = long.div_ceil(L);
    // The last run may begin within the one before it.
    let begin = |run: usize| (run * L).min(long - L);
    let whole_run = |run: usize| {
        let begin = begin(run);
        let row = if together > 1 { begin / width } else { 0 };
        Run { x: &x[begin..], row, column: begin - row * width, ..whole }
    };
    if steps <= FEWEST_TOGETHER {
        // So few that no accumulators have to be kept.
        for run in 0..count {
            let run = whole_run(run);
            each.join(&run.again(), run);
        }
        return;
    }
    runs.clear();
    memory::resize(runs, count, E::Lanes::new());
    // Rows that are longer, or do not follow each other, are streams already.
    let is_stream = stride == long && stride * std::mem::size_of::<T>() < PAGE;
    let streams = if is_stream && !E::Lanes::IN_ORDER { STREAMS } else { 1 };
    let part = steps.div_ceil(streams);
    let group = GROUP / (long * std::mem::size_of::<T>());
    let group = group.max(if streams > 1 { streams } else { FEWEST_TOGETHER }) / streams;
    for first in (0..part).step_by(group) {
        let some: [_; STREAMS] = std::array::from_fn(|i| {
            let (begin, end) = (i * part, ((i + 1) * part).min(steps));
            (begin + first).min(end)..(begin + first + group).min(end)
        });
        for run in 0..count {
            take_steps(&mut runs[run], &x[begin(run)..], stride, some.clone());
        }
    }
    for run in 0..count {
        each.join(&runs[run], whole_run(run));
    }
}

/// Takes some steps, in parts one after the other, with the accumulators in registers meanwhile.
#[inline(always)]
fn take_steps<T: Element, A: Lanes<T, L>, const L: usize>(
    lanes: &mut A,
    x: &[T],
    stride: usize,
    parts: impl IntoIterator<Item = Range<usize>>,
) {
    let mut taken = *lanes;
    for steps in parts {
        for step in steps {
            if let Some(x) = x[step * stride..].first_chunk() {
                taken.take(x, T::rank_of_index(step));
            }
        }
    }
    *lanes = taken;
}

/// Takes contiguous elements, in runs that may come in any order: of long sequences several streams
/// at once. What is no whole run is left to the caller.
#[inline(always)]
pub(super) fn take_runs<T: Element, A: Lanes<T, L>, const L: usize>(lanes: &mut A, x: &[T]) {
    let block = STREAMS * 2 * PAGE / std::mem::size_of::<T>();
    let (streamed, rest) = x.split_at(x.len() / block * block);
    let mut taken = *lanes;
    for x in streamed.chunks_exact(block) {
        for at in (0..block / STREAMS).step_by(L) {
            for stream in 0..STREAMS {
                if let Some(x) = x[stream * (block / STREAMS) + at..].first_chunk() {
                    taken.take(x, T::Rank::default());
                }
            }
        }
    }
    for x in rest.as_chunks::<L>().0 {
        taken.take(x, T::Rank::default());
    }
    *lanes = taken;
}
