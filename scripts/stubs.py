"""Writes what the registry says into the type stubs of the package, between the marks there.

_native.pyi has the functions, _namespaces.pyi the methods that polars' expressions and series have;
all that is not between ``# begin: NAME`` and ``# end`` is written by hand, in the stubs themselves.
``--check`` writes nothing and fails if a file is not what it would write.
"""

import inspect
import re
import sys
from array import array

from written import ROOT, write_or_check

import raptors_arrow as ra

PACKAGE = ROOT / "python" / "raptors_arrow"

TYPES = ["float16", "float32", "float64"]
TYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ARGUMENTS = {
    "matrix": "_MatrixLike",
    "rows": "_MatrixLike",
    "operand": "_OperandLike",
    "row": "_MatrixLike | _VectorLike",
    "number": "_NumberLike",
    "vectors": "_MatrixLike | _VectorLike",
    "queries": "_MatrixLike | _VectorLike",
    "weights": "_MatrixLike | _VectorLike",
}
OPTIONS = {
    "axis": "Literal[0, 1, -1] | None",
    "flag": "bool",
    "count": "int",
    "fraction": "float",
    "order": 'float | Literal["inf"]',
    "bound": "_NumberLike | Sequence[_NumberLike | None] | _VectorLike | None",
    "along": "Literal[0, 1, -1]",
    "type": "_TypeLike",
    "optional_type": "_TypeLike | None",
}


AXIS = "axis: Literal[0, 1, -1] | None = None"
KEPT = "keepdims: bool = False"
NOT_KEPT = "keepdims: Literal[False] = False"


