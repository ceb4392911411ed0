"""The bound that the memory sets: bytes that must move over the bandwidth measured beside the cell.

A call that reads r bytes and writes w cannot be faster than a copy of w bytes and a read of the
other r - w. Both bandwidths are measured on buffers of the cell's size, before and after it, and
the better of each counts: a cell in cache is held against the cache.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["FROM_BYTES", "Bandwidth", "Roofline", "bound", "kinds_of", "measured", "roofline"]

Kind = Literal["read", "copy"]
#: Measures GB/s: kind, bytes, threads, seconds.
Bandwidth = Callable[[Kind, int, int, float], float]

#: Cells that move less have no roofline, in bytes: the call itself costs more than the moving.
FROM_BYTES = 1 << 16
#: Larger cells are measured with this many bytes: four times the last-level cache or more.
UP_TO_BYTES = 1 << 28
#: Time of one measurement, in seconds.
SECONDS = 0.02


@dataclass(frozen=True)
class Roofline:
    """What the memory allows.

    Attributes
    ----------
    read_bytes, written_bytes
        What must move.
    bandwidth
        GB/s by kind and threads, such as ``{"read/1": 20.1, "read/2": 31.0}``.
    seconds
        The shortest time with all threads.
    share
        The shortest time over ours: 1.0 is as fast as the memory.
    """

    read_bytes: int
    written_bytes: int
    bandwidth: dict[str, float]
    seconds: float
    share: float


def kinds_of(read: int, written: int) -> tuple[Kind, ...]:
    """Name the bandwidths that bound a call; a write below 1 % of the read is not one.

    Examples
    --------
    >>> kinds_of(100, 100), kinds_of(100, 50), kinds_of(1000, 1)
    (('copy',), ('read', 'copy'), ('read',))
    """
    kinds: tuple[Kind, ...] = ("read",) if read > written else ()
    return (*kinds, "copy") if written * 100 >= read else kinds


def bound(read: int, written: int, bandwidth: Mapping[Kind, float]) -> float:
    """Give the fewest seconds to read and write some bytes, from GB/s of "read" and "copy"."""
    kinds = kinds_of(read, written)
    copied = written if "copy" in kinds else 0
    seconds = 0.0
    if "copy" in kinds:
        seconds += (copied + min(read, copied)) / bandwidth["copy"]
    if "read" in kinds:
        seconds += (read - copied) / bandwidth["read"]
    return seconds / 1e9


def measured(
    read: int, written: int, threads: int, bandwidth: Bandwidth, best: dict[str, float]
) -> None:
    """Measure what bounds a cell, with one thread and with all; keep the best seen."""
    size = min(read + written, UP_TO_BYTES)
    for kind in kinds_of(read, written):
        for count in sorted({1, threads}):
            key = f"{kind}/{count}"
            best[key] = max(best.get(key, 0.0), bandwidth(kind, size, count, SECONDS))


def roofline(
    read: int, written: int, threads: int, best: dict[str, float], ours: float
) -> Roofline:
    """Put a measured time beside the bound of all threads."""
    full = {kind: best[f"{kind}/{threads}"] for kind in kinds_of(read, written)}
    shortest = bound(read, written, full)
    return Roofline(read, written, dict(best), shortest, shortest / ours)
