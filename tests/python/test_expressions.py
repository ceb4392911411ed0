"""Expressions: what they say, what they give, and that nothing is learnt by running them."""

import pickle

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from calls import calls, numbers

import raptors_arrow as ra

E = ra.col("emb")
WIDTH = 3


def table(rows: int = 50, chunk: int = 17) -> pa.Table:
    rng = np.random.default_rng(rows)
    values = pa.array(rng.standard_normal(rows * WIDTH).astype("f4"))
    mask = pa.array(rng.random(rows) < 0.1)
    emb = pa.FixedSizeListArray.from_arrays(values, WIDTH, mask=mask)
    columns = {"id": np.arange(rows), "emb": emb, "w": rng.random(rows).astype("f4")}
    whole = pa.table(columns)
    chunks = [whole.slice(i, chunk) for i in range(0, rows, chunk)]
    return pa.concat_tables(chunks) if chunks else whole


TABLE = table()


def same(got: pa.Table, expected: pa.Table) -> bool:
    return got.combine_chunks().equals(expected.combine_chunks())


@pytest.mark.parametrize("name", ra.list_functions())
def test_every_function_is_a_method_with_a_signature_and_the_whole_documentation(name):
    method = getattr(ra.Expr, name)
    assert method.__name__ == name and method.__doc__ == ra.get_function(name).doc
    with pytest.raises(ra.RaptorsTypeError, match=f"{name}: .*its signature is"):
        method(E, nonsense=1)


@pytest.mark.parametrize("name", ra.list_functions())
def test_types_are_those_that_calls_give(name):
    values = numbers((6, 4), "f4", name)
    function = ra.get_function(name)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 4)
    if function.gives == "named" or function.driver in ("transpose", "product"):
        return
    for rest, options in calls(name, values):
        expr = getattr(ra.lazy(column), name)(*rest, **options)
        got, said = expr.collect(), expr.result_type({})
        if not isinstance(got, pa.Array):
            assert said in (pa.float32(), pa.int64())
        elif function.gives == "reduced" and options.get("axis", function.axis) == 0:
            assert said == pa.list_(got.type, 4)
        elif function.gives == "matrix":
            assert said == got.type
        else:
            assert said == got.type, (name, options)


def test_what_an_expression_says_of_itself():
    chain = (E * 2 - [1.0, 2.0, 3.0]).clip(0, 1).mean(axis=1)
    text = "col('emb').multiply(2).subtract([1.0, 2.0, 3.0]).clip(min=0, max=1).mean(axis=1)"
    assert repr(chain) == text
    assert chain.columns == ("emb",) and chain.is_rows
    assert repr(-abs(E)) == "col('emb').abs().negate()"
    assert repr(1 / E) == "divide(1, col('emb'))"
    assert repr(E**2 > 1) == "col('emb').power(2).greater(1)"
    assert repr(1 >= E) == "col('emb').less_equal(1)"
    assert repr(E == ra.col("w")) == "col('emb').equal(col('w'))"
    assert {E: 1}[E] == 1
    assert not E.mean(axis=0).is_rows and not E.center().is_rows and not ra.len().is_rows
    assert repr(pickle.loads(pickle.dumps(chain))) == text
    with pytest.raises(ra.RaptorsTypeError, match="has no value yet"):
        bool(E)
    with pytest.raises(ra.RaptorsTypeError, match="col: expected the name of a column, got int"):
        ra.col(1)
    with pytest.raises(ra.RaptorsValueError, match="collect: .* names columns"):
        E.mean().collect()


def test_rows_are_those_of_the_same_calls():
    emb, w = TABLE["emb"], TABLE["w"]
    got = ra.with_columns(
        TABLE, unit=E.normalize(), m=E.multiply(ra.col("w")).sum(axis=1), id=E.sum(axis=1)
    )
    assert got.column_names == ["id", "emb", "w", "unit", "m"]
    assert got["unit"].combine_chunks().equals(ra.normalize(emb).combine_chunks())
    weighted = ra.sum(ra.multiply(emb, w, axis=0), axis=1)
    assert got["m"].combine_chunks().equals(weighted.combine_chunks())
    assert got["id"].combine_chunks().equals(ra.sum(emb, axis=1).combine_chunks())
    alone = ra.select(TABLE, m=E.mean(axis=1))
    assert alone.column_names == ["m"] and alone.num_rows == TABLE.num_rows


W = ra.col("w")
BESIDE_ROWS = {
    "standard": (E - E.mean(axis=0)) / E.std(axis=0),
    "middle": E - (E.max(axis=0) + E.min(axis=0)) / 2,
    "share": W / W.sum(),
    "of_all": E / ra.len(),
    "scaled": E * W.mean(),
    "extreme": E == E.max(axis=0),
    "twice": (E - E.mean(axis=0)).center(axis=0).norm(axis=1),
}


