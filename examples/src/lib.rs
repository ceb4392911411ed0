//! The data that the example programs work on.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Int64Array, RecordBatch};
use arrow::datatypes::Float32Type;
use arrow::ipc::writer::FileWriter;

/// Elements of a vector.
pub const WIDTH: i32 = 4;

/// An Arrow file of documents: an id, a year, and an embedding that is null for every seventh.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_documents(path: &Path, rows: i64) -> Result<(), Box<dyn Error>> {
    let ids: Vec<i64> = (0..rows).collect();
    let vectors = ids.iter().map(|&id| {
        let vector = (0..WIDTH).map(move |i| Some((id + i64::from(i)) as f32 / 10.0));
        (id % 7 != 3).then(|| vector.collect::<Vec<_>>())
    });
    let embeddings = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, WIDTH);
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(ids.clone())) as ArrayRef),
        ("year", Arc::new(ids.iter().map(|id| 2000 + id % 20).collect::<Int64Array>())),
        ("embedding", Arc::new(embeddings)),
    ])?;
    let mut writer = FileWriter::try_new(File::create(path)?, &batch.schema())?;
    // In small batches, as files usually have them.
    for first in (0..batch.num_rows()).step_by(16) {
        writer.write(&batch.slice(first, 16.min(batch.num_rows() - first)))?;
    }
    writer.finish()?;
    Ok(())
}
