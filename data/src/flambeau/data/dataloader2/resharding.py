"""Continuing the states of some ranks on another number of ranks."""

from __future__ import annotations

import copy
from typing import Any

_WORKERS = "WorkersIterDataPipe"


def reshard(states: list[dict[str, Any]], world_size: int) -> list[dict[str, Any]]:
    """States for another number of ranks, from those of all ranks at the same step.

    Every shard that was being read is read to its end by one of the new ranks; from the next epoch on the data are
    divided among the new ranks as usual. Until then the shards, and so the samples of an epoch, may be spread unevenly.

    Args:
        states: `DataLoader2.state_dict()` of ranks 0, 1, ..., with a `MultiProcessingReadingService` of one worker or
            more.
        world_size: how many ranks go on.

    Returns:
        The states for ranks 0 to `world_size - 1`.

    Raises:
        ValueError: a state has no workers' shards in it.
    """
    if not states or world_size < 1:
        raise ValueError(f"reshard needs a state or more and a world_size >= 1; got {len(states)} and {world_size}.")
    shards = [shard for state in states for shard in _workers(state)["shards"]]
    renewed = []
    for rank in range(world_size):
        state = copy.deepcopy(states[0])
        workers = _workers(state)
        workers["shards"] = shards[rank::world_size]
        workers["turn"] = 0
        renewed.append(state)
    return renewed


def _workers(state: dict[str, Any]) -> dict[str, Any]:
    for record in (state.get("pipeline") or {}).get("pipes", ()):
        if record["pipe"] == _WORKERS and "state" in record:
            if record["state"]["dispatched"] is not None:
                raise ValueError("states with a dispatching process cannot be continued by another number of ranks.")
            return record["state"]  # type: ignore[no-any-return]
    raise ValueError(
        "only states that were taken within an epoch, with a MultiProcessingReadingService of one worker "
        "or more, can be "
        "continued by another number of ranks."
    )
