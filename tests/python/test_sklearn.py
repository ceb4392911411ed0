"""Against scikit-learn, SciPy and NumPy on the data sets that are inside scikit-learn.

``u`` is the unit roundoff of float64, 2**-53. Every tolerance is one of the errors that the two
sides make: each operation rounds once, a sum of n terms in any order is off by at most n u times
the sum of the magnitudes, and what comes after it carries that on.
"""

import numpy as np
import pyarrow as pa
import pytest
from forms import fixed

import raptors_arrow as ra

sklearn = pytest.importorskip("sklearn")
scipy = pytest.importorskip("scipy")

from scipy.spatial import distance  # noqa: E402
from scipy.special import softmax  # noqa: E402
from sklearn import datasets, metrics, preprocessing  # noqa: E402
from sklearn.neighbors import NearestNeighbors  # noqa: E402

U = 2.0**-53
DATA = {
    "digits": datasets.load_digits().data,
    "breast cancer": datasets.load_breast_cancer().data,
    "wine": datasets.load_wine().data,
}
pytestmark = pytest.mark.parametrize("name", DATA)

HAS = set(ra.list_functions())


def needs(function: str):
    return pytest.mark.skipif(function not in HAS, reason=f"there is no {function} yet")


def values(column: pa.Array) -> np.ndarray:
    """A column of lists as a 2-D array, nulls as NaN."""
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)


