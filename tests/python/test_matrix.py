"""``Matrix`` as an object of its own: indexed, compared, shown, pickled and handed on."""

import pickle

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import raptors_arrow as ra

ROWS = [[1.0, 2.0], None, [3.0, None], [5.0, 7.0]]
COLUMN = pa.array(ROWS, pa.list_(pa.float32(), 2))
DENSE = np.arange(12.0).reshape(4, 3)


def chunked(array):
    return pa.chunked_array([array[:1], array[1:]])


KINDS = {
    "fixed-size lists": COLUMN,
    "chunks": chunked(COLUMN),
    "sliced": pa.concat_arrays([COLUMN, COLUMN])[4:],
    "lists": COLUMN.cast(pa.list_(pa.float32())),
    "large lists": COLUMN.cast(pa.large_list(pa.float32())),
    "polars": pl.Series(ROWS, dtype=pl.Array(pl.Float32, 2)),
}


@pytest.mark.parametrize("column", KINDS.values(), ids=KINDS)
def test_rows_elements_and_slices(column):
    m = ra.as_matrix(column)
    assert len(m) == 4 and m.shape == (4, 2)
    assert [None if row is None else list(row) for row in m] == ROWS
    assert list(m[-1]) == ROWS[-1] and m[1] is None
    assert (m[0, 1], m[2, 1], m[1, 0]) == (2.0, None, None)
    assert [None if row is None else list(row) for row in m[1:3]] == ROWS[1:3]
    assert len(m[3:1]) == 0 and len(m[10:]) == 0
    assert ra.sum(m[2:], axis=0) == ra.sum(ra.as_matrix(COLUMN.slice(2)), axis=0)


@pytest.mark.parametrize(
    "array",
    [DENSE, np.asfortranarray(DENSE), DENSE[:, ::-1], np.repeat(DENSE, 2, axis=0)[::2]],
    ids=["C", "Fortran", "reversed columns", "every other row"],
)
def test_rows_of_numpy_arrays_whatever_their_strides(array):
    m = ra.as_matrix(array)
    assert [list(row) for row in m] == array.tolist()
    assert np.array_equal(m[1:3], array[1:3])
    assert m == ra.as_matrix(np.ascontiguousarray(array))
    assert pickle.loads(pickle.dumps(m)) == m


def test_what_is_no_index_is_refused_by_name():
    m = ra.as_matrix(DENSE)
    for index in (4, -5):
        with pytest.raises(IndexError, match="of 4"):
            m[index]
    for index in ("a", 1.5, (0, 1, 2), (slice(None), 0)):
        with pytest.raises(ra.RaptorsTypeError, match="as_matrix: expected a row number"):
            m[index]
    with pytest.raises(ra.RaptorsValueError, match="got step 2"):
        m[::2]


def test_slices_share_memory_and_arrays_of_shared_memory_are_read_only():
    m = ra.as_matrix(DENSE)
    for array in (np.asarray(m), m.to_numpy(), np.asarray(m[1:]), m[2].to_numpy()):
        assert np.shares_memory(array, DENSE)
        assert not array.flags.writeable
    assert not np.shares_memory(np.array(m, copy=True), DENSE)
    assert np.asarray(m, dtype="f4").dtype == np.float32
    with pytest.raises(ra.RaptorsValueError, match="needs a copy"):
        np.asarray(ra.as_matrix(DENSE[:, ::-1]), copy=False)
    with_nulls = ra.as_matrix(COLUMN).to_numpy()
    assert np.isnan(with_nulls).sum() == 3 and with_nulls.flags.writeable


def test_equal_means_the_same_shape_type_nulls_and_numbers():
    m = ra.as_matrix(COLUMN)
    for column in KINDS.values():
        assert ra.as_matrix(column) == m
    assert m != ra.as_matrix(COLUMN.cast(pa.list_(pa.float64(), 2)))
    assert m != ra.as_matrix(COLUMN[:3])
    assert m != 1
    nulls = pa.array([[None, None], [1.0, 2.0]], pa.list_(pa.float64(), 2))
    null_row = pa.array([None, [1.0, 2.0]], pa.list_(pa.float64(), 2))
    assert ra.as_matrix(nulls) != ra.as_matrix(null_row)
    nan = ra.as_matrix(np.array([[np.nan]]))
    assert nan != nan
    wide = np.arange(20_000.0).reshape(2, 10_000)
    changed = wide.copy()
    changed[1, 9_999] = -1
    assert ra.as_matrix(wide) == ra.as_matrix(wide.copy())
    assert ra.as_matrix(wide) != ra.as_matrix(changed)
    with pytest.raises(TypeError):
        hash(m)


@pytest.mark.parametrize("column", KINDS.values(), ids=KINDS)
def test_pickles_and_other_libraries(column):
    m = ra.as_matrix(column)
    assert pickle.loads(pickle.dumps(m)) == m
    kind = pa.ChunkedArray if m.num_chunks > 1 else pa.Array
    assert isinstance(m.to_pyarrow(), kind)
    assert m.to_polars().to_list() == ROWS


def test_a_table_comes_back_as_one():
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    m = ra.as_matrix(table)
    assert m.to_pyarrow() == table
    assert m.to_polars().columns == ["a", "b"]
    assert list(m[1]) == [2.0, 4.0]
    assert pickle.loads(pickle.dumps(m)) == m


def test_it_shows_its_shape_its_type_and_its_first_rows():
    assert repr(ra.as_matrix(COLUMN)) == (
        "<raptors_arrow.Matrix: 4 x 2 float32>\n [1, 2]\n null\n [3, null]\n [5, 7]"
    )
    long = repr(ra.as_matrix(np.ones((100, 50), "i4")))
    assert long.startswith("<raptors_arrow.Matrix: 100 x 50 int32>\n [1, 1,")
    assert long.count("\n") == 6 and long.endswith("\n ...") and ", ...]" in long
    assert repr(ra.as_matrix(np.ones((2, 0)))).endswith("2 x 0 float64>\n []\n []")
    html = ra.as_matrix(COLUMN)._repr_html_()
    assert html.startswith("<table><caption>Matrix: 4 x 2 float32</caption>")
    assert html.count("<tr>") == 4


def test_rows_of_flags_are_sliced_as_others():
    x = np.arange(12.0).reshape(4, 3)
    flags = ra.greater(ra.as_matrix(x), 4.0)
    assert (flags[1:3].to_numpy() == (x > 4)[1:3]).all()
    assert flags[2].to_pyarrow().to_pylist() == (x > 4)[2].tolist()
