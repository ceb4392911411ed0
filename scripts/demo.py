"""A real job: an embedding column in Parquet, streamed back, reduced and normalised, with times.

Makes 200,000 rows of 384 float32 (some null), writes them, reads them batch by batch, and shows
the column means, the row norms and the normalised column beside the NumPy and pyarrow ways.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table

import raptors_arrow as ra

ROWS, WIDTH, BATCH = 200_000, 384, 10_000
KIND = pa.list_(pa.float32(), WIDTH)
console = Console()


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
        for batch in track(batches(), "writing", ROWS // BATCH, console=console):
            writer.write_batch(batch)


def read(path: Path) -> pa.ChunkedArray:
    """Stream the column back, batch by batch."""
    with pq.ParquetFile(path) as file:
        stream = file.iter_batches(BATCH, columns=["emb"])
        parts = [b["emb"] for b in track(stream, "reading", ROWS // BATCH, console=console)]
    return pa.chunked_array(parts)


def timed(call: Callable[[], Any], rounds: int = 3) -> tuple[Any, float]:
    """Give the result of a call and its median time in milliseconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = call()
        times.append((time.perf_counter() - start) * 1e3)
    return result, statistics.median(times)


def numpy_rows(emb: pa.ChunkedArray) -> np.ndarray:
    """Copy the valid rows out, as one does without this package: their nulls are lost."""
    return np.concatenate([c.flatten().to_numpy().reshape(-1, WIDTH) for c in emb.chunks])


def pyarrow_means(emb: pa.ChunkedArray) -> list[float]:
    """Take the mean of each column with pyarrow alone: one column at a time."""
    columns = track(range(WIDTH), "pyarrow", console=console)
    return [pc.mean(pc.list_element(emb, i)).as_py() for i in columns]


def numpy_normalised(emb: pa.ChunkedArray) -> np.ndarray:
    """Normalise with NumPy."""
    rows = numpy_rows(emb)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def numpy_nearest(emb: pa.ChunkedArray) -> np.ndarray:
    """Find the three rows nearest to the first with NumPy; their numbers count valid rows only."""
    rows = numpy_rows(emb)
    scores = rows @ rows[0] / np.linalg.norm(rows, axis=1)
    return np.argpartition(-scores, 3)[:3]


def main() -> int:
    """Run the job."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "embeddings.parquet"
        write(path)
        console.print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB")
        emb = read(path)
    nulls = emb.null_count
    console.print(f"{len(emb):,} x {WIDTH} float32 in {emb.num_chunks} chunks, {nulls} null rows\n")

    with console.status("computing"):
        means, mean_ms = timed(lambda: ra.mean(emb, axis=0))
        lengths, norm_ms = timed(lambda: ra.norm(emb, axis=1))
        unit, unit_ms = timed(lambda: ra.normalize(emb))
        nearest, search_ms = timed(lambda: ra.top_k(emb, emb[0].values, 3))
    first = [round(x, 4) for x in unit[0].as_py()[:4]]
    console.print(f"column means  {[round(x, 5) for x in means.to_pylist()[:4]]} ...")
    console.print(f"row norms     {[x and round(x, 3) for x in lengths.to_pylist()[:4]]} ...")
    console.print(f"normalised    {first} ... and {unit.null_count} null rows")
    console.print(f"nearest to 0  {nearest.indices.to_pylist()}\n")

    with console.status("the same with NumPy"):
        expected, numpy_mean_ms = timed(lambda: numpy_rows(emb).mean(axis=0, dtype="f8"))
        _, numpy_norm_ms = timed(lambda: np.linalg.norm(numpy_rows(emb), axis=1))
        _, numpy_unit_ms = timed(lambda: numpy_normalised(emb))
        _, numpy_search_ms = timed(lambda: numpy_nearest(emb))
    _, arrow_mean_ms = timed(lambda: pyarrow_means(emb), rounds=1)
    np.testing.assert_allclose(means.to_numpy(), expected, atol=1e-6)

    table = Table(title="milliseconds, median of 3")
    for column in ("", "raptors_arrow", "copy to NumPy", "pyarrow alone"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row(
        "mean of each column", f"{mean_ms:.1f}", f"{numpy_mean_ms:.1f}", f"{arrow_mean_ms:.0f}"
    )
    table.add_row("norm of each row", f"{norm_ms:.1f}", f"{numpy_norm_ms:.1f}", "-")
    table.add_row("normalised column", f"{unit_ms:.1f}", f"{numpy_unit_ms:.1f} (nulls lost)", "-")
    table.add_row("3 nearest by cosine", f"{search_ms:.1f}", f"{numpy_search_ms:.1f}", "-")
    console.print(table)
    console.print(ra.explain("mean", emb, axis=0), highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
