"""Melting Pot: games of several agents who may cooperate or not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs._agents import MarlGroupMapType
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._groups import by_prefix, group_map_of, stacked_data, stacked_specs

__all__ = ["MeltingpotEnv", "MeltingpotWrapper"]

INSTALL = "pip install dm-meltingpot"
# What all agents are given alike; it belongs to the world.
_WORLD = "WORLD.RGB"
_DTYPES = {np.dtype("uint8"): torch.uint8, np.dtype("float64"): torch.float64, np.dtype("int32"): torch.int32}


def _substrates() -> list[str]:
    return sorted(backend("meltingpot.substrate", "MeltingpotEnv", INSTALL).SUBSTRATES)


class MeltingpotWrapper(_EnvWrapper):
    """A substrate of Melting Pot, which was made already.

    Agents are called "player_0" and so on, and have (group, "observation", NAME), (group, "action") and
    (group, "reward"); "RGB" is the picture of the world, (height, width, 3), uint8.

    Args:
        env: the substrate.
        categorical_actions: actions are numbers, not one-hot vectors.
        group_map: which agents are together; default: all, in "agents".
        max_steps: steps after which the episode terminates as well.
        kwargs: as for environments.

    Raises:
        TypeError: `env` is no substrate.

    References:
        J. P. Agapiou et al., Melting Pot 2.0, arXiv:2211.13746.
    """

    git_url = "https://github.com/google-deepmind/meltingpot"
    libname = "meltingpot"
    available_envs = Available("meltingpot", _substrates)

    def __init__(
        self, env: Any = None, categorical_actions: bool = True,
        group_map: MarlGroupMapType | dict[str, list[str]] = MarlGroupMapType.ALL_IN_ONE_GROUP,
        max_steps: int | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        if env is not None:
            kwargs["env"] = env
        self.__dict__.update(categorical_actions=categorical_actions, max_steps=max_steps, group_map=group_map)
        self.__dict__.update(num_cycles=0, _world=None)
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("meltingpot", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env: Any = kwargs.get("env")
        if not hasattr(env, "observation_spec") or not isinstance(env.action_spec(), (list, tuple)):
            raise TypeError(f"{type(self).__name__} takes a substrate; got {type(env).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        return env

    def _make_specs(self, env: Any) -> None:
        seen, acts = env.observation_spec(), env.action_spec()
        names = [f"player_{at}" for at in range(len(acts))]
        indices = {name: at for at, name in enumerate(names)}
        self.__dict__.update(agent_names=names, agent_names_to_indices_map=indices)
        self.__dict__["group_map"] = group_map_of(self.group_map, names, by_prefix)
        actions, observations, rewards = {}, {}, {}
        for name, at in indices.items():
            count = int(acts[at].num_values)
            action = Categorical(count, ()) if self.categorical_actions else OneHot(count)
            actions[name] = Composite(action=action)
            inner = {key: _spec_of(spec) for key, spec in seen[at].items() if key != _WORLD}
            observations[name] = Composite(observation=Composite(inner))
            rewards[name] = Composite(reward=Unbounded((1,), dtype=torch.float64))
        size = Size([])
        self.full_action_spec = stacked_specs(self.group_map, actions, size).to(self.device or "cpu")
        self.full_reward_spec = stacked_specs(self.group_map, rewards, size).to(self.device or "cpu")
        observation = stacked_specs(self.group_map, observations, size)
        observation["RGB"] = _spec_of(seen[0][_WORLD])
        self.full_observation_spec = observation.to(self.device or "cpu")
        end = Categorical(2, (1,), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            warnings.warn("Melting Pot takes no seed once a substrate is made: set_seed has no effect.", stacklevel=3)

    def _seen(self, observations: Any, rewards: Any = None) -> dict[str, Any]:
        data: dict[str, dict[str, Any]] = {}
        for name, at in self.agent_names_to_indices_map.items():
            inner = {key: _tensor_of(value) for key, value in observations[at].items() if key != _WORLD}
            data[name] = {"observation": TensorDict(inner, [])}
            if rewards is not None:
                data[name]["reward"] = torch.tensor([float(rewards[at])], dtype=torch.float64)
        self.__dict__["_world"] = _tensor_of(observations[0][_WORLD])
        return {**stacked_data(self.group_map, data, Size([])), "RGB": self._world}

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        self.__dict__["num_cycles"] = 0
        return TensorDict(self._seen(self._env.reset().observation), []).to(self.device or "cpu")

    def _step(self, tensordict: Any) -> Any:
        numbers = [0] * len(self.agent_names)
        for group, names in self.group_map.items():
            action = tensordict.get((group, "action"))
            chosen = action if self.categorical_actions else action.long().argmax(-1)
            for name, number in zip(names, chosen.tolist(), strict=True):
                numbers[self.agent_names_to_indices_map[name]] = number
        timestep = self._env.step(numbers)
        self.__dict__["num_cycles"] += 1
        over = timestep.last() or (self.max_steps is not None and self.num_cycles >= self.max_steps)
        entries = self._seen(timestep.observation, timestep.reward)
        ends = {name: torch.tensor([bool(over)]) for name in ("done", "terminated")}
        return TensorDict(entries | ends, []).to(self.device or "cpu")

    def get_rgb_image(self) -> torch.Tensor:
        """The last picture of the world, (height, width, 3), uint8.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._world is None:
            raise RuntimeError("There is no picture yet; reset the environment first.")
        world: torch.Tensor = self._world
        return world


class MeltingpotEnv(MeltingpotWrapper):
    """A substrate of Melting Pot by its name.

    Args:
        substrate: one of `available_envs`, or a configuration.
        max_steps, categorical_actions, group_map: as for `MeltingpotWrapper`.
        kwargs: likewise.

    Raises:
        ImportError: Melting Pot is not installed.
    """

    def __init__(
        self, substrate: Any, *, max_steps: int | None = None, categorical_actions: bool = True,
        group_map: MarlGroupMapType | dict[str, list[str]] = MarlGroupMapType.ALL_IN_ONE_GROUP, **kwargs: Any,
    ) -> None:  # fmt: skip
        substrates = backend("meltingpot.substrate", type(self).__name__, INSTALL)
        config = substrates.get_config(substrate) if isinstance(substrate, str) else substrate
        env = substrates.build_from_config(config, roles=config.default_player_roles)
        self.__dict__["substrate"] = substrate
        super().__init__(
            env=env, max_steps=max_steps, categorical_actions=categorical_actions, group_map=group_map, **kwargs
        )


def _spec_of(spec: Any) -> Unbounded:
    """Of an array; numbers are (1,)."""
    return Unbounded(tuple(spec.shape) or (1,), dtype=_DTYPES.get(np.dtype(spec.dtype), torch.float32))


def _tensor_of(value: Any) -> torch.Tensor:
    array = np.asarray(value)
    return torch.as_tensor(array.reshape(array.shape or (1,)).copy(), dtype=_DTYPES.get(array.dtype, torch.float32))
