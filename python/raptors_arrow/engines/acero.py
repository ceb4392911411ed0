"""Expressions of ours as expressions of pyarrow, for datasets and Acero.

A whole expression is one registered function of its columns, so a scan calls Python once per batch
whatever its length. pyarrow never forgets a function, so numbers and arrays that an expression
holds are arguments: a query that changes with each request registers nothing new.
"""

from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raptors_arrow import _native
from raptors_arrow.engines._rows import called, check_rows
from raptors_arrow.expr import Expr, evaluate

__all__ = ["as_expression"]

_lock = Lock()
_registered: set[str] = set()


def as_expression(expr: Expr, schema: Any) -> Any:
    """Give the ``pyarrow.compute.Expression`` for a source of a schema."""
    check_rows("expression", "it", expr)
    result = called("it", expr, lambda: expr.result_type(schema))
    constants: list[Any] = []
    form = _without_constants(expr, constants)
    types = {name: schema.field(name).type for name in expr.columns}
    types |= {f"constant{i}": scalar.type for i, scalar in enumerate(constants)}
    name = f"raptors {form!r} of {', '.join(map(str, types.values()))}"
    with _lock:
        if name not in _registered:
            doc = {"summary": repr(form), "description": "An expression of raptors-arrow."}
            call = _Form(form, tuple(expr.columns), result)
            pc.register_scalar_function(call, name, doc, types, result)
            _registered.add(name)
    fields = [pc.field(column) for column in expr.columns]
    return pc.Expression._call(name, [*fields, *map(pc.scalar, constants)])


def _without_constants(node: Any, constants: list[Any]) -> Any:
    """Give an expression with places for what it holds, and put that into ``constants``."""
    if not isinstance(node, Expr):
        constants.append(_scalar(node))
        return Expr("constant", (len(constants) - 1,), {})
    if node.name == "col":
        return node
    args = tuple(_without_constants(arg, constants) for arg in node.args)
    return Expr(node.name, args, node.options)


def _with_constants(node: Expr, constants: list[Any]) -> Any:
    if node.name == "constant":
        return constants[node.args[0]]
    if node.name == "col":
        return node
    args = tuple(_with_constants(arg, constants) for arg in node.args)
    return Expr(node.name, args, node.options)


def _scalar(value: Any) -> Any:
    """Hold a number, a vector or a matrix as a scalar of pyarrow's: arrays as a list of one."""
    if isinstance(value, int | float | pa.Scalar):
        return pa.scalar(value) if isinstance(value, int | float) else value
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if not isinstance(value, pa.Array):
        is_vector = getattr(value, "ndim", 2) == 1 and hasattr(value, "dtype")
        value = pa.array(value if is_vector else _native.as_matrix(value))
    return pa.ListArray.from_arrays(pa.array([0, len(value)], pa.int32()), value)[0]


def _held(scalar: Any) -> Any:
    return scalar.values if isinstance(scalar, pa.ListScalar) else scalar.as_py()


class _Form:
    """A registered function: a context, columns, then constants."""

    def __init__(self, form: Expr, columns: tuple[str, ...], result: Any) -> None:
        self.form, self.columns, self.result = form, columns, result

    def __call__(self, context: Any, *args: Any) -> Any:
        count = len(self.columns)
        columns, constants = args[:count], [_held(scalar) for scalar in args[count:]]
        # A column that is the same for all rows of a file may come as one value.
        is_one = all(isinstance(column, pa.Scalar) for column in columns)
        rows = 1 if is_one else context.batch_length
        values = {
            name: pa.repeat(column, rows) if isinstance(column, pa.Scalar) else column
            for name, column in zip(self.columns, columns, strict=True)
        }
        expr = _with_constants(self.form, constants)
        made = called("it", expr, lambda: evaluate(expr, {}, values.__getitem__))
        made = made if made.type.equals(self.result) else made.cast(self.result)
        return made[0] if is_one else made
