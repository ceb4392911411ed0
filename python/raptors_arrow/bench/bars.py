"""The bars: what the measured ratios, shares and peaks must reach, as data."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from raptors_arrow.bench.cells import Cell
from raptors_arrow.bench.results import CellResult, SuiteResult
from raptors_arrow.bench.runner import thread_name

__all__ = ["BARS", "Bar", "Outcome", "evaluate"]

MB = 1_000_000


@dataclass(frozen=True)
class Cells:
    """Which cells a bar is about: globs of function names and shapes, and limits."""

    functions: tuple[str, ...] = ("*",)
    shape: str = "*"
    dtype: str = "*"
    max_width: int = 1 << 62
    min_bytes: int = 0
    elements: tuple[int, int] = (0, 1 << 62)
    elementwise: bool | None = None

    def __contains__(self, one: CellResult) -> bool:
        cell = one.cell
        line = one.roofline
        moved = 0 if line is None else line.read_bytes + line.written_bytes
        return (
            any(fnmatchcase(cell.function, glob) for glob in self.functions)
            and fnmatchcase(cell.shape, self.shape)
            and fnmatchcase(cell.dtype, self.dtype)
            and cell.width <= self.max_width
            and moved >= self.min_bytes
            and self.elements[0] <= cell.elements <= self.elements[1]
            and self.elementwise in (None, one.elementwise)
        )


@dataclass(frozen=True)
class Outcome:
    """A bar that was looked at: what was measured, where it is worst, and whether it is met."""

    bar: "Bar"
    measured: float
    worst: str
    met: bool


Figure = tuple[float, str]


def ratios(suites: Sequence[SuiteResult], bar: "Bar") -> Iterable[Figure]:
    """Give the peer's time over ours in each cell."""
    for one in _cells(suites, bar):
        ratio = one.ratio(bar.peer)
        if ratio is not None:
            yield ratio.ratio, _label(one.cell)


def geometric_means(suites: Sequence[SuiteResult], bar: "Bar") -> Iterable[Figure]:
    """Give the geometric mean of each suite."""
    for suite in suites:
        if bar.peer in suite.peers:
            yield suite.geometric_mean(bar.peer), f"{suite.suite}: {len(suite.cells)} cells"


def shares(suites: Sequence[SuiteResult], bar: "Bar") -> Iterable[Figure]:
    """Give the share of the roofline in each cell."""
    for one in _cells(suites, bar):
        if one.roofline is not None:
            yield one.roofline.share, _label(one.cell)


def flatness(suites: Sequence[SuiteResult], bar: "Bar") -> Iterable[Figure]:
    """Give, for each function, the highest cost of an element over the lowest."""
    costs: dict[str, list[CellResult]] = {}
    for one in _cells(suites, bar):
        costs.setdefault(one.cell.function, []).append(one)
    for function, cells in costs.items():
        low = min(cells, key=lambda one: one.per_element)
        high = max(cells, key=lambda one: one.per_element)
        between = f"{function} between {low.cell.shape} and {high.cell.shape}"
        yield high.per_element / low.per_element, between


def excesses(suites: Sequence[SuiteResult], bar: "Bar") -> Iterable[Figure]:
    """Give the MB that each call needed beside inputs and outputs."""
    for suite in suites:
        for one in suite.memory:
            yield one.excess_bytes / MB, _label(one.cell)


@dataclass(frozen=True)
class Bar:
    """Something that must hold in every cell that it is about.

    Attributes
    ----------
    text
        What must hold, in words.
    suites
        Where it is looked for.
    limit
        The smallest figure, or the largest if ``at_most``.
    peer
        Whose time is compared with ours, if any.
    cells
        The cells that it is about.
    figures
        Gives the figures that are held against the limit.
    """

    text: str
    suites: tuple[str, ...]
    limit: float
    peer: str = "numpy"
    cells: Cells = Cells()
    figures: Callable[[Sequence[SuiteResult], "Bar"], Iterable[Figure]] = ratios
    at_most: bool = False


