"""The functions of the suite ``groups``: the mean vector of each key, and of each list.

Each is named for its number of keys: ``mean_by10000``; ``mean_by_row`` has a key for each row, and
``mean_by_one`` one for all. Groups come in whatever order a contestant gives them, so what is
compared are the sorted means of each column. ``without-groups`` is one plain mean of all rows, and
``pass-and-hash`` that and pyarrow's dictionary of the keys; neither is compared with the answer.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import raptors_arrow as ra
from raptors_arrow.bench.answers import Answer, Function, Values
from raptors_arrow.bench.cells import KEYS, Cell
from raptors_arrow.bench.inputs import Inputs
from raptors_arrow.bench.numpy_jobs import Call, Jobs, Maker

__all__ = [
    "add_at_jobs",
    "group_functions",
    "loop_jobs",
    "numpy_group_jobs",
    "plain_jobs",
    "polars_group_jobs",
]

POOL = "pool_mean"
#: Tokens of a sentence.
SHORTEST, LONGEST = 10, 30
#: polars explodes no more elements than this: they would be 20 bytes each.
EXPLODED = 100_000_000


def _keys(i: Inputs, name: str) -> Values:
    def make() -> Values:
        rng = np.random.default_rng(len(name))
        if name == "mean_by_row":
            return rng.permutation(i.rows)
        # A few rows first, so that every key is there.
        count = min(KEYS[name] or 1, i.rows)
        rest = rng.integers(0, count, i.rows - count)
        return np.concatenate([rng.permutation(count), rest])

    return i.keep(f"keys_{name}", make)


def _table(i: Inputs, name: str) -> Any:
    return i.keep(f"table_{name}", lambda: pa.table({"k": _keys(i, name), "x": i.arrow}))


def _by_column(values: Values, width: int) -> Values:
    """Sort the results of each column: groups have no order."""
    return np.sort(np.asarray(values).reshape(-1, width), axis=0).reshape(-1)


def _ours(name: str) -> Callable[[Inputs], Call]:
    def make(i: Inputs) -> Call:
        column: Any = ra.col("x")
        table, mean = _table(i, name), column.mean(axis=0)
        return lambda: ra.group_by(table, "k").aggregate(m=mean)["m"]

    return make


def _sorted_means(x: Values, keys: Values) -> Values:
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sums = np.add.reduceat(x[order], starts, axis=0)
    lengths = np.diff(np.r_[starts, len(keys)])
    means: Values = sums / lengths[:, None].astype(x.dtype)
    return means


def _answer(name: str) -> Callable[[Inputs], Answer]:
    def answer(i: Inputs) -> Answer:
        keys = _keys(i, name)
        ref = _by_column(_sorted_means(i.x.astype("f8"), keys), i.width)
        n = int(np.bincount(keys).max())
        return Answer(ref, 2, n, float(np.abs(i.x).max()), partial(_by_column, width=i.width))

    return answer


def _lengths(i: Inputs) -> Values:
    def make() -> Values:
        rng = np.random.default_rng(7)
        lengths = rng.integers(SHORTEST, LONGEST + 1, i.rows // SHORTEST)
        ends = np.cumsum(lengths)
        kept = lengths[: np.searchsorted(ends, i.rows)]
        return np.r_[kept, i.rows - kept.sum()] if kept.sum() < i.rows else kept

    return i.keep("lengths", make)


def _starts(i: Inputs) -> Values:
    starts: Values = np.r_[0, np.cumsum(_lengths(i))[:-1]]
    return starts


def _pool(i: Inputs) -> Call:
    offsets = np.r_[0, np.cumsum(_lengths(i))]
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), i.arrow)
    return lambda: ra.pool(lists, "mean")


def _pooled(x: Values, starts: Values, lengths: Values) -> Values:
    means: Values = np.add.reduceat(x, starts, axis=0) / lengths[:, None].astype(x.dtype)
    return means


def _pool_answer(i: Inputs) -> Answer:
    # Some columns at a time: the whole in float64 would be twice the data.
    starts, lengths = _starts(i), _lengths(i)
    parts = [
        _pooled(i.x[:, c : c + 32].astype("f8"), starts, lengths) for c in range(0, i.width, 32)
    ]
    ref = np.concatenate(parts, axis=1).reshape(-1)
    return Answer(ref, 2, LONGEST, float(np.abs(i.x[:1000]).max()) * 4)


def _results(name: str) -> Callable[[Cell], int]:
    return lambda cell: (KEYS[name] or cell.rows) * cell.width


def group_functions() -> dict[str, Function]:
    """Give every function of the suite."""
    table = {
        name: Function("group_by", _ours(name), _answer(name), _results(name)) for name in KEYS
    }
    few = (SHORTEST + LONGEST) // 2
    table[POOL] = Function("pool", _pool, _pool_answer, lambda cell: cell.elements // few)
    return table


def numpy_group_jobs() -> Jobs:
    """Give NumPy's way: rows sorted by key, and ``np.add.reduceat``."""

    def job(name: str) -> Maker:
        return lambda i: partial(_sorted_means, i.x, _keys(i, name))

    def pool(i: Inputs) -> Call:
        return partial(_pooled, i.x, _starts(i), _lengths(i))

    return {name: job(name) for name in KEYS} | {POOL: pool}


def add_at_jobs() -> Jobs:
    """Give NumPy's other way: ``np.add.at``."""

    def means(x: Values, keys: Values, count: int) -> Values:
        sums = np.zeros((count, x.shape[1]), x.dtype)
        np.add.at(sums, keys, x)
        made: Values = sums / np.bincount(keys, minlength=count)[:, None].astype(x.dtype)
        return made

    def job(name: str) -> Maker:
        return lambda i: partial(means, i.x, _keys(i, name), min(KEYS[name] or i.rows, i.rows))

    return {name: job(name) for name in KEYS}


def polars_group_jobs() -> Jobs:
    """Give polars' way: one row for each element, grouped by key and place."""
    pl = import_module("polars")

    def job(name: str) -> Maker:
        def make(i: Inputs) -> Call | None:
            if i.x.size > EXPLODED:
                return None
            frame = i.keep(f"polars_{name}", lambda: pl.from_arrow(_table(i, name)))
            places = pl.lit(pl.Series(range(i.width), dtype=pl.Int32)).implode()
            exploded = frame.lazy().with_columns(i=places).explode("x", "i")
            means = exploded.group_by("k", "i").agg(pl.col("x").mean()).sort("k", "i")
            return lambda: means.collect()["x"]

        return make

    return {name: job(name) for name in KEYS}


def loop_jobs() -> Jobs:
    """Give the loop over lists that people write."""

    def pool(i: Inputs) -> Call:
        starts, lengths = _starts(i).tolist(), _lengths(i).tolist()

        def loop() -> Values:
            pairs = zip(starts, lengths, strict=True)
            return np.stack([i.x[start : start + n].mean(axis=0) for start, n in pairs])

        return loop

    return {POOL: pool}


def plain_jobs(*, hashing: bool) -> Jobs:
    """Give one mean of all rows, which groups cannot beat; and the dictionary of the keys."""

    def job(name: str) -> Maker:
        def make(i: Inputs) -> Call:
            mean = partial(ra.mean, i.arrow, axis=0)
            if not hashing:
                return mean
            keys = _table(i, name)["k"]
            return lambda: (pc.dictionary_encode(keys), mean())

        return make

    return {name: job(name) for name in KEYS}
