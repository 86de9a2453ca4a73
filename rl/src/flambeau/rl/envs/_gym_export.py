"""Environments of ours as gym's: registered under a name, and made by `gymnasium.make`."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import (
    Binary,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    TensorSpec,
)
from flambeau.rl.envs._keys import NestedKey, as_key, as_tuple

_KEPT = object()


def registered(
    make: Callable[..., Any],
    id: str,
    backend: ModuleType,
    made: dict[str, Any],
    options: dict[str, Any],
    kwargs: dict[str, Any],
) -> None:
    """Register an environment.

    Args:
        make: makes an `EnvBase`.
        id: the name.
        backend: gymnasium or gym, imported.
        made: `transform`, `info_keys`, `to_numpy`: what `make` uses where it is not told otherwise.
        options: for the library's own `register`.
        kwargs: arguments for `make`.
    """
    known = inspect.signature(backend.register).parameters
    taken = {name: value for name, value in options.items() if value is not None and name in known}
    # By name, as the library copies what it registers, and modules cannot be copied.
    entry_point = functools.partial(_exported, backend.__name__, make, made, kwargs)
    backend.register(id=id, entry_point=entry_point, **taken)


def _exported(
    backend: str,
    make: Callable[..., Any],
    made: dict[str, Any],
    defaults: dict[str, Any],
    transform: Any = _KEPT,
    info_keys: Any = _KEPT,
    to_numpy: Any = _KEPT,
    **kwargs: Any,
) -> Any:
    """What the library calls for a new environment."""
    chosen = {"transform": transform, "info_keys": info_keys, "to_numpy": to_numpy}
    chosen = {name: made[name] if value is _KEPT else value for name, value in chosen.items()}
    kwargs.pop("render_mode", None)
    env = make(**(defaults | kwargs))
    if chosen["transform"] is not None:
        from flambeau.rl.envs.transforms import TransformedEnv

        env = TransformedEnv(env, chosen["transform"].clone())
    return _class_of(importlib.import_module(backend))(env, chosen["info_keys"] or [], bool(chosen["to_numpy"]))


@functools.cache
def _class_of(backend: ModuleType) -> type:
    """The class of exported environments, which is one of the library's."""
    return type("ExportedEnv", (_Exported, backend.Env), {"_backend": backend, "metadata": {"render_modes": []}})


