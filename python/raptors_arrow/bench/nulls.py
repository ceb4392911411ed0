"""The functions of the suite ``nulls``: the same calls with null elements and with null rows.

Each is named for its call and for what is null: ``mean_axis0_null10`` has ten of a hundred
elements null, ``mean_axis0_nullrow10`` ten of a hundred rows. NumPy has no nulls; its users write
NaN and call ``nanmean``. The contestant ``without-nulls`` is our own call on the same values
without a null, and is not compared with the answer.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import raptors_arrow as ra
from raptors_arrow.bench.answers import AXES, Answer, Function, Values
from raptors_arrow.bench.cells import NULL_ELEMENTS, NULL_ROWS
from raptors_arrow.bench.inputs import Inputs
from raptors_arrow.bench.numpy_jobs import Jobs, Maker

__all__ = ["dense_jobs", "null_functions", "numpy_null_jobs"]

Reduced = Callable[[Inputs, str, int | None], Answer]
ELEMENTWISE = {"scale": ("factor", np.multiply), "broadcast_add": ("row", np.add)}


def _wide(i: Inputs, kind: str) -> Values:
    return i.holed(kind).astype("f8")


def _sum(i: Inputs, kind: str, axis: int | None) -> Answer:
    x = _wide(i, kind)
    n = x.size if axis is None else x.shape[axis]
    return Answer(np.nansum(x, axis=axis), 1, n, np.nansum(np.abs(x), axis=axis))


def _mean(i: Inputs, kind: str, axis: int | None) -> Answer:
    x = _wide(i, kind)
    n = x.size if axis is None else x.shape[axis]
    sizes = np.asarray(np.nanmean(np.abs(x), axis=axis))
    return Answer(np.asarray(np.nanmean(x, axis=axis)), 2, n, sizes)


def _max(i: Inputs, kind: str, axis: int | None) -> Answer:
    return Answer(np.nanmax(i.holed(kind), axis=axis))


def _std(i: Inputs, kind: str, axis: int | None) -> Answer:
    x = _wide(i, kind)
    n = x.size if axis is None else x.shape[axis]
    std = np.asarray(np.nanstd(x, axis=axis))
    return Answer(std, 2, n, std + np.asarray(np.nanmean(np.abs(x), axis=axis)))


def _kinds(axis: int | None) -> tuple[str, ...]:
    """Give the kinds of nulls: a null row has no result by rows, which NumPy cannot say."""
    return (*NULL_ELEMENTS, *(() if axis == 1 else NULL_ROWS))


REDUCTIONS: dict[str, Reduced] = {"sum": _sum, "mean": _mean, "max": _max, "std": _std}


def _reduction_call(name: str, kind: str, options: dict[str, Any], i: Inputs) -> Callable[[], Any]:
    return partial(getattr(ra, name), i.with_nulls(kind), **options)


def _reduction_answer(answer: Reduced, kind: str, axis: int | None, i: Inputs) -> Answer:
    return answer(i, kind, axis)


def _elementwise_call(name: str, kind: str, i: Inputs) -> Callable[[], Any]:
    other = i.factor if name == "scale" else i.row_arrow
    return partial(getattr(ra, name), i.with_nulls(kind), other)


def _elementwise_answer(name: str, kind: str, i: Inputs) -> Answer:
    part, operation = ELEMENTWISE[name]
    # A null comes out as NaN, which is equal to nothing.
    zeros = partial(np.nan_to_num, nan=0.0)
    return Answer(zeros(operation(i.holed(kind), getattr(i, part))), seen=zeros)


def null_functions() -> dict[str, Function]:
    """Give every function of the suite."""
    table = {}
    for name, answer in REDUCTIONS.items():
        for suffix, (axis, results) in AXES.items():
            for kind in _kinds(axis):
                options = {} if axis is None else {"axis": axis}
                table[name + suffix + kind] = Function(
                    name,
                    partial(_reduction_call, name, kind, options),
                    partial(_reduction_answer, answer, kind, axis),
                    results,
                )
    for kind in NULL_ELEMENTS:
        for name in ELEMENTWISE:
            table[name + kind] = Function(
                name,
                partial(_elementwise_call, name, kind),
                partial(_elementwise_answer, name, kind),
                lambda cell: cell.elements,
                elementwise=True,
            )
    return table


def numpy_null_jobs() -> Jobs:
    """Give NumPy's way of each: NaN in the place of nulls."""

    def reduce(name: str, kind: str, axis: int | None) -> Maker:
        return lambda i: partial(getattr(np, "nan" + name), i.holed(kind), axis=axis)

    def each(name: str, kind: str) -> Maker:
        part, operation = ELEMENTWISE[name]
        return lambda i: partial(operation, i.holed(kind), getattr(i, part))

    jobs = {
        name + suffix + kind: reduce(name, kind, axis)
        for name in REDUCTIONS
        for suffix, (axis, _) in AXES.items()
        for kind in _kinds(axis)
    }
    return jobs | {name + kind: each(name, kind) for kind in NULL_ELEMENTS for name in ELEMENTWISE}


def dense_jobs() -> Jobs:
    """Give our own call of each on the same values without a null."""

    def reduce(name: str, axis: int | None) -> Maker:
        return lambda i: partial(getattr(ra, name), i.arrow, axis=axis)

    def each(name: str) -> Maker:
        return lambda i: partial(
            getattr(ra, name), i.arrow, i.factor if name == "scale" else i.row_arrow
        )

    jobs = {
        name + suffix + kind: reduce(name, axis)
        for name in REDUCTIONS
        for suffix, (axis, _) in AXES.items()
        for kind in _kinds(axis)
    }
    return jobs | {name + kind: each(name) for kind in NULL_ELEMENTS for name in ELEMENTWISE}
