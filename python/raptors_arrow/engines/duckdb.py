"""The row-by-row functions in DuckDB's SQL.

>>> import duckdb
>>> import raptors_arrow as ra
>>> con = duckdb.connect()
>>> names = ra.duckdb.register(con)
>>> con.sql("SELECT raptors_norm_axis1([3, 4]::FLOAT[2])").fetchall()
[(5.0,)]

Functions are declared on lists, ``FLOAT[]`` and ``DOUBLE[]``, which take arrays of any width
(``FLOAT[384]``); DuckDB hands their rows over as lists, and lists come back. Cast a result to
``FLOAT[384]`` where the width matters.

Statistics of columns are not functions of DuckDB, which has no aggregates in Python:
``ra.select(con.sql(…), mean=ra.col("emb").mean(axis=0))`` takes them over a relation's stream, and
``ra.with_columns(con.sql(…), …)`` gives a reader that DuckDB can query again.
"""

import re
from collections.abc import Mapping
from inspect import Parameter, Signature
from itertools import groupby
from typing import TYPE_CHECKING, Any

from raptors_arrow.engines._rows import RowFunction, called, check_rows, missing, row_functions
from raptors_arrow.errors import RaptorsTypeError
from raptors_arrow.expr import Expr, evaluate

try:
    import duckdb
    import pyarrow as pa
except ImportError as error:
    raise missing("duckdb", "DuckDB and pyarrow", error) from error

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["create_function", "register"]

_ELEMENTS = {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}
_NUMBERS = {
    **_ELEMENTS,
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
}


def register(con: "DuckDBPyConnection") -> tuple[str, ...]:
    """Make every row-by-row function a function of a connection.

    ``raptors_dot(x, y)`` and all others take ``FLOAT[]`` and ``DOUBLE[]``, and arrays of any width;
    integers are taken as ``DOUBLE[]``. The second operand of arithmetic is a column of vectors or
    one number for each row. Reductions are those of each row, as in ``raptors_mean_axis1``;
    ``raptors_norm_ord1_axis1`` and ``raptors_norm_ordinf_axis1`` are the other norms.

    Parameters
    ----------
    con
        The connection. Another one to the same database, and a cursor, is registered by itself.

    Returns
    -------
    tuple of str
        The names. Asking twice changes nothing.

    Examples
    --------
    >>> import duckdb
    >>> import raptors_arrow as ra
    >>> con = duckdb.connect()
    >>> names = ra.duckdb.register(con)
    >>> rows = "(VALUES ([3, 4]::FLOAT[2]), (NULL), ([0, 2])) t(emb)"
    >>> con.sql(f"SELECT raptors_normalize(emb), raptors_dot(emb, [1, 10]) FROM {rows}").fetchall()
    [([0.6000000238418579, 0.800000011920929], 43.0), (None, None), ([0.0, 1.0], 20.0)]
    """
    names = []
    for name, overloads in groupby(row_functions(), lambda function: function.overloaded):
        names.append(name)
        macros = []
        for function in overloads:
            for element in _ELEMENTS:
                types = {
                    parameter: element if kind == "number" else f"{element}[]"
                    for parameter, kind in function.parameters.items()
                }
                own = f"{function.name}_{element.lower()}"
                _create(con, own, function, types, keep=True)
                declared = ", ".join(f'"{one}" {type}' for one, type in types.items())
                passed = ", ".join(f'"{one}"' for one in types)
                macros.append(f"({declared}) AS {own}({passed})")
        # One name for all types: DuckDB keeps one function for a name, but macros are overloaded.
        con.execute(f"CREATE OR REPLACE TEMP MACRO {name}{', '.join(macros)}")
    return tuple(names)


