//! The Python extension module `raptors_arrow._native`: the only module that names pyo3.
//!
//! A call goes: `function` sorts the arguments, `origin` says whose objects they are, `argument`
//! makes values of them through `import` (Arrow capsules, checked and taken over by the crate's
//! `ffi`) or `numpy` (the buffer protocol), `pandas` chooses between the two, `option` reads the
//! options, the registry's function runs without the GIL, and `export` gives the result back as what
//! came in, or, by capsules, as what a consumer asks for (`requested`). Every Python function is made
//! from the registry's table.
//!
//! Nothing here may let a panic through: what can panic runs inside `errors::guarded`.

mod accumulator;
mod argument;
mod capsule;
mod docs;
mod errors;
mod explain;
mod export;
mod expression;
mod fit;
mod function;
mod groups;
mod import;
mod lists;
mod matrix;
mod numpy;
mod once;
mod option;
mod origin;
mod pad;
mod pandas;
mod plugin;
mod requested;
mod results;
mod shown;
mod system;
mod tune;
mod vector;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The module; importing it needs no library but Python's own.
#[pymodule(name = "_native", gil_used = true)]
fn native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    only_in_the_main_interpreter()?;
    // Now and not in the first call: a fork while another thread reads the machine or the
    // environment would leave the child with a lock that nobody opens. What is wrong with a setting
    // is said by the calls.
    let _ = (crate::dispatch::machine(), crate::dispatch::num_threads());
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<matrix::PyMatrix>()?;
    m.add_class::<function::PyFunction>()?;
    m.add_class::<accumulator::PyAccumulator>()?;
    groups::add_to(m)?;
    plugin::add_to(m)?;
    pad::add_to(m)?;
    expression::add_to(m)?;
    fit::add_to(m)?;
    m.add_class::<explain::PyExplanation>()?;
    m.add_class::<explain::PyPass>()?;
    m.add_class::<system::PyPoolStats>()?;
    m.add_function(wrap_pyfunction!(matrix::as_matrix, m)?)?;
    m.add_function(wrap_pyfunction!(function::call_function, m)?)?;
    m.add_function(wrap_pyfunction!(function::list_functions, m)?)?;
    m.add_function(wrap_pyfunction!(function::get_function, m)?)?;
    m.add_function(wrap_pyfunction!(explain::explain, m)?)?;
    m.add_function(wrap_pyfunction!(system::build_info, m)?)?;
    m.add_function(wrap_pyfunction!(system::get_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(system::set_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(system::pool_stats, m)?)?;
    m.add_function(wrap_pyfunction!(system::release_unused, m)?)?;
    results::add_all(m)?;
    tune::add_to(m)?;
    function::add_all(m)
}

/// Objects are kept for the whole process and threads come back to Python by its GIL state, which
/// belongs to the main interpreter: in another one the first call would wait for ever.
#[allow(unsafe_code)]
fn only_in_the_main_interpreter() -> PyResult<()> {
    // SAFETY: a module is being imported, so this thread runs an interpreter.
    let id = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match id {
        0 => Ok(()),
        _ => Err(PyImportError::new_err(
            "raptors_arrow works in the main interpreter only, not in a subinterpreter; \
             use threads, which run in parallel during calls, or processes",
        )),
    }
}
