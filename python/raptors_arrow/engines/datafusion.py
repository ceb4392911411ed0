"""The functions in DataFusion's SQL and data frames, from Python: row by row, and aggregates.

>>> import datafusion
>>> import pyarrow as pa
>>> import raptors_arrow as ra
>>> context = datafusion.SessionContext()
>>> rows = pa.record_batch({"emb": pa.array([[3.0, 4.0], None], pa.list_(pa.float32(), 2))})
>>> context.register_record_batches("items", [[rows]])
>>> names = ra.datafusion.register(context, "items")
>>> context.sql("SELECT raptors_dot(emb, [1, 10]) AS d FROM items").to_pydict()
{'d': [43.0, None]}

DataFusion takes a function of Python for exactly one type, width included, so functions are
registered for the columns of a table or schema. Widths are kept: what is made of
``FixedSizeList<float>[384]`` is one.

Statistics of columns are aggregates: ``SELECT k, raptors_mean(emb) FROM items GROUP BY k``. From
Python, DataFusion keeps an object for each group and calls it for each batch, so that with many
groups ``ra.group_by(frame, …)``, over the data frame's stream, is faster by far.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from raptors_arrow import _native
from raptors_arrow._group_results import STATISTICS
from raptors_arrow._types import element
from raptors_arrow.engines._rows import RowFunction, called, check_rows, missing, row_functions
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, col, evaluate

try:
    import datafusion
    import pyarrow as pa
except ImportError as error:
    raise missing("datafusion", "DataFusion and pyarrow", error) from error

if TYPE_CHECKING:
    from datafusion import DataFrame, ScalarUDF, SessionContext

__all__ = ["create_function", "register"]


def register(
    context: "SessionContext", columns: "str | DataFrame | pa.Schema | pa.DataType"
) -> tuple[str, ...]:
    """Make the functions known to a context, for the types of some columns.

    ``raptors_dot(x, y)`` and all others take what the first column of vectors is. If there are
    columns of several types, the functions of each have its name too: ``raptors_dot_float32x384``.
    The second argument is a column of vectors, or a list such as ``[0.6, 0.8]``; with
    ``raptors_add_number`` and its like it is one number for each row. ``raptors_mean`` and
    the other statistics are aggregates, with a result for each column of the vectors;
    ``raptors_mean_axis1`` is the mean of each row. ``_ord1`` and ``_ordinf`` are the other norms.

    Parameters
    ----------
    context
        The context.
    columns
        The name of a table, a data frame, a schema, or one type. What is registered for other
        columns later takes the short names.

    Returns
    -------
    tuple of str
        The names.

    Examples
    --------
    >>> import datafusion
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> context = datafusion.SessionContext()
    >>> names = ra.datafusion.register(context, pa.list_(pa.float32(), 2))
    >>> "raptors_normalize" in names, "raptors_normalize_float32x2" in names
    (True, True)
    """
    names: list[str] = []
    for place, type in enumerate(_vector_types(context, columns)):
        for function in row_functions():
            own = f"{function.name}_{_named(type)}"
            for name in [own] if place else [own, function.name]:
                context.register_udf(_made(function, type, name))
                names.append(name)
        for short, statistic, options in _statistics():
            own = f"{short}_{_named(type)}"
            for name in [own] if place else [own, short]:
                context.register_udaf(_aggregate(statistic, options, type, name))
                names.append(name)
    return tuple(names)


def create_function(
    context: "SessionContext",
    name: str,
    expr: Expr,
    columns: "Mapping[str, pa.DataType] | str | DataFrame | pa.Schema",
) -> "ScalarUDF":
    """Make an expression a function of a context; its columns are the parameters.

    Parameters
    ----------
    context
        The context.
    name
        The name of the function.
    expr
        A value for each row, from that row alone. What it holds, such as a matrix, stays with it.
    columns
        The types of the columns: by name, or those of a table, a data frame or a schema.

    Returns
    -------
    datafusion.ScalarUDF
        The function, for data frames; in SQL it is known by its name.

    Examples
    --------
    >>> import datafusion
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> context = datafusion.SessionContext()
    >>> rows = pa.record_batch({"emb": pa.array([[3.0, 4.0]], pa.list_(pa.float32(), 2))})
    >>> context.register_record_batches("items", [[rows]])
    >>> turn = np.array([[0, 1], [1, 0]], "f4")
    >>> turned = ra.datafusion.create_function(
    ...     context, "turned", ra.col("emb").matmul(turn).clip(0, 5), "items"
    ... )
    >>> context.sql("SELECT turned(emb) AS t FROM items").to_pydict()
    {'t': [[4.0, 3.0]]}
    """
    check_rows("create_function", name, expr)
    schema = dict(columns) if isinstance(columns, Mapping) else _schema(context, columns)
    result = called(name, expr, lambda: expr.result_type(schema))
    types = {
        column: schema[column] if isinstance(schema, dict) else schema.field(column).type
        for column in expr.columns
    }

    def compute(*arrays: Any) -> Any:
        values = dict(zip(types, arrays, strict=True))
        made = called(name, expr, lambda: evaluate(expr, {}, values.__getitem__))
        return made if made.type.equals(result) else made.cast(result)

    function = datafusion.udf(compute, list(types.values()), result, "immutable", name=name)
    context.register_udf(function)
    return function


def _made(function: RowFunction, type: Any, name: str) -> Any:
    number = element(pa, type)
    # Second arguments are lists and wide numbers: DataFusion makes these, and no narrower ones, of
    # literals and of columns of any width. The function makes numbers of the column's own type.
    wide = pa.float64() if pa.types.is_floating(number) else pa.int64()
    second = {"vectors": pa.list_(number), "number": wide}
    types = {one: second[kind] for one, kind in function.parameters.items()}
    types[next(iter(types))] = type
    result = function.result_type(types)

    def compute(*arrays: Any) -> Any:
        made = function(*arrays)
        return made if made.type.equals(result) else made.cast(result)

    return datafusion.udf(compute, list(types.values()), result, "immutable", name=name)


def _statistics() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Go through the statistics: the name in SQL, that in the table, and the options."""
    for function in STATISTICS:
        yield f"raptors_{function}", function, {"axis": 0}
        kinds = _native.get_function(function).option_kinds
        for option in [option for option, kind in kinds.items() if kind == "order"]:
            for order in (1, float("inf")):
                yield f"raptors_{function}_{option}{order}", function, {"axis": 0, option: order}


