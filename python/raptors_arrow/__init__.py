"""Numeric kernels on Arrow columns of vectors, seen as matrices.

A column of ``FixedSizeList<float>`` is a matrix. The functions here compute on it in place, from
pyarrow, polars, NumPy and anything else with the Arrow PyCapsule methods, and give back the kind
of object that went in.

Examples
--------
>>> import pyarrow as pa
>>> import raptors_arrow as ra
>>> emb = pa.array([[1.0, 2.0], None, [3.0, 6.0]], pa.list_(pa.float32(), 2))
>>> ra.mean(emb, axis=0).to_pylist()
[2.0, 4.0]
>>> ra.scale(emb, 10).to_pylist()
[[10.0, 20.0], None, [30.0, 60.0]]
"""

from typing import TYPE_CHECKING, Any

from raptors_arrow import _native
from raptors_arrow._native import *  # noqa: F403
from raptors_arrow._native import __version__ as __version__
from raptors_arrow._on_import import when_imported
from raptors_arrow._warn import warn
from raptors_arrow.errors import (
    RaptorsError,
    RaptorsMemoryError,
    RaptorsOverflowError,
    RaptorsTypeError,
    RaptorsValueError,
    RaptorsWarning,
    RaptorsZeroDivisionError,
)
from raptors_arrow.expr import Expr, col, lazy
from raptors_arrow.expr import length as len
from raptors_arrow.groups import GroupBy, MergedStates, group_by, merge_states
from raptors_arrow.ragged import pool
from raptors_arrow.shape import pack, pad, truncate, unpack
from raptors_arrow.stream import select, with_columns

if TYPE_CHECKING:
    from raptors_arrow import polars, pyarrow
    from raptors_arrow.engines import daft as daft
    from raptors_arrow.engines import datafusion as datafusion
    from raptors_arrow.engines import duckdb as duckdb
    from raptors_arrow.engines import ray as ray
    from raptors_arrow.engines import spark as spark

__all__ = [
    "Expr",
    "GroupBy",
    "MergedStates",
    "RaptorsError",
    "RaptorsMemoryError",
    "RaptorsOverflowError",
    "RaptorsTypeError",
    "RaptorsValueError",
    "RaptorsWarning",
    "RaptorsZeroDivisionError",
    "__version__",
    "col",
    "group_by",
    "lazy",
    "len",
    "merge_states",
    "pack",
    "pad",
    "polars",
    "pool",
    "pyarrow",
    "select",
    "truncate",
    "unpack",
    "with_columns",
]
__all__ += _native.__all__
# `from raptors_arrow import *` leaves Python's own functions alone. One by one, for type checkers.
__all__.remove("abs")
__all__.remove("len")
__all__.remove("max")
__all__.remove("min")
__all__.remove("round")
__all__.remove("sum")

# Not among `__all__`: a star import would need all of them to be installed.
_ENGINES = ("daft", "datafusion", "duckdb", "ray", "spark")

if not TYPE_CHECKING:  # or type checkers would take any name

    def __getattr__(name: str) -> Any:
        # The modules for other libraries are imported when they are used.
        folder = "raptors_arrow.engines" if name in _ENGINES else "raptors_arrow"
        if name in ("polars", "pyarrow", *_ENGINES):
            from importlib import import_module

            return import_module(f"{folder}.{name}")
        raise AttributeError(f"module 'raptors_arrow' has no attribute {name!r}")


def __dir__() -> list[str]:
    # Without what this file needs for itself.
    public = {*__all__, *_native.__all__, *_ENGINES, "len"}
    return sorted({*public, *(name for name in globals() if name[:2] == "__")})


# A profile that cannot be used changes no result, only speed: a warning, once.
if (_problem := _native._profile_warning()) is not None:
    warn(_problem)

# `pl.col("emb").raptors` is there as soon as both packages are, in whichever order.
when_imported("polars", "raptors_arrow.polars", has=("Expr", "Series", "api"))
