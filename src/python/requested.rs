//! What a consumer asks for with `requested_schema`: the same numbers in another Arrow type.
//!
//! The rule: element types are changed as `cast` does it, so that a number which does not fit is an
//! error and no other number or null; lists become lists of another kind and the same length. What
//! would need more is refused, as the data would not be what was asked for.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, FieldRef};
use pyo3::prelude::*;

use super::errors::{Kind, detached};
use super::{export, import};
use crate::compute;
use crate::compute::is_number;
use crate::error::Error;
use crate::matrix::Matrix;
use crate::type_name::TypeName;

/// The chunks of a matrix as arrays of the type that is asked for, or of its own.
pub(super) fn followed(
    py: Python<'_>,
    matrix: &Matrix,
    requested: Option<&Bound<'_, PyAny>>,
) -> PyResult<(FieldRef, Vec<ArrayRef>)> {
    let own = export::arrays(py, matrix)?;
    let Some(requested) = requested.filter(|requested| !requested.is_none()) else {
        return Ok(own);
    };
    let mut wanted = import::requested_field(requested)?;
    let has_type = wanted.data_type() == own.0.data_type();
    if has_type && wanted.extension_type_name() == own.0.extension_type_name() {
        return Ok(own);
    }
    if wanted.name().is_empty() {
        wanted.set_name(own.0.name().clone());
    }
    let wanted = Arc::new(wanted);
    let refused = |why: &str| {
        let (from, to) = (TypeName(own.0.data_type()), TypeName(wanted.data_type()));
        Kind::Type.error(format!("as_matrix: the requested schema asks for {to} of {from}: {why}"))
    };
    let other =
        "it may ask for other numbers and other kinds of lists, of the same shape and names";

    let element = element_of(wanted.data_type());
    let element = element.ok_or_else(|| refused(other))?;
    let cast =
        detached(py, || compute::cast(matrix, element, true)).map_err(|error| {
            match error.kind() {
        Error::Cast { .. } | Error::Number { .. } => Kind::Value.error(format!(
            "as_matrix: the requested schema asks for {}, which cannot hold every number here; \
             cast with safe=False first if they may change ({error})",
            TypeName(element)
        )),
        _ => error.into(),
    }
        })?;
    let changed = cast.in_type(&wanted)?.ok_or_else(|| refused(other))?;
    let (field, arrays) = export::arrays(py, &changed)?;
    // Where there are nulls, the fields were made to allow them.
    if field.data_type() != wanted.data_type() {
        return Err(refused("it allows no nulls where there are some"));
    }
    Ok((field, arrays))
}

/// The one type of numbers that a type is made of.
fn element_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            element_of(item.data_type())
        }
        DataType::Struct(fields) => {
            let mut types = fields.iter().map(|field| field.data_type());
            let first = types.next()?;
            (is_number(first) && types.all(|other| other == first)).then_some(first)
        }
        other => is_number(other).then_some(other),
    }
}
