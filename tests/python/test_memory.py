"""Nothing leaks: 100,000 round trips each way, exceptions included."""

import gc

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from forms import fixed

import raptors_arrow as ra

ROUNDS = 100_000


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def flat(work, rounds: int) -> None:
    """Run ``work`` and see that memory ends where it was after a warm-up."""
    for i in range(rounds // 10):
        work(i)
    gc.collect()
    before = pa.total_allocated_bytes(), ra.pool_stats().used_bytes, resident()
    for i in range(rounds):
        work(i)
    gc.collect()
    after = pa.total_allocated_bytes(), ra.pool_stats().used_bytes, resident()
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 8 << 20


def refused(call) -> None:
    try:
        call()
    except ra.RaptorsError:
        return
    pytest.fail("no error")


X = fixed(np.ones((16, 8), "f4"), np.arange(16) != 3)
CHUNKED = pa.chunked_array([X, X])
TEXT = pa.array(["no", "numbers"])
ARRAY = np.ones((16, 8), "f4")
NOTHING = np.ones((3, 0), "i2")
SERIES = pl.Series("x", ARRAY)
TABLE = pa.table({"a": [1.0, 2.0], "b": [3.0, None]})

pytestmark = pytest.mark.skipif(
    not __import__("os").path.exists("/proc/self/statm"), reason="needs /proc"
)


@pytest.mark.slow
def test_pyarrow_round_trips():
    def work(i):
        ra.scale(X, 2.0)
        ra.sum(X, axis=i % 2)
        if i % 4 == 0:
            refused(lambda: ra.sum(TEXT))
            refused(lambda: ra.add(X, X[:3]))

    flat(work, ROUNDS)


@pytest.mark.slow
def test_numpy_round_trips():
    def work(i):
        ra.scale(ARRAY, 2.0)
        ra.sum(ARRAY, axis=1)
        ra.argmin(NOTHING, axis=1)  # masked
        if i % 4 == 0:
            refused(lambda: ra.scale(ARRAY, ARRAY))

    flat(work, ROUNDS)


@pytest.mark.slow
def test_capsules_out_and_in_again():
    matrix = ra.as_matrix(X)

    def work(i):
        pa.array(matrix)
        matrix.__arrow_c_stream__()  # dropped without being read
        ra.as_matrix(X)

    flat(work, ROUNDS)


@pytest.mark.slow
def test_streams_tables_and_series():
    def work(i):
        ra.scale(CHUNKED, 2.0)
        ra.sum(SERIES, axis=0)
        ra.transpose(SERIES)
        ra.cast(SERIES, "int8")
        ra.scale(TABLE, 2.0)
        refused(lambda: ra.add(SERIES, CHUNKED))

    flat(work, ROUNDS // 10)


@pytest.mark.slow
def test_pooled_outputs_are_recycled():
    large = np.ones((256, 256))
    column = fixed(large)

    def work(i):
        ra.scale(large, 2.0)
        ra.scale(column, 2.0)

    flat(work, ROUNDS // 50)
