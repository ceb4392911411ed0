"""States of groups: merged by others, from other processes, to the bits of the whole."""

import itertools
import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import raptors_arrow as ra

E = ra.col("emb")
STATISTICS = ("sum", "mean", "min", "max", "count", "var", "std", "norm")


def everything() -> dict[str, ra.Expr]:
    made = {name: getattr(E, name)(axis=0) for name in STATISTICS}
    return made | {"first": E.first(), "last": E.last(), "n": ra.len(), "p": ra.col("p").mean()}


def rows(count: int, groups: int, dtype: str = "f4") -> pa.Table:
    """Rows whose keys take turns, so that each group has as many in any part."""
    rng = np.random.default_rng(1)
    values = (rng.standard_normal((count, 3)) * 100).astype(dtype)
    return pa.table(
        {
            "k": pa.array([f"user {i % groups}" for i in range(count)]),
            "emb": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 3),
            "p": rng.standard_normal(count),
        }
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_parts_cut_at_leaves_give_the_bits_of_the_whole(dtype):
    table = rows(9000 * 2, 2, dtype)
    whole = ra.group_by(table, "k").aggregate(**everything())
    for cuts in ([2048], [6 * 1024], [2048, 10 * 1024], [8192, 8192, 16384]):
        at = [0, *cuts, len(table)]
        parts = [table.slice(a, b - a) for a, b in itertools.pairwise(at)]
        states = [ra.group_by(part, "k").partial(**everything()) for part in parts]
        assert ra.merge_states(states).finish().equals(whole), cuts
        again = ra.merge_states([ra.merge_states(states[:-1]).partial(), states[-1]])
        assert again.finish().equals(whole)


def test_parts_cut_anywhere_are_within_the_bound():
    table = rows(5000, 3, "f8")
    whole = ra.group_by(table, "k").aggregate(**everything())
    states = [
        ra.group_by(part, "k").partial(**everything()) for part in (table[:1777], table[1777:])
    ]
    got = ra.merge_states(states).finish()
    for name in ("min", "max", "count", "first", "last", "n"):
        assert got[name].equals(whole[name]), name
    for name in ("sum", "mean", "var", "std", "norm"):
        a, b = (np.array(t[name].to_pylist()) for t in (got, whole))
        # A sum of n elements is off by a few roundings of the sum of magnitudes, here below 2e5.
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=2e5 * 2**-50, err_msg=name)


HALF = """
import sys, pyarrow.parquet as pq, raptors_arrow as ra
e = ra.col("emb")
state = ra.group_by(sys.argv[1], "k").partial(mean=e.mean(axis=0), std=e.std(axis=0), n=ra.len())
pq.write_table(state, sys.argv[2])
"""


@pytest.mark.parametrize("cut", [2 * 4096, 7001])
def test_two_processes_make_states_that_a_third_merges(tmp_path, cut):
    table = rows(20_000, 2)
    for name, half in (("a", table[:cut]), ("b", table[cut:])):
        pq.write_table(half, tmp_path / f"{name}.parquet")
        own = [str(tmp_path / f"{name}.parquet"), str(tmp_path / f"{name}.state.parquet")]
        subprocess.run([sys.executable, "-c", HALF, *own], check=True)
    states = [str(tmp_path / f"{name}.state.parquet") for name in "ab"]
    got = ra.merge_states([pq.read_table(path) for path in states]).finish()
    assert got.equals(ra.merge_states(states).finish())
    wanted = ra.group_by(table, "k").aggregate(mean=E.mean(axis=0), std=E.std(axis=0), n=ra.len())
    if cut % 2048 == 0:
        assert got.equals(wanted)
    else:
        for name in ("mean", "std"):
            a, b = (np.array(t[name].to_pylist()) for t in (got, wanted))
            np.testing.assert_allclose(a, b, rtol=2**-22)  # float32, rounded once each


