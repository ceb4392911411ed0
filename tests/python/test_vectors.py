"""Point 15: one vector given as ``x`` is not silently a column."""

from array import array

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import raptors_arrow as ra

KINDS = {name: ra.get_function(name).argument_kinds for name in ra.list_functions()}
#: Functions whose rows are vectors, with an axis of 1 if they have one.
BY_ROWS = {name for name, kinds in KINDS.items() if kinds[0] == "rows"}
PAIRS = ["dot", "cosine_similarity", "l2_distance", "l1_distance"]
#: One vector, as every kind of object that holds one.
FORMS = {
    "NumPy": np.array,
    "masked": np.ma.array,
    "pyarrow": pa.array,
    "chunked": lambda values: pa.chunked_array([values[:1], values[1:]], type=pa.float64()),
    "polars": pl.Series,
    "pandas": pd.Series,
    "nullable": lambda values: pd.Series(values, dtype="Float64"),
    "buffer": lambda values: array("d", values),
    "Matrix": lambda values: ra.as_matrix(np.array(values)),
}
forms = pytest.mark.parametrize("form", FORMS)


def test_the_entries_say_which_functions_go_by_rows():
    transforms = {"normalize", "softmax", "standardize", "center", "minmax_scale"}
    assert transforms | {"top_k", "pairwise", "matmul", *PAIRS} == BY_ROWS


@forms
@pytest.mark.parametrize("name", sorted(BY_ROWS))
def test_one_vector_is_refused_with_both_ways_out(name, form):
    function = ra.get_function(name)
    x = FORMS[form]([3.0, 4.0])
    matrix = np.ones((1, 2))
    rest = [matrix] if len(function.arguments) == 2 and name != "pairwise" else []
    options = {"axis": 1} if "axis" in function.options else {}
    with pytest.raises(ra.RaptorsError, match=f"^{name}: expected x to be a matrix") as caught:
        function(x, *rest, **options)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert "got a 1-D array of 2" in message
    assert "x[None, :]" in message and "width=2" in message
    # Only where there is an axis that could be another.
    assert ("axis=0" in message) == ("axis" in function.options)


def test_one_vector_is_refused_by_default_where_the_axis_is_1():
    x = np.array([3.0, 4.0])
    for call in (ra.normalize, ra.softmax, lambda x: ra.pairwise(x, metric="l2")):
        with pytest.raises(ValueError, match=r"x\[None, :\]"):
            call(x)
    with pytest.raises(ValueError, match="top_k"):
        ra.top_k(x, np.array([1.0]))
    with pytest.raises(ValueError, match="matmul"):
        ra.matmul(x, np.ones(2))
    with pytest.raises(ValueError, match="normalize"):
        ra.explain("normalize", x)


def test_the_ways_out_are_ways_out():
    x = np.array([3.0, 4.0])
    unit = [0.6, 0.8]
    assert ra.normalize(x[None, :]).tolist() == [unit]
    assert ra.normalize(x, width=2).tolist() == unit
    assert ra.normalize(pa.array(x), width=2).to_pylist() == unit
    assert ra.normalize(x, axis=0).tolist() == unit
    assert ra.normalize(x, axis=None).tolist() == unit
    assert ra.dot(x, np.ones((1, 2)), width=2).tolist() == [7.0]
    assert ra.top_k(x, np.array([1.0, 1.0]), width=2).indices.tolist() == [0]
    # A width of one was asked for too: rows of one element.
    assert np.ravel(ra.normalize(x, width=1)).tolist() == [1.0, 1.0]
    assert pa.array(ra.normalize(pa.array(x), width=1)).to_pylist() == [[1.0], [1.0]]
    assert ra.dot(x, np.array([2.0]), width=1).tolist() == [6.0, 8.0]
    assert ra.normalize(ra.as_matrix(x, width=1)).shape == (2, 1)
    assert ra.normalize(x[:, None]).tolist() == [[1.0], [1.0]]


