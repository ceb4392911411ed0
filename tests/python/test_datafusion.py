"""The functions in DataFusion's SQL, and expressions over its data frames."""

import datafusion
import numpy as np
import pyarrow as pa
import pytest
from by_row import FUNCTIONS, WIDTH, Case, cases, same_bits, table

import raptors_arrow as ra
from raptors_arrow.engines._rows import row_functions

TYPES = {
    "float32": (pa.float32(), True),
    "float64": (pa.float64(), True),
    "listed": (pa.float32(), False),
}
ARGUMENTS = {"vectors": "other", "number": "w", "min": "-0.5", "max": "0.5"}


@pytest.fixture(scope="module", params=TYPES)
def context(request):
    made = datafusion.SessionContext()
    rows = table(*TYPES[request.param])
    made.register_record_batches("items", [rows.to_batches(max_chunksize=17)])
    ra.datafusion.register(made, "items")
    return made, rows


def column(context, sql: str, **values) -> pa.ChunkedArray:
    return context.sql(sql, param_values=values or None).to_arrow_table().column(0)


def test_every_function_is_claimed_but_those_with_a_matrix():
    claimed = {function.function for function in row_functions()}
    # `mean_axis1` is `mean` along the rows: one name for both.
    assert claimed == set(FUNCTIONS) - {"matmul", "pairwise", "mean_axis1"}
    assert "raptors_mean_axis1" in {function.name for function in row_functions()}


@pytest.mark.parametrize("function", list(row_functions()), ids=lambda function: function.name)
def test_every_function_equals_the_direct_call(context, function):
    context, rows = context
    names = list(function.parameters.items())[1:]
    given = [ARGUMENTS.get(name, ARGUMENTS[kind]) for name, kind in names]
    call = f"{function.name}({', '.join(['emb', *given])})"
    got = column(context, f"SELECT {call} FROM items ORDER BY id")
    if function.options:
        want = ra.clip(rows["emb"], -0.5, 0.5)
    else:
        instead = {"scale": "multiply", "broadcast_add": "add"}
        name = instead.get(function.function, function.function)
        if function.name == "raptors_where_number":  # numbers are wide, and results have their type
            rows = rows.set_column(3, "w", rows["w"].cast(pa.float64()))
        want = Case(name, tuple(given), dict(function.expr.options)).direct(rows)
    assert same_bits(got, want)
    assert got.type == want.type  # the width is kept


@pytest.mark.parametrize("case", cases(), ids=str)
def test_every_expression_as_a_function(context, case):
    context, rows = context
    if rows["emb"].type.value_type != pa.float32():
        case = Case(case.function, tuple(map(as_double, case.args)), case.options)
    ra.datafusion.create_function(context, "made", case.expr(), "items")
    arguments = ", ".join(case.expr().columns)
    got = column(context, f"SELECT made({arguments}) FROM items ORDER BY id")
    assert same_bits(got, case.direct(rows))


def as_double(arg):
    return arg.astype("f8") if isinstance(arg, np.ndarray) else arg


def test_a_function_in_data_frames(context):
    context, rows = context
    unit = ra.datafusion.create_function(context, "unit", ra.col("emb").normalize(), rows.schema)
    frame = context.table("items").sort(datafusion.col("id"))
    got = frame.select(unit(datafusion.col("emb"))).to_arrow_table().column(0)
    assert same_bits(got, ra.normalize(rows["emb"]))


def test_one_value_for_all_rows(context):
    context, rows = context
    type = rows["emb"].type
    vector = np.arange(WIDTH, dtype=type.value_type.to_pandas_dtype())
    want = ra.dot(rows["emb"], vector)
    got = column(context, f"SELECT raptors_dot(emb, {vector.tolist()}) FROM items ORDER BY id")
    assert same_bits(got, want)
    value = pa.scalar(vector.tolist(), type)
    got = column(context, "SELECT raptors_dot(emb, $q) FROM items ORDER BY id", q=value)
    assert same_bits(got, want)
    got = column(context, "SELECT raptors_scale(emb, 2.5) FROM items ORDER BY id")
    assert same_bits(got, ra.scale(rows["emb"], 2.5))


def test_nulls_and_empties(context):
    context, rows = context
    nothing = column(context, "SELECT raptors_normalize(emb) FROM items WHERE id < 0")
    assert len(nothing) == 0
    null = column(context, "SELECT raptors_dot(emb, NULL) FROM items")
    assert null.null_count == len(rows)
    one = column(context, "SELECT raptors_normalize(emb) FROM items WHERE id = 2")
    assert one.to_pylist() == [None] and one.type == rows["emb"].type


