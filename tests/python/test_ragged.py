"""Lists that differ in length: what needs only its own row takes them, in any chunking."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import raptors_arrow as ra

ROWS = [[1.0, 2.0], [3.0], None, [4.0, 5.0, 6.0], [], [7.0, None, 9.0], [0.0, 0.0], [8.0]]
LISTS = pa.array(ROWS, pa.list_(pa.float32()))


def chunks(array, *cuts):
    edges = [0, *cuts, len(array)]
    return pa.chunked_array([array[a:b] for a, b in itertools.pairwise(edges)])


def hidden(array):
    """Null rows that have elements, which nothing may read."""
    lengths = [2 if row is None else len(row) for row in array.to_pylist()]
    values = [x for row in array.to_pylist() for x in ([np.inf, np.nan] if row is None else row)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("i4")
    mask = pa.array([row is None for row in array.to_pylist()])
    return pa.ListArray.from_arrays(offsets, pa.array(values, pa.float32()), mask=mask)


KINDS = {
    "lists": LISTS,
    "large lists": LISTS.cast(pa.large_list(pa.float32())),
    "sliced": pa.concat_arrays([LISTS, LISTS])[len(LISTS) :],
    "elements under nulls": hidden(LISTS),
    "chunks": chunks(LISTS, 3),
    "chunks of one length": chunks(LISTS, 1, 3, 4),
    "polars": pl.Series("e", ROWS, dtype=pl.List(pl.Float32)),
    "pandas": pd.Series(pd.arrays.ArrowExtensionArray(chunks(LISTS)), name="e"),
}


def listed(result):
    if isinstance(result, pd.Series):
        return pa.chunked_array(pa.array(result)).to_pylist()
    return result.to_list() if hasattr(result, "to_list") else result.to_pylist()


def plain(values):
    """Lists of numbers, whatever a library makes of them."""
    return [v.tolist() if isinstance(v, np.ndarray) else v for v in values]


def alone(function, *args, **options):
    """The results of the rows one by one, each a matrix of one row."""
    results = []
    for row in ROWS:
        one = pa.array([row], pa.list_(pa.float32()))
        results += [None] if row is None else function(one, *args, **options).to_pylist()
    return results


@pytest.mark.parametrize("column", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", ["sum", "mean", "min", "max", "std", "norm", "argmax", "count"])
def test_row_reductions_are_those_of_the_rows_alone(column, name):
    function = getattr(ra, name)
    result = function(column, axis=1)
    assert len(result) == len(ROWS)
    wanted = alone(function, axis=1)
    got = [None if v is None or v != v else v for v in listed(result)]
    assert got == wanted


@pytest.mark.parametrize("column", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", ["normalize", "softmax", "center", "minmax_scale", "standardize"])
def test_row_transforms_give_lists_of_the_same_lengths(column, name):
    function = getattr(ra, name)
    options = {} if name == "softmax" else {"axis": 1}
    result = function(column, **options)
    assert type(result) is type(column)
    assert plain(listed(result)) == alone(function, **options)


@pytest.mark.parametrize("column", KINDS.values(), ids=KINDS)
def test_arithmetic_with_numbers_and_with_one_value_per_row(column):
    wanted = [None if r is None else [None if x is None else 2 * x for x in r] for r in ROWS]
    assert plain(listed(ra.scale(column, 2))) == wanted
    assert plain(listed(ra.add(column, 0))) == ROWS
    per_row = np.arange(len(ROWS), dtype="f4")
    added = [
        None if r is None else [None if x is None else x + i for x in r] for i, r in enumerate(ROWS)
    ]
    assert plain(listed(ra.add(column, per_row, axis=0))) == added
    assert plain(listed(ra.abs(ra.negate(column)))) == ROWS
    assert ra.sum(column) == 45.0
    assert ra.max(column) == 9.0


def test_types_and_names_come_back():
    assert ra.scale(LISTS, 2).type == LISTS.type
    large = LISTS.cast(pa.large_list(pa.float32()))
    assert ra.normalize(large).type == large.type
    assert ra.cast(LISTS, "float64").type == pa.list_(pa.float64())
    assert ra.mean(pa.array([[1], [2, 4]]), axis=1).to_pylist() == [1.0, 3.0]
    series = pl.Series("e", ROWS)
    assert ra.scale(series, 2).name == "e" and ra.scale(series, 2).dtype == series.dtype
    frame = pd.Series([[1.0], [2.0, 3.0]], index=["a", "b"], name="e")
    assert list(ra.sum(frame, axis=1).index) == ["a", "b"]
    assert ra.scale(frame, 2).name == "e" and list(ra.scale(frame, 2).index) == ["a", "b"]
    table = pa.table({"e": LISTS})
    assert ra.scale(table, 2).schema == table.schema
    per_row = ra.sum(chunks(LISTS, 3), axis=1)
    assert [len(chunk) for chunk in per_row.chunks] == [3, 5]
    null = ra.normalize(LISTS)
    assert null.to_pylist()[6] is None and null.value_lengths().to_pylist()[6] is None
    assert len(null.values) == sum(len(row) for row in null.to_pylist() if row)


@pytest.mark.parametrize("streaming", [False, True])
def test_polars_queries_give_the_same_lazy_or_streaming(streaming):
    frame = pl.DataFrame({"e": pl.Series(ROWS * 50, dtype=pl.List(pl.Float32))})
    query = frame.lazy().select(
        n=pl.col("e").raptors.norm(axis=1), u=pl.col("e").raptors.normalize()
    )
    got = query.collect(engine="streaming" if streaming else "in-memory")
    assert got["n"].to_list() == ra.norm(LISTS, axis=1).to_pylist() * 50
    assert got["u"].to_list() == ra.normalize(LISTS).to_pylist() * 50


@pytest.mark.parametrize("column", KINDS.values(), ids=KINDS)
def test_what_lines_up_columns_names_the_first_odd_row(column):
    for call in (
        lambda: ra.mean(column, axis=0),
        lambda: ra.add(column, [1.0, 2.0]),
        lambda: ra.gram(column),
        lambda: ra.transpose(column),
        lambda: ra.standardize(column, axis=0),
        lambda: ra.as_matrix(column),
    ):
        with pytest.raises(ra.RaptorsValueError, match="to have 2 elements, but row 1 has 1"):
            call()
    with pytest.raises(ra.RaptorsValueError, match="to have 3 elements, but row 0 has 2"):
        ra.dot(column, [1.0, 2.0, 3.0])


def test_errors_of_elements_name_their_row():
    whole = pa.array([[1], [2, 3], None, [4, 100]], pa.list_(pa.int8()))
    with pytest.raises(OverflowError, match="scale: integer overflow in row 3"):
        ra.scale(whole, 2)
    with pytest.raises(OverflowError, match="scale: integer overflow in row 3"):
        ra.scale(chunks(whole, 2), 2)
    with pytest.raises(ra.RaptorsValueError, match="add: expected y of 4 rows, got 3"):
        ra.add(whole, np.arange(3), axis=0)


def test_a_call_is_explained_length_by_length():
    assert len(ra.explain("sum", LISTS, axis=1).passes) == 4
    assert len(ra.explain("scale", LISTS, 2).passes) == 1


def test_tensors_of_numpy_keep_their_shape():
    x = np.arange(24.0).reshape(2, 3, 4)
    flat = x.reshape(2, 12)
    assert np.array_equal(ra.scale(x, 2), 2 * x)
    assert ra.normalize(x).shape == x.shape
    assert np.array_equal(ra.normalize(x).reshape(2, 12), ra.normalize(flat))
    assert np.array_equal(ra.mean(x, axis=1), ra.mean(flat, axis=1))
    assert np.array_equal(ra.mean(x, axis=0), x.mean(axis=0))
    assert ra.sum(x) == x.sum()
    assert np.array_equal(ra.add(x, x), 2 * x)
    for name in ("gram", "transpose", "covariance"):
        with pytest.raises(ra.RaptorsValueError, match=f"{name}: .*1 or 2 dimensions.*, got 3"):
            getattr(ra, name)(x)
    with pytest.raises(ra.RaptorsValueError, match="top_k: .*got 3"):
        ra.top_k(x, x[0, 0])
    for other in (x[:, ::2], x[::-1], x.transpose(0, 2, 1), np.asfortranarray(x)):
        assert np.array_equal(ra.scale(other, 2), 2 * other)
        assert np.array_equal(ra.sum(other, axis=0), other.sum(axis=0))
    masked = np.ma.masked_greater(x, 20)
    np.testing.assert_array_equal(ra.sum(masked, axis=0), masked.sum(axis=0).filled())
    assert ra.scale(masked, 2).mask.sum() == 3


def test_every_two_columns_of_a_table_are_a_table_with_their_names():
    data = {"a": [1.0, 2.0, 4.0], "b": [2.0, 1.0, 0.0], "c": [0.5, 0.5, 1.0]}
    dense = np.column_stack(list(data.values()))
    for name in ("covariance", "correlation", "gram"):
        function = getattr(ra, name)
        wanted = function(dense)
        table, frame = function(pa.table(data)), function(pl.DataFrame(data))
        assert isinstance(table, pa.Table) and table.column_names == list(data)
        assert isinstance(frame, pl.DataFrame) and frame.columns == list(data)
        assert np.array_equal(frame.to_numpy(), wanted)
        assert table.to_pydict() == frame.to_dict(as_series=False)
        batch = function(pa.table(data).to_batches()[0])
        assert isinstance(batch, pa.RecordBatch) and batch.schema.names == list(data)


@pytest.mark.parametrize("column", KINDS.values(), ids=KINDS)
def test_tests_of_elements_give_lists_of_flags(column):
    wanted = [None if r is None else [None if x is None else x > 2 for x in r] for r in ROWS]
    assert plain(listed(ra.greater(column, 2))) == wanted


def test_chunks_without_elements_keep_their_places():
    cut = chunks(LISTS, 2, 3, 4, 5, 6)
    assert ra.scale(cut, 1).to_pylist() == ROWS
    assert ra.greater(cut, 2).to_pylist() == ra.greater(LISTS, 2).to_pylist()
    assert ra.normalize(cut).to_pylist() == ra.normalize(LISTS).to_pylist()


RAGGED = pa.array([[3.0, None, 1.0], [], None, [float("nan"), 2.0]], pa.list_(pa.float64()))


def test_what_needs_its_own_row_takes_lists_of_any_length():
    assert ra.is_null(RAGGED).to_pylist() == [[False, True, False], [], None, [False, False]]
    assert ra.fill_null(RAGGED, 9).to_pylist()[0] == [3.0, 9.0, 1.0]
    per_row = pa.array([5.0, 6.0, 7.0, 8.0])
    assert ra.fill_null(RAGGED, per_row, axis=0).to_pylist()[0] == [3.0, 5.0, 1.0]
    assert ra.nan_to_null(RAGGED).to_pylist()[3] == [None, 2.0]
    assert ra.median(RAGGED, axis=1).to_pylist()[:3] == [2.0, None, None]
    assert ra.quantile(RAGGED, 1, axis=1).to_pylist()[:3] == [3.0, None, None]
    assert ra.median(RAGGED.slice(0, 3)) == 2.0
    assert ra.greater(RAGGED, 1).to_pylist()[0] == [True, None, False]
    assert ra.greater(2, RAGGED).to_pylist()[0] == [False, None, True]
    assert ra.subtract(10.0, RAGGED).to_pylist()[0] == [7.0, None, 9.0]
    assert ra.cumsum(RAGGED, axis=1).to_pylist()[:3] == [[3.0, None, 4.0], [], None]
    assert ra.where(ra.greater(RAGGED, 1), RAGGED, 0.0).to_pylist()[0] == [3.0, None, 0.0]
    assert ra.add(RAGGED, RAGGED).to_pylist()[0] == [6.0, None, 2.0]
    assert ra.sum(RAGGED, axis=1, keepdims=True).to_pylist()[:2] == [[4.0], [None]]
    shorter = pa.array([[1.0], [], None, [1.0, 2.0]])
    for call in (
        lambda: ra.cumsum(RAGGED),
        lambda: ra.median(RAGGED, axis=0),
        lambda: ra.clip(RAGGED, [0, 1, 2]),
        lambda: ra.add(RAGGED, shorter),
    ):
        with pytest.raises(ra.RaptorsValueError, match="row [01] has"):
            call()


def test_pad_and_truncate():
    padded = ra.pad(RAGGED, 3, fill=0)
    assert padded.type == pa.list_(pa.float64(), 3)
    assert padded.to_pylist()[:3] == [[3.0, None, 1.0], [0.0, 0.0, 0.0], None]
    assert ra.pad(RAGGED, 4).to_pylist()[0] == [3.0, None, 1.0, None]
    assert ra.truncate(RAGGED, 1).to_pylist()[:3] == [[3.0], [], None]
    both = ra.pad(ra.truncate(RAGGED, 2), 2, fill=-1)
    assert both.to_pylist()[:3] == [[3.0, None], [-1.0, -1.0], None]
    chunked = pa.chunked_array([RAGGED, RAGGED.slice(1)])
    assert len(ra.pad(chunked, 5)) == 7
    with pytest.raises(ra.RaptorsValueError, match="pad: .*row 0 has 3"):
        ra.pad(RAGGED, 2)
    with pytest.raises(ra.RaptorsOverflowError, match="pad: fill is 300"):
        ra.pad(pa.array([[1], []], pa.list_(pa.uint8())), 2, fill=300)
    whole = pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2))
    assert ra.pad(whole, 2).values.buffers()[1].address == whole.values.buffers()[1].address
    assert ra.pad(whole, 3, fill=7).to_pylist() == [[1, 2, 7], [3, 4, 7]]
    assert ra.truncate(whole, 1).to_pylist() == [[1], [3]]
    assert ra.truncate(whole, 5).equals(whole)
    np.testing.assert_array_equal(ra.pad(np.ones((2, 2)), 3, fill=0), [[1, 1, 0], [1, 1, 0]])
    series = pl.Series("e", [[1.0, 2.0], [3.0], None])
    assert ra.pad(series, 2, fill=0).to_list() == [[1.0, 2.0], [3.0, 0.0], None]
    lazy = (
        pl.DataFrame({"e": series})
        .lazy()
        .select(pad=pl.col("e").raptors.pad(2, fill=0), cut=pl.col("e").raptors.truncate(1))
    )
    assert lazy.collect_schema() == {"pad": pl.Array(pl.Float64, 2), "cut": pl.List(pl.Float64)}
    got = lazy.collect()
    assert got["pad"].to_list() == [[1.0, 2.0], [3.0, 0.0], None]
    assert got["cut"].to_list() == [[1.0], [3.0], None]
    assert "Fill up rows" in pl.col("e").raptors.pad.__doc__
