//! Expressions of Python: taken as those of the crate, evaluated together, and given back.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::errors::{Kind, detached, guarded};
use super::explain::PyPass;
use super::export::{self, Source};
use super::origin::Origin;
use super::{argument, option};
use crate::compute::registry::{self, Argument, ArgumentKind};
use crate::compute::{Function, Options, Value};
use crate::error::{Error, Result};
use crate::expr::{self, Expr};
use crate::matrix::Matrix;
use crate::memory::{self, Gather as _};

/// Adds what `raptors_arrow.expr` calls, and nobody else should.
pub(super) fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.setattr("_evaluate", wrap_pyfunction!(evaluate, m)?)?;
    m.setattr("_explain_parts", wrap_pyfunction!(explain_parts, m)?)
}

/// A part of expressions that was taken.
enum ExprPart<'py> {
    /// An object, and whether it has a value for each row.
    Object(Bound<'py, PyAny>, bool),
    Call {
        expr: Expr,
        function: &'static Function,
        options: Options,
        from: From<'py>,
    },
}

/// What a part was made from.
#[derive(Clone)]
struct From<'py> {
    /// Whose object its result becomes.
    origin: Origin<'py>,
    x: Option<Matrix>,
}

/// The parts of some expressions.
struct ExprParts<'py> {
    parts: Vec<ExprPart<'py>>,
    /// What columns hold; a column is named by its index here.
    columns: Vec<Value>,
    /// Objects that were taken, by the part that they are.
    taken: Vec<Option<(Expr, From<'py>)>>,
}

const EVALUATE: &str = "evaluate";

fn malformed() -> PyErr {
    Kind::Base.error("evaluate: parts that are no expression")
}

impl<'py> ExprParts<'py> {
    /// Takes parts, each after those that it needs: `(object, is_column)`, or `(name, arguments,
    /// options)`, whose arguments are `(True, part)` or `(False, object)`. `None` if an object is
    /// none whose kind can be given back after several calls.
    fn take(parts: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let mut all = Self { parts: Vec::new(), columns: Vec::new(), taken: Vec::new() };
        for part in parts.try_iter()? {
            let part = part?.cast_into::<PyTuple>().map_err(|_| malformed())?;
            let made = match part.len() {
                2 => ExprPart::Object(part.get_item(0)?, part.get_item(1)?.extract()?),
                _ => match all.call(&part)? {
                    Some(call) => call,
                    None => return Ok(None),
                },
            };
            all.parts.push(made);
            all.taken.push(None);
        }
        Ok(Some(all))
    }

