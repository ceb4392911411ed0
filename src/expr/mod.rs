//! Expressions: the functions of the table on columns that are named, evaluated together.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, FixedSizeListArray, RecordBatch, cast::AsArray, types::Float32Type};
//! use raptors_arrow::expr::{col, evaluate_all};
//!
//! let rows = [Some([Some(1.0), Some(2.0)]), None, Some([Some(3.0), Some(6.0)])];
//! let emb: ArrayRef =
//!     Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2));
//! let batch = RecordBatch::try_from_iter([("emb", emb)])?;
//!
//! let scaled = col("emb").scale(2.0);
//! let results = evaluate_all(&[scaled.clone().mean(1), scaled.max(0)], &batch)?;
//! let means = results[0].as_array().unwrap().as_primitive::<Float32Type>();
//! assert_eq!(means.iter().collect::<Vec<_>>(), [Some(3.0), None, Some(9.0)]);
//! let largest = results[1].as_array().unwrap().as_primitive::<Float32Type>();
//! assert_eq!(largest.values(), &[6.0, 12.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Calls that follow one another run in one pass over tiles, and results of one column share it:
//! [`explain`] says which do. What has to be there first (a row that is subtracted, a function that
//! is not computed tile by tile) is computed first. The results have the bits of the same functions
//! called one after the other.

mod evaluate;
mod stream;
mod typed;

use std::fmt;
use std::sync::Arc;

pub use evaluate::{Explained, evaluate_all, evaluate_values, explain, explain_values};
pub use stream::{Evaluated, evaluate_reader, reduce_reader};

use crate::compute::{Function, Options, Value, get_function};
use crate::error::Result;
use crate::memory::Gather as _;

/// A column, a value, or a function of others.
///
/// Cheap to clone: parts that are shared are evaluated once.
#[derive(Clone)]
pub struct Expr(Arc<Node>);

enum Node {
    Column(String),
    Value(Value),
    Call { function: &'static Function, arguments: Vec<Expr>, options: Options },
}

/// The column of a name.
pub fn col(name: impl Into<String>) -> Expr {
    Expr(Arc::new(Node::Column(name.into())))
}

/// A value: a number, a row, a matrix.
pub fn lit(value: impl Into<Value>) -> Expr {
    Expr(Arc::new(Node::Value(value.into())))
}

impl<V: Into<Value>> From<V> for Expr {
    fn from(value: V) -> Self {
        lit(value)
    }
}

impl Expr {
    /// A function of the table, by its name.
    ///
    /// ```
    /// use raptors_arrow::{compute::Options, expr::{Expr, col}};
    ///
    /// let unit = Expr::call("normalize", [col("emb")], Options::new())?;
    /// assert_eq!(unit.to_string(), "col(\"emb\").normalize()");
    /// assert!(Expr::call("normalise", [col("emb")], Options::new()).is_err());
    /// # Ok::<(), raptors_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFunction`](crate::Error::NoSuchFunction).
    pub fn call(
        name: &str,
        arguments: impl IntoIterator<Item = Self>,
        options: Options,
    ) -> Result<Self> {
        Ok(Self::of(get_function(name)?, arguments, options))
    }

    /// The same of a function that is at hand.
    pub fn of(
        function: &'static Function,
        arguments: impl IntoIterator<Item = Self>,
        options: Options,
    ) -> Self {
        let arguments = arguments.into_iter().gather();
        Self(Arc::new(Node::Call { function, arguments, options }))
    }

