//! polars' part, played by hand: series with counters, so that a release too many or too few is seen.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, StringArray, cast::AsArray};
use arrow_schema::DataType;

use super::*;
use crate::compute::Driver;
use crate::compute::list_functions;

/// How often each thing was released.
#[derive(Default)]
struct Releases {
    series: AtomicUsize,
    arrays: AtomicUsize,
}

impl Releases {
    fn seen(&self) -> (usize, usize) {
        (self.series.load(Ordering::SeqCst), self.arrays.load(Ordering::SeqCst))
    }
}

struct CountedArray {
    _inner: FFI_ArrowArray,
    releases: Arc<Releases>,
}

unsafe extern "C" fn release_array(array: *mut FFI_ArrowArray) {
    // SAFETY: only arrays of `counted` have it, and it is called once: `release` is taken.
    unsafe {
        let array = &mut *array;
        array.release = None;
        let own = Box::from_raw(array.private_data.cast::<CountedArray>());
        own.releases.arrays.fetch_add(1, Ordering::SeqCst);
    }
}

/// The array, with a count of its releases.
fn counted(array: &ArrayRef, releases: &Arc<Releases>) -> FFI_ArrowArray {
    let inner = FFI_ArrowArray::new(&array.to_data());
    // SAFETY: a copy of the fields, of which only the outer is released, and drops the inner then.
    let mut outer = unsafe { std::ptr::read(&raw const inner) };
    let own = Box::new(CountedArray { _inner: inner, releases: Arc::clone(releases) });
    outer.private_data = Box::into_raw(own).cast();
    outer.release = Some(release_array);
    outer
}

struct CountedSeries {
    schema: Box<FFI_ArrowSchema>,
    arrays: Vec<*mut FFI_ArrowArray>,
    releases: Arc<Releases>,
}

unsafe extern "C" fn release_series(series: *mut SeriesExport) {
    // SAFETY: only series of `series` have it; as polars does, only the boxes are freed.
    unsafe {
        let series = &mut *series;
        assert!(series.release.take().is_some(), "a series was released twice");
        let own = Box::from_raw(series.private_data.cast::<CountedSeries>());
        for array in &own.arrays {
            drop(Box::from_raw(array.cast::<std::mem::ManuallyDrop<FFI_ArrowArray>>()));
        }
        own.releases.series.fetch_add(1, Ordering::SeqCst);
    }
}

/// A series in chunks, as polars would hand it over.
fn series(chunks: &[ArrayRef], releases: &Arc<Releases>) -> SeriesExport {
    let field = Field::new("emb", chunks[0].data_type().clone(), true);
    let mut own = Box::new(CountedSeries {
        schema: Box::new(FFI_ArrowSchema::try_from(&field).unwrap()),
        arrays: chunks
            .iter()
            .map(|chunk| Box::into_raw(Box::new(counted(chunk, releases))))
            .collect(),
        releases: Arc::clone(releases),
    });
    SeriesExport {
        field: &raw mut *own.schema,
        arrays: own.arrays.as_mut_ptr(),
        len: own.arrays.len(),
        release: Some(release_series),
        private_data: Box::into_raw(own).cast(),
    }
}

fn empty() -> SeriesExport {
    let (field, arrays) = (std::ptr::null_mut(), std::ptr::null_mut());
    SeriesExport { field, arrays, len: 0, release: None, private_data: std::ptr::null_mut() }
}

/// As Python pickles `{"call": text}`.
fn pickled(text: &str) -> Vec<u8> {
    let mut bytes = b"\x80\x05\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x04call\x94X".to_vec();
    bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(b"\x94s.");
    bytes
}

