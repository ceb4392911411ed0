"""The cells of each suite: a function, an element type and a shape."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

__all__ = ["KEYS", "NULL_ELEMENTS", "NULL_ROWS", "SUITES", "Cell", "cells_of", "select"]


@dataclass(frozen=True)
class Cell:
    """One thing that is measured.

    Examples
    --------
    >>> Cell("seed", "mean_axis0", "float32", 512, 512).name
    'mean_axis0/float32/512x512'
    """

    suite: str
    function: str
    dtype: str
    rows: int
    width: int

    @property
    def name(self) -> str:
        """The name that ``--filter`` looks at."""
        return f"{self.function}/{self.dtype}/{self.shape}"

    @property
    def shape(self) -> str:
        """Rows and width, such as ``512x512``."""
        return f"{self.rows}x{self.width}"

    @property
    def elements(self) -> int:
        """The number of elements of the matrix."""
        return self.rows * self.width

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.removeprefix("float")) // 8


AXES = ("", "_axis0", "_axis1")
FLOATS = ("float32", "float64")
SEED = ("sum", "mean", "mean_axis0", "mean_axis1", "broadcast_add", "scale")
SHAPES = (
    (1_000_000, 2),
    (1_000_000, 3),
    (500_000, 8),
    (200_000, 16),
    (65_536, 64),
    (10_000, 384),
    (50_000, 768),
    (64, 65_536),
    (4, 1_000_000),
)
MEASURES = (
    *(f + axis for f in ("sum", "mean") for axis in AXES),
    "broadcast_add",
    "scale",
)
EXTREMES = tuple(f + axis for f in ("min", "max", "argmin", "argmax") for axis in AXES)
#: What is null in a cell, at the end of its function's name: of a hundred elements, or rows.
NULL_ELEMENTS = {"_null1": 1, "_null10": 10, "_null50": 50}
NULL_ROWS = {"_nullrow10": 10}
NULLED = tuple(f + axis for f in ("sum", "mean", "max", "std") for axis in AXES)
VECTORS = (
    "dot",
    "dot_vector",
    "cosine_similarity",
    "l2_distance",
    "normalize",
    "standardize",
    "softmax",
    "std_axis0",
    "norm_axis1",
    "top_k",
    "pairwise",
)
#: Functions of single elements, and quantiles.
ELEMENTARY = (
    *("exp", "log", "power", "round", "sign", "greater", "isnan"),
    *(f"median{axis}" for axis in AXES),
)
#: Several functions in one pass; see the module ``chains``.
CHAINS = ("steps_mean", "unit_dot", "centred_squares", "half_norm", "softmax_max")


#: Means by key, and how many keys there are: none for one for each row. See ``groups``.
KEYS = {
    "mean_by100": 100,
    "mean_by1000": 1_000,
    "mean_by10000": 10_000,
    "mean_by500000": 500_000,
    "mean_by_row": None,
    "mean_by_one": 1,
}


def _seed() -> Iterable[Cell]:
    for dtype in FLOATS:
        for side in (512, 1024, 2048):
            for function in SEED:
                yield Cell("seed", function, dtype, side, side)


def _shapes() -> Iterable[Cell]:
    for rows, width in SHAPES:
        for dtype in FLOATS:
            # The bars on minima and maxima are of float32.
            for function in MEASURES + (EXTREMES if dtype == "float32" else ()):
                yield Cell("shapes", function, dtype, rows, width)


def _scaling() -> Iterable[Cell]:
    for power in range(6, 23):
        for function in SEED:
            yield Cell("scaling", function, "float32", 2**power, 64)


def _overhead() -> Iterable[Cell]:
    for dtype in FLOATS:
        for function in SEED:
            yield Cell("overhead", function, dtype, 8, 8)


def _vectors() -> Iterable[Cell]:
    for function in VECTORS:
        yield Cell("vectors", function, "float32", 50_000, 768)
    # In the cache; the shapes have those of memory.
    for side in (512, 1024):
        for function in EXTREMES:
            yield Cell("vectors", function, "float32", side, side)


def _nulls() -> Iterable[Cell]:
    for kind in NULL_ELEMENTS:
        for function in (*NULLED, "scale", "broadcast_add"):
            yield Cell("nulls", function + kind, "float32", 200_000, 64)
    for kind in NULL_ROWS:
        # By rows, a null row is a null, which NumPy has not.
        for function in NULLED:
            if not function.endswith("_axis1"):
                yield Cell("nulls", function + kind, "float32", 200_000, 64)


def _elementary() -> Iterable[Cell]:
    # From 1 MB on.
    for dtype in FLOATS:
        for side in (512, 1024, 2048):
            for function in ELEMENTARY:
                yield Cell("elementary", function, dtype, side, side)


def _chains() -> Iterable[Cell]:
    for rows, width in ((200_000, 384), (1_000_000, 16)):
        for function in CHAINS:
            yield Cell("chains", function, "float32", rows, width)
    yield Cell("chains", "statistics", "float32", 50_000, 768)


def _groups() -> Iterable[Cell]:
    for function in ("mean_by100", "mean_by10000", "mean_by500000"):
        yield Cell("groups", function, "float32", 1_000_000, 64)
    yield Cell("groups", "mean_by1000", "float32", 200_000, 768)
    for function in ("mean_by_row", "mean_by_one"):
        yield Cell("groups", function, "float32", 1_000_000, 16)
    # 100,000 sentences of about 20 tokens.
    yield Cell("groups", "pool_mean", "float32", 2_000_000, 384)


def _memory() -> Iterable[Cell]:
    for rows, width in ((2048, 2048), (1_000_000, 3), (50_000, 768), (4, 1_000_000)):
        for dtype in FLOATS:
            for function in SEED:
                yield Cell("memory", function, dtype, rows, width)
    for function in ("normalize", "standardize", "softmax", "std_axis0", "top_k"):
        yield Cell("memory", function, "float32", 50_000, 768)


def _engines() -> Iterable[Cell]:
    yield Cell("engines", "query", "float32", 200_000, 384)
    yield Cell("engines", "group_mean", "float32", 1_000_000, 64)


#: The suites by name. Cells of one shape follow each other, so that they share their inputs.
SUITES: dict[str, Callable[[], Iterable[Cell]]] = {
    "seed": _seed,
    "shapes": _shapes,
    "scaling": _scaling,
    "overhead": _overhead,
    "vectors": _vectors,
    "nulls": _nulls,
    "elementary": _elementary,
    "chains": _chains,
    "groups": _groups,
    "memory": _memory,
    "engines": _engines,
}


def cells_of(suite: str) -> list[Cell]:
    """List the cells of a suite in the order in which they are measured."""
    return list(SUITES[suite]())


def select(cells: Iterable[Cell], pattern: str | None) -> list[Cell]:
    """Keep the cells whose name fits a glob, or contains a text without ``*``, ``?`` and ``[``.

    Examples
    --------
    >>> [cell.name for cell in select(cells_of("seed"), "sum/*64/512*")]
    ['sum/float64/512x512']
    """
    if pattern is None:
        return list(cells)
    if any(sign in pattern for sign in "*?["):
        return [cell for cell in cells if fnmatchcase(cell.name, pattern)]
    return [cell for cell in cells if pattern in cell.name]
