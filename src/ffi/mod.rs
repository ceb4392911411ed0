//! Arrow C data from other libraries: checked (`check`), then taken over without a copy (`adopt`).
//!
//! The Python module and the plugin that polars loads both come in by this door. It knows no
//! Python: who holds the GIL lets go of it where the rows are many.

#![allow(unsafe_code)]

mod adopt;
mod check;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_schema::{DataType, Field};

pub(crate) use adopt::adopted;
pub(crate) use check::Checked;

use crate::compute::is_number;
use crate::error::{Error, Result};

/// The error for what is wrong with C data.
fn malformed(problem: &check::Problem) -> Error {
    Error::Arrow { message: format!("the Arrow data {problem}") }
}

/// The field of a schema.
///
/// # Safety
///
/// Its pointers that are not null lead to what the C Data Interface says.
///
/// # Errors
///
/// [`Error::Arrow`] for a schema that cannot be read.
pub(crate) unsafe fn field(schema: &FFI_ArrowSchema) -> Result<Field> {
    // SAFETY: the caller's promise.
    unsafe { any_field(schema) }.map_err(|problem| malformed(&problem))
}

/// The field of a schema, or what is wrong with it.
///
/// # Safety
///
/// As for [`field`].
pub(crate) unsafe fn any_field(schema: &FFI_ArrowSchema) -> std::result::Result<Field, String> {
    // SAFETY: the caller's promise.
    unsafe { check::schema(schema) }?;
    // A field for each child, which cannot be refused.
    crate::memory::headroom(schema.children().count().saturating_mul(512));
    Field::try_from(schema).map_err(|error| format!("has a type that cannot be read: {error}"))
}

/// Checks the structure of an array.
///
/// # Safety
///
/// Its pointers that are not null lead to what the C Data Interface says, and its buffers are as
/// long as its lengths say.
///
/// # Errors
///
/// [`Error::Arrow`] for an array that is not of its type.
pub(crate) unsafe fn checked<'a>(
    array: &'a mut FFI_ArrowArray,
    data_type: &'a DataType,
) -> Result<Checked<'a>> {
    // SAFETY: the caller's promise.
    unsafe { check::array(array, data_type) }.map_err(|problem| malformed(&problem))
}

/// Whether columns of a type can be seen as a matrix.
pub(crate) fn can_be_matrix(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(field, _) => {
            !matches!(field.data_type(), DataType::Struct(_) | DataType::List(_))
                && can_be_matrix(field.data_type())
        }
        DataType::List(field) | DataType::LargeList(field) => is_number(field.data_type()),
        DataType::Struct(fields) => match &fields[..] {
            [only] => {
                !matches!(only.data_type(), DataType::Struct(_)) && can_be_matrix(only.data_type())
            }
            all => all.iter().all(|field| is_number(field.data_type())),
        },
        other => is_number(other),
    }
}
