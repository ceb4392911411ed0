"""The groups of more than one machine: states of each key, by the shuffle of `_states`."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar
from zlib import crc32

from raptors_arrow.engines._states import Statistics, received, sent_table, unpacked
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, col
from raptors_arrow.groups import group_by, merge_states

__all__ = ["GroupStates", "GroupedRows"]


class GroupStates(Statistics):
    """Statistics of the rows of each key."""

    def __init__(
        self,
        keys: tuple[str, ...],
        named: Iterable[tuple[str, str]] | None,
        expressions: dict[str, Expr],
    ) -> None:
        wanted = {
            f"{column}_{how}": Expr(how, (col(column),), {"axis": 0}) for column, how in named or ()
        }
        super().__init__("aggregate", keys, wanted | expressions)

    def partial(self, batches: Iterable[Any], parts: int, order: int = 0) -> Any:
        """Give the states of rows, cut into parts by their keys, to be shuffled."""
        import numpy as np

        reader = self.reader(batches)
        if reader is None:
            return sent_table([])
        states = group_by(reader, list(self.keys)).partial(**self.expressions)
        part = _hashed([states[key] for key in self.keys]) % parts
        cut = ((own, states.take(np.flatnonzero(part == own))) for own in np.unique(part).tolist())
        return sent_table([(own, order, table) for own, table in cut])

    def finish(self, sent: Iterable[Any]) -> Any:
        """Merge what was shuffled of a part or some, and give a row of results for each group."""
        return merge_states(list(received(sent))).finish()


class GroupedRows:
    """Rows of an engine in groups: what every engine's ``GroupBy`` is made of."""

    #: The name of the engine's module in this package.
    _engine: ClassVar[str]
    #: Whether states are merged in the order of their rows.
    _is_ordered: ClassVar[bool] = False

    def __init__(self, rows: Any, keys: Any, partitions: int | None) -> None:
        self._rows, self._keys, self._partitions = rows, _key_names(keys), partitions

    def __repr__(self) -> str:
        return f"<raptors_arrow.{self._engine}.GroupBy: {', '.join(self._keys)}>"

    def _states(
        self, named: Iterable[tuple[str, str]] | None, expressions: dict[str, Expr]
    ) -> GroupStates:
        states = GroupStates(self._keys, named, expressions)
        ends = [name for name, e in states.expressions.items() if e.name in ("first", "last")]
        if ends and not self._is_ordered:
            raise RaptorsValueError(
                "aggregate: expected statistics that need no order of rows, got "
                f"{', '.join(ends)}: the shuffle of {self._engine} keeps none; take the "
                "min or max of a column that orders the rows, or use ra.group_by in one process"
            )
        return states


def _key_names(keys: Any) -> tuple[str, ...]:
    """Give the names of the columns that rows are grouped by."""
    names = (keys,) if isinstance(keys, str) else tuple(keys) if isinstance(keys, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise RaptorsTypeError(f"group_by: expected the names of columns as keys, got {keys!r}")
    return names


def _hashed(keys: list[Any]) -> Any:
    """Give a number for each row of keys, the same for equal ones in every process."""
    import numpy as np

    total = np.zeros(len(keys[0]), "u8")
    for key in keys:
        total = (total ^ _words(key)) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(32)
    return total.astype("i8") & np.int64(2**31 - 1)


def _words(key: Any) -> Any:
    """Give a word for each key: equal for NaN and NaN, for -0 and 0, and for nulls."""
    import numpy as np
    import pyarrow as pa

    type = unpacked(pa, key.type)
    key = key.cast(type)
    if pa.types.is_temporal(type):
        wide = type.bit_width == 64
        key = key.cast(pa.int64() if wide else pa.int32())
        type = key.type
    if pa.types.is_boolean(type) or pa.types.is_integer(type):
        signed = not pa.types.is_unsigned_integer(type)
        values = key.cast(pa.int64() if signed else pa.uint64()).fill_null(0).to_numpy()
        words = values.astype("u8") if signed else values
    elif pa.types.is_floating(type):
        values = key.cast(pa.float64()).fill_null(0).to_numpy() + 0.0
        words = np.where(np.isnan(values), np.float64("nan"), values).view("u8")
    else:
        words = np.array([crc32(repr(value).encode()) for value in key.to_pylist()], "u8")
    return np.where(np.asarray(key.is_null()), np.uint64(0x5BD1E995), words)
