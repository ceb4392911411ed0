//! An element by its index in sorted order, found by selection: nothing is sorted.
//!
//! ```text
//! while there are many: count the keys in buckets of one width, from the smallest to the largest;
//!     keep those of the bucket that the index falls in
//! then quickselect
//! ```

use super::element::Rank;

/// Keys from which they are narrowed down to a bucket first: a step that asks whether to go on.
const MANY: usize = 1 << 18;

/// Buckets, as a power of two: their counts stay in L1.
const BUCKETS_LOG: u32 = 11;

/// The key at an index in sorted order, counted from 0, and the next one, if there is one. The
/// keys come in any order and go out in another; `None` if `go_on` said no.
pub(crate) fn select<R: Rank>(
    keys: &mut Vec<R>,
    index: usize,
    go_on: &dyn Fn() -> bool,
) -> Option<(R, Option<R>)> {
    let mut index = index;
    // The smallest key above those that are kept.
    let mut above: Option<R> = None;
    while keys.len() > MANY {
        let (low, high) = bounds(keys, go_on)?;
        let spread = distance(high, low);
        if spread == 0 {
            let next = if index + 1 < keys.len() { Some(low) } else { above };
            return Some((low, next));
        }
        let shift = (u64::BITS - spread.leading_zeros()).saturating_sub(BUCKETS_LOG);
        let bucket = |key: R| (distance(key, low) >> shift) as usize & ((1 << BUCKETS_LOG) - 1);
        let mut counts = [0usize; 1 << BUCKETS_LOG];
        for keys in keys.chunks(MANY) {
            if !go_on() {
                return None;
            }
            keys.iter().for_each(|key| counts[bucket(*key)] += 1);
        }
        let mut before = 0;
        let chosen = counts.iter().position(|count| {
            let is_here = index < before + count;
            before += if is_here { 0 } else { *count };
            is_here
        })?;
        index -= before;
        // Kept in place: what is written is behind what is read.
        let (mut kept, len) = (0, keys.len());
        for first in (0..len).step_by(MANY) {
            if !go_on() {
                return None;
            }
            for i in first..len.min(first + MANY) {
                let key = keys[i];
                let of = bucket(key);
                keys[kept] = key;
                kept += usize::from(of == chosen);
                if of > chosen && above.is_none_or(|above| key < above) {
                    above = Some(key);
                }
            }
        }
        keys.truncate(kept);
    }
    let (_, key, rest) = keys.select_nth_unstable(index);
    let key = *key;
    Some((key, rest.iter().min().copied().or(above)))
}

/// How far a key is above another that is no larger.
#[inline(always)]
fn distance<R: Rank>(key: R, low: R) -> u64 {
    let (key, low): (i64, i64) = (key.into(), low.into());
    key.wrapping_sub(low) as u64
}

/// The smallest and the largest key.
fn bounds<R: Rank>(keys: &[R], go_on: &dyn Fn() -> bool) -> Option<(R, R)> {
    let first = *keys.first()?;
    let (mut low, mut high) = (first, first);
    for keys in keys.chunks(MANY) {
        if !go_on() {
            return None;
        }
        for key in keys {
            low = low.min(*key);
            high = high.max(*key);
        }
    }
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::{MANY, select};

    #[test]
    fn selects_what_sorting_would() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 11
        };
        for len in [1, 2, 100, MANY + 1, 2 * MANY + 17] {
            // All over, close together with a few far off, few different ones, all the same.
            let spreads: [&dyn Fn(u64) -> i64; 4] = [
                &|x| (x as i64) << 10,
                &|x| if x % 1000 == 0 { i64::MAX - x as i64 % 7 } else { x as i64 % 100_000 },
                &|x| x as i64 % 3 - 1,
                &|_| 42,
            ];
            for spread in spreads {
                let keys: Vec<i64> = (0..len).map(|_| spread(next())).collect();
                let mut sorted = keys.clone();
                sorted.sort_unstable();
                for index in [0, len / 3, len / 2, len - 1] {
                    let found = select(&mut keys.clone(), index, &|| true).unwrap();
                    assert_eq!(found, (sorted[index], sorted.get(index + 1).copied()));
                    let narrow: Vec<i32> = keys.iter().map(|key| (*key % 70_000) as i32).collect();
                    let mut sorted = narrow.clone();
                    sorted.sort_unstable();
                    let found = select(&mut narrow.clone(), index, &|| true).unwrap();
                    assert_eq!(found, (sorted[index], sorted.get(index + 1).copied()));
                }
            }
        }
    }

    #[test]
    fn stops_when_told() {
        assert_eq!(select(&mut vec![1i32; MANY + 1], 0, &|| false), None);
    }
}
