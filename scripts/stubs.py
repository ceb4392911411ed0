"""Writes python/raptors_arrow/_native.pyi: the functions from the registry, the rest from here.

``--check`` writes nothing and fails if the file is not what it would write.
"""

import inspect
import sys
from array import array
from pathlib import Path

import raptors_arrow as ra

STUB = Path(__file__).resolve().parent.parent / "python" / "raptors_arrow" / "_native.pyi"

HEAD = """\
# Written by scripts/stubs.py from the registry of functions (`make stubs`): do not edit.

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

_MatrixLike: TypeAlias = _ArrowArray | _ArrowStream | Buffer
_NumberLike: TypeAlias = float | SupportsFloat | SupportsIndex | _ArrowScalar
_OperandLike: TypeAlias = _MatrixLike | _NumberLike
# A name, or a type of pyarrow, NumPy or polars, or Python's float or int.
_TypeLike: TypeAlias = Literal[{types}] | Any
# What comes back is what went in: pyarrow, polars and NumPy objects keep their type.
_X = TypeVar("_X", bound=_MatrixLike)

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
    ) -> tuple[Literal["matrix", "operand", "row", "number", "vectors", "queries"], ...]: ...
    @property
    def gives(self) -> Literal["reduced", "rows", "numbers", "matrix", "named"]: ...
    @property
    def options(self) -> dict[str, Any]: ...
    @property
    def option_kinds(self) -> dict[str, str | tuple[str, ...]]: ...
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


def parameters(name: str, x: str) -> str:
    """Give the parameters of a function, the first of the type ``x``."""
    function = ra.get_function(name)
    kinds = dict(zip(function.arguments, function.argument_kinds, strict=True))
    types = {argument: ARGUMENTS[kind] for argument, kind in kinds.items()} | {"x": x}
    for option, kind in function.option_kinds.items():
        types[option] = OPTIONS[kind] if isinstance(kind, str) else f"Literal[{literal(kind)}]"
    types["width"] = "int | None"
    parts: list[str] = []
    for parameter in inspect.signature(getattr(ra, name)).parameters.values():
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
            return f"def {name}({parameters(name, '_X')}) -> _X: ...\n"
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
