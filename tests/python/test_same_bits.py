"""One column in every form gives the same bits from every function."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from forms import FORMS, values_of

import raptors_arrow as ra


def seconds(kind: str, values: np.ndarray):
    """Second arguments of a kind."""
    rng = np.random.default_rng(5)
    row = rng.standard_normal(values.shape[1]).astype(values.dtype)
    if kind in ("number", "operand"):
        yield 1.7
    if kind in ("row", "operand"):
        yield row
        yield pa.array(row)
        yield pl.Series("y", row)
    if kind in ("matrix", "operand"):
        yield values[::-1].copy()


def bits(result) -> bytes:
    return np.ascontiguousarray(values_of(result)).tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ra.list_functions())
def test_same_bits_from_every_form(name, dtype):
    function = ra.get_function(name)
    options = [{"axis": axis} for axis in (None, 0, 1)] if "axis" in function.options else [{}]
    if len(function.arguments) > 1:
        options = [{}]
    for shape in ((1, 1), (7, 3), (1000, 8), (257, 129), (5000, 2)):
        values = np.random.default_rng(3).standard_normal(shape).astype(dtype)
        calls = [(o, ()) for o in options]
        if len(function.arguments) > 1:
            calls = [({}, (y,)) for y in seconds(function.argument_kinds[1], values)]
        for option, rest in calls:
            if shape == (1, 1) and rest and not isinstance(rest[0], float):
                continue
            expected = bits(function(FORMS["FixedSizeList"](values), *rest, **option))
            for form, make in FORMS.items():
                got = bits(function(make(values), *rest, **option))
                assert got == expected, (form, shape, option)


def test_same_bits_for_any_number_of_threads():
    values = np.random.default_rng(4).standard_normal((300_000, 8)).astype("f4")
    before = ra.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 8):
            ra.set_num_threads(threads)
            results.append(
                (ra.sum(values), bits(ra.mean(values, axis=0)), bits(ra.mean(values, axis=1)))
            )
    finally:
        ra.set_num_threads(before)
    assert len(set(results)) == 1
