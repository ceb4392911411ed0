"""Variances and their kin against exact rationals, and numbers near both ends of float64."""

import math
from fractions import Fraction

import numpy as np
import pytest
from forms import chunked, fixed

import raptors_arrow as ra

U = 2.0**-53
LEAF = 1024


def root(number: Fraction) -> float:
    """The root of a rational, to a unit of float64 or so, whatever its size."""
    shift = max(
        0, 2 * ((number.denominator.bit_length() - number.numerator.bit_length()) // 2 + 60)
    )
    whole = math.isqrt((number.numerator << shift) // number.denominator)
    return float(Fraction(whole, 2 ** (shift // 2)))


def relative(got: float, truth: Fraction | float) -> float:
    return abs(float((Fraction(float(got)) - Fraction(truth)) / Fraction(truth)))


class Spread:
    """The exact moments of a sequence of floats, and how far ours may be off.

    Sums are of whole numbers of ``2**-80``, which all floats here are.
    """

    def __init__(self, numbers):
        whole = [int(float(number) * 2.0**80) for number in numbers]
        self.whole = [number - whole[0] for number in whole]
        self.count = len(whole)
        self.sum = sum(self.whole)
        self.squares = self.products(self)
        leaves = [self.whole[i : i + LEAF] for i in range(0, self.count, LEAF)]
        shifted = sum((number - leaf[0]) ** 2 for leaf in leaves for number in leaf)
        self.shift = float(Fraction(shifted, 2**160) / self.squares)
        mean = Fraction(sum(whole), self.count * 2**80)
        self.distance = float(abs(mean)) / root(self.variance(0))

    def products(self, other: "Spread") -> Fraction:
        both = sum(a * b for a, b in zip(self.whole, other.whole, strict=True))
        return Fraction(both * self.count - self.sum * other.sum, self.count * 2**160)

    def variance(self, ddof: int) -> Fraction:
        return self.squares / (self.count - ddof)

    def standard(self, i: int) -> float:
        away = Fraction(self.whole[i] * self.count - self.sum, self.count * 2**80)
        return float(away) / root(self.variance(0))

    def mean_bound(self) -> float:
        """How far the mean may be off, in standard deviations."""
        depth, levels = self._depth()
        return U * ((depth + 2) * math.sqrt(self.shift) + 12 * math.sqrt(levels) + 4)

    def bound(self) -> float:
        """What docs/guide/numbers.md derives, and four units for what is rounded here."""
        (depth, levels), q = self._depth(), self.shift
        of_leaves = (3 * depth + 8) * q + (3 * depth + 6) * math.sqrt(levels * q)
        of_joins = 12 * math.sqrt(levels) + 2 * levels + 10 + 4 * levels * U * self.distance
        return U * (of_leaves + of_joins + 4)

    def _depth(self) -> tuple[int, int]:
        """Additions inside a leaf, and levels above the leaves."""
        leaves = -(-self.count // LEAF)
        return -(-min(self.count, LEAF) // 8) + 3, (leaves - 1).bit_length()

    def check(self, var: float, std: float, ddof: int, eps: float = 0.0):
        truth = self.variance(ddof)
        assert relative(var, truth) <= self.bound() + eps
        assert relative(std, root(truth)) <= self.bound() / 2 + 2 * U + eps


def columns(mean: float, length: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(length)
    # float32 has steps of 65536 at 1e12.
    spread = max(1.0, mean * 1e-5) if dtype == "f4" else 1.0
    noise = rng.random((length, 3))
    noise[:, 2] = (noise[:, 0] + noise[:, 1]) / 2
    return (mean + spread * noise).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("length", [10, 1000, 4096, 20_000])
@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6, 1e9, 1e12])
def test_variances_are_those_of_exact_rationals(mean, length, dtype):
    x = columns(mean, length, dtype)
    eps = float(np.finfo(dtype).eps) / 2
    spreads = [Spread(column) for column in x.T]
    for ddof in (0, 1):
        for axis, data in ((0, x), (0, fixed(x)), (0, chunked(x)), (1, np.ascontiguousarray(x.T))):
            var, std = (np.asarray(f(data, axis=axis, ddof=ddof)) for f in (ra.var, ra.std))
            for c, spread in enumerate(spreads):
                spread.check(var[c], std[c], ddof, eps)
        one = np.ascontiguousarray(x[:, :1])
        spreads[0].check(ra.var(one, ddof=ddof), ra.std(one, ddof=ddof), ddof, eps)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6, 1e9, 1e12])
def test_variances_of_a_million_are_those_of_exact_rationals(mean, dtype):
    x = columns(mean, 1_000_000, dtype)[:, 0]
    spread = Spread(x)
    eps = float(np.finfo(dtype).eps) / 2
    for ddof in (0, 1):
        spread.check(ra.var(x, ddof=ddof), ra.std(x, ddof=ddof), ddof, eps)
        column = np.ascontiguousarray(x[:, None])
        var, std = (f(column, axis=0, ddof=ddof)[0] for f in (ra.var, ra.std))
        spread.check(var, std, ddof, eps)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("length", [10, 4096, 20_000])
@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6, 1e9, 1e12])
def test_standardized_numbers_are_those_of_exact_rationals(mean, length, dtype):
    x = columns(mean, length, dtype)
    eps = float(np.finfo(dtype).eps) / 2
    by_columns = ra.standardize(x, axis=0)
    by_rows = ra.standardize(np.ascontiguousarray(x.T), axis=1).T
    alone = ra.standardize(np.ascontiguousarray(x[:, :1]), axis=None)
    for c, column in enumerate(x.T):
        spread = Spread(column)
        # The mean of float32 numbers is rounded to float64 before it is subtracted.
        of_mean = spread.mean_bound() + (U * spread.distance if dtype == "f4" else 0)
        share = spread.bound() / 2 + 4 * U + eps
        for i in range(0, length, -(-length // 500)):
            truth = spread.standard(i)
            within = of_mean + share * abs(truth)
            assert abs(by_columns[i, c] - truth) <= within
            assert abs(by_rows[i, c] - truth) <= within
            assert c or abs(alone[i, 0] - truth) <= within


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("length", [10, 4096, 20_000])
@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6, 1e9, 1e12])
def test_covariances_are_those_of_exact_rationals(mean, length, dtype):
    x = columns(mean, length, dtype)
    eps = float(np.finfo(dtype).eps) / 2
    spreads = [Spread(column) for column in x.T]
    panel = min(length, 4096)
    share = (panel + length / panel + 64) * 2 * U
    covariance, correlation = ra.covariance(x), ra.correlation(x)
    for a, left in enumerate(spreads):
        for b, right in enumerate(spreads):
            truth = left.products(right) / (length - 1)
            spread = root(left.variance(1)) * root(right.variance(1))
            off = abs(float(Fraction(float(covariance[a, b])) - truth))
            assert off <= share * spread + eps * abs(float(truth))
            assert abs(correlation[a, b] - float(truth) / spread) <= 2 * share + eps


def test_variance_beyond_one_leaf_keeps_its_digits():
    rng = np.random.default_rng(7)
    for x in (
        1e9 + rng.random(4096),
        1e12 + np.arange(4096) / 1000,
        1e15 + rng.integers(0, 9, 10_000),
    ):
        truth = Spread(x).variance(0)
        for got in (
            ra.var(x),
            ra.std(x) ** 2,
            ra.var(x.reshape(-1, 4)),
            ra.covariance(x[:, None], ddof=0)[0, 0],
        ):
            assert relative(got, truth) < 2e-14


def test_nothing_overflows_or_vanishes_on_the_way():
    def one(f, *numbers, **options):
        return f(np.array(numbers), **options)

    close = pytest.approx
    assert one(ra.std, 1e200, 3e200) == close(1e200, rel=1e-15)
    assert one(ra.std, 1e-200, 3e-200) == close(1e-200, rel=1e-15)
    assert one(ra.var, 1e200, 3e200) == math.inf
    assert one(ra.mean, 1.7e308, 1.7e308) == 1.7e308
    assert one(ra.sum, 1.7e308, 1.7e308, -1.7e308) == 1.7e308
    assert one(ra.sum, 1.7e308, 1.7e308) == math.inf
    tiny = np.array([[1e-170], [2e-170], [3e-170]])
    np.testing.assert_allclose(
        ra.standardize(tiny)[:, 0], [-math.sqrt(1.5), 0, math.sqrt(1.5)], rtol=1e-15, atol=1e-15
    )
    wide = np.array([[-1.7e308], [0.0], [1.7e308]])
    assert ra.minmax_scale(wide)[:, 0].tolist() == [0.0, 0.5, 1.0]
    np.testing.assert_allclose(
        ra.normalize(np.array([[1.7e308, 1.7e308], [5e-324, 5e-324]])), math.sqrt(0.5), rtol=1e-15
    )
    x = np.array([[1.0, 3.0], [3.0, 4.0], [2.0, 3.1], [4.0, 5.2]])
    np.testing.assert_allclose(ra.correlation(x * 1e200), ra.correlation(x), rtol=1e-14)
    np.testing.assert_allclose(ra.correlation(x * 1e-200), ra.correlation(x), rtol=1e-14)
    big = np.array([[1e200, 1e200]])
    assert ra.dot(big, np.array([[1e200, -1e200]]))[0] == 0.0
    assert ra.l2_distance(big, -big)[0] == close(math.sqrt(8) * 1e200, rel=1e-15)
    assert ra.cosine_similarity(big, big)[0] == 1.0
    assert ra.pairwise(big, np.array([[1e200, -1e200]]))[0, 0] == 0.0


def test_a_zero_vector_has_no_cosine_even_with_nan():
    zero, nan = fixed(np.zeros((1, 2))), fixed(np.array([[math.nan, 1.0]]))
    for x, y in ((zero, nan), (nan, zero), (zero, zero)):
        assert ra.cosine_similarity(x, y).to_pylist() == [None]
        (row,) = ra.pairwise(x, y, metric="cosine").to_pylist()
        assert row is None or row == [None]
    assert math.isnan(ra.cosine_similarity(nan, nan).to_pylist()[0])


def test_float32_products_of_matrices_agree_with_dot():
    x = np.array([[3e38, 3e38, 1.0], [1e20, 1e19, -2.0]], "f4")
    y = np.array([[3e38, -3e38, 5.0], [2.0, 1e-10, 1e15]], "f4")
    rows = np.stack([ra.dot(x, row) for row in y], axis=1)
    assert np.isfinite(rows).any()
    np.testing.assert_allclose(ra.pairwise(x, y), rows, rtol=1e-6)
    np.testing.assert_allclose(ra.matmul(x, np.ascontiguousarray(y.T)), rows, rtol=1e-6)


def test_float16_is_ranked_by_float64_scores():
    x = np.array([[1, 0], [1, 2.0**-12], [1, 2.0**-11], [1, 0]], "f2")
    indices, scores = ra.top_k(x, np.array([1, 1], "f2"), 4, metric="dot")
    assert np.asarray(indices).tolist() == [2, 1, 0, 3]
    assert np.asarray(scores).tolist() == [1.0] * 4
