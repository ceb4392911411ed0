//! What goes in is not copied, and what comes out is what went in.

mod oracle;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, ListArray, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema};
use oracle::forms::{Form, Layout, array, matrix, read};
use oracle::numbers::TYPES;
use oracle::{Draw, Nulls, Outcome, Random, Table};
use raptors_arrow::Matrix;
use raptors_arrow::compute::{Operand, Per, add, scale, sum};

fn address(array: &ArrayRef) -> usize {
    array.to_data().buffers()[0].as_ptr() as usize
}

/// The address of the first element of a matrix's first chunk.
fn first_value(matrix: &Matrix) -> usize {
    let array = matrix.to_arrays().unwrap().remove(0);
    let mut values = array.clone();
    loop {
        values = match values.data_type() {
            DataType::FixedSizeList(..) => values.as_fixed_size_list().values().clone(),
            DataType::List(_) => values.as_list::<i32>().values().clone(),
            DataType::Struct(_) => values.as_struct().column(0).clone(),
            _ => return address(&values),
        };
    }
}

#[test]
fn views_share_the_buffers_of_their_arrays() {
    let values: ArrayRef =
        Arc::new(Float32Array::from((0..60).map(|i| i as f32).collect::<Vec<_>>()));
    let at = address(&values);
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    let lists = FixedSizeListArray::new(Arc::clone(&item), 3, Arc::clone(&values), None);

    let whole: ArrayRef = Arc::new(lists.clone());
    assert_eq!(first_value(&Matrix::try_from(&whole).unwrap()), at);
    let sliced: ArrayRef = Arc::new(lists.slice(4, 10));
    assert_eq!(first_value(&Matrix::try_from(&sliced).unwrap()), at + 4 * 3 * 4);
    assert_eq!(first_value(&Matrix::reshape(&values.slice(6, 12), 4).unwrap()), at + 24);
    let offsets = arrow_buffer::OffsetBuffer::from_repeated_length(3, 20);
    let list: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::clone(&values), None));
    let view = Matrix::try_from(&list.slice(2, 5)).unwrap();
    assert_eq!((first_value(&view), view.copied()), (at + 2 * 3 * 4, None));
    let batch = RecordBatch::try_from_iter([("a", values.slice(5, 9)), ("b", values.slice(0, 9))]);
    assert_eq!(first_value(&Matrix::try_from(&batch.unwrap()).unwrap()), at + 20);
}

#[test]
fn a_list_whose_null_rows_are_empty_says_that_it_was_copied() {
    let rows = [None, Some(vec![Some(1.0), None]), None, Some(vec![Some(3.0), Some(4.0)])];
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows));
    let view = Matrix::try_from(&list).unwrap();
    assert_eq!((view.rows(), view.width(), view.null_rows()), (4, 2, 2));
    assert!(view.copied().is_some());
    assert_eq!(sum(&view, Per::Matrix).unwrap().as_primitive::<Float32Type>().value(0), 8.0);
}

#[test]
fn every_layout_comes_back_as_the_type_it_was() {
    let mut random = Random::new(9);
    for layout in Layout::EACH {
        if matches!(layout, Layout::Flat | Layout::Batch) {
            continue;
        }
        for nulls in [Nulls::None, Nulls::Both] {
            for (_, element) in &TYPES {
                let table = Table::random(&mut random, element, (20, 6), nulls, Draw::Tame);
                let came = array(&table, Form::new(layout, 3));
                let x = Matrix::try_from(&came).unwrap();
                let went = scale(&x, 1.0).unwrap().to_arrays().unwrap().remove(0);
                assert_eq!(went.data_type(), came.data_type());
                went.to_data().validate_full().unwrap();
                let back = read(&Matrix::try_from(&went).unwrap());
                let expected = &Outcome::of_table(&table).parts[0];
                let expected = (expected.row_is_null.clone(), expected.bits.clone());
                assert_eq!(back, expected, "{element} {layout:?} {nulls:?}");
            }
        }
    }
}

#[test]
fn record_batches_come_back_with_their_schema() {
    let column: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0]));
    let fields =
        vec![Field::new("x", DataType::Float32, false), Field::new("y", DataType::Float32, true)];
    let schema = Schema::new_with_metadata(fields, [("k".to_owned(), "v".to_owned())].into());
    let batch = RecordBatch::try_new(Arc::new(schema), vec![column.clone(), column]).unwrap();
    let doubled = scale(&Matrix::try_from(&batch).unwrap(), 2.0).unwrap();
    let back = doubled.to_record_batches().unwrap().unwrap().remove(0);
    assert_eq!(back.schema(), batch.schema());
    assert_eq!(back.column(0).as_primitive::<Float32Type>().values(), &[2.0, 4.0]);
}

#[test]
fn a_field_that_allows_no_nulls_is_loosened_only_where_nulls_came_in() {
    let values: ArrayRef = Arc::new(Float32Array::from(vec![1.0; 4]));
    let strict = Arc::new(Field::new("item", DataType::Float32, false));
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(strict, 2, values, None));
    let x = Matrix::try_from(&lists).unwrap();
    let same = add(&x, 1.0).unwrap().to_arrays().unwrap().remove(0);
    assert_eq!(same.data_type(), lists.data_type());
    let row: ArrayRef = Arc::new(Float32Array::from(vec![Some(1.0), None]));
    let holed = add(&x, Operand::row(&row).unwrap()).unwrap().to_arrays().unwrap().remove(0);
    let values = holed.as_fixed_size_list().values().clone();
    assert_eq!(values.null_count(), 2);
}

