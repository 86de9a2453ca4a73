"""Environments that a model with uncertainty imagines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey, as_key, as_tuple
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.model_based.common import ModelBasedEnvBase
from flambeau.rl.envs.model_based.world_model_env import expanded, sizes

__all__ = ["ImaginedEnv"]


class ImaginedEnv(ModelBasedEnvBase):
    """An environment whose observations are distributions, with "mean" (*batch, n) and "var" (*batch, n, n).

    It has the observations of another environment, each a mean with a variance, that environment's actions, rewards
    of 0 unless the model gives them, and no end.

    Args:
        world_model_module: from "action" and "observation" to the next mean and variance.
        base_env: the environment whose specs this one has.
        batch_size: a number or sizes; default: that of `base_env`, or (1,).
        next_observation_key: where the model writes the next mean and variance.
        kwargs: as for `ModelBasedEnvBase`.

    References:
        M. P. Deisenroth, C. E. Rasmussen, PILCO: A Model-Based and Data-Efficient Approach to Policy Search, ICML 2011.
    """

    def __init__(
        self, world_model_module: Any, base_env: EnvBase, batch_size: int | Size | Sequence[int] | None = None,
        next_observation_key: NestedKey = ("next", "observation"), **kwargs: Any,
    ) -> None:  # fmt: skip
        size = sizes(base_env, batch_size)
        super().__init__(world_model_module, **({"device": base_env.device, "batch_size": size} | kwargs))
        self.base_env = base_env
        self.next_observation_key = next_observation_key
        for name in ("action", "reward", "done"):
            setattr(self, f"full_{name}_spec", expanded(base_env, name, size, self.device))
        count = expanded(base_env, "observation", size, self.device)["observation"].shape[-1]
        inner = Composite(
            mean=Unbounded((*size, count), device=self.device),
            var=Unbounded((*size, count, count), device=self.device),
            shape=size,
        )
        self.full_observation_spec = Composite(observation=inner, shape=size)
        self.full_state_spec = self.full_observation_spec.clone()

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        """Begin with what is given, or where the other environment begins, without variance."""
        size = self.batch_size
        given = None if tensordict is None else tensordict.get("observation", None)
        if given is None or isinstance(given, torch.Tensor):
            mean = self._first() if given is None else given
            var = torch.zeros(*mean.shape, mean.shape[-1], dtype=mean.dtype, device=mean.device)
            given = TensorDict({"mean": mean, "var": var}, size, device=self.device)
        return TensorDict({"observation": given}, size, device=self.device)

    def _first(self) -> Any:
        """First observations of the other environment, one for each entry of the batch."""
        base, size = self.base_env, self.batch_size
        if base.batch_size == size:
            return base.reset()["observation"]
        firsts = [base.reset()["observation"] for _ in range(size.numel())]
        return torch.stack(firsts, 0).reshape(*size, *firsts[0].shape)

    def _step(self, tensordict: Any) -> Any:
        size = self.batch_size
        out = self._predicted(tensordict.copy())
        parts = as_tuple(self.next_observation_key)
        following = {
            "observation": TensorDict({name: out.get(as_key((*parts, name))) for name in ("mean", "var")}, size)
        }
        reward = out.get(("next", "reward"), None)
        data = TensorDict(following, size, device=self.device).update(self.full_done_spec.zero())
        if reward is None:
            return data.update(self.full_reward_spec.zero())
        return data.set("reward", reward)

    def any_done(self, tensordict: Any) -> bool:
        """Never: an imagined episode has no end.

        Args:
            tensordict: has no effect.
        """
        return False

    def maybe_reset(self, tensordict: Any) -> Any:
        """What it is given: no episode ends.

        Args:
            tensordict: is not changed.
        """
        return tensordict
