"""Agents in groups: their specs and data as those of one environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDict
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._agents import MarlGroupMapType, check_marl_grouping

GroupMap = dict[str, list[str]]


def group_map_of(given: Any, agents: Sequence[str], default: Callable[[Sequence[str]], GroupMap]) -> GroupMap:
    """Which agents are together, by the name of their group.

    Args:
        given: a mapping, a `MarlGroupMapType`, or None for the default.
        agents: names of all.
        default: from these to the mapping.
    """
    if given is None:
        found = default(agents)
    elif isinstance(given, MarlGroupMapType):
        found = given.get_group_map(list(agents))
    else:
        found = {group: list(names) for group, names in given.items()}
    check_marl_grouping(found, list(agents))
    return found


def by_prefix(agents: Sequence[str]) -> GroupMap:
    """Agents whose names are alike up to a number are together, under what is alike."""
    groups: GroupMap = {}
    for agent in agents:
        groups.setdefault(re.sub(r"_?\d+$", "", agent) or agent, []).append(agent)
    return groups


def stacked_specs(groups: GroupMap, specs: dict[str, Composite], size: Size) -> Composite:
    """The specs of agents, stacked by group along a dimension behind the batch.

    Args:
        groups: agents by group.
        specs: of each agent, with the batch size.
        size: the batch size.
    """
    found = {group: torch.stack([specs[agent] for agent in agents], len(size)) for group, agents in groups.items()}  # type: ignore[misc]
    return Composite(found, shape=size)


def stacked_data(groups: GroupMap, data: dict[str, dict[str, Any]], size: Size) -> dict[str, Any]:
    """The entries of agents, stacked by group; lazily where their shapes differ.

    Args:
        groups: agents by group.
        data: entries of each agent by key.
        size: the batch size.
    """
    found = {}
    for group, agents in groups.items():
        parts = [TensorDict(data[agent], size) for agent in agents]
        found[group] = LazyStackedTensorDict.maybe_dense_stack(parts, len(size))
    return found
