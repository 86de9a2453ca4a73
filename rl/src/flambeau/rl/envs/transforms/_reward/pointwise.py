"""Rewards that are clipped, compared with zero, or taken by their sign: each by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Binary, Bounded, TensorSpec, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite
from flambeau.rl.envs.transforms._base.transform import ObservationTransform, Transform

__all__ = ["BinarizeReward", "RewardClipping", "SignTransform"]


class RewardClipping(Transform):
    """Rewards within bounds.

    Args:
        clamp_min: the least reward; None for no such bound.
        clamp_max: the greatest; None for no such bound.
        in_keys: of rewards; default: "reward".
        out_keys: of the clipped rewards; default: `in_keys`.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> RewardClipping(-1.0, 1.0)(TensorDict({"reward": torch.tensor([7.0])}))["reward"]
        tensor([1.])
    """

    _over_time = True

    def __init__(
        self,
        clamp_min: float | None = None,
        clamp_max: float | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        in_keys = ["reward"] if in_keys is None else in_keys
        super().__init__(in_keys, list(in_keys) if out_keys is None else out_keys)
        self.clamp_min: Tensor | None
        self.clamp_max: Tensor | None
        self.register_buffer("clamp_min", None if clamp_min is None else torch.as_tensor(clamp_min))
        self.register_buffer("clamp_max", None if clamp_max is None else torch.as_tensor(clamp_max))

    def _apply_transform(self, reward: Tensor) -> Tensor:
        if self.clamp_min is None and self.clamp_max is None:
            return reward
        return reward.clamp(self.clamp_min, self.clamp_max)

    @_apply_to_composite
    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """A spec with the bounds.

        Args:
            reward_spec: of a reward, or a composite.
        """
        if not isinstance(reward_spec, (Bounded, Unbounded)):
            raise NotImplementedError(
                f"{type(self).__name__} clips rewards of unbounded or bounded specs; got {type(reward_spec).__name__}."
            )
        if isinstance(reward_spec, Bounded):
            low, high = self._apply_transform(reward_spec.low), self._apply_transform(reward_spec.high)
        else:
            least, most = _limits(reward_spec.dtype)
            low = least if self.clamp_min is None else self.clamp_min  # type: ignore[assignment]
            high = most if self.clamp_max is None else self.clamp_max  # type: ignore[assignment]
        return Bounded(low, high, reward_spec.shape, device=reward_spec.device, dtype=reward_spec.dtype)

    def __repr__(self) -> str:
        low, high = (None if each is None else f"{float(each):4.4f}" for each in (self.clamp_min, self.clamp_max))
        return f"{type(self).__name__}(clamp_min={low}, clamp_max={high}, keys={self.in_keys})"


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return info.min, info.max


class BinarizeReward(Transform):
    """1 for rewards above 0, 0 for others.

    Args:
        in_keys: of rewards, whose last dimension has size 1; default: "reward".
        out_keys: default: `in_keys`.

    Raises:
        RuntimeError: the last dimension of a reward has another size.
    """

    _over_time = True

    def __init__(self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None) -> None:
        in_keys = ["reward"] if in_keys is None else in_keys
        super().__init__(in_keys, list(in_keys) if out_keys is None else out_keys)

    def _apply_transform(self, reward: Tensor) -> Tensor:
        if not reward.ndim or reward.shape[-1] != 1:
            raise RuntimeError(
                f"{type(self).__name__} needs rewards with a last dimension of size 1; got shape {tuple(reward.shape)}."
            )
        return (reward > 0).to(torch.int8)

    @_apply_to_composite
    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """A spec of zeros and ones.

        Args:
            reward_spec: of a reward, or a composite.
        """
        return Binary(n=1, shape=reward_spec.shape, device=reward_spec.device)


class SignTransform(ObservationTransform):
    """The signs of values: -1, 0 and 1.

    Args:
        in_keys: of rewards or observations.
        out_keys: default: `in_keys`.
        in_keys_inv: of what the environment reads as signs.
        out_keys_inv: where that stands outside; default: `in_keys_inv`.
    """

    _over_time = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        in_keys = [] if in_keys is None else in_keys
        in_keys_inv = [] if in_keys_inv is None else in_keys_inv
        super().__init__(
            in_keys,
            in_keys if out_keys is None else out_keys,
            in_keys_inv,
            in_keys_inv if out_keys_inv is None else out_keys_inv,
        )

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.sign()

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state.sign()

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """A spec of values within -1 and 1.

        Args:
            observation_spec: of an observation, or a composite.
        """
        return _signs(observation_spec)

    @_apply_to_composite
    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """A spec of values within -1 and 1.

        Args:
            reward_spec: of a reward, or a composite.
        """
        return _signs(reward_spec)


def _signs(spec: TensorSpec) -> TensorSpec:
    return Bounded(-1.0, 1.0, spec.shape, device=spec.device, dtype=spec.dtype)
