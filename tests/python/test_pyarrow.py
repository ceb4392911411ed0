"""The functions in pyarrow's registry."""

import numpy as np
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from calls import numbers
from forms import fixed, values_of

import raptors_arrow as ra

VALUES = np.arange(1, 25, dtype="f4").reshape(6, 4)
X = fixed(VALUES, np.arange(6) != 2)
TURNED = X.take(pa.array([5, 4, 3, 2, 1, 0]))


def test_register_gives_a_name_and_is_harmless_twice():
    name = ra.pyarrow.register("mean", X.type)
    assert name == ra.pyarrow.register("mean", X.type) == "raptors_mean_axis1_float32x4"
    assert name in pc.list_functions()
    assert pc.call_function(name, [X]).equals(ra.mean(X, axis=1))
    assert pc.call_function(name, [X[0]]).as_py() == 2.5
    other = ra.pyarrow.register("mean", X.type, min_count=5)
    assert other != name
    assert pc.call_function(other, [X]).null_count == 6


#: Functions that make no row from one row alone, whatever the options.
NOT_BY_ROW = {"sum_axis0", "mean_axis0", "transpose", "top_k"}
NOT_BY_ROW |= {"matmul", "pairwise", "gram", "covariance", "correlation"}


def test_types_that_pyarrow_tells_apart_have_names_of_their_own():
    nullable = pa.list_(pa.float32(), 2)
    strict = pa.list_(pa.field("item", pa.float32(), nullable=False), 2)
    names = [ra.pyarrow.register("mean", kind) for kind in (nullable, strict)]
    assert len(set(names)) == 2
    for name, kind in zip(names, (nullable, strict), strict=True):
        assert pc.call_function(name, [pa.array([[1.0, 3.0]], kind)]).to_pylist() == [2.0]


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "u1"])
@pytest.mark.parametrize("name", ra.list_functions())
def test_every_function_registers_or_says_why_not(name, dtype):
    function = ra.get_function(name)
    values = numbers((6, 4), dtype, name)
    x = fixed(values, np.arange(6) != 2)
    options = {"axis": 1} if len(function.arguments) == 1 and "axis" in function.options else {}
    options |= {"type": pa.float64()} if "type" in function.options else {}
    options |= {"max": 3} if "max" in function.options else {}
    if name == "where":
        with pytest.raises(ra.RaptorsTypeError, match="where: .*if_else"):
            ra.pyarrow.register(name, x.type)
        return
    if name in NOT_BY_ROW:
        with pytest.raises(ra.RaptorsValueError, match=f"{name}: .*one result for each row"):
            ra.pyarrow.register(name, x.type, **options)
        return
    registered = ra.pyarrow.register(name, x.type, **options)
    number = pa.scalar(2, x.type.value_type)
    seconds = {"number": [number], "operand": [x, x[1]], "row": [x[1]], "vectors": [x, x[1]]}
    for rest in [[]] if len(function.arguments) == 1 else [[y] for y in seconds[KIND[name]]]:
        got = pc.call_function(registered, [x, *rest])
        rest = [pa.array(r.values) if isinstance(r, pa.FixedSizeListScalar) else r for r in rest]
        assert got.equals(function(x, *rest, **options))


KIND = {name: ra.get_function(name).argument_kinds[-1] for name in ra.list_functions()}


@pytest.mark.parametrize("name", ["standardize", "center", "minmax_scale"])
def test_transforms_of_columns_are_refused(name):
    with pytest.raises(ra.RaptorsValueError, match=f"{name}: .*each row.*pass axis=1"):
        ra.pyarrow.register(name, X.type)
    registered = ra.pyarrow.register(name, X.type, axis=1)
    assert pc.call_function(registered, [X]).equals(getattr(ra, name)(X, axis=1))


def test_a_column_of_numbers_is_one_for_each_row():
    weights = pa.array(np.arange(6, dtype="f4"))
    registered = ra.pyarrow.register("multiply", X.type, y=pa.float32())
    got = pc.call_function(registered, [X, weights])
    assert got.equals(ra.multiply(X, weights, axis=0))
    # Also where there are as many rows as columns: nothing is guessed from the data.
    assert pc.call_function(registered, [X[:4], weights[:4]]).equals(got[:4])
    assert pc.call_function(registered, [X, weights[2]]).equals(ra.multiply(X, 2))
    with pytest.raises(ra.RaptorsTypeError, match="dot: expected a type of lists for y, got float"):
        ra.pyarrow.register("dot", X.type, y=pa.float32())
    with pytest.raises(ra.RaptorsTypeError, match="dot: expected a pyarrow type, got 'float'"):
        ra.pyarrow.register("dot", X.type, y="float")


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