    fn call(&mut self, part: &Bound<'py, PyTuple>) -> PyResult<Option<ExprPart<'py>>> {
        let name = part.get_item(0)?;
        let function = registry::get_function(&option::word(EVALUATE, "a name", &name)?)?;
        let options = part.get_item(2)?.cast_into::<PyDict>().map_err(|_| malformed())?;
        let options = option::named(function, Some(&options))?;
        let mut arguments = Vec::new();
        let mut from: Option<From<'py>> = None;
        for (argument, given) in function.all_arguments().zip(part.get_item(1)?.try_iter()?) {
            let (is_part, given): (bool, Bound<'py, PyAny>) = given?.extract()?;
            let (expr, made_from) = match is_part {
                true => self.part(function, argument, given.extract()?)?,
                false if argument.optional && given.is_none() => break,
                false => {
                    let taken = argument::take(function, argument, &given, None)?;
                    (expr::lit(taken.value), From { origin: Origin::Other, x: None })
                }
            };
            arguments.push(expr);
            from.get_or_insert(made_from);
        }
        let Some(mut from) = from else { return Ok(None) };
        if !is_kept(&from.origin) {
            return Ok(None);
        }
        if !function.keeps_rows(&options)? {
            // Its rows are not those of x: neither its type nor its chunks are theirs.
            if let Origin::PyArrowChunked | Origin::PyArrowArray(_) = &from.origin {
                from.origin = Origin::PyArrowArray(part.py().None().into_bound(part.py()));
            }
        }
        let expr = Expr::of(function, arguments, options.clone());
        Ok(Some(ExprPart::Call { expr, function, options, from }))
    }

    /// The part of an index, as an argument.
    fn part(
        &mut self,
        function: &Function,
        argument: &Argument,
        at: usize,
    ) -> PyResult<(Expr, From<'py>)> {
        let (object, is_column) = match self.parts.get(at).ok_or_else(malformed)? {
            ExprPart::Call { expr, from, .. } => return Ok((expr.clone(), from.clone())),
            ExprPart::Object(object, is_column) => (object, *is_column),
        };
        if let Some((expr, from)) = &self.taken[at] {
            return Ok((expr.clone(), from.clone()));
        }
        // What a column holds does not depend on who asks for it.
        let kind = if is_column { ArgumentKind::Matrix } else { argument.kind };
        let taken = argument::take(function, &Argument { kind, ..*argument }, object, None)?;
        let x = taken.value.as_matrix().cloned();
        // Rows of different lengths are no matrix: they go call by call.
        let is_ragged = taken.value.as_ragged().is_some();
        let origin = if is_ragged { Origin::Other } else { taken.origin };
        let expr = match is_column {
            true => {
                self.columns.push(taken.value);
                expr::col((self.columns.len() - 1).to_string())
            }
            false => expr::lit(taken.value),
        };
        let from = From { origin, x };
        self.taken[at] = Some((expr.clone(), from.clone()));
        Ok((expr, from))
    }

    /// The calls of some indices.
    fn calls(&self, wanted: &[usize]) -> Vec<Expr> {
        let calls = wanted.iter().filter_map(|at| match self.parts.get(*at) {
            Some(ExprPart::Call { expr, .. }) => Some(expr.clone()),
            _ => None,
        });
        calls.gather()
    }
}

/// The column of an index.
fn column(columns: &[Value], name: &str) -> Result<Value> {
    let value = name.parse::<usize>().ok().and_then(|at| columns.get(at));
    let missing =
        || Error::Argument { argument: "col", expected: "a column", got: name.to_owned() };
    value.cloned().ok_or_else(missing)
}

/// Whether a result of several calls is of the same kind as one of each of them in turn.
fn is_kept(origin: &Origin<'_>) -> bool {
    matches!(
        origin,
        Origin::PyArrowArray(_) | Origin::PyArrowChunked | Origin::PolarsSeries(_) | Origin::NumPy
    )
}

/// Evaluate parts of expressions together; None if it has to be done call by call.
#[pyfunction]
#[pyo3(name = "_evaluate")]
fn evaluate<'py>(
    py: Python<'py>,
    parts: &Bound<'py, PyAny>,
    wanted: Vec<usize>,
) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    guarded(EVALUATE, || {
        let Some(parts) = ExprParts::take(parts)? else { return Ok(None) };
        let (calls, columns) = (parts.calls(&wanted), &parts.columns[..]);
        let values = detached(py, || expr::evaluate_values(&calls, &|name| column(columns, name)))?;
        let mut values = values.into_iter();
        let mut results = memory::with_capacity(wanted.len());
        for at in wanted {
            results.push(match parts.parts.get(at).ok_or_else(malformed)? {
                ExprPart::Object(object, _) => object.clone(),
                ExprPart::Call { function, options, from, .. } => {
                    let result = values.next().ok_or_else(malformed)?;
                    let is_per_row = function.keeps_rows(options)?;
                    let (origin, x) = (from.origin.clone(), from.x.as_ref());
                    export::give(
                        py,
                        &Source { function, origin, x, lists: None, is_per_row },
                        result,
                    )?
                }
            });
        }
        Ok(Some(results))
    })
}

/// The calls of a pass, whether they are fused, and the pass.
type ExplainedPass = (Vec<String>, bool, Py<PyPass>);

/// Say what evaluating parts of expressions takes: for each pass the calls, whether they are fused,
/// and the pass; None if it has to be done call by call.
#[pyfunction]
#[pyo3(name = "_explain_parts")]
fn explain_parts<'py>(
    py: Python<'py>,
    parts: &Bound<'py, PyAny>,
    wanted: Vec<usize>,
) -> PyResult<Option<Vec<ExplainedPass>>> {
    guarded(EVALUATE, || {
        let Some(parts) = ExprParts::take(parts)? else { return Ok(None) };
        let (calls, columns) = (parts.calls(&wanted), &parts.columns[..]);
        let passes = detached(py, || expr::explain_values(&calls, &|name| column(columns, name)))?;
        let pass = |explained: expr::Explained| {
            let expr::Explained { calls, is_fused, pass } = explained;
            Ok((calls, is_fused, Py::new(py, PyPass(pass))?))
        };
        passes.into_iter().map(pass).collect::<PyResult<_>>().map(Some)
    })
}
