"""Arrow data that lies about itself is refused by name, and released exactly once."""

import json
import re
import subprocess
import sys

import malformed
import pytest

# Long enough for any machine: only a hang can take it.
GUARD = 600


@pytest.fixture(scope="module")
def outcomes():
    """What every case ended in. They run in another process, so that a crash is one failed test."""
    found, first = {}, 0
    while first < len(malformed.CASES):
        command = [sys.executable, malformed.__file__, str(first)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD)
            printed, crash = done.stdout, f"exit code {done.returncode}: {done.stderr[-2000:]}"
        except subprocess.TimeoutExpired as hung:
            printed, crash = (hung.stdout or b"").decode(), "it hangs"
        for line in printed.splitlines():
            outcome = json.loads(line)
            found[outcome["name"]] = outcome
            first += 1
        if first < len(malformed.CASES):
            found[malformed.CASES[first][0]] = {"crash": crash}
            first += 1
    return found


def test_the_table_is_as_large_as_it_looks():
    names = [name for name, *_ in malformed.CASES]
    assert len(set(names)) == len(names) >= 300


@pytest.mark.parametrize(("name", "error", "match"), [(n, e, m) for n, _, e, m in malformed.CASES])
def test_malformed_data_is_refused_by_name(outcomes, name, error, match):
    outcome = outcomes[name]
    assert "crash" not in outcome, outcome["crash"]
    assert "RaptorsError" in outcome["error"], outcome
    assert error in outcome["error"], outcome["message"]
    assert re.search(match, outcome["message"]), outcome["message"]
    assert outcome["message"].startswith("sum: ")
    assert "internal error" not in outcome["message"]
    assert outcome["printed"] == ""
    assert outcome["wrong"] == []