def _aggregate(function: str, options: dict[str, Any], type: Any, name: str) -> Any:
    result = _kept_lists(type, Expr(function, (col("x"),), options).result_type({"x": type}))
    # What a state is of, its fields do not say: those of the narrowest vectors are the same.
    narrow = _native.Accumulator(function, **options)
    narrow.update(pa.nulls(1, pa.list_(element(pa, type), 1)))
    state = narrow.state().type

    def made() -> Any:
        return _State(function, options, type, result, state)

    return datafusion.udaf(made, [type], result, [state], "immutable", name=name)


def _kept_lists(type: Any, result: Any) -> Any:
    """Give the type of one result for each column: lists of the kind that the vectors are."""
    number = element(pa, result)
    if pa.types.is_fixed_size_list(type):
        return pa.list_(number, type.list_size)
    return pa.large_list(number) if pa.types.is_large_list(type) else pa.list_(number)


class _State:
    """What DataFusion keeps for a group, and for each partition of it."""

    def __init__(
        self, function: str, options: dict[str, Any], type: Any, result: Any, state: Any
    ) -> None:
        self._function, self._options = function, options
        self._type, self._result, self._state = type, result, state
        self._total: Any = None

    def update(self, *values: Any) -> None:
        (rows,) = values
        is_fixed = pa.types.is_fixed_size_list(self._type)
        if self._total is None:
            # Null lists do not say how wide they would be; they are skipped in any case.
            if not is_fixed and rows.null_count == len(rows):
                return
            self._total = _native.Accumulator(self._function, **self._options)
        self._total.update(rows)

    def state(self) -> list[Any]:
        if self._total is None:
            return [pa.scalar(None, self._state)]
        return [self._total.state()[0]]

    def merge(self, states: list[Any]) -> None:
        states = states[0].drop_null()
        if not len(states):
            return
        other = _native.Accumulator.from_state(states)
        if self._total is None:
            self._total = other
        else:
            self._total.merge(other)

    def evaluate(self) -> Any:
        total = self._total
        if total is None and not pa.types.is_fixed_size_list(self._type):
            # No columns are known; DataFusion takes no null list from Python.
            return pa.scalar([], self._result)
        if total is None:
            total = _native.Accumulator(self._function, **self._options)
            total.update(pa.nulls(1, self._type))
        # What is finished is gone, and a window asks after every row.
        values = pa.array(_native.Accumulator.from_state(total.state()).finish())
        return _one_row(values, self._result)


datafusion.user_defined.Accumulator.register(_State)


def _one_row(values: Any, type: Any) -> Any:
    values = values.cast(element(pa, type))
    if pa.types.is_fixed_size_list(type):
        return pa.FixedSizeListArray.from_arrays(values, type=type)[0]
    lists = pa.LargeListArray if pa.types.is_large_list(type) else pa.ListArray
    return lists.from_arrays([0, len(values)], values).cast(type)[0]


def _schema(context: Any, columns: Any) -> Any:
    if isinstance(columns, str):
        columns = context.table(columns)
    if isinstance(columns, datafusion.DataFrame):
        columns = columns.schema()
    if not isinstance(columns, pa.Schema):
        raise RaptorsTypeError(
            "expected the name of a table, a data frame, a schema or a type of pyarrow, got "
            f"{type(columns).__name__}"
        )
    return columns


def _vector_types(context: Any, columns: Any) -> Iterable[Any]:
    """Give the types of the columns of vectors, each once, in their order."""
    if isinstance(columns, pa.DataType):
        found = [columns] if _is_vectors(columns) else []
    else:
        columns = _schema(context, columns)
        found = [field.type for field in columns if _is_vectors(field.type)]
    if not found:
        shown = (
            ", ".join(str(one).replace("\n", " ") for one in columns)
            if isinstance(columns, pa.Schema)
            else str(columns)
        )
        raise RaptorsValueError(f"register: expected a column of vectors, got {shown}")
    return [type for at, type in enumerate(found) if type not in found[:at]]


def _is_vectors(type: Any) -> bool:
    is_list = pa.types.is_fixed_size_list(type) or pa.types.is_list(type)
    if not (is_list or pa.types.is_large_list(type)):
        return False
    return bool(pa.types.is_integer(type.value_type) or pa.types.is_floating(type.value_type))


def _named(type: Any) -> str:
    number = element(pa, type)
    name = f"float{number.bit_width}" if pa.types.is_floating(number) else str(number)
    return f"{name}x{type.list_size}" if pa.types.is_fixed_size_list(type) else f"{name}_list"
