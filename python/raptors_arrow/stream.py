"""Expressions over tables and streams: `select` and `with_columns`.

A table is computed at once, and gives a table. A reader, a dataset or files are read batch by
batch, one batch ahead of what is computed, and give a reader; what they reduce to is kept in
accumulators, so memory is bounded by a few batches whatever the length of the stream.
"""

import sys
from collections.abc import Callable, Iterator
from queue import Queue
from threading import Event, Thread
from time import monotonic
from typing import Any

from raptors_arrow import _native
from raptors_arrow._types import result_type
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, evaluate, evaluate_all
from raptors_arrow.sources import Source, as_source

__all__ = ["select", "with_columns"]

_Progress = Callable[[int, int | None], object] | bool | None


def select(source: Any, *, progress: _Progress = None, **expressions: Expr) -> Any:
    """Evaluate expressions over a source, and give their results alone.

    Parameters
    ----------
    source
        A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner, paths of Parquet or
        Arrow files, a polars or pandas frame, or anything with ``__arrow_c_stream__``.
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
    """
    seen = _checked("select", source, expressions)
    by_row = {name: expr.is_rows for name, expr in expressions.items()}
    if all(by_row.values()):
        return _rows(seen, expressions, keep=False, progress=progress)
    if any(by_row.values()):
        rows = ", ".join(name for name, is_rows in by_row.items() if is_rows)
        raise RaptorsValueError(
            f"select: expected expressions that all give a value for each row, or all reduce the "
            f"rows to one; {rows} do the first: take them with with_columns, or reduce them"
        )
    return _reduced(seen, expressions, progress)


def with_columns(source: Any, *, progress: _Progress = None, **expressions: Expr) -> Any:
    """Add columns to a source, or replace those of the same name.

    Parameters
    ----------
    source, progress
        As for `select`.
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
    """
    seen = _checked("with_columns", source, expressions)
    for name, expr in expressions.items():
        if not expr.is_rows and not _fits_whole(seen, expr):
            raise RaptorsValueError(
                f"with_columns: expected a value for each row for {name}, got {expr!r}, which "
                "reduces rows or needs all of them first; reduce with select, then apply what it "
                "gives: x.subtract(mean), or pass a table"
            )
    return _rows(seen, expressions, keep=True, progress=progress)


def _fits_whole(source: Source, expr: Expr) -> bool:
    """Whether it gives a value for each row once all rows are at hand, as in a table."""
    function = None if expr.name in ("col", "lazy", "len") else _native.get_function(expr.name)
    return source.table is not None and function is not None and function.gives == "rows"


def _checked(name: str, source: Any, expressions: dict[str, Expr]) -> Source:
    if not expressions:
        raise RaptorsTypeError(f"{name}: expected expressions by name, got none")
    for key, expr in expressions.items():
        if not isinstance(expr, Expr):
            raise RaptorsTypeError(
                f"{name}: expected an expression for {key}, got {type(expr).__name__}; begin one "
                'with ra.col("…")'
            )
    seen = as_source(source)
    for expr in expressions.values():
        result_type(expr, seen.schema)  # errors of types and names before anything is read
    return seen


def _needed(expressions: dict[str, Expr]) -> list[str]:
    return list(dict.fromkeys(name for expr in expressions.values() for name in expr.columns))


def _rows(source: Source, expressions: dict[str, Expr], *, keep: bool, progress: _Progress) -> Any:
    """Evaluate expressions that give a value for each row."""
    import pyarrow as pa

    if source.table is not None:
        return source.give(_with(source.table, expressions, keep))
    fields = {
        name: pa.field(name, result_type(e, source.schema)) for name, e in expressions.items()
    }
    schema = source.schema if keep else pa.schema([])
    for name, field in fields.items():
        at = schema.get_field_index(name)
        schema = schema.append(field) if at < 0 else schema.set(at, field)

    def batches() -> Iterator[Any]:
        read = source.batches(None if keep else _needed(expressions))
        with _Ahead(read) as ahead:
            for batch in _shown(ahead, source.rows, progress):
                yield _with(batch, expressions, keep).cast(schema)

    return source.give(pa.RecordBatchReader.from_batches(schema, batches()))


