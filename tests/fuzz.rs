//! Bytes become a call: type, shape, nulls, numbers, layout, offsets, chunks, threads, instruction set,
//! function, arguments and options. Its result is that of the oracle.
//!
//! `cargo test --test fuzz` replays tests/corpus.txt and tries ten thousand cases more, always the
//! same; `make fuzz` goes on from where the clock says for `RAPTORS_FUZZ_SECONDS`. A case that fails is
//! printed as the line that belongs into the corpus.

mod oracle;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::check::check_call;
use oracle::forms::{Form, Layout, as_held, chunked, matrix};
use oracle::numbers::TYPES;
use oracle::{Draw, Nulls, Random, Table, quick};
use raptors_arrow::dispatch::{Level, Settings, Store, with_settings};

/// Choices that bytes make; the first of each once they are used up.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.byte() << 8 | self.byte()) % n
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A length: mostly small, at times around the edge of a lane, a leaf or a tile.
    fn length(&mut self) -> usize {
        const EDGES: [usize; 8] = [63, 64, 65, 255, 257, 1023, 1024, 1025];
        if self.below(8) == 0 { self.one_of(&EDGES) } else { self.below(40) }
    }
}

/// Bytes of a case: two for each choice, eight for the numbers.
const BYTES: usize = 64;

/// Elements that a case has at most.
const MOST: usize = 20_000;

/// Runs the call that the bytes say.
fn run(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let (_, element) = &TYPES[choices.below(TYPES.len())];
    let (rows, width) = (choices.length(), choices.length());
    let rows = if rows * width > MOST { MOST / width } else { rows };
    let nulls = choices.one_of(&Nulls::EACH);
    let draw = choices.one_of(&[Draw::Tame, Draw::Spoiled, Draw::Wild]);
    let layout = choices.one_of(&Layout::EACH);
    let (parent_offset, child_offset) = (choices.below(16), choices.below(16));
    let form = Form { layout, parent_offset, child_offset };
    let mut random = Random::new((0..8).fold(0, |seed, _| seed << 8 | choices.byte() as u64));
    let drawn = Table::random(&mut random, element, (rows, width), nulls, draw);
    let table = as_held(&drawn, layout);
    // What has no type or no width of its own is for conformance.rs.
    let is_list = matches!(layout, Layout::List | Layout::LargeList | Layout::PackedList);
    let has_no_width = is_list && width > 0 && table.rows.iter().all(Option::is_none);
    if has_no_width || width == 0 && layout.is_by_columns() && *element != DataType::Float64 {
        return;
    }
    let mut cuts = [choices.below(rows + 1), choices.below(rows + 1)];
    cuts.sort_unstable();
    let is_cut = choices.below(2) == 1 && !is_list && width > 0 && layout != Layout::Flat;
    let x = if is_cut { chunked(&table, form, &cuts) } else { matrix(&table, form) };
    let levels: Vec<Level> = Level::available().collect();
    let settings = Settings {
        threads: Some(1 + choices.below(3)),
        exact_threads: true,
        simd: Some(choices.one_of(&levels)),
        store: Some(choices.one_of(&[Store::Cached, Store::Streaming])),
        ..Settings::default()
    };
    let first = First { element, rows, width, nulls, draw };
    let all = calls(&mut random, first, Sample::Some(2));
    with_settings(settings, || check_call(&all[choices.below(all.len())], &x, &table, form));
}

/// Runs a case; if it fails, the line for the corpus is in the message.
fn check(bytes: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(bytes))) {
        let line: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("for tests/corpus.txt:\n{line}");
        std::panic::resume_unwind(panic);
    }
}

fn case(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

#[test]
fn the_corpus_passes() {
    let lines = include_str!("corpus.txt").lines().filter(|line| !line.starts_with('#'));
    let mut ran = 0;
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let byte = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).expect(line);
        check(&(0..line.len() / 2).map(|i| byte(2 * i)).collect::<Vec<u8>>());
        ran += 1;
    }
    assert!(ran > 0);
}

#[test]
fn ten_thousand_calls_are_those_of_the_oracle() {
    (0..if quick() { 500 } else { 10_000 }).for_each(|seed| check(&case(seed)));
}

/// For as long as `RAPTORS_FUZZ_SECONDS` says, with cases that no run has had before.
#[test]
fn calls_without_end() {
    let Ok(seconds) = std::env::var("RAPTORS_FUZZ_SECONDS") else { return };
    let length = Duration::from_secs(seconds.parse().expect("seconds"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    let (begun, mut ran) = (Instant::now(), 0_u64);
    while begun.elapsed() < length {
        check(&case(now.wrapping_add(ran)));
        ran += 1;
    }
    eprintln!("{ran} cases");
}
