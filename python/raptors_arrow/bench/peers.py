"""The peers: for each, the package to import and how its users would write each function.

A peer is a name, the package that must be there, and a function that gives its jobs: from the
name of a cell's function to a maker of the call. A maker gets the inputs and gives a callable, or
``None`` if the peer cannot take them. What is prepared in the maker is not timed. Bound methods
and partials are called without a Python frame, which counts in the overhead suite.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from raptors_arrow.bench.chains import jax_chains, numexpr_chains
from raptors_arrow.bench.engines import polars_queries
from raptors_arrow.bench.groups import (
    add_at_jobs,
    loop_jobs,
    numpy_group_jobs,
    plain_jobs,
    polars_group_jobs,
)
from raptors_arrow.bench.inputs import TOP, Inputs
from raptors_arrow.bench.nulls import dense_jobs, numpy_null_jobs
from raptors_arrow.bench.numpy_jobs import (
    AXES,
    REDUCTIONS,
    Call,
    Jobs,
    Maker,
    numpy_jobs,
    numpy_out_jobs,
)

__all__ = ["PEERS", "Jobs", "Peer", "by_name"]


@dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes
    ----------
    name
        What ``--peers`` and the results call it.
    package
        What must be installed.
    jobs
        Imports the package and gives the makers; asked once.
    read
        For a function, what makes its result ours, where the peer means something else by it.
    precision
        The type as precisely as which it computes, if not the type of the elements.
    checked
        Whether its results are compared with the answer.
    """

    name: str
    package: str
    jobs: Callable[[], Jobs]
    read: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    precision: str | None = None
    checked: bool = True

    @property
    def installed(self) -> bool:
        """Whether the package can be imported."""
        return find_spec(self.package) is not None


def _pyarrow() -> Jobs:
    pa, pc = import_module("pyarrow"), import_module("pyarrow.compute")

    def reduce(call: Callable[..., Any]) -> Maker:
        return lambda i: partial(call, i.flat)

    return {
        "sum": reduce(pc.sum),
        "mean": reduce(pc.mean),
        "min": reduce(pc.min),
        "max": reduce(pc.max),
        "scale": lambda i: partial(pc.multiply, i.flat, pa.scalar(i.factor, i.flat.type)),
        # pyarrow does not broadcast: it is given the row already repeated.
        "broadcast_add": lambda i: partial(pc.add, i.flat, i.tiled_flat),
    }


def _polars() -> Jobs:
    pl = import_module("polars")
    methods = {name: name for name in ("sum", "mean", "min", "max")}
    methods |= {"argmin": "arg_min", "argmax": "arg_max"}

    def column(i: Inputs) -> Any:
        return i.keep("polars", lambda: pl.Series("x", pl.from_arrow(i.arrow)))

    def flat(i: Inputs) -> Any:
        return i.keep("polars_flat", lambda: pl.Series("x", pl.from_arrow(i.flat)))

    def add(i: Inputs) -> Call:
        row = pl.Series("row", pl.from_arrow(i.arrow_of(i.row)))
        return partial(column(i).__add__, row)

    def scale(i: Inputs) -> Call:
        factor = pl.lit(i.factor, flat(i).dtype)  # a bare number would give float64
        return partial(column(i).to_frame().select, pl.col("x") * factor)

    def whole(method: str) -> Maker:
        return lambda i: getattr(flat(i), method)

    def by_row(method: str) -> Maker:
        return lambda i: getattr(column(i).arr, method)

    jobs = {name: whole(method) for name, method in methods.items()}
    jobs |= {f"{name}_axis1": by_row(method) for name, method in methods.items()}
    return jobs | {
        "broadcast_add": add,
        "scale": scale,
        "dot": lambda i: partial(column(i).arr.dot, pl.Series("y", pl.from_arrow(i.other_arrow))),
        **polars_group_jobs(),
    }


def _numexpr() -> Jobs:
    ne = import_module("numexpr")

    def job(expression: str, *parts: str) -> Maker:
        def make(i: Inputs) -> Call:
            factor = i.dtype.type(i.factor)  # a Python number would give float64
            values = {"x": i.x, "f": factor} | {part: getattr(i, part) for part in parts}
            return partial(ne.evaluate, expression, values)

        return make

    return {
        "sum": job("sum(x)"),
        "sum_axis0": job("sum(x, axis=0)"),
        "sum_axis1": job("sum(x, axis=1)"),
        "scale": job("x * f"),
        "broadcast_add": job("x + row", "row"),
        **numexpr_chains(),
    }


