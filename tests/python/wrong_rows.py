"""Files whose rows are wrong, and what every engine says of them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import raptors_arrow as ra

E = ra.col("emb")
#: What lines up columns, so that the lengths of rows matter; and a statistic of columns.
ADDED = E.add(np.ones(2, "f4"))
MEAN = E.mean(axis=0)

LISTS = pa.list_(pa.float32())
ACCEPTED = "expected numbers, or lists of one length, tensors or a struct of them"


class Wrong(NamedTuple):
    """Tables, each of which becomes a file, and what is said of them."""

    files: list[pa.Table]
    #: By a function of each row, and by a statistic of columns.
    added: str
    mean: str


def _table(name: str, values: list[Any], type: pa.DataType) -> pa.Table:
    count = len(values)
    return pa.table({"id": range(count), "k": pa.array([0] * count), name: pa.array(values, type)})


PAIRS, TRIPLES = [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]

WRONG = {
    "type": Wrong(
        [_table("emb", ["a", "b"], pa.string())], f"add: {ACCEPTED}", f"mean: {ACCEPTED}"
    ),
    "missing": Wrong(
        [_table("other", PAIRS, LISTS)],
        "'emb' is not there; the columns are id, k, other",
        "'emb' is not there; the columns are id, k, other",
    ),
    "widths": Wrong(
        [_table("emb", PAIRS, LISTS), _table("emb", TRIPLES, LISTS)],
        "add: expected y of width 3, got width 2",
        "mean: expected a batch of width 2, got width 3",
    ),
    "ragged": Wrong(
        [_table("emb", PAIRS * 500 + [[1.0]], LISTS)],
        "add: expected every row to have 2 elements, but row 1000 has 1",
        "mean: expected every row to have 2 elements, but row 1000 has 1",
    ),
}


def written(name: str, folder: Path) -> str:
    """Write the files of a case, and give their folder."""
    for i, table in enumerate(WRONG[name].files):
        pq.write_table(table, folder / f"part-{i}.parquet")
    return str(folder)


def said(run: Callable[[], Any]) -> str:
    """Give all that is said by the error of a call, and by those behind it."""
    with pytest.raises(Exception) as caught:
        run()
    texts, error = [], caught.value
    while error is not None:
        texts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__
    return "\n".join(texts)


def is_said(name: str, function: str, text: str) -> bool:
    """Whether a cluster says it, which puts the rows of files together as it likes.

    Two widths meet in one batch, in one after the other, in either order, or in two states.
    """
    want = WRONG[name].added if function == "add" else WRONG[name].mean
    if name != "widths" or want in text:
        return want in text
    ways = (
        rf"{function}: expected .* of width (2, got width 3|3, got width 2)",
        rf"{function}: expected every row to have (2 elements, but row \d+ has 3|3 .* has 2)",
        r'"width":2.*"width":3|"width":3.*"width":2',
    )
    return any(re.search(way, text, re.DOTALL) for way in ways)
