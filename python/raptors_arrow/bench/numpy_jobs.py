"""NumPy's jobs, the yardstick of most bars; ``peers`` says what a job is."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from raptors_arrow.bench.answers import positive
from raptors_arrow.bench.chains import numpy_chains
from raptors_arrow.bench.inputs import TOP, Inputs

__all__ = ["AXES", "REDUCTIONS", "Call", "Jobs", "Maker", "numpy_jobs", "numpy_out_jobs"]

Call = Callable[[], Any]
Maker = Callable[[Inputs], Call | None]
Jobs = Mapping[str, Maker]

AXES = {"": None, "_axis0": 0, "_axis1": 1}
REDUCTIONS = ("sum", "mean", "min", "max", "argmin", "argmax")


def numpy_jobs() -> Jobs:
    """Give NumPy's way of each function."""

    def reduce(name: str, axis: int | None) -> Maker:
        return lambda i: partial(getattr(i.x, name), axis=axis)

    def normalize(x: Any) -> Any:
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def standardize(x: Any) -> Any:
        return (x - x.mean(axis=0)) / x.std(axis=0)

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        e /= e.sum(axis=1, keepdims=True)
        return e

    def cosine(x: Any, v: Any) -> Any:
        return (x @ v) / (np.linalg.norm(x, axis=1) * np.linalg.norm(v))

    def top(x: Any, queries: Any) -> Any:
        scores = queries @ x.T
        some = np.argpartition(scores, -TOP, axis=1)[:, -TOP:]
        order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1)
        return np.take_along_axis(some, order, axis=1)

    def pairwise(x: Any, y: Any) -> Any:
        xx, yy = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
        return np.sqrt(xx[:, None] + yy - 2 * (x @ y.T))

    jobs: dict[str, Maker] = {
        name + suffix: reduce(name, axis) for name in REDUCTIONS for suffix, axis in AXES.items()
    }
    jobs |= {
        f"median{suffix}": lambda i, axis=axis: partial(np.median, i.x, axis=axis)  # type: ignore[misc]
        for suffix, axis in AXES.items()
    }
    return jobs | {
        "exp": lambda i: partial(np.exp, i.x),
        "log": lambda i: partial(np.log, positive(i)),
        "power": lambda i: partial(np.power, i.x, 3),
        "round": lambda i: partial(np.round, i.x),
        "sign": lambda i: partial(np.sign, i.x),
        "greater": lambda i: partial(np.greater, i.x, 0.5),
        "isnan": lambda i: partial(np.isnan, i.x),
        "broadcast_add": lambda i: partial(np.add, i.x, i.row),
        "scale": lambda i: partial(np.multiply, i.x, i.factor),
        "dot": lambda i: partial(np.einsum, "ij,ij->i", i.x, i.other),
        "dot_vector": lambda i: partial(np.matmul, i.x, i.row),
        "cosine_similarity": lambda i: partial(cosine, i.x, i.row),
        "l2_distance": lambda i: lambda: np.linalg.norm(i.x - i.row, axis=1),
        "normalize": lambda i: partial(normalize, i.x),
        "standardize": lambda i: partial(standardize, i.x),
        "softmax": lambda i: partial(softmax, i.x),
        "std_axis0": lambda i: partial(i.x.std, axis=0),
        "norm_axis1": lambda i: partial(np.linalg.norm, i.x, axis=1),
        "top_k": lambda i: partial(top, i.x, i.queries),
        "pairwise": lambda i: partial(pairwise, i.x, i.queries),
        **numpy_chains(),
    }


def numpy_out_jobs() -> Jobs:
    """Give NumPy's way into an array that is there already, where it can."""

    def reduce(name: str, axis: int) -> Maker:
        def make(i: Inputs) -> Call:
            call = partial(getattr(i.x, name), axis=axis)
            return partial(call, out=np.empty_like(call()))

        return make

    # Over the whole matrix the result is one number, and `out` saves nothing.
    jobs: dict[str, Maker] = {
        f"{name}_axis{axis}": reduce(name, axis) for name in REDUCTIONS for axis in (0, 1)
    }
    return jobs | {
        "broadcast_add": lambda i: partial(np.add, i.x, i.row, out=np.empty_like(i.x)),
        "scale": lambda i: partial(np.multiply, i.x, i.factor, out=np.empty_like(i.x)),
        "std_axis0": lambda i: partial(i.x.std, axis=0, out=np.empty_like(i.row)),
        "dot_vector": lambda i: partial(np.matmul, i.x, i.row, out=np.empty_like(i.x[:, 0])),
    }
