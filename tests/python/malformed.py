"""Cases of malformed Arrow C data, each a producer and the error that it must end in.

Run as a program with the number of the first case, it tries one after the other and prints a line
of JSON for each: a case that crashes is then the one after the last line (test_malformed.py).
"""

import gc
import json
import os
import struct
import sys
import tempfile
import threading
from functools import partial

import producer
from producer import Arrays, Stream, array, field, metadata, pointers, text

VALUE, TYPE, OVERFLOW = "RaptorsValueError", "RaptorsTypeError", "RaptorsOverflowError"
HUGE = 1 << 62


def doubles(*values):
    return struct.pack(f"={len(values)}d", *values)


def numbers(length=6, **options):
    return array(length, [None, doubles(*range(length))], **options)


def offsets(*values, size="i"):
    return struct.pack(f"={len(values)}{size}", *values)


# Three rows of two float64 each, in every form that is taken.
KINDS = {
    "numbers": lambda: (field("g"), numbers()),
    "fixed lists": lambda: (field("+w:2", field("g")), array(3, [None], numbers())),
    "nested fixed lists": lambda: (
        field("+w:1", field("+w:2", field("g"))),
        array(3, [None], array(3, [None], numbers())),
    ),
    "lists": lambda: (
        field("+l", field("g")),
        array(3, [None, offsets(0, 2, 4, 6)], numbers()),
    ),
    "large lists": lambda: (
        field("+L", field("g")),
        array(3, [None, offsets(0, 2, 4, 6, size="q")], numbers()),
    ),
    "struct": lambda: (
        field("+s", field("g", name="a"), field("g", name="b")),
        array(3, [None], numbers(3), numbers(3)),
    ),
}


def leaf(node):
    while node.children:
        node = node.children[0]
    return node


def setting(**changes):
    """A fault that changes fields of a structure."""

    def spoil(node):
        for name, value in changes.items():
            setattr(node.c, name, value)

    return spoil


def pointing(change):
    """A fault that changes the pointers to the children."""
    return lambda node: node.point([change(child.address) for child in node.children])


def with_extra_child(node):
    child = producer.Node(type(node.c)())
    node.children.append(child)
    node.c.n_children += 1
    node.point([child.address for child in node.children])


def without_values(node):
    node.c.buffers = pointers([None, None])


LATIN = b"caf\xe9"
BAD_KEY, BAD_VALUE = metadata((LATIN, b"v")), metadata((b"k", LATIN))
MANY = metadata((b"k", b"v"), count=2**31 - 1)
NEGATIVE_LENGTH = metadata(((-1, b"k"), b"v"))

# What can be wrong with any schema: the fault, and what the error says.
SCHEMA_FAULTS = {
    "no format": (setting(format=None), "schema without a format"),
    "format not UTF-8": (setting(format=text(LATIN)), "whose format is not UTF-8"),
    "unknown format": (setting(format=text("?")), 'format "\\?", which is no Arrow type'),
    "empty format": (setting(format=text("")), 'format "", which is no Arrow type'),
    "name not UTF-8": (setting(name=text(LATIN)), "whose name is not UTF-8"),
    "metadata key not UTF-8": (setting(metadata=BAD_KEY), "key that is not UTF-8"),
    "metadata value not UTF-8": (setting(metadata=BAD_VALUE), "value that is not UTF-8"),
    "metadata count negative": (setting(metadata=metadata(count=-1)), "-1 entries"),
    "metadata count huge": (setting(metadata=MANY), "2147483647 entries"),
    "metadata length negative": (setting(metadata=NEGATIVE_LENGTH), "key of -1 bytes"),
    "children negative": (setting(n_children=-1), "schema with -1 children"),
    "released": (setting(release=None), "schema that was released"),
}
# What can be wrong with a schema that has children.
PARENT_SCHEMA_FAULTS = {
    "no pointers to children": (setting(children=None), "without the . children that it counts"),
    "null child": (pointing(lambda child: None), "without the child 0 that it counts"),
    "odd child": (pointing(lambda child: child + 1), "without the child 0 that it counts"),
}
# What can be wrong with any array. A child is named before what is wrong with it.
ARRAY_FAULTS = {
    "length negative": (setting(length=-1), "has length -1"),
    "length minimal": (setting(length=-(2**63)), "has length -9223372036854775808"),
    "offset negative": (setting(offset=-1), "has offset -1"),
    "length and offset overflow": (
        setting(length=2**63 - 1, offset=2**63 - 1),
        "overflow|no memory|are needed",
    ),
    "null count below -1": (setting(null_count=-2), "null count -2"),
    "null count above the length": (setting(null_count=100), "null count 100"),
    "nulls without validity": (setting(null_count=1), "1 nulls but no validity"),
    "no buffers": (setting(n_buffers=0), "0 buffers"),
    "buffers negative": (setting(n_buffers=-1), "buffer count -1"),
    "too many buffers": (setting(n_buffers=9), "9 buffers"),
    "no pointers to buffers": (setting(buffers=None), "no buffers or children"),
    "children negative": (setting(n_children=-1), "child count -1"),
    "too many children": (setting(n_children=9), "9 children"),
    "a dictionary": (setting(dictionary=8), "a dictionary, which .* has not"),
    "released": (setting(release=None), "used already|that was released"),
}
PARENT_ARRAY_FAULTS = {
    "children missing": (setting(n_children=0), "0 children"),
    "no pointers to children": (setting(children=None), "no buffers or children"),
    "null child": (pointing(lambda child: None), "no child 0"),
    "odd child": (pointing(lambda child: child + 4), "no child 0"),
}
NUMBER_FAULTS = {
    "no values": (without_values, "elements but no buffer"),
    "length past memory": (setting(length=HUGE), "no memory can hold"),
    "offset past memory": (setting(offset=2**63 - 7), "no memory can hold"),
    "bytes overflow": (setting(offset=(1 << 61) - 4), "no memory can hold"),
    "an extra child": (with_extra_child, "2 buffers and 1 children"),
}


