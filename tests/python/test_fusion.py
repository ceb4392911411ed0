"""Fused chains give the bits of the same functions called one after the other, errors included."""

from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import raptors_arrow as ra
from raptors_arrow.expr import evaluate_all

TYPES = ("float16", "float32", "float64", "int8", "int32", "uint64")
SHAPES = ((0, 3), (1, 1), (5, 4), (33, 130), (70, 7), (1030, 3), (2500, 2), (3, 5000))
X = ra.col("x")


def column(rng, dtype, rows, width, nulls) -> pa.Array:
    if np.dtype(dtype).kind == "f":
        values = rng.standard_normal((rows, width)).astype(dtype)
        values[rng.random((rows, width)) < 0.02] = rng.choice([np.nan, np.inf, -0.0])
        values[rng.random(rows) < 0.1] = 0
    else:
        low = -6 if np.dtype(dtype).kind == "i" else 0
        values = rng.integers(low, 7, (rows, width)).astype(dtype)
    valid = rng.random(rows * width) > 0.1 if "elements" in nulls else None
    flat = pa.array(values.ravel(), mask=None if valid is None else ~valid)
    mask = pa.array(rng.random(rows) < 0.2) if "rows" in nulls else None
    return pa.FixedSizeListArray.from_arrays(flat, width, mask=mask)


def chunked(rng, array) -> pa.ChunkedArray:
    cuts = sorted(rng.integers(0, len(array) + 1, rng.integers(0, 4)).tolist())
    ends = zip([0, *cuts], [*cuts, len(array)], strict=True)
    return pa.chunked_array([array.slice(a, b - a) for a, b in ends], array.type)


