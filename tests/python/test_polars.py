"""The polars namespace, eager, lazy and streaming."""

import inspect
import os
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

#: What a wrong plan is refused with: before polars 2.1 the plugin says it, and polars raises.
REFUSED = (
    ra.RaptorsError
    if hasattr(pl, "pipe_with_dtype")
    else (ra.RaptorsError, pl.exceptions.ComputeError)
)


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


def run(code: str, *folders, **variables) -> subprocess.CompletedProcess:
    """Run code in a process of its own, with folders before all others on its path."""
    path = os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=600
    )


#: Stops in the middle of the import of polars, in another thread, until told to go on.
IN_THE_MIDDLE = """
import builtins, sys, threading

stopped, go_on, imports = threading.Event(), threading.Event(), builtins.__import__

def stop(name, *rest):
    if threading.current_thread() is thread and "polars" in sys.modules and not stopped.is_set():
        stopped.set()
        assert go_on.wait(600)
    return imports(name, *rest)

builtins.__import__ = stop
thread = threading.Thread(target=lambda: imports("polars"))
thread.start()
assert stopped.wait(600)
import raptors_arrow
assert "raptors_arrow.polars" not in sys.modules
go_on.set()
thread.join(600)
import polars
assert polars.col("a").raptors and polars.Series([1.0]).raptors.sum() == 1.0
spec = polars.__spec__
assert type(spec).__module__ == "_frozen_importlib", type(spec)
assert not [f for f in sys.meta_path if "raptors" in type(f).__module__]
"""


def test_the_namespace_is_there_after_an_import_under_way_in_another_thread():
    done = run(IN_THE_MIDDLE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code", ["answer = 42\n", "class Expr:\n    pass\nclass Series:\n    pass\n"]
)
@pytest.mark.parametrize("order", ["raptors_arrow, polars", "polars, raptors_arrow"])
def test_another_module_named_polars_is_left_alone(tmp_path, code, order):
    (tmp_path / "polars.py").write_text(code)
    check = (
        f"import {order}; assert raptors_arrow.sum(memoryview(b'ab')) == 195; print(dir(polars))"
    )
    done = run(check, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_polars_that_breaks_ours_is_a_warning_and_no_error(tmp_path):
    (tmp_path / "polars.py").write_text("class Expr: pass\nclass Series: pass\napi = None\n")
    for flags in ("default", "error"):
        done = run("import raptors_arrow, polars", tmp_path, PYTHONWARNINGS=flags)
        assert done.returncode == 0, done.stderr
        assert "raptors_arrow.polars could not be imported after polars" in done.stderr


def test_an_import_of_polars_that_fails_can_be_tried_again(tmp_path):
    (tmp_path / "polars.py").write_text("raise ImportError('not today')\n")
    check = (
        "import raptors_arrow, sys\n"
        "try:\n    import polars\nexcept ImportError:\n    pass\n"
        f"sys.path.remove({str(tmp_path)!r}); import polars; assert polars.col('a').raptors"
    )
    done = run(check, tmp_path)
    assert done.returncode == 0, done.stderr


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
                with pytest.raises(REFUSED, match=f"{name}: .*pl.Array"):
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
    with pytest.raises(REFUSED, match="(?i)sum: expected numbers.*, got .*string"):
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


ENGINES = ("in-memory", "streaming")
WIDTH = 4


def square(rows: int, weight: pl.DataType = pl.Float32) -> tuple[np.ndarray, pl.DataFrame]:
    """Vectors of width 4 and their weights, as arrays and as lists."""
    values = np.arange(1, rows * WIDTH + 1, dtype="f4").reshape(rows, WIDTH)
    emb = pl.Series("emb", values)
    weights = pl.Series(np.arange(2, rows + 2), dtype=weight)
    return values, pl.DataFrame({"emb": emb, "listed": emb.arr.to_list(), "w": weights})


@pytest.mark.parametrize("column", ["emb", "listed"])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 64])
@pytest.mark.parametrize("weight", [pl.Float32, pl.Float64, pl.Int64])
def test_a_plain_column_is_one_value_per_row_always(column, rows, weight):
    # Also where there are as many rows as columns, in the frame or in a morsel of it.
    values, frame = square(rows, weight)
    weights = np.arange(2, rows + 2, dtype="f4")
    operands = {
        "column": (pl.col("w"), weights[:, None]),
        "computed": (pl.col("w") * 2, 2 * weights[:, None]),
        "number": (pl.lit(2.0), 2),
        "whole number": (pl.lit(2), 2),
        "one in all": (pl.col("w").max(), weights.max()),
        "row": (pl.lit(pl.Series([1.0, 2.0, 3.0, 4.0])), [1, 2, 3, 4]),
        "list": (pl.lit([1.0, 2.0, 3.0, 4.0]), [1, 2, 3, 4]),
        "array": (np.arange(1, 5, dtype="f4"), [1, 2, 3, 4]),
    }
    with pl.Config() as config:
        for what, (operand, factor) in operands.items():
            lazy = frame.lazy().select(pl.col(column).raptors.multiply(operand))
            expected = (values * factor).tolist()
            assert lazy.collect_schema()[column] == frame[column].dtype
            for size in (1, WIDTH, 7):
                config.set_streaming_chunk_size(size)
                for engine in ENGINES:
                    assert lazy.collect(engine=engine)[column].to_list() == expected, what
    per_row = (values * weights[:, None]).tolist()
    for engine in ENGINES:
        given = pl.col(column).raptors.multiply(pl.col("w"), axis=0)
        assert frame.lazy().select(given).collect(engine=engine)[column].to_list() == per_row
    # The namespace of series has the same rule; the functions have NumPy's, as with all libraries.
    assert frame[column].raptors.multiply(frame["w"]).to_list() == per_row
    across = pl.Series([1.0, 2.0, 3.0, 4.0], dtype=pl.Float32)
    expected = (values * [1, 2, 3, 4]).tolist()
    assert frame[column].raptors.multiply(across, axis=1).to_list() == expected
    assert ra.multiply(frame[column], across).to_list() == expected


