"""Functions called on streams, two passes, and accumulators of every function that reduces."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import arro3.core
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from test_expressions import STATISTICS, E, same, table

import raptors_arrow as ra

WHOLE = table(3000, 700)
VECTORS = WHOLE.select(["emb"])
EMB = WHOLE["emb"].combine_chunks()
REDUCTIONS = ("sum", "mean", "min", "max", "count", "var", "std", "norm", "argmin", "argmax")


def reader(rows: pa.Table = VECTORS, batch: int = 333) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=batch))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_a_reader_have_the_bits_of_the_whole(name, axis):
    function = getattr(ra, name)
    got, expected = function(reader(), axis=axis), function(EMB, axis=axis)
    if axis == 1:
        assert isinstance(got, pa.RecordBatchReader)
        assert got.read_all()["emb"].combine_chunks().equals(expected)
    elif axis == 0:
        assert got.equals(expected)
    else:
        assert got == expected and type(got) is type(expected)


@pytest.mark.parametrize("batch", [1, 333, 3000])
@pytest.mark.parametrize("name", ["gram", "covariance", "correlation"])
def test_products_of_columns(name, batch):
    got = getattr(ra, name)(reader(batch=batch))
    assert got.equals(getattr(ra, name)(EMB))  # below 4096 rows, to the bit
    long = table(9000, 5000).select(["emb"])
    once = getattr(ra, name)(reader(long, 9000))
    assert getattr(ra, name)(reader(long, 777)).equals(once)
    close = np.vstack(getattr(ra, name)(long["emb"].combine_chunks()).to_numpy(False))
    np.testing.assert_allclose(np.vstack(once.to_numpy(False)), close, rtol=1e-5)
    assert (
        ra.covariance(reader(long), ddof=0).to_pylist() != ra.covariance(reader(long)).to_pylist()
    )


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2", "l1"])
@pytest.mark.parametrize("queries", [1, 2, 9])
def test_the_nearest_rows_of_a_reader(metric, queries):
    rng = np.random.default_rng(queries)
    query = rng.standard_normal((queries, 3)).astype("f4")
    query = query[0] if queries == 1 else query
    got = ra.top_k(reader(), query, k=7, metric=metric)
    expected = ra.top_k(EMB, query, k=7, metric=metric)
    assert got.indices.equals(expected.indices) and got.scores.equals(expected.scores)
    few = ra.top_k(reader(VECTORS[:4]), query, k=7, metric=metric)
    expected = ra.top_k(EMB[:4], query, k=7, metric=metric)
    assert few.indices.equals(expected.indices)


def test_rows_of_a_reader_give_a_reader():
    row = np.arange(3, dtype="f4")
    for got, expected in (
        (ra.scale(reader(), 2), ra.scale(EMB, 2)),
        (ra.add(reader(), row), ra.add(EMB, row)),
        (ra.normalize(reader()), ra.normalize(EMB)),
        (ra.dot(reader(), y=row), ra.dot(EMB, row)),
        (ra.call_function("softmax", [reader()]), ra.softmax(EMB)),
        (ra.get_function("clip")(reader(), 0, 1), ra.clip(EMB, 0, 1)),
        (ra.clip(x=reader(), min=0), ra.clip(EMB, 0)),
    ):
        assert isinstance(got, pa.RecordBatchReader) and got.schema.names == ["emb"]
        assert got.read_all()["emb"].combine_chunks().equals(expected)


def test_every_kind_of_stream(tmp_path):
    pq.write_table(VECTORS, tmp_path / "rows.parquet")
    dataset = ds.dataset(tmp_path / "rows.parquet")
    expected = ra.mean(EMB, axis=0)
    vectors = VECTORS  # DuckDB finds it by its name
    for source in (
        dataset,
        dataset.scanner(),
        arro3.core.RecordBatchReader.from_arrow(VECTORS),
        duckdb.sql("select emb from vectors"),
    ):
        assert ra.mean(source, axis=0).equals(expected), source
    frame = pl.from_arrow(VECTORS.combine_chunks())
    assert ra.mean(frame.lazy(), axis=0).to_list() == expected.to_pylist()
    assert ra.scale(frame.lazy(), 2).equals(pl.DataFrame({"emb": ra.scale(frame["emb"], 2)}))
    assert len(vectors) == 3000


def test_columns_of_numbers_are_the_columns_of_a_matrix():
    numbers = pa.table({"a": np.arange(9.0), "b": np.arange(9.0) ** 2, "c": np.ones(9)})
    assert ra.sum(reader(numbers, 2), axis=0).equals(ra.sum(numbers, axis=0))
    doubled = ra.scale(reader(numbers, 2), 2).read_all()
    assert doubled.to_pydict() == ra.scale(numbers, 2).to_pydict()
    lengths = ra.norm(reader(numbers, 2), axis=1).read_all()["norm"]
    assert lengths.to_pylist() == ra.norm(numbers, axis=1).to_pylist()


def test_mistakes_on_streams_are_named():
    with pytest.raises(ra.RaptorsTypeError, match=r"ra.select\(source, mean=ra.col\('emb'\).mean"):
        ra.mean(reader(WHOLE), axis=0)
    with pytest.raises(ra.RaptorsValueError, match="a matrix of 3000 rows, which lines up"):
        ra.add(reader(), EMB)
    with pytest.raises(ra.RaptorsValueError, match="needs all rows before its first result"):
        ra.standardize(reader())
    with pytest.raises(ra.RaptorsValueError, match="needs all rows"):
        ra.transpose(reader())
    with pytest.raises(ra.RaptorsTypeError, match="expected no width for a stream"):
        ra.mean(reader(), width=3)
    with pytest.raises(ra.RaptorsTypeError, match="explain: expected data in memory for mean"):
        ra.explain("mean", reader())
    empty = reader(VECTORS[:0])
    assert ra.mean(empty, axis=0).to_pylist() == [None] * 3
    assert ra.top_k(reader(VECTORS[:0]), np.ones(3, "f4"), k=2).indices.to_pylist() == []


TRANSFORMS = {
    "standardize": E.standardize(),
    "center": E.center(),
    "minmax_scale": E.minmax_scale(),
    "of_all": E.standardize(axis=None),
    "normalize": E.normalize(axis=0),
    "by_sum": E.normalize(axis=0, ord=1),
    "by_largest": E.normalize(axis=None, ord="inf"),
    "then": E.center().norm(axis=1),
    "twice": E.scale(3).center().minmax_scale(axis=None),
}


@pytest.mark.parametrize("type", ["float16", "float32", "float64", "int16"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_can_be_read_again_is_measured_first(name, type, tmp_path):
    kind = pa.list_(pa.type_for_alias(type), 3)
    rows = WHOLE.set_column(
        1, "emb", ra.cast(ra.scale(WHOLE["emb"], 100), type, safe=False).cast(kind)
    )
    with pa.ipc.new_file(tmp_path / "rows.arrow", rows.schema) as sink:
        sink.write_table(rows, max_chunksize=333)
    expected = ra.with_columns(rows, made=TRANSFORMS[name])
    path = tmp_path / "rows.arrow"
    for source in (path, ds.dataset(path, format="ipc")):
        assert same(ra.with_columns(source, made=TRANSFORMS[name]).read_all(), expected)
    statistic = {"n": ra.len(), "most": TRANSFORMS[name].max()}
    assert same(ra.select(path, **statistic), ra.select(rows, **statistic))


def test_two_passes_over_nothing(tmp_path):
    pq.write_table(WHOLE[:0], tmp_path / "none.parquet")
    assert ra.with_columns(tmp_path / "none.parquet", c=E.center()).read_all().num_rows == 0
    frame = pl.from_arrow(WHOLE.combine_chunks())
    made = ra.with_columns(frame.lazy(), c=E.standardize())
    assert made.equals(ra.with_columns(frame, c=E.standardize()))


def test_several_functions_in_one_accumulator():
    several = ra.Accumulator(["mean", "std", ("norm", {"ord": 1}), "covariance"], axis=0, ddof=1)
    parts = EMB.slice(0, 1024), EMB.slice(1024)
    several.update(parts[0])
    other = ra.Accumulator(["mean", "std", ("norm", {"ord": 1}), "covariance"], axis=0, ddof=1)
    other.update(parts[1])
    assert repr(several) == "<raptors_arrow.Accumulator: mean std norm covariance, 1024 rows>"
    several.merge(other)
    assert several.rows == 3000
    got = several.finish()
    assert list(got) == ["mean", "std", "norm", "covariance"]
    assert got["mean"].equals(ra.mean(EMB, axis=0))  # cut at a multiple of 1024
    assert got["std"].equals(ra.std(EMB, axis=0, ddof=1))
    assert got["norm"].equals(ra.norm(EMB, axis=0, ord=1))
    close = np.vstack(ra.covariance(EMB).to_numpy(False))
    np.testing.assert_allclose(np.vstack(got["covariance"].to_numpy(False)), close, rtol=1e-6)
    with pytest.raises(ra.RaptorsValueError, match="expected each function once"):
        ra.Accumulator(["mean", "mean"])
    with pytest.raises(ra.RaptorsValueError, match="got an empty list"):
        ra.Accumulator([])
    with pytest.raises(ra.RaptorsTypeError, match='Accumulator: no option "ddof"'):
        ra.Accumulator(["mean", "min"], ddof=1)
    with pytest.raises(ra.RaptorsValueError, match="one of 2 functions, got 1"):
        ra.Accumulator(["mean", "min"]).merge(ra.Accumulator("mean"))
    with pytest.raises(ra.RaptorsTypeError, match="expected 2 arguments, got 1"):
        ra.Accumulator("top_k", k=3)


def test_states_are_kept_sent_and_pickled(tmp_path):
    names = ["mean", "std", "min", "count", "argmax"]
    states = []
    for part in (EMB.slice(0, 1024), EMB.slice(1024)):
        several = ra.Accumulator(names, axis=0)
        several.update(part)
        states.append(several.state())
        assert several.rows == len(part)  # it goes on
    kept = pa.table({"state": pa.concat_arrays(states)})
    assert ra.Accumulator.from_state(kept["state"]).rows == 3000
    pq.write_table(kept, tmp_path / "states.parquet")
    again = ra.Accumulator.from_state(pq.read_table(tmp_path / "states.parquet")["state"])
    for state in (again, pickle.loads(pickle.dumps(again))):
        got = state.finish()
        for name in names:
            assert got[name].equals(getattr(ra, name)(EMB, axis=0)), name

    one = ra.Accumulator("norm", ord=1)
    new = pickle.loads(pickle.dumps(one))
    for state in (one, new):
        state.update(np.array([[1.0, -2.0]]))
        assert pickle.loads(pickle.dumps(state)).finish() == 3.0
    columns = ra.Accumulator("sum", axis=0)
    columns.update(np.ones((2, 3)))
    assert isinstance(pickle.loads(pickle.dumps(columns)).finish(), np.ndarray)
    columns.merge(ra.Accumulator.from_state(columns.state()))
    assert columns.finish().tolist() == [4.0] * 3

    with pytest.raises(ra.RaptorsTypeError, match="covariance: it has no state that can be kept"):
        kept = ra.Accumulator(["covariance"])
        kept.update(EMB)
        kept.state()
    assert kept.finish()["covariance"].equals(ra.covariance(EMB))  # it goes on
    with pytest.raises(ra.RaptorsValueError, match="expected rows before its state"):
        ra.Accumulator("mean").state()
    with pytest.raises(ra.RaptorsTypeError, match="from_state: expected a struct, got int64"):
        ra.Accumulator.from_state(pa.array([1]))
    with pytest.raises(ra.RaptorsTypeError, match="expected a pyarrow array of states, got int"):
        ra.Accumulator.from_state(1)
    with pytest.raises(ra.RaptorsValueError, match="got another struct"):
        ra.Accumulator.from_state(pa.array([{"a": 1}]))
    with pytest.raises(ra.RaptorsValueError, match="expected kind to be"):
        ra.Accumulator.from_state(columns, kind="julia")


def test_nearest_rows_are_merged_in_order():
    query = np.ones(3, "f4")
    left, right = (ra.Accumulator("top_k", query, k=5) for _ in range(2))
    left.update(EMB[:1000])
    right.update(EMB[1000:])
    left.merge(right)
    got, expected = left.finish(), ra.top_k(EMB, query, k=5)
    assert got.indices.equals(expected.indices) and got.scores.equals(expected.scores)


def test_statistics_over_what_was_measured_are_those_of_the_table(tmp_path):
    pq.write_table(WHOLE, tmp_path / "rows.parquet", row_group_size=500)
    assert same(ra.select(tmp_path / "rows.parquet", **STATISTICS), ra.select(WHOLE, **STATISTICS))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_bounded_whatever_the_length(tmp_path):
    program = Path(__file__).parent / "bounded.py"
    command = [sys.executable, str(program), "400", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr
    grown = json.loads(ran.stdout)
    assert len(grown) == 5 and max(grown.values()) < 100, grown
