//! The buffers of a result, joined over its chunks: a quick way to see that two are the same.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::DataType;
use raptors_arrow::compute::Value;

/// Bytes and validity, column by column where the result lies so. What is under a null counts
/// too: it must be zero.
#[derive(PartialEq, Eq)]
pub struct Raw {
    values: Vec<Vec<u8>>,
    validity: Vec<BooleanBuffer>,
}

impl Raw {
    pub fn of(value: &Value) -> Self {
        let mut raw = Self { values: Vec::new(), validity: Vec::new() };
        raw.add(value);
        raw
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Scalar(array) | Value::Vector(array) => self.join(std::slice::from_ref(array)),
            Value::Matrix(matrix) => self.join(&matrix.to_arrays().unwrap()),
            Value::Ragged(lists) => self.join(&lists.to_arrays().unwrap()),
            Value::Named(values) => values.iter().for_each(|(_, value)| self.add(value)),
            Value::Number(_) | Value::Integer(_) => panic!("no function gives a bare number"),
        }
    }

    fn join(&mut self, chunks: &[ArrayRef]) {
        let mut validity = BooleanBufferBuilder::new(0);
        for chunk in chunks {
            match chunk.nulls() {
                Some(nulls) => validity.append_buffer(nulls.inner()),
                None => validity.append_n(chunk.len(), true),
            }
        }
        self.validity.push(validity.finish());
        match chunks.first().map(|chunk| chunk.data_type()) {
            Some(DataType::FixedSizeList(..)) => {
                let inner = chunks.iter().map(|c| c.as_fixed_size_list().values().clone());
                self.join(&inner.collect::<Vec<_>>());
            }
            Some(DataType::Struct(fields)) => {
                for column in 0..fields.len() {
                    let inner = chunks.iter().map(|c| c.as_struct().column(column).clone());
                    self.join(&inner.collect::<Vec<_>>());
                }
            }
            Some(DataType::List(_)) => self.join_lists::<i32>(chunks),
            Some(DataType::LargeList(_)) => self.join_lists::<i64>(chunks),
            Some(number) if number.is_numeric() => {
                let bytes = chunks.iter().map(|chunk| {
                    let data = chunk.to_data();
                    let size = chunk.data_type().primitive_width().unwrap();
                    let start = data.offset() * size;
                    data.buffers()[0][start..start + data.len() * size].to_vec()
                });
                self.values.push(bytes.collect::<Vec<_>>().concat());
            }
            Some(DataType::Boolean) => {
                let flags = chunks.iter().flat_map(|chunk| chunk.as_boolean().values());
                self.values.push(flags.map(u8::from).collect());
            }
            other => panic!("no raw form of {other:?}"),
        }
    }

    /// The lengths of lists, and the elements that they have.
    fn join_lists<O: OffsetSizeTrait>(&mut self, chunks: &[ArrayRef]) {
        let (mut lengths, mut elements) = (Vec::new(), Vec::new());
        for list in chunks.iter().map(|chunk| chunk.as_list::<O>()) {
            lengths.extend(list.offsets().lengths().flat_map(usize::to_le_bytes));
            let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            elements.push(list.values().slice(first.as_usize(), (last - first).as_usize()));
        }
        self.values.push(lengths);
        self.join(&elements);
    }
}
