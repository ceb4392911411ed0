"""Python exceptions that name the function, what it expected and what it got."""

import ctypes
import datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from forms import fixed

import raptors_arrow as ra

X = fixed(np.arange(6, dtype="f4").reshape(3, 2))


class Odd(np.ndarray):
    """An array with a mask of its own making."""

    mask = True


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: ra.sum(pa.array(["a"])), TypeError, "sum: expected numbers.*got string$"),
        (
            lambda: ra.add(pa.array([True]), 1),
            TypeError,
            "add: expected numbers .*for x, got bool$",
        ),
        (
            lambda: ra.sum(pa.array([1], pa.decimal128(5))),
            TypeError,
            r"sum: .*got decimal128\(5, 0\)$",
        ),
        (lambda: ra.sum(np.array(["x"])), TypeError, "sum: .*dtype <U1"),
        (lambda: ra.sum(np.array(["a"])), TypeError, "sum: .*dtype <U1"),
        (lambda: ra.sum(np.array([1j])), TypeError, "sum: .*complex128"),
        (lambda: ra.sum(np.array(["2020"], "M8[D]")), TypeError, r"sum: .*datetime64\[D\]"),
        (lambda: ra.sum(np.arange(2.0).astype(">f8")), TypeError, "sum: .*byte order.*>f8"),
        (lambda: ra.add(X, np.ma.masked), ValueError, "add: a masked number is null"),
        (lambda: ra.sum(Odd(3)), TypeError, "sum: .*without a mask .*got test_errors.Odd"),
        (
            lambda: ra.clip(X, max=2**63 + 1),
            OverflowError,
            "clip: option max: .*pass it as a float",
        ),
        (lambda: ra.gram(np.zeros((1, 1, 1))), ValueError, "gram: .*1 or 2 dimensions.*, got 3"),
        (lambda: ra.sum(np.array(1.0)), TypeError, "sum: expected a matrix for x"),
        (lambda: ra.sum([1.0]), TypeError, "sum: expected x to be .*got list"),
        (lambda: ra.sum(1.0), TypeError, "sum: expected x to be .*got float"),
        (lambda: ra.sum(datetime.date), TypeError, "sum: .*got type"),
        (lambda: ra.sum(), TypeError, "sum: expected 1 argument, got 0"),
        (lambda: ra.sum(X, 0, True), TypeError, "sum: expected at most 2 .*got 3.*axis=None"),
        (lambda: ra.sum(X, axis=2), ValueError, "sum: option axis: .*got 2"),
        (lambda: ra.sum(X, axis=True), TypeError, "sum: option axis: .*got True"),
        (lambda: ra.sum(X, axis="0"), TypeError, "sum: option axis: .*got '0'"),
        (lambda: ra.sum(X, skip_nulls=1), TypeError, "sum: option skip_nulls: .*got 1"),
        (lambda: ra.sum(X, min_count=-1), ValueError, "sum: option min_count: .*got -1"),
        (lambda: ra.sum(X, min_count=10**30), TypeError, "sum: option min_count"),
        (lambda: ra.sum(X, width=-1), ValueError, "sum: option width: .*got -1"),
        (lambda: ra.sum(X, ddof=1), TypeError, 'sum: no option "ddof"; it has axis, skip_nulls'),
        (lambda: ra.sum(X, x=X), TypeError, "sum: x was given twice"),
        (lambda: ra.sum(X, 0, axis=0), TypeError, "sum: axis was given twice"),
        (lambda: ra.sum(X, min_count=None), TypeError, "sum: option min_count: .*got None"),
        (lambda: ra.normalize(X, axis=3), ValueError, "normalize: option axis: .*got 3"),
        (lambda: ra.normalize(X, 1), TypeError, r"normalize: expected at most 1 .*\*, axis=1"),
        (lambda: ra.dot(X, 2.0), TypeError, "dot: expected y to be a NumPy array.*got float"),
        (lambda: ra.dot(X), TypeError, "dot: expected 2 arguments, got 1"),
        (lambda: ra.dot(X, X[:2]), ValueError, "dot: expected y of 3 rows, got 2"),
        (lambda: ra.dot(X, np.ones(3, "f4")), ValueError, "dot: expected y of width 2, got"),
        (
            lambda: ra.dot(np.ones((3, 2), "i4"), np.ones(2)),
            TypeError,
            "dot: expected y of int32, got float64; cast x or y first",
        ),
        (
            lambda: ra.add(np.ones((3, 2), "i1"), np.array([[1, 2], [3, 400], [5, 6]])),
            OverflowError,
            "add: y has an element in row 1 that int8 cannot hold; cast x to a wider type first",
        ),
        (lambda: ra.scale(X, 10**400), OverflowError, "scale: factor is too large"),
        (lambda: ra.scale(X, X), TypeError, "scale: expected one number for factor"),
        (lambda: ra.add(X, pa.scalar(None, pa.float32())), ValueError, "add: y is null"),
        (lambda: ra.add(X, X[:2]), ValueError, "add: expected y of 3 rows, got 2"),
        (lambda: ra.broadcast_add(X, 1.0), TypeError, "broadcast_add: .*row"),
        (lambda: ra.sum(pa.array([[1.0], [1.0, 2.0]]), 0), ValueError, "sum: .*row 1 has 2"),
        (lambda: ra.sum(pa.table({"a": [1.0], "b": ["x"]})), TypeError, "sum: .*numbers"),
        (lambda: ra.call_function("maen", [X]), ValueError, 'called "maen"; did you mean "mean"'),
        (lambda: ra.get_function("nothing"), ValueError, "list_functions"),
        (lambda: ra.explain("sum", X, axis=7), ValueError, "sum: option axis"),
        (lambda: ra.set_num_threads(0), ValueError, "from 1 to 1024"),
        (lambda: ra.set_num_threads(-1), ValueError, "got -1"),
        (lambda: ra.as_matrix("x"), TypeError, "as_matrix: .*got str"),
        # What pyo3 would refuse with exceptions of its own.
        (lambda: ra.get_function(3), TypeError, "get_function: expected name to be a str, got int"),
        (lambda: ra.get_function("\ud800"), ValueError, "get_function: .*Unicode.*ud800"),
        (lambda: ra.explain(None, X), TypeError, "explain: expected name to be a str, got NoneT"),
        (lambda: ra.call_function(3, [X]), TypeError, "call_function: expected name .*got int"),
        (lambda: ra.call_function("sum", 5), TypeError, "call_function: expected args .*got int"),
        (
            lambda: ra.call_function("sum", [X], [("axis", 0)]),
            TypeError,
            "call_function: expected options to be a dict, got list",
        ),
        (
            lambda: ra.call_function("sum", [X], {3: 4}),
            TypeError,
            "sum: expected the name of an option to be a str, got int",
        ),
        (lambda: ra.sum(X, **{"\ud800": 1}), ValueError, "sum: expected the name .*ud800"),
        (lambda: ra.set_num_threads("x"), TypeError, "set_num_threads: .*1 to 1024, got 'x'"),
        (lambda: ra.set_num_threads(2.5), TypeError, "set_num_threads: .*1 to 1024, got 2.5"),
        (lambda: ra.set_num_threads(True), TypeError, "set_num_threads: .*1 to 1024, got True"),
        (lambda: ra.set_num_threads(10**30), ValueError, "set_num_threads: .*1 to 1024, got 1000"),
        (lambda: ra.bandwidth(3, 1 << 20), TypeError, "bandwidth: expected kind to be a str"),
        (lambda: ra.bandwidth("read", "x"), TypeError, "bandwidth: option nbytes: .*got 'x'"),
        (lambda: ra.bandwidth("read", 10**30), ValueError, "bandwidth: option nbytes: .*got 1000"),
        (lambda: ra.bandwidth("read", 1 << 20, "x"), TypeError, "bandwidth: option threads"),
        (lambda: ra.bandwidth("read", 1 << 20, 1, "x"), TypeError, "bandwidth: option seconds"),
        (lambda: ra.bandwidth("read", 1 << 20, 1, 10**400), ValueError, "bandwidth: option sec"),
        (lambda: ra.cast(X, np.integer), TypeError, "cast: option type: .*np?.*integer"),
        (lambda: ra.cast(X, np.generic), TypeError, "cast: option type: .*generic"),
    ],
)
def test_errors_name_what_was_wrong(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call()
    assert isinstance(caught.value, ra.RaptorsError)


def test_only_names_that_people_know_are_in_messages():
    nested = pa.list_(pa.field("item", pa.list_(pa.string_view()), nullable=False), 2)
    for array, name in [
        (pa.array(["a"], pa.string_view()), "string_view"),
        (pa.array([0], pa.timestamp("ns")), r"timestamp\[ns\]"),
        (pa.array([0], pa.timestamp("s", "UTC")), r"timestamp\[s, tz=UTC\]"),
        (pa.array([[0]], pa.list_(pa.date32())), r"list<item: date32\[day\]>"),
        (pa.array([], nested), r"fixed_size_list<item: list<item: string_view> not null>\[2\]"),
        (pa.array(["a"]).dictionary_encode(), "dictionary<values=string, indices=int32>"),
        (pa.array([{"a": 1, "b": "x"}]), r"string \(b\); leave those out"),
        (pa.table({"a": [1], "b": ["x"]}), r"string \(b\); leave those out"),
    ]:
        with pytest.raises(ra.RaptorsTypeError, match=f"sum: .*got {name}$"):
            ra.sum(array)
    with pytest.raises(ra.RaptorsTypeError, match="scale: .*got a matrix of 3 x 2 float32$"):
        ra.scale(X, X)
    with pytest.raises(ra.RaptorsOverflowError, match="add: y is 1000, which int8 cannot hold"):
        ra.add(pa.array([1], pa.int8()), 1000)


def test_axis_is_named_where_there_is_one_and_it_helps():
    three, four = np.ones(3, "f4"), np.ones(4, "f4")
    for name in ("add", "subtract", "multiply", "divide", "minimum", "maximum"):
        function = getattr(ra, name)
        with pytest.raises(ra.RaptorsValueError, match=f"{name}: .*pass axis=0 for one value per"):
            function(X, three)
        assert len(function(X, three, axis=0)) == 3
        with pytest.raises(ra.RaptorsValueError, match=f"{name}: .*of width 2, got width 4$"):
            function(X, four)
    for call in (
        lambda: ra.broadcast_add(X, three),
        lambda: ra.dot(X, three),
        lambda: ra.top_k(X, three),
        lambda: ra.sum(X, width=5),
        lambda: ra.add(X, np.ones((3, 3), "f4")),
    ):
        with pytest.raises(ra.RaptorsValueError) as caught:
            call()
        assert "axis" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, 1.5, 300.0, np.inf])
