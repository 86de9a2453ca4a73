"""Policies of small control problems: networks of linear layers from observations to actions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.weights import build_with_weights, register_model
from flambeau.rl.weights.control import CartPole_Policy_Weights, Pendulum_Policy_Weights

__all__ = ["ControlPolicy", "Observations", "cartpole_policy", "pendulum_policy"]


class Observations:
    """Observations as a policy takes them: tensors of floating point.

    Example:
        >>> Observations()([0, 1, 2]).dtype
        torch.float32
    """

    def __call__(self, observation: Any) -> Tensor:
        """The observation as a tensor."""
        return torch.as_tensor(observation, dtype=torch.float32)

    def __repr__(self) -> str:
        return "Observations()"


class ControlPolicy(nn.Module):
    """What a policy does where it does not explore.

    Args:
        observations: number of observations.
        actions: number of choices, or of controls.
        cells: widths of the layers between.
        activation: "tanh" or "relu".
        limits: lowest and highest value of controls; None where actions are choices.

    Raises:
        ValueError: the activation is another one.

    Example:
        >>> ControlPolicy(4, 2)(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        observations: int,
        actions: int,
        cells: Sequence[int] = (64, 64),
        activation: str = "tanh",
        limits: tuple[float, float] | None = None,
    ) -> None:
        super().__init__()
        if activation not in ("tanh", "relu"):
            raise ValueError(f"activation must be 'tanh' or 'relu'; got {activation!r}.")
        self.limits = limits
        sizes = [observations, *cells, actions]
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.Tanh() if activation == "tanh" else nn.ReLU()]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, observation: Tensor) -> Tensor:
        """The scores of choices, or controls within their limits.

        Args:
            observation: (*, observations).

        Returns:
            (*, actions), of the observation's dtype.
        """
        out: Tensor = self.net(observation)
        if self.limits is None:
            return out
        low, high = self.limits
        return low + (out.tanh() + 1) * ((high - low) / 2)

    def act(self, tensordict: Any) -> Any:
        """Write the action for the observation of a tensordict: a one-hot vector of the best choice, or controls.

        Args:
            tensordict: has "observation"; gets "action".
        """
        out = self(tensordict.get("observation"))
        if self.limits is None:
            out = nn.functional.one_hot(out.argmax(-1), out.shape[-1])
        return tensordict.set("action", out)


@register_model(task="control", tags=("embedded", "CartPole-v1"))
def cartpole_policy(
    *, weights: CartPole_Policy_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ControlPolicy:
    """Keeps a pole up on a cart: gymnasium's CartPole-v1.

    Args:
        weights: pretrained weights, which are part of the package, their name, or None for random initialization.
        progress: accepted as every builder does; there is nothing to download.
        **kwargs: passed to `ControlPolicy`.
    """
    weights = CartPole_Policy_Weights.verify(weights)
    sizes = {"observations": 4, "actions": 2, "cells": (64, 64), "activation": "tanh"}
    return build_with_weights(ControlPolicy, weights, progress=progress, **{**sizes, **kwargs})


@register_model(task="control", tags=("embedded", "Pendulum-v1"))
def pendulum_policy(
    *, weights: Pendulum_Policy_Weights | None = None, progress: bool = True, **kwargs: Any
) -> ControlPolicy:
    """Swings a pendulum up, and keeps it up: gymnasium's Pendulum-v1.

    Args:
        weights: pretrained weights, which are part of the package, their name, or None for random initialization.
        progress: accepted as every builder does; there is nothing to download.
        **kwargs: passed to `ControlPolicy`.
    """
    weights = Pendulum_Policy_Weights.verify(weights)
    sizes = {"observations": 3, "actions": 1, "cells": (64, 64), "activation": "relu", "limits": (-2.0, 2.0)}
    return build_with_weights(ControlPolicy, weights, progress=progress, **{**sizes, **kwargs})
