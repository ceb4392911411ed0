"""Statistics over more than one machine: partial states, the engine's shuffle, merge and finish.

::

    rows of a worker    partial states: a row for each group, or one for all rows,
      │                 cut into parts by a hash of the keys
      ▼
    engine's shuffle    part, order, states as Arrow IPC: each part to one worker
      │
      ▼
    merge and finish    states in their order: results, a row for each group, or one

What is shuffled are two integers and bytes, which every engine has, whatever keys and states are.
Rows that are computed again, since a worker was lost, give the same states again.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from raptors_arrow import _native
from raptors_arrow._types import column_type, result_type
from raptors_arrow.engines._rows import called
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, evaluate
from raptors_arrow.sources import empty_batch

__all__ = ["Statistics", "TotalStates", "received", "sent_schema", "sent_table", "unpacked"]


def sent_schema() -> Any:
    """Give the schema of what is shuffled."""
    import pyarrow as pa

    return pa.schema({"part": pa.int32(), "order": pa.int64(), "states": pa.binary()})


class Statistics:
    """Expressions by name that reduce rows. They can be pickled, with what they hold."""

    def __init__(self, caller: str, keys: tuple[str, ...], expressions: dict[str, Expr]) -> None:
        if not expressions:
            raise RaptorsTypeError(f"{caller}: expected expressions by name, got none")
        for name, expr in expressions.items():
            _check(caller, name, expr)
        self.keys, self.expressions = keys, expressions
        needed = (name for expr in expressions.values() for name in expr.columns)
        #: The columns that are needed, each once.
        self.columns = tuple(dict.fromkeys([*keys, *needed]))

    def schema(self, rows: Any) -> Any:
        """Give the schema of the results for that of the rows: errors before any row is read."""
        import pyarrow as pa

        fields = {key: unpacked(pa, column_type(rows, key)) for key in self.keys}
        for name, expr in self.expressions.items():
            fields[name] = called(name, expr, partial(result_type, expr, rows))
        return pa.schema(fields)

    def reader(self, batches: Iterable[Any]) -> Any:
        """Give a reader of the needed columns, whose types are checked; none for no batches."""
        import pyarrow as pa

        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return None
        self.schema(first.schema)
        columns = list(self.columns or first.schema.names[:1])
        chosen = (batch.select(columns) for batch in chain([first], batches))
        return pa.RecordBatchReader.from_batches(first.select(columns).schema, chosen)


class TotalStates(Statistics):
    """Statistics of all rows: one row of results."""

    def __init__(self, expressions: dict[str, Expr]) -> None:
        super().__init__("select", (), expressions)
        #: Each statistic, with the name of the first expression that has it.
        self._parts: list[tuple[str, Expr]] = []
        for name, expr in expressions.items():
            nodes = list(expr.walk())
            if expr.is_rows or not any(n.name == "len" or _is_statistic(n) for n in nodes):
                raise RaptorsValueError(
                    f"select: expected {name} to reduce the rows to one, got {expr!r}; "
                    "with_columns gives a value for each row"
                )
            known = {id(node) for _, node in self._parts}
            own = [node for node in nodes if _is_statistic(node) and id(node) not in known]
            self._parts += [(name, node) for node in own]
        self._accumulators()

    def partial(self, batches: Iterable[Any], order: int = 0) -> Any:
        """Give the states of rows, to be shuffled: none for no batches."""
        import pyarrow as pa

        reader = self.reader(batches)
        if reader is None:
            return sent_table([])
        totals, count = self._accumulators(), 0
        for batch in reader:
            count += batch.num_rows
            self._update(totals, batch)
        states = {f"state{i}": pa.array(total.state()) for i, total in enumerate(totals)}
        table = pa.table({"rows": [count], **states})
        rows = {"rows": reader.schema.serialize().to_pybytes()}
        return sent_table([(0, order, table.replace_schema_metadata(rows))])

    def finish(self, sent: Iterable[Any], rows: Any = None) -> Any:
        """Merge what was shuffled, and give the row of results.

        ``rows`` is the schema of the rows, for the types of the results where there are none.
        """
        import pyarrow as pa

        totals, count = None, 0
        for table in received(sent):
            rows = pa.ipc.read_schema(pa.py_buffer(table.schema.metadata[b"rows"]))
            count += table["rows"][0].as_py()
            states = [table[f"state{i}"].chunk(0) for i in range(len(self._parts))]
            own = [_native.Accumulator.from_state(state) for state in states]
            if totals is None:
                totals = own
                continue
            for total, other in zip(totals, own, strict=True):
                total.merge(other)
        if rows is None:
            raise RaptorsValueError("select: expected rows, got none, and no schema of them")
        if totals is None:
            totals = self._accumulators()
            self._update(totals, empty_batch(rows))
        return self._given(totals, count, self.schema(rows))

    def _accumulators(self) -> list[Any]:
        return [_native.Accumulator(node.name, **node.options) for _, node in self._parts]

    def _update(self, totals: list[Any], batch: Any) -> None:
        for (name, node), total in zip(self._parts, totals, strict=True):
            update = partial(_update, total, node.args[0], batch)
            called(name, self.expressions[name], update)

    def _given(self, totals: list[Any], count: int, schema: Any) -> Any:
        import pyarrow as pa

        finished = [total.finish() for total in totals]
        values = {id(node): end for (_, node), end in zip(self._parts, finished, strict=True)}
        nodes = (node for expr in self.expressions.values() for node in expr.walk())
        values.update((id(node), count) for node in nodes if node.name == "len")
        row = []
        for field in schema:
            value = evaluate(self.expressions[field.name], values)
            plain = pa.array(value).to_pylist() if hasattr(value, "__arrow_c_array__") else value
            row.append(pa.array([plain], field.type))
        return pa.table(row, schema=schema)


def _check(caller: str, name: str, expr: Any) -> None:
    if not isinstance(expr, Expr):
        raise RaptorsTypeError(
            f"{caller}: expected an expression for {name}, got {type(expr).__name__}; begin one "
            'with ra.col("…")'
        )
    if any(node.name == "lazy" for node in expr.walk()):
        raise RaptorsValueError(
            f"{caller}: expected an expression of columns for {name}, got {expr!r}; an engine "
            "splits rows, so data at hand has no rows beside them"
        )


def _is_statistic(node: Expr) -> bool:
    """Whether it reduces rows, which its arguments do not."""
    if node.name in ("col", "len") or node.is_rows:
        return False
    return all(arg.is_rows for arg in node.args if isinstance(arg, Expr))


def _update(total: Any, x: Expr, batch: Any) -> None:
    total.update(evaluate(x, {}, batch.column))


def unpacked(pa: Any, type: Any) -> Any:
    """Give the type of the keys that a column holds."""
    return type.value_type if pa.types.is_dictionary(type) else type


def sent_table(cut: list[tuple[int, int, Any]]) -> Any:
    """Give tables with the parts that they are of as a table to be shuffled."""
    import pyarrow as pa

    schema = sent_schema()
    columns = zip(*((part, order, _packed(pa, table)) for part, order, table in cut), strict=True)
    arrays = list(columns) or [()] * len(schema)
    return pa.table([pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema)


def _packed(pa: Any, table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def received(sent: Iterable[Any]) -> Iterator[Any]:
    """Go through the tables of what was shuffled: in their order, the same for any way it took."""
    import pyarrow as pa

    rows: list[tuple[int, bytes]] = []
    for batch in sent:
        rows += zip(batch["order"].to_pylist(), batch["states"].to_pylist(), strict=True)
    for _, states in sorted(rows):
        yield pa.ipc.open_stream(pa.py_buffer(states)).read_all()
