"""Groups: each has the bits of the function on its rows, in their order."""

import datetime
import decimal
import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raptors_arrow as ra

STATISTICS = ("sum", "mean", "min", "max", "count", "var", "std", "norm")
E = ra.col("emb")


def vectors(values: np.ndarray, mask: np.ndarray | None = None) -> pa.Array:
    width = values.shape[1]
    flat = pa.array(values.ravel(), mask=None if mask is None else mask.ravel())
    return pa.FixedSizeListArray.from_arrays(flat, width)


def chunked(table: pa.Table, cuts: list[int]) -> pa.Table:
    at = sorted({0, len(table), *(cut % (len(table) + 1) for cut in cuts)})
    pieces = [table.slice(a, b - a) for a, b in pairwise(at)]
    return pa.concat_tables(pieces) if pieces else table


def everything(prefix: str = "") -> dict[str, ra.Expr]:
    return {prefix + name: getattr(E, name)(axis=0) for name in STATISTICS}


def expected(table: pa.Table, keys: list) -> list[dict]:
    """Filter, then the function: in the order of first appearance."""
    values = table["emb"].combine_chunks()
    rows: dict = {}
    for i, key in enumerate(keys):
        rows.setdefault(key, []).append(i)
    return [
        {"k": key, "n": len(own)}
        | {
            name: getattr(ra, name)(values.take(pa.array(own)), axis=0).to_pylist()
            for name in STATISTICS
        }
        for key, own in rows.items()
    ]


def same(got: list[dict], wanted: list[dict]) -> bool:
    return str(got) == str(wanted)  # to the bit, as floats are written, and NaN is NaN


def day(n: int) -> datetime.date:
    return datetime.date(2026, 1, n)


D = decimal.Decimal
LONG = "a key that is longer than twelve bytes"

#: Types of keys, and some keys of each.
CHOICES = [
    *((kind, [1, 0, 7, None]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8())),
    *((kind, [1, 0, 7, None]) for kind in (pa.uint16(), pa.uint32())),
    (pa.int64(), [-(2**63), -1, 0, 5]),
    (pa.uint64(), [0, 2**64 - 1, None]),
    *((kind, ["a", "b", "", LONG, None]) for kind in (pa.string(), pa.large_string())),
    (pa.string_view(), ["a", LONG, LONG + "!", None]),
    *((kind, [b"", b"\0", b"\0\0", None]) for kind in (pa.binary(), pa.large_binary())),
    (pa.binary_view(), [b"\xff", LONG.encode(), None]),
    (pa.binary(3), [b"abc", b"abd", None]),
    *((kind, [0.5, -0.0, 0.0, float("nan"), None]) for kind in (pa.float64(), pa.float32())),
    (pa.bool_(), [True, False, None]),
    *((kind, [day(1), day(2), None]) for kind in (pa.date32(), pa.date64())),
    *((kind, [datetime.time(1), datetime.time(2)]) for kind in (pa.time32("s"), pa.time64("us"))),
    (pa.timestamp("ms"), [datetime.datetime(2026, 1, 1), None]),
    (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2026, 1, n, tzinfo=datetime.UTC) for n in (1, 2)],
    ),
    (pa.duration("s"), [datetime.timedelta(1), datetime.timedelta(2)]),
    *((kind, [D("1.50"), D("-1.50"), None]) for kind in (pa.decimal128(5, 2), pa.decimal256(5, 2))),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None]),
    (pa.dictionary(pa.int32(), pa.int64()), [3, -3, None]),
]


def one(key):
    """What a key is the same as: NaN is one key, and -0 is 0."""
    return "nan" if key != key else key + 0 if isinstance(key, float) else key


