"""``raptors-arrow tune``: measures this machine and keeps a profile that later processes read."""

import argparse
import json
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from struct import calcsize
from typing import Any, Literal, NamedTuple

import raptors_arrow as ra
from raptors_arrow import _native

__all__ = ["DESCRIPTION", "add_arguments", "run"]

Values = dict[str, float]

# A wake that takes longer has waited for a core that others kept busy. Plans that believed it
# would wake nobody.
_BUSY_NS = 1e6

_UNITS = {
    "wake_ns": "ns",
    "near_bandwidth": "GB/s",
    "far_bandwidth": "GB/s",
    "far_scaling": "times",
    "shared_gain": "share",
}


class _Work(NamedTuple):
    """A call that people make: its plan is shown before and after."""

    function: str
    rows: int
    width: int
    dtype: str

    def __str__(self) -> str:
        return f"{self.function} {self.rows:,} x {self.width:,} {self.dtype}"


# From what fits the first cache to what fits none, square, narrow and wide.
_TYPICAL = [
    _Work(function, rows, width, dtype)
    for function in ("sum", "scale")
    for rows, width in [
        (512, 512),
        (1_000, 768),
        (1_024, 1_024),
        (1_000_000, 3),
        (2_048, 2_048),
        (50_000, 768),
    ]
    for dtype in ("float32", "float64")
]


DESCRIPTION = (
    "Measures what waking a thread costs and how fast caches and memory are, in at most 10 "
    "seconds, and writes a profile that later processes read. It changes speed, never a result. "
    "Best on an idle machine."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="measure and show, write nothing")
    what.add_argument("--reset", action="store_true", help="remove the profile")
    parser.add_argument(
        "--force", action="store_true", help="write even what was measured on a busy machine"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, and no progress")


def run(args: argparse.Namespace) -> int:
    """Run the command and give its exit code.

    It is 1 if the profile could not be written or removed, or was not written since the machine was
    busy.
    """
    try:
        return _reset(args.json) if args.reset else _tune(args.dry_run, args.force, args.json)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1


def _reset(as_json: bool) -> int:
    path, removed = _native._remove_profile()
    if as_json:
        print(json.dumps({"path": str(path), "removed": removed}))
    else:
        print(f"removed {path}" if removed else f"there was no profile at {path}")
    return 0


def _tune(dry_run: bool, force: bool, as_json: bool) -> int:
    ra.get_num_threads()  # settings that cannot be honoured are an error now, not in the end
    with _progress(quiet=as_json) as told:
        measured = _native._measure(told)
    status = ra.profile_status()
    before = status["measured"]
    busy = measured["wake_ns"] > _BUSY_NS
    writes = not dry_run and (force or not busy)
    report = {
        "measured": _changes(before, measured),
        "model": _changes(_native._model(), _native._model(measured)),
        "plans": plan_changes(measured),
        "busy": busy,
        "written": str(_native._write_profile(measured)) if writes else None,
    }
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        _show(report, "the profile" if before else "the defaults")
    return 0 if writes or dry_run else 1


def _changes(before: Values | None, after: Values) -> dict[str, dict[str, float | None]]:
    old = before or {}
    return {name: {"before": old.get(name), "after": value} for name, value in after.items()}


def plan_changes(
    after: Values, before: Values | None = None, works: list[_Work] | None = None
) -> list[dict[str, Any]]:
    """Compare the plans of typical calls.

    Parameters
    ----------
    after
        The measurements that the later plans follow.
    before
        Those of the earlier plans; if not given, what is in force.
    works
        The calls; if not given, typical ones.

    Returns
    -------
    list of dict
        For each call its ``work``, its plan ``before`` and ``after`` as ``threads`` and
        ``store``, and whether they are ``changed``.
    """
    changes = []
    for work in _TYPICAL if works is None else works:
        moves = _moves(work)
        plans = [
            dict(zip(("threads", "store"), _native._plan(*moves, values), strict=True))
            for values in (before, after)
        ]
        changes.append(
            {
                "work": str(work),
                "before": plans[0],
                "after": plans[1],
                "changed": plans[0] != plans[1],
            }
        )
    return changes


def _moves(work: _Work) -> tuple[int, int, bool]:
    """Ask the registry what a call moves. The pages are never touched, so they take no memory."""
    code: Literal["f", "d"] = "f" if work.dtype == "float32" else "d"
    with mmap.mmap(-1, work.rows * work.width * calcsize(code)) as pages:
        with memoryview(pages) as flat:
            with flat.cast(code, (work.rows, work.width)) as matrix:
                more = (2.0,) if work.function == "scale" else ()
                plan = ra.explain(work.function, matrix, *more)
    return plan.bytes_read, plan.bytes_written, plan.backend == "vdsp"


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show how far the measurement is: a bar if rich is there, a line per round if not."""
    if quiet:
        yield lambda done, steps, name: None
        return
    try:
        from rich.progress import Progress
    except ImportError:
        yield _line
        return
    with Progress(transient=True) as bar:
        task = bar.add_task("measuring", total=None)

        def told(done: int, steps: int, name: str) -> None:
            bar.update(task, completed=done, total=steps, description=f"measuring {name}")

        yield told


def _line(done: int, steps: int, name: str) -> None:
    if name == "wake_ns":
        print(f"measuring: {done} of {steps} steps done", flush=True)


def _show(report: dict[str, Any], before: str) -> None:
    rows = [
        (name, _number(change["before"]), _number(change["after"]), _UNITS.get(name, "GB/s"))
        for name, change in report["measured"].items()
    ]
    _table("measured", ("what", "last profile", "now", "unit"), rows)
    rows = [
        (name, _number(change["before"]), _number(change["after"]), _UNITS[name])
        for name, change in report["model"].items()
    ]
    _table("what plans weigh", ("what", before, "now", "unit"), rows)
    plans = [
        (plan["work"], _plan(plan["before"]), _plan(plan["after"]))
        for plan in report["plans"]
        if plan["changed"]
    ]
    if plans:
        _table("plans that change", ("call", "before", "after"), plans)
    print(f"{len(plans)} of {len(report['plans'])} typical plans change.")
    if report["busy"]:
        print("Waking a thread took longer than 1 ms: other work kept the cores busy. Tune again")
        print("when the machine is idle (--force writes such a profile all the same).")
    if report["written"]:
        print(f"Written to {report['written']}; processes started from now on use it.")
    else:
        print("Nothing was written.")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def _plan(plan: dict[str, Any]) -> str:
    return f"{plan['threads']} thread{'s' * (plan['threads'] > 1)}, {plan['store']}"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(f"\n{title}")
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  " + "  ".join(cells).rstrip())
    print()
