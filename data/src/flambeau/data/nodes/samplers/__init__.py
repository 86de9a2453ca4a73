"""Mixtures of nodes."""

from flambeau.data.nodes.samplers.multi_node_round_robin_sampler import MultiNodeRoundRobinSampler
from flambeau.data.nodes.samplers.multi_node_weighted_sampler import MultiNodeWeightedSampler
from flambeau.data.nodes.samplers.stop_criteria import StopCriteria

__all__ = ["MultiNodeRoundRobinSampler", "MultiNodeWeightedSampler", "StopCriteria"]
