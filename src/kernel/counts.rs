//! How many elements of each sequence are valid, and counting set bits by column.

/// Valid elements of each of many sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// The same for all: nothing is null.
    All(usize),
    /// One count for each.
    Each(Vec<u64>),
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
                Self::Each(more.iter().map(|count| n as u64 + count).collect())
            }
        }
    }

    /// Adds the counts of further sequences: all or none are the same for all.
    pub(crate) fn append(&mut self, others: Self) {
        match (self, others) {
            (Self::Each(own), Self::Each(others)) => own.extend(others),
            (own, others) => *own = others,
        }
    }
}

/// Adds to `counts[c]` the number of rows whose bit `c` is set. `bits(row, column)` gives 64 bits
/// of that row from that column on; what lies behind the row's end is not looked at.
#[inline(always)]
pub(crate) fn count_columns(
    rows: std::ops::Range<usize>,
    counts: &mut [u64],
    bits: impl Fn(usize, usize) -> u64,
) {
    // Eight columns at a time: a byte of the bitmap is spread to eight counters of one byte each,
    // which are emptied before any of them can reach 256.
    for (group, counts) in counts.chunks_mut(8).enumerate() {
        let mut row = rows.start;
        while row < rows.end {
            let stop = rows.end.min(row + 255);
            let mut packed = 0u64;
            for r in row..stop {
                packed += spread(bits(r, group * 8) as u8);
            }
            for (c, count) in counts.iter_mut().enumerate() {
                *count += packed >> (8 * c) & 0xff;
            }
            row = stop;
        }
    }
}

/// Bit `i` of `byte` becomes byte `i` of the result, 0 or 1.
#[inline(always)]
fn spread(byte: u8) -> u64 {
    let one_bit_each = u64::from(byte).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    (one_bit_each + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn every_byte_spreads_to_its_bits() {
        for byte in 0..=255u8 {
            for bit in 0..8 {
                assert_eq!(spread(byte) >> (8 * bit) & 0xff, u64::from(byte >> bit & 1));
            }
        }
    }
}
