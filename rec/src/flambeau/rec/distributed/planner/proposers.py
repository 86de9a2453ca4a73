"""Which options are tried together."""

from __future__ import annotations

from flambeau.rec.distributed.planner._dynamic_programming import DynamicProgrammingProposer
from flambeau.rec.distributed.planner._offload_scaleup import EmbeddingOffloadScaleupProposer
from flambeau.rec.distributed.planner._static_proposers import (
    MAX_PROPOSALS,
    GreedyProposer,
    GridSearchProposer,
    UniformProposer,
)
from flambeau.rec.distributed.planner.types import Proposer, ShardingOption

__all__ = [
    "MAX_PROPOSALS",
    "DynamicProgrammingProposer",
    "EmbeddingOffloadScaleupProposer",
    "GreedyProposer",
    "GridSearchProposer",
    "UniformProposer",
    "proposers_to_proposals_list",
]


def proposers_to_proposals_list(
    proposers_list: list[Proposer], search_space: list[ShardingOption]
) -> list[list[ShardingOption]]:
    """All that proposers propose, one after another, if every proposal fits; each proposal once.

    Args:
        proposers_list: the proposers.
        search_space: all options of all tables.
    """
    proposals: list[list[ShardingOption]] = []
    seen: set[tuple[int, ...]] = set()
    for proposer in proposers_list:
        proposer.load(search_space)
    for proposer in proposers_list:
        while proposal := proposer.propose():
            key = tuple(sorted(map(hash, proposal)))
            proposer.feedback(partitionable=True)
            if key not in seen:
                seen.add(key)
                proposals.append(proposal)
    return proposals
