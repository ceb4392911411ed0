"""Every function of the table in every engine that has it: the bits of the direct call."""

from collections.abc import Callable
from typing import Any

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from by_row import WIDTH, Case, cases, same_bits, table

import raptors_arrow as ra


def in_polars(engine: str) -> Callable[[Case, pa.Table], Any]:
    def run(case: Case, rows: pa.Table) -> Any:
        args = [pl.col(arg) if isinstance(arg, str) else arg for arg in case.args]
        made = getattr(pl.col("emb").raptors, case.function)(*args, **case.options)
        query = pl.from_arrow(rows).lazy().select(made=made)
        return query.collect(engine=engine)["made"].to_arrow()

    return run


def in_duckdb(case: Case, rows: pa.Table) -> Any:
    expr = case.expr()
    with duckdb.connect() as con:
        con.register("items", rows)
        types = {name: "FLOAT" if name == "w" else f"FLOAT[{WIDTH}]" for name in expr.columns}
        ra.duckdb.create_function(con, "made", expr, types)
        sql = f"SELECT made({', '.join(expr.columns)}) AS made FROM items"
        return con.sql(sql).to_arrow_table()["made"]


def in_datafusion(case: Case, rows: pa.Table) -> Any:
    expr = case.expr()
    context = datafusion.SessionContext()
    context.register_record_batches("items", [rows.to_batches(max_chunksize=17)])
    ra.datafusion.create_function(context, "made", expr, "items")
    sql = f"SELECT made({', '.join(expr.columns)}) AS made FROM items ORDER BY id"
    return context.sql(sql).to_arrow_table()["made"]


def in_acero(case: Case, rows: pa.Table) -> Any:
    made = ra.pyarrow.expression(case.expr(), rows.schema)
    found = ds.dataset(rows).to_table(columns={"id": pc.field("id"), "made": made})
    return found.sort_by("id")["made"]


def in_streams(case: Case, rows: pa.Table) -> Any:
    reader = rows.to_reader(max_chunksize=17)
    return ra.with_columns(reader, made=case.expr()).read_all()["made"]


ENGINES = {
    "polars": in_polars("in-memory"),
    "polars-streaming": in_polars("streaming"),
    "duckdb": in_duckdb,
    "datafusion": in_datafusion,
    "acero": in_acero,
    "streams": in_streams,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_every_function_in_every_engine(case, engine):
    rows = table()
    assert same_bits(ENGINES[engine](case, rows), case.direct(rows))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["dot", "add", "broadcast_add", "l2_distance"])
def test_a_width_that_does_not_fit_is_the_same_error_in_every_engine(name, engine):
    case = Case(name, (np.ones(3, "f4"),), {})
    with pytest.raises(Exception) as caught:
        ENGINES[engine](case, table())
    argument = ra.get_function(name).arguments[1]
    assert f"{name}: expected {argument} of width {WIDTH}, got width 3" in str(caught.value)