def _cells(suites: Sequence[SuiteResult], bar: Bar) -> Iterable[CellResult]:
    return (one for suite in suites for one in suite.cells if one in bar.cells)


def _label(cell: Cell) -> str:
    return f"{cell.suite}: {cell.name}"


def evaluate(suites: Sequence[SuiteResult], bars: Sequence[Bar] | None = None) -> list[Outcome]:
    """Hold measured suites against the bars; a bar without a measured cell has no outcome."""
    outcomes = []
    for bar in BARS if bars is None else bars:
        figures = list(bar.figures([one for one in suites if one.suite in bar.suites], bar))
        if figures:
            measured, worst = max(figures) if bar.at_most else min(figures)
            met = measured <= bar.limit if bar.at_most else measured >= bar.limit
            outcomes.append(Outcome(bar, measured, worst, met))
    return outcomes


REDUCED = Cells(elementwise=False)
EITHER_AXIS = ("mean_axis?",)
EXTREMES = ("min*", "max*", "argmin*", "argmax*")
EXTREMES_BY_AXIS = ("min_axis?", "max_axis?", "argmin_axis?", "argmax_axis?")
BY_ROW = ("sum_axis1", "mean_axis1")
SIZES = ("seed", "shapes", "scaling")
LARGE = 16 * MB
STEPS = Cells(("steps_mean",))
BY_KEY = Cells(("mean_by*",))
BY_MANY = Cells(("mean_by10000",))
ODD_GROUPS = Cells(("mean_by_row", "mean_by_one"))
POOL = Cells(("pool_mean",))

