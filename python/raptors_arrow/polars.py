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

The second operand of arithmetic, if it is a plain column or series of numbers, is one value per
row, whatever the engine and however the rows are split; what is one value in all is a number. One
value per column is a NumPy or pyarrow array, a literal, a list, or a series with ``axis=1``.

>>> frame.select(pl.col("emb").raptors.multiply(pl.Series([1.0, 10.0, 100.0])))["emb"].to_list()
[[1.0, 2.0], [30.0, 60.0], [500.0, 500.0]]
"""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter, Signature, signature
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from raptors_arrow import _native
from raptors_arrow._frames import FrameNamespace
from raptors_arrow._types import refused
from raptors_arrow.errors import RaptorsOverflowError, RaptorsTypeError, RaptorsValueError
from raptors_arrow.shape import pad, truncate

try:
    import polars as pl
    from polars.plugins import register_plugin_function
except ImportError as error:
    raise ImportError(
        'raptors_arrow.polars needs polars: pip install "raptors-arrow[polars]"'
    ) from error

__all__ = ["ExprNamespace", "FrameNamespace", "SeriesNamespace", "col"]

_Gives = Literal["rows", "columns", "number"]


if TYPE_CHECKING:
    # With every function as a method; written from the registry.
    from raptors_arrow._namespaces import Expr, ExprNamespace, SeriesNamespace
else:

    class ExprNamespace:
        """The functions as methods of an expression.

        Examples
        --------
        >>> import polars as pl
        >>> from raptors_arrow.polars import ExprNamespace
        >>> frame = pl.DataFrame({"emb": pl.Series([[3.0, 4.0]], dtype=pl.Array(pl.Float32, 2))})
        >>> frame.select(ExprNamespace(pl.col("emb")).norm(axis=1))["emb"].to_list()
        [5.0]
        """

        def __init__(self, expr: pl.Expr) -> None:
            self._expr = expr

    class SeriesNamespace:
        """The functions as methods of a series.

        Examples
        --------
        >>> import polars as pl
        >>> from raptors_arrow.polars import SeriesNamespace
        >>> emb = pl.Series([[3.0, 4.0]], dtype=pl.Array(pl.Float32, 2))
        >>> SeriesNamespace(emb).norm(axis=1).to_list()
        [5.0]
        """

        def __init__(self, series: pl.Series) -> None:
            self._series = series


def col(name: Any, *more: Any) -> "Expr":
    """Give ``pl.col(name, *more)``, typed so that editors know its ``raptors``.

    polars' own stubs know no namespaces but polars' own.

    Parameters
    ----------
    name, *more
        As ``polars.col`` takes them.

    Returns
    -------
    polars.Expr
        The columns.

    Examples
    --------
    >>> import polars as pl
    >>> from raptors_arrow.polars import col
    >>> frame = pl.DataFrame({"emb": pl.Series([[3.0, 4.0]], dtype=pl.Array(pl.Float32, 2))})
    >>> frame.select(col("emb").raptors.norm(axis=1))["emb"].to_list()
    [5.0]
    """
    return cast("Expr", pl.col(name, *more))


def _gives(function: _native.Function, args: tuple[Any, ...], options: Any) -> _Gives:
    """Say what an expression gives: a value per row, one for all columns, or one number."""
    if function.gives == "reduced":
        axis = options.get("axis", function.options.get("axis", function.axis))
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
    return function.driver == "product"


class _Vector(NamedTuple):
    """A literal of several numbers: one value per column."""

    series: pl.Series


def _unwrapped(arg: Any) -> Any:
    """Give the number or the vector that a literal or a list is, and anything else as it is."""
    if isinstance(arg, list | tuple) and arg and all(type(n) in (int, float) for n in arg):
        return _Vector(pl.Series(arg, strict=False))
    if not (isinstance(arg, pl.Expr) and arg.meta.is_literal()):
        return arg
    series = pl.select(arg).to_series()
    if len(series) == 1 and series.null_count() == 0 and isinstance(series.dtype, pl.List):
        series = series.explode()
    if series.dtype.is_nested() or series.null_count() == len(series):
        return arg
    return series.item() if len(series) == 1 else _Vector(series)


def _check_column(function: _native.Function, own: Any, other: Any, options: Any) -> None:
    """Refuse a column of type ``other`` that can be no second argument beside ``own``."""
    name, argument, kind = function.name, function.arguments[1], function.argument_kinds[1]
    if other.is_nested():
        return
    if kind != "operand":
        raise RaptorsTypeError(
            f"{name}: expected a column of vectors for {argument}, or one vector as a list, a "
            f"literal or an array, got a column of {other}, which is one value per row"
        )
    if options.get("axis") == 1:
        raise RaptorsValueError(
            f"{name}: option axis: expected None or 0 beside a column, which is one value per row, "
            "got 1; pass one value per column as a list, a literal or an array"
        )
    _check_type(name, argument, own, other)


def _check_type(name: str, argument: str, own: Any, other: Any) -> None:
    """Refuse elements that those of ``own`` cannot take: a float column takes all numbers."""
    element = _element(own)
    if other in (element, pl.Null) or not element.is_numeric():
        return
    if not (other.is_integer() if element.is_integer() else other.is_numeric()):
        raise RaptorsTypeError(
            f"{name}: expected {argument} of {element}, got {other}; cast one of them first"
        )


def _retyped(function: _native.Function, own: Any, y: pl.Series) -> pl.Series:
    """Give plain numbers with the type of the column's elements."""
    name, argument, element = function.name, function.arguments[1], _element(own)
    _check_type(name, argument, own, y.dtype)
    if y.dtype == element or not element.is_numeric():
        return y
    try:
        return y.cast(element)
    except pl.exceptions.PolarsError as error:
        raise RaptorsOverflowError(
            f"{name}: {argument} has values that {element} cannot hold; cast x first"
        ) from error


