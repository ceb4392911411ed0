"""What the functions take, and what they give back for it."""

import array
import ctypes
import decimal

import arro3.core as arro3
import datafusion
import duckdb
import nanoarrow
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from forms import FORMS, fixed, values_of

import raptors_arrow as ra

VALUES = np.arange(12, dtype="f4").reshape(4, 3)
PAIRS = pa.list_(pa.float64(), 2)


@pytest.mark.parametrize("form", FORMS)
def test_gives_back_the_kind_that_went_in(form):
    x = FORMS[form](VALUES)
    doubled = ra.scale(x, 2)
    assert type(doubled) is type(x)
    np.testing.assert_array_equal(values_of(doubled), VALUES * 2)
    if isinstance(x, pa.Array | pa.ChunkedArray):
        assert doubled.type == x.type
    elif isinstance(x, pa.Table | pa.RecordBatch):
        assert doubled.schema == x.schema
    elif isinstance(x, pl.Series):
        assert (doubled.name, doubled.dtype) == (x.name, x.dtype)
    elif isinstance(x, pl.DataFrame):
        assert doubled.schema == x.schema
    else:
        assert doubled.dtype == x.dtype
    assert ra.sum(x) == 66.0
    np.testing.assert_array_equal(values_of(ra.sum(x, axis=0)), VALUES.sum(axis=0))
    np.testing.assert_array_equal(values_of(ra.sum(x, axis=1)), VALUES.sum(axis=1))


def test_one_value_per_row_has_the_chunks_and_names_of_its_column():
    x = FORMS["chunked"](VALUES)
    assert [len(c) for c in ra.mean(x, axis=1).chunks] == [len(c) for c in x.chunks]
    assert isinstance(ra.mean(x, axis=0), pa.Array)
    table = pa.table({"emb": x})
    assert table.append_column("mean", ra.mean(table["emb"], axis=1)).num_columns == 2
    assert ra.mean(pl.Series("emb", VALUES), axis=1).name == "emb"
    assert ra.mean(pl.DataFrame(VALUES), axis=1).name == "mean"


def test_fields_nullability_and_metadata_come_back():
    item = pa.field("v", pa.float32(), nullable=False, metadata={"unit": "mm"})
    x = pa.FixedSizeListArray.from_arrays(pa.array(VALUES.reshape(-1)), type=pa.list_(item, 3))
    assert ra.scale(x, 2).type.equals(x.type, check_metadata=True)
    schema = pa.schema([pa.field("a", pa.float32(), metadata={"k": "v"})], metadata={"m": "n"})
    batch = pa.record_batch([pa.array(VALUES[:, 0])], schema=schema)
    assert ra.scale(batch, 2).schema.equals(schema, check_metadata=True)
    table = pa.Table.from_batches([batch, batch])
    assert ra.scale(table, 2).schema.equals(schema, check_metadata=True)


def test_a_field_that_allows_no_null_does_if_one_comes():
    item = pa.field("v", pa.float64(), nullable=False)
    x = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0]), type=pa.list_(item, 2))
    y = pa.array([[None, 1.0]], PAIRS)
    both = pa.chunked_array([x, x])
    got = ra.add(both, pa.chunked_array([y, pa.array([[1.0, 1.0]], PAIRS)]))
    assert got.to_pylist() == [[None, 3.0], [2.0, 3.0]]
    assert got.type.value_field.nullable


def test_tensors_and_nested_lists_keep_their_type():
    blocks = np.arange(24, dtype="f4").reshape(2, 3, 4)
    x = pa.FixedShapeTensorArray.from_numpy_ndarray(blocks)
    got = ra.scale(x, 2)
    assert got.type == x.type
    np.testing.assert_array_equal(got.to_numpy_ndarray(), blocks * 2)
    means = ra.mean(x, axis=0)
    assert np.array_equal(means.to_pylist(), blocks.mean(axis=0))
    turned = pa.fixed_shape_tensor(pa.float32(), [2, 2], permutation=[1, 0])
    turned = pa.ExtensionArray.from_storage(turned, fixed(np.ones((1, 4), "f4")))
    assert ra.sum(turned) == 4.0
    assert ra.scale(turned, 2).type == turned.type
    for call in (
        lambda: ra.sum(turned, axis=0),
        lambda: ra.argmax(turned),
        lambda: ra.add(turned, [1, 2, 3, 4]),
        lambda: ra.transpose(turned),
        lambda: ra.Accumulator("sum", axis=0).update(turned),
    ):
        with pytest.raises(ra.RaptorsValueError, match=": .*permutation"):
            call()
    series = pl.Series("b", blocks)
    assert ra.scale(series, 2).dtype == series.dtype


def test_extension_type_of_a_chunked_column_comes_back():
    x = pa.FixedShapeTensorArray.from_numpy_ndarray(VALUES.reshape(2, 2, 3))
    column = pa.chunked_array([x, x])
    assert ra.scale(column, 2).type == x.type


