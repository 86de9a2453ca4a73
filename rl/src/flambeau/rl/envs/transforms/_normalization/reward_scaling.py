"""Rewards times a factor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Bounded, TensorSpec, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["RewardScaling"]

_LEAST_SCALE = 1e-6


class RewardScaling(Transform):
    """Rewards times a factor plus a number: `reward * scale + loc`.

    Args:
        loc: what is added, or with `standard_normal` subtracted first.
        scale: the factor, or divisor, > 0; upstream: less than 1e-6 counts as 1e-6.
        in_keys: of rewards; default: "reward".
        out_keys: of the scaled rewards; default: `in_keys`.
        standard_normal: `(reward - loc) / scale` instead.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> RewardScaling(loc=1.0, scale=2.0)(TensorDict({"reward": torch.ones(1)}))["reward"]
        tensor([3.])
    """

    _over_time = True

    def __init__(
        self,
        loc: float | Tensor,
        scale: float | Tensor,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        standard_normal: bool = False,
    ) -> None:
        in_keys = ["reward"] if in_keys is None else in_keys
        super().__init__(in_keys, list(in_keys) if out_keys is None else out_keys)
        self.loc: Tensor
        self.scale: Tensor
        self.standard_normal: Tensor
        self.register_buffer("standard_normal", torch.tensor(standard_normal))
        self.register_buffer("loc", torch.as_tensor(loc))
        self.register_buffer("scale", torch.as_tensor(scale).clamp_min(_LEAST_SCALE))

    def _apply_transform(self, reward: Tensor) -> Tensor:
        if self.standard_normal:
            return (reward - self.loc) / self.scale
        return reward * self.scale + self.loc

    @_apply_to_composite
    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """The same; bounds are scaled as well.

        Args:
            reward_spec: of a reward, or a composite.
        """
        if isinstance(reward_spec, Bounded):
            low, high = self._apply_transform(reward_spec.low), self._apply_transform(reward_spec.high)
            return Bounded(low, high, reward_spec.shape, device=reward_spec.device, dtype=reward_spec.dtype)
        if isinstance(reward_spec, Unbounded):
            return reward_spec
        raise NotImplementedError(
            f"{type(self).__name__} scales rewards of unbounded or bounded specs, not of {type(reward_spec).__name__}."
        )

    def __repr__(self) -> str:
        loc, scale = (f"{float(each):4.4f}" if each.numel() == 1 else str(each) for each in (self.loc, self.scale))
        return f"{type(self).__name__}(loc={loc}, scale={scale}, keys={self.in_keys})"
