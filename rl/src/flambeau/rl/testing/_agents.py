"""Environments of several agents, and with several keys of everything."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Binary, Bounded, Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs._agents import MarlGroupMapType
from flambeau.rl.envs.common import EnvBase

__all__ = ["MultiAgentCountingEnv", "MultiKeyCountingEnv"]


class MultiAgentCountingEnv(EnvBase):
    """Agents "agent_0" and so on, with random observations (3, 4) and an end for all besides their own.

    Args:
        n_agents: their number.
        group_map: groups of agents by name; default: one group "agents".
        max_steps: steps of an episode, less one.
        start_val: where counts begin.
        env_done_key: of the end for all.
        kwargs: as for `EnvBase`.
    """

    def __init__(
        self, n_agents: int, group_map: Any = MarlGroupMapType.ALL_IN_ONE_GROUP, max_steps: int = 5,
        start_val: int = 0, env_done_key: str = "env_done", **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        self.max_steps = max_steps
        self.start_val = start_val
        self.env_done_key = env_done_key
        self.agent_names = [f"agent_{at}" for at in range(n_agents)]
        self.group_map = (
            group_map.get_group_map(self.agent_names) if isinstance(group_map, MarlGroupMapType) else group_map
        )
        size = self.batch_size
        end = Categorical(2, dtype=torch.bool, shape=(*size, 1))
        self.observation_spec = self._of_agents(observation=Unbounded((*size, 3, 4)))
        self.action_spec = self._of_agents(action=Binary(1, (*size, 1)))
        self.reward_spec = self._of_agents(reward=Unbounded((*size, 1)))
        done = self._of_agents(done=end, terminated=end.clone())
        done[env_done_key] = end.clone()
        self.done_spec = done
        self.count = torch.full((*size, 1), start_val, dtype=torch.int32)

    def _of_agents(self, **specs: Any) -> Composite:
        size = self.batch_size
        groups = {
            group: Composite(
                {
                    agent: Composite({name: spec.clone() for name, spec in specs.items()}, shape=size)
                    for agent in agents
                },
                shape=size,
            )
            for group, agents in self.group_map.items()
        }
        return Composite(groups, shape=size)

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(0 if seed is None else seed)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        start = torch.full_like(self.count, self.start_val)
        self.count = start if mask is None else torch.where(mask.reshape(start.shape), start, self.count)
        return self._given("observation", "done", "terminated")

    def _given(self, *names: str) -> Any:
        size = self.batch_size
        data = TensorDict({}, size)
        made = {
            "observation": lambda: torch.rand(*size, 3, 4),
            "reward": lambda: torch.zeros(*size, 1),
            "done": lambda: self.count > self.max_steps,
            "terminated": lambda: self.count > self.max_steps,
        }
        for group, agents in self.group_map.items():
            for agent in agents:
                for name in names:
                    data[group, agent, name] = made[name]()
        return data.set(self.env_done_key, self.count > self.max_steps)

    def _step(self, tensordict: Any) -> Any:
        self.count = self.count + 1
        return self._given("observation", "done", "terminated", "reward")


class MultiKeyCountingEnv(EnvBase):
    """Three counters, at the root and below "nested_1" and "nested_2", each with keys and shapes of its own.

    Actions are one-hot at the root, numbers of 3 agents at ("nested_1", "action"), bounded numbers of 2 agents at
    ("nested_2", "azione"). A counter goes on by its action, the last by 1 if it is above 0.5. Rewards tell the
    action, as a number.

    Args:
        max_steps: the highest count that is not the end.
        start_val: where counts begin.
        kwargs: as for `EnvBase`.
    """

    nested_dim_1, nested_dim_2 = 3, 2

    def __init__(self, max_steps: int = 5, start_val: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_steps = max_steps
        self.start_val = start_val
        size, one, two = self.batch_size, self.nested_dim_1, self.nested_dim_2
        self.full_observation_spec = self._nest(
            {"observation": Unbounded((*size, 10, 10, 3))},
            {"observation": Bounded(0, 200, (*size, one, 3))},
            {"observation": Unbounded((*size, two, 2))},
        )
        self.full_action_spec = self._nest(
            {"action": OneHot(2, (*size, 2))},
            {"action": Categorical(2, (*size, one))},
            {"azione": Bounded(0, 100, (*size, two, 1))},
        )
        self.full_reward_spec = self._nest(
            {"reward": Unbounded((*size, 1))},
            {"gift": Unbounded((*size, one, 1))},
            {"reward": Unbounded((*size, two, 1))},
        )
        ends = [
            {name: Categorical(2, shape=(*size, *inner, 1), dtype=torch.bool) for name in ("done", "terminated")}
            for inner in ((), (one,), (two,))
        ]
        self.full_done_spec = self._nest(*ends)
        self._begin(None)

    def _nest(self, root: dict[str, Any], first: dict[str, Any], second: dict[str, Any]) -> Composite:
        size = self.batch_size
        return Composite(
            nested_1=Composite(first, shape=(*size, self.nested_dim_1)),
            nested_2=Composite(second, shape=(*size, self.nested_dim_2)),
            **root,
            shape=size,
        )

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(0 if seed is None else seed)

    def _begin(self, tensordict: Any) -> None:
        size = self.batch_size
        shapes = {
            "count": (*size, 1),
            "count_1": (*size, self.nested_dim_1, 1),
            "count_2": (*size, self.nested_dim_2, 1),
        }
        masks = {"count": "_reset", "count_1": ("nested_1", "_reset"), "count_2": ("nested_2", "_reset")}
        root = None if tensordict is None else tensordict.get("_reset", None)
        for name, shape in shapes.items():
            start = torch.full(shape, float(self.start_val))
            mask = None if tensordict is None else tensordict.get(masks[name], None)
            if mask is None:
                mask = root
            if mask is not None:
                mask = mask.reshape(*mask.shape[: len(size)], *[1] * (start.ndim - mask.ndim), *mask.shape[len(size) :])
                start = torch.where(mask, start, getattr(self, name))
            setattr(self, name, start)

    def _given(self) -> Any:
        size, one, two = self.batch_size, self.nested_dim_1, self.nested_dim_2
        first = {"observation": self.count_1.expand(*size, one, 3).clone(), "done": self.count_1 > self.max_steps}
        second = {"observation": self.count_2.expand(*size, two, 2).clone(), "done": self.count_2 > self.max_steps}
        root = {
            "observation": self.count[..., None, None].expand(*size, 10, 10, 3).clone(),
            "done": self.count > self.max_steps,
            "nested_1": TensorDict(first, (*size, one)),
            "nested_2": TensorDict(second, (*size, two)),
        }
        data = TensorDict(root, size)
        for each in (data, data["nested_1"], data["nested_2"]):
            each["terminated"] = each["done"].clone()
        return data

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        self._begin(tensordict)
        return self._given()

    def _step(self, tensordict: Any) -> Any:
        size = self.batch_size
        action = tensordict["action"].long().argmax(-1, keepdim=True).float().reshape(*size, 1)
        first = tensordict["nested_1", "action"].unsqueeze(-1).float()
        self.count = self.count + action  # type: ignore[has-type]
        self.count_1 = self.count_1 + first  # type: ignore[has-type]
        self.count_2 = self.count_2 + (tensordict["nested_2", "azione"] > 0.5)  # type: ignore[has-type]
        out = self._given()
        out["reward"] = action
        out["nested_1", "gift"] = first
        out["nested_2", "reward"] = tensordict["nested_2", "azione"].clone()
        return out
