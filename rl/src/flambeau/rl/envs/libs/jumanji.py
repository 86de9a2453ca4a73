"""Environments of Jumanji."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import (
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import RESET
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._jax import _LARGER, Tree, keys_of, over_batch, to_torch

__all__ = ["JumanjiEnv", "JumanjiWrapper"]

INSTALL = "pip install 'flambeau-rl[jumanji]'"


def _tasks() -> list[str]:
    import jumanji

    return list(jumanji.registered_environments())


def _dtype(dtype: Any) -> torch.dtype:
    name = np.dtype(dtype).name
    return _LARGER.get(name) or torch.from_numpy(np.empty(0, dtype=name)).dtype


def spec_of(spec: Any, device: Any = None, categorical: bool = True) -> TensorSpec:
    """The spec of one of Jumanji's.

    Args:
        spec: an array's, or one of several.
        device: of the spec.
        categorical: discrete values are numbers, not one-hot vectors.
    """
    if not hasattr(spec, "dtype"):
        return Composite({key: spec_of(each, device, categorical) for key, each in spec._specs.items()}, device=device)
    dtype = _dtype(spec.dtype)
    if hasattr(spec, "num_values"):
        counts = np.asarray(spec.num_values)
        if not counts.ndim:
            kind: Any = Categorical if categorical else OneHot
            return kind(int(counts), device=device, dtype=dtype)  # type: ignore[no-any-return]
        several: Any = MultiCategorical if categorical else MultiOneHot
        return several(counts.reshape(-1).tolist(), device=device, dtype=dtype)  # type: ignore[no-any-return]
    shape = Size(spec.shape)
    if hasattr(spec, "minimum"):
        low, high = (
            torch.as_tensor(np.broadcast_to(np.asarray(limit), spec.shape).copy(), device=device).to(dtype)
            for limit in (spec.minimum, spec.maximum)
        )
        return Bounded(low, high, shape, device=device, dtype=dtype)
    return Unbounded(shape, device=device, dtype=dtype)


class JumanjiWrapper(_EnvWrapper):
    """An environment of Jumanji, which was made already, in as many copies as the batch has.

    It keeps no state: that comes with every tensordict, at "state", and goes on from there. Fields of observations
    have keys of their own; an observation that is one array is at "observation".

    Args:
        env: the environment.
        categorical_action_encoding: discrete actions are numbers, not one-hot vectors.
        jit: compile its functions; has no effect, they are.
        kwargs: as for environments; `batch_size` is the number of copies, by dimension.

    Raises:
        TypeError: `env` is none of Jumanji.

    References:
        C. Bonnet et al., Jumanji: a Diverse Suite of Scalable Reinforcement Learning Environments in JAX,
        arXiv:2306.09884.
    """

    git_url = "https://github.com/instadeepai/jumanji"
    libname = "jumanji"
    available_envs = Available("jumanji", _tasks)

    def __init__(
        self, env: Any = None, categorical_action_encoding: bool = True, jit: bool = True, **kwargs: Any
    ) -> None:
        if env is not None:
            kwargs["env"] = env
        self.__dict__["categorical_action_encoding"] = categorical_action_encoding
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("jumanji", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(env, "observation_spec") or not hasattr(env, "action_spec"):
            raise TypeError(f"{type(self).__name__} takes an environment of Jumanji; got {type(env).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        jax = backend("jax", type(self).__name__, INSTALL)
        count = len(self.batch_size)
        state = self.__dict__
        state["_begin"], state["_go_on"] = over_batch(env.reset, count), over_batch(env.step, count)
        state["_key"] = jax.random.PRNGKey(0)
        return env

    def _expanded(self, spec: Any) -> Any:
        return spec.expand(Size([*self.batch_size, *spec.shape])) if self.batch_size else spec

    def _make_specs(self, env: Any) -> None:
        size, device = self.batch_size, self.device
        _, keys = keys_of(self._key, size)
        first, step = self._begin(keys)
        state, shown = self.__dict__, step.observation
        state["_tree"] = Tree(first)
        state["_fields"] = hasattr(shown, "_fields")
        # Fields may be structures themselves.
        state["_seen_tree"] = Tree(shown) if state["_fields"] else None
        held = self._tree.spec(first, size, device)
        seen = spec_of(env.observation_spec, device, True)
        seen = seen if isinstance(seen, Composite) else Composite(observation=seen)
        seen = self._expanded(seen)
        seen["state"] = held
        self.full_observation_spec = seen
        self.full_state_spec = Composite(state=held.clone(), shape=size)
        self.action_spec = self._expanded(spec_of(env.action_spec, device, self.categorical_action_encoding))
        self.reward_spec = Unbounded((*size, *(np.shape(step.reward)[len(size) :] or (1,))), device=device)
        end = Categorical(2, (*size, 1), dtype=torch.bool, device=device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), shape=size)

    def _set_seed(self, seed: int | None) -> None:
        if seed is None:
            raise ValueError(f"{type(self).__name__} needs a seed, a number.")
        self.__dict__["_key"] = backend("jax", type(self).__name__, INSTALL).random.PRNGKey(seed)

    def _given(self, state: Any, step: Any) -> Any:
        size, device = self.batch_size, self.device
        if self._fields:
            out = self._seen_tree.tensors(step.observation, size, device)
        else:
            out = TensorDict({"observation": to_torch(step.observation, device)}, size, device=device)
        return out.set("state", self._tree.tensors(state, size, device))

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        self.__dict__["_key"], keys = keys_of(self._key, self.batch_size)
        fresh = self._given(*self._begin(keys))
        mask = None if tensordict is None else tensordict.get(RESET, None)
        if mask is None or mask.all():
            return fresh
        for key, value in fresh.items(True, True):
            old = tensordict.get(key, None)
            if old is not None:
                fresh.set(key, torch.where(spread(mask, value), value, old))
        return fresh

    def _step(self, tensordict: Any) -> Any:
        jnp = backend("jax.numpy", type(self).__name__, INSTALL)
        state = self._tree.arrays(tensordict.get("state"))
        action = self.action_spec.to_numpy(tensordict.get("action"), safe=False)
        dtype = self._env.action_spec.dtype
        state, step = self._go_on(state, jnp.asarray(np.asarray(action).astype(np.dtype(dtype))))
        out = self._given(state, step)
        out.set("reward", to_torch(step.reward, self.device).reshape(self.reward_spec.shape).to(self.reward_spec.dtype))
        # The last step of an episode is of type 2.
        done = (to_torch(step.step_type, self.device) == 2).unsqueeze(-1)
        return out.set("done", done).set("terminated", done.clone())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, batch_size={tuple(self.batch_size)}, device={self.device})"


class JumanjiEnv(JumanjiWrapper):
    """An environment of Jumanji by its name.

    Args:
        env_name: such as "Snake-v1".
        kwargs: as for `JumanjiWrapper`; all others are the environment's.

    Raises:
        ImportError: Jumanji is not installed.
    """

    def __init__(self, env_name: str, **kwargs: Any) -> None:
        names = ("device", "batch_size", "categorical_action_encoding", "jit", "spec_locked")
        own = {key: kwargs.pop(key) for key in names if key in kwargs}
        library = backend("jumanji", type(self).__name__, INSTALL)
        self.__dict__["env_name"] = env_name
        super().__init__(env=library.make(env_name, **kwargs), **own)
