"""Rewards made of other values: of several objectives, or of success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Bounded, Composite, TensorSpec, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["LineariseRewards", "SuccessReward"]


class LineariseRewards(Transform):
    """The weighted sum of the rewards of several objectives.

    Args:
        in_keys: of rewards, with objectives along their last dimension.
        out_keys: of the sums, whose last dimension has size 1; default: `in_keys`.
        weights: of the objectives, >= 0; default: 1 each.

    Raises:
        ValueError: there are other numbers of out keys, or of weights; or a weight is negative.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey] | None = None,
        *,
        weights: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        self.weights: Tensor | None
        if len(self.in_keys) != len(self.out_keys):
            raise ValueError(
                f"LineariseRewards needs as many out_keys as in_keys; got {self.out_keys} for {self.in_keys}."
            )
        if weights is not None:
            weights = torch.as_tensor(weights, dtype=torch.float32)
            if weights.ndim != 1:
                raise ValueError(f"The weights of objectives have one dimension; got shape {tuple(weights.shape)}.")
            if (weights < 0).any():
                raise ValueError(f"The weights of objectives cannot be negative; got {weights.tolist()}.")
        self.register_buffer("weights", weights)

    def _apply_transform(self, reward: Tensor) -> Tensor:
        if self.weights is None:
            return reward.sum(-1, keepdim=True)
        if self.weights.numel() != reward.shape[-1]:
            raise ValueError(
                f"There are {self.weights.numel()} weights for {reward.shape[-1]} objectives; they must be as many."
            )
        return (self.weights * reward).sum(-1, keepdim=True)

    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """Specs of one number each.

        Args:
            reward_spec: a composite, or of one reward.
        """
        if not isinstance(reward_spec, Composite):
            return self._summed(reward_spec)
        for in_key, out_key in self._pairs():
            if in_key in reward_spec.keys(True):
                reward_spec[out_key] = self._summed(reward_spec[in_key])
        return reward_spec

    def _summed(self, spec: Any) -> TensorSpec:
        shape = (*spec.shape[:-1], 1)
        if isinstance(spec, Bounded):
            low, high = self._apply_transform(spec.low), self._apply_transform(spec.high)
            return Bounded(low, high, shape, device=spec.device, dtype=spec.dtype)
        return Unbounded(shape, device=spec.device, dtype=spec.dtype)


class SuccessReward(Transform):
    """A reward for success, and none otherwise.

    Args:
        success_key: of what is true, or not 0, where there is success.
        reward_key: of the reward.
        scale: the reward for success.
    """

    def __init__(
        self, success_key: NestedKey = "success", reward_key: NestedKey = "reward", *, scale: float = 1.0
    ) -> None:
        super().__init__([success_key], [reward_key])
        self.scale = float(scale)

    def _apply_transform(self, success: Tensor) -> Tensor:
        return success.to(torch.float32) * self.scale

    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """A spec of numbers between 0 and the reward for success.

        Args:
            reward_spec: a composite, or of one reward.
        """
        if not isinstance(reward_spec, Composite):
            return self._bounded(reward_spec.shape, reward_spec.device)
        parent = self.parent
        shape = (*reward_spec.shape, 1)
        if parent is not None and self.in_keys[0] in parent.full_observation_spec.keys(True):
            shape = parent.full_observation_spec[self.in_keys[0]].shape
        reward_spec[self.out_keys[0]] = self._bounded(shape, reward_spec.device)
        return reward_spec

    def _bounded(self, shape: Any, device: Any) -> TensorSpec:
        low, high = min(0.0, self.scale), max(0.0, self.scale)
        return Bounded(low, high, shape, device=device, dtype=torch.float32)
