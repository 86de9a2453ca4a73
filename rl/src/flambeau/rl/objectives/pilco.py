"""The cost of PILCO: how far a state that is known by mean and variance is expected to be from a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.objectives.common import LossModule

__all__ = ["ExponentialQuadraticCost"]


class ExponentialQuadraticCost(LossModule):
    """The expected saturating cost of a Gaussian state (Deisenroth and Rasmussen, 2011, equations 24 and 25).

    cost = 1 - det(I + S W)^(-1/2) exp(-(m - t)^T W (I + S W)^(-1) (m - t) / 2), in [0, 1]

    Args:
        target: t, (features,); the origin by default.
        weights: W, (features, features), symmetric and positive semi-definite; the identity by default.
        reduction: "mean", "sum" or "none".

    Reads `("observation", "mean")`, m, (*batch, features), and `("observation", "var")`, S, (*batch, features,
    features).

    Returns of `forward`:
        "loss_cost".

    Raises:
        ValueError: another reduction.

    Example:
        >>> state = {"mean": torch.zeros(1, 2), "var": torch.zeros(1, 2, 2)}
        >>> ExponentialQuadraticCost()(TensorDict({"observation": state}, [1]))["loss_cost"]
        tensor(0.)
    """

    @dataclass
    class _AcceptedKeys:
        loc: Any = ("observation", "mean")
        scale: Any = ("observation", "var")
        loss_cost: Any = "loss_cost"

    default_keys = _AcceptedKeys

    def __init__(self, target: Tensor | None = None, weights: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction is {reduction!r}, expected 'mean', 'sum' or 'none'.")
        self.reduction = reduction
        self.register_buffer("target", target)
        self.register_buffer("weights", weights)

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return [self._tensor_keys.loc, self._tensor_keys.scale]

    @property
    def out_keys(self) -> list[Any]:
        """What is returned."""
        return [self._tensor_keys.loss_cost]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The cost of a batch of states; see the class."""
        keys = self._tensor_keys
        mean, covariance = (self._read(tensordict, name) for name in ("loc", "scale"))
        identity = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
        weights = identity if self.weights is None else self.weights.to(mean)
        away = mean if self.target is None else mean - self.target.to(mean)
        spread = identity + covariance @ weights
        # W (I + S W)^-1 is the transpose of the solution of (I + S W)^T X = W^T.
        precision = torch.linalg.solve(spread.mT, weights.mT.expand_as(spread)).mT
        distance = (away.unsqueeze(-2) @ precision @ away.unsqueeze(-1)).flatten(-2).squeeze(-1)
        cost = 1 - torch.linalg.det(spread).rsqrt() * (-0.5 * distance).exp()
        size = tensordict.shape if self.reduction == "none" else []
        return TensorDict({keys.loss_cost: self._reduce_loss(cost, tensordict)}, size)

    def _read(self, tensordict: TensorDictBase, name: str) -> Tensor:
        key = getattr(self._tensor_keys, name)
        found: Tensor | None = tensordict.get(key, None)
        if found is None:
            present = sorted(map(str, tensordict.keys(True, True)))
            raise KeyError(f"{key!r} is missing; set_keys({name}=...) renames it. There are {present}.")
        return found