def literal(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def parameters(name: str, x: str, arguments: dict[str, str] = ARGUMENTS) -> str:
    """Give the parameters of a function, the first of the type ``x``; a method's has no ``x``."""
    function = ra.get_function(name)
    kinds = dict(zip(function.arguments, function.argument_kinds, strict=True))
    first = function.arguments[0]
    types = {argument: arguments[kind] for argument, kind in kinds.items()} | {first: x}
    types |= dict.fromkeys(function.by_name, f"{arguments['weights']} | None")
    for option, kind in function.option_kinds.items():
        types[option] = OPTIONS[kind] if isinstance(kind, str) else f"Literal[{literal(kind)}]"
    types["width"] = "int | None"
    parts: list[str] = []
    for parameter in inspect.signature(getattr(ra, name)).parameters.values():
        if x == "self" and parameter.name in (first, "width"):
            parts += ["self"] if parameter.name == first else []
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        part = f"{parameter.name}: {types[parameter.name]}"
        if parameter.default is not parameter.empty:
            optional = parameter.default is None and "None" not in part
            default = repr(parameter.default).replace("'", '"')
            part += f"{' | None' if optional else ''} = {default}"
        parts.append(part)
    return ", ".join(parts)


def with_axis(text: str) -> list[str]:
    """Give the parameters where an axis is said: by its name, if others before it are not."""
    before, after = text.split(AXIS)
    axis = "axis: Literal[0, 1, -1]"
    if " = " not in before:
        return [before + axis + after]
    by_place = re.sub(r" = [^,]+", "", before) + axis + after
    return [by_place, f"{before}*, {axis}{after.replace(', *', '', 1)}"]


def numbers(name: str) -> str:
    """Ask a reduction which Python numbers it gives, and whether it gives None."""
    function = ra.get_function(name)
    results = [function(array(code, [1, 2])) for code in "qd"] + [function(array("d"))]
    names = dict.fromkeys("None" if r is None else type(r).__name__ for r in results)
    return " | ".join(names)


def takes_number_first(name: str) -> bool:
    """Ask a function of an operand whether a number can stand before it."""
    try:
        ra.get_function(name)(1.0, array("d", [1.0]))
    except ra.RaptorsTypeError:
        return False
    return True


def tuple_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def stub(name: str) -> str:
    """Give the stub of one function."""
    function = ra.get_function(name)
    if function.driver == "where":
        return choice(name)
    match function.gives:
        case "rows" if "matrix" not in function.argument_kinds[1:]:
            stubs = (
                f"@overload\ndef {name}({parameters(name, '_X')}) -> _X: ...\n"
                f"@overload\ndef {name}({parameters(name, 'Buffer')}) -> Matrix: ...\n"
            )
            if function.argument_kinds == ("matrix", "operand") and takes_number_first(name):
                reversed_ = parameters(name, "float").replace("_OperandLike", "_X")
                stubs += f"@overload\ndef {name}({reversed_}) -> _X: ...\n"
            return stubs
        case "named":
            result = tuple_name(name)
            return f"def {name}({parameters(name, '_MatrixLike')}) -> {result}: ...\n"
        case "reduced" if "axis" in function.options:
            both = parameters(name, "_MatrixLike")
            whole = both.replace(AXIS, "axis: None = None").replace(KEPT, NOT_KEPT)
            stubs = f"@overload\ndef {name}({whole}) -> {numbers(name)}: ...\n"
            others = [*with_axis(both), both.replace(KEPT, "keepdims: Literal[True]")]
            parts = [f"@overload\ndef {name}({part}) -> Any: ...\n" for part in others]
            return "".join([stubs, *parts])
        case _:
            return f"def {name}({parameters(name, '_MatrixLike')}) -> Any: ...\n"


def choice(name: str) -> str:
    """Give the stub of a choice between two values: of the kind of the first that is an array."""
    given = parameters(name, "_OperandLike")
    x, y = "x: _OperandLike", "y: _OperandLike"
    ways = [
        (given.replace(x, "x: _X"), "_X"),
        (given.replace(x, "x: float").replace(y, "y: _X"), "_X"),
        (given, "Any"),
    ]
    return "".join(f"@overload\ndef {name}({way}) -> {made}: ...\n" for way, made in ways)


def named_tuple(name: str) -> str:
    """Give the stub of the results of a function that gives several."""
    fields = getattr(ra, tuple_name(name))._fields
    lines = [f"class {tuple_name(name)}(NamedTuple):", *(f"    {field}: Any" for field in fields)]
    return "\n".join(lines) + "\n\n"


def filled(stub: str, parts: dict[str, str]) -> str:
    """Give a stub with other text between its marks; each mark must be there once."""
    for name, part in parts.items():
        pattern = re.compile(rf"^( *# begin: {name}\n).*?( *# end\n)", re.MULTILINE | re.DOTALL)
        stub, count = pattern.subn(lambda marks, part=part: marks[1] + part + marks[2], stub)
        if count != 1:
            sys.exit(f"{count} pieces between '# begin: {name}' and '# end', expected 1")
    return stub


def native() -> dict[str, str]:
    """Give the parts of the module's stub."""
    functions = ra.list_functions()
    tuples = [name for name in functions if ra.get_function(name).gives == "named"]
    return {
        "names": "".join(f'    "{name}",\n' for name in ra._native.__all__),
        "types": f"_TypeLike: TypeAlias = Literal[{literal(TYPES)}] | Any\n",
        "functions": "".join([*map(named_tuple, tuples), *map(stub, functions)]),
    }


METHOD_ARGUMENTS = {
    "matrix": "_Vectors",
    "operand": "_Operand",
    "row": "_Vectors",
    "number": "_NumberLike",
    "vectors": "_Vectors",
    "queries": "_Vectors",
    "weights": "_Vectors",
    "rows": "_Vectors",
}


def method(name: str, result: str) -> str:
    """Give the stub of a method of a namespace."""
    return f"    def {name}({parameters(name, 'self', METHOD_ARGUMENTS)}) -> {result}: ...\n"


def of_series(name: str) -> str:
    """Give the stub of a method of series."""
    function = ra.get_function(name)
    if function.gives == "named":
        return method(name, tuple_name(name))
    if function.gives != "reduced" or "axis" not in function.options:
        return method(name, "pl.Series")
    whole = method(name, numbers(name)).replace(AXIS, "axis: None = None").replace(KEPT, NOT_KEPT)
    both = method(name, "pl.Series")
    parts = [*with_axis(both), both.replace(KEPT, "keepdims: Literal[True]")]
    return "".join(f"    @overload\n{one}" for one in [whole, *parts])


def namespaces() -> dict[str, str]:
    """Give the parts of the stub of the namespaces."""
    gives = {name: ra.get_function(name).gives for name in ra.list_functions()}
    tuples = [tuple_name(name) for name, one in gives.items() if one == "named"]
    columns = [name for name, one in gives.items() if one in ("reduced", "rows", "numbers")]
    types = ", ".join([*tuples, "_MatrixLike", "_NumberLike", "_TypeLike", "_VectorLike"])
    return {
        "imports": f"from raptors_arrow._native import {types}\n",
        "of expressions": "".join(method(name, "pl.Expr") for name in columns),
        "of series": "".join(map(of_series, gives)),
    }


if __name__ == "__main__":
    parts = {PACKAGE / "_native.pyi": native(), PACKAGE / "_namespaces.pyi": namespaces()}
    sys.exit(write_or_check({path: filled(path.read_text(), part) for path, part in parts.items()}))
