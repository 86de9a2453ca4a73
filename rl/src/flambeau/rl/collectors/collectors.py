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
from flambeau.rl.collectors._multi_async import MultiAsyncCollector
from flambeau.rl.collectors._multi_base import MultiCollector
from flambeau.rl.collectors._multi_sync import MultiSyncCollector
from flambeau.rl.collectors._runner import _main_async_collector
from flambeau.rl.collectors._single import Collector
from flambeau.rl.collectors._single_async import AsyncCollector

__all__ = [
    "DEFAULT_EXPLORATION_TYPE",
    "INSTANTIATE_TIMEOUT",
    "WEIGHT_SYNC_TIMEOUT",
    "_MAX_IDLE_COUNT",
    "_MIN_TIMEOUT",
    "_TIMEOUT",
    "AsyncCollector",
    "BaseCollector",
    "Collector",
    "DataCollectorBase",
    "MultiAsyncCollector",
    "MultiCollector",
    "MultiSyncCollector",
    "MultiSyncDataCollector",
    "MultiaSyncDataCollector",
    "SyncDataCollector",
    "_Interruptor",
    "_InterruptorManager",
    "_is_osx",
    "_main_async_collector",
    "aSyncDataCollector",
    "cudagraph_mark_step_begin",
]

DataCollectorBase = BaseCollector
SyncDataCollector = Collector
MultiSyncDataCollector = MultiSyncCollector
MultiaSyncDataCollector = MultiAsyncCollector
aSyncDataCollector = AsyncCollector  # upstream's name
