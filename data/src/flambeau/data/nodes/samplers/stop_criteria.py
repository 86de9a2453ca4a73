"""When a mixture of nodes ends."""

from __future__ import annotations


class StopCriteria:
    """When a mixture of nodes ends; what an exhausted node does until then.

    Attributes:
        CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED: when the last has been read through; the others begin again until then.
        ALL_DATASETS_EXHAUSTED: when all have been read through, once each.
        FIRST_DATASET_EXHAUSTED: when the first has been read through.
        CYCLE_FOREVER: never; each begins again.
    """

    CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED = "CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED"
    ALL_DATASETS_EXHAUSTED = "ALL_DATASETS_EXHAUSTED"
    FIRST_DATASET_EXHAUSTED = "FIRST_DATASET_EXHAUSTED"
    CYCLE_FOREVER = "CYCLE_FOREVER"
