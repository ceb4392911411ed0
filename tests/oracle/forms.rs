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

use super::{Number, Table};

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
pub fn as_held<T: Number>(table: &Table<T>, layout: Layout) -> Table<T> {
    if layout.has_row_nulls() {
        return table.clone();
    }
    let rows = table.rows.iter().map(|row| match row {
        Some(row) => Some(row.clone()),
        None => Some(vec![None; table.width]),
    });
    Table { width: table.width, rows: rows.collect() }
}

/// The table as a matrix of one chunk.
pub fn matrix<T: Number>(table: &Table<T>, form: Form) -> Matrix {
    let made = match form.layout {
        Layout::Flat if table.width == 0 => {
            // A flat array of no elements says nothing of its rows.
            Matrix::try_from(&fixed_size_list(table, form))
        }
        Layout::Flat => Matrix::reshape(&T::array(&table.flat(), form.child_offset), table.width),
        Layout::Batch => Matrix::try_from(&batch(table, form)),
        _ => Matrix::try_from(&array(table, form)),
    };
    made.unwrap_or_else(|error| panic!("{form:?} of {table:?}: {error}"))
}

/// The table as a matrix of chunks that end at the given rows.
pub fn chunked<T: Number>(table: &Table<T>, form: Form, ends: &[usize]) -> Matrix {
    let mut first = 0;
    let mut parts = Vec::new();
    for (i, end) in ends.iter().copied().chain([table.rows.len()]).enumerate() {
        let rows = table.rows[first..end].to_vec();
        let part = Table { width: table.width, rows };
        let offset = (form.parent_offset + 3 * i) % 16;
        parts.push(matrix(&part, Form::new(form.layout, offset)));
        first = end;
    }
    Matrix::from_chunks(parts).unwrap_or_else(|error| panic!("{form:?}: {error}"))
}

/// The table as an array (a struct for a batch).
pub fn array<T: Number>(table: &Table<T>, form: Form) -> ArrayRef {
    match form.layout {
        Layout::FixedSizeList | Layout::Flat => fixed_size_list(table, form),
        Layout::Nested => nested(table, form),
        Layout::List | Layout::PackedList => list::<T, i32>(table, form),
        Layout::LargeList => list::<T, i64>(table, form),
        Layout::Struct | Layout::Batch => structs(table, form),
    }
}

fn padded<T: Number>(table: &Table<T>, rows: usize) -> Table<T> {
    let before = (0..rows).map(|i| (i % 2 == 0).then(|| vec![None; table.width]));
    Table { width: table.width, rows: before.chain(table.rows.iter().cloned()).collect() }
}

fn row_nulls<T>(table: &Table<T>) -> Option<NullBuffer> {
    let is_valid = |row: usize| table.rows[row].is_some();
    let all = BooleanBuffer::collect_bool(table.rows.len(), is_valid);
    table.rows.iter().any(Option::is_none).then(|| NullBuffer::new(all))
}

fn item<T: Number>() -> Arc<Field> {
    Arc::new(Field::new_list_field(T::TYPE, true))
}

/// Elements row by row. Under a null row they are valid garbage: it must not be read.
fn elements<T: Number>(table: &Table<T>, offset: usize) -> ArrayRef {
    let flat: Vec<Option<T>> = table
        .rows
        .iter()
        .flat_map(|row| match row {
            Some(row) => row.clone(),
            None => (0..table.width).map(|i| Some(T::garbage(i))).collect(),
        })
        .collect();
    T::array(&flat, offset)
}

fn fixed_size_list<T: Number>(table: &Table<T>, form: Form) -> ArrayRef {
    let (offset, len) = (form.parent_offset, table.rows.len());
    let table = padded(table, offset);
    let list = FixedSizeListArray::try_new_with_length(
        item::<T>(),
        table.width as i32,
        elements(&table, form.child_offset),
        row_nulls(&table),
        table.rows.len(),
    );
    Arc::new(list.unwrap().slice(offset, len))
}

