"""Expressions over Spark data frames, through ``mapInArrow``.

``ra.spark.with_columns(df, unit=ra.col("emb").normalize())`` is a data frame. Spark sends record
batches to Python workers beside its executors; vectors are ``array<float>`` there, so they come
and go as variable lists.

``ra.spark.select(df, mean=ra.col("emb").mean(axis=0))`` reduces the rows: each partition to a state
where it lies, and the states are merged. ``ra.spark.group_by(df, "user").aggregate(…)`` does it for
each key.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from raptors_arrow.engines._group_states import GroupedRows
from raptors_arrow.engines._mapper import Columns
from raptors_arrow.engines._rows import missing
from raptors_arrow.engines._states import TotalStates
from raptors_arrow.errors import RaptorsTypeError
from raptors_arrow.expr import Expr

try:
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
    from pyspark.sql.types import StructField, StructType
except ImportError as error:
    raise missing("spark", "PySpark and pyarrow", error) from error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["GroupBy", "group_by", "select", "with_columns"]

#: What is shuffled, as Spark writes it.
_SENT = "part int, order long, states binary"


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

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> from pyspark.sql import SparkSession
    >>> df = SparkSession.builder.getOrCreate().sql("SELECT array(3f, 4f) AS emb")
    >>> ra.spark.with_columns(df, length=ra.col("emb").norm(axis=1)).collect()
    [Row(emb=[3.0, 4.0], length=5.0)]
    """
    _check_frame("with_columns", df)
    columns = Columns(expressions)
    types = columns.types(to_arrow_schema(df.schema))
    fields = {field.name: field for field in df.schema.fields}
    fields |= {
        name: StructField(name, from_arrow_type(_listed(type))) for name, type in types.items()
    }
    return df.mapInArrow(_Batches(columns), StructType(list(fields.values())))


def select(df: "DataFrame", /, **expressions: Expr) -> Any:
    """Reduce the rows of a data frame to one: statistics of columns.

    Each partition is reduced to a state by a worker, and the states are merged here, in the order
    of the partitions. The bits are those of one process if each partition but the last has a
    multiple of 1024 rows, else within the bound of the guide.

    Parameters
    ----------
    df
        A data frame of Spark.
    **expressions
        The results by name, each of which reduces the rows: ``ra.col("emb").std(axis=0)``.

    Returns
    -------
    pyarrow.Table
        One row.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.builder.getOrCreate()
    >>> df = spark.sql("SELECT * FROM VALUES (array(3f, 4f)), (array(1f, 0f)) AS t(emb)")
    >>> ra.spark.select(df, mean=ra.col("emb").mean(axis=0), n=ra.len()).to_pylist()
    [{'mean': [2.0, 2.0], 'n': 2}]
    """
    _check_frame("select", df)
    states = TotalStates(expressions)
    rows = to_arrow_schema(df.schema)
    states.schema(rows)
    sent = _chosen(df, states).mapInArrow(_Partial(states), _SENT).toArrow()
    return states.finish([sent], rows)


def group_by(df: "DataFrame", keys: Any, /, *, partitions: int | None = None) -> "GroupBy":
    """Group the rows of a data frame by the values of some columns.

    Each partition is reduced to states of its groups; Spark shuffles them by the keys, and each
    part is merged by one worker.

    Parameters
    ----------
    df
        A data frame of Spark.
    keys
        The name of a column, or several. Nulls are a group, NaN is one, and -0.0 is 0.0.
    partitions
        Into how many parts the keys are cut: ``spark.sql.shuffle.partitions`` if it is not given.

    Returns
    -------
    GroupBy
        Which has `GroupBy.aggregate`.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.builder.getOrCreate()
    >>> df = spark.sql("SELECT * FROM VALUES ('a', 1d), ('a', 2d) AS t(k, price)")
    >>> ra.spark.group_by(df, "k").aggregate(mean=ra.col("price").mean(), n=ra.len()).collect()
    [Row(k='a', mean=1.5, n=2)]
    """
    _check_frame("group_by", df)
    return GroupBy(df, keys, partitions)


class GroupBy(GroupedRows):
    """Rows of a data frame in groups, made by `group_by`.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.builder.getOrCreate()
    >>> df = spark.sql("SELECT * FROM VALUES ('a', 1d), ('a', 2d) AS t(k, price)")
    >>> ra.spark.group_by(df, "k")
    <raptors_arrow.spark.GroupBy: k>
    """

    _engine = "spark"
    _is_ordered = True

    def aggregate(
        self, named: Iterable[tuple[str, str]] | None = None, /, **expressions: Expr
    ) -> "DataFrame":
        """Reduce the rows of each group to one.

        Parameters
        ----------
        named
            Pairs of a column and a statistic, whose results are named ``column_statistic``.
        **expressions
            Results by name, as for `raptors_arrow.GroupBy.aggregate`.

        Returns
        -------
        pyspark.sql.DataFrame
            A row for each group: its keys, then the results. The order is that of the shuffle.
        """
        states = self._states(named, expressions)
        df = self._rows
        made = states.schema(to_arrow_schema(df.schema))
        known = {field.name: field.dataType for field in df.schema.fields}
        types = [
            StructField(
                field.name,
                known[field.name]
                if field.name in self._keys
                else from_arrow_type(_listed(field.type)),
            )
            for field in made
        ]
        parts = self._partitions or int(df.sparkSession.conf.get("spark.sql.shuffle.partitions"))
        sent = _chosen(df, states).mapInArrow(_Partial(states, parts), _SENT)
        # Without a number of its own Spark may join small parts into one task.
        merged = sent.repartition(parts, "part") if self._partitions else sent.repartition("part")
        return merged.mapInArrow(_Finish(states), StructType(types))


class _Finish:
    """What a worker runs: the states of some parts in, results out."""

    def __init__(self, states: Any) -> None:
        self._states = states

    def __call__(self, sent: Iterable[Any]) -> Iterator[Any]:
        received = [batch for batch in sent if batch.num_rows]
        if received:
            yield from _as_lists(self._states.finish(received)).to_batches()


class _Partial:
    """What a worker runs: record batches of a partition in, states out."""

    def __init__(self, states: Any, *parts: int) -> None:
        self._states, self._parts = states, parts

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        partition = TaskContext.get().partitionId()
        yield from self._states.partial(batches, *self._parts, order=partition).to_batches()


def _chosen(df: Any, states: Any) -> Any:
    """Leave out the columns that are not needed, before they are sent to Python."""
    return df.select(*(f"`{name}`" for name in states.columns)) if states.columns else df


def _check_frame(name: str, df: Any) -> None:
    if not hasattr(df, "mapInArrow"):
        raise RaptorsTypeError(f"{name}: expected a data frame of Spark, got {type(df).__name__}")


class _Batches:
    """What a worker runs: record batches in, record batches out."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield _as_lists(self._columns.add_to(batch))


def _as_lists(rows: Any) -> Any:
    """Give a batch or table with its vectors as Spark has them."""
    schema = pa.schema([field.with_type(_listed(field.type)) for field in rows.schema])
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def _listed(type: Any) -> Any:
    """Give the type that Spark has for vectors: lists of any length."""
    if pa.types.is_fixed_size_list(type):
        return pa.list_(_listed(type.value_type))
    return type
