"""From the belief of a planner to an observation, and from a distribution of actions to its mean."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.data.tensor_specs import Composite, TensorSpec, Unbounded
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["MeanActionSelector"]


class MeanActionSelector(Transform):
    """Observations as beliefs without variance, and the mean of a belief over actions as the action, as PILCO has it.

    Args:
        observation_key: of the observation; its belief stands below it, as "mean" (..., n) and "var" (..., n, n).
        action_key: of the action, whose belief has its mean below it.

    References:
        M. P. Deisenroth, C. E. Rasmussen, PILCO: A Model-Based and Data-Efficient Approach to Policy Search, ICML 2011.
    """

    def __init__(self, observation_key: str = "observation", action_key: str = "action") -> None:
        super().__init__(
            in_keys=[observation_key],
            out_keys=[(observation_key, "mean"), (observation_key, "var")],
            in_keys_inv=[action_key],
            out_keys_inv=[(action_key, "mean")],
        )
        self.observation_key = observation_key
        self.action_key = action_key

    def _call(self, next_tensordict: Any) -> Any:
        value = next_tensordict.get(self.observation_key, None)
        if value is None:
            if self.missing_tolerance:
                return next_tensordict
            raise self._missing(self.observation_key, next_tensordict)
        if isinstance(value, torch.Tensor):
            size = value.shape[-1]
            next_tensordict.del_(self.observation_key)
            next_tensordict.set((self.observation_key, "mean"), value)
            next_tensordict.set((self.observation_key, "var"), value.new_zeros(*value.shape, size))
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Beliefs in the place of observations.

        Args:
            tensordict: changed in place.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def _inv_call(self, tensordict: Any) -> Any:
        belief = tensordict.get(self.action_key, None)
        if belief is None or isinstance(belief, torch.Tensor):
            return tensordict
        return tensordict.set(self.action_key, belief.get("mean"))

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """Beliefs in the place of observations.

        Args:
            observation_spec: a composite.
        """
        spec: Any = observation_spec
        old = spec[self.observation_key]
        del spec[self.observation_key]
        variances = Unbounded((*old.shape, old.shape[-1]), dtype=old.dtype, device=old.device)
        spec[self.observation_key] = Composite(mean=old, var=variances, shape=spec.shape)
        return spec  # type: ignore[no-any-return]