fn last_error() -> String {
    let text = _polars_plugin_get_last_error_message();
    // SAFETY: a text of this thread, which lives until the next error.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

/// Calls a function as polars does; the chunks of the result, or the error.
fn called(
    name: &'static str,
    inputs: Vec<SeriesExport>,
    kwargs: &[u8],
) -> std::result::Result<Vec<ArrayRef>, String> {
    let mut inputs = std::mem::ManuallyDrop::new(inputs);
    let mut out = empty();
    let kwargs = (kwargs.as_ptr(), kwargs.len());
    // SAFETY: the inputs are forgotten here, and `out` is empty.
    unsafe { call(name, inputs.as_mut_ptr(), inputs.len(), kwargs, &raw mut out) };
    result(out)
}

fn result(mut out: SeriesExport) -> std::result::Result<Vec<ArrayRef>, String> {
    if out.private_data.is_null() {
        assert!(out.release.is_none() && out.field.is_null());
        return Err(last_error());
    }
    // SAFETY: `call` has filled it; the arrays are moved out before it is released, as polars does.
    unsafe {
        let field = ffi::field(&*out.field).unwrap();
        assert_eq!(field.name(), "emb");
        let arrays = std::slice::from_raw_parts(out.arrays, out.len);
        let arrays = arrays.iter().map(|array| {
            let mut array = std::ptr::read(*array);
            assert!(!array.private_data.is_null());
            ffi::adopted(ffi::checked(&mut array, field.data_type()).unwrap()).unwrap()
        });
        let arrays = arrays.collect();
        out.release.unwrap()(&raw mut out);
        assert!(out.release.is_none());
        Ok(arrays)
    }
}

fn vectors(rows: &[Option<[f32; 2]>]) -> ArrayRef {
    let rows = rows.iter().map(|row| row.map(|row| row.map(Some)));
    Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2))
}

fn numbers(values: &[Option<f32>]) -> ArrayRef {
    Arc::new(Float32Array::from(values.to_vec()))
}

const BY_ROW: &str = r#"{"serial":true,"options":{"axis":1},"arguments":[]}"#;
const BY_COLUMN: &str = r#"{"serial":false,"options":{"axis":0},"arguments":[]}"#;
const BESIDE: &str = r#"{"serial":true,"options":{},"arguments":["column"]}"#;

#[test]
fn inputs_are_released_once_when_the_last_result_in_their_memory_goes() {
    let releases = Arc::new(Releases::default());
    let chunks = [vectors(&[Some([3.0, 4.0]), None]), vectors(&[Some([6.0, 8.0])])];
    let norms = called("norm", vec![series(&chunks, &releases)], &pickled(BY_ROW)).unwrap();
    assert_eq!(norms, [numbers(&[Some(5.0), None, Some(10.0)])]);
    assert_eq!(releases.seen(), (1, 2));

    // A cast to the same type gives the memory that came: it is kept as long as the result.
    let releases = Arc::new(Releases::default());
    let same = r#"{"serial":true,"options":{"type":"float32"},"arguments":[]}"#;
    let cast = called("cast", vec![series(&chunks, &releases)], &pickled(same)).unwrap();
    assert_eq!(cast.iter().map(|chunk| chunk.len()).sum::<usize>(), 3);
    drop(cast);
    assert_eq!(releases.seen(), (1, 2));
}

#[test]
fn inputs_are_released_once_when_a_call_fails() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let emb = vectors(&[Some([1.0, 2.0]), Some([3.0, 4.0])]);
    let short = numbers(&[Some(1.0), Some(2.0), Some(3.0)]);
    let cases: [(&str, &[&ArrayRef], Vec<u8>, &str); 7] = [
        ("sum", &[&text], pickled(BY_ROW), "sum: expected"),
        ("sum", &[&emb], b"nonsense".to_vec(), "sum: the plugin's arguments are no pickle"),
        ("sum", &[&emb], vec![], "sum: the plugin's arguments are cut off"),
        ("sum", &[&emb], pickled("{}"), "sum: the plugin's arguments lack"),
        ("sum", &[&emb, &emb], pickled(BY_ROW), "sum: expected 1 argument, got 2"),
        ("add", &[&emb, &short], pickled(BESIDE), "add: expected y of 2 rows, got 3"),
        ("none", &[&emb], pickled(BY_ROW), "no function is called \"none\""),
    ];
    for (name, inputs, kwargs, expected) in cases {
        let releases = Arc::new(Releases::default());
        let given = inputs.iter().map(|&array| series(&[Arc::clone(array)], &releases)).collect();
        let error = called(name, given, &kwargs).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(releases.seen(), (inputs.len(), inputs.len()), "{error}");
    }
}

#[test]
fn inputs_are_released_once_when_a_call_panics_and_the_panic_is_an_error() {
    let emb = vectors(&[Some([1.0, 2.0])]);
    for taken_over in [false, true] {
        let releases = Arc::new(Releases::default());
        let mut inputs =
            std::mem::ManuallyDrop::new(vec![series(&[emb.clone(), emb.clone()], &releases)]);
        let mut out = empty();
        // SAFETY: as in `called`.
        unsafe {
            answered("sum", &raw mut out, || {
                let inputs = Input::all(inputs.as_mut_ptr(), inputs.len());
                let _held: Vec<_> = if taken_over {
                    inputs.into_iter().map(Input::into_column).map(|c| (c.ok(), None)).collect()
                } else {
                    inputs.into_iter().map(|input| (None, Some(input))).collect()
                };
                // Not `panic!`, which would print.
                std::panic::resume_unwind(Box::new("injected\0behind a NUL"))
            });
        }
        let error = result(out).unwrap_err();
        assert_eq!(error, "sum: internal error, please report it: injected\\0behind a NUL");
        assert_eq!(releases.seen(), (1, 2));
    }
}

