"""A critic of several groups of agents that sees them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict.nn.common import TensorDictModule
from flambeau.rl.modules.models._mlp import MLP
from flambeau.rl.modules.models.utils import create_on_device

__all__ = ["CrossCriticGroupSpec", "CrossGroupCritic"]


@dataclass
class CrossCriticGroupSpec:
    """One group of agents.

    Attributes:
        obs_dim: size of an agent's observation.
        n_agents: how many agents there are.
        obs_key: of the observations (*batch, n_agents, obs_dim).
        value_key: where their values (*batch, n_agents, 1) go.
    """

    obs_dim: int
    n_agents: int
    obs_key: Any
    value_key: Any


class _CrossGroupNet(nn.Module):
    """Encoders of the groups, a trunk over all agents, heads of the groups."""

    def __init__(
        self, group_specs: dict[str, CrossCriticGroupSpec], d_model: int, trunk_depth: int, trunk_cells: int,
        activation_class: Any, share_params: bool, detach_groups: Iterable[str] | None, device: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.group_specs, self.d_model, self.share_params = group_specs, d_model, share_params
        self.detach_groups = frozenset(detach_groups or ())
        self.encoders = nn.ModuleDict(
            {
                name: nn.Sequential(
                    nn.Linear(spec.obs_dim, d_model, device=device), create_on_device(activation_class, device)
                )
                for name, spec in group_specs.items()
            }
        )
        width = d_model * sum(spec.n_agents for spec in group_specs.values())
        self.trunk = MLP(
            width, width, depth=trunk_depth, num_cells=trunk_cells, activation_class=activation_class, device=device
        )
        if share_params:
            self.shared_head = nn.Linear(d_model, 1, device=device)
        else:
            self.group_heads = nn.ModuleDict({name: nn.Linear(d_model, 1, device=device) for name in group_specs})

    def forward(self, *group_obs: Tensor) -> tuple[Tensor, ...]:
        """Observations of each group (*batch, n_agents, obs_dim) -> their values (*batch, n_agents, 1)."""
        encoded = []
        for (name, spec), observation in zip(self.group_specs.items(), group_obs, strict=True):
            if tuple(observation.shape[-2:]) != (spec.n_agents, spec.obs_dim):
                raise ValueError(
                    f"CrossGroupCritic: observations of the group {name!r} have shape {tuple(observation.shape)}, "
                    f"expected (..., {spec.n_agents}, {spec.obs_dim})."
                )
            features = self.encoders[name](observation)
            encoded.append(features.detach() if name in self.detach_groups else features)
        joint = self.trunk(torch.cat([each.flatten(-2) for each in encoded], -1)).unflatten(-1, (-1, self.d_model))
        parts = joint.split([spec.n_agents for spec in self.group_specs.values()], -2)
        heads = [self.shared_head if self.share_params else self.group_heads[name] for name in self.group_specs]
        return tuple(head(part) for head, part in zip(heads, parts, strict=True))


class CrossGroupCritic(TensorDictModule):
    """Values of the agents of several groups, each from the observations of all.

    Args:
        group_map: groups by name.
        d_model: size that observations are encoded to.
        trunk_depth, trunk_cells: of the `MLP` over all agents.
        activation_class: makes the activations.
        share_params: use one head for all groups.
        detach_groups: groups whose encoders get no gradients, such as those with a fixed policy.
        device: of the parameters.

    Raises:
        ValueError: there are no groups, or one to detach is unknown.
    """

    def __init__(
        self,
        group_map: dict[str, CrossCriticGroupSpec],
        *,
        d_model: int = 64,
        trunk_depth: int = 2,
        trunk_cells: int = 256,
        activation_class: Any = nn.Tanh,
        share_params: bool = False,
        detach_groups: Iterable[str] | None = None,
        device: Any = None,
    ) -> None:
        detached = list(detach_groups or ())
        if not group_map:
            raise ValueError("CrossGroupCritic: group_map is empty, expected at least one group.")
        if unknown := set(detached) - set(group_map):
            raise ValueError(f"CrossGroupCritic: detach_groups has {sorted(unknown)}; there are {sorted(group_map)}.")
        net = _CrossGroupNet(
            group_map, d_model, trunk_depth, trunk_cells, activation_class, share_params, detached, device
        )
        super().__init__(
            net,
            in_keys=[spec.obs_key for spec in group_map.values()],
            out_keys=[spec.value_key for spec in group_map.values()],
        )
