"""One column in every form gives the same bits from every function."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from calls import PRODUCTS, calls, numbers
from forms import FORMS, values_of

import raptors_arrow as ra

SHAPES = ((1, 1), (7, 3), (1000, 8), (257, 129), (5000, 2))


def bits(result) -> bytes:
    return np.ascontiguousarray(values_of(result)).tobytes()


def as_other(rest: tuple, form: str) -> tuple:
    """The same second argument in another library's form."""
    make = {"polars Series": lambda y: pl.Series("y", y), "List": pa.array}.get(form)
    return tuple(make(y) if make and isinstance(y, np.ndarray) and y.ndim == 1 else y for y in rest)


def near(got: np.ndarray, expected: np.ndarray, values: np.ndarray) -> bool:
    """Whether two products agree: n terms in another order, each side rounded once.

    Sums of n products are off by at most n eps times n times the largest product; Euclidean
    distances by 2**-36 more, where they come from products.
    """
    n = max(values.shape)
    size = n * float(np.abs(values.astype("f8")).max() + 1) ** 2
    off = 2 * (n * np.finfo(got.dtype).eps + 2.0**-36) * size
    return np.allclose(got, expected, 0, off, equal_nan=True)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2", "u8"])
@pytest.mark.parametrize("name", ra.list_functions())
def test_same_bits_from_every_form(name, dtype):
    function = ra.get_function(name)
    shapes = SHAPES if dtype in ("f4", "f8") else SHAPES[:3]
    # A product of rows with each other has the square of them.
    for shape in ((1, 1), (7, 3), (60, 5)) if name in PRODUCTS else shapes:
        values = numbers(shape, dtype, name)
        for rest, options in calls(name, values):
            if shape == (1, 1) and any(isinstance(y, np.ndarray) for y in rest):
                continue
            expected = values_of(function(FORMS["FixedSizeList"](values), *rest, **options))
            for form, make in FORMS.items():
                got = values_of(function(make(values), *as_other(rest, form), **options))
                assert got.shape == expected.shape, (form, shape, options)
                if name in PRODUCTS:
                    assert near(got, expected, values), (form, shape, options)
                else:
                    assert bits(got) == bits(expected), (form, shape, options)


def test_same_bits_for_any_number_of_threads():
    values = np.random.default_rng(4).standard_normal((300_000, 8)).astype("f4")
    calls = [(name, {"axis": axis}) for name in ("sum", "var", "norm") for axis in (None, 0, 1)]
    calls += [("normalize", {}), ("standardize", {}), ("softmax", {})]
    before = ra.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 8):
            ra.set_num_threads(threads)
            results.append(tuple(bits(getattr(ra, name)(values, **o)) for name, o in calls))
    finally:
        ra.set_num_threads(before)
    assert len(set(results)) == 1
