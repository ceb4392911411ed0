//! Every function of the table asks whether to stop, and stops, wherever the data lie; so do groups,
//! accumulators and chains. What is counted is the work between two questions, not the time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow_array::types::Float64Type;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float64Array, Int64Array, ListArray, StringArray,
};
use arrow_buffer::NullBuffer;
use raptors_arrow::compute::registry::ArgumentKind;
use raptors_arrow::compute::{
    Accumulator, Function, Groups, Options, Per, ReduceOptions, Statistic, Value, get_function,
    list_functions, reduce_groups, reduce_lists,
};
use raptors_arrow::dispatch::{
    Settings, set_interrupt_check, set_interrupt_interval, with_settings,
};
use raptors_arrow::{Error, Matrix, expr};

const ROWS: usize = 40_000;
const WIDTH: usize = 32;

static ASKED: AtomicUsize = AtomicUsize::new(0);
static STOP_AT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// One call at a time is counted.
static ALONE: Mutex<()> = Mutex::new(());

fn check() -> bool {
    ASKED.fetch_add(1, Ordering::Relaxed) + 1 >= STOP_AT.load(Ordering::Relaxed)
}

/// How a call ends if question number `stop_at` is answered with stop, and how many were asked.
fn asked<T>(stop_at: usize, call: impl FnOnce() -> Result<T, Error>) -> (Option<Error>, usize) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    ASKED.store(0, Ordering::Relaxed);
    STOP_AT.store(stop_at, Ordering::Relaxed);
    set_interrupt_interval(Duration::ZERO);
    set_interrupt_check(Some(check));
    let settings = Settings { threads: Some(1), ..Settings::default() };
    let ended = with_settings(settings, call).err();
    set_interrupt_check(None);
    (ended, ASKED.load(Ordering::Relaxed))
}

fn vector(len: usize) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values((0..len).map(|i| (i % 97) as f64 + 0.5)))
}

/// Rows without nulls, with null rows and elements, in chunks, and lists whose null rows are empty.
fn layouts() -> Vec<(&'static str, Matrix)> {
    let flat = vector(ROWS * WIDTH);
    let dense = Matrix::reshape(&flat, WIDTH).unwrap().into_lists().unwrap();
    let valid = NullBuffer::from_iter((0..ROWS * WIDTH).map(|i| i % 11 != 0));
    let values = flat.to_data().into_builder().nulls(Some(valid)).build().unwrap();
    let item = Arc::new(arrow_schema::Field::new_list_field(flat.data_type().clone(), true));
    let rows = NullBuffer::from_iter((0..ROWS).map(|i| i % 7 != 0));
    let values = arrow_array::make_array(values);
    let nulls: ArrayRef = Arc::new(FixedSizeListArray::new(item, WIDTH as i32, values, Some(rows)));
    let row = |i: usize| (!i.is_multiple_of(5)).then(|| vec![Some(i as f64); WIDTH]);
    let lists: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>((0..ROWS).map(row)));
    let chunks = (0..8).map(|i| nulls.slice(i * ROWS / 8, ROWS / 8));
    let chunks = chunks.map(|chunk| Matrix::try_from(&chunk).unwrap()).collect();
    vec![
        ("dense", dense),
        ("nulls", Matrix::try_from(&nulls).unwrap()),
        ("chunks", Matrix::from_chunks(chunks).unwrap()),
        ("lists", Matrix::try_from(&lists).unwrap()),
    ]
}

fn arguments(function: &Function, x: &Matrix) -> Vec<Value> {
    let others = function.arguments[1..].iter().map(|argument| match argument.kind {
        ArgumentKind::Number | ArgumentKind::Operand => Value::Number(2.0),
        ArgumentKind::Row | ArgumentKind::Vectors => Value::Vector(vector(WIDTH)),
        ArgumentKind::Queries => Value::Matrix(Matrix::reshape(&vector(8 * WIDTH), WIDTH).unwrap()),
        // The other side of a product.
        _ => Value::Matrix(Matrix::reshape(&vector(WIDTH * WIDTH), WIDTH).unwrap()),
    });
    std::iter::once(Value::Matrix(x.clone())).chain(others).collect()
}

/// Bytes that are read between two questions at most: some milliseconds.
const BYTES_OF_A_QUESTION: usize = 4 << 20;

