"""``raptors-arrow bench``: the comparison with NumPy, pyarrow, polars and others.

Every cell (a function on a shape of a type) runs all contestants in turns in one process, so that
what disturbs one disturbs all, and reports ratios with confidence intervals. docs/perf has the
method. Only the arguments are here; what they need is imported when the command runs.
"""

import argparse
import sys
from pathlib import Path

__all__ = ["DESCRIPTION", "add_arguments", "run"]

DESCRIPTION = "Compare the speed with other libraries, interleaved in one process."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="NAME",
        help="seed (default), shapes, scaling, overhead, vectors, chains, memory, engines or all; "
        "may be repeated, or separated by commas",
    )
    what.add_argument("--peers", metavar="A,B", help="only these peers (default: all installed)")
    what.add_argument(
        "--filter", metavar="TEXT", help="only cells whose name contains the text or fits the glob"
    )
    what.add_argument("--list", action="store_true", help="list cells and peers, measure nothing")

    how = parser.add_argument_group("how")
    how.add_argument("--seconds", type=float, default=2.0, help="time for a cell (default: 2)")
    how.add_argument("--rounds", type=int, default=300, help="most rounds of a cell (default: 300)")
    how.add_argument("--threads", type=int, help="keep all contestants to this many CPUs")

    out = parser.add_argument_group("results")
    out.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    out.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    out.add_argument("--chart", type=Path, metavar="FILE", help="draw every ratio as an SVG")
    out.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="write dated records, charts and report.md to a folder such as docs/perf",
    )
    out.add_argument(
        "--min-ratio",
        type=float,
        metavar="R",
        help="exit 1 and name the cells whose ratio to NumPy (or to --peers) is below R",
    )
    out.add_argument(
        "--check-bars", action="store_true", help="exit 1 if a bar of the measured suites is missed"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command and give its exit code."""
    if args.threads is not None:
        from raptors_arrow.bench.threads import limit_cpus

        # Before NumPy and the peers are imported: their pools are made then.
        try:
            limit_cpus(args.threads)
        except ValueError as error:
            print(f"raptors-arrow bench: {error}", file=sys.stderr)
            return 2
    from raptors_arrow.bench.command import run

    return run(args)