#[test]
fn columns_line_up_as_values_per_row_and_what_is_one_in_all_is_broadcast() {
    let releases = Arc::new(Releases::default());
    let emb = || series(&[vectors(&[Some([1.0, 2.0]), Some([3.0, 4.0])])], &releases);
    let rows = |arrays: std::result::Result<Vec<ArrayRef>, String>| {
        let arrays = arrays.unwrap();
        let rows = arrays.iter().flat_map(|array| {
            let lists = array.as_fixed_size_list();
            let value = |i| {
                let row = lists.value(i);
                let row = row.as_primitive::<Float32Type>();
                lists.is_valid(i).then(|| [row.value(0), row.value(1)])
            };
            (0..lists.len()).map(value).collect::<Vec<_>>()
        });
        rows.collect::<Vec<_>>()
    };
    let multiplied =
        |y: ArrayRef| called("multiply", vec![emb(), series(&[y], &releases)], &pickled(BESIDE));
    let per_row = multiplied(numbers(&[Some(10.0), None]));
    assert_eq!(rows(per_row), [Some([10.0, 20.0]), None]);
    let in_all = multiplied(numbers(&[Some(10.0)]));
    assert_eq!(rows(in_all), [Some([10.0, 20.0]), Some([30.0, 40.0])]);
    let null = multiplied(arrow_array::new_null_array(&DataType::Null, 1));
    assert_eq!(rows(null), [None, None]);
    let vector = multiplied(vectors(&[Some([10.0, 100.0])]));
    assert_eq!(rows(vector), [Some([10.0, 200.0]), Some([30.0, 400.0])]);
    // One row in all as `x`, more rows than a block of it has.
    let many = 20_000;
    let weights = numbers(&(0..many).map(|i| Some(i as f32)).collect::<Vec<_>>());
    let inputs =
        vec![series(&[vectors(&[Some([1.0, 2.0])])], &releases), series(&[weights], &releases)];
    let repeated = rows(called("multiply", inputs, &pickled(BESIDE)));
    let expected = (0..many).map(|i| Some([i as f32, 2.0 * i as f32]));
    assert!(repeated.into_iter().eq(expected));
    // `emb` four times with an operand, and the last pair.
    assert_eq!(releases.seen(), (10, 10));
}

#[test]
fn batches_without_a_valid_row_are_answered() {
    let releases = Arc::new(Releases::default());
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    for data_type in [DataType::LargeList(Arc::clone(&item)), DataType::FixedSizeList(item, 2)] {
        for rows in [0, 3] {
            let x = arrow_array::new_null_array(&data_type, rows);
            for name in ["sum", "normalize"] {
                let given = vec![series(std::slice::from_ref(&x), &releases)];
                let text = if name == "sum" { BY_ROW } else { &BY_ROW.replace("\"axis\":1", "") };
                let got = called(name, given, &pickled(text)).unwrap();
                assert_eq!(got.iter().map(|a| a.len()).sum::<usize>(), rows);
                assert_eq!(got.iter().map(|a| a.null_count()).sum::<usize>(), rows);
            }
        }
    }
}

#[test]
fn a_result_per_column_is_one_row() {
    let releases = Arc::new(Releases::default());
    let x = vectors(&[Some([1.0, 2.0]), Some([3.0, 6.0])]);
    let got = called("mean", vec![series(&[x], &releases)], &pickled(BY_COLUMN)).unwrap();
    assert_eq!(got, [vectors(&[Some([2.0, 4.0])])]);
}

