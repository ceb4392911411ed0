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
    let Some(shape) = numbers(field, "shape") else {
        return refuse("its metadata has no shape".to_owned());
    };
    let product = shape.iter().try_fold(1u64, |product, n| product.checked_mul(*n));
    if product != Some(width as u64) {
        return refuse(format!("shape {shape:?} does not fit lists of {width}"));
    }
    match metadata.get("permutation") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => match numbers(field, "permutation") {
            Some(order) if is_order(&order) && order.len() == shape.len() => Ok(()),
            order => refuse(format!(
                "permutation {order:?} is no order of the {} dimensions",
                shape.len()
            )),
        },
    }
}

/// Whether each dimension is named once.
fn is_order(order: &[u64]) -> bool {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..order.len() as u64)
}

/// Whole numbers of the metadata of a tensor field.
pub(super) fn numbers(field: &Field, key: &str) -> Option<Vec<u64>> {
    if field.extension_type_name() != Some(NAME) {
        return None;
    }
    let metadata: Value = serde_json::from_str(field.extension_type_metadata()?).ok()?;
    metadata.get(key)?.as_array()?.iter().map(Value::as_u64).collect()
}

/// Whether the elements of its rows do not lie in the order of their dimensions.
pub(super) fn is_permuted(field: &Field) -> bool {
    let order = numbers(field, "permutation");
    order.is_some_and(|order| !order.iter().copied().eq(0..order.len() as u64))
}
