"""A producer of Arrow C data made by hand, so that a test can put any fault into it.

The structures of the C Data Interface are filled through ctypes, handed over in real capsules, and
count how often their release callback is called. Nothing is checked here: a fault is an assignment
to a field of the structure, ``node.c.length = -1``.
"""

import ctypes
import itertools
import struct
from ctypes import c_char_p, c_int, c_int64, c_void_p
from typing import ClassVar


class ArrowSchema(ctypes.Structure):
    """``struct ArrowSchema``, with all pointers as plain addresses."""

    _fields_ = [
        ("format", c_void_p),
        ("name", c_void_p),
        ("metadata", c_void_p),
        ("flags", c_int64),
        ("n_children", c_int64),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]


class ArrowArray(ctypes.Structure):
    """``struct ArrowArray``, with all pointers as plain addresses."""

    _fields_ = [
        ("length", c_int64),
        ("null_count", c_int64),
        ("offset", c_int64),
        ("n_buffers", c_int64),
        ("n_children", c_int64),
        ("buffers", c_void_p),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]


class ArrowArrayStream(ctypes.Structure):
    """``struct ArrowArrayStream``, with all pointers as plain addresses."""

    _fields_ = [
        ("get_schema", c_void_p),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]


def text(value):
    """A C string that stays where it is; None is a null pointer."""
    if value is None:
        return None
    return kept(ctypes.create_string_buffer(value.encode() if isinstance(value, str) else value))


def pointers(addresses):
    """A C array of pointers."""
    return kept((c_void_p * len(addresses))(*addresses))


def metadata(*pairs, count=None):
    """Key and value metadata as the interface writes it; a text may bring its own length."""
    out = struct.pack("=i", len(pairs) if count is None else count)
    for item in itertools.chain.from_iterable(pairs):
        length, item = item if isinstance(item, tuple) else (len(item), item)
        out += struct.pack("=i", length) + item
    return kept(ctypes.create_string_buffer(out, len(out)))


def kept(buffer):
    """The address of a ctypes object, which is kept for ever."""
    _kept.append(buffer)
    return ctypes.addressof(buffer)


_kept = []


def _releaser(kind):
    @ctypes.CFUNCTYPE(None, c_void_p)
    def release(address):
        # It may have been moved, so it is known by its private data.
        moved = kind.from_address(address)
        moved.release = None
        Node.all[moved.private_data].release()

    return release


_RELEASERS = {kind: _releaser(kind) for kind in (ArrowSchema, ArrowArray, ArrowArrayStream)}


class Node:
    """A structure, its children, and how often it was released."""

    #: All that were made, by their private data.
    all: ClassVar = {}

    def __init__(self, c, children=(), dictionary=None):
        self.c, self.children, self.dictionary = c, list(children), dictionary
        self.given, self.released = False, 0
        if not isinstance(c, ArrowArrayStream):
            c.n_children = len(self.children)
            self.point([child.address for child in self.children])
            c.dictionary = dictionary.address if dictionary else None
        c.private_data = len(Node.all) + 1
        Node.all[c.private_data] = self
        c.release = ctypes.cast(_RELEASERS[type(c)], c_void_p).value

    @property
    def address(self):
        return ctypes.addressof(self.c)

    def point(self, addresses):
        """Sets the pointers to the children."""
        self.c.children = pointers(addresses) if addresses else None

    def parts(self):
        """Itself and all that it owns."""
        found, pending = {}, [self]
        while pending:
            node = pending.pop()
            if node not in found:
                found[node] = True
                pending += node.children
                pending += [node.dictionary] if node.dictionary else []
        return list(found)

    def give(self):
        """Says that the consumer has it now, and what it owns; unless it was released before."""
        if self.c.release:
            for node in self.parts():
                node.given = node.c.release is not None

    def release(self):
        """Releases it and what it owns, if that was not released before."""
        self.released += 1
        for node in self.parts()[1:]:
            if node.c.release:
                node.c.release = None
                node.released += 1


