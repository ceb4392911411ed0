"""Wrong types, missing columns, widths that change between files, ragged rows: one error."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow.dataset as ds
import pytest
from wrong_rows import ADDED, MEAN, WRONG, E, said, written

import raptors_arrow as ra


class Engine(NamedTuple):
    """How an engine reads a folder, and computes on it."""

    added: Callable[[str], Any]
    mean: Callable[[str], Any]
    groups: Callable[[str], Any]
    #: What the engine's own plan finds before a function is asked, and what it says of it.
    own: Mapping[str, str] = MappingProxyType({})


def in_polars(engine: str) -> Engine:
    def read(folder: str) -> pl.LazyFrame:
        files = f"{folder}/*.parquet"
        return pl.read_parquet(files).lazy() if engine == "eager" else pl.scan_parquet(files)

    def added(folder: str) -> Any:
        made = pl.col("emb").raptors.add(np.ones(2, "f4"))
        if engine == "eager":
            return read(folder).collect().with_columns(made=made)
        return read(folder).with_columns(made=made).collect(engine=engine)

    return Engine(
        added,
        lambda folder: read(folder).raptors.select(m=MEAN),
        lambda folder: read(folder).raptors.group_by("k").agg(m=MEAN),
        {"missing": 'unable to find column "emb"; valid columns: ["id", "k", "other"]'},
    )


def in_acero() -> Engine:
    def added(folder: str) -> Any:
        dataset = ds.dataset(folder)
        return dataset.to_table(columns={"made": ra.pyarrow.expression(ADDED, dataset.schema)})

    return Engine(
        added,
        lambda folder: ra.select(ds.dataset(folder), m=MEAN),
        lambda folder: ra.group_by(ds.dataset(folder), "k").aggregate(m=MEAN),
    )


def in_files() -> Engine:
    return Engine(
        lambda folder: ra.with_columns(f"{folder}/*.parquet", made=ADDED).read_all(),
        lambda folder: ra.select(f"{folder}/*.parquet", m=MEAN),
        lambda folder: ra.group_by(f"{folder}/*.parquet", "k").aggregate(m=MEAN),
    )


def in_duckdb() -> Engine:
    def added(folder: str) -> Any:
        with duckdb.connect() as con:
            ra.duckdb.register(con)
            rows = f"read_parquet('{folder}/*.parquet')"
            return con.sql(f"SELECT raptors_add(emb, [1, 1]) FROM {rows}").to_arrow_table()

    def of_rows(compute: Callable[[Any], Any]) -> Callable[[str], Any]:
        def run(folder: str) -> Any:
            with duckdb.connect() as con:
                return compute(con.sql(f"FROM read_parquet('{folder}/*.parquet')"))

        return run

    return Engine(
        added,
        of_rows(lambda rows: ra.select(rows, m=MEAN)),
        of_rows(lambda rows: ra.group_by(rows, "k").aggregate(m=MEAN)),
        {
            "type": "raptors_add() does not support the supplied arguments",
            "missing": 'Referenced column "emb" not found',
        },
    )


def in_datafusion() -> Engine:
    def read(folder: str) -> datafusion.SessionContext:
        config = datafusion.SessionConfig().with_target_partitions(1)
        context = datafusion.SessionContext(config)
        context.register_parquet("t", folder)
        return context

    def added(folder: str) -> Any:
        context = read(folder)
        ra.datafusion.create_function(context, "added", ADDED, "t")
        return context.sql("SELECT added(emb) FROM t").to_arrow_table()

    return Engine(
        added,
        lambda folder: ra.select(read(folder).table("t"), m=MEAN),
        lambda folder: ra.group_by(read(folder).table("t"), "k").aggregate(m=MEAN),
    )


ENGINES = {
    "polars": in_polars("eager"),
    "polars-lazy": in_polars("in-memory"),
    "polars-streaming": in_polars("streaming"),
    "acero": in_acero(),
    "files": in_files(),
    "duckdb": in_duckdb(),
    "datafusion": in_datafusion(),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", WRONG)
def test_functions_of_rows(case, engine, tmp_path):
    own = ENGINES[engine]
    text = said(lambda: own.added(written(case, tmp_path)))
    want = own.own.get(case, WRONG[case].added)
    if (case, engine) == ("ragged", "polars-streaming"):  # the row is one of a morsel
        want = want.partition(" row 1000")[0]
    assert want in text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", ["mean", "groups"])
@pytest.mark.parametrize("case", WRONG)
def test_statistics_of_columns(case, way, engine, tmp_path):
    """The class is ours, too: these loops are."""
    kind = ra.RaptorsTypeError if case == "type" else ra.RaptorsValueError
    with pytest.raises(kind) as caught:
        getattr(ENGINES[engine], way)(written(case, tmp_path))
    assert WRONG[case].mean in str(caught.value)


@pytest.mark.parametrize("case", ["widths", "ragged"])
@pytest.mark.parametrize("engine", ["files", "acero"])
def test_files_are_named(case, engine, tmp_path):
    folder = written(case, tmp_path)
    file = f"part-{len(WRONG[case].files) - 1}.parquet"
    own = ENGINES[engine]
    for way in (own.mean, own.groups) + ((own.added,) if engine == "files" else ()):
        assert f"{file})" in said(lambda way=way: way(folder))


def test_a_fixed_width_that_changes_between_files(tmp_path):
    """Ours where we read; elsewhere the engine's reader says both types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i, width in enumerate((2, 3)):
        vectors = pa.array([[1.0] * width], pa.list_(pa.float32(), width))
        table = pa.table({"id": [i], "k": [0], "emb": vectors})
        pq.write_table(table, tmp_path / f"part-{i}.parquet")
    folder = str(tmp_path)
    for own in (ENGINES["files"], ENGINES["acero"]):
        for way in (own.mean, own.groups):
            with pytest.raises(ra.RaptorsValueError) as caught:
                way(folder)
            assert "expected emb of width 2, got width 3 (in " in str(caught.value)
            assert "part-1.parquet)" in str(caught.value)
    for name in ("polars-lazy", "acero", "datafusion"):
        text = said(lambda name=name: ENGINES[name].added(folder))
        assert "emb" in text or "FixedSizeList" in text
        assert "2" in text and "3" in text


def test_rows_are_counted_over_the_batches_of_a_stream():
    import pyarrow as pa

    rows = pa.table({"emb": pa.array([[1.0, 2.0]] * 5 + [[1.0]], pa.list_(pa.float32()))})
    reader = rows.to_reader(max_chunksize=2)
    with pytest.raises(ra.RaptorsValueError) as caught:
        ra.select(reader, m=E.mean(axis=0))
    assert "but row 1 has 1" in str(caught.value)
    assert str(caught.value).endswith("(in the batch from row 4 on)")
