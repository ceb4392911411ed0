"""``pack`` and ``unpack``: columns of numbers into vectors, and back."""

import polars as pl
import pyarrow as pa
import pytest

import raptors_arrow as ra

TABLE = pa.table(
    {
        "id": pa.chunked_array([["a"], ["b", "c"]]),
        "x": pa.chunked_array([[1.0], [None, 3.0]]),
        "y": pa.chunked_array([[4.0], [5.0, 6.0]]),
        "n": [1, 2, 3],
    }
)
VECTORS = [[1.0, 4.0], [None, 5.0], [3.0, 6.0]]


@pytest.mark.parametrize(
    "table",
    [TABLE, pl.from_arrow(TABLE), TABLE.combine_chunks().to_batches()[0], TABLE[:0]],
    ids=["table", "polars", "batch", "no rows"],
)
def test_there_and_back(table):
    packed = ra.pack(table, ["x", "y"], "xy")
    assert type(packed) is type(table)
    frame = pl.DataFrame(packed)
    assert frame.columns == ["id", "xy", "n"]
    assert frame["xy"].to_list() == VECTORS[: len(frame)]
    back = ra.unpack(packed, "xy", ["x", "y"])
    assert type(back) is type(table)
    assert pl.DataFrame(back).equals(pl.DataFrame(table))


def test_one_column_is_not_copied():
    x = pa.array([1.0, 2.0])
    packed = ra.pack(pa.table({"x": x}), ["x"], "v")["v"].chunk(0)
    assert packed.values.buffers()[1].address == x.buffers()[1].address


def test_a_null_row_is_null_in_every_column():
    table = pa.table({"v": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))})
    assert ra.unpack(table, "v", ["a", "b"]).to_pydict() == {"a": [1.0, None], "b": [2.0, None]}


def test_what_cannot_be_is_named():
    with pytest.raises(ra.RaptorsValueError, match="pack: expected 'z' to be one column, once"):
        ra.pack(TABLE, ["x", "z"], "v")
    with pytest.raises(ra.RaptorsValueError, match="pack: expected 'x' to be one column, once"):
        ra.pack(TABLE, ["x", "x"], "v")
    with pytest.raises(ra.RaptorsValueError, match="pack: expected at least one column"):
        ra.pack(TABLE, [], "v")
    with pytest.raises(ra.RaptorsTypeError, match="pack: expected a pyarrow Table .*got builtins"):
        ra.pack([1], ["x"], "v")
    with pytest.raises(ra.RaptorsValueError, match="unpack: expected a name for each of the 2"):
        ra.unpack(ra.pack(TABLE, ["x", "y"], "v"), "v", ["a"])
