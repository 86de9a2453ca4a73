"""Environments that count their steps."""

from __future__ import annotations

import random
import string
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import NonTensorData, NonTensorStack, TensorDict
from flambeau.rl.data.tensor_specs import Binary, Categorical, Composite, NonTensor, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.common import EnvBase

__all__ = [
    "AutoResettingCountingEnv",
    "CountingBatchedEnv",
    "CountingEnv",
    "CountingEnvWithString",
    "IncrementingEnv",
    "NestedCountingEnv",
    "get_random_string",
]


class CountingEnv(EnvBase):
    """Counts actions, which are 0 or 1; an episode ends when more than `max_steps` are counted.

    ===========  ==========  ====================================
    key          shape       what
    ===========  ==========  ====================================
    observation  (*batch, 1)  the count, int32
    action       (*batch, 1)  0 or 1, int8
    reward       (*batch, 1)  0
    ===========  ==========  ====================================

    Args:
        max_steps: the highest count that is not the end.
        start_val: where counts begin.
        kwargs: as for `EnvBase`.
    """

    def __init__(self, max_steps: int = 5, start_val: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_steps = max_steps
        self.start_val = start_val
        size = self.batch_size
        self.observation_spec = Composite(
            observation=Unbounded((*size, 1), dtype=torch.int32, device=self.device), shape=size, device=self.device
        )
        self.reward_spec = Unbounded((*size, 1), device=self.device)
        self.done_spec = Categorical(2, dtype=torch.bool, shape=(*size, 1), device=self.device)
        self.action_spec = Binary(n=1, shape=(*size, 1), device=self.device)
        self.register_buffer("count", torch.full((*size, 1), start_val, device=self.device, dtype=torch.int32))

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(0 if seed is None else seed)

    def _restarted(self, mask: Any) -> None:
        start = torch.full_like(self.count, self.start_val)  # type: ignore[has-type]
        if mask is not None:
            start = torch.where(mask.reshape(*self.batch_size, -1).any(-1, keepdim=True), start, self.count)  # type: ignore[has-type]
        self.count = start

    def _mask(self, tensordict: Any) -> Any:
        return None if tensordict is None else tensordict.get("_reset", None)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        self._restarted(self._mask(tensordict))
        return TensorDict({"observation": self.count.clone()}, self.batch_size, device=self.device)

    def _counted(self, action: Tensor) -> Tensor:
        return action.to(torch.int32)

    def _step(self, tensordict: Any) -> Any:
        self.count = self.count + self._counted(tensordict.get(self.action_key))
        done = self.count > self.max_steps
        following = {
            "observation": self.count.clone(),
            "done": done,
            "terminated": done.clone(),
            "reward": torch.zeros((*self.batch_size, 1), device=self.device),
        }
        return TensorDict(following, self.batch_size, device=self.device)


class IncrementingEnv(CountingEnv):
    """Counts steps, whatever the action is."""

    def _counted(self, action: Tensor) -> Tensor:
        return torch.ones_like(self.count)


class AutoResettingCountingEnv(CountingEnv):
    """Begins to count anew by itself: the last observation of an episode is the first of the next.

    Args:
        max_steps: the highest count that is not the end.
        start_val: where counts begin.
        kwargs: as for `EnvBase`.
    """

    def _step(self, tensordict: Any) -> Any:
        following = super()._step(tensordict)
        if following["done"].any():
            self._restarted(following["done"])
            following["observation"] = self.count.clone()
        return following

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        if self._mask(tensordict) is not None:
            return TensorDict({"observation": self.count.clone()}, self.batch_size, device=self.device)
        return super()._reset(tensordict, **kwargs)


def get_random_string(min_size: int, max_size: int) -> str:
    """Random small letters.

    Args:
        min_size: the least number of them.
        max_size: the greatest.
    """
    return "".join(random.choice(string.ascii_lowercase) for _ in range(random.randint(min_size, max_size)))


class CountingEnvWithString(CountingEnv):
    """Counts, and says a random text, at "string".

    Args:
        max_size: of texts, letters.
        min_size: likewise.
        args: as for `CountingEnv`.
        kwargs: likewise.
    """

    def __init__(self, *args: Any, max_size: int = 30, min_size: int = 4, **kwargs: Any) -> None:
        self.__dict__["max_size"], self.__dict__["min_size"] = max_size, min_size
        super().__init__(*args, **kwargs)
        spec = self.observation_spec.clone()
        spec["string"] = NonTensor(shape=self.batch_size, example_data="a string!", device=self.device)
        self.observation_spec = spec

    def get_random_string(self) -> str:
        """A random text."""
        return get_random_string(self.min_size, self.max_size)  # type: ignore[arg-type]

    def _said(self, data: Any) -> Any:
        if not self.batch_size:
            return data.set("string", NonTensorData(self.get_random_string()))
        texts = [self.get_random_string() for _ in range(self.batch_size.numel())]
        return data.set("string", NonTensorStack(*texts).reshape(self.batch_size))

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return self._said(super()._reset(tensordict, **kwargs))

    def _step(self, tensordict: Any) -> Any:
        return self._said(super()._step(tensordict))

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        random.seed(seed)


class CountingBatchedEnv(CountingEnv):
    """Counts with a highest count and a start of its own for each entry of the batch.

    Args:
        max_steps: (*batch), integers; default: 5 without a batch.
        start_val: (*batch), or one number; default: 0.
        kwargs: as for `EnvBase`.

    Raises:
        RuntimeError: a shape is not that of the batch.
    """

    def __init__(self, max_steps: Tensor | None = None, start_val: Tensor | None = None, **kwargs: Any) -> None:
        highest = torch.tensor(5) if max_steps is None else max_steps
        start = torch.zeros(highest.shape, dtype=torch.int32) if start_val is None else start_val
        super().__init__(**kwargs)
        if highest.shape != self.batch_size or (start.ndim and start.shape != self.batch_size):
            raise RuntimeError(
                f"CountingBatchedEnv: max_steps has shape {tuple(highest.shape)} and start_val {tuple(start.shape)}, "
                f"expected the batch size {tuple(self.batch_size)}."
            )
        self.max_steps = highest.unsqueeze(-1)  # type: ignore[assignment]
        self.start_val = start.expand(self.batch_size).unsqueeze(-1)  # type: ignore[assignment]
        self._restarted(None)

    def _restarted(self, mask: Any) -> None:
        start = torch.as_tensor(self.start_val, dtype=torch.int32).expand_as(self.count).clone()
        self.count = start if mask is None else torch.where(mask.reshape(start.shape), start, self.count)


class NestedCountingEnv(CountingEnv):
    """Counts below "data", for several agents at once: the count goes on if any of their actions is 1.

    Args:
        max_steps: the highest count that is not the end.
        start_val: where counts begin.
        nest_obs_action: observations are at ("data", "states"), (*batch, agents, 1), actions at ("data", "action").
        nest_done: ends are at ("data", "done"), (*batch, agents, 1).
        nest_reward: rewards are at ("data", "reward"), (*batch, agents, 1).
        nested_dim: number of agents.
        has_root_done: there is an end for all, too, which is never reached where agents have their own.
        kwargs: as for `EnvBase`.
    """

    def __init__(
        self, max_steps: int = 5, start_val: int = 0, nest_obs_action: bool = True, nest_done: bool = True,
        nest_reward: bool = True, nested_dim: int = 3, has_root_done: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(max_steps=max_steps, start_val=start_val, **kwargs)
        self.nested_dim = nested_dim
        self.nested_obs_action = nest_obs_action
        self.nested_done = nest_done
        self.nested_reward = nest_reward
        self.has_root_done = has_root_done
        shape = (*self.batch_size, nested_dim)
        if nest_obs_action:
            states = Unbounded((*shape, 1), dtype=torch.int32, device=self.device)
            self.observation_spec = self._below_data(states=states)
            self.action_spec = self._below_data(action=Binary(1, (*shape, 1), device=self.device))
        if nest_reward:
            self.reward_spec = self._below_data(reward=Unbounded((*shape, 1), device=self.device))
        if nest_done:
            ends = Categorical(2, dtype=torch.bool, shape=(*shape, 1), device=self.device)
            spec = self._below_data(done=ends, terminated=ends.clone())
            if has_root_done:
                spec["done"] = Categorical(2, dtype=torch.bool, shape=(*self.batch_size, 1), device=self.device)
                spec["terminated"] = spec["done"].clone()
            self.done_spec = spec

    def _below_data(self, **specs: Any) -> Composite:
        inner = Composite(specs, shape=(*self.batch_size, self.nested_dim))
        return Composite(data=inner, shape=self.batch_size)

    def _mask(self, tensordict: Any) -> Any:
        if tensordict is None:
            return None
        key: NestedKey = ("data", "_reset") if self.nested_done and not self.has_root_done else "_reset"
        return tensordict.get(key, None)

    def _nested(self, count: Tensor) -> Tensor:
        return count.unsqueeze(-2).expand(*self.batch_size, self.nested_dim, 1).clone()

    def _moved(self, data: Any) -> Any:
        """Entries below "data", where they belong there."""
        inner: dict[str, Any] = {}
        if self.nested_obs_action:
            inner["states"] = self._nested(data.pop("observation"))
        if self.nested_reward and "reward" in data.keys():  # noqa: SIM118  # no dictionary
            inner["reward"] = self._nested(data.pop("reward"))
        if self.nested_done:
            for name in ("done", "terminated"):
                if name in data.keys():  # noqa: SIM118
                    inner[name] = self._nested(data.pop(name))
                    if self.has_root_done:
                        data.set(name, torch.zeros_like(self.count, dtype=torch.bool))
        if inner:
            data.set("data", TensorDict(inner, (*self.batch_size, self.nested_dim), device=self.device))
        return data

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return self._moved(super()._reset(tensordict, **kwargs))

    def _counted(self, action: Tensor) -> Tensor:
        return super()._counted(action.amax(-2) if self.nested_obs_action else action)

    def _step(self, tensordict: Any) -> Any:
        return self._moved(super()._step(tensordict))
