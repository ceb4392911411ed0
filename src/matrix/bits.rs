//! Validity bitmaps: borrowed ones, and new ones, whose memory may be refused.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::buffer::Output;
use crate::dispatch::{Family, Work, run};
use crate::error::Result;
use crate::kernel::pack;
use crate::memory::Gather as _;

/// Bits of a bitmap, smallest significant first, from a bit offset on. Set means valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    offset: usize,
    len: usize,
}

impl<'a> Bits<'a> {
    pub(crate) fn new(nulls: &'a NullBuffer) -> Self {
        Self { bytes: nulls.validity(), offset: nulls.offset(), len: nulls.len() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> bool {
        debug_assert!(i < self.len);
        let at = self.offset + i;
        self.bytes[at / 8] >> (at % 8) & 1 == 1
    }

    /// The 64 bits from `i` on; those past the end are 0.
    #[inline(always)]
    pub(crate) fn word(&self, i: usize) -> u64 {
        let at = self.offset + i;
        let (byte, shift) = (at / 8, at % 8);
        let word = match self.bytes.get(byte..byte + 9) {
            Some(nine) => {
                let (eight, ninth) = nine.split_at(8);
                let low = u64::from_le_bytes(eight.try_into().unwrap_or_default()) >> shift;
                if shift == 0 { low } else { low | u64::from(ninth[0]) << (64 - shift) }
            }
            None => {
                let mut nine = [0; 16];
                let rest = self.bytes.get(byte..).unwrap_or(&[]);
                let have = rest.len().min(9);
                nine[..have].copy_from_slice(&rest[..have]);
                (u128::from_le_bytes(nine) >> shift) as u64
            }
        };
        let left = self.len.saturating_sub(i);
        if left >= 64 { word } else { word & ((1 << left) - 1) }
    }

    /// The bytes that hold the bits of `range`, and the position of the first in the first of them.
    pub(super) fn bytes_of(&self, range: Range<usize>) -> (&'a [u8], usize) {
        debug_assert!(range.end <= self.len);
        let (from, to) = (self.offset + range.start, self.offset + range.end);
        (&self.bytes[from / 8..to.div_ceil(8)], from % 8)
    }

    /// How many bits of `range` are set.
    pub(crate) fn count(&self, range: Range<usize>) -> usize {
        let len = range.len();
        let (bytes, skip) = self.bytes_of(range);
        let ones =
            |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
        let (words, rest) = bytes.as_chunks::<8>();
        let set: usize =
            words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize).sum();
        let (Some(head), Some(tail)) = (bytes.first(), bytes.last()) else { return 0 };
        // Bits of the first and of the last byte that are outside.
        let before = head & !(u8::MAX << skip);
        let after = match (skip + len) % 8 {
            0 => 0,
            end => tail & (u8::MAX << end),
        };
        set + ones(rest) - ones(&[before, after])
    }

    /// Whether every bit of `range` is set.
    pub(crate) fn all(&self, range: Range<usize>) -> bool {
        let mut i = range.start;
        while i < range.end {
            let left = range.end - i;
            if first(!self.word(i), left) != 0 {
                return false;
            }
            i += 64;
        }
        true
    }

    /// Calls `f` with each index of `range` whose bit is not set, in order.
    #[inline]
    pub(crate) fn each_unset(&self, range: Range<usize>, mut f: impl FnMut(usize)) {
        let mut i = range.start;
        while i < range.end {
            let mut unset = first(!self.word(i), range.end - i);
            while unset != 0 {
                f(i + unset.trailing_zeros() as usize);
                unset &= unset - 1;
            }
            i += 64;
        }
    }
}

/// Words of a bitmap that are made at once: some milliseconds at most.
const WORDS: usize = 1 << 12;

/// A bitmap of `len` bits, made 64 at a time: `f(i)` gives those from bit `i` on.
///
/// # Errors
///
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory), or an interrupt.
pub(crate) fn from_words(len: usize, f: impl Fn(usize) -> u64 + Sync) -> Result<NullBuffer> {
    let mut out = Output::<u64>::new(len.div_ceil(64))?;
    let fill = |at: usize, words: &mut [u64]| {
        for (i, word) in words.iter_mut().enumerate() {
            let bit = 64 * (at + i);
            *word = first(f(bit), len - bit).to_le();
        }
    };
    if out.len() <= WORDS {
        fill(0, &mut out);
    } else {
        let family = Family::Elementwise;
        // A bit costs about as much as a byte that is read.
        let work = Work { family, bytes_read: len, bytes_written: len / 8, has_vdsp: false };
        let plan = run::planned(&work)?;
        let tasks = out.chunks_mut(WORDS).enumerate().gather();
        run::each(&plan, tasks, || (), |(), (i, words)| fill(i * WORDS, words))?;
    }
    Ok(NullBuffer::new(BooleanBuffer::new(out.into_buffer(), 0, len)))
}