def check_groups(data):
    rows = data.draw(st.integers(0, 60))
    width = data.draw(st.integers(1, 5))
    dtype = data.draw(st.sampled_from(["f4", "f8", "f2", "i1", "i8", "u2"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = (rng.standard_normal((rows, width)) * 20).astype(dtype)
    mask = rng.random((rows, width)) < data.draw(st.sampled_from([0.0, 0.3]))
    kinds = data.draw(st.lists(st.sampled_from(CHOICES), min_size=1, max_size=3))
    keys = {
        f"k{n}": pa.array([choices[i] for i in rng.integers(0, len(choices), rows)], kind)
        for n, (kind, choices) in enumerate(kinds)
    }
    names = list(keys)
    table = pa.table({**keys, "emb": vectors(values, mask)})
    table = chunked(table, data.draw(st.lists(st.integers(0, 99), max_size=3)))
    tuples = [
        tuple(map(one, row)) for row in zip(*(k.to_pylist() for k in keys.values()), strict=True)
    ]
    before = ra.build_info()["num_threads"]
    ra.set_num_threads(data.draw(st.integers(1, 3)))
    try:
        got = ra.group_by(table, names).aggregate(n=ra.len(), **everything())
        stream = ra.group_by(table.to_reader(), names).aggregate(n=ra.len(), **everything())
        parts = [
            ra.group_by(part, names).partial(n=ra.len(), low=E.min(axis=0))
            for part in (table[: rows // 2], table[rows // 2 :])
        ]
    finally:
        ra.set_num_threads(before)
    assert same(got.to_pylist(), stream.to_pylist())
    found = [{"k": tuple(one(row.pop(name)) for name in names), **row} for row in got.to_pylist()]
    assert same(found, expected(table, tuples))
    if rows:
        merged = ra.merge_states(parts).finish()
        wanted = got.select([*names, "n", "min"]).rename_columns([*names, "n", "low"])
        assert same(merged.to_pylist(), wanted.to_pylist())


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_a_group_has_the_bits_of_its_rows(data):
    check_groups(data)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=2000, deadline=None)
def test_a_group_has_the_bits_of_its_rows_in_many_more_tables(data):
    check_groups(data)


def test_many_rows_to_the_bit_for_any_threads_and_batches():
    rng = np.random.default_rng(3)
    values = rng.standard_normal((20_000, 7)).astype("f4") * 1e3
    keys = rng.integers(0, 9, len(values)) ** 3
    table = pa.table({"k": keys, "emb": vectors(values)})
    wanted = expected(table, keys.tolist())
    before = ra.build_info()["num_threads"]
    for threads in (1, 2, 5):
        ra.set_num_threads(threads)
        for batch in (20_000, 999, 64):
            reader = pa.RecordBatchReader.from_batches(
                table.schema, (b for b in table.to_batches(max_chunksize=batch))
            )
            got = ra.group_by(reader, "k").aggregate(n=ra.len(), **everything())
            assert same(got.to_pylist(), wanted), (threads, batch)
    ra.set_num_threads(before)


KEYS = {
    "int8": pa.array([1, 2, 1], pa.int8()),
    "uint64": pa.array([1, 2**64 - 1, 1], pa.uint64()),
    "float32": pa.array([1.5, 2.5, 1.5], pa.float32()),
    "bool": pa.array([True, False, True]),
    "large string": pa.array(["a", "b", "a"], pa.large_string()),
    "string view": pa.array(["a", "a rather long key that is no prefix", "a"], pa.string_view()),
    "binary": pa.array([b"a", b"b", b"a"]),
    "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
    "date": pa.array([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)] * 2)[:3],
    "timestamp": pa.array([1, 2, 1], pa.timestamp("us", "UTC")),
    "duration": pa.array([1, 2, 1], pa.duration("s")),
    "decimal": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("1.5")]),
    "nulls": pa.array([None, "x", None], pa.string()),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_come_back(kind):
    keys = KEYS[kind]
    table = pa.table({"k": keys, "emb": vectors(np.array([[1.0], [2.0], [3.0]]))})
    got = ra.group_by(table, "k").aggregate(s=E.sum(axis=0))
    assert got["k"].to_pylist() == keys[:2].to_pylist()
    assert got["s"].to_pylist() == [[4.0], [2.0]]
    plain = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    assert got["k"].type == plain


def test_several_keys_sorted_and_as_pyarrow_reads_it():
    table = pa.table(
        {
            "a": ["y", "x", "y", "x"],
            "b": [2, 1, 1, 1],
            "emb": vectors(np.arange(8.0).reshape(4, 2)),
            "price": [1.0, 2.0, 3.0, None],
        }
    )
    got = ra.group_by(table, ["a", "b"], sort=True).aggregate(
        [("emb", "mean"), ("price", "sum"), ("price", "count")]
    )
    assert got.to_pylist() == [
        {"a": "x", "b": 1, "emb_mean": [4.0, 5.0], "price_sum": 2.0, "price_count": 1},
        {"a": "y", "b": 1, "emb_mean": [4.0, 5.0], "price_sum": 3.0, "price_count": 1},
        {"a": "y", "b": 2, "emb_mean": [0.0, 1.0], "price_sum": 1.0, "price_count": 1},
    ]
    chains = ra.group_by(table, "a").aggregate(
        worst=E.norm(axis=1).max(), m=E.scale(2).mean(axis=0)
    )
    assert chains["m"].to_pylist() == [[4.0, 6.0], [8.0, 10.0]]
    np.testing.assert_allclose(chains["worst"], [np.hypot(4, 5), np.hypot(6, 7)])


def test_frames_and_keys_that_are_no_column():
    values = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "f4")
    frame = pl.DataFrame({"k": [1, 2, 1], "emb": values})
    got = ra.group_by(frame, "k").aggregate(m=E.mean(axis=0))
    assert got.to_dicts() == [{"k": 1, "m": [3.0, 4.0]}, {"k": 2, "m": [3.0, 4.0]}]
    x = ra.col("x")
    beside = ra.group_by(values, np.array(["a", "b", "a"])).aggregate(s=x.sum(axis=0))
    assert beside.to_pylist() == [{"key": "a", "s": [6.0, 8.0]}, {"key": "b", "s": [3.0, 4.0]}]
    with pytest.raises(ra.RaptorsValueError, match="expected a key for each of 3 rows, got 2"):
        ra.group_by(values, np.array([1, 2]))


def test_no_rows_one_group_and_groups_of_one_row():
    empty = pa.table({"k": pa.array([], pa.int8()), "emb": vectors(np.ones((0, 2)))})
    got = ra.group_by(empty, "k").aggregate(m=E.mean(axis=0), n=ra.len())
    assert got.num_rows == 0 and got.schema.field("m").type == pa.list_(pa.float64(), 2)
    values = np.arange(2000.0).reshape(1000, 2)
    alone = pa.table({"k": np.arange(1000), "emb": vectors(values)})
    got = ra.group_by(alone, "k").aggregate(m=E.mean(axis=0))
    assert got["m"].to_pylist() == values.tolist()
    one = pa.table({"k": pa.nulls(1000, pa.int8()), "emb": vectors(values)})
    got = ra.group_by(one, "k").aggregate(m=E.mean(axis=0))
    assert got.to_pylist() == [{"k": None, "m": ra.mean(values, axis=0).tolist()}]


def test_mistakes():
    table = pa.table({"k": [1], "emb": vectors(np.ones((1, 2)))})
    groups = ra.group_by(table, "k")
    with pytest.raises(ra.RaptorsValueError, match="col: 'nope' is not there"):
        ra.group_by(table, "nope")
    with pytest.raises(ra.RaptorsValueError, match="aggregate: expected m to end in one of sum"):
        groups.aggregate(m=E.scale(2))
    with pytest.raises(ra.RaptorsValueError, match="aggregate: expected axis=0"):
        groups.aggregate(m=E.mean())
    with pytest.raises(ra.RaptorsValueError, match="expected one of .* for emb, got 'mode'"):
        groups.aggregate([("emb", "mode")])
    with pytest.raises(ra.RaptorsTypeError, match="aggregate: expected expressions by name"):
        groups.aggregate()
    for wrong in ("mean", ("emb", "mean"), [("emb", "std", {"ddof": 1})], pl.col("emb")):
        with pytest.raises(ra.RaptorsTypeError, match='aggregate: expected pairs such as ."emb"'):
            groups.aggregate(wrong)
    with pytest.raises(ra.RaptorsTypeError, match="expected an expression for m, got Expr"):
        groups.aggregate(m=pl.col("emb"))
    with pytest.raises(ra.RaptorsOverflowError, match="sum: integer overflow in group 0"):
        big = pa.table({"k": [1, 1], "emb": vectors(np.full((2, 1), 2**63 - 1))})
        ra.group_by(big, "k").aggregate(s=E.sum(axis=0))


def test_groups_of_every_length_and_one_that_all_threads_share():
    rng = np.random.default_rng(5)
    values = rng.standard_normal((40_000, 3)).astype("f4")
    lengths = [*range(1, 40), 1023, 1024, 1025, 3000]
    keys = np.repeat(np.arange(len(lengths)), lengths)
    keys = rng.permutation(np.r_[keys, np.full(len(values) - len(keys), 99)])
    table = pa.table({"k": keys, "emb": vectors(values)})
    wanted = expected(table, keys.tolist())
    before = ra.build_info()["num_threads"]
    for threads in (1, 3):
        ra.set_num_threads(threads)
        got = ra.group_by(table, "k").aggregate(n=ra.len(), **everything())
        assert same(got.to_pylist(), wanted), threads
    ra.set_num_threads(before)


def test_first_and_last_rows():
    table = pa.table(
        {
            "k": [1, 2, 1, 2, 1],
            "emb": pa.array([None, [1.0], [2.0], [3.0], None], pa.list_(pa.float32(), 1)),
            "name": ["a", "b", None, "d", "e"],
        }
    )
    wanted = dict(
        first=E.first(), last=E.last(), name=ra.col("name").first(), e=E.last(skip_nulls=False)
    )
    rows = [
        {"k": 1, "first": [2.0], "last": [2.0], "name": "a", "e": None},
        {"k": 2, "first": [1.0], "last": [3.0], "name": "b", "e": [3.0]},
    ]
    for batch in (5, 2, 1):
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(batch))
        assert ra.group_by(reader, "k").aggregate(**wanted).to_pylist() == rows
    assert ra.group_by(table, "k").aggregate(**wanted).to_pylist() == rows
    named = ra.group_by(table, "k").aggregate([("name", "last")])
    assert named.to_pylist() == [{"k": 1, "name_last": "e"}, {"k": 2, "name_last": "d"}]