def test_a_null_that_is_one_value_in_all_makes_every_row_null():
    _, frame = square(5)
    for operand in (pl.lit(None), pl.col("w").filter(pl.col("w") > 99).max()):
        for engine in ENGINES:
            lazy = frame.lazy().select(pl.col("emb").raptors.multiply(operand))
            assert lazy.collect(engine=engine)["emb"].to_list() == [None] * 5
    weights = pl.Series([1.0, None, 2.0, None, 3.0])
    assert frame["emb"].raptors.multiply(weights).is_null().to_list() == [False, True] * 2 + [False]


def test_one_vector_in_all_meets_a_column():
    values, frame = square(6)
    mean = pl.col("emb").raptors.mean(axis=0)
    calls = {
        "weighted": (
            mean.raptors.multiply(pl.col("w")),
            values.mean(axis=0) * [[2 + i] for i in range(6)],
        ),
        "moved": (pl.col("emb").raptors.broadcast_add(mean), values + values.mean(axis=0)),
        "near": (mean.raptors.dot(pl.col("emb")), values @ values.mean(axis=0)),
    }
    for engine in ENGINES:
        for expr, expected in calls.values():
            got = frame.lazy().select(expr).collect(engine=engine)["emb"].to_list()
            assert got == expected.tolist()


@pytest.mark.parametrize(
    ("expr", "error", "match"),
    [
        (
            lambda x: x.dot(pl.col("w")),
            TypeError,
            "(?i)dot: expected a column of vectors for y.*Float32",
        ),
        (lambda x: x.broadcast_add(pl.col("w")), TypeError, "broadcast_add: .*one value per row"),
        (lambda x: x.scale(pl.col("w")), TypeError, "scale: expected one number.*multiply takes"),
        (lambda x: x.scale(pl.col("w").sum()), TypeError, "scale: expected one number.*multiply"),
        (lambda x: x.add(pl.col("w"), axis=1), ValueError, "add: option axis: .*one value per row"),
        (lambda x: x.add(pl.col("w"), axis=7), ValueError, "add: option axis: .*got 7"),
        (lambda x: x.add(pl.col("k")), TypeError, "(?i)add: expected .* got String"),
        (lambda x: x.add(pl.Series([1.0, 2.0])), ValueError, "add: .*4 rows, got 2"),
        (
            lambda x: x.cast(pl.Int8).raptors.add(pl.col("w")),
            TypeError,
            "(?i)add: expected y of Int8, got Float32",
        ),
        (
            lambda x: x.cast(pl.Int8).raptors.add(pl.col("w").cast(pl.Int64) * 1000),
            OverflowError,
            "(?i)add: y has .* that Int8 cannot hold",
        ),
    ],
)
def test_columns_that_cannot_be_an_operand_are_refused_in_every_engine(expr, error, match):
    _, frame = square(4)
    frame = frame.with_columns(k=pl.lit("a"))
    for engine in ENGINES:
        with pytest.raises(REFUSED, match=match) as caught:
            frame.lazy().select(expr(pl.col("emb").raptors)).collect(engine=engine)
        assert isinstance(caught.value, error | pl.exceptions.ComputeError)


def test_results_of_width_0_are_an_error_and_no_panic_of_polars():
    _, frame = square(3)
    emb, nothing = frame["emb"], pl.Series(np.zeros((3, 0), "f4"))
    calls = {
        "matmul": lambda: ra.matmul(emb, np.ones((4, 0), "f4")),
        "pairwise": lambda: emb.raptors.pairwise(np.ones((0, 4), "f4")),
        "transpose": lambda: ra.transpose(emb[:0]),
        "top_k": lambda: emb.raptors.top_k(np.ones((2, 4), "f4"), 0),
        "scale": lambda: ra.scale(nothing, 2),
        "normalize": lambda: nothing.to_frame("x").select(pl.col("x").raptors.normalize()),
    }
    for name, call in calls.items():
        with pytest.raises(REFUSED, match=f"{name}: .*width 0.*NumPy or pyarrow"):
            call()
    with pytest.raises(REFUSED, match="matmul: .*width 0"):
        frame.lazy().select(pl.col("emb").raptors.matmul(np.ones((4, 0), "f4"))).collect_schema()
    # What has no such rows is an answer.
    assert nothing.raptors.sum(axis=1).to_list() == [None] * 3
    assert nothing.to_frame("x").select(pl.col("x").raptors.count()).item() == 0


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
        "(axis=None, *, weights=None, skip_nulls=True, min_count=1, keepdims=False, dtype=None)"
    )
    for mistake in (
        lambda: pl.col("emb").raptors.mean(ddof=1),
        lambda: EMB.raptors.mean(0, 1),
        lambda: EMB.raptors.add(),
    ):
        with pytest.raises(ra.RaptorsTypeError, match="(mean|add): .*its signature is (mean|add)"):
            mistake()
    with pytest.raises(AttributeError):
        _ = pl.col("emb").raptors.nothing
