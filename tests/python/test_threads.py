"""Threads, the GIL, fork and Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from calls import PRODUCTS, calls, numbers
from forms import fixed, values_of

import raptors_arrow as ra


def bits(result) -> bytes:
    return np.ascontiguousarray(values_of(result)).tobytes()


def long_column(gigabytes: float) -> pa.ChunkedArray:
    """A column of many gigabytes that takes the memory of one chunk."""
    chunk = fixed(np.ones((1 << 16, 32), "f4"))
    return pa.chunked_array([chunk] * int(gigabytes * 1e9 / chunk.nbytes))


def test_eight_threads_at_once():
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((2000, 64)) for _ in range(8)]
    columns = [fixed(a) for a in arrays]
    expected = [(ra.sum(c), ra.scale(c, 2).to_pylist()[5]) for c in columns]

    def work(i):
        for _ in range(40):
            assert ra.sum(columns[i]) == ra.sum(arrays[i]) == expected[i][0]
            assert ra.scale(columns[i], 2).to_pylist()[5] == expected[i][1]
            with pytest.raises(TypeError):
                ra.sum("x")
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_one_object_from_eight_threads():
    column = fixed(np.ones((100_000, 8), "f4"))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: ra.sum(column), range(64))) == {800_000.0}


def test_every_function_from_eight_threads():
    values = numbers((300, 8), "f4", "sqrt")
    work = [(name, *call) for name in ra.list_functions() for call in calls(name, values)]
    run = [bits(getattr(ra, name)(values, *rest, **options)) for name, rest, options in work]

    def again(i):
        name, rest, options = work[i]
        return name in PRODUCTS or bits(getattr(ra, name)(values, *rest, **options)) == run[i]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(again, list(range(len(work))) * 4))


def test_other_threads_run_while_a_kernel_does():
    values = np.ones(1 << 25, "f4")
    ticks = 0
    done = threading.Event()

    def tick():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(600)  # now a thread runs only when another gives the GIL up
    try:
        ticker.start()
        for _ in range(1000):  # a busy machine may not come to the ticker in one call
            before = ticks
            ra.sum(values)
            if ticks > before:
                return
        pytest.fail("no other thread ran during any of the calls")
    finally:
        sys.setswitchinterval(interval)
        done.set()
        ticker.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, if another test loaded it
def test_a_forked_child_works_after_the_pool_has_started():
    values = np.ones((2_000_000, 8), "f4")
    assert ra.sum(values) == 16_000_000.0
    assert ra.scale(values, 2)[0, 0] == 2
    for _ in range(5):
        child = os.fork()
        if child == 0:
            good = ra.sum(values) == 16_000_000.0 and ra.scale(values, 2)[5, 5] == 2
            os._exit(0 if good else 1)
        deadline = time.monotonic() + 600
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                assert status == 0
                break
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                pytest.fail("the forked child hangs")
            time.sleep(0.01)


INTERRUPTED = """
import os, signal, sys, threading, time
sys.path.insert(0, {here!r})
from test_threads import long_column
import raptors_arrow as ra

column = long_column(400)
begun = threading.Event()
sent = []

def interrupt():
    begun.wait()
    time.sleep(0.3)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    begun.set()
    ra.sum(column)
except KeyboardInterrupt:
    print(time.perf_counter() - sent[0])
else:
    sys.exit("ran to its end")
assert ra.sum(column[:2]) == 2.0 * 32
"""


def interrupted() -> float:
    """Interrupt a call that would take most of a minute; the seconds until it ended."""
    code = INTERRUPTED.format(here=os.path.dirname(__file__))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return float(run.stdout)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_ctrl_c_ends_a_long_call():
    interrupted()


def test_what_a_signal_handler_raises_comes_through():
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            ra.sum(long_column(400))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
