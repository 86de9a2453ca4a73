"""Vectors of environments that begin new episodes by themselves, and say what the last observations were."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.data.tensor_specs import TensorSpec
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["VecGymEnvTransform"]


class VecGymEnvTransform(Transform):
    """Last observations in their place, and first ones with the reset, of environments that mix them up.

    The environment gives the first observations of new episodes in the step that ends the old ones, and the last
    observations of those below `final_name`. The environments of gymnasium in this package do this by themselves.

    Args:
        final_name: below which the last observations stand.
        missing_obs_value: stands for last observations that are not there.
        native_autoreset: the environment begins new episodes with the next step, not the last one: nothing is mixed up.
    """

    def __init__(
        self,
        final_name: str = "final",
        missing_obs_value: Any = float("nan"),
        *,
        native_autoreset: bool = False,
    ) -> None:
        super().__init__()
        self.final_name = final_name
        self.missing_obs_value = missing_obs_value
        self.native_autoreset = native_autoreset
        self._firsts: dict[NestedKey, torch.Tensor] | None = None

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: a `Compose` or a `TransformedEnv`.
        """
        super().set_container(container)
        self._firsts = None

    @property
    def done_keys(self) -> list[NestedKey]:
        """Keys of the environment's ends."""
        return list(self.parent.done_keys)

    @property
    def obs_keys(self) -> list[NestedKey]:
        """Keys of observations, without the last ones."""
        return [key for key in self.parent.observation_keys if as_tuple(key)[0] != self.final_name]

    def _final(self, key: NestedKey) -> NestedKey:
        return (self.final_name, *as_tuple(key))

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        if self.native_autoreset:
            return next_tensordict.exclude(self.final_name)
        done = next_tensordict.get(self.parent._outer_ends()[0][0])
        if bool(done.any()):
            # Without last observations there are no first ones either: the reset gives them.
            mixed = self.final_name in next_tensordict.keys()  # noqa: SIM118  # no dictionary
            self._firsts = {} if mixed else None
            for key in self.obs_keys:
                value = next_tensordict.get(key)
                if self._firsts is not None:
                    self._firsts[key] = value
                last = next_tensordict.get(self._final(key), None)
                if last is None:
                    last = torch.full_like(value, self._unknown(value.dtype))
                next_tensordict.set(key, torch.where(spread(done, value), last, value))
        return next_tensordict.exclude(self.final_name)

    def _unknown(self, dtype: torch.dtype) -> Any:
        value = self.missing_obs_value
        return value if dtype.is_floating_point or value == value else 0

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        firsts, self._firsts = self._firsts, None
        mask = tensordict.get("_reset", None)
        if firsts is not None and mask is not None:
            for key, value in firsts.items():
                tensordict_reset.set(key, value)
        return tensordict_reset.exclude(self.final_name)

    def forward(self, tensordict: Any) -> Any:
        """Refused: there are no resets.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("VecGymEnvTransform works in environments only, whose resets it sorts out.")

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """The observations without the last ones.

        Args:
            observation_spec: a composite.
        """
        spec: Any = observation_spec
        if self.final_name in spec.keys():  # noqa: SIM118  # no dictionary
            del spec[self.final_name]
        return spec  # type: ignore[no-any-return]