def _is_one_number(y: pl.Series) -> bool:
    """Whether the one row of a series is a list of one element."""
    if isinstance(y.dtype, pl.Array):
        return bool(prod(y.dtype.shape) == 1)
    is_list = isinstance(y.dtype, pl.List) and not y.dtype.inner.is_nested()
    return is_list and bool(y.list.len().item() == 1)


def _lined_up(
    function: _native.Function, x: pl.Series, args: tuple[Any, ...], options: Any
) -> tuple[tuple[Any, ...], Any]:
    """Give arguments and options in which plain numbers are one value per row, or one in all."""
    y = args[0] if len(args) == 1 else None
    if isinstance(y, _Vector):
        return (_native.as_matrix(_retyped(function, x.dtype, y.series)),), options
    if not isinstance(y, pl.Series) or function.argument_kinds[1] != "operand":
        return args, options
    if len(y) == 1 != len(x) and _is_one_number(y):
        y = y.explode()
    if y.dtype.is_nested():
        return (y,), options
    y = _retyped(function, x.dtype, y)
    axis = options.get("axis")
    if axis not in (None, 0):
        return (y,), options
    if len(y) == 1 != len(x):
        if y.null_count() == 0:
            return (y.item(),), options
        y = y.new_from_index(0, len(x))
    if len(y) != len(x):
        raise RaptorsValueError(
            f"{function.name}: expected {function.arguments[1]} of {len(x)} rows, got {len(y)}; a "
            "series is one value per row: pass axis=1 for one value per column"
        )
    return (y,), {**options, "axis": 0}


def _is_by_row(function: _native.Function, args: tuple[Any, ...], options: Any) -> bool:
    """Whether each row of the result needs but its own row: then polars may split the column."""
    if len(function.arguments) == 1 or _is_product(function):
        return function.is_row_by_row(**options)
    kind, axis = function.argument_kinds[1], options.get("axis")
    # The streaming engine repeats what is one in all for each row: two are no longer one row.
    return all(
        kind != "row" if isinstance(arg, pl.Expr) else _is_for_all(arg, kind, axis) for arg in args
    )


