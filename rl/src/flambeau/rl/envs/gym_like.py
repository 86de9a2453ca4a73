"""Environments that speak as gym's do: `step(action)` gives an observation, a reward, ends and a dictionary besides."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Size, Tensor

from flambeau.data.tensordict import NonTensorData, TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Composite, NonTensor, TensorSpec, Unbounded
from flambeau.rl.envs._gym_rollout import gym_rollout
from flambeau.rl.envs.common import _EnvWrapper

__all__ = ["BaseInfoDictReader", "GymLikeEnv", "T", "default_info_dict_reader"]

T = TypeVar("T")


class BaseInfoDictReader(abc.ABC):
    """Writes what is of interest in an info dictionary into a tensordict."""

    @abc.abstractmethod
    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Write into `tensordict`, and return it."""

    @property
    @abc.abstractmethod
    def info_spec(self) -> Any:
        """The specs of what it writes, by key."""


class default_info_dict_reader(BaseInfoDictReader):  # upstream's name
    """Writes entries of an info dictionary: numbers, arrays, booleans, and strings as non-tensor data.

    Args:
        keys: which; default: those of the first dictionary that it reads.
        spec: specs of these, in their order or by name; default: found out from the values.
        ignore_private: leave out those whose names begin with "_".

    Example:
        >>> reader = default_info_dict_reader(["lives"])
        >>> reader({"lives": 3, "other": 1}, TensorDict({}, []))["lives"]
        tensor(3.)
    """

    def __init__(
        self,
        keys: list[str] | None = None,
        spec: Sequence[TensorSpec] | dict[str, TensorSpec] | Composite | None = None,
        ignore_private: bool = True,
    ) -> None:
        self.ignore_private = ignore_private
        self._lazy = keys is None and spec is None
        if keys is None and isinstance(spec, Mapping | Composite):
            keys = [str(key) for key in spec.keys()]  # noqa: SIM118  # a composite is one, too
        self.keys = [] if keys is None else list(keys)
        if spec is None:
            spec = dict.fromkeys(self.keys, Unbounded(()))
        elif not isinstance(spec, Mapping | Composite):
            spec = dict(zip(self.keys, spec, strict=True))
        self._info_spec = Composite({key: spec[key] for key in self.keys})

    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Write into `tensordict`, and return it; what the dictionary lacks is zero.

        Args:
            info_dict: the dictionary.
            tensordict: of any batch size.
        """
        if self._lazy and info_dict:
            self.keys = [key for key in info_dict if not (self.ignore_private and key.startswith("_"))]
            self._info_spec = Composite({key: self._spec_of(info_dict[key], tensordict) for key in self.keys})
            self._lazy = False
        for key in self.keys:
            if self.ignore_private and key.startswith("_"):
                continue
            if key in info_dict:
                tensordict.set(key, self._value(info_dict[key], self._info_spec.get(key, None), tensordict))
            elif key in self._info_spec:
                tensordict.set(key, self._info_spec[key].zero(self._missing(key, tensordict)))
        return tensordict

    def _missing(self, key: str, tensordict: TensorDictBase) -> Size:
        """The leading dimensions of the zeros: the batch size, unless the spec has it."""
        batch, shape = tensordict.batch_size, self._info_spec[key].shape
        return Size([]) if shape[: len(batch)] == batch else batch

    def _value(self, value: Any, spec: Any, tensordict: TensorDictBase) -> Any:
        if isinstance(value, Mapping):
            inner = {name: self._value(each, None, tensordict) for name, each in value.items()}
            return TensorDict(inner, tensordict.batch_size)
        array = value if isinstance(value, Tensor) else np.asarray(value)
        if isinstance(array, np.ndarray) and array.dtype.kind not in "biufc":
            if (
                array.dtype.kind == "O"
                and array.ndim
                and all(isinstance(each, (int, float, np.number)) for each in array)
            ):
                array = array.astype(np.float64)
            else:
                return NonTensorData(value, batch_size=tensordict.batch_size)
        if spec is None or isinstance(spec, NonTensor):
            return torch.as_tensor(array)
        found = torch.as_tensor(array, dtype=spec.dtype, device=spec.device)
        return found.reshape(spec.shape) if found.shape != spec.shape and found.numel() == spec.shape.numel() else found

    def _spec_of(self, value: Any, tensordict: TensorDictBase) -> Any:
        found = self._value(value, None, tensordict)
        if isinstance(found, Tensor):
            return Unbounded(found.shape, dtype=found.dtype, device=found.device)
        if isinstance(found, NonTensorData):
            return NonTensor(found.batch_size, example_data=value)
        return Composite(
            {name: self._spec_of(each, tensordict) for name, each in value.items()}, shape=found.batch_size
        )

    @property
    def info_spec(self) -> Composite:
        """The specs of what it writes, by key."""
        return self._info_spec

    def reset(self) -> None:
        """Find the keys out anew."""
        self.keys = []
        self._info_spec = Composite()
        self._lazy = True


class GymLikeEnv(_EnvWrapper):
    """An environment around one that speaks as gym's do.

    A subclass defines `_build_env`, `_make_specs` and `_set_seed`, and where the library gives other than five values,
    `_output_transform` and `_reset_output_transform`.

    Args:
        args: as in `_EnvWrapper`.
        device: of everything it takes and gives; None where it moves nothing.
        batch_size: how many environments it is, by dimension.
        allow_done_after_reset: an episode may be over right when it begins.
        spec_locked: specs cannot be changed in place.
        kwargs: what the library's environment is made of.
    """

    _info_dict_reader: list[BaseInfoDictReader]

    def __init__(
        self,
        *args: Any,
        device: Any = None,
        batch_size: Size | None = None,
        allow_done_after_reset: bool = False,
        spec_locked: bool = True,
        **kwargs: Any,
    ) -> None:
        self.__dict__["_info_dict_reader"] = []
        self.__dict__["_readers"] = None
        super().__init__(
            *args,
            device=device,
            batch_size=batch_size,
            allow_done_after_reset=allow_done_after_reset,
            spec_locked=spec_locked,
            **kwargs,
        )

    # What the library gives

    def _output_transform(self, step_outputs_tuple: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        """Observation, reward, terminated, truncated, done and info of what `step` returned."""
        if len(step_outputs_tuple) == 4:
            observation, reward, done, info = step_outputs_tuple
            truncated = info.get("TimeLimit.truncated", False) if isinstance(info, dict) else False
            terminated = np.logical_and(done, np.logical_not(truncated))
            return observation, reward, terminated, truncated, done, info
        observation, reward, terminated, truncated, info = step_outputs_tuple
        if isinstance(terminated, (bool, np.bool_)):
            return observation, reward, terminated, truncated, bool(terminated or truncated), info
        return observation, reward, terminated, truncated, np.logical_or(terminated, truncated), info

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, dict[str, Any]]:
        """Observation and info of what `reset` returned."""
        if isinstance(reset_outputs_tuple, tuple) and len(reset_outputs_tuple) == 2:
            return reset_outputs_tuple
        return reset_outputs_tuple, {}

    # Readers

    @property
    def wrapper_frame_skip(self) -> int:
        """How many steps of the library's environment one step takes, with one action."""
        return int(self.frame_skip)

    def read_action(self, action: Any) -> Any:
        """An action as the library's environment takes it: a number or an array.

        Args:
            action: a value of `action_spec`.
        """
        return self.action_spec.to_numpy(action, safe=False)

    def read_done(
        self, terminated: Any = None, truncated: Any = None, done: Any = None
    ) -> tuple[Tensor, Tensor, Tensor, bool]:
        """Ends as tensors of the specs' shape, and whether an episode is over anywhere.

        Args:
            terminated: default: `done` without `truncated`.
            truncated: default: nothing is.
            done: default: `terminated` or `truncated`.
        """
        if truncated is None:
            truncated = np.zeros(np.shape(terminated if done is None else done), dtype=bool)
        if terminated is None:
            terminated = np.logical_and(truncated if done is None else done, np.logical_not(truncated))
        if done is None:
            done = np.logical_or(terminated, truncated)
        shape = (3, *self.batch_size, 1)
        if not self.batch_size and isinstance(done, (bool, np.bool_)):
            known = ((bool(terminated),), (bool(truncated),), (bool(done),))
            first, second, third = torch.tensor(known, device=self.device).unbind(0)
            return first, second, third, bool(done)
        flags = torch.as_tensor(np.array((terminated, truncated, done), dtype=bool), device=self.device)
        terminated, truncated, done = flags.reshape(shape).unbind(0)
        return terminated, truncated, done, bool(done.any())

    def read_reward(self, reward: Any) -> Any:
        """A reward as a tensor of the spec's shape and dtype.

        Args:
            reward: a number, or an array of them.
        """
        shape, dtype = self._cached("reward", self._reward_facts)
        if shape == (1,) and isinstance(reward, (float, int, np.floating)):
            return torch.full(shape, float(reward), dtype=dtype, device=self.device)
        return self.reward_spec.encode(reward, ignore_device=True)

    def _reward_facts(self) -> tuple[Any, Any]:
        spec = self.reward_spec
        return (spec.shape, spec.dtype) if isinstance(spec, Unbounded) else (None, None)

    def read_obs(self, observations: Any) -> dict[str, Any]:
        """Observations as tensors, by key.

        Args:
            observations: a dictionary, or what belongs to the one observation key.
        """
        readers = self.__dict__["_readers"]
        if readers is None:
            readers = self.__dict__["_readers"] = _readers(self.full_observation_spec, self._info_keys())
        if isinstance(observations, dict):
            if "state" in observations and "observation" not in observations and "state" not in readers:
                observations = {("observation" if key == "state" else key): v for key, v in observations.items()}
            return {key: readers[key](value) if key in readers else value for key, value in observations.items()}
        if isinstance(observations, tuple) and len(observations) == 2 and len(readers) == 2:
            return {key: read(value) for (key, read), value in zip(readers.items(), observations, strict=True)}
        key = "observation" if "observation" in readers else next(iter(readers))
        return {key: readers[key](observations)}

    def _info_keys(self) -> set[str]:
        return {str(key) for reader in self._info_dict_reader for key in reader.info_spec}

    def fast_encoding(self, mode: bool = True) -> Self:
        """Kept for upstream's signature: observations are read without checks anyway.

        Args:
            mode: has no effect.
        """
        return self

    @property
    def validated(self) -> bool:
        """Whether what the environment gives was compared with its specs; see `check_env_specs`."""
        return bool(self.__dict__.get("_validated", False))

    @validated.setter
    def validated(self, value: bool) -> None:
        self.__dict__["_validated"] = value

    # Steps

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Take the action, as often as frames are skipped, and read what follows."""
        if len(self.action_keys) == 1:
            action = self.read_action(tensordict.get(self.action_keys[0]))
        else:
            action = self.read_action(tensordict.select(*self.action_keys).to_dict())
        observation, reward, terminated, truncated, done, info = self._output_transform(self._env.step(action))
        for _ in range(self.wrapper_frame_skip - 1):
            if np.any(done):
                break
            observation, further, terminated, truncated, done, info = self._output_transform(self._env.step(action))
            reward = reward + further
        return self._following(observation, reward, terminated, truncated, done, info)

    def _following(
        self, observation: Any, reward: Any, terminated: Any, truncated: Any, done: Any, info: Any
    ) -> TensorDictBase:
        entries = self.read_obs(observation)
        entries["reward"] = self.read_reward(reward)
        terminated, truncated, done, _ = self.read_done(terminated, truncated, done)
        if "truncated" in self.full_done_spec:
            entries["truncated"] = truncated
        entries["done"] = done
        entries["terminated"] = terminated
        return self._read_info(TensorDict(entries, self.batch_size), info)

    def _read_info(self, data: Any, info: Any) -> Any:
        if self._info_dict_reader and info is not None:
            for reader in self._info_dict_reader:
                read = reader(info, data)
                if read is not None:
                    data = read
        return data if self.device is None else data.to(self.device)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Begin a new episode.

        Args:
            tensordict: is not used.
            kwargs: passed on to the library's environment.
        """
        observation, info = self._reset_output_transform(self._env.reset(**kwargs))
        return self._first(observation, info)

    def _first(self, observation: Any, info: Any) -> TensorDictBase:
        return self._read_info(TensorDict(self.read_obs(observation), self.batch_size), info)

    def _fast_rollout(
        self, max_steps: int, break_when_any_done: bool, break_when_all_done: bool, set_state: bool | None
    ) -> TensorDictBase | None:
        """A rollout with random actions, written into arrays step by step, where nothing is redefined that it skips."""
        return gym_rollout(self, max_steps, break_when_any_done or break_when_all_done) if set_state is None else None

    @classmethod
    def _is_usual(cls) -> bool:
        """Whether steps and resets are as this package defines them, so that a rollout may skip these methods."""
        return all(_owner(cls, name).__module__ in _OURS for name in _SKIPPED)

    # Info

    @property
    def info_dict_reader(self) -> list[BaseInfoDictReader]:
        """The readers of info dictionaries, in the order they are called."""
        return self._info_dict_reader

    def set_info_dict_reader(
        self, info_dict_reader: BaseInfoDictReader | Callable[..., Any] | None = None, ignore_private: bool = True
    ) -> GymLikeEnv:
        """Add a reader of info dictionaries, whose keys become observations.

        Args:
            info_dict_reader: default: one of all entries, which takes a step to find out their names.
            ignore_private: leave out those whose names begin with "_".

        Returns:
            The environment.
        """
        reader: Any = info_dict_reader
        if reader is None:
            reader = default_info_dict_reader(ignore_private=ignore_private)
        self._info_dict_reader.append(reader)
        if isinstance(reader, default_info_dict_reader) and reader._lazy:
            self.rollout(2, auto_reset=True)
        if isinstance(reader, BaseInfoDictReader):
            spec = self.full_observation_spec.clone()
            for key, each in reader.info_spec.items():
                batch = self.batch_size
                fits = each.shape[: len(batch)] == batch
                spec[key] = each if fits else each.expand((*batch, *each.shape))
            self.__dict__["_readers"] = None
            self.full_observation_spec = spec
        return self

    def auto_register_info_dict(
        self, ignore_private: bool = True, *, info_dict_reader: BaseInfoDictReader | None = None
    ) -> Any:
        """Add a reader of all entries of info dictionaries, and check that they come in every step.

        Args:
            ignore_private: leave out those whose names begin with "_".
            info_dict_reader: another reader.

        Returns:
            The environment.
        """
        self.set_info_dict_reader(info_dict_reader, ignore_private)
        self.check_env_specs()
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, batch_size={self.batch_size}, device={self.device})"


