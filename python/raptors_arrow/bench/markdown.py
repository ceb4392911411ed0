"""Results as Markdown."""

from collections.abc import Sequence
from typing import Any

from raptors_arrow.bench import machine as machines
from raptors_arrow.bench.bars import Outcome
from raptors_arrow.bench.results import SuiteResult
from raptors_arrow.bench.words import header, left_out_lines, limit_text, measured_text, rows

__all__ = ["bars_table", "means_table", "page", "suite_table"]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    marks = ["---"] + ["--:"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, marks, *lines))


def suite_table(result: SuiteResult) -> str:
    """Write every cell of a suite."""
    return _table(header(result), rows(result))


def means_table(results: Sequence[SuiteResult]) -> str:
    """Write the geometric means, wins, ties and losses against each peer."""
    lines = []
    for result in results:
        for peer in result.peers:
            found = [ratio for one in result.cells if (ratio := one.ratio(peer)) is not None]
            verdicts = [ratio.verdict for ratio in found]
            counts = [str(verdicts.count(kind)) for kind in ("faster", "tie", "slower")]
            mean = measured_text(result.geometric_mean(peer))
            lines.append([result.suite, peer, mean, *counts])
    return _table(["suite", "peer", "geometric mean", "faster", "tie", "slower"], lines)


def bars_table(outcomes: Sequence[Outcome]) -> str:
    """Write the bars and what was measured."""
    return _table(
        ["bar", "suites", "demanded", "measured", "worst", "met"],
        [
            [
                one.bar.text,
                ", ".join(one.bar.suites),
                limit_text(one.bar),
                measured_text(one.measured),
                one.worst,
                "yes" if one.met else "**no**",
            ]
            for one in outcomes
        ],
    )


def left_out(result: SuiteResult) -> str:
    """Name what is not in a suite's table."""
    if not result.left_out:
        return ""
    return "Left out: " + "; ".join(left_out_lines(result)) + "."


def page(results: Sequence[SuiteResult], machine: dict[str, Any]) -> str:
    """Write a page with everything measured in one run."""
    parts = [f"# raptors-arrow bench, {machine['date'][:10]}", machines.summary(machine)]
    parts.append("A ratio is the peer's time over ours, with its 95 % interval; ≈ marks a tie.")
    if any(result.cells for result in results):
        parts.append(means_table(results))
    for result in results:
        parts += [f"## {result.suite}", suite_table(result), left_out(result)]
    return "\n\n".join(part for part in parts if part) + "\n"
