"""Level-based foraging: agents that collect food together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._gym_spaces import _gym_to_torchrl_spec_transform

__all__ = ["LBForagingEnv", "LBForagingWrapper"]

INSTALL = "pip install 'flambeau-rl[lbforaging]'"


def _tasks() -> list[str]:
    import gymnasium
    import lbforaging  # noqa: F401  # registers them

    return sorted(name for name in gymnasium.registry if name.startswith("Foraging"))


class LBForagingWrapper(_EnvWrapper):
    """An environment of level-based foraging, which was made already.

    Observations, rewards and actions are at ("agents", "observation"), ("agents", "reward") and ("agents", "action"),
    (agents, ...); the end is that of all.

    Args:
        env: the environment.
        categorical_actions: actions are numbers, not one-hot vectors.
        seed: of the environment.
        kwargs: as for environments.

    Raises:
        TypeError: `env` has no spaces of several agents.

    References:
        G. Papoudakis et al., Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks,
        arXiv:2006.07869.
    """

    git_url = "https://github.com/semitable/lb-foraging"
    libname = "lbforaging"
    available_envs = Available("lbforaging", _tasks)

    def __init__(
        self, env: Any = None, *, categorical_actions: bool = True, seed: int | None = None, **kwargs: Any
    ) -> None:
        if env is not None:
            kwargs["env"] = env
        self.__dict__["categorical_actions"], self.__dict__["seed"] = categorical_actions, seed
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("lbforaging", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(getattr(env, "action_space", None), "spaces"):
            raise TypeError(f"{type(self).__name__} takes an environment of several agents; got {type(env).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        return env

    def _make_specs(self, env: Any) -> None:
        count = len(env.action_space.spaces)
        self.__dict__["n_agents"] = count

        def of_agents(spaces: Any) -> Any:
            parts = [
                _gym_to_torchrl_spec_transform(
                    space, device=self.device, categorical_action_encoding=self.categorical_actions
                )
                for space in spaces
            ]
            return torch.stack(parts, 0)

        actions = of_agents(env.action_space.spaces)
        actions = actions.to(torch.int64) if isinstance(actions, Categorical | OneHot) else actions
        reward = Unbounded((count, 1), device=self.device)
        self.full_action_spec = self._below(action=actions)
        self.full_observation_spec = self._below(observation=of_agents(env.observation_space.spaces))
        self.full_reward_spec = self._below(reward=reward)
        end = Categorical(2, (1,), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), truncated=end.clone(), device=self.device)

    def _below(self, **specs: Any) -> Composite:
        return Composite(agents=Composite(specs, shape=(self.n_agents,)))

    def _set_seed(self, seed: int | None) -> None:
        self.__dict__["seed"] = seed

    def _seen(self, observations: Any) -> dict[str, Any]:
        values = torch.from_numpy(np.stack([np.asarray(each, dtype=np.float32) for each in observations]))
        return {"observation": values.to(self.device or "cpu")}

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        seed, self.__dict__["seed"] = self.seed, None
        observations, _ = self._env.reset(seed=seed, **kwargs)
        agents = TensorDict(self._seen(observations), Size([self.n_agents]), device=self.device)
        return TensorDict({"agents": agents}, [], device=self.device)

    def _step(self, tensordict: Any) -> Any:
        action = tensordict["agents", "action"]
        numbers = (action if self.categorical_actions else action.long().argmax(-1)).tolist()
        observations, rewards, terminated, truncated, _ = self._env.step(numbers)
        entries = self._seen(observations)
        entries["reward"] = torch.tensor(np.asarray(rewards, dtype=np.float32), device=self.device).reshape(-1, 1)
        agents = TensorDict(entries, Size([self.n_agents]), device=self.device)
        over = bool(np.all(terminated)), bool(np.all(truncated))
        ends = zip(("done", "terminated", "truncated"), (over[0] or over[1], *over), strict=True)
        return TensorDict(
            {"agents": agents, **{key: torch.tensor([value]) for key, value in ends}}, [], device=self.device
        )


class LBForagingEnv(LBForagingWrapper):
    """An environment of level-based foraging by its name.

    Args:
        env_name: such as "Foraging-8x8-2p-1f-v3".
        categorical_actions: as for `LBForagingWrapper`.
        seed: likewise.
        kwargs: of the environment.

    Raises:
        ImportError: lbforaging is not installed.
    """

    def __init__(
        self, env_name: str, *, categorical_actions: bool = True, seed: int | None = None, **kwargs: Any
    ) -> None:
        own = {key: kwargs.pop(key) for key in ("device", "spec_locked") if key in kwargs}
        backend("lbforaging", type(self).__name__, INSTALL)
        gymnasium = backend("gymnasium", type(self).__name__, INSTALL)
        self.__dict__["env_name"] = env_name
        env = gymnasium.make(env_name, disable_env_checker=True, **kwargs)
        super().__init__(env=env, categorical_actions=categorical_actions, seed=seed, **own)
