//! Every function of the table against the oracle: shapes, layouts, offsets, nulls, chunks,
//! threads and instruction sets. Equality is to the bit.

mod oracle;

use arrow_schema::DataType;
use oracle::calls::{calls, few_calls};
use oracle::forms::{Form, Layout, as_held, chunked, matrix};
use oracle::raw::Raw;
use oracle::{Nulls, Number, Outcome, Random, Table, quick};
use raptors_arrow::dispatch::{Level, Settings, Store, with_settings};

/// Checks every call on one table in one form.
fn check<T: Number>(random: &mut Random, rows: usize, width: usize, nulls: Nulls, form: Form) {
    let table = as_held(&Table::<T>::random(random, rows, width, nulls), form.layout);
    // A list column without a valid row has no width.
    // No columns have no type, and count as float64.
    if width == 0 && form.layout.is_by_columns() && T::TYPE == DataType::Float32 {
        return;
    }
    let is_list = matches!(form.layout, Layout::List | Layout::LargeList | Layout::PackedList);
    if is_list && table.rows.iter().all(Option::is_none) && width > 0 {
        return;
    }
    let x = matrix(&table, form);
    assert_eq!((x.rows(), x.width()), (rows, width), "{form:?}");
    for call in calls::<T>(random, rows, width, nulls) {
        let (got, mut expected) = (call.run(&x), call.expected(&table));
        if form.layout == Layout::Flat && width > 0 {
            // A flat array cannot say that a row is null; its elements are.
            expected.row_is_null.fill(false);
        }
        assert_eq!(got, expected, "{call} on {rows} x {width} {:?} {form:?} {nulls:?}", T::TYPE);
    }
}

fn check_both(random: &mut Random, rows: usize, width: usize, nulls: Nulls, form: Form) {
    check::<f32>(random, rows, width, nulls, form);
    check::<f64>(random, rows, width, nulls, form);
}

#[test]
fn every_small_shape() {
    let mut random = Random::new(1);
    let step = if quick() { 7 } else { 1 };
    for rows in (0..=40).step_by(step) {
        for width in 0..=40 {
            let pick = rows * 41 + width;
            let nulls = Nulls::EACH[pick % 5];
            let layout = Layout::EACH[pick / 5 % Layout::EACH.len()];
            check_both(&mut random, rows, width, nulls, Form::new(layout, pick % 16));
        }
    }
}

#[test]
fn every_layout_null_pattern_and_bit_offset() {
    let mut random = Random::new(2);
    for layout in Layout::EACH {
        for nulls in Nulls::EACH {
            for offset in (0..=15).step_by(if quick() { 5 } else { 1 }) {
                for (rows, width) in [(1, 1), (9, 3), (3, 17), (0, 4), (5, 0), (67, 2)] {
                    check_both(&mut random, rows, width, nulls, Form::new(layout, offset));
                }
            }
        }
    }
}

#[test]
fn around_lane_leaf_tile_and_block_edges() {
    let mut random = Random::new(3);
    let long = if quick() {
        vec![1023, 1025, 4097]
    } else {
        vec![63, 65, 255, 256, 257, 1023, 1024, 1025, 2047, 2049, 4095, 4096, 4097, 8193]
    };
    for (i, n) in long.into_iter().enumerate() {
        for narrow in [1, 2, 3, 5, 8, 16, 17] {
            let nulls = [Nulls::None, Nulls::Both][(i + narrow) % 2];
            let layout = Layout::EACH[(i + narrow) % Layout::EACH.len()];
            check_both(&mut random, n, narrow, nulls, Form::new(layout, narrow % 16));
            check_both(&mut random, narrow, n, nulls, Form::new(layout, narrow % 16));
        }
    }
}

/// The same bits for threads × chunkings × offsets × levels × stores.
fn same_bits<T: Number>(
    random: &mut Random,
    rows: usize,
    width: usize,
    nulls: Nulls,
    layouts: &[Layout],
) {
    let chunkings = if quick() { 4 } else { 20 };
    let threads: &[usize] = if quick() { &[1, 3] } else { &[1, 2, 3, 8] };
    for &layout in layouts {
        let table = as_held(&Table::<T>::random(random, rows, width, nulls), layout);
        let calls = few_calls::<T>(random, rows, width, nulls);
        let whole = matrix(&table, Form::plain(layout));
        let expected: Vec<Raw> = calls
            .iter()
            .map(|call| {
                let value = call.value(&whole);
                assert_eq!(Outcome::of_value::<T>(&value), call.expected(&table), "{call}");
                Raw::of(&value)
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
                    for (call, expected) in calls.iter().zip(&expected) {
                        let got = with_settings(settings.clone(), || Raw::of(&call.value(&x)));
                        assert!(
                            got == *expected,
                            "{call} on {rows} x {width} {:?} {form:?} ends {ends:?} {settings:?}",
                            T::TYPE
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
    for (i, &(rows, width)) in shapes.iter().enumerate() {
        let nulls = [Nulls::None, Nulls::Both];
        // By columns where that is how such data comes: tall and not too wide.
        let all = [Layout::FixedSizeList, Layout::Struct];
        let layouts = if width <= 3 { &all[..] } else { &all[..1] };
        same_bits::<f32>(&mut random, rows, width, nulls[i % 2], layouts);
        same_bits::<f64>(&mut random, rows, width, nulls[(i + 1) % 2], layouts);
    }
}

#[test]
fn large_enough_that_the_plan_takes_threads_of_its_own_accord() {
    let mut random = Random::new(5);
    for (rows, width) in if quick() { vec![(60_000, 2)] } else { vec![(200_000, 2), (3, 150_000)] }
    {
        for nulls in [Nulls::None, Nulls::Rows] {
            let form = Form::plain(Layout::FixedSizeList);
            let table = Table::<f64>::random(&mut random, rows, width, nulls);
            let x = matrix(&table, form);
            for call in few_calls::<f64>(&mut random, rows, width, nulls) {
                assert_eq!(call.run(&x), call.expected(&table), "{call} on {rows} x {width}");
            }
        }
    }
}
