"""Expressions over tables and streams: `select` and `with_columns`.

A table is computed at once, and gives a table. A reader, a dataset or files are read batch by
batch, one batch ahead of what is computed, and give a reader; what they reduce to is kept in
accumulators, so memory is bounded by a few batches whatever the length of the stream. What needs
all rows before the first result (`_passes`) reads what can be read again once more.
"""

from collections.abc import Iterator
from typing import Any

from raptors_arrow._passes import (
    Fits,
    accumulator,
    check_operands,
    is_rows_in_passes,
    is_statistic,
    update,
)
from raptors_arrow._reading import Ahead, Progress, shown
from raptors_arrow._types import result_type
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, evaluate, evaluate_all
from raptors_arrow.sources import Source, as_source, empty_batch

__all__ = ["select", "select_all", "with_all", "with_columns"]


def select(source: Any, /, *unnamed: Expr, progress: Progress = None, **expressions: Expr) -> Any:
    """Evaluate expressions over a source, and give their results alone.

    Parameters
    ----------
    source
        A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner, paths of Parquet, Arrow
        IPC or CSV files, a polars or pandas frame, a DuckDB relation, or anything with
        ``__arrow_c_stream__``.
    *unnamed
        Expressions whose results are named as the first column that they name.
    progress
        ``True`` shows rows and rows per second; a callable gets the rows done and the rows in all,
        or ``None`` if they are not known.
    **expressions
        The results by name. Either all of them give a value for each row, or all of them reduce
        the rows to one.

    Returns
    -------
    table, reader or frame
        Reduced: one row, in a table or frame. Else as many rows as the source has, as what the
        source is: a reader for what is read batch by batch.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> rows = pa.table({"emb": pa.array([[1.0, 2.0], [3.0, 6.0]], pa.list_(pa.float32(), 2))})
    >>> e = ra.col("emb")
    >>> ra.select(rows, mean=e.mean(axis=0), largest=e.max(), n=ra.len()).to_pylist()
    [{'mean': [2.0, 4.0], 'largest': 6.0, 'n': 2}]
    >>> ra.select(rows, e.sum(axis=1)).to_pydict()
    {'emb': [3.0, 9.0]}
    """
    return select_all(source, named("select", unnamed, expressions), progress)


def select_all(source: Any, wanted: dict[str, Expr], progress: Progress = None) -> Any:
    """Do what `select` does, with expressions of any name."""
    seen = _checked("select", source, wanted)
    by_row = {name: is_rows_in_passes(expr) for name, expr in wanted.items()}
    if all(by_row.values()):
        return _rows("select", seen, wanted, keep=False, progress=progress)
    if any(by_row.values()):
        rows = ", ".join(name for name, is_rows in by_row.items() if is_rows)
        raise RaptorsValueError(
            f"select: expected expressions that all give a value for each row, or all reduce the "
            f"rows to one; {rows} do the first: take them with with_columns, or reduce them"
        )
    return _reduced(seen, wanted, progress)


def with_columns(
    source: Any, /, *unnamed: Expr, progress: Progress = None, **expressions: Expr
) -> Any:
    """Add columns to a source, or replace those of the same name.

    Parameters
    ----------
    source, progress
        As for `select`.
    *unnamed
        Expressions whose results take the place of the first column that they name.
    **expressions
        The columns by name, each a value for each row. All others pass through untouched.

    Returns
    -------
    table, reader or frame
        As what the source is: a reader for what is read batch by batch.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> rows = pa.table({"emb": pa.array([[3.0, 4.0]], pa.list_(pa.float64(), 2))})
    >>> ra.with_columns(rows, length=ra.col("emb").norm(axis=1)).to_pylist()
    [{'emb': [3.0, 4.0], 'length': 5.0}]
    >>> ra.with_columns(rows, ra.col("emb").normalize()).to_pylist()
    [{'emb': [0.6, 0.8]}]
    """
    return with_all(source, named("with_columns", unnamed, expressions), progress)


def with_all(source: Any, wanted: dict[str, Expr], progress: Progress = None) -> Any:
    """Do what `with_columns` does, with expressions of any name."""
    seen = _checked("with_columns", source, wanted)
    for name, expr in wanted.items():
        if not is_rows_in_passes(expr):
            raise RaptorsValueError(
                f"with_columns: expected a value for each row for {name}, got {expr!r}, which "
                "reduces rows; reduce with select, then apply what it gives: x.subtract(mean)"
            )
    return _rows("with_columns", seen, wanted, keep=True, progress=progress)


