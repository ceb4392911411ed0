//! A matrix with a number, a row, a column and a matrix; a copy of the same bytes beside each.

#![allow(missing_docs, reason = "criterion's macros make public items")]

mod inputs;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use raptors_arrow::compute::{Operand, add, scale};
use raptors_arrow::dispatch::num_threads;

fn arithmetic(c: &mut Criterion) {
    let yardstick = inputs::Yardstick::new(num_threads().unwrap_or(1));
    for (type_name, make) in
        [("float32", inputs::singles as fn(usize) -> _), ("float64", inputs::doubles)]
    {
        let mut group = c.benchmark_group(format!("arithmetic/{type_name}"));
        group.sample_size(20);
        for &(rows, width) in inputs::SHAPES {
            let flat = make(rows * width);
            let x = inputs::matrix(&flat, width);
            let (row, column) = (make(width), make(rows));
            let row = Operand::row(&row).expect("numbers");
            let column = Operand::column(&column).expect("numbers");
            let shape = inputs::name(rows, width);
            group.throughput(Throughput::Bytes(2 * x.bytes() as u64));
            let bytes = inputs::buffer(&flat);
            let words = bytes.typed_data::<u64>();
            let mut copy = words.to_vec();
            group.bench_function(BenchmarkId::new("copy", &shape), |b| {
                b.iter(|| yardstick.copy(black_box(words), &mut copy));
            });
            group.bench_function(BenchmarkId::new("scale", &shape), |b| {
                b.iter(|| scale(black_box(&x), 1.5));
            });
            group.bench_function(BenchmarkId::new("add row", &shape), |b| {
                b.iter(|| add(black_box(&x), row.clone()));
            });
            group.bench_function(BenchmarkId::new("add column", &shape), |b| {
                b.iter(|| add(black_box(&x), column.clone()));
            });
            group.bench_function(BenchmarkId::new("add matrix", &shape), |b| {
                b.iter(|| add(black_box(&x), black_box(&x)));
            });
        }
    }
}

criterion_group!(benches, arithmetic);
criterion_main!(benches);
