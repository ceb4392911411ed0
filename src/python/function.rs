//! The functions: one built-in Python function for each entry of the registry's table.
//!
//! They are plain built-ins (not wrappers in Python), because a call on a small array costs about
//! as much as the wrapper would; and module-level ones, because those can be pickled by name.

#![allow(unsafe_code)]

use std::ffi::CString;

use arrow_schema::DataType;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::errors::{Kind, detached, guarded};
use super::export::Source;
use super::once::intern;
use super::origin::Origin;
use super::{argument, docs, export, option};
use crate::compute::registry::{self, Argument, Driver, Gives};
use crate::compute::{
    ArgumentType, Function, OptionKind, OptionSpec, OptionValue, Options, Per, ResultKind,
    ResultType, Shape, Value, element_type,
};
use crate::error::Error;
use crate::matrix::Matrix;
use crate::memory::{self, Gather as _};
use crate::type_name::TypeName;

/// The arguments and options of one call.
pub(super) struct Call<'py> {
    pub(super) values: Vec<Value>,
    pub(super) options: Options,
    origin: Origin<'py>,
}

impl<'py> Call<'py> {
    /// Sorts what was given by position and by name, and takes it; `None` if the first argument is
    /// read batch by batch.
    pub(super) fn new(
        function: &'static Function,
        positional: &[Bound<'py, PyAny>],
        named: impl Iterator<Item = PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>>,
    ) -> PyResult<Option<Self>> {
        let name = function.name;
        let arguments: Vec<&Argument> = function.all_arguments().gather();
        let mut given: Vec<Option<Bound<'py, PyAny>>> = memory::filled(None, arguments.len());
        let mut options = Options::new();
        let mut width = None;
        let mut own = docs::positional_options(function);
        for (i, object) in positional.iter().enumerate() {
            match given[..function.arguments.len()].get_mut(i) {
                Some(slot) => *slot = Some(object.clone()),
                None => match own.next() {
                    Some(spec) => {
                        options = options.set(spec.name, option::take(name, spec, object)?);
                    }
                    None => return Err(too_many(function, positional.len())),
                },
            }
        }
        for pair in named {
            let (key, object) = pair?;
            let key = option::word(name, "the name of an option", &key)?;
            let twice = || Kind::Type.error(format!("{name}: {key} was given twice"));
            if let Some(spec) = function.options.iter().find(|spec| spec.name == key) {
                if options.get(spec.name).is_some() {
                    return Err(twice());
                }
                options = options.set(spec.name, option::take(name, spec, &object)?);
            } else if let Some(i) = arguments.iter().position(|argument| argument.name == key) {
                if given[i].replace(object).is_some() {
                    return Err(twice());
                }
            } else if key == "width" {
                width = option::width(name, &object)?;
            } else {
                let known = function.options.iter().map(|spec| spec.name).chain(["width"]);
                let (option, known) = (key.into_owned(), known.gather());
                return Err(Error::NoSuchOption { option, known }.in_function(name).into());
            }
        }
        let mut values = memory::with_capacity(arguments.len());
        let mut origin = None;
        let mut has_rows = false;
        let got = given.iter().flatten().count();
        for (argument, object) in arguments.iter().zip(given) {
            let object = object.filter(|object| !(argument.optional && object.is_none()));
            let Some(object) = object else {
                if argument.optional {
                    break;
                }
                let expected = arguments.iter().filter(|argument| !argument.optional).count();
                return Err(Error::Arguments { expected, got }.in_function(name).into());
            };
            let reshape = if origin.is_none() { width } else { None };
            let taken = if values.is_empty() {
                match argument::take_unless_stream(function, argument, &object, reshape)? {
                    Some(taken) => taken,
                    None => return Ok(None),
                }
            } else {
                argument::take(function, argument, &object, reshape)?
            };
            // A number that stands before the matrix is nobody's.
            let is_rows = taken.value.as_matrix().is_some_and(|matrix| !matrix.is_vector());
            if is_rows && !has_rows && function.driver == Driver::Where {
                // One value per row lines up with rows, and the results are theirs.
                has_rows = true;
                origin = Some(taken.origin);
            } else if taken.value.as_matrix().is_some() || taken.value.as_ragged().is_some() {
                origin.get_or_insert(taken.origin);
            }
            values.push(taken.value);
        }
        let is_missing = |s: &&OptionSpec| s.kind.is_required() && options.get(s.name).is_none();
        if let Some(spec) = function.options.iter().find(is_missing) {
            let (option, signature) = (spec.name, docs::signature(function));
            return Err(Kind::Type.error(format!(
                "{name}: expected {option}, got nothing for it; its signature is {name}{signature}"
            )));
        }
        Ok(Some(Self { values, options, origin: origin.unwrap_or(Origin::Other) }))
    }

    /// Runs the function, without the GIL unless it is [brief](is_brief), and gives the result back.
    /// The imports are dropped here, by the caller and with the GIL, never by a worker.
    fn run(self, py: Python<'py>, function: &'static Function) -> PyResult<Bound<'py, PyAny>> {
        let Self { values, options, origin } = self;
        let call = || function.call(&values, &options);
        let result = if is_brief(function, &values) { call() } else { detached(py, call) }
            .map_err(|error| error.in_function(function.name))?;
        let is_rows = |x: &&Matrix| function.driver != Driver::Where || !x.is_vector();
        let mut matrices = values.iter().filter_map(Value::as_matrix);
        let x = matrices.find(is_rows).or_else(|| values.iter().find_map(Value::as_matrix));
        let lists = values.iter().find_map(Value::as_ragged);
        let is_per_row = function.keeps_rows(&options)?;
        export::give(py, &Source { function, origin, x, lists, is_per_row }, result)
    }
}

