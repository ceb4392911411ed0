"""Writes what the examples of src/python/examples.txt print, and one for each function without.

The examples are lines that begin with ``>>>``, under the name of their function; what follows
them is written here, by running them on the ``x`` that every docstring makes first.
"""

import contextlib
import doctest
import io
import sys

import pyarrow as pa
from written import ROOT, write_or_check

import raptors_arrow as ra

EXAMPLES = ROOT / "src" / "python" / "examples.txt"

#: A second argument of each kind, for a function that has no example yet.
SECOND = {
    "operand": "10.0",
    "number": "10.0",
    "row": "pa.array([10.0, 20.0])",
    "vectors": "pa.array([10.0, 20.0])",
    "queries": "pa.array([10.0, 20.0])",
    "matrix": "pa.array([[1.0, 0.0], [0.0, 1.0]], x.type)",
}


def printed(source: str, names: dict[str, object]) -> str:
    """Run a line as the prompt does, and give what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "<example>", "single"), names)
    return out.getvalue()


def first(name: str) -> str:
    """Give the first example of a function: a call with nothing but what it needs."""
    function = ra.get_function(name)
    more = "".join(f", {SECOND[kind]}" for kind in function.argument_kinds[1:])
    call = f"ra.{name}(x{more})"
    names = {"pa": pa, "ra": ra, "x": example_x()}
    if hasattr(eval(call, names), "to_pylist"):
        call += ".to_pylist()"
    return f">>> {call}\n"


def example_x() -> pa.Array:
    return pa.array([[1.0, 2.0], None, [3.0, 6.0]], pa.list_(pa.float64(), 2))


def written(text: str) -> str:
    """Give the examples with what they print."""
    head, *pieces = text.split("\n# ")
    known = {piece.partition("\n")[0]: piece.partition("\n")[2] for piece in pieces}
    known |= {name: first(name) for name in ra.list_functions() if name not in known}
    parts = [head]
    for name, body in known.items():
        names = {"pa": pa, "ra": ra, "x": example_x()}
        lines = []
        for example in doctest.DocTestParser().get_examples(body):
            source = example.source.rstrip("\n").split("\n")
            prompts = [">>> ", *["... "] * (len(source) - 1)]
            lines += [mark + line for mark, line in zip(prompts, source, strict=True)]
            lines += printed(example.source, names).splitlines()
        parts.append("\n".join([name, *lines]))
    return "\n# ".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({EXAMPLES: written(EXAMPLES.read_text())}))
