"""A replay buffer from a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from flambeau.rl.data.replay_buffers import LazyMemmapStorage, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

__all__ = ["ReplayArgsConfig", "make_replay_buffer"]

_ALPHA, _BETA = 0.7, 0.5


@dataclass
class ReplayArgsConfig:
    """What a replay buffer is like.

    Attributes:
        buffer_size: steps that it keeps.
        prb: samples go by priority.
        buffer_scratch_dir: folder of its memory-mapped files; None for a temporary one.
        buffer_prefetch: samples that are drawn ahead.
    """

    buffer_size: int = 1000000
    prb: bool = False
    buffer_scratch_dir: str | None = None
    buffer_prefetch: int = 10


def make_replay_buffer(device: Any, cfg: Any) -> TensorDictReplayBuffer:
    """A buffer of memory-mapped steps.

    Args:
        device: that samples go to; memory is pinned for others than the CPU.
        cfg: as `ReplayArgsConfig`, and `batch_size`.
    """
    options: dict[str, Any] = {
        "storage": LazyMemmapStorage(cfg.buffer_size, scratch_dir=cfg.buffer_scratch_dir),
        "pin_memory": torch.device(device).type != "cpu",
        "prefetch": cfg.buffer_prefetch,
        "batch_size": cfg.batch_size,
    }
    if cfg.prb:
        return TensorDictPrioritizedReplayBuffer(alpha=_ALPHA, beta=_BETA, **options)
    return TensorDictReplayBuffer(**options)
