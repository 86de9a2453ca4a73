"""Procgen: games whose levels are generated."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import backend

__all__ = ["ProcgenEnv", "ProcgenWrapper"]

INSTALL = "pip install procgen (Python 3.10 or older)"
GAMES = [
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
]  # fmt: skip


class ProcgenWrapper(_EnvWrapper):
    """Games of Procgen, which were made already: a batch of them.

    "observation" is (games, 3, 64, 64), uint8. Games begin anew by themselves: where one ended, "next" has the first
    observation of the next level, and a reset of these games returns it again.

    Args:
        env: a `procgen.ProcgenEnv`.
        categorical_actions: actions are numbers, not one-hot vectors.
        kwargs: as for environments.

    Raises:
        TypeError: `env` is none.

    References:
        K. Cobbe et al., Leveraging Procedural Generation to Benchmark Reinforcement Learning, arXiv:1912.01588.
    """

    git_url = "https://github.com/openai/procgen"
    libname = "procgen"
    available_envs = GAMES

    def __init__(self, env: Any = None, *, categorical_actions: bool = True, **kwargs: Any) -> None:
        if env is not None:
            kwargs["env"] = env
        if kwargs.get("batch_size") is None:
            kwargs["batch_size"] = Size([getattr(env, "num_envs", 0)])
        self.__dict__["categorical_actions"] = categorical_actions
        self.__dict__["_last"] = None
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("procgen", type(self).__name__, INSTALL)

    @property
    def observation_space(self) -> Any:
        """The library's."""
        return self._env.observation_space

    @property
    def action_space(self) -> Any:
        """The library's."""
        return self._env.action_space

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(env, "num_envs") or not hasattr(env, "action_space"):
            raise TypeError(f"{type(self).__name__} takes a procgen.ProcgenEnv; got {type(env).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        return env

    def _make_specs(self, env: Any) -> None:
        size, device, actions = self.batch_size, self.device, env.action_space.n
        kind = Categorical(actions, size) if self.categorical_actions else OneHot(actions, (*size, actions))
        self.full_action_spec = Composite(action=kind, shape=size, device=device)
        pixels = Bounded(0, 255, (*size, 3, 64, 64), dtype=torch.uint8)
        self.full_observation_spec = Composite(observation=pixels, shape=size, device=device)
        self.full_reward_spec = Composite(reward=Unbounded((*size, 1)), shape=size, device=device)
        ends = {name: Categorical(2, (*size, 1), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.full_done_spec = Composite(ends, shape=size, device=device)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            warnings.warn(
                "Procgen is seeded when it is made, ProcgenEnv(..., seed=...): set_seed has no effect.", stacklevel=3
            )

    def _seen(self, observation: Any) -> torch.Tensor:
        pixels = torch.from_numpy(np.array(observation["rgb"])).movedim(-1, -3).contiguous()
        self.__dict__["_last"] = pixels.to(self.device) if self.device is not None else pixels
        seen: torch.Tensor = self._last
        return seen

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        partly = tensordict is not None and tensordict.get("_reset", None) is not None
        seen = self._last if partly and self._last is not None else self._seen(self._env.reset())
        return TensorDict({"observation": seen.clone()}, self.batch_size, device=self.device)

    def _step(self, tensordict: Any) -> Any:
        action = tensordict["action"]
        numbers = action if self.categorical_actions else action.long().argmax(-1)
        observation, reward, done, _ = self._env.step(numbers.cpu().numpy().astype(np.int32))
        ended = torch.as_tensor(np.asarray(done, dtype=bool)).unsqueeze(-1)
        entries = {
            "observation": self._seen(observation).clone(),
            "reward": torch.as_tensor(np.asarray(reward, dtype=np.float32)).unsqueeze(-1),
            "done": ended, "terminated": ended.clone(), "truncated": torch.zeros_like(ended),
        }  # fmt: skip
        return TensorDict(entries, self.batch_size, device=self.device)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """End the games."""
        if not self.is_closed and hasattr(self._env, "close"):
            self._env.close()
        super().close(raise_if_closed=raise_if_closed)


class ProcgenEnv(ProcgenWrapper):
    """Games of Procgen by name.

    Args:
        env_name: one of `available_envs`.
        num_envs: how many.
        seed: of the levels.
        categorical_actions: as for `ProcgenWrapper`.
        kwargs: `distribution_mode`, `start_level`, `num_levels`, `use_backgrounds` and the others of Procgen.

    Raises:
        ImportError: Procgen is not installed.
        ValueError: no such game.
    """

    def __init__(
        self, env_name: str, *, num_envs: int = 1, seed: int | None = None, categorical_actions: bool = True,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if env_name not in GAMES:
            raise ValueError(f"env_name is {env_name!r}, expected one of {', '.join(GAMES)}.")
        own = {key: kwargs.pop(key) for key in ("device", "spec_locked", "allow_done_after_reset") if key in kwargs}
        library = backend("procgen", type(self).__name__, INSTALL)
        self.__dict__["env_name"] = env_name
        if seed is not None:
            kwargs["rand_seed"] = seed
        env = library.ProcgenEnv(num_envs=num_envs, env_name=env_name, **kwargs)
        super().__init__(env=env, categorical_actions=categorical_actions, **own)
