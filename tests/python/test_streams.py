"""Streams: every kind of source, read batch by batch, and what becomes of one that misbehaves."""

import gc
import weakref

import duckdb
import numpy as np
import polars as pl
import producer
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from test_expressions import STATISTICS, E, same, table

import raptors_arrow as ra

WHOLE = table(3000, 700)
MEAN = {"mean": E.mean(axis=0), "n": ra.len()}


def reader(batches, schema=WHOLE.schema) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


def files(folder) -> dict:
    """The same rows in every format."""
    pq.write_table(WHOLE, folder / "rows.parquet", row_group_size=400)
    pq.write_table(WHOLE[:1000], folder / "a.parquet")
    pq.write_table(WHOLE[1000:], folder / "b.parquet")
    with pa.ipc.new_file(folder / "rows.arrow", WHOLE.schema) as sink:
        sink.write_table(WHOLE)
    with pa.ipc.new_stream(folder / "rows.arrows", WHOLE.schema) as sink:
        sink.write_table(WHOLE)
    (folder / "parts").mkdir()
    pq.write_table(WHOLE[:10], folder / "parts" / "1.parquet")
    pq.write_table(WHOLE[10:], folder / "parts" / "2.parquet")
    return {
        "parquet": folder / "rows.parquet",
        "two": [folder / "a.parquet", str(folder / "b.parquet")],
        "pattern": str(folder / "[ab].parquet"),
        "folder": folder / "parts",
        "file": folder / "rows.arrow",
        "stream": folder / "rows.arrows",
    }


def test_files_of_every_format_are_the_table(tmp_path):
    statistics = ra.select(WHOLE, **STATISTICS)
    columns = ra.with_columns(WHOLE, n=E.norm(axis=1))
    for name, paths in files(tmp_path).items():
        assert same(ra.select(paths, **STATISTICS), statistics), name
        made = ra.with_columns(paths, n=E.norm(axis=1))
        assert isinstance(made, pa.RecordBatchReader)
        assert same(made.read_all(), columns), name


def test_numbers_in_csv(tmp_path):
    rows = pa.table({"a": [1.5, 2.5, 4.0], "b": [1, 2, 3]})
    pa.csv.write_csv(rows, tmp_path / "rows.csv")
    got = ra.select(tmp_path / "rows.csv", mean=ra.col("a").mean(), most=ra.col("b").max())
    assert got.to_pylist() == [{"mean": 8 / 3, "most": 3}]


def test_datasets_with_partitions_filters_and_other_columns(tmp_path):
    keyed = WHOLE.append_column("part", pa.array(np.arange(3000) % 2))
    for i in (0, 1):
        (tmp_path / str(i)).mkdir()
        part = keyed.filter(pa.compute.equal(keyed["part"], i)).drop_columns("part")
        pq.write_table(part, tmp_path / str(i) / "rows.parquet")
    dataset = ds.dataset(tmp_path, partitioning=["part"])
    parts = [keyed.filter(pa.compute.equal(keyed["part"], i)) for i in (0, 1)]
    expected = ra.select(pa.concat_tables(parts), **STATISTICS)
    assert same(ra.select(dataset, **STATISTICS), expected)
    made = ra.with_columns(dataset, n=ra.col("part").scale(2)).read_all()
    assert made["n"].to_pylist() == [0] * 1500 + [2] * 1500
    even = dataset.filter(ds.field("part") == 0)
    assert ra.select(even, n=ra.len(), m=E.count())["n"].to_pylist() == [1500]
    scanner = dataset.scanner(filter=ds.field("part") == 0, columns=["emb"])
    assert same(ra.select(scanner, **STATISTICS), ra.select(parts[0], **STATISTICS))
    memory = ds.dataset(reader(WHOLE.to_batches()))
    assert same(ra.select(memory, **STATISTICS), ra.select(WHOLE, **STATISTICS))


def test_queries_are_streamed():
    frame = pl.from_arrow(WHOLE.combine_chunks())
    lazy = frame.lazy().filter(pl.col("id") >= 10)
    expected = ra.select(pl.from_arrow(WHOLE[10:].combine_chunks()), **STATISTICS)
    got = ra.select(lazy, **STATISTICS)
    assert isinstance(got, pl.DataFrame) and got.equals(expected)
    made = ra.with_columns(lazy, n=E.norm(axis=1))
    assert made.equals(ra.with_columns(frame[10:], n=E.norm(axis=1)))
    empty = ra.with_columns(frame.lazy().filter(pl.col("id") < 0), n=E.norm(axis=1))
    assert empty.columns == ["id", "emb", "w", "n"] and empty.height == 0

    whole = WHOLE  # DuckDB finds it by its name
    relation = duckdb.sql("select id, emb from whole where id < 2000 order by id")
    got = ra.select(relation, n=ra.len(), last=ra.col("id").max())
    assert got.to_pylist() == [{"n": 2000, "last": 1999}]
    relation = duckdb.sql("select emb from whole order by id")
    norms = ra.with_columns(relation, n=E.norm(axis=1)).read_all()["n"]
    assert norms.combine_chunks().equals(ra.norm(whole["emb"], axis=1).combine_chunks())


