use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, RecordBatchIterator};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};

use super::{Expr, METHODS, Node, col, evaluate_all, evaluate_reader, explain, lit, reduce_reader};
use crate::compute::{Options, Value, get_function};
use crate::dispatch::{Settings, with_settings};

#[test]
fn every_method_is_a_function_of_the_table() {
    for name in METHODS.iter().chain(&["clip", "cast"]) {
        assert!(get_function(name).is_ok(), "{name}");
    }
    let chain = col("emb").scale(2.0).clip(0.0, None).cast("float32").mean(1);
    let text = "col(\"emb\").scale(2).clip(max=None, min=0).cast(type=\"float32\").mean(axis=1)";
    assert_eq!(chain.to_string(), text);
    let sum = (col("a") * 2.0 - col("b")) / 3.0 + -col("c");
    let text = "col(\"a\").multiply(2).subtract(col(\"b\")).divide(3).add(col(\"c\").negate())";
    assert_eq!(sum.to_string(), text);
    assert!(super::Expr::call("scael", [chain], Options::new()).is_err());
}

/// A batch of `rows` × `width` float32 `x`, of one value per row `w`, some of them null.
fn batch(rows: usize, width: usize, has_nulls: bool) -> RecordBatch {
    let value = |i: usize| ((i * 2_654_435_761) % 1009) as f32 / 64.0 - 7.0;
    let flat: Float32Array =
        (0..rows * width).map(|i| (!has_nulls || i % 11 != 3).then(|| value(i))).collect();
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let nulls = has_nulls.then(|| (0..rows).map(|row| row % 7 != 2).collect::<NullBuffer>());
    let x = FixedSizeListArray::new(item, width as i32, Arc::new(flat), nulls);
    let w: Float32Array =
        (0..rows).map(|row| (!has_nulls || row % 5 != 1).then(|| value(row + 17))).collect();
    let columns: [(&str, ArrayRef); 2] = [("x", Arc::new(x)), ("w", Arc::new(w))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// The value of an expression, each of whose calls is evaluated alone.
fn call_by_call(expr: &Expr, batch: &RecordBatch) -> Value {
    match &*expr.0 {
        Node::Call { function, arguments, options } => {
            let values: Vec<_> = arguments.iter().map(|x| call_by_call(x, batch)).collect();
            function.call(&values, options).unwrap()
        }
        _ => expr.evaluate(batch).unwrap(),
    }
}

fn arrays(value: Value) -> Vec<ArrayRef> {
    match value {
        Value::Matrix(matrix) => matrix.to_arrays().unwrap(),
        other => vec![other.as_array().unwrap().clone()],
    }
}

#[test]
fn chains_have_the_bits_of_their_calls_at_the_edges_of_tiles_and_leaves() {
    // A tile has 4096 elements in whole rows, a leaf 1024 rows.
    for (rows, width) in [(1, 1), (31, 130), (33, 4095), (2, 4097), (1023, 3), (1025, 4), (2049, 5)]
    {
        for has_nulls in [false, true] {
            let batch = batch(rows, width, has_nulls);
            let row: ArrayRef =
                Arc::new(Float32Array::from_iter_values((0..width).map(|i| i as f32)));
            let row = || lit(Value::try_from(&row).unwrap());
            let by_row = Options::new().set("axis", 0);
            let chain = col("x").scale(2.0).add(row()).clip(-5.0, 900.0);
            let chain = Expr::call("multiply", [chain, col("w")], by_row).unwrap();
            let results = [
                chain.clone(),
                chain.clone().mean(1),
                chain.clone().std(0),
                chain.clone().sum(None),
                chain.clone().argmax(0),
                chain.clone().count(1),
                chain.clone().normalize().dot(row()),
                chain.clone().softmax().max(1),
                chain.normalize().min(0),
            ];
            let together = evaluate_all(&results, &batch).unwrap();
            for (expr, got) in results.iter().zip(together) {
                let expected = arrays(call_by_call(expr, &batch));
                assert_eq!(arrays(got), expected, "{expr} of {rows} x {width}, {has_nulls}");
                assert_eq!(arrays(expr.evaluate(&batch).unwrap()), expected, "{expr} alone");
            }
            // With more threads, columns of few rows are shared by columns, call by call.
            let settings = Settings { threads: Some(1), ..Settings::default() };
            let passes = with_settings(settings, || explain(&results, &batch)).unwrap();
            assert_eq!((passes.len(), passes[0].is_fused), (1, true), "{passes:?}");
            assert_eq!(passes[0].pass.work.bytes_read, 4 * (rows * width + rows + 2 * width));
        }
    }
}

#[test]
fn what_is_needed_first_is_computed_first_and_once() {
    let batch = batch(100, 4, true);
    let mean = col("x").mean(0);
    let results = [col("x").subtract(mean.clone()).norm(1), col("x").subtract(mean).max(None)];
    let passes = explain(&results, &batch).unwrap();
    let calls: Vec<_> = passes.iter().map(|pass| pass.calls.join(" ")).collect();
    assert_eq!(calls, ["mean", "subtract norm* max*"]);
    for expr in &results {
        let got = arrays(expr.evaluate(&batch).unwrap());
        assert_eq!(got, arrays(call_by_call(expr, &batch)));
    }
    // By columns, a transform needs all rows first: no tiles.
    let centred = Expr::call("center", [col("x")], Options::new()).unwrap().scale(2.0);
    assert!(explain(&[centred], &batch).unwrap().iter().all(|pass| !pass.is_fused));
}

#[test]
fn an_error_is_that_of_the_call() {
    let batch = batch(10, 3, false);
    let narrow = col("x").cast("int8");
    let error = narrow.clone().scale(2.0).evaluate(&batch).unwrap_err();
    let expected = narrow.evaluate(&batch).unwrap_err();
    assert_eq!(error, expected);
    let error = col("y").scale(2.0).evaluate(&batch).unwrap_err();
    assert!(error.to_string().contains("the columns are x, w"), "{error}");
}

#[test]
fn batches_of_a_reader_have_the_bits_of_the_whole() {
    let whole = batch(5000, 3, true);
    let batches: Vec<_> =
        (0..5000).step_by(700).map(|i| whole.slice(i, 700.min(5000 - i))).collect();
    let reader = || RecordBatchIterator::new(batches.clone().into_iter().map(Ok), whole.schema());
    let chain = col("x").scale(3.0).clip(None, 10.0);
    let totals = [chain.clone().std(0), chain.clone().sum(None), chain.clone().count(0)];
    let found = reduce_reader(&totals, reader()).unwrap();
    for (expr, got) in totals.iter().zip(found) {
        assert_eq!(vec![got], arrays(expr.evaluate(&whole).unwrap()), "{expr}");
    }
    let means = arrays(chain.clone().mean(1).evaluate(&whole).unwrap()).remove(0);
    let mut first = 0;
    for batch in evaluate_reader([("m", chain.clone().mean(1))], reader()) {
        let batch = batch.unwrap();
        let rows = batch.num_rows();
        assert_eq!(batch.column(0), &means.slice(first, rows));
        first += rows;
    }
    assert_eq!(first, 5000);
    assert!(reduce_reader(&[chain.mean(1)], reader()).is_err());
}