_OURS = ("flambeau.rl.envs._base.steps", __name__, "flambeau.rl.envs.libs.gym")
_SKIPPED = ("step", "reset", "rand_action", "_step", "_reset", "read_obs", "read_reward", "read_done", "read_action")


def _owner(cls: type, name: str) -> type:
    """The class that a method is defined in."""
    return next(kind for kind in cls.__mro__ if name in vars(kind))


def _readers(spec: Composite, skipped: set[str]) -> dict[str, Callable[[Any], Any]]:
    """For each key, what makes a tensor of what the library gives for it."""
    return {key: _reader(each) for key, each in spec.items() if key not in skipped or len(spec) == len(skipped)}


def _reader(spec: Any) -> Callable[[Any], Any]:
    if isinstance(spec, Composite):
        inner = _readers(spec, set())
        size = spec.shape

        def read_all(value: Any) -> Any:
            if not isinstance(value, dict):
                value = dict(zip(inner, value, strict=True))
            return TensorDict({key: read(value[key]) for key, read in inner.items()}, size)

        return read_all
    dtype = getattr(spec, "dtype", None)
    if dtype is None or isinstance(spec, NonTensor) or not hasattr(spec, "space") or type(spec).__name__ == "Stacked":
        return lambda value: spec.encode(value)
    if type(spec).__name__ not in ("BoundedContinuous", "BoundedDiscrete", "UnboundedContinuous", "UnboundedDiscrete"):
        return lambda value: spec.encode(value, ignore_device=True)
    shape = spec.shape

    def read(value: Any) -> Tensor:
        if type(value) is np.ndarray and value.flags.writeable and value.strides and min(value.strides) >= 0:
            found = torch.from_numpy(value)
        else:
            found = torch.as_tensor(np.array(value) if isinstance(value, (np.ndarray, list, tuple)) else value)
        if found.dtype != dtype:
            found = found.to(dtype)
        return found if found.shape == shape else found.reshape(shape)

    return read