def spoilt(kind, which, at, spoil):
    """A producer of one of the kinds, with a fault in its schema or array."""

    def make():
        nodes = KINDS[kind]()
        spoil(at(nodes[which]))
        return Arrays(*nodes)

    return make


def generic_cases():
    for kind, make in KINDS.items():
        is_parent = bool(make()[0].children)
        places = {"": lambda node: node} | ({" (child)": leaf} if is_parent else {})
        for place, at in places.items():
            faults = dict(SCHEMA_FAULTS)
            if is_parent and not place:
                faults |= PARENT_SCHEMA_FAULTS
                if kind != "struct":
                    faults["children missing"] = (setting(n_children=0), "0 children")
                    faults["an extra child"] = (with_extra_child, "2 children, where")
            else:
                faults["an extra child"] = (with_extra_child, "1 children, where that has 0")
            for fault, (spoil, match) in faults.items():
                yield f"{kind}{place}, schema: {fault}", spoilt(kind, 0, at, spoil), VALUE, match
            faults = dict(ARRAY_FAULTS)
            faults |= PARENT_ARRAY_FAULTS if is_parent and not place else NUMBER_FAULTS
            for fault, (spoil, match) in faults.items():
                match = f"in child 0 .*({match})" if place and fault != "released" else match
                yield f"{kind}{place}, array: {fault}", spoilt(kind, 1, at, spoil), VALUE, match


def lists(*values, format="+l", length=None, offset=0, null_count=0, validity=None, elements=6):
    size = "i" if format == "+l" else "q"
    buffers = [validity, offsets(*values, size=size)]
    length = len(values) - 1 - offset if length is None else length
    return lambda: Arrays(
        field(format, field("g")),
        array(length, buffers, numbers(elements), offset=offset, null_count=null_count),
    )


def short_child(kind, by=1):
    def make():
        schema, data = KINDS[kind]()
        leaf(data).c.length -= by
        return Arrays(schema, data)

    return make


def lists_of(size):
    return Arrays(field(f"+w:{size}", field("g")), array(3, [None], numbers()))


def overflowing_lists(format, rows=HUGE, offset=0):
    return lambda: Arrays(field(format, field("g")), array(rows, [None], numbers(), offset=offset))