def test_what_rows_are_reduced_to_stands_beside_them(tmp_path):
    emb, w = TABLE["emb"], TABLE["w"]
    got = ra.with_columns(TABLE, **BESIDE_ROWS)
    means = ra.subtract(emb, ra.mean(emb, axis=0))
    calls = {
        "standard": ra.divide(means, ra.std(emb, axis=0)),
        "middle": ra.subtract(
            emb, ra.divide(ra.add(ra.max(emb, axis=0), ra.min(emb, axis=0)), 2.0)
        ),
        "share": ra.divide(w, ra.sum(w)),
        "of_all": ra.divide(emb, float(TABLE.num_rows)),
        "scaled": ra.multiply(emb, ra.mean(w)),
        "extreme": ra.equal(emb, ra.max(emb, axis=0)),
        "twice": ra.norm(ra.center(means, axis=0), axis=1),
    }
    for name, expected in calls.items():
        assert got[name].combine_chunks().equals(expected.combine_chunks()), name
    # What can be read again is: once for what is measured, and again for what needs that.
    pq.write_table(TABLE, tmp_path / "rows.parquet", row_group_size=300)
    streamed = ra.with_columns(ds.dataset(tmp_path), **BESIDE_ROWS).read_all()
    assert same(streamed, got)
    squares = (E - E.mean(axis=0)).square().mean(axis=0)
    assert same(ra.select(tmp_path, v=squares), ra.select(TABLE, v=squares))
    with pytest.raises(ra.RaptorsValueError, match="mean.* needs all rows before its first result"):
        ra.with_columns(TABLE.to_reader(), **BESIDE_ROWS)


STATISTICS = {
    "mean": E.mean(axis=0),
    "std": E.std(axis=0, ddof=1),
    "least": E.min(axis=0),
    "most": E.max(),
    "count": E.count(axis=0),
    "norm": E.norm(axis=0),
    "where": E.argmax(axis=0),
    "rows": ra.len(),
    "longest": E.norm(axis=1).max(),
    "spread": E.var(),
}


@pytest.mark.parametrize("rows", [1, 2, 50, 1023, 5000])
@pytest.mark.parametrize("batch", [1, 7, 1024, 4000])
def test_a_stream_has_the_bits_of_the_table(rows, batch):
    whole = table(rows, 700)
    reader = pa.RecordBatchReader.from_batches(
        whole.schema, (b for i in range(0, rows, batch) for b in whole.slice(i, batch).to_batches())
    )
    assert same(ra.select(reader, **STATISTICS), ra.select(whole, **STATISTICS))
    row = ra.select(whole, **STATISTICS).to_pylist()[0]
    assert row["rows"] == rows and row["count"] == [rows - whole["emb"].null_count] * WIDTH
    assert row["mean"] == ra.mean(whole["emb"], axis=0).to_pylist()


def test_every_source_gives_what_it_is(tmp_path):
    whole = table()
    pq.write_table(whole, tmp_path / "a.parquet", row_group_size=11)
    pq.write_table(whole, tmp_path / "b.parquet")
    with pa.ipc.new_file(tmp_path / "c.arrow", whole.schema) as sink:
        sink.write_table(whole)
    expected = ra.select(whole, **STATISTICS)
    dataset = ds.dataset(tmp_path / "a.parquet")
    for source in (
        whole,
        whole.combine_chunks().to_batches()[0],
        whole.to_reader(),
        dataset,
        dataset.scanner(),
        tmp_path / "a.parquet",
        [str(tmp_path / "a.parquet")],
        tmp_path / "c.arrow",
    ):
        got = ra.select(source, **STATISTICS)
        got = pa.table(got) if isinstance(got, pa.RecordBatch) else got
        assert same(got, expected), source
    both = ra.select([tmp_path / "a.parquet", tmp_path / "b.parquet"], n=ra.len())
    assert both["n"].to_pylist() == [100]

    rows = ra.with_columns(whole, n=E.norm(axis=1))
    assert isinstance(ra.with_columns(whole.to_reader(), n=E.norm(axis=1)), pa.RecordBatchReader)
    assert same(ra.with_columns(whole.to_reader(), n=E.norm(axis=1)).read_all(), rows)
    assert same(ra.with_columns(dataset, n=E.norm(axis=1)).read_all(), rows)
    frame = pl.from_arrow(whole.combine_chunks())
    assert ra.with_columns(frame, n=E.norm(axis=1)).equals(pl.from_arrow(rows.combine_chunks()))
    assert ra.with_columns(frame.lazy(), n=E.norm(axis=1)).equals(
        pl.from_arrow(rows.combine_chunks())
    )
    pandas = whole.to_pandas().set_index(whole["id"].to_pandas() * 10)
    made = ra.with_columns(pandas, n=E.norm(axis=1))
    assert list(made.index) == list(pandas.index) and list(made.columns) == ["id", "emb", "w", "n"]


