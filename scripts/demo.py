"""A real job: an embedding column in Parquet, streamed back, reduced, normalised and searched.

Makes 100,000 rows of 384 float32 (some null), writes them, reads them batch by batch, and computes
on them with raptors_arrow and with NumPy. Both have the same values. Each call runs once before the
clock starts, so that its memory has been touched; then the contestants take turns.
"""

import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table

import raptors_arrow as ra

ROWS, WIDTH, BATCH, ROUNDS = 100_000, 384, 10_000, 7
KIND = pa.list_(pa.float32(), WIDTH)
NEXT = """
Next:
  .venv/bin/raptors-arrow tune    fit the plans to this machine (at most 10 s)
  .venv/bin/raptors-arrow info    what was built, and what this machine has
  make bench                      every call beside NumPy, pyarrow, polars and others (3 minutes)
  docs/index.md                   which page is for you
"""
console = Console()


class Job(NamedTuple):
    """One thing to compute, three ways."""

    name: str
    ours: Callable[[], Any]
    numpy: Callable[[], Any]
    copied: Callable[[], Any]


def batches() -> Iterator[pa.RecordBatch]:
    """Make the rows: random vectors, every 500th null."""
    rng = np.random.default_rng(7)
    for first in range(0, ROWS, BATCH):
        values = pa.array(rng.standard_normal(BATCH * WIDTH, dtype="f4"))
        ids = np.arange(first, first + BATCH)
        emb = pa.FixedSizeListArray.from_arrays(values, type=KIND, mask=pa.array(ids % 500 == 3))
        yield pa.record_batch({"id": ids, "emb": emb})


