"""Small things that benchmarks and tests of tables need."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import round_up

__all__ = ["get_device", "round_up", "to_device"]

Deviceable = TypeVar("Deviceable", Tensor, nn.Module, nn.EmbeddingBag)


def get_device() -> torch.device:
    """The accelerator of this process, or the CPU where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device(torch.cuda.current_device())


def to_device(t: Deviceable, use_cpu: bool) -> Deviceable:
    """A tensor or module on the CPU, or on the accelerator of this process.

    Args:
        t: the tensor or module.
        use_cpu: whether it goes to the CPU.
    """
    return t.cpu() if use_cpu else t.cuda()
