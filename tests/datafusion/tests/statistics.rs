//! Every statistic as an aggregate, against the direct call on the rows of each group.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, cast::AsArray};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::prelude::col;
use raptors_arrow::compute::{Options, Value, get_function};
use raptors_arrow::engine::datafusion::{register_all, statistic, statistics};
use raptors_arrow_datafusion::{
    Lists, ROWS, WIDTH, column, context, refused, rows, sql, table, value,
};

/// The function behind a name in SQL, and its options.
fn meant(name: &str) -> (&'static str, Options) {
    let rest = name.strip_prefix("raptors_").unwrap();
    let of = |function: &str| get_function(function).unwrap().name;
    let options = Options::new();
    match rest {
        "norm_ord1" => (of("norm"), options.set("axis", 0).set("ord", 1)),
        "norm_ordinf" => (of("norm"), options.set("axis", 0).set("ord", f64::INFINITY)),
        fixed if fixed.ends_with("_axis0") => (of(fixed), options),
        function => (of(function), options.set("axis", 0)),
    }
}

/// The direct call on some rows, as one row of numbers.
fn direct(rows: &RecordBatch, name: &str, chosen: &[i64]) -> ArrayRef {
    let chosen = Int64Array::from(chosen.to_vec());
    let columns = rows.columns().iter().map(|column| take(column, &chosen, None).unwrap());
    let rows = RecordBatch::try_new(rows.schema(), columns.collect()).unwrap();
    let (function, options) = meant(name);
    let result = get_function(function).unwrap().call(&[value(&rows, "emb")], &options).unwrap();
    let Value::Vector(array) = result else { panic!("{result:?}") };
    array
}

/// The rows of a key.
fn members(rows: &RecordBatch, key: Option<i64>) -> Vec<i64> {
    let keys = rows.column(1).as_primitive::<Int64Type>();
    let is_own = |row: &i64| {
        let row = *row as usize;
        keys.is_valid(row).then(|| keys.value(row)) == key
    };
    (0..rows.num_rows() as i64).filter(is_own).collect()
}

/// One row of lists, or a number, as numbers.
fn elements(column: &ArrayRef, row: usize) -> ArrayRef {
    match column.data_type() {
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::List(_) => column.as_list::<i32>().value(row),
        _ => column.slice(row, 1),
    }
}

/// Sums here are exact in any order; variances are merged, and rounded then.
fn assert_same(got: &ArrayRef, want: &ArrayRef, name: &str, is_whole: bool) {
    if is_whole || !(name.contains("var") || name.contains("std")) {
        assert_eq!(got, want, "{name}");
        return;
    }
    assert_eq!(got.data_type(), want.data_type(), "{name}");
    let close = if *got.data_type() == DataType::Float32 { 1.2e-7 } else { 1e-14 };
    let wide = |array: &ArrayRef| cast(array, &DataType::Float64).unwrap();
    let (got, want) = (wide(got), wide(want));
    for (a, b) in got.as_primitive::<Float64Type>().iter().zip(want.as_primitive::<Float64Type>()) {
        let (Some(a), Some(b)) = (a, b) else { panic!("{name}: {a:?}, not {b:?}") };
        assert!((a - b).abs() <= close * b.abs(), "{name}: {a}, not {b}");
    }
}

#[test]
fn every_statistic_of_groups_and_of_all_rows() {
    for (element, lists) in [
        (DataType::Float32, Lists::Fixed),
        (DataType::Float64, Lists::Fixed),
        (DataType::Float32, Lists::Variable),
        (DataType::Int16, Lists::Fixed),
    ] {
        let rows = rows(&element, lists);
        for partitions in [1, 3] {
            let context = context(&rows, partitions);
            for udaf in statistics().unwrap() {
                let name = udaf.name();
                let got =
                    sql(&context, &format!("SELECT k, {name}(emb) FROM t GROUP BY k")).unwrap();
                assert_eq!(got.num_rows(), 5); // the squares modulo 7, and null
                let keys = got.column(0).as_primitive::<Int64Type>();
                for row in 0..got.num_rows() {
                    let key = keys.is_valid(row).then(|| keys.value(row));
                    let want = direct(&rows, name, &members(&rows, key));
                    assert_same(&elements(got.column(1), row), &want, name, partitions == 1);
                }
                let got = sql(&context, &format!("SELECT {name}(emb) FROM t")).unwrap();
                let all: Vec<i64> = (0..ROWS as i64).collect();
                let want = direct(&rows, name, &all);
                assert_same(&elements(got.column(0), 0), &want, name, partitions == 1);
            }
        }
    }
}

#[test]
fn widths_are_kept_and_numbers_are_numbers() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let context = context(&rows, 2);
    let got =
        sql(&context, "SELECT k, raptors_mean(emb), raptors_sum(w) FROM t GROUP BY k").unwrap();
    assert_eq!(got.column(1).data_type(), rows.column(2).data_type());
    assert_eq!(got.column(2).data_type(), &DataType::Float32);
    let own = sql(&context, "SELECT k, sum(w) FROM t GROUP BY k ORDER BY k").unwrap();
    let ours = sql(&context, "SELECT k, raptors_sum(w) FROM t GROUP BY k ORDER BY k").unwrap();
    assert_eq!(&cast(own.column(1), &DataType::Float32).unwrap(), ours.column(1));
}

