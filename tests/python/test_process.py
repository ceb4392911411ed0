"""What a process notices of us: nothing but our workers, and those only after a large call."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="the state of a process is read from /proc"
)

#: Says what the process is like at several points, one line of JSON each. The libraries whose
#: objects are passed are imported before: what they change is theirs.
REPORT = """
import ctypes, json, locale, os, platform, random, signal, sys, threading, time, warnings
import numpy as np, pyarrow as pa

libm = ctypes.CDLL("libm.so.6")
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p

def floating_point():
    # The control words: rounding, traps, subnormals. The flags beside them tell what was computed.
    words = (ctypes.c_uint32 * 16)()
    libm.fegetenv(words)
    if platform.machine() == "x86_64":
        return [words[0] & 0xffff, words[7] & ~0x3f]
    return [words[0]]

def of_thread(read):
    got = []
    thread = threading.Thread(target=lambda: got.append(read()))
    thread.start()
    thread.join()
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        time.sleep(0.001)
    return got[0]

def status(*names):
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return [lines[name].strip() for name in names]

def names_of_threads():
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            names.append(file.read().strip())
    return sorted(names)

def files():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:  # the directory that is listed
            pass
    return found

def state():
    mask = os.umask(0)
    os.umask(mask)
    return {
        "floating point": floating_point(),
        "floating point of a new thread": of_thread(floating_point),
        "subnormals": 5e-324 * 1.0 > 0 and float(np.float32(1e-45) * np.float32(1)) > 0,
        "signals": status("SigBlk", "SigIgn", "SigCgt"),
        "handlers": [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())],
        "pending signals": status("ShdPnd", "SigPnd"),
        "environment": dict(os.environ),
        "environment of C": str(libc.getenv(b"HOME")) + str(libc.getenv(b"RAYON_NUM_THREADS")),
        "files": files(),
        "directory": os.getcwd(),
        "mask": mask,
        "locale": locale.setlocale(locale.LC_ALL),
        "hooks": [str(sys.excepthook), str(threading.excepthook), str(sys.unraisablehook)],
        "paths": sys.path,
        "warnings": [str(one) for one in warnings.filters],
        "random": hash(random.getstate()),
        "recursion": sys.getrecursionlimit(),
        "affinity": sorted(os.sched_getaffinity(0)),
        "no new privileges": status("NoNewPrivs", "Seccomp"),
        "threads": names_of_threads(),
    }

def say():
    print(json.dumps(state()), flush=True)

small, large = np.ones((4, 4)), np.ones((1 << 20, 4), "f4")
column = pa.FixedSizeListArray.from_arrays(pa.array(large.reshape(-1)), 4)
random.seed(1)
say()
import raptors_arrow as ra
say()
for name in ["sum", "normalize", "sqrt"]:
    getattr(ra, name)(small)
say()
ra.set_num_threads(3)
for x in (large, column):
    for name in ("sum", "normalize", "gram", "std", "softmax"):
        getattr(ra, name)(x)
tiny = np.full((64, 64), 1e-310)
assert (ra.scale(tiny, 0.5) == tiny * 0.5).all(), "subnormals"
try:
    ra.sum("text")
except TypeError:
    pass
ra.release_unused()
say()
"""


def states() -> list[dict]:
    command = [sys.executable, "-c", REPORT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_import_and_calls_leave_the_process_as_it_was():
    before, imported, small, large = states()
    assert imported == before
    assert small == before
    ours = [name for name in large["threads"] if name.startswith("raptors-")]
    assert ours in ([], ["raptors-0"], ["raptors-0", "raptors-1"])  # as cores allow
    others = [name for name in large["threads"] if name not in ours]
    assert {**large, "threads": others} == before
