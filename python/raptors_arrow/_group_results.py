"""The results of groups while the rows, or the states of others, come."""

import json
from collections.abc import Sequence
from typing import Any, Protocol

from raptors_arrow import _native
from raptors_arrow._types import result_type
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, col

#: What can be asked of a group.
STATISTICS = ("sum", "mean", "min", "max", "count", "var", "std", "norm")
_ENDS = ("first", "last")

#: The layout of states; that of statistics is written by the native module.
_VERSION = 1


class Result(Protocol):
    """One result of each group."""

    #: What is reduced; None where rows are only counted.
    x: Expr | None
    #: What its rows count for; None if all count the same.
    weights: Expr | None
    columns: Sequence[str]

    def reduce(self, x: Any, members: Any, weights: Any = None) -> Any:
        """Give the results of rows that are all there are."""

    def update(self, x: Any, members: Any, weights: Any = None) -> None:
        """Take the rows of a batch."""

    def merge(self, states: Any, members: Any) -> None:
        """Take states, each of the group of its row."""

    def finish(self, groups: int) -> Any:
        """Give the results of so many groups."""

    def state(self, groups: int) -> Any:
        """Give the states of so many groups."""


def expression_of(function: str, column: str, how: str) -> Expr:
    """Give what pyarrow writes as a pair of a column and a statistic."""
    if how in _ENDS:
        return Expr(how, (col(column),), {})
    if how not in STATISTICS:
        raise RaptorsValueError(
            f"{function}: expected one of {', '.join(STATISTICS + _ENDS)} for {column}, got {how!r}"
        )
    return Expr(how, (col(column),), {"axis": 0})


def result_of(function: str, schema: Any, name: str, expr: Any, is_partial: bool) -> Result:
    """Begin the result that an expression asks for."""
    if not isinstance(expr, Expr):
        raise RaptorsTypeError(
            f"{function}: expected an expression for {name}, got {type(expr).__name__}"
        )
    if expr.name == "len":
        counted = result_type(expr, schema)
        return _Statistic(None, None, (), "count", {}, is_partial, counted, "number")
    x = expr.args[0] if expr.args else None
    if expr.name not in STATISTICS + _ENDS or not isinstance(x, Expr) or not x.is_rows:
        raise RaptorsValueError(
            f"{function}: expected {name} to end in one of {', '.join(STATISTICS + _ENDS)}, of "
            f"values of each row, got {expr!r}"
        )
    type_of_x = result_type(x, schema)
    if expr.name in _ENDS:
        skip_nulls = expr.options.get("skip_nulls", True)
        return _End(x, expr.columns, expr.name == "last", skip_nulls, type_of_x)
    is_plain = not getattr(type_of_x, "num_fields", 0)
    axis = expr.options.get("axis")
    if axis == 1 or (axis is None and not is_plain):
        raise RaptorsValueError(
            f"{function}: expected axis=0, one result for each column of a group, got "
            f"axis={axis} in {expr!r}"
        )
    options = {key: value for key, value in expr.options.items() if key != "axis"}
    made = result_type(expr, schema)
    shape = "number" if is_plain else str(made).partition("<")[0]
    made = made if shape != "number" or not getattr(made, "num_fields", 0) else made.value_type
    weights = expr.args[1] if len(expr.args) > 1 else None
    if weights is not None and not (isinstance(weights, Expr) and weights.is_rows):
        raise RaptorsValueError(
            f"{function}: expected weights of {name} to be a column, or made of columns, got "
            f"{expr!r}"
        )
    return _Statistic(x, weights, expr.columns, expr.name, options, is_partial, made, shape)


def result_of_states(name: str, states: Any) -> Result:
    """Begin the result of states that were given."""
    states = _one_array(states)
    text = states.field("of")[0].as_py()
    try:
        statistic = json.loads(text)["statistic"]
    except (TypeError, ValueError, KeyError):
        raise RaptorsTypeError(
            f"merge_states: expected {name} to say what it is of, got {text!r}"
        ) from None
    if statistic in _ENDS:
        version = states.field("version")[0].as_py()
        if not 1 <= version <= _VERSION:
            raise RaptorsValueError(
                f"merge_states: expected a state of version {_VERSION} or older, got version "
                f"{version}; a newer raptors-arrow made it: update this one"
            )
        return _End(None, (), statistic == "last", True, states.field("value").type)
    shape = states.field("result")[0].as_py()
    native = _native._GroupStatistic.of_states(states)
    return _Statistic(None, None, (), statistic, {}, True, None, shape, native)


def state_columns(schema: Any) -> tuple[list[str], list[str]]:
    """Give the columns of a table of states that are keys, and those that are states."""
    import pyarrow as pa

    def is_state(type: Any) -> bool:
        if not pa.types.is_struct(type):
            return False
        return {"version", "of"} <= {type.field(i).name for i in range(type.num_fields)}

    states = [field.name for field in schema if is_state(field.type)]
    keys = [field.name for field in schema if not is_state(field.type)]
    if not states or not keys:
        raise RaptorsTypeError(
            "merge_states: expected tables of keys and states, as GroupBy.partial gives them, got "
            f"columns {', '.join(schema.names)}"
        )
    return keys, states


