"""Functions called on a stream: ``ra.mean(reader, axis=0)``.

The rows of a stream are its one column of vectors, or its columns of numbers beside each other.
What reduces rows runs over it batch by batch, in bounded memory; what gives a value for each row
gives a reader.
"""

from collections.abc import Iterator
from inspect import signature
from typing import Any

from raptors_arrow import _native
from raptors_arrow._passes import check_operands
from raptors_arrow._reading import Ahead
from raptors_arrow._types import element
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, col
from raptors_arrow.sources import Source, as_source, empty_batch
from raptors_arrow.stream import select_all

__all__ = ["call"]


def call(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a function whose first argument is a stream."""
    function = _native.get_function(name)
    given, rest, options = _sorted(name, function, args, options)
    source = as_source(given)
    column = _column(name, source)
    expr = Expr(name, (col(column or "x"), *rest), options)
    check_operands(expr)
    if function.driver in ("statistic", "columns", "top_k") and not expr.is_rows:
        return _as_given(given, _reduced(expr, source, column))
    if column is None:
        return _by_columns(expr, source)
    return select_all(source, {column: expr})


def _sorted(
    name: str, function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Give the stream, the arguments after it, and the options."""
    bound = signature(getattr(_native, name)).bind(*args, **options).arguments
    if bound.pop("width", None) is not None:
        raise RaptorsTypeError(
            f"{name}: expected no width for a stream, whose columns have their own types"
        )
    names = (*function.arguments, *function.by_name)
    given = [bound.pop(own) for own in names if bound.get(own) is not None]
    return given[0], given[1:], bound


def _column(name: str, source: Source) -> str | None:
    """Give the one column of vectors, or nothing where all columns are numbers."""
    import pyarrow as pa

    fields = list(source.schema)
    if len(fields) == 1:
        return str(fields[0].name)
    if fields and all(_is_number(pa, field.type) for field in fields):
        return None
    vectors = [field.name for field in fields if _is_vectors(pa, field.type)]
    all_of = ", ".join(f"{field.name}: {field.type}" for field in fields)
    which = f"; name it: ra.select(source, {name}=ra.col({vectors[0]!r}).{name}(…))"
    raise RaptorsTypeError(
        f"{name}: expected a stream of one column, or of numbers alone, got {all_of}"
        f"{which if vectors else ''}"
    )


def _is_number(pa: Any, type: Any) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type))


def _is_vectors(pa: Any, type: Any) -> bool:
    is_list = isinstance(type, pa.BaseExtensionType) or pa.types.is_nested(type)
    return is_list and _is_number(pa, element(pa, type))


def _reduced(expr: Expr, source: Source, column: str | None) -> Any:
    """Reduce the rows of all batches."""
    try:
        total = _native.Accumulator(expr.name, *expr.args[1:], **expr.options)
    except RaptorsTypeError as error:
        if "name of a reduction" not in str(error):
            raise
        raise RaptorsValueError(
            f"{expr.name}: it needs all rows at once, which a stream has not: read it into a table"
        ) from error

    def rows(batch: Any) -> Any:
        return batch if column is None else batch.column(column)

    with Ahead(source.batches(None)) as ahead:
        for batch in ahead:
            if batch.num_rows > 0:  # lists of no rows do not say how wide the others are
                total.update(rows(batch))
    total.update(rows(empty_batch(source.schema)))  # types are known, also if no batch came
    return total.finish()


def _as_given(given: Any, made: Any) -> Any:
    """Give the results of a query of polars as polars' own."""
    if type(given).__module__.partition(".")[0] != "polars":
        return made
    import polars as pl
    import pyarrow as pa

    return pl.from_arrow(made) if isinstance(made, pa.Array) else made


def _by_columns(expr: Expr, source: Source) -> Any:
    """Compute on rows whose elements are columns, batch by batch."""
    import pyarrow as pa

    if not expr.is_rows:
        raise RaptorsValueError(
            f"{expr.name}: it needs all rows before its first result, which a stream has not: read "
            "it into a table"
        )
    function = _native.get_function(expr.name)

    def made(batch: Any) -> Any:
        result = function(batch, *expr.args[1:], **expr.options)
        named = isinstance(result, pa.RecordBatch)
        return result if named else pa.record_batch({expr.name: pa.array(result)})

    def batches() -> Iterator[Any]:
        with Ahead(source.batches(None)) as ahead:
            yield from map(made, ahead)

    schema = made(empty_batch(source.schema)).schema
    return source.give(pa.RecordBatchReader.from_batches(schema, batches()))
