"""Colours of terminals; empty where output is none."""

from __future__ import annotations

import os
import sys

__all__ = ["BLUE", "ENDC", "GRAY", "GREEN", "ORANGE", "wants_colors"]


def wants_colors() -> bool:
    """Whether output is a terminal whose user wants colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _code(number: int) -> str:
    return f"\033[{number}m" if wants_colors() else ""


GREEN = _code(92)
ORANGE = _code(38) and "\033[38:5:208m"
BLUE = _code(94)
GRAY = _code(2)
ENDC = _code(0)
