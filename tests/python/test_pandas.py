"""Point 13: pandas objects are seen without their index, and results come back with it."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from calls import FLAGS, calls, numbers
from forms import fixed, values_of

import raptors_arrow as ra

ROWS = 6
#: Row labels of every kind: pandas' own, cut by a filter, twice the same, of two levels, of days.
INDEXES = {
    "default": pd.RangeIndex(ROWS),
    "filtered": pd.RangeIndex(2 * ROWS)[::2],
    "duplicate": pd.Index(list("abcabc"), name="k"),
    "MultiIndex": pd.MultiIndex.from_product([["x", "y"], [3, 1, 2]], names=["a", "b"]),
    "dates": pd.date_range("2026-01-31", periods=ROWS, freq="D")[::-1],
}
indexes = pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)

#: How a frame holds its numbers.
BACKENDS = {
    "NumPy": lambda frame: frame,
    "NumPy by rows": lambda frame: pd.DataFrame(
        np.ascontiguousarray(frame.to_numpy()), frame.index, frame.columns, copy=False
    ),
    "NumPy, columns apart": lambda frame: pd.DataFrame(
        {name: frame[name].to_numpy().copy() for name in frame}, frame.index, copy=False
    ),
    "nullable": lambda frame: frame.astype("Float64"),
    "Arrow": lambda frame: frame.astype(pd.ArrowDtype(pa.float64())),
}
backends = pytest.mark.parametrize("backend", BACKENDS)

#: How a column holds vectors.
VECTORS = {
    "lists": lambda values: pd.Series(values.tolist()),
    "tuples": lambda values: pd.Series([tuple(row) for row in values.tolist()]),
    "arrays": lambda values: pd.Series(list(values)),
    "Arrow fixed-size list": lambda values: arrow(fixed(values)),
    "Arrow list": lambda values: arrow(fixed(values).cast(pa.list_(pa.float64()))),
    "Arrow large list": lambda values: arrow(fixed(values).cast(pa.large_list(pa.float64()))),
    "Arrow chunks": lambda values: arrow(pa.chunked_array([fixed(values[:2]), fixed(values[2:])])),
    "Arrow tensor": lambda values: arrow(pa.FixedShapeTensorArray.from_numpy_ndarray(values)),
}
vectors = pytest.mark.parametrize("held", VECTORS)


def arrow(data: pa.Array | pa.ChunkedArray) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(data))


def frame_of(values: np.ndarray, backend: str = "NumPy", index=None) -> pd.DataFrame:
    columns = [f"c{i}" for i in range(values.shape[1])]
    return BACKENDS[backend](pd.DataFrame(np.asfortranarray(values), index, columns))


def rows_of(series: pd.Series) -> list:
    """The vectors of a column, `None` for a missing one."""
    return pa.array(series.array).to_pylist() if len(series) else []


def test_the_index_is_no_column():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    some = frame[frame.a != 2]
    assert ra.sum(some) == 14.0
    assert ra.sum(some, axis=0).to_dict() == {"a": 4.0, "b": 10.0}
    assert ra.as_matrix(some).shape == (2, 2)
    assert ra.sum(some["a"]) == 4.0


@indexes
@backends
def test_results_of_a_frame(index, backend):
    values = np.random.default_rng(1).standard_normal((ROWS, 3))
    frame = frame_of(values, backend, index)
    frame.columns = pd.Index(["a", "b", "a"], name="names")  # the same twice
    kind = {"nullable": "Float64", "Arrow": "double[pyarrow]"}.get(backend, "float64")
    assert [str(dtype) for dtype in frame.dtypes] == [kind] * 3

    rows = ra.normalize(frame)
    assert type(rows) is pd.DataFrame
    assert rows.index.equals(index) and rows.columns.identical(frame.columns)
    assert [str(dtype) for dtype in rows.dtypes] == [kind] * 3
    np.testing.assert_array_equal(rows.to_numpy("f8"), ra.normalize(values))

    for one in (ra.sum(frame, axis=1), ra.dot(frame, values[0]), ra.matmul(frame, values[0])):
        assert type(one) is pd.Series and one.name is None
        assert one.index.equals(index) and str(one.dtype) == kind
    np.testing.assert_array_equal(ra.sum(frame, axis=1).to_numpy("f8"), ra.sum(values, axis=1))

    column = ra.mean(frame, axis=0)
    assert type(column) is pd.Series and column.index.identical(frame.columns)
    np.testing.assert_array_equal(column.to_numpy("f8"), ra.mean(values, axis=0))

    assert ra.mean(frame) == ra.mean(values)

    square = ra.correlation(frame)
    assert square.index.identical(frame.columns) and square.columns.identical(frame.columns)
    np.testing.assert_array_equal(square.to_numpy(), ra.correlation(values))

    turned = ra.transpose(frame)
    assert turned.index.identical(frame.columns) and turned.columns.equals(index)
    np.testing.assert_array_equal(turned.to_numpy(), values.T)

    # The columns of a product are not those of x, though they may be as many.
    product = ra.matmul(frame, np.eye(3))
    assert product.index.equals(index) and list(product.columns) == [0, 1, 2]
    near = ra.pairwise(frame, frame, metric="l1")
    assert near.index.equals(index) and list(near.columns) == list(range(ROWS))


@indexes
@vectors
def test_results_of_a_column_of_vectors(index, held):
    values = np.random.default_rng(2).standard_normal((ROWS, 3))
    frame = pd.DataFrame({"id": np.arange(ROWS), "emb": VECTORS[held](values)})
    frame.index = index
    unit = ra.normalize(values)

    frame["n"] = ra.normalize(frame["emb"])
    assert isinstance(frame["n"].dtype, pd.ArrowDtype)
    assert rows_of(frame["n"]) == unit.tolist()
    assert ra.normalize(frame["emb"]).name == "emb"
    if held.startswith("Arrow"):
        assert frame["n"].dtype == frame["emb"].dtype

    # What is filtered or sorted stays beside its row, and so does what is made of it.
    for part in (frame[frame["id"] % 2 == 1], frame.sort_values("id", ascending=False)):
        assert rows_of(part["n"]) == unit[part["id"]].tolist()
        part = part.assign(twice=ra.scale(part["emb"], 2))
        assert rows_of(part["twice"]) == (2 * values[part["id"]]).tolist()
        assert part["twice"].index.equals(part.index)

    norms = ra.norm(frame["emb"], axis=1)
    assert type(norms) is pd.Series and norms.name == "emb" and norms.index.equals(index)
    assert str(norms.dtype) == ("double[pyarrow]" if held.startswith("Arrow") else "float64")
    np.testing.assert_array_equal(norms.to_numpy("f8"), ra.norm(values, axis=1))

    mean = ra.mean(frame["emb"], axis=0)
    assert type(mean) is pd.Series and mean.name == "emb"
    assert isinstance(mean.index, pd.RangeIndex) and len(mean) == 3
    np.testing.assert_array_equal(mean.to_numpy("f8"), ra.mean(values, axis=0))
    assert ra.mean(frame["emb"]) == ra.mean(values)

    square = ra.covariance(frame["emb"])
    assert isinstance(square.index, pd.RangeIndex)
    assert rows_of(square) == ra.covariance(values).tolist()
    product = ra.matmul(frame["emb"], np.eye(3))
    assert product.index.equals(index) and rows_of(product) == values.tolist()


@vectors
def test_a_frame_of_one_column_of_vectors_is_that_column(held):
    values = np.arange(6.0).reshape(3, 2) + 1
    frame = pd.DataFrame({("emb", 1): VECTORS[held](values)})
    frame.index = list("xyz")
    unit = ra.normalize(frame)
    assert type(unit) is pd.DataFrame and unit.columns.equals(frame.columns)
    assert unit.index.equals(frame.index)
    assert rows_of(unit.iloc[:, 0]) == ra.normalize(values).tolist()
    norms = ra.norm(frame, axis=1)
    assert type(norms) is pd.Series and list(norms.index) == list("xyz")
    assert list(ra.sum(frame, axis=0)) == [9.0, 12.0]
    assert ra.sum(frame) == 21.0
    assert rows_of(ra.gram(frame)) == ra.gram(values).tolist()


@backends
@pytest.mark.parametrize("name", ra.list_functions())
def test_every_function_of_a_frame_gives_what_it_gives_numpy(name, backend):
    values = numbers((ROWS, 4), "f8", name)
    frame = frame_of(values, backend, INDEXES["MultiIndex"])
    for rest, options in calls(name, values):
        expected = getattr(ra, name)(values, *rest, **options)
        got = getattr(ra, name)(frame, *rest, **options)
        compare(name, got, expected)
        if isinstance(got, pd.DataFrame | pd.Series) and len(got) == ROWS:
            assert got.index.equals(frame.index)


@vectors
@pytest.mark.parametrize("name", ra.list_functions())
def test_every_function_of_a_column_of_vectors_gives_what_it_gives_numpy(name, held):
    values = numbers((ROWS, 4), "f8", name)
    series = VECTORS[held](values).rename("emb")
    series.index = INDEXES["dates"]
    for rest, options in calls(name, values):
        expected = getattr(ra, name)(values, *rest, **options)
        got = getattr(ra, name)(series, *rest, **options)
        compare(name, got, expected)
        if isinstance(got, pd.Series):
            assert got.name == "emb"
            assert len(got) != ROWS or got.index.equals(series.index)


def compare(name, got, expected):
    if isinstance(expected, tuple):
        for one, other in zip(got, expected, strict=True):
            assert isinstance(one, pd.Series | pd.DataFrame)
            np.testing.assert_array_equal(one.to_numpy("f8", na_value=np.nan), values_of(other))
        return
    if name in FLAGS:
        compare_flags(got, expected)
        return
    if isinstance(got, pd.Series) and isinstance(got.dtype, pd.ArrowDtype):
        got = pa.chunked_array(ra.as_matrix(got))
        if isinstance(got.type, pa.BaseExtensionType):
            got = pa.chunked_array([chunk.storage for chunk in got.chunks])
        got = np.array(got.to_pylist(), "f8")
    elif isinstance(got, pd.Series | pd.DataFrame):
        got = got.to_numpy("f8")
    else:
        assert type(got) is type(expected)
    # Products may be added in another order where the layout is another.
    same = np.testing.assert_allclose if name in PRODUCTS else np.testing.assert_array_equal
    same(got, expected)


def compare_flags(got, expected):
    """Flags are no numbers, of which a matrix could be made."""
    if isinstance(got, pd.DataFrame):
        assert set(map(str, got.dtypes)) <= FLAG_TYPES
        flags = got.to_numpy(bool).tolist()
    else:
        assert "bool" in str(got.dtype)
        flags = rows_of(got)
    assert expected.dtype == np.bool_ and flags == expected.tolist()


FLAG_TYPES = {"bool", "boolean", "bool[pyarrow]"}


PRODUCTS = {"matmul", "pairwise", "gram", "covariance", "correlation"}


def test_every_column_type():
    whole = np.array([[1, 2], [3, 4]])
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
        frame = pd.DataFrame(whole.astype(dtype))
        doubled = ra.scale(frame, 2)
        assert list(doubled.dtypes) == [np.dtype(dtype)] * 2
        assert doubled.to_numpy().tolist() == [[2, 4], [6, 8]]
        series = ra.scale(frame[1], 2)
        assert series.dtype == np.dtype(dtype) and series.name == 1
        held = pd.ArrowDtype(pa.from_numpy_dtype(np.dtype(dtype)))
        assert ra.scale(frame.astype(held), 2)[0].dtype == held
        if dtype != "f2":  # of which pandas has none with a mask
            name = {"i": "Int", "u": "UInt", "f": "Float"}[dtype[0]] + str(8 * int(dtype[1]))
            assert str(ra.scale(frame.astype(name), 2)[0].dtype) == name


# Nulls


def test_missing_values_of_nullable_columns_are_null():
    whole = pd.DataFrame(
        {"a": pd.array([1, None, 2**62 + 1], "Int64"), "b": pd.array([4, 5, None], "Int64")},
        index=[7, 7, 8],
    )
    assert ra.count(whole) == 4
    assert list(ra.sum(whole, axis=1)) == [5, 5, 2**62 + 1]
    same = ra.multiply(whole, 1)
    pd.testing.assert_frame_equal(same, whole)
    assert list(ra.sum(whole, axis=1, skip_nulls=False).isna()) == [False, True, True]
    assert str(ra.sum(whole, axis=1).dtype) == "Int64"
    assert str(ra.mean(whole, axis=0).dtype) == "Float64"
    turned = ra.transpose(whole)
    assert turned.loc["a"].isna().tolist() == [False, True, False]
    assert turned.iloc[0, 2] == 2**62 + 1  # no float in between
    series = pd.Series([1.5, None], dtype="Float64", name="s")
    pd.testing.assert_series_equal(
        ra.scale(series, 2), pd.Series([3.0, None], None, "Float64", "s")
    )
    assert ra.sum(series) == 1.5


def test_missing_values_of_arrow_columns_are_null():
    kind = pd.ArrowDtype(pa.int64())
    frame = pd.DataFrame({"a": [1, None], "b": [2, 3]}, dtype=kind)
    assert ra.count(frame) == 3
    pd.testing.assert_frame_equal(ra.scale(frame, 1), frame)
    series = pd.Series([1, None], dtype=kind)
    pd.testing.assert_series_equal(ra.scale(series, 2), pd.Series([2, None], dtype=kind))


@pytest.mark.parametrize("held", ["Int64", "int64[pyarrow]"])
def test_flags_of_missing_values_are_missing(held):
    frame = pd.DataFrame({"a": [1, None], "b": [2, 3]}, dtype=held, index=[7, 8])
    kind = {"Int64": "boolean"}.get(held, "bool[pyarrow]")
    flags = pd.DataFrame({"a": [False, None], "b": [True, True]}, dtype=kind, index=[7, 8])
    pd.testing.assert_frame_equal(ra.greater(frame, 1), flags)
    pd.testing.assert_series_equal(ra.greater(frame["a"], 1), flags["a"])
    missing = pd.DataFrame({"a": [False, True], "b": [False, False]}, dtype=kind, index=[7, 8])
    pd.testing.assert_frame_equal(ra.is_null(frame), missing)
    pd.testing.assert_frame_equal(ra.fill_null(frame, 5), frame.fillna(5))


def test_nan_of_numpy_columns_is_a_number():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": [3.0, 4.0]})
    assert np.isnan(ra.sum(frame))
    assert ra.count(frame) == 4
    assert ra.sum(frame, axis=0).isna().tolist() == [True, False]
    nan = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([1.0, np.nan])))
    assert np.isnan(ra.sum(nan))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=repr)
def test_missing_vectors_are_null_rows_and_nan_inside_of_one_is_a_number(missing):
    for row in ([3.0, 4.0], (3.0, 4.0), np.array([3.0, 4.0])):
        series = pd.Series([missing, row, [1.0, np.nan]], index=[1, 1, 2], dtype=object)
        unit = ra.normalize(series)
        assert rows_of(unit)[:2] == [None, [0.6, 0.8]]
        assert np.isnan(rows_of(unit)[2]).all()
        assert np.isnan(ra.norm(series, axis=1).iloc[[0, 2]]).all()
        assert ra.as_matrix(series).null_rows == 1


def test_columns_without_a_row_that_says_what_they_hold():
    for series in (pd.Series([None, None], dtype=object), pd.Series([], dtype=object)):
        unit = ra.normalize(series)
        assert isinstance(unit.dtype, pd.ArrowDtype) and len(unit) == len(series)
        assert unit.isna().all()
    some = pd.Series([[3.0, 4.0], None])
    assert len(ra.normalize(some[:0])) == 0


def test_null_results_of_plain_columns():
    frame = pd.DataFrame({"a": [0.0, 3.0], "b": [0.0, 4.0]})
    unit = ra.normalize(frame)  # a zero vector has no direction
    assert unit.iloc[0].isna().all() and unit.iloc[1].tolist() == [0.6, 0.8]
    places = ra.argmin(frame, axis=1, min_count=3)
    assert places.isna().all() and str(places.dtype) == "Int64"
    with_null = pa.array([1, None], pa.int64())
    whole = ra.add(pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=list("xy")), with_null)
    assert list(whole.dtypes.astype(str)) == ["Int64", "Int64"]
    assert whole["a"].tolist() == [2, 3] and whole["b"].isna().all()


# Shapes


def test_empty_frames():
    rows = pd.DataFrame({"a": [], "b": []}, dtype="f8")
    assert ra.sum(rows) is None
    assert ra.sum(rows, axis=0, min_count=0).to_dict() == {"a": 0.0, "b": 0.0}
    assert ra.scale(rows, 2).shape == (0, 2)
    columns = pd.DataFrame(index=[5, 6])
    assert ra.sum(columns, axis=1, min_count=0).to_dict() == {5: 0.0, 6: 0.0}
    assert ra.scale(columns, 2).shape == (2, 0) and list(ra.scale(columns, 2).index) == [5, 6]


def test_plain_numbers_of_a_width():
    series = pd.Series(np.arange(6.0), index=list("abcdef"), name="s")
    doubled = ra.scale(series, 2, width=3)
    assert doubled.index.equals(series.index) and doubled.name == "s"
    # Fewer results than rows are not theirs.
    means = ra.mean(series, axis=1, width=3)
    assert isinstance(means.index, pd.RangeIndex) and means.tolist() == [1.0, 4.0]
    with pytest.raises(ra.RaptorsValueError, match="width 3, got width 2"):
        ra.mean(pd.DataFrame(np.ones((2, 2))), width=3)


def test_second_operands_of_pandas():
    values = np.arange(6.0).reshape(3, 2) + 1
    frame = pd.DataFrame(values, index=[2, 0, 1], columns=["a", "b"])
    centred = ra.subtract(frame, ra.mean(frame, axis=0))
    np.testing.assert_array_equal(centred, values - values.mean(axis=0))
    assert centred.index.equals(frame.index)
    scaled = ra.divide(frame, ra.norm(frame, axis=1), axis=0)
    np.testing.assert_array_equal(scaled, ra.normalize(values))
    # By place: the index does not move rows.
    turned = frame[::-1]
    np.testing.assert_array_equal(ra.subtract(frame, turned), values - values[::-1])
    assert ra.dot(frame["a"], frame["b"]) == 44.0
    series = pd.Series(values.tolist(), index=frame.index)
    assert ra.dot(series, frame).tolist() == ra.dot(values, values).tolist()
    # Of the library of x.
    assert type(ra.add(values, frame)) is np.ndarray
    assert isinstance(ra.add(fixed(values), pd.Series([1.0, 2.0])), pa.Array)
    plain = ra.top_k(values, frame, k=1)
    assert type(plain.indices) is np.ndarray


def test_top_k_gives_places_for_iloc():
    values = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    frame = pd.DataFrame(values, index=list("xyz"), columns=["a", "b"])
    series = arrow(fixed(values)).set_axis(frame.index)
    for x in (frame, series, frame.astype("Float64")):
        one = ra.top_k(x, np.array([1.0, 0.1]), k=2)
        assert [part.name for part in one] == ["indices", "scores"]
        assert one.indices.dtype == np.int64 and one.scores.dtype == np.float64
        assert list(frame.iloc[one.indices].index) == ["x", "z"]
        many = ra.top_k(x, values, k=2)
        assert type(many.indices) is pd.DataFrame and many.indices.shape == (3, 2)
        assert many.indices[0].tolist() == [0, 1, 2]
        assert many.scores.shape == (3, 2)


# What is refused


def test_refused_columns_are_named():
    frame = pd.DataFrame({"a": [1.0], "name": ["x"], "day": pd.to_datetime(["2026-01-01"])})
    with pytest.raises(
        ra.RaptorsTypeError, match="sum: expected x to have columns of numbers"
    ) as e:
        ra.sum(frame)
    assert "'name' (" in str(e.value) and "'day' (datetime64" in str(e.value)
    assert "'a'" not in str(e.value) and "select_dtypes" in str(e.value)
    assert ra.sum(frame.select_dtypes("number")) == 1.0

    for emb in (pd.Series([[1.0, 2.0]]), arrow(pa.array([[1.0, 2.0]]))):
        frame = pd.DataFrame({"id": [1], "emb": emb})
        with pytest.raises(ra.RaptorsTypeError, match=r"vectors in 'emb' beside 'id'.*x\['emb'\]"):
            ra.mean(frame, axis=0)

    mixed = pd.DataFrame({"a": [1.0], "b": [1], "c": [2.0]})
    assert ra.sum(mixed) == 4.0
    assert ra.scale(mixed, 2).dtypes.tolist() == [np.dtype("f8")] * 3

    many = pd.DataFrame({f"c{i}": ["x"] for i in range(30)})
    with pytest.raises(ra.RaptorsTypeError, match="'c7' .*, 22 more;"):
        ra.sum(many)
    with pytest.raises(ra.RaptorsTypeError, match="add: expected y to have columns of numbers"):
        ra.add(np.ones((1, 2)), many)


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(["x"]),
        pd.Series(["x"], dtype=object),
        pd.Series([1.0, 2.0], dtype="category"),
        pd.Series(pd.to_datetime(["2026-01-01"])),
        pd.Series([{"a": 1}]),
        pd.Series([1.0], dtype=pd.SparseDtype("f8")),
        pd.Series(["x"], dtype=pd.ArrowDtype(pa.string())),
        pd.Series([[["x"]]]),
        pd.Series([np.ones((2, 2))]),
        pd.Series([[1.0], "x"]),
        pd.Series([[1 + 2j]]),
        pd.Series([1j]),
    ],
    ids=lambda series: f"{series.dtype} {series.iloc[0]!r}",
)
def test_columns_that_are_no_numbers_are_refused_by_type(series):
    with pytest.raises(ra.RaptorsTypeError, match="sum: expected"):
        ra.sum(series)


def test_numbers_in_python_objects():
    series = pd.Series([1.5, None, 2], dtype=object, index=list("xyz"))
    assert ra.sum(series) == 3.5
    assert ra.scale(series, 2).to_dict()["z"] == 4.0
    # Among columns they are none of numbers: pandas does not know them as such either.
    for frame in (series.to_frame("o"), pd.DataFrame({"a": 1.0, "o": series})):
        with pytest.raises(ra.RaptorsTypeError, match=r"columns of numbers, got 'o' \(object\)"):
            ra.sum(frame)


def test_ragged_lists_are_refused():
    with pytest.raises(ra.RaptorsValueError, match="row 1 has 1"):
        ra.sum(pd.Series([[1.0, 2.0], [3.0]]), axis=0)


# What is copied


def pointers(x) -> list[int]:
    """Where the columns of a matrix lie, or its rows."""
    data = pa.chunked_array(ra.as_matrix(x)).chunk(0)
    parts = data.flatten() if isinstance(data, pa.StructArray) else [data]
    parts = [part.flatten() if pa.types.is_nested(part.type) else part for part in parts]
    return [part.buffers()[1].address + part.offset * part.type.byte_width for part in parts]


def test_one_array_is_seen_in_place():
    by_rows = np.arange(1000.0).reshape(-1, 4)
    frame = pd.DataFrame(by_rows, copy=False)
    assert pointers(frame) == [by_rows.ctypes.data]
    assert pointers(frame[10:20]) == [by_rows[10:].ctypes.data]
    by_columns = np.asfortranarray(by_rows)
    frame = pd.DataFrame(by_columns, copy=False)
    assert pointers(frame) == [by_columns[:, i].ctypes.data for i in range(4)]
    # Rows cut out of columns: each of these still lies in one piece.
    assert pointers(frame[10:20]) == [by_columns[10:, i].ctypes.data for i in range(4)]
    assert ra.explain("sum", frame[10:20]).copied is None
    assert ra.as_matrix(frame).copied is None


def test_columns_apart_are_seen_each_by_itself():
    columns = {name: np.arange(10.0) for name in "abc"}
    frame = pd.DataFrame(columns, copy=False)
    assert pointers(frame) == [column.ctypes.data for column in columns.values()]
    frame = pd.DataFrame({"a": np.arange(4.0), "b": np.arange(4.0)})
    frame["c"] = np.ones(4)
    assert pointers(frame) == [frame[name].to_numpy().ctypes.data for name in frame]


def test_series_are_seen_in_place():
    values = np.arange(10.0)
    assert pointers(pd.Series(values, copy=False)) == [values.ctypes.data]
    data = fixed(np.arange(20.0).reshape(-1, 2))
    assert pointers(arrow(data)) == pointers(data)
    held = pd.array(values, "Float64")
    held[3] = pd.NA
    assert pointers(pd.Series(held, copy=False)) == [held._data.ctypes.data]
    frame = pd.DataFrame({"a": pa.array(values), "b": pa.array(values)}).astype("double[pyarrow]")
    assert pointers(frame) == [p for name in frame for p in pointers(frame[name])]


def test_results_are_views_of_the_memory_they_were_computed_in():
    frame = pd.DataFrame(np.ones((1 << 15, 4)))
    before = ra.pool_stats().used_bytes
    doubled = ra.scale(frame, 2)
    assert ra.pool_stats().used_bytes - before >= 1 << 20
    del doubled
    assert ra.pool_stats().used_bytes == before


def test_python_objects_are_copied_in_pieces_and_explain_says_so():
    long = np.ones(1 << 20, "f4")
    series = pd.Series([long, None, long, long])
    # A piece for each row of this length: Ctrl-C is heard in between.
    assert ra.as_matrix(series).num_chunks == 4
    assert "Python objects" in ra.explain("sum", series).copied
    assert ra.sum(series) == 3 << 20
    # Pieces of which one has whole numbers only: what holds both is their type.
    whole = [1] * (1 << 20)
    mixed = pd.Series([whole, [0.5] * (1 << 20)])
    assert ra.sum(mixed, axis=1).tolist() == [1 << 20, 1 << 19]


# Imports


def run(code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


def test_pandas_is_never_imported_by_us():
    run(
        "import sys, numpy as np, raptors_arrow as ra\n"
        "from array import array\n"
        "assert ra.sum(np.ones(3)) == ra.sum(array('d', [1, 1, 1])) == 3\n"
        "try: ra.sum(object())\n"
        "except TypeError: pass\n"
        "assert 'pandas' not in sys.modules and 'pyarrow' not in sys.modules\n"
    )


def test_another_module_of_that_name_is_left_alone():
    run(
        "import sys, types\n"
        "sys.modules['pandas'] = types.ModuleType('pandas')\n"
        "import raptors_arrow as ra\n"
        "from array import array\n"
        "assert ra.sum(array('d', [1, 2])) == 3\n"
    )


def test_numbers_need_no_pyarrow_and_vectors_say_that_they_do():
    run(
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "import pandas as pd, raptors_arrow as ra\n"
        "frame = pd.DataFrame({'a': [1.0, 2.0], 'b': [3.0, 5.0]}, index=[4, 5])\n"
        "assert ra.mean(frame, axis=1).to_dict() == {4: 2.0, 5: 3.5}\n"
        "assert list(ra.covariance(frame).columns) == ['a', 'b']\n"
        "assert ra.normalize(frame).shape == (2, 2)\n"
        "assert ra.top_k(frame, frame, k=1).indices.shape == (2, 1)\n"
        "for x in (pd.Series([[1.0]]), pd.Series([1], dtype='Int64')):\n"
        "    try:\n"
        "        ra.sum(x)\n"
        "        raise SystemExit('no error')\n"
        "    except ImportError as error:\n"
        "        assert 'raptors-arrow[pyarrow]' in str(error), error\n"
    )
