"""The folder of records: dated JSON, a chart for each suite, and report.md made from them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raptors_arrow.bench import bars, chart, markdown
from raptors_arrow.bench import machine as machines
from raptors_arrow.bench.cells import SUITES
from raptors_arrow.bench.results import SCHEMA, SuiteResult, from_json

__all__ = ["document", "write_report"]

HEAD = """# The comparison

Written by `make perf` from the newest record of each suite, measured [like this](README.md). A
ratio is the peer's time over ours, with its 95 % interval: above 1 we are faster, ≈ marks a tie.
The roofline is the shortest time in which the memory can move the bytes that must move, over our
time.
"""


def document(results: Sequence[SuiteResult], machine: dict[str, Any]) -> dict[str, Any]:
    """Give everything measured in one run as JSON values."""
    return {
        "schema": SCHEMA,
        "date": machine["date"],
        "machine": machine,
        "suites": [result.to_json() for result in results],
    }


def write_json(path: Path, results: Sequence[SuiteResult], machine: dict[str, Any]) -> None:
    """Write everything measured in one run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document(results, machine), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def write_report(
    folder: Path, results: Sequence[SuiteResult], machine: dict[str, Any]
) -> list[Path]:
    """Write a record and a chart for each suite, and report.md from all newest records.

    A suite that was interrupted is not recorded.

    Returns
    -------
    list of Path
        What was written.
    """
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        if result.interrupted or not (result.cells or result.memory):
            continue
        record = folder / "records" / f"{machine['date'][:10]}-{result.suite}.json"
        write_json(record, [result], machine)
        written.append(record)
        if result.cells:
            picture = folder / "charts" / f"{result.suite}.svg"
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_text(chart.draw(result), encoding="utf-8")
            written.append(picture)
    if not written:
        return []
    page = folder / "report.md"
    page.write_text(_page(_newest(folder)), encoding="utf-8")
    return [*written, page]


def _newest(folder: Path) -> list[tuple[Path, SuiteResult, dict[str, Any]]]:
    """Read the newest record of each suite; names begin with the date, so they sort by it."""
    found = []
    for suite in SUITES:
        paths = sorted((folder / "records").glob(f"????-??-??-{suite}.json"))
        if paths:
            value = json.loads(paths[-1].read_text(encoding="utf-8"))
            if value.get("schema") != SCHEMA:
                raise ValueError(
                    f"{paths[-1].name}: expected a record of schema {SCHEMA}, got "
                    f"{value.get('schema')}; measure the suite again"
                )
            found.append((paths[-1], from_json(value["suites"][0]), value["machine"]))
    return found


def _page(found: Sequence[tuple[Path, SuiteResult, dict[str, Any]]]) -> str:
    results = [result for _, result, _ in found]
    parts = [HEAD.rstrip()]
    if found:
        parts += ["## Bars", markdown.bars_table(bars.evaluate(results))]
        parts += ["## Geometric means", markdown.means_table(results)]
    for path, result, machine in found:
        parts += [
            f"## {result.suite}",
            f"[{machine['date'][:10]}](records/{path.name}), {result.threads} threads, on "
            f"{machines.summary(machine)}.",
        ]
        if result.cells:
            parts.append(f"![ratios of the suite {result.suite}](charts/{result.suite}.svg)")
        parts += [
            f'<details markdown="1"><summary>every cell of {result.suite}</summary>',
            markdown.suite_table(result),
            "</details>",
            markdown.left_out(result),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"
