//! Validity as bytes: bits spread to one `bool` an element, and what is done by them.
//!
//! A loop that chooses by bits is not vectorised; one that spreads bits to bytes is, and so is one
//! that chooses by bytes. Both together are less than half of what the bits alone took
//! (docs/perf/nulls.md).

use super::Element;
use super::width::by_width;

/// Says in `out` which bits are set, from bit `first` (below 8) of `bytes` on.
#[inline(always)]
pub(crate) fn spread(bytes: &[u8], first: usize, out: &mut [bool]) {
    if first == 0 {
        return spread_bytes(bytes, out);
    }
    // Moved to whole bytes, some at a time.
    let mut moved = [0; 64];
    for (i, out) in out.chunks_mut(8 * moved.len()).enumerate() {
        let bytes = &bytes[i * moved.len()..];
        let wanted = out.len().div_ceil(8);
        for k in 0..wanted.min(bytes.len()) {
            moved[k] = bytes[k] >> first;
        }
        for k in 0..wanted.min(bytes.len().saturating_sub(1)) {
            moved[k] |= bytes[k + 1] << (8 - first);
        }
        spread_bytes(&moved, out);
    }
}

#[inline(always)]
fn spread_bytes(bytes: &[u8], out: &mut [bool]) {
    let (runs, rest) = out.as_chunks_mut::<32>();
    let (fours, last) = bytes.split_at((runs.len() * 4).min(bytes.len()));
    for (out, four) in runs.iter_mut().zip(fours.as_chunks::<4>().0) {
        // In two loops, of which the compiler makes one shuffle and one comparison.
        let mut each = [0u8; 32];
        for i in 0..32 {
            each[i] = four[i / 8];
        }
        for i in 0..32 {
            out[i] = each[i] & (1 << (i % 8)) != 0;
        }
    }
    for (i, out) in rest.iter_mut().enumerate() {
        *out = last[i / 8] & (1 << (i % 8)) != 0;
    }
}

/// Makes false what is in a row that is not valid: `valid` begins with element `first` of the first
/// of `rows`, which have `width` elements each.
#[inline(always)]
pub(crate) fn and_rows(rows: &[bool], width: usize, first: usize, valid: &mut [bool]) {
    if width == 1 {
        for (valid, row) in valid.iter_mut().zip(rows) {
            *valid &= *row;
        }
        return;
    }
    let head = (width - first).min(valid.len());
    let (head, body) = valid.split_at_mut(head);
    head.iter_mut().for_each(|valid| *valid &= rows[0]);
    let (rows, whole) = (&rows[1..], body.len() / width);
    by_width!(width, W => {
        for (valid, row) in body.as_chunks_mut::<W>().0.iter_mut().zip(rows) {
            for c in 0..W {
                valid[c] &= *row;
            }
        }
    }, else {
        for (valid, row) in body.chunks_exact_mut(width).zip(rows) {
            if !*row {
                valid.fill(false);
            }
        }
    });
    if let Some(last) = rows.get(whole) {
        body[whole * width..].iter_mut().for_each(|valid| *valid &= *last);
    }
}

/// Copies what is valid, and puts `fill` in place of the rest.
#[inline(always)]
pub(crate) fn copy_valid<T: Copy>(x: &[T], valid: &[bool], fill: T, out: &mut [T]) {
    for ((out, x), valid) in out.iter_mut().zip(x).zip(valid) {
        *out = if *valid { *x } else { fill };
    }
}

/// Puts `fill` in place of what is not valid.
#[inline(always)]
pub(crate) fn fill_invalid<T: Copy>(valid: &[bool], fill: T, x: &mut [T]) {
    for (x, valid) in x.iter_mut().zip(valid) {
        *x = if *valid { *x } else { fill };
    }
}

/// How many are valid.
#[inline(always)]
pub(super) fn count_valid(valid: &[bool]) -> usize {
    let mut count = 0;
    // In bytes as long as they hold the count, so that a vector counts 32 elements.
    for valid in valid.chunks(255) {
        let mut some = 0u8;
        for valid in valid {
            some += u8::from(*valid);
        }
        count += usize::from(some);
    }
    count
}

/// Whether any valid element is the same as `x` by rank.
#[inline(always)]
pub(super) fn has_valid<T: Element>(of: &[T], valid: &[bool], x: T) -> bool {
    let mut any = false;
    for (of, valid) in of.iter().zip(valid) {
        any |= *valid & (*of == x);
    }
    any
}

/// 64 or fewer as bits, the first the lowest.
#[inline(always)]
pub(crate) fn pack(valid: &[bool]) -> u64 {
    let (eights, rest) = valid.as_chunks::<8>();
    let mut word = 0;
    for (i, eight) in eights.iter().enumerate() {
        let mut bytes = [0; 8];
        for k in 0..8 {
            bytes[k] = u8::from(eight[k]);
        }
        // Byte k is moved to bit 56 + k; the highest byte has them all.
        let byte = u64::from_le_bytes(bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= byte << (8 * i);
    }
    for (i, valid) in rest.iter().enumerate() {
        word |= u64::from(*valid) << (8 * eights.len() + i);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(i: usize) -> bool {
        i * i % 7 < 3 || i % 11 == 4
    }

    #[test]
    fn bits_spread_from_any_bit_and_are_packed_again() {
        let bytes: Vec<u8> = (0..200).map(|b| pack(&each(8 * b, 8)) as u8).collect();
        for first in 0..8 {
            for len in [0, 1, 7, 8, 31, 32, 33, 100, 511, 512, 513, 1592] {
                let mut out = vec![true; len];
                let needed = (first + len).div_ceil(8);
                spread(&bytes[..needed], first, &mut out);
                assert_eq!(out, each(first, len), "{first} {len}");
                assert_eq!(count_valid(&out), out.iter().filter(|valid| **valid).count());
            }
        }
        for len in 0..=64 {
            let word = pack(&each(3, len));
            assert!(
                (0..64).all(|i| word >> i & 1 == u64::from(i < len && pattern(3 + i))),
                "{len}"
            );
        }
    }

    fn each(first: usize, len: usize) -> Vec<bool> {
        (first..first + len).map(pattern).collect()
    }

    #[test]
    fn null_rows_take_their_elements_with_them() {
        for width in [1usize, 2, 3, 8, 16, 17, 40] {
            for (first, len) in [(0, 0), (0, 1), (0, 95), (0, 3 * width), (width / 2, 80)] {
                let rows = each(0, (first + len).div_ceil(width).max(1));
                let mut valid = each(5, len);
                and_rows(&rows, width, first, &mut valid);
                for i in 0..len {
                    let expected = pattern(5 + i) && rows[(first + i) / width];
                    assert_eq!(valid[i], expected, "{width} {first} {len} {i}");
                }
            }
        }
    }
}
