"""Operands from what is at hand, and tables that hold one column of vectors."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import raptors_arrow as ra

ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 8.0]]
X = pa.array(ROWS, pa.list_(pa.float32(), 2))
NAMES = ("add", "subtract", "multiply", "divide", "minimum", "maximum")
NUMPY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


@pytest.mark.parametrize("vector", [[1, 2], (1.0, 2.0), [1, 2.0], pa.scalar([1.0, 2.0]), X[0]])
def test_one_vector_may_be_a_list_a_tuple_or_a_list_scalar(vector):
    one = np.array([1, 2], "f4")
    assert ra.add(X, vector).equals(ra.add(X, one))
    assert ra.dot(X, vector).equals(ra.dot(X, one))
    assert ra.broadcast_add(X, vector).equals(ra.broadcast_add(X, one))
    assert ra.cosine_similarity(X, vector).equals(ra.cosine_similarity(X, one))
    found = ra.top_k(X, vector, k=2)
    assert found.indices.equals(ra.top_k(X, one, k=2).indices)


def test_none_in_a_list_is_null_and_other_things_are_refused():
    assert ra.add(X, [None, 1]).to_pylist() == [[None, 3.0], [None, 5.0], [None, 9.0]]
    assert ra.add(pa.array([[2**62, 1]], pa.list_(pa.int64(), 2)), [2**61, 1]).to_pylist() == [
        [2**62 + 2**61, 2]
    ]
    for wrong in (["a", 1], [[1, 2], [3, 4]], [object(), 1]):
        with pytest.raises(ra.RaptorsTypeError, match="add: expected y to be one vector"):
            ra.add(X, wrong)
    with pytest.raises(ra.RaptorsValueError, match="add: expected y of width 2, got width 3"):
        ra.add(X, [1, 2, 3])
    with pytest.raises(ra.RaptorsValueError, match="dot: y is null"):
        ra.dot(X, pa.scalar(None, pa.list_(pa.float32())))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64"])
def test_a_number_or_a_row_may_stand_before_the_matrix(name, dtype):
    y = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 90]], dtype)
    function, expected = getattr(ra, name), NUMPY[name]
    for x in (200, np.array([100, 200, 255], dtype), np.array([[100, 200, 255]], dtype)):
        wanted = expected(np.asarray(x, dtype), y)
        if y.dtype.kind in "iu":
            wanted = wanted.astype(dtype)
        got = function(x, y)
        assert got.dtype == y.dtype
        assert np.array_equal(got, wanted)
    flat = y.reshape(-1)
    assert np.array_equal(function(200, flat), function(200, y).reshape(-1))


def test_errors_of_a_number_before_the_matrix_say_what_failed():
    x = np.array([[1], [0]], "i8")
    with pytest.raises(ZeroDivisionError, match="divide: row 1 divides an integer by zero"):
        ra.divide(1, x)
    with pytest.raises(OverflowError, match="subtract: integer overflow in row 0"):
        ra.subtract(0, np.array([[1]], "u1"))
    with pytest.raises(ra.RaptorsTypeError, match="scale: expected x to be"):
        ra.scale(2, x)


@pytest.mark.parametrize("make", [np.array, pa.array, pl.Series, pd.Series])
def test_two_vectors_are_combined_element_by_element(make):
    a, b = make([1.0, 2.0, 3.0]), make([10.0, 20.0, 30.0])
    for name in NAMES:
        got = getattr(ra, name)(a, b)
        assert type(got) is type(a) or isinstance(got, type(a))
        assert list(np.asarray(got)) == list(NUMPY[name](np.asarray(a), np.asarray(b)))
    assert ra.dot(a, b) == 140.0
    assert list(np.asarray(ra.add(a, make([1.0])))) == [2.0, 3.0, 4.0]
    with pytest.raises(ra.RaptorsValueError, match="add: expected y of 3 rows, got 2"):
        ra.add(a, make([1.0, 2.0]))


TABLE = pa.table({"emb": pa.chunked_array([X[:1], X[1:]])})
TABLES = {
    "table": TABLE,
    "batch": TABLE.combine_chunks().to_batches()[0],
    "polars": pl.from_arrow(TABLE),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_of_one_column_of_vectors_is_that_column(table):
    doubled = ra.scale(table, 2)
    assert type(doubled) is type(table)
    frame = pl.DataFrame(doubled)
    assert frame.columns == ["emb"] and frame["emb"].to_list() == (2 * np.array(ROWS)).tolist()
    assert list(np.asarray(ra.sum(table, axis=1))) == [3.0, 7.0, 13.0]
    assert list(np.asarray(ra.sum(table, axis=0))) == [9.0, 14.0]
    assert ra.mean(table) == pytest.approx(23 / 6)


def test_readers_and_relations_of_one_column_too():
    assert ra.mean(TABLE.to_reader()) == ra.mean(X)
    relation = duckdb.sql(
        "SELECT [1.0, 2.0]::FLOAT[2] AS emb UNION ALL SELECT [3.0, 4.0]::FLOAT[2]"
    )
    assert ra.sum(relation) == 10.0


def test_the_type_and_its_nullability_come_back():
    field = pa.field(
        "emb", pa.list_(pa.field("x", pa.float64(), nullable=False), 2), nullable=False
    )
    table = pa.Table.from_arrays([pa.array(ROWS, field.type)], schema=pa.schema([field]))
    assert ra.scale(table, 2).schema.equals(table.schema)
    zero = pa.Table.from_arrays([pa.array([[0.0, 0.0]], field.type)], schema=table.schema)
    assert ra.normalize(zero).schema.field("emb").nullable


def test_columns_beside_it_and_what_is_no_number_are_named():
    table = pa.table({"id": [1, 2, 3], "emb": X, "s": ["a", "b", "c"]})
    for beside in (table, pl.from_arrow(table)):
        with pytest.raises(
            ra.RaptorsTypeError,
            match=r'mean: expected columns of numbers, or one .*"emb" beside int64 \(id\) and '
            r'string\w* \(s\); pass that column: table\["emb"\]',
        ):
            ra.mean(beside)
    with pytest.raises(
        ra.RaptorsTypeError,
        match=r"mean: expected a stream of one column.*got id: int64, emb: .*, s: string; name it: "
        r"ra.select\(source, mean=ra.col\('emb'\)",
    ):
        ra.mean(table.to_reader())
    two = pa.table({"a": X, "b": X})
    with pytest.raises(ra.RaptorsTypeError, match=r'vectors in a, b; pass one .*table\["a"\]'):
        ra.mean(two)
    with pytest.raises(ra.RaptorsTypeError, match=r"numbers, got string \(s\); leave those out"):
        ra.mean(table.select(["id", "s"]))


def test_the_last_axis_is_that_of_rows():
    for name in ("sum", "mean", "argmax", "norm"):
        assert getattr(ra, name)(X, axis=-1).equals(getattr(ra, name)(X, axis=1))
    assert ra.normalize(X, axis=-1).equals(ra.normalize(X, axis=1))
    assert ra.add(X, np.ones(2, "f4"), axis=-1).equals(ra.add(X, np.ones(2, "f4"), axis=1))
    with pytest.raises(ra.RaptorsValueError, match="axis: expected None, 0 or 1, got -2"):
        ra.sum(X, axis=-2)
    frame = pl.DataFrame({"e": pl.Series(ROWS, dtype=pl.Array(pl.Float64, 2))})
    assert frame.select(pl.col("e").raptors.sum(axis=-1))["e"].to_list() == [3.0, 7.0, 13.0]


def test_a_vector_is_no_rows_for_one_row_of_one_element():
    """It lines up with the columns, of which there is one; it gave a vector."""
    one = pa.array([[1.0]], pa.list_(pa.float32()))
    with pytest.raises(ra.RaptorsValueError, match="add: expected y of width 1, got width 2"):
        ra.add(one, [1.0, 1.0])
    assert ra.add(one, [2.0]).to_pylist() == [[3.0]]
