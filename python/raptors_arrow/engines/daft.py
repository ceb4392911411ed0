"""Expressions over Daft data frames, as batch functions of Daft.

``df.with_column("unit", ra.daft.expression(ra.col("emb").normalize(), df.schema()))``, or shorter
``ra.daft.with_columns(df, unit=ra.col("emb").normalize())``.

Row by row only: each batch is computed where it lies, and nothing is moved.
"""

from typing import TYPE_CHECKING, Any

from raptors_arrow.engines._mapper import Columns
from raptors_arrow.engines._rows import missing
from raptors_arrow.errors import RaptorsTypeError
from raptors_arrow.expr import Expr

try:
    import daft
    import pyarrow as pa
except ImportError as error:
    raise missing("daft", "Daft and pyarrow", error) from error

if TYPE_CHECKING:
    from daft import DataFrame, Expression, Schema

__all__ = ["expression", "with_columns"]


def expression(expr: Expr, schema: "Schema", *, name: str = "expression") -> "Expression":
    """Make an expression of Daft's from one of ours.

    Parameters
    ----------
    expr
        A value for each row, from that row alone.
    schema
        The schema of the data frame, such as ``df.schema()``: the type of the result follows.
    name
        What errors and plans call it.

    Returns
    -------
    daft.Expression
    """
    columns = Columns({name: expr})
    arrow = schema.to_pyarrow_schema()
    result = columns.types(arrow)[name]
    run = _Batch(columns, name, expr.columns)
    made = daft.func.batch(return_dtype=daft.DataType.from_arrow_type(result))(run.named())
    return made(*(daft.col(column) for column in expr.columns))


def with_columns(df: "DataFrame", /, **expressions: Expr) -> "DataFrame":
    """Add columns to a data frame, or replace those of the same name.

    Parameters
    ----------
    df
        A data frame of Daft.
    **expressions
        The columns by name, each a value for each row, from that row alone. Types and names are
        checked now, rows when Daft computes.

    Returns
    -------
    daft.DataFrame
        All columns of ``df``, and these. It is computed when Daft needs it.
    """
    if not isinstance(df, daft.DataFrame):
        raise RaptorsTypeError(
            f"with_columns: expected a data frame of Daft, got {type(df).__name__}"
        )
    Columns(expressions)
    schema = df.schema()
    return df.with_columns(
        {name: expression(expr, schema, name=name) for name, expr in expressions.items()}
    )


class _Batch:
    """What a worker runs: one column of Daft's for each column that is named."""

    def __init__(self, columns: Columns, name: str, names: tuple[str, ...]) -> None:
        self._columns, self._name, self._names = columns, name, names

    def named(self) -> Any:
        def batch(*series: Any) -> Any:
            arrays = dict(zip(self._names, (one.to_arrow() for one in series), strict=True))
            return self._columns.add_to(pa.record_batch(arrays)).column(self._name)

        batch.__name__ = self._name
        return batch
