"""No memory is a `MemoryError`, never the end of the process."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("resource", reason="limits of memory are those of Unix")

SETUP = """
import os, resource, sys
import numpy as np
import pyarrow as pa
import raptors_arrow as ra

def limited(megabytes, call):
    # The address space that is in use, and so much more.
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), hard))
    try:
        return call()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

def refused(megabytes, call):
    try:
        limited(megabytes, call)
    except ra.RaptorsMemoryError as error:
        return str(error)
    raise AssertionError("there was memory for it")
"""


def run(code, timeout=300):
    """Run code in a process of its own, which must end well; the timeout is for hangs only."""
    if not sys.platform.startswith("linux"):
        pytest.skip("/proc is Linux's")
    code = SETUP + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_broadcast_strided_and_list_inputs_are_never_copied_whole():
    """Reductions of arrays whose elements, written down, would be 8 GB, in 64 MB."""
    run("""
    wide = np.broadcast_to(np.arange(1000.0), (10**6, 1000))
    assert limited(64, lambda: ra.mean(wide[:1000], axis=0)).tolist() == list(range(1000))
    windows = np.lib.stride_tricks.sliding_window_view(np.ones(20_000), 5_000)
    assert limited(64, lambda: ra.sum(windows, axis=1)).tolist() == [5000.0] * 15_001
    mask = np.broadcast_to(np.arange(5000) % 2 == 0, (1000, 5000))
    masked = np.ma.masked_array(windows[:1000], mask)
    assert limited(64, lambda: ra.count(masked)) == 2_500_000
    lists = pa.array([[1.0] * 10**5] + [None] * 10**5)
    assert limited(64, lambda: ra.sum(lists)) == 1e5
    assert limited(64, lambda: ra.sum(lists, axis=1)).null_count == 10**5
    assert limited(64, lambda: ra.mean(lists, axis=0)).to_pylist() == [1.0] * 10**5
    """)


def test_results_that_do_not_fit_raise_memory_error():
    run("""
    cells = {
        "elementwise of a broadcast array": lambda: ra.add(np.broadcast_to(1.0, (10**6, 10**6)), 1),
        "rows of no elements": lambda: ra.count(np.empty((2**40, 0)), axis=1),
        "pairs of rows of no elements": lambda: ra.pairwise(np.empty((2**40, 0))),
        "their cosines": lambda: ra.pairwise(
            np.empty((2**40, 0)), np.empty((1, 0)), metric="cosine"
        ),
        "their distances": lambda: ra.pairwise(
            np.empty((1, 0)), np.empty((2**40, 0)), metric="l2"
        ),
        "center": lambda: ra.center(np.empty(0), width=2**40),
        "standardize": lambda: ra.standardize(np.empty(0), width=2**40),
        "minmax_scale": lambda: ra.minmax_scale(np.empty(0), width=2**40),
        "gram": lambda: ra.gram(np.ones((1, 40_000))),
        "covariance": lambda: ra.covariance(np.ones((2, 40_000))),
        "correlation": lambda: ra.correlation(np.ones((2, 40_000), np.float32)),
        "top_k of many": lambda: ra.top_k(np.ones((100, 2)), np.ones((2, 2)), 10**9),
        "pairwise": lambda: ra.pairwise(np.ones((10**5, 1))),
        "null rows that get elements": lambda: ra.pairwise(
            pa.array([[1.0], None] * 10**5), metric="l2"
        ),
    }
    for name, call in cells.items():
        assert "no memory" in refused(200, call), name
    """)


def test_k_is_capped_by_the_rows():
    run("""
    x = np.ones((100, 2))
    found = limited(64, lambda: ra.top_k(x, np.ones(2), 10**9))
    assert found.indices.tolist() == list(range(100))
    """)


def test_the_pool_is_given_back_before_a_call_fails():
    run("""
    x = np.ones(16 << 20)  # 128 MiB
    held = ra.add(x, 1.0)
    del held
    assert ra.pool_stats().held_bytes >= 128 << 20
    # The pool has no buffer of this size, and the system has no memory for one.
    y = np.ones(5 << 20)
    assert limited(16, lambda: ra.add(y, 1.0))[0] == 2.0
    assert ra.pool_stats().held_bytes < 128 << 20
    """)


#: Calls the function that is named on every form of input under limits, and a small one after each.
EVERY = """
function = ra.get_function(sys.argv[1])
def others(width):
    for kind in function.argument_kinds[1:]:
        yield {
            "operand": 2,
            "number": 2,
            "row": np.ones(width, np.float32),
            "vectors": np.ones(width, np.float32),
            "queries": np.ones((2, width), np.float32),
        }.get(kind, np.ones((width, 8), np.float32))