/// Bytes of the arguments of a call that takes some microseconds: to give the GIL up and take it
/// again would be a tenth of it (docs/perf/overhead.md).
const BRIEF: usize = 128 << 10;

/// Whether the call ends before anyone would notice that it kept the GIL: its work is in proportion
/// to its arguments, and they are small.
fn is_brief(function: &Function, values: &[Value]) -> bool {
    let is_proportional = match function.gives {
        Gives::Reduced | Gives::Rows | Gives::Numbers => true,
        Gives::Square | Gives::Transposed | Gives::Named(_) => false,
    };
    // Rows of no elements have results too.
    let per_row = |rows: usize| rows.saturating_mul(size_of::<f64>());
    let bytes = |value: &Value| match value {
        Value::Number(_) | Value::Integer(_) => 0,
        Value::Scalar(array) | Value::Vector(array) => per_row(array.len()),
        Value::Matrix(matrix) => matrix.bytes().max(per_row(matrix.rows())),
        Value::Ragged(lists) => per_row(lists.rows().saturating_add(lists.elements())),
        Value::Named(_) => usize::MAX,
    };
    is_proportional && values.iter().map(bytes).fold(0, usize::saturating_add) <= BRIEF
}

fn too_many(function: &'static Function, got: usize) -> PyErr {
    let most = function.arguments.len() + docs::positional_options(function).count();
    Kind::Type.error(format!(
        "{}: expected at most {most} positional arguments, got {got}; its signature is {}{}",
        function.name,
        function.name,
        docs::signature(function)
    ))
}

fn pairs<'py>(
    options: Option<&Bound<'py, PyDict>>,
) -> impl Iterator<Item = PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    options.into_iter().flat_map(|options| options.iter().map(Ok))
}

