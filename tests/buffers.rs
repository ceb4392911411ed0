//! The pool of output buffers: bounded, counted, and never handing out what is still in use.
//! One process, one pool: the tests of this file take turns.

#![allow(unsafe_code)]

mod oracle;

use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::forms::{Form, Layout, as_held, matrix as formed};
use oracle::numbers::TYPES;
use oracle::raw::Raw;
use oracle::{Draw, Nulls, Random, Table};
use raptors_arrow::Matrix;
use raptors_arrow::buffer::{pool_stats, release_unused};
use raptors_arrow::compute::{Value, scale};
use raptors_arrow::dispatch::{Settings, with_settings};

static TURN: Mutex<()> = Mutex::new(());

fn matrix(elements: usize) -> Matrix {
    let flat: ArrayRef = Arc::new(Float32Array::from(vec![1.0f32; elements]));
    Matrix::try_from(&flat).unwrap()
}

fn scaled(x: &Matrix, by: f64) -> ArrayRef {
    scale(x, by).unwrap().to_arrays().unwrap().remove(0)
}

fn address(array: &ArrayRef) -> usize {
    array.to_data().buffers()[0].as_ptr() as usize
}

#[test]
fn a_dropped_output_is_used_again_and_a_held_one_is_not() {
    let _turn = TURN.lock();
    release_unused();
    let x = matrix(1 << 20);
    let first = scaled(&x, 2.0);
    let at = address(&first);
    let second = scaled(&x, 3.0);
    assert_ne!(address(&second), at, "the first is still held");
    drop(first);
    let hits = pool_stats().unwrap().hits;
    let third = scaled(&x, 4.0);
    assert_eq!(address(&third), at);
    assert_eq!(pool_stats().unwrap().hits, hits + 1);
    assert!(second.as_primitive::<Float32Type>().values().iter().all(|v| *v == 3.0));
    assert!(third.as_primitive::<Float32Type>().values().iter().all(|v| *v == 4.0));
    // A slice keeps the whole buffer in use.
    let slice = third.slice(10, 5);
    drop(third);
    assert_ne!(address(&scaled(&x, 5.0)), at);
    assert_eq!(slice.as_primitive::<Float32Type>().values(), &[4.0; 5]);
}

#[test]
fn the_pool_keeps_to_its_limit_and_can_be_emptied() {
    let _turn = TURN.lock();
    release_unused();
    let limit = 8 << 20;
    let settings = Settings { pool_bytes: Some(limit), ..Settings::default() };
    with_settings(settings, || {
        let held: Vec<ArrayRef> = (0..6).map(|_| scaled(&matrix(1 << 20), 2.0)).collect();
        assert!(pool_stats().unwrap().used_bytes >= 6 << 22);
        drop(held);
        let stats = pool_stats().unwrap();
        assert_eq!(stats.limit_bytes, limit);
        assert!(stats.held_bytes <= limit && stats.held_bytes > 0, "{stats:?}");
        // Larger than the limit: never held.
        drop(scaled(&matrix(4 << 20), 2.0));
        assert!(pool_stats().unwrap().held_bytes <= limit);
    });
    assert!(release_unused() > 0);
    let stats = pool_stats().unwrap();
    assert_eq!((stats.held_bytes, stats.held_buffers), (0, 0));
    let none = Settings { pool_bytes: Some(0), ..Settings::default() };
    with_settings(none, || drop(scaled(&matrix(1 << 20), 2.0)));
    assert_eq!(pool_stats().unwrap().held_bytes, 0);
}

#[test]
fn outputs_may_be_dropped_by_any_thread_at_any_time() {
    let _turn = TURN.lock();
    release_unused();
    std::thread::scope(|scope| {
        for worker in 0..8 {
            scope.spawn(move || {
                let x = matrix(60_000 + worker);
                let (send, receive) = std::sync::mpsc::channel::<ArrayRef>();
                let other = std::thread::spawn(move || {
                    for array in receive {
                        let values = array.as_primitive::<Float32Type>().values();
                        let first = values[0];
                        assert!(values.iter().all(|v| *v == first));
                    }
                });
                for i in 0..200 {
                    send.send(scaled(&x, f64::from(i))).unwrap();
                }
                drop(send);
                other.join().unwrap();
            });
        }
    });
    let stats = pool_stats().unwrap();
    assert_eq!(stats.used_bytes, 0, "{stats:?}");
    assert!(stats.held_bytes <= stats.limit_bytes);
}

