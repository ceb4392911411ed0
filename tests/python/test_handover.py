"""How data is handed over, in and out: capsules, buffers, classes and interpreters."""

import array as plain
import ctypes
import gc
import subprocess
import sys
from ctypes import POINTER, c_char_p, c_int, c_ssize_t, c_uint, c_void_p

import malformed
import numpy as np
import producer
import pyarrow as pa
import pytest
from malformed import KINDS, doubles, nested, numbers, offsets
from producer import Arrays, Stream, array, field, kept

import raptors_arrow as ra

# Only a hang can take so long.
GUARD = 120


def released(source):
    gc.collect()
    return [node.released for root in source.nodes for node in root.parts()]


# --- what is well made is taken, whatever it leaves open ---


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_is_read_and_released_once(kind):
    source = Arrays(*KINDS[kind]())
    assert ra.sum(source) == (6.0 if kind == "struct" else 15.0)
    assert set(released(source)) == {1}
    source = Arrays(*KINDS[kind]())
    matrix = ra.as_matrix(source)
    assert source.nodes[1].released == 0  # it is read where it lies
    del matrix
    assert set(released(source)) == {1}


@pytest.mark.parametrize("claimed", [-1, 0, 1, 2, 3])
def test_nulls_are_counted_anew(claimed):
    data = array(3, [b"\x05"], numbers(), null_count=claimed)
    source = Arrays(field("+w:2", field("g")), data)
    assert ra.sum(source) == 10.0
    elements = array(6, [b"\x3e", doubles(*range(6))], null_count=claimed)
    matrix = ra.as_matrix(Arrays(field("+w:2", field("g")), array(3, [None], elements)))
    assert ra.count(matrix) == 5


def test_buffers_that_are_not_aligned_are_copied():
    def moved(data):
        return kept(ctypes.create_string_buffer(b"?" + data)) + 1

    elements = array(6, [None, moved(doubles(*range(6)))])
    rows = array(3, [None, moved(offsets(0, 2, 4, 6))], elements)
    source = Arrays(field("+l", field("g")), rows)
    matrix = ra.as_matrix(source)
    assert "no multiple of the element size" in matrix.copied
    assert ra.sum(matrix, axis=1).rows == 3
    assert ra.sum(matrix) == 15.0
    assert set(released(source)) == {1}


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_rows_needs_no_buffers(kind):
    schema, data = KINDS[kind]()
    for node in data.parts():
        node.c.length = 0
        node.c.buffers = producer.pointers([None] * node.c.n_buffers)
    source = Arrays(schema, data)
    assert ra.sum(source) is None
    assert set(released(source)) == {1}


def test_a_type_of_the_most_levels_is_read():
    assert ra.sum(nested(32)) == 0.0


def test_streams_are_read_to_their_end_and_released_once():
    batches = [malformed.batch() for _ in range(3)]
    source = Stream(malformed.two_columns(), batches)
    assert ra.sum(source) == 18.0
    assert set(released(source)) == {1}


# --- `__arrow_c_array__` may refuse, but not fail ---


class Both:
    """Has an array, which it does not give, and a stream."""

    def __init__(self, error):
        self.error = error

    def __arrow_c_array__(self, requested_schema=None):
        raise self.error

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table({"a": [1.0, 2.0]}).__arrow_c_stream__()


@pytest.mark.parametrize("error", [ValueError, TypeError, NotImplementedError, pa.ArrowInvalid])
def test_a_refused_array_falls_back_to_the_stream(error):
    assert ra.sum(Both(error("several chunks"))) == 3.0


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit, OSError, RuntimeError]
)
def test_a_failed_array_is_no_refusal(error):
    with pytest.raises(error):
        ra.sum(Both(error("not a refusal")))


# --- classes that say something else than they are ---


class Kind(pa.ExtensionType):
    def __init__(self, storage, name):
        super().__init__(storage, name)

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage, "liar")

    def __arrow_ext_class__(self):
        return Liar


