//! Reads an Arrow file, filters it with arrow's kernels, normalises its vectors, and writes it back.
//!
//! `cargo run --manifest-path examples/Cargo.toml --bin pipeline [in.arrow out.arrow]`

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::compute::kernels::cmp::gt_eq;
use arrow::datatypes::Float32Type;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use raptors_arrow::Matrix;
use raptors_arrow::compute::{self, Order, Per};
use raptors_arrow_examples::write_documents;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match arguments.as_slice() {
        [from, to] => run(from, to),
        [] => {
            let folder = std::env::temp_dir().join(format!("pipeline-{}", std::process::id()));
            std::fs::create_dir_all(&folder)?;
            let (from, to) = (folder.join("documents.arrow"), folder.join("recent.arrow"));
            write_documents(&from, 100)?;
            let ran = run(&from, &to);
            std::fs::remove_dir_all(&folder)?;
            ran
        }
        _ => Err("expected two files, or nothing for made-up data".into()),
    }
}

fn run(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let reader = FileReader::try_new(File::open(from)?, None)?;
    let schema = reader.schema();
    let mut writer = FileWriter::try_new(File::create(to)?, &schema)?;
    let mut recent = Vec::new();
    for batch in reader {
        let batch = batch?;
        // arrow's kernels choose the rows ...
        let year = batch.column_by_name("year").ok_or("no column year")?;
        let batch = filter_record_batch(&batch, &gt_eq(year, &Int64Array::new_scalar(2010))?)?;
        // ... and ours compute on the vectors: a view, no copy.
        let embedding = batch.column_by_name("embedding").ok_or("no column embedding")?;
        let x = Matrix::try_from(embedding)?;
        let unit = compute::normalize(&x, Per::Row, Order::Two)?;
        let unit = unit.to_arrays()?.pop().ok_or("no chunk")?;
        writer.write(&with_column(&batch, "embedding", unit)?)?;
        recent.push(x);
    }
    writer.finish()?;

    // The batches are chunks of one matrix; they are not joined.
    let all = Matrix::from_chunks(recent)?;
    let mean = compute::mean(&all, Per::Column)?;
    let norms = compute::norm(&all, Per::Row)?;
    println!("{} rows of {} in {} chunks", all.rows(), all.width(), all.num_chunks());
    println!("mean of each column: {:?}", mean.as_primitive::<Float32Type>().values());
    println!("{} norms, {} of them null", norms.len(), norms.null_count());
    Ok(())
}

fn with_column(
    batch: &RecordBatch,
    name: &str,
    column: ArrayRef,
) -> Result<RecordBatch, Box<dyn Error>> {
    let mut columns = batch.columns().to_vec();
    columns[batch.schema().index_of(name)?] = column;
    Ok(RecordBatch::try_new(Arc::clone(&batch.schema()), columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_filtered_and_has_norm_one() {
        let folder = std::env::temp_dir().join(format!("pipeline-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (from, to) = (folder.join("in.arrow"), folder.join("out.arrow"));
        write_documents(&from, 100).unwrap();
        run(&from, &to).unwrap();
        let batches: Vec<RecordBatch> = FileReader::try_new(File::open(&to).unwrap(), None)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 50);
        for batch in &batches {
            let x = Matrix::try_from(batch.column_by_name("embedding").unwrap()).unwrap();
            let norms = compute::norm(&x, Per::Row).unwrap();
            let ids = batch.column_by_name("id").unwrap();
            let ids = ids.as_primitive::<arrow::datatypes::Int64Type>();
            for (norm, id) in norms.as_primitive::<Float32Type>().iter().zip(ids.values()) {
                match norm {
                    Some(norm) => assert!((norm - 1.0).abs() < 1e-6, "row {id}: {norm}"),
                    None => assert_eq!(id % 7, 3),
                }
            }
        }
    }
}
