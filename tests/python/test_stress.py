"""Eight threads, mixed calls, and everything that can be changed meanwhile."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stress import Stress

CODE = """
import faulthandler, gc, sys
faulthandler.dump_traceback_later(500, exit=True)
sys.path.insert(0, {here!r})
import raptors_arrow as ra
from stress import Stress

stress = Stress(seed=3, shapes=16)
assert len(stress.cases) > 500, len(stress.cases)
names = {{case.name for case in stress.cases}}
assert names == set(ra.list_functions()), set(ra.list_functions()) - names
stress.run(threads=8, rounds=150)
assert stress.calls == 8 * 150
made, released = stress.released.made, stress.released.released
assert made == released > 0, (made, released)
stress.cases.clear()
gc.collect()
assert ra.pool_stats().used_bytes == 0, ra.pool_stats()
print("good")
"""


def test_eight_threads_of_mixed_calls_keep_every_bit():
    # In a process of its own: a deadlock ends with the stacks of all threads, not with the run.
    code = CODE.format(here=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "good\n"


def test_a_changed_bit_is_noticed():
    case = next(case for case in Stress(seed=1, shapes=1).cases if case.name == "scale")
    result = np.array(case.run())
    case.check(result)
    result.reshape(-1).view("u1")[0] ^= 1
    with pytest.raises(AssertionError, match="scale.*other bits"):
        case.check(result)
