"""Reading a stream: one batch ahead, and how far it has come."""

import sys
from collections.abc import Callable, Iterator
from queue import Queue
from threading import Event, Thread
from time import monotonic
from typing import Any

__all__ = ["Ahead", "Progress", "shown"]

Progress = Callable[[int, int | None], object] | bool | None


class Ahead:
    """Reads one batch ahead, in a thread of its own; leaving it stops the producer."""

    _END = object()

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._queue: Queue[Any] = Queue(maxsize=1)
        self._stopped = Event()
        self._thread = Thread(target=self._read, name="raptors-read-ahead", daemon=True)

    def __enter__(self) -> Iterator[Any]:
        self._thread.start()
        return self._given()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopped.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            self._thread.join()
        # After Ctrl-C nobody waits for a producer that is slow: it is closed after its batch.

    def _read(self) -> None:
        end: tuple[Any, BaseException | None] = (self._END, None)
        try:
            for batch in self._batches:
                self._queue.put((batch, None))
                del batch
                if self._stopped.is_set():
                    break
        except BaseException as error:  # handed to the consumer, whatever it is
            end = (self._END, error)
        try:
            # The thread that runs a generator is the one that can close it.
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()
        except BaseException as error:
            end = (self._END, end[1] or error)
        del self._batches
        if not self._stopped.is_set():
            self._queue.put(end)

    def _given(self) -> Iterator[Any]:
        while True:
            *batch, error = self._queue.get()
            if error is not None:
                raise error
            if batch[0] is self._END:
                return
            yield batch.pop()  # which is held by whoever asked for it alone


def shown(
    batches: Iterator[Any], count_rows: Callable[[], int | None], progress: Progress
) -> Iterator[Any]:
    """Pass batches on, and say how many rows are done."""
    if progress is None or progress is False:
        yield from batches
        return
    told = _Bar() if progress is True else progress
    total, done = count_rows(), 0
    try:
        for batch in batches:
            held, rows = [batch], batch.num_rows
            del batch
            yield held.pop()
            done += rows
            told(done, total)
    finally:
        if isinstance(told, _Bar):
            told.close()


class _Bar:
    """Rows and rows per second on one line of the terminal."""

    #: Seconds between two lines.
    _PAUSE = 0.1

    def __init__(self) -> None:
        self._begun = monotonic()
        self._shown = 0.0
        self._line = ""

    def __call__(self, done: int, total: int | None) -> None:
        now = monotonic()
        rate = done / max(now - self._begun, 1e-9)
        share = f" of {total:,} ({done / max(total, 1):.0%})" if total is not None else ""
        self._line = f"{done:,}{share} rows, {rate:,.0f} rows/s"
        if now - self._shown >= self._PAUSE:
            self._shown = now
            print(f"\r{self._line}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(f"\r{self._line}", file=sys.stderr, flush=True)