class OnlyStream:
    """Has the one method that a stream needs."""

    def __init__(self, rows):
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema=None):
        return self.rows.__arrow_c_stream__(requested_schema)


def test_any_object_with_the_method_of_a_stream():
    got = ra.select(OnlyStream(WHOLE), **STATISTICS)
    assert same(got, ra.select(WHOLE, **STATISTICS))
    with pytest.raises(ra.RaptorsTypeError, match="got OnlyStream, which is one of arrays without"):
        ra.select(OnlyStream(WHOLE["emb"]), m=E.mean())


def test_names_are_those_of_columns_as_in_polars():
    assert ra.select(WHOLE, E.mean(axis=0), ra.len()).column_names == ["emb", "len"]
    made = ra.with_columns(WHOLE, E.normalize(), w2=ra.col("w") * 2)
    assert made.column_names == ["id", "emb", "w", "w2"]
    assert made["emb"].combine_chunks().equals(ra.normalize(WHOLE["emb"]).combine_chunks())
    with pytest.raises(ra.RaptorsValueError, match="would be the second 'emb': give it a name"):
        ra.select(WHOLE, E.mean(axis=0), E.std(axis=0))
    with pytest.raises(ra.RaptorsValueError, match="names no column: give it a name"):
        ra.select(WHOLE, ra.lazy(np.ones((3, 2))).sum())
    with pytest.raises(ra.RaptorsTypeError, match="select: expected an expression, got str"):
        ra.select(WHOLE, "emb")
    # Any name can be that of a result.
    assert ra.select(WHOLE, source=ra.len()).column_names == ["source"]


@pytest.mark.parametrize("batches", [[], [WHOLE[:0]], [WHOLE[:0], WHOLE[:5], WHOLE[:0], WHOLE[5:]]])
def test_streams_without_rows_and_batches_without_rows(batches):
    given = [batch for rows in batches for batch in rows.to_batches() or [_none()]]
    whole = pa.Table.from_batches(given, WHOLE.schema)
    assert same(ra.select(reader(given), **STATISTICS), ra.select(whole, **STATISTICS))
    made = ra.with_columns(reader(given), n=E.norm(axis=1)).read_all()
    assert same(made, ra.with_columns(whole, n=E.norm(axis=1)))


def _none() -> pa.RecordBatch:
    return WHOLE.combine_chunks().to_batches()[0][:0]


def test_lists_of_no_rows_have_any_width():
    schema = pa.schema({"emb": pa.list_(pa.float32())})
    none, some = (pa.record_batch([pa.array(v, schema[0].type)], schema) for v in ([], [[1, 2]]))
    given = [none, some, none, some]
    assert ra.select(reader(given, schema), s=E.sum(axis=0))["s"].to_pylist() == [[2.0, 4.0]]
    assert ra.sum(reader(given, schema), axis=0).to_pylist() == [2.0, 4.0]


@pytest.mark.parametrize("k", [0, 1, 3])
def test_a_producer_that_fails_at_a_batch_says_its_own_words(k):
    def failing():
        yield from WHOLE.to_batches()[:k]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        ra.select(reader(failing()), **MEAN)
    made = ra.with_columns(reader(failing()), n=E.norm(axis=1))
    for _ in range(k):
        made.read_next_batch()
    with pytest.raises(OSError, match="the disk is gone"):
        made.read_next_batch()


def test_a_schema_that_changes_is_named():
    other = WHOLE.select(["id", "emb"]).to_batches()[0]

    class Changing:
        schema = WHOLE.schema

        def __iter__(self):
            return iter([WHOLE.to_batches()[0], other])

    from raptors_arrow.sources import _of_one_schema

    with pytest.raises(ra.RaptorsValueError, match="batch 1 .* expected id: int64, .* got id: int"):
        list(_of_one_schema(Changing(), WHOLE.schema))
    # pyarrow's own readers say so before it gets here.
    with pytest.raises((ValueError, TypeError), match="[Ss]chema"):
        ra.select(reader(iter([WHOLE.to_batches()[0], other])), **MEAN)


