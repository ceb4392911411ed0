//! Shapes, matrices and yardsticks that the benchmarks share.

#![allow(dead_code, unreachable_pub, reason = "each benchmark uses a part of it")]

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Float64Array};
use arrow_buffer::Buffer;
use raptors_arrow::Matrix;
use rayon::ThreadPool;

/// Squares, narrow rows, embeddings, few long rows; and sizes on both sides of the thresholds of
/// the plan: a second thread (about 1.27 MB) and streaming stores (24 MiB of output).
pub const SHAPES: &[(usize, usize)] = &[
    (512, 512),
    (1024, 1024),
    (2048, 2048),
    (1_000_000, 2),
    (1_000_000, 3),
    (500_000, 8),
    (10_000, 384),
    (50_000, 768),
    (4, 1_000_000),
    (3_000, 64),
    (12_000, 64),
    (90_000, 64),
    (100_000, 64),
];

pub fn name(rows: usize, width: usize) -> String {
    format!("{rows}x{width}")
}

fn noise(i: usize) -> f64 {
    let x = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x >> 12) as f64 / (1u64 << 51) as f64 - 1.0
}

pub fn singles(n: usize) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values((0..n).map(|i| noise(i) as f32)))
}

pub fn doubles(n: usize) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values((0..n).map(noise)))
}

pub fn matrix(flat: &ArrayRef, width: usize) -> Matrix {
    Matrix::reshape(flat, width).expect("the length is a multiple of the width")
}

/// The bytes of an array, which the yardsticks read where they lie.
pub fn buffer(array: &ArrayRef) -> Buffer {
    array.to_data().buffers()[0].clone()
}

/// Copies and reads by a number of threads, the caller taking a share: what memory can do.
pub struct Yardstick {
    pool: Option<ThreadPool>,
    threads: usize,
}

impl Yardstick {
    pub fn new(threads: usize) -> Self {
        let pool = (threads > 1).then(|| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads - 1);
            builder.build().expect("threads can be started")
        });
        Self { pool, threads }
    }

    /// Copies `from` to `to`, which exists.
    pub fn copy(&self, from: &[u64], to: &mut [u64]) {
        let share = from.len().div_ceil(self.threads).max(1);
        let mut pieces = from.chunks(share).zip(to.chunks_mut(share));
        let first = pieces.next();
        let work = |(from, to): (&[u64], &mut [u64])| to.copy_from_slice(from);
        match &self.pool {
            None => first.into_iter().for_each(work),
            Some(pool) => pool.in_place_scope(|scope| {
                pieces.for_each(|piece| scope.spawn(move |_| work(piece)));
                first.into_iter().for_each(work);
            }),
        }
    }

    /// Reads all of `from`, with as little work per word as keeps the loads.
    pub fn read(&self, from: &[u64]) -> u64 {
        let share = from.len().div_ceil(self.threads).max(1);
        let mut pieces = from.chunks(share);
        let first = pieces.next().unwrap_or(&[]);
        let results: Vec<std::sync::atomic::AtomicU64> =
            (0..self.threads).map(|_| Default::default()).collect();
        let order = std::sync::atomic::Ordering::Relaxed;
        match &self.pool {
            None => results[0].store(read(first), order),
            Some(pool) => pool.in_place_scope(|scope| {
                for (piece, result) in pieces.zip(&results[1..]) {
                    scope.spawn(move |_| result.store(read(piece), order));
                }
                results[0].store(read(first), order);
            }),
        }
        results.iter().fold(0, |all, result| all ^ result.load(order))
    }
}

fn read(words: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = pulp::x86::V3::try_new() {
        struct Read<'a>(&'a [u64]);
        impl pulp::NullaryFnOnce for Read<'_> {
            type Output = u64;
            #[inline(always)]
            fn call(self) -> u64 {
                fold(self.0)
            }
        }
        return token.vectorize(Read(words));
    }
    fold(words)
}

#[inline(always)]
fn fold(words: &[u64]) -> u64 {
    let mut lanes = [0u64; 32];
    let (chunks, rest) = words.as_chunks::<32>();
    for chunk in chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane ^= word;
        }
    }
    lanes.iter().chain(rest).fold(0, |all, word| all ^ word)
}
