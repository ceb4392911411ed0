"""The chart of a suite: every cell's ratio to every peer on a log scale, as an SVG.

Cells are grouped by function. A filled mark is a win or a loss, a hollow one a tie; the line
through a mark is its 95 % interval. Colours fit light and dark pages.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from raptors_arrow.bench.results import CellResult, Ratio, SuiteResult
from raptors_arrow.bench.words import ratio_text, time_text

__all__ = ["draw"]

COLOURS = {
    "numpy": "#2f7ed8",
    "numpy-out": "#56b4e9",
    "pyarrow": "#e8590c",
    "polars": "#0ca678",
    "numexpr": "#c05bd6",
    "jax": "#e0a100",
    "duckdb": "#8d6e63",
    "simsimd": "#e0405e",
}
OTHER = "#7d8590"  # ourselves with fewer threads
STYLE = """
  svg { --ink: #1f2328; --soft: #59636e; --grid: #d8dee4; --page: #ffffff; --band: #f3f5f7 }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #e6edf3; --soft: #9198a1; --grid: #343b44; --page: #0d1117; --band: #171c23 }
  }
  text { font: 11px system-ui, sans-serif; fill: var(--ink) }
  .soft { fill: var(--soft) } .title { font-size: 15px; font-weight: 600 }
  .function { font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
  .grid { stroke: var(--grid) } .one { stroke: var(--ink); stroke-width: 1.5 }
  .band { fill: var(--band) } .page { fill: var(--page) }
"""
ROW, HEAD, LABEL, PLOT, GAP, LEGEND, FOOT = 15, 22, 132, 330, 26, 64, 34
#: More rows than this are set in several columns.
LONGEST = 64
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class Scale:
    """The horizontal log scale."""

    low: float
    high: float

    @classmethod
    def over(cls, ratios: Sequence[Ratio]) -> "Scale":
        """Make a scale that holds all intervals, and 1.0."""
        low = min([0.9, *(ratio.low for ratio in ratios)])
        high = max([1.1, *(ratio.high for ratio in ratios)])
        return cls(
            max((tick for tick in TICKS if tick <= low), default=low),
            min((tick for tick in TICKS if tick >= high), default=high),
        )

    def at(self, ratio: float) -> float:
        """Give the distance from the left edge."""
        return PLOT * math.log(ratio / self.low) / math.log(self.high / self.low)

    @property
    def ticks(self) -> list[float]:
        """The labelled ratios: fewer if they are many."""
        inside = [tick for tick in TICKS if self.low <= tick <= self.high]
        if len(inside) > 10:
            inside = [tick for tick in inside if math.log10(tick).is_integer()]
        return inside


def draw(result: SuiteResult) -> str:
    """Draw a suite.

    Parameters
    ----------
    result
        What was measured; a suite without ratios gives an empty chart.

    Returns
    -------
    str
        The SVG. Each cell is a group with its name as ``data-cell``.
    """
    groups: dict[str, list[CellResult]] = {}
    for one in result.cells:
        groups.setdefault(one.cell.function, []).append(one)
    columns = _columns(list(groups.items()))
    marks = {peer: number for number, peer in enumerate(result.peers)}
    scale = Scale.over([ratio for one in result.cells for ratio in one.ratios])
    height = max([0, *(sum(HEAD + ROW * len(cells) for _, cells in column) for column in columns)])
    across = max(1, len(columns))
    wide = GAP + across * (LABEL + PLOT + GAP)
    legend, top = _legend(result, wide)
    tall = top + height + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" '
        f'width="{wide}" height="{tall}" role="img">',
        f"<title>{escape(result.suite)}: time of peers over ours</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{wide}" height="{tall}"/>',
        f'<text class="title" x="{GAP}" y="26">{escape(result.suite)}: '
        "how many times our time the others take</text>",
        f'<text class="soft" x="{GAP}" y="44">right of the line at 1 we are faster; '
        "hollow marks are ties; lines are 95 % intervals</text>",
        legend,
    ]
    for place, column in enumerate(columns):
        left = GAP + LABEL + place * (LABEL + PLOT + GAP)
        parts.append(_column(column, scale, marks, left, top))
    return "\n".join([*parts, "</svg>", ""])


def _columns(
    groups: list[tuple[str, list[CellResult]]],
) -> list[list[tuple[str, list[CellResult]]]]:
    """Spread the groups over columns of about the same length."""
    rows = sum(len(cells) + 1 for _, cells in groups)
    longest = math.ceil(rows / math.ceil(rows / LONGEST)) if rows else 0
    columns: list[list[tuple[str, list[CellResult]]]] = []
    used = longest
    for group in groups:
        if used + len(group[1]) / 2 >= longest:
            columns.append([])
            used = 0
        columns[-1].append(group)
        used += len(group[1]) + 1
    return columns


def _legend(result: SuiteResult, wide: int) -> tuple[str, int]:
    """Name the marks, in as many lines as it takes; give also where the plot begins."""
    parts = []
    x, y = GAP + 6, LEGEND
    for number, peer in enumerate([*result.peers, None]):
        text = "geometric means" if peer is None else f"{peer}  {result.geometric_mean(peer):.2f}"
        length = 30 + int(6.4 * len(text))
        if x + length > wide:
            x, y = GAP + 6, y + 18
        if peer is not None:
            parts.append(_mark(x, y, number, COLOURS.get(peer, OTHER), hollow=False))
        kind = ' class="soft"' if peer is None else ""
        parts.append(f'<text{kind} x="{x + 9}" y="{y + 4}">{escape(text)}</text>')
        x += length
    return "\n".join(parts), y + 28


def _column(
    column: list[tuple[str, list[CellResult]]],
    scale: Scale,
    marks: dict[str, int],
    left: float,
    top: float,
) -> str:
    bottom = top + sum(HEAD + ROW * len(cells) for _, cells in column)
    parts = []
    for tick in scale.ticks:
        x = left + scale.at(tick)
        kind = "one" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        for y in (top - 6, bottom + 14):
            parts.append(f'<text class="soft middle" x="{x:.1f}" y="{y}">{tick:g}</text>')
    y = top
    for function, cells in column:
        place = f'x="{left - 8}" y="{y + HEAD - 6}"'
        parts.append(f'<text class="function end" {place}>{escape(function)}</text>')
        y += HEAD
        for number, one in enumerate(cells):
            parts.append(_row(one, scale, marks, left, y, banded=number % 2 == 0))
            y += ROW
    return "\n".join(parts)


def _row(
    one: CellResult, scale: Scale, marks: dict[str, int], left: float, top: float, *, banded: bool
) -> str:
    middle = top + ROW / 2
    parts = [f"<g data-cell={quoteattr(one.cell.name)}>"]
    if banded:
        parts.append(
            f'<rect class="band" x="{left}" y="{top}" width="{PLOT}" height="{ROW}" opacity=".6"/>'
        )
        x = left + scale.at(1.0)
        parts.append(f'<line class="one" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + ROW}"/>')
    label = f"{one.cell.dtype} {one.cell.shape}"
    parts.append(f'<text class="soft end" x="{left - 8}" y="{middle + 4}">{label}</text>')
    for ratio in one.ratios:
        parts.append(_point(one, ratio, marks[ratio.peer], scale, left, middle))
    return "\n".join([*parts, "</g>"])


def _point(one: CellResult, ratio: Ratio, number: int, scale: Scale, left: float, y: float) -> str:
    colour = COLOURS.get(ratio.peer, OTHER)
    low, x, high = (left + scale.at(value) for value in (ratio.low, ratio.ratio, ratio.high))
    hint = (
        f"{one.cell.name}: {ratio.peer} {time_text(ratio.time.median)}, "
        f"ours {time_text(one.ours.median)}, ratio {ratio_text(ratio)}"
    )
    return (
        f"<g><title>{escape(hint)}</title>"
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{colour}" opacity=".7"/>'
        f"{_mark(x, y, number, colour, hollow=ratio.verdict == 'tie')}</g>"
    )


def _mark(x: float, y: float, number: int, colour: str, *, hollow: bool) -> str:
    """Draw a mark whose form helps those who do not see the colour."""
    paint = f'fill="{"none" if hollow else colour}" stroke="{colour}" stroke-width="1.3"'
    forms = (
        f'<circle cx="{x:.1f}" cy="{y}" r="3.6" {paint}/>',
        f'<path d="M{x:.1f} {y - 4.4} l4.4 4.4 l-4.4 4.4 l-4.4 -4.4 z" {paint}/>',
        f'<path d="M{x - 3.2:.1f} {y - 3.2} h6.4 v6.4 h-6.4 z" {paint}/>',
        f'<path d="M{x:.1f} {y - 4} l4.2 7.4 h-8.4 z" {paint}/>',
    )
    return forms[number % len(forms)]