def test_a_stream_that_is_left_stops_its_producer_and_frees_its_batches():
    alive: list[weakref.ref] = []
    state = {"given": 0, "closed": False}

    def endless():
        try:
            while True:
                values = np.zeros((64, 3), "f4")
                alive.append(weakref.ref(values))
                flat = pa.Array.from_buffers(pa.float32(), 192, [None, pa.py_buffer(values)])
                state["given"] += 1
                yield pa.record_batch({"emb": pa.FixedSizeListArray.from_arrays(flat, 3)})
                del flat, values
        finally:
            state["closed"] = True

    schema = pa.schema({"emb": pa.list_(pa.float32(), 3)})
    made = ra.with_columns(reader(endless(), schema), n=E.norm(axis=1))
    assert made.read_next_batch().num_rows == 64
    made.close()
    del made
    gc.collect()
    assert state["closed"] and state["given"] <= 4
    assert [ref for ref in alive if ref() is not None] == []


def structures(count: int) -> producer.Stream:
    """A stream of batches made by hand, whose release callbacks are counted."""

    def batch():
        values = np.arange(6, dtype="f4").tobytes()
        lists = producer.array(2, [None], producer.array(6, [None, values]))
        return producer.array(2, [None], lists)

    column = producer.field("+w:3", producer.field("f", name="item"), name="emb")
    return producer.Stream(producer.field("+s", column), [batch() for _ in range(count)])


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_every_structure_of_a_stream_is_released_once(taken):
    stream = structures(5)
    made = ra.with_columns(stream, n=E.sum(axis=1))
    for _ in range(taken):
        assert made.read_next_batch()["n"].to_pylist() == [3.0, 12.0]
    made.close()
    del made
    gc.collect()
    given = [node for node in stream.nodes if node.given]
    assert stream.stream in given and len(given) >= 2 + taken
    assert [node.released for node in given] == [1] * len(given)


def test_what_a_reader_cannot_do_twice():
    used = reader(WHOLE.to_batches())
    ra.select(used, **MEAN)
    assert ra.select(used, n=ra.len())["n"].to_pylist() == [0]  # it is at its end, as pyarrow says
    with pytest.raises(
        ra.RaptorsValueError, match="all rows before its first result, and a reader"
    ):
        ra.with_columns(reader(WHOLE.to_batches()), c=E.standardize())
    with pytest.raises(ra.RaptorsValueError, match="select: .* fit first with select"):
        ra.select(reader(WHOLE.to_batches()), c=E.center().square().mean(axis=0))


def test_data_that_lines_up_with_rows_is_no_operand_of_a_stream():
    given = reader(WHOLE.to_batches())
    for operand in (np.ones((700, 3), "f4"), WHOLE["emb"][:700]):
        with pytest.raises(ra.RaptorsValueError, match="got a matrix of 700 rows, which lines up"):
            ra.with_columns(given, x=E.add(operand))
        with pytest.raises(ra.RaptorsValueError, match="dot: expected a number or one row"):
            ra.with_columns(given, x=E.dot(operand))
    with pytest.raises(ra.RaptorsValueError, match="got 700 values, one for each row"):
        ra.with_columns(given, x=E.multiply(np.ones(700), axis=0))
    with pytest.raises(ra.RaptorsValueError, match="make it a column of the source"):
        ra.with_columns(given, x=E.add(ra.lazy(np.ones((3000, 3)))))
    row = np.arange(3, dtype="f4")
    made = ra.with_columns(given, x=E.add(row), y=E.dot(row), z=E.matmul(np.ones((3, 2), "f4")))
    made = made.read_all()
    assert made["x"].combine_chunks().equals(ra.add(WHOLE["emb"], row).combine_chunks())
    assert made["y"].combine_chunks().equals(ra.dot(WHOLE["emb"], row).combine_chunks())


def test_tables_take_what_was_measured_of_them():
    got = ra.with_columns(WHOLE, n=E.center().norm(axis=1))
    expected = ra.norm(ra.center(WHOLE["emb"]), axis=1)
    assert got["n"].combine_chunks().equals(expected.combine_chunks())


def test_rows_are_counted_before_only_where_files_say_how_many(tmp_path):
    paths, seen = files(tmp_path), []

    def told(done, total):
        seen.append((done, total))

    ra.select(paths["parquet"], n=E.mean(), progress=told)
    assert seen[-1] == (3000, 3000)
    ra.select(paths["stream"], n=E.mean(), progress=told)
    assert seen[-1] == (3000, None)
    for _ in ra.with_columns(paths["file"], n=E.norm(axis=1), progress=told):
        pass
    assert seen[-1] == (3000, 3000)


def test_mistakes_in_paths_are_named(tmp_path):
    files(tmp_path)
    with pytest.raises(ra.RaptorsValueError, match="no such file or directory: .*nowhere"):
        ra.select([tmp_path / "a.parquet", tmp_path / "nowhere.parquet"], n=ra.len())
    with pytest.raises(ra.RaptorsValueError, match="files of one format, got ipc and parquet"):
        ra.select([tmp_path / "a.parquet", tmp_path / "rows.arrow"], n=ra.len())
    with pytest.raises(ra.RaptorsValueError, match="one format in .*, got ipc and parquet"):
        ra.select(tmp_path, n=ra.len())
