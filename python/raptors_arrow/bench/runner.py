"""Measures the cells of a suite."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import raptors_arrow as ra
from raptors_arrow import _native
from raptors_arrow.bench import memory
from raptors_arrow.bench.cells import Cell
from raptors_arrow.bench.check import MismatchError, check
from raptors_arrow.bench.functions import FUNCTIONS
from raptors_arrow.bench.inputs import Inputs
from raptors_arrow.bench.peers import Jobs, Peer
from raptors_arrow.bench.results import CellResult, Ratio, SuiteResult, Timing
from raptors_arrow.bench.roofline import FROM_BYTES, Bandwidth, Roofline, measured, roofline
from raptors_arrow.bench.timing import Contestant, take_turns

__all__ = ["OURS", "Budget", "available", "measure_suite", "thread_name"]

#: Our name among the contestants.
OURS = "raptors-arrow"


@dataclass(frozen=True)
class Budget:
    """How long a cell may take: seconds, and the most rounds."""

    seconds: float = 2.0
    rounds: int = 300


def thread_name(count: int) -> str:
    """Name ourselves with fewer threads, which is a contestant of the suite ``scaling``."""
    return f"{count} thread" + "s" * (count > 1)


def available(peers: Sequence[Peer], result: SuiteResult) -> dict[str, tuple[Peer, Jobs]]:
    """Load the peers that are installed; name the others."""
    loaded = {}
    for peer in peers:
        if peer.installed:
            loaded[peer.name] = (peer, peer.jobs())
        else:
            result.leave_out(peer.name, f"not installed (pip install {peer.package})")
    return loaded


def measure_suite(
    suite: str,
    cells: Sequence[Cell],
    peers: Sequence[Peer],
    budget: Budget,
    *,
    bandwidth: Bandwidth | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> SuiteResult:
    """Measure cells of one suite.

    Parameters
    ----------
    suite
        The suite's name.
    cells
        Those of its cells that are measured.
    peers
        Whom to compare with; those that are not installed are left out and named.
    budget
        How long a cell may take.
    bandwidth
        Measures the bandwidth; ours if not given.
    progress
        Called with the name of each cell before it is measured.

    Returns
    -------
    SuiteResult
        All that was measured; after Ctrl-C, what was measured until then.
    """
    measure: Bandwidth = bandwidth or _native.bandwidth
    result = SuiteResult(suite, ra.get_num_threads())
    try:
        loaded = {} if suite == "memory" else available(peers, result)
        result.order = [*map(thread_name, _counts(result.threads)[1:]), *loaded]
        inputs: Inputs | None = None
        for cell in cells:
            progress(cell.name)
            needs = FUNCTIONS[cell.function].needs
            if not hasattr(ra, needs):
                result.leave_out(OURS, f"no {needs}")
            elif suite == "memory":
                result.memory.append(memory.measure(cell))
            else:
                if inputs is None or not inputs.fits(cell):
                    inputs = None  # the old ones go before the new ones come
                    inputs = Inputs(cell)
                result.cells.append(_measure(cell, inputs, loaded, budget, measure, result))
    except KeyboardInterrupt:
        result.interrupted = True
    return result


def _measure(
    cell: Cell,
    inputs: Inputs,
    loaded: Mapping[str, tuple[Peer, Jobs]],
    budget: Budget,
    bandwidth: Bandwidth,
    result: SuiteResult,
) -> CellResult:
    """Check and time all contestants of a cell, the bandwidth before and after."""
    function = FUNCTIONS[cell.function]
    contestants = _contestants(cell, inputs, loaded, result)
    read, written = function.bytes_read(cell), function.bytes_written(cell)
    best: dict[str, float] = {}
    bounded = read + written >= FROM_BYTES
    try:
        if bounded:
            measured(read, written, result.threads, bandwidth, best)
        times = take_turns(contestants, seconds=budget.seconds, rounds=budget.rounds)
        if bounded:
            measured(read, written, result.threads, bandwidth, best)
    finally:
        ra.set_num_threads(result.threads)
    ours = times.pop(OURS)
    timing = Timing.of(ours)
    line: Roofline | None = None
    if bounded:
        line = roofline(read, written, result.threads, best, timing.median)
    ratios = [Ratio.of(peer, theirs, ours) for peer, theirs in times.items()]
    return CellResult(cell, function.elementwise, timing, ratios, line)


def _contestants(
    cell: Cell,
    inputs: Inputs,
    loaded: Mapping[str, tuple[Peer, Jobs]],
    result: SuiteResult,
) -> list[Contestant]:
    """Give everybody who can do the cell, each with the right result."""
    function = FUNCTIONS[cell.function]
    answer = function.answer(inputs)
    call = function.ours(inputs)
    check(cell, OURS, call(), answer, "float64")
    contestants = []
    if cell.suite == "scaling":
        for count in _counts(result.threads):
            before = partial(ra.set_num_threads, count)
            name = OURS if count == result.threads else thread_name(count)
            contestants.append(Contestant(name, call, before))
    else:
        contestants.append(Contestant(OURS, call))
    for name, (peer, jobs) in loaded.items():
        maker = jobs.get(cell.function)
        if maker is None:
            result.leave_out(name, f"no {cell.function}")
            continue
        try:
            theirs = maker(inputs)
            value = None if theirs is None else theirs()
        except Exception as error:  # of a foreign library: any kind
            reason = (str(error).splitlines() or [""])[0]
            result.leave_out(name, f"{cell.name} raised {type(error).__name__}: {reason}")
            continue
        if theirs is None:
            result.leave_out(name, f"no {cell.function} at {cell.shape}")
            continue
        read = peer.read.get(cell.function, lambda value: value)
        try:
            if peer.checked:
                check(cell, name, read(value), answer, peer.precision or cell.dtype)
        except MismatchError as error:
            # It happens: numexpr's sum of 38 million float32 is 5 % off. Ours ends the run.
            result.leave_out(name, str(error))
            continue
        contestants.append(Contestant(name, theirs))
    return contestants


def _counts(threads: int) -> list[int]:
    """Give the numbers of threads to compare: all, and from one on doubled."""
    counts = [threads]
    counts += [2**power for power in range(threads.bit_length()) if 2**power < threads]
    return counts