def create_function(
    con: "DuckDBPyConnection", name: str, expr: Expr, types: Mapping[str, str] | None = None
) -> str:
    """Make an expression a function of a connection; its columns are the parameters.

    Parameters
    ----------
    con
        The connection.
    name
        The name of the function.
    expr
        A value for each row, from that row alone. What it holds, such as a matrix, stays with it.
    types
        DuckDB's types of the columns: of numbers, lists (``DOUBLE[]``) or arrays (``FLOAT[3]``).
        Those that are not given are ``FLOAT[]``.

    Returns
    -------
    str
        The call, with its types.

    Examples
    --------
    >>> import duckdb
    >>> import numpy as np
    >>> import raptors_arrow as ra
    >>> con = duckdb.connect()
    >>> turn = np.array([[0, 1], [1, 0]], "f4")
    >>> ra.duckdb.create_function(con, "turned", ra.col("emb").matmul(turn).clip(0, 5))
    'turned(emb FLOAT[]) -> FLOAT[2]'
    >>> con.sql("SELECT turned([3, 4])").fetchall()
    [((4.0, 3.0),)]
    """
    check_rows("create_function", name, expr)
    given = dict(types or {})
    for unknown in given.keys() - set(expr.columns):
        raise RaptorsTypeError(f"create_function: {name} has no column {unknown!r}, got {expr!r}")
    declared = {column: given.get(column, "FLOAT[]") for column in expr.columns}

    def compute(*columns: Any) -> Any:
        values = dict(zip(declared, columns, strict=True))
        return called(name, expr, lambda: evaluate(expr, {}, values.__getitem__))

    made = RowFunction(name, name, name, expr, dict.fromkeys(declared, "vectors"))
    gives = _create(con, name, made, declared, compute=compute)
    return f"{name}({', '.join(f'{one} {type}' for one, type in declared.items())}) -> {gives}"


def _create(
    con: Any,
    name: str,
    function: RowFunction,
    types: Mapping[str, str],
    *,
    compute: Any = None,
    keep: bool = False,
) -> str:
    """Create one function of DuckDB, unless there is one to ``keep``; give its result's type."""
    arrow = {parameter: _arrow(function.function, type) for parameter, type in types.items()}
    result = called(name, function.expr, lambda: function.result_type(arrow))
    gives = _duck(result)
    run = _with_places(compute or function, result, len(types))
    try:
        con.create_function(
            name,
            run,
            list(types.values()),
            gives,
            type="arrow",
            null_handling="special",
        )
    except (duckdb.CatalogException, duckdb.NotImplementedException):
        # The second is for a name that this connection has, the first for another one's.
        if not keep:
            raise
    return gives


def _with_places(compute: Any, result: Any, count: int) -> Any:
    """Give a function with as many parameters as DuckDB is told: it counts them."""

    def run(*columns: Any) -> Any:
        made = compute(*columns)
        return made if made.type.equals(result) else made.cast(result)

    places = [Parameter(f"a{i}", Parameter.POSITIONAL_ONLY) for i in range(count)]
    run.__signature__ = Signature(places)  # type: ignore[attr-defined]
    return run


def _arrow(name: str, type: str) -> Any:
    """Give the pyarrow type of a DuckDB type of numbers, lists or arrays of them."""
    found = re.fullmatch(r"\s*(\w+)\s*(?:\[\s*(\d*)\s*\])?\s*", type)
    number = _NUMBERS.get(found[1].upper()) if found else None
    if found is None or number is None:
        kinds = ", ".join(_NUMBERS)
        raise RaptorsTypeError(
            f"{name}: expected a type of numbers, or of lists or arrays of them ({kinds}), got "
            f"{type!r}"
        )
    if found[2] is None:
        return number
    return pa.list_(number, int(found[2])) if found[2] else pa.list_(number)


def _duck(type: Any) -> str:
    if pa.types.is_nested(type):
        width = type.list_size if pa.types.is_fixed_size_list(type) else ""
        return f"{_duck(type.value_type)}[{width}]"
    if pa.types.is_boolean(type):
        return "BOOLEAN"
    return next(name for name, number in _NUMBERS.items() if number.equals(type))
