//! The named tuples of functions that give several results: `TopK(indices, scores)`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::docs::examples;
use super::errors::Kind;
use super::once::Once;
use crate::compute::registry::{self, Function, Gives};

/// The tuples by the names of their functions.
static TUPLES: Once<Vec<(&'static str, Py<PyAny>)>> = Once::new();

/// What the tuple of a function is called: `top_k` gives a `TopK`.
pub(super) fn tuple_name(function: &Function) -> String {
    let words = function.name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    words.collect()
}

/// Makes them, in the package that people import them from and that pickles name.
pub(super) fn add_all(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let mut tuples = Vec::new();
    for function in registry::list_functions() {
        let Gives::Named(names) = function.gives else { continue };
        let in_package = PyDict::new(py);
        in_package.set_item("module", "raptors_arrow")?;
        let name = tuple_name(function);
        let make = py.import("collections")?.getattr("namedtuple")?;
        let tuple = make.call((&name, names), Some(&in_package))?;
        let doc = format!("What ``{}`` gives: {}.\n", function.name, names.join(" and "));
        tuple.setattr("__doc__", doc + &examples(function.name))?;
        m.add(name.as_str(), &tuple)?;
        tuples.push((function.name, tuple.unbind()));
    }
    TUPLES.get_or(py, tuples);
    Ok(())
}

/// The results of a function as its tuple.
pub(super) fn named<'py>(
    py: Python<'py>,
    function: &str,
    results: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let tuples = TUPLES.get(py).into_iter().flatten();
    let Some((_, tuple)) = tuples.into_iter().find(|(name, _)| *name == function) else {
        return Err(Kind::Base.error(format!("{function}: no names for several results")));
    };
    tuple.bind(py).call_method1("_make", (results,))
}
