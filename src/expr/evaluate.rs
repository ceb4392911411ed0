//! Evaluates expressions together.
//!
//! ```text
//! graph       the parts of all expressions, each once
//! of those that are wanted:
//!     chain   back from a part, by first arguments, as far as calls run over tiles; where it ends
//!             is the base
//!     first   bases and operands that are not there yet are evaluated, in the same way
//!     pass    all chains of one base run in one pass over it; or call by call, if they cannot
//! ```

use std::fmt;

use arrow_array::RecordBatch;

use super::{Expr, Node};
use crate::compute::registry::{ArgumentKind, Driver};
use crate::compute::{Function, Link, Options, Pass, Per, Value, with_chain};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::memory::{self, Gather as _};

impl Expr {
    /// Its value on the columns of a batch.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Float64Array, RecordBatch, cast::AsArray, types::Float64Type};
    /// use raptors_arrow::expr::col;
    ///
    /// let price: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
    /// let batch = RecordBatch::try_from_iter([("price", price)])?;
    /// let total = col("price").scale(1.5).sum(None).evaluate(&batch)?;
    /// assert_eq!(total.as_array().unwrap().as_primitive::<Float64Type>().values(), &[4.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`evaluate_all`].
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<Value> {
        let results = evaluate_all(std::slice::from_ref(self), batch)?;
        results.into_iter().next().ok_or(Error::Arguments { expected: 1, got: 0 })
    }
}

/// The values of expressions on the columns of a batch. Calls that follow one another run in one
/// pass, and results of one column share it.
///
/// # Errors
///
/// Those of the functions, and [`Error::Argument`] for a column that is not there.
pub fn evaluate_all(expressions: &[Expr], batch: &RecordBatch) -> Result<Vec<Value>> {
    evaluate_values(expressions, &|name| column(batch, name))
}

/// The same on columns that `column` gives by name.
///
/// # Errors
///
/// Those of the functions and of `column`.
pub fn evaluate_values(
    expressions: &[Expr],
    column: &dyn Fn(&str) -> Result<Value>,
) -> Result<Vec<Value>> {
    memory::caught(|| {
        let mut graph = Graph::new(column, None);
        let wanted = expressions.iter().map(|expr| graph.part(expr)).try_gather()?;
        graph.evaluate(&wanted)?;
        wanted.into_iter().map(|part| graph.value(part).cloned()).try_gather()
    })
}

/// What evaluating expressions on a batch takes, pass by pass. Only what others need first is
/// computed to say so.
///
/// # Errors
///
/// As [`evaluate_all`].
pub fn explain(expressions: &[Expr], batch: &RecordBatch) -> Result<Vec<Explained>> {
    explain_values(expressions, &|name| column(batch, name))
}

/// The same on columns that `column` gives by name.
///
/// # Errors
///
/// As [`evaluate_values`].
pub fn explain_values(
    expressions: &[Expr],
    column: &dyn Fn(&str) -> Result<Value>,
) -> Result<Vec<Explained>> {
    memory::caught(|| {
        let mut graph = Graph::new(column, Some(Vec::new()));
        let wanted = expressions.iter().map(|expr| graph.part(expr)).try_gather()?;
        graph.only_plans = wanted.clone();
        graph.evaluate(&wanted)?;
        Ok(graph.explained.unwrap_or_default())
    })
}

fn column(batch: &RecordBatch, name: &str) -> Result<Value> {
    let schema = batch.schema();
    let Some((at, field)) = schema.column_with_name(name) else {
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).gather();
        return Err(Error::Argument {
            argument: "col",
            expected: "the name of a column of the batch",
            got: format!("{name:?}; the columns are {}", names.join(", ")),
        });
    };
    let field = std::sync::Arc::new(field.clone());
    Ok(Value::Matrix(Matrix::from_field(&field, &[batch.column(at).clone()])?))
}

/// A pass that an evaluation takes, and the calls that it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The calls, in order: several if they are fused. Those of results end in `*`.
    pub calls: Vec<String>,
    /// Whether they run over tiles, without temporaries.
    pub is_fused: bool,
    /// The bytes that it moves, and how.
    pub pass: Pass,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pass { what, work, plan } = &self.pass;
        let how = if self.is_fused { "in one pass over tiles" } else { *what };
        let calls = self.calls.join(", ");
        let (read, written) = (work.bytes_read, work.bytes_written);
        let threads = plan.threads;
        write!(f, "{calls}: {how}, {read} bytes read, {written} written, threads {threads}")
    }
}

/// A part of expressions, by its index.
type PartIndex = usize;

/// The parts of some expressions, each once, those that others need first.
struct Graph<'c> {
    column: &'c dyn Fn(&str) -> Result<Value>,
    parts: Vec<(Expr, PartKind)>,
    values: Vec<Option<Value>>,
    /// What is done, if somebody wants to know.
    explained: Option<Vec<Explained>>,
    /// Parts that are planned and not computed, unless others need them.
    only_plans: Vec<PartIndex>,
}

