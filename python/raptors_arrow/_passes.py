"""The passes that expressions take over a stream.

What measures all rows before it scales one (`standardize`, `center`, `minmax_scale` and `normalize`
by columns), and what all rows are reduced to beside them (``x - x.mean(axis=0)``), takes a pass of
its own. A source that can be read again is; a reader is read once, so there it is refused.
"""

from collections.abc import Iterator
from typing import Any

from raptors_arrow import _native
from raptors_arrow._reading import Ahead
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, evaluate, evaluate_all
from raptors_arrow.sources import Source, empty_batch

__all__ = ["Fits", "accumulator", "check_operands", "is_rows_in_passes", "is_statistic", "update"]


def is_rows_in_passes(expr: Expr) -> bool:
    """Whether it gives a value for each row, once all rows were measured."""
    if expr.name in ("col", "lazy"):
        return True
    if expr.name in ("len", "first", "last"):
        return False
    operands = [arg for arg in expr.args if isinstance(arg, Expr)]
    own = _native.get_function(expr.name).is_row_by_row(**expr.options) or _is_fit(expr)
    # What all rows are reduced to is a number or a row beside the rows of another operand.
    return own and any(is_rows_in_passes(arg) for arg in operands)


def is_statistic(node: Expr) -> bool:
    """Whether it reduces rows, which its arguments do not."""
    if node.name in ("col", "lazy", "len") or is_rows_in_passes(node):
        return False
    return all(is_rows_in_passes(arg) for arg in node.args if isinstance(arg, Expr))


def accumulator(node: Expr) -> Any:
    """Make what reduces the rows of a stream."""
    try:
        return _native.Accumulator(node.name, **node.options)
    except RaptorsTypeError as error:
        raise RaptorsValueError(
            f"select: {node!r} needs all rows at once, which a stream has not: read it into a "
            "table first"
        ) from error


def _is_fit(node: Expr) -> bool:
    """Whether it scales rows by what it measured of all of them."""
    if node.name in ("col", "lazy", "len", "first", "last"):
        return False
    function = _native.get_function(node.name)
    return function.driver == "transform" and not function.is_row_by_row(**node.options)


def _measured(expr: Expr) -> Iterator[Expr]:
    """Go through what must be known of all rows before the rows of an expression are computed."""
    for node in expr.walk():
        if not is_rows_in_passes(node):
            continue
        if _is_fit(node):
            yield node
        for arg in node.args:
            if isinstance(arg, Expr) and not is_rows_in_passes(arg):
                yield from (n for n in arg.walk() if n.name == "len" or is_statistic(n))


class _Rows:
    """Counts rows, as an accumulator would."""

    def __init__(self) -> None:
        self._rows = 0

    def update(self, rows: Any) -> None:
        self._rows += rows

    def finish(self) -> int:
        return self._rows


class Fits:
    """What is measured of all rows before the last pass."""

    def __init__(self, function: str, source: Source, expressions: dict[str, Expr]) -> None:
        self._source = source
        every = (node for expr in expressions.values() for node in _measured(expr))
        self._nodes = list({id(node): node for node in every}.values())
        if self._nodes and not source.is_repeatable:
            raise RaptorsValueError(
                f"{function}: {self._nodes[0]!r} needs all rows before its first result, and a "
                "reader can be read once: fit first with select (its mean, its std), then apply "
                "what that gives, as in x.subtract(mean).divide(std); or pass a table, a dataset "
                "or paths, which can be read again"
            )
        self._fits: list[tuple[Expr, Any]] = []
        self._reduced: dict[int, Any] = {}

    def run(self) -> None:
        """Take the passes that measure: one, or more where what is measured was scaled before."""
        left = self._nodes
        while left:
            waiting = {id(node) for node in left}
            ready = [node for node in left if not _waits(node, waiting)]
            left = [node for node in left if _waits(node, waiting)]
            states = [(node, _state(node)) for node in ready]
            columns = list(dict.fromkeys(name for node in ready for name in node.columns))
            with Ahead(self._source.batches(columns)) as ahead:
                for batch in ahead:
                    if batch.num_rows > 0:  # lists of no rows do not say how wide the others are
                        update(states, batch, self.values(batch))
            none = empty_batch(self._source.schema)  # types, if no batch came
            update(states, none, self.values(none))
            self._fits += [(node, state) for node, state in states if _is_fit(node)]
            reduced = [(node, state) for node, state in states if not _is_fit(node)]
            self._reduced.update((id(node), state.finish()) for node, state in reduced)

    def values(self, rows: Any) -> dict[int, Any]:
        """Give the values of what was measured, for the rows of a batch."""
        known = dict(self._reduced)
        for node, fit in self._fits:
            names = rows.schema.names
            if all(name in names for name in node.columns):
                known[id(node)] = fit.apply(evaluate(node.args[0], known, rows.column))
        return known


