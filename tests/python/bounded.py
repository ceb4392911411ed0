"""A stream of some size through statistics and to disk and back: how much memory that takes.

Run as a program of its own: ``python bounded.py MEGABYTES FOLDER`` prints the growth of resident
memory in megabytes for each job.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import raptors_arrow as ra

WIDTH = 256
ROWS = 8192  # 8 MB of float32
SCHEMA = pa.schema({"id": pa.int64(), "emb": pa.list_(pa.float32(), WIDTH)})
E = ra.col("emb")
STATISTICS = {
    "mean": E.mean(axis=0),
    "std": E.std(axis=0),
    "min": E.min(axis=0),
    "max": E.max(axis=0),
    "n": ra.len(),
}


def batches(count):
    """Batches that each have memory of their own."""
    rng = np.random.default_rng(0)
    for i in range(count):
        values = pa.array(rng.random(ROWS * WIDTH, dtype="f4"))
        emb = pa.FixedSizeListArray.from_arrays(values, WIDTH)
        ids = np.arange(i * ROWS, (i + 1) * ROWS)
        yield pa.record_batch([pa.array(ids), emb.cast(SCHEMA.field("emb").type)], schema=SCHEMA)


def reader(count):
    return pa.RecordBatchReader.from_batches(SCHEMA, batches(count))


def to_disk(count, path):
    made = ra.with_columns(reader(count), unit=E.normalize(), length=E.norm(axis=1))
    with pq.ParquetWriter(path, made.schema, compression="none", use_dictionary=False) as writer:
        for batch in made:
            writer.write_batch(batch)


def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))


def growth(job):
    """The most resident memory during a job, less that before it, in megabytes."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = kilobytes("VmRSS")
    job()
    return (kilobytes("VmHWM") - before) / 1024


def main(megabytes, folder):
    count, path = megabytes // 8, Path(folder) / "rows.parquet"
    results = {}
    jobs = {
        "select of a reader": lambda n: results.update(a=ra.select(reader(n), **STATISTICS)),
        "with_columns to disk": lambda n: to_disk(n, path),
        "select of a file": lambda n: results.update(b=ra.select(path, **STATISTICS)),
        "mean of a reader": lambda n: ra.mean(reader_of_vectors(n), axis=0),
        "covariance of a reader": lambda n: ra.covariance(reader_of_vectors(n)),
    }
    for job in jobs.values():  # what is loaded or made once
        job(2)
    grown = {name: growth(lambda job=job: job(count)) for name, job in jobs.items()}
    assert results["a"].equals(results["b"]) and results["a"]["n"].to_pylist() == [count * ROWS]
    print(json.dumps(grown))


def reader_of_vectors(count):
    schema = SCHEMA.remove(0)
    return pa.RecordBatchReader.from_batches(schema, (b.select(["emb"]) for b in batches(count)))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
