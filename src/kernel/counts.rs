//! How many elements of each sequence are valid, and counting set bits by column and by row.

use crate::memory::{self, Gather as _};
use std::ops::Range;

/// Valid elements of each of many sequences.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// The same for all: nothing is null.
    All(usize),
    /// One count for each.
    Each(Vec<u64>),
}

impl Clone for Counts {
    fn clone(&self) -> Self {
        match self {
            Self::All(n) => Self::All(*n),
            Self::Each(each) => Self::Each(memory::copied(each)),
        }
    }
}

impl Counts {
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> u64 {
        match self {
            Self::All(n) => *n as u64,
            Self::Each(counts) => counts[i],
        }
    }

    /// The counts of two ranges of the same sequences.
    pub(crate) fn plus(self, other: &Self) -> Self {
        match (self, other) {
            (Self::All(n), Self::All(m)) => Self::All(n + m),
            (Self::Each(mut each), more) => {
                each.iter_mut().enumerate().for_each(|(i, count)| *count += more.get(i));
                Self::Each(each)
            }
            (Self::All(n), Self::Each(more)) => {
                Self::Each(more.iter().map(|count| n as u64 + count).gather())
            }
        }
    }

    /// Adds the counts of further sequences: all or none are the same for all.
    pub(crate) fn append(&mut self, others: Self) {
        match (self, others) {
            (Self::Each(own), Self::Each(others)) => memory::extend(own, others),
            (own, others) => *own = others,
        }
    }
}

/// Adds to `counts[c]` the number of rows whose bit `c` is set. `bits(row, column)` gives 64 bits
/// of that row from that column on; what lies behind the row's end is not looked at.
#[inline(always)]
pub(crate) fn count_columns(
    rows: Range<usize>,
    counts: &mut [u64],
    bits: impl Fn(usize, usize) -> u64,
) {
    // 64 counters of eight bits, one bit of each in a word: a row is added to all of them by two
    // operations a bit. They are emptied before any of them can reach 256.
    for (group, counts) in counts.chunks_mut(64).enumerate() {
        let mut row = rows.start;
        while row < rows.end {
            let stop = rows.end.min(row + 255);
            let mut counters = [0u64; 8];
            for r in row..stop {
                let mut carry = bits(r, group * 64);
                for counter in &mut counters {
                    let next = *counter & carry;
                    *counter ^= carry;
                    carry = next;
                }
            }
            for (c, count) in counts.iter_mut().enumerate() {
                for (k, counter) in counters.iter().enumerate() {
                    *count += (counter >> c & 1) << k;
                }
            }
            row = stop;
        }
    }
}

/// Says how many bits of each row of `width` are set, at most 64, where `bits(row)` gives 64 bits
/// from that row on.
#[inline(always)]
pub(crate) fn count_rows(width: usize, counts: &mut [u64], bits: impl Fn(usize) -> u64) {
    let together = 64 / width;
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    for (i, counts) in counts.chunks_mut(together).enumerate() {
        let word = bits(i * together);
        for (r, count) in counts.iter_mut().enumerate() {
            *count = u64::from((word >> (r * width) & mask).count_ones());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_by_column_and_by_row() {
        let is_set = |i: usize| i * i % 7 < 3;
        let word = |first: usize| (0..64).fold(0u64, |w, i| w | u64::from(is_set(first + i)) << i);
        for (rows, width) in [(1, 1), (7, 3), (300, 5), (1000, 64), (520, 65), (3, 200), (256, 32)]
        {
            let mut counts = vec![1; width];
            count_columns(0..rows, &mut counts, |row, c| word(row * width + c));
            for (c, count) in counts.iter().enumerate() {
                let expected = (0..rows).filter(|row| is_set(row * width + c)).count();
                assert_eq!(*count, 1 + expected as u64, "{rows} {width} {c}");
            }
            if width > 64 {
                continue;
            }
            let mut counts = vec![0; rows];
            count_rows(width, &mut counts, |row| word(row * width));
            for (row, count) in counts.iter().enumerate() {
                let expected = (0..width).filter(|c| is_set(row * width + c)).count();
                assert_eq!(*count, expected as u64, "{rows} {width} {row}");
            }
        }
    }
}