class Liar(pa.ExtensionArray):
    """An array that gives another array's type and data for its own."""

    said, given = None, None

    @property
    def type(self):
        return Liar.said or pa.Array.type.__get__(self)

    def __arrow_c_array__(self, requested_schema=None):
        return (Liar.given or super()).__arrow_c_array__()


SINGLES = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype="f4")), 4)
DOUBLES = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(16.0)), 4)


@pytest.fixture
def liar():
    made = pa.ExtensionArray.from_storage(Kind(DOUBLES.type, "liar"), DOUBLES)
    assert isinstance(made, Liar)
    yield made
    Liar.said = Liar.given = None


def test_a_class_that_lies_about_its_type_is_not_believed(liar):
    assert ra.sum(SINGLES) == 28.0  # its type is known from here on
    Liar.said = SINGLES.type
    assert ra.sum(liar) == 120.0
    doubled = ra.scale(liar, 2)
    storage = doubled.storage if isinstance(doubled, pa.ExtensionArray) else doubled
    assert storage.to_pylist() == ra.scale(DOUBLES, 2).to_pylist()


def test_a_class_of_a_user_comes_back_with_its_type():
    class Honest(pa.ExtensionArray):
        pass

    class Other(Kind):
        def __arrow_ext_class__(self):
            return Honest

    x = pa.ExtensionArray.from_storage(Other(DOUBLES.type, "honest"), DOUBLES)
    for _ in range(2):
        doubled = ra.scale(x, 2)
        assert isinstance(doubled, Honest)
        assert doubled.type == x.type
        assert doubled.storage.equals(ra.scale(DOUBLES, 2))


def test_a_class_that_exports_something_else_changes_no_other_array(liar):
    Liar.said, Liar.given = DOUBLES.type, SINGLES
    assert ra.sum(liar) == 28.0  # what it gives is what is read
    assert ra.sum(DOUBLES) == 120.0


# --- what a consumer may ask for ---

PAIRS = ra.as_matrix(np.arange(6.0).reshape(3, 2))


def asked(x, to):
    matrix = x if isinstance(x, ra.Matrix) else ra.as_matrix(x)
    got = pa.array(matrix, type=to)
    assert got.type == to
    got.validate(full=True)
    return got.to_pylist()


@pytest.mark.parametrize(
    ("numbers", "to"),
    [
        ([1.5, 300.0], pa.int8()),
        ([1.5], pa.int64()),
        ([float("nan")], pa.int32()),
        ([float("inf")], pa.int32()),
        ([-1.0], pa.uint8()),
        ([300], pa.int8()),
        ([-1], pa.uint64()),
    ],
)
def test_a_requested_type_that_would_lose_a_number_is_an_error(numbers, to):
    for x in (pa.array(numbers), pa.chunked_array([numbers, numbers])):
        matrix = ra.as_matrix(x)
        make = pa.array if hasattr(matrix, "__arrow_c_array__") else pa.chunked_array
        with pytest.raises(ra.RaptorsValueError, match="the requested schema asks for u?int"):
            make(matrix, type=to)


def test_a_requested_type_that_holds_the_numbers_is_given():
    assert asked(pa.array([1.0, None, 3.0]), pa.int8()) == [1, None, 3]
    assert asked(pa.array([0.1], pa.float64()), pa.float32()) == [np.float32(0.1)]
    assert asked(pa.array([1, 2], pa.uint8()), pa.float64()) == [1.0, 2.0]
    rows = [[0, 1], [2, 3], [4, 5]]
    assert asked(PAIRS, pa.list_(pa.int16(), 2)) == rows
    for to in (pa.list_(pa.float32()), pa.large_list(pa.float64())):
        assert asked(PAIRS, to) == rows
    ragless = pa.array([[1.0, 2.0], None, [3.0, 4.0]])
    assert asked(ragless, pa.list_(pa.float32(), 2)) == ragless.to_pylist()
    square = asked(np.arange(8.0).reshape(2, 4), pa.list_(pa.list_(pa.float64(), 2), 2))
    assert square == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    named = pa.list_(pa.field("v", pa.float64(), nullable=False), 2)
    assert asked(PAIRS, named) == rows


