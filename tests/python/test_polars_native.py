"""The plugin that polars loads runs without Python, in every polars from 1.36 on."""

import os
import subprocess
import sys
import threading

import numpy as np
import polars as pl
import pytest
from calls import calls, numbers
from test_polars import SERIES_ONLY

import raptors_arrow as ra

OURS = os.path.dirname(ra.__file__)

#: Streams a query into a pipe that is read by a thread which keeps the GIL. The pipe holds 64 KiB,
#: so most rows are computed in that time: a call of Python would wait for ever.
WITHOUT_THE_GIL = """
import ctypes, os, sys, threading
import numpy as np, polars as pl, raptors_arrow

pl.Config.set_streaming_chunk_size(1000)
frame = pl.DataFrame({"emb": pl.Series(np.full((200_000, 8), 3, "f4"))})
emb = pl.col("emb").raptors
query = frame.lazy().with_columns(unit=emb.normalize(), mean=emb.mean(axis=1))
query = query.select("mean", dot=pl.col("unit").raptors.dot(pl.col("emb")))
os.mkfifo(sys.argv[1])
threading.Thread(target=query.sink_csv, args=[sys.argv[1]], daemon=True).start()
pipe = os.open(sys.argv[1], os.O_RDONLY)
own = os.open(sys.argv[1], os.O_WRONLY)  # so that there is no end if polars opens it again
lines = os.read(pipe, 1).count(b"\\n")  # the query is planned, and runs
read = ctypes.PyDLL(None).read  # which keeps the GIL
read.argtypes, read.restype = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_ssize_t
sys.setswitchinterval(1e6)  # and it is not passed on between the calls
buffer = ctypes.create_string_buffer(1 << 20)
while lines < 150_000:
    lines += buffer.raw[: read(pipe, buffer, len(buffer))].count(b"\\n")
os._exit(0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no pipes among its files")
def test_no_python_runs_on_the_way_of_a_streaming_query(tmp_path):
    code = [sys.executable, "-c", WITHOUT_THE_GIL, tmp_path / "pipe"]
    subprocess.run(code, check=True, timeout=300)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_no_function_of_ours_is_called_by_polars(engine, monkeypatch):
    """The only one that polars has to call is counted: there is one column that needs it."""
    calls = []
    compute = ra.polars._compute
    monkeypatch.setattr(
        ra.polars, "_compute", lambda *a, **options: calls.append(1) or compute(*a, **options)
    )
    frame = pl.DataFrame({"k": [1, 1, 2], "emb": pl.Series(np.ones((3, 4), "f4"))})
    emb = pl.col("emb").raptors
    query = frame.lazy().with_columns(
        unit=emb.normalize(),
        dot=emb.dot(pl.col("emb")),
        mean=emb.mean(axis=1),
        moved=emb.subtract(emb.mean(axis=0)),
        over=emb.sum(axis=0).over("k"),
    )
    query.collect(engine=engine)
    assert not calls
    large = np.ones((4, 300_000), "f4")  # more than an expression carries with it
    frame.select(emb.matmul(large).raptors.sum(axis=1))
    assert calls


def frames_of(rows: int, engine: str) -> list[str]:
    """Run a query, and give the functions of ours that Python called meanwhile."""
    frame = pl.DataFrame({"emb": pl.Series(np.ones((rows, 4), "f4"))})
    emb = pl.col("emb").raptors
    query = frame.lazy().with_columns(
        unit=emb.normalize(), dot=emb.dot([1, 2, 3, 4]), mean=emb.mean(axis=1)
    )
    called = []

    def count(own, event, _):
        if event == "call" and own.f_code.co_filename.startswith(OURS):
            called.append(own.f_code.co_name)

    threading.setprofile(count)  # for threads that begin now
    sys.setprofile(count)
    try:
        query.collect(engine=engine)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(called)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_frames_of_python_are_those_of_the_plan(engine):
    """Rows need none. Since polars 2.1 each expression is planned once, when types are known."""
    few, many = frames_of(3, engine), frames_of(300_000, engine)
    assert few == many
    assert many.count("planned") == (3 if hasattr(pl, "pipe_with_dtype") else 0)
    assert "_compute" not in many


#: A choice goes through Python: it has three columns.
NATIVE = [n for n in ra.list_functions() if n not in {*SERIES_ONLY, "where"}]


@pytest.mark.parametrize("name", NATIVE)
def test_the_plan_shows_the_functions_name(name):
    values = numbers((6, 4), "f4", name)
    frame = pl.LazyFrame({"emb": pl.Series(values)})
    rest, options = calls(name, values)[-1 if name == "pairwise" else 0]
    plan = frame.select(getattr(pl.col("emb").raptors, name)(*rest, **options)).explain()
    assert f"raptors_{name}" in plan, plan
