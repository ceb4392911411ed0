"""Children that are started at awkward moments: in the first call, in a handler, during a call."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Long enough for the busiest machine: a child that hangs is what it finds.
PATIENCE = 300


def run(code):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_fork_during_the_first_call_leaves_a_child_that_computes():
    """Nothing that a first call sets up is behind a lock that the child would find closed."""
    for delay in range(50):
        run(f"""
        import os, threading
        import numpy as np
        import raptors_arrow._native as ra

        x = np.ones((1000, 300))
        begun = threading.Event()
        def first_call():
            begun.set()
            ra.matmul(x, x.T.copy())
            ra.sum(x)
        thread = threading.Thread(target=first_call)
        thread.start()
        begun.wait()
        for _ in range({delay} * 20):
            pass
        child = os.fork()
        if child == 0:
            os._exit(0 if ra.sum(x) == 300_000.0 and ra.get_num_threads() > 0 else 3)
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
        """)


def test_forks_as_fast_as_threads_take_turns_leave_children_that_compute():
    """The GIL changes hands within a first call; no cell is locked while another thread has it."""
    for _ in range(40):
        run("""
        import os, sys, threading
        import numpy as np
        import raptors_arrow._native as ra

        x = np.ones((4, 3))
        begun = threading.Event()
        def calls():
            begun.set()
            ra.add(x, x), ra.sum(x, axis=0, skip_nulls=True), ra.normalize(x)
        sys.setswitchinterval(1e-6)
        thread = threading.Thread(target=calls)
        thread.start()
        begun.wait()
        children = []
        for _ in range(6):
            children.append(os.fork())
            if children[-1] == 0:
                calls()
                os._exit(0)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
        thread.join()
        """)


def test_a_fork_in_a_signal_handler_that_returns_into_the_call():
    """The parent goes on; in the child the call ends with an error of ours, and the next works."""
    out = run("""
    import os, signal, sys
    import numpy as np
    import raptors_arrow as ra

    ra.set_num_threads(2)
    large = np.broadcast_to(np.arange(1000.0), (30_000_000, 1000))
    children = []

    class Enough(Exception):
        pass

    def handler(number, frame):
        if children:
            raise Enough  # the parent has seen that the call went on
        children.append(os.fork())

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        ra.sum(large)
        ended = "with a result"
    except Enough:
        ended = "by the handler"
    except ra.RaptorsError as error:
        ended = str(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if children[0] == 0:
        again = ra.sum(large[:10])
        os._exit(0 if "forked" in ended and again == 4_995_000.0 else 3)
    print(ended, os.waitpid(children[0], 0)[1])
    """)
    assert out.strip() == "by the handler 0"


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["after", "during"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_fifty_children_compute_and_none_hangs(method, moment):
    script = Path(__file__).with_name("children.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, method, moment, "50"],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "50 children\n"
