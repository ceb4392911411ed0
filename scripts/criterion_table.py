"""Turns what criterion prints into a Markdown table: one row a shape, one column a function."""

import re
import sys

UNITS = {"ns": 1e-3, "µs": 1.0, "us": 1.0, "ms": 1e3, "s": 1e6}


def main() -> None:
    text = sys.stdin.read()
    pattern = r"^(\w+)/(float\d\d)/([^/\n]+)/(\d+x\d+)\s+time:\s+\[\S+ \S+ (\S+) (\S+)"
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for _, kind, function, shape, value, unit in re.findall(pattern, text, re.MULTILINE):
        cells.setdefault((kind, shape), {})[function] = float(value) * UNITS[unit]
    functions = list(dict.fromkeys(name for row in cells.values() for name in row))
    print(f"| type | shape | {' | '.join(functions)} |")
    print(f"|---|---|{'--:|' * len(functions)}")
    for (kind, shape), row in cells.items():
        times = " | ".join(f"{row[name]:.0f}" if name in row else "" for name in functions)
        print(f"| {kind} | {shape} | {times} |")


if __name__ == "__main__":
    main()