@forms
def test_reductions_arithmetic_and_transforms_of_columns_keep_the_meaning_of_numpy(form):
    x = FORMS[form]([3.0, 4.0])
    assert (ra.sum(x), ra.mean(x), ra.norm(x)) == (7.0, 3.5, 5.0)

    def floats(result):
        # What came by the buffer protocol goes back as a Matrix.
        result = pa.array(result) if isinstance(result, ra.Matrix) else result
        return np.asarray(result, "f8").tolist()

    assert floats(ra.sum(x, axis=0)) == [7.0]
    assert floats(ra.sum(x, axis=1)) == [3.0, 4.0]
    assert floats(ra.scale(x, 2)) == [6.0, 8.0]
    assert floats(ra.subtract(x, x, axis=0)) == [0.0, 0.0]
    assert floats(ra.center(x)) == [-0.5, 0.5]
    assert floats(ra.standardize(x)) == [-1.0, 1.0]
    assert floats(ra.minmax_scale(x)) == [0.0, 1.0]


@forms
@pytest.mark.parametrize("name", PAIRS)
def test_two_vectors_give_one_number(name, form):
    x, y = [3.0, 4.0, 0.0], [1.0, 2.0, -2.0]
    expected = {
        "dot": 11.0,
        "cosine_similarity": 11.0 / 15.0,
        "l2_distance": np.sqrt(12.0),
        "l1_distance": 6.0,
    }[name]
    function = getattr(ra, name)
    for other in (FORMS[form](y), np.array(y)):
        got = function(FORMS[form](x), other)
        assert type(got) is float
        assert got == pytest.approx(expected, rel=2**-50)
    # The bits of the row that it is.
    assert got == function(np.array([x]), np.array(y))[0]
    assert ra.explain(name, FORMS[form](x), np.array(y)).bytes_written == 8


@pytest.mark.parametrize("name", PAIRS)
def test_two_vectors_with_a_null_give_none(name):
    function = getattr(ra, name)
    x, null = pa.array([3.0, 4.0]), pa.array([1.0, None])
    chunked = pa.chunked_array([[1.0], [None]], type=pa.float64())
    for other in (null, chunked):
        assert function(x, other) is None
        assert function(other, x) is None
    assert function(np.ma.array([1.0, 2.0], mask=[False, True]), np.ones(2)) is None


def test_two_vectors_of_no_elements_and_of_zeros():
    none = np.zeros(0)
    assert [getattr(ra, name)(none, none) for name in PAIRS] == [0.0, None, 0.0, 0.0]
    assert ra.cosine_similarity(np.zeros(2), np.ones(2)) is None


@pytest.mark.parametrize("name", PAIRS)
def test_two_vectors_of_different_length_are_refused_and_the_type_of_the_first_wins(name):
    function = getattr(ra, name)
    with pytest.raises(ra.RaptorsValueError, match=f"{name}: expected y of .*3, got .*2"):
        function(np.ones(3), np.ones(2))
    assert function(np.ones(2), np.ones(2, "i4")) == function(np.ones(2), np.ones(2))
    with pytest.raises(ra.RaptorsTypeError, match=f"{name}: expected y of int32, got float64"):
        function(np.ones(2, "i4"), np.ones(2))


def test_integers_and_halves_beside_each_other():
    whole = np.array([1, 2, 3], "i8")
    assert ra.dot(whole, whole) == 14.0
    halves = np.array([1, 2, 3], "f2")
    assert ra.dot(halves, halves) == 14.0


@pytest.mark.parametrize("name", ["normalize", "softmax", *PAIRS])
def test_a_polars_column_of_numbers_is_no_column_of_vectors(name):
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    rest = [pl.col("b")] if name in PAIRS else []
    expression = getattr(pl.col("a").raptors, name)(*rest)
    for run in (frame.select, lambda e: frame.lazy().select(e).collect(engine="streaming")):
        with pytest.raises(ra.RaptorsValueError, match=f"{name}: .*rows are vectors, got Float64"):
            run(expression)
    with pytest.raises(ra.RaptorsValueError, match="implode"):
        frame.lazy().select(expression).collect_schema()


def test_what_a_polars_column_of_numbers_may_be():
    frame = pl.DataFrame({"a": [3.0, 4.0]})
    assert frame.select(pl.col("a").raptors.normalize(axis=0))["a"].to_list() == [0.6, 0.8]
    assert frame.select(pl.col("a").raptors.center())["a"].to_list() == [-0.5, 0.5]
    row = frame.select(pl.col("a").implode().raptors.normalize())
    assert row["a"].to_list() == [[0.6, 0.8]]
    assert frame["a"].raptors.dot(frame["a"]) == 25.0
    with pytest.raises(ra.RaptorsValueError, match="width=2"):
        frame["a"].raptors.softmax()
