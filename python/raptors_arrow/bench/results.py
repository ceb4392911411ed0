"""What was measured, and its form in JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from raptors_arrow.bench.cells import Cell
from raptors_arrow.bench.roofline import Roofline
from raptors_arrow.bench.stats import (
    geometric_mean,
    median,
    median_interval,
    quartiles,
    verdict,
)

__all__ = ["SCHEMA", "CellResult", "Memory", "Ratio", "SuiteResult", "Timing", "from_json"]

#: Version of the JSON form.
SCHEMA = 1


@dataclass(frozen=True)
class Timing:
    """Seconds of a call: median, quartiles, and the number of rounds."""

    median: float
    q1: float
    q3: float
    rounds: int

    @classmethod
    def of(cls, times: Sequence[float]) -> "Timing":
        """Sum up the times of the rounds."""
        return cls(median(times), *quartiles(times), len(times))


@dataclass(frozen=True)
class Ratio:
    """A peer's time over ours: the median of the rounds' ratios and its 95 % interval."""

    peer: str
    time: Timing
    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, peer: str, theirs: Sequence[float], ours: Sequence[float]) -> "Ratio":
        """Compare the times of the same rounds."""
        ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
        return cls(peer, Timing.of(theirs), median(ratios), *median_interval(ratios))

    @property
    def verdict(self) -> str:
        """``faster``, ``slower`` or ``tie``, as seen from us."""
        return verdict(self.low, self.high)


@dataclass(frozen=True)
class CellResult:
    """A measured cell."""

    cell: Cell
    elementwise: bool
    ours: Timing
    ratios: list[Ratio]
    roofline: Roofline | None

    def ratio(self, peer: str) -> Ratio | None:
        """Look up a peer."""
        return next((one for one in self.ratios if one.peer == peer), None)

    @property
    def per_element(self) -> float:
        """Our seconds for one element."""
        return self.ours.median / self.cell.elements


@dataclass(frozen=True)
class Memory:
    """How much a call raised the peak of a fresh process, in bytes."""

    cell: Cell
    input_bytes: int
    output_bytes: int
    growth_bytes: int

    @property
    def excess_bytes(self) -> int:
        """What was needed beside inputs and outputs."""
        return self.growth_bytes - self.output_bytes


@dataclass
class SuiteResult:
    """All that was measured of a suite, and what was left out and why.

    Attributes
    ----------
    left_out
        For a peer, or for ourselves, the reasons.
    order
        All contestants in the order in which they are shown.
    """

    suite: str
    threads: int
    cells: list[CellResult] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def peers(self) -> list[str]:
        """The peers that took part in at least one cell."""
        found = {ratio.peer for one in self.cells for ratio in one.ratios}
        return [peer for peer in self.order if peer in found]

    def geometric_mean(self, peer: str) -> float:
        """Give the geometric mean of a peer's ratios."""
        found = (one.ratio(peer) for one in self.cells)
        return geometric_mean([ratio.ratio for ratio in found if ratio is not None])

    def leave_out(self, who: str, reason: str) -> None:
        """Name something that is not measured, once."""
        reasons = self.left_out.setdefault(who, [])
        if reason not in reasons:
            reasons.append(reason)

    def to_json(self) -> dict[str, Any]:
        """Give the suite as JSON values, with what a reader would otherwise work out."""
        value = asdict(self)
        for made, one in zip(value["cells"], self.cells, strict=True):
            made["name"] = one.cell.name
            for ratio, from_ in zip(made["ratios"], one.ratios, strict=True):
                ratio["verdict"] = from_.verdict
        for made, memory in zip(value["memory"], self.memory, strict=True):
            made["name"] = memory.cell.name
            made["excess_bytes"] = memory.excess_bytes
        value["geometric_means"] = {peer: self.geometric_mean(peer) for peer in self.peers}
        return value


def from_json(value: dict[str, Any]) -> SuiteResult:
    """Read a suite back, as ``SuiteResult.to_json`` wrote it."""
    result = SuiteResult(
        value["suite"],
        value["threads"],
        left_out=value["left_out"],
        order=value["order"],
        interrupted=value["interrupted"],
    )
    for one in value["cells"]:
        ratios = [
            Ratio(r["peer"], Timing(**r["time"]), r["ratio"], r["low"], r["high"])
            for r in one["ratios"]
        ]
        line = one["roofline"]
        result.cells.append(
            CellResult(
                Cell(**one["cell"]),
                one["elementwise"],
                Timing(**one["ours"]),
                ratios,
                None if line is None else Roofline(**line),
            )
        )
    for one in value["memory"]:
        sizes = (one["input_bytes"], one["output_bytes"], one["growth_bytes"])
        result.memory.append(Memory(Cell(**one["cell"]), *sizes))
    return result
