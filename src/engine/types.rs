//! What types of columns are to functions: the elements, the width, the type of a result.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};

use crate::compute::{ArgumentType, Shape, is_number};
use crate::error::Result;
use crate::matrix::unaccepted;

/// What a column is as an argument.
pub(super) fn argument_type(data_type: &DataType) -> Result<ArgumentType> {
    let element = element(data_type);
    if !is_number(element) {
        return Err(unaccepted(data_type));
    }
    let shape = match data_type {
        list if is_list(list) => Shape::Matrix { rows: None, width: width(list) },
        _ => Shape::Vector,
    };
    Ok(ArgumentType { element: element.clone(), shape })
}

/// Whether rows may differ in length.
pub(super) fn is_variable(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_))
}

/// Whether rows are lists.
pub(super) fn is_list(data_type: &DataType) -> bool {
    is_variable(data_type) || matches!(data_type, DataType::FixedSizeList(..))
}

/// The elements of a row, if the type says how many.
pub(super) fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeList(item, size) => {
            usize::try_from(*size).ok()?.checked_mul(width(item.data_type())?)
        }
        other => (!is_list(other)).then_some(1),
    }
}

/// The elements of rows, or the numbers themselves.
pub(super) fn element(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            element(item.data_type())
        }
        other => other,
    }
}

/// The type with other elements.
pub(super) fn with_element(data_type: &DataType, to: &DataType) -> DataType {
    let inner = |item: &FieldRef| {
        let data_type = with_element(item.data_type(), to);
        Arc::new(item.as_ref().clone().with_data_type(data_type).with_nullable(true))
    };
    match data_type {
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(inner(item), *size),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        _ => to.clone(),
    }
}