def test_mistakes_are_said_before_anything_is_read():
    def never():
        raise AssertionError("it was read")
        yield

    def reader():
        return pa.RecordBatchReader.from_batches(TABLE.schema, never())

    with pytest.raises(ra.RaptorsValueError, match="col: 'nope' is not there; the columns are id"):
        ra.select(reader(), x=ra.col("nope").mean())
    with pytest.raises(ra.RaptorsValueError, match="select: expected expressions that all give"):
        ra.select(reader(), a=E.mean(axis=0), b=E.scale(2))
    with pytest.raises(ra.RaptorsValueError, match="with_columns: .* needs all rows before"):
        ra.with_columns(reader(), a=E.standardize())
    with pytest.raises(ra.RaptorsTypeError, match="select: expected an expression for a, got int"):
        ra.select(reader(), a=1)
    with pytest.raises(ra.RaptorsTypeError, match="select: expected expressions by name"):
        ra.select(reader())
    with pytest.raises(ra.RaptorsTypeError, match="select: expected a table, a reader"):
        ra.select(3, a=E.mean())
    words = pa.table({"s": ["a"]})
    with pytest.raises(ra.RaptorsTypeError, match="mean: expected numbers, .* got string"):
        ra.select(words, a=ra.col("s").mean())
    with pytest.raises(ra.RaptorsValueError, match="no such file or directory: nowhere.parquet"):
        ra.select("nowhere.parquet", a=E.mean())
    # A table has all rows at hand.
    centred = ra.with_columns(TABLE, c=E.center())["c"]
    assert centred.combine_chunks().equals(ra.center(TABLE["emb"]).combine_chunks())


def test_a_producer_that_fails_says_so_and_one_that_is_left_stops():
    batches = TABLE.to_batches()
    given = []

    def failing():
        yield batches[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        ra.select(pa.RecordBatchReader.from_batches(TABLE.schema, failing()), m=E.mean())

    def endless():
        try:
            while True:
                given.append(1)
                yield batches[0]
        finally:
            given.append("closed")

    made = ra.with_columns(
        pa.RecordBatchReader.from_batches(TABLE.schema, endless()), n=E.norm(axis=1)
    )
    assert made.read_next_batch().num_rows == batches[0].num_rows
    made.close()
    del made
    assert len(given) < 10

    reader = TABLE.to_reader()
    ra.select(reader, m=E.mean())
    empty = ra.select(TABLE[:0], n=ra.len(), m=E.mean(), c=E.mean(axis=0))
    assert empty.to_pylist() == [{"n": 0, "m": None, "c": [None] * WIDTH}]


def test_progress_is_told():
    seen = []
    batches = iter(TABLE.to_batches())
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches)
    ra.select(reader, m=E.mean(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(17, None), (34, None), (50, None)]


def test_progress_is_shown(capsys, tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    ra.select(tmp_path / "a.parquet", m=E.mean(), progress=True)
    assert "50 of 50 (100%) rows" in capsys.readouterr().err


def test_accumulators_are_merged_and_used_up():
    emb = TABLE["emb"].combine_chunks()
    left, right = ra.Accumulator("sum", axis=0), ra.Accumulator("sum", axis=0)
    left.update(emb[:20])
    right.update(emb[20:])
    assert (left.rows, right.rows) == (20, 30)
    left.merge(right)
    np.testing.assert_allclose(left.finish(), ra.sum(emb, axis=0), rtol=1e-6)
    for used in (left, right):
        with pytest.raises(ra.RaptorsValueError, match="was finished, or merged into another"):
            used.update(emb)
    counted = ra.Accumulator("count")
    counted.update(np.ones((2, 3)))
    assert counted.finish() == 6
    wrong = ra.Accumulator("mean", axis=0)
    wrong.update(np.ones((2, 3)))
    with pytest.raises(
        ra.RaptorsValueError, match="mean: expected a batch of width 3, got width 2"
    ):
        wrong.update(np.ones((2, 2)))
    with pytest.raises(ra.RaptorsTypeError, match="mean: expected a batch of float64, got int64"):
        wrong.update(np.ones((2, 3), "i8"))
    with pytest.raises(ra.RaptorsTypeError, match="axis"):
        ra.Accumulator("mean", axis=1)
    with pytest.raises(ra.RaptorsTypeError, match="expected the name of a reduction"):
        ra.Accumulator("scale")
    with pytest.raises(ra.RaptorsTypeError, match="other to be|for other"):
        ra.Accumulator("mean").merge(ra.Accumulator("sum"))
