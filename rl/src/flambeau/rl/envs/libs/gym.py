"""Environments of gymnasium, and of gym before it: single ones, and vectors of them in every mode of resetting."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import torch
from torch import Size

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data._specs.base import checks_encode
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs._keys import RESET
from flambeau.rl.envs.gym_like import GymLikeEnv
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._gym_backend import gym_backend, set_gym_backend
from flambeau.rl.envs.libs._gym_spaces import (
    _gym_to_torchrl_spec_transform as _gym_to_torchrl_spec_transform,
)
from flambeau.rl.envs.libs._gym_spaces import register_gym_spec_conversion

__all__ = [
    "GymEnv",
    "GymWrapper",
    "MOGymEnv",
    "MOGymWrapper",
    "gym_backend",
    "register_gym_spec_conversion",
    "set_gym_backend",
]


class _AvailableEnvs:
    """Names of the environments that the library in use has registered."""

    def __get__(self, instance: Any, owner: Any) -> list[str]:
        try:
            registry = gym_backend().envs.registration.registry
        except ImportError:
            return []
        return sorted(registry.keys() if hasattr(registry, "keys") else registry.env_specs.keys())


def _multi_objective() -> list[str]:
    """Names of the environments of MO-Gymnasium."""
    import gymnasium
    import mo_gymnasium  # noqa: F401  # registers them

    points = {name: spec.entry_point for name, spec in gymnasium.registry.items()}
    return sorted(name for name, point in points.items() if str(point).startswith("mo_gymnasium"))


class GymWrapper(GymLikeEnv):
    """An environment of gymnasium or gym, which was made already.

    A vector of environments has its number of environments as batch size. Entries of it begin anew where the mask of a
    reset says so, whatever the vector does by itself (`autoreset_mode`): what follows the last action of an episode is
    its last observation, and the first one of the next episode comes with the reset.

    Args:
        env: the environment.
        categorical_action_encoding: discrete actions are numbers, not one-hot vectors.
        kwargs: `from_pixels=True` adds what `render` gives as "pixels", `pixels_only=False` keeps the other
            observations; `frame_skip`, `device`, `batch_size` and the arguments of `GymLikeEnv`.

    Raises:
        TypeError: `env` has no spaces of actions and observations.

    Example:
        >>> import gymnasium
        >>> env = GymWrapper(gymnasium.make("CartPole-v1"))
        >>> env.rollout(3)["next", "observation"].shape
        torch.Size([3, 4])
    """

    git_url = "https://github.com/openai/gym"
    libname = "gym"
    available_envs = _AvailableEnvs()

    def __init__(self, env: Any = None, categorical_action_encoding: bool = False, **kwargs: Any) -> None:
        self.__dict__["_categorical_action_encoding"] = categorical_action_encoding
        self.__dict__["_firsts"] = None
        if env is not None:
            kwargs["env"] = env
            if _is_vector(env) and kwargs.get("batch_size") is None:
                kwargs["batch_size"] = Size([env.num_envs])
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library of the environment, imported."""
        return importlib.import_module(self.get_library_name(self._env))

    @staticmethod
    def get_library_name(env: Any) -> str:
        """Name of the library that an environment, or what it wraps, is of: "gym" or "gymnasium"."""
        for kind in type(env).__mro__:
            root = kind.__module__.partition(".")[0]
            if root in ("gym", "gymnasium"):
                return root
        return gym_backend().__name__

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(env, "action_space") or not hasattr(env, "observation_space"):
            raise TypeError(
                f"GymWrapper needs an environment of gymnasium, not {type(env).__name__}. GymEnv makes one by name."
            )

    def _build_env(self, env: Any = None, from_pixels: bool = False, pixels_only: bool = True, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        return _with_pixels(env, pixels_only) if from_pixels else env

    def _make_specs(self, env: Any) -> None:
        size = self.batch_size
        vector = _is_vector(env)
        action_space = env.single_action_space if vector else env.action_space
        observation_space = env.single_observation_space if vector else env.observation_space
        action = _gym_to_torchrl_spec_transform(
            action_space, device=self.device, categorical_action_encoding=self._categorical_action_encoding
        )
        observation = _gym_to_torchrl_spec_transform(
            observation_space, device=self.device, categorical_action_encoding=self._categorical_action_encoding
        )
        if not isinstance(observation, Composite):
            observation = Composite(observation=observation)
        reward_space = getattr(env, "reward_space", None)
        if reward_space is None:
            # Wrappers of gymnasium 1.0 pass on no attributes.
            reward_space = getattr(getattr(env, "unwrapped", None), "reward_space", None)
        if reward_space is not None:
            reward = _gym_to_torchrl_spec_transform(reward_space, device=self.device)
        else:
            reward = Unbounded((1,), device=self.device)
        end = Categorical(2, (1,), dtype=torch.bool, device=self.device)
        done = Composite(done=end.clone(), terminated=end.clone(), truncated=end.clone())
        for name, spec in (("action", action), ("observation", observation), ("reward", reward), ("done", done)):
            setattr(self, f"full_{name}_spec", spec.expand((*size, *spec.shape)) if size else spec)

    # Seeds and actions

    def _set_seed(self, seed: int | None) -> None:
        self._env.reset(seed=seed)

    def read_action(self, action: Any) -> Any:
        """An action as the environment takes it: a number, an array, or a dictionary of such."""
        quick = self._cached("action_reader", self._action_reader)
        if quick is not None and isinstance(action, torch.Tensor) and action.shape == self.action_spec.shape:
            return quick(action)
        read = super().read_action(action)
        start = self._start()
        if np.any(start):
            read = read + start
        return read.item() if isinstance(read, np.ndarray) and not read.ndim else read

    def _start(self) -> Any:
        """The number of the first action, which is 0 for most spaces."""
        env = self._env
        return getattr(env.single_action_space if _is_vector(env) else env.action_space, "start", 0)

    def _action_reader(self) -> Any:
        """How to read an action of the commonest specs without further ado; None for others."""
        spec = self.action_spec
        if checks_encode() or np.any(self._start()):
            return None
        if type(spec) is OneHot and spec.ndim == 1:
            return lambda action: int(action.long().argmax())
        if type(spec) is Categorical and not spec.ndim:
            return int
        if isinstance(spec, Bounded) and spec.ndim:
            return lambda action: action.detach().cpu().numpy()
        return None

    # Vectors of environments

    def _mode(self) -> str:
        """How a vector begins new episodes by itself: "next", "same" or "never"."""
        env = self._env
        found = getattr(env, "autoreset_mode", None) or (getattr(env, "metadata", None) or {}).get("autoreset_mode")
        name = str(getattr(found, "value", found) or "").lower()
        if "disabled" in name:
            return "never"
        if "same" in name:
            return "same"
        # Before version 1.0 vectors reset in the same step, since then in the next one.
        return "next" if "next" in name or _version_of(self.lib) >= (1, 0) else "same"

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not self.batch_size or self._mode() != "same":
            return super()._step(tensordict)
        action = self.read_action(tensordict.get(self.action_keys[0]))
        observation, reward, terminated, truncated, done, info = self._output_transform(self._env.step(action))
        done = np.asarray(done)
        self.__dict__["_firsts"] = None
        if done.any():
            self.__dict__["_firsts"] = self.read_obs(observation), torch.as_tensor(done, device=self.device)
            observation = _last_observations(observation, info, done)
        return self._following(observation, reward, terminated, truncated, done, info)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        mask = None if tensordict is None or not self.batch_size else tensordict.get(RESET, None)
        if mask is None:
            self.__dict__["_firsts"] = None
            return super()._reset(tensordict, **kwargs)
        mask = mask.reshape(self.batch_size)
        if self._mode() == "same" and self._firsts is not None and not kwargs:
            firsts, begun = self._firsts
            if not (mask & ~begun).any():
                return self._first_of(firsts)
        if not mask.all():
            self._check_masks_are_known()
            kwargs["options"] = {**(kwargs.get("options") or {}), "reset_mask": mask.cpu().numpy()}
        return super()._reset(tensordict, **kwargs)

    def _check_masks_are_known(self) -> None:
        """Raise where the vector would begin all episodes anew, whatever the mask says."""
        vectors = importlib.import_module(f"{self.lib.__name__}.vector")
        known = hasattr(vectors, "AutoresetMode")
        if not known or not isinstance(self._env.unwrapped, (vectors.SyncVectorEnv, vectors.AsyncVectorEnv)):
            raise RuntimeError(
                f"{type(self._env.unwrapped).__name__} of {self.lib.__name__} {self.lib.__version__} cannot begin "
                "some episodes anew and go on with others: use SyncVectorEnv or AsyncVectorEnv of gymnasium >= 1.1, or "
                "stop rollouts at the first end (break_when_any_done=True) and reset all."
            )

    def _first_of(self, entries: dict[str, Any]) -> TensorDictBase:
        return self._read_info(TensorDict(dict(entries), self.batch_size), None)

    def rebuild_with_kwargs(self, **new_kwargs: Any) -> Any:
        """An environment like this one, with other arguments."""
        return type(self)(**(self._given() | new_kwargs))

    def _given(self) -> dict[str, Any]:
        return self._constructor_kwargs | {
            "categorical_action_encoding": self._categorical_action_encoding,
            "device": self.device,
            "frame_skip": self.frame_skip,
        }

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_readers": None}


def _is_vector(env: Any) -> bool:
    return hasattr(env, "num_envs") and hasattr(env, "single_action_space")


def _version_of(module: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in module.__version__.split(".")[:2] if part.isdigit())


def _last_observations(observation: Any, info: Any, done: Any) -> Any:
    """The last observations of the episodes that ended, in the place of the first of the next."""
    last = info.get("final_obs", info.get("final_observation"))
    if last is None:
        return observation
    if isinstance(observation, dict):
        parts = last if isinstance(last, dict) else {key: [each and each[key] for each in last] for key in observation}
        return {key: _last_observations(value, {"final_obs": parts[key]}, done) for key, value in observation.items()}
    out = np.array(observation)
    for at in np.flatnonzero(done):
        if last[at] is not None:
            out[at] = last[at]
    return out


def _with_pixels(env: Any, pixels_only: bool) -> Any:
    """An environment that gives what it renders as "pixels"."""
    if getattr(env, "render_mode", None) != "rgb_array":
        raise ValueError(
            f"from_pixels=True needs an environment made with render_mode='rgb_array'; it has {env.render_mode!r}."
        )
    wrappers = gym_backend("wrappers")
    if hasattr(wrappers, "AddRenderObservation"):
        dictionary = hasattr(env.observation_space, "spaces")
        names = {} if dictionary else {"obs_key": "observation"}
        if not pixels_only:
            return wrappers.AddRenderObservation(env, render_only=False, render_key="pixels", **names)
        pixels = wrappers.AddRenderObservation(env, render_only=True)
        spaces = gym_backend("spaces")
        space = spaces.Dict({"pixels": pixels.observation_space})
        return wrappers.TransformObservation(pixels, lambda observation: {"pixels": observation}, space)
    return wrappers.PixelObservationWrapper(env, pixels_only=pixels_only)


class GymEnv(GymWrapper):
    """An environment of gymnasium or gym, by its name.

    Args:
        env_name: the name under which it is registered.
        kwargs: `num_envs` makes a vector of so many, in processes; further arguments as for `GymWrapper`, and all
            others for the environment itself.

    Raises:
        ImportError: neither library is installed.

    Example:
        >>> env = GymEnv("CartPole-v1")
        >>> env.action_spec.shape, env.rollout(2)["next", "reward"].flatten().tolist()
        (torch.Size([2]), [1.0, 1.0])
    """

    def __init__(self, env_name: str, **kwargs: Any) -> None:
        kwargs["env_name"] = env_name
        if kwargs.get("num_envs", 0) and kwargs.get("batch_size") is None:
            kwargs["batch_size"] = Size([kwargs["num_envs"]])
        super().__init__(**kwargs)

    @property
    def env_name(self) -> str:
        """The name under which the environment is registered."""
        return str(self._constructor_kwargs["env_name"])

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        if not isinstance(kwargs.get("env_name"), str):
            raise TypeError(f"GymEnv needs the name of an environment; got {kwargs.get('env_name')!r}.")

    def _build_env(  # type: ignore[override]
        self, env_name: str, num_envs: int = 0, from_pixels: bool = False, pixels_only: bool = True, **kwargs: Any
    ) -> Any:
        self._constructor_kwargs = {
            "env_name": env_name, "num_envs": num_envs, "from_pixels": from_pixels, "pixels_only": pixels_only, **kwargs
        }  # fmt: skip
        library = gym_backend()
        if from_pixels:
            kwargs.setdefault("render_mode", "rgb_array")
        kwargs.setdefault("disable_env_checker", True)
        if "disable_env_checker" not in inspect.signature(library.make).parameters:
            kwargs.pop("disable_env_checker")

        def make() -> Any:
            env = library.make(env_name, **kwargs)
            return _with_pixels(env, pixels_only) if from_pixels else env

        if not num_envs:
            return make()
        return gym_backend("vector").AsyncVectorEnv([make] * num_envs, **_resets_of_vectors())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self.env_name}, batch_size={self.batch_size}, device={self.device})"


