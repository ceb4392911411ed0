//! `arrow.fixed_shape_tensor`: a fixed-size list whose rows are tensors.
//!
//! Read here because arrow-schema 59 looks for a key `permutations` where the format says
//! `permutation`, and so refuses or overlooks what pyarrow writes.

use arrow_schema::Field;
use serde_json::Value;

use crate::error::{Error, Result};

const NAME: &str = "arrow.fixed_shape_tensor";

/// Checks a tensor field against the width of its storage. Other fields pass.
pub(super) fn check(field: &Field, width: usize) -> Result<()> {
    if field.extension_type_name() != Some(NAME) {
        return Ok(());
    }
    let refuse = |reason: String| Err(Error::Tensor { reason });
    let text = field.extension_type_metadata().unwrap_or("");
    let Ok(Value::Object(metadata)) = serde_json::from_str::<Value>(text) else {
        return refuse(format!("its metadata is no JSON object: {text:?}"));
    };
    let numbers = |key: &str| -> Option<Vec<u64>> {
        metadata.get(key)?.as_array()?.iter().map(Value::as_u64).collect()
    };
    let Some(shape) = numbers("shape") else {
        return refuse("its metadata has no shape".to_owned());
    };
    let product = shape.iter().try_fold(1u64, |product, n| product.checked_mul(*n));
    if product != Some(width as u64) {
        return refuse(format!("shape {shape:?} does not fit lists of {width}"));
    }
    match metadata.get("permutation") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => match numbers("permutation") {
            Some(order) if order.iter().copied().eq(0..order.len() as u64) => Ok(()),
            order => refuse(format!(
                "permutation {order:?} would change the order of the columns; \
                 store the tensors in row-major order first"
            )),
        },
    }
}
