"""Steps of gym's environments between arrays: one tensordict a step for the policy, none for random actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs._gym_driver import gym_driver
from flambeau.rl.envs._gym_rollout import action_reader

_ENDS = ("terminated", "truncated", "done")


class ArraySteps:
    """Steps of one environment of gym that is no batch.

    What a policy gets is what it would get from `step_and_maybe_reset`: the last root with new observations and ends.

    Args:
        env: a `GymLikeEnv`.
        driver: what steps it.
    """

    def __init__(self, env: Any, driver: Any) -> None:
        self.env, self.driver = env, driver
        self.action_key = env.action_keys[0]
        self.reads = action_reader(env.full_action_spec)
        self.ends = [name for name in _ENDS if name in env.full_done_spec]

    def random(self, root: Any, count: int, stopped: Callable[[], bool] | None) -> tuple[Any, Any, list[int]]:
        """Steps with random actions, which are drawn at once.

        Args:
            root: where the environment is.
            count: number of steps.
            stopped: says after each step whether it was the last.

        Returns:
            The steps, (time), the root behind them, and after which of them an episode ended.
        """
        drawn = self.env.full_action_spec.rand((count,)).get(self.action_key)
        batch = _Batch(self, count)
        at, ended = 0, []
        observation = {path: root.get(path).numpy() for path in self.driver.paths}
        if self.reads is None:
            raise RuntimeError("Actions of this kind are drawn one by one.")
        for at, action in enumerate(self.reads(drawn)):
            batch.write_before(at, observation)
            if batch.step(at, self.driver.inner_step(action)):
                ended.append(at)
            observation = batch.last
            if stopped is not None and stopped():
                break
        return batch.of(at + 1, {self.action_key: drawn}), batch.root(root.set(self.action_key, drawn[at])), ended

    def policys(
        self, root: Any, policy: Callable[[Any], Any], count: int, stopped: Callable[[], bool] | None
    ) -> tuple[Any, Any, list[int]]:
        """Steps with a policy's actions.

        Args:
            root: where the environment is.
            policy: writes actions into a tensordict.
            count: number of steps.
            stopped: says after each step whether it was the last.

        Returns:
            The steps, (time), the root behind them, and after which of them an episode ended.
        """
        batch = _Batch(self, count)
        known = {*self.driver.paths, *((name,) for name in self.ends)}
        at, ended, written = 0, [], []
        observation = {path: root.get(path).numpy() for path in self.driver.paths}
        for at in range(count):
            batch.write_before(at, observation)
            root = policy(batch.rooted(root, at))
            written.append(root)
            if batch.step(at, self.driver.step(root.get(self.action_key).detach().numpy())):
                ended.append(at)
            observation = batch.last
            if stopped is not None and stopped():
                break
        names = [key for key in root.keys(True, True) if (key if isinstance(key, tuple) else (key,)) not in known]
        more = {key: torch.stack([each.get(key) for each in written]) for key in names}
        return batch.of(at + 1, more), batch.root(root), ended


class _Batch:
    """The arrays of one batch.

    Args:
        steps: whose.
        count: number of steps.
    """

    def __init__(self, steps: ArraySteps, count: int) -> None:
        self.steps, self.count = steps, count
        env, driver = steps.env, steps.driver
        self._before = {
            path: torch.empty(count, *spec.shape, dtype=spec.dtype) for path, (spec, _) in driver.paths.items()
        }
        self._after = {path: torch.empty_like(value) for path, value in self._before.items()}
        self._rewards = torch.empty(count, 1, dtype=env.full_reward_spec["reward"].dtype)
        self._ends = torch.zeros(3, count, 1, dtype=torch.bool)
        self._no = torch.zeros(1, dtype=torch.bool)
        self._arrays = {path: value.numpy() for path, value in self._before.items()}
        self._after_arrays = {path: value.numpy() for path, value in self._after.items()}
        self._reward_array, self._end_array = self._rewards.numpy(), self._ends.numpy()
        self._rows = {path: value.unbind(0) for path, value in self._before.items()}
        self.last: dict[tuple[str, ...], Any] = {}

    def write_before(self, at: int, observation: dict[tuple[str, ...], Any]) -> None:
        """The observation that a step begins with."""
        for path, array in self._arrays.items():
            array[at] = observation[path]

    def step(self, at: int, found: tuple[Any, Any, Any, Any]) -> bool:
        """What followed a step; a new episode begins where it ended one.

        Returns:
            Whether it did.
        """
        driver = self.steps.driver
        observation, reward, terminated, truncated = found
        self.last = driver.leaves(observation)
        for path, array in self._after_arrays.items():
            array[at] = self.last[path]
        self._reward_array[at] = reward
        if not (terminated or truncated):
            return False
        self._end_array[0, at], self._end_array[1, at], self._end_array[2, at] = terminated, truncated, True
        self.last = driver.leaves(driver.reset())
        return True

    def rooted(self, root: Any, at: int) -> Any:
        """The root of a step: the last one's with new observations, and no end."""
        root = root.copy()
        for path, rows in self._rows.items():
            root.set(path, rows[at])
        for name in self.steps.ends:
            root.set(name, self._no)
        return root

    def root(self, root: Any) -> Any:
        """The root behind the last step, in memory of its own."""
        root = root.copy()
        for path, rows in self._rows.items():
            root.set(path, torch.as_tensor(self.last[path]).to(rows[0].dtype).clone().reshape(rows[0].shape))
        for name in self.steps.ends:
            root.set(name, self._no.clone())
        return root

    def of(self, count: int, more: dict[Any, Tensor]) -> Any:
        """The first steps as a tensordict.

        Args:
            count: number of them.
            more: what the policy wrote, by key.
        """
        device = self.steps.env.device
        following = TensorDict({}, [count], device=device)
        out = TensorDict({}, [count], device=device)
        for name, value in zip(_ENDS, self._ends.unbind(0), strict=True):
            if name in self.steps.ends:
                following.set(name, value[:count])
                out.set(name, torch.zeros(count, 1, dtype=torch.bool))
        following.set("reward", self._rewards[:count])
        for path in self._before:
            out.set(path, self._before[path][:count])
            following.set(path, self._after[path][:count])
        for key, value in more.items():
            out.set(key, value[:count])
        return out.set("next", following)


def array_steps(env: Any) -> ArraySteps | None:
    """Steps of an environment between arrays; None where it is none of gym's, or not on the CPU.

    Args:
        env: any environment.
    """
    if env.device is not None and env.device.type != "cpu":
        return None
    driver = gym_driver(env)
    return None if driver is None else ArraySteps(env, driver)
