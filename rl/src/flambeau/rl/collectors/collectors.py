"""Collectors under upstream's older path, with their older names."""

from __future__ import annotations

from flambeau.rl.collectors._base import BaseCollector
from flambeau.rl.collectors._constants import (
    _MAX_IDLE_COUNT,
    _MIN_TIMEOUT,
    _TIMEOUT,
    DEFAULT_EXPLORATION_TYPE,
    INSTANTIATE_TIMEOUT,
    WEIGHT_SYNC_TIMEOUT,
    _Interruptor,
    _InterruptorManager,
    _is_osx,
    cudagraph_mark_step_begin,
)
from flambeau.rl.collectors._single import Collector

__all__ = [
    "DEFAULT_EXPLORATION_TYPE",
    "INSTANTIATE_TIMEOUT",
    "WEIGHT_SYNC_TIMEOUT",
    "_MAX_IDLE_COUNT",
    "_MIN_TIMEOUT",
    "_TIMEOUT",
    "BaseCollector",
    "Collector",
    "DataCollectorBase",
    "SyncDataCollector",
    "_Interruptor",
    "_InterruptorManager",
    "_is_osx",
    "cudagraph_mark_step_begin",
]

DataCollectorBase = BaseCollector
SyncDataCollector = Collector