def test_options_by_place_and_vectors_in_expressions():
    rows = ds.dataset(pa.table({"id": range(6), "emb": X, "other": TURNED}))
    query = VALUES[1]
    calls = {
        "clipped": (("clip", "emb", 3, 10), ra.clip(X, 3, 10)),
        "wide": (("cast", "emb", "float64"), ra.cast(X, "float64")),
        "unit": (("normalize", "emb"), ra.normalize(X)),
        "likely": (("softmax", "emb"), ra.softmax(X)),
        "near": (("l2_distance", "emb", query.tolist()), ra.l2_distance(X, query)),
        "dot": (("dot", "emb", pc.field("other")), ra.dot(X, TURNED)),
        "best": (("argmax", "emb"), ra.argmax(X, axis=1)),
    }
    made = {name: ra.pyarrow.expression(*call, type=X.type) for name, (call, _) in calls.items()}
    got = rows.to_table(columns=made)
    for name, (_, expected) in calls.items():
        assert got[name].combine_chunks().equals(expected), name
    near = rows.to_table(columns=["id"], filter=made["near"] < 1)
    assert near["id"].to_pylist() == [1]


def test_columns_are_refused_at_once_where_one_value_is_taken():
    numbers, vectors = pc.field("w"), pc.field("other")
    for name, column, instead in (
        ("scale", numbers, "multiply takes one value per row"),
        ("scale", numbers + 1, "multiply takes one value per row"),
        ("broadcast_add", vectors, "add takes a column of vectors"),
    ):
        with pytest.raises(ra.RaptorsTypeError, match=f"{name}: expected one value .*; {instead}"):
            ra.pyarrow.expression(name, "emb", column, type=X.type)
    # What is one value may be an expression, and what takes a column takes it.
    rows = ds.dataset(pa.table({"emb": X, "other": TURNED, "w": np.arange(6, dtype="f4")}))
    literal = pc.scalar(pa.scalar(2, pa.float32()))
    made = {
        "twice": ra.pyarrow.expression("scale", "emb", literal, type=X.type),
        "weighted": ra.pyarrow.expression("multiply", "emb", numbers, type=X.type, y=pa.float32()),
        "both": ra.pyarrow.expression("add", "emb", vectors, type=X.type),
    }
    got = rows.to_table(columns=made)
    assert got["twice"].combine_chunks().equals(ra.scale(X, 2))
    weights = pa.array(np.arange(6, dtype="f4"))
    assert got["weighted"].combine_chunks().equals(ra.multiply(X, weights, axis=0))
    assert got["both"].combine_chunks().equals(ra.add(X, TURNED))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: ra.pyarrow.register(3, X.type), "get_function: expected name to be a str"),
        (lambda: ra.pyarrow.register("add", X.type, y=pa.string()), "add: .*numbers for y, got st"),
        (lambda: ra.pyarrow.register("sum", X.type, y=X.type), "sum: expected no second argument"),
        (lambda: ra.pyarrow.expression("sum", 3, type=X.type), "sum: expected the name of a field"),
        (lambda: ra.pyarrow.expression("add", "e", type=X.type), "add: expected y, got nothing"),
        (
            lambda: ra.pyarrow.expression("add", "e", object(), type=X.type),
            "add: expected y to be a value of fixed_size_list",
        ),
        (
            lambda: ra.pyarrow.expression("scale", "e", "x", type=X.type),
            "scale: expected factor to be a value of float, got 'x'",
        ),
        (
            lambda: ra.pyarrow.expression("clip", "e", 1, 2, 3, type=X.type),
            "clip: expected at most 2 positional values, got 3",
        ),
        (
            lambda: ra.pyarrow.expression("clip", "e", 1, min=2, type=X.type),
            "clip: min was given twice",
        ),
    ],
)
def test_mistakes_are_errors_of_ours(call, match):
    with pytest.raises(ra.RaptorsTypeError, match=match):
        call()


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
