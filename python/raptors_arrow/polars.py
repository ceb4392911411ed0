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

In an expression, one result per column (``axis=0``) is one value of the column's own shape, so that
it can be grouped, broadcast and joined; a series gives that value, a series of one number per
column. Functions whose results are no column, such as ``top_k`` and ``covariance``, are methods of
series only.
"""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter, Signature, signature
from math import prod
from typing import Any, Literal

from raptors_arrow import _native
from raptors_arrow.errors import RaptorsTypeError

try:
    import polars as pl
except ImportError as error:
    raise ImportError(
        'raptors_arrow.polars needs polars: pip install "raptors-arrow[polars]"'
    ) from error

__all__ = ["ExprNamespace", "SeriesNamespace"]

_Gives = Literal["rows", "columns", "number"]


class ExprNamespace:
    """The functions as methods of an expression."""

    def __init__(self, expr: pl.Expr) -> None:
        self._expr = expr


class SeriesNamespace:
    """The functions as methods of a series."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series


def _gives(function: _native.Function, args: tuple[Any, ...], options: Any) -> _Gives:
    """Say what an expression gives: a value per row, one for all columns, or one number."""
    if function.gives == "reduced":
        fixed = 1 if function.name.endswith("_axis1") else 0
        axis = options.get("axis", function.options.get("axis", fixed))
        return "number" if axis is None else "columns" if axis == 0 else "rows"
    # A product of a column with itself is as wide as the column is long.
    if function.gives in ("rows", "numbers") and not (_is_product(function) and not args):
        return "rows"
    raise RaptorsTypeError(
        f"{function.name}: expected a series, got an expression, which has to give one value for "
        f'each row or one in all; call it on the column: frame["emb"].raptors.{function.name}(...)'
    )


def _is_product(function: _native.Function) -> bool:
    """Whether rows of the result are as wide as the second argument says."""
    return function.argument_kinds[1:] == ("matrix",)


def _is_by_row(
    function: _native.Function, dtypes: Sequence[Any], args: tuple[Any, ...], options: Any
) -> bool:
    """Whether each row of the result needs but its own row: then polars may split the column."""
    if len(function.arguments) == 1:
        # A transform of whole columns has them in view; a reduction is by row if it is here.
        return function.gives != "rows" or options.get("axis", function.options.get("axis", 1)) == 1
    # A column of numbers is one vector for all rows, unless axis=0 says one value per row.
    axis = options.get("axis")
    in_rows = axis == 0 or all(dtype.is_nested() for dtype in dtypes)
    values = (arg for arg in args if not isinstance(arg, pl.Expr))
    return in_rows and all(_is_product(function) or _is_for_all(v, axis) for v in values)


def _is_for_all(value: Any, axis: int | None) -> bool:
    """Whether a value is the same for all rows: not if in doubt, which costs but time."""
    if isinstance(value, pl.Series):
        return axis != 0 and not value.dtype.is_nested()
    dimensions = getattr(value, "ndim", 0 if isinstance(value, int | float) else 2)
    return dimensions == 0 or (dimensions == 1 and axis != 0)


def _element(dtype: Any) -> Any:
    while isinstance(dtype, pl.Array | pl.List):
        dtype = dtype.inner
    return dtype


def _shaped(dtype: Any, element: Any) -> Any:
    """Give the type with other elements."""
    if isinstance(dtype, pl.Array):
        return pl.Array(element, dtype.shape)
    return pl.List(element) if isinstance(dtype, pl.List) else element


def _dtype(
    function: _native.Function, gives: _Gives, dtype: Any, args: tuple[Any, ...], options: Any
) -> Any:
    """Ask the function what it gives for a few rows of a type: nulls, which nothing refuses."""
    element = _element(dtype)
    if isinstance(dtype, pl.List) and _is_product(function):
        raise RaptorsTypeError(
            f"{function.name}: expected a column of arrays, whose width a plan knows, got {dtype}; "
            "cast it to pl.Array first"
        )
    shape = dtype.shape if isinstance(dtype, pl.Array) else (2,) if dtype.is_nested() else ()
    nulls = pl.Series([None] * 3 * prod(shape), dtype=element)
    row = nulls.head(prod(shape))
    samples = {"number": 1, "operand": 1, "row": row, "vectors": row}
    if gives != "rows":
        options = {**options, "axis": 0} if "axis" in function.options else options
    x = nulls.reshape((3, *shape)) if shape else nulls
    if isinstance(dtype, pl.List):
        x = x.arr.to_list()
    kinds = function.argument_kinds[1:]
    given = args if _is_product(function) else [samples[kind] for kind in kinds]
    result = function(x, *given, **options)
    return result.dtype if gives != "columns" else _shaped(dtype, result.dtype)


def _compute(
    series: Sequence[pl.Series],
    name: str,
    gives: _Gives,
    args: tuple[Any, ...],
    options: Any,
    dtype: Any = None,
    return_dtype: Any = None,  # which polars passes, and the function knows anyway
) -> pl.Series:
    x, *columns = series
    given = [columns.pop(0) if isinstance(arg, pl.Expr) else arg for arg in args]
    function = _native.get_function(name)
    result = function(x, *given, **options)
    if gives == "number":
        dtype = _dtype(function, gives, x.dtype, args, options) if dtype is None else dtype
        return pl.Series(x.name, [result], dtype=dtype)
    if gives == "columns" and isinstance(x.dtype, pl.Array):
        return result.reshape((1, *x.dtype.shape))
    if gives == "columns" and isinstance(x.dtype, pl.List):
        return result.implode()
    return result


def _on_expr(self: ExprNamespace, name: str, args: tuple[Any, ...], options: Any) -> pl.Expr:
    function = _native.get_function(name)
    gives = _gives(function, args, options)
    run = partial(_compute, name=name, gives=gives, args=args, options=options)
    operands = [arg for arg in args if isinstance(arg, pl.Expr)]
    if operands and _is_product(function):
        raise RaptorsTypeError(
            f"{name}: expected a series or an array for {function.arguments[1]}, got an expression"
        )

    def planned(inputs: Sequence[tuple[pl.Expr, Any]]) -> pl.Expr:
        own, *others = (dtype for _, dtype in inputs)
        dtype = _dtype(function, gives, own, args, options)
        return pl.map_batches(
            [expr for expr, _ in inputs],
            partial(run, dtype=dtype),
            return_dtype=dtype,
            is_elementwise=gives == "rows" and _is_by_row(function, others, args, options),
            returns_scalar=gives != "rows",
        )

    if hasattr(pl, "pipe_with_dtype"):
        return pl.pipe_with_dtype([self._expr, *operands], planned)
    # Before polars 2.1 a plan knows no types: polars calls the function on a few rows of its own.
    return pl.map_batches(
        [self._expr, *operands],
        run,
        is_elementwise=gives == "rows" and not operands and _is_by_row(function, [], args, options),
        returns_scalar=gives != "rows",
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
        bound = own.bind(*args, **options).arguments
        given = tuple(bound.pop(place) for place in places if bound.get(place) is not None)
        return run(self, name, given, bound)

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
