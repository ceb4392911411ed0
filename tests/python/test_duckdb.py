"""The functions in DuckDB's SQL, and expressions over its relations."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from by_row import FUNCTIONS, WIDTH, Case, cases, same_bits, table, values

import raptors_arrow as ra
from raptors_arrow.engines._rows import row_functions

TYPES = {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}
#: What registered functions are called with: for a column of vectors, a number, an option.
ARGUMENTS = {"vectors": "other", "number": "w", "min": "-0.5", "max": "0.5"}


@pytest.fixture(scope="module")
def con():
    with duckdb.connect() as connection:
        for element, type in TYPES.items():
            connection.register(f"arrow_{element}", table(type))
            connection.execute(
                f"CREATE TABLE {element} AS SELECT id, emb::{element}[{WIDTH}] AS emb, "
                f"emb::{element}[] AS listed, other::{element}[{WIDTH}] AS other, w "
                f"FROM arrow_{element}"
            )
        ra.duckdb.register(connection)
        yield connection


def column(con, sql: str) -> pa.ChunkedArray:
    return con.sql(sql).to_arrow_table().column(0)


def test_every_function_is_claimed_but_those_with_a_matrix():
    claimed = {function.function for function in row_functions()}
    # `mean_axis1` is `mean` along the rows: one name for both.
    assert claimed == set(FUNCTIONS) - {"matmul", "pairwise", "mean_axis1"}
    assert "raptors_mean_axis1" in {function.name for function in row_functions()}


@pytest.mark.parametrize("emb", ["emb", "listed"])
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("function", list(row_functions()), ids=lambda function: function.name)
def test_every_function_equals_the_direct_call(con, function, element, emb):
    rows = table(TYPES[element])
    names = list(function.parameters.items())[1:]
    given = [ARGUMENTS.get(name, ARGUMENTS[kind]) for name, kind in names]
    got = column(con, f"SELECT {function.overloaded}({', '.join([emb, *given])}) FROM {element}")
    assert same_bits(got, expected(function, rows, given))


def expected(function, rows: pa.Table, given: list[str]):
    """What the function of the table gives, called as its own signature has it."""
    if function.options:
        return ra.clip(rows["emb"], -0.5, 0.5)
    instead = {"scale": "multiply", "broadcast_add": "add"}
    name = instead.get(function.function, function.function)
    return Case(name, tuple(given), dict(function.expr.options)).direct(rows)


@pytest.mark.parametrize("element", TYPES)
def test_one_value_for_all_rows(con, element):
    rows = table(TYPES[element])
    vector = np.arange(WIDTH, dtype=TYPES[element].to_pandas_dtype())
    listed = f"{vector.tolist()}"
    for call, want in {
        f"raptors_dot(emb, {listed})": ra.dot(rows["emb"], vector),
        f"raptors_l2_distance(emb, {listed}::{element}[{WIDTH}])": ra.l2_distance(
            rows["emb"], vector
        ),
        f"raptors_broadcast_add(emb, {listed})": ra.broadcast_add(rows["emb"], vector),
        f"raptors_add(emb, {listed})": ra.add(rows["emb"], vector),
        "raptors_scale(emb, 2.5)": ra.scale(rows["emb"], 2.5),
        "raptors_divide(emb, 3)": ra.divide(rows["emb"], 3),
        "raptors_clip(emb, -0.25, NULL)": ra.clip(rows["emb"], -0.25),
        "raptors_clip(emb, NULL, 0.5)": ra.clip(rows["emb"], max=0.5),
    }.items():
        assert same_bits(column(con, f"SELECT {call} FROM {element}"), want), call


def test_many_rows_and_chunks(con):
    made = np.random.default_rng(1).standard_normal((10_000, 8)).astype("f4")
    rows = pa.table({"emb": pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1)), 8)})
    con.register("many", rows)
    got = column(con, "SELECT raptors_cosine_similarity(emb, [1, 2, 3, 4, 5, 6, 7, 8]) FROM many")
    assert same_bits(got, ra.cosine_similarity(rows["emb"], np.arange(1, 9, dtype="f4")))


def test_nulls_and_empties(con):
    for call in ("raptors_norm_axis1(v)", "raptors_normalize(v)", "raptors_dot(v, [1, 2])"):
        rows = "(SELECT NULL::FLOAT[2] AS v FROM range(3))"
        assert con.sql(f"SELECT {call} FROM {rows}").fetchall() == [(None,)] * 3
        assert con.sql(f"SELECT {call} FROM {rows} WHERE false").fetchall() == []
    assert con.sql("SELECT raptors_dot([1, 2]::FLOAT[2], NULL::FLOAT[2])").fetchall() == [(None,)]
    assert con.sql("SELECT raptors_sum_axis1([1, NULL, 2]::FLOAT[3])").fetchall() == [(3.0,)]


def test_types_are_those_of_the_column(con):
    types = con.sql(
        "SELECT raptors_norm_axis1(emb), raptors_normalize(emb), raptors_argmax_axis1(emb), "
        "raptors_cast_float64(emb), raptors_normalize(emb)::FLOAT[5] FROM FLOAT"
    ).types
    assert list(map(str, types)) == ["FLOAT", "FLOAT[]", "BIGINT", "DOUBLE[]", "FLOAT[5]"]
    assert str(con.sql("SELECT raptors_norm_axis1([3, 4])").types[0]) == "DOUBLE"  # of integers


def test_in_filters_groups_and_windows(con):
    kept = con.sql("SELECT id FROM FLOAT WHERE raptors_norm_axis1(emb) < 2 ORDER BY id").fetchall()
    norms = ra.norm(table()["emb"], axis=1).to_pylist()
    assert kept == [(i,) for i, norm in enumerate(norms) if norm is not None and norm < 2]
    got = con.sql(
        "SELECT id % 3 AS k, max(raptors_argmax_axis1(emb)) FROM FLOAT GROUP BY k ORDER BY k"
    )
    places = ra.argmax(table()["emb"], axis=1).to_pylist()
    assert got.fetchall() == [(k, max(p for p in places[k::3] if p is not None)) for k in range(3)]


def test_registering_again_and_for_a_cursor(con):
    names = ra.duckdb.register(con)
    assert ra.duckdb.register(con) == names
    cursor = con.cursor()
    assert ra.duckdb.register(cursor) == names
    assert cursor.sql("SELECT raptors_norm_axis1([3, 4]::FLOAT[2])").fetchall() == [(5.0,)]


def test_nothing_is_left_in_the_database(tmp_path):
    path = tmp_path / "items.duckdb"
    with duckdb.connect(path) as con:
        ra.duckdb.register(con)
        con.execute("CREATE TABLE t AS SELECT [3, 4]::FLOAT[2] AS emb")
    with duckdb.connect(path, read_only=True) as con:
        with pytest.raises(duckdb.CatalogException, match="raptors_norm_axis1 does not exist"):
            con.sql("SELECT raptors_norm_axis1(emb) FROM t")
        ra.duckdb.register(con)
        assert con.sql("SELECT raptors_norm_axis1(emb) FROM t").fetchall() == [(5.0,)]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_every_expression_as_a_function(con, case):
    expr = case.expr()
    types = {"w": "FLOAT"} if "w" in expr.columns else {}
    ra.duckdb.create_function(con, "made", expr, types)
    try:
        got = column(con, f"SELECT made({', '.join(expr.columns)}) FROM FLOAT")
    finally:
        con.remove_function("made")
    assert same_bits(got, case.direct(table()))


def test_expressions_over_relations(con):
    rows = table()
    relation = con.sql("SELECT id, emb FROM FLOAT ORDER BY id")
    e = ra.col("emb")
    stats = ra.select(relation, mean=e.mean(axis=0), largest=e.norm(axis=1).max(), n=ra.len())
    assert same_bits(stats["mean"].chunk(0).flatten(), ra.mean(rows["emb"], axis=0))
    assert stats["n"].to_pylist() == [len(rows)]
    reader = ra.with_columns(con.sql("SELECT id, emb FROM FLOAT ORDER BY id"), unit=e.normalize())
    assert reader.schema.names == ["id", "emb", "unit"]
    assert same_bits(reader.read_all()["unit"], ra.normalize(rows["emb"]))
    grouped = con.sql("SELECT id % 3 AS k, emb FROM FLOAT ORDER BY id")
    groups = ra.group_by(grouped, "k").aggregate(mean=e.mean(axis=0))
    for place, means in enumerate(groups["mean"]):
        own = rows["emb"].take(pa.array(range(groups["k"][place].as_py(), len(rows), 3)))
        assert same_bits(means.values, ra.mean(own, axis=0))
    # A connection has one open result: the stream of one cursor is queried by another.
    units = ra.with_columns(con.cursor().sql("SELECT id, emb FROM FLOAT"), unit=e.normalize())
    con.register("units", units)
    assert con.sql("SELECT count(unit) FROM units").fetchall() == [(57,)]


def test_ragged_rows_and_widths_name_function_and_row(con):
    rows = "(VALUES ([1, 2]::FLOAT[]), ([1, 2, 3]::FLOAT[])) t(emb)"
    # What needs only its own row takes rows of any length; what lines up columns does not.
    units = ra.normalize(pa.array([[1, 2], [1, 2, 3]], pa.list_(pa.float32()))).to_pylist()
    made = con.sql(f"SELECT raptors_normalize(emb) FROM {rows}").fetchall()
    assert [unit for (unit,) in made] == units
    with pytest.raises(duckdb.InvalidInputException, match="dot: .*2 elements, but row 1 has 3"):
        con.sql(f"SELECT raptors_dot(emb, [1, 2]) FROM {rows}").fetchall()
    for name in ("dot", "add", "broadcast_add"):
        match = f"RaptorsValueError: {name}: expected y of width 5, got width 2"
        with pytest.raises(duckdb.InvalidInputException, match=match):
            con.sql(f"SELECT raptors_{name}(emb, [1, 2]) FROM FLOAT").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="clip: expected one min for all rows"):
        con.sql("SELECT raptors_clip(emb, w, 1) FROM FLOAT").fetchall()


def test_wrong_types_are_refused_when_a_query_is_bound(con):
    with pytest.raises(duckdb.BinderException, match="raptors_norm_axis1"):
        con.sql("SELECT raptors_norm_axis1(['a', 'b'])")
    with pytest.raises(duckdb.BinderException, match="raptors_norm_axis1"):
        con.sql("SELECT raptors_norm_axis1(nothing) FROM FLOAT")


def test_mistakes_in_expressions_are_errors_of_ours(con):
    e = ra.col("emb")
    with pytest.raises(ra.RaptorsValueError, match="expected a value for each row for f, got"):
        ra.duckdb.create_function(con, "f", e.mean(axis=0))
    with pytest.raises(ra.RaptorsValueError, match="expected an expression of columns for f"):
        ra.duckdb.create_function(con, "f", ra.lazy(values()).normalize())
    with pytest.raises(ra.RaptorsTypeError, match="expected an expression for f, got str"):
        ra.duckdb.create_function(con, "f", "emb")
    with pytest.raises(ra.RaptorsTypeError, match="f has no column 'w'"):
        ra.duckdb.create_function(con, "f", e.normalize(), {"w": "FLOAT"})
    with pytest.raises(ra.RaptorsTypeError, match="expected a type of numbers.*'VARCHAR'"):
        ra.duckdb.create_function(con, "f", e.normalize(), {"emb": "VARCHAR"})
    ra.duckdb.create_function(con, "along", e.dot(np.ones(2, "f4")))
    ragged = "SELECT along(emb) FROM (VALUES ([1, 2]::FLOAT[]), ([1]::FLOAT[])) t(emb)"
    with pytest.raises(duckdb.InvalidInputException, match=r"dot: .*in along=col\('emb'\)"):
        con.sql(ragged).fetchall()
