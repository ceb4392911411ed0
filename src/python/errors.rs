//! From errors and panics to Python exceptions.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::once::Once;
use crate::dispatch::set_interrupt_check;
use crate::error::Error;
use crate::memory::refused_bytes;

/// The exceptions of `raptors_arrow.errors`.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Base,
    Type,
    Value,
    Overflow,
    ZeroDivision,
    Memory,
}

impl Kind {
    fn of(error: &Error) -> Self {
        match error.kind() {
            Error::Type { .. }
            | Error::Mixed { .. }
            | Error::Columns { .. }
            | Error::Arguments { .. }
            | Error::Argument { .. }
            | Error::NoSuchOption { .. } => Self::Type,
            Error::TooLarge { .. }
            | Error::Overflow { .. }
            | Error::Cast { .. }
            | Error::Unfit { .. } => Self::Overflow,
            Error::DivisionByZero { .. } => Self::ZeroDivision,
            // As Python's own int(): infinity and what is too large overflow; NaN and fractions
            // are of a size that would fit, so it is the value that is wrong.
            Error::Number { number, .. } => match number.parse::<f64>() {
                Ok(n) if n.is_infinite() || n.fract() == 0.0 => Self::Overflow,
                _ => Self::Value,
            },
            Error::OutOfMemory { .. } => Self::Memory,
            Error::Forked => Self::Base,
            _ => Self::Value,
        }
    }

    fn class(self, py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASSES: [Once<Py<PyType>>; 6] = [const { Once::new() }; 6];
        let name = match self {
            Self::Base => "RaptorsError",
            Self::Type => "RaptorsTypeError",
            Self::Value => "RaptorsValueError",
            Self::Overflow => "RaptorsOverflowError",
            Self::ZeroDivision => "RaptorsZeroDivisionError",
            Self::Memory => "RaptorsMemoryError",
        };
        CLASSES[self as usize].import(py, "raptors_arrow.errors", name)
    }

    /// The exception with a message.
    pub(super) fn error(self, message: impl Into<String>) -> PyErr {
        let message = message.into();
        Python::attach(|py| match self.class(py) {
            Ok(class) => PyErr::from_type(class.clone(), (message,)),
            Err(error) => error,
        })
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        if matches!(error.kind(), Error::Interrupted) {
            // What the signal handler raised, which need not be a KeyboardInterrupt.
            let raised = RAISED.with(RefCell::take);
            return raised.unwrap_or_else(|| PyKeyboardInterrupt::new_err(()));
        }
        Kind::of(&error).error(error.to_string())
    }
}

/// Runs `body`; a panic becomes a `RaptorsError`, which `except Exception` catches.
pub(super) fn guarded<T>(function: &str, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| match refused_bytes(panic) {
        Ok(bytes) => {
            Err(Kind::Memory.error(format!("{function}: {}", Error::OutOfMemory { bytes })))
        }
        Err(panic) => Err(internal(function, &*panic)),
    })
}

fn internal(function: &str, panic: &(dyn Any + Send)) -> PyErr {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Kind::Base.error(format!("{function}: internal error, please report it: {said}"))
}

thread_local! {
    /// What a signal handler raised during a call of this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs a kernel without the GIL. Signals are looked at now and then, so that Ctrl-C ends it.
pub(super) fn detached<T: Send>(
    py: Python<'_>,
    body: impl FnOnce() -> crate::Result<T> + Send,
) -> crate::Result<T> {
    struct Unset;
    impl Drop for Unset {
        fn drop(&mut self) {
            set_interrupt_check(None);
        }
    }
    set_interrupt_check(Some(signalled));
    let _unset = Unset;
    py.detach(body)
}

fn signalled() -> bool {
    // Python runs signal handlers on its main thread only; elsewhere this does nothing.
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(raised) => {
            RAISED.with(|cell| cell.replace(Some(raised)));
            true
        }
    })
}
