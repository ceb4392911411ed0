//! The bars that the core must clear, both sides interleaved in one run: what is measured is a
//! ratio of medians, not a time. Prints a Markdown record; `--check` exits 1 if a bar is missed.

#![allow(clippy::print_stdout, reason = "its output is the record")]

mod inputs;

use std::hint::black_box;
use std::time::Instant;

use raptors_arrow::compute::{Operand, Per, add, mean, scale, sum};
use raptors_arrow::dispatch::{Settings, Store, machine, with_settings};

/// Medians in microseconds of `ours` and `theirs`, taken in turns.
fn interleaved(rounds: usize, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> (f64, f64) {
    let time = |f: &mut dyn FnMut()| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64() * 1e6
    };
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..rounds + 5 {
        let (x, y) = (time(&mut ours), time(&mut theirs));
        if round >= 5 {
            a.push(x);
            b.push(y);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (median(&mut a), median(&mut b))
}

struct Record {
    missed: Vec<String>,
}

impl Record {
    fn line(&mut self, what: &str, ours: f64, theirs: f64, bar: f64, met: bool) {
        let ratio = ours / theirs;
        let verdict = if met { "yes" } else { "**no**" };
        println!("| {what} | {ours:.0} | {theirs:.0} | {ratio:.2} | {bar:.2} | {verdict} |");
        if !met {
            self.missed.push(what.to_owned());
        }
    }
}

fn main() {
    if std::env::args().any(|arg| arg == "--stores") {
        return stores(201);
    }
    let check = std::env::args().any(|arg| arg == "--check");
    let rounds = if std::env::args().any(|arg| arg == "--quick") { 41 } else { 201 };
    let m = machine();
    println!(
        "{} cores, {}, L2 {} KiB, last-level cache {} MiB\n",
        m.cores,
        m.level,
        m.l2 >> 10,
        m.llc >> 20
    );
    println!("| what | ours, µs | yardstick, µs | ratio | bar | met |\n|---|--:|--:|--:|--:|---|");
    let mut record = Record { missed: Vec::new() };
    for threads in [1, m.cores] {
        let yardstick = inputs::Yardstick::new(threads);
        let settings =
            Settings { threads: Some(threads), exact_threads: true, ..Settings::default() };
        with_settings(settings, || elementwise(&mut record, &yardstick, threads, rounds));
        let settings = Settings { threads: Some(threads), ..Settings::default() };
        with_settings(settings, || reductions(&mut record, &yardstick, threads, rounds));
    }
    narrow(&mut record, rounds);
    stores(rounds);
    if !record.missed.is_empty() {
        println!("\nMissed: {}", record.missed.join("; "));
        if check {
            std::process::exit(1);
        }
    }
}

/// `scale` and `add` at 2048², against a copy into an existing buffer: at most 15 % more.
fn elementwise(record: &mut Record, yardstick: &inputs::Yardstick, threads: usize, rounds: usize) {
    for (name, make) in
        [("float32", inputs::singles as fn(usize) -> _), ("float64", inputs::doubles)]
    {
        let flat = make(2048 * 2048);
        let x = inputs::matrix(&flat, 2048);
        let row = make(2048);
        let row = Operand::row(&row).expect("numbers");
        let bytes = inputs::buffer(&flat);
        let words = bytes.typed_data::<u64>();
        let mut copy = words.to_vec();
        let mut against = |what: &str, ours: &mut dyn FnMut()| {
            let copy = || yardstick.copy(black_box(words), &mut copy);
            let (ours, theirs) = interleaved(rounds, ours, copy);
            let what = format!("{what} 2048² {name}, {threads} thread(s) / copy");
            record.line(&what, ours, theirs, 1.15, ours <= 1.15 * theirs);
        };
        against("scale", &mut || drop(black_box(scale(&x, 1.5))));
        against("add row", &mut || drop(black_box(add(&x, row.clone()))));
    }
}

/// `sum` from 16 MB on: at least 80 % of the read bandwidth.
fn reductions(record: &mut Record, yardstick: &inputs::Yardstick, threads: usize, rounds: usize) {
    for (name, make, rows, width) in [
        ("float32", inputs::singles as fn(usize) -> _, 2048usize, 2048usize),
        ("float64", inputs::doubles, 2048, 2048),
        ("float32", inputs::singles, 50_000, 768),
    ] {
        let flat = make(rows * width);
        let x = inputs::matrix(&flat, width);
        let bytes = inputs::buffer(&flat);
        let words = bytes.typed_data::<u64>();
        for per in [Per::Matrix, Per::Column, Per::Row] {
            let (ours, theirs) = interleaved(
                rounds / 2,
                || drop(black_box(sum(&x, per))),
                || _ = black_box(yardstick.read(black_box(words))),
            );
            let what = format!("sum per {per} {rows}x{width} {name}, {threads} thread(s) / read");
            record.line(&what, ours, theirs, 1.25, ours <= 1.25 * theirs);
        }
    }
}

/// The same `scale` with stores through and past the cache, around the threshold of the plan.
fn stores(rounds: usize) {
    println!("\n| output, MiB | streaming, µs | cached, µs | ratio |\n|--:|--:|--:|--:|");
    for mib in [4, 8, 12, 16, 20, 24, 32, 48, 64, 128] {
        let flat = inputs::singles(mib << 18);
        let x = inputs::matrix(&flat, 64);
        let with = |store: Store| {
            let settings = Settings { store: Some(store), ..Settings::default() };
            with_settings(settings, || drop(black_box(scale(&x, 1.5))));
        };
        let (past, through) =
            interleaved(rounds / 3, || with(Store::Streaming), || with(Store::Cached));
        println!("| {mib} | {past:.0} | {through:.0} | {:.2} |", past / through);
    }
}

/// The mean of 1,000,000 × 2 float32, per column and per row: under 1 ms.
fn narrow(record: &mut Record, rounds: usize) {
    let flat = inputs::singles(2_000_000);
    let x = inputs::matrix(&flat, 2);
    for per in [Per::Column, Per::Row] {
        let (ours, _) = interleaved(rounds, || drop(black_box(mean(&x, per))), || ());
        let what = format!("mean per {per} 1000000x2 float32 / 1 ms");
        record.line(&what, ours, 1000.0, 1.0, ours < 1000.0);
    }
}
