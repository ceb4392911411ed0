"""Every function against NumPy in float64, on random shapes, slices, nulls and chunkings."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
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
    got = [got] if got is None or isinstance(got, float | int) else got.to_pylist()
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


EXTREMES = {"min": np.min, "max": np.max, "argmin": np.argmin, "argmax": np.argmax}


@EXAMPLES
@given(matrices(), st.sampled_from([None, 0, 1]), st.sampled_from([*EXTREMES, "count"]))
def test_extremes_and_counts(matrix, axis, name):
    values, valid, row_valid, column = matrix
    got = getattr(ra, name)(column, axis=axis)
    got = [got] if axis is None else got.to_pylist()
    parts, oks = (
        [a.reshape(-1)] if axis is None else list(a.T if axis == 0 else a) for a in (values, valid)
    )
    assert len(got) == len(parts)
    for i, (one, part, ok) in enumerate(zip(got, parts, oks, strict=True)):
        if name == "count":
            assert one == (None if axis == 1 and not row_valid[i] else ok.sum())
        elif not ok.any():
            assert one is None
        elif name.startswith("arg"):
            worst = np.inf if name == "argmin" else -np.inf
            assert one == EXTREMES[name](np.where(ok, part, worst))
        else:
            assert one == EXTREMES[name](part[ok])


@EXAMPLES
@given(matrices(), st.sampled_from([None, 0, 1]), st.integers(0, 1), st.sampled_from([1, 2, "inf"]))
def test_spread_and_norms(matrix, axis, ddof, ord):
    values, valid, row_valid, column = matrix
    terms = np.where(valid, values, 0).astype("f8")
    counts = valid.sum(axis=axis)
    n = np.maximum(counts, 1)
    if axis == 1:
        counts = np.where(row_valid, counts, -1)
    # Sums of n terms are off by at most n u of their magnitudes; u = 2**-53. One rounding more.
    u, eps = (terms.size + 64) * 2.0**-53, np.finfo(values.dtype).eps
    mean = np.expand_dims(terms.sum(axis=axis) / n, axis if axis is not None else (0, 1))
    squares = np.where(valid, (terms - mean) ** 2, 0).sum(axis=axis)
    freedom = np.maximum(n - ddof, 1)
    largest = np.abs(terms).max(axis=axis, initial=0)
    # Deviations are off by those of the mean, u times the largest magnitude.
    off = 2 * u * (squares + 2 * largest * np.sqrt(squares * n) + n * u * largest**2) / freedom
    var = squares / freedom
    options = {"axis": axis, "ddof": ddof}
    check(ra.var(column, **options), var, counts, ddof + 1, off + var * eps)
    # |sqrt(a) - sqrt(b)| is at most both sqrt(|a - b|) and |a - b| / sqrt(a).
    with np.errstate(divide="ignore", invalid="ignore"):
        root_off = np.fmin(np.sqrt(off), off / np.sqrt(var)) + np.sqrt(var) * 2 * eps
    check(ra.std(column, **options), np.sqrt(var), counts, ddof + 1, root_off)
    sizes = np.abs(terms)
    norm = {
        1: sizes.sum(axis=axis),
        2: np.sqrt((sizes**2).sum(axis=axis)),
        "inf": largest,
    }[ord]
    check(ra.norm(column, axis=axis, ord=ord), norm, counts, 1, norm * (2 * u + 2 * eps))


UNARY = {
    "negate": np.negative,
    "abs": np.abs,
    "square": np.square,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "clip": lambda x: np.clip(x, -1, 2),
}


@EXAMPLES
@given(matrices(), st.sampled_from(sorted(UNARY)))
def test_one_operation_for_each_element(matrix, name):
    values, valid, row_valid, column = matrix
    column = ra.abs(column) if name == "sqrt" else column
    options = {"min": -1, "max": 2.0} if name == "clip" else {}
    result = getattr(ra, name)(column, **options)
    assert result.type == column.type
    expected = UNARY[name](values)
    for got, want, ok, alive in zip(result.to_pylist(), expected, valid, row_valid, strict=True):
        assert (got is None) == (not alive)
        if alive:
            assert got == [w if o else None for w, o in zip(want.tolist(), ok, strict=True)]


@EXAMPLES
@given(matrices(), st.booleans(), st.integers(0, 2**32))
def test_row_by_row(matrix, one_vector, seed):
    values, valid, _, column = matrix
    rows, width = values.shape
    y = np.random.default_rng(seed).standard_normal((rows, width)).astype(values.dtype)
    second = y[0] if one_vector and rows else fixed(y)
    y = np.broadcast_to(y[:1], y.shape) if one_vector and rows else y
    a, b = np.where(valid, values, 0).astype("f8"), y.astype("f8")
    u, eps = (width + 64) * 2.0**-53, np.finfo(values.dtype).eps
    lengths = np.sqrt((a * a).sum(axis=1)), np.sqrt((b * b).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = (a * b).sum(axis=1) / (lengths[0] * lengths[1])
    l1, l2 = np.abs(a - b).sum(axis=1), np.sqrt(((a - b) ** 2).sum(axis=1))
    dot = (a * b).sum(axis=1)
    size = np.abs(a * b).sum(axis=1)
    for name, want, off in (
        ("dot", dot, 2 * u * size + np.abs(dot) * eps),
        ("cosine_similarity", cosine, np.full(rows, 8 * u + 2 * eps)),
        ("l1_distance", l1, l1 * (2 * u + eps)),
        ("l2_distance", l2, l2 * (2 * u + 2 * eps)),
    ):
        got = getattr(ra, name)(column, second).to_pylist()
        for value, expected, tolerance, ok in zip(got, want, off, valid, strict=True):
            if not ok.all():
                assert value is None
            elif name != "cosine_similarity" or np.isfinite(expected):
                assert abs(value - expected) <= tolerance


def fits(number: int, dtype: np.dtype) -> bool:
    return np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


@EXAMPLES
@given(
    st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]),
    st.sampled_from(["add", "subtract", "multiply", "divide"]),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_integer_arithmetic_is_that_of_python_or_an_error(name, operation, seed, small):
    dtype = np.dtype(name)
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    ends = (-5 if info.min < 0 else 0, 5) if small else (info.min, info.max)
    x, y = (rng.integers(*ends, (3, 2), dtype, endpoint=True) for _ in range(2))
    exact = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "divide": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    }[operation]
    pairs = list(zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True))
    function = getattr(ra, operation)
    if operation == "divide" and 0 in y:
        first = next(i for i, (_, b) in enumerate(pairs) if b == 0) // 2
        bad = [i // 2 for i, (a, b) in enumerate(pairs) if b and not fits(exact(a, b), dtype)]
        with pytest.raises((ZeroDivisionError, OverflowError), match=f"row {min([first, *bad])}"):
            function(fixed(x), fixed(y))
        return
    wanted = [exact(a, b) for a, b in pairs]
    bad = [i // 2 for i, number in enumerate(wanted) if not fits(number, dtype)]
    if bad:
        with pytest.raises(OverflowError, match=f"{operation}: .*row {bad[0]}"):
            function(fixed(x), fixed(y))
    else:
        assert function(fixed(x), fixed(y)).flatten().to_pylist() == wanted


@EXAMPLES
@given(
    st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]),
    st.integers(0, 2**32),
    st.sampled_from([None, 0, 1]),
)
def test_integer_sums_are_exact_or_an_error(name, seed, axis):
    dtype = np.dtype(name)
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (rng.integers(1, 9), 3), dtype, endpoint=True)
    sums = np.atleast_1d(x.astype(object).sum(axis=axis)).tolist()
    result = np.dtype("i8" if dtype.kind == "i" else "u8")
    if all(fits(total, result) for total in sums):
        got = ra.sum(x, axis=axis)
        assert np.atleast_1d(np.asarray(got, object)).tolist() == sums
    else:
        with pytest.raises(OverflowError, match="sum: integer overflow"):
            ra.sum(x, axis=axis)
    count = x.size // len(sums)
    got = np.atleast_1d(np.asarray(ra.mean(x, axis=axis), "f8"))
    # The exact sum by the count, rounded: Python's division of integers does just that.
    assert got.tolist() == [total / count for total in sums]


OPERATIONS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "minimum": np.minimum,
    "maximum": np.maximum,
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
