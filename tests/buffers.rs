//! The pool of output buffers: bounded, counted, and never handing out what is still in use.
//! One process, one pool: the tests of this file take turns.

use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, Float32Array};
use raptors_arrow::Matrix;
use raptors_arrow::buffer::{pool_stats, release_unused};
use raptors_arrow::compute::scale;
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
