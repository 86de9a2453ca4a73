"""Gym's environments between arrays: no tensordict is made where nobody looks at one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Size

from flambeau.rl.data.tensor_specs import (
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Unbounded,
)

Path = tuple[str, ...]


def gym_driver(env: Any) -> GymDriver | None:
    """What drives an environment between arrays; None where it is none of gym's, or redefines what that skips.

    Args:
        env: any environment.
    """
    is_usual = getattr(type(env), "_is_usual", None)
    if is_usual is None or not is_usual() or env.batch_size or env._info_dict_reader or env.run_type_checks:
        return None
    if env.wrapper_frame_skip != 1 or len(env.action_keys) != 1 or len(env.reward_keys) != 1:
        return None
    paths = observation_paths(env.full_observation_spec)
    reward_spec = env.full_reward_spec.get("reward", None)
    if paths is None or reward_spec is None or reward_spec.shape != Size([1]):
        return None
    if set(env.done_keys) - {"done", "terminated", "truncated"} or env.state_keys:
        return None
    space = getattr(env._env, "observation_space", None)
    single = list(paths) == [("observation",)] and space is not None and not hasattr(space, "spaces")
    if not single and not (isinstance(getattr(space, "spaces", None), dict) and all(_is_leaf(space, p) for p in paths)):
        return None
    read = _row_reader(env.full_action_spec)
    if read is None or np.any(getattr(getattr(env._env, "action_space", None), "start", 0)):
        return None
    return GymDriver(env, paths, read, single)


class GymDriver:
    """Steps and resets of one environment of gym.

    Args:
        env: a `GymLikeEnv`.
        paths: its observations.
        read: from an array with an action to what the library takes.
        single: whether there is one observation, which is no dictionary.
    """

    def __init__(self, env: Any, paths: dict[Path, Any], read: Callable[[Any], Any], single: bool) -> None:
        from flambeau.rl.envs.gym_like import GymLikeEnv

        self.env, self.paths, self.read, self.single = env, paths, read, single
        self.inner = env._env
        usual = type(env)._output_transform is GymLikeEnv._output_transform
        self._transform = None if usual else env._output_transform
        self.reward_dtype = torch.empty(0, dtype=env.full_reward_spec["reward"].dtype).numpy().dtype

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        """Observation, reward, terminated and truncated that follow an action.

        Args:
            action: an array.
        """
        return self.inner_step(self.read(action))

    def inner_step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        """Observation, reward, terminated and truncated that follow an action.

        Args:
            action: as the library takes it.
        """
        found = self.inner.step(action)
        if self._transform is None and len(found) == 5:
            return found[:4]  # type: ignore[no-any-return]
        found = self.env._output_transform(found)
        return found[0], found[1], found[2], found[3]

    def reset(self, **kwargs: Any) -> Any:
        """The first observation of a new episode.

        Args:
            kwargs: passed on to the library's environment.
        """
        return self.env._reset_output_transform(self.inner.reset(**kwargs))[0]

    def leaves(self, observation: Any) -> dict[Path, Any]:
        """The arrays of an observation, by path.

        Args:
            observation: what a step or a reset gave.
        """
        if self.single:
            return {("observation",): observation}
        found = {}
        for path in self.paths:
            value = observation
            for part in path:
                value = value[part]
            found[path] = value
        return found

    def write(self, arrays: dict[Path, Any], observation: Any) -> None:
        """Write an observation into arrays.

        Args:
            arrays: by path.
            observation: what a step or a reset gave.
        """
        found = self.leaves(observation)
        for path, array in arrays.items():
            array[...] = found[path]


def observation_paths(spec: Composite) -> dict[Path, tuple[Any, Any]] | None:
    """The leaves of an observation with their specs and NumPy dtypes; None where one is no array."""
    paths = {}
    for key, each in spec.items(True, True):
        if not isinstance(each, (Bounded, Unbounded)) or -1 in each.shape:
            return None
        path = (key,) if isinstance(key, str) else tuple(key)
        paths[path] = (each, torch.empty(0, dtype=each.dtype).numpy().dtype)
    return paths or None


def _is_leaf(space: Any, path: Path) -> bool:
    for part in path:
        spaces = getattr(space, "spaces", None)
        if not isinstance(spaces, dict) or part not in spaces:
            return False
        space = spaces[part]
    return not hasattr(space, "spaces")


def _row_reader(spec: Composite) -> Callable[[Any], Any] | None:
    """From an array with one action to what the library takes."""
    (action,) = spec.values(True, True)
    if isinstance(action, MultiOneHot) or getattr(action, "mask", None) is not None:
        return None
    if isinstance(action, OneHot):
        return (lambda row: int(row.argmax())) if action.ndim == 1 else None
    if isinstance(action, Categorical) and not action.shape:
        return int
    if isinstance(action, (Categorical, MultiCategorical, Bounded)):
        # A copy: the memory has another action in the next step, and environments may keep this one.
        return lambda row: row.copy()
    return None
