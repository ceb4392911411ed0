//! The same bits on every machine: hashes of results that were made once and must never change.
//! `make cross` runs this file on aarch64.

mod oracle;

use oracle::calls::few_calls;
use oracle::forms::{Form, Layout, matrix};
use oracle::{Nulls, Number, Outcome, Random, Table};
use raptors_arrow::dispatch::{Level, Settings, with_settings};

/// FNV-1a over the bits of a result, nulls included.
fn hash(hash: u64, outcome: &Outcome) -> u64 {
    let word = |hash: u64, word: u64| {
        word.to_le_bytes()
            .iter()
            .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    outcome.bits.iter().fold(hash, |hash, bits| match bits {
        Some(bits) => word(word(hash, 1), *bits),
        None => word(hash, 0),
    })
}

/// One hash for each function over several shapes and null patterns, at one level.
fn hashes<T: Number>(level: Level) -> Vec<(&'static str, u64)> {
    let mut random = Random::new(2024);
    let mut all: Vec<(&'static str, u64)> = Vec::new();
    for (rows, width) in [(3000, 2), (1100, 7), (130, 16), (60, 384), (2, 5000)] {
        for nulls in [Nulls::None, Nulls::Both] {
            let mut table = Table::<T>::random(&mut random, rows, width, nulls);
            // A NaN made by the CPU and one that came in: both come out canonical.
            table.rows[1] = Some(
                (0..width)
                    .map(|c| Some(T::from_f64([f64::INFINITY, f64::NAN, -1.0][c % 3])))
                    .collect(),
            );
            let x = matrix(&table, Form::new(Layout::FixedSizeList, 5));
            for call in few_calls::<T>(&mut random, rows, width, nulls) {
                let settings = Settings { simd: Some(level), ..Settings::default() };
                let outcome = with_settings(settings, || call.run(&x));
                let name = call.function.name;
                match all.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, value)) => *value = hash(*value, &outcome),
                    None => all.push((name, hash(0xcbf2_9ce4_8422_2325, &outcome))),
                }
            }
        }
    }
    all
}

#[test]
fn results_have_the_bits_they_always_had() {
    for level in Level::available() {
        let both = hashes::<f32>(level).into_iter().zip(hashes::<f64>(level));
        let got: Vec<_> =
            both.map(|((name, single), (_, double))| (name, single, double)).collect();
        let table = |all: &[(&str, u64, u64)]| {
            let line = |(name, f, d): &(&str, u64, u64)| {
                format!("    ({name:?}, {f:#018x}, {d:#018x}),\n")
            };
            all.iter().map(line).collect::<String>()
        };
        assert!(got == GOLDEN, "at {level}:\n{}instead of\n{}", table(&got), table(GOLDEN));
    }
}

/// The hashes of each function: float32, float64.
const GOLDEN: &[(&str, u64, u64)] = &[
    ("sum", 0xa61df6e3ae94f3e7, 0x4bbf8e303ee79a34),
    ("mean", 0x5b30e8e1cf346816, 0x33919c970f6c53cc),
    ("sum_axis0", 0xf0301fa1873c29ed, 0x6e1c3f04e87135f2),
    ("mean_axis0", 0x686a0f8fa1ebb6fc, 0xc04805adcfeffcd6),
    ("mean_axis1", 0x1e954e80b116f1f7, 0xf164edd49054531b),
    ("add", 0x5f418151c9a97ce2, 0xc4df583fd6f9fae6),
    ("subtract", 0x7b4e7bcb2c526f44, 0x4bfeaebd1084c459),
    ("multiply", 0x20e16f91ea3794f6, 0x9c60df370da9103f),
    ("divide", 0xeb0d5f1d6418b2c1, 0x5f7763c0646d38a2),
    ("broadcast_add", 0x51450c18ce246cc7, 0x3e92899d0e3be60c),
    ("scale", 0x613deca914789ed9, 0xd21db2bfaf2f6818),
];
