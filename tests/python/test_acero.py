"""Expressions of columns in pyarrow's datasets and filters, over Parquet files."""

import numpy as np
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from by_row import FUNCTIONS, WIDTH, cases, same_bits, table

import raptors_arrow as ra


@pytest.fixture(scope="module", params=[True, False], ids=["fixed", "listed"])
def dataset(request, tmp_path_factory):
    """Parquet files, some row groups each."""
    folder = tmp_path_factory.mktemp("rows")
    rows = table(fixed=request.param)
    ds.write_dataset(rows, folder, format="parquet", max_rows_per_file=25, max_rows_per_group=10)
    return ds.dataset(folder), rows


def test_every_function_that_is_row_by_row_is_tried():
    assert {"normalize", "dot", "matmul", "pairwise", "clip", "cast", "mean"} <= set(FUNCTIONS)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_every_function_equals_the_direct_call(dataset, case):
    files, rows = dataset
    made = ra.pyarrow.expression(case.expr(), files.schema)
    got = files.to_table(columns={"id": pc.field("id"), "made": made}).sort_by("id")["made"]
    assert same_bits(got, case.direct(rows))
    assert got.type == case.expr().result_type(files.schema)


def test_chains_in_columns_and_filters(dataset):
    files, rows = dataset
    query = np.arange(WIDTH, dtype="f4")
    e = ra.col("emb")
    score = (e.normalize() * 2).dot(query)
    made = ra.pyarrow.expression(score, files.schema)
    want = ra.dot(ra.multiply(ra.normalize(rows["emb"]), 2), query)
    got = files.to_table(columns={"id": pc.field("id"), "score": made}).sort_by("id")
    assert same_bits(got["score"], want)
    kept = files.to_table(columns=["id"], filter=made > 0.5).sort_by("id")["id"].to_pylist()
    assert kept == [i for i, s in enumerate(want.to_pylist()) if s is not None and s > 0.5]
    both = ra.pyarrow.expression((e - ra.col("other")).norm(axis=1), files.schema)
    assert files.count_rows(filter=both.is_null()) == 3


def test_constants_register_nothing_new(dataset):
    files, _ = dataset
    rng = np.random.default_rng(3)

    def score() -> pc.Expression:
        query = rng.standard_normal(WIDTH).astype("f4")
        return ra.pyarrow.expression(ra.col("emb").scale(float(query[0])).dot(query), files.schema)

    first = files.to_table(columns={"s": score()})
    before = len(pc.list_functions())
    again = files.to_table(columns={"s": score()})
    assert len(pc.list_functions()) == before
    assert not again.equals(first)


def test_a_column_that_is_one_value_in_a_file(tmp_path):
    rows = pa.table({"emb": table()["emb"], "k": pa.array([i % 2 for i in range(60)], pa.int32())})
    ds.write_dataset(rows, tmp_path, format="parquet", partitioning=["k"])
    files = ds.dataset(tmp_path, partitioning=ds.partitioning(pa.schema({"k": pa.int32()})))
    made = ra.pyarrow.expression(ra.col("emb").multiply(ra.col("k").cast("float32")), files.schema)
    got = files.to_table(columns={"k": pc.field("k"), "made": made})
    for part in (0, 1):
        kept = got.filter(pc.field("k") == part)["made"]
        want = ra.scale(rows.filter(pc.field("k") == part)["emb"], part)
        assert same_bits(kept, want)


def test_in_acero(dataset):
    _, rows = dataset
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    made = ra.pyarrow.expression(ra.col("emb").clip(0, 1).sum(axis=1), rows.schema)
    options = acero.ProjectNodeOptions([made], ["made"])
    plan = acero.Declaration.from_sequence([source, acero.Declaration("project", options)])
    assert same_bits(plan.to_table()["made"], ra.sum(ra.clip(rows["emb"], 0, 1), axis=1))


def test_a_width_that_changes_between_files(tmp_path):
    for width in (2, 3):
        emb = pa.array([[1.0] * width], pa.list_(pa.float32()))
        ds.write_dataset(pa.table({"emb": emb}), tmp_path / str(width), format="parquet")
    files = ds.dataset([str(p) for p in sorted(tmp_path.rglob("*.parquet"))])
    made = ra.pyarrow.expression(ra.col("emb").dot(np.ones(2, "f4")), files.schema)
    with pytest.raises(ra.RaptorsValueError, match=r"dot: expected y of width 3.*col\('emb'\)"):
        files.to_table(columns={"made": made})


def test_ragged_rows_name_function_column_and_row(tmp_path):
    emb = pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32()))
    rows = ds.dataset(pa.table({"emb": emb}))
    unit = ra.pyarrow.expression(ra.col("emb").normalize(), rows.schema)
    made = rows.to_table(columns={"made": unit})["made"]
    assert made.to_pylist() == ra.normalize(emb).to_pylist()
    along = ra.pyarrow.expression(ra.col("emb").dot(np.ones(2, "f4")), rows.schema)
    with pytest.raises(ra.RaptorsValueError, match=r"dot: .*row 1 has 1.*col\('emb'\)"):
        rows.to_table(columns={"made": along})


def test_mistakes_are_found_before_anything_is_read(dataset):
    files, _ = dataset
    e = ra.col("emb")
    names = files.schema.append(pa.field("name", pa.string()))
    for expr, schema, match in (
        (ra.col("nothing").normalize(), files.schema, "'nothing' is not there; the columns are id"),
        (ra.col("name").normalize(), names, r"normalize: .*string.*col\('name'\)"),
        (e.standardize(), files.schema, "expected a value for each row"),
        (e.mean(axis=0), files.schema, "expected a value for each row"),
        (ra.lazy(np.eye(2)).normalize(), files.schema, "expected an expression of columns"),
    ):
        with pytest.raises(ra.RaptorsError, match=match):
            ra.pyarrow.expression(expr, schema)
    with pytest.raises(ra.RaptorsTypeError, match="expected a schema after col"):
        ra.pyarrow.expression(e.normalize(), "emb")
    with pytest.raises(ra.RaptorsTypeError, match="mean: expected the type of the column"):
        ra.pyarrow.expression("mean", "emb")
