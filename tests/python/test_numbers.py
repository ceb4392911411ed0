"""Every function against NumPy in float64, on random shapes, slices, nulls and chunkings."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from forms import fixed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import raptors_arrow as ra

EXAMPLES = settings(
    max_examples=700, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@st.composite
def matrices(draw):
    """Values, which rows and elements are valid, and the same as a sliced, chunked column."""
    rows, width = draw(st.integers(0, 70)), draw(st.integers(1, 40))
    dtype = draw(st.sampled_from(["f4", "f8"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = (rng.standard_normal((rows, width)) * 10.0 ** draw(st.integers(-3, 3))).astype(dtype)
    share = draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    row_valid = rng.random(rows) >= draw(st.sampled_from([0.0, 0.2, 1.0]))
    valid = rng.random((rows, width)) >= share
    garbage = np.where(valid & row_valid[:, None], values, np.array(np.nan, dtype))
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 9))

    def padded(array, fill):
        shape = array.shape[1:]
        ends = [np.full((n, *shape), fill, array.dtype) for n in (before, after)]
        return np.concatenate([ends[0], array, ends[1]])

    column = fixed(
        padded(garbage, np.inf),
        padded(row_valid, True) if draw(st.booleans()) or not row_valid.all() else None,
        padded(valid, True) if draw(st.booleans()) or not valid.all() else None,
    ).slice(before, rows)
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=3)))
    if cuts:
        cuts = [0, *cuts, rows]
        parts = [column[a:b] for a, b in pairwise(cuts)]
        column = pa.chunked_array(parts, column.type)
    return values, valid & row_valid[:, None], row_valid, column


def bound(terms: np.ndarray, axis, dtype) -> np.ndarray:
    """How far a sum may be off: one rounding of the result, and the float64 sums before it.

    The blocked tree over n terms is off by at most (log2 n + 64) u sum|x| with u = 2**-53; NumPy's
    own float64 sum by n u sum|x|.
    """
    count = max(terms.size, 1)
    total = np.abs(terms).sum(axis=axis)
    return total * (count + 64) * 2.0**-53 + np.abs(terms.sum(axis=axis)) * np.finfo(dtype).eps


def check(got, expected, counts, least, tolerance):
    """Compare results, where fewer than ``least`` values are null."""
    got = [got] if got is None or isinstance(got, float) else got.to_pylist()
    expected, counts, tolerance = (np.atleast_1d(a) for a in (expected, counts, tolerance))
    assert len(got) == len(expected)
    for value, want, count, off in zip(got, expected, counts, tolerance, strict=True):
        if count < least:
            assert value is None
        else:
            assert abs(value - want) <= off


@EXAMPLES
@given(matrices(), st.sampled_from([None, 0, 1]), st.booleans(), st.integers(0, 4))
def test_sum_and_mean(matrix, axis, skip_nulls, min_count):
    values, valid, row_valid, column = matrix
    terms = np.where(valid, values, 0).astype("f8")
    counts = valid.sum(axis=axis)
    least = min_count if skip_nulls else max(min_count, valid.size // max(counts.size, 1))
    if axis == 1:
        # A null row is null, whatever the count.
        counts = np.where(row_valid, counts, -1)
    options = {"axis": axis, "skip_nulls": skip_nulls, "min_count": min_count}
    off = bound(terms, axis, values.dtype)
    check(ra.sum(column, **options), terms.sum(axis=axis), counts, least, off)
    if min_count > 0:
        n = np.maximum(counts, 1)
        eps = np.finfo(values.dtype).eps
        mean = terms.sum(axis=axis) / n
        off = off / n + np.abs(mean) * eps
        check(ra.mean(column, **options), mean, counts, least, off)


OPERATIONS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
}


@EXAMPLES
@given(
    matrices(),
    st.sampled_from(sorted(OPERATIONS)),
    st.sampled_from(["number", "row", "column", "matrix"]),
    st.integers(0, 2**32),
)
def test_arithmetic(matrix, name, shape, seed):
    values, valid, row_valid, column = matrix
    rng = np.random.default_rng(seed)
    rows, width = values.shape
    options = {}
    if shape == "number":
        y = y_values = float(np.float32(rng.standard_normal()))
        y_valid = np.ones(1, bool)
    elif shape == "matrix":
        y_values = rng.standard_normal(values.shape).astype(values.dtype)
        y_valid = rng.random(values.shape) > 0.2
        y = fixed(y_values, None, y_valid)
    else:
        n = width if shape == "row" else rows
        y_values = rng.standard_normal(n).astype(values.dtype)
        y_valid = rng.random(n) > 0.2
        y = pa.array(y_values, mask=~y_valid)
        if shape == "column":
            options["axis"] = 0
            y_values, y_valid = y_values[:, None], y_valid[:, None]
    with np.errstate(all="ignore"):
        expected = OPERATIONS[name](values, np.asarray(y_values, values.dtype))
    result = getattr(ra, name)(column, y, **options)
    assert result.type == column.type
    result = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
    row_ok = row_valid & y_valid[:, 0] if shape == "column" else row_valid
    assert result.is_valid().to_pylist() == row_ok.tolist()
    both = np.broadcast_to(valid & y_valid, values.shape) & row_ok[:, None]
    for got, want, ok, alive in zip(result.to_pylist(), expected, both, row_ok, strict=True):
        if alive:
            # One IEEE operation: not near, but equal.
            assert [g is None for g in got] == (~ok).tolist()
            kept = np.array([g for g in got if g is not None], values.dtype)
            np.testing.assert_array_equal(kept, want[ok])


@EXAMPLES
@given(matrices(), st.sampled_from(["C", "F"]), st.sampled_from([None, 0, 1]))
def test_numpy_arrays(matrix, order, axis):
    values = np.asarray(matrix[0], order=order)
    scaled = ra.scale(values, 3)
    np.testing.assert_array_equal(scaled, values * 3)
    assert scaled.flags.c_contiguous == values.flags.c_contiguous
    if values.size:
        terms = values.astype("f8")
        off = bound(terms, axis, values.dtype)
        assert (np.abs(ra.sum(values, axis=axis) - terms.sum(axis=axis)) <= off).all()