def test_in_filters_and_groups(context):
    context, rows = context
    got = column(context, "SELECT id FROM items WHERE raptors_norm_axis1(emb) < 2 ORDER BY id")
    norms = ra.norm(rows["emb"], axis=1).to_pylist()
    assert got.to_pylist() == [i for i, norm in enumerate(norms) if norm is not None and norm < 2]
    got = column(
        context,
        "SELECT max(raptors_argmax_axis1(emb)) AS m FROM items GROUP BY id % 3 ORDER BY id % 3",
    )
    places = ra.argmax(rows["emb"], axis=1).to_pylist()
    assert got.to_pylist() == [max(p for p in places[k::3] if p is not None) for k in range(3)]


def test_types_are_known_to_the_plan(context):
    context, rows = context
    plan = context.sql(
        "SELECT raptors_normalize(emb) AS u, raptors_argmin_axis1(emb) AS a FROM items"
    )
    assert plan.schema().field("u").type == rows["emb"].type
    assert plan.schema().field("a").type == pa.int64()


def test_columns_of_several_types():
    schema = pa.schema(
        {
            "name": pa.string(),
            "emb": pa.list_(pa.float32(), 3),
            "small": pa.list_(pa.int8(), 2),
            "again": pa.list_(pa.float32(), 3),
        }
    )
    rows = [{"name": "a", "emb": [1, 2, 2], "small": [3, 4], "again": [0, 0, 1]}]
    context = datafusion.SessionContext()
    context.register_record_batches("t", [pa.Table.from_pylist(rows, schema).to_batches()])
    names = ra.datafusion.register(context, context.table("t"))
    assert {
        "raptors_norm_axis1",
        "raptors_norm_axis1_float32x3",
        "raptors_norm_axis1_int8x2",
    } <= set(names)
    sql = "SELECT raptors_norm_axis1(emb) AS a, raptors_norm_axis1_float32x3(again) AS b, "
    got = context.sql(sql + "raptors_norm_axis1_int8x2(small) AS c FROM t").to_arrow_table()
    assert got.to_pylist() == [{"a": 3.0, "b": 1.0, "c": 5.0}]
    assert got.schema.types == [pa.float32(), pa.float32(), pa.float64()]


STATISTICS = [
    ("raptors_sum", "sum", {}),
    ("raptors_mean", "mean", {}),
    ("raptors_min", "min", {}),
    ("raptors_max", "max", {}),
    ("raptors_count", "count", {}),
    ("raptors_var", "var", {}),
    ("raptors_std", "std", {}),
    ("raptors_norm", "norm", {}),
    ("raptors_norm_ord1", "norm", {"ord": 1}),
    ("raptors_norm_ordinf", "norm", {"ord": float("inf")}),
]


def test_every_statistic_is_an_aggregate():
    names = ra.datafusion.register(datafusion.SessionContext(), pa.list_(pa.float32(), 2))
    rows = {function.name for function in row_functions()}
    short = {name for name in names if not name.endswith("_float32x2")}
    assert short - rows == {name for name, _, _ in STATISTICS}


