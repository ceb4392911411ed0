"""Products, covariances and the nearest rows: what they are given back as."""

import pickle

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from forms import fixed, values_of

import raptors_arrow as ra

X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0], [1.0, 1.0]])
Y = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def chunked(values: np.ndarray) -> pa.ChunkedArray:
    return pa.chunked_array([fixed(values[:1]), fixed(values[1:])])


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (fixed, pa.FixedSizeListArray),
        (chunked, pa.ChunkedArray),
        (np.asarray, np.ndarray),
        (np.asfortranarray, np.ndarray),
        (lambda v: pl.Series("emb", v), pl.Series),
        # What is no table any more is a column.
        (lambda v: pa.table({"a": v[:, 0], "b": v[:, 1]}), pa.FixedSizeListArray),
        (lambda v: pa.record_batch({"a": v[:, 0], "b": v[:, 1]}), pa.FixedSizeListArray),
        (lambda v: pl.DataFrame(v, ["a", "b"]), pl.Series),
        (ra.as_matrix, ra.Matrix),
    ],
)
def test_results_are_of_the_library_that_came_in(make, kind):
    for name, rest, expected in (
        ("matmul", (Y,), X @ Y),
        ("pairwise", (), X @ X.T),
        ("gram", (), X.T @ X),
        ("covariance", (), np.cov(X, rowvar=False)),
        ("transpose", (), X.T),
    ):
        got = getattr(ra, name)(make(X), *rest)
        names = ["a", "b"]
        if name in ("gram", "covariance") and isinstance(
            make(X), pa.Table | pa.RecordBatch | pl.DataFrame
        ):
            # Every two columns: a table with their names.
            assert type(got) is type(make(X))
            assert (got.columns if isinstance(got, pl.DataFrame) else got.schema.names) == names
        else:
            assert isinstance(got, kind)
        if isinstance(got, pl.Series):
            assert got.name == ("emb" if isinstance(make(X), pl.Series) else name)
        got = pa.array(got) if isinstance(got, ra.Matrix) else got
        np.testing.assert_allclose(values_of(got), expected, rtol=1e-15, atol=1e-15)
    one = ra.matmul(make(X), Y[:, 0].copy())
    one = pa.array(one) if isinstance(one, ra.Matrix) else one
    np.testing.assert_array_equal(values_of(one), X @ Y[:, 0])


def test_one_number_per_row_has_the_chunks_of_its_column():
    x = chunked(X)
    assert [len(c) for c in ra.matmul(x, Y[:, 0].copy()).chunks] == [1, 3]
    assert [len(c) for c in ra.dot(x, X[0].copy()).chunks] == [1, 3]
    # One per column is no column of the table, also where there are as many rows as columns.
    assert isinstance(ra.mean(x[:2], axis=0), pa.Array)


@pytest.mark.parametrize("make", [fixed, chunked, np.asarray, lambda v: pl.Series("emb", v)])
def test_nearest_rows(make):
    one = ra.top_k(make(X), X[2].copy(), 2, metric="l2")
    assert isinstance(one, ra.TopK) and one._fields == ("indices", "scores")
    assert values_of(one.indices).tolist() == [2, 1]  # as near as 3, and before it
    np.testing.assert_allclose(values_of(one.scores), [0.0, np.sqrt(13)], rtol=1e-15)
    several = ra.top_k(make(X), X[:2].copy(), k=1, metric="dot")
    assert values_of(several.indices).tolist() == [[2], [2]]
    assert values_of(several.scores).tolist() == [[3.0], [8.0]]
    if make is not chunked:
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is ra.TopK
        assert values_of(again.indices).tolist() == [2, 1]


def test_fewer_rows_than_asked_for_and_nulls():
    x = pa.array([[1.0, 0.0], None, [0.0, None]], pa.list_(pa.float64(), 2))
    got = ra.top_k(x, np.array([[1.0, 0.0], [0.0, 1.0]]), k=2, metric="dot")
    assert got.indices.to_pylist() == [[0, None], [0, None]]
    assert got.scores.to_pylist() == [[1.0, None], [0.0, None]]
    padded = ra.top_k(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]), k=2, metric="dot")
    assert padded.indices.tolist() == [[0, None]] and padded.indices.dtype == np.int64
    assert padded.scores[0, 0] == 1.0 and np.isnan(padded.scores[0, 1])


@pytest.mark.parametrize("metric", ["dot", "cosine", "l2"])
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_ties_go_to_the_lower_row_whichever_thread_finds_them_first(kind, metric):
    # The same few rows again and again: the worst that one task has kept is what others find too.
    rng = np.random.default_rng(5)
    few = rng.standard_normal((9, 32)).astype(kind)
    x = np.tile(few, (2000, 1))
    queries = rng.standard_normal((8, 32)).astype(kind)
    scores = ra.pairwise(few, queries, metric=metric)
    order = np.argsort(scores if metric == "l2" else -scores, axis=0, kind="stable")
    for k in (300, 2500):
        for _ in range(10):
            got = ra.top_k(x, queries, k, metric=metric)
            for q in range(len(queries)):
                first, second = (np.arange(2000) * 9 + order[i, q] for i in (0, 1))
                assert (got.indices[q] == np.concatenate([first, second])[:k]).all()


def test_an_argument_that_may_be_left_out():
    assert ra.pairwise(X).tolist() == ra.pairwise(X, None).tolist() == ra.pairwise(X, X).tolist()
    assert ra.pairwise(x=X, y=None, metric="l1")[0].tolist() == [0.0, 3.0, 6.0, 1.0]
    assert ra.explain("pairwise", X).copied is None
    series = pl.Series("emb", X)
    assert series.raptors.pairwise().to_list() == ra.pairwise(series).to_list()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: ra.matmul(X, X), ValueError, "matmul: "),
        (lambda: ra.matmul(X, 2.0), TypeError, "matmul: expected y to be .*got float"),
        (lambda: ra.matmul(X), TypeError, "matmul: expected 2 arguments, got 1"),
        (
            lambda: ra.matmul(X.astype("i4"), Y.astype("f4")),
            TypeError,
            "matmul: expected y of int32, got float32",
        ),
        (lambda: ra.pairwise(X, Y), ValueError, "pairwise: .*width 2, got width 3"),
        (
            lambda: ra.pairwise(X, metric="euclid"),
            ValueError,
            'pairwise: option metric: expected one of dot, cosine, l2, l1, .*got "euclid"',
        ),
        (lambda: ra.pairwise(X, metric=2), TypeError, "pairwise: option metric: .*got 2"),
        (lambda: ra.top_k(X, X[0].copy(), -1), ValueError, "top_k: option k: .*got -1"),
        (lambda: ra.top_k(X, X[0].copy(), 2.5), TypeError, "top_k: option k: .*got 2.5"),
        (lambda: ra.top_k(X, 1.0), TypeError, "top_k: expected query to be .*got float"),
        (lambda: ra.top_k(X, Y), ValueError, "top_k: .*width 2, got width 3"),
        (
            lambda: pl.col("emb").raptors.matmul(pl.col("y")),
            TypeError,
            "matmul: expected a series or an array for y, got an expression",
        ),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call()
    assert isinstance(caught.value, ra.RaptorsError)
