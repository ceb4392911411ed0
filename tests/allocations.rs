//! Memory that is refused at any point of a call is [`Error::OutOfMemory`], never an abort: every
//! function is called once for each of its allocations, with that one refused; on many rows, and on few
//! rows of many columns. So are accumulators, groups, lists of vectors and chains.
#![cfg(target_os = "linux")]

mod oracle;

use std::alloc::{GlobalAlloc, Layout as Size, System};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{Array, ArrayRef, Int32Array, UInt32Array};
use arrow_schema::DataType;
use oracle::calls::{First, Sample, calls};
use oracle::forms::{Form, Layout, as_held, chunked, matrix};
use oracle::raw::Raw;
use oracle::{Draw, Nulls, Random, Table, quick};
use raptors_arrow::buffer::{pool_stats, release_unused};
use raptors_arrow::compute::{
    Accumulator, GroupStatistic, Groups, Per, ReduceOptions, Statistic, Value, reduce_lists,
};
use raptors_arrow::dispatch::{Level, Settings, with_settings};
use raptors_arrow::expr::{self, Expr};
use raptors_arrow::{Error, Matrix};

/// Bytes from which on an allocation counts: all that grows with the rows or the columns does; what a
/// tile or a block of rows needs, however many there are, does not.
const COUNTED: usize = 192 << 10;

/// Allocations to go until one is refused; negative while none is to be.
static LEFT: AtomicIsize = AtomicIsize::new(-1);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, but for the one allocation that is to be refused.
struct Refusing;

impl Refusing {
    fn refuses(size: usize) -> bool {
        if size < COUNTED || LEFT.load(Ordering::Relaxed) < 0 {
            return false;
        }
        let is_refused = LEFT.fetch_sub(1, Ordering::Relaxed) == 0;
        REFUSED.fetch_add(is_refused.into(), Ordering::Relaxed);
        is_refused
    }
}

#[allow(unsafe_code)]
// SAFETY: gives what the system gives, or null, which an allocator may.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, size: Size) -> *mut u8 {
        if Self::refuses(size.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(size) }
    }

    unsafe fn alloc_zeroed(&self, size: Size) -> *mut u8 {
        if Self::refuses(size.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(size) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, size: Size, new: usize) -> *mut u8 {
        if new > size.size() && Self::refuses(new) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, size, new) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, size: Size) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Runs `f` with its `k`-th allocation refused, on whichever thread; `None` if it has fewer.
fn with_refused<R>(k: usize, f: impl FnOnce() -> R) -> Option<R> {
    let before = REFUSED.load(Ordering::Relaxed);
    LEFT.store(k as isize, Ordering::Relaxed);
    let result = f();
    LEFT.store(-1, Ordering::Relaxed);
    (REFUSED.load(Ordering::Relaxed) > before).then_some(result)
}

/// What ran when the process was ended by a refusal.
static RUNS: Mutex<String> = Mutex::new(String::new());

#[allow(unsafe_code)]
fn report_aborts() {
    extern "C" fn aborted(_: libc::c_int) {
        if let Ok(what) = RUNS.try_lock() {
            // SAFETY: writes bytes that are alive.
            unsafe { libc::write(2, what.as_ptr().cast(), what.len()) };
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(87) }
    }
    let handler = aborted as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler calls only what a handler may.
    unsafe { libc::signal(libc::SIGABRT, handler) };
}

/// Ends a call at each of its first allocations, and at some of many more; says how many of them were
/// refused for good.
fn refused_one_by_one(what: &str, run: impl Fn() -> Result<Value, Error>) -> usize {
    let raw = |value: Result<Value, Error>| value.ok().map(|value| Raw::of(&value));
    let expected = raw(run());
    let mut refused = 0;
    let all = std::iter::successors(Some(0), |k: &usize| Some(k + 1 + k / 6));
    for k in all {
        release_unused();
        *RUNS.lock().unwrap() = format!("allocation {k} of {what}\n");
        let used = pool_stats().unwrap().used_bytes;
        let Some(got) = with_refused(k, &run) else { break };
        match got {
            Err(error) if error.kind().to_string().contains("no memory") => refused += 1,
            // A retry after the pool was released, or a smaller workspace.
            got => assert!(raw(got) == expected, "{what}, allocation {k}"),
        }
        assert_eq!(pool_stats().unwrap().used_bytes, used, "{what}");
    }
    assert!(raw(run()) == expected, "{what}: after a refusal");
    refused
}

/// The tests of this file would refuse each other's memory: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    report_aborts();
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn settings(i: usize) -> Settings {
    let levels: Vec<Level> = Level::available().collect();
    Settings {
        threads: Some(1 + i % 2),
        exact_threads: true,
        simd: Some(levels[i % levels.len()]),
        ..Settings::default()
    }
}

const NULLS: [Nulls; 4] = [Nulls::None, Nulls::Both, Nulls::Rows, Nulls::Elements];

/// Calls every function on matrices of a shape, with every `nth` layout of an element; says how many
/// calls there were, and refusals.
fn every_function(
    shape: impl Fn(Layout) -> (usize, usize),
    elements: &[DataType],
    nth: usize,
) -> (usize, usize) {
    let mut random = Random::new(10);
    let (mut made, mut refused) = (0, 0);
    for (j, element) in elements.iter().enumerate() {
        for (l, layout) in Layout::EACH.into_iter().enumerate() {
            if (j + l) % if quick() { 12 } else { nth } != 0 {
                continue;
            }
            let (rows, width) = shape(layout);
            let nulls = NULLS[l % 4];
            let x = First { element, rows, width, nulls, draw: Draw::Tame };
            let table = Table::random(&mut random, element, (rows, width), nulls, x.draw);
            let table = as_held(&table, layout);
            let form = Form::plain(layout);
            let x_matrix = if l % 3 == 0 && layout != Layout::Flat {
                chunked(&table, form, &[rows / 3, rows / 2])
            } else {
                matrix(&table, form)
            };
            for call in calls(&mut random, x, Sample::Few) {
                let what = format!("{call} on {rows} x {width} {element} {form:?} {nulls:?}");
                let run = || refused_one_by_one(&what, || call.run(&x_matrix));
                refused += with_settings(settings(l), run);
                made += 1;
            }
        }
    }
    (made, refused)
}