def close(got, expected, tolerance) -> None:
    """Hold a difference to a tolerance, element by element."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert np.isfinite(got).all()
    off = np.abs(got - expected) - tolerance
    assert (off <= 0).all(), off.max()


def divisor(spread: np.ndarray) -> np.ndarray:
    """What columns are divided by: both sides leave those that do not vary."""
    return np.where(spread == 0, 1.0, spread)


def deviation_error(x: np.ndarray) -> np.ndarray:
    """How far the standard deviation of each column may be off, as a part of itself."""
    n = len(x)
    size = np.abs(x).max(axis=0) / divisor(x.std(axis=0))
    # The sum of squares is off by n u of itself, each deviation by that of the mean, n u |x|.
    return 2 * n * U * (1 + 2 * size + n * U * size**2)


@needs("standardize")
def test_standardize(name):
    x = DATA[name]
    expected = preprocessing.StandardScaler().fit_transform(x)
    # x - mean is off by n u of the largest |x|; the quotient by the error of the deviation too.
    size = np.abs(x).max(axis=0) / divisor(x.std(axis=0))
    tolerance = 4 * len(x) * U * size + np.abs(expected) * (deviation_error(x) + 4 * U)
    close(values(ra.standardize(fixed(x))), expected, tolerance)


@needs("center")
def test_center(name):
    x = DATA[name]
    expected = preprocessing.StandardScaler(with_std=False).fit_transform(x)
    close(values(ra.center(fixed(x))), expected, 2 * len(x) * U * np.abs(x).max(axis=0))


@needs("normalize")
@pytest.mark.parametrize(("ord", "norm"), [(1, "l1"), (2, "l2"), ("inf", "max")])
def test_normalize(name, ord, norm):
    x = DATA[name]
    expected = preprocessing.normalize(x, norm=norm)
    # A norm of d terms is off by d u of itself on each side, the quotient by one rounding.
    tolerance = 2 * (x.shape[1] + 2) * U * np.abs(expected)
    close(values(ra.normalize(fixed(x), ord=ord)), expected, tolerance)


@needs("minmax_scale")
def test_minmax_scale(name):
    x = DATA[name]
    got = values(ra.minmax_scale(fixed(x)))
    # scikit-learn multiplies by a rounded quotient and adds a rounded product.
    low, high = x.min(axis=0), x.max(axis=0)
    size = np.maximum(np.abs(low), np.abs(high)) / divisor(high - low)
    close(got, preprocessing.minmax_scale(x), 6 * U * (1 + size))
    assert got.min() == 0.0 and got.max() == 1.0


@needs("softmax")
def test_softmax(name):
    x = DATA[name] / 100
    expected = softmax(x, axis=1)
    # exp is within 1 ulp (2 u) on both sides, its argument off by one rounding of |x|.
    span = np.abs(x).max(axis=1, keepdims=True)
    tolerance = expected * 2 * U * (2 * span + 4 + x.shape[1] + 2)
    close(values(ra.softmax(fixed(x))), expected, tolerance)


@needs("covariance")
def test_covariance_and_gram(name):
    x = DATA[name]
    n = len(x)
    gram = x.T @ x
    close(values(ra.gram(fixed(x))), gram, 2 * n * U * (np.abs(x).T @ np.abs(x)))
    scale = np.abs(x).max(axis=0)
    deviation = np.abs(x - x.mean(axis=0)) + 2 * n * U * scale
    tolerance = 4 * n * U * (deviation.T @ deviation + n * np.outer(scale, scale) * n * U) / (n - 1)
    close(values(ra.covariance(fixed(x))), np.cov(x, rowvar=False), tolerance)
    close(values(ra.covariance(fixed(x), ddof=0)), np.cov(x, rowvar=False, ddof=0), tolerance)


@needs("correlation")
def test_correlation(name):
    x = DATA[name]
    x = x[:, x.std(axis=0) > 0]
    off = deviation_error(x)
    expected = np.corrcoef(x, rowvar=False)
    # By Cauchy-Schwarz the product of deviations is at most that of the norms, and off as they are.
    close(values(ra.correlation(fixed(x))), expected, 4 * (off[:, None] + off[None, :]))


@needs("pairwise")
@pytest.mark.parametrize(
    ("metric", "reference"),
    [
        ("l2", lambda x, y: distance.cdist(x, y, "euclidean")),
        ("l1", lambda x, y: distance.cdist(x, y, "cityblock")),
        ("cosine", metrics.pairwise.cosine_similarity),
        ("dot", metrics.pairwise.linear_kernel),
    ],
)
def test_pairwise(name, metric, reference):
    x, y = DATA[name][:200], DATA[name][100:260]
    d = x.shape[1]
    got = values(ra.pairwise(fixed(x), fixed(y), metric=metric))
    expected = reference(x, y)
    norms = np.linalg.norm(x, axis=1)[:, None], np.linalg.norm(y, axis=1)[None, :]
    if metric in ("l2", "l1"):
        # Differences round once; a root halves the error of what is under it. Euclidean distances
        # come from products, and are measured directly where those lose more than 2**-36.
        tolerance = (2 * (d + 4) * U + (2.0**-36 if metric == "l2" else 0)) * expected
    else:
        size = norms[0] * norms[1] if metric == "dot" else 1.0
        tolerance = 2 * (d + 4) * U * size
    close(got, expected, tolerance)
    own = values(ra.pairwise(fixed(x), metric=metric))
    assert own.shape == (len(x), len(x))
    if metric in ("l2", "l1"):
        assert (np.diag(own) == 0).all()


@needs("matmul")
def test_matmul(name):
    x, y = DATA[name], DATA[name][:50].T.copy()
    tolerance = 2 * x.shape[1] * U * (np.abs(x) @ np.abs(y))
    close(values(ra.matmul(fixed(x), fixed(y))), x @ y, tolerance)


@needs("dot")
def test_row_by_row(name):
    x, query = DATA[name], DATA[name][7]
    d = x.shape[1]
    size = np.linalg.norm(x, axis=1) * np.linalg.norm(query)
    close(ra.dot(fixed(x), query), x @ query, 2 * d * U * size)
    cosine = metrics.pairwise.cosine_similarity(x, query[None])[:, 0]
    close(ra.cosine_similarity(fixed(x), query), cosine, 4 * (d + 2) * U)
    l2, l1 = (distance.cdist(x, query[None], kind)[:, 0] for kind in ("euclidean", "cityblock"))
    close(ra.l2_distance(fixed(x), query), l2, 2 * (d + 2) * U * l2)
    close(ra.l1_distance(fixed(x), query), l1, 2 * (d + 2) * U * l1)


@needs("top_k")
@pytest.mark.parametrize(("metric", "theirs"), [("l2", "euclidean"), ("l1", "manhattan")])
def test_top_k(name, metric, theirs):
    x = DATA[name]
    queries = x[::10].copy()
    k = 10
    model = NearestNeighbors(n_neighbors=k, metric=theirs, algorithm="brute").fit(x)
    distances, _ = model.kneighbors(queries)
    got = ra.top_k(fixed(x), queries, k=k, metric=metric)
    scores, indices = values(got.scores), values(got.indices)
    exact = distance.cdist(queries, x, "euclidean" if metric == "l2" else "cityblock")
    tolerance = 2 * (x.shape[1] + 4) * U * np.abs(exact).max()
    # scikit-learn's euclidean distances come from dot products, which cancel: see its docs.
    norm = np.abs(x).max() ** 2 * x.shape[1]
    theirs_off = np.sqrt(16 * x.shape[1] * U * norm) if metric == "l2" else tolerance
    close(scores, distances, tolerance + theirs_off)
    ordered = np.sort(exact, axis=1)[:, :k]
    close(scores, ordered, tolerance)
    close(np.take_along_axis(exact, indices.astype("i8"), axis=1), scores, tolerance)
    assert (np.diff(scores, axis=1) >= 0).all()
    for row in indices:
        assert len(set(row)) == k


@needs("top_k")
@pytest.mark.parametrize("metric", ["dot", "cosine"])
def test_top_k_of_similarities(name, metric):
    x = DATA[name]
    query = x[3]
    got = ra.top_k(fixed(x), query, k=5, metric=metric)
    function = ra.dot if metric == "dot" else ra.cosine_similarity
    scores = np.asarray(function(fixed(x), query))
    best = np.lexsort((np.arange(len(x)), -scores))[:5]
    assert got.indices.to_pylist() == best.tolist()
    assert got.scores.to_pylist() == scores[best].tolist()
