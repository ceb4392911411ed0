//! The best few of many scores.

use std::collections::BinaryHeap;

/// The `k` best scores seen and where they came from: the smallest or the largest first, ties by
/// the lower index, NaN after every number.
///
/// The order is total, so the `k` best of a sequence do not depend on how it was split: the best
/// of parts [joined](Self::join) are the best of the whole.
#[derive(Clone, Debug)]
pub(crate) struct Best {
    most: usize,
    largest: bool,
    /// The worst at the top.
    heap: BinaryHeap<Entry>,
}

/// A number that orders as the score does, the index, and the bits of the score.
type Entry = (u64, usize, u64);

impl Best {
    /// The best `most`; the `largest` scores, or the smallest.
    pub(crate) fn new(most: usize, largest: bool) -> Self {
        Self { most, largest, heap: BinaryHeap::new() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Makes room for `more`, as far as they can be kept, or says how many bytes were refused.
    pub(crate) fn try_reserve(&mut self, more: usize) -> Result<(), usize> {
        let more = more.min(self.most - self.heap.len());
        if self.heap.capacity() - self.heap.len() >= more {
            return Ok(());
        }
        // By doubling, as a vector grows.
        let more = more.max(self.heap.len()).min(self.most - self.heap.len());
        let bytes = (self.heap.len() + more).saturating_mul(std::mem::size_of::<Entry>());
        self.heap.try_reserve(more).map_err(|_| bytes)
    }

    /// The score that another must beat, once there are enough: one that is no better, and comes
    /// later, changes nothing.
    #[inline(always)]
    pub(crate) fn worst(&self) -> Option<f64> {
        if self.heap.len() < self.most {
            return None;
        }
        self.heap.peek().map(|(_, _, score)| f64::from_bits(*score))
    }

    /// Takes a score if it is among the best.
    #[inline]
    pub(crate) fn offer(&mut self, score: f64, index: usize) {
        self.take((key(score, self.largest), index, score.to_bits()));
    }

    fn take(&mut self, entry: Entry) {
        if self.heap.len() < self.most {
            self.heap.push(entry);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && entry < *worst
        {
            *worst = entry;
        }
    }

    /// Takes what another has found.
    pub(crate) fn join(&mut self, other: &Self) {
        self.join_from(other, 0);
    }

    /// Takes what another has found, whose indices begin at `first`.
    pub(crate) fn join_from(&mut self, other: &Self, first: usize) {
        debug_assert_eq!(self.largest, other.largest);
        for (key, index, score) in &other.heap {
            self.take((*key, index + first, *score));
        }
    }

    /// Scores and indices, the best first.
    pub(crate) fn into_sorted(self) -> impl ExactSizeIterator<Item = (f64, usize)> {
        let entries = self.heap.into_sorted_vec().into_iter();
        entries.map(|(_, index, score)| (f64::from_bits(score), index))
    }
}

/// A number that orders as the score does, the best first.
#[inline(always)]
fn key(score: f64, largest: bool) -> u64 {
    if score.is_nan() {
        return u64::MAX;
    }
    // −0 and +0 are one score: adding +0 makes them one.
    let bits = (if largest { -score } else { score } + 0.0).to_bits();
    // Negative numbers order backwards.
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

#[cfg(test)]
mod tests {
    use super::Best;

    const SCORES: [f64; 12] = [
        3.0,
        f64::NAN,
        -1.0,
        3.0,
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-320,
        3.0,
        f64::NAN,
        -2.5,
    ];

    /// Indices in order, by sorting everything.
    fn sorted(largest: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..SCORES.len()).collect();
        order.sort_by(|a, b| {
            let (x, y) = (SCORES[*a], SCORES[*b]);
            let by_score = if largest { y.partial_cmp(&x) } else { x.partial_cmp(&y) };
            let by_nan = x.is_nan().cmp(&y.is_nan());
            by_nan.then(by_score.unwrap_or(std::cmp::Ordering::Equal)).then(a.cmp(b))
        });
        order
    }

    fn indices(best: Best) -> Vec<usize> {
        best.into_sorted().map(|(_, index)| index).collect()
    }

    #[test]
    fn the_best_come_first_ties_by_index_and_nan_last() {
        for largest in [false, true] {
            for most in 0..=SCORES.len() + 1 {
                let mut forwards = Best::new(most, largest);
                let mut backwards = Best::new(most, largest);
                for i in 0..SCORES.len() {
                    forwards.offer(SCORES[i], i);
                    let i = SCORES.len() - 1 - i;
                    backwards.offer(SCORES[i], i);
                }
                let expected: Vec<usize> = sorted(largest).into_iter().take(most).collect();
                assert_eq!(indices(forwards), expected, "{largest} {most}");
                assert_eq!(indices(backwards), expected, "{largest} {most}");
            }
        }
    }

    #[test]
    fn parts_joined_in_any_order_are_the_whole() {
        for largest in [false, true] {
            for (most, cut) in [(1, 3), (4, 5), (7, 0), (12, 11)] {
                let mut parts = [Best::new(most, largest), Best::new(most, largest)];
                for (i, score) in SCORES.iter().enumerate() {
                    parts[usize::from(i >= cut)].offer(*score, i);
                }
                let expected: Vec<usize> = sorted(largest).into_iter().take(most).collect();
                for [first, second] in [[0, 1], [1, 0]] {
                    let mut whole = parts[first].clone();
                    whole.join(&parts[second]);
                    assert_eq!(indices(whole), expected);
                }
            }
        }
    }

    #[test]
    fn scores_come_back_as_they_went_in() {
        let mut best = Best::new(SCORES.len(), true);
        SCORES.iter().enumerate().for_each(|(i, score)| best.offer(*score, i));
        for (score, index) in best.into_sorted() {
            let given = SCORES[index];
            assert_eq!(score.to_bits(), given.to_bits());
        }
    }

    #[test]
    fn nothing_is_beaten_before_there_are_enough() {
        let mut best = Best::new(2, false);
        assert_eq!(best.worst(), None);
        best.offer(5.0, 0);
        assert_eq!(best.worst(), None);
        best.offer(4.0, 1);
        assert_eq!(best.worst(), Some(5.0));
        best.offer(1.0, 2);
        assert_eq!(best.worst(), Some(4.0));
        assert_eq!(Best::new(0, true).worst(), None);
    }
}
