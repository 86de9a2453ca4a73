"""Collectors: policies that act in environments, and what happened in batches."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.collectors._async_batched import AsyncBatchedCollector as AsyncBatchedCollector
    from flambeau.rl.collectors._base import BaseCollector as BaseCollector
    from flambeau.rl.collectors._base import ProfileConfig as ProfileConfig
    from flambeau.rl.collectors._evaluator import Evaluator as Evaluator
    from flambeau.rl.collectors._multi_async import MultiAsyncCollector as MultiAsyncCollector
    from flambeau.rl.collectors._multi_base import MultiCollector as MultiCollector
    from flambeau.rl.collectors._multi_sync import MultiSyncCollector as MultiSyncCollector
    from flambeau.rl.collectors._single import Collector as Collector
    from flambeau.rl.collectors._single_async import AsyncCollector as AsyncCollector
    from flambeau.rl.collectors.collectors import DataCollectorBase as DataCollectorBase
    from flambeau.rl.collectors.collectors import MultiaSyncDataCollector as MultiaSyncDataCollector
    from flambeau.rl.collectors.collectors import MultiSyncDataCollector as MultiSyncDataCollector
    from flambeau.rl.collectors.collectors import SyncDataCollector as SyncDataCollector
    from flambeau.rl.collectors.collectors import aSyncDataCollector as aSyncDataCollector
    from flambeau.rl.collectors.weight_update import MultiProcessedWeightUpdater as MultiProcessedWeightUpdater
    from flambeau.rl.collectors.weight_update import RayWeightUpdater as RayWeightUpdater
    from flambeau.rl.collectors.weight_update import RemoteModuleWeightUpdater as RemoteModuleWeightUpdater
    from flambeau.rl.collectors.weight_update import VanillaWeightUpdater as VanillaWeightUpdater
    from flambeau.rl.collectors.weight_update import WeightUpdaterBase as WeightUpdaterBase
    from flambeau.rl.modules.tensordict_module.exploration import RandomPolicy as RandomPolicy

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_async_batched": ("AsyncBatchedCollector",),
        "_base": ("BaseCollector", "ProfileConfig"),
        "_evaluator": ("Evaluator",),
        "_multi_async": ("MultiAsyncCollector",),
        "_multi_base": ("MultiCollector",),
        "_multi_sync": ("MultiSyncCollector",),
        "_single": ("Collector",),
        "_single_async": ("AsyncCollector",),
        "collectors": (
            "DataCollectorBase",
            "MultiSyncDataCollector",
            "MultiaSyncDataCollector",
            "SyncDataCollector",
            "aSyncDataCollector",
        ),
        "weight_update": (
            "MultiProcessedWeightUpdater",
            "RayWeightUpdater",
            "RemoteModuleWeightUpdater",
            "VanillaWeightUpdater",
            "WeightUpdaterBase",
        ),
        "flambeau.rl.modules.tensordict_module.exploration": ("RandomPolicy",),
    },
    submodules=("distributed", "utils"),
)
