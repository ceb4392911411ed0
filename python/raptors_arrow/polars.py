"""The namespace ``raptors`` on polars expressions and series.

It is there as soon as both packages are imported; ``import raptors_arrow.polars`` makes sure.

>>> import polars as pl
>>> import raptors_arrow
>>> frame = pl.DataFrame(
...     {"k": ["a", "a", "b"], "emb": [[1.0, 2.0], [3.0, 6.0], [5.0, 5.0]]},
...     schema_overrides={"emb": pl.Array(pl.Float32, 2)},
... )
>>> frame.select(pl.col("emb").raptors.mean(axis=1))["emb"].to_list()
[1.5, 4.5, 5.0]
>>> means = frame.group_by("k", maintain_order=True).agg(pl.col("emb").raptors.mean(axis=0))
>>> means["emb"].to_list()
[[2.0, 4.0], [5.0, 5.0]]

In an expression, one result per column (``axis=0``) is one value of the column's own type, so that
it can be grouped, broadcast and joined; a series gives that value, a series of one number per
column.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import Parameter, Signature, signature
from typing import Any, Literal

from raptors_arrow import _native

try:
    import polars as pl
except ImportError as error:
    raise ImportError(
        'raptors_arrow.polars needs polars: pip install "raptors-arrow[polars]"'
    ) from error

__all__ = ["ExprNamespace", "SeriesNamespace"]

_Gives = Literal["matrix", "rows", "columns", "number"]


class ExprNamespace:
    """The functions as methods of an expression."""

    def __init__(self, expr: pl.Expr) -> None:
        self._expr = expr


class SeriesNamespace:
    """The functions as methods of a series."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series


@cache
def _gives(name: str, axis: int | None) -> _Gives:
    """Ask a function what it gives for 3 rows of 2."""
    x = pl.Series([[1.0, 1.0]] * 3, dtype=pl.Array(pl.Float64, 2))
    seconds = {"matrix": x, "operand": 1.0, "number": 1.0, "row": pl.Series([1.0, 1.0])}
    function = _native.get_function(name)
    options = {"axis": axis} if "axis" in function.options else {}
    kinds = function.argument_kinds[1:]
    result = function(x, *(seconds[kind] for kind in kinds), **options)
    if not isinstance(result, pl.Series):
        return "number"
    if result.dtype == x.dtype:
        return "matrix"
    return "rows" if len(result) == 3 else "columns"


def _compute(
    series: Sequence[pl.Series],
    name: str,
    gives: _Gives,
    args: tuple[Any, ...],
    options: Any,
    return_dtype: Any = None,  # which polars passes, and the function knows anyway
) -> pl.Series:
    x, *columns = series
    given = [columns.pop(0) if isinstance(arg, pl.Expr) else arg for arg in args]
    result = _native.get_function(name)(x, *given, **options)
    if gives == "number":
        return pl.Series(x.name, [result], dtype=_element(x.dtype))
    if gives == "columns" and isinstance(x.dtype, pl.Array):
        return result.reshape((1, *x.dtype.shape)).cast(x.dtype)
    if gives == "columns" and isinstance(x.dtype, pl.List):
        return result.implode()
    return result


def _element(dtype: Any) -> Any:
    while isinstance(dtype, pl.Array | pl.List):
        dtype = dtype.inner
    return dtype


def _on_expr(self: ExprNamespace, name: str, args: tuple[Any, ...], options: Any) -> pl.Expr:
    gives = _gives(name, options.get("axis"))
    operands = [arg for arg in args if isinstance(arg, pl.Expr)]
    dtype = pl.dtype_of(self._expr)
    # A 1-D operand without axis=0 is a row for all rows: then the batches must not be split.
    by_row = not operands or options.get("axis") == 0
    return pl.map_batches(
        [self._expr, *operands],
        partial(_compute, name=name, gives=gives, args=args, options=options),
        return_dtype=dtype if gives in ("matrix", "columns") else dtype.inner_dtype(),
        is_elementwise=gives in ("matrix", "rows") and by_row,
        returns_scalar=gives in ("columns", "number"),
    )


def _on_series(self: SeriesNamespace, name: str, args: tuple[Any, ...], options: Any) -> Any:
    return _native.get_function(name)(self._series, *args, **options)


def _method(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Make the method for a function: its signature without ``x``, which is the column."""
    function = _native.get_function(name)
    parameters = list(signature(getattr(_native, name)).parameters.values())[1:]
    own = Signature([p for p in parameters if p.name != "width"])
    places = function.arguments[1:]

    def method(self: Any, *args: Any, **options: Any) -> Any:
        bound = own.bind(*args, **options)
        given = tuple(bound.arguments.pop(place) for place in places)
        return run(self, name, given, bound.arguments)

    method.__name__ = name
    method.__qualname__ = f"raptors.{name}"
    method.__doc__ = function.summary
    self_parameter = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[self_parameter, *own.parameters.values()]
    )
    return method


def _register() -> None:
    for name in _native.list_functions():
        setattr(ExprNamespace, name, _method(name, _on_expr))
        setattr(SeriesNamespace, name, _method(name, _on_series))
    if not hasattr(pl.Expr, "raptors"):
        pl.api.register_expr_namespace("raptors")(ExprNamespace)
        pl.api.register_series_namespace("raptors")(SeriesNamespace)


_register()
