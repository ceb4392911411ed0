"""Writes the names of src/engine/polars/symbols.rs: every function whose result is a column."""

import re
import sys
import textwrap

from written import ROOT, write_or_check

import raptors_arrow as ra

SYMBOLS = ROOT / "src" / "engine" / "polars" / "symbols.rs"
LIST = re.compile(r"^symbols! \{\n.*?^\}", re.MULTILINE | re.DOTALL)


def written(text: str) -> str:
    """Give the file with the names of the table."""
    functions = map(ra.get_function, ra.list_functions())
    names = [f'"{f.name}"' for f in functions if f.gives not in ("matrix", "named")]
    lines = textwrap.fill(" ".join(names), 100, initial_indent="    ", subsequent_indent="    ")
    return LIST.sub(f"symbols! {{\n{lines}\n}}", text)


if __name__ == "__main__":
    sys.exit(write_or_check({SYMBOLS: written(SYMBOLS.read_text())}))
