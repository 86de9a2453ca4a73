"""Pipelines of nodes: iterators that are put together, and whose place can be saved and taken up again.

::

    node = SamplerWrapper(RandomSampler(dataset))
    node = ParallelMapper(node, dataset.__getitem__, num_workers=8)
    node = Batcher(node, batch_size=32)
    loader = Loader(Prefetcher(node, prefetch_factor=4))

`loader.state_dict()` is small, plain, and does not depend on the number of workers.
"""

from flambeau.data.nodes.adapters import IterableWrapper, MapStyleWrapper, SamplerWrapper
from flambeau.data.nodes.base_node import BaseNode, T
from flambeau.data.nodes.batch import Batcher, Unbatcher
from flambeau.data.nodes.cycler import Cycler
from flambeau.data.nodes.filter import Filter
from flambeau.data.nodes.header import Header
from flambeau.data.nodes.loader import Loader
from flambeau.data.nodes.map import Mapper, ParallelMapper
from flambeau.data.nodes.pin_memory import PinMemory
from flambeau.data.nodes.prefetch import Prefetcher
from flambeau.data.nodes.samplers.multi_node_round_robin_sampler import MultiNodeRoundRobinSampler
from flambeau.data.nodes.samplers.multi_node_weighted_sampler import MultiNodeWeightedSampler
from flambeau.data.nodes.samplers.stop_criteria import StopCriteria
from flambeau.data.nodes.types import Stateful

__all__ = [
    "BaseNode",
    "Batcher",
    "Cycler",
    "Filter",
    "Header",
    "IterableWrapper",
    "Loader",
    "MapStyleWrapper",
    "Mapper",
    "MultiNodeRoundRobinSampler",
    "MultiNodeWeightedSampler",
    "ParallelMapper",
    "PinMemory",
    "Prefetcher",
    "SamplerWrapper",
    "Stateful",
    "StopCriteria",
    "T",
    "Unbatcher",
]
