"""Mixtures of nodes."""

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.data.nodes.samplers.multi_node_round_robin_sampler import (
        MultiNodeRoundRobinSampler as MultiNodeRoundRobinSampler,
    )
    from flambeau.data.nodes.samplers.multi_node_weighted_sampler import (
        MultiNodeWeightedSampler as MultiNodeWeightedSampler,
    )
    from flambeau.data.nodes.samplers.stop_criteria import StopCriteria as StopCriteria

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "multi_node_round_robin_sampler": ("MultiNodeRoundRobinSampler",),
        "multi_node_weighted_sampler": ("MultiNodeWeightedSampler",),
        "stop_criteria": ("StopCriteria",),
    },
)
