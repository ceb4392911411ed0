"""Expressions over Ray Data, on a local cluster of two workers."""

import doctest

import numpy as np
import pyarrow as pa
import pytest
import ray
from by_row import cases, same_bits, table
from statistics_of import GROUPS, KEYS, TOTALS, close, in_order, rows
from wrong_rows import ADDED, MEAN, WRONG, is_said, said, written

import raptors_arrow as ra

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def taken(dataset) -> pa.Table:
    tables = [block for block in ray.get(dataset.to_arrow_refs()) if block.num_rows]
    return pa.concat_tables(tables).sort_by("id")


def test_every_function_equals_the_direct_call(folder):
    """All in one pass over the files: a task of Ray's costs more than any of them."""
    made = {f"c{i}": case.expr() for i, case in enumerate(cases())}
    got = taken(
        ray.data.read_parquet(folder).map_batches(
            ra.ray.with_columns(**made), batch_format="pyarrow", zero_copy_batch=True
        )
    )
    rows = table()
    assert same_bits(got["emb"], rows["emb"])
    for i, case in enumerate(cases()):
        assert same_bits(got[f"c{i}"], case.direct(rows)), str(case)
        assert got[f"c{i}"].type == case.expr().result_type(rows.schema), str(case)


def test_the_work_is_done_by_more_than_one_process(folder):
    def with_process(batch):
        import os

        return batch.append_column("pid", pa.array([os.getpid()] * len(batch)))

    mapper = ra.ray.with_columns(unit=ra.col("emb").normalize())
    dataset = ray.data.read_parquet(folder, override_num_blocks=8)
    got = taken(
        dataset.map_batches(mapper, batch_format="pyarrow", batch_size=8).map_batches(
            with_process, batch_format="pyarrow"
        )
    )
    import os

    assert os.getpid() not in got["pid"].to_pylist()
    assert same_bits(got["unit"], ra.normalize(table()["emb"]))


def test_batches_of_numpy_arrays_as_ray_makes_them():
    values = np.arange(20, dtype="f4").reshape(5, 4)
    dataset = ray.data.from_items([{"id": i, "emb": row} for i, row in enumerate(values)])
    e = ra.col("emb")
    mapper = ra.ray.with_columns(unit=e.normalize(), weighted=e.multiply(ra.col("id")))
    got = taken(dataset.map_batches(mapper))
    assert same_bits(got["unit"], ra.normalize(pa_vectors(values)))
    weighted = [[x * i for x in row] for i, row in enumerate(values.tolist())]
    assert got["weighted"].to_pylist() == weighted


