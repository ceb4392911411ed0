"""Functions of NumPy, SciPy, scikit-learn and pandas with ours in their place, where in scope.

Each replacement asks whether a call is one that ours answers: a plain array of one of our types and
no option that we do not have. Such a call is made by ours, counted, and its result given the type
that the other's would have; every other call goes to the original.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import raptors_arrow as ra

#: How many calls of each function ours answered, and how many went to the original.
ANSWERED: Counter[str] = Counter()
PASSED_ON: Counter[str] = Counter()

FLOATS = ("f4", "f8")
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


class OutOfScope(Exception):
    """The call is not one that ours answers."""


def need(condition: object) -> None:
    if not condition:
        raise OutOfScope


def matrix(x: Any, types: tuple[str, ...] = FLOATS, dimensions: tuple[int, ...] = (1, 2)) -> Any:
    """Give a plain array of one of the types that is not empty."""
    need(type(x) is np.ndarray and x.ndim in dimensions and x.size and x.dtype.isnative)
    need(x.dtype.str[1:] in types)
    return x


def axis_of(x: Any, axis: Any) -> Any:
    """Give the axis as ours takes it: of one sequence, its only axis gives one number."""
    need(axis is None or type(axis) is int)
    need(axis is None or -x.ndim <= axis < x.ndim)
    return None if axis is None or x.ndim == 1 else axis % x.ndim


def typed(result: Any, dtype: Any) -> Any:
    """Give a result as NumPy's own functions do: arrays, or scalars of NumPy."""
    return np.asarray(result).astype(dtype, copy=False)[()]


def only(options: dict[str, Any], **allowed: Any) -> None:
    """Refuse options that are neither left out nor what they are by default."""
    for name, value in options.items():
        need(value is np._NoValue or value is None or (name in allowed and value is allowed[name]))


def reduction(
    name: str, types: tuple[str, ...], result: Callable[[Any], Any]
) -> Callable[..., Any]:
    ours = getattr(ra, name)

    def call(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        need(dtype is None and out is None)
        only(options, keepdims=False, where=True)
        x = matrix(x, types)
        return typed(ours(x, axis=axis_of(x, axis)), result(x.dtype))

    return call


def extreme(name: str) -> Callable[..., Any]:
    ours = getattr(ra, name)

    def call(x: Any, axis: Any = None, out: Any = None, **options: Any) -> Any:
        need(out is None)
        only(options, keepdims=False, where=True)
        x = matrix(x, FLOATS + INTEGERS)
        given = axis_of(x, axis)
        index = np.intp if name.startswith("arg") else x.dtype
        return typed(ours(x, axis=given), index)

    return call


def spread(name: str) -> Callable[..., Any]:
    ours = getattr(ra, name)

    def call(
        x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, **options: Any
    ) -> Any:
        need(dtype is None and out is None and type(ddof) is int and ddof >= 0)
        only(options, keepdims=False, where=True)
        x = matrix(x)
        axis = axis_of(x, axis)
        need(ddof < (x.size if axis is None else x.shape[axis]))
        need(np.isfinite(x).all())  # what they warn of
        return typed(ours(x, axis=axis, ddof=ddof), x.dtype)

    return call


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False, **options: Any) -> Any:
    need(not keepdims and not options)
    x = matrix(x)
    # Of a matrix without an axis, an order is that of the matrix, not of its rows.
    need(ord in (None, 2) or (ord in (1, np.inf) and (x.ndim == 1 or axis is not None)))
    need(axis is not None or x.ndim == 1 or ord is None)
    return typed(ra.norm(x, axis=axis_of(x, axis), ord=2 if ord is None else ord), x.dtype)


def clip(x: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **options: Any) -> Any:
    need(out is None and not options and type(a_min) is float and type(a_max) is float)
    x = matrix(x, ("f8",))
    need(a_min <= a_max)
    return ra.clip(x, min=a_min, max=a_max)


def square_of_columns(name: str) -> Callable[..., Any]:
    ours = getattr(ra, name)

    def call(m: Any, y: Any = None, rowvar: Any = True, *more: Any, **options: Any) -> Any:
        need(y is None and not more)
        only(options)
        m = matrix(m, ("f8",), (2,))
        x = m.T if rowvar else m
        need(x.shape[0] > 1 and x.shape[1] > 1 and np.isfinite(x).all())
        need(name == "covariance" or (np.ptp(x, axis=0) > 0).all())
        return np.asarray(ours(x))

    return call


METRICS = {"euclidean": "l2", "cityblock": "l1"}


def distances(
    xa: Any, xb: Any, metric: Any = "euclidean", *, out: Any = None, **options: Any
) -> Any:
    need(out is None and not options and metric in METRICS)
    xa, xb = matrix(xa, ("f8",), (2,)), matrix(xb, ("f8",), (2,))
    need(xa.shape[1] == xb.shape[1])
    return np.asarray(ra.pairwise(xa, xb, metric=METRICS[metric]))


def kernel(metric: str) -> Callable[..., Any]:
    def call(X: Any, Y: Any = None, *more: Any, **options: Any) -> Any:
        need(not more)
        only(options, dense_output=True, squared=False)
        X = matrix(X, ("f8",), (2,))
        Y = X if Y is None else matrix(Y, ("f8",), (2,))
        need(X.shape[1] == Y.shape[1] and np.isfinite(X).all() and np.isfinite(Y).all())
        # A zero vector has no cosine to us, and 0 to them.
        need(metric != "cosine" or (X.any(axis=1).all() and Y.any(axis=1).all()))
        return np.asarray(ra.pairwise(X, Y, metric=metric))

    return call


