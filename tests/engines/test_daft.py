"""Expressions over Daft, on its own runner."""

import doctest

import daft
import numpy as np
import pyarrow as pa
import pytest
from by_row import cases, same_bits, table
from statistics_of import GROUPS, KEYS, TOTALS, close, in_order, rows
from wrong_rows import ADDED, MEAN, WRONG, is_said, said, written

import raptors_arrow as ra

pytestmark = pytest.mark.filterwarnings("ignore")  # Daft's own


def taken(df) -> pa.Table:
    return df.to_arrow().sort_by("id")


@pytest.mark.parametrize("case", cases(), ids=str)
def test_every_function_equals_the_direct_call(folder, case):
    df = daft.read_parquet(folder)
    made = ra.daft.with_columns(df, made=case.expr())
    got = taken(made)
    assert same_bits(got["made"], case.direct(table()))
    assert made.schema()["made"].dtype == daft.DataType.from_arrow_type(
        case.expr().result_type(df.schema().to_pyarrow_schema())
    )


def test_expressions_and_filters(folder):
    df = daft.read_parquet(folder)
    norm = ra.daft.expression(ra.col("emb").norm(axis=1), df.schema())
    kept = taken(df.where(norm < 2).select("id"))["id"].to_pylist()
    norms = ra.norm(table()["emb"], axis=1).to_pylist()
    assert kept == [i for i, norm in enumerate(norms) if norm is not None and norm < 2]


def test_columns_are_made_of_those_that_came(folder):
    df = daft.read_parquet(folder)
    e = ra.col("emb")
    got = taken(ra.daft.with_columns(df, emb=e.scale(2), unit=e.normalize()))
    assert same_bits(got["unit"], ra.normalize(table()["emb"]))
    assert same_bits(got["emb"], ra.scale(table()["emb"], 2))


def test_embeddings(folder):
    kind = daft.DataType.embedding(daft.DataType.float32(), 5)
    df = daft.read_parquet(folder).with_column("emb", daft.col("emb").cast(kind))
    got = taken(ra.daft.with_columns(df, n=ra.col("emb").norm(axis=1)).select("id", "n"))
    assert same_bits(got["n"], ra.norm(table()["emb"], axis=1))


def test_statistics_of_all_rows(many):
    close(ra.daft.select(daft.read_parquet(many), **TOTALS), ra.select(rows(), **TOTALS))
    none = daft.read_parquet(many).where(daft.col("id") < 0)
    got = ra.daft.select(none, mean=ra.col("emb").mean(axis=0), n=ra.len())
    assert got.to_pylist() == [{"mean": [None] * 6, "n": 0}]


@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_groups(keys, many):
    groups = ra.daft.group_by(daft.read_parquet(many), keys)
    got = groups.aggregate(**GROUPS).to_arrow()
    want = ra.group_by(rows(), keys).aggregate(**GROUPS)
    close(in_order(got, keys), in_order(want, keys))


def test_mistakes_in_statistics(many, ragged):
    df, e = daft.read_parquet(many), ra.col("emb")
    with pytest.raises(ra.RaptorsValueError, match="expected unit to reduce the rows to one"):
        ra.daft.select(df, unit=e.normalize())
    with pytest.raises(ra.RaptorsValueError, match="'nothing' is not there; the columns are id"):
        ra.daft.select(df, m=ra.col("nothing").mean(axis=0))
    with pytest.raises(Exception, match="mean: expected every row to have 2 .*row 1 has 1.*in m="):
        ra.daft.select(daft.read_parquet(ragged), m=e.mean(axis=0))


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_the_same_error_as_elsewhere(case, tmp_path):
    df = daft.read_parquet(written(case, tmp_path))
    added = said(lambda: ra.daft.with_columns(df, made=ADDED).collect())
    assert is_said(case, "add", added), added
    mean = said(lambda: ra.daft.select(df, m=MEAN))
    groups = said(lambda: ra.daft.group_by(df, "k").aggregate(m=MEAN).collect())
    for text in (mean, groups):
        assert is_said(case, "mean", text), text


def failure(df) -> str:
    with pytest.raises(Exception) as caught:
        df.collect()
    return str(caught.value)


def test_errors_name_function_and_column(folder, ragged):
    e = ra.col("emb")
    said = failure(ra.daft.with_columns(daft.read_parquet(ragged), unit=e.add(np.ones(2, "f4"))))
    assert "add: expected every row to have 2 elements, but row 1 has 1" in said
    assert "(in unit=col('emb').add(<ndarray>))" in said
    rows = daft.read_parquet(folder)
    said = failure(ra.daft.with_columns(rows, d=e.dot(np.ones(3, "f4"))))
    assert "dot: expected y of width 5, got width 3 (in d=col('emb').dot(<ndarray>))" in said
    with pytest.raises(ra.RaptorsValueError, match="'nothing' is not there; the columns are id"):
        ra.daft.with_columns(rows, unit=ra.col("nothing").normalize())
    with pytest.raises(ra.RaptorsError, match=r"normalize: .*string.*col\('t'\)"):
        ra.daft.with_columns(daft.from_pydict({"t": ["a"]}), unit=ra.col("t").normalize())
    with pytest.raises(ra.RaptorsValueError, match="expected a value for each row for m"):
        ra.daft.with_columns(rows, m=e.mean(axis=0))
    with pytest.raises(ra.RaptorsTypeError, match="expected a data frame of Daft, got int"):
        ra.daft.with_columns(3, unit=e.normalize())


def test_the_examples_of_docstrings():
    assert doctest.testmod(ra.daft).failed == 0


def test_the_guide(snippet):
    snippet("daft.md")
