//! Evaluates a small expression over a reader, batch by batch, with functions called by their names.
//!
//! `cargo run --manifest-path examples/Cargo.toml --bin by_name`

use std::error::Error;
use std::fs::File;

use arrow::array::{AsArray, RecordBatch, RecordBatchReader};
use arrow::datatypes::Float32Type;
use arrow::ipc::reader::FileReader;
use raptors_arrow::compute::{Options, Value, call_function, get_function};
use raptors_arrow_examples::write_documents;

/// What to compute: a column, a number, or a function of the registry.
enum Expression {
    Column(&'static str),
    Number(f64),
    Call(&'static str, Vec<Expression>, Options),
}

impl Expression {
    /// Whether all its functions are in the registry.
    fn check(&self) -> Result<(), raptors_arrow::Error> {
        if let Self::Call(name, arguments, _) = self {
            get_function(name)?;
            arguments.iter().try_for_each(Self::check)?;
        }
        Ok(())
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<Value, Box<dyn Error>> {
        Ok(match self {
            Self::Column(name) => {
                Value::try_from(batch.column_by_name(name).ok_or("no such column")?)?
            }
            Self::Number(number) => Value::Number(*number),
            Self::Call(name, arguments, options) => {
                let arguments: Result<Vec<_>, _> =
                    arguments.iter().map(|argument| argument.evaluate(batch)).collect();
                call_function(name, &arguments?, options)?
            }
        })
    }
}

/// The norm of each row, twice as long.
fn doubled_norms() -> Expression {
    let doubled = Expression::Call(
        "scale",
        vec![Expression::Column("embedding"), Expression::Number(2.0)],
        Options::new(),
    );
    Expression::Call("norm", vec![doubled], Options::new().set("axis", 1))
}

/// Evaluates an expression that gives one number for each row.
fn over(
    reader: impl RecordBatchReader,
    expression: &Expression,
) -> Result<Vec<Option<f32>>, Box<dyn Error>> {
    expression.check()?;
    let mut all = Vec::new();
    for batch in reader {
        let value = expression.evaluate(&batch?)?;
        let array = value.as_array().ok_or("expected one number for each row")?;
        all.extend(array.as_primitive::<Float32Type>().iter());
    }
    Ok(all)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("by-name-{}.arrow", std::process::id()));
    write_documents(&path, 100)?;
    let norms = over(FileReader::try_new(File::open(&path)?, None)?, &doubled_norms());
    std::fs::remove_file(&path)?;
    println!("{:?} ...", &norms?[..5]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_sees_every_batch() {
        let path = std::env::temp_dir().join(format!("by-name-test-{}.arrow", std::process::id()));
        write_documents(&path, 40).unwrap();
        let open = || FileReader::try_new(File::open(&path).unwrap(), None).unwrap();
        let norms = over(open(), &doubled_norms()).unwrap();
        let unknown = Expression::Call("fly", vec![], Options::new());
        let refused = over(open(), &unknown).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(norms.len(), 40);
        for (id, norm) in norms.iter().enumerate() {
            let squares: f32 = (0..4).map(|i| ((id + i) as f32 / 5.0).powi(2)).sum();
            match norm {
                Some(norm) => assert!((norm - squares.sqrt()).abs() < 1e-3, "row {id}: {norm}"),
                None => assert_eq!(id % 7, 3),
            }
        }
        assert!(refused.contains("fly"), "{refused}");
    }
}
