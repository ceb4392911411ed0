"""The answer, or the class of the error, is that of the whole column for any split of its rows.

Chunks, morsels of the streaming engine, null batches and empty batches among them.
"""

from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from calls import PRODUCTS, choices
from hypothesis import given, settings
from hypothesis import strategies as st

import raptors_arrow as ra

WIDTH = 3
ELEMENTS = {"f8": pa.float64(), "f4": pa.float32(), "i2": pa.int16()}
LISTS = {
    "list": pa.list_,
    "large list": pa.large_list,
    "fixed-size list": lambda element: pa.list_(element, WIDTH),
}


@st.composite
def columns(draw):
    """Rows of one width, and where they are cut; whole pieces may be null or empty."""
    batches = draw(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    null_elements = draw(st.sampled_from([0.0, 0.1]))
    pieces = []
    for rows, is_null in batches:
        values = rng.integers(-4, 5, (rows, WIDTH)).tolist()
        values = [[None if rng.random() < null_elements else v for v in row] for row in values]
        pieces.append([None if is_null or rng.random() < 0.2 else row for row in values])
    return pieces


def with_nan(pieces):
    """The same with NaN for the largest numbers."""
    return [[row and [np.nan if v == 4 else v for v in row] for row in piece] for piece in pieces]


def plain(result):
    return result.to_pylist() if hasattr(result, "to_pylist") else result


def outcome(call):
    """What a call gives, as Python objects, or the class of its error."""
    try:
        result = call()
    except ra.RaptorsError as error:
        return type(error)
    results = result if isinstance(result, tuple) else (result,)
    return repr(tuple(map(plain, results)))  # in which NaN is NaN


def cut(rows, cuts, kind):
    """A column with chunks that end at ``cuts``, if it has so many rows."""
    ends = [0, *sorted(min(end, len(rows)) for end in cuts), len(rows)]
    return pa.chunked_array([pa.array(rows[a:b], kind) for a, b in pairwise(ends)], kind)


def seconds(kind, rows, cuts, column, element):
    """Second arguments of a kind: those for all rows, and those that go along with the rows."""
    dtype = element.to_pandas_dtype()
    vector = np.array([1, 2, 3], dtype)
    matrix = [cut(rows[::-1], cuts, column)]
    numbers = [None if row is None else 2 for row in rows]
    return {
        "number": [((2,), {})],
        "row": [((vector,), {})],
        "operand": [
            ((2,), {}),
            ((vector,), {}),
            (matrix, {}),
            ([cut(numbers, cuts, element)], {"axis": 0}),
        ],
        "vectors": [((vector,), {}), (matrix, {})],
        "queries": [((vector,), {"k": 2}), ((np.stack([vector, vector[::-1]]),), {"k": 2})],
        "matrix": [((np.eye(WIDTH, dtype=dtype),), {})],
    }[kind]


@pytest.mark.parametrize("name", ra.list_functions())
@settings(max_examples=25, deadline=None)
@given(
    columns(),
    st.sampled_from(sorted(LISTS)),
    st.sampled_from(sorted(ELEMENTS)),
    st.lists(st.integers(0, 9), max_size=4),
    st.booleans(),
)
def test_any_chunking_gives_the_answer_or_the_error_of_the_whole(
    name, pieces, kind, dtype, cuts, has_nan
):
    function = ra.get_function(name)
    element = ELEMENTS[dtype]
    if has_nan and dtype != "i2":
        pieces = with_nan(pieces)
    column = LISTS[kind](element)
    rows = [row for piece in pieces for row in piece]
    whole = pa.chunked_array([pa.array(rows, column)])
    split = pa.chunked_array([pa.array(piece, column) for piece in pieces], column)
    kinds = function.argument_kinds[1:]
    for options in choices(function):
        others = seconds(kinds[0], rows, [], column, element) if kinds else [((), {})]
        apart = seconds(kinds[0], rows, cuts, column, element) if kinds else [((), {})]
        last = [1] * (len(kinds) - 1)
        for (beside, more), (beside_split, _) in zip(others, apart, strict=True):
            expected = outcome(lambda: function(whole, *beside, *last, **options, **more))  # noqa: B023
            got = outcome(lambda: function(split, *beside_split, *last, **options, **more))  # noqa: B023
            assert got == expected, (options, more)


SERIES_ONLY = {"transpose", "top_k", "gram", "covariance", "correlation"}
EXPRESSIONS = {
    "number": [2.0],
    "row": [np.array([1.0, 2.0, 3.0]), pl.lit([1.0, 2.0, 3.0])],
    "operand": [2, pl.col("w"), pl.col("w").sum(), pl.col("emb"), pl.lit([1.0, 2.0, 3.0])],
    "vectors": [np.array([1.0, 2.0, 3.0]), pl.col("emb"), pl.lit([1.0, 2.0, 3.0])],
    "matrix": [np.eye(WIDTH)],
}


@pytest.mark.parametrize("name", sorted(set(ra.list_functions()) - SERIES_ONLY))
@settings(max_examples=12, deadline=None)
@given(columns(), st.sampled_from(["list", "array"]), st.sampled_from([1, 2, 100]), st.booleans())
def test_both_engines_of_polars_give_the_answer_of_the_whole(name, pieces, kind, morsel, has_nan):
    function = ra.get_function(name)
    pieces = with_nan(pieces) if has_nan else pieces
    is_list = kind == "list" and name not in PRODUCTS
    dtype = pl.List(pl.Float64) if is_list else pl.Array(pl.Float64, WIDTH)
    frames = [
        pl.DataFrame(
            {"emb": piece, "w": [float(i + n) for n in range(len(piece))]},
            schema={"emb": dtype, "w": pl.Float64},
        )
        for i, piece in enumerate(pieces)
    ]
    whole = pl.concat(frames, rechunk=True).lazy()
    split = pl.concat([frame.lazy() for frame in frames], rechunk=False)
    chunks = pl.concat(frames, rechunk=False).lazy()

    def collected(lazy, engine, expression):
        try:
            return repr(lazy.select(expression).collect(engine=engine)["emb"].to_list())
        except ra.RaptorsError as error:
            return type(error)

    kinds = function.argument_kinds[1:]
    last = [1] * (len(kinds) - 1)
    with pl.Config() as config:
        config.set_streaming_chunk_size(morsel)
        for options in choices(function):
            for args in [[y, *last] for y in EXPRESSIONS[kinds[0]]] if kinds else [[]]:
                expression = getattr(pl.col("emb").raptors, name)(*args, **options)
                expected = collected(whole, "in-memory", expression)
                for lazy in (split, chunks):
                    for engine in ("in-memory", "streaming"):
                        got = collected(lazy, engine, expression)
                        assert got == expected, (engine, options, args)
