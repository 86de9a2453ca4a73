"""Names that schedulers accept."""

from __future__ import annotations

import re

__all__ = ["normalize_str"]


def normalize_str(data: str) -> str:
    """A lower-case name of letters, digits and hyphens that starts with none of the last; others are left out.

    Example:
        >>> normalize_str("My_Job 1")
        'myjob1'
    """
    return re.sub(r"[^a-z0-9-]", "", data.lower()).lstrip("-")
