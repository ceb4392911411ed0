"""The functions in pyarrow's registry."""

import numpy as np
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from forms import fixed, values_of

import raptors_arrow as ra

VALUES = np.arange(1, 25, dtype="f4").reshape(6, 4)
X = fixed(VALUES, np.arange(6) != 2)


def test_register_gives_a_name_and_is_harmless_twice():
    name = ra.pyarrow.register("mean", X.type)
    assert name == ra.pyarrow.register("mean", X.type) == "raptors_mean_axis1_float32x4"
    assert name in pc.list_functions()
    assert pc.call_function(name, [X]).equals(ra.mean(X, axis=1))
    assert pc.call_function(name, [X[0]]).as_py() == 2.5
    other = ra.pyarrow.register("mean", X.type, min_count=5)
    assert other != name
    assert pc.call_function(other, [X]).null_count == 6


@pytest.mark.parametrize("name", ra.list_functions())
def test_every_function_registers_or_says_why_not(name):
    function = ra.get_function(name)
    try:
        registered = ra.pyarrow.register(name, X.type)
    except ra.RaptorsValueError as error:
        assert "each row" in str(error)
        assert name.endswith("_axis0")
        return
    seconds = {"number": pa.scalar(2, pa.float32()), "operand": X, "row": X[1], "matrix": X}
    rest = [seconds[kind] for kind in function.argument_kinds[1:]]
    got = pc.call_function(registered, [X, *rest])
    rest = [pa.array(r.values) if isinstance(r, pa.FixedSizeListScalar) else r for r in rest]
    axis = {"axis": 1} if len(function.arguments) == 1 and "axis" in function.options else {}
    assert got.equals(function(X, *rest, **axis))


@pytest.mark.parametrize("axis", [0, None])
def test_results_that_are_not_row_by_row_are_refused(axis):
    with pytest.raises(ra.RaptorsValueError, match="sum: .*one result for each row"):
        ra.pyarrow.register("sum", X.type, axis=axis)


def test_expressions_in_datasets_and_filters(tmp_path):
    table = pa.table({"id": range(6), "emb": X})
    ds.write_dataset(table, tmp_path, format="parquet", max_rows_per_group=2, max_rows_per_file=2)
    dataset = ds.dataset(tmp_path)
    kind = dataset.schema.field("emb").type
    mean = ra.pyarrow.expression("mean", "emb", type=kind)
    got = dataset.to_table(columns={"id": pc.field("id"), "mean": mean}).sort_by("id")
    assert got["mean"].to_pylist() == ra.mean(X, axis=1).to_pylist()
    assert sorted(dataset.to_table(filter=mean > 16)["id"].to_pylist()) == [4, 5]
    twice = ra.pyarrow.expression("scale", "emb", 2, type=kind)
    scaled = dataset.to_table(columns={"id": pc.field("id"), "emb": twice}).sort_by("id")
    assert scaled["emb"].type == kind
    assert scaled["emb"].to_pylist() == ra.scale(X, 2).to_pylist()
    more = ra.pyarrow.expression("broadcast_add", "emb", [1, 2, 3, 4], type=kind)
    assert dataset.to_table(columns={"m": more})["m"].null_count == 1


def test_expressions_in_acero():
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.table({"emb": X})))
    mean = ra.pyarrow.expression("mean", pc.field("emb"), type=X.type)
    options = acero.ProjectNodeOptions([mean], ["mean"])
    plan = acero.Declaration.from_sequence([source, acero.Declaration("project", options)])
    assert plan.to_table()["mean"].to_pylist() == ra.mean(X, axis=1).to_pylist()


def test_tensors_register_under_their_own_name():
    x = pa.FixedShapeTensorArray.from_numpy_ndarray(VALUES.reshape(6, 2, 2))
    name = ra.pyarrow.register("scale", x.type)
    got = pc.call_function(name, [x, pa.scalar(2, pa.float32())])
    assert got.type == x.type
    np.testing.assert_array_equal(values_of(got), VALUES * 2)
