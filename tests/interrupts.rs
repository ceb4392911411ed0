//! Every function of the table asks whether to stop, and stops, wherever the data lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, FixedSizeListArray, Float64Array, ListArray, types::Float64Type};
use arrow_buffer::NullBuffer;
use raptors_arrow::compute::{Function, Options, Value, list_functions, registry::ArgumentKind};
use raptors_arrow::dispatch::{
    Settings, set_interrupt_check, set_interrupt_interval, with_settings,
};
use raptors_arrow::{Error, Matrix};

const ROWS: usize = 40_000;
const WIDTH: usize = 32;

static ASKED: AtomicUsize = AtomicUsize::new(0);
static STOP_AT: AtomicUsize = AtomicUsize::new(usize::MAX);

fn check() -> bool {
    ASKED.fetch_add(1, Ordering::Relaxed) + 1 >= STOP_AT.load(Ordering::Relaxed)
}

/// How a call ends if question number `stop_at` is answered with stop, and how many were asked.
fn asked<T>(stop_at: usize, call: impl FnOnce() -> Result<T, Error>) -> (Option<Error>, usize) {
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
            // Some megabytes a question: milliseconds.
            let is_at_once = function.name == "count" && !x.has_nulls();
            let min = if is_at_once { 0 } else { x.bytes() / (8 << 20) };
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