#[test]
fn null_lists_inside_a_row_are_null_elements_and_come_back_as_null_lists() {
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    let values: ArrayRef =
        Arc::new(Float32Array::from((0..8).map(|i| i as f32).collect::<Vec<_>>()));
    let inner = FixedSizeListArray::new(
        item,
        2,
        values,
        Some(NullBuffer::from(vec![true, false, true, true])),
    );
    let field = Arc::new(Field::new("inner", inner.data_type().clone(), true));
    let nested: ArrayRef = Arc::new(FixedSizeListArray::new(field, 2, Arc::new(inner), None));
    let x = Matrix::try_from(&nested).unwrap();
    assert_eq!((x.rows(), x.width()), (2, 4));
    let sums = sum(&x, Per::Row).unwrap();
    assert_eq!(sums.as_primitive::<Float32Type>().values(), &[1.0, 22.0]);
    let back = scale(&x, 2.0).unwrap().to_arrays().unwrap().remove(0);
    assert_eq!(back.data_type(), nested.data_type());
    let lists = back.as_fixed_size_list().values().clone();
    assert!(lists.is_null(1) && lists.null_count() == 1);
}

#[test]
fn tensors_keep_their_field() {
    let values = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
        [Some((0..4).map(|i| Some(i as f32)))],
        4,
    );
    let metadata = [
        ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
        ("ARROW:extension:metadata".to_owned(), r#"{"shape":[2,2]}"#.to_owned()),
    ];
    let field = Field::new("t", values.data_type().clone(), true).with_metadata(metadata.into());
    let field = Arc::new(field);
    let x = Matrix::from_field(&field, &[Arc::new(values)]).unwrap();
    assert_eq!(scale(&x, 2.0).unwrap().field(), Some(&field));
}

#[test]
fn list_chunks_without_a_valid_row_take_the_width_of_the_others() {
    let list = |rows: Vec<Option<Vec<Option<f32>>>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows))
    };
    let chunks = [
        list(vec![]),
        list(vec![None, None]),
        list(vec![Some(vec![Some(1.0), Some(2.0)])]),
        list(vec![None]),
    ];
    let parts = chunks.iter().map(|chunk| Matrix::try_from(chunk).unwrap()).collect();
    let x = Matrix::from_chunks(parts).unwrap();
    assert_eq!((x.rows(), x.width(), x.null_rows()), (4, 2, 3));
    let sums = sum(&x, Per::Column).unwrap();
    assert_eq!(sums.as_primitive::<Float32Type>().values(), &[1.0, 2.0]);
}

#[test]
fn garbage_under_nulls_does_not_leave() {
    let mut random = Random::new(3);
    let element = DataType::Float32;
    let table = Table::random(&mut random, &element, (50, 5), Nulls::Both, Draw::Tame);
    let scaled = scale(&matrix(&table, Form::plain(Layout::FixedSizeList)), 1.0).unwrap();
    let out = scaled.to_arrays().unwrap().remove(0);
    let values = out.as_fixed_size_list().values().clone();
    let values = values.as_primitive::<Float32Type>();
    for (i, element) in table.flat().iter().enumerate() {
        if element.is_none() {
            assert_eq!(values.values()[i].to_bits(), 0, "element {i}");
        }
    }
}

#[test]
fn strides_give_the_bits_of_the_rows_they_lead_to_at_every_level() {
    use raptors_arrow::Strides;
    use raptors_arrow::compute::{Options, Value, call_function};
    use raptors_arrow::dispatch::{Level, Settings, with_settings};

    let memory: Vec<f32> = (0..6000).map(|i| (i * i % 701) as f32 - 300.25).collect();
    // Shape, strides in elements, and the place of the first element.
    let cases: [([usize; 2], [isize; 2], usize); 5] = [
        ([40, 70], [150, 2], 0),
        ([70, 40], [2, 150], 0),
        ([50, 33], [-120, 3], 5900),
        ([900, 5], [0, 1], 17),
        ([3, 1000], [1000, -1], 3000),
    ];
    for (shape, strides, first) in cases {
        let element = |r: usize, c: usize| {
            let at = first as isize + r as isize * strides[0] + c as isize * strides[1];
            memory[at as usize]
        };
        let rows: Vec<f32> =
            (0..shape[0]).flat_map(|r| (0..shape[1]).map(move |c| element(r, c))).collect();
        let copy: ArrayRef = Arc::new(Float32Array::from(rows));
        let copy = Matrix::reshape(&copy, shape[1]).unwrap().into_lists().unwrap();
        let bytes = strides.map(|stride| 4 * stride);
        let (low, high) = Strides::span(shape, bytes, 4).unwrap();
        let all = arrow_buffer::Buffer::from_vec(memory.clone());
        let start = (4 * first as isize + low) as usize;
        let memory = all.slice_with_length(start, (high - low) as usize);
        let values = Strides { memory, strides: bytes };
        let x = Matrix::from_strides(&DataType::Float32, shape, values, None).unwrap();
        let x = x.into_lists().unwrap();
        for level in Level::available() {
            let settings = Settings { simd: Some(level), ..Settings::default() };
            for name in ["sum", "var", "max", "argmin", "normalize", "standardize", "transpose"] {
                let axes: &[Option<i64>] =
                    if name == "transpose" { &[None] } else { &[Some(0), Some(1)] };
                for axis in axes {
                    let options = Options::new();
                    let options = match axis {
                        Some(axis) => options.set("axis", *axis),
                        None => options,
                    };
                    let [got, expected] = [&x, &copy].map(|x| {
                        let run = || call_function(name, &[Value::Matrix(x.clone())], &options);
                        match with_settings(settings.clone(), run).unwrap() {
                            Value::Matrix(matrix) => matrix.to_arrays().unwrap(),
                            other => vec![Arc::clone(other.as_array().unwrap())],
                        }
                    });
                    assert_eq!(got, expected, "{name} {axis:?} {shape:?} {strides:?} {level}");
                }
            }
        }
    }
}
