"""Weights of sums, means and variances: exact rationals, the same bits however rows come."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raptors_arrow as ra

NAMES = ("sum", "mean", "var", "std")
U = 2.0**-53
E, W = ra.col("emb"), ra.col("w")


def vectors(values, mask=None):
    flat = pa.array(values.ravel(), mask=None if mask is None else mask.ravel())
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def root(number: Fraction) -> float:
    shift = 2 * max(0, (number.denominator.bit_length() - number.numerator.bit_length()) // 2 + 70)
    return math.isqrt((number.numerator << shift) // number.denominator) / 2.0 ** (shift // 2)


def exact(name: str, x: list, w: list, ddof: int = 0) -> float | None:
    """The statistic of rationals; None where there is none."""
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(x, w, strict=True) if None not in (a, b)]
    if not pairs:
        return None
    weight = sum(b for _, b in pairs)
    total = sum(a * b for a, b in pairs)
    if name == "sum":
        return float(total)
    if weight == 0 or (name != "mean" and weight <= ddof):
        return None
    mean = total / weight
    if name == "mean":
        return float(mean)
    squares = sum(b * (a - mean) ** 2 for a, b in pairs) / (weight - ddof)
    return root(squares) if name == "std" else float(squares)


def bound(x: list, w: list) -> float:
    """What docs/guide/numbers.md says of a sum, relative to the sum of magnitudes."""
    pairs = [(a, b) for a, b in zip(x, w, strict=True) if None not in (a, b)]
    return (140 + math.log2(len(pairs) + 1)) * U * sum(abs(a * b) for a, b in pairs)


def columns(values, mask):
    return [
        [None if m else float(v) for v, m in zip(c, k, strict=True)]
        for c, k in zip(values.T, mask.T, strict=True)
    ]


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "u8"])
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 1023, 1024, 1025, 2600])
def test_columns_are_those_of_exact_rationals(dtype, rows):
    rng = np.random.default_rng(rows)
    values = (rng.standard_normal((rows, 3)) * 50 + 200).astype(dtype)
    mask = rng.random((rows, 3)) < 0.2
    weights = rng.random(rows) * np.exp(rng.normal(size=rows) * 3)
    gaps = rng.random(rows) < 0.1
    given_weights = pa.array(weights, mask=gaps)
    listed = [None if gap else w for gap, w in zip(gaps, weights.tolist(), strict=True)]
    eps = {"f4": 2.0**-24, "f2": 2.0**-11}.get(dtype, 0.0)
    x = vectors(values, mask)
    for name in NAMES:
        got = getattr(ra, name)(x, axis=0, weights=given_weights).to_pylist()
        for own, one in zip(columns(values, mask), got, strict=True):
            truth = exact(name, own, listed)
            if truth is None:
                assert one is None
                continue
            if dtype == "f2" and abs(truth) > 65_519:
                assert one == math.inf  # more than a float16 holds
                continue
            off = bound(own, listed)
            if name == "mean":
                off /= sum(w for a, w in zip(own, listed, strict=True) if None not in (a, w))
            if name in ("var", "std"):
                off = 2500 * 140 * U * abs(truth)
            assert abs(one - truth) <= off + (eps + 4 * U) * abs(truth), (name, one, truth)


def test_means_far_from_zero_and_first_rows_that_weigh_nothing():
    rng = np.random.default_rng(0)
    x = 1e8 + rng.standard_normal(3000)
    w = rng.random(3000)
    x[[0, 1024, 2048]] = -1e9  # the first of each leaf, which weighs next to nothing
    w[[0, 1024, 2048]] = [0.0, 1e-30, 1e-25]
    truth = exact("var", x.tolist(), w.tolist())
    got = ra.var(x[:, None], axis=0, weights=w)[0]
    assert abs(got - truth) <= 1e-9 * truth
    assert ra.var(x, weights=w) == got


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8"])
def test_weights_of_one_give_the_bits_without_any(dtype):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((3000, 9)) * 100).astype(dtype)
    for name in NAMES:
        if name == "sum" and dtype == "i8":
            continue  # an exact integer without weights, a float64 with them
        f = getattr(ra, name)
        assert np.array_equal(f(x, 0, weights=np.ones(3000)), f(x, 0)), name
        assert np.array_equal(f(x, 1, weights=np.ones(9)), f(x, 1)), name
        assert f(x, weights=np.ones_like(x)) == f(x), name


def test_every_axis_is_that_of_numpy():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((500, 6))
    for axis, w in [(0, rng.random(500)), (1, rng.random(6)), (None, rng.random((500, 6)))]:
        np.testing.assert_allclose(ra.mean(x, axis, weights=w), np.average(x, axis, w), rtol=1e-12)
        whole = w if axis is None else w[:, None] if axis == 0 else w[None]
        np.testing.assert_allclose(ra.sum(x, axis, weights=w), (x * whole).sum(axis), rtol=1e-12)
    each = rng.random((500, 6))
    for axis in (0, 1):
        np.testing.assert_allclose(
            ra.mean(x, axis, weights=each), np.average(x, axis, each), rtol=1e-12
        )
    negative = rng.standard_normal(500)
    np.testing.assert_allclose(
        ra.mean(x, 0, weights=negative), np.average(x, 0, negative), rtol=1e-9
    )
    wide = rng.standard_normal((3, 5000))
    w = rng.random(5000)
    np.testing.assert_allclose(ra.mean(wide, 1, weights=w), np.average(wide, 1, w), rtol=1e-12)
    long = ra.std(wide, 1, weights=w)
    middle = np.average(wide, 1, w)[:, None]
    np.testing.assert_allclose(long, np.sqrt(np.average((wide - middle) ** 2, 1, w)), rtol=1e-12)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_the_same_bits_for_any_chunks_threads_and_streams(data):
    rows = data.draw(st.sampled_from([0, 1, 5, 60, 1500, 2300]))
    width = data.draw(st.integers(1, 4))
    dtype = data.draw(st.sampled_from(["f4", "f8", "f2", "i2"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = (rng.standard_normal((rows, width)) * 30).astype(dtype)
    mask = rng.random((rows, width)) < data.draw(st.sampled_from([0.0, 0.3]))
    weights = np.where(rng.random(rows) < 0.1, 0.0, np.exp(rng.normal(size=rows) * 4))
    gaps = rng.random(rows) < data.draw(st.sampled_from([0.0, 0.2]))
    table = pa.table(
        {
            "k": rng.integers(0, 4, rows),
            "emb": vectors(values, mask),
            "w": pa.array(weights, mask=gaps),
        }
    )
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, rows), max_size=4))), rows]
    pieces = [table.slice(a, b - a) for a, b in pairwise(cuts)]
    options = {"skip_nulls": data.draw(st.booleans()), "min_count": data.draw(st.integers(0, 2))}
    wanted = {n: getattr(E, n)(axis=0, weights=W, **options) for n in NAMES}
    before = ra.build_info()["num_threads"]
    whole = ra.select(table, **wanted)
    groups = ra.group_by(table, "k").aggregate(**wanted)
    ra.set_num_threads(data.draw(st.integers(1, 3)))
    try:
        parts = pa.concat_tables(pieces)
        assert str(ra.select(parts, **wanted)) == str(whole)
        reader = pa.RecordBatchReader.from_batches(table.schema, parts.to_batches())
        assert str(ra.select(reader, **wanted)) == str(whole)
        assert str(ra.group_by(parts, "k").aggregate(**wanted).to_pylist()) == str(
            groups.to_pylist()
        )
        again = ra.group_by(parts.to_reader(), "k").aggregate(**wanted)
        assert str(again.to_pylist()) == str(groups.to_pylist())
    finally:
        ra.set_num_threads(before)
    for row in groups.to_pylist():
        own = table.filter(pa.compute.equal(table["k"], row["k"]))
        for name in NAMES:
            alone = getattr(ra, name)(own["emb"], axis=0, weights=own["w"], **options)
            assert str(alone.to_pylist()) == str(row[name]), name


def test_nulls_zeros_and_what_is_refused():
    x = pa.array([[1.0, None], [3.0, 4.0], None], pa.list_(pa.float64(), 2))
    assert ra.mean(x, axis=0, weights=[1, 3, 5]).to_pylist() == [2.5, 4.0]
    null = pa.array([1, None, 5])
    assert ra.mean(x, axis=0, weights=null).to_pylist() == [1.0, None]
    assert ra.sum(x, axis=0, weights=null, skip_nulls=False).to_pylist() == [None, None]
    assert ra.mean(x, axis=0, weights=[0, 0, 1]).to_pylist() == [None, None]
    assert ra.sum(x, axis=0, weights=[0, 0, 1]).to_pylist() == [0.0, 0.0]
    assert ra.mean(x, axis=0, weights=[1, -1, 0]).to_pylist() == [None, 4.0]
    assert ra.var(x, axis=0, weights=[2, 2, 1], ddof=4).to_pylist() == [None, None]
    assert ra.mean(x, axis=1, weights=[1, 3]).to_pylist() == [1.0, 3.75, None]
    assert ra.mean(pa.array([1, 2, 3]), weights=pa.array([1, None, 3])) == 2.5
    assert ra.sum(pa.array([2**62, 2**62]), weights=[1, 1]) == 2.0**63
    assert math.isnan(ra.mean(np.array([math.inf, 1.0]), weights=[0, 1]))
    empty = np.ones((0, 3))
    assert np.isnan(ra.mean(empty, axis=0, weights=np.ones(0))).all()
    with pytest.raises(ra.RaptorsTypeError, match="var: expected weights of 0 or more"):
        ra.var(x, axis=0, weights=[1, -1, 1])
    with pytest.raises(ra.RaptorsTypeError, match="mean: expected a weight for each element"):
        ra.mean(x, weights=[1, 2, 3])
    with pytest.raises(ra.RaptorsValueError, match="mean: expected weights of 3 rows, got 2"):
        ra.mean(x, axis=0, weights=[1, 2])
    with pytest.raises(ra.RaptorsTypeError, match='min: no option "weights"'):
        ra.min(x, axis=0, weights=[1, 2, 3])
    with pytest.raises(ra.RaptorsTypeError, match="expected at most 2 positional arguments"):
        ra.mean(x, 0, [1, 2, 3])
    ragged = pa.array([[1.0], [1.0, 2.0]])
    with pytest.raises(ra.RaptorsValueError, match="row 1"):
        ra.mean(ragged, axis=1, weights=[1.0])


def test_accumulators_and_states():
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((4096, 3)), rng.random(4096)
    for name in NAMES:
        total = ra.Accumulator(name, axis=0)
        left, right = ra.Accumulator(name, axis=0), ra.Accumulator(name, axis=0)
        for own, rows in ((left, slice(0, 2048)), (right, slice(2048, 4096))):
            own.update(x[rows], weights=w[rows])
        for a, b in pairwise([0, 1, 700, 4096]):
            total.update(x[a:b], weights=w[a:b])
        whole = getattr(ra, name)(x, axis=0, weights=w)
        again = ra.Accumulator.from_state(left.state())
        again.merge(right)
        assert np.array_equal(np.asarray(again.finish()), whole), name
        assert np.array_equal(total.finish(), whole), name
    mixed = ra.Accumulator("mean", axis=0)
    mixed.update(x, weights=w)
    with pytest.raises(ra.RaptorsTypeError, match="expected weights, as before"):
        mixed.update(x)
    plain = ra.Accumulator("mean", axis=0)
    plain.update(x)
    assert plain.state().field("version").to_pylist() == [1]
    assert mixed.state().field("version").to_pylist() == [2]
    with pytest.raises(
        ra.RaptorsTypeError, match="weights: expected none but for sum|expected none but"
    ):
        ra.Accumulator("max", axis=0).update(x, weights=w)
    table = pa.table({"k": rng.integers(0, 2, 4096), "emb": vectors(x), "w": w})
    states = [
        ra.group_by(part, "k").partial(m=E.mean(axis=0, weights=W))
        for part in (table[:9], table[9:])
    ]
    got = ra.merge_states(states).finish()["m"].to_pylist()
    truth = ra.group_by(table, "k").aggregate(m=E.mean(axis=0, weights=W))["m"].to_pylist()
    np.testing.assert_allclose(got, truth, rtol=1e-12)


def test_expressions_polars_explain_and_types():
    x = np.arange(6.0).reshape(3, 2)
    table = pa.table({"k": [1, 1, 2], "emb": vectors(x.astype("f4")), "w": [1, 3, 2]})
    weighed = E.scale(2).mean(axis=0, weights=W)
    assert repr(weighed) == "col('emb').scale(2).mean(weights=col('w'), axis=0)"
    assert weighed.columns == ("emb", "w")
    wanted = np.average(2 * x, axis=0, weights=[1, 3, 2]).astype("f4").tolist()
    assert ra.select(table, m=weighed)["m"].to_pylist() == [wanted]
    assert ra.select(table.to_reader(), m=weighed)["m"].to_pylist() == [wanted]
    assert weighed.result_type(table.schema) == pa.list_(pa.float32(), 2)
    assert ra.col("w").sum(weights=W).result_type(table.schema) == pa.float64()
    assert "72 B read" in str(ra.explain("mean", x, axis=0, weights=[1, 2, 3]))
    with pytest.raises(ra.RaptorsValueError, match="lines up with rows"):
        ra.select(table.to_reader(), m=E.mean(axis=0, weights=[1, 2, 3]))
    with pytest.raises(ra.RaptorsValueError, match="expected weights of m to be a column"):
        ra.group_by(table, "k").aggregate(m=E.mean(axis=0, weights=[1, 2, 3]))
    frame = pl.from_arrow(table)
    column = pl.col("emb").raptors
    assert frame.select(column.mean(axis=0, weights=pl.col("w") * 2.0))["emb"].to_list()[0] == [
        v / 2 for v in wanted
    ]
    by_row = frame.lazy().select(column.mean(axis=1, weights=[1.0, 3.0])).collect()
    assert by_row["emb"].to_list() == [0.75, 2.75, 4.75]
    assert frame["emb"].raptors.sum(axis=0, weights=frame["w"]).to_list() == [14.0, 20.0]
    grouped = frame.group_by("k", maintain_order=True).agg(column.mean(axis=0, weights=pl.col("w")))
    ours = frame.raptors.group_by("k").agg(emb=E.mean(axis=0, weights=W))
    assert grouped.to_dicts() == ours.to_dicts()
