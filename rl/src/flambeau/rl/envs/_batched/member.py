"""One environment at its place in the shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.envs._batched.layout import Keys, Place, view
from flambeau.rl.envs._gym_driver import GymDriver, gym_driver
from flambeau.rl.envs._keys import NestedKey, as_key, as_tuple

Carried = dict[NestedKey, Any]


def member_of(env: Any, block: Tensor, row: list[Place], keys: Keys) -> Member:
    """What steps an environment: between arrays where it is one of gym's, with tensordicts otherwise.

    Args:
        env: the environment.
        block: the shared memory.
        row: where in it the environment's values are.
        keys: of the environment.
    """
    values = {place.key: view(block, place) for place in row}
    driver = None if keys.carried or block.device.type != "cpu" else gym_driver(env)
    if driver is not None and {("next", *path) for path in driver.paths} <= set(values):
        return _GymMember(env, values, keys, driver)
    return Member(env, values, keys)


class Member:
    """Steps an environment; what it takes comes from its place in memory, and what it gives goes there.

    Args:
        env: the environment.
        values: its place, by key.
        keys: of the environment.
    """

    def __init__(self, env: Any, values: dict[tuple[str, ...], Tensor], keys: Keys) -> None:
        self.env, self.values, self.keys = env, values, keys
        self._zeros = env.fake_tensordict()
        self._targets = {
            "root": [(key, values[as_tuple(key)]) for key in keys.kept("root")],
            "following": [(key, values["next", *as_tuple(key)]) for key in keys.kept("following")],
        }
        self._sent = {"root": keys.sent("root"), "following": keys.sent("following")}
        self._sources: dict[str, Any] = {}

    def _given(self, name: str, carried: Carried | None) -> Any:
        """A tensordict with what the environment is given."""
        source = self._sources.get(name)
        if source is None:
            source = self._zeros.empty()
            for key in self.keys.kept(name):
                _set(source, key, self.values[as_tuple(key)], self._zeros)
            self._sources[name] = source
        given = source.clone()
        if self.env.device is not None:
            given = given.to(self.env.device)
        for key, value in (carried or {}).items():
            _set(given, key, value, self._zeros)
        return given

    def _write(self, group: str, data: Any) -> Carried | None:
        for key, target in self._targets[group]:
            value = data.get(key)
            if value.shape != target.shape:
                raise RuntimeError(
                    f"{type(self.env).__name__} gave {key!r} with the shape {tuple(value.shape)}; its spec says "
                    f"{tuple(target.shape)}."
                )
            target.copy_(value)
        sent = self._sent[group]
        return {key: data.get(key) for key in sent} if sent else None

    def step(self, carried: Carried | None = None) -> Carried | None:
        """Take the action that is in memory.

        Args:
            carried: what is not in memory.

        Returns:
            What is not written there.
        """
        return self._write("following", self.env.step(self._given("inputs", carried)).get("next"))

    def step_and_maybe_reset(self, carried: Carried | None = None) -> tuple[bool, Carried | None, Carried | None]:
        """Take a step, and begin a new episode where one ended.

        Args:
            carried: what is not in memory.

        Returns:
            Whether one ended; what is not written to memory of the step, and of the reset.
        """
        data = self.env.step(self._given("inputs", carried))
        following = data.get("next")
        out = self._write("following", following)
        if not self.env._ended(following):
            return False, out, None
        return True, out, self._write("root", self.env.maybe_reset(self.env.step_mdp(data)))

    def reset(self, given: list[str], carried: Carried | None, kwargs: dict[str, Any]) -> Carried | None:
        """Begin a new episode.

        Args:
            given: groups of keys that are in memory for it: "state", "masks".
            carried: what is not in memory.
            kwargs: passed on to the environment's reset.

        Returns:
            What is not written to memory.
        """
        data = None
        if given or carried:
            data = self._zeros.empty()
            if self.env.device is not None:
                data = data.to(self.env.device)
            for name in given:
                data.update(self._given(name, None))
            for key, value in (carried or {}).items():
                _set(data, key, value, self._zeros)
            if "masks" in given:
                # Whatever the environment keeps where it is not reset is what its last step gave.
                for key, _ in self._targets["root"]:
                    if key not in data.keys(True, True) and ("next", *as_tuple(key)) in self.values:
                        _set(data, key, self.values["next", *as_tuple(key)].clone(), self._zeros)
        return self._write("root", self.env.reset(data, **kwargs))


def _set(data: Any, key: NestedKey, value: Any, like: Any) -> None:
    """Set a value; nested tensordicts on the way have the batch sizes that they have in `like`."""
    path = as_tuple(key)
    for at in range(1, len(path)):
        parent = as_key(path[:at])
        if data.get(parent, None) is None:
            model = like.get(parent, None)
            size = data.batch_size if model is None else model.batch_size
            data.set(parent, TensorDict({}, size, device=data.device))
    data.set(key, value)


class _GymMember(Member):
    """An environment of gym, between arrays."""

    def __init__(self, env: Any, values: dict[tuple[str, ...], Tensor], keys: Keys, driver: GymDriver) -> None:
        super().__init__(env, values, keys)
        self.driver = driver
        self._before = {path: values[path].numpy() for path in driver.paths}
        self._after = {path: values["next", *path].numpy() for path in driver.paths}
        self._reward = values["next", "reward"].numpy()
        self._action = values[as_tuple(env.action_keys[0])].numpy()
        names = ("terminated", "truncated", "done")
        self._ends = [values["next", name].numpy() if ("next", name) in values else np.zeros(1, bool) for name in names]
        self._no_ends = [values[name,].numpy() for name in names if (name,) in values]

    def _stepped(self) -> bool:
        observation, self._reward[0], terminated, truncated = self.driver.step(self._action)
        self.driver.write(self._after, observation)
        first, second, third = self._ends
        ended = bool(terminated or truncated)
        first[0], second[0], third[0] = terminated, truncated, ended
        return ended

    def step(self, carried: Carried | None = None) -> Carried | None:
        self._stepped()
        return None

    def step_and_maybe_reset(self, carried: Carried | None = None) -> tuple[bool, Carried | None, Carried | None]:
        ended = self._stepped()
        if ended:
            self.reset([], None, {})
        return ended, None, None

    def reset(self, given: list[str], carried: Carried | None, kwargs: dict[str, Any]) -> Carried | None:
        self.driver.write(self._before, self.driver.reset(**kwargs))
        for flag in self._no_ends:
            flag[0] = False
        return None


def wait_for(device: torch.device) -> None:
    """Wait until what was written to a device's memory is there."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