def _is_for_all(value: Any, kind: str, axis: int | None) -> bool:
    """Whether a value is the same for all rows: not if in doubt, which costs but time."""
    if isinstance(value, pl.Series):
        is_per_row = kind == "operand" and axis != 1 and len(value) != 1
        return not (is_per_row or value.dtype.is_nested())
    if isinstance(value, _Vector):
        return axis != 0
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


def _name(dtype: Any) -> str:
    """Give the name of a column's elements; a yes or no counts as 1 or 0."""
    element = _element(dtype)
    return "uint8" if element == pl.Boolean else str(element).lower()


def _type(value: Any) -> Any:
    """Describe a column's type, or a value for all rows, as the registry reads it."""
    if isinstance(value, pl.Array):
        return _name(value), prod(value.shape)
    if isinstance(value, pl.DataType | type(pl.Int8)):
        width = None if value.is_nested() else "vector"
        return _name(value), width
    matrix = _native.as_matrix(value.series if isinstance(value, _Vector) else value)
    is_vector = isinstance(value, _Vector) or getattr(value, "ndim", 2) == 1
    if isinstance(value, pl.Series) and value.dtype.is_nested():
        is_vector = False
    return (matrix.dtype, "vector") if is_vector else (matrix.dtype, matrix.rows, matrix.width)


def _dtype(
    function: _native.Function, gives: _Gives, dtype: Any, args: tuple[Any, ...], options: Any
) -> Any:
    """Give the type of the results of a column of a type."""
    _check_rows(function, dtype, options)
    is_flags = _element(dtype) == pl.Boolean and function.gives == "reduced"
    if not _element(dtype).is_numeric() and not is_flags:
        raise refused(function.name, dtype)
    if isinstance(dtype, pl.List) and _is_product(function):
        raise RaptorsTypeError(
            f"{function.name}: expected a column of arrays, whose width a plan knows, got {dtype}; "
            "cast it to pl.Array first"
        )
    own = _type(dtype)
    # What the second argument is matters for the width of a product only.
    others = [_type(arg) for arg in args] if _is_product(function) else [own[0]] * len(args)
    element, kind, width = function.result_type(own, *others, **options)
    result = _POLARS[element]
    if kind == "rows":
        result = pl.Array(result, width) if width is not None else pl.List(result)
    elif kind in ("per_column", "like"):
        result = _shaped(dtype, result)
    if isinstance(result, pl.Array) and 0 in result.shape:
        raise RaptorsValueError(
            f"{function.name}: the result has rows of width 0, which polars cannot hold; call "
            "it with NumPy or pyarrow data"
        )
    return result


_POLARS = {
    name.lower(): getattr(pl, name)
    for name in (
        *("Float16", "Float32", "Float64", "Int8", "Int16", "Int32", "Int64"),
        *("UInt8", "UInt16", "UInt32", "UInt64"),
    )
    if hasattr(pl, name)
} | {"bool": pl.Boolean}


def _check_rows(function: _native.Function, dtype: Any, options: Any) -> None:
    """Refuse a column of numbers where rows are vectors: it could be one row or one column."""
    axis = options.get("axis", function.options.get("axis", 1))
    if function.argument_kinds[0] != "rows" or axis != 1 or dtype.is_nested():
        return
    by_column = "; if it is one column, pass axis=0" if "axis" in function.options else ""
    raise RaptorsValueError(
        f"{function.name}: expected a column whose rows are vectors, got {dtype}; if it is one "
        f"row, pass its implode(){by_column}"
    )


