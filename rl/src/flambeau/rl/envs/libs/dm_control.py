"""Environments of the DeepMind control suite."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, OneHot, TensorSpec, Unbounded
from flambeau.rl.envs.gym_like import GymLikeEnv
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._gym_spaces import torch_dtype

__all__ = ["DMControlEnv", "DMControlWrapper"]

INSTALL = "pip install 'flambeau-rl[dm_control]'"
OWN = {
    "from_pixels", "pixels_only", "camera_id", "render_kwargs", "frame_skip", "device", "batch_size",
    "allow_done_after_reset", "spec_locked",
}  # fmt: skip


def _tasks() -> list[tuple[str, list[str]]]:
    """Domains, each with its tasks."""
    from dm_control import suite

    found: dict[str, list[str]] = {}
    for domain, task in suite.BENCHMARKING + suite.EXTRA:
        found.setdefault(domain, []).append(task)
    return list(found.items())


def spec_of(spec: Any, device: Any = None, dtype: Any = None, categorical: bool = False) -> TensorSpec:
    """The spec of one of dm_env's.

    Args:
        spec: an `Array`, `BoundedArray` or `DiscreteArray`, or a dictionary of these.
        device: of the spec.
        dtype: default: the array's.
        categorical: discrete values are numbers, not one-hot vectors.
    """
    if hasattr(spec, "items"):
        return Composite({key: spec_of(each, device, dtype, categorical) for key, each in spec.items()}, device=device)
    dtype = torch_dtype(spec.dtype) if dtype is None else dtype
    if hasattr(spec, "num_values"):
        kind = Categorical if categorical else OneHot
        return kind(int(spec.num_values), device=device, dtype=torch.int64)
    shape = spec.shape or (1,)
    if hasattr(spec, "minimum"):
        low, high = (
            torch.as_tensor(np.broadcast_to(limit, spec.shape).copy(), dtype=dtype, device=device).reshape(shape)
            for limit in (spec.minimum, spec.maximum)
        )
        if not (low <= torch.finfo(dtype).min).all() if dtype.is_floating_point else True:
            return Bounded(low, high, shape, device=device, dtype=dtype)
    return Unbounded(shape, device=device, dtype=dtype)


class DMControlWrapper(GymLikeEnv):
    """An environment of dm_control, or another that speaks as dm_env's do, which was made already.

    Observations keep their names; values without a dimension have one of size 1. An episode that ends with a discount
    of 0 is terminated, others are truncated.

    Args:
        env: the environment.
        kwargs: `from_pixels=True` adds what the camera sees as "pixels", `pixels_only=False` keeps the other
            observations, `camera_id` and `render_kwargs` say how; `frame_skip`, `device` and the arguments of
            `GymLikeEnv`.

    Raises:
        TypeError: `env` has no specs of actions and observations.

    References:
        Y. Tassa et al., DeepMind Control Suite, arXiv:1801.00690.
    """

    git_url = "https://github.com/deepmind/dm_control"
    libname = "dm_control"
    available_envs = Available("dm_control", _tasks)

    def __init__(self, env: Any = None, **kwargs: Any) -> None:
        if env is not None:
            kwargs["env"] = env
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("dm_control", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(env, "action_spec") or not hasattr(env, "observation_spec"):
            raise TypeError(f"{type(self).__name__} takes an environment of dm_control; got {type(env).__name__}.")

    def _build_env(  # type: ignore[override]
        self, env: Any, from_pixels: bool = False, pixels_only: bool = True, camera_id: int = 0,
        render_kwargs: dict[str, Any] | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        if not from_pixels:
            return env
        pixels = backend("dm_control.suite.wrappers.pixels", type(self).__name__, INSTALL)
        return pixels.Wrapper(
            env, pixels_only=pixels_only, render_kwargs={"camera_id": camera_id, **(render_kwargs or {})}
        )

    def _make_specs(self, env: Any) -> None:
        self.full_observation_spec = spec_of(env.observation_spec(), self.device)
        self.action_spec = spec_of(env.action_spec(), self.device)
        reward = env.reward_spec() if hasattr(env, "reward_spec") else None
        self.reward_spec = Unbounded((1,), device=self.device) if reward is None else spec_of(reward, self.device)
        end = Categorical(2, (1,), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, truncated=end.clone(), terminated=end.clone(), device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        task = getattr(self._env, "_task", None) or getattr(getattr(self._env, "_env", None), "_task", None)
        if task is None or not hasattr(task, "_random"):
            raise RuntimeError(f"{type(self).__name__}: the environment keeps no random numbers that could be seeded.")
        task._random = np.random.RandomState(seed)
        self.reset()

    def _output_transform(self, step_outputs_tuple: Any) -> Any:
        step = step_outputs_tuple
        done = bool(step.last())
        terminated = done and step.discount == 0.0
        reward = 0.0 if step.reward is None else step.reward
        return dict(step.observation), reward, terminated, done and not terminated, done, {}

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> Any:
        return dict(reset_outputs_tuple.observation), {}

    def read_obs(self, observations: Any) -> dict[str, Any]:
        """Observations as tensors, by key; those without a dimension get one.

        Args:
            observations: a dictionary of arrays.
        """
        spec = self.full_observation_spec
        return {
            # Of a copy: the library writes into its arrays again.
            key: torch.from_numpy(np.array(value, dtype=None)).reshape(spec[key].shape).to(self.device or "cpu")
            for key, value in observations.items()
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, batch_size={self.batch_size}, device={self.device})"


class DMControlEnv(DMControlWrapper):
    """A task of the DeepMind control suite, by its name.

    Args:
        env_name: the domain, such as "cheetah".
        task_name: the task, such as "run".
        kwargs: as for `DMControlWrapper`; `task_kwargs`, `environment_kwargs` and `visualize_reward` as for
            `dm_control.suite.load`; all others are the task's, such as `time_limit` in seconds.

    Raises:
        ImportError: dm_control is not installed.
    """

    def __init__(self, env_name: str, task_name: str, **kwargs: Any) -> None:
        suite = backend("dm_control.suite", type(self).__name__, INSTALL)
        given = {
            key: kwargs.pop(key) for key in ("task_kwargs", "environment_kwargs", "visualize_reward") if key in kwargs
        }
        task = {key: kwargs.pop(key) for key in list(kwargs) if key not in OWN}
        self.__dict__["env_name"], self.__dict__["task_name"] = env_name, task_name
        seed = int(torch.empty((), dtype=torch.int64).random_(0, 2**31))
        given["task_kwargs"] = {"random": seed} | (given.get("task_kwargs") or {}) | task
        super().__init__(env=suite.load(env_name, task_name, **given), **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self.env_name}, task={self.task_name}, batch_size={self.batch_size})"
