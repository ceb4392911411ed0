"""The functions in pyarrow's own registry: for datasets, filters and Acero.

pyarrow matches a registered function's types exactly, list size included, and knows no options.
So a function is registered when it is asked for, once for each type and set of options, under a
name that says both.
"""

from collections.abc import Sequence
from inspect import signature
from threading import Lock
from typing import TYPE_CHECKING, Any, overload

from raptors_arrow import _native
from raptors_arrow._types import described, element, retyped
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError
from raptors_arrow.expr import Expr

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

__all__ = ["expression", "register"]

_lock = Lock()


def register(
    name: str, type: "pa.DataType", /, *, y: "pa.DataType | None" = None, **options: Any
) -> str:
    """Register a function with pyarrow for one type, and give the name it has there.

    Parameters
    ----------
    name
        One of ``list_functions()`` that makes each row of its result from one row: arithmetic,
        ``dot`` and the like, ``normalize``, ``softmax``, ``cast``, or a reduction with ``axis=1``,
        which is what a reduction means here if no axis is given.
    type
        The type of the column.
    y
        The type of the second argument, if there is one. If not given: the element type for a
        number, else the type of the column. Numbers in a column of their own are one per row.
    **options
        Options of the function, which are fixed for the registered one.

    Returns
    -------
    str
        The registered name. Asking twice gives the same name and does nothing else.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> import raptors_arrow as ra
    >>> pairs = pa.list_(pa.float32(), 2)
    >>> name = ra.pyarrow.register("mean", pairs)
    >>> name
    'raptors_mean_axis1_float32x2'
    >>> pc.call_function(name, [pa.array([[1.0, 3.0], None], pairs)]).to_pylist()
    [2.0, None]
    """
    pa, pc = _import()
    function = _native.get_function(name)
    if "axis" in function.options and function.gives == "reduced":
        options.setdefault("axis", 1)
    _check(pa, function, type, y, options)
    types = [type]
    if len(function.arguments) > 1:
        types.append(y if y is not None else _second(pa, function, type))
    out_type = _out_type(pa, function, types, options)
    named = {**options}
    if "type" in named:
        named["type"] = _short(pa, element(pa, out_type))
    registered = "_".join(
        ["raptors", name]
        + [f"{option}{value}" for option, value in sorted(named.items())]
        + [_short(pa, one) for one in types]
    )
    with _lock:
        if registered not in pc.list_functions():
            doc = {"summary": function.summary, "description": function.doc}
            inputs = dict(zip(function.arguments, types, strict=True))
            call = _Row(name, options)
            pc.register_scalar_function(call, registered, doc, inputs, out_type)
    return registered