def named(function: str, unnamed: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Expr]:
    """Give all expressions by name: one without a name has that of its first column."""
    all_of = [(None, expr) for expr in unnamed] + list(given.items())
    if not all_of:
        raise RaptorsTypeError(f"{function}: expected expressions by name, got none")
    wanted: dict[str, Expr] = {}
    for name, expr in all_of:
        if not isinstance(expr, Expr):
            place = "an expression" if name is None else f"an expression for {name}"
            raise RaptorsTypeError(
                f"{function}: expected {place}, got {type(expr).__name__}; begin one with "
                'ra.col("…")'
            )
        if name is None:
            own = "len" if expr.name == "len" else next(iter(expr.columns), None)
            if own is None or own in wanted or own in given:
                taken = "names no column" if own is None else f"would be the second {own!r}"
                raise RaptorsValueError(
                    f"{function}: {expr!r} {taken}: give it a name, as in mean={expr!r}"
                )
            name = own
        wanted[name] = expr
    return wanted


def _checked(function: str, source: Any, expressions: dict[str, Expr]) -> Source:
    seen = as_source(source, function)
    for expr in expressions.values():
        result_type(expr, seen.schema)  # errors of types and names before anything is read
        if seen.table is None:
            check_operands(expr)
    return seen


def needed(expressions: dict[str, Expr]) -> list[str]:
    """Give the names of the columns that expressions need."""
    return list(dict.fromkeys(name for expr in expressions.values() for name in expr.columns))


def _rows(
    function: str,
    source: Source,
    expressions: dict[str, Expr],
    *,
    keep: bool,
    progress: Progress,
) -> Any:
    """Evaluate expressions that give a value for each row."""
    import pyarrow as pa

    if source.table is not None:
        return source.give(_with(source.table, expressions, keep))
    fits = Fits(function, source, expressions)
    fields = {
        name: pa.field(name, result_type(e, source.schema)) for name, e in expressions.items()
    }
    schema = source.schema if keep else pa.schema([])
    for name, field in fields.items():
        at = schema.get_field_index(name)
        schema = schema.append(field) if at < 0 else schema.set(at, field)

    def made(batch: Any) -> Any:
        return _with(batch, expressions, keep, fits).cast(schema)

    def batches() -> Iterator[Any]:
        fits.run()
        read = source.batches(None if keep else needed(expressions) or None)
        with Ahead(read) as ahead:
            # By map, so that what waits to be asked for more holds no batch.
            yield from map(made, shown(ahead, source.count_rows, progress))

    return source.give(pa.RecordBatchReader.from_batches(schema, batches()))


def _with(rows: Any, expressions: dict[str, Expr], keep: bool, fits: Fits | None = None) -> Any:
    """Give a table or batch with the values of expressions."""
    known = _counts(expressions, rows.num_rows) if fits is None else fits.values(rows)
    values = evaluate_all(list(expressions.values()), known, rows.column)
    made = dict(zip(expressions, values, strict=True))
    if not keep:
        return type(rows).from_pydict(made)
    for name, values in made.items():
        at = rows.schema.get_field_index(name)
        rows = rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)
    return rows


def _reduced(source: Source, expressions: dict[str, Expr], progress: Progress) -> Any:
    """Evaluate expressions that reduce all rows to one."""
    import pyarrow as pa

    parts = {
        id(node): node for e in expressions.values() for node in e.walk() if is_statistic(node)
    }
    values: dict[int, Any] = {}
    if source.table is not None:
        rows = source.table.num_rows
        counts = _counts(expressions, rows)
        made = evaluate_all(list(parts.values()), counts, source.table.column)
        values = dict(zip(parts, made, strict=True))
    else:
        fits = Fits("select", source, expressions)
        totals = [(node, accumulator(node)) for node in parts.values()]
        fits.run()
        rows = 0
        columns = needed(expressions) or None
        with Ahead(source.batches(columns)) as ahead:
            for batch in shown(ahead, source.count_rows, progress):
                rows += batch.num_rows
                if batch.num_rows > 0:  # lists of no rows do not say how wide the others are
                    update(totals, batch, fits.values(batch))
        if rows == 0:  # no batch came, or none with rows: types are known all the same
            none = empty_batch(source.schema)
            update(totals, none, fits.values(none))
        values = {id(node): total.finish() for node, total in totals}
    values.update(_counts(expressions, rows))
    row = {}
    for name, expr in expressions.items():
        type = result_type(expr, source.schema)
        value = evaluate(expr, values)
        row[name] = pa.array([value.to_pylist() if hasattr(value, "to_pylist") else value], type)
    return source.give(pa.table(row))


def _counts(expressions: dict[str, Expr], rows: int) -> dict[int, Any]:
    """Give the values of those parts that count the rows."""
    every = (node for expr in expressions.values() for node in expr.walk())
    return {id(node): rows for node in every if node.name == "len"}
