"""What a function of the suites is: our call, the right answer, and the bytes that must move."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from raptors_arrow.bench.cells import Cell
from raptors_arrow.bench.inputs import Inputs

__all__ = ["AXES", "Answer", "Function", "Values", "positive"]

Values = np.ndarray[Any, Any]


class Answer(NamedTuple):
    """The right result and what its tolerance follows from; see ``functions``."""

    ref: Values
    c: float = 0.0
    n: int = 0
    s: "Values | float" = 0.0
    #: What of a result is compared, if not the result itself.
    seen: Callable[[Values], Values] | None = None


@dataclass(frozen=True)
class Function:
    """A function as the suites measure it.

    Attributes
    ----------
    needs
        The function of ``raptors_arrow`` that is called.
    ours
        Makes our call.
    answer
        Gives the right result.
    elementwise
        Whether there is one result for each element.
    matrices
        How many matrices of the cell's shape are read.
    results
        The number of values that are written.
    """

    needs: str
    ours: Callable[[Inputs], Callable[[], Any]]
    answer: Callable[[Inputs], Answer]
    results: Callable[[Cell], int]
    elementwise: bool = False
    matrices: int = 1

    def bytes_read(self, cell: Cell) -> int:
        """Bytes that must be read."""
        return self.matrices * cell.elements * cell.itemsize

    def bytes_written(self, cell: Cell) -> int:
        """Bytes that must be written."""
        return self.results(cell) * cell.itemsize


def _rows(cell: Cell) -> int:
    return cell.rows


def _width(cell: Cell) -> int:
    return cell.width


def _one(cell: Cell) -> int:
    return 1


AXES: dict[str, tuple[int | None, Callable[[Cell], int]]] = {
    "": (None, _one),
    "_axis0": (0, _width),
    "_axis1": (1, _rows),
}


def positive(i: Inputs) -> Values:
    """Give the magnitudes of the matrix, which have logarithms."""
    return i.keep("positive", lambda: np.abs(i.x))
