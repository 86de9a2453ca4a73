"""Looking for mistakes in pipelines."""

from __future__ import annotations

from typing import Any

from flambeau.data.datapipes._graph import sources
from flambeau.data.datapipes.iter.sharding import is_sharding


def check_shuffle_before_sharding(datapipe: Any) -> bool:
    """Whether every sharding sees shuffled samples, so that a worker does not get the same ones in every pass.

    Args:
        datapipe: the last pipe.

    Returns:
        False when a `sharding_filter` has no `shuffle` before it; True without any sharding.
    """
    if is_sharding(datapipe):
        return all(_shuffled(source) for source in sources(datapipe))
    return all(check_shuffle_before_sharding(source) for source in sources(datapipe))


def _shuffled(pipe: Any) -> bool:
    if callable(getattr(type(pipe), "set_shuffle", None)):
        return True
    behind = sources(pipe)
    return bool(behind) and all(_shuffled(source) for source in behind)