def _compute(
    series: Sequence[pl.Series],
    name: str,
    gives: _Gives,
    args: tuple[Any, ...],
    options: Any,
    dtype: Any = None,
    weights: Any = None,
    return_dtype: Any = None,  # which polars passes, and the function knows anyway
) -> pl.Series:
    x, *columns = series
    if isinstance(weights, pl.Expr):
        weights = columns.pop()
    function = _native.get_function(name)
    _check_rows(function, x.dtype, options)
    for column in columns:
        _check_column(function, x.dtype, column.dtype, options)
        if len(x) == 1 != len(column):
            x = x.new_from_index(0, len(column))
    given = tuple(columns.pop(0) if isinstance(arg, pl.Expr) else arg for arg in args)
    given, lined_up = _lined_up(function, x, given, options)
    if weights is not None:
        lined_up = {**lined_up, "weights": weights}
        args = (*args, weights)
    result = function(x, *given, **lined_up)
    if gives == "number":
        dtype = _dtype(function, gives, x.dtype, args, options) if dtype is None else dtype
        return pl.Series(x.name, [result], dtype=dtype)
    if gives == "columns" and isinstance(x.dtype, pl.Array):
        return result.reshape((1, *x.dtype.shape))
    if gives == "columns" and isinstance(x.dtype, pl.List):
        return result.implode()
    return result


def _choose(series: Sequence[pl.Series], args: tuple[Any, ...], options: Any) -> pl.Series:
    """Choose between two values; plain columns are one value per row, one row is one for all."""
    condition, *columns = series
    given: list[Any] = [condition]
    for arg in args:
        value = columns.pop(0) if isinstance(arg, pl.Expr) else arg
        given.append(_native.as_matrix(arg.series) if isinstance(arg, _Vector) else value)
    rows = max(len(value) for value in given if isinstance(value, pl.Series))
    is_one = any(isinstance(value, pl.Series) and len(value) == 0 for value in given)
    rows = 0 if is_one else rows
    for i, value in enumerate(given):
        if isinstance(value, pl.Series) and len(value) == 1 != rows:
            given[i] = value.new_from_index(0, rows)
    plain = [v for v in given if isinstance(v, pl.Series) and not v.dtype.is_nested()]
    axis = {"axis": 0} if plain and options.get("axis") is None else {}
    return cast("pl.Series", _native.where(*given, **{**options, **axis})).alias(condition.name)


def _chosen_dtype(types: Sequence[Any], args: tuple[Any, ...]) -> Any:
    """Give the type of a choice, of a condition and columns of these types."""
    own, *others = types
    values = [_given_dtype(others.pop(0) if isinstance(arg, pl.Expr) else arg) for arg in args]
    typed = [value for value in values if value is not None]
    if typed:
        element = pl.UInt8() if _element(typed[0]) == pl.Boolean else _element(typed[0])
    else:
        element = pl.Int64() if all(isinstance(arg, int) for arg in args) else pl.Float64()
    nested = (dtype for dtype in (own, *typed) if dtype.is_nested())
    return _shaped(next(nested, element), element)


def _given_dtype(value: Any) -> Any:
    """Give the type of a column, or of data at hand; none of a number."""
    if isinstance(value, int | float):
        return None
    if isinstance(value, pl.DataType | type(pl.Int8)):
        return value
    if isinstance(value, pl.Series | _Vector):
        return value.dtype if isinstance(value, pl.Series) else value.series.dtype
    matrix = _native.as_matrix(value)
    element = _POLARS[matrix.dtype]
    return element if getattr(value, "ndim", 2) == 1 else pl.Array(element, matrix.width)