@overload
def expression(expr: Expr, schema: "pa.Schema", /) -> "pc.Expression": ...
@overload
def expression(
    name: str,
    field: "str | pc.Expression",
    *args: Any,
    type: "pa.DataType",
    y: "pa.DataType | None" = None,
    **options: Any,
) -> "pc.Expression": ...
def expression(
    name: Any, field: Any, *args: Any, type: Any = None, y: Any = None, **options: Any
) -> "pc.Expression":
    """Give an expression of pyarrow's, for datasets, filters and Acero.

    Either ``expression(ra.col("emb").normalize().dot(q), dataset.schema)``, with an expression that
    has a value for each row, or a function by its name, on a field.

    Parameters
    ----------
    name
        An expression; then ``field`` is the schema, and there is no more. Else as for `register`.
    field
        The name of the column, or an expression of pyarrow's.
    *args
        The second argument, if there is one: an expression, or a value; for ``scale`` and
        ``broadcast_add``, which take one for all rows, a value. Then the options that the function
        takes positionally, such as the type that ``cast`` changes to.
    type
        The type of the column, such as ``dataset.schema.field("emb").type``.
    y, **options
        As for `register`.

    Returns
    -------
    pyarrow.compute.Expression

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.dataset as ds
    >>> import raptors_arrow as ra
    >>> pairs = pa.list_(pa.float32(), 2)
    >>> rows = pa.table({"emb": pa.array([[1.0, 3.0], [4.0, 8.0]], pairs)})
    >>> mean = ra.pyarrow.expression("mean", "emb", type=pairs)
    >>> ds.dataset(rows).to_table(columns={"m": mean}, filter=mean > 3)["m"].to_pylist()
    [6.0]
    >>> twice = ra.pyarrow.expression((ra.col("emb") * 2).max(axis=1), rows.schema)
    >>> ds.dataset(rows).to_table(columns={"largest": twice})["largest"].to_pylist()
    [6.0, 16.0]
    """
    pa, pc = _import()
    if isinstance(name, Expr):
        if args or options or type is not None or not isinstance(field, pa.Schema):
            raise RaptorsTypeError(
                f"expression: expected a schema after {name!r}, and no more; its functions have "
                "their options"
            )
        from raptors_arrow.engines.acero import as_expression

        return as_expression(name, field)
    if not isinstance(type, pa.DataType):
        raise RaptorsTypeError(f"{name}: expected the type of the column, got {type!r}")
    function = _native.get_function(name)
    if not isinstance(field, str | pc.Expression):
        raise RaptorsTypeError(f"{name}: expected the name of a field, got {field!r}")
    others = len(function.arguments) - 1
    parameters = signature(getattr(_native, name)).parameters
    takes = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(args) >= len(takes):
        most = len(takes) - 1
        raise RaptorsTypeError(
            f"{name}: expected at most {most} positional values, got {len(args)}"
        )
    if len(args) < others:
        raise RaptorsTypeError(f"{name}: expected {function.arguments[1]}, got nothing for it")
    positional = dict(zip(takes[1 + others :], args[others:], strict=False))
    for twice in positional.keys() & options.keys():
        raise RaptorsTypeError(f"{name}: {twice} was given twice")
    for value in args[:others]:
        _check_expression(pa, function, value)
    registered = register(name, type, y=y, **positional, **options)
    given = [pc.field(field) if isinstance(field, str) else field]
    for value in args[:others]:
        if isinstance(value, pc.Expression):
            given.append(value)
        else:
            second = y if y is not None else _second(pa, function, type)
            given.append(pc.scalar(_scalar(pa, function, value, second)))
    return pc.Expression._call(registered, given)


def _check_expression(pa: Any, function: Any, value: Any) -> None:
    """Refuse a column where there is one value for all rows: the scan would fail on it."""
    instead = {
        "number": "multiply takes one value per row",
        "row": "add takes a column of vectors",
    }
    hint = instead.get(function.argument_kinds[1])
    if hint is not None and not _is_constant(pa, value):
        raise RaptorsTypeError(
            f"{function.name}: expected one value for {function.arguments[1]}, got the expression "
            f"{value}; {hint}"
        )


def _is_constant(pa: Any, value: Any) -> bool:
    """Whether a value or expression needs no field: then it can be bound where there is none."""
    from pyarrow import compute, dataset

    if not isinstance(value, compute.Expression):
        return True
    try:
        dataset.dataset(pa.table({})).scanner(columns={"value": value})
    except pa.ArrowInvalid:
        return False
    return True


def _scalar(pa: Any, function: Any, value: Any, type: Any) -> Any:
    if isinstance(value, pa.Scalar):
        return value
    try:
        return pa.scalar(value, type)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        name, argument = function.name, function.arguments[1]
        message = f"{name}: expected {argument} to be a value of {type}, got {value!r}"
        raise RaptorsTypeError(message) from error


