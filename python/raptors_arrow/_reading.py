"""Reading a stream: one batch ahead, and how far it has come."""

import sys
from collections.abc import Callable, Iterator
from queue import Empty, Queue
from threading import Event, Thread
from time import monotonic
from typing import Any

from raptors_arrow.errors import RaptorsError

__all__ = ["Ahead", "FileBatches", "Progress", "shown"]

Progress = Callable[[int, int | None], object] | bool | None


class FileBatches:
    """Batches of files, one after the other, with the file that the last one is of."""

    def __init__(self, batches: Iterator[tuple[str, Any]]) -> None:
        self._batches = batches
        self.file = ""

    def __iter__(self) -> "FileBatches":
        return self

    def __next__(self) -> Any:
        self.file, batch = next(self._batches)
        return batch

    def close(self) -> None:
        """End the reading."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()


class Ahead:
    """Reads one batch ahead, in a thread of its own; leaving it stops the producer.

    An error of ours in a batch, while it is left, says which rows these are.
    """

    _END = object()

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._queue: Queue[Any] = Queue(maxsize=1)
        self._stopped = Event()
        self._thread = Thread(target=self._read, name="raptors-read-ahead", daemon=True)
        #: The file of the batch that was given last, if it is of one, and the rows before it.
        self._batch_of: tuple[str | None, int] = (None, 0)
        self._next = 0
        self._peeked: Any = None

    def __enter__(self) -> Iterator[Any]:
        self._thread.start()
        return self._given()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._stop(kind)
        file, row = self._batch_of
        if isinstance(error, RaptorsError) and (file or row):
            # The rows of a batch are counted from 0 on.
            where = [file] if file else []
            where += [f"the batch from row {row} on"] if row else []
            raise type(error)(f"{error} (in {', '.join(where)})") from None

    def _stop(self, kind: type[BaseException] | None) -> None:
        self._stopped.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            self._thread.join()
        # After Ctrl-C nobody waits for a producer that is slow: it is closed after its batch.

    def _read(self) -> None:
        end: tuple[Any, ...] = (None, self._END, None)
        try:
            for batch in self._batches:
                self._queue.put((getattr(self._batches, "file", None), batch, None))
                del batch
                if self._stopped.is_set():
                    break
        except BaseException as error:  # handed to the consumer, whatever it is
            end = (None, self._END, error)
        try:
            # The thread that runs a generator is the one that can close it.
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()
        except BaseException as error:
            end = (None, self._END, end[2] or error)
        del self._batches
        if not self._stopped.is_set():
            self._queue.put(end)

    def is_at_end(self) -> bool:
        """Wait for the next batch, and say whether there is none."""
        if self._peeked is None:
            self._peeked = self._next_read()
        _, batch, error = self._peeked
        return error is None and batch is self._END

    def _next_read(self) -> Any:
        # A signal that comes just before a wait without end does not end it: Ctrl-C would be lost.
        while True:
            try:
                return self._queue.get(timeout=0.1)
            except Empty:
                continue

    def _given(self) -> Iterator[Any]:
        while True:
            taken, self._peeked = self._peeked or self._next_read(), None
            file, *batch, error = taken
            del taken
            if error is not None:
                self._batch_of = (None, 0)  # the producer's own
                raise error
            if batch[0] is self._END:
                return
            if file != self._batch_of[0]:
                self._next = 0
            self._batch_of = (file, self._next)
            self._next += batch[0].num_rows
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