def layout_cases():
    """Lengths, sizes and offsets that do not fit each other."""
    for kind in ("fixed lists", "nested fixed lists", "lists", "large lists", "struct"):
        yield f"{kind}: short child", short_child(kind), VALUE, "elements where .* need"
    for size in ("-1", "", "x", "2147483648", "99999999999999999999", " 2", "2.0"):
        yield f"fixed lists of {size!r}", partial(lists_of, size), VALUE, "fixed-size lists of"
    product = overflowing_lists("+w:2147483647")
    yield "fixed lists: product overflows", product, VALUE, "elements overflow"
    product = overflowing_lists("+w:4", rows=3, offset=HUGE)
    yield "fixed lists: offset overflows", product, VALUE, "elements overflow|are needed"
    yield (
        "nested fixed lists: width overflows",
        lambda: Arrays(
            field("+w:2147483647", field("+w:2147483647", field("+w:2147483647", field("g")))),
            array(0, [None], array(0, [None], array(0, [None], numbers(0)))),
        ),
        OVERFLOW,
        "more than the address space",
    )
    for format in ("+l", "+L"):
        name = {"+l": "lists", "+L": "large lists"}[format]
        far = lists(0, 2, 4, 6, format=format, length=3, offset=2**63 - 4)
        yield f"{name}: offset far past memory", far, VALUE, "no memory can hold"
        far = lists(0, 2, 4, 6, format=format, length=3, offset=(1 << 62) - 4)
        yield f"{name}: offset of 2**62", far, VALUE, "no memory can hold"
        for down in ((0, 4, 2, 6), (4, 2, 0, 6), (0, 2, 6, 4), (6, 4, 2, 0)):
            yield f"{name}: {down}", lists(*down, format=format), VALUE, "go down in row"
        null = lists(0, 4, 2, 6, format=format, null_count=1, validity=b"\x05")
        yield f"{name}: down under a null", null, VALUE, "go down in row 1, from 4 to 2"
        negative = lists(-2, 0, 2, 4, format=format)
        yield f"{name}: negative offset", negative, VALUE, "offset -2 in row 0"
        yield f"{name}: past the child", lists(0, 2, 4, 8, format=format), VALUE, "needs 8"
        past = lists(0, 2**30, 2**31 - 2, 2**31 - 1, format=format)
        yield f"{name}: far past the child", past, VALUE, "needs 2147483647"
        empty = lists(0, 2, 4, 6, format=format, elements=0)
        yield f"{name}: no elements", empty, VALUE, "has 0 elements where"
        tail = lists(0, 2, 4, 99, format=format, offset=2)
        yield f"{name}: past the child in a slice", tail, VALUE, "needs 99"
    long = [*range(10_000), 9_998, *range(10_000, 20_000)]
    deep = lists(*long, elements=20_000)
    yield "lists: down after many rows", deep, VALUE, "down in row 9999, from 9999 to 9998"


def words():
    return array(2, [None, offsets(0, 1, 2), b"ab"])


def refused_cases():
    """Types that are well made, and no matrix."""
    plain = {
        "null": lambda: Arrays(field("n"), array(2, [])),
        "text": lambda: Arrays(field("u"), words()),
        "binary": lambda: Arrays(field("z"), words()),
        "text views": lambda: Arrays(field("vu"), array(1, [None, bytes(16), bytes(8)])),
        "binary views": lambda: Arrays(field("vz"), array(1, [None, bytes(16), bytes(8)])),
        "fixed binary": lambda: Arrays(field("w:4"), array(2, [None, bytes(8)])),
        "decimals": lambda: Arrays(field("d:5,2"), array(1, [None, bytes(16)])),
        "dates": lambda: Arrays(field("tdD"), array(2, [None, bytes(8)])),
        "timestamps": lambda: Arrays(field("tsu:UTC"), array(2, [None, bytes(16)])),
        "dictionary": lambda: Arrays(
            field("c", dictionary=field("g")), array(2, [None, b"\0\1"], dictionary=numbers())
        ),
        "dictionary of lists": lambda: Arrays(
            field("+w:2", field("c", dictionary=field("g"))),
            array(1, [None], array(2, [None, b"\0\1"], dictionary=numbers())),
        ),
        "dense union": lambda: Arrays(
            field("+ud:0", field("g", name="a")), array(2, [b"\0\0", offsets(0, 1)], numbers())
        ),
        "sparse union": lambda: Arrays(
            field("+us:0", field("g", name="a")), array(2, [b"\0\0"], numbers())
        ),
        "run-end encoded": lambda: Arrays(
            field("+r", field("i", name="run_ends"), field("g", name="values")),
            array(6, [], array(1, [None, offsets(6)]), numbers(1)),
        ),
        "map": lambda: Arrays(
            field("+m", field("+s", field("g", name="key"), field("g", name="value"))),
            array(1, [None, offsets(0, 1)], array(1, [None], numbers(1), numbers(1))),
        ),
        "list views of text": lambda: Arrays(
            field("+vl", field("u")), array(1, [None, offsets(0), offsets(2)], words())
        ),
        "lists of lists of lists": lambda: Arrays(
            field("+l", field("+l", field("+l", field("g")))),
            array(
                1,
                [None, offsets(0, 1)],
                array(1, [None, offsets(0, 1)], array(1, [None, offsets(0, 2)], numbers())),
            ),
        ),
        "fixed lists of lists": lambda: Arrays(
            field("+w:1", field("+L", field("g"))),
            array(1, [None], array(1, [None, offsets(0, 2, size="q")], numbers())),
        ),
        "fixed lists of structs": lambda: Arrays(
            field("+w:1", field("+s", field("g", name="a"))),
            array(1, [None], array(1, [None], numbers())),
        ),
    }
    for name, make in plain.items():
        yield f"type: {name}", make, TYPE, "expected numbers"
    yield "type: struct with text", with_text, TYPE, r"of numbers, got string \(b\)"
    wrong = {"d:x,2": "cannot be read", "+ud:0,1": "cannot be read", "+us:-1": "cannot be read"}
    for format, match in wrong.items():
        yield f"type: {format}", partial(of_format, format), VALUE, match


