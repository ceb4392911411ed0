"""Medians, spreads and confidence intervals, without assumptions on how noise is distributed."""

import math
from collections.abc import Sequence
from statistics import median

__all__ = ["MIN_ROUNDS", "geometric_mean", "median", "median_interval", "quartiles", "verdict"]

#: The fewest values from which a 95 % interval of the median can be given is six.
MIN_ROUNDS = 7


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Give the first and third quartile, interpolated as NumPy does."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = math.ceil(place)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    return at(0.25), at(0.75)


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Give a confidence interval of the median from order statistics.

    The number of values below the true median is binomial, whatever their distribution, so the
    j-th smallest and the j-th largest enclose it with a probability that is known exactly. With
    fewer than six values no pair reaches 95 %; the smallest and the largest are given then.

    Examples
    --------
    >>> median_interval(range(1, 11))  # j = 2: 97.9 %
    (2, 9)
    """
    ordered = sorted(values)
    n = len(ordered)
    tail = 0.0  # probability that at most `rank` of n values lie below the median
    rank = 0
    for rank in range(n // 2):
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > 1 - confidence:
            break
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[n - 1 - rank]


def verdict(low: float, high: float) -> str:
    """Name what an interval of ratios says: an interval that holds 1.0 is a tie, not a win."""
    if low > 1.0:
        return "faster"
    return "slower" if high < 1.0 else "tie"


def geometric_mean(ratios: Sequence[float]) -> float:
    """Give the geometric mean, which is the mean that fits ratios.

    Examples
    --------
    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
