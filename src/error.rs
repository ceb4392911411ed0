//! The one error of the crate. Variants carry values, so that a caller can act on them and a
//! message can say what was expected and what came. The function that was called is added once,
//! where a call begins.

use arrow_schema::DataType;

use crate::type_name::TypeName;

/// What can go wrong in a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One of the others, and the function that was called.
    #[error("{function}: {error}")]
    In {
        /// The function's name.
        function: &'static str,
        /// What went wrong.
        error: Box<Self>,
    },
    /// The data is of a type that is no matrix, or that the function does not compute on.
    #[error("expected {expected}, got {}", TypeName(.got))]
    Type {
        /// What it takes.
        expected: &'static str,
        /// What it was given.
        got: DataType,
    },
    /// A list column whose rows differ in length.
    #[error(
        "expected every row to have {expected} elements, but row {row} has {got}; \
         pad or drop that row first"
    )]
    Ragged {
        /// Length of the first row.
        expected: usize,
        /// The first row that differs.
        row: usize,
        /// Its length.
        got: usize,
    },
    /// Plain numbers where rows are vectors: one row of them, or one column.
    #[error(
        "expected {argument} to be a matrix, whose rows are vectors, got a 1-D array of \
         {len}; if it is one row, pass {argument}[None, :] (NumPy) or width={len}{}",
        if *.has_axis { "; if it is one column, pass axis=0" } else { "" }
    )]
    OneVector {
        /// The argument's name.
        argument: &'static str,
        /// Elements in the array.
        len: usize,
        /// Whether the function can go by columns instead.
        has_axis: bool,
    },
    /// Two operands whose widths do not fit.
    #[error("expected {what} of width {expected}, got width {got}")]
    Width {
        /// Which operand.
        what: &'static str,
        /// The width that fits.
        expected: usize,
        /// The width that came.
        got: usize,
    },
    /// A 1-D operand as long as there are rows, where one value per column was expected, of a
    /// function that takes one value per row if it is told so.
    #[error(
        "expected {what} of width {expected}, got width {got}, one value for each row of \
         x; a 1-D operand lines up with the columns: pass axis=0 for one value per row"
    )]
    OnePerRow {
        /// Which operand.
        what: &'static str,
        /// The width that fits.
        expected: usize,
        /// The values that came.
        got: usize,
    },
    /// Two operands whose row counts do not fit.
    #[error("expected {what} of {expected} rows, got {got}")]
    Rows {
        /// Which operand.
        what: &'static str,
        /// The row count that fits.
        expected: usize,
        /// The row count that came.
        got: usize,
    },
    /// A flat array whose length is no multiple of the width asked for.
    #[error("{len} elements cannot be seen as rows of {width}")]
    Reshape {
        /// Elements in the array.
        len: usize,
        /// Width asked for.
        width: usize,
    },
    /// Operands or chunks of different element types.
    #[error(
        "expected {what} of {}, got {}; cast x or {what} first",
        TypeName(.expected), TypeName(.got)
    )]
    Mixed {
        /// Which operand.
        what: &'static str,
        /// The type that fits.
        expected: DataType,
        /// The type that came.
        got: DataType,
    },
    /// An operand with an element that the column's type cannot hold.
    #[error(
        "{what} has an element in row {row} that {} cannot hold; cast x to a wider type first",
        TypeName(.element)
    )]
    Unfit {
        /// Which operand.
        what: &'static str,
        /// The first row that has one.
        row: usize,
        /// The column's type.
        element: DataType,
    },
    /// Columns of a table that are neither numbers nor, alone, vectors.
    #[error("{}", of_columns(.columns, .vectors))]
    Columns {
        /// The columns that are no numbers, or all if some are vectors: their names and types.
        columns: Vec<(String, DataType)>,
        /// Those that are vectors, and could be passed alone.
        vectors: Vec<String>,
    },
    /// A shape whose size in bytes does not fit the address space, or the Arrow type.
    #[error("{rows} rows of {width} elements are more than {limit}")]
    TooLarge {
        /// Rows asked for.
        rows: usize,
        /// Elements per row.
        width: usize,
        /// What cannot hold them.
        limit: &'static str,
    },
    /// A tensor column that this crate does not read.
    #[error("arrow.fixed_shape_tensor: {reason}")]
    Tensor {
        /// What is wrong with it.
        reason: String,
    },
    /// An integer result that its type cannot hold.
    #[error(
        "integer overflow in {what} {index}: the result does not fit {}; cast to a wider type first",
        TypeName(.into)
    )]
    Overflow {
        /// What the index counts: rows or columns.
        what: &'static str,
        /// The first that overflowed.
        index: usize,
        /// The type that cannot hold it.
        into: DataType,
    },
    /// An element that a cast to another type would change.
    #[error(
        "row {row} has an element that {} cannot hold (NaN, no whole number or out of range); pass \
         safe=False to cast all the same (NaN becomes 0, fractions are cut off, integers wrap), or \
         cast to another type",
        TypeName(.into)
    )]
    Cast {
        /// The first row that has one.
        row: usize,
        /// The type that cannot hold it.
        into: DataType,
    },
    /// An integer divided by zero.
    #[error("row {row} divides an integer by zero")]
    DivisionByZero {
        /// The first row that does.
        row: usize,
    },
    /// A number that the element type cannot hold.
    #[error(
        "{what} is {number}, which {} cannot hold; cast x first",
        TypeName(.element)
    )]
    Number {
        /// Which operand.
        what: &'static str,
        /// The number.
        number: String,
        /// The element type.
        element: DataType,
    },
    /// A null where one number is needed.
    #[error("{what} is null; expected a number")]
    NullScalar {
        /// Which operand.
        what: &'static str,
    },
    /// A name that no function has.
    #[error("no function is called {name:?}{}", suggestion(.near))]
    NoSuchFunction {
        /// The name that was asked for.
        name: String,
        /// A name that is close to it, if there is one.
        near: Option<&'static str>,
    },
    /// A wrong number of arguments.
    #[error("expected {expected} argument{}, got {got}", if *.expected == 1 { "" } else { "s" })]
    Arguments {
        /// How many it takes.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// An argument of a kind that the function does not take in this place.
    #[error("expected {expected} for {argument}, got {got}")]
    Argument {
        /// The argument's name.
        argument: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What came.
        got: String,
    },
    /// A state whose layout is not known here.
    #[error(
        "expected a state of version {known} or older, got version {got}; a newer raptors-arrow \
         made it: update this one"
    )]
    StateVersion {
        /// The newest version that is read here.
        known: i32,
        /// The version of the state.
        got: i32,
    },
    /// An option that the function does not have.
    #[error("no option {option:?}; it has {}", list(.known))]
    NoSuchOption {
        /// The option's name.
        option: String,
        /// The options that the function has.
        known: Vec<&'static str>,
    },
    /// An option's value that cannot be used.
    #[error("option {option}: expected {expected}, got {got}")]
    OptionValue {
        /// The option's name.
        option: &'static str,
        /// What it takes.
        expected: String,
        /// What came.
        got: String,
    },
    /// A setting that cannot be honoured on this machine.
    #[error("{variable}={value}: {reason}")]
    Setting {
        /// The environment variable or setting.
        variable: &'static str,
        /// Its value.
        value: String,
        /// Why it cannot be honoured.
        reason: String,
    },
    /// The system gave no memory for an output.
    #[error("no memory for an output of {bytes} bytes")]
    OutOfMemory {
        /// The size asked for.
        bytes: usize,
    },
    /// The caller's interrupt check asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A signal handler forked the process during a call, and returned into it in the child, where
    /// the call's threads are not.
    #[error(
        "a signal handler forked the process during the call; its threads are in the \
         parent only, so the call cannot end here: call again in the child, or let it exit"
    )]
    Forked,
    /// Arrow refused a result or an input.
    #[error("{message}")]
    Arrow {
        /// What Arrow said.
        message: String,
    },
}

