//! The plugin that polars loads: the functions of the table as polars expressions, over polars' C
//! interface for plugins and without a polars crate, so that one library serves every version that
//! has the interface. Nothing here knows Python, and nothing waits for the GIL.
//!
//! ```text
//! polars                                     here
//! ──────                                     ────
//! plan:   field(schemas, kwargs)         →   Function::result_type → the schema of the result
//! run:    call(series, kwargs)           →   check, take over, Matrix, Function::call → a series
//!         on polars' own threads, a morsel at a time: a call that goes row by row is serial
//! failed: get_last_error_message()       ←   text of this thread's last error
//! ```
//!
//! What holds on every path, also on errors and panics: each input is released once, the result has
//! its `private_data`, and no panic goes back to polars.
//!
//! `series` has polars' structures, `request` reads what Python has said of a call, `column` lines
//! the columns up and computes, `symbols` has the names that polars looks for.

#![allow(unsafe_code)]

mod column;
pub(crate) mod request;
mod series;
pub(crate) mod symbols;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_schema::{Field, FieldRef};

use crate::compute::get_function;
use crate::dispatch::{Settings, with_settings};
use crate::error::{Error, Result};
use crate::ffi;
use crate::memory;
use request::Request;
use series::{Input, SeriesExport};

/// Version 0.1 of the interface: field functions take the keyword arguments too.
const VERSION: u32 = 1;

/// The version of the interface.
#[unsafe(no_mangle)]
extern "C" fn _polars_plugin_get_version() -> u32 {
    VERSION
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// The text of the last error of this thread; it stays where it is until the next one.
#[unsafe(no_mangle)]
extern "C" fn _polars_plugin_get_last_error_message() -> *const c_char {
    let text = LAST_ERROR.try_with(|text| text.try_borrow().map_or(c"".as_ptr(), |t| t.as_ptr()));
    text.unwrap_or(c"".as_ptr())
}

fn remember(text: &str) {
    // C's texts end at their first NUL.
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    let _ = LAST_ERROR.try_with(|last| last.try_borrow_mut().map(|mut last| *last = text));
}

/// Runs `body`; what it gives is written to `out`, an error is kept for polars to ask for.
///
/// # Safety
///
/// `out` is null, or can be written.
unsafe fn answered<T>(function: &str, out: *mut T, body: impl FnOnce() -> Result<T>) {
    let ended = catch_unwind(AssertUnwindSafe(|| memory::caught(body)));
    let said = match ended {
        Ok(Ok(result)) if !out.is_null() => {
            // SAFETY: not null, so that it can be written; polars has put nothing there that would
            // have to be dropped.
            unsafe { out.write(result) };
            return;
        }
        Ok(Ok(_)) => format!("{function}: polars has given no place for the result"),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("{function}: internal error, please report it: {}", said(&*panic)),
    };
    remember(&said);
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The bytes of a call's keyword arguments.
///
/// # Safety
///
/// Null, or so many bytes.
unsafe fn bytes<'a>(start: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    if start.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(start, len) } }
}

/// Calls the function `name` with series, which it takes over.
///
/// # Safety
///
/// As polars calls plugins: `inputs` are `count` series that are now ours, `kwargs` so many bytes,
/// `out` a series that is empty.
unsafe fn call(
    name: &'static str,
    inputs: *mut SeriesExport,
    count: usize,
    kwargs: (*const u8, usize),
    out: *mut SeriesExport,
) {
    let body = || {
        // Before anything can fail: from here on they are released, whatever comes.
        // SAFETY: the caller's promise.
        let inputs = unsafe { Input::all(inputs, count) };
        let function = get_function(name)?;
        // SAFETY: the caller's promise.
        let request = Request::from_kwargs(unsafe { bytes(kwargs.0, kwargs.1) })
            .map_err(|error| error.in_function(name))?;
        let columns = inputs.into_iter().map(Input::into_column).collect::<Result<Vec<_>>>();
        let columns = columns.map_err(|error| error.in_function(name))?;
        let run = || column::run(function, columns, &request);
        let (field, arrays) = if request.is_serial {
            // polars calls from as many threads as it wants to be busy.
            with_settings(Settings { threads: Some(1), ..Settings::default() }, run)
        } else {
            run()
        }
        .map_err(|error| error.in_function(name))?;
        SeriesExport::new(&field, arrays).map_err(|error| error.in_function(name))
    };
    // SAFETY: the caller's promise.
    unsafe { answered(name, out, body) }
}

/// Says what the function `name` gives for series of these types, which stay polars'.
///
/// # Safety
///
/// As polars calls plugins: `inputs` are `count` schemas, `kwargs` so many bytes, `out` a schema
/// that is empty.
unsafe fn field(
    name: &'static str,
    inputs: *const FFI_ArrowSchema,
    count: usize,
    out: *mut FFI_ArrowSchema,
    kwargs: (*const u8, usize),
) {
    let body = || {
        let function = get_function(name)?;
        // SAFETY: the caller's promise.
        let request = Request::from_kwargs(unsafe { bytes(kwargs.0, kwargs.1) })
            .map_err(|error| error.in_function(name))?;
        let schema = |i: usize| {
            // SAFETY: the caller's promise: a schema, which is only read.
            unsafe { ffi::field(&*inputs.add(i)) }.map(Arc::new)
        };
        let count = if inputs.is_null() { 0 } else { count };
        let fields = (0..count).map(schema).collect::<Result<Vec<FieldRef>>>();
        let typed = fields.and_then(|fields| column::result_field(function, &fields, &request));
        let typed = typed.map_err(|error| error.in_function(name))?;
        schema_of(&typed).map_err(|error| error.in_function(name))
    };
    // SAFETY: the caller's promise.
    unsafe { answered(name, out, body) }
}

fn schema_of(field: &Field) -> Result<FFI_ArrowSchema> {
    FFI_ArrowSchema::try_from(field).map_err(|error| Error::Arrow { message: error.to_string() })
}

/// What polars says of itself in a call: nothing, so far.
type CallerContext = *mut c_void;
