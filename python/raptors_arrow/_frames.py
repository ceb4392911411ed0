"""``frame.raptors``: `select`, `with_columns` and `group_by` of polars frames and lazy queries.

A lazy query is collected batch by batch (``collect_batches``) where polars has it, and else at once
by the streaming engine, so our states see the rows once, however many there are.
"""

from collections.abc import Sequence
from typing import Any

from raptors_arrow.expr import Expr
from raptors_arrow.groups import GroupBy, group_by
from raptors_arrow.stream import select, with_columns

__all__ = ["FrameGroups", "FrameNamespace"]


class FrameNamespace:
    """Expressions of ``ra.col`` over a frame.

    Examples
    --------
    >>> import polars as pl
    >>> import raptors_arrow as ra
    >>> emb = pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2))
    >>> query = pl.LazyFrame({"emb": emb})
    >>> query.raptors.select(mean=ra.col("emb").mean(axis=0))["mean"].to_list()
    [[2.0, 3.0]]
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def select(self, *unnamed: Expr, progress: Any = None, **expressions: Expr) -> Any:
        """Evaluate expressions, as ``ra.select`` does: several statistics in one pass."""
        return select(self._frame, *unnamed, progress=progress, **expressions)

    def with_columns(self, *unnamed: Expr, progress: Any = None, **expressions: Expr) -> Any:
        """Add columns, as ``ra.with_columns`` does."""
        return with_columns(self._frame, *unnamed, progress=progress, **expressions)

    def group_by(
        self, *keys: str | Sequence[str], sort: bool = False, progress: Any = None
    ) -> "FrameGroups":
        """Group rows by columns, as ``ra.group_by`` does."""
        names = [key for some in keys for key in ([some] if isinstance(some, str) else some)]
        return FrameGroups(group_by(self._frame, names, sort=sort, progress=progress))


class FrameGroups:
    """Groups of a frame's rows.

    Examples
    --------
    >>> import polars as pl
    >>> import raptors_arrow as ra
    >>> emb = pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2))
    >>> query = pl.LazyFrame({"k": ["a", "a"], "emb": emb})
    >>> query.raptors.group_by("k").agg(mean=ra.col("emb").mean(axis=0)).to_dicts()
    [{'k': 'a', 'mean': [2.0, 3.0]}]
    """

    def __init__(self, groups: GroupBy) -> None:
        self._groups = groups

    def agg(self, named: Any = None, /, **expressions: Expr) -> Any:
        """Reduce the rows of each group to one, as ``GroupBy.aggregate`` does."""
        return self._groups.aggregate(named, **expressions)

    def partial(self, named: Any = None, /, **expressions: Expr) -> Any:
        """Give states for `merge_states`, as ``GroupBy.partial`` does."""
        return self._groups.partial(named, **expressions)
