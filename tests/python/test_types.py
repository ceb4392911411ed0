"""All element types, in from every library and out again."""

import array
import math

import arro3.core as arro3
import nanoarrow
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from calls import DTYPES, FLAGS, FLOATS, INTEGERS, calls, numbers
from forms import FORMS, fixed, values_of

import raptors_arrow as ra

NAMES = {dtype: np.dtype(dtype).name for dtype in DTYPES}

#: What functions give that do not keep the element type, for signed and unsigned integers.
SUMS = {"sum", "sum_axis0", "cumsum"}
COUNTS = {"count", "argmin", "argmax"}
SAME = {"min", "max", "add", "subtract", "multiply", "divide", "minimum", "maximum", "scale"}
SAME |= {"broadcast_add", "negate", "abs", "square", "clip", "transpose"}
SAME |= {"power", "sign", "round", "fill_null", "nan_to_null", "where"}


def expected_type(name: str, dtype: str) -> str:
    """The element type of a result: of floats their own, of integers as the design says."""
    kind = np.dtype(dtype).kind
    if name == "cast":
        return "float64"
    if name in COUNTS:
        return "int64"
    if name in FLAGS:
        return "bool"
    if kind == "f" or name in SAME:
        return NAMES[dtype]
    if name in SUMS:
        return "int64" if kind == "i" else "uint64"
    return "float64"


def asked(name: str, values: np.ndarray, *rest) -> np.ndarray:
    """What NumPy says to a question of numbers, none of which is null."""
    if name == "is_null":
        return np.zeros(values.shape, bool)
    return getattr(np, name)(values, *rest)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ra.list_functions())
def test_the_element_type_of_every_result(name, dtype):
    values = numbers((4, 3), dtype, name)
    function = ra.get_function(name)
    for rest, options in calls(name, values):
        for make in (fixed, np.asarray, lambda v: pl.Series("x", v)):
            got = function(make(values), *rest, **options)
            if function.gives == "named":
                assert (ra.as_matrix(got.indices).dtype, got._fields[0]) == ("int64", "indices")
                got = got.scores
            if isinstance(got, int | float):
                kind = int if expected_type(name, dtype).lstrip("u").startswith("int") else float
                assert type(got) is kind
            elif name in FLAGS:
                flags = values_of(got)
                assert (flags.dtype, flags.shape) == (np.bool_, values.shape)
                answers = asked(name, values, *rest)
                np.testing.assert_array_equal(flags, answers)
            else:
                are_plain = name == "where" and all(isinstance(y, int) for y in rest)
                expected = "int64" if are_plain else expected_type(name, dtype)
                assert ra.as_matrix(got).dtype == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_takes_and_gives_every_type(form, dtype):
    values = np.arange(12).astype(dtype).reshape(4, 3)
    x = FORMS[form](values)
    doubled = ra.scale(x, 2)
    assert type(doubled) is type(x)
    np.testing.assert_array_equal(values_of(doubled), values * 2)
    assert values_of(doubled).dtype == np.dtype(dtype)
    total = ra.sum(x)
    assert total == 66 and type(total) is (float if dtype in FLOATS else int)


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_producers_and_no_copies(dtype):
    values = np.arange(128).astype(dtype).reshape(16, 8)
    column = fixed(values)
    start = column.flatten().buffers()[1].address
    for producer in (arro3.Array.from_arrow(column), nanoarrow.Array(column), ra.as_matrix(column)):
        m = ra.as_matrix(producer)
        assert (m.shape, m.dtype, m.copied) == ((16, 8), NAMES[dtype], None)
        assert pa.array(m).flatten().buffers()[1].address == start
        assert pa.array(ra.scale(producer, 1)).equals(column)
    assert pa.array(ra.as_matrix(values)).flatten().buffers()[1].address == values.ctypes.data
    assert pa.array(ra.as_matrix(memoryview(values))).flatten().to_numpy().dtype == dtype
    swapped = values.astype(np.dtype(dtype).newbyteorder())
    if dtype[1] == "1":
        assert ra.sum(swapped) == 127 * 64
    else:
        with pytest.raises(
            ra.RaptorsTypeError, match=f"sum: .*native byte order, got dtype .{dtype}"
        ):
            ra.sum(swapped)


def test_buffers_of_python_itself():
    for code in "bBhHiIlLqQfd":
        total = ra.sum(array.array(code, [1, 2, 3]))
        assert total == 6 and type(total) is (float if code in "fd" else int)
    assert ra.max(b"abc") == ord("c")
    assert ra.min(bytearray(b"abc")) == ord("a")
    assert ra.sum(memoryview(array.array("q", [4, 5])).cast("B").cast("n")) == 9