def test_lazy_frames_have_groups():
    frame = pl.DataFrame({"k": [1, 2, 1], "emb": np.arange(6.0).reshape(3, 2)})
    got = frame.lazy().raptors.group_by("k").agg(m=E.mean(axis=0), n=ra.len())
    assert isinstance(got, pl.DataFrame)
    assert got.to_dicts() == [{"k": 1, "m": [2.0, 3.0], "n": 2}, {"k": 2, "m": [2.0, 3.0], "n": 1}]
    assert frame.raptors.group_by(["k"], sort=True).agg([("emb", "max")]).rows() == [
        (1, [4.0, 5.0]),
        (2, [2.0, 3.0]),
    ]
    whole = frame.lazy().filter(pl.col("k") == 1).raptors.select(s=E.sum(axis=0))
    assert whole.to_dicts() == [{"s": [4.0, 6.0]}]


def test_groups_that_grow_slowly_over_a_stream():
    rng = np.random.default_rng(8)
    values = rng.standard_normal((6000, 3)).astype("f4")
    keys = rng.integers(0, 900, len(values)) * (rng.random(len(values)) < 0.9)
    table = pa.table({"k": keys, "emb": vectors(values)})
    wanted = expected(table, keys.tolist())
    for batch in (1, 7, 100, 2500):
        pieces = (
            table[:300].to_batches(max_chunksize=batch) if batch == 1 else table.to_batches(batch)
        )
        own = wanted if batch > 1 else expected(table[:300], keys[:300].tolist())
        reader = pa.RecordBatchReader.from_batches(table.schema, pieces)
        got = ra.group_by(reader, "k").aggregate(n=ra.len(), **everything())
        assert same(got.to_pylist(), own), batch
    holes = vectors(values, rng.random(values.shape) < np.linspace(0, 0.2, 6000)[:, None])
    table = table.set_column(1, "emb", holes)
    parts = [
        ra.group_by(table[a : a + 1024], "k").partial(**everything()) for a in range(0, 6000, 1024)
    ]
    got = ra.merge_states(parts).finish()
    whole = ra.group_by(table.to_reader(max_chunksize=500), "k").aggregate(**everything())
    for name in ("min", "max", "count"):
        assert got[name].equals(whole[name])
    for name in ("sum", "mean", "var", "std", "norm"):
        a, b = (np.array(t[name].to_pylist(), "f8") for t in (got, whole))
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_rows_of_no_elements_and_keys_that_are_all_null():
    width0 = pa.FixedSizeListArray.from_buffers(
        pa.list_(pa.float32(), 0), 4, [None], children=[pa.array([], pa.float32())]
    )
    table = pa.table({"k": [1, 2, 1, 1], "emb": width0})
    for source in (table, table.to_reader()):
        got = ra.group_by(source, "k").aggregate(m=E.mean(axis=0), n=ra.len())
        assert got["n"].to_pylist() == [3, 1]
        assert [len(row) for row in got["m"].to_pylist()] == [0, 0]
    nulls = pa.table({"k": pa.nulls(3, pa.string()), "emb": vectors(np.ones((3, 2)))})
    for source in (nulls, nulls.to_reader()):
        got = ra.group_by(source, "k").aggregate(m=E.sum(axis=0))
        assert got.to_pylist() == [{"k": None, "m": [3.0, 3.0]}]