def _chosen(condition: pl.Expr, args: tuple[Any, ...], options: Any) -> pl.Expr:
    """Give the expression of a choice."""
    exprs = [condition, *(arg for arg in args if isinstance(arg, pl.Expr))]
    run = partial(_choose, args=args, options=options)
    by_row = all(isinstance(arg, pl.Expr | int | float) for arg in args)
    if not hasattr(pl, "pipe_with_dtype"):
        # polars learns the type from a call with rows of its own, so what has a row for each row
        # goes to it as a column.
        function = _native.get_function("where")
        columns = tuple(_as_column(function, arg, options) for arg in args)
        columns = tuple(_as_row(arg) if options.get("axis") != 0 else arg for arg in columns)
        exprs = [condition, *(arg for arg in columns if isinstance(arg, pl.Expr))]

        def typed(series: Sequence[pl.Series]) -> pl.Series:
            # Lists of polars' own rows are of one element, which would be broadcast to arrays.
            dtype = _chosen_dtype([one.dtype for one in series], columns)
            return _choose(series, columns, options).cast(dtype)

        return pl.map_batches(exprs, typed, is_elementwise=by_row)

    def planned(inputs: Sequence[tuple[pl.Expr, Any]]) -> pl.Expr:
        dtype = _chosen_dtype([dtype for _, dtype in inputs], args)
        columns = [expr for expr, _ in inputs]
        return pl.map_batches(columns, run, return_dtype=dtype, is_elementwise=by_row)

    return pl.pipe_with_dtype(exprs, planned)


def _on_expr(self: ExprNamespace, name: str, args: tuple[Any, ...], options: Any) -> pl.Expr:
    function = _native.get_function(name)
    if function.driver == "where":
        return _chosen(self._expr, tuple(_unwrapped(arg) for arg in args), options)
    if options.get("weights") is not None:
        return _weighed(self._expr, function, options)
    gives = _gives(function, args, options)
    args = tuple(_unwrapped(arg) for arg in args)
    run = partial(_compute, name=name, gives=gives, args=args, options=options)
    operands = [arg for arg in args if isinstance(arg, pl.Expr)]
    if operands and _is_product(function):
        raise RaptorsTypeError(
            f"{name}: expected a series or an array for {function.arguments[1]}, got an expression"
        )
    if operands and function.argument_kinds[1] == "number":
        raise RaptorsTypeError(
            f"{name}: expected one number for {function.arguments[1]}, got an expression; multiply "
            "takes one value per row"
        )
    by_row = gives == "rows" and _is_by_row(function, args, options)

    def planned(inputs: Sequence[tuple[pl.Expr, Any]]) -> pl.Expr:
        own, *others = (dtype for _, dtype in inputs)
        _check_rows(function, own, options)
        for other in others:
            _check_column(function, own, other, options)
        dtype = _dtype(function, gives, own, args, options)
        exprs = [expr for expr, _ in inputs]
        if _is_native(function, args, options) and not any(_may_not_fit(own, y) for y in others):
            given = _checked(function, own, args, options)
            native = _plugin(function, gives, by_row, exprs, given, options)
            if native is not None:
                return native
        return pl.map_batches(
            exprs,
            partial(run, dtype=dtype),
            return_dtype=dtype,
            is_elementwise=by_row,
            returns_scalar=gives != "rows",
        )

    if hasattr(pl, "pipe_with_dtype"):
        return pl.pipe_with_dtype([self._expr, *operands], planned)
    # Before polars 2.1 only the plugin knows types when it plans: what has a row for each row goes
    # to it as a column.
    args = tuple(_as_column(function, arg, options) for arg in args)
    exprs = [self._expr, *(arg for arg in args if isinstance(arg, pl.Expr))]
    if _is_native(function, args, options):
        native = _plugin(function, gives, by_row, exprs, args, options)
        if native is not None:
            return native
    # For what is left polars calls the function on a few rows of its own to learn the type.
    return pl.map_batches(
        exprs,
        partial(run, args=args),
        is_elementwise=by_row and len(exprs) == 1,
        returns_scalar=gives != "rows",
    )


