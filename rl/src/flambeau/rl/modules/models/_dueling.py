"""Networks of action values that add a state's value to the advantages of actions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rl.modules.models._conv import ConvNet
from flambeau.rl.modules.models._mlp import MLP
from flambeau.rl.modules.models.utils import size_of

_HEAD = {"depth": 1, "activation_class": nn.ELU, "num_cells": 512, "bias_last_layer": True}


class DuelingMlpDQNet(nn.Module):
    """Action values of vectors: a value plus advantages less their mean (Wang et al. 2016, arXiv:1511.06581).

    Args:
        out_features: number of actions, or their shape.
        out_features_value: size of the value.
        mlp_kwargs_feature: of the `MLP` that both heads read.
        mlp_kwargs_output: of the heads.
        device: of the parameters.
    """

    def __init__(
        self,
        out_features: int | torch.Size,
        out_features_value: int = 1,
        mlp_kwargs_feature: dict[str, Any] | None = None,
        mlp_kwargs_output: dict[str, Any] | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        defaults = {
            "num_cells": [256, 256],
            "out_features": 256,
            "activation_class": nn.ELU,
            "activate_last_layer": True,
        }
        self.out_features, self.out_features_value = out_features, out_features_value
        self.features = MLP(**{**defaults, **(mlp_kwargs_feature or {}), "device": device})
        head = {**_HEAD, **(mlp_kwargs_output or {}), "device": device}
        self.advantage = MLP(out_features=out_features, **head)
        self.value = MLP(out_features=out_features_value, **head)
        _small_biases(self)

    def forward(self, x: Tensor) -> Tensor:
        """(*batch, features) -> (*batch, *out_features)."""
        hidden = self.features(x)
        advantage, value = self.advantage(hidden), self.value(hidden)
        dims = 1 if isinstance(self.out_features, int) else len(size_of(self.out_features)[1] or ())
        axes = tuple(range(-dims, 0))
        base = value.view(*value.shape, *[1] * (dims - 1))
        result: Tensor = base + advantage - advantage.mean(axes, keepdim=True)
        return result


class DuelingCnnDQNet(nn.Module):
    """Action values of images: a value plus advantages less their mean (Wang et al. 2016, arXiv:1511.06581).

    Args:
        out_features: number of actions.
        out_features_value: size of the value.
        cnn_kwargs: of the `ConvNet` that both heads read.
        mlp_kwargs: of the heads.
        device: of the parameters.
    """

    def __init__(
        self,
        out_features: int,
        out_features_value: int = 1,
        cnn_kwargs: dict[str, Any] | None = None,
        mlp_kwargs: dict[str, Any] | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        defaults = {"num_cells": [32, 64, 64], "strides": [4, 2, 1], "kernel_sizes": [8, 4, 3]}
        self.out_features, self.out_features_value = out_features, out_features_value
        self.features = ConvNet(**{**defaults, **(cnn_kwargs or {}), "device": device})
        head = {**_HEAD, **(mlp_kwargs or {}), "device": device}
        self.advantage = MLP(out_features=out_features, **head)
        self.value = MLP(out_features=out_features_value, **head)
        _small_biases(self)

    def forward(self, x: Tensor) -> Tensor:
        """(*batch, C, H, W) -> (*batch, out_features)."""
        hidden = self.features(x)
        advantage, value = self.advantage(hidden), self.value(hidden)
        result: Tensor = value + advantage - advantage.mean(-1, keepdim=True)
        return result


def _small_biases(module: nn.Module) -> None:
    for layer in module.modules():
        bias = getattr(layer, "bias", None)
        known = isinstance(bias, nn.Parameter) and not isinstance(bias, nn.parameter.UninitializedParameter)
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and known:
            bias.data.zero_()  # type: ignore[union-attr]
