"""Choices, running sums, bounds per column, and numbers that stand first."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import raptors_arrow as ra

X = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
NULLS = pa.array([[1.0, None], None, [3.0, -4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2))

arrays = hnp.arrays(
    st.sampled_from(["f4", "f8", "i1", "u2", "i8"]).map(np.dtype),
    st.tuples(st.integers(0, 9), st.integers(1, 5)),
    elements={"min_value": 0, "max_value": 100},
)


@settings(max_examples=60, deadline=None)
@given(arrays, st.randoms(use_true_random=False))
def test_where_is_numpys(x, random):
    condition = np.array([[random.random() < 0.5 for _ in row] for row in x], bool)
    condition = condition.reshape(x.shape)
    y = x[::-1].copy()
    for values in ((x, y), (x, x.dtype.type(7)), (3, y)):
        got = ra.where(condition, *values)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, np.where(condition, *values).astype(x.dtype))
    by_columns = np.asfortranarray(condition)
    np.testing.assert_array_equal(ra.where(by_columns, x, y), np.where(condition, x, y))
    numbers = condition.astype("f4") * np.nan if condition.all() else condition.astype("f4")
    np.testing.assert_array_equal(ra.where(numbers, x, y), np.where(numbers, x, y))


def test_where_of_plain_numbers_and_vectors():
    assert ra.where(X > 0, 1, 0).dtype == np.int64
    assert ra.where(X > 0, 1.0, 0).dtype == np.float64
    rows = np.array([True, False])
    np.testing.assert_array_equal(ra.where(rows, X, 0.0, axis=0), [X[0], [0, 0, 0]])
    columns = np.array([True, False, True])
    np.testing.assert_array_equal(ra.where(columns, X, -X), np.where(columns, X, -X))
    np.testing.assert_array_equal(ra.where(rows, X[:, 0], 9.0), [1.0, 9.0])
    np.testing.assert_array_equal(ra.where(X > 0, X, [7, 8, 9]), np.where(X > 0, X, [7, 8, 9]))


def test_where_and_nulls():
    condition = pa.array([[True, False], [True, True], None, [None, True]], pa.list_(pa.bool_(), 2))
    got = ra.where(condition, NULLS, 0.0)
    assert got.type == NULLS.type
    # The second row is null as a whole: all that it chooses is of a null row.
    assert got.to_pylist() == [[1.0, 0.0], None, None, [None, 6.0]]
    other = pa.array([[10.0, 20.0]] * 4, NULLS.type)
    half = pa.array([[True, False]] * 4, condition.type)
    assert ra.where(half, NULLS, other).to_pylist() == [
        [1.0, 20.0],
        [None, 20.0],
        [3.0, 20.0],
        [5.0, 20.0],
    ]
    whole = pa.chunked_array([condition, condition])
    twice = ra.where(whole, pa.chunked_array([NULLS, NULLS]), 0.0)
    assert twice.to_pylist() == 2 * got.to_pylist()
    # What lies under nulls does not leave.
    assert ra.where(condition, 5, 6).flatten().to_pylist() == [5, 6, 5, 5, None, 5]


def test_where_refuses_what_does_not_fit():
    with pytest.raises(ra.RaptorsTypeError, match="where: expected y of int64, got float64"):
        ra.where(X > 0, X.astype("i8"), X)
    with pytest.raises(ra.RaptorsValueError, match="where: expected x of width 3, got width 2"):
        ra.where(X > 0, [1.0, 2.0], 0.0)
    with pytest.raises(ra.RaptorsOverflowError, match="where: .*300"):
        ra.where(X > 0, X.astype("u1"), 300)
    with pytest.raises(ra.RaptorsTypeError, match="where: "):
        ra.where(True, X, 0.0)


def test_where_in_polars_and_expressions():
    frame = pl.DataFrame(
        {
            "e": pl.Series([[1.0, -2.0], None, [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2)),
            "b": [True, True, False],
            "v": [10.0, 20.0, 30.0],
        }
    )
    positive = pl.col("e").raptors.greater(0)
    query = frame.lazy().select(
        floor=positive.raptors.where(pl.col("e"), 0.0),
        rows=pl.col("b").raptors.where(pl.col("e"), 0.0),
        plain=pl.col("b").raptors.where(pl.col("v"), -1.0),
        flags=positive.raptors.where(1, 0),
    )
    assert query.collect_schema() == {
        "floor": pl.Array(pl.Float32, 2),
        "rows": pl.Array(pl.Float32, 2),
        "plain": pl.Float64,
        "flags": pl.Array(pl.Int64, 2),
    }
    for engine in ("in-memory", "streaming"):
        got = query.collect(engine=engine)
        assert got["floor"].to_list() == [[1.0, 0.0], None, [3.0, 4.0]]
        assert got["rows"].to_list() == [[1.0, -2.0], None, [0.0, 0.0]]
        assert got["plain"].to_list() == [10.0, 20.0, -1.0]
        assert got["flags"].to_list() == [[1, 0], None, [1, 1]]
    series = frame["e"].raptors.greater(0).raptors.where(frame["e"], 0.0)
    assert series.to_list() == [[1.0, 0.0], None, [3.0, 4.0]]

    table = pa.table({"e": NULLS, "w": [1.0, 2.0, 3.0, 4.0]})
    e = ra.col("e")
    made = ra.with_columns(
        table, floor=(e > 0).where(e, 0.0), rows=(ra.col("w") > 2).where(e, -1.0)
    )
    assert made["floor"].to_pylist() == [[1.0, None], None, [3.0, 0.0], [5.0, 6.0]]
    assert made["rows"].to_pylist() == [[-1.0, -1.0], [-1.0, -1.0], [3.0, -4.0], [5.0, 6.0]]


@settings(max_examples=60, deadline=None)
@given(arrays, st.integers(1, 4), st.sampled_from([0, 1]))
def test_cumsum_is_numpys(x, pieces, axis):
    expected = np.cumsum(x.astype("f8") if x.dtype.kind == "f" else x, axis=axis)
    expected = expected.astype(x.dtype) if x.dtype.kind == "f" else expected
    for form in (x, np.asfortranarray(x), x[:, ::-1][:, ::-1]):
        got = ra.cumsum(form, axis=axis)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    cuts = np.array_split(x, pieces)
    type = pa.list_(pa.from_numpy_dtype(x.dtype), x.shape[1])
    column = pa.chunked_array([pa.array(cut.tolist(), type) for cut in cuts])
    assert ra.cumsum(column, axis=axis).to_pylist() == expected.tolist()


def test_cumsum_passes_nulls_over():
    assert ra.cumsum(NULLS).to_pylist() == [[1.0, None], None, [4.0, -4.0], [9.0, 2.0]]
    assert ra.cumsum(NULLS, axis=1).to_pylist() == [[1.0, None], None, [3.0, -1.0], [5.0, 11.0]]
    assert str(ra.cumsum(np.array([-0.0, -0.0]))[0]) == "-0.0"
    with pytest.raises(ra.RaptorsOverflowError, match="cumsum: integer overflow in row 2"):
        ra.cumsum(np.array([2**62, 2**62 - 1, 1]))
    with pytest.raises(ra.RaptorsTypeError, match="cumsum: option axis: expected 0 .*got None"):
        ra.cumsum(X, axis=None)
    assert ra.cumsum(np.ones((0, 3))).shape == (0, 3)
    assert ra.cumsum(np.ones((3, 0)), axis=1).shape == (3, 0)


@pytest.mark.parametrize("threads", [1, 3])
def test_cumsum_has_the_same_bits_for_any_threads(threads):
    x = np.random.default_rng(3).standard_normal((50_000, 7)).astype("f4")
    before = ra.get_num_threads()
    ra.set_num_threads(threads)
    try:
        for axis in (0, 1):
            expected = np.cumsum(x.astype("f8"), axis=axis).astype("f4")
            for form in (x, np.asfortranarray(x)):
                np.testing.assert_array_equal(ra.cumsum(form, axis=axis), expected)
    finally:
        ra.set_num_threads(before)


def test_clip_with_a_bound_for_each_column():
    for low, high in (([0, -1, 2], [2, 4, 9]), ([0.5, 0, 0], None), (None, [1, 1, 1])):
        np.testing.assert_array_equal(ra.clip(X, low, high), np.clip(X, low, high))
    np.testing.assert_array_equal(ra.clip(X, np.zeros(3), 4), np.clip(X, np.zeros(3), 4))
    np.testing.assert_array_equal(ra.clip(X, [0, None, None])[:, 1:], X[:, 1:])
    small = np.array([[1, 200]], "u1")
    np.testing.assert_array_equal(ra.clip(small, [None, 100], [0, None]), [[0, 200]])
    table = pa.table({"a": [1, 5], "b": [7, None]})
    assert ra.clip(table, [2, 0], [4, 5]).to_pydict() == {"a": [2, 4], "b": [5, None]}
    frame = pl.DataFrame({"e": pl.Series(X)})
    clipped = frame.lazy().select(pl.col("e").raptors.clip([0, 0, 0], [1, 2, 3])).collect()["e"]
    np.testing.assert_array_equal(clipped.to_numpy(), np.clip(X, [0, 0, 0], [1, 2, 3]))
    with pytest.raises(ra.RaptorsValueError, match="clip: expected min of width 3, got width 2"):
        ra.clip(X, [0, 1])
    with pytest.raises(ra.RaptorsValueError, match="clip: option min: expected None, a number"):
        ra.clip(X, [0, float("nan"), 1])


def test_numbers_stand_first_too():
    np.testing.assert_array_equal(ra.power(2.0, X), np.power(2.0, X))
    np.testing.assert_array_equal(ra.power(2, np.array([[1, 2], [3, 4]])), [[2, 4], [8, 16]])
    names = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
    for name in names:
        np.testing.assert_array_equal(getattr(ra, name)(3, X), getattr(np, name)(3, X))
    table = pa.table({"e": NULLS})
    assert ra.select(table, s=(2 ** ra.col("e")).sum())["s"].to_pylist() == [106.0625]


@pytest.mark.parametrize(
    "metric", ["l2", "euclidean", "sqeuclidean", "dot", "ip", "l1", "cityblock"]
)
def test_metrics_by_the_names_of_others(metric):
    own = {"euclidean": "l2", "ip": "dot", "cityblock": "l1"}.get(metric, metric)
    base = "l2" if own == "sqeuclidean" else own
    power = 2 if own == "sqeuclidean" else 1
    expected = ra.pairwise(X, metric=base) ** power
    np.testing.assert_allclose(ra.pairwise(X, metric=metric), expected, rtol=1e-12)
    nearest, wanted = (ra.top_k(X, X[0], 2, metric=name) for name in (metric, base))
    assert nearest.indices.tolist() == wanted.indices.tolist()
    np.testing.assert_allclose(nearest.scores, wanted.scores**power, rtol=1e-12)