def test_integers_are_exact():
    big = 2**63 - 1
    x = pa.array([[big, 1], [-big, 5]], pa.list_(pa.int64(), 2))
    assert ra.sum(x) == 6
    assert ra.sum(pa.array([2**64 - 1], pa.uint64())) == 2**64 - 1
    assert ra.max(np.array([2**64 - 1, 3], "u8")) == 2**64 - 1
    assert ra.mean(x) == 1.5
    assert ra.add(np.array([2**62], "i8"), 2**62 - 1).tolist() == [big]
    assert ra.add(np.array([0], "u8"), 2**64 - 1).tolist() == [2**64 - 1]
    assert ra.add(np.array([2**53], "i8"), 1).tolist() == [2**53 + 1]
    assert ra.divide(np.array([-7, 7], "i4"), 2).tolist() == [-3, 3]
    with pytest.raises(ra.RaptorsOverflowError, match="sum: integer overflow.*int64"):
        ra.sum(pa.array([big, big]))


def test_numbers_that_do_not_fit_the_elements():
    x = np.array([1, 2], "i1")
    with pytest.raises(ra.RaptorsOverflowError, match="add: y is 1000, which int8 cannot hold"):
        ra.add(x, 1000)
    with pytest.raises(ra.RaptorsOverflowError, match="scale: .* cannot hold"):
        ra.scale(x, 10**50)
    with pytest.raises(ra.RaptorsOverflowError, match="add: .*inf"):
        ra.add(x, math.inf)
    with pytest.raises(ra.RaptorsValueError, match="add: y is 2.5, which int8 cannot hold"):
        ra.add(x, 2.5)
    with pytest.raises(ra.RaptorsValueError, match="add: y is NaN"):
        ra.add(x, math.nan)
    assert ra.add(x, 2.0).tolist() == [3, 4]
    assert ra.scale(np.array([1.0]), 10**50).tolist() == [1e50]


def test_overflow_and_division_by_zero_name_the_row():
    x = fixed(np.array([[1, 2], [3, 100]], "i1"))
    with pytest.raises(OverflowError, match="scale: integer overflow in row 1: .*int8") as caught:
        ra.scale(x, 2)
    assert isinstance(caught.value, ra.RaptorsOverflowError)
    with pytest.raises(OverflowError, match="divide: integer overflow in row 0"):
        ra.divide(np.array([-128], "i1"), -1)
    with pytest.raises(ZeroDivisionError, match="divide: row 1 divides an integer by zero") as zero:
        ra.divide(x, fixed(np.array([[1, 1], [1, 0]], "i1")))
    assert isinstance(zero.value, ra.RaptorsZeroDivisionError)
    assert isinstance(zero.value, ra.RaptorsError) and isinstance(zero.value, ValueError)
    assert ra.divide(np.array([1.0]), 0).tolist() == [math.inf]


def test_numpy_has_no_nulls():
    valid = np.ones((2, 2))
    nulls = pa.array([[1.0, None], None], pa.list_(pa.float64(), 2))
    assert np.isnan(ra.add(valid, nulls)).tolist() == [[False, True], [True, True]]
    half = ra.add(valid.astype("f2"), ra.cast(nulls, "float16"))
    assert half.dtype == np.float16 and np.isnan(half).tolist() == [[False, True], [True, True]]
    for dtype in INTEGERS:
        y = ra.cast(nulls, np.dtype(dtype))
        for ones in (valid.astype(dtype), np.asfortranarray(valid.astype(dtype))):
            got = ra.add(ones, y)
            assert isinstance(got, np.ma.MaskedArray) and got.dtype == np.dtype(dtype)
            assert got.tolist() == [[2, None], [None, None]]
    rows = ra.argmin(np.zeros((3, 0)), axis=1)
    assert rows.tolist() == [None] * 3 and rows.dtype == np.int64
    assert type(ra.argmin(valid, axis=1)) is np.ndarray
    assert ra.sum(np.array([1], "i4"), axis=0, min_count=2).tolist() == [None]
    assert ra.sum(np.array([1], "i4"), min_count=2) is None


@pytest.mark.parametrize("wrap", [pa.list_, pa.large_list, lambda e: pa.list_(e, 2)])
def test_null_rows_stay_null_where_nulls_are_asked_for_or_filled(wrap):
    kind = wrap(pa.float64())
    rows = [[1.0, None], None, [None, math.nan]]
    whole = pa.array(rows, kind)
    # Also where no row of a chunk, or of the column, says how long the others are.
    for x in (whole, pa.chunked_array([whole[:1], whole[1:2], whole[2:]])):
        assert ra.is_null(x).to_pylist() == [[False, True], None, [True, False]]
        filled = ra.fill_null(x, pa.array([5.0, None])).to_pylist()
        assert filled[:2] == [[1.0, None], None] and filled[2][0] == 5.0
        assert ra.fill_null(x, whole).to_pylist()[:2] == rows[:2]
        assert ra.nan_to_null(x).to_pylist() == [[1.0, None], None, [None, None]]
    for name, rest in (("is_null", ()), ("fill_null", (0,)), ("nan_to_null", ())):
        got = getattr(ra, name)(pa.array([None, None], kind), *rest)
        assert got.to_pylist() == [None, None]
    table = pa.table({"a": [1.0, None], "b": [2.0, None]})  # which has no null rows
    assert ra.fill_null(table, 0).to_pydict() == {"a": [1.0, 0.0], "b": [2.0, 0.0]}


