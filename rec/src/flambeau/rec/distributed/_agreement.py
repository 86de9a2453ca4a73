"""Whether all processes mean the same: what they disagree about would make them wait for each other in vain."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
import torch.distributed as dist

from flambeau.rec.distributed._failures import waited_for
from flambeau.rec.distributed.types import ParameterSharding
from flambeau.rec.errors import OptionError

__all__ = ["check_same_plan"]


def check_same_plan(plan: Mapping[str, ParameterSharding], pg: dist.ProcessGroup | None, device: torch.device) -> None:
    """Look whether all processes have the same plan for the tables of a module; all of them have to call this.

    Args:
        plan: where each table goes, in the order in which it is sent.
        pg: who takes part.
        device: of what is exchanged, a few bytes.

    Raises:
        OptionError: they have not; the message names a table, and the processes that differ from the first one.
        LostProcessError: some did not call this.
    """
    if pg is None or dist.get_world_size(pg) == 1 or device.type == "meta" or dist.get_backend(pg) == "fake":
        return
    told = {name: _told(sharding) for name, sharding in plan.items()}
    digest = hashlib.sha256(repr(list(told.items())).encode()).digest()
    mine = torch.frombuffer(bytearray(digest), dtype=torch.uint8).to(device)
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size(pg))]
    waited_for(lambda: dist.all_gather(found, mine, group=pg), pg, "a comparison of plans (all-gather)")
    if all(bool((one == mine).all()) for one in found):
        return
    plans: list[dict[str, str]] = [{} for _ in found]
    waited_for(lambda: dist.all_gather_object(plans, told, group=pg), pg, "a comparison of plans (all-gather)")
    ranks = dist.get_process_group_ranks(pg)
    differing = [
        rank for rank, other in zip(ranks, plans, strict=True) if list(other.items()) != list(plans[0].items())
    ]
    raise OptionError(
        f"processes have different plans: {differing} differ from process {ranks[0]}, {_difference(plans)}. Make the "
        "plan on one process and send it to the others, as EmbeddingShardingPlanner.collective_plan does."
    )


def _told(sharding: ParameterSharding) -> str:
    shards = getattr(sharding.sharding_spec, "shards", [])
    places = [(list(one.shard_offsets), list(one.shard_sizes), str(one.placement)) for one in shards]
    return f"{sharding.sharding_type} by {sharding.compute_kernel} on {sharding.ranks}: {places}"


def _difference(plans: list[dict[str, str]]) -> str:
    first = plans[0]
    for other in plans[1:]:
        for name in [*first, *other]:
            if first.get(name) != other.get(name):
                return f"as of table {name!r}: {first.get(name, 'not there')}, or {other.get(name, 'not there')}"
    return f"which have tables in the orders {[list(plan) for plan in plans]}"
