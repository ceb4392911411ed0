//! The functions of the table in DataFusion (feature `datafusion`).
//!
//! ```text
//! DataFusion                                   here
//! ──────────                                   ────
//! plan:  return_field_from_args(fields)    →   Function::result_type: widths are kept
//! run:   invoke(columns, constants)        →   Matrix, Function::call, one thread: DataFusion brings its own
//! group: update, state, merge, evaluate    →   GroupStatistic; the state is `docs/guide/state.md`'s struct
//! ```
//!
//! [`register_all`] gives a context every function that makes a row of its result from a row, and
//! every statistic of columns as an aggregate:
//!
//! ```sql
//! SELECT k, raptors_mean(emb), raptors_std(emb) FROM t GROUP BY k;
//! SELECT raptors_cosine_similarity(emb, $1) AS score FROM t ORDER BY score DESC;
//! SELECT raptors_norm_axis1(emb), raptors_clip(emb, -1, 1), raptors_cast_float32(emb) FROM t;
//! ```
//!
//! SQL has one name for one function, so a reduction is the aggregate under its own name, and that of
//! each row has `_axis1` behind it. An option that is a bound is an argument; one that is a type or
//! the order of a norm is a part of the name. What else there is, [`row_function`] and [`statistic`]
//! make, under any name:
//!
//! ```
//! use raptors_arrow::compute::Options;
//! use raptors_arrow::engine::datafusion::{functions, statistic, statistics};
//!
//! let sample = statistic("raptors_std_sample", "std", &Options::new().set("ddof", 1))?;
//! assert_eq!(sample.name(), "raptors_std_sample");
//! assert!(functions()?.iter().any(|function| function.name() == "raptors_normalize"));
//! assert!(statistics()?.iter().any(|statistic| statistic.name() == "raptors_mean"));
//! # Ok::<(), raptors_arrow::Error>(())
//! ```
//!
//! Only `datafusion-common` and `datafusion-expr` are needed, which say what functions are.

mod aggregate;
mod groups;
mod scalar;

use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion_common::DataFusionError;
use datafusion_expr::registry::FunctionRegistry;
use datafusion_expr::{AggregateUDF, ScalarUDF};

use crate::compute::registry::ArgumentKind;
use crate::compute::{
    Driver, Function, OptionKind, Options, Per, Statistic, TYPES, Value, get_function,
    list_functions,
};
use crate::dispatch::{Settings, with_settings};
use crate::error::{Error, Result};
use aggregate::Aggregate;
use scalar::RowFunction;

/// Makes every function of [`functions`] and [`statistics`] known to a context.
///
/// # Errors
///
/// Those of the context, which may take no functions.
pub fn register_all(context: &mut dyn FunctionRegistry) -> datafusion_common::Result<()> {
    for function in functions().map_err(given)? {
        context.register_udf(Arc::new(function))?;
    }
    for statistic in statistics().map_err(given)? {
        context.register_udaf(Arc::new(statistic))?;
    }
    Ok(())
}

/// The functions of the table that make each row of their result from one row: all but those whose
/// second argument is a matrix, which [`row_function`] holds.
///
/// # Errors
///
/// None for the functions that the table has.
pub fn functions() -> Result<Vec<ScalarUDF>> {
    let mut made: Vec<ScalarUDF> = Vec::new();
    for function in list_functions() {
        let options = along(function, 1);
        // What goes by rows only if it is told so has that in its name.
        let suffix = if function.is_row_by_row(&Options::new())? { "" } else { "_axis1" };
        let takes_matrix =
            matches!(function.arguments, [_, second, ..] if second.kind == ArgumentKind::Matrix);
        if takes_matrix || !function.is_row_by_row(&options)? {
            continue;
        }
        for (variant, options) in variants(function, &options) {
            let name = format!("raptors_{}{variant}{suffix}", function.name);
            // `mean_axis1` is a function of the table, and what `mean` is along that axis.
            if made.iter().all(|other| other.name() != name) {
                made.push(row_function(&name, function.name, &[], &options)?);
            }
        }
    }
    Ok(made)
}

