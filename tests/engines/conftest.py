"""Rows in Parquet files, for engines that run on more than one machine."""

import os
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

# Before the package is imported, and for the processes that engines start.
os.environ["RAPTORS_PROFILE"] = "off"
os.environ["DO_NOT_TRACK"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # 15 by itself: starved on a busy machine
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Two files of Parquet, with some row groups each."""
    from by_row import table

    made = tmp_path_factory.mktemp("rows")
    ds.write_dataset(table(), made, format="parquet", max_rows_per_file=30, max_rows_per_group=10)
    return str(made)


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """Four files of Parquet, of 1024 rows each, with keys."""
    from statistics_of import write

    return write(str(tmp_path_factory.mktemp("many")))


@pytest.fixture(scope="session")
def ragged(tmp_path_factory):
    """A file whose rows differ in length."""
    made = tmp_path_factory.mktemp("ragged")
    rows = pa.table({"emb": pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32()))})
    ds.write_dataset(rows, made, format="parquet")
    return str(made)


def examples(page: str) -> list[str]:
    text = (Path(__file__).resolve().parents[2] / "docs/guide/engines" / page).read_text()
    found = re.findall(r"^```python[^\n]*\n(.*?)^```", text, re.M | re.S)
    assert found
    return found


@pytest.fixture
def snippet(tmp_path, monkeypatch):
    """Run the examples of a page of the guide as they stand."""

    def run(page: str) -> None:
        monkeypatch.chdir(tmp_path)
        for code in examples(page):
            exec(compile(code, page, "exec"), {"__name__": "snippet"})

    return run