options = {"type": "float64"} if function.name == "cast" else {}
axes = [{"axis": axis} for axis in (0, 1, None)] if function.gives == "reduced" else [{}]
axes = axes if "axis" in function.options else [{}]
ra.sum(np.ones((2000, 2000)))  # the threads are there
small = np.array([[1.0, 2.0], [3.0, 5.0]])
is_flags = function.name in "greater greater_equal less less_equal equal not_equal isnan".split()
is_flags = is_flags or function.name in ("is_null", "isfinite")
counts = {"ok": 0, "refused": 0}

def tried(name, call, limits):
    for megabytes in limits:
        ra.release_unused()
        try:
            limited(megabytes, call)
            counts["ok"] += 1
        except MemoryError:
            counts["refused"] += 1
        except (ra.RaptorsOverflowError, ra.RaptorsTypeError, ra.RaptorsValueError) as error:
            assert "internal error" not in str(error), (name, error)
        assert ra.sum(small) == 11.0, name

def every(inputs, limits):
    for name, x in inputs.items():
        width = ra.as_matrix(x).width
        args = [x[:2000]] if function.name == "pairwise" else [x, *others(width)]
        for axis in axes:
            tried(name, lambda: function(*args, **options, **axis), limits)
    # What computes numbers needs memory for them; flags need an eighth of a byte each.
    assert counts["refused"] or function.gives != "rows" or is_flags, counts