class _Exported:
    """An environment of ours that speaks as gym's do.

    Observations are dictionaries by key. Values are tensors, rewards and ends with a last dimension of size 1; with
    `to_numpy` they are arrays, and numbers and booleans where the environment is no batch.

    Args:
        env: the environment.
        info_keys: observations that go to the information instead.
        to_numpy: give arrays, not tensors.
    """

    _backend: ModuleType

    def __init__(self, env: Any, info_keys: list[NestedKey], to_numpy: bool) -> None:
        self.env = self.torchrl_env = env
        self.to_numpy = to_numpy
        self.render_mode = None
        infos = [as_tuple(key) for key in info_keys]
        keys = sorted(env.observation_keys, key=as_tuple)
        self._info_keys = [key for key in keys if any(as_tuple(key)[: len(info)] == info for info in infos)]
        for info in infos:
            if not any(as_tuple(key)[: len(info)] == info for key in keys):
                raise KeyError(f"info_keys has {as_key(info)!r}, which is none of the environment's keys: {keys}.")
        self._observation_keys = [key for key in keys if key not in self._info_keys]
        spaces = self._backend.spaces
        specs = {key: env.full_observation_spec[key] for key in self._observation_keys}
        self.observation_space = _dict_space(specs, spaces)
        self._actions = {key: env.full_action_spec[key] for key in env.action_keys}
        self._single = len(self._actions) == 1 and isinstance(env.action_keys[0], str)
        self.action_space = (
            space_of(next(iter(self._actions.values())), spaces) if self._single else _dict_space(self._actions, spaces)
        )
        self._state: Any = None

    @property
    def _old(self) -> bool:
        """Whether steps give four values, and resets one, as up to version 0.25 of gym."""
        version = tuple(int(part) for part in self._backend.__version__.split(".")[:2])
        return self._backend.__name__ == "gym" and version < (0, 26)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin a new episode.

        Args:
            seed: of the environment's random numbers.
            options: arguments for the environment's reset.

        Returns:
            Observations and information.
        """
        if seed is not None:
            self.env.set_seed(seed)
            torch.manual_seed(seed)
            self._np_random = None if self._old else self._backend.utils.seeding.np_random(seed)[0]
        self._state = self.env.reset(**(options or {}))
        observation, info = self._given(self._state)
        return observation if self._old else (observation, info)

    def step(self, action: Any) -> Any:
        """Take a step.

        Args:
            action: a value of `action_space`, or a tensor of the environment's own action spec.

        Returns:
            Observations, reward, whether the episode terminated and was truncated, and information.

        Raises:
            RuntimeError: there was no reset before.
        """
        if self._state is None:
            raise RuntimeError("Call reset() before the first step().")
        for key, spec in self._actions.items():
            value = action if self._single else _at(action, as_tuple(key))
            self._state.set(key, _encoded(spec, value))
        self._state = self.env.step(self._state)
        following = self._state.get("next")
        observation, info = self._given(following)
        rewards = [self._value(following.get(key)) for key in self.env.reward_keys]
        reward = rewards[0] if len(rewards) == 1 else dict(zip(self.env.reward_keys, rewards, strict=True))
        done = following.get("done", None)
        terminated = following.get("terminated", done)
        truncated = following.get("truncated", None)
        if terminated is None:
            raise RuntimeError(f"The environment has no common end, only {self.env.done_keys}.")
        if truncated is None:
            truncated = torch.zeros_like(terminated) if done is None else done & ~terminated
        self._state = self.env.step_mdp(self._state)
        ends = self._value(terminated), self._value(truncated)
        if self._old:
            return observation, reward, ends[0] | ends[1], {**info, "TimeLimit.truncated": ends[1]}
        return observation, reward, *ends, info

    def _value(self, value: Tensor) -> Any:
        if not self.to_numpy:
            return value
        return value.item() if value.numel() == 1 and not self.env.batch_size else value.detach().cpu().numpy()

    def _given(self, data: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._tree(data, self._observation_keys), self._tree(data, self._info_keys)

    def _tree(self, data: Any, keys: list[NestedKey]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key in keys:
            *parents, last = as_tuple(key)
            place = out
            for part in parents:
                place = place.setdefault(part, {})
            value = data.get(key)
            if isinstance(value, Tensor):
                place[last] = _observed(self.env.full_observation_spec[key], value) if self.to_numpy else value
            else:
                place[last] = value.data if hasattr(value, "data") else value
        return out

    def close(self) -> None:
        """Close the environment."""
        if not self.env.is_closed:
            self.env.close()

    def render(self) -> None:
        """Nothing is shown."""


def _at(action: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        action = action[part]
    return action


def _observed(spec: TensorSpec, value: Tensor) -> Any:
    """An observation as a value of the space of its spec."""
    array = value.detach().cpu().numpy()
    if isinstance(spec, Binary):
        return array.astype(np.int8)
    if isinstance(spec, (OneHot, MultiOneHot)):
        found = spec.to_categorical(value).cpu().numpy()
        return np.int64(found) if not found.ndim else found.astype(np.int64)
    if isinstance(spec, Categorical) and not isinstance(spec, MultiCategorical) and not array.ndim:
        return np.int64(array)
    if isinstance(spec, (Categorical, MultiCategorical)):
        return array.astype(np.int64)
    return array.copy()


def _encoded(spec: TensorSpec, value: Any) -> Tensor:
    """An action of a space as a value of the spec."""
    if isinstance(value, Tensor) and value.shape == spec.shape and value.dtype == spec.dtype:
        return value if spec.device is None else value.to(spec.device)
    if isinstance(spec, OneHot):
        at = torch.as_tensor(np.asarray(value), dtype=torch.int64, device=spec.device)
        return torch.nn.functional.one_hot(at, spec.shape[-1]).to(spec.dtype).reshape(spec.shape)
    if isinstance(spec, MultiOneHot):
        at = torch.as_tensor(np.asarray(value), dtype=torch.int64, device=spec.device)
        sizes = spec.nvec.tolist() if isinstance(spec.nvec, Tensor) else list(spec.nvec)  # type: ignore[redundant-expr]
        parts = [torch.nn.functional.one_hot(each, size) for each, size in zip(at.unbind(-1), sizes, strict=True)]
        return torch.cat(parts, -1).to(spec.dtype).reshape(spec.shape)
    return torch.as_tensor(np.asarray(value), dtype=spec.dtype, device=spec.device).reshape(spec.shape)


def _dict_space(specs: dict[NestedKey, TensorSpec], spaces: Any) -> Any:
    tree: dict[str, Any] = {}
    for key, spec in specs.items():
        *parents, last = as_tuple(key)
        place = tree
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = space_of(spec, spaces)
    return _as_dicts(tree, spaces)


def _as_dicts(tree: dict[str, Any], spaces: Any) -> Any:
    return spaces.Dict({key: _as_dicts(each, spaces) if isinstance(each, dict) else each for key, each in tree.items()})


def space_of(spec: Any, spaces: Any) -> Any:
    """The space of a spec.

    Args:
        spec: any spec; its batch dimensions are part of the space.
        spaces: the library's module of spaces.

    Raises:
        NotImplementedError: there is no space for it.
    """
    if isinstance(spec, Composite):
        return _dict_space({key: spec[key] for key in spec.keys(True, True)}, spaces)
    if isinstance(spec, NonTensor):
        return spaces.Text(max_length=10_000)
    if isinstance(spec, Binary):
        shape = tuple(spec.shape)
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    if isinstance(spec, (MultiOneHot, MultiCategorical)):
        sizes = spec.nvec.tolist() if isinstance(spec.nvec, Tensor) else list(spec.nvec)
        outer = spec.shape[:-1]
        return spaces.MultiDiscrete(np.broadcast_to(np.array(sizes), (*outer, len(sizes))).copy())
    if isinstance(spec, (OneHot, Categorical)):
        shape = spec.shape[:-1] if isinstance(spec, OneHot) else spec.shape
        count = int(spec.space.n)
        return spaces.MultiDiscrete(np.full(tuple(shape), count)) if len(shape) else spaces.Discrete(count)
    if getattr(spec, "space", None) is None or not hasattr(spec.space, "low") or -1 in spec.shape:
        raise NotImplementedError(
            f"There is no space of gym's for specs of class {type(spec).__name__} and shape {tuple(spec.shape)}; leave "
            "such observations out by a transform, or give their keys as info_keys."
        )
    low, high = (limit.expand(spec.shape).cpu().numpy() for limit in (spec.space.low, spec.space.high))
    return spaces.Box(low=low, high=high, shape=tuple(spec.shape), dtype=low.dtype.type)