    /// Whether it gives a value for each row, from that row alone.
    ///
    /// # Errors
    ///
    /// For options that a function does not have.
    pub fn is_row_by_row(&self) -> Result<bool> {
        match &*self.0 {
            Node::Column(_) => Ok(true),
            Node::Value(_) => Ok(false),
            Node::Call { function, arguments, options } => {
                let Some(x) = arguments.first() else { return Ok(false) };
                Ok(function.is_row_by_row(options)? && x.is_row_by_row()?)
            }
        }
    }
}

/// The functions that are called most, as methods. Options that are not named here are set with
/// [`Expr::call`].
macro_rules! methods {
    (alone: $($alone:ident)*; with: $($with:ident)*; reduced: $($reduced:ident)*;) => {
        impl Expr {
            $(
                #[doc = concat!("[`", stringify!($alone), "`](crate::compute::", stringify!($alone), ").")]
                #[must_use]
                #[allow(clippy::should_implement_trait, reason = "the operators are there too")]
                pub fn $alone(self) -> Self {
                    self.named(stringify!($alone), None, Options::new())
                }
            )*
            $(
                #[doc = concat!("[`", stringify!($with), "`](crate::compute::", stringify!($with), ").")]
                #[must_use]
                #[allow(clippy::should_implement_trait, reason = "the operators are there too")]
                pub fn $with(self, y: impl Into<Expr>) -> Self {
                    self.named(stringify!($with), Some(y.into()), Options::new())
                }
            )*
            $(
                #[doc = concat!("[`", stringify!($reduced), "`](crate::compute::", stringify!($reduced), ")")]
                /// by an axis: 0 for each column, 1 for each row, `None` in all.
                #[must_use]
                pub fn $reduced(self, axis: impl Into<Option<i64>>) -> Self {
                    let options = Options::new().set("axis", axis.into());
                    self.named(stringify!($reduced), None, options)
                }
            )*
        }

        #[cfg(test)]
        const METHODS: &[&str] =
            &[$(stringify!($alone),)* $(stringify!($with),)* $(stringify!($reduced),)*];
    };
}

methods! {
    alone: negate abs square sqrt normalize softmax;
    with: add subtract multiply divide minimum maximum scale broadcast_add
        dot cosine_similarity l2_distance l1_distance;
    reduced: sum mean min max count var std norm argmin argmax;
}

impl Expr {
    fn named(self, name: &'static str, y: Option<Self>, options: Options) -> Self {
        match get_function(name) {
            Ok(function) => Self::of(function, [self].into_iter().chain(y), options),
            // The table has every method: a test compares them.
            Err(_) => self,
        }
    }

    /// [`clip`](crate::compute::clip) to bounds.
    #[must_use]
    pub fn clip(self, min: impl Into<Option<f64>>, max: impl Into<Option<f64>>) -> Self {
        let options = Options::new().set("min", min.into()).set("max", max.into());
        self.named("clip", None, options)
    }

    /// [`cast`](crate::compute::cast) to the element type of a name, `"float32"` say.
    #[must_use]
    pub fn cast(self, element: &str) -> Self {
        self.named("cast", None, Options::new().set("type", element))
    }
}

/// The operators that mean what a method does.
macro_rules! operators {
    ($($trait:ident $operator:ident $method:ident;)*) => {$(
        impl<Y: Into<Expr>> std::ops::$trait<Y> for Expr {
            type Output = Self;

            fn $operator(self, y: Y) -> Self {
                self.$method(y)
            }
        }
    )*};
}

operators! {
    Add add add;
    Sub sub subtract;
    Mul mul multiply;
    Div div divide;
}

impl std::ops::Neg for Expr {
    type Output = Self;

    fn neg(self) -> Self {
        self.negate()
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Node::Column(name) => write!(f, "col({name:?})"),
            Node::Value(Value::Number(number)) => write!(f, "{number}"),
            Node::Value(Value::Integer(number)) => write!(f, "{number}"),
            Node::Value(value) => write!(f, "<{}>", value.describe()),
            Node::Call { function, arguments, options } => {
                let mut arguments = arguments.iter();
                if let Some(x) = arguments.next() {
                    write!(f, "{x}.")?;
                }
                let positional = function.arguments.len().saturating_sub(1);
                let operands = arguments.enumerate().map(|(i, operand)| {
                    let name = i.checked_sub(positional).and_then(|i| function.by_name.get(i));
                    name.map_or(operand.to_string(), |name| format!("{}={operand}", name.name))
                });
                let options = options.iter().map(|(name, value)| format!("{name}={value}"));
                let given: Vec<_> = operands.chain(options).collect();
                write!(f, "{}({})", function.name, given.join(", "))
            }
        }
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
