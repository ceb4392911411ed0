"""Groups of rows by keys: `group_by`.

Sums, means and the like of vectors for each key, over tables and streams. A group's result has the
bits of the same function on the group's rows, in their order, however the rows come in batches.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from raptors_arrow import _native
from raptors_arrow._group_results import (
    Result,
    expression_of,
    key_columns,
    plain_keys,
    result_of,
    result_of_states,
    state_columns,
)
from raptors_arrow._reading import Ahead, Progress, shown
from raptors_arrow._types import column_type
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, evaluate_all
from raptors_arrow.sources import Source, as_source, empty_batch

__all__ = ["GroupBy", "MergedStates", "group_by", "merge_states"]


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
        Which has `GroupBy.aggregate` and `GroupBy.partial`.

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
        seen = as_source(source, "group_by")
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
    >>> groups = ra.group_by(pa.table({"k": [1, 1, 2]}), "k")
    >>> groups.aggregate(n=ra.len()).to_pydict()
    {'k': [1, 2], 'n': [2, 1]}
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
            with ``axis=0``, or that of plain numbers, in ``first()`` or ``last()`` of any column,
            or ``ra.len()``.

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
        results = self._results("aggregate", named, expressions, is_partial=False)
        groups = _native._Groups()
        whole = self._source.table
        if whole is not None:
            # All rows are at hand: groups need no states.
            members = self._members(groups, whole)
            made = [r.reduce(x, members, w) for r, x, w in self._inputs(results, whole)]
        else:
            at_once = self._read(groups, results, may_reduce=True)
            made = at_once or [result.finish(len(groups)) for result in results.values()]
        return self._given(groups, dict(zip(results, made, strict=True)))

    def partial(
        self, named: Iterable[tuple[str, str]] | None = None, /, **expressions: Expr
    ) -> Any:
        """Give the states of the groups of some rows, to be merged with those of others.

        Parameters
        ----------
        named, **expressions
            As for `aggregate`.

        Returns
        -------
        table or frame
            A row for each group: its keys, then a struct for each result, described in the guide
            (``state.md``). `merge_states` takes such tables, from this process or others.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import raptors_arrow as ra
        >>> rows = pa.table({"k": [1, 1, 2], "price": [1.0, 2.0, 4.0]})
        >>> p = ra.col("price")
        >>> halves = [ra.group_by(h, "k").partial(m=p.mean()) for h in (rows[:1], rows[1:])]
        >>> ra.merge_states(halves).finish().to_pylist()
        [{'k': 1, 'm': 1.5}, {'k': 2, 'm': 4.0}]
        """
        results = self._results("partial", named, expressions, is_partial=True)
        groups = _native._Groups()
        self._read(groups, results, may_reduce=False)
        return self._given(groups, {n: r.state(len(groups)) for n, r in results.items()})

    def _results(
        self, function: str, named: Any, expressions: dict[str, Expr], *, is_partial: bool
    ) -> dict[str, Result]:
        wanted = {}
        is_several = isinstance(named, Iterable) and not isinstance(named, str)
        for pair in named if is_several else [] if named is None else [named]:
            if not isinstance(pair, tuple | list) or [type(part) for part in pair] != [str, str]:
                raise RaptorsTypeError(
                    f'{function}: expected pairs such as ("emb", "mean"), or expressions by name, '
                    f"got {pair!r}"
                )
            column, how = pair
            wanted[f"{column}_{how}"] = expression_of(function, column, how)
        for name, expr in expressions.items():
            if not isinstance(expr, Expr):
                raise RaptorsTypeError(
                    f"{function}: expected an expression for {name}, got {type(expr).__name__}; "
                    'begin one with ra.col("…")'
                )
        wanted.update(expressions)
        if not wanted:
            raise RaptorsTypeError(f"{function}: expected expressions by name, got none")
        schema = self._source.schema
        return {
            name: result_of(function, schema, name, expr, is_partial)
            for name, expr in wanted.items()
        }

    def _members(self, groups: Any, batch: Any) -> Any:
        return groups.assign([plain_keys(batch.column(key)) for key in self._keys])

    def _inputs(self, results: dict[str, Result], batch: Any) -> Iterator[tuple[Result, Any, Any]]:
        """Evaluate what is reduced, once for all that share it."""
        each = [part for result in results.values() for part in (result.x, result.weights)]
        wanted = [part for part in each if part is not None]
        values = iter(evaluate_all(wanted, {}, batch.column))
        for result in results.values():
            x = batch.num_rows if result.x is None else next(values)
            yield result, x, None if result.weights is None else next(values)

    def _read(
        self, groups: Any, results: dict[str, Result], *, may_reduce: bool
    ) -> list[Any] | None:
        """Take all batches. If there is one alone, its results may be given at once."""
        used = (column for result in results.values() for column in result.columns)
        needed = list(dict.fromkeys([*self._keys, *used]))
        is_empty, at_once = True, None
        with self._batches(needed) as (batches, is_at_end):
            for batch in batches:
                members = self._members(groups, batch)
                if may_reduce and is_empty and batch.num_rows and is_at_end():
                    at_once = [r.reduce(x, members, w) for r, x, w in self._inputs(results, batch)]
                    is_empty = False
                    continue
                is_empty = False
                for result, x, weights in self._inputs(results, batch):
                    result.update(x, members, weights)
        if is_empty:  # types are known all the same
            import pyarrow as pa

            schema = self._source.schema
            none = empty_batch(pa.schema([schema.field(name) for name in needed]))
            members = self._members(groups, none)
            for result, x, weights in self._inputs(results, none):
                result.update(x, members, weights)
        return at_once

    @contextmanager
    def _batches(self, needed: list[str]) -> Iterator[tuple[Iterator[Any], Callable[[], bool]]]:
        """Give the batches, and what says whether the last one was given."""
        if self._source.table is not None:
            yield iter([self._source.table.select(needed)]), lambda: True
            return
        ahead = Ahead(self._source.batches(needed))
        with ahead as batches:
            yield shown(batches, self._source.count_rows, self._progress), ahead.is_at_end

    def _given(self, groups: Any, made: dict[str, Any]) -> Any:
        import pyarrow as pa

        schema = self._source.schema
        keys = {key: schema.field(key).type for key in self._keys}
        table = pa.table({**key_columns(groups, keys), **made})
        if self._sort:
            table = table.sort_by([(key, "ascending") for key in self._keys])
        return self._source.give(table)


def merge_states(states: Any, *, sort: bool = False) -> "MergedStates":
    """Merge the states of groups that `GroupBy.partial` gave for parts of the rows.

    Parameters
    ----------
    states
        A table of keys and states, a reader, a dataset, files, a frame; or several, in the order
        of the rows that they are of.
    sort
        Give the groups in the order of their keys, and not in that of their first rows.

    Returns
    -------
    MergedStates
        Which has `MergedStates.finish`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> rows = pa.table({"k": ["a", "b"], "price": [1.0, 2.0]})
    >>> state = ra.group_by(rows, "k").partial(total=ra.col("price").sum())
    >>> ra.merge_states([state, state]).finish().to_pylist()
    [{'k': 'a', 'total': 2.0}, {'k': 'b', 'total': 4.0}]
    """
    each = states if isinstance(states, list | tuple) else [states]
    return MergedStates([as_source(one, "merge_states") for one in each], sort)


class MergedStates:
    """States of groups, made by `merge_states`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> state = ra.group_by(pa.table({"k": [1, 1, 2]}), "k").partial(n=ra.len())
    >>> ra.merge_states([state, state]).finish().to_pydict()
    {'k': [1, 2], 'n': [4, 2]}
    """

    def __init__(self, sources: list[Source], sort: bool) -> None:
        if not sources:
            raise RaptorsValueError("merge_states: expected tables of states, got none")
        self._sources, self._sort = sources, sort
        self._keys, self._states = state_columns(sources[0].schema)

    def __repr__(self) -> str:
        return f"<raptors_arrow.MergedStates: {', '.join(self._states)}>"

    def finish(self) -> Any:
        """Give the results: a row for each group, its keys, then the results.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import raptors_arrow as ra
        >>> rows = pa.table({"k": ["a"], "price": [1.0]})
        >>> state = ra.group_by(rows, "k").partial(n=ra.len())
        >>> ra.merge_states(state).finish().to_pylist()
        [{'k': 'a', 'n': 1}]
        """
        groups, results = self._merged()
        return self._given(groups, {n: r.finish(len(groups)) for n, r in results.items()})

    def partial(self) -> Any:
        """Give the merged states, to be merged again.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import raptors_arrow as ra
        >>> rows = pa.table({"k": ["a"], "price": [1.0]})
        >>> state = ra.group_by(rows, "k").partial(n=ra.len())
        >>> both = ra.merge_states([state, state]).partial()
        >>> ra.merge_states([both, state]).finish().to_pylist()
        [{'k': 'a', 'n': 3}]
        """
        groups, results = self._merged()
        return self._given(groups, {n: r.state(len(groups)) for n, r in results.items()})

    def _merged(self) -> tuple[Any, dict[str, Result]]:
        groups, results = _native._Groups(), {}
        for source in self._sources:
            keys, states = state_columns(source.schema)
            if (set(keys), set(states)) != (set(self._keys), set(self._states)):
                raise RaptorsValueError(
                    f"merge_states: expected keys {', '.join(self._keys)} and states "
                    f"{', '.join(self._states)} in all tables, got {', '.join(keys + states)}"
                )
            for batch in source.batches(None):
                if batch.num_rows == 0:
                    continue
                members = groups.assign([plain_keys(batch.column(key)) for key in self._keys])
                for name in self._states:
                    column = batch.column(name)
                    if name not in results:
                        results[name] = result_of_states(name, column)
                    results[name].merge(column, members)
        if not results:
            raise RaptorsValueError(
                "merge_states: expected states of some rows, got tables without any"
            )
        return groups, results

    def _given(self, groups: Any, made: dict[str, Any]) -> Any:
        import pyarrow as pa

        schema = self._sources[0].schema
        keys = {key: schema.field(key).type for key in self._keys}
        table = pa.table({**key_columns(groups, keys), **made})
        if self._sort:
            table = table.sort_by([(key, "ascending") for key in self._keys])
        return self._sources[0].give(table)
