//! Every function of the table against the oracle: element types, shapes, layouts, offsets, nulls,
//! chunks, threads and instruction sets. Equality is to the bit, but for what a matrix product
//! made, which has a derived tolerance.
//!
//! Not every combination runs: each shape, layout and pattern of nulls meets float32, float64 and
//! one of the other types in turn, each with calls of every function; the test that ends the file
//! says that no pair of type and function was left out.

mod oracle;

use std::collections::HashSet;
use std::sync::Mutex;

use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::check::check_call;
use oracle::forms::{Form, Layout, as_held, chunked, matrix};
use oracle::numbers::TYPES;
use oracle::raw::Raw;
use oracle::spec::Answer;
use oracle::{Draw, Nulls, Outcome, Random, Table, quick};
use raptors_arrow::Error;
use raptors_arrow::compute::{Value, list_functions};
use raptors_arrow::dispatch::{Level, Settings, Store, with_settings};

/// Checks calls of every function on one table in one form.
fn check(random: &mut Random, x: First<'_>, form: Form, sample: Sample) {
    let First { element, rows, width, nulls, draw } = x;
    let drawn = Table::random(random, element, (rows, width), nulls, draw);
    let table = as_held(&drawn, form.layout);
    // No columns have no type, and count as float64.
    if width == 0 && form.layout.is_by_columns() && *element != DataType::Float64 {
        return;
    }
    // A list column without a valid row has no width.
    let is_list = matches!(form.layout, Layout::List | Layout::LargeList | Layout::PackedList);
    if is_list && table.rows.iter().all(Option::is_none) && width > 0 {
        return;
    }
    let matrix = matrix(&table, form);
    assert_eq!((matrix.rows(), matrix.width()), (rows, width), "{form:?}");
    for call in calls(random, x, sample) {
        check_call(&call, &matrix, &table, form);
    }
}

/// Checks float32, float64 and, in turn, one of the other types; each 16th time all calls.
struct Turns {
    random: Random,
    turn: usize,
}

impl Turns {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), turn: 0 }
    }

    fn check(&mut self, (rows, width): (usize, usize), nulls: Nulls, form: Form) {
        let others = TYPES.len() - 2;
        for (_, element) in [&TYPES[0], &TYPES[1], &TYPES[2 + self.turn % others]] {
            let draw = match self.random.below(8) {
                0 => Draw::Wild,
                1 | 2 => Draw::Spoiled,
                _ => Draw::Tame,
            };
            let whole = self.random.below(32) == 0 && rows * width < 2000;
            let sample = if whole { Sample::All } else { Sample::Some(1) };
            let x = First { element, rows, width, nulls, draw };
            check(&mut self.random, x, form, sample);
        }
        self.turn += 1;
    }
}

#[test]
fn every_small_shape() {
    let mut turns = Turns::new(1);
    let step = if quick() { 7 } else { 1 };
    for rows in (0..=40).step_by(step) {
        for width in 0..=40 {
            let pick = rows * 41 + width;
            let nulls = Nulls::EACH[pick % 5];
            let layout = Layout::EACH[pick / 5 % Layout::EACH.len()];
            turns.check((rows, width), nulls, Form::new(layout, pick % 16));
        }
    }
}

#[test]
fn every_layout_null_pattern_and_bit_offset() {
    let mut turns = Turns::new(2);
    for layout in Layout::EACH {
        for nulls in Nulls::EACH {
            for offset in (0..=15).step_by(if quick() { 5 } else { 1 }) {
                for shape in [(1, 1), (9, 3), (3, 17), (0, 4), (5, 0), (67, 2)] {
                    turns.check(shape, nulls, Form::new(layout, offset));
                }
            }
        }
    }
}

#[test]
fn around_lane_leaf_tile_and_block_edges() {
    let mut turns = Turns::new(3);
    let long = if quick() {
        vec![1023, 1025, 4097]
    } else {
        vec![63, 65, 255, 256, 257, 1023, 1024, 1025, 2047, 2049, 4095, 4096, 4097, 8193]
    };
    for (i, n) in long.into_iter().enumerate() {
        for narrow in [1, 2, 3, 5, 8, 16, 17] {
            let nulls = [Nulls::None, Nulls::Both][(i + narrow) % 2];
            let layout = Layout::EACH[(i + narrow) % Layout::EACH.len()];
            turns.check((n, narrow), nulls, Form::new(layout, narrow % 16));
            turns.check((narrow, n), nulls, Form::new(layout, narrow % 16));
        }
    }
}

