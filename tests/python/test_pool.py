"""Lists of vectors, each reduced to one."""

import itertools

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import raptors_arrow as ra

TOKENS = pa.list_(pa.list_(pa.float32(), 2))


def sentences(rng: np.random.Generator, count: int, width: int) -> tuple[pa.Array, list]:
    lengths = rng.integers(0, 12, count)
    values = rng.standard_normal((lengths.sum(), width)).astype("f4")
    offsets = np.r_[0, np.cumsum(lengths)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), width)
    each = [values[a:b] for a, b in itertools.pairwise(offsets)]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), vectors), each


@pytest.mark.parametrize("how", ["mean", "sum", "min", "max"])
def test_a_list_has_the_bits_of_its_vectors(how):
    lists, each = sentences(np.random.default_rng(2), 300, 5)
    wanted = [getattr(ra, how)(own, axis=0).tolist() if len(own) else [None] * 5 for own in each]
    assert ra.pool(lists, how).to_pylist() == wanted
    assert ra.pool(lists[17:200], how).to_pylist() == wanted[17:200]
    large = lists.cast(pa.large_list(lists.type.value_type))
    assert ra.pool(large, how).to_pylist() == wanted
    nested = lists.cast(pa.list_(pa.list_(pa.float32())))
    assert ra.pool(nested, how).to_pylist() == wanted
    chunks = pa.chunked_array([lists[:100], lists[100:]])
    got = ra.pool(chunks, how)
    assert isinstance(got, pa.ChunkedArray) and got.to_pylist() == wanted


def test_nulls():
    lists = pa.array([[[1.0, 2.0], None, [3.0, None]], None, [], [None]], TOKENS)
    assert ra.pool(lists).to_pylist() == [[2.0, 2.0], None, [None, None], [None, None]]
    assert ra.pool(lists, "max").to_pylist()[0] == [3.0, 2.0]
    assert ra.pool(pa.array([], TOKENS)).to_pylist() == []


def test_weights_and_masks():
    rng = np.random.default_rng(4)
    lists, each = sentences(rng, 100, 3)
    own = [rng.random(len(vectors)) for vectors in each]
    weights = pa.array([w.tolist() for w in own], pa.list_(pa.float64()))
    for how in ("mean", "sum"):
        got = ra.pool(lists, how, weights=weights).to_pylist()
        for vectors, w, row in zip(each, own, got, strict=True):
            if len(vectors) == 0:
                assert row == [None] * 3
                continue
            total = (vectors.astype("f8") * w[:, None]).sum(0)
            wanted = total / w.sum() if how == "mean" else total
            np.testing.assert_allclose(row, wanted, rtol=2**-22)
    mask = pa.array([(w > 0.5).tolist() for w in own], pa.list_(pa.bool_()))
    got = ra.pool(lists[3:], "max", weights=mask[3:]).to_pylist()
    for vectors, w, row in zip(each[3:], own[3:], got, strict=True):
        kept = vectors[w > 0.5]
        assert row == (kept.max(0).tolist() if len(kept) else [None] * 3)
    two = pa.array([[[1.0, 2.0], [3.0, None]]], TOKENS)
    assert ra.pool(two, weights=pa.array([[1, 3]])).to_pylist() == [[2.5, 2.0]]
    assert ra.pool(two, weights=pa.array([[None, 3]])).to_pylist() == [[3.0, None]]
    assert ra.pool(two, weights=pa.array([[0, 0]])).to_pylist() == [[None, None]]


def test_series_come_back_as_series():
    lists = pl.Series("t", [[[1.0, 2.0], [3.0, 4.0]], None], dtype=pl.List(pl.Array(pl.Float32, 2)))
    got = ra.pool(lists)
    assert got.name == "t" and got.dtype == pl.Array(pl.Float32, 2)
    assert got.to_list() == [[2.0, 3.0], None]


def test_mistakes():
    lists = pa.array([[[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]], TOKENS)
    with pytest.raises(ra.RaptorsValueError, match="expected one of mean, sum, min, max, got 'mo"):
        ra.pool(lists, "mode")
    with pytest.raises(ra.RaptorsTypeError, match="expected lists of vectors, got list<"):
        ra.pool(pa.array([[1.0, 2.0]]))
    with pytest.raises(ra.RaptorsTypeError, match="expected lists for x, got double"):
        ra.pool(pa.array([1.0]))
    with pytest.raises(ra.RaptorsTypeError, match="expected an Arrow array of lists for x, got li"):
        ra.pool([[1.0]])
    with pytest.raises(ra.RaptorsValueError, match="row 1 has 1 for 2"):
        ra.pool(lists, weights=pa.array([[1.0], [1.0]]))
    with pytest.raises(ra.RaptorsValueError, match="expected weights of 2 rows, got 1"):
        ra.pool(lists, weights=pa.array([[1.0]]))
    with pytest.raises(ra.RaptorsTypeError, match="expected weights of min to be booleans"):
        ra.pool(lists, "min", weights=pa.array([[1.0], [1.0, 2.0]]))
    ragged = pa.array([[[1.0, 2.0]], [[1.0]]], pa.list_(pa.list_(pa.float32())))
    with pytest.raises(ra.RaptorsValueError, match="pool: expected every row to have 2 elements"):
        ra.pool(ragged)