def test_a_cast_that_is_refused_names_safe(value):
    x = np.array([1.0, value])
    with pytest.raises(ra.RaptorsOverflowError, match="cast: row 1 .*int8.*safe=False"):
        ra.cast(x, "int8")
    assert ra.cast(x, "int8", safe=False)[0] == 1


def test_tables_name_the_columns_that_are_no_numbers():
    table = pa.table({"id": [1], "x": [1.0], "name": ["a"]})
    for mixed in (table, table.to_batches()[0], table.to_struct_array(), pl.DataFrame(table)):
        with pytest.raises(ra.RaptorsTypeError, match=r"mean: .*numbers, got .*\(name\)"):
            ra.mean(mixed)


def test_keyword_arguments_by_name():
    assert ra.sum(x=X, axis=0).to_pylist() == [6.0, 9.0]
    assert ra.scale(factor=2, x=X).to_pylist() == [[0.0, 2.0], [4.0, 6.0], [8.0, 10.0]]


def test_a_huge_output_is_a_memory_error():
    # More than any address space, so that no system promises it and then kills the process.
    with pytest.raises(ra.RaptorsMemoryError, match="sum: no memory for an output of"):
        ra.sum(np.zeros((1 << 59, 0)), axis=1, min_count=0)


class ArrowArray(ctypes.Structure):
    """The C structure, to be spoilt."""


ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Spoilt:
    """Exports an array whose C structure was changed, and mends it when it is done."""

    def __init__(self, array, **changes):
        self.schema, self.array = array.__arrow_c_array__()
        self.c = ArrowArray.from_address(_pointer(self.array, b"arrow_array"))
        self.mended = []
        for name, value in changes.items():
            target = self.c.children[0].contents if name.startswith("child_") else self.c
            name = name.removeprefix("child_")
            self.mended.append((target, name, getattr(target, name)))
            setattr(target, name, value)

    def mend(self):
        for target, name, value in self.mended:
            setattr(target, name, value)

    def __arrow_c_array__(self, requested_schema=None):
        return self.schema, self.array


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"length": -1}, "length -1"),
        ({"offset": -5}, "offset -5"),
        ({"length": 1 << 62, "offset": 1 << 62}, "overflow|elements where|needed"),
        ({"length": 1 << 62}, "overflow|needed"),
        ({"length": 4}, "6 elements where 8 are needed"),
        ({"offset": 1}, "6 elements where 8 are needed"),
        ({"null_count": -2}, "null count -2"),
        ({"null_count": 2}, "2 nulls but no validity"),
        ({"n_buffers": 0}, "0 buffers"),
        ({"n_buffers": -1}, "buffer count -1"),
        ({"n_children": 0}, "0 children"),
        ({"n_children": 2}, "2 children"),
        ({"child_length": 5}, "5 elements where 6"),
        ({"child_length": -6}, "length -6"),
        ({"child_n_buffers": 1}, "1 buffers"),
    ],
)
def test_malformed_arrays_are_refused_before_they_are_read(changes, match):
    spoilt = Spoilt(X, **changes)
    with pytest.raises(ra.RaptorsValueError, match=f"sum: the Arrow data .*({match})"):
        ra.sum(spoilt)
    spoilt.mend()  # it was not taken, so its owner can still release it