#[test]
fn any_allocation_that_is_refused_ends_the_call_with_an_error() {
    let _alone = alone();
    let elements = [DataType::Float32, DataType::Float64, DataType::Int16, DataType::UInt64];
    let (made, refused) = every_function(|_| (200_000, 2), &elements, 4);
    assert!(made > 20 && refused > 20, "{made} calls, {refused} refusals");
}

/// Few rows of so many columns that a byte for each counts; of columns that lie apart fewer will do,
/// as there is more for each.
fn wide(layout: Layout) -> (usize, usize) {
    // A schema's pointers to its fields, which Arrow allocates when memory for them was asked for, do
    // not count.
    (2, if layout.is_by_columns() { COUNTED / 8 - 8 } else { COUNTED + 8 })
}

#[test]
fn any_allocation_for_many_columns_that_is_refused_ends_the_call_with_an_error() {
    let _alone = alone();
    let elements = [DataType::Float64, DataType::Float16, DataType::Int8, DataType::Float32];
    let (made, refused) = every_function(wide, &elements, 24);
    assert!(made > 50 && refused > 50, "{made} calls, {refused} refusals");
}

/// Something that is more than a call of one function.
type Job<'a> = (&'static str, Box<dyn Fn() -> Result<Value, Error> + 'a>);

fn accumulated(x: &Matrix, statistic: Statistic, per: Per) -> Result<Value, Error> {
    let mut left = Accumulator::new(statistic, per, ReduceOptions::default())?;
    left.update(x)?;
    let mut right = Accumulator::new(statistic, per, ReduceOptions::default())?;
    right.update(x)?;
    let mut left = Accumulator::from_state(&left.state()?)?;
    left.merge(right)?;
    left.finish().map(Value::Vector)
}

fn grouped(x: &Matrix, statistic: Statistic, key: &ArrayRef) -> Result<Value, Error> {
    let mut groups = Groups::new([key.data_type()])?;
    let members = groups.assign(std::slice::from_ref(key))?;
    groups.keys()?;
    let mut part = GroupStatistic::partial(statistic, ReduceOptions::default());
    part.update(x, &members)?;
    let states = part.state(groups.len())?;
    let mut merged = GroupStatistic::of_states(&states)?;
    let ids: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..groups.len() as u32));
    let mut again = Groups::new([ids.data_type()])?;
    merged.merge(&states, &again.assign(&[ids])?)?;
    merged.finish(again.len()).map(Value::Matrix)
}

fn evaluated(x: &Matrix, expr: &Expr) -> Result<Value, Error> {
    let given = |_: &str| Ok(Value::Matrix(x.clone()));
    let mut made = expr::evaluate_values(std::slice::from_ref(expr), &given)?;
    Ok(made.remove(0))
}

/// Accumulators, groups, lists of vectors and chains over a matrix.
fn jobs(x: &Matrix) -> Vec<Job<'_>> {
    let numbers = (0..x.rows()).map(|i| i as i32 / 2);
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers));
    // Not texts: arrow-row encodes them, whose own memory cannot be refused. It is asked for before.
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for statistic in [Statistic::Var, Statistic::ArgMin] {
        for per in [Per::Column, Per::Matrix] {
            jobs.push(("an accumulator", Box::new(move || accumulated(x, statistic, per))));
        }
        let key = Arc::clone(&keys);
        jobs.push(("groups", Box::new(move || grouped(x, statistic, &key))));
        let lists: Vec<_> = (0..x.rows()).map(|row| row..row + 1).collect();
        let pooled = move || {
            reduce_lists(statistic, x, &lists, &ReduceOptions::default()).map(Value::Matrix)
        };
        jobs.push(("lists of vectors", Box::new(pooled)));
    }
    let chain = || expr::col("x").scale(2.0).add(1.0).clip(0.0, 3.0);
    let mut chains = vec![chain(), chain().normalize().norm(1)];
    for axis in [None, Some(0), Some(1)] {
        chains.extend([chain().mean(axis), chain().max(axis)]);
    }
    let of = |chain: Expr| -> Job<'_> { ("a chain", Box::new(move || evaluated(x, &chain))) };
    jobs.extend(chains.into_iter().map(of));
    jobs
}

#[test]
fn any_allocation_of_states_groups_and_chains_that_is_refused_is_an_error() {
    let _alone = alone();
    let mut random = Random::new(11);
    let mut refused = 0;
    let tall = (Layout::FixedSizeList, (100_000, 2), Nulls::Both);
    let wide = (Layout::Batch, wide(Layout::Batch), Nulls::None);
    for (j, (layout, shape, nulls)) in [tall, wide].into_iter().enumerate() {
        let table = Table::random(&mut random, &DataType::Float32, shape, nulls, Draw::Tame);
        let x = matrix(&as_held(&table, layout), Form::plain(layout));
        for (i, (what, run)) in jobs(&x).into_iter().enumerate() {
            let what = format!("{what} ({i}) on {shape:?} {layout:?} {nulls:?}");
            refused += with_settings(settings(j), || refused_one_by_one(&what, &run));
        }
    }
    assert!(refused > 50, "{refused} refusals");
}