"""

TALL = """
rng = np.random.default_rng(0)
n, d = 20_000, 32
base = rng.random((n, d)).astype(np.float32)
mask = rng.random((n, d)) < 0.2
null = rng.random(n) < 0.3
offsets = np.concatenate([[0], np.cumsum(np.where(null, 0, d))]).astype(np.int32)
flat = pa.array(base.ravel(), mask=mask.ravel())
every({
    "dense": base,
    "strided": base[::2, ::2],
    "by columns": np.asfortranarray(base),
    "masked": np.ma.masked_array(base, mask),
    "lists": pa.ListArray.from_arrays(pa.array(offsets), base[~null].ravel(), mask=pa.array(null)),
    "fixed-size lists": pa.FixedSizeListArray.from_arrays(flat, d),
    "chunks": pa.chunked_array([pa.FixedSizeListArray.from_arrays(flat, d)] * 2),
    "table": pa.table({str(c): pa.array(base[:, c], mask=mask[:, c]) for c in range(d)}),
}, (1, 2, 4, 8, 16))
"""

#: Memory that grows with the columns: states, tiles, the columns themselves.
WIDE = """
d = 2_000_000
rng = np.random.default_rng(0)
one = rng.random((1, d)).astype(np.float32)
two = rng.random((2, d // 2)).astype(np.float32)
mask = pa.array(rng.random(d) < 0.2)
flat = pa.array(two.ravel(), mask=mask.to_numpy(zero_copy_only=False))
lists = pa.ListArray.from_arrays(pa.array([0, d // 2, d // 2, d], pa.int32()), flat)
halves = pa.FixedSizeListArray.from_arrays(pa.array(two.ravel()), d // 2)
every({
    "one row": one,
    "float16": two.astype(np.float16),
    "int8": (two * 9 + 1).astype(np.int8),
    "float64": two.astype(np.float64),
    "by columns": np.asfortranarray(two),
    "masked": np.ma.masked_array(two, rng.random(two.shape) < 0.2),
    "fixed-size lists": pa.FixedSizeListArray.from_arrays(flat, d // 2),
    "chunks": pa.chunked_array([halves[:1], halves[1:]]),
    "lists with a null": pa.array([lists[0], None, lists[2]], lists.type),
}, (1, 8, 24, 64))
every({"a row of 20 million": np.broadcast_to(np.float16(1), (1, 20_000_000))}, (16, 100))
names = [f"c{i}" for i in range(100_000)]
columns = [pa.array([1.0, None], pa.float32()), pa.array([2.0, 3.0], pa.float32())]
table = pa.table([columns[i % 2] for i in range(100_000)], names=names)
every({"many columns": table, "a struct": table.to_struct_array()}, (1, 16, 100))
"""

#: What is more than a call of one function.
JOBS = """
E = ra.col("e")
def job_chain(x):
    ra.lazy(x).scale(2).add(1).clip(0, 1).collect()
def job_reduced_chain(x):
    for axis in (None, 0, 1):
        ra.lazy(x).scale(2).clip(0, 1).var(axis=axis).collect()
def job_select(x):
    table = pa.table({"e": x if isinstance(x, pa.Array) else ra.pack(x)})
    ra.select(table, a=E.mean(axis=0), b=E.std(axis=0), n=ra.len())
    ra.with_columns(table, u=E.normalize(), l=E.norm(axis=1))
def job_groups(x):
    keys = np.arange(len(x)) // 2
    for key in (pa.array(keys), pa.array([f"key {k}" for k in keys])):
        table = pa.table({"k": key, "e": x})
        ra.group_by(table, "k").aggregate(a=E.mean(axis=0), b=E.var(axis=0), c=E.max(axis=0))
def job_pool(x):
    offsets = pa.array(np.arange(len(x) + 1), pa.int32())
    for how in ("mean", "max"):
        ra.pool(pa.ListArray.from_arrays(offsets, x), how)
def lists(rows, width, dtype):
    values = pa.array(np.ones(rows * width, dtype), mask=np.arange(rows * width) % 5 == 4)
    return pa.FixedSizeListArray.from_arrays(values, width)
ra.sum(np.ones((2000, 2000)))
inputs = {
    "tall": lists(200_000, 4, np.float32),
    "wide": lists(2, 1_000_000, np.float32),
    "wide halves": lists(2, 1_000_000, np.float16),
}
counts = {"ok": 0, "refused": 0}
for name, x in inputs.items():
    for megabytes in (4, 16, 40):
        ra.release_unused()
        try:
            limited(megabytes, lambda: globals()[sys.argv[1]](x))
            counts["ok"] += 1
        except MemoryError:
            counts["refused"] += 1
        assert ra.sum(np.ones((2, 2))) == 4.0
assert counts["refused"] and counts["ok"], counts
"""


def functions():
    import raptors_arrow as ra

    return ra.list_functions()


def one_of_each_driver():
    """Give a function for each way of running, which has its own states and workspaces."""
    import raptors_arrow as ra

    drivers = {ra.get_function(name).driver: name for name in reversed(ra.list_functions())}
    return sorted(drivers.values())


def ends_well(code, *arguments):
    if not sys.platform.startswith("linux"):
        pytest.skip("/proc is Linux's")
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "internal error" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("function", functions())
def test_every_function_ends_with_a_result_or_a_memory_error(function):
    ends_well(EVERY + TALL, function)


@pytest.mark.slow
@pytest.mark.parametrize("function", one_of_each_driver())
def test_a_function_of_each_driver_of_many_columns_ends_with_a_result_or_a_memory_error(function):
    ends_well(EVERY + WIDE, function)


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    ["job_chain", "job_reduced_chain", "job_select", "job_groups", "job_pool"],
)
def test_groups_and_chains_end_with_a_result_or_a_memory_error(job):
    """Not accumulators: the states of a million columns are many small allocations.

    One of those that is refused still ends the process; `tests/allocations.rs` has the large ones.
    """
    ends_well(JOBS, job)
