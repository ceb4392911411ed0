"""Results in words, shared by the terminal and Markdown."""

from raptors_arrow.bench.bars import Bar
from raptors_arrow.bench.results import CellResult, Memory, Ratio, SuiteResult

__all__ = [
    "header",
    "left_out_lines",
    "limit_text",
    "measured_text",
    "ratio_text",
    "rows",
    "time_text",
]

#: How much a table tells: with intervals, with their half widths, or without.
FULL, SHORT, TERSE = "full", "short", "terse"

MEMORY_HEADER = ["cell", "inputs, MB", "outputs, MB", "growth, MB", "excess, MB"]


def time_text(seconds: float) -> str:
    """Write a time with three digits and its unit.

    Examples
    --------
    >>> time_text(12.3e-6), time_text(0.0042)
    ('12.3 µs', '4.20 ms')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 1e-9)} ns"


def _digits(value: float) -> str:
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def ratio_text(ratio: Ratio, form: str = FULL) -> str:
    """Write a ratio and its interval; a tie is marked."""
    text = ("≈" if ratio.verdict == "tie" else "") + _digits(ratio.ratio)
    if form == FULL:
        return f"{text} [{_digits(ratio.low)}, {_digits(ratio.high)}]"
    return text if form == TERSE else f"{text} ±{(ratio.high - ratio.low) / 2 / ratio.ratio:.0%}"


def left_out_lines(result: SuiteResult) -> list[str]:
    """Name what was not measured, a line for each contestant."""
    lines = []
    for who, reasons in result.left_out.items():
        missing = [reason.removeprefix("no ") for reason in reasons if reason.startswith("no ")]
        others = [reason for reason in reasons if not reason.startswith("no ")]
        lines.append(f"{who}: " + "; ".join(others + ["no " + ", ".join(missing)] * bool(missing)))
    return lines


def limit_text(bar: Bar) -> str:
    """Write what a bar demands."""
    return f"{'≤' if bar.at_most else '≥'} {bar.limit:.3g}"


def measured_text(value: float) -> str:
    """Write a figure that is held against a bar."""
    return _digits(value)


def header(result: SuiteResult) -> list[str]:
    """Name the columns of a suite's table."""
    if result.memory:
        return MEMORY_HEADER
    return ["cell", "ours", "spread", *result.peers, "roofline"] + ["ns/element"] * (
        result.suite == "scaling"
    )


def _cell_row(result: SuiteResult, one: CellResult, form: str) -> list[str]:
    """Write a cell; a peer that has no such function stays empty."""
    found = [one.ratio(peer) for peer in result.peers]
    row = [
        one.cell.name,
        time_text(one.ours.median),
        f"{time_text(one.ours.q1)} to {time_text(one.ours.q3)}"
        if form == FULL
        else f"±{(one.ours.q3 - one.ours.q1) / 2 / one.ours.median:.0%}",
        *("" if ratio is None else ratio_text(ratio, form) for ratio in found),
        "" if one.roofline is None else f"{one.roofline.share:.0%}",
    ]
    return row + [f"{one.per_element * 1e9:.3f}"] * (result.suite == "scaling")


def _memory_row(one: Memory) -> list[str]:
    """Write a measured peak."""
    sizes = (one.input_bytes, one.output_bytes, one.growth_bytes, one.excess_bytes)
    return [one.cell.name, *(f"{size / 1e6:.1f}" for size in sizes)]


def rows(result: SuiteResult, form: str = FULL) -> list[list[str]]:
    """Write all of a suite."""
    return [_memory_row(one) for one in result.memory] + [
        _cell_row(result, one, form) for one in result.cells
    ]