class Data:
    """A column of vectors, and operands for it."""

    def __init__(self, dtype: str, shape: tuple[int, int], nulls: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        rows, width = shape
        self.columns = {
            "x": chunked(rng, column(rng, dtype, rows, width, nulls)),
            "y": chunked(rng, column(rng, dtype, rows, width, nulls)),
        }
        one = column(rng, dtype, 1, width, nulls if "operand" in nulls else "")
        self.row = one.flatten() if len(one.flatten()) == width else pa.array([1] * width, dtype)
        per_row = column(rng, dtype, rows, 1, "elements" if "operand" in nulls else "")
        self.columns["w"] = chunked(rng, per_row.flatten())


# Each step and end: from a function that calls by name to the result. `f(name, x, *args)` is a call
# or a method, and `c(name)` a column or its expression.
STEPS = {
    "scale": lambda f, c, d, x: f("scale", x, 2),
    "add": lambda f, c, d, x: f("add", x, d.row),
    "broadcast": lambda f, c, d, x: f("broadcast_add", x, d.row),
    "column": lambda f, c, d, x: f("multiply", x, c("w"), axis=0),
    "matrix": lambda f, c, d, x: f("subtract", x, c("y")),
    "larger": lambda f, c, d, x: f("maximum", x, c("y")),
    "divide": lambda f, c, d, x: f("divide", x, 3),
    "over": lambda f, c, d, x: f("divide", x, c("y")),
    "clip": lambda f, c, d, x: f("clip", x, min=0, max=2),
    "negate": lambda f, c, d, x: f("negate", x),
    "abs": lambda f, c, d, x: f("abs", x),
    "square": lambda f, c, d, x: f("square", x),
    "sqrt": lambda f, c, d, x: f("sqrt", x),
    "half": lambda f, c, d, x: f("cast", x, "float16", safe=False),
    "single": lambda f, c, d, x: f("cast", x, "float32"),
    "double": lambda f, c, d, x: f("cast", x, "float64"),
    "byte": lambda f, c, d, x: f("cast", x, "int8", safe=False),
    "exp": lambda f, c, d, x: f("exp", x),
    "log": lambda f, c, d, x: f("log", x),
    "power": lambda f, c, d, x: f("power", x, 2),
    "sign": lambda f, c, d, x: f("sign", x),
    "round": lambda f, c, d, x: f("round", x, 1),
    "smaller": lambda f, c, d, x: f("minimum", x, d.row),
    "fill": lambda f, c, d, x: f("fill_null", x, 1),
    "running": lambda f, c, d, x: f("cumsum", x, axis=1),
    "chosen": lambda f, c, d, x: f("where", x, 2, d.row),
    "denan": lambda f, c, d, x: f("nan_to_null", x),
    "normalize": lambda f, c, d, x: f("normalize", x),
    "softmax": lambda f, c, d, x: f("softmax", x),
    "standardize": lambda f, c, d, x: f("standardize", x, axis=1),
    "center": lambda f, c, d, x: f("center", x, axis=1),
    "minmax": lambda f, c, d, x: f("minmax_scale", x, axis=1),
}
ENDS = {
    "keep": lambda f, c, d, x: x,
    **{
        f"{name}{axis}": lambda f, c, d, x, name=name, axis=axis: f(name, x, axis=axis)
        for name in ("sum", "mean", "min", "max", "count", "var", "std", "norm", "argmin", "argmax")
        for axis in (None, 0, 1)
    },
    **{
        name: lambda f, c, d, x, name=name: f(name, x, d.row)
        for name in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
    },
    **{name: lambda f, c, d, x, name=name: f(name, x) for name in ("isnan", "isfinite", "is_null")},
    "above": lambda f, c, d, x: f("greater", x, c("y")),
    "median": lambda f, c, d, x: f("median", x, axis=1),
    "quantile": lambda f, c, d, x: f("quantile", x, 0.3, axis=0),
    "strict": lambda f, c, d, x: f("sum", x, axis=0, skip_nulls=False),
    "many": lambda f, c, d, x: f("mean", x, axis=1, min_count=3),
    "dot": lambda f, c, d, x: f("dot", x, d.row),
    "cosine": lambda f, c, d, x: f("cosine_similarity", x, c("y")),
    "l2": lambda f, c, d, x: f("l2_distance", x, c("y")),
    "l1": lambda f, c, d, x: f("l1_distance", x, d.row),
}


def called(name, x, *args, **options):
    return getattr(ra, name)(x, *args, **options)


def as_method(name, x, *args, **options):
    return getattr(x, name)(*args, **options)


def applied(f, c, data, steps, end):
    x = c("x")
    for step in steps:
        x = STEPS[step](f, c, data, x)
    return ENDS[end](f, c, data, x)


def seen(result):
    """Give a result so that it compares to the bit: there is one NaN."""
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if isinstance(result, pa.Array):
        result.validate(full=True)
        return str(result.type), repr(result.to_pylist())
    return repr(result)


def outcome(call):
    try:
        return call()
    except (ra.RaptorsError, ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
        return type(error), str(error)


steps = st.lists(st.sampled_from(sorted(STEPS)), max_size=6)
ends = st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=4, unique=True)
nulls = st.sampled_from(["", "rows", "elements", "rows elements", "rows elements operand"])


@pytest.mark.parametrize("dtype", TYPES)
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(
    shape=st.sampled_from(SHAPES),
    nulls=nulls,
    seed=st.integers(0, 2**32 - 1),
    steps=steps,
    ends=ends,
)
def test_a_fused_chain_has_the_bits_of_its_calls(dtype, shape, nulls, seed, steps, ends):
    data = Data(dtype, shape, nulls, seed)
    eager = [
        outcome(lambda end=end: seen(applied(called, data.columns.get, data, steps, end)))
        for end in ends
    ]
    exprs = [applied(as_method, ra.col, data, steps, end) for end in ends]
    for expr, expected in zip(exprs, eager, strict=True):
        got = outcome(lambda e=expr: seen(evaluate_all([e], {}, data.columns.get)[0]))
        assert got == expected, repr(expr)
    if not any(isinstance(one[0], type) for one in eager):
        together = evaluate_all(exprs, {}, data.columns.get)
        assert [seen(one) for one in together] == eager


def test_every_function_of_rows_is_in_a_chain():
    used = set()

    def noted(name, x, *args, **options):
        used.add(name)
        return x

    data = Data("float32", (2, 2), "", 0)
    for step in (*STEPS.values(), *ENDS.values()):
        step(noted, data.columns.get, data, None)
    functions = map(ra.get_function, ra.list_functions())
    by_row = {f.name for f in functions if f.gives in ("rows", "numbers", "reduced")}
    # Names of the same functions, and products with whole matrices, which are never fused.
    apart = {"sum_axis0", "mean_axis0", "mean_axis1", "matmul", "pairwise"}
    assert by_row - used == apart


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_and_tasks_do_not_change_the_bits(threads):
    data = Data("float32", (9000, 40), "rows elements operand", 1)
    steps = ["scale", "add", "column", "normalize", "matrix"]
    before = ra.get_num_threads()
    ra.set_num_threads(threads)
    try:
        for end in ENDS:
            expr = applied(as_method, ra.col, data, steps, end)
            got = seen(evaluate_all([expr], {}, data.columns.get)[0])
            assert got == seen(applied(called, data.columns.get, data, steps, end)), end
    finally:
        ra.set_num_threads(before)


def test_what_is_fused_is_explained():
    rows = pa.table({"x": column(np.random.default_rng(0), "float32", 100, 8, "")})
    chain = X.scale(2).clip(0, 1).mean(axis=1)
    text = chain.explain(rows)
    assert text.splitlines() == [
        "col('x').scale(2).clip(min=0, max=1).mean(axis=1)",
        "  pass 1  scale, clip, mean* (fused): 3200 bytes read, 400 written, 1 thread",
    ]
    two = X.subtract(X.mean(axis=0)).norm(axis=1).explain(rows)
    assert "pass 1  mean: " in two and "pass 2  subtract, norm* (fused)" in two
    apart = X.center(axis=0).scale(2).explain(rows)
    assert "(fused)" not in apart and "center" in apart and "scale" in apart
    with pytest.raises(ra.RaptorsValueError, match="explain: .* names columns"):
        chain.explain()


def test_results_of_one_column_share_one_pass():
    rng = np.random.default_rng(0)
    columns = {"x": column(rng, "float32", 3000, 8, "")}
    names = ("mean", "std", "min", "max")
    exprs = [getattr(X, name)(axis=0) for name in names]
    together = evaluate_all(exprs, {}, columns.get)
    assert [seen(one) for one in together] == [
        seen(getattr(ra, name)(columns["x"], axis=0)) for name in names
    ]


def listed(result):
    """Give the values of an object of any library."""
    for method in ("to_list", "tolist", "to_pylist"):
        if hasattr(result, method):
            return getattr(result, method)()
    return result


@pytest.mark.parametrize(
    "make",
    [
        pa.array,
        lambda rows: np.array(rows, dtype="f4"),
        lambda rows: pl.Series("v", rows, dtype=pl.Array(pl.Float32, 2)),
        lambda rows: pa.chunked_array([pa.array(rows, pa.list_(pa.float32(), 2))]),
    ],
)
def test_what_comes_back_is_what_went_in(make):
    x = make([[1.0, 2.0], [3.0, 4.0]])
    for chain in (
        lambda f, x: f("clip", f("scale", x, 2), min=0, max=5),
        lambda f, x: f("mean", f("scale", x, 2), axis=1),
        lambda f, x: f("scale", f("mean", f("scale", x, 2), axis=0), 3),
        lambda f, x: f("sum", f("scale", x, 2)),
    ):
        got, expected = chain(as_method, ra.lazy(x)).collect(), chain(called, x)
        assert type(got) is type(expected)
        assert listed(got) == listed(expected)
        assert getattr(got, "name", None) == getattr(expected, "name", None)


def test_an_overflow_is_that_of_the_calls():
    x = pa.array([[1, 2], [100, 3]], pa.list_(pa.int8(), 2))
    chain = partial(ra.lazy(x).scale(1).add, 50)
    with pytest.raises(ra.RaptorsOverflowError, match="add: .*row 1"):
        chain().sum(axis=1).collect()
    garbage = pa.FixedSizeListArray.from_arrays(
        pa.array([100, 1, 2, 3], pa.int8()), 2, mask=pa.array([True, False])
    )
    got = ra.lazy(garbage).scale(2).add(1).collect()
    assert got.to_pylist() == [None, [5, 7]]


def test_chains_without_rows_and_without_columns():
    for shape in ((0, 2), (3, 1)):
        x = np.zeros(shape, dtype="f4")
        got = ra.lazy(x).scale(2).add(1).collect()
        assert got.shape == shape and (got == 1).all()