def test_ipc_and_plain_strings_are_read_too(tmp_path):
    table = rows(100, 3)
    state = ra.group_by(table, "k").partial(m=E.mean(axis=0), last=E.last())
    feather.write_feather(state, str(tmp_path / "s.arrow"), compression="uncompressed")
    wanted = ra.group_by(table, "k").aggregate(m=E.mean(axis=0), last=E.last())
    assert ra.merge_states(str(tmp_path / "s.arrow")).finish().equals(wanted)
    # As an engine without dictionaries and large lists hands it on.
    plain = pa.Table.from_pylist(state.to_pylist())
    fields = [
        pa.field(f.name, pa.list_(f.type.value_type) if pa.types.is_large_list(f.type) else f.type)
        for f in state.schema.field("m").type
    ]
    fields = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in fields]
    column = pa.array(plain["m"].to_pylist(), pa.struct(fields))
    got = ra.merge_states(pa.table({"k": state["k"], "m": column})).finish()
    assert got.equals(wanted.select(["k", "m"]))


def test_variances_far_from_zero_keep_their_digits_when_merged():
    rng = np.random.default_rng(8)
    values = 1e8 + rng.standard_normal(4321)
    table = pa.table({"k": np.zeros(len(values), "i4"), "x": values})
    parts = [table[a:b] for a, b in ((0, 1000), (1000, 1500), (1500, 4321))]
    x = ra.col("x")
    states = [ra.group_by(part, "k").partial(var=x.var(), std=x.std(ddof=1)) for part in parts]
    got = ra.merge_states(states).finish().to_pylist()[0]
    exact = [Fraction(float(v)) for v in values]
    mean = sum(exact) / len(exact)
    squares = sum((v - mean) ** 2 for v in exact)
    # The bound of docs/guide/state.md, with room for the root.
    assert abs(Fraction(got["var"]) / (squares / len(exact)) - 1) < Fraction(1, 2**40)
    sample = float(squares / (len(exact) - 1)) ** 0.5
    assert abs(got["std"] / sample - 1) < 2**-40


def changed(state: pa.Table, name: str, values: pa.Array) -> pa.Table:
    column = state["m"].combine_chunks()
    fields = [column.type.field(i) for i in range(column.type.num_fields)]
    arrays = [values if f.name == name else column.field(f.name) for f in fields]
    names = [f.name for f in fields]
    return state.set_column(1, "m", pa.StructArray.from_arrays(arrays, names=names))


def test_mistakes():
    table = rows(10, 2)
    state = ra.group_by(table, "k").partial(m=E.mean(axis=0))
    newer = changed(state, "version", pa.array([9, 9], pa.int32()))
    with pytest.raises(ra.RaptorsValueError, match="version 2 or older, got version 9; a newer"):
        ra.merge_states(newer).finish()
    with pytest.raises(ra.RaptorsTypeError, match="expected tables of keys and states"):
        ra.merge_states(table)
    with pytest.raises(ra.RaptorsValueError, match="expected tables of states, got none"):
        ra.merge_states([])
    other = ra.group_by(table, "k").partial(m=E.var(axis=0))
    with pytest.raises(ra.RaptorsTypeError, match="states of one statistic of one column"):
        ra.merge_states([state, other]).finish()
    with pytest.raises(ra.RaptorsValueError, match="expected keys k and states m in all tables"):
        ra.merge_states([state, other.rename_columns(["k", "v"])]).finish()
    with pytest.raises(ra.RaptorsTypeError, match="expected numbers of rows for state, got -1"):
        ra.merge_states(changed(state, "rows", pa.array([-1, -1], pa.int64()))).finish()
    with pytest.raises(ra.RaptorsValueError, match="states of some rows, got tables without any"):
        ra.merge_states(state[:0]).finish()


def test_a_state_says_what_it_is_of():
    state = ra.group_by(rows(10, 2), "k").partial(m=E.var(axis=0, ddof=1))
    of = json.loads(state["m"][0]["of"].as_py())
    assert of["statistic"] == "var" and of["ddof"] == 1 and of["width"] == 3
    assert state["m"][0]["version"].as_py() == 1
    empty = ra.group_by(rows(10, 2)[:0], "k").partial(m=E.var(axis=0))
    assert (
        empty.num_rows == 0
        and empty.schema == ra.group_by(rows(4, 2), "k").partial(m=E.var(axis=0)).schema
    )