/// The function of index `I` in the table, as CPython calls it.
unsafe extern "C" fn built_in<const I: usize>(
    _: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    Python::attach(|py| {
        // SAFETY: CPython's vector call passes `positional` borrowed objects, then one for each
        // entry of the tuple `names`, which may be null; `object` takes references of its own.
        let object = |i: usize| unsafe { Bound::from_borrowed_ptr(py, *arguments.add(i)) };
        let positionals = usize::try_from(positional).unwrap_or(0);
        // SAFETY: as above: null or a tuple.
        let names = unsafe { Bound::from_borrowed_ptr_or_opt(py, names) };
        let result = match registry::list_functions().nth(I) {
            None => Err(Kind::Base.error("the table of functions has changed")),
            Some(function) => guarded(function.name, || {
                let names = names.as_ref().map(|names| names.cast::<PyTuple>()).transpose()?;
                let named = names.into_iter().flat_map(|names| {
                    names.iter().enumerate().map(|(i, name)| Ok((name, object(positionals + i))))
                });
                let positional: Vec<_> = (0..positionals).map(object).gather();
                match Call::new(function, &positional, named)? {
                    Some(call) => call.run(py, function),
                    None => {
                        let options = PyDict::new(py);
                        for (i, name) in names.into_iter().flatten().enumerate() {
                            options.set_item(name, object(positionals + i))?;
                        }
                        streamed(py, function, &positional, Some(&options))
                    }
                }
            }),
        };
        match result {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    })
}

/// [`built_in`] for eight indices after each multiple of eight that is named.
macro_rules! built_ins {
    ($($eight:literal)*) => {
        [$(
            built_in::<{ 8 * $eight }>, built_in::<{ 8 * $eight + 1 }>,
            built_in::<{ 8 * $eight + 2 }>, built_in::<{ 8 * $eight + 3 }>,
            built_in::<{ 8 * $eight + 4 }>, built_in::<{ 8 * $eight + 5 }>,
            built_in::<{ 8 * $eight + 6 }>, built_in::<{ 8 * $eight + 7 }>,
        )*]
    };
}

/// Workspace for 128 functions; `add_all` refuses a table that is longer.
static BUILT_INS: [ffi::PyCFunctionFastWithKeywords; 128] =
    built_ins![0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15];

/// Adds every function of the table to the module.
pub(super) fn add_all(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    // The package that people import them from, and that pickles name.
    let home = PyString::new(py, "raptors_arrow");
    let functions = registry::list_functions();
    for (i, function) in functions.enumerate() {
        let Some(built_in) = BUILT_INS.get(i) else {
            return Err(Kind::Base.error("more functions than built-ins: add to built_ins!"));
        };
        let text = format!(
            "{}{}\n--\n\n{}",
            function.name,
            docs::signature(function),
            docs::docstring(function)
        );
        // Kept for ever, as the function refers to them; a module is made once in a process.
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: CString::new(function.name)?.into_raw(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: *built_in },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: CString::new(text)?.into_raw(),
        }));
        // SAFETY: the definition lives for ever and its flags say how `built_in` is called.
        let object = unsafe {
            let made = ffi::PyCFunction_NewEx(definition, std::ptr::null_mut(), home.as_ptr());
            Bound::from_owned_ptr_or_err(py, made)?
        };
        m.add(function.name, object)?;
    }
    Ok(())
}