def test_a_capsule_is_used_once():
    once = Spoilt(X)
    assert ra.sum(once) == 15.0
    with pytest.raises(ra.RaptorsValueError, match="sum: .*used already"):
        ra.sum(once)


def test_a_wrong_null_count_is_counted_anew():
    x = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float64(), 2))
    for stale in (-1, 0, 1, 2):
        assert ra.sum(Spoilt(x, null_count=stale)) == 10.0


@pytest.mark.parametrize(
    "given",
    [None, (), (1, 2), "capsule", X.__arrow_c_array__()[::-1], (X.type.__arrow_c_schema__(),)],
)
def test_methods_that_give_no_capsules(given):
    class Wrong:
        def __arrow_c_array__(self, requested_schema=None):
            return given

    with pytest.raises(ra.RaptorsError, match="sum: expected .*__arrow_c_array__"):
        ra.sum(Wrong())


def test_exceptions_of_producers_come_through():
    class Failing:
        def __arrow_c_array__(self, requested_schema=None):
            raise RuntimeError("no data today")

    with pytest.raises(RuntimeError, match="no data today"):
        ra.sum(Failing())

    def batches():
        yield pa.record_batch({"a": [1.0]})
        raise ValueError("disk on fire")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.float64()}), batches())
    # Read batch by batch, by Python: the error is the one that was raised.
    with pytest.raises(ValueError, match="^disk on fire$"):
        ra.sum(reader)
