"""Values between bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Bounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite
from flambeau.rl.envs.transforms._base.transform import Transform, tolerating_missing

__all__ = ["ClipTransform"]

Keys = Sequence[NestedKey] | None


class ClipTransform(Transform):
    """Observations, rewards or actions clipped to an interval.

    Args:
        in_keys: of observations and rewards.
        out_keys: where to write them; default: `in_keys`.
        in_keys_inv: of actions and state that the environment reads.
        out_keys_inv: where they are read from; default: `in_keys_inv`.
        low: the least value; default: none.
        high: the greatest value; default: none.

    Raises:
        TypeError: neither `low` nor `high`, or one is no single number.
        ValueError: `low` is greater than `high`.

    Example:
        >>> ClipTransform(in_keys=["x"], low=0.0)(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    low: Tensor | None
    high: Tensor | None

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, in_keys_inv: Keys = None, out_keys_inv: Keys = None, *,
        low: float | Tensor | None = None, high: float | Tensor | None = None,
    ) -> None:  # fmt: skip
        in_keys = [] if in_keys is None else in_keys
        in_keys_inv = [] if in_keys_inv is None else in_keys_inv
        super().__init__(
            in_keys,
            in_keys if out_keys is None else out_keys,
            in_keys_inv,
            in_keys_inv if out_keys_inv is None else out_keys_inv,
        )
        if low is None and high is None:
            raise TypeError("ClipTransform needs `low`, `high`, or both.")
        self.register_buffer("low", _bound("low", low))
        self.register_buffer("high", _bound("high", high))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"ClipTransform: low is {low}, which is greater than high, {high}.")

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.clamp(self.low, self.high)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state.clamp(self.low, self.high)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)

    def _clipped(self, spec: Any) -> Any:
        limits = torch.finfo(spec.dtype) if spec.dtype.is_floating_point else torch.iinfo(spec.dtype)
        low = limits.min if self.low is None else self.low
        high = limits.max if self.high is None else self.high
        return Bounded(low=low, high=high, shape=spec.shape, dtype=spec.dtype, device=spec.device)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of clipped observations.

        Args:
            observation_spec: a composite.
        """
        return self._clipped(observation_spec)

    @_apply_to_composite
    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """The specs of clipped rewards.

        Args:
            reward_spec: a composite.
        """
        return self._clipped(reward_spec)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(low={self.low}, high={self.high}, keys={self.in_keys}, inverse={self.in_keys_inv})"
        )


def _bound(name: str, value: float | Tensor | None) -> Tensor | None:
    if value is None:
        return None
    bound = value if isinstance(value, Tensor) else torch.tensor(value)
    if bound.numel() != 1:
        raise TypeError(f"ClipTransform: {name} has {bound.numel()} values, expected one number.")
    return bound if bound.is_floating_point() else bound.float()
