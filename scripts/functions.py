"""Writes what the registry says of all functions.

docs/guide/functions.md has them in one table, docs/reference a page for each family, README.md
their names. ``--check`` writes nothing and fails if a file is not what it would write.
"""

import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from written import ROOT, write_or_check

import raptors_arrow as ra

TABLE = ROOT / "docs" / "guide" / "functions.md"
REFERENCE = ROOT / "docs" / "reference"
README = ROOT / "README.md"
MARKS = "<!-- functions: written by make generate -->\n", "<!-- end of functions -->\n"

HEAD = """\
# All functions

<!-- Written by `make generate` from the registry of functions: do not edit. -->

`x` is anything that can be seen as a matrix, and the result is of its library; see
[From Python](python.md). A function's name leads to its options, null rule and example. "Of floats"
and "of integers" say which elements the result has: *same* are those of `x`. "polars" says whether
the function is a method of expressions or of series only, "pyarrow" whether it can be registered
for datasets and Acero (a reduction with `axis=1`).
"""

#: What a reader of README.md is told of a family, where its name does not say it.
FAMILIES = {
    "reductions": "reductions, `axis=None`, `0` or `1`",
    "arithmetic": "arithmetic, alone or with a number, a row, a column or a matrix",
    "comparison": "comparisons, which give bool, and choices",
    "row by row": "row by row, with a matrix or one vector",
    "matrix": "products of matrices",
    "shape": "type and shape",
}
#: Families that multiply with a GEMM library.
EXEMPT = {"matrix"}

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
    given = [result(function, one) for one in types]
    own = [name_of(one) for one in types]
    texts = []
    for part in given[0]:
        names = [one[part] for one in given]
        said = "same" if names == own else " or ".join(dict.fromkeys(names))
        texts.append(f"{part} {said}".strip())
    return ", ".join(texts)


def result(function: Any, own: pa.DataType) -> dict[str, str]:
    """Give the element type of each part of a function's result; most have one, without a name."""
    x = pa.nulls(2, pa.list_(own, 2))
    rest, options = call(function, x)
    if function.gives == "reduced" and "axis" in function.options:
        options["axis"] = 0
    got = function(x, *rest, **options)
    named = got._asdict() if isinstance(got, tuple) else {"": got}
    return {part: name_of(array.type) for part, array in named.items()}


def name_of(kind: pa.DataType) -> str:
    """Name the elements of a type."""
    element = kind.value_type if pa.types.is_nested(kind) else kind
    return "bool" if pa.types.is_boolean(element) else ra.as_matrix(pa.nulls(0, element)).dtype


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
    except (ra.RaptorsValueError, ra.RaptorsTypeError) as error:
        in_pyarrow = "with `axis=1`" if "pass axis=1" in str(error) else "no"
    return in_polars, in_pyarrow


def row(function: Any) -> str:
    """Give a function's line of its family's table."""
    call = f"{function.name}({', '.join(function.arguments)})"
    link = f"[`{call}`](../reference/{slug(function.family)}.md#{function.name})"
    floats = results(function, pa.float16(), pa.float32(), pa.float64())
    integers = results(function, pa.int8(), pa.int64(), pa.uint8(), pa.uint64())
    cells = (link, function.summary, floats, integers, *places(function))
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


def table(families: dict[str, list[Any]]) -> str:
    """Give the page with all functions in tables."""
    return "\n".join([HEAD, *(section(*family) for family in families.items()), TAIL])


def slug(family: str) -> str:
    """Give the name of a family's page."""
    return family.replace(" ", "-")


def parts(doc: str) -> dict[str, str]:
    """Take a docstring apart: its sections by their titles."""
    _, *titled = re.split(r"^(\w+)\n-+\n", doc, flags=re.M)
    return {title: text.strip("\n") for title, text in zip(titled[::2], titled[1::2], strict=True)}


def parameters(text: str) -> str:
    """Give the table of a function's parameters."""
    lines = ["| parameter | type | |\n|---|---|---|\n"]
    for name, kind, meaning in re.findall(r"^(\w+) : (.*)\n    (.*)", text, re.M):
        lines.append(f"| `{name}` | {kind} | {meaning} |\n".replace("'", "`"))
    return "".join(lines)


def entry(function: Any) -> str:
    """Give the section of one function."""
    doc = parts(function.doc)
    floats = results(function, pa.float16(), pa.float32(), pa.float64())
    integers = results(function, pa.int8(), pa.int64(), pa.uint8(), pa.uint64())
    kind, _, meaning = doc["Returns"].partition("\n    ")
    in_polars, in_pyarrow = places(function)
    in_polars = "expressions and series" if in_polars == "expressions" else in_polars
    bits = (
        "the last digits depend on the machine ([why](../guide/numbers.md#what-is-exempt))"
        if function.family in EXEMPT
        else "the same bits everywhere"
    )
    facts = {
        "Result": f"{kind}. {meaning}",
        "Elements": f"of floats {floats}; of integers {integers}",
        "Nulls": function.nulls,
        "Numbers": bits,
        "polars": "`.raptors` of "
        + {"expressions": "expressions and series"}.get(in_polars, in_polars),
        "pyarrow datasets": in_pyarrow,
    }
    return "".join(
        [
            f"## {function.name}\n\n```py\nra.{function.name}{function.signature}\n```\n\n",
            f"{function.summary}\n\n{parameters(doc['Parameters'])}\n| | |\n|---|---|\n",
            *(f"| {what} | {said} |\n" for what, said in facts.items()),
            f"\n```pycon\n{doc['Examples']}\n```\n",
        ]
    )


def page(family: str, functions: list[Any]) -> str:
    """Give the reference page of a family."""
    head = f"# {family.capitalize()}\n\n<!-- Written by `make generate`: do not edit. -->\n\n"
    names = ", ".join(f"[`{f.name}`](#{f.name})" for f in functions)
    return "\n".join([f"{head}{names}\n", *map(entry, functions)])


def readme(families: dict[str, list[Any]]) -> str:
    """Give README.md with the names of all functions."""
    lines = ["| family | functions |\n|---|---|\n"]
    for family, functions in families.items():
        # Names for one axis are there for those who look for them; they are no functions more.
        names = " ".join(f.name for f in functions if not re.search("_axis[01]$", f.name))
        lines.append(f"| {FAMILIES.get(family, family)} | `{names}` |\n")
    before, rest = README.read_text().split(MARKS[0])
    return before + MARKS[0] + "".join(lines) + MARKS[1] + rest.split(MARKS[1])[1]


def files() -> dict[Path, str]:
    """Give all files with their contents."""
    functions = [ra.get_function(name) for name in ra.list_functions()]
    families = {name: list(own) for name, own in groupby(functions, lambda f: f.family)}
    pages = {REFERENCE / f"{slug(name)}.md": page(name, own) for name, own in families.items()}
    return {TABLE: table(families), README: readme(families), **pages}


if __name__ == "__main__":
    sys.exit(write_or_check(files()))
