"""The same matrix as each kind of object that the functions take."""

from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa


def fixed(values: np.ndarray, rows=None, elements=None) -> pa.FixedSizeListArray:
    """A FixedSizeList column; ``rows`` and ``elements`` say what is valid."""
    height, width = values.shape
    mask = None if elements is None else ~elements.reshape(-1)
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), mask=mask)
    nulls = None if rows is None else pa.array(~rows)
    if width == 0:
        return pa.array([[]] * height, pa.list_(flat.type, 0))
    return pa.FixedSizeListArray.from_arrays(flat, width, mask=nulls)


def listed(values: np.ndarray, large: bool) -> pa.Array:
    height, width = values.shape
    kind = pa.LargeListArray if large else pa.ListArray
    offsets = np.arange(height + 1, dtype="i8" if large else "i4") * width
    return kind.from_arrays(pa.array(offsets), pa.array(values.reshape(-1)))


def sliced(values: np.ndarray) -> pa.Array:
    fill = np.nan if values.dtype.kind == "f" else np.iinfo(values.dtype).max
    garbage = np.full((3, values.shape[1]), fill, values.dtype)
    return fixed(np.concatenate([garbage, values, garbage]))[3:-3]


def chunked(values: np.ndarray) -> pa.ChunkedArray:
    cuts = sorted({0, len(values) // 7, len(values) // 2, len(values)})
    return pa.chunked_array(
        [fixed(values[a:b]) for a, b in pairwise(cuts)],
        type=pa.list_(pa.from_numpy_dtype(values.dtype), values.shape[1]),
    )


def tensor(values: np.ndarray) -> pa.Array:
    return pa.FixedShapeTensorArray.from_numpy_ndarray(values)


def columns(values: np.ndarray) -> dict[str, np.ndarray]:
    return {f"c{i}": np.ascontiguousarray(values[:, i]) for i in range(values.shape[1])}


FORMS = {
    "FixedSizeList": fixed,
    "sliced": sliced,
    "chunked": chunked,
    "List": lambda values: listed(values, large=False),
    "LargeList": lambda values: listed(values, large=True),
    "tensor": tensor,
    "polars Series": lambda values: pl.Series("emb", values),
    "NumPy C order": np.ascontiguousarray,
    "NumPy Fortran order": np.asfortranarray,
    "NumPy strided": lambda values: np.repeat(values, 2, axis=0)[::2],
    "RecordBatch": lambda values: pa.record_batch(columns(values)),
    "Table": lambda values: pa.table(columns(values)),
    "polars DataFrame": lambda values: pl.DataFrame(columns(values)),
}


def values_of(result) -> np.ndarray:
    """Any result as a NumPy array, nulls as NaN."""
    if result is None or isinstance(result, float | int):
        return np.array(np.nan if result is None else result)
    if isinstance(result, tuple):
        return np.concatenate([values_of(one).astype("f8").reshape(-1) for one in result])
    if isinstance(result, np.ma.MaskedArray):
        return result.astype("f8").filled(np.nan)
    if isinstance(result, np.ndarray):
        return result
    if isinstance(result, pl.DataFrame | pl.Series):
        return result.to_numpy()
    if isinstance(result, pa.Table | pa.RecordBatch):
        return np.stack([values_of(column) for column in result.columns], axis=1)
    if isinstance(result, pa.ChunkedArray):
        parts = [values_of(chunk) for chunk in result.chunks]
        return np.concatenate(parts) if parts else np.zeros(0)
    if isinstance(result, pa.ExtensionArray):
        result = result.storage
    if isinstance(result, pa.FixedSizeListArray | pa.ListArray | pa.LargeListArray):
        rows = [[np.nan if v is None else v for v in row] for row in result.to_pylist() if row]
        element = result.type.value_type
        has_no_nan = not pa.types.is_floating(element) and result.flatten().null_count > 0
        return np.array(rows, "f8" if has_no_nan else element.to_pandas_dtype())
    return result.to_numpy(zero_copy_only=False)
