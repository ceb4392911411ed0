"""Writes the type stubs of the package: the functions from the registry, the rest from here.

_native.pyi has the functions, _namespaces.pyi the methods that polars' expressions and series have.
``--check`` writes nothing and fails if the file is not what it would write.
"""

import inspect
import sys
from array import array

from written import ROOT, write_or_check

import raptors_arrow as ra

PACKAGE = ROOT / "python" / "raptors_arrow"

HEAD = """\
# Written by scripts/stubs.py from the registry of functions (`make generate`): do not edit.

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, SupportsFloat, SupportsIndex, TypeAlias
from typing import TypedDict, TypeVar, final, overload, type_check_only

from typing_extensions import Buffer, CapsuleType

__all__ = [
{names}
]

@type_check_only
class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...

@type_check_only
class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@type_check_only
class _ArrowScalar(Protocol):
    def as_py(self) -> Any: ...

# NumPy's arrays have a buffer in type stubs from Python 3.12 on only.
@type_check_only
class _NumPyArray(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_Keeps: TypeAlias = _ArrowArray | _ArrowStream | _NumPyArray
_MatrixLike: TypeAlias = _Keeps | Buffer
_NumberLike: TypeAlias = float | SupportsFloat | SupportsIndex | _ArrowScalar
_OperandLike: TypeAlias = _MatrixLike | _NumberLike
# A name, or a type of pyarrow, NumPy or polars, or Python's float or int.
_TypeLike: TypeAlias = Literal[{types}] | Any
# What comes back is what went in: pyarrow, polars, pandas and NumPy objects keep their type. Of a
# plain buffer a Matrix is made.
_X = TypeVar("_X", bound=_Keeps)

__version__: str

@type_check_only
class _BuildInfo(TypedDict):
    version: str
    profile: Literal["debug", "release"]
    target: str
    features: list[str]
    os: str
    arch: str
    cpu: str
    simd: str
    simd_available: list[str]
    backends: list[str]
    cores: int
    num_threads: int
    threads_started: int
    l1_bytes: int
    l2_bytes: int
    llc_bytes: int
    memory_bytes: int
    functions: int

@type_check_only
class _ProfileStatus(TypedDict):
    path: str | None
    state: Literal["off", "absent", "used", "other machine", "ignored"]
    reason: str | None
    measured_at: int | None
    measured: dict[str, float] | None

@final
class Matrix:
    @property
    def rows(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def num_chunks(self) -> int: ...
    @property
    def null_rows(self) -> int: ...
    @property
    def copied(self) -> str | None: ...
    def __len__(self) -> int: ...
    @property
    def __arrow_c_array__(self) -> Callable[..., tuple[CapsuleType, CapsuleType]]: ...
    def __arrow_c_stream__(self, requested_schema: CapsuleType | None = None) -> CapsuleType: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...

@final
class Function:
    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def doc(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def nulls(self) -> str: ...
    @property
    def arguments(self) -> tuple[str, ...]: ...
    @property
    def argument_kinds(
        self,
    ) -> tuple[
        Literal["matrix", "rows", "operand", "row", "number", "vectors", "queries"], ...
    ]: ...
    @property
    def gives(self) -> Literal["reduced", "rows", "numbers", "matrix", "named"]: ...
    @property
    def options(self) -> dict[str, Any]: ...
    @property
    def option_kinds(self) -> dict[str, str | tuple[str, ...]]: ...
    @property
    def axis(self) -> int | None: ...
    @property
    def driver(self) -> str: ...
    def is_row_by_row(self, **options: Any) -> bool: ...
    def result_type(self, *args: Any, **options: Any) -> tuple[str, str, int | None]: ...
    def __call__(self, *args: Any, **options: Any) -> Any: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...

@final
class Explanation:
    @property
    def function(self) -> str: ...
    @property
    def view(self) -> str: ...
    @property
    def copied(self) -> str | None: ...
    @property
    def backend(self) -> Literal["native", "vdsp"]: ...
    @property
    def simd(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def task_bytes(self) -> int: ...
    @property
    def store(self) -> Literal["cached", "streaming"]: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_written(self) -> int: ...
    @property
    def passes(self) -> list[Pass]: ...

@final
class Pass:
    @property
    def what(self) -> str: ...
    @property
    def backend(self) -> Literal["native", "vdsp"]: ...
    @property
    def simd(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def task_bytes(self) -> int: ...
    @property
    def store(self) -> Literal["cached", "streaming"]: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_written(self) -> int: ...

@final
class Accumulator:
    def __new__(cls, function: str, /, **options: Any) -> Accumulator: ...
    @property
    def rows(self) -> int: ...
    def update(self, x: _MatrixLike) -> None: ...
    def merge(self, other: Accumulator) -> None: ...
    def finish(self) -> Any: ...

@final
@type_check_only
class _Members: ...

@final
class _Groups:
    def __new__(cls) -> _Groups: ...
    def __len__(self) -> int: ...
    def assign(self, keys: list[Any]) -> _Members: ...
    def keys(self) -> list[tuple[CapsuleType, CapsuleType]]: ...

@final
class _GroupStatistic:
    def __new__(cls, function: str, /, **options: Any) -> _GroupStatistic: ...
    def update(self, x: _MatrixLike, members: _Members) -> None: ...
    def finish(self, groups: int) -> Matrix: ...

@final
class PoolStats:
    @property
    def held_bytes(self) -> int: ...
    @property
    def held_buffers(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def limit_bytes(self) -> int: ...
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...

def as_matrix(x: _MatrixLike, width: int | None = None) -> Matrix: ...
def call_function(
    name: str, args: Iterable[Any], options: dict[str, Any] | None = None
) -> Any: ...
def list_functions() -> list[str]: ...
def get_function(name: str) -> Function: ...
def explain(name: str, /, *args: Any, **options: Any) -> Explanation: ...
def _polars_call(
    name: str, args: list[Any], options: dict[str, Any], serial: bool
) -> str | None: ...
def build_info() -> _BuildInfo: ...
def get_num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
def pool_stats() -> PoolStats: ...
def release_unused() -> int: ...
def bandwidth(
    kind: Literal["read", "copy"], nbytes: int, threads: int = 1, seconds: float = 0.1
) -> float: ...
def profile_status() -> _ProfileStatus: ...
def _measure(progress: Callable[[int, int, str], object]) -> dict[str, float]: ...
def _model(values: dict[str, float] | None = None) -> dict[str, float]: ...
def _plan(
    bytes_read: int, bytes_written: int, has_vdsp: bool, values: dict[str, float] | None = None
) -> tuple[int, Literal["cached", "streaming"]]: ...
def _write_profile(values: dict[str, float]) -> Path: ...
def _remove_profile() -> tuple[Path, bool]: ...
def _profile_warning() -> str | None: ...
"""

