//! Sums and means per matrix, column and row; a copy of the same bytes beside each shape.

#![allow(missing_docs, reason = "criterion's macros make public items")]

mod inputs;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use raptors_arrow::compute::{Per, mean, sum};
use raptors_arrow::dispatch::num_threads;

fn reductions(c: &mut Criterion) {
    let yardstick = inputs::Yardstick::new(num_threads().unwrap_or(1));
    for (type_name, make) in
        [("float32", inputs::singles as fn(usize) -> _), ("float64", inputs::doubles)]
    {
        let mut group = c.benchmark_group(format!("reductions/{type_name}"));
        group.sample_size(20);
        for &(rows, width) in inputs::SHAPES {
            let flat = make(rows * width);
            let x = inputs::matrix(&flat, width);
            let shape = inputs::name(rows, width);
            group.throughput(Throughput::Bytes(x.bytes() as u64));
            let bytes = inputs::buffer(&flat);
            let words = bytes.typed_data::<u64>();
            let mut copy = words.to_vec();
            group.bench_function(BenchmarkId::new("copy", &shape), |b| {
                b.iter(|| yardstick.copy(black_box(words), &mut copy));
            });
            for per in [Per::Matrix, Per::Column, Per::Row] {
                group.bench_function(BenchmarkId::new(format!("sum per {per}"), &shape), |b| {
                    b.iter(|| sum(black_box(&x), per));
                });
            }
            for per in [Per::Column, Per::Row] {
                group.bench_function(BenchmarkId::new(format!("mean per {per}"), &shape), |b| {
                    b.iter(|| mean(black_box(&x), per));
                });
            }
        }
    }
}

criterion_group!(benches, reductions);
criterion_main!(benches);
