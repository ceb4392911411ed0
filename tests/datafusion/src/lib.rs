//! Rows, contexts and direct calls, for the tests of the functions inside of DataFusion.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, FixedSizeListArray, Float64Array, Int64Array, ListArray, RecordBatch,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{cast, concat, concat_batches};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use raptors_arrow::Matrix;
use raptors_arrow::compute::Value;

pub const WIDTH: usize = 5;
pub const ROWS: usize = 300;

/// How the vectors lie.
#[derive(Clone, Copy, Debug)]
pub enum Lists {
    Fixed,
    Variable,
}

/// Numbers whose sums and squares are exact, so that no order of additions matters.
fn numbers(len: usize, step: usize, element: &DataType) -> ArrayRef {
    let value = |i: usize| (i * step % 61) as f64 / 8.0 - 3.5;
    cast(&Float64Array::from_iter_values((0..len).map(value)), element).unwrap()
}

/// A column of vectors; every seventh row is null.
pub fn vectors(rows: usize, step: usize, element: &DataType, lists: Lists) -> ArrayRef {
    let item = Arc::new(Field::new_list_field(element.clone(), true));
    let nulls = NullBuffer::from_iter((0..rows).map(|row| row % 7 != 2));
    match lists {
        Lists::Fixed => {
            let values = numbers(rows * WIDTH, step, element);
            Arc::new(FixedSizeListArray::new(item, WIDTH as i32, values, Some(nulls)))
        }
        Lists::Variable => {
            let lengths = (0..rows).map(|row| if nulls.is_valid(row) { WIDTH } else { 0 });
            let offsets = OffsetBuffer::from_lengths(lengths);
            let values = numbers(*offsets.last().unwrap() as usize, step, element);
            Arc::new(ListArray::new(item, offsets, values, Some(nulls)))
        }
    }
}

/// Rows with an id, a key, vectors, vectors beside them, and numbers.
pub fn rows(element: &DataType, lists: Lists) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..ROWS as i64).map(|id| (id % 11 != 0).then_some(id * id % 7)),
    ));
    RecordBatch::try_from_iter([
        ("id", ids),
        ("k", keys),
        ("emb", vectors(ROWS, 7, element, lists)),
        ("other", vectors(ROWS, 11, element, lists)),
        ("w", numbers(ROWS, 13, element)),
    ])
    .unwrap()
}

/// A context that knows the functions, with the rows as table `t`, in batches of 17 and partitions.
pub fn context(rows: &RecordBatch, partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let mut context = SessionContext::new_with_config(config);
    raptors_arrow::engine::datafusion::register_all(&mut context).unwrap();
    context.register_table("t", Arc::new(table(rows, partitions))).unwrap();
    context
}

/// A table of partitions, in batches of 17 rows.
pub fn table(rows: &RecordBatch, partitions: usize) -> MemTable {
    let own = rows.num_rows().div_ceil(partitions).max(1);
    let batches = |from: usize| {
        let to = (from + own).min(rows.num_rows());
        (from..to).step_by(17).map(|at| rows.slice(at, 17.min(to - at))).collect::<Vec<_>>()
    };
    let parts = (0..rows.num_rows().max(1)).step_by(own).map(batches).collect();
    MemTable::try_new(rows.schema(), parts).unwrap()
}

/// Runs a query.
pub fn sql(context: &SessionContext, query: &str) -> Result<RecordBatch> {
    sql_with(context, query, Vec::new())
}

/// Runs a query with values for `$1` and those behind it.
pub fn sql_with(
    context: &SessionContext,
    query: &str,
    values: Vec<datafusion::common::ScalarValue>,
) -> Result<RecordBatch> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let mut frame = context.sql(query).await?;
        if !values.is_empty() {
            frame = frame.with_param_values(values)?;
        }
        let schema = Arc::new(Schema::clone(frame.schema().as_arrow()));
        let batches = frame.collect().await?;
        let schema = batches.first().map_or(schema, RecordBatch::schema);
        Ok(concat_batches(&schema, &batches)?)
    })
}

/// The text of the error of a query.
pub fn refused(context: &SessionContext, query: &str) -> String {
    sql(context, query).unwrap_err().to_string()
}

/// A column as an argument.
pub fn value(rows: &RecordBatch, name: &str) -> Value {
    let column = rows.column_by_name(name).unwrap();
    let field = Arc::new(rows.schema().field_with_name(name).unwrap().clone());
    match column.data_type() {
        DataType::List(_) | DataType::FixedSizeList(..) => {
            Value::from_field(&field, &[Arc::clone(column)]).unwrap()
        }
        _ => Value::Matrix(Matrix::from_field(&field, &[Arc::clone(column)]).unwrap()),
    }
}

/// What a direct call has given, as a column of a type.
pub fn column(result: Value, to: &DataType) -> ArrayRef {
    let arrays = match result {
        Value::Scalar(array) | Value::Vector(array) => vec![array],
        Value::Matrix(matrix) => matrix.to_arrays().unwrap(),
        Value::Ragged(lists) => lists.to_arrays().unwrap(),
        other => panic!("{other:?}"),
    };
    let parts: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
    cast(&concat(&parts).unwrap(), to).unwrap()
}