enum PartKind {
    Leaf,
    Call { function: &'static Function, arguments: Vec<PartIndex>, options: Options },
}

/// How a call takes part in a pass over tiles, as far as its entry says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Makes tiles of tiles.
    Step,
    /// Makes a result of tiles.
    Sink,
    /// None.
    Alone,
}

impl<'c> Graph<'c> {
    fn new(column: &'c dyn Fn(&str) -> Result<Value>, explained: Option<Vec<Explained>>) -> Self {
        let only_plans = Vec::new();
        Self { column, parts: Vec::new(), values: Vec::new(), explained, only_plans }
    }

    /// The index of an expression.
    fn part(&mut self, expr: &Expr) -> Result<PartIndex> {
        let known = |(known, _): &(Expr, _)| std::sync::Arc::ptr_eq(&known.0, &expr.0);
        if let Some(part) = self.parts.iter().position(known) {
            return Ok(part);
        }
        let (kind, value) = match &*expr.0 {
            Node::Column(name) => {
                let same =
                    |(known, _): &(Expr, _)| matches!(&*known.0, Node::Column(n) if n == name);
                if let Some(part) = self.parts.iter().position(same) {
                    return Ok(part);
                }
                (PartKind::Leaf, Some((self.column)(name)?))
            }
            Node::Value(value) => (PartKind::Leaf, Some(value.clone())),
            Node::Call { function, arguments, options } => {
                let parts = arguments.iter().map(|argument| self.part(argument));
                let parts = parts.try_gather()?;
                let options = self.with_axis(function, arguments, &parts, options)?;
                let same = |(_, kind): &(Expr, PartKind)| match kind {
                    PartKind::Call { function: f, arguments: a, options: o } => {
                        std::ptr::eq(*f, *function) && *a == parts && *o == options
                    }
                    PartKind::Leaf => false,
                };
                if let Some(part) = self.parts.iter().position(same) {
                    return Ok(part);
                }
                (PartKind::Call { function, arguments: parts, options }, None)
            }
        };
        self.parts.push((expr.clone(), kind));
        self.values.push(value);
        Ok(self.parts.len() - 1)
    }

    /// The options, with the axis of an operand that has one value for each row: a plain column, or
    /// what is made of rows.
    fn with_axis(
        &self,
        function: &Function,
        arguments: &[Expr],
        parts: &[PartIndex],
        options: &Options,
    ) -> Result<Options> {
        let has_axis = function.options.iter().any(|option| option.name == "axis");
        if !has_axis || options.get("axis").is_some() {
            return Ok(options.clone());
        }
        // The first is what the others line up with, unless it is one of them.
        let first = usize::from(function.driver != Driver::Where);
        let operands = arguments.iter().zip(parts).zip(function.arguments).skip(first);
        for ((y, part), argument) in operands {
            let is_operand = argument.kind == ArgumentKind::Operand && y.is_row_by_row()?;
            if is_operand && self.gives_numbers(*part)? {
                return Ok(options.clone().set("axis", 0));
            }
        }
        Ok(options.clone())
    }

    /// Whether a part that is made row by row is one number for each row.
    fn gives_numbers(&self, part: PartIndex) -> Result<bool> {
        match (&self.values[part], &self.parts[part].1) {
            (Some(value), _) => Ok(value.is_vector()),
            (None, PartKind::Leaf) => Ok(false),
            (None, PartKind::Call { function, arguments, .. }) => match function.driver {
                Driver::Statistic(_) | Driver::Pairs(_) => Ok(true),
                _ => match arguments.first() {
                    Some(x) => self.gives_numbers(*x),
                    None => Ok(false),
                },
            },
        }
    }

    fn value(&self, part: PartIndex) -> Result<&Value> {
        let missing = || Error::Argument {
            argument: "expression",
            expected: "a value",
            got: self.parts[part].0.to_string(),
        };
        self.values[part].as_ref().ok_or_else(missing)
    }

    fn role(&self, part: PartIndex) -> Role {
        let PartKind::Call { function, options, .. } = &self.parts[part].1 else {
            return Role::Alone;
        };
        // What is seen in another type, or reshaped, is not as it lies.
        let is_set = |name| options.get(name).is_some();
        if is_set("dtype") || is_set("keepdims") {
            return Role::Alone;
        }
        match function.driver {
            Driver::Elementwise(_) => Role::Step,
            Driver::Transform(_) if function.per(options).is_ok_and(|per| per == Per::Row) => {
                Role::Step
            }
            Driver::Statistic(_) | Driver::Pairs(_) => Role::Sink,
            _ => Role::Alone,
        }
    }

    /// The calls that make a part, the first one first, and what the first takes: as far back as
    /// they run over tiles, and are not there yet.
    fn chain(&self, part: PartIndex) -> (Vec<PartIndex>, PartIndex) {
        let mut links = Vec::new();
        let mut at = part;
        while self.values[at].is_none()
            && let PartKind::Call { arguments, .. } = &self.parts[at].1
            && let Some(x) = arguments.first()
            && (self.role(at) == Role::Step || self.role(at) == Role::Sink && at == part)
        {
            links.push(at);
            at = *x;
        }
        links.reverse();
        (links, at)
    }

