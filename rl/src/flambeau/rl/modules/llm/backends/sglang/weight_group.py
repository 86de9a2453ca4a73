"""The trainer's end of the process group by which servers get weights."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from torch import distributed as _distributed

__all__ = ["trainer_group"]

distributed: Any = _distributed  # stores and backends are not among its typed names


def trainer_group(address: str, port: int, world_size: int, name: str) -> Any:
    """A group of NCCL beside the default one, as rank 0.

    Args:
        address: this host.
        port: where the others come.
        world_size: trainer and workers.
        name: of the group, as the workers name it.
    """
    store = distributed.TCPStore(
        address, port, world_size, is_master=True, timeout=timedelta(minutes=5), wait_for_workers=False
    )
    prefixed = distributed.PrefixStore(name, store)
    group = distributed.ProcessGroup(prefixed, 0, world_size)
    backend = distributed.ProcessGroupNCCL(prefixed, 0, world_size)
    group._register_backend(torch.device("cuda"), distributed.ProcessGroup.BackendType.NCCL, backend)
    return group
