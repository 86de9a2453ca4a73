"""SMACv2: teams in StarCraft II."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend

__all__ = ["SMACv2Env", "SMACv2Wrapper"]

INSTALL = "pip install git+https://github.com/oxwhirl/smacv2.git, and StarCraft II as its page says"
GENERATED = ["10gen_terran", "10gen_zerg", "10gen_protoss"]
_INFO = {"battle_won": torch.bool, "episode_limit": torch.bool, "dead_allies": torch.int64, "dead_enemies": torch.int64}
_UNITS = ("marine", "marauder", "medivac", "stalker", "zealot", "colossus", "hydralisk", "zergling", "baneling")


def _maps() -> list[str]:
    maps = backend("smacv2.env.starcraft2.maps.smac_maps", "SMACv2Env", INSTALL).get_smac_map_registry()
    return [*GENERATED, *(name for name in maps if name not in GENERATED)]


class SMACv2Wrapper(_EnvWrapper):
    """A team of SMACv2, which was made already.

    Agents have ("agents", "observation"), ("agents", "action") and ("agents", "action_mask"), which actions are
    allowed; the team has "state", "reward", ends, and "info": "battle_won", "dead_allies", "dead_enemies" and
    "episode_limit".

    Args:
        env: a `StarCraft2Env` or `StarCraftCapabilityEnvWrapper`.
        categorical_actions: actions are numbers, not one-hot vectors.
        kwargs: as for environments.

    Raises:
        TypeError: `env` is none of these.

    References:
        B. Ellis et al., SMACv2: An Improved Benchmark for Cooperative Multi-Agent Reinforcement Learning,
        arXiv:2212.07489.
    """

    git_url = "https://github.com/oxwhirl/smacv2"
    libname = "smacv2"
    available_envs = Available("smacv2", _maps)

    def __init__(self, env: Any = None, categorical_actions: bool = True, **kwargs: Any) -> None:
        if env is not None:
            kwargs["env"] = env
        self.__dict__["categorical_actions"] = categorical_actions
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("smacv2", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        if not hasattr(kwargs.get("env"), "get_env_info"):
            raise TypeError(f"{type(self).__name__} takes a StarCraft2Env; got {type(kwargs.get('env')).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        return env

    def _make_specs(self, env: Any) -> None:
        env.reset()  # sizes of generated teams are known only then
        about = env.get_env_info()
        count, actions = about["n_agents"], about["n_actions"]
        self.__dict__.update(n_agents=count, n_actions=actions)
        mask = Categorical(2, (count, actions), dtype=torch.bool, device=self.device)
        kind = Categorical(actions, (count,), device=self.device)
        action = kind if self.categorical_actions else OneHot(actions, (count, actions), dtype=torch.int64)
        observation = Unbounded((count, *np.atleast_1d(about["obs_shape"]).tolist()), device=self.device)
        self.full_action_spec = self._below(action=action.to(self.device) if self.device else action)
        entries = {
            name: Categorical(2, (), dtype=dtype) if dtype is torch.bool else Unbounded((), dtype=dtype)
            for name, dtype in _INFO.items()
        }
        self.full_observation_spec = Composite(
            agents=Composite(observation=observation, action_mask=mask, shape=(count,)),
            state=Unbounded((int(np.prod(about["state_shape"])),)),
            info=Composite(entries),
            device=self.device,
        )
        self.full_reward_spec = Composite(reward=Unbounded((1,)), device=self.device)
        end = Categorical(2, (1,), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), device=self.device)
        self._update_action_mask()

    def _below(self, **specs: Any) -> Composite:
        return Composite(agents=Composite(specs, shape=(self.n_agents,)))

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            warnings.warn(
                "SMACv2 is seeded when it is made, SMACv2Env(..., seed=...): set_seed has no effect.", stacklevel=3
            )

    def _update_action_mask(self) -> torch.Tensor:
        mask = torch.as_tensor(np.asarray(self._env.get_avail_actions(), dtype=bool), device=self.device)
        self.full_action_spec["agents", "action"].update_mask(mask)
        return mask

    def _seen(self, info: dict[str, Any]) -> dict[str, Any]:
        entries = {"observation": self.get_obs(), "action_mask": self._update_action_mask()}
        known = {name: torch.tensor(info.get(name, 0), dtype=dtype) for name, dtype in _INFO.items()}
        return {
            "agents": TensorDict(entries, Size([self.n_agents]), device=self.device),
            "state": self.get_state(),
            "info": TensorDict(known, [], device=self.device),
        }

    def get_obs(self) -> torch.Tensor:
        """What agents see, (agents, features), float32."""
        return torch.as_tensor(np.asarray(self._env.get_obs(), dtype=np.float32), device=self.device)

    def get_state(self) -> torch.Tensor:
        """The state of all, (features,), float32."""
        return torch.as_tensor(np.asarray(self._env.get_state(), dtype=np.float32), device=self.device)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        self._env.reset(**kwargs)
        return TensorDict(self._seen({}), [], device=self.device)

    def _step(self, tensordict: Any) -> Any:
        action = tensordict["agents", "action"]
        numbers = (action if self.categorical_actions else action.long().argmax(-1)).tolist()
        reward, over, info = self._env.step(numbers)
        entries = self._seen(info)
        entries["reward"] = torch.tensor([reward], dtype=torch.float32)
        ends = {name: torch.tensor([bool(over)]) for name in ("done", "terminated")}
        return TensorDict(entries | ends, [], device=self.device)

    def get_agent_type(self, agent_index: int) -> str:
        """What unit an agent is, such as "marine".

        Raises:
            ValueError: a unit that SMACv2 has no name for.
        """
        env = getattr(self._env, "env", self._env)
        kind = env.agents[agent_index].unit_type
        for name in _UNITS:
            if getattr(env, f"{name}_id", None) == kind:
                return name
        raise ValueError(f"Agent {agent_index} is a unit of the unknown type {kind}.")

    def render(self, mode: str = "human") -> Any:
        """The library's picture; an array (height, width, 3) with "rgb_array"."""
        return self._env.render(mode=mode)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """End StarCraft."""
        if not self.is_closed:
            self._env.close()
        super().close(raise_if_closed=raise_if_closed)


class SMACv2Env(SMACv2Wrapper):
    """A team of SMACv2 by the name of its map.

    Args:
        map_name: such as "MMM2" or "10gen_terran".
        capability_config: what is generated, for maps that are.
        seed: of the game.
        categorical_actions: as for `SMACv2Wrapper`.
        kwargs: of the game.

    Raises:
        ImportError: SMACv2 is not installed.
    """

    def __init__(
        self, map_name: str, capability_config: dict[str, Any] | None = None, seed: int | None = None,
        categorical_actions: bool = True, **kwargs: Any,
    ) -> None:  # fmt: skip
        own = {key: kwargs.pop(key) for key in ("device", "spec_locked") if key in kwargs}
        games = backend("smacv2.env", type(self).__name__, INSTALL)
        self.__dict__["map_name"] = map_name
        if capability_config is not None:
            wrapper = backend("smacv2.env.starcraft2.wrapper", type(self).__name__, INSTALL)
            env = wrapper.StarCraftCapabilityEnvWrapper(
                capability_config=capability_config, map_name=map_name, seed=seed, **kwargs
            )
        else:
            env = games.StarCraft2Env(map_name=map_name, seed=seed, **kwargs)
        super().__init__(env=env, categorical_actions=categorical_actions, **own)
