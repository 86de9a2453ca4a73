"""Names, numbers and types of the columns of Criteo's files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flambeau.rec.datasets.utils import safe_cast

__all__ = [
    "CAT_FEATURE_COUNT",
    "COLUMN_TYPE_CASTERS",
    "DAYS",
    "DEFAULT_CAT_NAMES",
    "DEFAULT_COLUMN_NAMES",
    "DEFAULT_INT_NAMES",
    "DEFAULT_LABEL_NAME",
    "FREQUENCY_THRESHOLD",
    "INT_FEATURE_COUNT",
    "TOTAL_TRAINING_SAMPLES",
    "map_row",
]

FREQUENCY_THRESHOLD = 3
INT_FEATURE_COUNT = 13
CAT_FEATURE_COUNT = 26
DAYS = 24
TOTAL_TRAINING_SAMPLES = 4_195_197_692
"""Rows of the Terabyte set without its last day."""
DEFAULT_LABEL_NAME = "label"
DEFAULT_INT_NAMES = [f"int_{at}" for at in range(INT_FEATURE_COUNT)]
DEFAULT_CAT_NAMES = [f"cat_{at}" for at in range(CAT_FEATURE_COUNT)]
DEFAULT_COLUMN_NAMES = [DEFAULT_LABEL_NAME, *DEFAULT_INT_NAMES, *DEFAULT_CAT_NAMES]


def _whole(value: str | int) -> int:
    return safe_cast(value, int, 0)  # type: ignore[return-value]


def _text(value: str | int) -> str:
    return safe_cast(value, str, "")  # type: ignore[return-value]


COLUMN_TYPE_CASTERS: list[Callable[[str | int], int | str]] = [
    *[_whole] * (1 + INT_FEATURE_COUNT),
    *[_text] * CAT_FEATURE_COUNT,
]
"""Makes a value of what stands in the file, for each column."""


def map_row(example: Sequence[str]) -> dict[str, int | str]:
    """A row as a dictionary by the columns' names; a row of a test set has no label.

    The last column comes first, as upstream has them.
    """
    columns = zip(reversed(DEFAULT_COLUMN_NAMES), reversed(COLUMN_TYPE_CASTERS), reversed(example), strict=False)
    return {name: cast(value) for name, cast, value in columns}