def write(path: Path) -> None:
    """Write the rows to Parquet."""
    schema = pa.schema({"id": pa.int64(), "emb": KIND})
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for batch in track(batches(), "writing", ROWS // BATCH, console=console, transient=True):
            writer.write_batch(batch)


def read(path: Path) -> pa.ChunkedArray:
    """Stream the column back, batch by batch."""
    with pq.ParquetFile(path) as file:
        stream = file.iter_batches(BATCH, columns=["emb"])
        steps = track(stream, "reading", ROWS // BATCH, console=console, transient=True)
        return pa.chunked_array([batch["emb"] for batch in steps])


def copy_out(emb: pa.ChunkedArray) -> np.ndarray:
    """Copy the valid rows to NumPy, as one does without this package: the nulls are lost."""
    return np.concatenate([c.flatten().to_numpy().reshape(-1, WIDTH) for c in emb.chunks])


def mean(rows: np.ndarray) -> np.ndarray:
    """Give the mean of each column, added up in float64 as ours is."""
    return rows.mean(axis=0, dtype="f8")


def norm(rows: np.ndarray) -> np.ndarray:
    """Give the norm of each row."""
    return np.linalg.norm(rows, axis=1)


def normalize(rows: np.ndarray) -> np.ndarray:
    """Give the rows with norm 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def nearest(rows: np.ndarray) -> np.ndarray:
    """Find the three rows nearest to the first by cosine, best first."""
    scores = rows @ rows[0] / np.linalg.norm(rows, axis=1)
    found = np.argpartition(-scores, 3)[:3]
    return found[np.argsort(-scores[found])]


def jobs(emb: pa.ChunkedArray, rows: np.ndarray) -> list[Job]:
    """List what is computed."""
    query = emb[0].values
    ours = {
        "mean of each column": (lambda: ra.mean(emb, axis=0), mean),
        "norm of each row": (lambda: ra.norm(emb, axis=1), norm),
        "normalised column": (lambda: ra.normalize(emb), normalize),
        "3 nearest by cosine": (lambda: ra.top_k(emb, query, 3), nearest),
    }
    return [
        Job(name, call, lambda f=f: f(rows), lambda f=f: f(copy_out(emb)))
        for name, (call, f) in ours.items()
    ]


def per_user(emb: pa.ChunkedArray) -> tuple[Callable[[], Any], ...]:
    """Give three ways to the mean vector of each of 1,000 users: ours, NumPy's and polars'."""
    import polars as pl

    users = np.random.default_rng(8).integers(0, 1000, len(emb))
    rows = pa.table({"user": users, "emb": emb})
    frame = pl.from_arrow(rows)
    valid = np.asarray(emb.is_valid())
    keys, values = users[valid], copy_out(emb)

    def numpy() -> np.ndarray:
        order = np.argsort(keys, kind="stable")
        _, first, count = np.unique(keys[order], return_index=True, return_counts=True)
        return np.add.reduceat(values[order], first, axis=0) / count[:, None]

    def polars() -> Any:
        place = pl.int_ranges(WIDTH).alias("place")
        long = frame.lazy().with_columns(pl.col("emb").arr.to_list(), place)
        means = long.drop_nulls("emb").explode("emb", "place").group_by("user", "place")
        return means.agg(pl.col("emb").mean()).collect()

    def ours() -> Any:
        mean = ra.col("emb").mean(axis=0)
        return ra.group_by(rows, "user", sort=True).aggregate(mean=mean)

    np.testing.assert_allclose(np.array(ours()["mean"].to_pylist()), numpy(), atol=1e-5)
    return ours, numpy, polars


def measure(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Give the median milliseconds of each way: all run once, then in turns in random order."""
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    order = list(range(len(calls)))
    for _ in range(ROUNDS):
        random.shuffle(order)
        for i in order:
            start = time.perf_counter()
            result = calls[i]()
            times[i].append((time.perf_counter() - start) * 1e3)
            del result
    return [statistics.median(own) for own in times]


def show(emb: pa.ChunkedArray, rows: np.ndarray) -> None:
    """Show the results, and that they are NumPy's."""
    means, unit = ra.mean(emb, axis=0), ra.normalize(emb)
    lengths, found = ra.norm(emb, axis=1), ra.top_k(emb, emb[0].values, 3)
    np.testing.assert_allclose(means.to_numpy(), mean(rows), atol=1e-6)
    np.testing.assert_allclose(copy_out(unit), normalize(rows), rtol=1e-4, atol=1e-6)
    # NumPy counts the valid rows only.
    valid = np.flatnonzero(np.asarray(emb.is_valid()))
    assert found.indices.to_pylist() == valid[nearest(rows)].tolist()
    first = [round(x, 4) for x in unit[0].as_py()[:3]]
    console.print(f"column means   {[round(x, 5) for x in means.to_pylist()[:3]]} ...")
    console.print(f"row norms      {[x and round(x, 3) for x in lengths.to_pylist()[:4]]} ...")
    console.print(f"normalised     {first} ... and {unit.null_count} null rows, as before")
    console.print(f"nearest to 0   rows {found.indices.to_pylist()}\n")


def main() -> int:
    """Run the job."""
    console.print(f"raptors_arrow {ra.__version__}: {ROWS:,} embeddings of {WIDTH} float32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "embeddings.parquet"
        write(path)
        emb = read(path)
        console.print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, read back in ", end="")
    console.print(f"{emb.num_chunks} chunks with {emb.null_count} null rows\n")
    rows = copy_out(emb)
    show(emb, rows)

    table = Table(title=f"milliseconds, median of {ROUNDS} rounds in turns")
    table.add_column("", no_wrap=True)
    for column in ("raptors_arrow", "NumPy", "copy + NumPy", "speed-up"):
        table.add_column(column, justify="right")
    gc.disable()
    for job in track(jobs(emb, rows), "measuring", console=console, transient=True):
        ours, numpy, copied = measure(job[1:])
        table.add_row(
            job.name, f"{ours:.1f}", f"{numpy:.1f}", f"{copied:.1f}", f"{numpy / ours:.1f} x"
        )
    console.print(table)
    console.print("NumPy: on an array without nulls, made before the clock starts.")
    console.print(
        "copy + NumPy: the column is copied out of Arrow by each call. Speed-up: over NumPy."
    )
    ours, numpy, polars = measure(per_user(emb))
    console.print(
        f"\nmean vector per user, 1,000 users: raptors_arrow {ours:.0f} ms, NumPy (sort and "
        f"reduceat) {numpy:.0f} ms, polars (explode and group_by) {polars:.0f} ms"
    )
    console.print("\nHow the first of them runs:", ra.explain("mean", emb, axis=0), sep="\n")
    console.print(NEXT, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
