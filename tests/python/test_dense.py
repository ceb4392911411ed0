"""Columns of lists without nulls, which go in and out by the shortest way.

The first call on a type reads it; only calls after it take that way. So each test calls twice.
"""

import gc

import numpy as np
import pyarrow as pa
import pytest

import raptors_arrow as ra


def lists(n: int, width: int, *, before: int = 0, dtype: str = "float32") -> pa.Array:
    """Lists of a type of its own, whose values begin `before` elements into their buffer."""
    values = pa.array(np.arange(before + n * width), type=dtype).slice(before)
    return pa.FixedSizeListArray.from_arrays(values, width)


def twice(x: pa.Array) -> list[pa.Array]:
    return [ra.scale(x, 2) for _ in range(2)]


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64"])
@pytest.mark.parametrize(("start", "stop"), [(0, 9), (2, 7), (4, 4), (8, 9)])
def test_slices_and_offsets(before: int, dtype: str, start: int, stop: int) -> None:
    x = lists(9, 3, before=before, dtype=dtype)[start:stop]
    expected = [[2 * value for value in row] for row in x.to_pylist()]
    for result in twice(x):
        result.validate(full=True)
        assert result.type == x.type
        assert result.to_pylist() == expected


def test_width_zero_and_no_rows() -> None:
    for x in [lists(0, 4), pa.array([[], []], pa.list_(pa.float32(), 0))]:
        for result in twice(x):
            result.validate(full=True)
            assert result.to_pylist() == x.to_pylist()


def test_nulls_take_the_long_way() -> None:
    x = pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float64(), 2))
    for part in [x, x[:1], x[1:], x[2:]]:
        expected = [row and [v and 2 * v for v in row] for row in part.to_pylist()]
        assert [result.to_pylist() for result in twice(part)] == [expected] * 2


def test_the_width_is_still_checked() -> None:
    x = lists(4, 3)
    ra.sum(x)
    assert ra.sum(x, width=3) == ra.sum(x)
    with pytest.raises(ValueError, match=r"sum: .*width"):
        ra.sum(x, width=2)


def test_results_outlive_their_input_and_their_values_outlive_them() -> None:
    n = 40_000
    x = lists(n, 8)
    values = twice(x)[1].values
    shared = ra.as_matrix(x)
    del x
    gc.collect()
    assert values.to_numpy().tolist() == (2 * np.arange(8 * n, dtype="float32")).tolist()
    assert ra.sum(shared) == np.float32(np.arange(8 * n).sum())


def test_buffers_go_back_to_the_pool() -> None:
    x = lists(40_000, 8)
    before = ra.pool_stats().used_bytes
    results = twice(x)
    assert ra.pool_stats().used_bytes >= before + 2 * 4 * 8 * 40_000
    children = [result.values for result in results]
    del results
    gc.collect()
    assert ra.pool_stats().used_bytes > before, "the values still use them"
    del children
    gc.collect()
    assert ra.pool_stats().used_bytes == before


def test_field_names_and_nullability_come_back() -> None:
    item = pa.field("element", pa.float32(), nullable=False)
    x = pa.array([[1.0, 2.0]], pa.list_(item, 2))
    for result in twice(x):
        assert result.type == x.type
        assert result.type.value_field.equals(item)