def update(states: list[tuple[Expr, Any]], batch: Any, known: dict[int, Any]) -> None:
    """Give what measures the rows of a stream those of a batch, with their weights if any."""
    taken = [_taken(node) for node, _ in states]
    values = iter(evaluate_all([part for own in taken for part in own], known, batch.column))
    for (node, state), own in zip(states, taken, strict=True):
        if node.name == "len":
            state.update(batch.num_rows)
            continue
        x, *weights = [next(values) for _ in own]
        state.update(x, **dict(zip(("weights",), weights, strict=False)))


def _taken(node: Expr) -> tuple[Any, ...]:
    """Give what is taken of each batch: its rows, and their weights if they have any."""
    if node.name == "len":
        return ()
    positional = len(_native.get_function(node.name).arguments)
    return (node.args[0], *node.args[positional:])


def _state(node: Expr) -> Any:
    """Make what measures the rows of a stream."""
    if node.name == "len":
        return _Rows()
    return _native._Fit(node.name, **node.options) if _is_fit(node) else accumulator(node)


def _waits(node: Expr, waiting: set[int]) -> bool:
    """Whether there is something below it that must be measured first."""
    return any(below is not node and id(below) in waiting for below in node.walk())


def check_operands(expr: Expr) -> None:
    """Refuse data beside a stream that would be one value, or one vector, for each of its rows.

    It would be lined up with the rows of each batch anew.
    """
    for node in expr.walk():
        if node.name == "lazy":
            raise RaptorsValueError(
                f"{expr!r}: data at hand is no operand of a stream, whose rows it does not line up "
                "with; make it a column of the source"
            )
        if node.name in ("col", "len"):
            continue
        function = _native.get_function(node.name)
        kinds = [*function.argument_kinds, *("weights" for _ in function.by_name)]
        for arg, kind in zip(node.args, kinds, strict=False):
            if isinstance(arg, Expr) or kind not in ("operand", "vectors", "weights"):
                continue
            axis = node.options.get("axis")
            if kind == "weights" and axis != 1:
                axis = 0
            if not _is_for_all_rows(arg, axis):
                raise RaptorsValueError(
                    f"{node.name}: expected a number or one row, which all rows of a stream take, "
                    f"got {_shape(arg)}, which lines up with rows; make it a column of the source"
                )


def _is_for_all_rows(arg: Any, axis: Any) -> bool:
    if isinstance(arg, int | float):
        return True
    is_vector, rows = _rows_of(arg)
    return axis != 0 if is_vector else rows == 1


def _rows_of(arg: Any) -> tuple[bool, int]:
    """Say whether data is one vector, and how many rows it has."""
    if isinstance(arg, list | tuple):
        return not any(isinstance(item, list | tuple) for item in arg), len(arg)
    dimensions = getattr(arg, "ndim", None)
    if dimensions == 0 or hasattr(arg, "as_py"):
        return True, 1
    matrix = _native.as_matrix(arg)
    is_list = bool(getattr(getattr(arg, "type", None), "num_fields", 0))
    return dimensions == 1 or (matrix.width == 1 and not is_list), matrix.rows


def _shape(arg: Any) -> str:
    is_vector, rows = _rows_of(arg)
    return f"{rows} values, one for each row" if is_vector else f"a matrix of {rows} rows"