    /// Evaluates some parts, and what they need.
    fn evaluate(&mut self, wanted: &[PartIndex]) -> Result<()> {
        let mut chains = Vec::new();
        let mut first = Vec::new();
        for part in wanted {
            if self.values[*part].is_some() {
                continue;
            }
            let (links, base) = self.chain(*part);
            // What is not computed over tiles needs all of its arguments.
            let needed: Vec<PartIndex> = match links.is_empty() {
                true => memory::copied(self.arguments(base)),
                false => {
                    let operands = links.iter().flat_map(|link| &self.arguments(*link)[1..]);
                    operands.copied().chain([base]).gather()
                }
            };
            let missing = needed.into_iter().filter(|part| self.values[*part].is_none());
            first.extend(missing);
            chains.push((links, base, *part));
        }
        if !first.is_empty() {
            let only_plans = std::mem::take(&mut self.only_plans);
            self.evaluate(&first)?;
            self.only_plans = only_plans;
        }
        while let Some((_, base, _)) = chains.first() {
            let base = *base;
            let (of_base, others) = chains
                .into_iter()
                .partition(|(_, of, _): &(Vec<PartIndex>, PartIndex, PartIndex)| *of == base);
            chains = others;
            self.run(base, &of_base)?;
        }
        Ok(())
    }

    fn arguments(&self, part: PartIndex) -> &[PartIndex] {
        match &self.parts[part].1 {
            PartKind::Leaf => &[],
            PartKind::Call { arguments, .. } => arguments,
        }
    }

    /// Runs the chains of one base, whose operands are there.
    fn run(
        &mut self,
        base: PartIndex,
        chains: &[(Vec<PartIndex>, PartIndex, PartIndex)],
    ) -> Result<()> {
        let wanted: Vec<PartIndex> = chains.iter().map(|(_, _, part)| *part).gather();
        let mut links: Vec<PartIndex> =
            chains.iter().flat_map(|(links, ..)| links.clone()).gather();
        links.sort_unstable();
        links.dedup();
        if links.len() > 1 && self.in_one_pass(base, &links, &wanted)? {
            return Ok(());
        }
        wanted.iter().try_for_each(|part| self.alone(*part))
    }

    /// Runs calls in one pass over tiles; whether it could.
    fn in_one_pass(
        &mut self,
        base: PartIndex,
        links: &[PartIndex],
        wanted: &[PartIndex],
    ) -> Result<bool> {
        let x = match self.value(base)? {
            Value::Matrix(x) => x.clone(),
            Value::Vector(array) => Matrix::reshape(array, 1)?,
            _ => return Ok(false),
        };
        let mut given = memory::with_capacity(links.len());
        for link in links {
            let PartKind::Call { function, arguments, options } = &self.parts[*link].1 else {
                return Ok(false);
            };
            let operands = arguments[1..].iter().map(|part| self.value(*part).cloned());
            given.push(Link {
                function,
                after: links.iter().position(|before| *before == arguments[0]),
                operands: operands.try_gather()?,
                options,
                is_wanted: wanted.contains(link),
            });
        }
        let only_plans = !self.only_plans.is_empty();
        let made = with_chain(&x, &given, |chain| match chain {
            None => Ok(None),
            Some(chain) if only_plans => Ok(Some((chain.pass, Vec::new()))),
            Some(chain) => {
                let pass = chain.pass;
                Ok(chain.run()?.map(|results| (pass, results)))
            }
        })?;
        drop(given);
        let Some((pass, results)) = made else { return Ok(false) };
        let kept = links.iter().filter(|link| wanted.contains(link));
        kept.zip(results).for_each(|(link, result)| self.values[*link] = Some(result));
        if let Some(explained) = &mut self.explained {
            let name = |link: &PartIndex| match &self.parts[*link].1 {
                PartKind::Call { function, .. } if wanted.contains(link) => {
                    format!("{}*", function.name)
                }
                PartKind::Call { function, .. } => function.name.to_owned(),
                PartKind::Leaf => String::new(),
            };
            let calls = links.iter().map(name).gather();
            explained.push(Explained { calls, is_fused: true, pass });
        }
        Ok(true)
    }

    /// Runs the call of a part, and those that it needs, one after the other.
    fn alone(&mut self, part: PartIndex) -> Result<()> {
        if self.values[part].is_some() {
            return Ok(());
        }
        let arguments = memory::copied(self.arguments(part));
        let only_plans = std::mem::take(&mut self.only_plans);
        arguments.iter().try_for_each(|argument| self.alone(*argument))?;
        let values = arguments.iter().map(|part| self.value(*part).cloned());
        let values = values.try_gather()?;
        let PartKind::Call { function, options, .. } = &self.parts[part].1 else { return Ok(()) };
        if let Some(explained) = &mut self.explained {
            for pass in function.explain(&values, options)? {
                let calls = vec![function.name.to_owned()];
                explained.push(Explained { calls, is_fused: false, pass });
            }
        }
        if only_plans.is_empty() {
            self.values[part] = Some(function.call(&values, options)?);
        }
        self.only_plans = only_plans;
        Ok(())
    }
}
