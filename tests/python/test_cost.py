"""Seconds: what a call costs beside the ways it replaces, and how soon Ctrl-C is answered.

No part of `make test`, since other work on the machine disturbs it: `make bench-cost`.
"""

import os
import statistics
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from test_threads import interrupted

import raptors_arrow as ra

pytestmark = pytest.mark.timing


def ratio(ours, theirs, tries: int = 40, calls: int = 200) -> float:
    """Our time over theirs: the median of pairs that ran one behind the other."""
    ratios = []
    for _ in range(tries):
        start = time.perf_counter()
        for _ in range(calls):
            ours()
        middle = time.perf_counter()
        for _ in range(calls):
            theirs()
        ratios.append((middle - start) / (time.perf_counter() - middle))
    return statistics.median(ratios)


def at_most(limit: float, ours, theirs) -> None:
    """Hold a ratio to a limit, in one of a few tries: the machine may be busy."""
    seen = []
    for _ in range(5):
        seen.append(ratio(ours, theirs))
        if seen[-1] <= limit:
            return
    pytest.fail(f"expected at most {limit}, got {seen}")


def test_a_small_call_costs_no_more_than_pyarrow_or_numpy():
    flat = pa.array(np.arange(64, dtype="f4"))
    x = pa.FixedSizeListArray.from_arrays(flat, 8)
    at_most(1.0, lambda: ra.sum(x), lambda: pc.sum(flat))
    at_most(
        1 / 3,
        lambda: ra.mean(x, axis=0),
        lambda: x.flatten().to_numpy().reshape(-1, 8).mean(axis=0),
    )


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_ctrl_c_is_answered_within_a_fifth_of_a_second():
    assert min(interrupted() for _ in range(3)) < 0.2
