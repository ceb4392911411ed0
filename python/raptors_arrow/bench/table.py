"""Results in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from raptors_arrow.bench.bars import Outcome
from raptors_arrow.bench.results import SuiteResult
from raptors_arrow.bench.words import (
    FULL,
    SHORT,
    TERSE,
    header,
    left_out_lines,
    limit_text,
    measured_text,
    rows,
)

__all__ = ["print_bars", "print_suite"]

COLOURS = {"faster": "green", "tie": "yellow", "slower": "red"}


def print_suite(console: Console, result: SuiteResult) -> None:
    """Print every cell, the geometric means, and what was left out."""
    # As much as fits: a table of seven peers is wider than most terminals.
    for form in (FULL, SHORT, TERSE):
        table = _table(result, form)
        if table.__rich_measure__(console, console.options.update(width=1000)).maximum <= (
            console.width
        ):
            break
    if table.rows:
        console.print(table)
    for peer in result.peers:
        mean = measured_text(result.geometric_mean(peer))
        console.print(f"geometric mean against {peer}: {mean}", highlight=False)
    for line in left_out_lines(result):
        console.print(f"left out: {line}", style="dim", highlight=False, markup=False)
    if result.interrupted:
        console.print(f"{result.suite}: interrupted, the rest is missing", style="yellow")


def _table(result: SuiteResult, form: str) -> Table:
    what = "growth of the peak by a call" if result.memory else "time of peers over ours"
    table = Table(title=f"{result.suite}: {what}, {result.threads} threads")
    names = header(result)
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=number < 2)
    for number, row in enumerate(rows(result, form)):
        ratios = {one.peer: one for one in result.cells[number].ratios} if result.cells else {}
        table.add_row(
            *(
                Text(text, COLOURS[ratios[name].verdict] if name in ratios else "")
                for name, text in zip(names, row, strict=True)
            )
        )
    return table


def print_bars(console: Console, outcomes: Sequence[Outcome]) -> None:
    """Print the bars and what was measured."""
    table = Table(title="bars")
    for name in ("bar", "suites", "demanded", "measured", "worst", "met"):
        table.add_column(name)
    for one in outcomes:
        bar = one.bar
        met = Text("yes", "green") if one.met else Text("no", "red")
        figures = (limit_text(bar), measured_text(one.measured), one.worst)
        table.add_row(bar.text, ", ".join(bar.suites), *figures, met)
    console.print(table)
