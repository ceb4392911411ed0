"""Warnings that never keep the package, or another one, from being imported."""

import sys
import warnings

from raptors_arrow.errors import RaptorsWarning


def warn(text: str) -> None:
    """Warn; where warnings are errors (``-W error``), write the text to stderr instead."""
    try:
        warnings.warn(text, RaptorsWarning, stacklevel=3)
    except RaptorsWarning as warning:
        print(f"RaptorsWarning: {warning}", file=sys.stderr)
