"""Collectors on several machines: by torch.distributed, by its RPC, on Ray, on Slurm."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.collectors.distributed.default_configs import DEFAULT_SLURM_CONF as DEFAULT_SLURM_CONF
    from flambeau.rl.collectors.distributed.generic import DistributedCollector as DistributedCollector
    from flambeau.rl.collectors.distributed.generic import DistributedWeightUpdater as DistributedWeightUpdater
    from flambeau.rl.collectors.distributed.ray import RayCollector as RayCollector
    from flambeau.rl.collectors.distributed.ray_eval_worker import RayEvalWorker as RayEvalWorker
    from flambeau.rl.collectors.distributed.rpc import RPCCollector as RPCCollector
    from flambeau.rl.collectors.distributed.rpc import RPCWeightUpdater as RPCWeightUpdater
    from flambeau.rl.collectors.distributed.sync import DistributedSyncCollector as DistributedSyncCollector

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "default_configs": ("DEFAULT_SLURM_CONF",),
        "generic": ("DistributedCollector", "DistributedWeightUpdater"),
        "ray": ("RayCollector",),
        "ray_eval_worker": ("RayEvalWorker",),
        "rpc": ("RPCCollector", "RPCWeightUpdater"),
        "sync": ("DistributedSyncCollector",),
    },
)