def key_columns(groups: Any, keys: dict[str, Any]) -> dict[str, Any]:
    """Give the keys of all groups, of the types that they had; dictionaries as their values."""
    import pyarrow as pa

    types = {
        name: type.value_type if pa.types.is_dictionary(type) else type
        for name, type in keys.items()
    }
    arrays = [pa.Array._import_from_c_capsule(*key) for key in groups.keys()]
    if not arrays:
        arrays = [pa.array([], type) for type in types.values()]
    pairs = zip(types.items(), arrays, strict=True)
    return {name: array.cast(type) for (name, type), array in pairs}


def plain_keys(keys: Any) -> Any:
    """Give a column's keys as one array."""
    return keys.combine_chunks() if hasattr(keys, "combine_chunks") else keys


def _one_array(column: Any) -> Any:
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class _Statistic:
    """A statistic of the table."""

    def __init__(
        self,
        x: Expr | None,
        weights: Expr | None,
        columns: Sequence[str],
        name: str,
        options: dict[str, Any],
        is_partial: bool,
        type: Any,
        shape: str,
        native: Any = None,
    ) -> None:
        self.x, self.weights, self.columns = x, weights, columns
        self._type, self._shape = type, shape
        self._native = native or _native._GroupStatistic(name, is_partial, **options)

    def _rows(self, x: Any) -> Any:
        """Give the values: to count rows is to count what no row lacks."""
        import pyarrow as pa

        return pa.repeat(pa.scalar(0, pa.int8()), x) if self.x is None else x

    def reduce(self, x: Any, members: Any, weights: Any = None) -> Any:
        return self._shaped(self._native.reduce(self._rows(x), members, weights))

    def update(self, x: Any, members: Any, weights: Any = None) -> None:
        self._native.update(self._rows(x), members, weights)

    def merge(self, states: Any, members: Any) -> None:
        self._native.merge(_one_array(states), members)

    def finish(self, groups: int) -> Any:
        return self._shaped(self._native.finish(groups))

    def _shaped(self, matrix: Any) -> Any:
        """Give results in the type that they are expected in."""
        import pyarrow as pa

        made = pa.array(matrix)
        if self._shape == "number":
            return made.flatten()
        if self._type is not None:
            return made if made.type.equals(self._type) else made.cast(self._type)
        number = made.type.value_type
        lists = {"list": pa.list_, "large_list": pa.large_list}.get(self._shape)
        return made.cast(lists(number)) if lists else made

    def state(self, groups: int) -> Any:
        import pyarrow as pa

        states = pa.Array._import_from_c_capsule(*self._native.state(groups))
        shape = pa.DictionaryArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int8()), groups), pa.array([self._shape])
        )
        fields = [states.type.field(i) for i in range(states.type.num_fields)]
        fields.append(pa.field("result", shape.type, nullable=False))
        return pa.StructArray.from_arrays([*states.flatten(), shape], fields=fields)


class _End:
    """The first or the last row of each group."""

    def __init__(
        self, x: Expr | None, columns: Sequence[str], last: bool, skip_nulls: bool, type: Any
    ) -> None:
        self.weights: Expr | None = None
        self.x, self.columns = x, columns
        self._last, self._skip_nulls, self._type = last, skip_nulls, type
        #: Which of the rows that are kept each group has.
        self._at: dict[int, int] = {}
        self._kept: list[Any] = []
        self._rows = 0

    def _take(self, values: Any, members: Any) -> None:
        import pyarrow as pa

        valid = None
        if self._skip_nulls and values.null_count > 0:
            valid = values.is_valid().to_pylist()
        ids, rows = members.ends(self._last, valid)
        if not self._last:
            fresh = [(i, row) for i, row in zip(ids, rows, strict=True) if i not in self._at]
            ids, rows = [i for i, _ in fresh], [row for _, row in fresh]
        self._at.update(zip(ids, range(self._rows, self._rows + len(ids)), strict=True))
        taken = values.take(pa.array(rows, pa.int64()))
        self._kept.extend(taken.chunks if isinstance(taken, pa.ChunkedArray) else [taken])
        self._rows += len(ids)
        if self._rows > 2 * len(self._at) + 4096:  # rows that others have taken the place of
            kept = self._column().take(pa.array(list(self._at.values()), pa.int64()))
            self._kept = kept.chunks
            self._at = {i: row for row, i in enumerate(self._at)}
            self._rows = len(self._at)

    def _column(self) -> Any:
        import pyarrow as pa

        return pa.chunked_array(self._kept, self._type)

    def update(self, x: Any, members: Any, weights: Any = None) -> None:
        self._take(x, members)

    def merge(self, states: Any, members: Any) -> None:
        self._take(_one_array(states).field("value"), members)

    def reduce(self, x: Any, members: Any, weights: Any = None) -> Any:
        self._take(x, members)
        return self.finish(members.seen)

    def finish(self, groups: int) -> Any:
        import pyarrow as pa

        at = pa.array([self._at.get(i) for i in range(groups)], pa.int64())
        return self._column().take(at)

    def state(self, groups: int) -> Any:
        import pyarrow as pa

        of = json.dumps({"statistic": "last" if self._last else "first"})
        index = pa.repeat(pa.scalar(0, pa.int8()), groups)
        value = self.finish(groups).combine_chunks()
        value = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
        return pa.StructArray.from_arrays(
            [
                pa.repeat(pa.scalar(_VERSION, pa.int32()), groups),
                pa.DictionaryArray.from_arrays(index, pa.array([of])),
                value,
            ],
            names=["version", "of", "value"],
        )
