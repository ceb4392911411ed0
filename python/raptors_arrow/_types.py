"""What calls and expressions give, in pyarrow's types: read from the registry, never by a call."""

from typing import Any

from raptors_arrow import _native
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError


def element(pa: Any, type: Any) -> Any:
    """Give the type of the numbers in a column's type."""
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    while pa.types.is_nested(type) and type.num_fields > 0:
        type = type.field(0).type
    return type


def described(pa: Any, type: Any) -> Any:
    """Describe a column's type as the registry reads it: its element and its width."""
    number = element(pa, type)
    name = f"float{number.bit_width}" if pa.types.is_floating(number) else str(number)
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    if not pa.types.is_nested(type):
        return name, "vector"
    width = 1
    while pa.types.is_fixed_size_list(type):
        width, type = width * type.list_size, type.value_type
    return name, None if pa.types.is_nested(type) else width


def refused(function: str, type: Any) -> RaptorsTypeError:
    """Make the error for a column of what no function computes on, as a direct call says it."""
    return RaptorsTypeError(
        f"{function}: expected numbers, or lists of one length, tensors or a struct of them "
        f"(float16, float32, float64 or integers), got {type}"
    )


def retyped(pa: Any, type: Any, number: Any) -> Any:
    """Give a column's type with other elements."""
    if element(pa, type).equals(number):
        return type
    if isinstance(type, pa.FixedShapeTensorType):
        return pa.fixed_shape_tensor(number, type.shape, type.dim_names, type.permutation)
    if not pa.types.is_nested(type):
        return number
    field = type.value_field
    field = field.with_type(retyped(pa, field.type, number))
    if pa.types.is_fixed_size_list(type):
        return pa.list_(field, type.list_size)
    return pa.large_list(field) if pa.types.is_large_list(type) else pa.list_(field)


def result_type(expr: Any, schema: Any) -> Any:
    """Give the type of an expression's values over a source of a schema."""
    import pyarrow as pa

    known: dict[int, Any] = {}
    for node in expr.walk():
        if node.name == "len":
            known[id(node)] = pa.int64()
        elif node.name == "lazy":
            known[id(node)] = _type_of(pa, node.args[0])
        elif node.name == "col":
            known[id(node)] = column_type(schema, node.args[0])
        elif node.name in ("first", "last"):
            known[id(node)] = known[id(node.args[0])]
        else:
            known[id(node)] = _applied(pa, node, known)
    return known[id(expr)]


def column_type(schema: Any, name: str) -> Any:
    """Give the type of a column, or name those that there are."""
    names = list(schema) if isinstance(schema, dict) else schema.names
    if names.count(name) != 1:
        wrong = "is there more than once" if name in names else "is not there"
        raise RaptorsValueError(f"col: {name!r} {wrong}; the columns are {', '.join(names)}")
    return schema[name] if isinstance(schema, dict) else schema.field(name).type


def _applied(pa: Any, node: Any, known: dict[int, Any]) -> Any:
    from raptors_arrow.expr import Expr

    types = [known[id(arg)] if isinstance(arg, Expr) else _type_of(pa, arg) for arg in node.args]
    if not isinstance(node.args[0], Expr) and len(types) == 2:
        types.reverse()  # 1 - x has the type of x
    for type in types:
        number = element(pa, type)
        is_flag = pa.types.is_boolean(number) or pa.types.is_null(number)
        if not (pa.types.is_integer(number) or pa.types.is_floating(number) or is_flag):
            raise refused(node.name, type)
    function = _native.get_function(node.name)
    told = [described(pa, type) for type in types]
    if function.driver == "where":
        plain = [isinstance(arg, int | float) for arg in node.args]
        names = ["int64" if isinstance(arg, int) else "float64" for arg in node.args]
        told = [n if is_plain else t for n, is_plain, t in zip(names, plain, told, strict=True)]
    name, kind, width = function.result_type(*told, **node.options)
    number = pa.type_for_alias(name) if name else None
    if kind == "like":
        return retyped(pa, types[0], number)
    if kind in ("per_column", "rows", "columns"):
        own = types[0]
        if kind == "per_column" and pa.types.is_fixed_size_list(own):
            return retyped(pa, own, number)
        return pa.list_(number) if width is None else pa.list_(number, width)
    if kind == "named":
        raise RaptorsTypeError(f"{node.name}: gives several results; select one of them by name")
    return number


def _type_of(pa: Any, value: Any) -> Any:
    if isinstance(value, int | float):
        return pa.float64()
    if isinstance(value, list | tuple):
        return pa.array(value).type
    type = getattr(value, "type", None)
    if isinstance(type, pa.DataType):
        return type
    matrix = _native.as_matrix(value)
    number = pa.type_for_alias(matrix.dtype)
    return number if getattr(value, "ndim", 2) == 1 else pa.list_(number, matrix.width)
