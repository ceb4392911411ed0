"""Expressions over Spark data frames, through ``mapInArrow``.

``ra.spark.with_columns(df, unit=ra.col("emb").normalize())`` is a data frame. Spark sends record
batches to Python workers beside its executors; vectors are ``array<float>`` there, so they come
and go as variable lists.

Row by row only: each partition is computed where it lies, and nothing is moved.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from raptors_arrow.engines._mapper import Columns
from raptors_arrow.engines._rows import missing
from raptors_arrow.errors import RaptorsTypeError
from raptors_arrow.expr import Expr

try:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
    from pyspark.sql.types import StructField, StructType
except ImportError as error:
    raise missing("spark", "PySpark and pyarrow", error) from error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["with_columns"]


def with_columns(df: "DataFrame", /, **expressions: Expr) -> "DataFrame":
    """Add columns to a data frame, or replace those of the same name.

    Parameters
    ----------
    df
        A data frame of Spark; vectors are ``array<float>``, ``array<double>`` or of integers.
    **expressions
        The columns by name, each a value for each row, from that row alone. Types and names are
        checked now, rows when Spark computes.

    Returns
    -------
    pyspark.sql.DataFrame
        All columns of ``df``, and these. It is computed when Spark needs it.
    """
    if not hasattr(df, "mapInArrow"):
        raise RaptorsTypeError(
            f"with_columns: expected a data frame of Spark, got {type(df).__name__}"
        )
    columns = Columns(expressions)
    types = columns.types(to_arrow_schema(df.schema))
    fields = {field.name: field for field in df.schema.fields}
    fields |= {
        name: StructField(name, from_arrow_type(_listed(type))) for name, type in types.items()
    }
    return df.mapInArrow(_Batches(columns), StructType(list(fields.values())))


class _Batches:
    """What a worker runs: record batches in, record batches out."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            made = self._columns.add_to(batch)
            schema = pa.schema([field.with_type(_listed(field.type)) for field in made.schema])
            yield made if made.schema.equals(schema) else made.cast(schema)


def _listed(type: Any) -> Any:
    """Give the type that Spark has for vectors: lists of any length."""
    if pa.types.is_fixed_size_list(type):
        return pa.list_(_listed(type.value_type))
    return type
