"""Runs ``raptors-arrow bench``: from arguments to tables, files and an exit code."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from raptors_arrow.bench import bars, chart, machine, markdown, report, runner, table
from raptors_arrow.bench.cells import SUITES, Cell, cells_of, select
from raptors_arrow.bench.check import MismatchError
from raptors_arrow.bench.peers import PEERS, Peer, by_name
from raptors_arrow.bench.results import SuiteResult
from raptors_arrow.bench.stats import MIN_ROUNDS

__all__ = ["below", "run"]

#: The suite of threads and sizes is long; who is not given by ``--peers`` stays at home.
FEW = {
    "scaling": ("numpy", "pyarrow"),
    "nulls": ("without-nulls", "numpy"),
    "engines": ("polars-lazy", "polars-streaming"),
    "groups": (
        *("numpy", "numpy-add-at", "numpy-loop", "polars"),
        *("without-groups", "pass-and-hash"),
    ),
}


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Returns
    -------
    int
        0; 1 if a cell is below ``--min-ratio`` or a bar is missed; 2 for a mistake in the
        arguments or a wrong result; 130 after Ctrl-C.
    """
    try:
        chosen = _suites(args)
        peers = None if args.peers is None else by_name(_split(args.peers))
        if args.rounds < MIN_ROUNDS or not 0 <= args.seconds < float("inf"):
            raise ValueError(
                f"--rounds, --seconds: expected at least {MIN_ROUNDS} rounds and a time of 0 or "
                f"more, got {args.rounds} and {args.seconds}"
            )
        if args.report is not None and args.filter is not None:
            raise ValueError(
                "--report: expected whole suites, since a record stands for its suite, got "
                f"--filter {args.filter!r}; write a part with --json, --markdown or --chart"
            )
        if args.list:
            return _list(chosen)
        return _measure(args, chosen, peers)
    except (MismatchError, OSError, RuntimeError, ValueError) as error:
        print(f"raptors-arrow bench: {error}", file=sys.stderr)
        return 2


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _suites(args: argparse.Namespace) -> dict[str, list[Cell]]:
    """Give the cells that the arguments ask for, by suite."""
    names = [name for text in args.suite for name in _split(text)] or ["seed"]
    if "all" in names:
        names = list(SUITES)
    for name in names:
        if name not in SUITES:
            raise ValueError(f"--suite: expected some of {', '.join(SUITES)} or all, got {name!r}")
    chosen = {name: select(cells_of(name), args.filter) for name in names}
    chosen = {name: cells for name, cells in chosen.items() if cells}
    if not chosen:
        raise ValueError(
            f"--filter: expected a part of a cell's name (see --list), got {args.filter!r}, which "
            f"is in none of {', '.join(names)}"
        )
    return chosen


def _list(chosen: dict[str, list[Cell]]) -> int:
    for suite, cells in chosen.items():
        for cell in cells:
            print(f"{suite}  {cell.name}")
    for peer in PEERS:
        print(f"peer  {peer.name}" + ("" if peer.installed else "  (not installed)"))
    return 0


def _measure(
    args: argparse.Namespace, chosen: dict[str, list[Cell]], peers: Sequence[Peer] | None
) -> int:
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, 160)  # a file has no edge
    budget = runner.Budget(args.seconds, args.rounds)
    results: list[SuiteResult] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    for suite, cells in chosen.items():
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
            task = bar.add_task(suite, total=len(cells), completed=-1)

            result = runner.measure_suite(
                suite, cells, _peers(suite, peers), budget, progress=partial(_step, bar, task)
            )
        results.append(result)
        table.print_suite(console, result)
        if result.interrupted:
            break
    _write(args, results, console)
    code = _judge(args, results, peers, console)
    return 130 if results[-1].interrupted else code


def _step(bar: Progress, task: TaskID, name: str) -> None:
    bar.update(task, advance=1, description=name)


def _peers(suite: str, asked: Sequence[Peer] | None) -> Sequence[Peer]:
    """Give the peers of a suite: those asked for, else its few, else all."""
    if asked is not None:
        return asked
    return by_name(FEW[suite]) if suite in FEW else PEERS


def _write(args: argparse.Namespace, results: Sequence[SuiteResult], console: Console) -> None:
    """Write the files that the arguments ask for."""
    packages = ("numpy", "pyarrow", *(peer.package for peer in PEERS))
    here = machine.describe(packages)
    written = []
    if args.json is not None:
        report.write_json(args.json, results, here)
        written.append(args.json)
    if args.markdown is not None:
        args.markdown.write_text(markdown.page(results, here), encoding="utf-8")
        written.append(args.markdown)
    if args.chart is not None:
        drawn = [result for result in results if result.cells]
        for result in drawn:
            path = args.chart
            if len(drawn) > 1:
                path = path.with_stem(f"{path.stem}-{result.suite}")
            path.write_text(chart.draw(result), encoding="utf-8")
            written.append(path)
    if args.report is not None:
        written += report.write_report(args.report, results, here)
    for path in written:
        console.print(f"wrote {path}", highlight=False, markup=False, soft_wrap=True)


def below(
    results: Sequence[SuiteResult], min_ratio: float, peers: Sequence[str]
) -> list[tuple[str, str, float]]:
    """List the cells whose ratio to one of some peers is below a number."""
    return [
        (f"{result.suite}: {one.cell.name}", ratio.peer, ratio.ratio)
        for result in results
        for one in result.cells
        for ratio in one.ratios
        if ratio.peer in peers and ratio.ratio < min_ratio
    ]


def _judge(
    args: argparse.Namespace,
    results: Sequence[SuiteResult],
    peers: Sequence[Peer] | None,
    console: Console,
) -> int:
    """Hold the results against what the arguments demand."""
    code = 0
    if args.min_ratio is not None:
        names = ["numpy"] if peers is None else [peer.name for peer in peers]
        slow = below(results, args.min_ratio, names)
        for name, peer, ratio in slow:
            print(f"below {args.min_ratio:g}: {name} against {peer}: {ratio:.3f}", file=sys.stderr)
        code = 1 if slow else code
    if args.check_bars:
        outcomes = bars.evaluate(results)
        table.print_bars(console, outcomes)
        missed = [one for one in outcomes if not one.met]
        console.print(f"{len(outcomes) - len(missed)} bars met, {len(missed)} missed")
        code = 1 if missed else code
    return code
