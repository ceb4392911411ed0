"""Calls of every function of the registry: arguments and options that fit a matrix."""

import inspect
from typing import Any

import numpy as np

import raptors_arrow as ra

FLOATS = ["f2", "f4", "f8"]
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
DTYPES = FLOATS + INTEGERS

#: Functions whose results come from a matrix product, whose order of additions may change.
PRODUCTS = {"matmul", "pairwise", "gram", "covariance", "correlation"}

#: Functions that give a yes or no for each element.
FLAGS = {"greater", "greater_equal", "less", "less_equal", "equal", "not_equal"}
FLAGS |= {"isnan", "is_null", "isfinite"}


def seconds(kind: str, values: np.ndarray) -> list[Any]:
    """Second arguments of a kind, for ``values`` and of their type."""
    width = values.shape[1]
    if kind == "matrix":
        return [np.ones((width, width), values.dtype)]
    return {
        "number": [2],
        "operand": [2, values[0].copy(), values[::-1].copy()],
        "row": [values[0].copy()],
        "vectors": [values[0].copy(), values[::-1].copy()],
        "queries": [values[0].copy(), values[:2].copy()],
    }[kind]


def choices(function: ra.Function) -> list[dict[str, Any]]:
    """Options: each value of each that has few, and what must be set."""
    sets: list[dict[str, Any]] = [{}]
    if "type" in function.options:
        sets = [{"type": "float64"}]
    if "axis" in function.options and len(function.arguments) == 1:
        none = [] if function.option_kinds["axis"] == "along" else [None]
        sets = [{"axis": axis} for axis in (*none, 0, 1)]
    for option, kind in function.option_kinds.items():
        if isinstance(kind, tuple):
            sets = [{**one, option: word} for one in sets for word in kind]
        elif kind == "order":
            sets = [{**one, option: order} for one in sets for order in (1, 2, np.inf)]
        elif kind == "bound":
            sets = [{**one, option: 3} for one in sets]
        elif kind == "fraction":
            sets = [{**one, option: fraction} for one in sets for fraction in (0, 0.3, 1)]
    return sets


def calls(name: str, values: np.ndarray) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments after the first, and options, of calls that a function can answer."""
    function = ra.get_function(name)
    rests: list[tuple[Any, ...]] = [()]
    parameters = inspect.signature(getattr(ra, name)).parameters
    for argument, kind in list(zip(function.arguments, function.argument_kinds, strict=True))[1:]:
        without = rests if parameters[argument].default is None else []
        rests = [*without, *((*rest, y) for rest in rests for y in seconds(kind, values))]
    return [(rest, options) for rest in rests for options in choices(function)]


def numbers(shape: tuple[int, int], dtype: str, name: str = "") -> np.ndarray:
    """Random numbers of a type on which no call of ``name`` overflows or divides by zero."""
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        values = rng.standard_normal(shape).astype(dtype)
        has_nan = name in ("sqrt", "log", "power")  # of numbers below zero; NaN is no NaN's equal
        return np.abs(values) if has_nan else values
    if np.dtype(dtype).kind == "u" and name in ("negate", "subtract"):
        return np.full(shape, 0 if name == "negate" else 2, dtype)
    # 3 to the power of 3 is a number of every type.
    return rng.integers(1, 4 if name == "power" else 6, shape).astype(dtype)