TYPES = ["float16", "float32", "float64"]
TYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ARGUMENTS = {
    "matrix": "_MatrixLike",
    "rows": "_MatrixLike",
    "operand": "_OperandLike",
    "row": "_MatrixLike",
    "number": "_NumberLike",
    "vectors": "_MatrixLike",
    "queries": "_MatrixLike",
}
OPTIONS = {
    "axis": "Literal[0, 1] | None",
    "flag": "bool",
    "count": "int",
    "order": 'float | Literal["inf"]',
    "bound": "_NumberLike | None",
    "type": "_TypeLike",
}


def literal(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def parameters(name: str, x: str, arguments: dict[str, str] = ARGUMENTS) -> str:
    """Give the parameters of a function, the first of the type ``x``; a method's has no ``x``."""
    function = ra.get_function(name)
    kinds = dict(zip(function.arguments, function.argument_kinds, strict=True))
    types = {argument: arguments[kind] for argument, kind in kinds.items()} | {"x": x}
    for option, kind in function.option_kinds.items():
        types[option] = OPTIONS[kind] if isinstance(kind, str) else f"Literal[{literal(kind)}]"
    types["width"] = "int | None"
    parts: list[str] = []
    for parameter in inspect.signature(getattr(ra, name)).parameters.values():
        if x == "self" and parameter.name in ("x", "width"):
            parts += ["self"] if parameter.name == "x" else []
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        part = f"{parameter.name}: {types[parameter.name]}"
        if parameter.default is not parameter.empty:
            optional = parameter.default is None and "None" not in part
            default = repr(parameter.default).replace("'", '"')
            part += f"{' | None' if optional else ''} = {default}"
        parts.append(part)
    return ", ".join(parts)


def numbers(name: str) -> str:
    """Ask a reduction which Python numbers it gives, and whether it gives None."""
    function = ra.get_function(name)
    results = [function(array(code, [1, 2])) for code in "qd"] + [function(array("d"))]
    names = dict.fromkeys("None" if r is None else type(r).__name__ for r in results)
    return " | ".join(names)


def tuple_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def stub(name: str) -> str:
    """Give the stub of one function."""
    function = ra.get_function(name)
    match function.gives:
        case "rows" if "matrix" not in function.argument_kinds[1:]:
            return (
                f"@overload\ndef {name}({parameters(name, '_X')}) -> _X: ...\n"
                f"@overload\ndef {name}({parameters(name, 'Buffer')}) -> Matrix: ...\n"
            )
        case "named":
            result = tuple_name(name)
            return f"def {name}({parameters(name, '_MatrixLike')}) -> {result}: ...\n"
        case "reduced" if "axis" in function.options:
            both = parameters(name, "_MatrixLike")
            whole = both.replace("Literal[0, 1] | None = None", "None = None")
            parts = both.replace("Literal[0, 1] | None = None", "Literal[0, 1]")
            return (
                f"@overload\ndef {name}({whole}) -> {numbers(name)}: ...\n"
                f"@overload\ndef {name}({parts}) -> Any: ...\n"
            )
        case _:
            return f"def {name}({parameters(name, '_MatrixLike')}) -> Any: ...\n"


def named_tuple(name: str) -> str:
    """Give the stub of the results of a function that gives several."""
    fields = getattr(ra, tuple_name(name))._fields
    lines = [f"class {tuple_name(name)}(NamedTuple):", *(f"    {field}: Any" for field in fields)]
    return "\n".join(lines) + "\n\n"


def text() -> str:
    """Give the whole stub."""
    functions = ra.list_functions()
    names = "\n".join(f'    "{name}",' for name in ra._native.__all__)
    head = HEAD.replace("{names}", names).replace("{types}", literal(TYPES))
    tuples = [name for name in functions if ra.get_function(name).gives == "named"]
    return head + "\n" + "".join(map(named_tuple, tuples)) + "".join(map(stub, functions))


NAMESPACES = """\
# Written by scripts/stubs.py from the registry of functions (`make generate`): do not edit.
#
# The types of raptors_arrow.polars; there is no such module to import.

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import polars as pl

from raptors_arrow._native import {tuples}, _MatrixLike, _NumberLike, _TypeLike

_Vectors: TypeAlias = pl.Expr | _MatrixLike | Sequence[float]
_Operand: TypeAlias = _Vectors | _NumberLike

class Expr(pl.Expr):
    @property
    def raptors(self) -> ExprNamespace: ...

class ExprNamespace:
    _expr: pl.Expr
    def __init__(self, expr: pl.Expr) -> None: ...
{of_expressions}
class SeriesNamespace:
    _series: pl.Series
    def __init__(self, series: pl.Series) -> None: ...
{of_series}"""

METHOD_ARGUMENTS = {
    "matrix": "_Vectors",
    "operand": "_Operand",
    "row": "_Vectors",
    "number": "_NumberLike",
    "vectors": "_Vectors",
    "queries": "_Vectors",
    "rows": "_Vectors",
}


def method(name: str, result: str) -> str:
    """Give the stub of a method of a namespace."""
    return f"    def {name}({parameters(name, 'self', METHOD_ARGUMENTS)}) -> {result}: ...\n"


def of_series(name: str) -> str:
    """Give the stub of a method of series."""
    function = ra.get_function(name)
    if function.gives == "named":
        return method(name, tuple_name(name))
    if function.gives != "reduced" or "axis" not in function.options:
        return method(name, "pl.Series")
    axis = "Literal[0, 1] | None = None"
    whole = method(name, numbers(name)).replace(axis, "None = None")
    parts = method(name, "pl.Series").replace(axis, "Literal[0, 1]")
    return f"    @overload\n{whole}    @overload\n{parts}"


def namespaces() -> str:
    """Give the stub of the namespaces."""
    gives = {name: ra.get_function(name).gives for name in ra.list_functions()}
    tuples = [tuple_name(name) for name, one in gives.items() if one == "named"]
    columns = [name for name, one in gives.items() if one in ("reduced", "rows", "numbers")]
    return NAMESPACES.format(
        tuples=", ".join(tuples),
        of_expressions="".join(method(name, "pl.Expr") for name in columns),
        of_series="".join(map(of_series, gives)),
    )


if __name__ == "__main__":
    stubs = {PACKAGE / "_native.pyi": text(), PACKAGE / "_namespaces.pyi": namespaces()}
    sys.exit(write_or_check(stubs))