def _with(rows: Any, expressions: dict[str, Expr], keep: bool) -> Any:
    """Give a table or batch with the values of expressions."""
    values = evaluate_all(list(expressions.values()), {}, rows.column)
    made = dict(zip(expressions, values, strict=True))
    if not keep:
        return type(rows).from_pydict(made)
    for name, values in made.items():
        at = rows.schema.get_field_index(name)
        rows = rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)
    return rows


def _reduced(source: Source, expressions: dict[str, Expr], progress: _Progress) -> Any:
    """Evaluate expressions that reduce all rows to one."""
    import pyarrow as pa

    parts = {
        id(node): node for e in expressions.values() for node in e.walk() if _is_statistic(node)
    }
    values: dict[int, Any] = {}
    counts = [node for e in expressions.values() for node in e.walk() if node.name == "len"]
    if source.table is not None:
        rows = source.table.num_rows
        made = evaluate_all(list(parts.values()), {}, source.table.column)
        values = dict(zip(parts, made, strict=True))
    else:
        totals = {
            key: _native.Accumulator(node.name, **node.options) for key, node in parts.items()
        }
        rows = 0
        with _Ahead(source.batches(_needed(expressions) or None)) as ahead:
            for batch in _shown(ahead, source.rows, progress):
                rows += batch.num_rows
                inputs = evaluate_all([node.args[0] for node in parts.values()], {}, batch.column)
                for key, values_of_batch in zip(parts, inputs, strict=True):
                    totals[key].update(values_of_batch)
        values = {key: total.finish() for key, total in totals.items()}
    values.update((id(node), rows) for node in counts)
    columns = {}
    for name, expr in expressions.items():
        type = result_type(expr, source.schema)
        value = evaluate(expr, values)
        columns[name] = pa.array(
            [value.to_pylist() if hasattr(value, "to_pylist") else value], type
        )
    table = pa.table(columns)
    return table if source.table is None else source.give(table)


def _is_statistic(node: Expr) -> bool:
    """Whether it reduces rows, which its arguments do not."""
    if node.name in ("col", "lazy", "len") or node.is_rows:
        return False
    return all(arg.is_rows for arg in node.args if isinstance(arg, Expr))


class _Ahead:
    """Reads one batch ahead, in a thread of its own; leaving it stops the producer."""

    _END = object()

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._queue: Queue[Any] = Queue(maxsize=1)
        self._stopped = Event()
        self._thread = Thread(target=self._read, name="raptors-read-ahead", daemon=True)

    def __enter__(self) -> Iterator[Any]:
        self._thread.start()
        return self._given()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._thread.join()
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()

    def _read(self) -> None:
        try:
            for batch in self._batches:
                self._queue.put((batch, None))
                if self._stopped.is_set():
                    return
            self._queue.put((self._END, None))
        except BaseException as error:  # handed to the consumer, whatever it is
            self._queue.put((self._END, error))

    def _given(self) -> Iterator[Any]:
        while True:
            batch, error = self._queue.get()
            if error is not None:
                raise error
            if batch is self._END:
                return
            yield batch


def _shown(batches: Iterator[Any], total: int | None, progress: _Progress) -> Iterator[Any]:
    """Pass batches on, and say how many rows are done."""
    if progress is None or progress is False:
        yield from batches
        return
    told = _Bar() if progress is True else progress
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        told(done, total)
    if isinstance(told, _Bar):
        told.close()


class _Bar:
    """Rows and rows per second on one line of the terminal."""

    def __init__(self) -> None:
        self._begun = monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        rate = done / max(monotonic() - self._begun, 1e-9)
        share = f" of {total:,} ({done / max(total, 1):.0%})" if total is not None else ""
        print(f"\r{done:,}{share} rows, {rate:,.0f} rows/s", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(file=sys.stderr)
