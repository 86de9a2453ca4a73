"""Planning where embedding tables go: options with estimated costs, proposals, placements, reports."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rec.distributed.planner.planners import EmbeddingShardingPlanner as EmbeddingShardingPlanner
    from flambeau.rec.distributed.planner.types import ParameterConstraints as ParameterConstraints
    from flambeau.rec.distributed.planner.types import Topology as Topology
    from flambeau.rec.distributed.planner.utils import bytes_to_gb as bytes_to_gb
    from flambeau.rec.distributed.planner.utils import sharder_name as sharder_name

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "planners": ("EmbeddingShardingPlanner",),
        "types": ("ParameterConstraints", "Topology"),
        "utils": ("bytes_to_gb", "sharder_name"),
    },
    submodules=(
        "constants",
        "enumerators",
        "estimator",
        "partitioners",
        "perf_models",
        "proposers",
        "shard_estimators",
        "stats",
        "storage_reservations",
    ),
)
