"""Peak memory of a call: how much it raises the peak of a fresh process.

Each call has a process of its own, since a peak never falls and freed memory is used again. This
module is also that process: ``python -m raptors_arrow.bench.memory CELL`` prints the growth.
"""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

from raptors_arrow.bench.cells import Cell
from raptors_arrow.bench.functions import FUNCTIONS
from raptors_arrow.bench.inputs import Inputs
from raptors_arrow.bench.results import Memory

__all__ = ["measure", "peak_bytes"]

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Give the most memory that this process has had resident.

    On Linux from ``VmHWM``: ``ru_maxrss`` outlives ``exec`` there, so that a child of a large
    process begins with the peak of its parent.
    """
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def measure(cell: Cell) -> Memory:
    """Run a cell's call in a process of its own and give what it needed."""
    child = subprocess.run(
        [sys.executable, "-m", "raptors_arrow.bench.memory", json.dumps(asdict(cell))],
        capture_output=True,
        text=True,
    )
    if child.returncode != 0:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{cell.name}: expected the peak of a child process, got: {last}")
    function = FUNCTIONS[cell.function]
    return Memory(cell, function.bytes_read(cell), function.bytes_written(cell), int(child.stdout))


def _growth(cell: Cell) -> int:
    """Give how much a call raises the peak of this process."""
    function = FUNCTIONS[cell.function]
    # Of a tiny call, all but the data stays: code pages, threads, pyarrow's own.
    result = function.ours(Inputs(replace(cell, rows=16, width=16)))()
    call = function.ours(Inputs(cell))
    before = peak_bytes()
    result = call()
    growth = peak_bytes() - before
    del result
    return growth


if __name__ == "__main__":
    print(_growth(Cell(**json.loads(sys.argv[1]))))
