//! From calls that follow one another to a pass over tiles.

use super::{Fused, Stage};
use crate::compute::call::{Call, Driven, Pass};
use crate::compute::{Function, Options, Value};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::memory::{self, Gather as _};

/// A call whose first argument is the matrix of a pass, or what another call gives.
pub(crate) struct Link<'v> {
    pub(crate) function: &'static Function,
    /// The link that gives its first argument, by its index among all, which is before its own;
    /// none for the matrix itself.
    pub(crate) after: Option<usize>,
    /// The arguments behind the first.
    pub(crate) operands: Vec<Value>,
    pub(crate) options: &'v Options,
    /// Whether its result is asked for.
    pub(crate) is_wanted: bool,
}

/// A pass over a matrix that runs some calls at once, planned.
pub(crate) struct Chain<'a> {
    fused: Fused<'a>,
    pub(crate) pass: Pass,
}

impl Chain<'_> {
    /// The results that are wanted, in their order; `None` if one does not fit its type, which the
    /// same functions one after the other say better.
    pub(crate) fn run(self) -> Result<Option<Vec<Value>>> {
        self.fused.run(&self.pass.plan)
    }
}

/// Calls `body` with the pass that runs `links` over `x`; with none if they cannot run in one: for
/// what they are, how `x` lies, or because a call would be refused.
///
/// # Errors
///
/// Those of `body`, no memory, and an interrupt.
pub(crate) fn with_chain<T>(
    x: &Matrix,
    links: &[Link<'_>],
    body: impl FnOnce(Option<Chain<'_>>) -> Result<T>,
) -> Result<T> {
    let Some(arguments) = outlined(x, links) else { return body(None) };
    let calls = arguments.iter().zip(links);
    let driven = calls.map(|(arguments, link)| bound(link, arguments));
    let Ok(mut driven) = driven.try_gather() else { return body(None) };
    let chain = run::call("evaluate", || {
        driven.iter_mut().try_for_each(|call| call.ready())?;
        chain(x, links, &arguments, &driven)
    });
    match chain {
        Ok(chain) => body(chain),
        Err(error) if is_fatal(&error) => Err(error),
        Err(_) => body(None),
    }
}

/// Whether an error is none of the arguments', so that to try again is of no use.
fn is_fatal(error: &Error) -> bool {
    matches!(
        error.kind(),
        Error::Interrupted | Error::OutOfMemory { .. } | Error::Forked | Error::Setting { .. }
    )
}

fn bound<'a>(link: &Link<'a>, arguments: &'a [Value]) -> Result<Box<dyn Driven + 'a>> {
    run::call(link.function.name, || {
        link.function.bind(&Call::new(link.function, arguments, link.options)?)
    })
}

/// The arguments of each link, with an outline in place of the first; `None` if one of them
/// does not take part in a pass over tiles.
fn outlined(x: &Matrix, links: &[Link<'_>]) -> Option<Vec<Vec<Value>>> {
    let mut arguments: Vec<Vec<Value>> = memory::with_capacity(links.len());
    let mut elements = memory::with_capacity(links.len());
    for link in links {
        let element = match link.after {
            None => x.element_type().clone(),
            Some(before) => Option::clone(&elements[before])?,
        };
        let mut given = vec![Value::Matrix(x.outline(&element))];
        given.extend(link.operands.iter().cloned());
        let call = bound(link, &given).ok()?;
        let like = call.like();
        if like.is_none() && !call.is_sink() {
            return None;
        }
        elements.push(like);
        drop(call);
        arguments.push(given);
    }
    Some(arguments)
}

/// The bytes of an operand.
fn bytes_of(operand: &Value) -> usize {
    match operand {
        Value::Matrix(matrix) => matrix.bytes(),
        Value::Vector(array) => array.len() * array.data_type().primitive_width().unwrap_or(0),
        Value::Number(_)
        | Value::Integer(_)
        | Value::Scalar(_)
        | Value::Named(_)
        | Value::Ragged(_) => 0,
    }
}

fn chain<'a>(
    x: &'a Matrix,
    links: &[Link<'_>],
    arguments: &[Vec<Value>],
    driven: &'a [Box<dyn Driven + 'a>],
) -> Result<Option<Chain<'a>>> {
    let Some(mut fused) = Fused::new(x)? else { return Ok(None) };
    let mut nodes = memory::with_capacity(links.len());
    for ((link, call), given) in links.iter().zip(driven).zip(arguments) {
        let before = link.after.map_or(Fused::ROOT, |before| nodes[before]);
        let bytes = given[1..].iter().map(bytes_of).sum();
        let Some(stage) = call.stage(fused.nulls(before))? else { return Ok(None) };
        nodes.push(match stage {
            Stage::Step(stepped) => fused.step(before, stepped, bytes),
            Stage::Sink(sink) => {
                fused.sink(before, sink, bytes);
                before
            }
        });
        if link.is_wanted && !call.is_sink() {
            fused.keep(nodes[nodes.len() - 1])?;
        }
    }
    let work = fused.work();
    let pass = Pass { what: "fused", work, plan: run::planned(&work)? };
    // Statistics of a few long rows are shared among threads by columns, which tiles are not.
    let fused = fused.keeps_busy(&pass.plan).then_some(fused);
    Ok(fused.map(|fused| Chain { fused, pass }))
}
