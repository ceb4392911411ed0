"""The suite ``engines``: a query of polars beside the same functions called directly.

``query`` is ``with_columns`` of unit vectors, similarities to one vector and row means, computed by
the plugin. ``group_mean`` is the mean vector of each of 10,000 keys. The contestants are our own
calls inside of polars, on the same memory: a ratio of 1 says that the engine costs nothing.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

import raptors_arrow as ra
from raptors_arrow.bench.answers import Answer, Function
from raptors_arrow.bench.inputs import Inputs

if TYPE_CHECKING:
    from raptors_arrow.bench.numpy_jobs import Call, Jobs

__all__ = ["engine_functions", "polars_queries"]

KEYS = 10_000
X: Any = ra.col("x")
MEAN = X.mean(axis=0)


def _keys(i: Inputs) -> Any:
    return i.keep("keys", lambda: np.random.default_rng(5).integers(0, KEYS, i.rows))


def _frame(i: Inputs) -> Any:
    pl = import_module("polars")

    def make() -> Any:
        return pl.DataFrame({"k": _keys(i), "x": pl.Series(pl.from_arrow(i.arrow))})

    return i.keep("polars_frame", make)


def _query(i: Inputs) -> "Call":
    def call() -> Any:
        _made = ra.normalize(i.arrow), ra.dot(i.arrow, i.row_arrow)
        return ra.mean(i.arrow, axis=1)

    return call


def _group_mean(i: Inputs) -> "Call":
    table = import_module("pyarrow").table({"k": _keys(i), "x": i.arrow})
    return lambda: _values(ra.group_by(table, "k").aggregate(m=MEAN)["m"])


def _values(means: Any) -> Any:
    return means.combine_chunks().flatten()


def _row_means(i: Inputs) -> Answer:
    x = i.x.astype("f8")
    return Answer(x.mean(axis=1), 2, i.width, np.abs(x).mean(axis=1))


def _means_of_groups(i: Inputs) -> Answer:
    keys = _keys(i)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])

    def means(x: Any) -> Any:
        sums = np.add.reduceat(x[order].astype("f8"), starts, axis=0)
        # In the order in which the keys come.
        return (sums / counts[:, None])[np.argsort(first)].reshape(-1)

    return Answer(means(i.x), 2, int(counts.max()), means(np.abs(i.x)))


def engine_functions() -> dict[str, Function]:
    """Give the functions of the suite."""
    return {
        "query": Function("normalize", _query, _row_means, lambda cell: cell.elements, matrices=3),
        "group_mean": Function("mean", _group_mean, _means_of_groups, lambda cell: cell.width),
    }


def polars_queries(engine: str) -> Callable[[], "Jobs"]:
    """Give what makes the same of the functions in a lazy query of polars."""

    def jobs() -> "Jobs":
        pl = import_module("polars")

        def query(i: Inputs) -> "Call":
            x = pl.col("x").raptors
            columns = {"unit": x.normalize(), "score": x.dot(i.row), "mean": x.mean(axis=1)}
            plan = _frame(i).lazy().with_columns(**columns)
            return lambda: plan.collect(engine=engine)["mean"]

        def group_mean(i: Inputs) -> "Call":
            plan = _frame(i).lazy()
            return lambda: _values(plan.raptors.group_by("k").agg(m=MEAN).to_arrow()["m"])

        return {"query": query} | ({"group_mean": group_mean} if engine == "streaming" else {})

    return jobs