@pytest.mark.parametrize(
    ("make", "width"),
    [
        (lambda x: arro3.Array.from_arrow(x), 3),
        (lambda x: arro3.ChunkedArray.from_arrow(pa.chunked_array([x, x[:0]])), 3),
        (lambda x: nanoarrow.Array(x), 3),
        (lambda x: ra.as_matrix(x), 3),
        (lambda x: array.array("f", VALUES.reshape(-1)), 1),
        (lambda x: memoryview(VALUES), 3),
    ],
    ids=["arro3", "arro3 chunked", "nanoarrow", "Matrix", "array", "memoryview"],
)
def test_other_objects_give_an_arrow_object(make, width):
    got = ra.scale(make(fixed(VALUES)), 2)
    assert isinstance(got, ra.Matrix)
    assert (got.rows, got.width, got.dtype) == (12 // width, width, "float32")
    np.testing.assert_array_equal(
        pa.chunked_array(got).combine_chunks().flatten().to_numpy()
        if width > 1
        else pa.array(got).to_numpy(),
        VALUES.reshape(-1) * 2,
    )


@pytest.mark.parametrize("kind", ["b", "B", "h", "H", "i", "I", "q", "Q", "f", "d"])
def test_arrays_of_ctypes(kind):
    # Their buffers say the byte order ("<d") and have no strides.
    kinds = {c._type_: c for c in (ctypes.c_byte, ctypes.c_ubyte, ctypes.c_short, ctypes.c_ushort)}
    kinds |= {c._type_: c for c in (ctypes.c_int, ctypes.c_uint, ctypes.c_float, ctypes.c_double)}
    one = kinds.get(kind) or {"q": ctypes.c_int64, "Q": ctypes.c_uint64}[kind]
    flat = (one * 6)(*range(6))
    assert ra.sum(flat) == 15
    assert ra.as_matrix(flat, width=2).shape == (3, 2)
    assert ra.sum(((one * 2) * 3).from_buffer(flat), axis=1).copied is None
    assert pa.array(ra.sum(((one * 2) * 3).from_buffer(flat), axis=1)).to_pylist() == [1, 5, 9]
    assert ra.as_matrix(flat).copied is None


def test_results_of_query_engines():
    sql = "SELECT i::FLOAT AS a, (2 * i)::FLOAT AS b FROM range(5000) t(i)"
    relation = duckdb.sql(sql)
    assert ra.sum(relation, axis=0).to_pylist() == [12497500.0, 24995000.0]
    assert pa.table(ra.scale(duckdb.sql(sql), 2)).column_names == ["a", "b"]
    arrays = duckdb.sql("SELECT [i, i]::FLOAT[2] AS emb FROM range(3) t(i)")
    assert ra.sum(arrays.to_arrow_table()["emb"]) == 6.0

    context = datafusion.SessionContext()
    frame = context.from_pydict({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert ra.sum(frame) == 10.0


def test_streams_are_read_once_and_reported_as_such():
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    reader = table.to_reader()
    assert ra.sum(reader) == 10.0
    capsule = table.__arrow_c_stream__()

    class Twice:
        def __arrow_c_stream__(self, requested_schema=None):
            return capsule

    assert ra.sum(Twice()) == 10.0
    with pytest.raises(ra.RaptorsValueError, match="sum: .*used already"):
        ra.sum(Twice())


def test_plain_numbers_reshape_to_rows_of_width():
    flat = pa.array(np.arange(6.0))
    assert ra.mean(flat, axis=0, width=3).to_pylist() == [1.5, 2.5, 3.5]
    assert ra.scale(flat, 2, width=3).type == pa.float64()
    assert ra.mean(np.arange(6.0), axis=1, width=2).tolist() == [0.5, 2.5, 4.5]
    assert ra.scale(np.arange(6.0), 2, width=2).shape == (6,)
    assert ra.sum(pl.Series([1.0, 2.0]), axis=0, width=2).to_list() == [1.0, 2.0]
    assert ra.sum(fixed(VALUES), width=3) == 66.0
    with pytest.raises(ra.RaptorsValueError, match="sum: 6 elements cannot be seen as rows of 4"):
        ra.sum(flat, width=4)
    with pytest.raises(ra.RaptorsValueError, match="sum: .*width 2, got width 3"):
        ra.sum(fixed(VALUES), width=2)
    with pytest.raises(ra.RaptorsValueError, match="sum: .*width"):
        ra.sum(VALUES, width=2)


def test_as_matrix_is_an_arrow_object():
    m = ra.as_matrix(np.arange(6.0).reshape(2, 3))
    assert (m.shape, len(m), m.num_chunks, m.null_rows, m.copied) == ((2, 3), 2, 1, 0, None)
    assert pa.array(m).type == pa.list_(pa.float64(), 3)
    assert pl.Series("m", m).dtype == pl.Array(pl.Float64, 3)
    assert pa.field(m).type == pa.list_(pa.float64(), 3)
    assert ra.as_matrix(pa.array([1.0, 2.0]), width=1).shape == (2, 1)
    assert pa.array(m, pa.list_(pa.float32(), 3)).type == pa.list_(pa.float32(), 3)
    chunks = ra.as_matrix(FORMS["chunked"](VALUES))
    assert pa.chunked_array(chunks).num_chunks == chunks.num_chunks == 2
    assert not hasattr(chunks, "__arrow_c_array__")
    assert pl.Series(chunks).n_chunks() == 2
    assert pa.table(ra.as_matrix(pa.table({"a": [1.0]}))).column_names == ["a"]


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0)])
def test_numbers_of_any_library_scale(number):
    assert ra.scale(pa.array([1.0]), number).to_pylist() == [2.0]
    assert ra.add(pa.array([1.0]), pa.scalar(2, pa.int8())).to_pylist() == [3.0]


