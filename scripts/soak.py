"""Half an hour of mixed calls from four threads: every bit as expected, and memory stays flat.

``make soak``, or ``python scripts/soak.py 5`` for five minutes. Prints what it measured each
minute, and fails if an answer changes, a thread hangs, or the resident memory at the end is more
than 5 % above that after the first tenth of the time.
"""

import faulthandler
import gc
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

from stress import Stress  # noqa: E402

import raptors_arrow as ra  # noqa: E402

THREADS = 4
GROWTH = 1.05
#: Seconds between two looks at the memory, and after which a part that has not ended is hanging.
EVERY = 60
HANGS = 900


def resident() -> int:
    """Bytes of this process in memory, with nothing waiting to be used again."""
    gc.collect()
    ra.release_unused()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def main() -> None:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 30
    began = time.monotonic()
    left = began + 60 * minutes
    stress = Stress(seed=int(began), shapes=24)
    print(f"{len(stress.cases)} calls with known answers, seed {stress.seed}", flush=True)
    first = None
    part = min(EVERY, 6 * minutes)
    while time.monotonic() < left:
        faulthandler.dump_traceback_later(HANGS, exit=True)
        until = min(time.monotonic() + part, left)
        stress.run(THREADS, sys.maxsize, lambda until=until: time.monotonic() < until)
        faulthandler.cancel_dump_traceback_later()
        now = resident()
        passed = time.monotonic() - began
        # What is loaded or cached on first use is there after a tenth of the time.
        if first is None and passed >= 6 * minutes:
            first = now
        print(f"{passed:.0f} s: {stress.calls} calls, {now >> 20} MiB resident", flush=True)
    made, released = stress.released.made, stress.released.released
    if made != released:
        sys.exit(f"{made - released} of {made} imports were not released")
    if first is None or now > GROWTH * first:
        sys.exit(f"memory grew from {(first or 0) >> 20} to {now >> 20} MiB")
    print(f"no wrong bit in {stress.calls} calls; memory {first >> 20} -> {now >> 20} MiB")


if __name__ == "__main__":
    main()
