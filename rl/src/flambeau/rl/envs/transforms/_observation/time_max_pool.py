"""`TimeMaxPool`: the greatest of the last observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite
from flambeau.rl.envs.transforms._base.transform import Transform, tolerating_missing

__all__ = ["TimeMaxPool"]

Keys = Sequence[NestedKey] | None


class TimeMaxPool(Transform):
    """The greatest values of the last T observations of an episode, which takes flicker out of Atari's frames.

    Args:
        in_keys: of observations; default: "observation".
        out_keys: where to write them; default: `in_keys`.
        T: number of observations, at least 1.
        reset_key: of the masks of what was reset; default: that of the environment, which must have one.

    Raises:
        ValueError: T is less than 1.

    References:
        Mnih et al. 2015, "Human-level control through deep reinforcement learning", Nature 518, Methods.
    """

    invertible = False

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, T: int = 1, reset_key: NestedKey | None = None
    ) -> None:
        in_keys = ["observation"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        if T < 1:
            raise ValueError(f"TimeMaxPool: T is {T}, expected at least 1.")
        self.buffer_size = T
        self._reset_key = reset_key

    @property
    def reset_key(self) -> NestedKey:
        """The key of the masks of what was reset.

        Raises:
            RuntimeError: none was given, and the environment has several.
        """
        if self._reset_key is None:
            keys = self.parent.reset_keys
            if len(keys) > 1:
                raise RuntimeError(
                    f"TimeMaxPool: the environment has the reset keys {keys}; say by `reset_key` which one begins "
                    "episodes of these observations."
                )
            self._reset_key = keys[0]
        return self._reset_key

    def _call(self, next_tensordict: Any) -> Any:
        return self._pooled(next_tensordict, None, False)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        mask = None if tensordict is None else tensordict.get(self.reset_key, None)
        with tolerating_missing(self):
            return self._pooled(tensordict_reset, mask, True)

    def _pooled(self, tensordict: Any, mask: Tensor | None, begins: bool) -> Any:
        for in_key, out_key in self._pairs():
            value = tensordict.get(in_key, None)
            if value is None:
                if not self._missing_tolerance:
                    raise self._missing(in_key, tensordict)
                continue
            kept = self._kept("_maxpool_buffer_" + "_".join(as_tuple(in_key)), value)
            if begins:
                # An episode begins with its first observation T times.
                kept.copy_(value if mask is None else torch.where(spread(mask, value), value, kept))
            else:
                kept[1:] = kept[:-1].clone()
                kept[0] = value
            tensordict.set(out_key, kept.amax(0))
        return tensordict

    def _kept(self, name: str, value: Tensor) -> Tensor:
        if name not in self._buffers:
            self.register_buffer(name, value.expand(self.buffer_size, *value.shape).clone())
        return self._buffers[name]  # type: ignore[return-value]

    def forward(self, tensordict: Any) -> Any:
        """Refused: data that do not come step by step have no last observations.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "TimeMaxPool needs steps in their order, and works in environments alone. Of data with a dimension of "
            "time CatFrames gives the last observations, whose maximum can be taken."
        )

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of the greatest observations, which are those of all.

        Args:
            observation_spec: a composite.
        """
        return observation_spec