def pa_vectors(values: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
@pytest.mark.parametrize("kind", ["ray", "pyarrow"])
def test_tensors_of_ray_and_of_pyarrow(kind, shape):
    values = np.arange(24, dtype="f4").reshape(4, *shape)
    if kind == "ray":
        dataset = ray.data.from_numpy(values)
    else:
        column = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
        dataset = ray.data.from_arrow(pa.table({"data": column}))
    mapper = ra.ray.with_columns(twice=ra.col("data") * 2, sums=ra.col("data").sum(axis=1))
    batches = dataset.map_batches(mapper, batch_format="pyarrow").take_batch(4)
    np.testing.assert_array_equal(
        np.stack(list(batches["twice"])).reshape(4, -1), values.reshape(4, -1) * 2
    )
    np.testing.assert_array_equal(batches["sums"], values.reshape(4, -1).sum(axis=1))


def test_statistics_of_all_rows(many):
    close(ra.ray.select(ray.data.read_parquet(many), **TOTALS), ra.select(rows(), **TOTALS))


def test_blocks_of_1024_rows_give_the_bits_of_one_process(many):
    blocks = [rows()[at : at + 1024] for at in range(0, 4096, 1024)]
    totals = {name: TOTALS[name] for name in ("mean", "std", "price")}
    got = ra.ray.select(ray.data.from_arrow(blocks), **totals)
    assert got.equals(ra.select(rows(), **totals))


def dying(folder, tmp_path):
    """Rows whose second file kills the worker that reads it, once."""
    marker = str(tmp_path / "died")

    def dies_once(batch):
        import os

        if max(batch["id"].to_pylist()) >= 1024 and not os.path.exists(marker):
            open(marker, "w").close()
            os._exit(1)
        return batch

    return ray.data.read_parquet(folder).map_batches(dies_once, batch_format="pyarrow")


def test_a_worker_that_dies(many, tmp_path):
    """Ray tries the block again, in another worker."""
    close(ra.ray.select(dying(many, tmp_path), **TOTALS), ra.select(rows(), **TOTALS))
    assert (tmp_path / "died").exists()


def grouped(groups) -> pa.Table:
    blocks = ray.get(groups.aggregate(**GROUPS).to_arrow_refs())
    return pa.concat_tables(block for block in blocks if block.num_rows)


def test_a_worker_that_dies_in_the_middle_of_groups(many, tmp_path):
    got = grouped(ra.ray.group_by(dying(many, tmp_path), "user"))
    close(in_order(got, "user"), in_order(ra.group_by(rows(), "user").aggregate(**GROUPS), "user"))
    assert (tmp_path / "died").exists()


def test_a_worker_that_dies_while_states_are_merged(many, tmp_path, monkeypatch):
    """The part that it had is shuffled to another worker, once."""
    marker, finish = str(tmp_path / "died"), ra.ray._Finish.__call__

    def dies_once(self, sent):
        import os

        if not os.path.exists(marker):
            open(marker, "w").close()
            os._exit(1)
        return finish(self, sent)

    class Dying(ra.ray._Finish):
        __call__ = dies_once

    monkeypatch.setattr(ra.ray, "_Finish", Dying)
    got = grouped(ra.ray.group_by(ray.data.read_parquet(many), "user"))
    close(in_order(got, "user"), in_order(ra.group_by(rows(), "user").aggregate(**GROUPS), "user"))
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("kind", ["ray", "pyarrow"])
def test_statistics_of_tensors(kind):
    values = np.arange(24, dtype="f4").reshape(4, 6)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    table = pa.table({"data": column})
    dataset = ray.data.from_numpy(values) if kind == "ray" else ray.data.from_arrow(table)
    got = ra.ray.select(dataset, mean=ra.col("data").mean(axis=0))
    assert got["mean"].to_pylist() == [values.mean(axis=0).tolist()]


@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_groups(keys, many):
    got = grouped(ra.ray.group_by(ray.data.read_parquet(many), keys))
    want = ra.group_by(rows(), keys).aggregate(**GROUPS)
    close(in_order(got, keys), in_order(want, keys))


def test_mistakes_in_statistics(many, ragged):
    e = ra.col("emb")
    with pytest.raises(ra.RaptorsValueError, match="expected unit to reduce the rows to one"):
        ra.ray.select(ray.data.read_parquet(many), unit=e.normalize())
    with pytest.raises(ra.RaptorsTypeError, match="expected a dataset of Ray, got int"):
        ra.ray.select(3, m=e.mean(axis=0))
    with pytest.raises(ray.exceptions.RayError) as caught:
        ra.ray.select(ray.data.read_parquet(ragged), m=e.mean(axis=0))
    said = f"{caught.value} {caught.value.__cause__!r}"
    assert "mean: expected every row to have 2 elements, but row 1 has 1" in said
    assert "(in m=col('emb').mean(axis=0))" in said


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_the_same_error_as_elsewhere(case, tmp_path):
    dataset = ray.data.read_parquet(written(case, tmp_path))
    mapper = ra.ray.with_columns(made=ADDED)
    added = said(dataset.map_batches(mapper, batch_format="pyarrow").materialize)
    assert is_said(case, "add", added), added
    mean = said(lambda: ra.ray.select(dataset, m=MEAN))
    groups = said(lambda: ra.ray.group_by(dataset, "k").aggregate(m=MEAN).materialize())
    for text in (mean, groups):
        assert is_said(case, "mean", text), text


def failure(dataset, **expressions) -> str:
    mapper = ra.ray.with_columns(**expressions)
    with pytest.raises(ray.exceptions.RayError) as caught:
        dataset.map_batches(mapper, batch_format="pyarrow").materialize()
    return f"{caught.value} {caught.value.__cause__!r}"


def test_errors_name_function_and_column(folder, ragged):
    rows = ray.data.read_parquet(folder)
    said = failure(ray.data.read_parquet(ragged), unit=ra.col("emb").add(np.ones(2, "f4")))
    assert "add: expected every row to have 2 elements, but row 1 has 1" in said
    assert "(in unit=col('emb').add(<ndarray>))" in said
    assert "'nothing' is not there; the columns are id, emb" in failure(
        rows, unit=ra.col("nothing").normalize()
    )
    wide = failure(rows, d=ra.col("emb").dot(np.ones(3, "f4")))
    assert "dot: expected y of width 5, got width 3 (in d=col('emb').dot(<ndarray>))" in wide


def test_mistakes_are_found_before_anything_is_read():
    with pytest.raises(ra.RaptorsTypeError, match="expected expressions by name, got none"):
        ra.ray.with_columns()
    with pytest.raises(ra.RaptorsTypeError, match="expected an expression for unit, got str"):
        ra.ray.with_columns(unit="emb")
    for expr in (ra.col("emb").mean(axis=0), ra.col("emb").standardize(), ra.len()):
        with pytest.raises(ra.RaptorsValueError, match="expected an? .* for unit"):
            ra.ray.with_columns(unit=expr)
    mapper = ra.ray.with_columns(unit=ra.col("emb").normalize())
    with pytest.raises(ra.RaptorsTypeError, match="emb has null or ragged rows.*'pyarrow'"):
        mapper({"emb": np.array([np.ones(2), None], dtype=object)})
    with pytest.raises(ra.RaptorsTypeError, match="expected a pyarrow table.*got list"):
        mapper([1, 2])


def test_the_examples_of_docstrings():
    assert doctest.testmod(ra.ray).failed == 0


def test_the_guide(snippet):
    snippet("ray.md")