/// What lies in a buffer that was used before: no number of the tests.
const POISON: i64 = 0x5a5a_5a5a_5a5a_5a5a;

/// Fills the pool with buffers of `bytes` bytes and around, all full of poison.
fn poison(bytes: &[usize]) {
    let full = |bytes: usize| {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![POISON; bytes / 8]));
        let full = scale(&Matrix::try_from(&array).unwrap(), 1.0).unwrap();
        full.to_arrays().unwrap()
    };
    let held: Vec<_> = bytes.iter().flat_map(|bytes| [full(*bytes), full(*bytes)]).collect();
    let last = held.last().unwrap()[0].to_data();
    assert!(last.buffers()[0].typed_data::<i64>().iter().all(|word| *word == POISON));
}

/// The bytes between the end of each buffer from the pool and the next multiple of 64.
fn padding(data: &ArrayData, found: &mut Vec<u8>) {
    // Offsets of lists are vectors, without padding of ours.
    let values = if data.data_type().is_numeric() { data.buffers() } else { &[] };
    for buffer in values.iter().filter(|buffer| buffer.len() >= 128 << 10) {
        let padded = buffer.len().next_multiple_of(64);
        // SAFETY: outputs are allocated in multiples of 64 bytes, and the buffer ends its output.
        let rest = unsafe {
            std::slice::from_raw_parts(buffer.as_ptr().add(buffer.len()), padded - buffer.len())
        };
        found.extend(rest);
    }
    // Columns of one result share a block: behind all but the last lies the next.
    let skipped = match data.data_type() {
        DataType::Struct(fields) => fields.len().saturating_sub(1),
        _ => 0,
    };
    data.child_data().iter().skip(skipped).for_each(|child| padding(child, found));
}

fn arrays(value: &Value) -> Vec<ArrayRef> {
    match value {
        Value::Scalar(array) | Value::Vector(array) => vec![array.clone()],
        Value::Matrix(matrix) => matrix.to_arrays().unwrap(),
        Value::Ragged(lists) => lists.to_arrays().unwrap(),
        Value::Named(values) => values.iter().flat_map(|(_, value)| arrays(value)).collect(),
        Value::Number(_) | Value::Integer(_) => vec![],
    }
}

/// Every function gives from used buffers what it gives from new ones, which are zero: so it wrote
/// all of them, under nulls too, and read nothing that it had not written. The padding is zero.
#[test]
fn nothing_of_a_used_buffer_comes_out_again() {
    let _turn = TURN.lock();
    let mut random = Random::new(9);
    let (rows, width) = (20_011, 3);
    let (mut from_pool, mut padded) = (0, 0);
    for (i, layout) in Layout::EACH.into_iter().enumerate() {
        for (_, element) in [&TYPES[i % TYPES.len()], &TYPES[(i + 5) % TYPES.len()]] {
            let nulls = [Nulls::Both, Nulls::Rows, Nulls::Elements][i % 3];
            let x = First { element, rows, width, nulls, draw: Draw::Tame };
            let drawn = Table::random(&mut random, element, (rows, width), nulls, Draw::Tame);
            let matrix = formed(&as_held(&drawn, layout), Form::new(layout, i));
            for call in calls(&mut random, x, Sample::Some(2)) {
                release_unused();
                let Ok(new) = call.run(&matrix) else { continue };
                let expected = Raw::of(&new);
                drop(new);
                // A result of any type, bitmaps, and what lies between.
                poison(&[140_000, 165_000, 250_000, 485_000, 1_000_000]);
                let before = pool_stats().unwrap().hits;
                let used = call.run(&matrix).unwrap();
                from_pool += pool_stats().unwrap().hits - before;
                assert!(Raw::of(&used) == expected, "{call} {element} {layout:?}: old contents");
                let is_handed_on = call.function.name == "cast" && call.settings.to == *element;
                if !is_handed_on {
                    let mut rest = Vec::new();
                    arrays(&used).iter().for_each(|array| padding(&array.to_data(), &mut rest));
                    assert!(rest.iter().all(|b| *b == 0), "{call} {element} {layout:?}: padding");
                    padded += rest.len();
                }
            }
        }
    }
    assert!(
        from_pool > 100 && padded > 1000,
        "{from_pool} from the pool, {padded} bytes of padding"
    );
}
