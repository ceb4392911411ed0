"""Arrays at any strides, masks, lists with empty null rows, chunks that end inside a row."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raptors_arrow as ra

RNG = np.random.default_rng(5)
DENSE = RNG.random((37, 11))

STRIDED = {
    "every other row": DENSE[::2],
    "some columns": DENSE[:, 1:],
    "backwards": DENSE[::-1, ::-1],
    "a row for all": np.broadcast_to(DENSE[0], (9, 11)),
    "a column for all": np.broadcast_to(DENSE[:, :1], (37, 11)),
    "one number for all": np.broadcast_to(DENSE[0, 0], (70, 90)),
    "windows": np.lib.stride_tricks.sliding_window_view(DENSE.ravel(), 30),
    "many more columns than rows, by columns": np.asfortranarray(RNG.random((5, 1100))),
    "float32": DENSE.astype(np.float32)[::3, ::2],
    "float16": DENSE.astype(np.float16)[:, ::2],
    "int8": (100 * DENSE).astype(np.int8)[:, ::3],
    "not aligned": np.frombuffer(b"." + DENSE.tobytes(), np.uint8)[1:]
    .view(np.float64)
    .reshape(37, 11),
}
REDUCTIONS = ["sum", "mean", "min", "max", "count", "var", "std", "norm", "argmin", "argmax"]
TRANSFORMS = ["normalize", "standardize", "center", "minmax_scale", "softmax", "abs", "transpose"]


@pytest.mark.parametrize("name", STRIDED)
def test_an_array_at_any_strides_gives_the_bits_of_its_copy(name):
    x = STRIDED[name]
    copy = np.ascontiguousarray(x)
    for function in REDUCTIONS:
        for axis in (None, 0, 1):
            got, expected = (getattr(ra, function)(a, axis=axis) for a in (x, copy))
            np.testing.assert_array_equal(got, expected, f"{function} {axis}")
    for function in [*TRANSFORMS, "gram", "pairwise"]:
        np.testing.assert_array_equal(getattr(ra, function)(x), getattr(ra, function)(copy))
    half = np.ascontiguousarray(x // 2 if x.dtype.kind == "i" else x)
    np.testing.assert_array_equal(ra.subtract(x, half), ra.subtract(copy, half))
    np.testing.assert_array_equal(ra.subtract(half, x), ra.subtract(half, copy))
    np.testing.assert_array_equal(ra.dot(x, x), ra.dot(copy, copy))
    np.testing.assert_array_equal(ra.add(x, x[0, :] * 0), ra.add(copy, copy[0, :] * 0))
    assert ra.top_k(x, copy[:2], 3).indices.tolist() == ra.top_k(copy, copy[:2], 3).indices.tolist()
    assert pa.array(ra.as_matrix(x)).equals(pa.array(ra.as_matrix(copy)))


def test_one_dimension_at_any_stride_with_and_without_a_width():
    x = RNG.random(240)
    for strided in (x[::2], x[::-3], x[::-1][10:130:4]):
        copy = strided.copy()
        assert ra.sum(strided) == ra.sum(copy)
        got = ra.mean(strided, axis=1, width=5)
        np.testing.assert_array_equal(got, ra.mean(copy, axis=1, width=5))
        assert ra.dot(strided, copy) == ra.dot(copy, copy)
    with pytest.raises(ValueError, match="120 elements cannot be seen as rows of 7"):
        ra.sum(x[::2], width=7)


def test_a_matrix_with_more_columns_than_rows_is_seen_as_its_transpose():
    x = np.ones((300_000, 2))
    view = ra.as_matrix(x.T)
    assert view.shape == (2, 300_000) and view.num_chunks == 1
    # Not one Arrow array for each column.
    assert pa.array(view).type == pa.list_(pa.float64(), 300_000)
    assert ra.sum(x.T, axis=1).tolist() == [300_000.0] * 2


MASKED = np.ma.masked_array(DENSE, RNG.random(DENSE.shape) < 0.3)


@pytest.mark.parametrize(
    "x",
    [
        MASKED,
        MASKED[::2],
        MASKED[:, ::3],
        MASKED.T,
        np.ma.masked_array(DENSE),
        np.ma.masked_array(DENSE, np.broadcast_to(DENSE[0] < 0.5, DENSE.shape)),
        np.ma.masked_array(np.asfortranarray(DENSE), np.asfortranarray(MASKED.mask)),
        np.ma.masked_array(DENSE.astype(np.float32), MASKED.mask),
        np.ma.masked_array((9 * DENSE).astype(np.int16), MASKED.mask),
    ],
)
def test_masks_are_read_where_they_lie(x):
    for axis in (None, 0, 1):
        np.testing.assert_array_equal(ra.count(x, axis=axis), x.count(axis=axis))
        np.testing.assert_array_equal(ra.max(x, axis=axis), x.max(axis=axis))
        np.testing.assert_allclose(ra.mean(x, axis=axis), x.mean(axis=axis), rtol=1e-5)
    more = np.ma.asarray(ra.add(x, 1))
    assert np.ma.allclose(more, x + 1, rtol=1e-6) and more.count() == x.count()
    assert np.ma.allequal(ra.transpose(x), x.T)
    np.testing.assert_array_equal(np.ma.getmaskarray(ra.transpose(x)), np.ma.getmaskarray(x).T)


LISTS = pa.array([[1.0, 2.0], None, [3.0, 4.0], None, None, [5.0, None]])
ROOMY = pa.array([[1.0, 2.0], None, [3.0, 4.0], None, None, [5.0, None]], pa.list_(pa.float64(), 2))


@pytest.mark.parametrize("large", [False, True])
def test_null_rows_of_list_results_are_empty_lists(large):
    lists = LISTS.cast(pa.large_list(pa.float64())) if large else LISTS
    for x in (lists, ROOMY.cast(lists.type)):
        for result in (ra.add(x, 1.0), ra.normalize(x), ra.multiply(x, x), ra.cast(x, "float32")):
            result.validate(full=True)
            assert result.type.id == lists.type.id
            null = [i for i, row in enumerate(result.to_pylist()) if row is None]
            lengths = np.diff(result.offsets.to_numpy())
            assert null and all(lengths[i] == 0 for i in null)
            # Readers that go by the offsets and readers that go by the elements agree.
            assert len(pc.list_flatten(result)) == len(pc.list_parent_indices(result))
    assert ra.add(lists, 1.0).to_pylist() == [[2, 3], None, [4, 5], None, None, [6, None]]


def test_lists_with_empty_null_rows_give_the_bits_of_fixed_size_lists():
    for function in REDUCTIONS:
        for axis in (None, 0, 1):
            got, expected = (getattr(ra, function)(x, axis=axis) for x in (LISTS, ROOMY))
            assert got == expected if axis is None else got.equals(expected), function
    for function in TRANSFORMS:
        got, expected = (getattr(ra, function)(x).to_pylist() for x in (LISTS, ROOMY))
        assert got == expected, function
    assert ra.gram(LISTS).equals(ra.gram(ROOMY))
    assert ra.top_k(LISTS, np.ones(2), 9).indices.to_pylist() == [2, 0]


NO_ROW = pa.array([None, None], pa.list_(pa.float64()))


def test_a_list_column_without_a_valid_row_takes_the_width_that_is_asked_for():
    query = np.array([1.0, 2.0, 3.0])
    rows = pa.array([[1.0, 2.0], [3.0, 4.0]])
    for x in (NO_ROW, pa.chunked_array([NO_ROW]), NO_ROW.cast(pa.large_list(pa.float64()))):
        for function in ("dot", "cosine_similarity", "l2_distance", "l1_distance"):
            assert getattr(ra, function)(x, query).to_pylist() == [None, None]
            assert getattr(ra, function)(x, rows.cast(x.type)).to_pylist() == [None, None]
            assert getattr(ra, function)(rows, x.cast(rows.type)).to_pylist() == [None, None]
        assert ra.add(x, query).to_pylist() == [None, None]
        assert ra.add(x, rows).to_pylist() == [None, None]
        assert ra.add(rows, x).to_pylist() == [None, None]
        assert ra.matmul(x, np.eye(3)).to_pylist() == [None, None]
        assert ra.pairwise(x, rows).to_pylist() == [None, None]
        assert ra.pairwise(rows, x).to_pylist() == [[None, None]] * 2
        assert len(ra.top_k(x, query, 2).indices) == 0
        assert ra.normalize(x).to_pylist() == [None, None]
        assert ra.sum(x, axis=1).to_pylist() == [None, None] and ra.sum(x) is None
    empty = pa.array([], pa.list_(pa.float64()))
    assert ra.dot(empty, query).to_pylist() == [] and ra.add(empty, query).to_pylist() == []
    with pytest.raises(ValueError, match="width 0"):
        ra.dot(pa.array([[]], pa.list_(pa.float64())), query)


def test_chunks_without_a_valid_row_take_the_width_of_the_others():
    rows = pa.array([[1.0, 2.0], None])
    for chunks in ([NO_ROW, rows], [rows, NO_ROW], [NO_ROW, NO_ROW, rows, NO_ROW[:0]]):
        column = pa.chunked_array(chunks)
        assert ra.sum(column, axis=0).to_pylist() == [1.0, 2.0]
        assert ra.add(column, 1.0).to_pylist() == [
            None if row is None else [2.0, 3.0] for row in column.to_pylist()
        ]
        assert ra.dot(column, np.ones(2)).to_pylist() == [
            None if row is None else 3.0 for row in column.to_pylist()
        ]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(0, 6),
    st.lists(st.integers(0, 9), max_size=6),
    st.integers(0, 2**32 - 1),
)
def test_rows_of_flat_arrays_may_span_chunks(width, rows, cuts, seed):
    values = np.random.default_rng(seed).integers(-9, 9, rows * width).astype(float)
    flat = pa.array(values, mask=values == 3)
    cuts = sorted(min(cut, len(flat)) for cut in cuts)
    pieces = [flat[a:b] for a, b in zip([0, *cuts], [*cuts, len(flat)], strict=True)]
    column = pa.chunked_array(pieces, pa.float64())
    for axis in (None, 0, 1):
        got, expected = (ra.sum(x, axis=axis, width=width) for x in (column, flat))
        assert got == expected if axis is None else got.to_pylist() == expected.to_pylist()
    scaled = ra.scale(column, 2.0, width=width)
    assert scaled.to_pylist() == [None if x is None else 2 * x for x in flat.to_pylist()]
    got, expected = (ra.transpose(x, width=width).to_pylist() for x in (column, flat))
    assert got == expected


def test_a_flat_arrow_array_with_a_width_in_every_function_of_matrices():
    flat, rows = pa.array([1.0, 2.0, 4.0, 3.0, 5.0, 9.0]), np.array([[1.0, 2, 4], [3, 5, 9]])
    for name in ("transpose", "gram", "covariance", "correlation", "pairwise"):
        got = getattr(ra, name)(flat, width=3)
        assert got.type.list_size in (2, 3)
        np.testing.assert_array_equal(np.array(got.to_pylist()), getattr(ra, name)(rows))
    assert ra.matmul(flat, np.eye(3), width=3).to_pylist() == rows.tolist()
    assert ra.scale(flat, 2.0, width=3).to_pylist() == [2.0, 4.0, 8.0, 6.0, 10.0, 18.0]
    with pytest.raises(ra.RaptorsValueError, match="rows of 4"):
        ra.gram(pa.chunked_array([flat, flat[:1]]), width=4)


SECOND = {"operand": 2, "number": 2, "row": np.ones(11), "vectors": np.ones(11)}


@pytest.mark.parametrize("name", ra.list_functions())
def test_no_result_can_write_to_an_input(name, tmp_path):
    """What NumPy hands back is its own memory, or cannot be written to."""
    np.save(tmp_path / "x.npy", DENSE)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    function = ra.get_function(name)
    if function.gives == "named":
        args = [x, x[:2]]
    else:
        kinds = function.argument_kinds[1:]
        args = [x, *(SECOND.get(kind, np.ascontiguousarray(x.T)) for kind in kinds)]
    if name == "pairwise":
        args = [x]
    options = {"type": "float64"} if name == "cast" else {}
    results = function(*args, **options)
    for result in results if isinstance(results, tuple) else [results]:
        if isinstance(result, np.ndarray):
            for own in args:
                if isinstance(own, np.ndarray):
                    assert not (np.shares_memory(result, own) and result.flags.writeable)
            if result.flags.writeable:
                result[...] = 7
    np.testing.assert_array_equal(x, DENSE)


def test_a_cast_to_its_own_type_clears_what_is_under_nulls_and_the_payload_of_nan():
    odd = np.array([0x7FF8000000000123, 0x3FF0000000000000], np.uint64).view(np.float64)
    x = pa.Array.from_buffers(pa.float64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(odd.tobytes())])
    values = np.frombuffer(ra.cast(x, "float64").buffers()[1], np.uint64, 2)
    assert values.tolist() == [0x7FF8000000000000, 0]
    assert ra.cast(odd, "float64").view(np.uint64)[0] == 0x7FF8000000000000


def test_top_k_gives_the_rows_found():
    x = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    one = ra.top_k(x, np.array([1.0, 1.0]), 5)
    assert one.indices.tolist() == [0, 2] and len(one.scores) == 2
    many = ra.top_k(x, x[:2], 4)
    assert many.indices.shape == (2, 4)
    assert many.indices.mask.tolist() == [[False, False, True, True], [True] * 4]
    column = pa.array([[1.0, 0.0], None, [0.0, 2.0]])
    assert ra.top_k(column, np.array([1.0, 1.0]), 5).indices.to_pylist() == [0, 2]
    none = ra.top_k(column, pa.array([1.0, None]), 5)
    assert none.indices.to_pylist() == [] and none.scores.to_pylist() == []