@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_masked_arrays_go_in_and_come_out(dtype):
    values = np.arange(6).astype(dtype).reshape(3, 2)
    mask = [[False, True], [False, False], [True, True]]
    for own in (values, np.asfortranarray(values), values[::-1][::-1], values.T.copy().T):
        x = np.ma.MaskedArray(own, mask)
        for got in (ra.scale(x, 2), ra.scale(ra.scale(x, 2), 1)):
            assert isinstance(got, np.ma.MaskedArray) and got.dtype == np.dtype(dtype)
            assert got.tolist() == [[0, None], [4, 6], [None, None]]
        assert ra.sum(x) == 5
        assert ra.sum(x, axis=1).tolist() == [0, 5, None]
        assert ra.count(x, axis=0).tolist() == [2, 1]
    flat = np.ma.MaskedArray(values.reshape(-1), np.ravel(mask))
    assert ra.sum(flat, axis=1, width=2).tolist() == [0, 5, None]
    assert type(ra.scale(np.ma.MaskedArray(values), 2)) is np.ndarray
    assert ra.add(values, np.ma.array(3)).tolist() == (values + 3).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_are_said_in_any_language(dtype):
    name = NAMES[dtype]
    x = np.array([[1.0, 2.0]])
    arrow = pa.from_numpy_dtype(dtype)
    polars = getattr(pl, name.replace("ui", "UI").replace("i", "I").replace("f", "F"))
    for said in (name, np.dtype(dtype), np.dtype(dtype).type, arrow, polars, polars()):
        got = ra.cast(x, said)
        assert got.dtype == np.dtype(dtype) and got.tolist() == [[1, 2]], said
    assert ra.cast(fixed(x), arrow).type == pa.list_(arrow, 2)
    assert ra.cast(pl.Series("x", x), polars).dtype == pl.Array(polars, 2)
    assert ra.cast(pa.table({"a": [1.0], "b": [2.0]}), name).schema.types == [arrow, arrow]


def test_types_of_python_and_what_is_no_type():
    x = np.array([[1.0, 2.0]], "f4")
    assert ra.cast(x, float).dtype == np.float64
    assert ra.cast(x, int).dtype == np.int64
    assert ra.cast(x, type="double").dtype == np.float64
    for wrong in ("decimal", pl.Int128, pa.string(), np.dtype("U1"), np.dtype(">f8"), pa.bool_()):
        with pytest.raises(ra.RaptorsValueError, match="cast: option type: .*float16, float32"):
            ra.cast(x, wrong)
    for wrong in ("float", None, 3, str, object, bool):
        with pytest.raises(ra.RaptorsTypeError, match="cast: option type: .*element type"):
            ra.cast(x, wrong)
    with pytest.raises(ra.RaptorsTypeError, match=r"cast: expected type.*cast\(x, type, \*, safe"):
        ra.cast(x)
    with pytest.raises(ra.RaptorsOverflowError, match="cast: .*row 0.*int8"):
        ra.cast(np.array([1.5]), "int8")
    assert ra.cast(np.array([1.5, 300, np.nan]), "int8", safe=False).tolist() == [1, 127, 0]


def test_orders_bounds_and_words():
    x = np.array([[3.0, -4.0]])
    for order, norm in ((1, 7.0), (2, 5.0), (2.0, 5.0), (np.int8(1), 7.0), (math.inf, 4.0)):
        assert ra.norm(x, ord=order) == norm
    assert ra.norm(x, ord="inf") == ra.norm(x, ord=np.float32("inf")) == 4.0
    for wrong, error in ((3, ValueError), ("two", ValueError), (True, TypeError), ([], TypeError)):
        with pytest.raises(error, match="norm: option ord: expected 1, 2 or inf, got"):
            ra.norm(x, ord=wrong)
    for low in (-1, -1.0, np.int8(-1), np.float32(-1), pa.scalar(-1)):
        assert ra.clip(x, low).tolist() == [[3.0, -1.0]]
    assert ra.clip(x, None, 2).tolist() == ra.clip(x, max=2).tolist() == [[2.0, -4.0]]
    assert ra.clip(x).tolist() == x.tolist()
    for wrong, error in ((math.nan, ValueError), ("1", TypeError), (True, TypeError)):
        with pytest.raises(error, match="clip: option max: expected None, a number, or a list"):
            ra.clip(x, max=wrong)
    with pytest.raises(OverflowError, match="clip: .*1000"):
        ra.clip(np.array([1], "i1"), max=1000)
    with pytest.raises(OverflowError, match="clip"):
        ra.clip(np.array([1], "u8"), max=2**70)
