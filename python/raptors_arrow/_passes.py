"""The passes that expressions take over a stream.

What measures all rows before it scales one (`standardize`, `center`, `minmax_scale` and `normalize`
by columns) takes a pass of its own. A source that can be read again is; a reader is read once, so
there it is refused.
"""

from typing import Any

from raptors_arrow import _native
from raptors_arrow._reading import Ahead
from raptors_arrow.errors import RaptorsValueError
from raptors_arrow.expr import Expr, evaluate, evaluate_all
from raptors_arrow.sources import Source, empty_batch

__all__ = ["Fits", "check_operands", "is_rows_in_passes"]


def is_rows_in_passes(expr: Expr) -> bool:
    """Whether it gives a value for each row, once all rows were measured."""
    if expr.is_rows:
        return True
    if expr.name in ("col", "lazy", "len"):
        return False
    operands = [arg for arg in expr.args if isinstance(arg, Expr)]
    own = _native.get_function(expr.name).is_row_by_row(**expr.options) or _is_fit(expr)
    return own and all(is_rows_in_passes(arg) for arg in operands)


def _is_fit(node: Expr) -> bool:
    """Whether it scales rows by what it measured of all of them."""
    if node.name in ("col", "lazy", "len"):
        return False
    function = _native.get_function(node.name)
    return function.driver == "transform" and not function.is_row_by_row(**node.options)


class Fits:
    """What is measured of all rows before the last pass."""

    def __init__(self, function: str, source: Source, expressions: dict[str, Expr]) -> None:
        self._source = source
        every = (node for expr in expressions.values() for node in expr.walk())
        self._nodes = list({id(node): node for node in every if _is_fit(node)}.values())
        if self._nodes and not source.is_repeatable:
            raise RaptorsValueError(
                f"{function}: {self._nodes[0]!r} needs all rows before its first result, and a "
                "reader can be read once: fit first with select (its mean, its std), then apply "
                "what that gives, as in x.subtract(mean).divide(std); or pass a table, a dataset "
                "or paths, which can be read again"
            )
        self._done: list[tuple[Expr, Any]] = []

    def run(self) -> None:
        """Take the passes that measure: one, or more where what is measured was scaled before."""
        while len(self._done) < len(self._nodes):
            done = {id(node) for node, _ in self._done}
            ready = [node for node in self._nodes if id(node) not in done]
            ready = [node for node in ready if not _waits(node, done)]
            fits = [(node, _native._Fit(node.name, **node.options)) for node in ready]
            columns = list(dict.fromkeys(name for node in ready for name in node.columns))
            with Ahead(self._source.batches(columns)) as ahead:
                for batch in ahead:
                    if batch.num_rows > 0:  # lists of no rows do not say how wide the others are
                        self._update(fits, batch)
            self._update(fits, empty_batch(self._source.schema))  # types, if no batch came
            self._done += fits

    def _update(self, fits: list[tuple[Expr, Any]], batch: Any) -> None:
        inputs = [node.args[0] for node, _ in fits]
        values = evaluate_all(inputs, self.values(batch), batch.column)
        for (_, fit), rows in zip(fits, values, strict=True):
            fit.update(rows)

    def values(self, rows: Any) -> dict[int, Any]:
        """Give the values of what was fitted, for the rows of a batch."""
        known: dict[int, Any] = {}
        for node, fit in self._done:
            names = rows.schema.names
            if all(name in names for name in node.columns):
                known[id(node)] = fit.apply(evaluate(node.args[0], known, rows.column))
        return known


def _waits(node: Expr, done: set[int]) -> bool:
    """Whether there is something below it that must be fitted first."""
    return any(n is not node and _is_fit(n) and id(n) not in done for n in node.walk())


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
        kinds = _native.get_function(node.name).argument_kinds
        for arg, kind in zip(node.args, kinds, strict=False):
            if isinstance(arg, Expr) or kind not in ("operand", "vectors"):
                continue
            if not _is_for_all_rows(arg, node.options.get("axis")):
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
