"""Compares a contestant's result with the right one, before anything is timed."""

from typing import Any

import numpy as np

from raptors_arrow.bench.answers import Answer, Values
from raptors_arrow.bench.cells import Cell

__all__ = ["MismatchError", "as_values", "check"]


class MismatchError(Exception):
    """A contestant gave a wrong result, so that its time would mean nothing."""


def as_values(result: Any) -> Values:
    """Turn what a contestant gave into a NumPy array.

    Numbers, NumPy and JAX arrays, Arrow arrays, tables of one column, polars Series and frames.
    Of what a search gives, the indices are taken.
    """
    result = getattr(result, "indices", result)
    if hasattr(result, "combine_chunks"):  # a pyarrow table or chunked array
        result = result.combine_chunks()
    if hasattr(result, "column") and hasattr(result, "num_columns"):
        result = result.column(0).combine_chunks()
    if hasattr(result, "to_series"):
        result = result.to_series()
    if hasattr(result, "as_py"):
        result = result.as_py()
    while hasattr(result, "type") and getattr(result.type, "num_fields", False):
        result = result.flatten()
    if hasattr(result, "type") and hasattr(result, "to_numpy"):
        result = result.to_numpy(zero_copy_only=False)  # a null becomes NaN
    if hasattr(result, "to_numpy"):
        result = result.to_numpy()
    return np.asarray(result)


def check(cell: Cell, name: str, result: Any, answer: Answer, accumulate: str) -> None:
    """Raise ``MismatchError`` if a result is further from the right one than rounding explains.

    Parameters
    ----------
    cell
        The cell, for the message and its element type.
    name
        The contestant, for the message.
    result
        What it gave.
    answer
        What it should have given; ``functions`` says how the tolerance follows.
    accumulate
        The type in which it may accumulate.
    """
    got = as_values(result)
    if got.size != answer.ref.size:
        raise MismatchError(
            f"{cell.name}: expected {answer.ref.size} values from {name}, got {got.size}"
        )
    seen = answer.seen or (lambda values: values)
    got = seen(got.reshape(answer.ref.shape))
    if answer.c == 0 and answer.n == 0:
        wrong, within = got != answer.ref, "exactly"
    else:
        u = np.finfo(cell.dtype).eps / 2
        v = np.finfo(accumulate).eps / 2
        tolerance = answer.c * u * np.abs(answer.ref) + 8 * np.sqrt(answer.n) * v * answer.s
        got = got.astype("f8")
        # Written so that a NaN is wrong.
        wrong = ~(np.abs(got - answer.ref) <= tolerance)
        within = f"within {np.max(tolerance):.2g}"
    if np.any(wrong):
        worst = np.unravel_index(np.argmax(wrong), wrong.shape)
        raise MismatchError(
            f"{cell.name}: expected {answer.ref[worst]} {within} from {name} at "
            f"{[int(index) for index in worst]}, got {got[worst]}; its time would mean nothing"
        )