#[test]
fn a_plan_asks_for_types_and_keeps_its_schemas() {
    let list = DataType::new_fixed_size_list(DataType::Int16, 3, true);
    let schema = FFI_ArrowSchema::try_from(&Field::new("emb", list, true)).unwrap();
    let typed = |name: &'static str, text: &str| {
        let (mut out, kwargs) = (FFI_ArrowSchema::empty(), pickled(text));
        let kwargs = (kwargs.as_ptr(), kwargs.len());
        // SAFETY: one schema, which stays ours, and an empty one to be written.
        unsafe { field(name, &raw const schema, 1, &raw mut out, kwargs) };
        if out.private_data.is_null() {
            return Err(last_error());
        }
        // SAFETY: it was written.
        let field = unsafe { ffi::field(&out) }.unwrap();
        assert_eq!(field.name(), "emb");
        Ok(field.data_type().clone())
    };
    assert_eq!(typed("mean", BY_ROW), Ok(DataType::Float64));
    let wide = DataType::new_fixed_size_list(DataType::Float64, 3, true);
    assert_eq!(typed("mean", BY_COLUMN), Ok(wide));
    assert!(typed("mean", BESIDE).unwrap_err().contains("expected 2 arguments, got 1"));
    assert!(typed("mean", &BY_ROW.replace("axis", "axes")).unwrap_err().contains("no option"));
    assert!(schema.release.is_some());
}

#[test]
fn what_is_no_pickle_of_one_text_is_refused_and_never_read_past_its_end() {
    let good = pickled(BY_ROW);
    assert!(Request::from_kwargs(&good).is_ok());
    for len in 0..good.len() {
        assert!(Request::from_kwargs(&good[..len]).is_err(), "cut at {len}");
    }
    let refused = |bytes: Vec<u8>, expected: &str| {
        let error = Request::from_kwargs(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    refused([good.as_slice(), b"."].concat(), "go on behind their end");
    refused(with(1, 4), "no pickle of protocol 5");
    refused(with(11, b']'), "opcode 0x5d where a dict was expected");
    refused(with(15, b'C'), "another key than \"call\"");
    refused(with(good.len() - 2, b'u'), "opcode 0x75 where a dict of one item was expected");
    refused(pickled("[1]"), "lack serial");
    refused(pickled(&BY_ROW.replace('1', "{}")), "have {} for option axis");
    refused(pickled(&BY_ROW.replace('1', "[{}]")), "have [{}] for option axis");
    let operand = |json: &str| pickled(&BESIDE.replace("\"column\"", json));
    refused(operand("7"), "no value of an operand");
    refused(operand(r#"{"float":"00"}"#), "no value of an operand");
    let short = r#"{"values":"00","type":"float32","rows":1,"width":1,"by_columns":false,"is_vector":true}"#;
    refused(operand(short), "no value of an operand");
    let huge = short.replace("\"rows\":1", "\"rows\":4611686018427387904");
    refused(operand(&huge), "no value of an operand");
    assert!(Request::from_kwargs(&operand(&short.replace("00", "0000803f"))).is_ok());
}

#[test]
fn errors_are_each_threads_own() {
    remember("mine");
    std::thread::spawn(|| assert_eq!(last_error(), "")).join().unwrap();
    assert_eq!(last_error(), "mine");
    assert_eq!(_polars_plugin_get_version(), 1);
}

#[test]
fn every_function_whose_result_is_a_column_has_a_symbol() {
    let is_column =
        |driver: Driver| !matches!(driver, Driver::Columns(_) | Driver::TopK | Driver::Transpose);
    let expected: Vec<_> =
        list_functions().filter(|f| is_column(f.driver)).map(|f| f.name).collect();
    let missing: Vec<_> = expected.iter().filter(|name| !symbols::NAMES.contains(name)).collect();
    assert!(missing.is_empty(), "`make generate` adds to symbols.rs: {missing:?}");
    let gone: Vec<_> = symbols::NAMES.iter().filter(|name| !expected.contains(name)).collect();
    assert!(gone.is_empty(), "`make generate` takes out of symbols.rs: {gone:?}");
}

#[test]
fn arrays_for_polars_have_no_element_behind_their_own() {
    let x = vectors(&[Some([1.0, 2.0]), None, Some([3.0, 4.0])]);
    for part in [x.slice(0, 2), x.slice(1, 2), x.slice(2, 1), x.slice(1, 0)] {
        let field = Field::new("emb", part.data_type().clone(), true);
        let out = SeriesExport::new(&field, vec![part.clone()]).unwrap();
        // SAFETY: one array, which is still there.
        let array = unsafe { &**out.arrays };
        assert_eq!(array.offset(), 0);
        assert_eq!(array.child(0).offset(), 0);
        assert_eq!(array.child(0).len(), 2 * part.len());
        assert_eq!(result(out).unwrap(), [part]);
    }
}
