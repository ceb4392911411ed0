//! Evaluates expressions over a reader: columns for each batch as it is read, then statistics of all rows
//! in memory that does not grow with them.
//!
//! `cargo run --manifest-path examples/Cargo.toml --bin expressions`

use std::error::Error;
use std::fs::File;
use std::path::Path;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::Float32Type;
use arrow::ipc::reader::FileReader;
use raptors_arrow::expr::{Expr, col, evaluate_reader, reduce_reader};
use raptors_arrow_examples::write_documents;

/// The length of each vector, twice as long: one pass over a batch, without a column in between.
fn doubled_norm() -> Expr {
    col("embedding").scale(2.0).norm(1)
}

/// One number for each row of a file, batch by batch.
fn norms(path: &Path) -> Result<Vec<Option<f32>>, Box<dyn Error>> {
    let reader = FileReader::try_new(File::open(path)?, None)?;
    let mut all = Vec::new();
    for batch in evaluate_reader([("norm", doubled_norm())], reader) {
        all.extend(batch?.column(0).as_primitive::<Float32Type>().iter());
    }
    Ok(all)
}

/// The mean vector and the largest norm of a file: the bits are those of the whole column.
fn statistics(path: &Path) -> Result<Vec<ArrayRef>, Box<dyn Error>> {
    let reader = FileReader::try_new(File::open(path)?, None)?;
    Ok(reduce_reader(&[col("embedding").mean(0), doubled_norm().max(0)], reader)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("expressions-{}.arrow", std::process::id()));
    write_documents(&path, 100)?;
    let (norms, statistics) = (norms(&path), statistics(&path));
    std::fs::remove_file(&path)?;
    println!("norms {:?} ...", &norms?[..5]);
    for statistic in statistics? {
        println!("{:?}", statistic.as_primitive::<Float32Type>().values());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_sees_every_batch() {
        let name = format!("expressions-test-{}.arrow", std::process::id());
        let path = std::env::temp_dir().join(name);
        write_documents(&path, 40).unwrap();
        let (norms, statistics) = (norms(&path).unwrap(), statistics(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(norms.len(), 40);
        for (id, norm) in norms.iter().enumerate() {
            let squares: f32 = (0..4).map(|i| ((id + i) as f32 / 5.0).powi(2)).sum();
            match norm {
                Some(norm) => assert!((norm - squares.sqrt()).abs() < 1e-3, "row {id}: {norm}"),
                None => assert_eq!(id % 7, 3),
            }
        }
        let largest = norms.iter().flatten().copied().fold(0.0, f32::max);
        assert_eq!(statistics[0].len(), 4);
        assert_eq!(statistics[1].as_primitive::<Float32Type>().value(0), largest);
    }
}
