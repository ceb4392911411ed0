"""Columns added to the batches of an engine: what Ray, Spark and Daft send to their workers."""

from functools import partial
from typing import Any

from raptors_arrow.engines._rows import called, check_rows
from raptors_arrow.errors import RaptorsTypeError
from raptors_arrow.expr import Expr, evaluate

__all__ = ["Columns"]


class Columns:
    """Expressions by name, each of a value for each row. It can be pickled, with what it holds."""

    def __init__(self, expressions: dict[str, Expr]) -> None:
        if not expressions:
            raise RaptorsTypeError("with_columns: expected expressions by name, got none")
        for name, expr in expressions.items():
            check_rows("with_columns", name, expr)
        self.expressions = expressions

    def types(self, schema: Any) -> dict[str, Any]:
        """Give the type of each column for the schema of a batch: errors before any is computed."""
        return {
            name: called(name, expr, partial(expr.result_type, schema))
            for name, expr in self.expressions.items()
        }

    def schema(self, schema: Any) -> Any:
        """Give the schema of a batch with the columns."""
        import pyarrow as pa

        made = schema
        for name, type in self.types(schema).items():
            at, field = made.get_field_index(name), pa.field(name, type)
            made = made.append(field) if at < 0 else made.set(at, field)
        return made

    def add_to(self, rows: Any) -> Any:
        """Give a table or record batch with the columns; all others pass through untouched."""
        types = self.types(rows.schema)
        made = rows
        for name, expr in self.expressions.items():
            # All are made of the columns that came, also if one replaces another.
            values = called(name, expr, partial(evaluate, expr, {}, rows.column))
            if not values.type.equals(types[name]):
                values = values.cast(types[name])
            at = made.schema.get_field_index(name)
            if at < 0:
                made = made.append_column(name, values)
            else:
                made = made.set_column(at, name, values)
        return made