#[test]
fn every_function_asks_whether_to_stop_and_stops() {
    for (layout, x) in layouts() {
        for function in list_functions() {
            let options = match function.name {
                "cast" => Options::new().set("type", "float32"),
                _ => Options::new(),
            };
            let arguments = arguments(function, &x);
            let call = || function.call(&arguments, &options);
            let (ended, questions) = asked(usize::MAX, call);
            assert_eq!(ended, None, "{} {layout}", function.name);
            // What is counted is a bit for each element.
            let read = if function.name == "count" { x.bytes() / 64 } else { x.bytes() };
            let min = read / BYTES_OF_A_QUESTION;
            assert!(questions >= min, "{} {layout}: {questions} questions", function.name);
            let stops = [1, questions.div_ceil(2), questions];
            for stop_at in stops.into_iter().filter(|stop_at| (1..=questions).contains(stop_at)) {
                let (ended, asked) = asked(stop_at, call);
                let name = function.name;
                let is_interrupted = ended.as_ref().map(Error::kind) == Some(&Error::Interrupted);
                assert!(is_interrupted, "{name} {layout}: {ended:?}");
                assert!(asked <= questions, "{name} {layout}: {asked} of {questions}");
            }
        }
    }
}

/// Multiplications between two questions at most: some ten milliseconds, of a busy core too.
const PRODUCTS_OF_A_QUESTION: usize = 1 << 26;

#[test]
fn products_ask_however_long_the_rows_are() {
    let (rows, width) = (96, 100_000);
    let x = Matrix::reshape(&vector(rows * width), width).unwrap();
    let some = Matrix::reshape(&vector(width * 8), 8).unwrap();
    let pairwise = get_function("pairwise").unwrap();
    let mut calls: Vec<_> = ["dot", "cosine", "l2", "l1"]
        .into_iter()
        .map(|metric| (pairwise, vec![x.clone()], Options::new().set("metric", metric)))
        .collect();
    calls.push((get_function("matmul").unwrap(), vec![x.clone(), some], Options::new()));
    for (function, matrices, options) in &calls {
        let arguments: Vec<_> = matrices.iter().cloned().map(Value::Matrix).collect();
        let (ended, questions) = asked(usize::MAX, || function.call(&arguments, options));
        assert_eq!(ended, None, "{}", function.name);
        let columns = if function.name == "matmul" { 8 } else { rows };
        let min = rows * columns * width / PRODUCTS_OF_A_QUESTION;
        assert!(questions >= min.max(1), "{} {options:?}: {questions}", function.name);
        let (ended, _) = asked(questions / 2, || function.call(&arguments, options));
        let is_interrupted = ended.as_ref().map(Error::kind) == Some(&Error::Interrupted);
        assert!(is_interrupted, "{} {options:?}: {ended:?}", function.name);
    }
}

#[test]
fn groups_accumulators_and_chains_ask_too() {
    let rows = 1 << 20;
    let x = Matrix::reshape(&vector(rows * 2), 2).unwrap();
    let options = ReduceOptions::default();
    let texts = (0..rows).map(|i| format!("key {}", i % 1000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let numbers = (0..rows).map(|i| (i % 1000) as i64 * 1_000_003);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let lists: Vec<_> = (0..rows / 4).map(|i| 4 * i..4 * i + 4).collect();
    let members =
        Groups::new([numbers.data_type()]).unwrap().assign(std::slice::from_ref(&numbers)).unwrap();
    type Job<'a> = (&'static str, Box<dyn Fn() -> Result<(), Error> + 'a>);
    let assigned = |keys: &ArrayRef| -> Result<(), Error> {
        Groups::new([keys.data_type()])?.assign(std::slice::from_ref(keys)).map(drop)
    };
    let jobs: Vec<Job<'_>> = vec![
        ("keys that are texts", Box::new(|| assigned(&texts))),
        ("keys that are numbers", Box::new(|| assigned(&numbers))),
        ("groups", Box::new(|| reduce_groups(Statistic::Var, &x, &members, &options).map(drop))),
        ("lists", Box::new(|| reduce_lists(Statistic::Mean, &x, &lists, &options).map(drop))),
        (
            "an accumulator",
            Box::new(|| {
                let mut var = Accumulator::new(Statistic::Var, Per::Column, options)?;
                var.update(&x)?;
                var.finish().map(drop)
            }),
        ),
        (
            "a chain",
            Box::new(|| {
                let given = |_: &str| Ok(Value::Matrix(x.clone()));
                let chain = expr::col("x").scale(2.0).clip(0.0, 9.0).var(0);
                expr::evaluate_values(&[chain], &given).map(drop)
            }),
        ),
    ];
    for (what, job) in jobs {
        let (ended, questions) = asked(usize::MAX, &job);
        assert_eq!(ended, None, "{what}");
        assert!(questions >= x.bytes() / BYTES_OF_A_QUESTION, "{what}: {questions} questions");
        let (ended, _) = asked(questions.div_ceil(2), &job);
        let is_interrupted = ended.as_ref().map(Error::kind) == Some(&Error::Interrupted);
        assert!(is_interrupted, "{what}: {ended:?}");
    }
}
