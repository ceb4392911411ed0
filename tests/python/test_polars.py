"""The polars namespace, eager, lazy and streaming."""

import inspect
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from calls import calls, numbers

import raptors_arrow as ra

VALUES = np.arange(24, dtype="f4").reshape(6, 4)
FRAME = pl.DataFrame(
    {
        "k": [1, 1, 2, 2, 2, 3],
        "w": np.arange(6, dtype="f4"),
        "emb": pl.Series(VALUES),
        "listed": pl.Series(VALUES.tolist(), dtype=pl.List(pl.Float32)),
    }
)
EMB = FRAME["emb"]


@pytest.mark.parametrize("first", ["polars", "raptors_arrow"])
def test_the_namespace_is_there_in_whichever_order(first):
    second = {"polars": "raptors_arrow", "raptors_arrow": "polars"}[first]
    check = (
        f"import {first}, {second}, sys, warnings; warnings.simplefilter('error'); import polars; "
        "assert polars.col('a').raptors and polars.Series([1.0]).raptors.sum() == 1.0; "
        "import importlib.util; assert importlib.util.find_spec('polars').loader is not None; "
        "assert type(polars.__loader__).__module__.startswith(('_frozen', 'importlib')); "
        "assert not [f for f in sys.meta_path if 'raptors' in type(f).__module__]"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


#: Functions whose results are no column.
SERIES_ONLY = {"transpose", "top_k", "gram", "covariance", "correlation"}


def leaf(dtype: pl.DataType) -> pl.DataType:
    return leaf(dtype.inner) if dtype.is_nested() else dtype


def same(got: list, expected: list) -> bool:
    """Whether they are equal, NaN with NaN."""
    return str(got) == str(expected)


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i1", "i8", "u1", "u8"])
@pytest.mark.parametrize("name", ra.list_functions())
def test_every_function_in_every_engine(name, dtype):
    function = ra.get_function(name)
    values = numbers((6, 4), dtype, name)
    emb = pl.Series("emb", values)
    frame = pl.DataFrame({"emb": emb, "listed": emb.arr.to_list()})
    for rest, options in calls(name, values):
        expected = function(emb, *rest, **options)
        series = getattr(emb.raptors, name)(*rest, **options)
        if isinstance(expected, tuple):
            assert [a.to_list() for a in series] == [a.to_list() for a in expected]
            assert [a.name for a in series] == list(series._fields)
        elif isinstance(expected, pl.Series):
            assert series.equals(expected, null_equal=True) and series.name == "emb"
        else:
            assert same(series, expected)
        for column in ("emb", "listed"):
            if name in SERIES_ONLY or (name == "pairwise" and not rest):
                with pytest.raises(ra.RaptorsTypeError, match=f"{name}: .*series.*raptors.{name}"):
                    getattr(pl.col(column).raptors, name)(*rest, **options)
                continue
            if name in ("matmul", "pairwise") and column == "listed":
                with pytest.raises(ra.RaptorsTypeError, match=f"{name}: .*pl.Array"):
                    frame.select(getattr(pl.col(column).raptors, name)(*rest, **options))
                continue
            lazy = frame.lazy().select(getattr(pl.col(column).raptors, name)(*rest, **options))
            schema = lazy.collect_schema()
            for engine in ("in-memory", "streaming"):
                got = lazy.collect(engine=engine)
                assert got.schema == schema
                got = got[column]
                if not isinstance(expected, pl.Series):
                    assert same(got.to_list(), [expected])
                elif options.get("axis", 1) == 0 and function.gives == "reduced":
                    assert same(got.to_list(), [expected.to_list()])
                elif name.endswith("_axis0"):
                    assert same(got.to_list(), [expected.to_list()])
                else:
                    assert same(got.to_list(), expected.to_list())
                if isinstance(expected, pl.Series):
                    assert leaf(got.dtype) == leaf(expected.dtype)


def test_result_types_of_integer_columns():
    x = pl.col("e").raptors
    frame = pl.DataFrame({"e": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int16, 2))})
    lazy = frame.lazy().select(
        sum=x.sum(axis=1),
        mean=x.mean(axis=1),
        best=x.argmax(axis=1),
        length=x.norm(axis=1),
        most=x.max(axis=1),
        dot=x.dot(pl.col("e")),
        unit=x.normalize(),
        wide=x.cast(pl.Float32),
        twice=x.scale(2),
    )
    assert lazy.collect_schema() == {
        "sum": pl.Int64,
        "mean": pl.Float64,
        "best": pl.Int64,
        "length": pl.Float64,
        "most": pl.Int16,
        "dot": pl.Float64,
        "unit": pl.Array(pl.Float64, 2),
        "wide": pl.Array(pl.Float32, 2),
        "twice": pl.Array(pl.Int16, 2),
    }
    assert lazy.collect(engine="streaming").schema == lazy.collect_schema()
    with pytest.raises(ra.RaptorsTypeError, match="sum: expected numbers.*Utf8"):
        pl.LazyFrame({"e": ["a"]}).select(x.sum()).collect_schema()


