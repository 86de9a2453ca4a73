"""What collectors agree on: timeouts, how policies act by default, the flag that stops a rollout."""

from __future__ import annotations

import os
import sys
from multiprocessing.managers import SyncManager

import torch.multiprocessing as mp
from torch.compiler import cudagraph_mark_step_begin

from flambeau.rl.envs.utils import ExplorationType

__all__ = [
    "DEFAULT_EXPLORATION_TYPE",
    "INSTANTIATE_TIMEOUT",
    "WEIGHT_SYNC_TIMEOUT",
    "_MAX_IDLE_COUNT",
    "_MIN_TIMEOUT",
    "_TIMEOUT",
    "_Interruptor",
    "_InterruptorManager",
    "_is_osx",
    "cudagraph_mark_step_begin",
]

_TIMEOUT = 1.0
"""Seconds that processes have to end by themselves."""
INSTANTIATE_TIMEOUT = 20
"""Seconds; kept for upstream's name: a worker that is being made is waited for as long as it lives."""
_MIN_TIMEOUT = 1e-3
WEIGHT_SYNC_TIMEOUT = float(os.environ.get("TORCHRL_WEIGHT_SYNC_TIMEOUT", "120"))
"""Seconds that a worker has to confirm new weights."""
_MAX_IDLE_COUNT = int(os.environ.get("MAX_IDLE_COUNT", str(2**63 - 1)))

DEFAULT_EXPLORATION_TYPE: ExplorationType = ExplorationType.RANDOM

_is_osx = sys.platform.startswith("darwin")


class _Interruptor:
    """A flag in shared memory that ends rollouts early; workers look at it after each step."""

    def __init__(self) -> None:
        self._collect = mp.Value("b", True, lock=False)

    def start_collection(self) -> None:
        """Let rollouts run."""
        self._collect.value = True

    def stop_collection(self) -> None:
        """End them after the step they are at."""
        self._collect.value = False

    def collection_stopped(self) -> bool:
        """Whether they are to end."""
        return not self._collect.value


class _InterruptorManager(SyncManager):
    """Kept for upstream's name: the flag needs no manager."""


_InterruptorManager.register("_Interruptor", _Interruptor)
