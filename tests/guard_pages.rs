//! No kernel reads or writes beside its buffers: every function on inputs that are flush against
//! protected pages, at either end, at every SIMD level, with an allocator that does the same for
//! outputs and scratch. A touch of such a page ends the process with the name of the call.
#![cfg(target_os = "linux")]

mod guard;
mod oracle;

use arrow_array::ArrayRef;
use guard::allocator::{Guarding, armed, given};
use guard::{
    End, TOUCHED, guarded_array, guarded_matrix, guarded_value, place, report_touches, runs,
};
use oracle::calls::{First, Sample, calls};
use oracle::forms::{Form, Layout, array, as_held, matrix};
use oracle::numbers::TYPES;
use oracle::raw::Raw;
use oracle::{Draw, Nulls, Random, Table, quick};
use raptors_arrow::compute::Value;
use raptors_arrow::dispatch::{Level, Settings, Store, with_settings};
use raptors_arrow::{Error, Matrix};

#[global_allocator]
static ALLOCATOR: Guarding = Guarding;

/// The longest width and number of rows: two registers of the widest level and more, in bytes.
const LONGEST: usize = 130;

fn raw(result: Result<Value, Error>) -> Result<Raw, Error> {
    result.map(|value| Raw::of(&value))
}

/// The table over guarded memory.
fn guarded(table: &Table, form: Form, end: End) -> Matrix {
    if matches!(form.layout, Layout::Flat | Layout::Batch) {
        return guarded_matrix(&matrix(table, form), end);
    }
    let array: ArrayRef = guarded_array(&array(table, form), end);
    Matrix::try_from(&array).unwrap()
}

/// Calls every function on a table; returns how many calls were made on guarded memory.
fn check(random: &mut Random, x: First<'_>, form: Form) -> usize {
    let First { element, rows, width, nulls, draw } = x;
    let table = as_held(&Table::random(random, element, (rows, width), nulls, draw), form.layout);
    let is_list = matches!(form.layout, Layout::List | Layout::LargeList | Layout::PackedList);
    let has_no_width = is_list && width > 0 && table.rows.iter().all(Option::is_none);
    let has_no_type = width == 0 && form.layout.is_by_columns();
    let form = if has_no_width || has_no_type { Form::plain(Layout::FixedSizeList) } else { form };
    let (free, mut made) = (matrix(&table, form), 0);
    let ends = [End::Front, End::Back].map(|end| (end, guarded(&table, form, end)));
    for (i, call) in calls(random, x, Sample::Some(1)).into_iter().enumerate() {
        let others =
            ends.each_ref().map(|(end, _)| call.map_arguments(|value| guarded_value(value, *end)));
        for level in Level::available() {
            let settings = Settings {
                threads: Some(1 + (rows + i) % 2),
                exact_threads: true,
                simd: Some(level),
                store: Some([Store::Cached, Store::Streaming][(width + i) % 2]),
                ..Settings::default()
            };
            with_settings(settings.clone(), || {
                let expected = raw(call.run(&free));
                for ((end, x), call) in ends.iter().zip(&others) {
                    let what = format!(
                        "{call} on {rows} x {width} {element} {form:?} {nulls:?} at the {end:?} {settings:?}"
                    );
                    runs(&what);
                    let got = armed(|| call.run(x));
                    assert!(raw(got) == expected, "{what}: other bits");
                    made += 1;
                }
            });
        }
    }
    made
}

#[test]
fn every_function_at_every_width_and_length_keeps_to_its_buffers() {
    report_touches();
    let mut random = Random::new(17);
    let (mut made, before) = (0, given());
    for n in (0..=LONGEST).step_by(if quick() { 9 } else { 1 }) {
        let rows = [1, 2, 3, 5, 9, 17, 33][n % 7];
        let width = [1, 2, 3, 4, 5, 7, 8, 16, 17, 33][n % 10];
        for (turn, (rows, width)) in [(rows, n), (n, width)].into_iter().enumerate() {
            let pick = 2 * n + turn;
            let others = TYPES.len() - 2;
            for (j, (_, element)) in
                [&TYPES[pick / 2 % 2], &TYPES[2 + pick % others]].into_iter().enumerate()
            {
                let nulls = Nulls::EACH[(pick / 2 + j) % 4];
                let layout = Layout::EACH[(pick + 3 * j) % Layout::EACH.len()];
                let form = Form::new(layout, [0, pick % 16][(n + j) % 2]);
                let x = First { element, rows, width, nulls, draw: Draw::Tame };
                made += check(&mut random, x, form);
            }
        }
    }
    assert!(
        made > 1000 && given() - before > made,
        "{made} calls, {} allocations",
        given() - before
    );
}

/// How a child of this process ends that does something.
#[allow(unsafe_code)]
fn ending(act: impl FnOnce()) -> i32 {
    // SAFETY: the child does one thing and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        report_touches();
        runs("on purpose");
        act();
        // SAFETY: ends the child without the test harness.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `child` is our child, and `status` a place for its end.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

/// The traps spring: without this, the test above could pass on memory that nothing guards.
#[test]
#[allow(unsafe_code)]
fn a_touch_of_a_guarded_page_ends_the_process() {
    let read = |buffer: &arrow_buffer::Buffer, at: isize| {
        // SAFETY: it is not, on purpose: in a child that is to end by it.
        std::hint::black_box(unsafe { buffer.as_ptr().offset(at).read_volatile() });
    };
    let bytes = [7u8; 24];
    let (front, back) = (place(&bytes, End::Front), place(&bytes, End::Back));
    assert_eq!(
        ending(|| [0, 23].map(|at| (read(&front, at), read(&back, at))).into_iter().for_each(drop)),
        0
    );
    assert_eq!(ending(|| read(&front, -1)), TOUCHED);
    assert_eq!(ending(|| read(&back, 24)), TOUCHED);
    // SAFETY: as above.
    let write = |buffer: &arrow_buffer::Buffer| unsafe { buffer.as_ptr().cast_mut().write(1) };
    assert_eq!(ending(|| write(&back)), TOUCHED);
    // What was allocated: past its end, before its start, and after it was freed.
    let made = |len: usize| armed(|| vec![1u8; len]);
    let poke = |vec: &Vec<u8>, at: isize| {
        // SAFETY: as above.
        unsafe { vec.as_ptr().cast_mut().offset(at).write_volatile(3) };
    };
    assert_eq!(ending(|| drop(made(100))), 0);
    assert_eq!(ending(|| poke(&made(100), 100)), TOUCHED);
    assert_eq!(
        ending(|| {
            let vec = made(100);
            poke(&vec, -1);
            drop(vec);
        }),
        TOUCHED
    );
    assert_eq!(
        ending(|| {
            let vec = made(100);
            let at = vec.as_ptr();
            drop(vec);
            // SAFETY: as above.
            std::hint::black_box(unsafe { at.read_volatile() });
        }),
        TOUCHED
    );
}