#[test]
fn filters_windows_and_options() {
    let rows = rows(&DataType::Float64, Lists::Fixed);
    let context = context(&rows, 2);
    let filtered =
        "SELECT k, raptors_sum(emb) FILTER (WHERE id >= 100) FROM t GROUP BY k ORDER BY k";
    let where_ = "SELECT k, raptors_sum(emb) FROM t WHERE id >= 100 GROUP BY k ORDER BY k";
    assert_eq!(
        sql(&context, filtered).unwrap().column(1),
        sql(&context, where_).unwrap().column(1)
    );
    let running = "SELECT raptors_sum(emb) OVER (ORDER BY id) FROM t ORDER BY id";
    let got = sql(&context, running).unwrap();
    let first: Vec<i64> = (0..100).collect();
    assert_eq!(&elements(got.column(0), 99), &direct(&rows, "raptors_sum", &first));
    let sample = statistic("sample", "std", &Options::new().set("ddof", 1)).unwrap();
    context.register_udaf(sample);
    let got = sql(&context, "SELECT sample(emb) FROM t").unwrap();
    let options = Options::new().set("axis", 0).set("ddof", 1);
    let want = get_function("std").unwrap().call(&[value(&rows, "emb")], &options).unwrap();
    let want = column(want, &DataType::Float64);
    assert_same(&elements(got.column(0), 0), &want, "std", false);
}

#[test]
fn no_rows_and_only_nulls() {
    for lists in [Lists::Fixed, Lists::Variable] {
        let rows = rows(&DataType::Float32, lists);
        let context = context(&rows, 3);
        let got = sql(&context, "SELECT raptors_mean(emb) FROM t WHERE id < 0").unwrap();
        assert_eq!(got.num_rows(), 1);
        let mean = got.column(0);
        match lists {
            Lists::Fixed => assert_eq!(elements(mean, 0).null_count(), WIDTH),
            // Nothing says how wide it would be.
            Lists::Variable => assert!(mean.is_null(0)),
        }
        // Of one partition all rows are null; those of the others say how wide they are.
        let some = "SELECT raptors_sum(CASE WHEN id < 250 THEN NULL ELSE emb END) FROM t";
        let got = sql(&context, some).unwrap();
        let last: Vec<i64> = (250..ROWS as i64).collect();
        assert_eq!(&elements(got.column(0), 0), &direct(&rows, "raptors_sum", &last));
        let nulls = "SELECT k, raptors_max(emb) FROM t WHERE id % 7 = 2 GROUP BY k";
        let got = sql(&context, nulls).unwrap();
        for row in 0..got.num_rows() {
            let is_null =
                got.column(1).is_null(row) || elements(got.column(1), row).null_count() == WIDTH;
            assert!(is_null);
        }
    }
}

/// Keys that come in order are finished before the last row is read.
#[test]
fn groups_that_come_in_order() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let order =
        cast(&Int64Array::from_iter_values((0..ROWS as i64).map(|id| id / 9)), &DataType::Int64);
    let mut columns = rows.columns().to_vec();
    columns[1] = order.unwrap();
    let rows = RecordBatch::try_new(rows.schema(), columns).unwrap();
    let context = context(&rows, 1);
    context.deregister_table("t").unwrap();
    let sorted = table(&rows, 1).with_sort_order(vec![vec![col("k").sort(true, true)]]);
    context.register_table("t", Arc::new(sorted)).unwrap();
    let query = "SELECT k, raptors_mean(emb), raptors_std(emb) FROM t GROUP BY k ORDER BY k";
    let plan = sql(&context, &format!("EXPLAIN {query}")).unwrap();
    let plan = format!("{:?}", plan.column(1));
    assert!(plan.contains("ordering_mode=Sorted"), "{plan}");
    let got = sql(&context, query).unwrap();
    assert_eq!(got.num_rows(), ROWS.div_ceil(9));
    for row in 0..got.num_rows() {
        let own = members(&rows, Some(row as i64));
        for (at, name) in [(1, "raptors_mean"), (2, "raptors_std")] {
            assert_same(&elements(got.column(at), row), &direct(&rows, name, &own), name, true);
        }
    }
}

/// With a group for each row, partitions hand over states of rows instead of groups.
#[test]
fn rows_as_states() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let context = context(&rows, 2);
    for setting in ["probe_rows_threshold = 10", "probe_ratio_threshold = 0.1"] {
        let set = format!("SET datafusion.execution.skip_partial_aggregation_{setting}");
        sql(&context, &set).unwrap();
    }
    let query = "SELECT id, raptors_mean(emb), raptors_sum(emb) FILTER (WHERE id % 2 = 0) \
                 FROM t GROUP BY id ORDER BY id";
    let got = sql(&context, query).unwrap();
    for row in 0..ROWS {
        let mean = direct(&rows, "raptors_mean", &[row as i64]);
        assert_eq!(&elements(got.column(1), row), &mean);
        let sum = elements(got.column(2), row);
        match row % 2 {
            0 => assert_eq!(&sum, &direct(&rows, "raptors_sum", &[row as i64])),
            _ => assert_eq!(sum.null_count(), WIDTH),
        }
    }
}

#[test]
fn what_is_refused() {
    let rows = rows(&DataType::Float32, Lists::Fixed);
    let mut context = context(&rows, 2);
    register_all(&mut context).unwrap(); // once more does no harm
    for (call, words) in [
        ("raptors_mean(DISTINCT emb), raptors_sum(w)", "raptors_mean of distinct vectors"),
        ("raptors_mean('text')", "mean: expected"),
        ("raptors_mean(nothing)", "nothing"),
    ] {
        let said = refused(&context, &format!("SELECT {call} FROM t"));
        assert!(said.contains(words), "{call}: {said}");
    }
    let ragged = "SELECT raptors_mean(v) FROM (VALUES ([1.0, 2.0]), ([1.0])) AS r(v)";
    let said = refused(&context, ragged);
    assert!(
        said.contains("mean: expected every row to have 2 elements, but row 1 has 1"),
        "{said}"
    );
    let said = statistic("place", "argmin", &Options::new()).unwrap_err().to_string();
    assert!(said.contains("a statistic that needs no order of rows"), "{said}");
}
