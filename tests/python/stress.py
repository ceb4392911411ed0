"""Mixed calls from many threads at once, every answer compared to the bit.

The inputs are shared by all threads. Answers are kept for a while and looked at again: a buffer
that was handed out twice would show. Some inputs have buffers that belong to Python, so that
releasing them takes the GIL, and the last holder may be any thread.
"""

import random
import threading
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from calls import PRODUCTS, calls, numbers
from forms import fixed

import raptors_arrow as ra

#: Answers that a thread keeps.
KEPT = 6


def digest(result: Any) -> Any:
    """The bits of a result: validity, and values where they are valid."""
    if isinstance(result, tuple):
        return tuple(map(digest, result))
    if isinstance(result, np.ma.MaskedArray):
        return result.mask.tobytes(), result.filled(0).tobytes()
    if isinstance(result, np.ndarray):
        return result.tobytes()
    if isinstance(result, pl.Series):
        return digest(result.to_arrow())
    if isinstance(result, pa.ChunkedArray):
        return digest(result.combine_chunks())
    if isinstance(result, pa.FixedSizeListArray):
        return result.is_valid().to_numpy(zero_copy_only=False).tobytes(), digest(result.flatten())
    if isinstance(result, pa.Array):
        valid = result.is_valid().to_numpy(zero_copy_only=False)
        return valid.tobytes(), result.fill_null(0).to_numpy(zero_copy_only=False).tobytes()
    assert result is None or isinstance(result, float | int), type(result)
    return repr(result)


@dataclass
class Case:
    """A call, and the bits that it gives."""

    name: str
    x: Any
    rest: tuple[Any, ...]
    options: dict[str, Any]
    bits: Any = None

    def run(self) -> Any:
        return getattr(ra, self.name)(self.x, *self.rest, **self.options)

    def check(self, result: Any) -> None:
        # A product may be summed in another order on other threads; its type and shape stay.
        if self.name not in PRODUCTS:
            assert digest(result) == self.bits, f"{self.name}{self.options}: other bits"


@dataclass
class Released:
    """Arrays over memory of Python's that were made, and that were released again."""

    made: int = 0
    released: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def column(self, rows: int) -> pa.FixedSizeListArray:
        values = np.ones(rows * 4, "f4")
        with self.lock:
            self.made += 1
        weakref.finalize(values, self._release)
        return pa.FixedSizeListArray.from_arrays(pa.array(values), 4)

    def _release(self) -> None:
        with self.lock:
            self.released += 1


def cases(rng: random.Random, shapes: int) -> list[Case]:
    """Every function on matrices of random shapes, from a few bytes to some megabytes."""
    made = []
    for i in range(shapes):
        width = rng.choice([1, 3, 8, 32, 100])
        rows = max(int(10 ** rng.uniform(0, 5.5)) // width, 1)
        values = numbers((rows, width), ["f4", "f8", "f2", "i4"][i % 4], "sqrt")
        valid = np.random.default_rng(i).random(rows) > 0.1
        x = [values, fixed(values), fixed(values, valid), pl.Series("x", values)][i // 4 % 4]
        for name in ra.list_functions():
            squared = {"pairwise": rows, "gram": width, "covariance": width, "correlation": width}
            if squared.get(name, 0) > 300:
                continue
            made += [Case(name, x, *call) for call in calls(name, values)]
    rng.shuffle(made)
    return made


def answered(made: list[Case]) -> list[Case]:
    """Those calls that have an answer, with its bits: from one thread, before any other runs."""
    good = []
    ra.set_num_threads(1)
    for case in made:
        try:
            result = case.run()
            case.bits = digest(result)
        except (ra.RaptorsError, AssertionError, pa.ArrowException):
            continue  # a type or shape that the function refuses, or an answer of another kind
        good.append(case)
    return good


class Stress:
    """Runs cases on many threads, with something else to disturb them on each."""

    def __init__(self, seed: int, shapes: int):
        self.seed = seed
        self.cases = answered(cases(random.Random(seed), shapes))
        self.released = Released()
        self.failure: BaseException | None = None
        self.calls = 0

    def _work(self, thread: int, rounds: int, go_on) -> None:
        rng = random.Random(1000 * self.seed + thread)
        kept: deque[tuple[Case, Any]] = deque()
        try:
            for _ in range(rounds):
                if self.failure or not go_on():
                    break
                case = rng.choice(self.cases)
                result = case.run()
                case.check(result)
                kept.append((case, result))
                if len(kept) > KEPT:
                    old, held = kept.popleft()
                    old.check(held)
                self._disturb(rng)
                self.calls += 1
        except BaseException as error:
            self.failure = error

    def _disturb(self, rng: random.Random) -> None:
        kind = rng.randrange(8)
        if kind == 0:
            ra.set_num_threads(rng.randrange(1, 5))
        elif kind == 1:
            ra.release_unused()
        elif kind == 2:
            rows = int(10 ** rng.uniform(0, 5))
            assert ra.sum(self.released.column(rows)) == 4.0 * rows
        elif kind == 3:
            stats = ra.pool_stats()
            assert stats.held_bytes <= stats.limit_bytes

    def run(self, threads: int, rounds: int, go_on=lambda: True) -> None:
        """So many calls on each thread, while it may go on; the first failure is raised."""
        started = [
            threading.Thread(target=self._work, args=(i, rounds, go_on)) for i in range(threads)
        ]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        if self.failure:
            raise self.failure
