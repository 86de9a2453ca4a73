"""For programs that torchrun starts: ranks, devices, process groups, and what only one rank does first."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch.distributed as dist

from flambeau.launch.util.cuda import has_cuda_devices

__all__ = [
    "Backend",
    "init_pg",
    "is_local_rank0",
    "is_rank0",
    "local_cuda_device",
    "local_device",
    "local_rank",
    "on_local_rank0_first",
    "on_rank0_first",
    "rank",
    "world_size",
]

Backend = Literal["nccl", "gloo", "auto"]


def local_rank() -> int:
    """This process's number on its machine; 0, with a warning, where torchrun did not start it."""
    if "LOCAL_RANK" not in os.environ:
        warnings.warn(
            "LOCAL_RANK is not set, as torchrun did not start this process; it counts as the first on its machine.",
            stacklevel=2,
        )
    return int(os.environ.get("LOCAL_RANK", "0"))


def local_cuda_device() -> torch.device:
    """The GPU of this process: that of its number on the machine."""
    return torch.device(f"cuda:{local_rank()}")


def local_device() -> torch.device:
    """Where this process computes: its GPU where its process group is NCCL's, or none is there and a GPU is."""
    if dist.is_available() and dist.is_initialized():
        return local_cuda_device() if dist.get_backend() == "nccl" else torch.device("cpu")
    return local_cuda_device() if has_cuda_devices() else torch.device("cpu")


def rank() -> int:
    """This process's number among all; 0, with a warning, without a process group."""
    if not dist.is_initialized():
        warnings.warn("no process group: this process counts as rank 0. `init_pg()` makes one.", stacklevel=2)
        return 0
    return dist.get_rank()


def world_size() -> int:
    """The number of processes; 1, with a warning, without a process group."""
    if not dist.is_initialized():
        warnings.warn("no process group: this process counts as the only one. `init_pg()` makes one.", stacklevel=2)
        return 1
    return dist.get_world_size()


def is_rank0() -> bool:
    """Whether this process is the first of all."""
    return rank() == 0


def is_local_rank0() -> bool:
    """Whether this process is the first on its machine."""
    return local_rank() == 0


def init_pg(backend: Backend = "auto", **kwargs: Any) -> torch.device:
    """Make the process group, once.

    Args:
        backend: "auto" is NCCL where there are GPUs, else Gloo.
        kwargs: for `torch.distributed.init_process_group`.

    Returns:
        Where this process computes; with NCCL it is made the current device.
    """
    if dist.is_initialized():
        warnings.warn(
            f"the process group is there already, with {dist.get_backend()}; it stays as it is.", stacklevel=2
        )
        return local_device()
    if "TORCHELASTIC_RUN_ID" not in os.environ and "MASTER_ADDR" not in os.environ:
        warnings.warn("torchrun did not start this process: the process group has this one alone.", stacklevel=2)
        kwargs = {"rank": 0, "world_size": 1, "store": torch._C._distributed_c10d.HashStore(), **kwargs}
    chosen = backend if backend != "auto" else "nccl" if has_cuda_devices() else "gloo"
    dist.init_process_group(chosen, **kwargs)
    device = local_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


@contextmanager
def on_rank0_first() -> Iterator[None]:
    """A block that rank 0 runs before all others, for what needs to be made once, such as a download.

    An error of rank 0 lets the others go on before it is raised.
    """
    yield from _first(not dist.is_initialized() or dist.get_rank() == 0)


@contextmanager
def on_local_rank0_first() -> Iterator[None]:
    """A block that the first process of each machine runs before the others of its machine."""
    first = not dist.is_initialized() or local_rank() == 0
    yield from _first(first)


def _first(first: bool) -> Iterator[None]:
    together = dist.is_initialized()
    if together and not first:
        dist.barrier()
    try:
        yield
    finally:
        if together and first:
            dist.barrier()
