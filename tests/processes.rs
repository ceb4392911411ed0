//! Threads and forks: a pool that belongs to the process that made it.
#![cfg(unix)]
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, Float64Array};
use raptors_arrow::compute::{Per, scale, sum};
use raptors_arrow::dispatch::{
    Settings, set_interrupt_check, set_num_threads, threads_started, with_settings,
};
use raptors_arrow::{Error, Matrix};

fn matrix(elements: usize) -> Matrix {
    let flat: ArrayRef = Arc::new(Float64Array::from(vec![0.5; elements]));
    Matrix::reshape(&flat, 4).unwrap()
}

fn four_threads() -> Settings {
    Settings { threads: Some(4), exact_threads: true, ..Settings::default() }
}

#[test]
fn a_forked_child_computes_with_a_pool_of_its_own() {
    let x = matrix(1 << 20);
    let expected = with_settings(four_threads(), || sum(&x, Per::Column)).unwrap();
    assert!(threads_started() >= 3);
    // SAFETY: the child only computes and leaves through _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let no_pool_yet = threads_started() == 0;
        let again = with_settings(four_threads(), || sum(&x, Per::Column));
        let scaled = with_settings(four_threads(), || scale(&x, 2.0));
        let ok = no_pool_yet && again.is_ok_and(|again| again == expected) && scaled.is_ok();
        // SAFETY: ends the child without running the test harness again.
        unsafe { libc::_exit(i32::from(!ok)) };
    }
    let mut status = 0;
    let started = std::time::Instant::now();
    loop {
        // SAFETY: `status` is a valid place; `child` is our child.
        let done = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if done == child {
            break;
        }
        assert!(started.elapsed().as_secs() < 600, "the child hangs");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(status, 0, "the child's answer differs");
}

#[test]
fn calls_in_a_row_from_several_threads_agree() {
    // Large enough to be shared while workers are awake, and small enough to meet them so.
    let sizes = [1 << 12, 1 << 16, 1 << 17, 1 << 18].map(matrix);
    let expected = [0, 1, 2, 3].map(|i| sum(&sizes[i], Per::Column).unwrap());
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (sizes, expected) = (&sizes, &expected);
            scope.spawn(move || {
                for call in 0..100 {
                    let i = (call / 3 + caller) % sizes.len();
                    assert_eq!(&sum(&sizes[i], Per::Column).unwrap(), &expected[i]);
                }
            });
        }
    });
}

#[test]
fn calls_from_many_threads_at_once_agree() {
    let x = matrix(1 << 18);
    let expected = sum(&x, Per::Row).unwrap();
    std::thread::scope(|scope| {
        for threads in 1..=8 {
            let (x, expected) = (&x, &expected);
            scope.spawn(move || {
                let settings =
                    Settings { threads: Some(threads), exact_threads: true, ..Settings::default() };
                for _ in 0..20 {
                    let got = with_settings(settings.clone(), || sum(x, Per::Row)).unwrap();
                    assert_eq!(&got, expected);
                }
            });
        }
    });
}

/// How often calls asked whether to stop.
static ASKED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn an_interrupt_ends_a_long_call_at_the_first_question() {
    let x = matrix(1 << 26);
    for threads in [1, 2] {
        ASKED.store(0, Ordering::Relaxed);
        set_interrupt_check(Some(|| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            true
        }));
        let settings =
            Settings { threads: Some(threads), exact_threads: true, ..Settings::default() };
        let result = with_settings(settings, || {
            // Rounds, so that one of them is long enough to ask on most machines.
            (0..100).try_for_each(|_| sum(&x, Per::Column).map(drop))
        });
        set_interrupt_check(None);
        match ASKED.load(Ordering::Relaxed) {
            // A machine so fast that each round ends before the first question.
            0 => assert_eq!(result, Ok(())),
            1 => assert_eq!(result, Err(Error::Interrupted.in_function("sum"))),
            more => panic!("asked {more} times, though the first answer was to stop"),
        }
    }
    assert!(sum(&x, Per::Column).is_ok());
}

#[test]
fn the_number_of_threads_can_be_set() {
    set_num_threads(2).unwrap();
    assert_eq!(raptors_arrow::dispatch::num_threads(), Ok(2));
}