def with_text():
    """A struct of numbers and words."""
    return Arrays(
        field("+s", field("g", name="a"), field("u", name="b")),
        array(2, [None], numbers(2), words()),
    )


def of_format(format):
    children = [field("g", name="a")] if format.startswith("+u") else []
    return Arrays(field(format, *children), array(0, []))


def nested(depth, format="+w:1", leaf_format="g"):
    """A type of so many levels, and an array of it."""
    schema, data = field(leaf_format), numbers(1)
    for _ in range(depth - 1):
        schema = field(format, schema)
        buffers = [None] if format != "+l" else [None, offsets(0, 1)]
        data = array(1, buffers, data)
    return Arrays(schema, data)


def bomb():
    """Structs that share one child between two fields: 2 ** 31 fields in a few structures."""
    schema, data = field("g", name="x"), numbers(1)
    for _ in range(30):
        schema = field("+s", schema, schema, name="x")
        data = array(1, [None], data, data)
    return Arrays(schema, data)


def cycle():
    schema, data = field("+w:1", field("g")), array(1, [None], numbers(1))
    schema.point([schema.address])
    data.point([data.address])
    return Arrays(schema, data)


class OnASmallStack:
    """Data for a call on a thread with a small stack."""

    def __init__(self, make, size=256 << 10):
        self.make, self.size = make, size

    def __call__(self):
        return self

    def run(self, call):
        raised = []

        def body():
            try:
                call(self.make())
            except Exception as error:
                raised.append(error)

        before = threading.stack_size(self.size)
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        threading.stack_size(before)
        raise raised.pop()


def of_pyarrow(depth):
    import pyarrow as pa

    deep = pa.float64()
    for _ in range(depth):
        deep = pa.list_(deep)
    # pyarrow takes half a minute to make an array of 9,000 levels; of a column without chunks it
    # makes none.
    return pa.array([], deep) if depth < 1_000 else pa.chunked_array([], deep)


def deep_cases():
    for depth in (33, 64, 65, 300, 10_000):
        for format in ("+w:1", "+l", "+s"):
            make = partial(nested, depth, format)
            yield f"depth {depth} of {format}", make, VALUE, "nested more than 32 levels"
    chain = partial(nested_dictionaries, 40)
    yield "depth 40 of dictionaries", chain, VALUE, "nested more than 32 levels"
    yield "a bomb of shared children", bomb, VALUE, "more than 1048576 fields"
    yield "a type that contains itself", cycle, VALUE, "nested more than 32 levels"
    for depth in (33, 300, 9_000):
        make = partial(of_pyarrow, depth)
        yield f"pyarrow, depth {depth}", make, VALUE, "nested more than 32 levels"
    make = OnASmallStack(partial(of_pyarrow, 300))
    yield "pyarrow, depth 300, small stack", make, VALUE, "nested more than 32 levels"


def nested_dictionaries(depth):
    schema = field("c")
    for _ in range(depth):
        schema = field("c", dictionary=schema)
    return Arrays(schema, array(0, [None, None]))


def batch(**changes):
    node = array(3, [None], numbers(3), numbers(3))
    setting(**changes)(node)
    return node


def two_columns():
    return field("+s", field("g", name="a"), field("g", name="b"))


