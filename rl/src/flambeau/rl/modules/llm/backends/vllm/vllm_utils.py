"""Process groups between a training process and engines, outside of the default group of either."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

__all__ = ["get_open_port", "stateless_init_process_group", "stateless_init_process_group_async"]


def get_open_port() -> int:
    """A port that no process listens at."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def stateless_init_process_group(
    master_address: str | None, master_port: str | int | None, rank: int, world_size: int, device: Any = None
) -> Any:
    """A communicator of NCCL beside the default process group.

    Args:
        master_address: of rank 0; "localhost" by default.
        master_port: likewise; a free one by default, which the others must be told.
        rank: of this process.
        world_size: how many processes there are.
        device: of this process; the current GPU by default.

    Returns:
        vLLM's `PyNcclCommunicator`, with `broadcast(tensor, src)`.

    Raises:
        ImportError: vLLM is not installed.
    """
    import torch

    from flambeau.rl.modules.llm.backends.vllm.base import imported_vllm

    imported_vllm()
    from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
    from vllm.distributed.utils import StatelessProcessGroup

    group = StatelessProcessGroup.create(
        host=master_address or "localhost", port=int(master_port or get_open_port()), rank=rank, world_size=world_size
    )
    return PyNcclCommunicator(group, device=torch.device("cuda") if device is None else device)


async def stateless_init_process_group_async(
    master_address: str | None, master_port: str | int | None, rank: int, world_size: int, device: Any
) -> Any:
    """As `stateless_init_process_group`, in a thread, so that an event loop goes on while the others join."""
    return await asyncio.to_thread(stateless_init_process_group, master_address, master_port, rank, world_size, device)
