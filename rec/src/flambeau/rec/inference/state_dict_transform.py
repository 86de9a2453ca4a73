"""State dicts of sharded models brought together for models that are not."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.rec.errors import OptionError

__all__ = ["state_dict_all_gather_keys", "state_dict_gather", "state_dict_to_device"]


def _is_sharded(value: Any) -> bool:
    return hasattr(value, "local_shards") and hasattr(value, "gather")


def state_dict_gather(src: dict[str, Any], dst: dict[str, Tensor]) -> None:
    """Copy a state dict whose tensors may be sharded into one whose are not, on process 0.

    Args:
        src: tensors and ShardedTensors. All processes call with the same names.
        dst: where they go, by the same names; read on process 0 alone for what is sharded.

    Raises:
        OptionError: a tensor that `dst` has no place for.
    """
    for name, target in dst.items():
        if name not in src:
            raise OptionError(f"src has no {name!r}, which dst wants; it has {len(src)} entries.")
        value = src[name]
        if _is_sharded(value):
            value.gather(0, target if dist.get_rank() == 0 else None)
        else:
            target.detach().copy_(value.detach())


def state_dict_all_gather_keys(state_dict: dict[str, Any], pg: dist.ProcessGroup) -> list[str]:
    """The names of all processes' state dicts, each once, sorted.

    Args:
        state_dict: this process's.
        pg: of the processes.
    """
    names: list[list[str]] = [[] for _ in range(pg.size())]
    dist.all_gather_object(names, list(state_dict), group=pg)
    return sorted({name for part in names for name in part})


def state_dict_to_device(state_dict: dict[str, Any], pg: dist.ProcessGroup, device: torch.device) -> dict[str, Any]:
    """A state dict on another device.

    Args:
        state_dict: tensors and ShardedTensors.
        pg: of the processes that hold shards.
        device: where tensors and shards go.

    Returns:
        Copies by the same names; what is there already stays as it is.
    """
    moved: dict[str, Any] = {}
    for name in state_dict_all_gather_keys(state_dict, pg):
        value = state_dict.get(name)
        if value is None:
            continue
        moved[name] = _sharded_to(value, pg, device) if _is_sharded(value) else value.to(device)
    return moved


def _sharded_to(value: Any, pg: dist.ProcessGroup, device: torch.device) -> Any:
    from torch.distributed._shard.sharded_tensor.api import ShardedTensor
    from torch.distributed._shard.sharded_tensor.shard import Shard
    from torch.distributed.remote_device import _remote_device

    shards = []
    for shard in value.local_shards():
        metadata = shard.metadata
        place = f"rank:{dist.get_rank(pg)}/{device}"
        shards.append(Shard.from_tensor_and_offsets(shard.tensor.to(device), metadata.shard_offsets, dist.get_rank(pg)))
        shards[-1].metadata.placement = _remote_device(place)
    return ShardedTensor._init_from_local_shards(shards, value.metadata().size, process_group=pg)