@pytest.mark.parametrize(
    "number", [True, np.True_, "2", None, [2], decimal.Decimal(2), 2j, pa.scalar("2"), object()]
)
def test_what_is_no_number_is_a_type_error(number):
    with pytest.raises(ra.RaptorsTypeError, match="scale: expected"):
        ra.scale(pa.array([1.0]), number)


def test_operands_line_up_as_they_say():
    x = fixed(VALUES)
    row = np.array([1, 2, 3], "f4")
    column = np.array([1, 2, 3, 4], "f4")
    for make in (np.asarray, pa.array, lambda y: pl.Series("y", y)):
        np.testing.assert_array_equal(values_of(ra.add(x, make(row))), VALUES + row)
        got = values_of(ra.add(x, make(column), axis=0))
        np.testing.assert_array_equal(got, VALUES + column[:, None])
    np.testing.assert_array_equal(values_of(ra.add(x, column[:, None])), VALUES + column[:, None])
    np.testing.assert_array_equal(values_of(ra.add(x, row[None])), VALUES + row)
    np.testing.assert_array_equal(values_of(ra.add(VALUES, x)), VALUES * 2)
    with pytest.raises(ra.RaptorsValueError, match="add: expected y of width 3, got width 4"):
        ra.add(x, column)
    # The type of the column wins: operands are rounded to it once.
    for dtype in ("f8", "f2", "i1", "u8"):
        got = ra.add(x, row.astype(dtype))
        assert got.type == x.type
        np.testing.assert_array_equal(values_of(got), VALUES + row)
    assert values_of(ra.add(x, np.full(3, 0.1)))[0, 0] == VALUES[0, 0] + np.float32(0.1)
    steps = ra.explain("add", x, row.astype("f8")).passes
    assert [step.what for step in steps] == ["convert", "compute"]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0)])
def test_empty_arrays_have_numpy_shapes(shape):
    x = np.zeros(shape)
    assert ra.scale(x, 2).shape == shape
    assert ra.sum(x) is None
    assert ra.sum(x, min_count=0) == 0.0
    two = x if len(shape) == 2 else x[:, None]
    for axis in (0, 1):
        got = ra.sum(x, axis=axis, min_count=0)
        assert got.tolist() == two.sum(axis=axis).tolist()
        assert np.isnan(ra.mean(x, axis=axis)).all()


def test_empty_tables_and_columns():
    x = pa.chunked_array([], PAIRS)
    assert ra.scale(x, 2).type == PAIRS
    assert ra.sum(x) is None
    assert ra.sum(x, axis=0).to_pylist() == [None, None]
    assert ra.scale(pa.table({"a": pa.array([], pa.float32())}), 2).num_rows == 0
    assert ra.scale(pl.Series("e", [], dtype=pl.Array(pl.Float32, 2)), 2).len() == 0
    assert ra.scale(pl.DataFrame(schema={"a": pl.Float32}), 2).height == 0


def test_nulls_go_through():
    x = pa.array([[1.0, None], None, [3.0, 4.0]], PAIRS)
    assert ra.scale(x, 2).to_pylist() == [[2.0, None], None, [6.0, 8.0]]
    assert ra.mean(x, axis=1).to_pylist() == [1.0, None, 3.5]
    assert ra.mean(x, axis=0, skip_nulls=False).to_pylist() == [None, None]
    assert ra.mean(x, min_count=4) is None
    series = pl.Series("x", [[1.0, None], None, [3.0, 4.0]], dtype=pl.Array(pl.Float64, 2))
    assert ra.scale(series, 2).to_list() == [[2.0, None], None, [6.0, 8.0]]
    assert np.isnan(ra.add(np.ones((3, 2)), x)).tolist() == [[0, 1], [1, 1], [0, 0]]
    fortran = ra.add(np.asfortranarray(np.ones((3, 2))), x)
    assert fortran.flags.f_contiguous
    assert np.isnan(fortran).tolist() == [[0, 1], [1, 1], [0, 0]]
    batch = pa.record_batch({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    y = pa.array([1.0, None])
    assert ra.add(batch, y, axis=0).to_pydict() == {"a": [2.0, None], "b": [4.0, None]}
