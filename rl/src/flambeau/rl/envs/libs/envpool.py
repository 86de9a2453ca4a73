"""Environments of EnvPool: many copies that run in threads of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Categorical, Composite, Unbounded
from flambeau.rl.envs._keys import RESET
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._gym_spaces import _gym_to_torchrl_spec_transform

__all__ = ["MultiThreadedEnv", "MultiThreadedEnvWrapper"]

INSTALL = "pip install 'flambeau-rl[envpool]'"


def _tasks() -> list[str]:
    import envpool

    return list(envpool.list_all_envs())


class MultiThreadedEnvWrapper(_EnvWrapper):
    """A pool of EnvPool, which was made already, with gymnasium's spaces; its copies are the batch.

    The pool begins new episodes in the step after the one that ended them. Entries begin anew where the mask of a reset
    says so, which does the same a step earlier.

    Args:
        env: the pool, made with `env_type="gymnasium"`.
        categorical_action_encoding: discrete actions are numbers, not one-hot vectors.
        kwargs: as for environments.

    Raises:
        TypeError: `env` is no pool.

    References:
        J. Weng et al., EnvPool: A Highly Parallel Reinforcement Learning Environment Execution Engine,
        arXiv:2206.10558.
    """

    git_url = "https://github.com/sail-sg/envpool"
    libname = "envpool"
    available_envs = Available("envpool", _tasks)

    def __init__(self, env: Any = None, categorical_action_encoding: bool = False, **kwargs: Any) -> None:
        if env is not None:
            kwargs["env"] = env
            if not kwargs.get("batch_size"):
                kwargs["batch_size"] = Size([len(getattr(env, "all_env_ids", ()))])
        self.__dict__["categorical_action_encoding"] = categorical_action_encoding
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("envpool", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        if not hasattr(kwargs.get("env"), "all_env_ids"):
            raise TypeError(f"{type(self).__name__} takes a pool of EnvPool; got {type(kwargs.get('env')).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        self.__dict__["num_workers"] = len(env.all_env_ids)
        return env

    def _make_specs(self, env: Any) -> None:
        size = self.batch_size
        action, seen = (
            _gym_to_torchrl_spec_transform(
                space, device=self.device, categorical_action_encoding=self.categorical_action_encoding
            )
            for space in (env.action_space, env.observation_space)
        )
        if not isinstance(seen, Composite):
            seen = Composite(observation=seen)
        self.action_spec = action.expand((*size, *action.shape))
        self.full_observation_spec = seen.expand((*size, *seen.shape))
        self.reward_spec = Unbounded((*size, 1), device=self.device)
        end = Categorical(2, (*size, 1), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(
            done=end, terminated=end.clone(), truncated=end.clone(), shape=size, device=self.device
        )

    def _set_seed(self, seed: int | None) -> None:
        raise RuntimeError(
            f"{type(self).__name__}: EnvPool takes seeds (here {seed}) when a pool is made; make another one, or use "
            "MultiThreadedEnv, which does."
        )

    def _seen(self, observations: Any) -> dict[str, Any]:
        if not isinstance(observations, dict):
            observations = {"observation": observations}
        spec = self.full_observation_spec
        return {
            # Of a copy: the pool writes into its arrays again.
            key: torch.from_numpy(np.array(value)).to(device=spec[key].device, dtype=spec[key].dtype)
            for key, value in observations.items()
        }

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.get(RESET, None)
        if mask is None or mask.all() or self.__dict__.get("_seen_last") is None:
            seen = self._seen(self._env.reset()[0])
        else:
            ids = mask.reshape(-1).nonzero().flatten()
            fresh = self._seen(self._env.reset(ids.numpy().astype(np.int32))[0])
            seen = {key: value.clone() for key, value in self.__dict__["_seen_last"].items()}
            for key, value in fresh.items():
                seen[key][ids] = value
        self.__dict__["_seen_last"] = seen
        return TensorDict(seen, self.batch_size, device=self.device)

    def _step(self, tensordict: Any) -> Any:
        action = self.action_spec.to_numpy(tensordict.get("action"), safe=False)
        space = self._env.action_space
        observations, rewards, terminated, truncated, _ = self._env.step(np.asarray(action, dtype=space.dtype))
        seen = self.__dict__["_seen_last"] = self._seen(observations)

        def column(values: Any, dtype: torch.dtype) -> Any:
            return torch.from_numpy(np.array(values)).to(dtype).reshape(*self.batch_size, 1)

        ends = {"terminated": column(terminated, torch.bool), "truncated": column(truncated, torch.bool)}
        ends["done"] = ends["terminated"] | ends["truncated"]
        reward = column(rewards, self.reward_spec.dtype)
        return TensorDict({**seen, "reward": reward, **ends}, self.batch_size, device=self.device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_workers={self.num_workers}, device={self.device})"


class MultiThreadedEnv(MultiThreadedEnvWrapper):
    """A pool of EnvPool by the name of its environment.

    Args:
        num_workers: copies.
        env_name: such as "Pendulum-v1".
        create_env_kwargs: arguments of `envpool.make`.
        kwargs: as for `MultiThreadedEnvWrapper`.

    Raises:
        ImportError: EnvPool is not installed.
    """

    def __init__(
        self, num_workers: int, env_name: str, *, create_env_kwargs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self.__dict__["env_name"] = env_name
        seed = int(torch.empty((), dtype=torch.int64).random_(0, 2**31 - 1))
        self.__dict__["create_env_kwargs"] = {"seed": seed, "num_envs": num_workers, **(create_env_kwargs or {})}
        super().__init__(env=self._made(), **kwargs)

    def _made(self) -> Any:
        library = backend("envpool", type(self).__name__, INSTALL)
        return library.make(self.env_name, env_type="gymnasium", **self.create_env_kwargs)

    def _set_seed(self, seed: int | None) -> None:
        """Make the pool anew, with another seed."""
        self._env.close()
        self.create_env_kwargs["seed"] = 0 if seed is None else seed
        self.__dict__["_env"] = self._made()
        self.__dict__["_seen_last"] = None
