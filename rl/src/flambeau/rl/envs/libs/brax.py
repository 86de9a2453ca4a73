"""Environments of Brax."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, Unbounded
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import RESET
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._jax import Tree, keys_of, over_batch, to_torch

__all__ = ["BraxEnv", "BraxWrapper"]

INSTALL = "pip install 'flambeau-rl[brax]'"


def _tasks() -> list[str]:
    from brax import envs

    return sorted(envs._envs)


class BraxWrapper(_EnvWrapper):
    """An environment of Brax, which was made already, in as many copies as the batch has.

    It keeps no state: that comes with every tensordict, at "state", and goes on from there.

    Args:
        env: the environment, without wrappers that copy it or begin episodes by themselves.
        categorical_action_encoding: has no effect.
        cache_clear_frequency: forget what JAX has compiled after so many steps, for programs that run for long.
        kwargs: as for environments; `batch_size` is the number of copies, by dimension.

    Raises:
        TypeError: `env` is none of Brax.

    References:
        C. D. Freeman et al., Brax -- A Differentiable Physics Engine for Large Scale Rigid Body Simulation,
        arXiv:2106.13281.
    """

    git_url = "https://github.com/google/brax"
    libname = "brax"
    available_envs = Available("brax", _tasks)

    def __init__(
        self, env: Any = None, categorical_action_encoding: bool = False, cache_clear_frequency: int | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if env is not None:
            kwargs["env"] = env
        self.__dict__["cache_clear_frequency"] = cache_clear_frequency
        self.__dict__["_step_count"] = 0
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("brax", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(env, "action_size") or not hasattr(env, "observation_size"):
            raise TypeError(f"{type(self).__name__} takes an environment of Brax; got {type(env).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        jax = backend("jax", type(self).__name__, INSTALL)
        count = len(self.batch_size)
        state = self.__dict__
        state["_begin"], state["_go_on"] = over_batch(env.reset, count), over_batch(env.step, count)
        state["_key"] = jax.random.PRNGKey(0)
        return env

    def _make_specs(self, env: Any) -> None:
        size, device = self.batch_size, self.device
        _, keys = keys_of(self._key, size)
        first = self._begin(keys)
        self.__dict__["_tree"] = Tree(first)
        state = self._tree.spec(first, size, device)
        self.full_observation_spec = Composite(
            observation=Unbounded((*size, env.observation_size), device=device), state=state, shape=size
        )
        self.full_state_spec = Composite(state=state.clone(), shape=size)
        self.action_spec = Bounded(-1, 1, (*size, env.action_size), device=device)
        self.reward_spec = Unbounded((*size, 1), device=device)
        end = Categorical(2, (*size, 1), dtype=torch.bool, device=device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), shape=size)

    def _set_seed(self, seed: int | None) -> None:
        if seed is None:
            raise ValueError(f"{type(self).__name__} needs a seed, a number.")
        self.__dict__["_key"] = backend("jax", type(self).__name__, INSTALL).random.PRNGKey(seed)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        size = self.batch_size
        self.__dict__["_key"], keys = keys_of(self._key, size)
        fresh = self._first(self._begin(keys))
        mask = None if tensordict is None else tensordict.get(RESET, None)
        if mask is None or mask.all() or tensordict.get("state", None) is None:
            return fresh
        for key, value in fresh.items(True, True):
            old = tensordict.get(key, None)
            if old is not None:
                fresh.set(key, torch.where(spread(mask, value), value, old))
        return fresh

    def _first(self, state: Any) -> Any:
        return TensorDict(
            {"observation": to_torch(state.obs, self.device), "state": self._tensors(state)},
            self.batch_size,
            device=self.device,
        )

    def _tensors(self, state: Any) -> Any:
        return self._tree.tensors(state, self.batch_size, self.device)

    def _step(self, tensordict: Any) -> Any:
        jnp = backend("jax.numpy", type(self).__name__, INSTALL)
        state = self._tree.arrays(tensordict.get("state"))
        following = self._go_on(state, jnp.asarray(tensordict.get("action").detach().cpu().numpy()))
        self.__dict__["_step_count"] += 1
        if self.cache_clear_frequency and self._step_count % self.cache_clear_frequency == 0:
            backend("jax", type(self).__name__, INSTALL).clear_caches()
        out = self._first(following)
        out.set("reward", self._column(following.reward))
        out.set("done", self._column(following.done).bool())
        return out.set("terminated", out.get("done").clone())

    def _column(self, value: Any) -> Tensor:
        return to_torch(value, self.device).unsqueeze(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, batch_size={tuple(self.batch_size)}, device={self.device})"


class BraxEnv(BraxWrapper):
    """An environment of Brax by its name.

    Args:
        env_name: such as "inverted_pendulum".
        kwargs: as for `BraxWrapper`; all others are the environment's.

    Raises:
        ImportError: Brax is not installed.
    """

    def __init__(self, env_name: str, **kwargs: Any) -> None:
        own = {
            key: kwargs.pop(key)
            for key in ("device", "batch_size", "cache_clear_frequency", "spec_locked")
            if key in kwargs
        }
        envs = backend("brax.envs", type(self).__name__, INSTALL)
        self.__dict__["env_name"] = env_name
        super().__init__(env=envs.get_environment(env_name, **kwargs), **own)
