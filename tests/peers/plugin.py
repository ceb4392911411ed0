"""A pytest plugin that runs other libraries' own tests with our functions in the place of theirs.

``-p plugin`` replaces those of NumPy in every run, and those of the library under test. Tests that
may differ are in accepted.py, with the reason; each must be one that really runs.
"""

from __future__ import annotations

import json
import os
from fnmatch import fnmatch
from pathlib import Path

import pytest
import replaced
from accepted import ACCEPTED


def pytest_configure(config: pytest.Config) -> None:
    libraries = os.environ.get("PEERS_REPLACED", "numpy").split(",")
    replaced.replace(tuple(name for name in libraries if name))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = (
            f"{item.path.as_posix().split('site-packages/')[-1]}::{item.nodeid.split('::', 1)[-1]}"
        )
        for pattern, reason in ACCEPTED.items():
            if fnmatch(name, pattern):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    stats = terminalreporter.stats
    counts = {kind: len(stats.get(kind, ())) for kind in ("passed", "failed", "error", "xfailed")}
    answered, passed_on = dict(replaced.ANSWERED), dict(replaced.PASSED_ON)
    for report in stats.get("failed", []) + stats.get("error", []):
        terminalreporter.write_line(f"differs: {report.location[0]} {report.nodeid}")
    terminalreporter.section("calls that ours answered")
    for name in sorted(answered | passed_on):
        line = (
            f"{name}: {answered.get(name, 0)} of {answered.get(name, 0) + passed_on.get(name, 0)}"
        )
        terminalreporter.write_line(line)
    if path := os.environ.get("PEERS_REPORT"):
        Path(path).write_text(json.dumps({"tests": counts, "answered": answered}))
