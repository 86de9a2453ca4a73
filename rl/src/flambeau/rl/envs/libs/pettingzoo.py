"""Environments of PettingZoo: several agents that act at once, or in turns."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._groups import GroupMap, by_prefix, group_map_of, stacked_data, stacked_specs
from flambeau.rl.envs.libs._gym_spaces import _gym_to_torchrl_spec_transform

__all__ = ["PettingZooEnv", "PettingZooWrapper"]

INSTALL = "pip install 'flambeau-rl[pettingzoo]'"
ENDS = ("done", "terminated", "truncated")


def _tasks() -> list[str]:
    """Names of all environments, of those packages that can be imported."""
    found: list[str] = []
    for family in ("atari", "butterfly", "classic", "mpe", "sisl"):
        try:
            module = importlib.import_module(f"pettingzoo.{family}.all_modules")
        except ImportError:
            continue
        names: dict[str, Any] = next(
            (value for key, value in vars(module).items() if key.endswith("_environments")), {}
        )
        found += list(names)
    return sorted(found)


def _each_alone(agents: Any) -> GroupMap:
    return {agent: [agent] for agent in agents}


class PettingZooWrapper(_EnvWrapper):
    """An environment of PettingZoo, which was made already.

    Agents are in groups: those who act at once are by default together by their names without numbers, those who take
    turns each by itself. Of a group are (group, "observation"), (group, "reward"), (group, "action") and its ends; what
    a dictionary of observations calls "action_mask" is at (group, "action_mask"). (group, "mask") says which agents are
    to act, where agents may die or take turns. The environment is done as `done_on_any` says.

    Args:
        env: the environment.
        return_state: give the state of all, at "state".
        group_map: agents by group, or a `MarlGroupMapType`.
        use_mask: agents may die, or take turns.
        categorical_actions: discrete actions are numbers, not one-hot vectors.
        seed: of the environment.
        done_on_any: it is done with the first agent that is; default: with the first where they act at once and
            cannot die, else with the last.
        kwargs: as for environments.

    Raises:
        TypeError: `env` is none of PettingZoo.

    References:
        J. K. Terry et al., PettingZoo: Gym for Multi-Agent Reinforcement Learning, arXiv:2009.14471.
    """

    git_url = "https://github.com/Farama-Foundation/PettingZoo"
    libname = "pettingzoo"
    available_envs = Available("pettingzoo", _tasks)

    def __init__(
        self, env: Any = None, return_state: bool = False, group_map: Any = None, use_mask: bool = False,
        categorical_actions: bool = True, seed: int | None = None, done_on_any: bool | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        if env is not None:
            kwargs["env"] = env
        state = self.__dict__
        state["return_state"], state["group_map"], state["use_mask"] = return_state, group_map, use_mask
        state["categorical_actions"], state["seed"] = categorical_actions, seed
        state["done_on_any"] = done_on_any
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("pettingzoo", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(env, "possible_agents"):
            raise TypeError(f"{type(self).__name__} takes an environment of PettingZoo; got {type(env).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        self.__dict__["parallel"] = not hasattr(env, "agent_iter")
        if not self.parallel and not self.use_mask:
            raise ValueError(
                f"{type(self).__name__}: agents take turns, so that not all of them act in a step: use_mask=True gives "
                'a mask of those who do, at (group, "mask").'
            )
        if self.done_on_any is None:
            self.__dict__["done_on_any"] = self.parallel and not self.use_mask
        return env

    # Specs

    def _make_specs(self, env: Any) -> None:
        names = list(env.possible_agents)
        self.__dict__["possible_agents"] = names
        groups = group_map_of(self.group_map, names, by_prefix if self.parallel else _each_alone)
        self.__dict__["group_map"] = groups
        specs: dict[str, dict[str, Composite]] = {key: {} for key in ("action", "observation", "reward", "done")}
        for name in names:
            specs["action"][name] = Composite(action=self._converted(env.action_space(name), self.categorical_actions))
            specs["observation"][name] = self._observation_spec_of(name, env)
            specs["reward"][name] = Composite(reward=Unbounded((1,), device=self.device))
            specs["done"][name] = Composite({key: self._end() for key in ENDS})
        size = Size([])
        for kind, found in specs.items():
            setattr(self, f"full_{kind}_spec", stacked_specs(groups, found, size))
        done = Composite({key: self._end() for key in ENDS})
        done.update(self.full_done_spec.clone())
        self.full_done_spec = done
        if self.return_state:
            seen = self.full_observation_spec.clone()
            seen["state"] = self._converted(env.state_space)
            self.full_observation_spec = seen

    def _end(self) -> Categorical:
        return Categorical(2, (1,), dtype=torch.bool, device=self.device)

    def _converted(self, space: Any, categorical: bool = False) -> Any:
        spec = _gym_to_torchrl_spec_transform(
            space, device=self.device, categorical_action_encoding=categorical, remap_state_to_observation=False
        )
        return spec.to(torch.int64) if isinstance(spec, Categorical | OneHot) else spec

    def _observation_spec_of(self, name: str, env: Any) -> Composite:
        seen = self._converted(env.observation_space(name))
        spec = Composite()
        masked = isinstance(seen, Composite) and "action_mask" in seen.keys()  # noqa: SIM118
        if masked:
            del seen["action_mask"]
        spec["observation"] = seen
        if masked:
            spec["action_mask"] = self._mask_spec(env.action_space(name))
        if self.use_mask:
            spec["mask"] = Categorical(2, (), dtype=torch.bool, device=self.device)
        return spec

    def _mask_spec(self, space: Any) -> Categorical:
        return Categorical(2, (int(space.n),), dtype=torch.bool, device=self.device)

    # Steps

    def _set_seed(self, seed: int | None) -> None:
        self.__dict__["seed"] = seed
        self._env.reset(seed=seed)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        seed, self.__dict__["seed"] = self.seed, None
        found = self._env.reset(seed=seed, **kwargs)
        observations, infos = found if self.parallel else self._turn()
        over = dict.fromkeys(self.possible_agents, False)
        return self._given(observations, infos, None, over, over)

    def _turn(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the agent sees whose turn it is."""
        agent = self._env.agent_selection
        return {agent: self._env.observe(agent)}, {agent: self._env.infos[agent]}

    def _step(self, tensordict: Any) -> Any:
        actions: dict[str, Any] = {}
        for group, names in self.group_map.items():
            parts = tensordict.get(group).unbind(0)
            for name, part in zip(names, parts, strict=True):
                actions[name] = self._read(part.get("action"), name)
        env = self._env
        if self.parallel:
            acting = {name: actions[name] for name in env.agents}
            observations, rewards, terminated, truncated, infos = env.step(acting)
        else:
            acted = env.agent_selection
            dead = env.terminations[acted] or env.truncations[acted]
            env.step(None if dead else actions[acted])
            rewards = {name: env.rewards.get(name, 0.0) for name in self.possible_agents}
            terminated, truncated = dict(env.terminations), dict(env.truncations)
            observations, infos = self._turn() if env.agents else ({}, {})
            observations.setdefault(acted, env.observe(acted) if acted in env.agents else None)
            if observations[acted] is None:
                del observations[acted]
        return self._given(observations, infos, rewards, terminated, truncated)

    def _read(self, action: Tensor, name: str) -> Any:
        space = self._env.action_space(name)
        if hasattr(space, "n"):
            return int(action) if self.categorical_actions else int(action.long().argmax(-1))
        return action.detach().cpu().numpy().astype(space.dtype, copy=False)

    def _given(self, observations: Any, infos: Any, rewards: Any, terminated: Any, truncated: Any) -> Any:
        """All entries: of agents that saw something what they saw, of the others zeros, or what they saw last."""
        size = Size([])
        acting = {self._env.agent_selection} if not self.parallel and self._env.agents else set(self._env.agents)
        zeros = self.full_observation_spec.zero()
        last = self.__dict__.setdefault("_last", {})
        if rewards is None:
            last.clear()
        data: dict[str, dict[str, Any]] = {}
        for group, names in self.group_map.items():
            for at, name in enumerate(names):
                if name in observations:
                    last[name] = self._seen(group, at, observations[name], infos.get(name, {}))
                seen = dict(last.get(name) or zeros[group][at].items())
                seen = {key: value.clone() for key, value in seen.items()}
                if name not in acting and "action_mask" in seen:
                    seen["action_mask"] = torch.ones_like(seen["action_mask"])
                if self.use_mask:
                    seen["mask"] = torch.tensor(name in acting, device=self.device)
                if rewards is not None:
                    seen["reward"] = torch.tensor([float(rewards.get(name, 0.0))], device=self.device)
                # Who is not there any more has ended before.
                ended = bool(terminated.get(name, True)), bool(truncated.get(name, False))
                for key, value in zip(ENDS, (ended[0] or ended[1], *ended), strict=True):
                    seen[key] = torch.tensor([value], device=self.device)
                data[name] = seen
        out = TensorDict(stacked_data(self.group_map, data, size), size, device=self.device)
        combine = torch.any if self.done_on_any else torch.all
        for key in ENDS:
            flags = torch.cat([data[name][key] for name in self.possible_agents])
            out[key] = combine(flags).reshape(1)
        out["done"] = out["done"] | out["terminated"] | out["truncated"]
        if self.return_state:
            out["state"] = self.full_observation_spec["state"].encode(self._env.state())
        return out

    def _seen(self, group: str, at: int, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        spec = self.full_observation_spec[group][at]
        found: dict[str, Any] = {}
        keys = spec.keys()
        if "action_mask" in keys:
            mask = observation["action_mask"] if isinstance(observation, dict) else info["action_mask"]
            found["action_mask"] = torch.as_tensor(np.asarray(mask).astype(bool), device=self.device)
        if isinstance(observation, dict):
            observation = {key: value for key, value in observation.items() if key != "action_mask"}
        found["observation"] = spec["observation"].encode(observation, ignore_device=True)
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, device={self.device})"


