"""The inputs of a cell: one memory, seen by every contestant in its own way."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
import pyarrow as pa

from raptors_arrow.bench.cells import NULL_ELEMENTS, NULL_ROWS, Cell

__all__ = ["QUERIES", "TOP", "Inputs"]

T = TypeVar("T")

#: How many vectors are looked for, and how many neighbours of each.
QUERIES, TOP = 64, 10


class Inputs:
    """Random matrices of a cell's shape and type.

    Values are normal around 1, not around 0, so that the sum of many is far from 0 and a wrong
    one stands out of the rounding. Matrices begin at 64 bytes, as Arrow recommends. What is not
    used is not made: everything beside the matrix is made when it is first asked for.
    """

    def __init__(self, cell: Cell) -> None:
        self.rows = cell.rows
        self.width = cell.width
        self.dtype = np.dtype(cell.dtype)
        self._kept: dict[str, Any] = {}
        self.x = self._random("x", cell.rows)

    def fits(self, cell: Cell) -> bool:
        """Tell whether these are the inputs of another cell, too."""
        return (self.rows, self.width, self.dtype.name) == (cell.rows, cell.width, cell.dtype)

    def keep(self, name: str, make: Callable[[], T]) -> T:
        """Make something once: a peer's own form of the inputs."""
        if name not in self._kept:
            self._kept[name] = make()
        value: T = self._kept[name]
        return value

    def _random(self, name: str, rows: int) -> np.ndarray[Any, Any]:
        buffer = pa.allocate_buffer(rows * self.width * self.dtype.itemsize)
        matrix = np.frombuffer(buffer, self.dtype).reshape(rows, self.width)
        rng = np.random.default_rng(crc32(f"{name}/{rows}x{self.width}".encode()))
        # In place: a temporary would raise the peak that the memory suite looks at.
        rng.standard_normal(dtype=self.dtype.type, out=matrix)
        matrix += 1
        return matrix

    def arrow_of(self, matrix: np.ndarray[Any, Any]) -> Any:
        """See a matrix as a fixed-size list array, without a copy."""
        return pa.FixedSizeListArray.from_arrays(self.flat_of(matrix), self.width)

    def flat_of(self, values: np.ndarray[Any, Any]) -> Any:
        """See values as a flat Arrow array, without a copy."""
        kind = pa.from_numpy_dtype(self.dtype)
        return pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(values)])

    @cached_property
    def arrow(self) -> Any:
        """The matrix as a fixed-size list array."""
        return self.arrow_of(self.x)

    def valid(self, kind: str) -> np.ndarray[Any, Any]:
        """Say which elements are valid, or which rows, for a kind of nulls."""

        def make() -> np.ndarray[Any, Any]:
            shape = (self.rows, self.width) if kind in NULL_ELEMENTS else (self.rows,)
            rng = np.random.default_rng(crc32(kind.encode()))
            return rng.random(shape) >= (NULL_ELEMENTS | NULL_ROWS)[kind] / 100

        return self.keep(f"valid{kind}", make)

    def with_nulls(self, kind: str) -> Any:
        """See the matrix as a fixed-size list array in which some is null."""

        def make() -> Any:
            bits = pa.py_buffer(np.packbits(self.valid(kind), bitorder="little"))
            of_rows, of_elements = (None, bits) if kind in NULL_ELEMENTS else (bits, None)
            element = pa.from_numpy_dtype(self.dtype)
            flat = pa.Array.from_buffers(element, self.x.size, [of_elements, pa.py_buffer(self.x)])
            lists = pa.list_(element, self.width)
            return pa.Array.from_buffers(lists, self.rows, [of_rows], children=[flat])

        return self.keep(f"nulls{kind}", make)

    def holed(self, kind: str) -> np.ndarray[Any, Any]:
        """Give the matrix with NaN in the place of nulls."""

        def make() -> np.ndarray[Any, Any]:
            valid = self.valid(kind)
            return np.where(valid if valid.ndim == 2 else valid[:, None], self.x, np.nan).astype(
                self.dtype
            )

        return self.keep(f"holed{kind}", make)

    @cached_property
    def flat(self) -> Any:
        """The elements as one Arrow array."""
        return self.flat_of(self.x)

    @cached_property
    def factor(self) -> float:
        """A number that the element type can hold, so that all multiply by the same."""
        return float(self.dtype.type(1.1))

    @cached_property
    def row(self) -> np.ndarray[Any, Any]:
        """One vector, as long as a row."""
        return self._random("row", 1).reshape(-1)

    @cached_property
    def row_arrow(self) -> Any:
        """The vector as an Arrow array."""
        return self.flat_of(self.row)

    @cached_property
    def weights(self) -> np.ndarray[Any, Any]:
        """One number for each row."""
        return self._random("weights", self.rows)[:, 0].copy()

    @cached_property
    def weights_arrow(self) -> Any:
        """The numbers as an Arrow array."""
        return self.flat_of(self.weights)

    @cached_property
    def tiled_flat(self) -> Any:
        """The vector repeated for each row, for libraries that do not broadcast."""
        return self.flat_of(np.tile(self.row, self.rows))

    @cached_property
    def other(self) -> np.ndarray[Any, Any]:
        """A second matrix of the same shape."""
        return self._random("other", self.rows)

    @cached_property
    def other_arrow(self) -> Any:
        """The second matrix as a fixed-size list array."""
        return self.arrow_of(self.other)

    @cached_property
    def queries(self) -> np.ndarray[Any, Any]:
        """A few rows to look for."""
        return self._random("queries", QUERIES)

    @cached_property
    def queries_arrow(self) -> Any:
        """The rows to look for as a fixed-size list array."""
        return self.arrow_of(self.queries)
