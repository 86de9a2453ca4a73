"""Weights on their way from those who train to those who act."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.weight_update._distributed import DistributedTransport as DistributedTransport
    from flambeau.rl.weight_update._distributed import DistributedWeightSyncScheme as DistributedWeightSyncScheme
    from flambeau.rl.weight_update._mp import MPTransport as MPTransport
    from flambeau.rl.weight_update._mp import MultiProcessWeightSyncScheme as MultiProcessWeightSyncScheme
    from flambeau.rl.weight_update._noupdate import NoWeightSyncScheme as NoWeightSyncScheme
    from flambeau.rl.weight_update._ray import RayModuleTransformScheme as RayModuleTransformScheme
    from flambeau.rl.weight_update._ray import RayTransport as RayTransport
    from flambeau.rl.weight_update._ray import RayWeightSyncScheme as RayWeightSyncScheme
    from flambeau.rl.weight_update._rpc import RPCTransport as RPCTransport
    from flambeau.rl.weight_update._rpc import RPCWeightSyncScheme as RPCWeightSyncScheme
    from flambeau.rl.weight_update._shared import SharedMemTransport as SharedMemTransport
    from flambeau.rl.weight_update._shared import SharedMemWeightSyncScheme as SharedMemWeightSyncScheme
    from flambeau.rl.weight_update.weight_sync_schemes import InitialSyncTransport as InitialSyncTransport
    from flambeau.rl.weight_update.weight_sync_schemes import TransportBackend as TransportBackend
    from flambeau.rl.weight_update.weight_sync_schemes import WeightStrategy as WeightStrategy
    from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncBackend as WeightSyncBackend
    from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme as WeightSyncScheme

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_distributed": ("DistributedTransport", "DistributedWeightSyncScheme"),
        "_mp": ("MPTransport", "MultiProcessWeightSyncScheme"),
        "_noupdate": ("NoWeightSyncScheme",),
        "_ray": ("RayModuleTransformScheme", "RayTransport", "RayWeightSyncScheme"),
        "_rpc": ("RPCTransport", "RPCWeightSyncScheme"),
        "_shared": ("SharedMemTransport", "SharedMemWeightSyncScheme"),
        "weight_sync_schemes": (
            "InitialSyncTransport",
            "TransportBackend",
            "WeightStrategy",
            "WeightSyncBackend",
            "WeightSyncScheme",
        ),
    },
)
