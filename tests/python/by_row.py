"""Every function of the table that makes each result from one row, as calls and as expressions."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import raptors_arrow as ra

WIDTH = 5
ROWS = 60


def values(seed: int = 7) -> np.ndarray:
    """Numbers with a zero vector, signed zeros, NaN and infinities among them."""
    made = np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype("f4")
    made[3] = 0.0
    made[4, 1], made[4, 2] = -0.0, np.nan
    made[5, 0], made[6, 4] = np.inf, -np.inf
    return made


def table(element: Any = None, fixed: bool = True) -> pa.Table:
    """Rows with vectors, some of them null, and numbers."""
    element = pa.float32() if element is None else element
    lists = pa.list_(element, WIDTH) if fixed else pa.list_(element)
    emb = [None if i in (2, 41) else row.tolist() for i, row in enumerate(values())]
    other = [None if i == 8 else row.tolist() for i, row in enumerate(values(8))]
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "emb": pa.array(emb, lists),
            "other": pa.array(other, lists),
            "w": pa.array([None if i == 9 else i / 7 for i in range(ROWS)], element),
        }
    )


class Case(NamedTuple):
    """A call of a function on columns of the table, whose names are given as columns."""

    function: str
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        shown = [arg if isinstance(arg, str) else np.shape(arg) for arg in self.args]
        return f"{self.function}-{shown}-{self.options}"

    def expr(self) -> ra.Expr:
        args = [ra.col(arg) if isinstance(arg, str) else arg for arg in self.args]
        return getattr(ra.col("emb"), self.function)(*args, **self.options)

    def direct(self, rows: pa.Table) -> Any:
        args = [rows[arg] if isinstance(arg, str) else arg for arg in self.args]
        one_per_row = {"axis": 0} if "w" in self.expr().columns else {}
        options = {**self.options, **one_per_row}
        return getattr(ra, self.function)(rows["emb"], *args, **options)


def cases() -> list[Case]:
    """Every row-by-row function of the table, with each kind of argument and choice of words."""
    vector = np.arange(1, WIDTH + 1, dtype="f4") / 3
    matrix = np.arange(3 * WIDTH, dtype="f4").reshape(3, WIDTH) / 7
    seconds = {
        "operand": ["other", "w", 2.5, vector],
        "number": [2.5],
        "row": [vector],
        "vectors": ["other", vector],
    }
    made = []
    for name in ra.list_functions():
        function = ra.get_function(name)
        by_row = {"axis": 1} if len(function.arguments) == 1 and "axis" in function.options else {}
        # A choice is made by the engines themselves; its tests are in test_choices.py.
        if not function.is_row_by_row(**by_row) or function.driver == "where":
            continue
        rests: list[tuple[Any, ...]] = [()]
        if len(function.arguments) > 1:
            kind = function.argument_kinds[1]
            second = matrix if name == "pairwise" else matrix.T.copy()
            # The same for all arguments behind the first.
            rests = [(y,) * (len(function.arguments) - 1) for y in seconds.get(kind, [second])]
        made += [
            Case(name, rest, options) for rest in rests for options in _choices(function, by_row)
        ]
    return made


def _choices(function: Any, by_row: dict[str, Any]) -> list[dict[str, Any]]:
    sets = [by_row]
    for option, kind in function.option_kinds.items():
        if isinstance(kind, tuple):
            sets = [{**one, option: word} for one in sets for word in kind]
        elif kind == "order":
            sets = [{**one, option: order} for one in sets for order in (1, 2, float("inf"))]
        elif kind == "bound":
            sets = [{**one, option: {"min": -0.5, "max": 0.5}[option]} for one in sets]
        elif kind == "type":
            sets = [{**one, option: "float64"} for one in sets]
    return sets


#: The functions that are row by row; a test says if one of the table is missing.
FUNCTIONS = sorted({case.function for case in cases()})


def same_bits(got: Any, want: Any) -> bool:
    """Whether two columns have the same nulls and, elsewhere, the same bits; lists of any kind."""
    got, want = _whole(got), _whole(want)
    if len(got) != len(want) or got.is_null().to_pylist() != want.is_null().to_pylist():
        return False
    if pa.types.is_nested(want.type):
        lengths = [None if row is None else len(row) for row in got.to_pylist()]
        if lengths != [None if row is None else len(row) for row in want.to_pylist()]:
            return False
        return same_bits(got.flatten(), want.flatten())
    if got.type != want.type:
        return False
    bits = [column.drop_null().to_numpy(zero_copy_only=False).tobytes() for column in (got, want)]
    return bits[0] == bits[1]


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