def test_a_requested_tensor_is_given_if_it_has_the_size():
    got = pa.chunked_array(PAIRS, type=pa.fixed_shape_tensor(pa.float32(), [1, 2])).chunk(0)
    assert got.to_numpy_ndarray().tolist() == [[[0, 1]], [[2, 3]], [[4, 5]]]
    named = {"ARROW:extension:name": "arrow.fixed_shape_tensor"}
    named["ARROW:extension:metadata"] = '{"shape": [3]}'
    odd = pa.field("", pa.list_(pa.float64(), 2), metadata=named)
    with pytest.raises(ra.RaptorsValueError, match="fixed_shape_tensor: shape .*does not fit"):
        PAIRS.__arrow_c_array__(odd.__arrow_c_schema__())
    back = pa.array(ra.as_matrix(got), type=pa.list_(pa.float32(), 2))
    assert back.to_pylist() == [[0, 1], [2, 3], [4, 5]]


def test_a_requested_schema_of_a_table():
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, None]})
    schema = pa.schema({"a": pa.int8(), "b": pa.int8()})
    got = pa.table(ra.as_matrix(table), schema=schema)
    assert got.schema == schema
    assert got.to_pydict() == {"a": [1, 2], "b": [3, None]}


@pytest.mark.parametrize(
    ("x", "to", "match"),
    [
        (PAIRS, pa.string(), "other numbers and other kinds of lists"),
        (PAIRS, pa.list_(pa.float64(), 3), "of the same shape"),
        (PAIRS, pa.float64(), "of the same shape"),
        (pa.array([1.0]), pa.list_(pa.float64(), 1), "of the same shape"),
        (pa.array([1.0]), pa.decimal128(5), "other numbers"),
        (pa.array([1.0]), pa.dictionary(pa.int8(), pa.float64()), "other numbers"),
        (
            pa.array([[1.0, None]], pa.list_(pa.float64(), 2)),
            pa.list_(pa.field("item", pa.float32(), nullable=False), 2),
            "allows no nulls",
        ),
    ],
)
def test_any_other_requested_type_is_refused(x, to, match):
    with pytest.raises(ra.RaptorsTypeError, match=f"requested schema asks for .*{match}"):
        pa.array(x if isinstance(x, ra.Matrix) else ra.as_matrix(x), type=to)


@pytest.mark.parametrize("schema", [{"a": pa.float32()}, {"x": pa.float32(), "b": pa.float32()}])
def test_a_requested_schema_of_other_columns_is_refused(schema):
    matrix = ra.as_matrix(pa.table({"a": [1.0], "b": [2.0]}))
    with pytest.raises(ra.RaptorsTypeError, match="of the same shape and names"):
        pa.table(matrix, schema=pa.schema(schema))


@pytest.mark.parametrize("requested", [1, "int8", pa.int8(), pa.array([1]).__arrow_c_array__()[1]])
def test_what_is_no_requested_schema_is_an_error_of_ours(requested):
    for export in (PAIRS.__arrow_c_array__, PAIRS.__arrow_c_stream__):
        with pytest.raises(ra.RaptorsError, match="expected a capsule named .* requested_schema"):
            export(requested)


def test_a_malformed_requested_schema_is_refused():
    for spoil, match in malformed.SCHEMA_FAULTS.values():
        node = field("g")
        spoil(node)
        capsule = producer.capsule(node)
        with pytest.raises(ra.RaptorsValueError, match=f"the requested schema has .*({match})"):
            PAIRS.__arrow_c_array__(capsule)
        del capsule
        assert node.released == node.given
    deep = producer.capsule(nested(64).nodes[0])
    with pytest.raises(ra.RaptorsValueError, match="nested more than 32 levels"):
        PAIRS.__arrow_c_stream__(requested_schema=deep)


# --- buffers whose rows lie behind pointers ---