class MOGymWrapper(GymWrapper):
    """An environment of MO-Gymnasium, which was made already: a `GymWrapper` with rewards of several objectives.

    Args:
        env: the environment.
        categorical_action_encoding: as for `GymWrapper`.
        kwargs: likewise.

    References:
        F. Felten et al., A Toolkit for Reliable Benchmarking and Research in Multi-Objective Reinforcement Learning,
        NeurIPS 2023.
    """

    git_url = "https://github.com/Farama-Foundation/MO-Gymnasium"
    libname = "mo-gymnasium"
    available_envs = Available("mo_gymnasium", _multi_objective)


class MOGymEnv(GymEnv):
    """An environment of MO-Gymnasium by its name, with rewards (objectives,).

    Args:
        env_name: the name under which it is registered.
        kwargs: as for `GymEnv`, without `num_envs`.

    Raises:
        ImportError: MO-Gymnasium is not installed.
    """

    git_url = MOGymWrapper.git_url
    libname = MOGymWrapper.libname
    available_envs = Available("mo_gymnasium", _multi_objective)

    def _build_env(  # type: ignore[override]
        self, env_name: str, from_pixels: bool = False, pixels_only: bool = True, **kwargs: Any
    ) -> Any:
        self._constructor_kwargs = {
            "env_name": env_name, "from_pixels": from_pixels, "pixels_only": pixels_only, **kwargs
        }  # fmt: skip
        library = backend("mo_gymnasium", type(self).__name__, "pip install 'flambeau-rl[mo_gymnasium]'")
        if from_pixels:
            kwargs.setdefault("render_mode", "rgb_array")
        env = library.make(env_name, **kwargs)
        return _with_pixels(env, pixels_only) if from_pixels else env


def _resets_of_vectors() -> dict[str, Any]:
    """Vectors that we make begin new episodes only when told to, where the library can do so."""
    mode = getattr(gym_backend("vector"), "AutoresetMode", None)
    return {} if mode is None else {"autoreset_mode": mode.DISABLED}