def test_whole_columns_are_in_view_where_they_are_needed():
    rng = np.random.default_rng(7)
    values = rng.standard_normal((100_000, 2))
    lazy = pl.LazyFrame({"emb": pl.Series("emb", values)})
    for engine in ("in-memory", "streaming"):
        for name in ("standardize", "center", "minmax_scale"):
            got = lazy.select(getattr(pl.col("emb").raptors, name)()).collect(engine=engine)["emb"]
            assert got.to_numpy().tobytes() == getattr(ra, name)(values).tobytes()
    scores = pl.col("emb").raptors.dot(pl.col("emb").raptors.mean(axis=0))
    got = lazy.select(scores).collect(engine="streaming")["emb"].to_numpy()
    np.testing.assert_array_equal(got, ra.dot(values, ra.mean(values, axis=0)))


def test_transforms_by_group():
    got = FRAME.with_columns(pl.col("emb").raptors.center().over("k"))["emb"].to_numpy()
    for k in (1, 2, 3):
        own = FRAME["k"].to_numpy() == k
        np.testing.assert_array_equal(got[own], VALUES[own] - VALUES[own].mean(axis=0))
    lengths = FRAME.group_by("k", maintain_order=True).agg(pl.col("emb").raptors.norm(axis=1))
    assert lengths["emb"].list.len().to_list() == [2, 3, 1]


def test_several_columns_at_once():
    got = FRAME.select(pl.col("emb", "listed").raptors.mean(axis=1))
    assert got["emb"].to_list() == got["listed"].to_list() == VALUES.mean(axis=1).tolist()


def test_expressions_as_operands():
    both = FRAME.lazy().select(
        sum=pl.col("emb").raptors.add(pl.col("emb")),
        weighted=pl.col("emb").raptors.multiply(pl.col("w"), axis=0),
    )
    assert both.collect_schema() == {"sum": EMB.dtype, "weighted": EMB.dtype}
    got = both.collect()
    assert got["sum"].equals(ra.add(EMB, EMB), check_names=False)
    assert got["weighted"].equals(ra.multiply(EMB, FRAME["w"], axis=0), check_names=False)


def test_groups_give_one_vector_each():
    got = FRAME.group_by("k", maintain_order=True).agg(
        mean=pl.col("emb").raptors.mean(axis=0), total=pl.col("emb").raptors.sum()
    )
    assert got.schema == {"k": pl.Int64, "mean": EMB.dtype, "total": pl.Float32}
    for k, mean, total in got.iter_rows():
        part = VALUES[FRAME["k"].to_numpy() == k]
        assert list(mean) == part.mean(axis=0).tolist()
        assert total == part.sum()


def test_a_vector_per_frame_broadcasts():
    centred = FRAME.select(pl.col("emb") - pl.col("emb").raptors.mean(axis=0))["emb"]
    np.testing.assert_array_equal(centred.to_numpy(), VALUES - VALUES.mean(axis=0))


def test_signatures_and_mistakes():
    assert str(inspect.signature(EMB.raptors.mean)) == (
        "(axis=None, *, skip_nulls=True, min_count=1)"
    )
    with pytest.raises(TypeError):
        pl.col("emb").raptors.mean(ddof=1)
    with pytest.raises(AttributeError):
        _ = pl.col("emb").raptors.nothing
