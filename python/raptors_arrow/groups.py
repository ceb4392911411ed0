"""Groups of rows by keys: `group_by`.

Sums, means and the like of vectors for each key, over tables and streams. A group's result has the
bits of the same function on the group's rows, in their order, however the rows come in batches.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from raptors_arrow import _native
from raptors_arrow._reading import Ahead, Progress, shown
from raptors_arrow._types import column_type, result_type
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, col, evaluate
from raptors_arrow.sources import Source, as_source

__all__ = ["GroupBy", "group_by"]

#: What can be asked of a group.
_STATISTICS = ("sum", "mean", "min", "max", "count", "var", "std", "norm")


def group_by(source: Any, keys: Any, *, sort: bool = False, progress: Progress = None) -> "GroupBy":
    """Group the rows of a source by the values of some columns.

    Parameters
    ----------
    source
        As for `select`: a table, a reader, a dataset, files, a frame; or a column of vectors, if
        ``keys`` are not in it.
    keys
        The name of a column, or several; or arrays as long as the source. Nulls are a group, NaN is
        one, and -0.0 is 0.0.
    sort
        Give the groups in the order of their keys, and not in that of their first rows.
    progress
        As for `select`.

    Returns
    -------
    GroupBy
        Which has `GroupBy.aggregate`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> rows = pa.table({
    ...     "user": ["b", "a", "b"],
    ...     "emb": pa.array([[1.0, 2.0], [5.0, 5.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    ... })
    >>> e = ra.col("emb")
    >>> means = ra.group_by(rows, "user").aggregate(mean=e.mean(axis=0), n=ra.len())
    >>> means.to_pylist()
    [{'user': 'b', 'mean': [2.0, 3.0], 'n': 2}, {'user': 'a', 'mean': [5.0, 5.0], 'n': 1}]
    """
    if isinstance(keys, str):
        keys = [keys]
    if isinstance(keys, Sequence) and len(keys) > 0 and all(isinstance(k, str) for k in keys):
        seen = as_source(source)
        for key in keys:
            column_type(seen.schema, key)
        return GroupBy(seen, tuple(keys), sort, progress)
    return GroupBy(_beside(source, keys), ("key",), sort, progress)


def _beside(x: Any, keys: Any) -> Source:
    """See a column of vectors and an array of keys as a table of both."""
    import pyarrow as pa

    columns = {"x": _as_arrow(pa, x), "key": _as_arrow(pa, keys)}
    if len(columns["x"]) != len(columns["key"]):
        raise RaptorsValueError(
            f"group_by: expected a key for each of {len(columns['x'])} rows, got "
            f"{len(columns['key'])}; keys are names of columns, or arrays of one key for each row"
        )
    return as_source(pa.table(columns))


def _as_arrow(pa: Any, values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if getattr(values, "ndim", 1) > 1:
        return pa.array(_native.as_matrix(values))
    return pa.array(values)


class GroupBy:
    """Rows in groups, made by `group_by`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> ra.group_by(pa.table({"k": [1, 1], "price": [1.0, 2.0]}), "k")
    <raptors_arrow.GroupBy: k>
    """

    def __init__(
        self, source: Source, keys: tuple[str, ...], sort: bool, progress: Progress
    ) -> None:
        self._source, self._keys, self._sort, self._progress = source, keys, sort, progress

    def __repr__(self) -> str:
        return f"<raptors_arrow.GroupBy: {', '.join(self._keys)}>"

    def aggregate(
        self, named: Iterable[tuple[str, str]] | None = None, /, **expressions: Expr
    ) -> Any:
        """Reduce the rows of each group to one.

        Parameters
        ----------
        named
            As pyarrow reads it: pairs of a column and a statistic, whose results are named
            ``column_statistic``.
        **expressions
            Results by name: expressions that end in one of ``sum mean min max count var std norm``
            with ``axis=0``, or that of plain numbers, or ``ra.len()``.

        Returns
        -------
        table or frame
            A row for each group: its keys, then the results.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import raptors_arrow as ra
        >>> rows = pa.table({"k": [1, 1, 2], "price": [1.0, 2.0, 4.0]})
        >>> ra.group_by(rows, "k").aggregate([("price", "sum")]).to_pylist()
        [{'k': 1, 'price_sum': 3.0}, {'k': 2, 'price_sum': 4.0}]
        """
        wanted = {f"{column}_{how}": _named(column, how) for column, how in named or ()}
        wanted.update(expressions)
        if not wanted:
            raise RaptorsTypeError("aggregate: expected expressions by name, got none")
        results = {name: _Result(self._source, name, expr) for name, expr in wanted.items()}
        groups = _native._Groups()
        needed = list(
            dict.fromkeys([*self._keys, *(c for r in results.values() for c in r.columns)])
        )
        for batch in self._batches(needed):
            members = groups.assign([_plain(batch.column(key)) for key in self._keys])
            for result in results.values():
                result.update(batch, members)
        return self._given(groups, results)

    def _batches(self, needed: list[str]) -> Any:
        if self._source.table is not None:
            yield self._source.table.select(needed)
            return
        with Ahead(self._source.batches(needed)) as ahead:
            yield from shown(ahead, self._source.count_rows, self._progress)

    def _given(self, groups: Any, results: dict[str, "_Result"]) -> Any:
        import pyarrow as pa

        schema = self._source.schema
        arrays = [pa.Array._import_from_c_capsule(*key) for key in groups.keys()]
        arrays = arrays or [pa.array([], schema.field(key).type) for key in self._keys]
        columns = dict(zip(self._keys, arrays, strict=True))
        for key in self._keys:
            columns[key] = columns[key].cast(_unpacked(pa, schema.field(key).type))
        columns.update((name, result.finish(len(groups))) for name, result in results.items())
        table = pa.table(columns)
        if self._sort:
            table = table.sort_by([(key, "ascending") for key in self._keys])
        return table if self._source.table is None else self._source.give(table)


def _plain(keys: Any) -> Any:
    """Give a column's keys as one array."""
    return keys.combine_chunks() if hasattr(keys, "combine_chunks") else keys


def _unpacked(pa: Any, type: Any) -> Any:
    return type.value_type if pa.types.is_dictionary(type) else type


def _named(column: str, how: str) -> Expr:
    if how not in _STATISTICS:
        raise RaptorsValueError(
            f"aggregate: expected one of {', '.join(_STATISTICS)} for {column}, got {how!r}"
        )
    return Expr(how, (col(column),), {"axis": 0})


class _Result:
    """One result of each group, while the rows come."""

    def __init__(self, source: Source, name: str, expr: Expr) -> None:
        self._expr, self._schema = expr, source.schema
        if not isinstance(expr, Expr):
            raise RaptorsTypeError(
                f"aggregate: expected an expression for {name}, got {type(expr).__name__}"
            )
        self._is_length = expr.name == "len"
        if not self._is_length:
            x = expr.args[0] if expr.args else None
            if expr.name not in _STATISTICS or not isinstance(x, Expr) or not x.is_rows:
                raise RaptorsValueError(
                    f"aggregate: expected {name} to end in one of {', '.join(_STATISTICS)}, of "
                    f"values of each row, got {expr!r}"
                )
            self._x = x
            self._is_plain = self._type(x)
        self.columns = expr.columns
        options = {key: value for key, value in expr.options.items() if key != "axis"}
        # To count rows is to count what no row lacks.
        self._state = _native._GroupStatistic("count" if self._is_length else expr.name, **options)

    def _type(self, x: Expr) -> bool:
        """Whether the values are plain numbers: then one result for a group is a number."""
        is_plain = not getattr(result_type(x, self._schema), "num_fields", 0)
        axis = self._expr.options.get("axis")
        if axis == 1 or (axis is None and not is_plain):
            raise RaptorsValueError(
                "aggregate: expected axis=0, one result for each column of a group, got "
                f"axis={axis} in {self._expr!r}"
            )
        return is_plain

    def update(self, batch: Any, members: Any) -> None:
        import pyarrow as pa

        if self._is_length:
            rows = pa.nulls(batch.num_rows, pa.int8()).fill_null(0)
            self._state.update(rows, members)
            return
        self._state.update(evaluate(self._x, {}, batch.column), members)

    def finish(self, groups: int) -> Any:
        import pyarrow as pa

        if groups == 0:
            return pa.array([], result_type(self._expr, self._schema))
        made = pa.array(self._state.finish(groups))
        if self._is_length or self._is_plain:
            return made.flatten()
        return made.cast(result_type(self._expr, self._schema))
