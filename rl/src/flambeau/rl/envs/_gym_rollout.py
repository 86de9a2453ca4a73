"""Rollouts of gym's environments with random actions: nothing but arrays in the loop, and one tensordict at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot
from flambeau.rl.envs._gym_driver import GymDriver, gym_driver

_FIRST, _MOST = 64, 1024
"""Steps that memory is taken for at first, and at most at once: episodes are mostly shorter than `max_steps`."""


def gym_rollout(env: Any, max_steps: int, stops: bool) -> TensorDictBase | None:
    """A rollout of an environment that is no batch; None where its spaces are not those of numbers and arrays.

    Args:
        env: a `GymLikeEnv`.
        max_steps: at most so many.
        stops: stop at the end of an episode; else begin a new one.
    """
    driver = gym_driver(env)
    reads = None if driver is None else action_reader(env.full_action_spec)
    if driver is None or reads is None:
        return None
    return _Rollout(driver, reads).run(driver.reset(), max_steps, stops)


class _Rollout:
    """The arrays of one rollout, in chunks."""

    def __init__(self, driver: GymDriver, reads: Callable[[Tensor], Any]) -> None:
        self.driver, self.reads = driver, reads
        self.env, self.paths, self.reward_dtype = driver.env, driver.paths, driver.reward_dtype
        self.single = "observation" if driver.single else None

    def run(self, observation: Any, max_steps: int, stops: bool) -> TensorDictBase:
        chunks = []
        size, left = min(_FIRST, max_steps), max_steps
        while True:
            chunk, observation, ended = self._chunk(observation, size, stops)
            chunks.append(chunk)
            left -= size
            if ended or not left:
                break
            size = min(2 * size, _MOST, left)
        return self._joined(chunks)

    def _chunk(self, observation: Any, size: int, stops: bool) -> tuple[dict[str, Any], Any, bool]:
        env, step, transform = self.env, self.env._env.step, self.env._output_transform
        state = torch.get_rng_state() if stops else None
        drawn = self.env.full_action_spec.rand((size,)).get(self.env.action_keys[0])
        actions = self.reads(drawn)
        before = {path: np.empty((size, *spec.shape), dtype) for path, (spec, dtype) in self.paths.items()}
        after = {path: np.empty_like(array) for path, array in before.items()}
        rewards = np.empty((size, 1), self.reward_dtype)
        ends = np.zeros((3, size, 1), bool)
        single = self.single
        if single is not None:
            first, second = before[(single,)], after[(single,)]
        usual = type(env)._output_transform is _usual_transform()
        ended = False
        at = 0
        for at, action in enumerate(actions):
            if single is not None:
                first[at] = observation
            else:
                _write(before, at, observation)
            if usual:
                observation, rewards[at], terminated, truncated, _ = step(action)
            else:
                observation, rewards[at], terminated, truncated, _, _ = transform(step(action))
            if single is not None:
                second[at] = observation
            else:
                _write(after, at, observation)
            if terminated or truncated:
                ends[0, at], ends[1, at], ends[2, at] = terminated, truncated, True
                if stops:
                    ended = True
                    break
                if at < size - 1 or not stops:
                    observation = self.driver.reset()
        count = at + 1
        if ended and count < size and state is not None:
            # As many random numbers are used up as steps were taken.
            torch.set_rng_state(state)
            drawn = self.env.full_action_spec.rand((count,)).get(self.env.action_keys[0])
        chunk = {"action": drawn[:count], "rewards": rewards[:count], "ends": ends[:, :count]}
        chunk["before"] = {path: array[:count] for path, array in before.items()}
        chunk["after"] = {path: array[:count] for path, array in after.items()}
        return chunk, observation, ended

    def _joined(self, chunks: list[dict[str, Any]]) -> TensorDictBase:
        def joined(arrays: list[Any], axis: int = 0) -> Tensor:
            return torch.from_numpy(arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis))

        env = self.env
        action = chunks[0]["action"] if len(chunks) == 1 else torch.cat([chunk["action"] for chunk in chunks])
        ends = joined([chunk["ends"] for chunk in chunks], 1)
        before = {path: joined([chunk["before"][path] for chunk in chunks]) for path in self.paths}
        after = {path: joined([chunk["after"][path] for chunk in chunks]) for path in self.paths}
        size = Size([len(action)])
        names = ("terminated", "truncated", "done")
        flags = {name: flag for name, flag in zip(names, ends.unbind(0), strict=True) if name in env.full_done_spec}
        root = _nested(before, size)
        no = torch.zeros(len(flags), *size, 1, dtype=torch.bool).unbind(0)
        kept = ("done", "terminated", "truncated")
        root |= {name: no[at] for at, name in enumerate(name for name in kept if name in flags)}
        following = _nested(after, size)
        following["reward"] = joined([chunk["rewards"] for chunk in chunks])
        following |= {name: flags[name] for name in ("truncated", "done", "terminated") if name in flags}
        root[env.action_keys[0]] = action
        root["next"] = TensorDict(following, size, names=["time"])
        steps = TensorDict(root, size, names=["time"])
        return steps if env.device is None else steps.to(env.device)


def _usual_transform() -> Any:
    from flambeau.rl.envs.gym_like import GymLikeEnv

    return GymLikeEnv._output_transform


def _write(arrays: dict[tuple[str, ...], Any], at: int, observation: Any) -> None:
    for path, array in arrays.items():
        value = observation
        for part in path:
            value = value[part]
        array[at] = value


def _nested(leaves: dict[tuple[str, ...], Tensor], size: Size) -> dict[str, Any]:
    """Tensors by path as nested tensordicts."""
    out: dict[str, Any] = {}
    for path, value in leaves.items():
        if len(path) == 1:
            out[path[0]] = value
        else:
            out.setdefault(path[0], TensorDict({}, size, names=["time"])).set(path[1:], value)
    return out


def action_reader(spec: Composite) -> Callable[[Tensor], Any] | None:
    """From random actions of several steps to what the library takes; None where actions are drawn in another order."""
    (action,) = spec.values(True, True)
    if isinstance(action, (MultiCategorical, MultiOneHot)) or getattr(action, "mask", None) is not None:
        return None
    if isinstance(action, OneHot):
        return lambda drawn: drawn.argmax(-1).tolist() if drawn.ndim == 2 else drawn.argmax(-1).numpy()
    if isinstance(action, Categorical) and not action.shape:
        return lambda drawn: drawn.tolist()
    if isinstance(action, (Categorical, Bounded)):
        return lambda drawn: drawn.numpy()
    return None
