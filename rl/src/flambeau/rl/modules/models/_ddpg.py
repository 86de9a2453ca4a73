"""Actors and critics of deep deterministic policy gradients (Lillicrap et al. 2016, arXiv:1509.02971)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rl.modules.models._conv import ConvNet
from flambeau.rl.modules.models._mlp import MLP
from flambeau.rl.modules.models.utils import SquashDims

# The paper draws from +-3e-4 behind convolutions and +-3e-3 behind vectors.
_SCALE, _VECTOR_SCALE = 6e-4, 6e-3


def ddpg_init_last_layer(module: nn.Sequential, scale: float = _SCALE, device: Any = None) -> None:
    """Draw the last layer's parameters uniformly from [-scale / 2, scale / 2].

    Args:
        module: whose last layer has a weight.
        scale: width of the interval.
        device: where to draw; the weight's unless given.
    """
    last: Any = module[-1]
    for parameter in (last.weight, getattr(last, "bias", None)):
        if parameter is not None:
            where = parameter.device if device is None else device
            parameter.data = torch.rand_like(parameter.data, device=where) * scale - scale / 2


class DdpgCnnActor(nn.Module):
    """Actions of images.

    Args:
        action_dim: size of the action.
        conv_net_kwargs: of the `ConvNet`.
        mlp_net_kwargs: of the `MLP` behind it.
        use_avg_pooling: average over positions, rather than give each its own features.
        device: of the parameters.
    """

    def __init__(
        self,
        action_dim: int,
        conv_net_kwargs: dict[str, Any] | None = None,
        mlp_net_kwargs: dict[str, Any] | None = None,
        use_avg_pooling: bool = False,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.convnet = _images([32, 64, 64], use_avg_pooling, conv_net_kwargs, device)
        defaults = {"out_features": action_dim, "depth": 2, "num_cells": 200, "activation_class": nn.ELU}
        self.mlp = MLP(**{**defaults, **(mlp_net_kwargs or {}), "device": device})
        ddpg_init_last_layer(self.mlp, device=device)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """(*batch, C, H, W) -> actions (*batch, action_dim), and the features of the images."""
        hidden = self.convnet(observation)
        return self.mlp(hidden), hidden


class DdpgMlpActor(nn.Module):
    """Actions of vectors.

    Args:
        action_dim: size of the action.
        mlp_net_kwargs: of the `MLP`.
        device: of the parameters.
    """

    def __init__(self, action_dim: int, mlp_net_kwargs: dict[str, Any] | None = None, device: Any = None) -> None:
        super().__init__()
        defaults = {"out_features": action_dim, "depth": 2, "num_cells": [400, 300], "activation_class": nn.ELU}
        self.mlp = MLP(**{**defaults, **(mlp_net_kwargs or {}), "device": device})
        ddpg_init_last_layer(self.mlp, _VECTOR_SCALE, device)

    def forward(self, observation: Tensor) -> Tensor:
        """(*batch, features) -> (*batch, action_dim)."""
        action: Tensor = self.mlp(observation)
        return action


class DdpgCnnQNet(nn.Module):
    """Values of images with actions.

    Args:
        conv_net_kwargs: of the `ConvNet` of the images.
        mlp_net_kwargs: of the `MLP` that reads its features with the action.
        use_avg_pooling: average over positions, rather than give each its own features.
        device: of the parameters.
    """

    def __init__(
        self,
        conv_net_kwargs: dict[str, Any] | None = None,
        mlp_net_kwargs: dict[str, Any] | None = None,
        use_avg_pooling: bool = True,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.convnet = _images([32, 64, 128], use_avg_pooling, conv_net_kwargs, device)
        defaults = {"out_features": 1, "depth": 2, "num_cells": 200, "activation_class": nn.ELU}
        self.mlp = MLP(**{**defaults, **(mlp_net_kwargs or {}), "device": device})
        ddpg_init_last_layer(self.mlp, device=device)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """(*batch, C, H, W), (*batch, actions) -> (*batch, 1)."""
        value: Tensor = self.mlp(torch.cat([self.convnet(observation), action], -1))
        return value


class DdpgMlpQNet(nn.Module):
    """Values of vectors with actions, which come in behind the first layers.

    Args:
        mlp_net_kwargs_net1: of the `MLP` of the observation.
        mlp_net_kwargs_net2: of the `MLP` that reads its features with the action.
        device: of the parameters.
    """

    def __init__(
        self,
        mlp_net_kwargs_net1: dict[str, Any] | None = None,
        mlp_net_kwargs_net2: dict[str, Any] | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        first = {
            "out_features": 400, "depth": 0, "num_cells": [], "activation_class": nn.ELU, "activate_last_layer": True
        }  # fmt: skip
        second = {"out_features": 1, "depth": 1, "num_cells": [300], "activation_class": nn.ELU}
        self.mlp1 = MLP(**{**first, **(mlp_net_kwargs_net1 or {}), "device": device})
        self.mlp2 = MLP(**{**second, **(mlp_net_kwargs_net2 or {}), "device": device})
        ddpg_init_last_layer(self.mlp2, _VECTOR_SCALE, device)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """(*batch, features), (*batch, actions) -> (*batch, 1)."""
        value: Tensor = self.mlp2(torch.cat([self.mlp1(observation), action], -1))
        return value


def _images(cells: list[int], pooled: bool, given: dict[str, Any] | None, device: Any) -> ConvNet:
    defaults = {
        "num_cells": cells,
        "kernel_sizes": [8, 4, 3],
        "strides": [4, 2, 1],
        "paddings": [0, 0, 1],
        "activation_class": nn.ELU,
        "aggregator_class": nn.AdaptiveAvgPool2d if pooled else SquashDims,
        "aggregator_kwargs": {"output_size": (1, 1)} if pooled else {"ndims_in": 3},
        "squeeze_output": pooled,
    }
    return ConvNet(**{**defaults, **(given or {}), "device": device})