class _Row:
    """A function as pyarrow calls it: a context, then arrays or scalars."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.call = _native.get_function(name)
        self.options = options

    def __call__(self, context: Any, *args: Any) -> Any:
        import pyarrow as pa

        all_scalars = all(isinstance(arg, pa.Scalar) for arg in args)
        # A vector that comes as a scalar is one row; a number stays one.
        first, *others = args
        if isinstance(first, pa.Scalar):
            first = pa.repeat(first, 1 if all_scalars else context.batch_length)
        options = self.options
        if any(isinstance(arg, pa.Array) and pa.types.is_primitive(arg.type) for arg in others):
            options = {**options, "axis": 0}  # a column of numbers beside the rows: one for each
        others = [
            pa.repeat(arg, 1)
            if isinstance(arg, pa.Scalar) and pa.types.is_nested(arg.type)
            else arg
            for arg in others
        ]
        result = self.call(first, *others, **options)
        return result[0] if all_scalars else result


def _import() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        message = 'raptors_arrow.pyarrow needs pyarrow: pip install "raptors-arrow[pyarrow]"'
        raise ImportError(message) from error
    return pyarrow, pyarrow.compute


def _second(pa: Any, function: Any, type: Any) -> Any:
    return element(pa, type) if function.argument_kinds[1] == "number" else type


def _short(pa: Any, type: Any) -> str:
    """Name a type: element and list sizes where that says it all."""
    if pa.types.is_fixed_size_list(type) and pa.types.is_primitive(type.value_type):
        # pyarrow tells lists whose elements may be null from others, and so must the name.
        suffix = "" if type.value_field.nullable else "_not_null"
        return f"{_short(pa, type.value_type)}x{type.list_size}{suffix}"
    if pa.types.is_floating(type):
        return f"float{type.bit_width}"
    return "".join(c if c.isalnum() else "_" for c in str(type)).strip("_")


def _not_by_row(function: Any, options: dict[str, Any]) -> RaptorsValueError:
    hint = "; pass axis=1" if "axis" in function.options else ""
    return RaptorsValueError(
        f"{function.name}: expected a function with one result for each row (pyarrow's scalar "
        f"functions run batch by batch), got options {options}{hint}"
    )


def _check(pa: Any, function: Any, type: Any, y: Any, options: dict[str, Any]) -> None:
    """Refuse what is not row by row, and types that do not fit."""
    for given in (type, y):
        if given is not None and not isinstance(given, pa.DataType):
            raise RaptorsTypeError(f"{function.name}: expected a pyarrow type, got {given!r}")
    if function.driver == "where":
        raise RaptorsTypeError(
            "where: expected a function of one or two arguments; pyarrow.compute.if_else chooses "
            "in an expression"
        )
    axis = options.get("axis", function.options.get("axis"))
    by_column = "axis" in function.options and len(function.arguments) == 1 and axis != 1
    is_product = function.argument_kinds[1:] == ("matrix",)
    if by_column or is_product or function.gives in ("matrix", "named"):
        raise _not_by_row(function, options)
    if y is not None and len(function.arguments) == 1:
        raise RaptorsTypeError(f"{function.name}: expected no second argument, got a y of {y}")
    is_vector = function.argument_kinds[1:] in (("row",), ("vectors",))
    if is_vector and y is not None and pa.types.is_primitive(y):
        raise RaptorsTypeError(f"{function.name}: expected a type of lists for y, got {y}")
    number = y if y is None else element(pa, y)
    if y is not None and not (pa.types.is_integer(number) or pa.types.is_floating(number)):
        raise RaptorsTypeError(f"{function.name}: expected a type of numbers for y, got {y}")


def _out_type(pa: Any, function: Any, types: Sequence[Any], options: dict[str, Any]) -> Any:
    """Read from the registry what the function gives, and refuse what is not row by row."""
    if not function.is_row_by_row(**options):
        raise _not_by_row(function, options)
    types_of = [described(pa, type) for type in types]
    name, kind, _ = function.result_type(*types_of, **options)
    made = pa.type_for_alias(name)
    if kind not in ("per_row", "like"):
        raise _not_by_row(function, options)
    return made if kind == "per_row" else retyped(pa, types[0], made)
