"""Expressions over Daft data frames, as batch functions of Daft.

``df.with_column("unit", ra.daft.expression(ra.col("emb").normalize(), df.schema()))``, or shorter
``ra.daft.with_columns(df, unit=ra.col("emb").normalize())``.

``ra.daft.select(df, mean=ra.col("emb").mean(axis=0))`` reduces the rows: each batch to a state
where it lies, and the states are merged. ``ra.daft.group_by(df, "user").aggregate(…)`` does it for
each key.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from raptors_arrow.engines._group_states import GroupedRows
from raptors_arrow.engines._mapper import Columns
from raptors_arrow.engines._rows import missing
from raptors_arrow.engines._states import TotalStates, sent_schema
from raptors_arrow.errors import RaptorsTypeError
from raptors_arrow.expr import Expr

try:
    import daft
    import pyarrow as pa
except ImportError as error:
    raise missing("daft", "Daft and pyarrow", error) from error

if TYPE_CHECKING:
    from daft import DataFrame, Expression, Schema

__all__ = ["GroupBy", "expression", "group_by", "select", "with_columns"]


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

    Examples
    --------
    >>> import daft
    >>> import raptors_arrow as ra
    >>> df = daft.from_pydict({"emb": [[3.0, 4.0], [1.0, 0.0]]})
    >>> length = ra.daft.expression(ra.col("emb").norm(axis=1), df.schema())
    >>> df.where(length > 2).to_pydict()
    {'emb': [[3.0, 4.0]]}
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

    Examples
    --------
    >>> import daft
    >>> import raptors_arrow as ra
    >>> df = daft.from_pydict({"emb": [[3.0, 4.0]]})
    >>> ra.daft.with_columns(df, length=ra.col("emb").norm(axis=1)).to_pydict()
    {'emb': [[3.0, 4.0]], 'length': [5.0]}
    """
    _check_frame("with_columns", df)
    Columns(expressions)
    schema = df.schema()
    return df.with_columns(
        {name: expression(expr, schema, name=name) for name, expr in expressions.items()}
    )


def select(df: "DataFrame", /, **expressions: Expr) -> Any:
    """Reduce the rows of a data frame to one: statistics of columns.

    Each batch is reduced to a state where Daft computes it, and the states are merged here. Daft
    says nothing of the order of batches, so digits are within the bound of the guide.

    Parameters
    ----------
    df
        A data frame of Daft.
    **expressions
        The results by name, each of which reduces the rows: ``ra.col("emb").std(axis=0)``.

    Returns
    -------
    pyarrow.Table
        One row.

    Examples
    --------
    >>> import daft
    >>> import raptors_arrow as ra
    >>> df = daft.from_pydict({"emb": [[3.0, 4.0], [1.0, 0.0]]})
    >>> ra.daft.select(df, mean=ra.col("emb").mean(axis=0), n=ra.len()).to_pylist()
    [{'mean': [2.0, 2.0], 'n': 2}]
    """
    _check_frame("select", df)
    states = TotalStates(expressions)
    rows = df.schema().to_pyarrow_schema()
    states.schema(rows)
    return states.finish([_sent(df, states).to_arrow()], rows)


def group_by(df: "DataFrame", keys: Any, /, *, partitions: int | None = None) -> "GroupBy":
    """Group the rows of a data frame by the values of some columns.

    Each batch is reduced to states of its groups; Daft shuffles them by the keys, and each
    part is merged by one worker.

    Parameters
    ----------
    df
        A data frame of Daft.
    keys
        The name of a column, or several. Nulls are a group, NaN is one, and -0.0 is 0.0.
    partitions
        Into how many parts the keys are cut: 8 if it is not given.

    Returns
    -------
    GroupBy
        Which has `GroupBy.aggregate`.

    Examples
    --------
    >>> import daft
    >>> import raptors_arrow as ra
    >>> df = daft.from_pydict({"k": ["a", "a"], "price": [1.0, 2.0]})
    >>> means = ra.daft.group_by(df, "k").aggregate(mean=ra.col("price").mean(), n=ra.len())
    >>> means.to_pydict()
    {'k': ['a'], 'mean': [1.5], 'n': [2]}
    """
    _check_frame("group_by", df)
    return GroupBy(df, keys, partitions)


class GroupBy(GroupedRows):
    """Rows of a data frame in groups, made by `group_by`.

    Examples
    --------
    >>> import daft
    >>> import raptors_arrow as ra
    >>> df = daft.from_pydict({"k": ["a", "a"], "price": [1.0, 2.0]})
    >>> ra.daft.group_by(df, "k")
    <raptors_arrow.daft.GroupBy: k>
    """

    _engine = "daft"

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
        daft.DataFrame
            A row for each group: its keys, then the results. The order is that of the shuffle.
        """
        states = self._states(named, expressions)
        made = states.schema(self._rows.schema().to_pyarrow_schema())
        type = pa.struct(list(made))

        def finish(order: Any, packed: Any) -> Any:
            arrays = {"order": order.to_arrow(), "states": packed.to_arrow()}
            merged = states.finish([pa.table(arrays)]).cast(made)
            return merged.to_struct_array().combine_chunks()

        call = daft.func.batch(return_dtype=daft.DataType.from_arrow_type(type))(finish)
        sent = _sent(self._rows, states, self._partitions or 8)
        merged = sent.groupby("part").map_groups(
            call(daft.col("order"), daft.col("states")).alias("merged")
        )
        return merged.select(*(merged["merged"].get(name).alias(name) for name in made.names))


def _sent(df: Any, states: Any, *parts: int) -> Any:
    """Give a data frame of what is shuffled.

    Functions of Daft give a row for each row. There are never more states than rows, so those that
    are left over are null, and filtered.
    """
    names = states.columns or tuple(df.column_names[:1])
    type = pa.struct(list(sent_schema()))

    def partial(*series: Any) -> Any:
        arrays = [one.to_arrow() for one in series]
        table = states.partial([pa.record_batch(arrays, names=list(names))], *parts)
        sent = table.to_struct_array().combine_chunks()
        return pa.concat_arrays([sent, pa.nulls(len(arrays[0]) - len(sent), type)])

    made = daft.func.batch(return_dtype=daft.DataType.from_arrow_type(type))(partial)
    sent = df.select(made(*(daft.col(name) for name in names)).alias("sent"))
    sent = sent.where(sent["sent"].not_null())
    return sent.select(*(sent["sent"].get(name).alias(name) for name in sent_schema().names))


def _check_frame(name: str, df: Any) -> None:
    if not isinstance(df, daft.DataFrame):
        raise RaptorsTypeError(f"{name}: expected a data frame of Daft, got {type(df).__name__}")


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
