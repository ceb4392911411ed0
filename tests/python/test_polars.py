"""The polars namespace, eager, lazy and streaming."""

import inspect
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

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


@pytest.mark.parametrize("name", ra.list_functions())
def test_every_function_in_every_engine(name):
    function = ra.get_function(name)
    seconds = {"number": 2.0, "operand": 2.0, "row": pl.Series(VALUES[0]), "matrix": EMB}
    rest = [seconds[kind] for kind in function.argument_kinds[1:]]
    axes = (None, 0, 1) if "axis" in function.options and not rest else (None,)
    for axis in axes:
        options = {} if axis is None else {"axis": axis}
        expected = function(EMB, *rest, **options)
        series = getattr(EMB.raptors, name)(*rest, **options)
        if isinstance(expected, pl.Series):
            assert series.equals(expected)
        else:
            assert series == expected
        for column in ("emb", "listed"):
            lazy = FRAME.lazy().select(getattr(pl.col(column).raptors, name)(*rest, **options))
            schema = lazy.collect_schema()
            for engine in ("in-memory", "streaming"):
                got = lazy.collect(engine=engine)
                assert got.schema == schema
                values = got[column].to_list()
                if not isinstance(expected, pl.Series):
                    assert values == [expected]
                elif len(expected) == len(EMB):
                    assert values == expected.to_list()
                else:
                    assert values == [expected.to_list()]


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