GROWTH = """
import json, resource, sys
import numpy as np, pyarrow as pa, raptors_arrow as ra
rows, width, keys, batch = (int(arg) for arg in sys.argv[1:5])
rng = np.random.default_rng(0)
schema = pa.schema({"k": pa.int64(), "emb": pa.list_(pa.float32(), width)})
def batches(rows):
    for first in range(0, rows, batch):
        flat = pa.array(rng.random(batch * width, dtype="f4"))
        emb = pa.FixedSizeListArray.from_arrays(flat, type=schema.field("emb").type)
        each = np.arange(first, first + batch) if keys == 0 else rng.integers(0, keys, batch)
        yield pa.record_batch([pa.array(each), emb], schema=schema)
def grouped(rows):
    reader = pa.RecordBatchReader.from_batches(schema, batches(rows))
    e = ra.col("emb")
    wanted = {name: getattr(e, name)(axis=0) for name in sys.argv[5].split(",")}
    return ra.group_by(reader, "k").aggregate(n=ra.len(), **wanted)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
grouped(2 * batch)
before = peak()
made = grouped(rows)
print(json.dumps([made.num_rows, sum(made["n"].to_pylist()), peak() - before]))
"""


def growth(*args) -> list:
    run = subprocess.run(
        [sys.executable, "-c", GROWTH, *map(str, args)], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is counted in other units")
def test_memory_of_a_stream_grows_with_its_groups_alone():
    # 4 GB of float32 by 10,000 keys.
    groups, rows, megabytes = growth(16_777_216, 64, 10_000, 65_536, "mean")
    assert (groups, rows) == (10_000, 16_777_216)
    assert megabytes < 300
    # A group for each row: 64 MB of results, and as much of rows.
    groups, rows, megabytes = growth(1_048_576, 16, 0, 65_536, "mean")
    assert (groups, rows) == (1_048_576, 1_048_576)
    assert megabytes < 500