def _jax() -> Jobs:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)
    norm = jnp.linalg.norm

    def job(function: Callable[..., Any], *parts: str) -> Maker:
        def make(i: Inputs) -> Call:
            compiled = jax.jit(function)
            given = [
                i.keep(f"jax_{part}", lambda part=part: jax.device_put(getattr(i, part)))  # type: ignore[misc]
                for part in ("x", *parts)
            ]
            return lambda: jax.block_until_ready(compiled(*given))

        return make

    jobs = {
        name + suffix: job(lambda x, name=name, axis=axis: getattr(jnp, name)(x, axis=axis))
        for name in REDUCTIONS
        for suffix, axis in AXES.items()
    }
    return jobs | {
        "broadcast_add": job(lambda x, y: x + y, "row"),
        "scale": job(lambda x, f: x * f.astype(x.dtype), "factor"),
        "dot": job(lambda x, y: (x * y).sum(axis=1), "other"),
        "dot_vector": job(jnp.matmul, "row"),
        "cosine_similarity": job(lambda x, v: x @ v / (norm(x, axis=1) * norm(v)), "row"),
        "l2_distance": job(lambda x, v: norm(x - v, axis=1), "row"),
        "normalize": job(lambda x: x / norm(x, axis=1, keepdims=True)),
        "standardize": job(lambda x: (x - x.mean(axis=0)) / x.std(axis=0)),
        "softmax": job(lambda x: jax.nn.softmax(x, axis=1)),
        "std_axis0": job(lambda x: x.std(axis=0)),
        "norm_axis1": job(lambda x: norm(x, axis=1)),
        "top_k": job(lambda x, q: jax.lax.top_k(q @ x.T, TOP), "queries"),
        **jax_chains(),
    }


def _duckdb() -> Jobs:
    duckdb = import_module("duckdb")
    pa = import_module("pyarrow")
    widest = 100_000  # of DuckDB's arrays

    def database(i: Inputs) -> Any:
        connection = duckdb.connect()
        connection.register("flat", pa.table({"v": i.flat}))
        if i.width <= widest:
            connection.register("matrix", pa.table({"v": i.arrow}))
        return connection

    def job(query: Callable[[Inputs, str], str]) -> Maker:
        def make(i: Inputs) -> Call | None:
            sql = query(i, {"float32": "FLOAT", "float64": "DOUBLE"}[i.dtype.name])
            if i.width > widest and not sql.endswith("flat"):
                return None
            connection = i.keep("duckdb", lambda: database(i))
            return lambda: connection.sql(sql).to_arrow_table()

        return make

    def fixed(sql: str) -> Maker:
        return job(lambda i, kind: sql)

    def dot(i: Inputs, kind: str) -> str:
        both = pa.table({"v": i.arrow, "w": i.other_arrow})
        i.keep("duckdb", lambda: database(i)).register("pair", both)
        return "select array_inner_product(v, w) from pair"

    def cosine(i: Inputs, kind: str) -> str:
        row = f"{i.row.tolist()}::{kind}[{i.width}]"
        return f"select array_cosine_similarity(v, {row}) from matrix"

    names = {"sum": "sum", "mean": "avg", "min": "min", "max": "max"}
    jobs = {ours: fixed(f"select {theirs}(v) from flat") for ours, theirs in names.items()}
    jobs |= {
        f"{ours}_axis1": fixed(f"select list_{theirs}(v) from matrix")
        for ours, theirs in names.items()
    }
    return jobs | {
        "scale": job(lambda i, kind: f"select v * {i.factor!r}::{kind} from flat"),
        "dot": job(dot),
        "cosine_similarity": job(cosine),
    }


def _simsimd() -> Jobs:
    simsimd = import_module("simsimd")

    def many(metric: str, other: Callable[[Inputs], Any]) -> Maker:
        # As many threads as there are cores.
        return lambda i: partial(simsimd.cdist, i.x, other(i), metric, threads=0)

    return {
        "dot": lambda i: partial(simsimd.dot, i.x, i.other),
        "dot_vector": many("dot", lambda i: i.row[None]),
        "cosine_similarity": many("cosine", lambda i: i.row[None]),
        "l2_distance": many("euclidean", lambda i: i.row[None]),
        "pairwise": many("euclidean", lambda i: i.queries),
    }


#: All peers, in the order of the tables.
PEERS = (
    Peer("numpy", "numpy", lambda: {**numpy_jobs(), **numpy_null_jobs(), **numpy_group_jobs()}),
    Peer("numpy-out", "numpy", numpy_out_jobs),
    Peer("pyarrow", "pyarrow", _pyarrow),
    Peer("polars", "polars", _polars),
    Peer("numexpr", "numexpr", _numexpr),
    Peer("jax", "jax", _jax, {"top_k": lambda found: found[1]}),
    Peer("duckdb", "duckdb", _duckdb),
    Peer(
        "simsimd",
        "simsimd",
        _simsimd,
        {"cosine_similarity": lambda far: 1 - np.asarray(far)},
        precision="float32",  # reciprocal square roots are approximated
    ),
    Peer("without-nulls", "raptors_arrow", dense_jobs, checked=False),
    Peer("polars-lazy", "polars", polars_queries("in-memory")),
    Peer("polars-streaming", "polars", polars_queries("streaming")),
    Peer("numpy-add-at", "numpy", add_at_jobs),
    Peer("numpy-loop", "numpy", loop_jobs),
    Peer("without-groups", "raptors_arrow", partial(plain_jobs, hashing=False), checked=False),
    Peer("pass-and-hash", "raptors_arrow", partial(plain_jobs, hashing=True), checked=False),
)


def by_name(names: Sequence[str]) -> list[Peer]:
    """Look peers up; a name that is none is an error that lists them."""
    known = {peer.name: peer for peer in PEERS}
    for name in names:
        if name not in known:
            raise ValueError(f"--peers: expected some of {', '.join(known)}, got {name!r}")
    return [known[name] for name in names]
