"""The row-by-row functions of the table, as functions of columns that an engine can call.

In an engine every argument is a column: what is one value for all rows arrives as many times as
there are rows. So each function here takes columns alone, and gives the bits that it gives when it
is called with that one value.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from raptors_arrow import _native
from raptors_arrow.errors import RaptorsError, RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr, col, evaluate

__all__ = ["RowFunction", "called", "check_rows", "missing", "row_functions"]

#: What a parameter is: a column of vectors, or of one number for each row.
Kind = Literal["vectors", "number"]


class RowFunction(NamedTuple):
    """A function of columns, with one result for each row."""

    #: The name in an engine: ``raptors_norm_ord1_axis1``.
    name: str
    #: The same for functions that differ only in what their parameters are.
    overloaded: str
    #: The name in the table: ``norm``.
    function: str
    expr: Expr
    parameters: Mapping[str, Kind]
    #: Parameters that are options of the function: one value for all rows.
    options: tuple[str, ...] = ()

    def __call__(self, *columns: Any) -> Any:
        """Compute on columns, in the order of the parameters."""
        values = dict(zip(self.parameters, columns, strict=True))
        expr = self.expr
        if self.options:
            taken = {name: _one_value(self, name, values[name]) for name in self.options}
            expr = Expr(expr.name, expr.args, {**expr.options, **taken})
        try:
            return evaluate(expr, {}, values.__getitem__)
        except RaptorsError as error:
            # What is one value for all rows is computed by the function that takes one per row.
            own = str(error).removeprefix(f"{expr.name}: ")
            raise type(error)(f"{self.function}: {own}") from None

    def result_type(self, types: Mapping[str, Any]) -> Any:
        """Give the pyarrow type of the results, for the types of the parameters."""
        return self.expr.result_type(dict(types))


def row_functions() -> Iterator[RowFunction]:
    """Go through the functions of the table that make each result from one row.

    All but those whose second argument is a matrix, ``matmul`` and ``pairwise``: an engine would
    repeat it for every row. They are for expressions, which hold their matrix. ``where`` is left
    out too: an engine has a choice of its own. What goes by rows only if it is told so has that in
    its name, ``raptors_mean_axis1``: ``raptors_mean`` is the mean of a column, in engines that have
    aggregates.
    """
    known = set()
    for name in _native.list_functions():
        function = _native.get_function(name)
        by_row = {"axis": 1} if len(function.arguments) == 1 and "axis" in function.options else {}
        is_left_out = function.argument_kinds[1:] == ("matrix",) or function.driver == "where"
        if function.is_row_by_row(**by_row) and not is_left_out:
            made = [one for one in _variants(function, by_row) if one.name not in known]
            known |= {one.name for one in made}
            yield from made


def _variants(function: Any, options: dict[str, Any]) -> Iterator[RowFunction]:
    name = function.name
    kinds = function.option_kinds
    if function.argument_kinds[1:]:
        yield from _of_several(function)
        return
    bounds = tuple(option for option, kind in kinds.items() if kind == "bound")
    sets = [("", options)]
    if "type" in kinds.values():
        sets = [(f"_{type}", {"type": type}) for type in ("float32", "float64")]
    for option in [option for option, kind in kinds.items() if kind == "order"]:
        sets += [(f"_{option}{order}", {**options, option: order}) for order in (1, float("inf"))]
    along = "_axis1" if options and not function.is_row_by_row() else ""
    for suffix, chosen in sets:
        parameters: dict[str, Kind] = {"x": "vectors", **dict.fromkeys(bounds, "number")}
        made = f"raptors_{name}{suffix}{along}"
        yield RowFunction(made, made, name, Expr(name, (col("x"),), chosen), parameters, bounds)


#: Functions that take one value for all rows, and those that give the same bits with one per row.
_ONE_FOR_ALL = {"scale": "multiply", "broadcast_add": "add"}


def _of_several(function: Any) -> Iterator[RowFunction]:
    name, (first, *rest) = function.name, function.arguments
    expr = Expr(_ONE_FOR_ALL.get(name, name), tuple(map(col, function.arguments)), {})
    takes: dict[str, tuple[Kind, ...]] = {"operand": ("vectors", "number"), "number": ("number",)}
    kinds = takes.get(function.argument_kinds[1], ("vectors",))
    for kind in kinds:
        suffix = "_number" if kind == "number" and len(kinds) > 1 else ""
        parameters: dict[str, Kind] = {first: "vectors", **dict.fromkeys(rest, kind)}
        overloaded = f"raptors_{name}"
        yield RowFunction(overloaded + suffix, overloaded, name, expr, parameters)


def _one_value(function: RowFunction, name: str, column: Any) -> Any:
    """Take the value of a column that has one for all rows; ``None`` if it is null."""
    values = column.unique()
    if len(values) > 1:
        raise RaptorsValueError(
            f"{function.function}: expected one {name} for all rows, got {len(values)} in a batch"
        )
    return values[0].as_py() if len(values) else None


def check_rows(caller: str, name: str, expr: Any) -> None:
    """Refuse what is no expression, or one that needs more than a row for a row's value."""
    if not isinstance(expr, Expr):
        raise RaptorsTypeError(
            f"{caller}: expected an expression for {name}, got {type(expr).__name__}; begin one "
            'with ra.col("…")'
        )
    if not expr.columns or any(node.name == "lazy" for node in expr.walk()):
        raise RaptorsValueError(
            f"{caller}: expected an expression of columns for {name}, got {expr!r}; an engine "
            "splits rows, so data at hand has no rows beside them"
        )
    if not expr.is_rows:
        raise RaptorsValueError(
            f"{caller}: expected a value for each row for {name}, got {expr!r}, which reduces rows "
            "or needs all of them first; an engine computes batch by batch: reduce with ra.select, "
            "then apply what it gives, or pass axis=1"
        )


def called(name: str, expr: Expr, compute: Callable[[], Any]) -> Any:
    """Compute something of an expression; an error says which one, and so names its columns."""
    try:
        return compute()
    except RaptorsError as error:
        raise type(error)(f"{error} (in {name}={expr!r})") from None


def missing(module: str, packages: str, error: ImportError) -> ImportError:
    """Make the error for an engine that is not installed."""
    return ImportError(
        f'ra.{module} needs {packages}: pip install "raptors-arrow[{module}]"; {error}'
    )