/// A function of the registry: what it takes, what it does with nulls, and a call.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> mean = ra.get_function("mean")
/// >>> mean.arguments, mean.options
/// (('x',), {'axis': None, 'skip_nulls': True, 'min_count': 1, 'keepdims': False, 'dtype': None})
#[pyclass(frozen, name = "Function", module = "raptors_arrow")]
pub(super) struct PyFunction(&'static Function);

#[pymethods]
impl PyFunction {
    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }

    /// What it does, in one sentence.
    #[getter]
    fn summary(&self) -> &'static str {
        self.0.summary
    }

    /// The family it belongs to.
    #[getter]
    fn family(&self) -> &'static str {
        self.0.family
    }

    /// Its whole documentation.
    #[getter]
    fn doc(&self) -> String {
        docs::docstring(self.0)
    }

    /// Its parameters as Python writes them.
    #[getter]
    fn signature(&self) -> String {
        docs::signature(self.0)
    }

    /// What it does with nulls.
    #[getter]
    fn nulls(&self) -> &'static str {
        self.0.nulls.describe()
    }

    /// Names of its arguments.
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.arguments.iter().map(|argument: &Argument| argument.name))
    }

    /// Names of the arguments that it takes by name alone, behind the others.
    #[getter]
    fn by_name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.by_name.iter().map(|argument: &Argument| argument.name))
    }

    /// What each argument may be: ``"matrix"``, ``"rows"`` (a matrix whose rows are vectors),
    /// ``"operand"``, ``"row"``, ``"number"``, ``"vectors"`` or ``"queries"``.
    #[getter]
    fn argument_kinds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let kinds = self.0.arguments.iter().map(|a| format!("{:?}", a.kind).to_lowercase());
        PyTuple::new(py, kinds)
    }

    /// What it gives: ``"reduced"`` (a number, or one per column or row, by its axis),
    /// ``"rows"`` (a matrix of as many rows), ``"numbers"`` (one per row), ``"matrix"`` (of
    /// another shape) or ``"named"`` (several results).
    #[getter]
    fn gives(&self) -> &'static str {
        match self.0.gives {
            Gives::Reduced => "reduced",
            Gives::Rows => "rows",
            Gives::Numbers => "numbers",
            Gives::Square | Gives::Transposed => "matrix",
            Gives::Named(_) => "named",
        }
    }

    /// Its options, with the values that they have if they are not set: ``None`` for those that
    /// must be.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(py);
        for option in self.0.options {
            match option.kind.default_value() {
                OptionValue::None => options.set_item(option.name, py.None())?,
                OptionValue::Flag(flag) => options.set_item(option.name, flag)?,
                OptionValue::Count(n) => options.set_item(option.name, n)?,
                OptionValue::Number(n) => options.set_item(option.name, n)?,
                OptionValue::Text(word) => options.set_item(option.name, word)?,
                OptionValue::List(_) => {}
            }
        }
        Ok(options)
    }

    /// What each option may be: ``"axis"``, ``"flag"``, ``"count"``, ``"order"``, ``"bound"``,
    /// ``"fraction"``, ``"type"``, ``"optional_type"``, ``"along"``, or a tuple of the words to choose from.
    #[getter]
    fn option_kinds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kinds = PyDict::new(py);
        for option in self.0.options {
            let kind = match option.kind {
                OptionKind::Axis(_) => "axis",
                OptionKind::Flag(_) => "flag",
                OptionKind::Count(_) => "count",
                OptionKind::Order => "order",
                OptionKind::Along(_) => "along",
                OptionKind::OptionalType => "optional_type",
                OptionKind::Fill => "fill",
                OptionKind::Bound => "bound",
                OptionKind::Fraction => "fraction",
                OptionKind::Type => "type",
                OptionKind::Choice(words) => {
                    kinds.set_item(option.name, PyTuple::new(py, words)?)?;
                    continue;
                }
            };
            kinds.set_item(option.name, kind)?;
        }
        Ok(kinds)
    }

    /// Its axis, if that is no option: 0 or 1.
    #[getter]
    fn axis(&self) -> Option<i64> {
        self.0.axis.and_then(axis)
    }

    /// What runs it: ``"statistic"``, ``"quantile"``, ``"elementwise"``, ``"where"``,
    /// ``"cumsum"``, ``"choice"``, ``"pairs"``, ``"transform"``, ``"product"``, ``"columns"``, ``"top_k"`` or ``"transpose"``.
    #[getter]
    fn driver(&self) -> &'static str {
        match self.0.driver {
            Driver::Statistic(_) => "statistic",
            Driver::Quantile => "quantile",
            Driver::Elementwise(_) => "elementwise",
            Driver::Where => "where",
            Driver::Cumsum => "cumsum",
            Driver::Choice(_) => "choice",
            Driver::Pairs(_) => "pairs",
            Driver::Transform(_) => "transform",
            Driver::Product(_) => "product",
            Driver::Columns(_) => "columns",
            Driver::TopK => "top_k",
            Driver::Transpose => "transpose",
        }
    }

    /// Whether a row of the result needs only its own row.
    ///
    /// >>> import raptors_arrow as ra
    /// >>> mean = ra.get_function("mean")
    /// >>> mean.is_row_by_row(axis=1), mean.is_row_by_row(axis=0)
    /// (True, False)
    #[pyo3(signature = (**options))]
    fn is_row_by_row(&self, options: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
        Ok(self.0.is_row_by_row(&option::named(self.0, options)?)?)
    }

    /// What a call gives, by the types of its arguments, without a call: the element type, how the
    /// results lie (``"number"``, ``"per_column"``, ``"per_row"``, ``"like"`` x, ``"rows"`` and
    /// ``"columns"`` of another width, or ``"named"``), and the width if it is known.
    ///
    /// Each argument is the name of its element type with the width of its rows, or with their
    /// number and their width, ``None`` for what is not known; with ``"vector"`` for plain numbers;
    /// or alone for one number.
    ///
    /// >>> import raptors_arrow as ra
    /// >>> ra.get_function("mean").result_type(("int8", 384), axis=0)
    /// ('float64', 'per_column', 384)
    #[pyo3(signature = (*args, **options))]
    fn result_type(
        &self,
        args: &Bound<'_, PyTuple>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(String, &'static str, Option<usize>)> {
        let arguments = args.iter().map(|argument| self.argument_type(&argument));
        let arguments = arguments.collect::<PyResult<Vec<_>>>()?;
        let ResultType { element, kind } =
            self.0.result_type(&arguments, &option::named(self.0, options)?)?;
        let (kind, width) = match kind {
            ResultKind::Number => ("number", None),
            ResultKind::PerColumn { width } => ("per_column", width),
            ResultKind::PerRow => ("per_row", None),
            ResultKind::Like => ("like", None),
            ResultKind::Rows { width } => ("rows", width),
            ResultKind::Columns { width } => ("columns", width),
            ResultKind::Named(_) => ("named", None),
        };
        Ok((TypeName(&element).to_string(), kind, width))
    }

    #[pyo3(signature = (*args, **options))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        invoke(py, self.0, &args.iter().gather(), options)
    }

    fn __repr__(&self) -> String {
        format!("<raptors_arrow.Function: {}{}>", self.0.name, docs::signature(self.0))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (&'static str,))> {
        let home = py.import("raptors_arrow")?;
        Ok((home.getattr("get_function")?, (self.0.name,)))
    }
}

