"""Pipelines of nodes: iterators that are put together, and whose place can be saved and taken up again.

::

    node = SamplerWrapper(RandomSampler(dataset))
    node = ParallelMapper(node, dataset.__getitem__, num_workers=8)
    node = Batcher(node, batch_size=32)
    loader = Loader(Prefetcher(node, prefetch_factor=4))

`loader.state_dict()` is small, plain, and does not depend on the number of workers.
"""

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.data.nodes.adapters import IterableWrapper as IterableWrapper
    from flambeau.data.nodes.adapters import MapStyleWrapper as MapStyleWrapper
    from flambeau.data.nodes.adapters import SamplerWrapper as SamplerWrapper
    from flambeau.data.nodes.base_node import BaseNode as BaseNode
    from flambeau.data.nodes.base_node import T as T
    from flambeau.data.nodes.batch import Batcher as Batcher
    from flambeau.data.nodes.batch import Unbatcher as Unbatcher
    from flambeau.data.nodes.cycler import Cycler as Cycler
    from flambeau.data.nodes.filter import Filter as Filter
    from flambeau.data.nodes.header import Header as Header
    from flambeau.data.nodes.loader import Loader as Loader
    from flambeau.data.nodes.map import Mapper as Mapper
    from flambeau.data.nodes.map import ParallelMapper as ParallelMapper
    from flambeau.data.nodes.pin_memory import PinMemory as PinMemory
    from flambeau.data.nodes.prefetch import Prefetcher as Prefetcher
    from flambeau.data.nodes.samplers.multi_node_round_robin_sampler import (
        MultiNodeRoundRobinSampler as MultiNodeRoundRobinSampler,
    )
    from flambeau.data.nodes.samplers.multi_node_weighted_sampler import (
        MultiNodeWeightedSampler as MultiNodeWeightedSampler,
    )
    from flambeau.data.nodes.samplers.stop_criteria import StopCriteria as StopCriteria
    from flambeau.data.nodes.types import Stateful as Stateful

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "adapters": ("IterableWrapper", "MapStyleWrapper", "SamplerWrapper"),
        "base_node": ("BaseNode", "T"),
        "batch": ("Batcher", "Unbatcher"),
        "cycler": ("Cycler",),
        "filter": ("Filter",),
        "header": ("Header",),
        "loader": ("Loader",),
        "map": ("Mapper", "ParallelMapper"),
        "pin_memory": ("PinMemory",),
        "prefetch": ("Prefetcher",),
        "samplers.multi_node_round_robin_sampler": ("MultiNodeRoundRobinSampler",),
        "samplers.multi_node_weighted_sampler": ("MultiNodeWeightedSampler",),
        "samplers.stop_criteria": ("StopCriteria",),
        "types": ("Stateful",),
    },
    submodules=("samplers", "snapshot_store"),
)
