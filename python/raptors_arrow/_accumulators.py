"""Accumulators out of pickles."""

from typing import Any

from raptors_arrow._native import Accumulator

__all__ = ["restored"]


def restored(
    made_of: tuple[Any, tuple[Any, ...], dict[str, Any]] | None, state: Any, kind: Any
) -> Accumulator:
    """Make an accumulator anew, or of its state."""
    if made_of is None:
        return Accumulator.from_state(state, kind=kind)
    function, args, options = made_of
    return Accumulator(function, *args, **options)