class PyBuffer(ctypes.Structure):
    """``Py_buffer``."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", POINTER(c_ssize_t)),
        ("strides", POINTER(c_ssize_t)),
        ("suboffsets", POINTER(c_ssize_t)),
        ("internal", c_void_p),
    ]


class Slot(ctypes.Structure):
    """``PyType_Slot``."""

    _fields_ = [("slot", c_int), ("function", c_void_p)]


class Spec(ctypes.Structure):
    """``PyType_Spec``."""

    _fields_ = [
        ("name", c_char_p),
        ("basicsize", c_int),
        ("itemsize", c_int),
        ("flags", c_uint),
        ("slots", POINTER(Slot)),
    ]


# What C still points to.
KEPT = []


def rows_behind_pointers(rows, suboffsets):
    """An object with the buffer protocol over rows of float64, each in memory of its own."""
    blocks = [plain.array("d", row) for row in rows]
    pointers = (c_void_p * len(rows))(*(block.buffer_info()[0] for block in blocks))
    shape = (c_ssize_t * 2)(len(rows), len(rows[0]))
    strides = (c_ssize_t * 2)(ctypes.sizeof(c_void_p), 8)
    if suboffsets[0] < 0:  # then the rows must follow each other
        flat = plain.array("d", [number for row in rows for number in row])
        blocks, strides[0] = flat, 8 * len(rows[0])
    suboffsets = (c_ssize_t * 2)(*suboffsets)

    @ctypes.PYFUNCTYPE(c_int, c_void_p, POINTER(PyBuffer), c_int)
    def getbuffer(owner, view, flags):
        ctypes.pythonapi.Py_IncRef(c_void_p(owner))
        is_flat = isinstance(blocks, plain.array)
        start = blocks.buffer_info()[0] if is_flat else ctypes.addressof(pointers)
        size = 8 * shape[0] * shape[1]
        view[0] = PyBuffer(start, owner, size, 8, 1, 2, b"d", shape, strides, suboffsets)
        return 0

    py_bf_getbuffer = 1
    slots = (Slot * 2)(Slot(py_bf_getbuffer, ctypes.cast(getbuffer, c_void_p)), Slot())
    spec = Spec(b"tests.Rows", object.__basicsize__, 0, 0, slots)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [POINTER(Spec)]
    made = make(ctypes.byref(spec))()
    KEPT.append((blocks, pointers, shape, strides, suboffsets, getbuffer, slots, spec))
    return made


def test_buffers_with_suboffsets_are_refused_by_name():
    rows = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    behind = rows_behind_pointers(rows, suboffsets=(0, -1))
    assert memoryview(behind).tolist() == rows
    with pytest.raises(ra.RaptorsTypeError, match=r"sum: .* suboffsets.*tobytes"):
        ra.sum(behind)
    with pytest.raises(ra.RaptorsTypeError, match="add: .* suboffsets"):
        ra.add(np.ones((2, 3)), behind)
    assert ra.sum(rows_behind_pointers(rows, suboffsets=(-1, -1))) == 21.0


# --- interpreters ---

IN_ANOTHER = """
import sys
try:
    import _interpreters as interpreters
    kinds = ["isolated", "legacy"]
    create, run = interpreters.create, interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    kinds = [True, False]
    create = lambda kind: interpreters.create(isolated=kind)
    run = interpreters.run_string
code = '''
try:
    import raptors_arrow
    said = "imported"
except ImportError as error:
    said = str(error)
with open({path!r}, "w") as file:
    file.write(said)
'''
if {main_first}:
    import raptors_arrow
for kind in kinds:
    run(create(kind), code)
    with open({path!r}) as file:
        said = file.read()
    assert "interpreter" in said, said
import raptors_arrow
assert raptors_arrow.sum(memoryview(bytearray(3))) == 0
"""


@pytest.mark.parametrize("main_first", [False, True])
def test_subinterpreters_cannot_import_it(tmp_path, main_first):
    if sys.version_info < (3, 13):
        pytest.importorskip("_xxsubinterpreters")
    else:
        pytest.importorskip("_interpreters")
    # Not str.format: the code that runs in the other interpreter is a literal inside a literal.
    code = IN_ANOTHER.replace("{path!r}", repr(str(tmp_path / "said")))
    code = code.replace("{main_first}", repr(main_first))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=GUARD)
    assert done.returncode == 0, done.stderr.decode()