def field(format, *children, name="", meta=None, dictionary=None):
    """An ArrowSchema."""
    c = ArrowSchema(format=text(format), name=text(name), metadata=meta, flags=2)
    return Node(c, children, dictionary)


def array(length, buffers, *children, offset=0, null_count=0, dictionary=None):
    """An ArrowArray; its buffers are bytes, addresses or None."""
    addresses = [
        kept(ctypes.create_string_buffer(b, len(b))) if isinstance(b, bytes) else b for b in buffers
    ]
    c = ArrowArray(length=length, null_count=null_count, offset=offset, n_buffers=len(buffers))
    c.buffers = pointers(addresses)
    return Node(c, children, dictionary)


def _python(name, returns, *takes):
    # Not ctypes.pythonapi.name, whose types are shared with whoever sets them next.
    return ctypes.PYFUNCTYPE(returns, *takes)((name, ctypes.pythonapi))


_capsule_new = _python("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)
# Of a capsule that dies only its address can be used.
_capsule_name = _python("PyCapsule_GetName", c_char_p, c_void_p)
_capsule_pointer = _python("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)

_KINDS = {
    b"arrow_schema": ArrowSchema,
    b"arrow_array": ArrowArray,
    b"arrow_array_stream": ArrowArrayStream,
}


@ctypes.PYFUNCTYPE(None, c_void_p)
def _capsule_freed(capsule):
    name = _capsule_name(capsule)
    left = _KINDS[name].from_address(_capsule_pointer(capsule, name))
    if left.release:
        ctypes.CFUNCTYPE(None, c_void_p)(left.release)(ctypes.addressof(left))


def capsule(node):
    """A capsule that owns a structure, as the PyCapsule interface says."""
    node.give()
    return _capsule_new(node.address, _name(node), ctypes.cast(_capsule_freed, c_void_p))


def odd_capsule(node):
    """A capsule that points to a structure at an odd address, and does not own it."""
    copy = kept(ctypes.create_string_buffer(b"?" + bytes(node.c)))
    return _capsule_new(copy + 1, _name(node), None)


def _name(node):
    return next(name for name, kind in _KINDS.items() if isinstance(node.c, kind))


class Arrays:
    """Has ``__arrow_c_array__``."""

    def __init__(self, schema, array):
        self.nodes = [schema, array]

    def __arrow_c_array__(self, requested_schema=None):
        return tuple(capsule(node) for node in self.nodes)


class Stream:
    """Has ``__arrow_c_stream__``: batches, then the end or a failure.

    A batch may be an error code, or a code and an array that is filled in all the same.
    """

    def __init__(self, schema, batches, *, error=b"no more", schema_code=0):
        self.schema, self.batches, self.error = schema, list(batches), text(error)
        self.schema_code = schema_code
        self.calls = [
            ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(self.get_schema),
            ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(self.get_next),
            ctypes.CFUNCTYPE(c_void_p, c_void_p)(lambda stream: self.error),
        ]
        self.stream = Node(ArrowArrayStream(*(ctypes.cast(call, c_void_p) for call in self.calls)))
        given = [batch[1] if isinstance(batch, tuple) else batch for batch in self.batches]
        self.nodes = [self.stream, schema, *(node for node in given if isinstance(node, Node))]

    def get_schema(self, _stream, out):
        if not self.schema_code:
            move(self.schema, out)
        return self.schema_code

    def get_next(self, _stream, out):
        batch = self.batches.pop(0) if self.batches else None
        code, batch = batch if isinstance(batch, tuple) else (0, batch)
        if isinstance(batch, int):
            return batch
        if batch is None:
            ctypes.memset(out, 0, ctypes.sizeof(ArrowArray))
        else:
            move(batch, out)
        return code

    def __arrow_c_stream__(self, requested_schema=None):
        return capsule(self.stream)


def move(node, out):
    """Moves a structure to where the consumer wants it."""
    node.give()
    ctypes.memmove(out, node.address, ctypes.sizeof(node.c))
    node.c.release = None
