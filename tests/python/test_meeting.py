"""Types that meet: mixed tables, yes and no, ``dtype=``, and dimensions that are kept."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import raptors_arrow as ra

MIXED = pa.table(
    {
        "a": pa.array([1, None, -3, 4], pa.int8()),
        "b": pa.array([0.5, 1.5, 2.5, None], pa.float32()),
        "c": pa.array([7, 8, 9, 10], pa.uint16()),
    }
)
FLAGS = np.array([[True, False, True], [False, False, True]])


def dense(table):
    return np.column_stack([c.to_numpy(zero_copy_only=False).astype("f8") for c in table.columns])


@pytest.mark.parametrize("make", [lambda t: t, lambda t: t.to_batches()[0], pl.from_arrow])
def test_a_mixed_table_is_seen_in_its_common_type(make):
    x, wide = make(MIXED), dense(MIXED)
    assert ra.as_matrix(x).dtype == "float32"
    np.testing.assert_array_equal(ra.sum(x, axis=0), np.nansum(wide, axis=0))
    np.testing.assert_array_equal(ra.max(x, axis=1), np.nanmax(wide, axis=1))
    doubled = pa.table(ra.scale(x, 2))
    assert doubled.column_names == MIXED.column_names
    assert set(doubled.schema.types) == {pa.float32()}
    assert doubled.to_pydict() == {
        name: [None if v is None else 2.0 * v for v in MIXED[name].to_pylist()]
        for name in MIXED.column_names
    }
    added = pa.table(ra.add(x, 1))
    assert added["a"].to_pylist() == [2.0, None, -2.0, 5.0]
    assert ra.median(x) == np.float32(np.nanmedian(wide))
    # It goes back as it came.
    assert pa.table(ra.as_matrix(x)).equals(MIXED)


@pytest.mark.parametrize("names", ["i1 u1", "i4 u4", "u8 i8", "i2 f2", "i4 f4", "u1 u2 u8", "? i2"])
def test_common_types_are_numpys(names):
    types = [np.dtype(name) for name in names.split()]
    columns = [np.array([1, 0, 1]).astype(dtype) for dtype in types]
    table = pa.table({str(i): column for i, column in enumerate(columns)})
    assert np.dtype(ra.as_matrix(table).dtype) == np.result_type(*types)
    np.testing.assert_array_equal(
        ra.sum(table, axis=1).to_numpy(), sum(c.astype("f8") for c in columns)
    )
    total = ra.multiply(table, 1)
    assert np.dtype(ra.as_matrix(total).dtype) == np.result_type(*types)


def test_integers_of_mixed_columns_are_checked_in_the_common_type():
    table = pa.table({"a": pa.array([100, 30000], pa.int16()), "b": pa.array([1, 2], pa.uint8())})
    with pytest.raises(ra.RaptorsOverflowError, match="add: integer overflow in row 1.*int16"):
        ra.add(table, 10_000)
    assert ra.add(table, 1).schema.types == [pa.int16()] * 2
    sliced = table.slice(1)
    assert ra.sum(sliced) == 30002
    assert ra.cumsum(table, axis=1).to_pydict() == {"a": [100, 30000], "b": [101, 30002]}


def test_a_mixed_frame_of_pandas_and_its_stream():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "ok": [True, False]}, index=["x", "y"])
    assert ra.mean(frame, axis=0).to_dict() == {"a": 1.5, "b": 1.0, "ok": 0.5}
    scaled = ra.scale(frame, 2)
    assert scaled.index.tolist() == ["x", "y"] and scaled["ok"].tolist() == [2.0, 0.0]
    reader = MIXED.to_reader(max_chunksize=2)
    np.testing.assert_array_equal(ra.sum(reader, axis=0), ra.sum(MIXED, axis=0))


#: The same yes and no in every kind of object.
KINDS = {
    "numpy": FLAGS,
    "strided": np.repeat(FLAGS, 2, axis=1)[:, ::2],
    "fixed": pa.array(FLAGS.tolist(), pa.list_(pa.bool_(), 3)),
    "list": pa.array(FLAGS.tolist()),
    "table": pa.table({str(i): FLAGS[:, i] for i in range(3)}),
    "polars": pl.Series(FLAGS.tolist(), dtype=pl.Array(pl.Boolean, 3)),
    "frame": pl.DataFrame({str(i): FLAGS[:, i] for i in range(3)}),
    "pandas": pd.DataFrame(FLAGS),
    "nullable": pd.DataFrame(FLAGS).astype("boolean"),
    "result": ra.greater(FLAGS.astype("f4"), 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_yes_and_no_count_as_1_and_0(kind):
    x = KINDS[kind]
    assert (ra.sum(x), ra.count(x), ra.min(x), ra.max(x)) == (3, 6, 0, 1)
    assert ra.mean(x) == 0.5
    assert ra.median(x) == 0.5
    for axis in (0, 1):
        np.testing.assert_array_equal(np.asarray(ra.sum(x, axis=axis)), FLAGS.sum(axis=axis))
        np.testing.assert_array_equal(np.asarray(ra.argmax(x, axis=axis)), FLAGS.argmax(axis=axis))
    with pytest.raises(ra.RaptorsTypeError, match="normalize: expected numbers .*got bool"):
        ra.normalize(x)


def test_yes_and_no_with_nulls_and_offsets():
    column = pa.array([True, None, False, True, True], pa.bool_())
    assert (ra.sum(column), ra.count(column), ra.mean(column)) == (3, 4, 0.75)
    assert ra.sum(column.slice(1, 3)) == 1
    assert ra.sum(column, skip_nulls=False) is None
    frame = pl.DataFrame({"m": [[True, False], None, [True, True]], "k": [1, 1, 2]})
    got = frame.lazy().select(pl.col("m").raptors.mean(axis=1)).collect()["m"]
    assert got.to_list() == [0.5, None, 1.0]
    table = pa.table({"k": [1, 1, 2], "ok": [True, False, True]})
    grouped = ra.group_by(table, "k").aggregate(share=ra.col("ok").mean(axis=0))
    assert grouped["share"].to_pylist() == [0.5, 1.0]
    np.testing.assert_array_equal(
        ra.multiply(np.array([[2.0, 3.0, 4.0]] * 2), FLAGS), [[2, 0, 4], [0, 0, 4]]
    )


def test_dtype_is_the_type_that_x_is_seen_in():
    x = np.random.default_rng(1).standard_normal((500, 3)).astype("f4")
    wide = x.astype("f8")
    for name in ("sum", "mean", "var", "std", "norm"):
        function = getattr(ra, name)
        for axis in (None, 0, 1):
            got = function(x, axis=axis, dtype="float64")
            np.testing.assert_array_equal(got, function(wide, axis=axis))
    for name in ("normalize", "standardize", "center", "minmax_scale", "softmax", "cumsum"):
        got = getattr(ra, name)(x, dtype=np.float64)
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, getattr(ra, name)(wide))
    column = pa.chunked_array([x.tolist()[:200], x.tolist()[200:]], pa.list_(pa.float32(), 3))
    assert ra.sum(column, axis=0, dtype=pa.float64()).equals(
        ra.sum(pa.array(wide.tolist(), pa.list_(pa.float64(), 3)), axis=0)
    )
    total = ra.Accumulator("sum", axis=0, dtype="float64")
    total.update(x[:100])
    total.update(x[100:])
    np.testing.assert_array_equal(total.finish(), ra.sum(wide, axis=0))
    with pytest.raises(
        ra.RaptorsValueError, match="sum: option dtype: .*every float64, got float32"
    ):
        ra.sum(wide, dtype="float32")
    lazy = ra.lazy(x).scale(2).sum(axis=0, dtype="float64").collect()
    np.testing.assert_array_equal(lazy, ra.sum(ra.scale(x, 2).astype("f8"), axis=0))


def test_dimensions_are_kept():
    x = np.arange(6.0).reshape(2, 3)
    for axis in (None, 0, 1):
        for name in ("sum", "mean", "max", "std", "median"):
            expected = getattr(np, name)(x, axis=axis, keepdims=True)
            np.testing.assert_allclose(getattr(ra, name)(x, axis=axis, keepdims=True), expected)
    cube = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(
        ra.sum(cube, axis=0, keepdims=True), cube.sum(axis=0, keepdims=True)
    )
    column = pa.array(x.tolist(), pa.list_(pa.float64(), 3))
    assert ra.mean(column, axis=0, keepdims=True).to_pylist() == [[1.5, 2.5, 3.5]]
    assert ra.mean(column, axis=1, keepdims=True).to_pylist() == [[1.0], [4.0]]
    np.testing.assert_array_equal(
        ra.subtract(x, ra.mean(x, axis=1, keepdims=True)), x - x.mean(axis=1, keepdims=True)
    )
    table = pa.table({"a": [1.0, 3.0], "b": [2.0, 6.0]})
    assert ra.mean(table, axis=0, keepdims=True).to_pydict() == {"a": [2.0], "b": [4.0]}
    frame = ra.mean(pd.DataFrame({"a": [1.0, 3.0], "b": [2.0, 6.0]}), axis=0, keepdims=True)
    assert frame.to_dict("list") == {"a": [2.0], "b": [4.0]}
    with pytest.raises(ra.RaptorsValueError, match="keepdims: expected False for streams"):
        ra.Accumulator("sum", axis=0, keepdims=True)


@pytest.mark.parametrize("type", [pa.list_view(pa.float32()), pa.large_list_view(pa.float32())])
def test_list_views(type):
    rows = [[1.0, 2.0], None, [3.0, 4.0]]
    x = pa.array(rows, type)
    assert ra.sum(x, axis=1).to_pylist() == [3.0, None, 7.0]
    assert ra.scale(x, 2).to_pylist() == [[2.0, 4.0], None, [6.0, 8.0]]
    assert ra.sum(x.slice(1), axis=0).to_pylist() == [3.0, 4.0]
    assert ra.mean(pa.array([[1.0], [2.0, 4.0]], type), axis=1).to_pylist() == [1.0, 3.0]
    make = pa.ListViewArray if type == pa.list_view(pa.float32()) else pa.LargeListViewArray
    offset = pa.int32() if make is pa.ListViewArray else pa.int64()
    values = pa.array([1.0, 2.0, 3.0, 4.0], pa.float32())
    # Out of order, and one inside the other.
    turned = make.from_arrays(pa.array([2, 0, 1], offset), pa.array([2, 2, 2], offset), values)
    assert ra.sum(turned, axis=1).to_pylist() == [7.0, 3.0, 5.0]
    assert ra.mean(pa.table({"e": x}), axis=0).to_pylist() == [2.0, 3.0]


def test_lists_of_lists_of_one_shape():
    rows = [[[1.0, 2.0], [3.0, 4.0]], None, [[5.0, 6.0], [7.0, 8.0]]]
    for type in (
        pa.list_(pa.list_(pa.float32(), 2)),
        pa.list_(pa.list_(pa.float32())),
        pa.large_list(pa.large_list(pa.float32())),
    ):
        x = pa.array(rows, type)
        assert ra.sum(x, axis=1).to_pylist() == [10.0, None, 26.0]
        assert ra.scale(x, 2).to_pylist() == [
            [[2.0, 4.0], [6.0, 8.0]],
            None,
            [[10.0, 12.0], [14.0, 16.0]],
        ]
        chunked = pa.chunked_array([x.slice(1, 1), x])
        assert ra.mean(chunked, axis=0).to_pylist() == [3.0, 4.0, 5.0, 6.0]
        with pytest.raises(ra.RaptorsValueError, match="row 1 has 1"):
            ra.sum(pa.array([*rows[:1], [[1.0, 2.0]]], type))
    with pytest.raises(ra.RaptorsValueError, match="has 1"):
        ra.sum(pa.array([[[1.0, 2.0], [3.0]]]))
