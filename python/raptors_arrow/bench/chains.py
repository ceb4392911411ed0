"""Chains of functions, which we run in one pass: ours, the right answers, and the peers' jobs.

Steps round to the element type, so a result is off by some roundings of what it is made of, and not
of itself: the answers give these as a multiple of the result.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

import raptors_arrow as ra
from raptors_arrow.bench.inputs import Inputs
from raptors_arrow.expr import evaluate_all

if TYPE_CHECKING:
    from raptors_arrow.bench.functions import Answer
    from raptors_arrow.bench.numpy_jobs import Call, Jobs, Maker

__all__ = ["STATISTICS", "answers", "jax_chains", "numexpr_chains", "numpy_chains", "ours"]

#: The statistics of columns that are computed at once.
STATISTICS = ("mean", "std", "min", "max")
LOW, HIGH = 0.5, 3.0

X: Any = ra.col("x")
W = ra.col("w")


def _expressions(i: Inputs) -> dict[str, Sequence[Any]]:
    steps = X.scale(i.factor).add(i.row_arrow).clip(LOW, HIGH)
    return {
        "steps_mean": [steps.multiply(W, axis=0).mean(axis=1)],
        "unit_dot": [X.normalize().dot(i.row_arrow)],
        "centred_squares": [X.subtract(i.row_arrow).square().sum(axis=0)],
        "half_norm": [X.cast("float16").scale(i.factor).norm(axis=1)],
        "softmax_max": [X.softmax().max(axis=1)],
        "statistics": [getattr(X, name)(axis=0) for name in STATISTICS],
    }


def ours(name: str) -> Callable[[Inputs], "Call"]:
    """Give the maker of our call."""

    def make(i: Inputs) -> "Call":
        columns = {"x": i.arrow, "w": i.weights_arrow}
        expressions = _expressions(i)[name]
        if len(expressions) == 1:
            return lambda: evaluate_all(expressions, {}, columns.__getitem__)[0]
        return lambda: np.concatenate(evaluate_all(expressions, {}, columns.__getitem__))

    return make


def _off(ref: Any, roundings: Any, n: int = 0, s: Any = 0.0) -> "Answer":
    """Give the answer that may be off by so many roundings, in units of the last place of 1."""
    from raptors_arrow.bench.functions import Answer

    return Answer(ref, float(np.max(roundings / np.abs(ref))), n, s)


def answers(name: str) -> Callable[[Inputs], "Answer"]:
    """Give what makes the right answer."""
    from raptors_arrow.bench.functions import Answer

    def steps_mean(i: Inputs) -> Answer:
        x, row, w = (part.astype("f8") for part in (i.x, i.row, i.weights))
        scaled = x * i.factor
        kept = np.clip(scaled + row, LOW, HIGH)
        ref = (kept * w[:, None]).mean(axis=1)
        # Scaled, added and multiplied: three roundings of at most the largest on the way.
        return _off(ref, 3 * np.abs(w) * np.abs(scaled).max(), i.width, np.abs(ref))

    def unit_dot(i: Inputs) -> Answer:
        x, v = i.x.astype("f8"), i.row.astype("f8")
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        s = np.abs(unit) @ np.abs(v)
        return _off(unit @ v, 2 * s, i.width, s)

    def centred_squares(i: Inputs) -> Answer:
        ref = ((i.x.astype("f8") - i.row) ** 2).sum(axis=0)
        return Answer(ref, 4, i.rows, ref)

    def half_norm(i: Inputs) -> Answer:
        half = i.x.astype("f2").astype("f8") * float(np.float16(i.factor))
        ref = np.linalg.norm(half, axis=1)
        # Two roundings to float16, whose last place is 2^13 of float32's and 2^42 of float64's.
        places = float(np.finfo("f2").eps / np.finfo(i.x.dtype).eps)
        return Answer(ref, 3 * places, i.width, places * ref)

    def softmax_max(i: Inputs) -> Answer:
        x = i.x.astype("f8")
        e = np.exp(x - x.max(axis=1, keepdims=True))
        ref = 1 / e.sum(axis=1)
        return Answer(ref, 4 + float(np.ptp(x)), i.width, ref)

    def statistics(i: Inputs) -> Answer:
        x = i.x.astype("f8")
        mean, std = x.mean(axis=0), x.std(axis=0)
        far = np.abs(x).mean(axis=0)
        ref = np.concatenate([mean, std, x.min(axis=0), x.max(axis=0)])
        return Answer(ref, 2, i.rows, np.concatenate([far, std + far, 0 * far, 0 * far]))

    local: dict[str, Callable[[Inputs], Answer]] = {
        "steps_mean": steps_mean,
        "unit_dot": unit_dot,
        "centred_squares": centred_squares,
        "half_norm": half_norm,
        "softmax_max": softmax_max,
        "statistics": statistics,
    }
    return local[name]


def _arrays(np: Any) -> dict[str, Callable[..., Any]]:
    """Give the chains of a library that has NumPy's functions."""

    def steps_mean(x: Any, f: Any, row: Any, w: Any) -> Any:
        return (np.clip(x * f + row, LOW, HIGH) * w[:, None]).mean(axis=1)

    def unit_dot(x: Any, f: Any, row: Any, w: Any) -> Any:
        return (x / np.linalg.norm(x, axis=1, keepdims=True)) @ row

    def centred_squares(x: Any, f: Any, row: Any, w: Any) -> Any:
        return np.square(x - row).sum(axis=0)

    def half_norm(x: Any, f: Any, row: Any, w: Any) -> Any:
        return np.linalg.norm(x.astype("float16") * f.astype("float16"), axis=1)

    def softmax_max(x: Any, f: Any, row: Any, w: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return (e / e.sum(axis=1, keepdims=True)).max(axis=1)

    def statistics(x: Any, f: Any, row: Any, w: Any) -> Any:
        return np.concatenate([getattr(x, name)(axis=0) for name in STATISTICS])

    chains = (steps_mean, unit_dot, centred_squares, half_norm, softmax_max, statistics)
    return {chain.__name__: chain for chain in chains}


def _given(i: Inputs) -> tuple[Any, ...]:
    return i.x, i.dtype.type(i.factor), i.row, i.weights


def numpy_chains() -> "Jobs":
    """Give NumPy's way of each chain."""

    def job(chain: Callable[..., Any]) -> "Maker":
        return lambda i: lambda: chain(*_given(i))

    return {name: job(chain) for name, chain in _arrays(np).items()}


def numexpr_chains() -> "Jobs":
    """Give numexpr's way of the chains that it can write: it evaluates, and NumPy reduces."""
    ne = import_module("numexpr")
    clipped = f"where(x * f + row < {LOW}, low, where(x * f + row > {HIGH}, high, x * f + row))"

    def steps_mean(i: Inputs) -> "Call":
        kind = i.dtype.type
        values = {"x": i.x, "f": kind(i.factor), "row": i.row, "w": i.weights[:, None]}
        values |= {"low": kind(LOW), "high": kind(HIGH)}
        return lambda: ne.evaluate(f"({clipped}) * w", values).mean(axis=1)

    def centred_squares(i: Inputs) -> "Call":
        values = {"x": i.x, "row": i.row}
        return lambda: ne.evaluate("sum((x - row) ** 2, axis=0)", values)

    return {"steps_mean": steps_mean, "centred_squares": centred_squares}


def jax_chains() -> "Jobs":
    """Give JAX's way of each chain, compiled."""
    jax, jnp = import_module("jax"), import_module("jax.numpy")

    def job(chain: Callable[..., Any]) -> "Maker":
        def make(i: Inputs) -> "Call":
            compiled = jax.jit(chain)
            names = ("x", "factor", "row", "weights")
            given = [
                i.keep(f"jax_{name}", lambda part=part: jax.device_put(part))  # type: ignore[misc]
                for name, part in zip(names, _given(i), strict=True)
            ]
            return lambda: jax.block_until_ready(compiled(*given))

        return make

    return {name: job(chain) for name, chain in _arrays(jnp).items()}
