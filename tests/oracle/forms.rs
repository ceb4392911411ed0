//! One table in every form that the crate takes: list types, layouts, offsets, chunks.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, RecordBatch,
    RecordBatchOptions, StructArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use raptors_arrow::Matrix;

use super::Table;
use super::numbers::{self, Number};

/// An Arrow type that holds a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    FixedSizeList,
    /// Lists of lists; a prime width is `[width, 1]`.
    Nested,
    List,
    LargeList,
    /// As producers write it: null rows without elements.
    PackedList,
    /// A flat array; null rows become null elements.
    Flat,
    Struct,
    /// Null rows become null elements.
    Batch,
}

impl Layout {
    pub const EACH: [Self; 8] = [
        Self::FixedSizeList,
        Self::Nested,
        Self::List,
        Self::LargeList,
        Self::PackedList,
        Self::Flat,
        Self::Struct,
        Self::Batch,
    ];

    pub fn is_by_columns(self) -> bool {
        matches!(self, Self::Struct | Self::Batch)
    }

    /// Whether the layout can say that a row is null.
    pub fn has_row_nulls(self) -> bool {
        !matches!(self, Self::Flat | Self::Batch)
    }
}

/// How a table is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub layout: Layout,
    /// Rows before the first that are sliced away.
    pub parent_offset: usize,
    /// Elements before the first that are sliced away.
    pub child_offset: usize,
}

impl Form {
    pub fn new(layout: Layout, offset: usize) -> Self {
        Self { layout, parent_offset: offset, child_offset: offset }
    }

    pub fn plain(layout: Layout) -> Self {
        Self::new(layout, 0)
    }
}

/// What the table is once the layout has dropped what it cannot say.
pub fn as_held(table: &Table, layout: Layout) -> Table {
    if layout.has_row_nulls() {
        return table.clone();
    }
    let rows = table.rows.iter().map(|row| match row {
        Some(row) => Some(row.clone()),
        None => Some(vec![None; table.width]),
    });
    table.with_rows(rows.collect())
}

/// The table as a matrix of one chunk.
pub fn matrix(table: &Table, form: Form) -> Matrix {
    let made = match form.layout {
        Layout::Flat if table.width == 0 => {
            // A flat array of no elements says nothing of its rows.
            Matrix::try_from(&fixed_size_list(table, form))
        }
        Layout::Flat => Matrix::reshape(
            &numbers::array(&table.element, &table.flat(), form.child_offset),
            table.width,
        ),
        Layout::Batch => Matrix::try_from(&batch(table, form)),
        _ => Matrix::try_from(&array(table, form)),
    };
    made.unwrap_or_else(|error| panic!("{form:?} of {table:?}: {error}"))
}

/// The table as a matrix of chunks that end at the given rows.
pub fn chunked(table: &Table, form: Form, ends: &[usize]) -> Matrix {
    let mut first = 0;
    let mut parts = Vec::new();
    for (i, end) in ends.iter().copied().chain([table.rows.len()]).enumerate() {
        let rows = table.rows[first..end].to_vec();
        let part = table.with_rows(rows);
        let offset = (form.parent_offset + 3 * i) % 16;
        parts.push(matrix(&part, Form::new(form.layout, offset)));
        first = end;
    }
    Matrix::from_chunks(parts).unwrap_or_else(|error| panic!("{form:?}: {error}"))
}

/// The table as an array (a struct for a batch).
pub fn array(table: &Table, form: Form) -> ArrayRef {
    match form.layout {
        Layout::FixedSizeList | Layout::Flat => fixed_size_list(table, form),
        Layout::Nested => nested(table, form),
        Layout::List | Layout::PackedList => list::<i32>(table, form),
        Layout::LargeList => list::<i64>(table, form),
        Layout::Struct | Layout::Batch => structs(table, form),
    }
}

fn padded(table: &Table, rows: usize) -> Table {
    let before = (0..rows).map(|i| (i % 2 == 0).then(|| vec![None; table.width]));
    table.with_rows(before.chain(table.rows.iter().cloned()).collect())
}

fn row_nulls(table: &Table) -> Option<NullBuffer> {
    let is_valid = |row: usize| table.rows[row].is_some();
    let all = BooleanBuffer::collect_bool(table.rows.len(), is_valid);
    table.rows.iter().any(Option::is_none).then(|| NullBuffer::new(all))
}

fn item(element: &DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(element.clone(), true))
}

/// Elements row by row. Under a null row they are valid garbage: it must not be read.
fn elements(table: &Table, offset: usize) -> ArrayRef {
    let hidden = numbers::extremes(&table.element);
    let flat: Vec<Option<Number>> = table
        .rows
        .iter()
        .flat_map(|row| match row {
            Some(row) => row.clone(),
            None => (0..table.width).map(|i| Some(hidden[i % hidden.len()])).collect(),
        })
        .collect();
    numbers::array(&table.element, &flat, offset)
}

fn fixed_size_list(table: &Table, form: Form) -> ArrayRef {
    let (offset, len) = (form.parent_offset, table.rows.len());
    let table = padded(table, offset);
    let list = FixedSizeListArray::try_new_with_length(
        item(&table.element),
        table.width as i32,
        elements(&table, form.child_offset),
        row_nulls(&table),
        table.rows.len(),
    );
    Arc::new(list.unwrap().slice(offset, len))
}