impl Error {
    /// The same error, said of `function`: the name that a caller knows the call by.
    #[must_use]
    pub fn in_function(self, function: &'static str) -> Self {
        let error = match self {
            Self::In { error, .. } => error,
            named @ (Self::NoSuchFunction { .. } | Self::Setting { .. }) => return named,
            other => Box::new(other),
        };
        Self::In { function, error }
    }

    /// What went wrong, whichever function it was in.
    pub fn kind(&self) -> &Self {
        match self {
            Self::In { error, .. } => error,
            other => other,
        }
    }

    /// The function that was called, if the error is known to come from one.
    pub fn function(&self) -> Option<&'static str> {
        match self {
            Self::In { function, .. } => Some(function),
            _ => None,
        }
    }

    /// The same error, said of the argument `name`.
    #[must_use]
    pub(crate) fn about(mut self, name: &'static str) -> Self {
        let kind = match &mut self {
            Self::In { error, .. } => &mut **error,
            other => other,
        };
        if let Self::Width { what, .. }
        | Self::OnePerRow { what, .. }
        | Self::Rows { what, .. }
        | Self::Mixed { what, .. }
        | Self::Unfit { what, .. }
        | Self::NullScalar { what }
        | Self::Number { what, .. } = kind
        {
            *what = name;
        }
        self
    }
}

fn suggestion(near: &Option<&'static str>) -> String {
    match near {
        Some(near) => format!("; did you mean {near:?}?"),
        None => "; list_functions() names them all".to_owned(),
    }
}

/// `float64 (a, c) and int64 (b)`.
fn by_type(columns: &[(String, DataType)]) -> String {
    const MOST_NAMES: usize = 5;
    let mut types: Vec<(&DataType, Vec<&str>)> = Vec::new();
    for (name, data_type) in columns {
        match types.iter_mut().find(|(known, _)| *known == data_type) {
            Some((_, names)) => names.push(name),
            None => types.push((data_type, vec![name])),
        }
    }
    let of_type = |(data_type, names): &(&DataType, Vec<&str>)| {
        let more = match names.len().saturating_sub(MOST_NAMES) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let names = names[..names.len().min(MOST_NAMES)].join(", ");
        format!("{} ({names}{more})", TypeName(data_type))
    };
    types.iter().map(of_type).collect::<Vec<_>>().join(" and ")
}

/// What is wrong with columns, and which could be passed instead.
fn of_columns(columns: &[(String, DataType)], vectors: &[String]) -> String {
    let got = by_type(columns);
    match vectors {
        [] => format!("expected columns of numbers, got {got}; leave those out"),
        [one] => format!(
            "expected columns of numbers, or one column of vectors, got vectors in {one:?} beside \
             {got}; pass that column: table[{one:?}]"
        ),
        [one, ..] => format!(
            "expected columns of numbers, or one column of vectors, got vectors in {}; pass one of \
             them: table[{one:?}]",
            vectors.join(", ")
        ),
    }
}

fn list(names: &[&'static str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What a call gives.
pub type Result<T> = std::result::Result<T, Error>;
