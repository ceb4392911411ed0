//! Nodes as words of 64 bits, by which they are kept outside this process.

use super::arg::Indexed;
use super::element::Rank;
use super::terms::Spread;
use super::weighted::Weighed;
use super::{Element, Mean};

/// What a word holds. Not every engine has unsigned integers: these are signed ones of the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    F32,
    F64,
    I64,
}

/// Words of a node at most.
pub(crate) const WORDS: usize = 4;

/// A node that is some words.
pub(crate) trait Words: Copy {
    /// What each word is.
    const FIELDS: &'static [(&'static str, Word)];
    /// The words, of which those behind the last field are 0.
    fn to_words(self) -> [u64; WORDS];
    /// The node of these words, whatever they are.
    fn of_words(words: [u64; WORDS]) -> Self;
}

macro_rules! one_word {
    ($($T:ty, $word:ident, |$x:ident| $to:expr, |$w:ident| $of:expr;)+) => {$(
        impl Words for $T {
            const FIELDS: &'static [(&'static str, Word)] = &[("value", Word::$word)];
            fn to_words(self) -> [u64; WORDS] {
                let $x = self;
                [$to, 0, 0, 0]
            }
            fn of_words([$w, ..]: [u64; WORDS]) -> Self {
                $of
            }
        }
    )+};
}

one_word! {
    f32, F32, |x| u64::from(x.to_bits()), |word| f32::from_bits(word as u32);
    f64, F64, |x| x.to_bits(), |word| f64::from_bits(word);
    i64, I64, |x| x as u64, |word| word as i64;
    u64, I64, |x| x, |word| word;
}

impl Words for i128 {
    const FIELDS: &'static [(&'static str, Word)] = &[("high", Word::I64), ("low", Word::I64)];
    fn to_words(self) -> [u64; WORDS] {
        [(self >> 64) as u64, self as u64, 0, 0]
    }
    fn of_words([high, low, ..]: [u64; WORDS]) -> Self {
        (i128::from(high as i64) << 64) | i128::from(low)
    }
}

impl Words for Spread {
    const FIELDS: &'static [(&'static str, Word)] = &[
        ("valid", Word::F64),
        ("mean", Word::F64),
        ("mean_low", Word::F64),
        ("squares", Word::F64),
    ];
    fn to_words(self) -> [u64; WORDS] {
        [self.count, self.mean.high, self.mean.low, self.squares].map(f64::to_bits)
    }
    fn of_words(words: [u64; WORDS]) -> Self {
        let [count, high, low, squares] = words.map(f64::from_bits);
        Self { count, mean: Mean { high, low }, squares }
    }
}

impl Words for Weighed {
    const FIELDS: &'static [(&'static str, Word)] = &[("value", Word::F64), ("weight", Word::F64)];
    fn to_words(self) -> [u64; WORDS] {
        [self.sum.to_bits(), self.weight.to_bits(), 0, 0]
    }
    fn of_words([sum, weight, ..]: [u64; WORDS]) -> Self {
        Self { sum: f64::from_bits(sum), weight: f64::from_bits(weight) }
    }
}

impl<T: Element> Words for Indexed<T> {
    const FIELDS: &'static [(&'static str, Word)] = &[("rank", Word::I64), ("index", Word::I64)];
    fn to_words(self) -> [u64; WORDS] {
        let rank: i64 = self.rank.into();
        [rank as u64, self.index as u64, 0, 0]
    }
    fn of_words([rank, index, ..]: [u64; WORDS]) -> Self {
        Self { rank: T::Rank::clamped(rank as i64), index: index as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same<N: Words>(node: N) -> bool {
        let words = node.to_words();
        let unused = words[N::FIELDS.len()..].iter().all(|word| *word == 0);
        N::of_words(words).to_words() == words && unused
    }

    #[test]
    fn nodes_are_the_same_again() {
        assert!(same(-0.0f64) && same(f32::NAN) && same(i64::MIN) && same(u64::MAX));
        for sum in [0, -1, i128::MAX, i128::MIN, i128::from(i64::MIN), 1 << 64] {
            assert!(same(sum) && i128::of_words(sum.to_words()) == sum);
        }
        let mean = Mean { high: 1e8, low: -1e-9 };
        assert!(same(Spread { count: 3.0, mean, squares: 2.0 }));
        assert!(same(Weighed { sum: -0.0, weight: 3.0 }));
        assert!(same(Indexed::<f32> { rank: i32::MIN, index: 5 }));
        assert!(same(Indexed::<u64> { rank: i64::MAX, index: usize::MAX }));
    }
}
