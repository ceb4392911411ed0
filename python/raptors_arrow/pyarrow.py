"""The functions in pyarrow's own registry: for datasets, filters and Acero.

pyarrow matches a registered function's types exactly, list size included, and knows no options.
So a function is registered when it is asked for, once for each type and set of options, under a
name that says both.
"""

from collections.abc import Sequence
from inspect import signature
from threading import Lock
from typing import TYPE_CHECKING, Any

from raptors_arrow import _native
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError

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
        named["type"] = _short(pa, _element(pa, out_type))
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


def expression(
    name: str,
    field: "str | pc.Expression",
    *args: Any,
    type: "pa.DataType",
    y: "pa.DataType | None" = None,
    **options: Any,
) -> "pc.Expression":
    """Give an expression that calls a function on a field, for datasets, filters and Acero.

    Parameters
    ----------
    name
        As for `register`.
    field
        The name of the column, or an expression.
    *args
        The second argument, if there is one: an expression, or a value. Then the options that the
        function takes by place, such as the type that ``cast`` changes to.
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
    """
    pa, pc = _import()
    function = _native.get_function(name)
    others = len(function.arguments) - 1
    places = list(signature(getattr(_native, name)).parameters)[1 + others :]
    placed = dict(zip(places, args[others:], strict=False))
    registered = register(name, type, y=y, **placed, **options)
    given = [pc.field(field) if isinstance(field, str) else field]
    for value in args[:others]:
        if isinstance(value, pc.Expression):
            given.append(value)
        else:
            second = y if y is not None else _second(pa, function, type)
            scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, second)
            given.append(pc.scalar(scalar))
    return pc.Expression._call(registered, given)


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


def _element(pa: Any, type: Any) -> Any:
    """Give the type of the numbers in a column's type."""
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    while pa.types.is_nested(type) and type.num_fields > 0:
        type = type.field(0).type
    return type


def _second(pa: Any, function: Any, type: Any) -> Any:
    return _element(pa, type) if function.argument_kinds[1] == "number" else type


def _short(pa: Any, type: Any) -> str:
    """Name a type: element and list sizes where that says it all."""
    if pa.types.is_fixed_size_list(type) and pa.types.is_primitive(type.value_type):
        return f"{_short(pa, type.value_type)}x{type.list_size}"
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
    axis = options.get("axis", function.options.get("axis"))
    by_column = "axis" in function.options and len(function.arguments) == 1 and axis != 1
    is_product = function.argument_kinds[1:] == ("matrix",)
    if by_column or is_product or function.gives in ("matrix", "named"):
        raise _not_by_row(function, options)
    is_vector = function.argument_kinds[1:] in (("row",), ("vectors",))
    if is_vector and y is not None and pa.types.is_primitive(y):
        raise RaptorsTypeError(f"{function.name}: expected a type of lists for y, got {y}")


def _out_type(pa: Any, function: Any, types: Sequence[Any], options: dict[str, Any]) -> Any:
    """Ask the function itself what it gives for a few rows, and refuse what is not row by row."""
    if isinstance(types[0], pa.BaseExtensionType):
        width = len(pa.nulls(1, types[0].storage_type).flatten()) or 1
    else:
        width = getattr(types[0], "list_size", 1)
    rows = width + 1  # other than the width, so that one result per column shows
    sample = [pa.nulls(rows, types[0])]
    for second in types[1:]:
        is_number = not pa.types.is_nested(second) and not isinstance(second, pa.BaseExtensionType)
        sample.append(pa.scalar(1, second) if is_number else pa.nulls(rows, second))
    if function.argument_kinds[1:] == ("row",):
        sample[1] = pa.nulls(1, types[1])
    result = function(*sample, **options)
    if not isinstance(result, pa.Array) or len(result) != rows:
        raise _not_by_row(function, options)
    return result.type