/// The statistics of the table, of each column.
///
/// # Errors
///
/// None for the functions that the table has.
pub fn statistics() -> Result<Vec<AggregateUDF>> {
    let mut made = Vec::new();
    for function in list_functions() {
        let options = along(function, 0);
        if !is_aggregate(function) || function.reduce_options(&options)?.0 != Per::Column {
            continue;
        }
        for (variant, options) in variants(function, &options) {
            let name = format!("raptors_{}{variant}", function.name);
            made.push(statistic(&name, function.name, &options)?);
        }
    }
    Ok(made)
}

/// A function of the table under a name, with arguments behind the first that it holds, such as the
/// matrix of `matmul`, and with options.
///
/// # Errors
///
/// [`Error::NoSuchFunction`], and [`Error::Argument`] for one that needs more than a row, for a
/// row.
pub fn row_function(
    name: &str,
    function: &str,
    held: &[Value],
    options: &Options,
) -> Result<ScalarUDF> {
    let function = get_function(function)?;
    if !function.is_row_by_row(options)? {
        let (argument, expected) = ("function", "one that makes a row of its result from a row");
        let got = format!("{} with these options", function.name);
        return Err(Error::Argument { argument, expected, got }.in_function(function.name));
    }
    Ok(ScalarUDF::new_from_impl(RowFunction::new(name, function, held, options)?))
}

/// A statistic of the table as an aggregate under a name, with options: one result for each column.
///
/// # Errors
///
/// [`Error::NoSuchFunction`], and [`Error::Argument`] for one that is no statistic, or is one of
/// indices: partitions come in no order.
pub fn statistic(name: &str, function: &str, options: &Options) -> Result<AggregateUDF> {
    let function = get_function(function)?;
    let options = match function.has_axis() {
        true => options.clone().set("axis", 0),
        false => options.clone(),
    };
    let (Driver::Statistic(statistic), true) = (function.driver, is_aggregate(function)) else {
        let (argument, expected) = ("function", "a statistic that needs no order of rows");
        let got = function.name.to_owned();
        return Err(Error::Argument { argument, expected, got }.in_function(function.name));
    };
    Ok(AggregateUDF::new_from_impl(Aggregate::new(name, function, statistic, &options)?))
}

/// Whether it is a statistic that partitions can share: the index of an element is none.
fn is_aggregate(function: &Function) -> bool {
    match function.driver {
        Driver::Statistic(statistic) => !matches!(statistic, Statistic::ArgMin | Statistic::ArgMax),
        _ => false,
    }
}

/// The options that make a function go along an axis.
fn along(function: &'static Function, axis: i64) -> Options {
    match function.arguments.len() == 1 && function.has_axis() {
        true => Options::new().set("axis", axis),
        false => Options::new(),
    }
}

/// The functions that one is in SQL, which has no options: what is behind the name of each.
fn variants(function: &'static Function, options: &Options) -> Vec<(String, Options)> {
    let find = |kind: OptionKind| function.options.iter().find(|option| option.kind == kind);
    if let Some(option) = find(OptionKind::Type) {
        let of =
            |(name, _): &(&str, _)| (format!("_{name}"), options.clone().set(option.name, *name));
        return TYPES.iter().map(of).collect();
    }
    let mut made = vec![(String::new(), options.clone())];
    if let Some(option) = find(OptionKind::Order) {
        let order = |name: &str, order: f64| {
            (format!("_{}{name}", option.name), options.clone().set(option.name, order))
        };
        made.extend([order("1", 1.0), order("inf", f64::INFINITY)]);
    }
    made
}

/// An error of ours as DataFusion's: it can be taken out again.
fn given(error: Error) -> DataFusionError {
    match error.kind() {
        Error::OutOfMemory { .. } => DataFusionError::ResourcesExhausted(error.to_string()),
        _ => DataFusionError::External(Box::new(error)),
    }
}

/// Computes on the thread that calls: DataFusion calls from as many as it wants to be busy.
fn serial<T>(name: &'static str, body: impl FnOnce() -> Result<T>) -> datafusion_common::Result<T> {
    let one = Settings { threads: Some(1), ..Settings::default() };
    with_settings(one, body).map_err(|error| given(error.in_function(name)))
}

/// The first argument's field, and an error if there is none.
fn first(fields: &[FieldRef]) -> Result<&FieldRef> {
    fields.first().ok_or(Error::Arguments { expected: 1, got: 0 })
}
