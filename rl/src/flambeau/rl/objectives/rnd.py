"""Random network distillation: a network learns what another, random one gives, where an agent has been."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives.common import LossModule

__all__ = ["RNDLoss"]


class RNDLoss(LossModule):
    """The predictor's loss of random network distillation (Burda et al., 2018, arXiv:1810.12894, section 2.2).

    loss = mean((predictor(x) - target(x))^2) over features. `RNDTransform` makes rewards of the same two networks.

    Args:
        predictor_network: `(*batch, ...)` -> (*batch, features).
        target_network: alike; its parameters get no gradients from now on.
        obs_rms: running mean and variance of observations (`RNDTransform.obs_rms`), by which they are normalized.
        obs_clip: normalized observations lie in [-obs_clip, obs_clip].
        reduction: "mean", "sum" or "none".
        update_fraction: how much of a batch, chosen at random, counts, in [0, 1].

    Returns of `forward`:
        "loss_predictor"; 0 where a step does not count.

    Raises:
        ValueError: `update_fraction` is out of range.

    Example:
        >>> from torch import nn
        >>> loss = RNDLoss(nn.Linear(4, 8), nn.Linear(4, 8))
        >>> batch = TensorDict({"next": {"observation": torch.ones(2, 4)}}, [2])
        >>> loss(batch)["loss_predictor"].shape
        torch.Size([])
    """

    @dataclass
    class _AcceptedKeys:
        observation: Any = ("next", "observation")

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_predictor"]

    def __init__(
        self, predictor_network: nn.Module, target_network: nn.Module, *, obs_rms: Any = None, obs_clip: float = 5.0,
        reduction: str = "mean", update_fraction: float = 0.25,
    ) -> None:  # fmt: skip
        super().__init__()
        if not 0 <= update_fraction <= 1:
            raise ValueError(f"update_fraction is {update_fraction}, expected in [0, 1].")
        self.predictor_network, self.target_network = predictor_network, target_network.requires_grad_(False)
        self.obs_rms, self.obs_clip, self.update_fraction = obs_rms, obs_clip, update_fraction
        self.reduction = reduction

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return [self._tensor_keys.observation]

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The loss of a batch of steps; see the class."""
        key = self._tensor_keys.observation
        observation = tensordict.get(key, None)
        if observation is None:
            present = sorted(map(str, tensordict.keys(True, True)))
            raise KeyError(f"{key!r} is missing; set_keys(observation=...) renames it. There are {present}.")
        if not observation.is_floating_point():
            observation = observation.float()
        if self.obs_rms is not None:
            observation = self.obs_rms.normalize(observation).clamp(-self.obs_clip, self.obs_clip)
        with torch.no_grad():
            features = self.target_network(observation)
        loss = (self.predictor_network(observation) - features).square().mean(-1)
        return TensorDict(self._selected({"loss_predictor": self._reduced(loss, tensordict)}))

    def _reduced(self, loss: Tensor, tensordict: Any) -> Tensor:
        if self.update_fraction >= 1:
            return self._reduce_loss(loss, tensordict)
        chosen = torch.rand(loss.shape, device=loss.device) < self.update_fraction
        return self._reduce_loss(loss, tensordict, mask=chosen)