class PettingZooEnv(PettingZooWrapper):
    """An environment of PettingZoo by its name.

    Args:
        task: a name of `available_envs`, or of a module with a function `env` or `parallel_env`.
        parallel: agents act at once; else in turns.
        return_state: as for `PettingZooWrapper`, as what follows.
        group_map: likewise.
        use_mask: likewise.
        categorical_actions: likewise.
        seed: likewise.
        done_on_any: likewise.
        kwargs: of the environment.

    Raises:
        ImportError: PettingZoo, or what the environment needs, is not installed.
    """

    def __init__(
        self, task: str, parallel: bool, return_state: bool = False, group_map: Any = None, use_mask: bool = False,
        categorical_actions: bool = True, seed: int | None = None, done_on_any: bool | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        own = {key: kwargs.pop(key) for key in ("device", "spec_locked") if key in kwargs}
        backend("pettingzoo", type(self).__name__, INSTALL)
        module = importlib.import_module(
            task if task.startswith("pettingzoo.") else f"pettingzoo.{task.replace('/', '.')}"
        )
        env = (module.parallel_env if parallel else module.env)(**kwargs)
        super().__init__(
            env=env,
            return_state=return_state,
            group_map=group_map,
            use_mask=use_mask,
            categorical_actions=categorical_actions,
            seed=seed,
            done_on_any=done_on_any,
            **own,
        )
        self.__dict__["task"] = task
