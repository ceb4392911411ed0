"""Every kind of input with every kind of output, as the table of the guide says: type,
names, index, nulls, and memory that is shared, not copied."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import raptors_arrow as ra

ROWS = [[1.0, 2.0], [3.0, 5.0], [4.0, 8.0]]
FIXED = pa.array(ROWS, pa.list_(pa.float64(), 2))
LISTS = pa.array(ROWS)
DATA = {"a": [1.0, 3.0, 4.0], "b": [2.0, 5.0, 8.0]}
INDEX = ["x", "y", "z"]
ARROW = pd.ArrowDtype(FIXED.type)


class Foreign:
    """Arrow data of a library that nobody knows."""

    def __init__(self, data):
        self.data = data

    def __arrow_c_array__(self, requested_schema=None):
        return self.data.__arrow_c_array__(requested_schema)


# What goes in: the object, and the kinds of what comes out of elementwise functions and transforms,
# of one number per row, of one per column, and of every two columns.
LIKE = {
    "pyarrow fixed-size lists": (FIXED, pa.Array, pa.Array, pa.Array, pa.Array),
    "pyarrow lists": (LISTS, pa.Array, pa.Array, pa.Array, pa.Array),
    "pyarrow large lists": (LISTS.cast(pa.large_list(pa.float64())), *[pa.Array] * 4),
    "pandas frame of several types": (
        pd.DataFrame({"a": [1, 3, 4], "b": DATA["b"]}, index=INDEX),
        pd.DataFrame,
        pd.Series,
        pd.Series,
        pd.DataFrame,
    ),
    "pyarrow chunks": (
        pa.chunked_array([FIXED[:1], FIXED[1:]]),
        pa.ChunkedArray,
        pa.ChunkedArray,
        pa.Array,
        pa.ChunkedArray,
    ),
    "pyarrow table": (pa.table(DATA), pa.Table, pa.ChunkedArray, pa.Array, pa.Table),
    "pyarrow batch": (
        pa.RecordBatch.from_pydict(DATA),
        pa.RecordBatch,
        pa.Array,
        pa.Array,
        pa.RecordBatch,
    ),
    "pyarrow table of vectors": (
        pa.table({"emb": FIXED}),
        pa.Table,
        pa.ChunkedArray,
        pa.Array,
        pa.Array,
    ),
    "polars array": (pl.Series("emb", ROWS, pl.Array(pl.Float64, 2)), *[pl.Series] * 4),
    "polars list": (pl.Series("emb", ROWS), *[pl.Series] * 4),
    "polars frame": (pl.DataFrame(DATA), pl.DataFrame, pl.Series, pl.Series, pl.DataFrame),
    "polars frame of vectors": (
        pl.DataFrame({"emb": pl.Series(ROWS, dtype=pl.Array(pl.Float64, 2))}),
        pl.DataFrame,
        pl.Series,
        pl.Series,
        pl.Series,
    ),
    "pandas frame": (
        pd.DataFrame(DATA, index=INDEX),
        pd.DataFrame,
        pd.Series,
        pd.Series,
        pd.DataFrame,
    ),
    "pandas vectors": (
        pd.Series(ROWS, index=INDEX, name="emb", dtype=ARROW),
        *[pd.Series] * 4,
    ),
    "pandas objects": (pd.Series(ROWS, index=INDEX, name="emb"), *[pd.Series] * 4),
    "NumPy C": (np.array(ROWS), *[np.ndarray] * 4),
    "NumPy Fortran": (np.asfortranarray(ROWS), *[np.ndarray] * 4),
    "NumPy strided": (np.repeat(ROWS, 2, axis=0)[::2], *[np.ndarray] * 4),
    "NumPy masked": (np.ma.masked_array(ROWS), *[np.ndarray] * 4),
    "matrix": (ra.as_matrix(FIXED), *[ra.Matrix] * 4),
    "another library": (Foreign(FIXED), *[ra.Matrix] * 4),
    "buffer": (
        memoryview(np.array(ROWS)),
        *[ra.Matrix] * 4,
    ),
}
CASES = pytest.mark.parametrize(
    ("x", "like", "per_row", "per_column", "square"), LIKE.values(), ids=LIKE
)


def numbers(result):
    """The numbers of any result, as a NumPy array."""
    return ra.as_matrix(result).to_numpy()


@CASES
def test_a_result_is_of_the_kind_of_its_input(x, like, per_row, per_column, square):
    dense = np.array(ROWS)
    for result, wanted in (
        (ra.scale(x, 2), 2 * dense),
        (ra.add(x, [1.0, 2.0]), dense + np.array([1.0, 2.0])),
        (ra.subtract(1.0, x), 1.0 - dense),
        (ra.center(x, axis=0), ra.center(dense, axis=0)),
        (ra.normalize(x), ra.normalize(dense)),
    ):
        assert isinstance(result, like)
        assert np.array_equal(numbers(result), wanted)
    sums, means = ra.sum(x, axis=1), ra.mean(x, axis=0)
    assert isinstance(sums, per_row) and numbers(sums).ravel().tolist() == [3.0, 8.0, 12.0]
    assert isinstance(means, per_column) and numbers(means).ravel().tolist() == [8 / 3, 5.0]
    assert isinstance(ra.dot(x, [1.0, 0.0]), per_row)
    products = ra.gram(x)
    assert isinstance(products, square)
    assert np.array_equal(numbers(products), dense.T @ dense)
    assert ra.sum(x) == 23.0 and type(ra.sum(x)) is float


@CASES
def test_names_and_index_come_back(x, like, per_row, per_column, square):
    result = ra.scale(x, 2)
    if isinstance(x, pa.Table | pa.RecordBatch):
        assert result.schema == x.schema
    elif isinstance(x, pl.DataFrame):
        assert result.schema == x.schema
    elif isinstance(x, pl.Series):
        assert (result.name, result.dtype) == (x.name, x.dtype)
        assert ra.sum(x, axis=1).name == x.name
    elif isinstance(x, pd.DataFrame):
        assert list(result.columns) == list(x.columns) and list(result.index) == INDEX
        assert list(ra.sum(x, axis=1).index) == INDEX
        assert list(ra.mean(x, axis=0).index) == list(x.columns)
        assert list(ra.gram(x).index) == list(ra.gram(x).columns) == list(x.columns)
    elif isinstance(x, pd.Series):
        assert result.name == x.name and list(result.index) == INDEX
        assert list(ra.sum(x, axis=1).index) == INDEX
    elif isinstance(x, pa.Array | pa.ChunkedArray):
        assert result.type == x.type
    elif isinstance(x, np.ndarray):
        assert result.flags["F_CONTIGUOUS"] == x.flags["F_CONTIGUOUS"]


# The kinds that are seen where they are, by what the guide's table says.
SHARED = {name: x for name, (x, *_) in LIKE.items() if name not in ("pandas objects",)}


@pytest.mark.parametrize("x", SHARED.values(), ids=SHARED)
def test_what_is_seen_is_not_copied(x):
    def first(value):
        """The address of the first number."""
        if isinstance(value, np.ndarray | memoryview):
            return np.asarray(value).__array_interface__["data"][0]
        if isinstance(value, pd.DataFrame):
            return value.iloc[:, 0].to_numpy().__array_interface__["data"][0]
        if isinstance(value, pd.Series):
            value = value.array.__arrow_array__()
        if isinstance(value, Foreign):
            value = value.data
        if isinstance(value, pa.Table | pa.RecordBatch | pl.DataFrame):
            value = pa.table(value).column(0)
        if isinstance(value, pl.Series | ra.Matrix):
            value = pa.chunked_array(value)
        if isinstance(value, pa.ChunkedArray):
            value = value.chunk(0)
        while isinstance(value, pa.FixedSizeListArray | pa.ListArray | pa.LargeListArray):
            value = value.flatten()
        if isinstance(value, pa.StructArray):
            value = value.field(0)
        return value.buffers()[1].address

    matrix = ra.as_matrix(x)
    if matrix.copied is None:
        assert first(matrix) == first(x)
    else:
        assert "tile by tile" in matrix.copied


NULLS = [[1.0, None], None, [4.0, 8.0]]
NULL_ROWS = {
    "pyarrow": pa.array(NULLS, pa.list_(pa.float64(), 2)),
    "pyarrow lists": pa.array(NULLS),
    "polars": pl.Series("e", NULLS, pl.Array(pl.Float64, 2)),
    "pandas": pd.Series(pa.array(NULLS, FIXED.type), dtype=ARROW),
    "matrix": ra.as_matrix(pa.array(NULLS, FIXED.type)),
}


@pytest.mark.parametrize("x", NULL_ROWS.values(), ids=NULL_ROWS)
def test_nulls_come_back_where_they_were(x):
    doubled = ra.as_matrix(ra.scale(x, 2))
    assert [None if row is None else list(row) for row in doubled] == [
        [2.0, None],
        None,
        [8.0, 16.0],
    ]
    assert list(ra.as_matrix(ra.sum(x, axis=1))) == [1.0, None, 12.0]
    assert list(ra.as_matrix(ra.mean(x, axis=0))) == [2.5, 8.0]