def grouped(type: pa.DataType, partitions: int) -> tuple[datafusion.SessionContext, pa.Table]:
    """Numbers whose sums are exact in any order, in some partitions."""
    numbers = np.random.default_rng(3).integers(-16, 17, (90, WIDTH)) / 8
    rows = [None if i % 7 == 2 else row.tolist() for i, row in enumerate(numbers)]
    keys = [None if i % 11 == 0 else i % 4 for i in range(90)]
    made = pa.table({"id": range(90), "k": keys, "emb": pa.array(rows, type)})
    context = datafusion.SessionContext(
        datafusion.SessionConfig().with_target_partitions(partitions)
    )
    parts = [made[at : at + 90 // partitions] for at in range(0, 90, 90 // partitions)]
    context.register_record_batches("t", [part.to_batches(max_chunksize=7) for part in parts])
    ra.datafusion.register(context, "t")
    return context, made


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("type", [pa.list_(pa.float32(), WIDTH), pa.list_(pa.float64())], ids=str)
@pytest.mark.parametrize(("name", "function", "options"), STATISTICS)
def test_aggregates_equal_the_direct_call(name, function, options, type, partitions):
    context, made = grouped(type, partitions)
    direct = getattr(ra, function)

    def same(got, rows):
        want = direct(rows["emb"], axis=0, **options)
        if partitions > 1 and function in ("var", "std"):  # merged, and rounded then
            np.testing.assert_allclose(got, want, rtol=3e-7)
        else:
            assert got == want.to_pylist()

    groups = context.sql(f"SELECT k, {name}(emb) AS r FROM t GROUP BY k").to_arrow_table()
    assert len(groups) == 5
    for row in groups.to_pylist():
        own = pa.Table.from_pylist(
            [one for one in made.to_pylist() if one["k"] == row["k"]], made.schema
        )
        same(row["r"], own)
    same(column(context, f"SELECT {name}(emb) FROM t")[0].as_py(), made)
    kind = pa.int64() if function == "count" else type.value_type
    fixed = pa.types.is_fixed_size_list(type)
    assert groups.schema.field("r").type == (pa.list_(kind, WIDTH) if fixed else pa.list_(kind))


def test_aggregates_of_nothing_and_over_windows():
    context, made = grouped(pa.list_(pa.float32(), WIDTH), 3)
    assert column(context, "SELECT raptors_mean(emb) FROM t WHERE id < 0")[0].as_py() == [None] * 5
    assert column(context, "SELECT raptors_count(emb) FROM t WHERE id = 2")[0].as_py() == [0] * 5
    running = column(context, "SELECT raptors_sum(emb) OVER (ORDER BY id) FROM t ORDER BY id")
    assert running[49].as_py() == ra.sum(made["emb"][:50], axis=0).to_pylist()
    context, made = grouped(pa.list_(pa.float32()), 3)
    # Nulls do not say how wide they are: of nothing but nulls there are no columns.
    assert column(context, "SELECT raptors_sum(emb) FROM t WHERE id = 2")[0].as_py() == []
    some = "SELECT raptors_sum(CASE WHEN id < 50 THEN NULL ELSE emb END) FROM t"
    assert column(context, some)[0].as_py() == ra.sum(made["emb"][50:], axis=0).to_pylist()


def test_expressions_over_data_frames(context):
    context, rows = context
    frame = context.table("items").sort(datafusion.col("id"))
    e = ra.col("emb")
    stats = ra.select(frame, mean=e.mean(axis=0), n=ra.len())
    assert same_bits(stats["mean"].chunk(0).flatten(), ra.mean(rows["emb"], axis=0))
    reader = ra.with_columns(frame, unit=e.normalize())
    assert same_bits(reader.read_all()["unit"], ra.normalize(rows["emb"]))


def test_wrong_types_and_missing_columns_are_refused_by_the_plan(context):
    context, _ = context
    with pytest.raises(Exception, match="raptors_dot"):
        context.sql("SELECT raptors_dot(id, emb) FROM items")
    with pytest.raises(Exception, match="nothing"):
        context.sql("SELECT raptors_norm_axis1(nothing) FROM items")


def test_ragged_rows_and_widths_name_function_and_row(context):
    context, _ = context
    with pytest.raises(Exception, match="dot: expected y of width 5, got width 2"):
        column(context, "SELECT raptors_dot(emb, [1.0, 2.0]) FROM items")
    with pytest.raises(Exception, match="broadcast_add: expected .*width 5, got width 2"):
        column(context, "SELECT raptors_broadcast_add(emb, [1.0, 2.0]) FROM items")
    ragged = pa.record_batch({"emb": pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32()))})
    other = datafusion.SessionContext()
    other.register_record_batches("t", [[ragged]])
    ra.datafusion.register(other, "t")
    # What needs only its own row takes rows of any length; what lines up columns does not.
    units = ra.normalize(ragged["emb"]).to_pylist()
    assert column(other, "SELECT raptors_normalize(emb) FROM t").to_pylist() == units
    with pytest.raises(Exception, match="dot: .*2 elements, but row 1 has 1"):
        column(other, "SELECT raptors_dot(emb, [1.0, 2.0]) FROM t")
    ra.datafusion.create_function(other, "unit", ra.col("emb").normalize(), "t")
    assert column(other, "SELECT unit(emb) FROM t").to_pylist() == units
    ra.datafusion.create_function(other, "along", ra.col("emb").dot(np.ones(2, "f4")), "t")
    with pytest.raises(Exception, match=r"dot: .*row 1 has 1.*in along=col\('emb'\)"):
        column(other, "SELECT along(emb) FROM t")


def test_mistakes_are_errors_of_ours(context):
    context, _ = context
    e = ra.col("emb")
    with pytest.raises(ra.RaptorsValueError, match="register: expected a column of vectors, got"):
        ra.datafusion.register(context, pa.schema({"id": pa.int64()}))
    with pytest.raises(ra.RaptorsValueError, match="register: expected a column of vectors, got"):
        ra.datafusion.register(context, pa.string())
    with pytest.raises(ra.RaptorsTypeError, match="expected the name of a table.*got int"):
        ra.datafusion.register(context, 3)
    with pytest.raises(ra.RaptorsValueError, match="'nothing' is not there.*in f=col"):
        ra.datafusion.create_function(context, "f", ra.col("nothing").normalize(), "items")
    with pytest.raises(ra.RaptorsValueError, match="a value for each row for f"):
        ra.datafusion.create_function(context, "f", e.standardize(), "items")