def stream(*batches, schema=two_columns, changes=None, **options):
    def make():
        made = [b() if callable(b) else b for b in batches]
        source = Stream(schema(), made, **options)
        setting(**(changes or {}))(source.stream)
        return source

    return make


def stream_cases():
    good = [batch, batch, batch]
    for k in range(3):
        failing = stream(*good[:k], 5, error=b"disk on fire")
        yield f"stream fails at batch {k}", failing, VALUE, "code 5: disk on fire"
        silent = stream(*good[:k], 5, error=None)
        yield f"stream fails at batch {k} without a word", silent, VALUE, "gave no reason"
        mute = stream(*good[:k], 22, changes={"get_last_error": None})
        yield f"stream fails at batch {k} and cannot speak", mute, VALUE, "gave no reason"
        latin = stream(*good[:k], 22, error=LATIN)
        yield f"stream fails at batch {k} in Latin-1", latin, VALUE, "code 22: caf"
        filled = stream(*good[:k], lambda: (5, batch()), error=b"late")
        yield f"stream fails at batch {k} with an array", filled, VALUE, "code 5: late"
        bad = stream(*good[:k], lambda: batch(length=-1), batch)
        yield f"stream with a malformed batch {k}", bad, VALUE, "length -1"
        other = stream(*good[:k], lambda: array(3, [None, doubles(1, 2, 3)]), batch)
        yield f"stream that changes its type at batch {k}", other, VALUE, "2 buffers and 0 child"
        narrow = stream(*good[:k], lambda: array(3, [None], numbers(3)), batch)
        yield f"stream that loses a column at batch {k}", narrow, VALUE, "1 buffers and 1 child"
    yield "stream without a schema", stream(schema_code=5), VALUE, "code 5: no more"
    mute = stream(schema_code=5, error=None)
    yield "stream without a schema or a word", mute, VALUE, "gave no reason"
    for name, (spoil, match) in SCHEMA_FAULTS.items():

        def spoilt_schema(spoil=spoil):
            node = two_columns()
            spoil(node)
            return node

        yield f"stream, schema: {name}", stream(batch, schema=spoilt_schema), VALUE, match
    for name in ("get_schema", "get_next"):
        mute = stream(batch, changes={name: None})
        yield f"stream without {name}", mute, VALUE, "without its callbacks"
    used = stream(batch, changes={"release": None})
    yield "stream that was used", used, VALUE, "used already"
    text_batches = stream(lambda: array(0, []), schema=lambda: field("u"))
    yield "stream of text", text_batches, TYPE, "expected numbers"
    down = stream(
        lambda: lists(0, 2, 4)().nodes[1],
        lambda: lists(0, 4, 2, 6)().nodes[1],
        schema=lambda: field("+l", field("g")),
    )
    yield "stream with offsets that go down", down, VALUE, "go down in row 1"


class Odd(Arrays):
    """Structures at odd addresses."""

    def __arrow_c_array__(self, requested_schema=None):
        return tuple(producer.odd_capsule(node) for node in self.nodes)


CASES = [
    *generic_cases(),
    *layout_cases(),
    *refused_cases(),
    *deep_cases(),
    *stream_cases(),
    ("odd addresses", lambda: Odd(*KINDS["fixed lists"]()), VALUE, "expected a capsule"),
]


def outcome(ra, make):
    """What a call ends in: the exception, what was printed, and the structures by releases."""
    producer.Node.all.clear()
    result = {"error": [], "message": "", "wrong": []}
    with tempfile.TemporaryFile() as printed:
        stderr = os.dup(2)
        os.dup2(printed.fileno(), 2)
        try:
            data = make()
            data.run(ra.sum) if isinstance(data, OnASmallStack) else ra.sum(data)
        except BaseException as error:
            result["error"] = [cls.__name__ for cls in type(error).__mro__]
            result["message"] = str(error)
        data = None
        gc.collect()
        os.dup2(stderr, 2)
        os.close(stderr)
        printed.seek(0)
        result["printed"] = printed.read().decode(errors="replace")
    for node in producer.Node.all.values():
        if node.released != node.given:
            result["wrong"].append(f"{type(node.c).__name__} was released {node.released} times")
    result["structures"] = len(producer.Node.all)
    return result


def main(first):
    import raptors_arrow as ra

    for name, make, *_ in CASES[first:]:
        print(json.dumps({"name": name, **outcome(ra, make)}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
