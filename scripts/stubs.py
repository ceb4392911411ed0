"""Writes python/raptors_arrow/_native.pyi: the functions from the registry, the rest from here.

``--check`` writes nothing and fails if the file is not what it would write.
"""

import inspect
import sys
from pathlib import Path

import raptors_arrow as ra

STUB = Path(__file__).resolve().parent.parent / "python" / "raptors_arrow" / "_native.pyi"

HEAD = """\
# Written by scripts/stubs.py from the registry of functions (`make stubs`): do not edit.

from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar
from typing import final, overload, type_check_only

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

_MatrixLike: TypeAlias = _ArrowArray | _ArrowStream | Buffer
_OperandLike: TypeAlias = _MatrixLike | float | Any
# What comes back is what went in: pyarrow, polars and NumPy objects keep their type.
_X = TypeVar("_X", bound=_MatrixLike)

__version__: str

@type_check_only
class _BuildInfo(TypedDict):
    version: str
    profile: Literal["debug", "release"]
    os: str
    arch: str
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
    ) -> tuple[Literal["matrix", "operand", "row", "number"], ...]: ...
    @property
    def options(self) -> dict[str, Any]: ...
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
def build_info() -> _BuildInfo: ...
def get_num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
def pool_stats() -> PoolStats: ...
def release_unused() -> int: ...
"""

ARGUMENTS = {
    "matrix": "_X",
    "operand": "_OperandLike",
    "row": "_MatrixLike",
    "number": "float | Any",
}
OPTIONS = {bool: "bool", int: "int", float: "float", str: "str", type(None): "Literal[0, 1] | None"}


def parameters(name: str, **types: str) -> str:
    """Give the parameters of a function; ``types`` replace types, and drop their defaults."""
    function = ra.get_function(name)
    kinds = dict(zip(function.arguments, function.argument_kinds, strict=True))
    parts: list[str] = []
    starred = False
    for parameter in inspect.signature(getattr(ra, name)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if parameter.name in kinds:
            parts.append(f"{parameter.name}: {ARGUMENTS[kinds[parameter.name]]}")
        elif parameter.name in types:
            parts.append(f"{parameter.name}: {types[parameter.name]}")
        elif parameter.name == "width":
            parts.append("width: int | None = None")
        else:
            default = parameter.default
            parts.append(f"{parameter.name}: {OPTIONS[type(default)]} = {default!r}")
    return ", ".join(parts)


def stub(name: str) -> str:
    """Give the stub of one function."""
    function = ra.get_function(name)
    if function.family != "reductions":
        return f"def {name}({parameters(name)}) -> _X: ...\n"
    matrix = parameters(name).replace("x: _X", "x: _MatrixLike")
    if "axis" not in function.options:
        return f"def {name}({matrix}) -> Any: ...\n"
    whole = matrix.replace("Literal[0, 1] | None = None", "None = None")
    parts = matrix.replace("Literal[0, 1] | None = None", "Literal[0, 1]")
    return (
        f"@overload\ndef {name}({whole}) -> float | None: ...\n"
        f"@overload\ndef {name}({parts}) -> Any: ...\n"
    )


def text() -> str:
    """Give the whole stub."""
    functions = ra.list_functions()
    names = [*ra._native.__all__]
    head = HEAD.replace("{names}", "\n".join(f'    "{name}",' for name in names))
    return head + "\n" + "".join(stub(name) for name in functions)


def main() -> int:
    """Write the stub, or check it."""
    if "--check" not in sys.argv[1:]:
        STUB.write_text(text())
        return 0
    if STUB.read_text() != text():
        print(f"{STUB.name} is stale: run `make stubs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
