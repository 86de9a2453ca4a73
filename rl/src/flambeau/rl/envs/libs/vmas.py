"""Environments of VMAS: several agents, in many copies at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs._keys import RESET
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._groups import GroupMap, by_prefix, group_map_of, stacked_data, stacked_specs
from flambeau.rl.envs.libs._gym_spaces import _gym_to_torchrl_spec_transform

__all__ = ["VmasEnv", "VmasWrapper"]

INSTALL = "pip install 'flambeau-rl[vmas]'"


def _scenarios() -> list[str]:
    import vmas

    return list(vmas.scenarios + vmas.mpe_scenarios + vmas.debug_scenarios)


def _default_groups(agents: Any) -> GroupMap:
    groups = by_prefix(agents)
    # Upstream: a single group of "agent_0" and so on has the name of all agents.
    return {"agents" if group == "agent" and len(groups) == 1 else group: names for group, names in groups.items()}


class VmasWrapper(_EnvWrapper):
    """An environment of VMAS, which was made already; its copies are the batch.

    Observations, rewards and information of agents are at (group, "observation"), (group, "reward") and (group,
    "info", ...), (*batch, agents, ...); actions at (group, "action"); one end for all agents.

    Args:
        env: the environment.
        categorical_actions: discrete actions are numbers, not one-hot vectors.
        group_map: agents by group, or a `MarlGroupMapType`; default: by their names without numbers.
        kwargs: as for environments.

    Raises:
        TypeError: `env` is none of VMAS.

    References:
        M. Bettini et al., VMAS: A Vectorized Multi-Agent Simulator for Collective Robot Learning, arXiv:2207.03530.
    """

    git_url = "https://github.com/proroklab/VectorizedMultiAgentSimulator"
    libname = "vmas"
    available_envs = Available("vmas", _scenarios)

    def __init__(self, env: Any = None, categorical_actions: bool = True, group_map: Any = None, **kwargs: Any) -> None:
        if env is not None:
            kwargs["env"] = env
            if not kwargs.get("batch_size"):
                kwargs["batch_size"] = Size([getattr(env, "num_envs", 1)])
        self.__dict__["group_map"] = group_map
        self.__dict__["categorical_actions"] = categorical_actions
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("vmas", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        if not hasattr(kwargs.get("env"), "reset_at"):
            raise TypeError(
                f"{type(self).__name__} takes an environment of VMAS; got {type(kwargs.get('env')).__name__}."
            )

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        return self._sized(env)

    def _sized(self, env: Any) -> Any:
        if self.batch_size.numel() != env.num_envs:
            raise TypeError(
                f"{type(self).__name__}: the batch size {tuple(self.batch_size)} is not that of {env.num_envs} copies."
            )
        return env

    def _make_specs(self, env: Any) -> None:
        size = self.batch_size
        names = [agent.name for agent in env.agents]
        self.__dict__["agent_names"] = names
        groups = self.__dict__["group_map"] = group_map_of(self.group_map, names, _default_groups)
        infos = env.reset(return_info=True)[1] if hasattr(env, "reset") else [{}] * len(names)
        specs: dict[str, dict[str, Composite]] = {"action": {}, "observation": {}, "reward": {}}
        for at, (name, agent) in enumerate(zip(names, env.agents, strict=True)):
            specs["action"][name] = self._of_agent(action=self._action_spec_of(env.action_space[at]))
            seen = self._of_agent(observation=self._converted(env.observation_space[at]))
            info = infos[at] if not isinstance(infos, dict) else infos.get(agent.name, {})
            if info:
                seen["info"] = self._of_agent(
                    **{key: Unbounded(self._unflat(value)[(0,) * len(size)].shape) for key, value in info.items()}
                )
            specs["observation"][name] = seen
            specs["reward"][name] = self._of_agent(reward=Unbounded((1,)))
        for kind, found in specs.items():
            setattr(self, f"full_{kind}_spec", stacked_specs(groups, found, size))
        end = Categorical(2, (*size, 1), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), shape=size)

    def _converted(self, space: Any) -> Any:
        return _gym_to_torchrl_spec_transform(
            space, device=self.device, categorical_action_encoding=self.categorical_actions
        )

    def _action_spec_of(self, space: Any) -> Any:
        spec = self._converted(space)
        return spec.to(torch.int64) if isinstance(spec, Categorical | OneHot) else spec

    def _of_agent(self, **specs: Any) -> Composite:
        size = self.batch_size
        each = {key: spec.expand((*size, *spec.shape)) for key, spec in specs.items()}
        return Composite(each, shape=size, device=self.device)

    def _unflat(self, value: Tensor) -> Tensor:
        """From (copies, ...) to (*batch, ..., at least one dimension)."""
        value = value.reshape(*self.batch_size, *value.shape[1:])
        return value.unsqueeze(-1) if value.ndim == len(self.batch_size) else value

    def _set_seed(self, seed: int | None) -> None:
        self._env.seed(seed)

    def _data(self, observations: Any, infos: Any, rewards: Any = None) -> dict[str, Any]:
        entries: dict[str, dict[str, Any]] = {}
        for at, name in enumerate(self.agent_names):
            entries[name] = {"observation": self._unflat(observations[at].clone())}
            if rewards is not None:
                entries[name]["reward"] = self._unflat(rewards[at].clone())
            if infos[at]:
                info = {key: self._unflat(value.clone().float()) for key, value in infos[at].items()}
                entries[name]["info"] = TensorDict(info, self.batch_size)
        return stacked_data(self.group_map, entries, self.batch_size)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.get(RESET, None)
        if mask is not None and not mask.all():
            for at in mask.reshape(-1).nonzero().flatten().tolist():
                self._env.reset_at(at, return_observations=False)
            observations, dones, infos = self._env.get_from_scenario(
                get_observations=True, get_infos=True, get_rewards=False, get_dones=True
            )
        else:
            observations, infos = self._env.reset(return_info=True, **kwargs)
            dones = self._env.done()
        data = self._data(observations, infos)
        return TensorDict({**data, **self._ends(dones)}, self.batch_size, device=self.device)

    def _ends(self, dones: Tensor) -> dict[str, Tensor]:
        done = self._unflat(dones.clone())
        return {"done": done, "terminated": done.clone()}

    def _step(self, tensordict: Any) -> Any:
        actions: dict[str, Tensor] = {}
        for group, names in self.group_map.items():
            parts = tensordict.get((group, "action"))
            actions.update(zip(names, parts.unbind(len(self.batch_size)), strict=True))
        observations, rewards, dones, infos = self._env.step([self._read(actions[name]) for name in self.agent_names])
        data = self._data(observations, infos, rewards)
        return TensorDict({**data, **self._ends(dones)}, self.batch_size, device=self.device)

    def _read(self, action: Tensor) -> Tensor:
        """One agent's action as VMAS takes it, (copies, size)."""
        if self._env.continuous_actions:
            return action.reshape(self._env.num_envs, -1)
        if not self.categorical_actions:
            action = action.long().argmax(-1)
        return action.reshape(self._env.num_envs, -1)

    def to(self, device: Any) -> Any:  # type: ignore[override]
        """Move the environment to a device.

        Args:
            device: the device.
        """
        self._env.to(device)
        return super().to(device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, batch_size={tuple(self.batch_size)}, device={self.device})"


