"""The programs of `golden/tensordict*.json`: `flambeau.core.testing.programs` with our name of upstream's package."""

from __future__ import annotations

from typing import Any

from flambeau.core.testing import programs
from flambeau.core.testing.programs import differs as differs

ROOTS = {"tensordict": "flambeau.data.tensordict"}


def run_case(code: str, prelude: str) -> Any:
    """The description of what a program leaves in `result`, or of the exception that it raises."""
    return programs.run_case(code, prelude, ROOTS)