/// Every call of every function, for every type and pattern of nulls.
#[test]
fn every_call_of_every_function_and_type() {
    let mut random = Random::new(6);
    let seen = Mutex::new(HashSet::new());
    for (i, (_, element)) in TYPES.iter().enumerate() {
        for (j, nulls) in Nulls::EACH.into_iter().enumerate() {
            for (k, draw) in [Draw::Tame, Draw::Spoiled, Draw::Wild].into_iter().enumerate() {
                let (rows, width) = [(12, 5), (5, 33), (1100, 2)][(i + j + k) % 3];
                let x = First { element, rows, width, nulls, draw };
                let layout = Layout::EACH[(3 * i + 5 * j + k) % Layout::EACH.len()];
                let layout = if nulls == Nulls::All { Layout::FixedSizeList } else { layout };
                check(&mut random, x, Form::new(layout, (i + j) % 16), Sample::All);
                let names = calls(&mut random, x, Sample::Few);
                let pairs = names.iter().map(|call| (element.clone(), call.function.name));
                seen.lock().unwrap().extend(pairs);
            }
        }
    }
    assert_eq!(seen.into_inner().unwrap().len(), TYPES.len() * list_functions().count());
}

/// What a call gave, to the bit.
fn raw(result: Result<Value, Error>) -> Result<Raw, Error> {
    result.map(|value| Raw::of(&value))
}

/// The same bits for threads × chunkings × offsets × levels × stores.
fn same_bits(random: &mut Random, x: First<'_>, layouts: &[Layout], chunkings: usize) {
    let First { element, rows, width, nulls, draw } = x;
    let threads: &[usize] = if quick() { &[1, 3] } else { &[1, 2, 3, 8] };
    for &layout in layouts {
        let drawn = Table::random(random, element, (rows, width), nulls, draw);
        let table = as_held(&drawn, layout);
        let calls = calls(random, x, Sample::Few);
        let form = Form::plain(layout);
        let whole = matrix(&table, form);
        let expected: Vec<(Answer, Result<Raw, Error>)> = calls
            .iter()
            .map(|call| {
                check_call(call, &whole, &table, form);
                (call.expected(&table), raw(call.run(&whole)))
            })
            .collect();
        for i in 0..chunkings {
            let mut ends: Vec<usize> =
                (0..random.below(6)).map(|_| random.below(rows + 1)).collect();
            ends.sort_unstable();
            let form = Form::new(layout, random.below(16));
            let x = chunked(&table, form, &ends);
            for level in Level::available() {
                for &threads in threads {
                    let settings = Settings {
                        threads: Some(threads),
                        exact_threads: true,
                        simd: Some(level),
                        store: Some([Store::Cached, Store::Streaming][i % 2]),
                        ..Settings::default()
                    };
                    for (call, (answer, bits)) in calls.iter().zip(&expected) {
                        let got = with_settings(settings.clone(), || call.run(&x));
                        // A matrix product may add in another order; and what has the type
                        // already is handed on, with what is under its nulls.
                        let is_handed_on = call.settings.to == *element;
                        let agree = if call.function.family == "matrix" || is_handed_on {
                            Outcome::difference(answer, &got).is_none()
                        } else {
                            raw(got) == *bits
                        };
                        assert!(
                            agree,
                            "{call} on {rows} x {width} {element} {form:?} ends {ends:?} \
                             {settings:?}",
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn bits_depend_on_nothing_but_the_input() {
    let mut random = Random::new(4);
    let shapes: &[(usize, usize)] = if quick() {
        &[(2500, 3), (40, 300)]
    } else {
        &[(2500, 3), (9000, 2), (1100, 20), (70, 300), (3, 9000), (9000, 1)]
    };
    let chunkings = if quick() { 2 } else { 4 };
    for (i, &(rows, width)) in shapes.iter().enumerate() {
        // By columns where that is how such data comes: tall and not too wide.
        let all = [Layout::FixedSizeList, Layout::Struct];
        let layouts = if width <= 3 { &all[..] } else { &all[..1] };
        let types = [0, 1, 2 + (2 * i) % 9, 2 + (2 * i + 1) % 9];
        for (j, (_, element)) in types.into_iter().map(|t| &TYPES[t]).enumerate() {
            let nulls = [Nulls::None, Nulls::Both][(i + j) % 2];
            let draw = [Draw::Tame, Draw::Spoiled][(i + j) / 2 % 2];
            let x = First { element, rows, width, nulls, draw };
            same_bits(&mut random, x, layouts, if j < 2 { chunkings } else { 2 });
        }
    }
}

#[test]
fn large_enough_that_the_plan_takes_threads_of_its_own_accord() {
    let mut random = Random::new(5);
    let form = Form::plain(Layout::FixedSizeList);
    for (rows, width) in if quick() { vec![(60_000, 2)] } else { vec![(200_000, 2), (3, 150_000)] }
    {
        for (nulls, element) in [(Nulls::None, DataType::Float64), (Nulls::Rows, DataType::Int16)] {
            let x = First { element: &element, rows, width, nulls, draw: Draw::Tame };
            let table = Table::random(&mut random, &element, (rows, width), nulls, Draw::Tame);
            let matrix = matrix(&table, form);
            for call in calls(&mut random, x, Sample::Some(2)) {
                check_call(&call, &matrix, &table, form);
            }
        }
    }
}
