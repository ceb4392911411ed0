//! The one error of the crate. Variants carry values, so that a caller can act on them and a
//! message can say which function, what was expected and what came.

use arrow_schema::DataType;

/// What can go wrong in a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data is of a type that is no matrix, or that the function does not compute on.
    #[error("{function}: expected {expected}, got {got}")]
    Type {
        /// The function that was called.
        function: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What it was given.
        got: DataType,
    },
    /// A list column whose rows differ in length.
    #[error(
        "{function}: expected every row to have {expected} elements, but row {row} has {got}; \
         pad or drop that row first"
    )]
    Ragged {
        /// The function that was called.
        function: &'static str,
        /// Length of the first row.
        expected: usize,
        /// The first row that differs.
        row: usize,
        /// Its length.
        got: usize,
    },
    /// Two operands whose widths do not fit.
    #[error(
        "{function}: expected {what} of width {expected}, got width {got}; \
         a 1-D operand lines up with the columns (pass axis=0 for one value per row)"
    )]
    Width {
        /// The function that was called.
        function: &'static str,
        /// Which operand.
        what: &'static str,
        /// The width that fits.
        expected: usize,
        /// The width that came.
        got: usize,
    },
    /// Two operands whose row counts do not fit.
    #[error("{function}: expected {what} of {expected} rows, got {got}")]
    Rows {
        /// The function that was called.
        function: &'static str,
        /// Which operand.
        what: &'static str,
        /// The row count that fits.
        expected: usize,
        /// The row count that came.
        got: usize,
    },
    /// A flat array whose length is no multiple of the width asked for.
    #[error("{function}: {len} elements cannot be seen as rows of {width}")]
    Reshape {
        /// The function that was called.
        function: &'static str,
        /// Elements in the array.
        len: usize,
        /// Width asked for.
        width: usize,
    },
    /// Operands, chunks or columns of different element types.
    #[error("{function}: expected {what} of {expected}, got {got}; cast one of them first")]
    Mixed {
        /// The function that was called.
        function: &'static str,
        /// Which operand.
        what: &'static str,
        /// The type that fits.
        expected: DataType,
        /// The type that came.
        got: DataType,
    },
    /// A shape whose size in bytes does not fit the address space, or the Arrow type.
    #[error("{function}: {rows} rows of {width} elements are more than {limit}")]
    TooLarge {
        /// The function that was called.
        function: &'static str,
        /// Rows asked for.
        rows: usize,
        /// Elements per row.
        width: usize,
        /// What cannot hold them.
        limit: &'static str,
    },
    /// A tensor column that this crate does not read.
    #[error("{function}: arrow.fixed_shape_tensor: {reason}")]
    Tensor {
        /// The function that was called.
        function: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// An integer result that its type cannot hold.
    #[error(
        "{function}: integer overflow in {what} {index}: the result does not fit {into}; cast to a \
         wider type first"
    )]
    Overflow {
        /// The function that was called.
        function: &'static str,
        /// What the index counts: rows or columns.
        what: &'static str,
        /// The first that overflowed.
        index: usize,
        /// The type that cannot hold it.
        into: DataType,
    },
    /// An integer divided by zero.
    #[error("{function}: row {row} divides an integer by zero")]
    DivisionByZero {
        /// The function that was called.
        function: &'static str,
        /// The first row that does.
        row: usize,
    },
    /// A number that the element type cannot hold.
    #[error("{function}: {what} is {number}, which {element} cannot hold; cast x first")]
    Number {
        /// The function that was called.
        function: &'static str,
        /// Which operand.
        what: &'static str,
        /// The number.
        number: String,
        /// The element type.
        element: DataType,
    },
    /// A null where one number is needed.
    #[error("{function}: {what} is null; expected a number")]
    NullScalar {
        /// The function that was called.
        function: &'static str,
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
    #[error("{function}: expected {expected} argument{}, got {got}", if *.expected == 1 { "" } else { "s" })]
    Arguments {
        /// The function that was called.
        function: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// An argument of a kind that the function does not take in this place.
    #[error("{function}: expected {expected} for {argument}, got {got}")]
    Argument {
        /// The function that was called.
        function: &'static str,
        /// The argument's name.
        argument: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What came.
        got: String,
    },
    /// An option that the function does not have.
    #[error("{function}: no option {option:?}; it has {}", list(.known))]
    NoSuchOption {
        /// The function that was called.
        function: &'static str,
        /// The option's name.
        option: String,
        /// The options that the function has.
        known: Vec<&'static str>,
    },
    /// An option's value that cannot be used.
    #[error("{function}: option {option}: expected {expected}, got {got}")]
    OptionValue {
        /// The function that was called.
        function: &'static str,
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
    #[error("{function}: no memory for an output of {bytes} bytes")]
    OutOfMemory {
        /// The function that was called.
        function: &'static str,
        /// The size asked for.
        bytes: usize,
    },
    /// The caller's interrupt check asked to stop.
    #[error("{function}: interrupted")]
    Interrupted {
        /// The function that was called.
        function: &'static str,
    },
    /// Arrow refused a result or an input.
    #[error("{function}: {message}")]
    Arrow {
        /// The function that was called.
        function: &'static str,
        /// What Arrow said.
        message: String,
    },
}

impl Error {
    /// The same error, said of `function`: what a caller hears of the views that were made and
    /// the arrays that were built on its behalf.
    #[must_use]
    pub fn in_function(mut self, name: &'static str) -> Self {
        match &mut self {
            Self::Type { function, .. }
            | Self::Ragged { function, .. }
            | Self::Width { function, .. }
            | Self::Rows { function, .. }
            | Self::Reshape { function, .. }
            | Self::Mixed { function, .. }
            | Self::TooLarge { function, .. }
            | Self::Tensor { function, .. }
            | Self::Overflow { function, .. }
            | Self::DivisionByZero { function, .. }
            | Self::Number { function, .. }
            | Self::NullScalar { function, .. }
            | Self::Arguments { function, .. }
            | Self::Argument { function, .. }
            | Self::NoSuchOption { function, .. }
            | Self::OptionValue { function, .. }
            | Self::OutOfMemory { function, .. }
            | Self::Interrupted { function }
            | Self::Arrow { function, .. } => *function = name,
            Self::NoSuchFunction { .. } | Self::Setting { .. } => {}
        }
        self
    }
}

impl Error {
    /// The same error, said of the argument `name`.
    #[must_use]
    pub(crate) fn about(mut self, name: &'static str) -> Self {
        if let Self::Width { what, .. }
        | Self::Rows { what, .. }
        | Self::Mixed { what, .. }
        | Self::NullScalar { what, .. }
        | Self::Number { what, .. } = &mut self
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

fn list(names: &[&'static str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What a call gives.
pub type Result<T> = std::result::Result<T, Error>;
