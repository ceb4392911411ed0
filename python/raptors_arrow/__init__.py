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

import warnings
from typing import TYPE_CHECKING, Any

from raptors_arrow import _native
from raptors_arrow._native import *  # noqa: F403
from raptors_arrow._native import __version__ as __version__
from raptors_arrow._on_import import when_imported
from raptors_arrow.errors import (
    RaptorsError,
    RaptorsMemoryError,
    RaptorsOverflowError,
    RaptorsTypeError,
    RaptorsValueError,
    RaptorsWarning,
    RaptorsZeroDivisionError,
)

if TYPE_CHECKING:
    from raptors_arrow import polars, pyarrow

__all__ = [
    "RaptorsError",
    "RaptorsMemoryError",
    "RaptorsOverflowError",
    "RaptorsTypeError",
    "RaptorsValueError",
    "RaptorsWarning",
    "RaptorsZeroDivisionError",
    "__version__",
    "polars",
    "pyarrow",
]
__all__ += _native.__all__


def __getattr__(name: str) -> Any:
    # The rooms for other libraries are imported when they are used.
    if name in ("polars", "pyarrow"):
        from importlib import import_module

        return import_module(f"raptors_arrow.{name}")
    raise AttributeError(f"module 'raptors_arrow' has no attribute {name!r}")


# A profile that cannot be used changes no result, only speed: a warning, once.
if (_problem := _native._profile_warning()) is not None:
    warnings.warn(_problem, RaptorsWarning, stacklevel=2)

# `pl.col("emb").raptors` is there as soon as both packages are, in whichever order.
when_imported("polars", "raptors_arrow.polars")
