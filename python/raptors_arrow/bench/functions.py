"""What each cell's function is: our call, the right answer, and the bytes that must move.

A result is right if it differs from a float64 reference by no more than

    c u |ref| + 8 √n v s

u is the unit roundoff of the element type and c the number of roundings after the accumulation;
n additions with unit roundoff v add √n v s with high probability (Higham and Mary, 2019), s being
the sum of magnitudes, and 8 makes "high" practically certain. v is that of float64 for us, who
accumulate in it, and that of the element type for peers. A single IEEE operation, and a choice
among elements, have c = n = 0: there is one right result, which is compared as it stands.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import raptors_arrow as ra
from raptors_arrow.bench import chains
from raptors_arrow.bench.answers import AXES, Answer, Function, Values, positive
from raptors_arrow.bench.cells import Cell
from raptors_arrow.bench.engines import engine_functions
from raptors_arrow.bench.groups import group_functions
from raptors_arrow.bench.inputs import QUERIES, TOP, Inputs
from raptors_arrow.bench.nulls import null_functions

__all__ = ["FUNCTIONS", "Answer", "Function"]


def _all(cell: Cell) -> int:
    return cell.elements


def _rows(cell: Cell) -> int:
    return cell.rows


def _width(cell: Cell) -> int:
    return cell.width


def _call(name: str, *parts: str, **options: Any) -> Callable[[Inputs], Callable[[], Any]]:
    """Call a function of ours on named parts of the inputs."""
    return lambda i: partial(getattr(ra, name), *(getattr(i, part) for part in parts), **options)


def _summed(x: Values, axis: int | None) -> int:
    return x.size if axis is None else x.shape[axis]


def _sum(i: Inputs, axis: int | None) -> Answer:
    magnitudes = np.abs(i.x).sum(axis=axis, dtype="f8")
    return Answer(i.x.sum(axis=axis, dtype="f8"), 1, _summed(i.x, axis), magnitudes)


def _mean(i: Inputs, axis: int | None) -> Answer:
    total = _sum(i, axis)
    return Answer(total.ref / total.n, 2, total.n, total.s / total.n)


def _chosen(name: str) -> Callable[[Inputs, int | None], Answer]:
    return lambda i, axis: Answer(getattr(i.x, name)(axis=axis))


def _along(
    answer: Callable[[Inputs, int | None], Answer], axis: int | None
) -> Callable[[Inputs], Answer]:
    return lambda i: answer(i, axis)


def _reductions() -> dict[str, Function]:
    answers: dict[str, Callable[[Inputs, int | None], Answer]] = {"sum": _sum, "mean": _mean}
    answers |= {name: _chosen(name) for name in ("min", "max", "argmin", "argmax")}
    table = {}
    for name, answer in answers.items():
        for suffix, (axis, results) in AXES.items():
            options = {} if axis is None else {"axis": axis}
            table[name + suffix] = Function(
                name, _call(name, "arrow", **options), _along(answer, axis), results
            )
    return table


def _wide(values: Values) -> Values:
    return values.astype("f8")


def _dot(i: Inputs) -> Answer:
    x, y = _wide(i.x), _wide(i.other)
    return Answer(
        np.einsum("ij,ij->i", x, y), 1, i.width, np.einsum("ij,ij->i", np.abs(x), np.abs(y))
    )


def _dot_vector(i: Inputs) -> Answer:
    x, y = _wide(i.x), _wide(i.row)
    return Answer(x @ y, 1, i.width, np.abs(x) @ np.abs(y))


def _cosine(i: Inputs) -> Answer:
    dot = _dot_vector(i)
    scale = np.linalg.norm(_wide(i.x), axis=1) * np.linalg.norm(_wide(i.row))
    # The two norms add relative errors of their own.
    return Answer(dot.ref / scale, 3, i.width, dot.s / scale + np.abs(dot.ref / scale))


def _distance(i: Inputs) -> Answer:
    far = np.linalg.norm(_wide(i.x) - _wide(i.row), axis=1)
    return Answer(far, 2, i.width, far)


def _normalize(i: Inputs) -> Answer:
    x = _wide(i.x)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return Answer(unit, 2, i.width, np.abs(unit))


def _standardize(i: Inputs) -> Answer:
    x = _wide(i.x)
    mean, std = x.mean(axis=0), x.std(axis=0)
    z = (x - mean) / std
    # An error in the mean shifts all of a column; one in its spread scales it.
    return Answer(z, 3, i.rows, np.abs(x).mean(axis=0) / std + np.abs(z))


def _softmax(i: Inputs) -> Answer:
    x = _wide(i.x)
    x -= x.max(axis=1, keepdims=True)
    # An error of the exponent, at most u times its size, is a relative error of the result.
    c = 4 + float(np.abs(x).max())
    e = np.exp(x)
    p = e / e.sum(axis=1, keepdims=True)
    return Answer(p, c, i.width, p)


def _std(i: Inputs) -> Answer:
    x = _wide(i.x)
    std = x.std(axis=0)
    return Answer(std, 2, i.rows, std + np.abs(x).mean(axis=0))


def _norm(i: Inputs) -> Answer:
    norm = np.linalg.norm(_wide(i.x), axis=1)
    return Answer(norm, 2, i.width, norm)


def _top(i: Inputs) -> Answer:
    scores = _wide(i.queries) @ _wide(i.x).T
    best = -np.sort(-scores, axis=1)[:, :TOP]
    # Indices come; scores are compared, since rounding may swap two that are nearly equal.
    return Answer(
        best,
        1,
        i.width,
        float(np.linalg.norm(i.queries, axis=1).max() * np.linalg.norm(i.x, axis=1).max()),
        lambda got: np.take_along_axis(scores, got.reshape(best.shape).astype("i8"), axis=1),
    )


def _pairwise(i: Inputs) -> Answer:
    x, q = _wide(i.x), _wide(i.queries)
    xx, qq = (x * x).sum(axis=1), (q * q).sum(axis=1)
    far = np.sqrt(xx[:, None] + qq - 2 * (x @ q.T))
    # Peers expand the square, whose terms are larger than their sum; d√t = dt / 2√t.
    return Answer(far, 2, i.width, (xx[:, None] + qq) / far)


def _flags(cell: Cell) -> int:
    # A byte for each element, counted in elements.
    return cell.elements // cell.itemsize


def _elementary() -> dict[str, Function]:
    def of(
        name: str, answer: Callable[[Inputs], Answer], *args: Any, results: Any = _all
    ) -> Function:
        call = getattr(ra, name)
        return Function(
            name, lambda i: partial(call, i.arrow, *args), answer, results, elementwise=True
        )

    return {
        # NumPy's of float32 are off by 2.52 and 3.83 units in the last place, each 2u at most.
        "exp": of("exp", lambda i: Answer(np.exp(_wide(i.x)), 6)),
        "log": Function(
            "log",
            lambda i: partial(ra.log, i.keep("log", lambda: i.arrow_of(positive(i)))),
            lambda i: Answer(np.log(_wide(positive(i))), 8),
            _all,
            elementwise=True,
        ),
        "power": of("power", lambda i: Answer(_wide(i.x) ** 3, 4), 3),
        "round": of("round", lambda i: Answer(np.round(i.x))),
        "sign": of("sign", lambda i: Answer(np.sign(i.x))),
        "greater": of("greater", lambda i: Answer(i.x > 0.5), 0.5, results=_flags),
        "isnan": of("isnan", lambda i: Answer(np.isnan(i.x)), results=_flags),
        **{
            f"median{suffix}": Function(
                "median",
                _call("median", "arrow", axis=axis),
                _along(lambda i, axis: Answer(np.median(_wide(i.x), axis=axis), 1), axis),
                results,
            )
            for suffix, (axis, results) in AXES.items()
        },
    }


FUNCTIONS: dict[str, Function] = (
    _reductions()
    | null_functions()
    | engine_functions()
    | group_functions()
    | _elementary()
    | {
        "broadcast_add": Function(
            "broadcast_add",
            _call("broadcast_add", "arrow", "row_arrow"),
            lambda i: Answer(i.x + i.row),
            _all,
            elementwise=True,
        ),
        "scale": Function(
            "scale",
            _call("scale", "arrow", "factor"),
            lambda i: Answer(i.x * i.factor),
            _all,
            elementwise=True,
        ),
        "dot": Function("dot", _call("dot", "arrow", "other_arrow"), _dot, _rows, matrices=2),
        "dot_vector": Function("dot", _call("dot", "arrow", "row_arrow"), _dot_vector, _rows),
        "cosine_similarity": Function(
            "cosine_similarity", _call("cosine_similarity", "arrow", "row_arrow"), _cosine, _rows
        ),
        "l2_distance": Function(
            "l2_distance", _call("l2_distance", "arrow", "row_arrow"), _distance, _rows
        ),
        "normalize": Function(
            "normalize", _call("normalize", "arrow"), _normalize, _all, elementwise=True
        ),
        "standardize": Function(
            "standardize", _call("standardize", "arrow"), _standardize, _all, elementwise=True
        ),
        "softmax": Function("softmax", _call("softmax", "arrow"), _softmax, _all, elementwise=True),
        "std_axis0": Function("std", _call("std", "arrow", axis=0), _std, _width),
        "norm_axis1": Function("norm", _call("norm", "arrow", axis=1), _norm, _rows),
        "top_k": Function(
            "top_k",
            _call("top_k", "arrow", "queries_arrow", k=TOP, metric="dot"),
            _top,
            lambda cell: QUERIES * TOP,
        ),
        **{
            name: Function("lazy", chains.ours(name), chains.answers(name), results)
            for name, results in (
                ("steps_mean", _rows),
                ("unit_dot", _rows),
                ("centred_squares", _width),
                ("half_norm", _rows),
                ("softmax_max", _rows),
                ("statistics", lambda cell: len(chains.STATISTICS) * cell.width),
            )
        },
        "pairwise": Function(
            "pairwise",
            _call("pairwise", "arrow", "queries_arrow", metric="l2"),
            _pairwise,
            lambda cell: QUERIES * cell.rows,
        ),
    }
)