def _weighed(expr: pl.Expr, function: _native.Function, options: Any) -> pl.Expr:
    """Give a statistic of a column whose rows, or elements, have weights."""
    options = dict(options)
    given = _unwrapped(options.pop("weights"))
    weights = given.series if isinstance(given, _Vector) else given
    gives = _gives(function, (), options)
    run = partial(
        _compute, name=function.name, gives=gives, args=(), options=options, weights=weights
    )
    exprs = [expr, *([weights] if isinstance(weights, pl.Expr) else [])]

    def planned(inputs: Sequence[tuple[pl.Expr, Any]]) -> pl.Expr:
        dtype = _dtype(function, gives, inputs[0][1], (weights,), options)
        return pl.map_batches(
            [one for one, _ in inputs],
            partial(run, dtype=dtype),
            return_dtype=dtype,
            is_elementwise=gives == "rows",
            returns_scalar=gives != "rows",
        )

    if hasattr(pl, "pipe_with_dtype"):
        return pl.pipe_with_dtype(exprs, planned)
    return pl.map_batches(
        exprs,
        run,
        is_elementwise=gives == "rows" and len(exprs) == 1,
        returns_scalar=gives != "rows",
    )


def _as_column(function: _native.Function, value: Any, options: Any) -> Any:
    """Give a literal column for a value that has a row for each row, and any other as it is."""
    if isinstance(value, pl.Expr | _Vector) or _is_product(function):
        return value
    kind, axis = function.argument_kinds[1], options.get("axis")
    if isinstance(value, pl.Series):
        is_column = value.dtype.is_nested() or (kind == "operand" and axis != 1)
    else:
        is_column = not _is_for_all(value, kind, axis)
    if not is_column or kind == "row":
        return value
    return pl.lit(value if isinstance(value, pl.Series) else pl.Series(_native.as_matrix(value)))


def _as_row(value: Any) -> Any:
    """Give a literal of one row for a 1-D array, and any other value as it is."""
    if getattr(value, "ndim", 0) != 1 or isinstance(value, pl.Series):
        return value
    return pl.lit(pl.Series(_native.as_matrix(value)).implode())


def _is_native(function: _native.Function, args: tuple[Any, ...], options: Any) -> bool:
    """Whether the plugin can run it: what is no column has to be the same for all rows."""
    others = [arg for arg in args if not isinstance(arg, pl.Expr)]
    if not others or _is_product(function):
        return len(args) < 2
    kind, axis = function.argument_kinds[1], options.get("axis")
    is_per_row = kind == "operand" and axis != 1 and isinstance(args[0], pl.Series)
    return len(args) == 1 and not is_per_row and _is_for_all(args[0], kind, axis)


def _may_not_fit(own: Any, other: Any) -> bool:
    """Whether a column of integers meets others that may be too large for it."""
    element = _element(own)
    return element.is_integer() and _element(other) not in (element, pl.Null)


def _checked(
    function: _native.Function, own: Any, args: tuple[Any, ...], options: Any
) -> tuple[Any, ...]:
    """Give the arguments, with literals in the type of the column; an error of theirs comes now."""
    given = tuple(
        _native.as_matrix(_retyped(function, own, arg.series)) if isinstance(arg, _Vector) else arg
        for arg in args
    )
    if given and not any(isinstance(arg, pl.Expr) for arg in given):
        # No rows are computed, and a wrong operand is refused as it would be in a direct call.
        function(pl.Series([], dtype=own), *given, **options)
    return given


def _plugin(
    function: _native.Function,
    gives: _Gives,
    by_row: bool,
    exprs: list[pl.Expr],
    args: tuple[Any, ...],
    options: Any,
) -> pl.Expr | None:
    """Give the expression that polars runs without Python; none if the plugin cannot do it."""
    given = [
        None
        if isinstance(arg, pl.Expr)
        else _native.as_matrix(arg.series)
        if isinstance(arg, _Vector)
        else arg
        for arg in args
    ]
    call = _native._polars_call(function.name, given, options, by_row)
    if call is None:
        return None
    return register_plugin_function(
        plugin_path=_native.__file__,
        function_name=f"raptors_{function.name}",
        args=exprs,
        kwargs={"call": call},
        is_elementwise=by_row,
        returns_scalar=gives != "rows",
        changes_length=gives != "rows",
    )


