"""Nothing is copied on the way in or out, shown by the addresses of the buffers."""

import numpy as np
import polars as pl
import pyarrow as pa
from forms import FORMS, fixed

import raptors_arrow as ra

VALUES = np.arange(1 << 16, dtype="f4").reshape(-1, 64)


def address(array: pa.Array) -> int:
    """Where the first element of an array lies."""
    offset = array.offset
    while pa.types.is_nested(array.type):
        offset = offset * array.type.list_size
        array = array.values
        offset += array.offset
    return array.buffers()[1].address + offset * array.type.byte_width


def test_views_share_the_memory_of_their_source():
    x = fixed(VALUES)
    for part in (x, x[5:20]):
        assert address(pa.array(ra.as_matrix(part))) == address(part)
    assert address(pa.array(ra.as_matrix(VALUES))) == VALUES.ctypes.data
    assert address(pa.array(ra.as_matrix(VALUES[3:]))) == VALUES[3:].ctypes.data
    flat = VALUES.reshape(-1)
    assert address(pa.array(ra.as_matrix(flat, width=8))) == flat.ctypes.data
    fortran = np.asfortranarray(VALUES)
    column = pa.array(ra.as_matrix(fortran)).field(1)
    assert column.buffers()[1].address + 4 * column.offset == fortran[:, 1].ctypes.data
    table = pa.table({"a": VALUES[:, 0].copy(), "b": VALUES[:, 1].copy()})
    back = pa.table(ra.as_matrix(table))
    for name in ("a", "b"):
        assert address(back[name].chunk(0)) == address(table[name].chunk(0))
    frozen = VALUES.copy()
    frozen.flags.writeable = False
    assert address(pa.array(ra.as_matrix(frozen))) == frozen.ctypes.data


def test_polars_series_is_not_copied_either_way():
    series = pl.Series("emb", VALUES)
    inside = series.to_physical().reshape((-1,)).to_numpy(allow_copy=False).ctypes.data
    assert address(pa.chunked_array(ra.as_matrix(series)).chunk(0)) == inside
    result = ra.as_matrix(ra.scale(series, 2))
    before = address(pa.chunked_array(result).chunk(0))
    again = pl.Series("emb", result).reshape((-1,)).to_numpy(allow_copy=False)
    assert again.ctypes.data == before


def test_chunks_stay_where_they_are():
    x = FORMS["chunked"](VALUES)
    back = pa.chunked_array(ra.as_matrix(x))
    assert [address(c) for c in back.chunks] == [address(c) for c in x.chunks]


def test_results_are_views_of_the_memory_they_were_computed_in():
    before = ra.pool_stats().used_bytes
    large = np.ones((1 << 10, 1 << 8))
    result = ra.scale(large, 2)
    assert ra.pool_stats().used_bytes - before >= large.nbytes
    assert not result.flags.owndata and result.flags.writeable and result.flags.c_contiguous
    result[0, 0] = 7  # it is the caller's own
    assert ra.scale(np.asfortranarray(large), 2).flags.f_contiguous
    del result
    arrow = ra.scale(fixed(large), 2)
    assert ra.pool_stats().used_bytes - before >= large.nbytes
    del arrow
    assert ra.pool_stats().used_bytes == before


def test_what_must_be_copied_is_explained():
    assert ra.explain("sum", VALUES).copied is None
    assert ra.explain("sum", np.asfortranarray(VALUES)).copied is None
    assert "strides" in ra.explain("sum", VALUES[::2]).copied
    assert "strides" in ra.explain("sum", VALUES[:, 1:]).copied
    raw = np.zeros(VALUES.nbytes + 1, "u1")[1:].view("f4").reshape(VALUES.shape)
    assert "aligned" in ra.explain("sum", raw).copied
    short = pa.array([[1.0], None], pa.list_(pa.float64()))
    assert "null rows" in ra.explain("sum", short).copied
    assert "y: " in ra.explain("add", VALUES[1:], VALUES[::-1][1:]).copied


def test_strided_arrays_give_the_right_values():
    for view in (
        VALUES[::2],
        VALUES[:, ::3],
        VALUES[::-1],
        VALUES.T[::2],
        np.broadcast_to(3.0, (4, 2)),
    ):
        np.testing.assert_array_equal(ra.scale(view, 2), view * 2)
        np.testing.assert_array_equal(ra.scale(view[:, 1], 2), view[:, 1] * 2)