fn nested(table: &Table, form: Form) -> ArrayRef {
    let (offset, len) = (form.parent_offset, table.rows.len());
    let table = padded(table, offset);
    let width = table.width;
    let inner = (2..=width).find(|n| width.is_multiple_of(*n)).unwrap_or(1);
    let outer = width / inner;
    let rows = table.rows.len();
    let inner_list = FixedSizeListArray::try_new_with_length(
        item(&table.element),
        inner as i32,
        elements(&table, form.child_offset),
        None,
        rows * outer,
    );
    let inner_list = inner_list.unwrap();
    let field = Arc::new(Field::new("inner", inner_list.data_type().clone(), true));
    let list = FixedSizeListArray::try_new_with_length(
        field,
        outer as i32,
        Arc::new(inner_list),
        row_nulls(&table),
        rows,
    );
    Arc::new(list.unwrap().slice(offset, len))
}

fn list<O: arrow_array::OffsetSizeTrait>(table: &Table, form: Form) -> ArrayRef {
    let (offset, len) = (form.parent_offset, table.rows.len());
    let table = padded(table, offset);
    let packed = form.layout == Layout::PackedList;
    let lengths: Vec<usize> = table
        .rows
        .iter()
        .map(|row| if packed && row.is_none() { 0 } else { table.width })
        .collect();
    let values = if packed {
        let kept = table.rows.iter().filter(|row| row.is_some()).cloned().collect();
        elements(&table.with_rows(kept), form.child_offset)
    } else {
        elements(&table, form.child_offset)
    };
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    let nulls = row_nulls(&table);
    let list: ArrayRef = if O::IS_LARGE {
        let offsets =
            OffsetBuffer::<i64>::new(offsets.iter().map(|o| o.as_usize() as i64).collect());
        Arc::new(LargeListArray::new(item(&table.element), offsets, values, nulls))
    } else {
        let offsets =
            OffsetBuffer::<i32>::new(offsets.iter().map(|o| o.as_usize() as i32).collect());
        Arc::new(ListArray::new(item(&table.element), offsets, values, nulls))
    };
    list.slice(offset, len)
}

fn column_arrays(table: &Table, offset: usize) -> (Fields, Vec<ArrayRef>) {
    let fields = (0..table.width)
        .map(|c| Field::new(format!("c{c}"), table.element.clone(), true))
        .collect::<Vec<_>>();
    let columns = (0..table.width)
        .map(|c| numbers::array(&table.element, &table.column(c), (offset + c) % 16))
        .collect::<Vec<_>>();
    (fields.into(), columns)
}

fn structs(table: &Table, form: Form) -> ArrayRef {
    let (offset, len) = (form.parent_offset, table.rows.len());
    let table = padded(table, offset);
    let (fields, columns) = column_arrays(&table, form.child_offset);
    let nulls = row_nulls(&table);
    let rows = table.rows.len();
    let array = StructArray::try_new_with_length(fields, columns, nulls, rows).unwrap();
    Arc::new(array.slice(offset, len))
}

fn batch(table: &Table, form: Form) -> RecordBatch {
    let (fields, columns) = column_arrays(table, form.child_offset);
    let options = RecordBatchOptions::new().with_row_count(Some(table.rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

/// Reads a matrix back through the arrays that it goes out as, not through the crate's own views:
/// which rows are null, and the bits of the elements, row by row.
pub fn read(matrix: &Matrix) -> (Vec<bool>, Vec<Option<u64>>) {
    let width = matrix.width();
    let (mut row_is_null, mut bits) = (Vec::new(), Vec::new());
    for array in matrix.to_arrays().unwrap() {
        let mut values = array.clone();
        let is_flat = array.data_type().is_numeric() || *array.data_type() == DataType::Boolean;
        let rows = if is_flat { array.len() / width.max(1) } else { array.len() };
        row_is_null.extend((0..rows).map(|row| !is_flat && array.is_null(row)));
        let mut take = |row: usize, all: &[Option<u64>], from: usize| {
            let is_null = !is_flat && array.is_null(row);
            bits.extend((0..width).map(|i| if is_null { None } else { all[from + i] }));
        };
        match array.data_type() {
            DataType::Struct(_) => {
                let columns: Vec<_> =
                    array.as_struct().columns().iter().map(|c| numbers::bits(c)).collect();
                for row in 0..rows {
                    let one: Vec<_> = columns.iter().map(|column| column[row]).collect();
                    take(row, &one, 0);
                }
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let all = numbers::bits(list.values());
                (0..rows).for_each(|row| take(row, &all, list.value_offsets()[row] as usize));
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let all = numbers::bits(list.values());
                (0..rows).for_each(|row| take(row, &all, list.value_offsets()[row] as usize));
            }
            _ => {
                while let DataType::FixedSizeList(..) = values.data_type() {
                    values = values.as_fixed_size_list().values().clone();
                }
                let all = numbers::bits(&values);
                (0..rows).for_each(|row| take(row, &all, row * width));
            }
        }
    }
    (row_is_null, bits)
}