impl PyFunction {
    fn argument_type(&self, given: &Bound<'_, PyAny>) -> PyResult<ArgumentType> {
        let refused = || {
            let name = self.0.name;
            Kind::Type.error(format!(
                "{name}: expected the name of an element type, alone or with a width, None or \
                 'vector', got {}",
                given.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string())
            ))
        };
        if let Ok((element, rows, width)) =
            given.extract::<(String, Option<usize>, Option<usize>)>()
        {
            let shape = Shape::Matrix { rows, width };
            return Ok(ArgumentType {
                element: named_element(&element).ok_or_else(refused)?,
                shape,
            });
        }
        let (element, shape) = match given.extract::<(String, Bound<'_, PyAny>)>() {
            Ok((element, shape)) if shape.extract::<&str>().is_ok_and(|s| s == "vector") => {
                (element, Shape::Vector)
            }
            Ok((element, shape)) => {
                let width = shape.extract::<Option<usize>>().map_err(|_| refused())?;
                (element, Shape::Matrix { rows: None, width })
            }
            Err(_) => (given.extract::<String>().map_err(|_| refused())?, Shape::Number),
        };
        Ok(ArgumentType { element: named_element(&element).ok_or_else(refused)?, shape })
    }
}

/// The element type of a name, yes and no among them.
fn named_element(name: &str) -> Option<DataType> {
    if name == "bool" { Some(DataType::Boolean) } else { element_type(name) }
}

/// NumPy's number for an axis.
fn axis(per: Per) -> Option<i64> {
    match per {
        Per::Matrix => None,
        Per::Column => Some(0),
        Per::Row => Some(1),
    }
}

fn invoke<'py>(
    py: Python<'py>,
    function: &'static Function,
    arguments: &[Bound<'py, PyAny>],
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(function.name, || match Call::new(function, arguments, pairs(options))? {
        Some(call) => call.run(py, function),
        None => streamed(py, function, arguments, options),
    })
}

/// Runs a function over an object that is read batch by batch. Reading is Python's: it knows the
/// libraries that streams come from.
fn streamed<'py>(
    py: Python<'py>,
    function: &'static Function,
    arguments: &[Bound<'py, PyAny>],
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import(intern!(py, "raptors_arrow._stream_calls"))?;
    let arguments = PyTuple::new(py, arguments)?;
    let options = options.map_or_else(|| PyDict::new(py), Bound::clone);
    module.call_method1(intern!(py, "call"), (function.name, arguments, options))
}

/// Call a function by name.
///
/// Parameters
/// ----------
/// name
///     One of ``list_functions()``.
/// args
///     Its arguments.
/// options
///     Its options by name.
///
/// Examples
/// --------
/// >>> import pyarrow as pa
/// >>> import raptors_arrow as ra
/// >>> ra.call_function("mean", [pa.array([1.0, 2.0])], {"min_count": 2})
/// 1.5
#[pyfunction]
#[pyo3(signature = (name, args, options=None))]
pub(super) fn call_function<'a, 'py>(
    py: Python<'py>,
    name: &Bound<'py, PyAny>,
    args: &Bound<'py, PyAny>,
    options: Option<&'a Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let refused = |what: &str, got: &Bound<'_, PyAny>| -> PyErr {
        let got = got.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        Kind::Type.error(format!("call_function: expected {what}, got {got}"))
    };
    let function = registry::get_function(&option::word("call_function", "name", name)?)?;
    let Ok(given) = args.try_iter() else {
        return Err(refused("args to be a list of the arguments", args));
    };
    let args: Vec<Bound<'py, PyAny>> = given.collect::<PyResult<_>>()?;
    let as_dict = |given: &'a Bound<'py, PyAny>| {
        given.cast::<PyDict>().map_err(|_| refused("options to be a dict", given))
    };
    let options = options.map(as_dict).transpose()?;
    invoke(py, function, &args, options)
}

/// Names of all functions.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> "mean" in ra.list_functions()
/// True
#[pyfunction]
pub(super) fn list_functions(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, registry::list_functions().map(|function| function.name).gather())
}

/// The function of a name.
///
/// Examples
/// --------
/// >>> import raptors_arrow as ra
/// >>> ra.get_function("scale").summary
/// 'Multiplies every element by one number.'
#[pyfunction]
pub(super) fn get_function(name: &Bound<'_, PyAny>) -> PyResult<PyFunction> {
    Ok(PyFunction(registry::get_function(&option::word("get_function", "name", name)?)?))
}
