"""Expressions over Spark, on a local cluster of two executors."""

import doctest

import numpy as np
import pyarrow as pa
import pytest
from by_row import cases, same_bits, table
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from statistics_of import GROUPS, KEYS, TOTALS, close, in_order, rows
from wrong_rows import ADDED, MEAN, WRONG, is_said, said, written

import raptors_arrow as ra

pytestmark = pytest.mark.filterwarnings("ignore")  # Spark's own


@pytest.fixture(scope="module")
def spark():
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def taken(df) -> pa.Table:
    return df.toArrow().sort_by("id")


def test_every_function_equals_the_direct_call(spark, folder):
    """All in one pass over the files: a stage of Spark's costs more than any of them."""
    made = {f"c{i}": case.expr() for i, case in enumerate(cases())}
    got = taken(ra.spark.with_columns(spark.read.parquet(folder), **made))
    rows = table()
    assert same_bits(got["emb"], rows["emb"])
    for i, case in enumerate(cases()):
        assert same_bits(got[f"c{i}"], case.direct(rows)), str(case)


def test_the_schema_is_known_before_anything_is_read(spark, folder):
    e = ra.col("emb")
    df = ra.spark.with_columns(
        spark.read.parquet(folder), unit=e.normalize(), best=e.argmax(axis=1), emb=e.cast("float64")
    )
    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    assert types == {
        "id": "bigint",
        "emb": "array<double>",
        "other": "array<float>",
        "w": "float",
        "unit": "array<float>",
        "best": "bigint",
    }
    got = taken(df)
    assert same_bits(got["unit"], ra.normalize(table()["emb"]))  # of what came, not what it became
    assert same_bits(got["emb"], ra.cast(table()["emb"], "float64"))


def test_spark_goes_on_with_the_columns(spark, folder):
    df = ra.spark.with_columns(spark.read.parquet(folder), n=ra.col("emb").norm(axis=1))
    kept = taken(df.where("n < 2").select("id"))["id"].to_pylist()
    norms = ra.norm(table()["emb"], axis=1).to_pylist()
    assert kept == [i for i, norm in enumerate(norms) if norm is not None and norm < 2]


def test_statistics_of_all_rows(spark, many):
    close(ra.spark.select(spark.read.parquet(many), **TOTALS), ra.select(rows(), **TOTALS))
    none = spark.read.parquet(many).where("id < 0")
    got = ra.spark.select(none, price=ra.col("price").max(), n=ra.len())
    assert got.to_pylist() == [{"price": None, "n": 0}]


def test_there_are_two_executors(spark):
    assert spark.sparkContext.master.startswith("local-cluster[2,")
    spark.range(0, 8, 1, 8).rdd.map(lambda row: row[0]).count()  # both have come up by then
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    assert len(list(tracker.getExecutorInfos())) == 3  # and the driver


def dying(spark, folder, tmp_path):
    """Rows of which some kill the worker that has them, once."""
    marker = str(tmp_path / "died")

    def dies_once(batches):
        import os

        for batch in batches:
            if max(batch["id"].to_pylist()) >= 1024 and not os.path.exists(marker):
                open(marker, "w").close()
                os._exit(1)
            yield batch

    df = spark.read.parquet(folder)
    return df.mapInArrow(dies_once, df.schema)


def test_a_worker_that_dies(spark, many, tmp_path):
    """Spark tries the partition again, in another worker."""
    df = dying(spark, many, tmp_path)
    close(ra.spark.select(df, **TOTALS), ra.select(rows(), **TOTALS))
    assert (tmp_path / "died").exists()


def test_a_worker_that_dies_in_the_middle_of_groups(spark, many, tmp_path):
    got = ra.spark.group_by(dying(spark, many, tmp_path), "user").aggregate(**GROUPS).toArrow()
    close(in_order(got, "user"), in_order(ra.group_by(rows(), "user").aggregate(**GROUPS), "user"))
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_the_same_error_as_elsewhere(case, spark, tmp_path):
    df = spark.read.parquet(written(case, tmp_path))
    added = said(lambda: ra.spark.with_columns(df, made=ADDED).collect())
    assert is_said(case, "add", added), added
    mean = said(lambda: ra.spark.select(df, m=MEAN))
    groups = said(lambda: ra.spark.group_by(df, "k").aggregate(m=MEAN).collect())
    for text in (mean, groups):
        assert is_said(case, "mean", text), text


@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_groups(keys, spark, many):
    groups = ra.spark.group_by(spark.read.parquet(many), keys)
    got = groups.aggregate(**GROUPS).toArrow()
    want = ra.group_by(rows(), keys).aggregate(**GROUPS)
    close(in_order(got, keys), in_order(want, keys))


def test_mistakes_in_statistics(spark, many, ragged):
    df, e = spark.read.parquet(many), ra.col("emb")
    with pytest.raises(ra.RaptorsValueError, match="expected unit to reduce the rows to one"):
        ra.spark.select(df, unit=e.normalize())
    with pytest.raises(ra.RaptorsValueError, match="'nothing' is not there; the columns are id"):
        ra.spark.select(df, m=ra.col("nothing").mean(axis=0))
    with pytest.raises(PySparkException) as caught:
        ra.spark.select(spark.read.parquet(ragged), m=e.mean(axis=0))
    assert "mean: expected every row to have 2 elements, but row 1 has 1" in str(caught.value)
    assert "(in m=col('emb').mean(axis=0))" in str(caught.value)


def failure(df) -> str:
    with pytest.raises(PySparkException) as caught:
        df.collect()
    return str(caught.value)


def test_errors_name_function_and_column(spark, folder, ragged):
    e = ra.col("emb")
    made = ra.spark.with_columns(spark.read.parquet(ragged), unit=e.add(np.ones(2, "f4")))
    said = failure(made)
    assert "add: expected every row to have 2 elements, but row 1 has 1" in said
    assert "(in unit=col('emb').add(<ndarray>))" in said
    rows = spark.read.parquet(folder)
    said = failure(ra.spark.with_columns(rows, d=e.dot(np.ones(3, "f4"))))
    assert "dot: expected y of width 5, got width 3 (in d=col('emb').dot(<ndarray>))" in said
    with pytest.raises(ra.RaptorsValueError, match="'nothing' is not there; the columns are id"):
        ra.spark.with_columns(rows, unit=ra.col("nothing").normalize())
    with pytest.raises(ra.RaptorsError, match=r"normalize: .*string.*col\('t'\)"):
        ra.spark.with_columns(spark.sql("SELECT 'a' AS t"), unit=ra.col("t").normalize())
    with pytest.raises(ra.RaptorsValueError, match="expected a value for each row for m"):
        ra.spark.with_columns(rows, m=e.mean(axis=0))
    with pytest.raises(ra.RaptorsTypeError, match="expected a data frame of Spark, got int"):
        ra.spark.with_columns(3, unit=e.normalize())


def test_the_examples_of_docstrings(spark):
    assert doctest.testmod(ra.spark).failed == 0


def test_the_guide(spark, snippet):
    snippet("spark.md")


def test_one_job_in_every_engine(spark, snippet):
    """Ray starts by itself, beside Spark."""
    snippet("outgrowing.md")