fn nested<T: Number>(table: &Table<T>, form: Form) -> ArrayRef {
    let (offset, len) = (form.parent_offset, table.rows.len());
    let table = padded(table, offset);
    let width = table.width;
    let inner = (2..=width).find(|n| width.is_multiple_of(*n)).unwrap_or(1);
    let outer = width / inner;
    let rows = table.rows.len();
    let inner_list = FixedSizeListArray::try_new_with_length(
        item::<T>(),
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

fn list<T: Number, O: arrow_array::OffsetSizeTrait>(table: &Table<T>, form: Form) -> ArrayRef {
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
        elements(&Table { width: table.width, rows: kept }, form.child_offset)
    } else {
        elements(&table, form.child_offset)
    };
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    let nulls = row_nulls(&table);
    let list: ArrayRef = if O::IS_LARGE {
        let offsets =
            OffsetBuffer::<i64>::new(offsets.iter().map(|o| o.as_usize() as i64).collect());
        Arc::new(LargeListArray::new(item::<T>(), offsets, values, nulls))
    } else {
        let offsets =
            OffsetBuffer::<i32>::new(offsets.iter().map(|o| o.as_usize() as i32).collect());
        Arc::new(ListArray::new(item::<T>(), offsets, values, nulls))
    };
    list.slice(offset, len)
}

fn column_arrays<T: Number>(table: &Table<T>, offset: usize) -> (Fields, Vec<ArrayRef>) {
    let fields =
        (0..table.width).map(|c| Field::new(format!("c{c}"), T::TYPE, true)).collect::<Vec<_>>();
    let columns =
        (0..table.width).map(|c| T::array(&table.column(c), (offset + c) % 16)).collect::<Vec<_>>();
    (fields.into(), columns)
}

fn structs<T: Number>(table: &Table<T>, form: Form) -> ArrayRef {
    let (offset, len) = (form.parent_offset, table.rows.len());
    let table = padded(table, offset);
    let (fields, columns) = column_arrays(&table, form.child_offset);
    let nulls = row_nulls(&table);
    let rows = table.rows.len();
    let array = StructArray::try_new_with_length(fields, columns, nulls, rows).unwrap();
    Arc::new(array.slice(offset, len))
}

fn batch<T: Number>(table: &Table<T>, form: Form) -> RecordBatch {
    let (fields, columns) = column_arrays(table, form.child_offset);
    let options = RecordBatchOptions::new().with_row_count(Some(table.rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

/// Reads a matrix back through the arrays that it goes out as, not through the crate's own views.
pub fn read<T: Number>(matrix: &Matrix) -> Table<T> {
    let width = matrix.width();
    let mut rows = Vec::new();
    for array in matrix.to_arrays().unwrap() {
        let is_null = |row: usize| array.is_null(row);
        match array.data_type() {
            DataType::Struct(_) => {
                let columns: Vec<Vec<Option<T>>> =
                    array.as_struct().columns().iter().map(|c| T::options(c)).collect();
                rows.extend((0..array.len()).map(|row| {
                    (!is_null(row)).then(|| columns.iter().map(|column| column[row]).collect())
                }));
            }
            DataType::FixedSizeList(..) => {
                let mut values = array.clone();
                while let DataType::FixedSizeList(..) = values.data_type() {
                    values = values.as_fixed_size_list().values().clone();
                }
                let flat = T::options(&values);
                rows.extend((0..array.len()).map(|row| {
                    (!is_null(row)).then(|| flat[row * width..(row + 1) * width].to_vec())
                }));
            }
            DataType::List(_) => rows
                .extend(array.as_list::<i32>().iter().map(|row| row.map(|row| T::options(&row)))),
            DataType::LargeList(_) => rows
                .extend(array.as_list::<i64>().iter().map(|row| row.map(|row| T::options(&row)))),
            _ => {
                let flat = T::options(&array);
                rows.extend(flat.chunks(width.max(1)).map(|row| Some(row.to_vec())));
            }
        }
    }
    Table { width, rows }
}
