"""Writes docs/guide/functions.md: all functions, from the registry.

``--check`` writes nothing and fails if the file is not what it would write.
"""

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

import raptors_arrow as ra

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "functions.md"

HEAD = """\
# Functions

Written by `scripts/functions.py` from the registry of functions: do not edit.

`x` is anything that can be seen as a matrix, and the result is of its library; see
[the Python package](python.md). Every function takes `width` too, for plain numbers. "Of floats"
and "of integers" say which elements the result has: *same* are those of `x`. "polars" says whether
the function is a method of expressions or of series only, "pyarrow" whether it can be registered
for datasets and Acero (a reduction with `axis=1`).
"""

TAIL = """\
`as_matrix(x, width=None)` sees an object as a matrix that any Arrow library can read; it is no
function of the registry, since it computes nothing.
"""


def sample(kind: str, x: pa.Array) -> Any:
    """Give a second argument of a kind."""
    row = pa.nulls(x.type.list_size, x.type.value_type)
    return {"number": 1, "operand": 1, "matrix": x, "queries": x}.get(kind, row)


def call(function: Any, x: pa.Array) -> tuple[list[Any], dict[str, Any]]:
    """Give the arguments and options of a call that works."""
    rest = [sample(kind, x) for kind in function.argument_kinds[1:]]
    return rest, {"type": x.type.value_type} if "type" in function.options else {}


def results(function: Any, *types: pa.DataType) -> str:
    """Say what elements a function gives for elements of some types."""
    if "type" in function.options:
        return "`type`"
    return " or ".join(dict.fromkeys(result(function, one) for one in types))


def result(function: Any, own: pa.DataType) -> str:
    x = pa.nulls(2, pa.list_(own, 2))
    rest, options = call(function, x)
    if function.gives == "reduced" and "axis" in function.options:
        options["axis"] = 0
    got = function(x, *rest, **options)
    if isinstance(got, tuple):
        # Places are int64 whatever the elements are, so integers are not said to be the same.
        own = own if pa.types.is_floating(own) else None
        return ", ".join(f"{name} {said(one, own)}" for name, one in got._asdict().items())
    return said(got, own)


def said(array: pa.Array, own: pa.DataType | None) -> str:
    """Say what the elements of a result are."""
    one = array.type.value_type if pa.types.is_nested(array.type) else array.type
    return "same" if one == own else ra.as_matrix(pa.nulls(0, one)).dtype


def places(function: Any) -> tuple[str, str]:
    """Say where else a function can be used: in polars, in pyarrow."""
    x = pa.array([[1.0, 2.0], [3.0, 5.0]], pa.list_(pa.float64(), 2))
    rest, options = call(function, x)
    try:
        getattr(pl.col("x").raptors, function.name)(*rest, **options)
        in_polars = "expressions"
    except ra.RaptorsTypeError:
        in_polars = "series"
    try:
        ra.pyarrow.register(function.name, x.type, **options)
        in_pyarrow = "yes"
    except ra.RaptorsValueError as error:
        in_pyarrow = "with `axis=1`" if "pass axis=1" in str(error) else "no"
    return in_polars, in_pyarrow


def row(function: Any) -> str:
    """Give a function's line of its family's table."""
    signature = function.signature.replace(", width=None)", ")").replace(", *)", ")")
    kinds = function.option_kinds.items()
    words = "; ".join(f"{k}: {', '.join(v)}" for k, v in kinds if isinstance(v, tuple))
    summary = function.summary + (f" {words.capitalize()}." if words else "")
    floats = results(function, pa.float16(), pa.float32(), pa.float64())
    integers = results(function, pa.int8(), pa.int64(), pa.uint8(), pa.uint64())
    cells = (f"`{function.name}{signature}`", summary, floats, integers, *places(function))
    return f"| {' | '.join(cells)} |\n"


def section(family: str, functions: list[Any]) -> str:
    """Give the section of a family."""
    lines = [f"## {family.capitalize()}\n\n"]
    lines.append("| function | what it does | of floats | of integers | polars | pyarrow |\n")
    lines.append("|---|---|---|---|---|---|\n")
    lines += [row(function) for function in functions]
    rules = dict.fromkeys(function.nulls for function in functions)
    for rule in rules:
        names = ", ".join(f"`{f.name}`" for f in functions if f.nulls == rule)
        lines.append(f"\n{f'{names}: ' if len(rules) > 1 else ''}{rule}\n")
    return "".join(lines)


def text() -> str:
    """Give the whole page."""
    functions = [ra.get_function(name) for name in ra.list_functions()]
    families = groupby(functions, lambda function: function.family)
    return "\n".join([HEAD, *(section(family, list(own)) for family, own in families), TAIL])


def main() -> int:
    """Write the page, or check it."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text())
        return 0
    if PAGE.read_text() != text():
        print(f"{PAGE.name} is stale: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
