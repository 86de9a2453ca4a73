"""Start the processes of an example on this machine, joined by gloo; on several machines `torchrun` does it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(function: Callable[..., Any], count: int, *arguments: Any) -> Any:
    """Call `function(*arguments)` in so many processes, and give back what the first one returns.

    Args:
        function: of a module, by its name.
        count: processes.
        arguments: that can be pickled.
    """
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_process, (count, folder, function, arguments), nprocs=count)
        return torch.load(Path(folder) / "result", weights_only=True)


def _process(rank: int, count: int, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", count)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count)
    result = function(*arguments)
    if rank == 0:
        torch.save(result, Path(folder) / "result")
    dist.barrier()
    dist.destroy_process_group()