def _on_series(self: SeriesNamespace, name: str, args: tuple[Any, ...], options: Any) -> Any:
    function = _native.get_function(name)
    args = tuple(_unwrapped(arg) for arg in args)
    if function.driver == "where":
        return _choose([self._series], args, options)
    args, options = _lined_up(function, self._series, args, options)
    return function(self._series, *args, **options)


def _method(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Make the method for a function: its signature without ``x``, which is the column."""
    function = _native.get_function(name)
    parameters = list(signature(getattr(_native, name)).parameters.values())[1:]
    own = Signature([p for p in parameters if p.name != "width"])
    places = function.arguments[1:]

    def method(self: Any, *args: Any, **options: Any) -> Any:
        try:
            bound = own.bind(*args, **options).arguments
        except TypeError as error:
            raise RaptorsTypeError(f"{name}: {error}; its signature is {name}{own}") from None
        given = tuple(bound.pop(place) for place in places if bound.get(place) is not None)
        for place in function.by_name:
            if place in bound and bound[place] is None:
                del bound[place]
        return run(self, name, given, bound)

    method.__name__ = name
    method.__qualname__ = f"raptors.{name}"
    method.__doc__ = function.doc
    self_parameter = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[self_parameter, *own.parameters.values()]
    )
    return method


def _padded(series: pl.Series, width: int, fill: float | None) -> pl.Series:
    return cast("pl.Series", pad(series, width, fill=fill))


def _pad(self: Any, width: int, *, fill: float | None = None) -> Any:
    if isinstance(self, SeriesNamespace):
        return _padded(self._series, width, fill)

    def run(series: pl.Series) -> pl.Series:
        return _padded(series, width, fill)

    def planned(inputs: Sequence[tuple[pl.Expr, Any]]) -> pl.Expr:
        [(expr, dtype)] = inputs
        dtype = pl.Array(_element(dtype), width)
        return expr.map_batches(run, return_dtype=dtype, is_elementwise=True)

    if hasattr(pl, "pipe_with_dtype"):
        return pl.pipe_with_dtype([self._expr], planned)
    return self._expr.map_batches(run, is_elementwise=True)


def _truncate(self: Any, width: int) -> Any:
    if isinstance(self, SeriesNamespace):
        return truncate(self._series, width)

    def run(series: pl.Series) -> pl.Series:
        return cast("pl.Series", truncate(series, width))

    def planned(inputs: Sequence[tuple[pl.Expr, Any]]) -> pl.Expr:
        [(expr, dtype)] = inputs
        # Lists stay lists, whatever the lengths in a part of the column.
        lists = pl.List(_element(dtype))

        def as_lists(series: pl.Series) -> pl.Series:
            return run(series).cast(lists)

        return expr.map_batches(as_lists, return_dtype=lists, is_elementwise=True)

    if hasattr(pl, "pipe_with_dtype"):
        return pl.pipe_with_dtype([self._expr], planned)
    return self._expr.map_batches(run, is_elementwise=True)


def _register() -> None:
    for method, of in ((_pad, pad), (_truncate, truncate)):
        method.__name__, method.__doc__ = of.__name__, of.__doc__
        method.__qualname__ = f"raptors.{of.__name__}"
        for namespace in (ExprNamespace, SeriesNamespace):
            setattr(namespace, of.__name__, method)
    for name in _native.list_functions():
        setattr(ExprNamespace, name, _method(name, _on_expr))
        setattr(SeriesNamespace, name, _method(name, _on_series))
    if not hasattr(pl.Expr, "raptors"):
        pl.api.register_expr_namespace("raptors")(ExprNamespace)
        pl.api.register_series_namespace("raptors")(SeriesNamespace)
        pl.api.register_dataframe_namespace("raptors")(FrameNamespace)
        pl.api.register_lazyframe_namespace("raptors")(FrameNamespace)


_register()