/// A bitmap of `len` bits, one at a time.
///
/// # Errors
///
/// As [`from_words`].
pub(crate) fn from_bits(len: usize, is_valid: impl Fn(usize) -> bool + Sync) -> Result<NullBuffer> {
    from_words(len, |from| {
        let to = len.min(from + 64);
        (from..to).fold(0, |word, i| word | u64::from(is_valid(i)) << (i - from))
    })
}

/// A bitmap of bools.
///
/// # Errors
///
/// As [`from_words`].
pub(crate) fn from_bools(valid: &[bool]) -> Result<NullBuffer> {
    from_words(valid.len(), |from| pack(&valid[from..valid.len().min(from + 64)]))
}

/// What is valid in both; `None` if neither has nulls.
///
/// # Errors
///
/// As [`from_words`].
pub(crate) fn union(a: Option<NullBuffer>, b: Option<NullBuffer>) -> Result<Option<NullBuffer>> {
    let (Some(left), Some(right)) = (&a, &b) else {
        return Ok(if a.is_some() { a } else { b });
    };
    let (left, right) = (Bits::new(left), Bits::new(right));
    from_words(left.len, |i| left.word(i) & right.word(i)).map(Some)
}

/// Each bit `times` times.
///
/// # Errors
///
/// As [`from_words`].
pub(crate) fn expand(nulls: &NullBuffer, times: usize) -> Result<NullBuffer> {
    let bits = Bits::new(nulls);
    from_bits(bits.len * times, |i| bits.get(i / times))
}

/// Of `len` values, those at `indices` null; `None` if there are none.
///
/// # Errors
///
/// As [`from_words`].
pub(crate) fn null_at(len: usize, indices: &[usize]) -> Result<Option<NullBuffer>> {
    if indices.is_empty() {
        return Ok(None);
    }
    let mut words = Output::<u64>::new(len.div_ceil(64))?;
    words.fill(u64::MAX);
    if let Some(last) = words.last_mut() {
        *last = first(*last, (len - 1) % 64 + 1);
    }
    indices.iter().for_each(|index| words[index / 64] &= !(1 << (index % 64)));
    words.iter_mut().for_each(|word| *word = word.to_le());
    Ok(Some(NullBuffer::new(BooleanBuffer::new(words.into_buffer(), 0, len))))
}

/// The first `n` bits of `word`, or all 64.
#[inline]
fn first(word: u64, n: usize) -> u64 {
    if n >= 64 { word } else { word & ((1 << n) - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_buffer::BooleanBuffer;

    #[test]
    fn words_counts_and_spread_bits_agree_with_single_bits_at_every_offset() {
        let pattern = |i: usize| i * i % 7 < 3;
        for offset in 0..=15 {
            for len in [0, 1, 8, 63, 64, 65, 130] {
                let whole = BooleanBuffer::collect_bool(offset + len, pattern);
                let nulls = NullBuffer::new(whole.slice(offset, len));
                let bits = Bits::new(&nulls);
                for i in 0..len {
                    assert_eq!(bits.get(i), pattern(offset + i));
                    for j in 0..64 {
                        let expected = i + j < len && pattern(offset + i + j);
                        assert_eq!(bits.word(i) >> j & 1 == 1, expected, "{offset} {len} {i} {j}");
                    }
                    for end in [i, i + 1, i + 63, i + 64, len].map(|end| end.min(len)) {
                        let expected = (i..end).filter(|&k| pattern(offset + k)).count();
                        assert_eq!(bits.count(i..end), expected);
                        assert_eq!(bits.all(i..end), expected == end - i);
                        let mut unset = 0;
                        bits.each_unset(i..end, |k| {
                            assert!(!pattern(offset + k));
                            unset += 1;
                        });
                        assert_eq!(unset, end - i - expected);
                        let mut spread = vec![true; end - i];
                        bits.spread(crate::dispatch::Level::Portable, i..end, &mut spread);
                        assert!((i..end).all(|k| spread[k - i] == pattern(offset + k)));
                    }
                }
            }
        }
    }
}