def normalize(X: Any, norm: Any = "l2", *, axis: Any = 1, copy: Any = True, **options: Any) -> Any:
    need(copy and not options and axis in (0, 1) and norm in ("l1", "l2"))
    X = matrix(X, FLOATS, (2,))
    need(np.isfinite(X).all() and X.any(axis=axis).all())
    return np.asarray(ra.normalize(X, axis=axis, ord={"l1": 1, "l2": 2}[norm]))


def scale(
    X: Any, *, axis: Any = 0, with_mean: Any = True, with_std: Any = True, copy: Any = True
) -> Any:
    X = matrix(X, ("f8",), (2,))
    need(axis in (0, 1) and np.isfinite(X).all())
    need((np.ptp(X, axis=axis) > 0).all())
    return np.asarray(ra.standardize(X, axis=axis))


def of_valid(name: str) -> Callable[..., Any]:
    """Give one of pandas' reductions that skip NaN, with a mask over the NaN."""
    ours = getattr(ra, name)
    default = {"sum": 0}.get(name, 1)

    def call(values: Any, *, axis: Any = None, skipna: Any = True, **options: Any) -> Any:
        options = dict(options)
        ddof = options.pop("ddof", 1)
        min_count = options.pop("min_count", default if name == "sum" else 1)
        mask = options.pop("mask", None)
        need(not options and skipna and type(ddof) is int and ddof >= 0)
        values = matrix(values, FLOATS)
        missing = np.isnan(values)
        need(mask is None or (type(mask) is np.ndarray and (mask == missing).all()))
        need(np.isfinite(values[~missing]).all())
        axis = axis_of(values, axis)
        given: dict[str, Any] = {"ddof": ddof} if name in ("var", "std") else {}
        if name in ("var", "std"):
            need(((~missing).sum(axis=axis) > ddof).all())
        elif name == "sum":
            given["min_count"] = max(0, min_count)
        result = ours(np.ma.masked_array(values, missing), axis=axis, **given)
        if result is None:
            result = np.nan
        return typed(np.ma.filled(result, np.nan), values.dtype)

    return call


def summed(dtype: Any) -> Any:
    """Give the type of NumPy's sums: integers are added as the machine's."""
    if dtype.kind == "f" or dtype.itemsize == 8:
        return dtype
    return np.dtype("i8") if dtype.kind == "i" else np.dtype("u8")


def real(dtype: Any) -> Any:
    return dtype if dtype.kind == "f" else np.dtype("f8")


#: Where a function of another library is, and what answers in its place.
REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "numpy.sum": reduction("sum", FLOATS + INTEGERS, summed),
    "numpy.mean": reduction("mean", FLOATS + INTEGERS, real),
    "numpy.min": extreme("min"),
    "numpy.max": extreme("max"),
    "numpy.amin": extreme("min"),
    "numpy.amax": extreme("max"),
    "numpy.argmin": extreme("argmin"),
    "numpy.argmax": extreme("argmax"),
    "numpy.var": spread("var"),
    "numpy.std": spread("std"),
    "numpy.clip": clip,
    "numpy.linalg.norm": norm,
    "numpy.cov": square_of_columns("covariance"),
    "numpy.corrcoef": square_of_columns("correlation"),
    "scipy.linalg.norm": lambda a, ord=None, axis=None, keepdims=False, check_finite=True: norm(
        a, ord, axis, keepdims
    ),
    "scipy.spatial.distance.cdist": distances,
    "sklearn.metrics.pairwise.euclidean_distances": kernel("l2"),
    "sklearn.metrics.pairwise.manhattan_distances": kernel("l1"),
    "sklearn.metrics.pairwise.cosine_similarity": kernel("cosine"),
    "sklearn.metrics.pairwise.linear_kernel": kernel("dot"),
    "sklearn.preprocessing.normalize": normalize,
    "sklearn.preprocessing.scale": scale,
    "pandas.core.nanops.nansum": of_valid("sum"),
    "pandas.core.nanops.nanmean": of_valid("mean"),
    "pandas.core.nanops.nanvar": of_valid("var"),
    "pandas.core.nanops.nanstd": of_valid("std"),
    "pandas.core.nanops.nanmin": of_valid("min"),
    "pandas.core.nanops.nanmax": of_valid("max"),
}


def replacing(name: str, original: Callable[..., Any], ours: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def either(*args: Any, **options: Any) -> Any:
        try:
            result = ours(*args, **options)
        except (OutOfScope, TypeError, ra.RaptorsOverflowError):
            # Another signature, or a sum that theirs would let wrap.
            PASSED_ON[name] += 1
            return original(*args, **options)
        ANSWERED[name] += 1
        return result

    return either


def replace(libraries: tuple[str, ...]) -> None:
    """Put our functions in the place of those of some libraries."""
    for path, ours in REPLACEMENTS.items():
        module_name, _, name = path.rpartition(".")
        if path.split(".")[0] in libraries:
            module = importlib.import_module(module_name)
            original = getattr(module, name)
            either = replacing(path, original, ours)
            setattr(module, name, either)
            # Tables of functions, whose entries the library compares with its own names.
            for table in [table for table in vars(module).values() if isinstance(table, dict)]:
                table.update({key: either for key, entry in table.items() if entry is original})
