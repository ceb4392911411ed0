//! The Python extension module `raptors_arrow._native`: the only room that names pyo3.
//!
//! A call goes: `function` sorts the arguments, `origin` says whose objects they are, `argument`
//! makes values of them through `import` (Arrow capsules, checked by `check`) or `numpy` (the
//! buffer protocol), `option` reads the options, the registry's function runs without the GIL, and
//! `export` gives the result back as what came in. Every Python function is made from the registry's table.
//!
//! Nothing here may let a panic through: what can panic runs inside `errors::guarded`.

mod argument;
mod check;
mod docs;
mod errors;
mod explain;
mod export;
mod function;
mod import;
mod matrix;
mod numpy;
mod option;
mod origin;
mod results;
mod system;
mod tune;

use pyo3::prelude::*;

/// The module; importing it needs no library but Python's own.
#[pymodule(name = "_native", gil_used = true)]
fn native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<matrix::PyMatrix>()?;
    m.add_class::<function::PyFunction>()?;
    m.add_class::<explain::PyExplanation>()?;
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