BARS = (
    Bar("every cell against NumPy", ("seed",), 1.0),
    Bar("geometric mean against NumPy", ("seed",), 2.2, figures=geometric_means),
    Bar("reductions against NumPy", ("seed",), 1.2, cells=REDUCED),
    Bar(
        "elementwise at 2048² against NumPy",
        ("seed",),
        1.7,
        cells=Cells(shape="2048x2048", elementwise=True),
    ),
    Bar(
        "mean on either axis, width ≤ 16, against NumPy",
        ("shapes",),
        8.0,
        cells=Cells(EITHER_AXIS, max_width=16),
    ),
    Bar(
        "row-vector add, width ≤ 16, against NumPy",
        ("shapes",),
        3.0,
        cells=Cells(("broadcast_add",), max_width=16),
    ),
    Bar("every cell against NumPy", ("shapes",), 1.0),
    Bar("arr.sum, arr.mean of polars", ("shapes",), 1.5, "polars", Cells(BY_ROW)),
    Bar("the same, width ≤ 64", ("shapes",), 10.0, "polars", Cells(BY_ROW, max_width=64)),
    Bar("the same, width 2 and 3", ("shapes",), 50.0, "polars", Cells(BY_ROW, max_width=3)),
    Bar("sum and mean of pyarrow.compute", SIZES, 2.0, "pyarrow", Cells(("sum", "mean"))),
    Bar("multiply of pyarrow.compute", SIZES, 1.0, "pyarrow", Cells(("scale",))),
    Bar(
        "multiply of pyarrow.compute at 2048²",
        ("seed",),
        1.5,
        "pyarrow",
        Cells(("scale",), shape="2048x2048"),
    ),
    Bar(
        "share of the roofline, reductions from 16 MB",
        SIZES,
        0.8,
        cells=Cells(min_bytes=LARGE, elementwise=False),
        figures=shares,
    ),
    Bar(
        "share of the roofline, elementwise from 16 MB",
        SIZES,
        0.7,
        cells=Cells(min_bytes=LARGE, elementwise=True),
        figures=shares,
    ),
    Bar(
        "cost of an element from 2²⁰ to 2²⁷, highest over lowest",
        ("scaling",),
        1.5,
        cells=Cells(elements=(1 << 20, 1 << 27)),
        figures=flatness,
        at_most=True,
    ),
    Bar("one thread's time over all threads'", ("scaling",), 1 / 1.05, thread_name(1)),
    Bar("MB beside inputs and outputs", ("memory",), 8.0, figures=excesses, at_most=True),
    Bar("with nulls against the same call without", ("nulls",), 1 / 1.6, "without-nulls"),
    Bar("with nulls against nansum, nanmax, … of NumPy", ("nulls",), 1.5, cells=REDUCED),
    Bar("normalize against NumPy", ("vectors",), 4.0, cells=Cells(("normalize",))),
    Bar("standardize against NumPy", ("vectors",), 5.0, cells=Cells(("standardize",))),
    Bar("std over axis 0 against NumPy", ("vectors",), 5.0, cells=Cells(("std_axis0",))),
    Bar("row dot against np.einsum", ("vectors",), 1.2, cells=Cells(("dot",))),
    Bar("row dot against polars arr.dot", ("vectors",), 2.5, "polars", Cells(("dot",))),
    Bar(
        "cosine to one vector against simsimd",
        ("vectors",),
        1.5,
        "simsimd",
        Cells(("cosine_similarity",)),
    ),
    Bar(
        "top_k, 64 queries, k = 10, against matmul + argpartition",
        ("vectors",),
        1.2,
        cells=Cells(("top_k",)),
    ),
    Bar(
        "a query of polars, in memory, against the direct calls",
        ("engines",),
        1 / 1.15,
        "polars-lazy",
        Cells(("query",)),
    ),
    Bar("the same, streaming", ("engines",), 1 / 1.15, "polars-streaming", Cells(("query",))),
    Bar(
        "groups of a lazy query against those of a table",
        ("engines",),
        1 / 1.3,
        "polars-streaming",
        Cells(("group_mean",)),
    ),
    Bar("a chain of five steps against NumPy", ("chains",), 4.0, cells=STEPS),
    Bar("the same against numexpr", ("chains",), 2.0, "numexpr", STEPS),
    Bar("the same against JAX, compiled", ("chains",), 1.2, "jax", STEPS),
    Bar(
        "mean, std, min and max by columns at once against NumPy's four calls",
        ("chains",),
        5.0,
        cells=Cells(("statistics",)),
    ),
    Bar("mean by 10,000 keys against sort and np.add.reduceat", ("groups",), 3.0, cells=BY_MANY),
    Bar("the same against np.add.at", ("groups",), 3.0, "numpy-add-at", BY_MANY),
    Bar("the same against polars, exploded", ("groups",), 5.0, "polars", BY_MANY),
    Bar("the same against one mean of all rows", ("groups",), 1 / 3, "without-groups", BY_MANY),
    Bar("mean by any keys against sort and np.add.reduceat", ("groups",), 1.0, cells=BY_KEY),
    Bar("the same against np.add.at", ("groups",), 1.0, "numpy-add-at", BY_KEY),
    Bar("the same against polars, exploded", ("groups",), 1.0, "polars", BY_KEY),
    Bar(
        "a group for each row, or one, against a plain pass and pyarrow's hashing",
        ("groups",),
        1 / 3,
        "pass-and-hash",
        ODD_GROUPS,
    ),
    Bar("pool against a loop over NumPy", ("groups",), 5.0, "numpy-loop", POOL),
    Bar("pool against np.add.reduceat", ("groups",), 1.5, cells=POOL),
    Bar(
        "min, max, argmin, argmax against NumPy",
        ("shapes", "vectors"),
        1.0,
        cells=Cells(EXTREMES),
    ),
    Bar("the same from 16 MB", ("shapes",), 1.3, cells=Cells(EXTREMES, min_bytes=LARGE)),
    Bar(
        "the same on either axis, width ≤ 16",
        ("shapes",),
        8.0,
        cells=Cells(EXTREMES_BY_AXIS, max_width=16),
    ),
)
