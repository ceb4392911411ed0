"""Exceptions: each is a ``RaptorsError`` and the built-in exception that fits it."""

__all__ = [
    "RaptorsError",
    "RaptorsMemoryError",
    "RaptorsOverflowError",
    "RaptorsTypeError",
    "RaptorsValueError",
]


class RaptorsError(Exception):
    """Anything that this package raises."""


class RaptorsTypeError(RaptorsError, TypeError):
    """Data, an argument or an option of a type that the function does not take."""


class RaptorsValueError(RaptorsError, ValueError):
    """A shape, value or setting that does not fit."""


class RaptorsOverflowError(RaptorsError, OverflowError):
    """A size or number that is too large for its type."""


class RaptorsMemoryError(RaptorsError, MemoryError):
    """The system had no memory for an output."""
