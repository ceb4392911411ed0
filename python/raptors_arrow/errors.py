"""Exceptions: each is a ``RaptorsError`` and the built-in exception that fits it."""

__all__ = [
    "RaptorsError",
    "RaptorsMemoryError",
    "RaptorsOverflowError",
    "RaptorsTypeError",
    "RaptorsValueError",
    "RaptorsWarning",
    "RaptorsZeroDivisionError",
]


class RaptorsError(Exception):
    """Anything that this package raises."""


class RaptorsTypeError(RaptorsError, TypeError):
    """Data, an argument or an option of a type that the function does not take."""


class RaptorsValueError(RaptorsError, ValueError):
    """A shape, value or setting that does not fit."""


class RaptorsOverflowError(RaptorsError, OverflowError):
    """A size or number that is too large for its type."""


class RaptorsZeroDivisionError(RaptorsValueError, ZeroDivisionError):
    """An integer divided by zero, in a row that the message names."""


class RaptorsMemoryError(RaptorsError, MemoryError):
    """The system had no memory for an output."""


class RaptorsWarning(RuntimeWarning):
    """Something that changes no result, and that the user should know."""
