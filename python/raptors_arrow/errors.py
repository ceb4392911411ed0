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
    """Anything that this package refuses.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> try:
    ...     ra.sum("text")
    ... except ra.RaptorsError as error:
    ...     print(type(error).__name__)
    RaptorsTypeError
    """


class RaptorsTypeError(RaptorsError, TypeError):
    """Data, an argument or an option of a type that the function does not take.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> issubclass(ra.RaptorsTypeError, TypeError)
    True
    """


class RaptorsValueError(RaptorsError, ValueError):
    """A shape, value or setting that does not fit.

    Examples
    --------
    >>> from array import array
    >>> import raptors_arrow as ra
    >>> try:
    ...     ra.mean(array("d", [1, 2, 3]), axis=1, width=2)
    ... except ValueError as error:
    ...     print(type(error).__name__)
    RaptorsValueError
    """


class RaptorsOverflowError(RaptorsError, OverflowError):
    """A size or number that is too large for its type.

    Examples
    --------
    >>> from array import array
    >>> import raptors_arrow as ra
    >>> try:
    ...     ra.scale(array("b", [100]), 2)
    ... except OverflowError as error:
    ...     print(error)
    scale: integer overflow in row 0: the result does not fit int8; cast to a wider type first
    """


class RaptorsZeroDivisionError(RaptorsValueError, ZeroDivisionError):
    """An integer divided by zero, in a row that the message names.

    Examples
    --------
    >>> from array import array
    >>> import raptors_arrow as ra
    >>> try:
    ...     ra.divide(array("b", [100]), 0)
    ... except ZeroDivisionError as error:
    ...     print(type(error).__name__)
    RaptorsZeroDivisionError
    """


class RaptorsMemoryError(RaptorsError, MemoryError):
    """The system had no memory for an output.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> issubclass(ra.RaptorsMemoryError, MemoryError)
    True
    """


class RaptorsWarning(RuntimeWarning):
    """Something that changes no result, and that the user should know.

    Examples
    --------
    >>> import warnings
    >>> import raptors_arrow as ra
    >>> warnings.simplefilter("ignore", ra.RaptorsWarning)
    """