class VmasEnv(VmasWrapper):
    """An environment of VMAS by its scenario.

    Args:
        scenario: the name of one of `available_envs`, or a scenario.
        num_envs: copies.
        continuous_actions: else discrete ones.
        max_steps: of an episode.
        categorical_actions: as for `VmasWrapper`.
        seed: of the environment.
        group_map: as for `VmasWrapper`.
        scenario_kwargs: arguments of the scenario; `kwargs` that no other parameter takes are, too.
        kwargs: as for environments.

    Raises:
        ImportError: VMAS is not installed.

    Example:
        >>> env = VmasEnv("balance", num_envs=5, n_agents=3)  # doctest: +SKIP
        >>> env.rollout(10)["agents", "observation"].shape  # doctest: +SKIP
        torch.Size([5, 10, 3, 16])
    """

    def __init__(
        self, scenario: Any, *, num_envs: int, continuous_actions: bool = True, max_steps: int | None = None,
        categorical_actions: bool = True, seed: int | None = None, group_map: Any = None,
        scenario_kwargs: dict[str, Any] | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        own = {key: kwargs.pop(key) for key in ("device", "batch_size", "spec_locked") if key in kwargs}
        library = backend("vmas", type(self).__name__, INSTALL)
        env = library.make_env(
            scenario=scenario,
            num_envs=num_envs,
            device=own.get("device") or "cpu",
            continuous_actions=continuous_actions,
            max_steps=max_steps,
            seed=seed,
            wrapper=None,
            **{**(scenario_kwargs or {}), **kwargs},
        )
        super().__init__(env=env, categorical_actions=categorical_actions, group_map=group_map, **own)
        self.__dict__["scenario"] = scenario
