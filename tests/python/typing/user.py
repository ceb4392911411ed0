"""A user's script with every kind of input, for type checkers: nothing runs it.

``assert_type`` names the type that a checker must infer.
"""

import array
from typing import assert_type

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa

import raptors_arrow as ra
from raptors_arrow.polars import ExprNamespace, SeriesNamespace, col

doubles: npt.NDArray[np.float64] = np.ones((3, 2))
whole: npt.NDArray[np.int64] = np.ones((3, 2), dtype=np.int64)
series = pl.Series("emb", [[1.0, 2.0]], dtype=pl.Array(pl.Float64, 2))
frame = pl.DataFrame({"a": [1.0], "b": [2.0]})

# What comes back is what went in.
assert_type(ra.scale(doubles, 2.0), npt.NDArray[np.float64])
assert_type(ra.add(whole, whole), npt.NDArray[np.int64])
assert_type(ra.normalize(series), pl.Series)
assert_type(ra.scale(frame, 2), pl.DataFrame)
assert_type(ra.scale(ra.as_matrix(doubles), 2.0), ra.Matrix)
assert_type(ra.scale(memoryview(b"12345678"), 2), ra.Matrix)

# Every kind of input is taken.
ra.sum(np.ma.masked_array(doubles, mask=False))
ra.sum(array.array("d", [1.0, 2.0]))
ra.sum(bytearray(16))
ra.mean(pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), axis=0)
ra.mean(pa.chunked_array([[1.0]]), axis=1)
ra.mean(pa.table({"a": [1.0]}), axis=0)
ra.mean(pd.DataFrame({"a": [1.0]}), axis=0)
ra.norm(pd.Series([[1.0, 2.0]]), axis=1)
ra.norm(pl.Series([1.0, 2.0]))

# Numbers of all kinds, and operands.
ra.scale(doubles, np.float32(2))
ra.scale(doubles, 2)
ra.scale(doubles, pa.scalar(2.0))
ra.add(doubles, np.array([1.0, 2.0]), axis=1)
ra.add(doubles, [1, 2])
ra.dot(doubles, (1.0, 2.0))
ra.dot(doubles, pa.array([[1.0, 2.0]])[0])
ra.top_k(doubles, [1.0, 2.0], k=1)
assert_type(ra.subtract(1.0, series), pl.Series)
assert_type(ra.divide(1, doubles), npt.NDArray[np.float64])
ra.clip(doubles, 0.0, None)
ra.cast(doubles, "float32")
ra.cast(doubles, np.float32)
ra.cast(doubles, pl.Float32)

# A matrix is a sequence of rows that every library takes.
matrix = ra.as_matrix(doubles)
assert_type(matrix[1:], ra.Matrix)
assert_type(len(matrix), int)
assert_type(matrix == matrix[:], bool)
rows: list[object] = list(matrix)
view: npt.NDArray[np.float64] = np.asarray(matrix)
both: tuple[pa.Array, pl.Series] = (matrix.to_pyarrow(), matrix.to_polars())
ra.sum(matrix, axis=-1)

# Results.
assert_type(ra.count(doubles), int)
assert_type(ra.list_functions(), list[str])
assert_type(ra.explain("sum", doubles).threads, int)
nearest = ra.top_k(doubles, doubles[0], k=2, metric="l2")
assert_type(nearest, ra.TopK)
indices: npt.NDArray[np.int64] = nearest.indices
try:
    ra.sum(doubles, axis=0)
except ra.RaptorsValueError as error:
    text: str = str(error)

# polars' own stubs know no registered namespaces: `col` is `pl.col` with ours.
assert_type(col("emb").raptors.mean(axis=1), pl.Expr)
assert_type(ExprNamespace(pl.col("emb")).multiply(pl.col("w")), pl.Expr)
assert_type(SeriesNamespace(series).scale(2.0), pl.Series)
assert_type(SeriesNamespace(series).top_k([1.0, 2.0], k=1), ra.TopK)
assert_type(SeriesNamespace(series).mean(axis=0), pl.Series)
