"""Times contestants in turns, so that what disturbs one disturbs all."""

import gc
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter, process_time, sleep
from typing import Any

from raptors_arrow.bench.stats import MIN_ROUNDS

__all__ = ["Contestant", "take_turns"]

#: A sample is at least this long, in seconds: far above the clock's own cost and resolution.
SAMPLE = 200e-6
#: What is longer than this, in seconds, begins when no thread works any more; see `_quiet`.
LONG = 5e-3
#: For so long, in seconds, the process must have been idle, and so long is waited at most. The
#: system counts the time of threads in steps of up to 10 ms.
QUIET = 30e-3
MOST_QUIET = 1.0


@dataclass(frozen=True)
class Contestant:
    """A call to be timed.

    Attributes
    ----------
    name
        What it is called in the results.
    call
        The call; its result is dropped at once.
    before
        Runs before each sample and is not timed, such as setting a number of threads.
    """

    name: str
    call: Callable[[], Any]
    before: Callable[[], Any] | None = None


def _quiet() -> None:
    """Wait until no thread works.

    BLAS libraries keep theirs spinning for a tenth of a second after a call, on the cores that the
    next contestant would use.
    """
    end = perf_counter() + MOST_QUIET
    while perf_counter() < end:
        worked = process_time()
        sleep(QUIET)
        if process_time() - worked < QUIET / 4:
            return


def _sample(contestant: Contestant, calls: int, settle: int, *, quiet: bool = False) -> float:
    """Give the seconds of a call, from several in a row after some that are not timed."""
    if contestant.before is not None:
        contestant.before()
    call = contestant.call
    if quiet:
        _quiet()
    for _ in repeat(None, settle):
        # The neighbour's data leave the cache, and its threads fall asleep, meanwhile.
        call()
    start = perf_counter()
    for _ in repeat(None, calls):
        call()
    return (perf_counter() - start) / calls


def take_turns(
    contestants: Sequence[Contestant], *, seconds: float, rounds: int, seed: int = 0
) -> dict[str, list[float]]:
    """Time all contestants once in each round, in an order that changes from round to round.

    Parameters
    ----------
    contestants
        What is timed.
    seconds
        No round begins later than this, but there are always ``MIN_ROUNDS``.
    rounds
        The most rounds.
    seed
        Of the random order.

    Returns
    -------
    dict
        For each contestant the seconds of a call in each round. The n-th values of two
        contestants are of the same round.
    """
    order = random.Random(seed)
    times: dict[str, list[float]] = {one.name: [] for one in contestants}
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        plan = []
        for one in contestants:
            # The second and third call: the first pays for pages, compilation and threads.
            cost = min(_sample(one, 1, settle) for settle in (1, 0))
            calls = max(1, math.ceil(SAMPLE / cost))
            plan.append((one, calls, (calls + 1) // 2, cost > LONG))
        end = perf_counter() + seconds
        done = 0
        while done < MIN_ROUNDS or (done < rounds and perf_counter() < end):
            order.shuffle(plan)
            for one, calls, settle, is_long in plan:
                times[one.name].append(_sample(one, calls, settle, quiet=is_long))
            done += 1
    finally:
        if enabled:
            gc.enable()
    return times
